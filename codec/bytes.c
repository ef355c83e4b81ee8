/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bytes.c - a bounds-checked little-endian reader with one window.
 *
 * Small reads come out of the window, which is filled forward from the byte that missed it: a run of cells
 * costs a read each 4 KiB, a walk over tensor heads one read a head. Long takes go round the window.
 * Easy to forget: the window stays valid over a seek, since a source does not change while it is parsed. */
#include "codec/bytes.h"

#include <errno.h>
#include <string.h>

void bytes_init(struct bytes *b, const struct source *source)
{
	b->source = source;
	b->at = 0;
	b->window_at = 0;
	b->window_len = 0;
	b->error = 0;
	b->read_error = 0;
}

void bytes_seek(struct bytes *b, uint64_t off)
{
	b->error = b->read_error;
	if (b->error)
		return;
	if (off > b->source->size_bytes)
		b->error = -ENODATA;
	else
		b->at = off;
}

uint64_t bytes_left(const struct bytes *b)
{
	return b->error ? 0 : b->source->size_bytes - b->at;
}

static int source_read(struct bytes *b, void *buf, size_t len)
{
	int ret = b->source->read(b->source->ctx, buf, len, b->at);

	if (ret) {
		b->read_error = ret;
		b->error = ret;
	}
	return ret;
}

static int window_fill(struct bytes *b)
{
	uint64_t left = bytes_left(b);
	size_t len = left < BYTES_WINDOW ? (size_t)left : BYTES_WINDOW;
	int ret = source_read(b, b->window, len);

	b->window_at = b->at;
	b->window_len = ret ? 0 : len;
	return ret;
}

static int take_small(struct bytes *b, void *buf, size_t len)
{
	uint64_t into = b->at - b->window_at;
	int ret;

	if (b->at < b->window_at || into > b->window_len || len > b->window_len - into) {
		ret = window_fill(b);
		if (ret)
			return ret;
		into = 0;
	}
	memcpy(buf, b->window + into, len);
	return 0;
}

void bytes_take(struct bytes *b, void *buf, size_t len)
{
	if (!b->error && len > bytes_left(b))
		b->error = -ENODATA;
	if (!b->error && len)
		len <= BYTES_WINDOW ? take_small(b, buf, len) : source_read(b, buf, len);
	if (b->error) {
		memset(buf, 0, len);
		return;
	}
	b->at += len;
}

void bytes_skip(struct bytes *b, uint64_t len)
{
	if (b->error)
		return;
	if (len > bytes_left(b))
		b->error = -ENODATA;
	else
		b->at += len;
}

uint32_t bytes_get_u32(const uint8_t *from)
{
	return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

uint64_t bytes_get_u64(const uint8_t *from)
{
	return bytes_get_u32(from) | (uint64_t)bytes_get_u32(from + 4) << 32;
}

uint32_t bytes_u32(struct bytes *b)
{
	uint8_t raw[4];

	bytes_take(b, raw, sizeof(raw));
	return bytes_get_u32(raw);
}

int32_t bytes_i32(struct bytes *b)
{
	return (int32_t)bytes_u32(b);
}

uint64_t bytes_u64(struct bytes *b)
{
	uint8_t raw[8];

	bytes_take(b, raw, sizeof(raw));
	return bytes_get_u64(raw);
}
