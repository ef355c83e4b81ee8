/* SPDX-License-Identifier: GPL-2.0-or-later */
/* content.c - reading, writing and absorbing plain files and overlays; the picture is in content.h.
 *
 * Everything walks in *runs*: stretches of blocks that lie side by side both in the content and in
 * the file they come from, so that a megabyte is one system call whether it is a plain file, a run of
 * changed blocks or the base.
 *
 * Easy to forget: a block of an overlay that is changed in part is first filled from what shows
 * there now; bytes of a changed block beyond the size are zeros, always, so that growing shows zeros. */
#include "bank/content.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_LEAST = 256 };

static uint64_t blocks_of(uint64_t bytes)
{
	return bytes / CONTENT_BLOCK + (bytes % CONTENT_BLOCK != 0);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct content *content_new(struct ram_file *file, struct content *base)
{
	struct content *c = calloc(1, sizeof(*c));
	pthread_rwlockattr_t writers_first;

	if (!c)
		return NULL;
	c->refs = 1;
	c->file = file;
	c->base = base;
	if (base) {
		c->base_bytes = base->size_bytes;
		c->size_bytes = base->size_bytes;
	}
	/* Endless readers must not hold up the one who folds or finishes. No thread takes a lock twice. */
	pthread_rwlockattr_init(&writers_first);
	pthread_rwlockattr_setkind_np(&writers_first, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&c->lock, &writers_first);
	pthread_rwlockattr_destroy(&writers_first);
	return c;
}

void content_free(struct content *c)
{
	if (!c)
		return;
	pthread_rwlock_destroy(&c->lock);
	free(c->slot);
	free(c);
}

/* 1 + place of a block in the file, 0 when it is not changed. */
static uint32_t slot_of(const struct content *c, uint64_t block)
{
	return block >= c->slot_first && block - c->slot_first < c->slots_cap ? c->slot[block - c->slot_first] : 0;
}

/* ---- what it may hold ---- */

static uint64_t overlay_charge(const struct content *c, uint64_t end_bytes, uint64_t new_slots, uint64_t new_tail_slots)
{
	uint64_t tail = blocks_of(end_bytes) > blocks_of(c->base_bytes) ? blocks_of(end_bytes) - blocks_of(c->base_bytes) : 0;
	uint64_t slots = c->slots_made - c->slots_given_back + new_slots;
	uint64_t tail_slots = c->tail_slots + new_tail_slots;

	return (slots + (tail > tail_slots ? tail - tail_slots : 0)) * CONTENT_BLOCK;
}

uint64_t content_charge(const struct content *c, uint64_t off, uint64_t len)
{
	uint64_t end = larger(larger(c->size_bytes, c->reserved_bytes), len ? off + len : 0);
	uint64_t fresh = 0, fresh_tail = 0;

	if (!c->base)
		return blocks_of(end) * CONTENT_BLOCK;
	for (uint64_t block = off / CONTENT_BLOCK; len && block < blocks_of(off + len); block++) {
		if (slot_of(c, block))
			continue;
		fresh++;
		fresh_tail += block >= blocks_of(c->base_bytes);
	}
	return overlay_charge(c, end, fresh, fresh_tail);
}

uint64_t content_charge_size(const struct content *c, uint64_t size_bytes, uint64_t reserved_bytes)
{
	uint64_t end = larger(size_bytes, reserved_bytes);

	return c->base ? overlay_charge(c, end, 0, 0) : blocks_of(end) * CONTENT_BLOCK;
}

uint64_t content_holds(const struct content *c)
{
	return larger(content_charge(c, 0, 0), ram_file_held(c->file));
}

/* ---- reading ---- */

static ssize_t read_upto(struct content *c, void *buf, size_t len, uint64_t off, uint64_t limit);

/* The stretch from off of one kind: changed blocks side by side in the file, or none changed. */
static size_t run_length(const struct content *c, uint64_t off, size_t len)
{
	uint64_t block = off / CONTENT_BLOCK, last = (off + len - 1) / CONTENT_BLOCK;
	uint32_t slot = slot_of(c, block), count = 1;

	while (block + count <= last && slot_of(c, block + count) == (slot ? slot + count : 0))
		count++;
	return (size_t)smaller(len, (block + count) * CONTENT_BLOCK - off);
}

static uint64_t place_of(const struct content *c, uint64_t off)
{
	return (uint64_t)(slot_of(c, off / CONTENT_BLOCK) - 1) * CONTENT_BLOCK + off % CONTENT_BLOCK;
}

/* What shows below an overlay: the base up to base_bytes, then zeros. */
static int read_below(struct content *c, char *buf, size_t len, uint64_t off)
{
	size_t from_base = off < c->base_bytes ? (size_t)smaller(len, c->base_bytes - off) : 0;
	ssize_t n = from_base ? read_upto(c->base, buf, from_base, off, c->base_bytes) : 0;

	if (n < 0)
		return (int)n;
	if ((size_t)n != from_base)
		return -EIO;
	memset(buf + from_base, 0, len - from_base);
	return 0;
}

/* Lock held. All of len lies below the size. */
static int read_all(struct content *c, char *buf, size_t len, uint64_t off)
{
	int ret = 0;

	if (!c->base)
		return ram_file_read(c->file, buf, len, off);
	while (len && !ret) {
		size_t run = run_length(c, off, len);

		if (slot_of(c, off / CONTENT_BLOCK))
			ret = ram_file_read(c->file, buf, run, place_of(c, off));
		else
			ret = read_below(c, buf, run, off);
		buf += run;
		off += run;
		len -= run;
	}
	return ret;
}

static ssize_t read_upto(struct content *c, void *buf, size_t len, uint64_t off, uint64_t limit)
{
	int ret = 0;

	pthread_rwlock_rdlock(&c->lock);
	limit = smaller(limit, c->size_bytes);
	len = off < limit ? (size_t)smaller(len, limit - off) : 0;
	if (len)
		ret = read_all(c, buf, len, off);
	pthread_rwlock_unlock(&c->lock);
	return ret ? ret : (ssize_t)len;
}

ssize_t content_read(struct content *c, void *buf, size_t len, uint64_t off)
{
	return read_upto(c, buf, len, off, UINT64_MAX);
}

/* ---- writing ---- */

/* Makes slot[] cover blocks first..last; at least doubles it when it grows. */
static int cover_blocks(struct content *c, uint64_t first, uint64_t last)
{
	uint64_t begin = c->slots_cap ? smaller(first, c->slot_first) : first;
	uint64_t end = larger(last + 1, c->slot_first + c->slots_cap);
	uint32_t *slot;

	if (c->slots_cap && begin == c->slot_first && end == c->slot_first + c->slots_cap)
		return 0;
	if (begin < c->slot_first) /* downwards: room for more of that */
		begin -= smaller(begin, c->slots_cap);
	if (last >= c->slot_first + c->slots_cap)
		end += c->slots_cap + SLOTS_LEAST;
	slot = calloc(end - begin, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	if (c->slots_cap)
		memcpy(slot + (c->slot_first - begin), c->slot, c->slots_cap * sizeof(*slot));
	free(c->slot);
	c->slot = slot;
	if (c->absorb_next)
		c->absorb_next += c->slot_first - begin;
	c->slot_first = begin;
	c->slots_cap = end - begin;
	return 0;
}

static void take_slot(struct content *c, uint64_t block)
{
	c->slot[block - c->slot_first] = ++c->slots_made;
	if (block - c->slot_first < c->absorb_next) /* changed anew after it had been moved */
		c->absorb_next = block - c->slot_first;
	c->tail_slots += block >= blocks_of(c->base_bytes);
}

/* Part of one block: filled from what shows there when it was not changed before. */
static int write_part(struct content *c, const char *buf, size_t len, uint64_t off)
{
	uint64_t block = off / CONTENT_BLOCK;
	char whole[CONTENT_BLOCK];
	int ret;

	if (slot_of(c, block))
		return ram_file_write(c->file, buf, len, place_of(c, off));
	ret = read_below(c, whole, sizeof(whole), block * CONTENT_BLOCK);
	if (ret)
		return ret;
	memcpy(whole + off % CONTENT_BLOCK, buf, len);
	ret = ram_file_write(c->file, whole, sizeof(whole), (uint64_t)c->slots_made * CONTENT_BLOCK);
	if (!ret)
		take_slot(c, block);
	return ret;
}

/* Whole blocks: a fresh run at the end of the file, or one that was changed before. Writes the first
 * run and says how long it was. */
static int write_whole(struct content *c, const char *buf, size_t len, uint64_t off, size_t *done)
{
	uint64_t block = off / CONTENT_BLOCK;
	int ret;

	*done = run_length(c, off, len);
	if (slot_of(c, block))
		return ram_file_write(c->file, buf, *done, place_of(c, off));
	ret = ram_file_write(c->file, buf, *done, (uint64_t)c->slots_made * CONTENT_BLOCK);
	for (size_t n = 0; !ret && n < *done / CONTENT_BLOCK; n++)
		take_slot(c, block + n);
	return ret;
}

static int overlay_write(struct content *c, const char *buf, size_t len, uint64_t off)
{
	int ret = cover_blocks(c, off / CONTENT_BLOCK, (off + len - 1) / CONTENT_BLOCK);

	while (len && !ret) {
		size_t part = (size_t)smaller(len, CONTENT_BLOCK - off % CONTENT_BLOCK), done = part;

		if (part < CONTENT_BLOCK)
			ret = write_part(c, buf, part, off);
		else
			ret = write_whole(c, buf, len - len % CONTENT_BLOCK, off, &done);
		buf += done;
		off += done;
		len -= done;
	}
	return ret;
}

int content_write(struct content *c, const void *buf, size_t len, uint64_t off)
{
	int ret;

	if (!len)
		return 0;
	if (c->base) {
		ret = overlay_write(c, buf, len, off);
	} else {
		c->sparse = c->sparse || off > c->size_bytes;
		ret = ram_file_write(c->file, buf, len, off);
	}
	if (!ret)
		c->size_bytes = larger(c->size_bytes, off + len);
	return ret;
}

/* Blocks wholly at or beyond size_bytes are changed no more. Their places stay charged until the
 * overlay is absorbed: cutting a stage short is rare. */
static void drop_slots(struct content *c, uint64_t size_bytes)
{
	uint64_t end = c->slot_first + c->slots_cap;

	for (uint64_t block = larger(blocks_of(size_bytes), c->slot_first); block < end; block++) {
		c->tail_slots -= slot_of(c, block) && block >= blocks_of(c->base_bytes);
		c->slot[block - c->slot_first] = 0;
	}
}

static int overlay_shrink(struct content *c, uint64_t size_bytes)
{
	static const char zeros[CONTENT_BLOCK];
	size_t beyond = size_bytes % CONTENT_BLOCK ? CONTENT_BLOCK - size_bytes % CONTENT_BLOCK : 0;
	int ret = 0;

	drop_slots(c, size_bytes);
	if (beyond && slot_of(c, size_bytes / CONTENT_BLOCK))
		ret = ram_file_write(c->file, zeros, beyond, place_of(c, size_bytes));
	if (ret)
		return ret;
	if (size_bytes >= c->base_bytes)
		return 0;
	c->base_bytes = size_bytes;
	c->tail_slots = 0; /* no slot is left beyond the size */
	return 0;
}

int content_truncate(struct content *c, uint64_t size_bytes)
{
	int ret = 0;

	if (!c->base) {
		ret = ram_file_truncate(c->file, size_bytes);
		c->sparse = c->sparse || size_bytes > c->size_bytes;
	} else if (size_bytes < c->size_bytes) {
		ret = overlay_shrink(c, size_bytes);
	}
	if (!ret)
		c->size_bytes = size_bytes;
	return ret;
}

int content_finish(struct content *c)
{
	int ret = 0;

	pthread_rwlock_wrlock(&c->lock);
	c->reserved_bytes = 0;
	if (!c->base && c->sparse)
		ret = ram_file_fill(c->file, c->size_bytes);
	if (!ret)
		c->sparse = false;
	pthread_rwlock_unlock(&c->lock);
	return ret;
}

void content_rest(struct content *c)
{
	pthread_rwlock_wrlock(&c->lock);
	ram_file_rest(c->file);
	pthread_rwlock_unlock(&c->lock);
}

unsigned content_depth(const struct content *c)
{
	unsigned depth = 0;

	for (; c; c = c->base)
		depth++;
	return depth;
}

bool content_is_plain(const struct content *c)
{
	return !c->base;
}

/* ---- absorbing ---- */

/* Gives back the places of a run. Those at the front are given back from the start each time, so that a
 * large page goes when its last part does. */
static int punch_run(struct content *c, uint64_t place, size_t run)
{
	bool at_front = place == (uint64_t)c->slots_punched * CONTENT_BLOCK;

	c->slots_given_back += (uint32_t)(run / CONTENT_BLOCK);
	if (at_front)
		c->slots_punched += (uint32_t)(run / CONTENT_BLOCK);
	if (c->slots_given_back == c->slots_made) { /* nothing is left: no hole for a large page to fill again */
		c->slots_made = c->slots_given_back = c->slots_punched = 0;
		return ram_file_truncate(c->file, 0);
	}
	return ram_file_punch(c->file, at_front ? 0 : place, at_front ? place + run : run);
}

/* Moves one run of changed blocks that starts at `block` into the base. */
static int absorb_run(struct content *c, uint64_t block, char *buf, size_t max_bytes, size_t *moved)
{
	uint64_t off = block * CONTENT_BLOCK, place = place_of(c, off);
	uint64_t left = c->slot_first + c->slots_cap - block;
	size_t run = run_length(c, off, (size_t)smaller(max_bytes, left * CONTENT_BLOCK));
	size_t shown = (size_t)smaller(run, c->size_bytes - off);
	int ret = ram_file_read(c->file, buf, shown, place);

	if (!ret)
		ret = content_write(c->base, buf, shown, off);
	if (ret)
		return ret;
	for (uint64_t i = block; i < block + run / CONTENT_BLOCK; i++) {
		c->tail_slots -= i >= blocks_of(c->base_bytes);
		c->slot[i - c->slot_first] = 0;
	}
	c->absorb_next += run / CONTENT_BLOCK;
	*moved = run;
	return punch_run(c, place, run);
}

/* Both locks held. */
static int absorb_some(struct content *c, char *buf, size_t max_bytes)
{
	int ret = c->base->size_bytes > c->base_bytes ? content_truncate(c->base, c->base_bytes) : 0;

	while (!ret && max_bytes && c->absorb_next < c->slots_cap) {
		uint64_t end;
		size_t moved;

		if (!c->slot[c->absorb_next]) {
			c->absorb_next++;
			continue;
		}
		moved = 0;
		ret = absorb_run(c, c->slot_first + c->absorb_next, buf, max_bytes, &moved);
		if (!moved)
			break;
		max_bytes -= moved;
		/* What lies between the old base and this run is in the base now: zeros. */
		end = smaller((c->slot_first + c->absorb_next) * CONTENT_BLOCK, c->size_bytes);
		c->base_bytes = larger(c->base_bytes, end);
		assert(c->base->size_bytes >= c->base_bytes);
	}
	if (ret || c->absorb_next < c->slots_cap)
		return ret ? ret : 1;
	ret = content_truncate(c->base, c->size_bytes);
	if (!ret)
		c->base_bytes = c->size_bytes;
	return ret;
}

int content_absorb(struct content *c, size_t max_bytes)
{
	char *buf = malloc(max_bytes);
	int ret;

	if (!buf)
		return -ENOMEM;
	pthread_rwlock_wrlock(&c->lock);
	pthread_rwlock_wrlock(&c->base->lock);
	ret = absorb_some(c, buf, max_bytes);
	pthread_rwlock_unlock(&c->base->lock);
	pthread_rwlock_unlock(&c->lock);
	free(buf);
	return ret;
}
