/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_codec.h - files in memory, and the one property that every layout has: its tensors, and its blocks,
 * cover each byte exactly once. For the test_codec_* programs and the fuzz target. */
#ifndef KV_TEST_CODEC_H
#define KV_TEST_CODEC_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/blocks.h"
#include "codec/layout.h"

struct file {
	uint8_t *bytes;
	size_t len;
	size_t cap;
};

/* ctx is a struct file. Asking for what is not there is a bug of the parser. */
static inline int file_read(void *ctx, void *buf, size_t len, uint64_t off)
{
	const struct file *f = ctx;

	if (off > f->len || len > f->len - off)
		abort();
	memcpy(buf, f->bytes + off, len);
	return 0;
}

static inline struct layout *file_layout(struct file *f)
{
	/* An exact copy, so that a sanitizer sees a read one byte too far. */
	struct source source = {.read = file_read, .ctx = f, .size_bytes = f->len};
	struct layout *layout = NULL;
	int ret = layout_parse(&source, &layout);

	if (ret)
		fprintf(stderr, "layout_parse: %s\n", strerror(-ret));
	return ret ? NULL : layout;
}

static inline bool file_load(struct file *f, const char *path)
{
	FILE *in = fopen(path, "rb");
	long len;

	memset(f, 0, sizeof(*f));
	if (!in)
		return false;
	fseek(in, 0, SEEK_END);
	len = ftell(in);
	rewind(in);
	f->bytes = malloc((size_t)len + 1);
	f->cap = (size_t)len + 1;
	f->len = fread(f->bytes, 1, (size_t)len, in);
	fclose(in);
	return f->len == (size_t)len;
}

static inline void file_free(struct file *f)
{
	free(f->bytes);
	memset(f, 0, sizeof(*f));
}

static inline void put(struct file *f, const void *bytes, size_t len)
{
	if (f->len + len > f->cap) {
		f->cap = 2 * (f->len + len) + 64;
		f->bytes = realloc(f->bytes, f->cap);
	}
	if (len)
		memcpy(f->bytes + f->len, bytes, len);
	f->len += len;
}

static inline void put_u32(struct file *f, uint32_t number)
{
	uint8_t raw[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16),
			  (uint8_t)(number >> 24)};

	put(f, raw, sizeof(raw));
}

static inline void put_u64(struct file *f, uint64_t number)
{
	put_u32(f, (uint32_t)number);
	put_u32(f, (uint32_t)(number >> 32));
}

/* The tensors lie one after the other from 0 to the end, and their sizes agree with their rows. */
static inline bool tensors_tile(const struct layout *l)
{
	uint64_t at = 0;

	for (size_t i = 0; i < l->n_tensors; i++) {
		const struct layout_tensor *t = &l->tensors[i];

		if (t->offset != at || (t->rows && t->rows * t->row_bytes * t->lanes != t->data_bytes))
			return false;
		if (t->valid_rows > t->rows || !t->tokens_per_row || !t->element_bytes)
			return false;
		at += t->head_bytes + t->data_bytes;
	}
	return at == l->size_bytes;
}

struct cover {
	uint8_t *times;
	uint64_t size;
	uint64_t blocks;
	bool good;
};

static inline int cover_block(void *ctx, const struct layout_block *block)
{
	struct cover *c = ctx;
	uint64_t bytes = 0;

	c->blocks++;
	for (uint64_t i = 0; i < block->n_runs; i++) {
		uint64_t offset, len;

		layout_block_run(block, i, &offset, &len);
		bytes += len;
		if (offset > c->size || len > c->size - offset) {
			c->good = false;
			return 1;
		}
		for (uint64_t k = 0; k < len; k++)
			if (c->times[offset + k]++)
				c->good = false;
	}
	if (!bytes || bytes != block->bytes || bytes > BLOCKS_BYTES_MAX || !block->element_bytes)
		c->good = false;
	return 0;
}

/* No block crosses a cut: checked by whoever gives cuts, see cuts_respected. */
static inline bool blocks_cover(const struct layout *l, const uint64_t *cuts, size_t n_cuts)
{
	struct cover c = {.times = calloc(l->size_bytes + 1, 1), .size = l->size_bytes, .good = true};

	layout_blocks(l, cuts, n_cuts, cover_block, &c);
	for (uint64_t i = 0; i < c.size; i++)
		c.good = c.good && c.times[i] == 1;
	free(c.times);
	return c.good;
}

#endif
