/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tokens.c - token hash and the ids of media; ids go to the hash a few hundred at a time. */
#include "codec/tokens.h"

#include <errno.h>

enum { IDS_AT_ONCE = 512 };

static void put_u64(uint8_t *to, uint64_t number)
{
	for (size_t i = 0; i < 8; i++)
		to[i] = (uint8_t)(number >> (8 * i));
}

static int hash_ids(struct digest *d, const int64_t *ids, size_t n)
{
	uint8_t raw[IDS_AT_ONCE * 8];
	int ret = 0;

	while (!ret && n) {
		size_t now = n < IDS_AT_ONCE ? n : IDS_AT_ONCE;

		for (size_t i = 0; i < now; i++)
			put_u64(raw + 8 * i, (uint64_t)ids[i]);
		ret = digest_add(d, raw, 8 * now);
		ids += now;
		n -= now;
	}
	return ret;
}

int tokens_hash(const int64_t *ids, size_t n, uint8_t out[DIGEST_LEN])
{
	struct digest *d = digest_new();
	int ret;

	if (!d)
		return -ENOMEM;
	ret = hash_ids(d, ids, n);
	if (!ret)
		ret = digest_end(d, out);
	digest_free(d);
	return ret;
}

int64_t tokens_medium_id(const uint8_t medium[DIGEST_LEN], uint64_t place)
{
	uint64_t id = 0;

	for (size_t i = 0; i < 8; i++)
		id |= (uint64_t)medium[i] << (8 * i);
	id += place * UINT64_C(0x9e3779b97f4a7c15); /* odd: no two places of a medium meet */
	return -1 - (int64_t)(id >> 2 | UINT64_C(1) << 62);
}

size_t tokens_shared(const int64_t *one, size_t n_one, const int64_t *other, size_t n_other)
{
	size_t n = n_one < n_other ? n_one : n_other, i = 0;

	while (i < n && one[i] == other[i])
		i++;
	return i;
}
