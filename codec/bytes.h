/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bytes.h - little-endian numbers out of something that can be read at an offset.
 *
 * A *source* is the file as the bank has it: a plain file, an overlay, or memory in a test. A parser reads
 * it through `struct bytes`, which holds one small window and never more, so that a file of gigabytes costs
 * a few kilobytes. Nothing is trusted: every read is checked against the size that the source states.
 *
 * Errors stick: after one, every number reads as 0 and nothing moves, so a parser may read a whole record
 * and ask once. Past the end is -ENODATA and is forgotten by bytes_seek (the next guess starts afresh);
 * what the source itself fails with is kept for good. No locks; one thread at a time. */
#ifndef KV_CODEC_BYTES_H
#define KV_CODEC_BYTES_H

#include <stddef.h>
#include <stdint.h>

#define BYTES_WINDOW 4096u

struct source {
	/* Fills buf with exactly len bytes from off on; 0 or -errno. Never asked beyond size_bytes. */
	int (*read)(void *ctx, void *buf, size_t len, uint64_t off);
	void *ctx;
	uint64_t size_bytes;
};

struct bytes {
	const struct source *source; /* borrowed */
	uint64_t at;		     /* next byte, at most source->size_bytes */
	uint64_t window_at;
	size_t window_len;
	int error;	/* sticky: 0, -ENODATA, or what the source failed with */
	int read_error; /* what the source failed with, kept over a seek */
	uint8_t window[BYTES_WINDOW];
};

/* Starts at byte 0. The source must outlive the reader. */
void bytes_init(struct bytes *b, const struct source *source);
/* Moves to `off`. Forgets -ENODATA; beyond the end gives -ENODATA. */
void bytes_seek(struct bytes *b, uint64_t off);
/* Bytes from here to the end; 0 after an error. */
uint64_t bytes_left(const struct bytes *b);

uint32_t bytes_u32(struct bytes *b);
int32_t bytes_i32(struct bytes *b);
uint64_t bytes_u64(struct bytes *b);
/* Fills buf, or zeroes it after an error. */
void bytes_take(struct bytes *b, void *buf, size_t len);
void bytes_skip(struct bytes *b, uint64_t len);

/* A little-endian number in memory. */
uint32_t bytes_get_u32(const uint8_t *from);
uint64_t bytes_get_u64(const uint8_t *from);

#endif
