/* SPDX-License-Identifier: GPL-2.0-or-later */
/* chunk.c - a gear hash and its three stretches.
 *
 * Bytes before CHUNK_MIN - 64 are skipped unread: the top bits at a place depend on the 64 bytes before it
 * only, everything older has been shifted out. Hashing from there on is exact, not an approximation.
 * Easy to forget: a stretch may end in the middle of a piece, or a piece in the middle of a stretch. */
#include "codec/chunk.h"

#define WINDOW	    64u
#define MASK_STRICT (~UINT64_C(0) << 44)
#define MASK_LOOSE  (~UINT64_C(0) << 48)

void chunk_init(struct chunk *c)
{
	uint64_t state = CHUNK_SEED;

	for (size_t i = 0; i < 256; i++) {
		uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

		z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
		c->table[i] = z ^ z >> 31;
	}
	c->hash = 0;
	c->len = 0;
}

/* How many of `len` bytes lie before the chunk has `end` bytes. */
static size_t stretch(const struct chunk *c, size_t end, size_t len)
{
	size_t room = c->len < end ? end - c->len : 0;

	return len < room ? len : room;
}

/* Hashes the bytes that lie before `end`; stops behind the first at which the hash has no bit of the mask. */
static size_t hash_until(struct chunk *c, const uint8_t *buf, size_t len, size_t end, uint64_t mask,
			 bool *cut)
{
	size_t count = stretch(c, end, len), i = 0;
	uint64_t hash = c->hash;

	while (i < count && !*cut) {
		hash = (hash << 1) + c->table[buf[i++]];
		*cut = !(hash & mask);
	}
	c->hash = hash;
	c->len += i;
	return i;
}

/* Fills the window where no cut can be yet. */
static size_t hash_over(struct chunk *c, const uint8_t *buf, size_t len, size_t end)
{
	size_t count = stretch(c, end, len);

	for (size_t i = 0; i < count; i++)
		c->hash = (c->hash << 1) + c->table[buf[i]];
	c->len += count;
	return count;
}

size_t chunk_next(struct chunk *c, const void *buf, size_t len, bool *cut)
{
	const uint8_t *bytes = buf;
	size_t taken = stretch(c, CHUNK_MIN - WINDOW, len);

	*cut = false;
	c->len += taken;
	taken += hash_over(c, bytes + taken, len - taken, CHUNK_MIN - 1);
	taken += hash_until(c, bytes + taken, len - taken, CHUNK_CENTRE - 1, MASK_STRICT, cut);
	if (!*cut)
		taken += hash_until(c, bytes + taken, len - taken, CHUNK_MAX, MASK_LOOSE, cut);
	*cut = *cut || c->len == CHUNK_MAX;
	if (*cut) {
		c->hash = 0;
		c->len = 0;
	}
	return taken;
}
