/* SPDX-License-Identifier: GPL-2.0-or-later */
/* text.h - the words and numbers that users read: bounded text, times, escaped names, sizes.
 * No locks, no memory of its own: a text lives in its owner's buffer and is used by one thread. */
#ifndef KV_FS_TEXT_H
#define KV_FS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define TEXT_TIME_CAP 48u /* room for any time that text_time writes, with the closing NUL */

/* Text in a borrowed buffer, always closed with a NUL. An addition that does not fit whole is left
 * out, and so is everything after it: what is there is true, and `cut` tells that it is not all. */
struct text {
	char *buf;
	size_t cap; /* bytes of buf, the NUL included */
	size_t len; /* bytes of text, the NUL not included */
	bool cut;
};

/* An empty text over buf, which must outlive it; cap at least 1. */
struct text text_over(char *buf, size_t cap);
void text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(struct text *t, const void *bytes, size_t len);
/* Adds bytes in the form of section "lookup" of the contract: those below 0x21, 0x7f and '%' as %XX. */
void text_add_escaped(struct text *t, const void *bytes, size_t len);
/* Adds a time as "2026-11-30T17:00:00.123456789Z". */
void text_add_time(struct text *t, const struct timespec *when);
/* Adds bytes as lower-case hex digits. */
void text_add_hex(struct text *t, const uint8_t *bytes, size_t len);

/* Reads len bytes as a decimal number: digits only, no sign, no space.
 * -EINVAL: something else stands there; -ERANGE: more than 64 bits. */
int text_number(const char *digits, size_t len, uint64_t *out);
/* Reads a size in bytes, decimal digits and at most one of K M G T (either case, powers of 1024).
 * Errors as text_number. */
int text_size(const char *size, size_t len, uint64_t *out_bytes);
/* Whether len bytes are exactly the word. */
bool text_is(const char *bytes, size_t len, const char *word);

#endif
