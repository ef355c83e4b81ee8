/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ggsq_trailer.c - `SCKP`: states that the server can rewind to, each at a token count.
 *
 *	"SCKP" 1 count | count x { u64 n_tokens, i32 pos_min, i32 pos_max, 3 x { u64 length, blob } }
 *
 * A checkpoint returns byte for byte in every later save of its conversation, at another offset: each blob
 * is a tensor of its own. A count is a boundary only when its first blob (the target model's) begins as the
 * server expects, since the server skips what it does not know. */
#include "codec/ggsq_trailer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOB_MAGIC 0xaf143cd8u

enum {
	TRAILER_VERSION = 1,
	BLOBS = 3, /* target, draft, speculative */
	CHECKPOINT_BYTES_MIN = 16 + BLOBS * 8,
};

struct trailer {
	uint64_t *counts;
	size_t n_counts;
};

static int read_blob(struct bytes *b, struct builder *builder, uint64_t n_tokens, uint8_t part, bool *sound)
{
	struct layout_tensor blob = {
		.role = LAYOUT_CHECKPOINT,
		.lanes = 1,
		.number = n_tokens,
		.part = part,
		.element_bytes = 4,
		.data_bytes = bytes_u64(b),
	};
	uint64_t at = b->at;
	int ret;

	if (b->error)
		return b->error;
	if (blob.data_bytes > bytes_left(b))
		return -ENODATA;
	*sound = blob.data_bytes >= 8 && bytes_u32(b) == BLOB_MAGIC;
	bytes_seek(b, at);
	if (!blob.data_bytes)
		return b->error;
	ret = build_tensor(builder, &blob, at);
	bytes_skip(b, blob.data_bytes);
	return ret ? ret : b->error;
}

static int read_checkpoint(struct bytes *b, struct builder *builder, struct trailer *t)
{
	uint64_t n_tokens = bytes_u64(b);
	bool sound[BLOBS] = {false};
	int ret = 0;

	bytes_skip(b, 8); /* pos_min, pos_max */
	for (uint8_t i = 0; !ret && i < BLOBS; i++)
		ret = read_blob(b, builder, n_tokens, i, &sound[i]);
	if (!ret && sound[0] && n_tokens && n_tokens <= builder->layout->n_tokens)
		t->counts[t->n_counts++] = n_tokens;
	return ret;
}

static int compare_counts(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

static void sort_once(struct trailer *t)
{
	size_t kept = 0;

	qsort(t->counts, t->n_counts, sizeof(*t->counts), compare_counts);
	for (size_t i = 0; i < t->n_counts; i++)
		if (!kept || t->counts[kept - 1] != t->counts[i])
			t->counts[kept++] = t->counts[i];
	t->n_counts = kept;
}

int ggsq_trailer(struct bytes *b, struct builder *builder)
{
	struct layout *l = builder->layout;
	struct trailer t = {0};
	uint64_t begin = b->at;
	char magic[4];
	uint32_t version, count;
	int ret;

	bytes_take(b, magic, sizeof(magic));
	version = bytes_u32(b);
	count = bytes_u32(b);
	if (b->error)
		return b->error;
	if (memcmp(magic, "SCKP", 4) || version != TRAILER_VERSION ||
	    count > bytes_left(b) / CHECKPOINT_BYTES_MIN)
		return -EBADMSG;
	t.counts = reallocarray(NULL, count ? count : 1, sizeof(*t.counts));
	if (!t.counts)
		return -ENOMEM;
	ret = 0;
	for (uint32_t i = 0; !ret && i < count; i++)
		ret = read_checkpoint(b, builder, &t);
	if (!ret && bytes_left(b))
		ret = -EBADMSG;
	if (ret) {
		free(t.counts);
		return ret;
	}
	sort_once(&t);
	l->boundaries = t.counts;
	l->n_boundaries = t.n_counts;
	l->n_checkpoints = count;
	l->trailer_offset = begin;
	return 0;
}
