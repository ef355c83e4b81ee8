/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ggsq_tokens.c - token ids, and what stands for the tokens of a medium.
 *
 *	plain:  n ids
 *	packed: -1, version 1, n_tokens, ids, n_media, start of each, { size, bytes } of each, 0-3 zero bytes
 *
 * The ids of a medium are all -1. Its tokens get ids made from its bytes (tokens.h); a medium ends where an
 * id is not -1 or the next one starts. A plain array with ids below 0 does not say what they stand for: the
 * ids are given as they are, and tokens_exact is false, so that two pictures of one size never pass for one
 * prefix.
 *
 * Easy to forget: n_words bounds the whole array, so each length inside is held against what is left of it,
 * not against the file. */
#include "codec/ggsq_tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/digest.h"
#include "codec/tokens.h"

enum {
	PACKED_MARK = -1,
	PACKED_VERSION = 1,
	IDS_AT_ONCE = 1024,
	MEDIUM_AT_ONCE = 4096,
};

struct array {
	struct bytes *bytes;
	struct layout *layout;
	uint64_t end; /* first byte after the array */
};

static uint64_t array_left(const struct array *a)
{
	return a->bytes->error ? 0 : a->end - a->bytes->at;
}

static int read_ids(struct array *a, uint64_t n)
{
	struct layout *l = a->layout;
	int64_t *ids = calloc(n ? n : 1, sizeof(*ids));
	uint8_t raw[IDS_AT_ONCE * 4];
	uint64_t at = 0;

	if (!ids)
		return -ENOMEM;
	l->tokens = ids;
	l->n_tokens = n;
	l->tokens_exact = true;
	while (at < n && !a->bytes->error) {
		size_t now = n - at < IDS_AT_ONCE ? (size_t)(n - at) : IDS_AT_ONCE;

		bytes_take(a->bytes, raw, 4 * now);
		for (size_t i = 0; i < now; i++) {
			ids[at + i] = (int32_t)bytes_get_u32(raw + 4 * i);
			l->tokens_exact = l->tokens_exact && ids[at + i] >= 0;
		}
		at += now;
	}
	return a->bytes->error;
}

static int add_ids(struct builder *builder, uint64_t offset, uint64_t n)
{
	struct layout_tensor ids = {
		.role = LAYOUT_TOKENS,
		.data_bytes = 4 * n,
		.rows = n,
		.valid_rows = n,
		.row_bytes = 4,
		.lanes = 1,
		.element_bytes = 4,
	};

	return n ? build_tensor(builder, &ids, offset) : 0;
}

static int hash_medium(struct array *a, uint32_t size, uint8_t hash[DIGEST_LEN])
{
	uint8_t raw[MEDIUM_AT_ONCE];
	struct digest *d = digest_new();
	int ret = d ? 0 : -ENOMEM;

	while (!ret && size) {
		size_t now = size < MEDIUM_AT_ONCE ? size : MEDIUM_AT_ONCE;

		bytes_take(a->bytes, raw, now);
		ret = a->bytes->error ? a->bytes->error : digest_add(d, raw, now);
		size -= (uint32_t)now;
	}
	if (!ret)
		ret = digest_end(d, hash);
	digest_free(d);
	return ret;
}

/* Gives the medium's tokens their ids. It must begin on an id of -1, and end before `limit`. */
static int name_tokens(struct layout *l, uint64_t start, uint64_t limit, const uint8_t hash[DIGEST_LEN])
{
	uint64_t i = start;

	for (; i < limit && l->tokens[i] == -1; i++)
		l->tokens[i] = tokens_medium_id(hash, i - start);
	return i > start ? 0 : -EBADMSG;
}

static int read_medium(struct array *a, uint64_t start, uint64_t limit)
{
	uint8_t hash[DIGEST_LEN];
	uint32_t size;
	int ret;

	if (array_left(a) < 4)
		return -EBADMSG;
	size = bytes_u32(a->bytes);
	if (size > array_left(a))
		return a->bytes->error ? a->bytes->error : -EBADMSG;
	ret = hash_medium(a, size, hash);
	return ret ? ret : name_tokens(a->layout, start, limit, hash);
}

/* starts[n_media] is the end of the tokens. */
static int read_starts(struct array *a, uint64_t n_media, uint64_t *starts)
{
	starts[n_media] = a->layout->n_tokens;
	for (uint64_t i = 0; i < n_media; i++)
		starts[i] = bytes_u32(a->bytes);
	for (uint64_t i = 0; i < n_media; i++)
		if (starts[i] >= starts[i + 1])
			return a->bytes->error ? a->bytes->error : -EBADMSG;
	return a->bytes->error;
}

static int read_media(struct array *a)
{
	uint64_t n_media = bytes_u32(a->bytes);
	uint64_t *starts;
	int ret;

	if (n_media > array_left(a) / 8)
		return a->bytes->error ? a->bytes->error : -EBADMSG;
	starts = reallocarray(NULL, n_media + 1, sizeof(*starts));
	if (!starts)
		return -ENOMEM;
	ret = read_starts(a, n_media, starts);
	for (uint64_t i = 0; !ret && i < n_media; i++)
		ret = read_medium(a, starts[i], starts[i + 1]);
	free(starts);
	a->layout->n_media = n_media;
	return ret;
}

/* What is left must be the padding to whole words. */
static int read_padding(struct array *a)
{
	uint8_t padding[4] = {0};
	uint64_t left = array_left(a);

	if (left > 3)
		return -EBADMSG;
	bytes_take(a->bytes, padding, (size_t)left);
	return a->bytes->error ? a->bytes->error : bytes_get_u32(padding) ? -EBADMSG : 0;
}

/* An id below 0 that no medium explains. */
static bool all_explained(const struct layout *l)
{
	for (uint64_t i = 0; i < l->n_tokens; i++)
		if (l->tokens[i] < 0 && l->tokens[i] >= INT32_MIN)
			return false;
	return true;
}

static int read_packed(struct array *a, struct builder *builder)
{
	uint32_t version = bytes_u32(a->bytes), n_tokens = bytes_u32(a->bytes);
	uint64_t ids_at = a->bytes->at;
	int ret;

	if (a->bytes->error)
		return a->bytes->error;
	if (version != PACKED_VERSION || array_left(a) < 4 || n_tokens > (array_left(a) - 4) / 4)
		return -EBADMSG;
	a->layout->packed = true;
	ret = read_ids(a, n_tokens);
	if (!ret)
		ret = add_ids(builder, ids_at, n_tokens);
	if (!ret)
		ret = read_media(a);
	if (!ret)
		ret = read_padding(a);
	a->layout->tokens_exact = !ret && all_explained(a->layout);
	return ret;
}

int ggsq_tokens(struct bytes *b, struct builder *builder, uint32_t n_words, bool may_be_packed)
{
	struct array a = {.bytes = b, .layout = builder->layout, .end = b->at + 4 * (uint64_t)n_words};
	uint64_t begin = b->at;
	int32_t first = 0;
	int ret;

	if (n_words > bytes_left(b) / 4)
		return -ENODATA;
	if (n_words && may_be_packed)
		first = bytes_i32(b);
	if (first == PACKED_MARK && n_words >= 4)
		return read_packed(&a, builder);
	bytes_seek(b, begin);
	ret = read_ids(&a, n_words);
	return ret ? ret : add_ids(builder, begin, n_words);
}
