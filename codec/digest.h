/* SPDX-License-Identifier: GPL-2.0-or-later */
/* digest.h - SHA-256 of a stream, and its lower-case hex form. No locks, no threads. */
#ifndef KV_CODEC_DIGEST_H
#define KV_CODEC_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_LEN 32u
#define DIGEST_HEX_LEN 64u /* without the closing NUL */

struct digest; /* one running hash, owned by its maker, used by one thread at a time */

/* Starts a hash. NULL when memory is short or libcrypto refuses SHA-256. */
struct digest *digest_new(void);
/* Takes len more bytes. -EIO when libcrypto fails: the hash is then worthless. */
int digest_add(struct digest *d, const void *buf, size_t len);
/* Ends the hash. -EIO as above. The object must still be freed. */
int digest_end(struct digest *d, uint8_t out[DIGEST_LEN]);
void digest_free(struct digest *d);

/* Writes 64 lower-case digits and a NUL. */
void digest_hex(const uint8_t digest[DIGEST_LEN], char out[DIGEST_HEX_LEN + 1]);

#endif
