/* SPDX-License-Identifier: GPL-2.0-or-later */
/* text.c - bounded text, times, escaped names, sizes.
 *
 * Everything that the mount shows as text goes through here, so that a name with a newline in it can
 * never forge a line and a time never depends on the machine's zone or locale.
 * Easy to forget: bytes of names are unsigned; a plain char above 0x7f would count as below 0x21. */
#include "fs/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct text text_over(char *buf, size_t cap)
{
	buf[0] = 0;
	return (struct text){.buf = buf, .cap = cap};
}

void text_add(struct text *t, const char *format, ...)
{
	size_t room = t->cap - t->len;
	va_list args;
	int len;

	if (t->cut)
		return;
	va_start(args, format);
	len = vsnprintf(t->buf + t->len, room, format, args);
	va_end(args);
	if (len >= 0 && (size_t)len < room) {
		t->len += (size_t)len;
		return;
	}
	t->buf[t->len] = 0;
	t->cut = true;
}

void text_add_bytes(struct text *t, const void *bytes, size_t len)
{
	if (t->cut || len >= t->cap - t->len) {
		t->cut = true;
		return;
	}
	memcpy(t->buf + t->len, bytes, len);
	t->len += len;
	t->buf[t->len] = 0;
}

/* Adds all of it or nothing, as every addition does: a name cut in half would be another name. */
void text_add_escaped(struct text *t, const void *bytes, size_t len)
{
	const unsigned char *byte = bytes;
	size_t start = t->len;

	for (size_t i = 0; i < len; i++) {
		if (byte[i] < 0x21 || byte[i] == 0x7f || byte[i] == '%')
			text_add(t, "%%%02X", byte[i]);
		else
			text_add_bytes(t, &byte[i], 1);
	}
	if (t->cut && t->len != start) {
		t->len = start;
		t->buf[start] = 0;
	}
}

void text_add_time(struct text *t, const struct timespec *when)
{
	char seconds[TEXT_TIME_CAP];
	struct tm utc;

	if (!gmtime_r(&when->tv_sec, &utc) ||
	    !strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &utc)) {
		t->cut = true; /* a year that no calendar here can tell */
		return;
	}
	text_add(t, "%s.%09ldZ", seconds, when->tv_nsec);
}

void text_add_hex(struct text *t, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		text_add(t, "%02x", bytes[i]);
}

int text_number(const char *digits, size_t len, uint64_t *out)
{
	uint64_t number = 0;

	if (!len)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(number, 10u, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(digits[i] - '0'), &number))
			return -ERANGE;
	}
	*out = number;
	return 0;
}

int text_size(const char *size, size_t len, uint64_t *out_bytes)
{
	static const char units[] = "KkMmGgTt";
	uint64_t number;
	const char *unit = len ? memchr(units, size[len - 1], sizeof(units) - 1) : NULL;
	unsigned shift = unit ? 10 * ((unsigned)(unit - units) / 2 + 1) : 0;
	int ret = text_number(size, unit ? len - 1 : len, &number);

	if (ret)
		return ret;
	if (number > UINT64_MAX >> shift)
		return -ERANGE;
	*out_bytes = number << shift;
	return 0;
}

bool text_is(const char *bytes, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(bytes, word, len);
}
