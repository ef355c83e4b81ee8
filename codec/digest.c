/* SPDX-License-Identifier: GPL-2.0-or-later */
/* digest.c - SHA-256 through libcrypto's EVP, the only file that knows it.
 *
 * EVP picks the processor's SHA instructions by itself (about 1.4 GB/s a core with SHA-NI).
 * Its error codes end here: every failure is -EIO. */
#include "codec/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>

struct digest {
	EVP_MD_CTX *ctx;
};

struct digest *digest_new(void)
{
	struct digest *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->ctx = EVP_MD_CTX_new();
	if (d->ctx && EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) == 1)
		return d;
	digest_free(d);
	return NULL;
}

int digest_add(struct digest *d, const void *buf, size_t len)
{
	return EVP_DigestUpdate(d->ctx, buf, len) == 1 ? 0 : -EIO;
}

int digest_end(struct digest *d, uint8_t out[DIGEST_LEN])
{
	unsigned len = 0;

	if (EVP_DigestFinal_ex(d->ctx, out, &len) != 1 || len != DIGEST_LEN)
		return -EIO;
	return 0;
}

void digest_free(struct digest *d)
{
	if (!d)
		return;
	EVP_MD_CTX_free(d->ctx);
	free(d);
}

void digest_hex(const uint8_t digest[DIGEST_LEN], char out[DIGEST_HEX_LEN + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < DIGEST_LEN; i++) {
		out[2 * i] = digits[digest[i] >> 4];
		out[2 * i + 1] = digits[digest[i] & 15];
	}
	out[DIGEST_HEX_LEN] = 0;
}
