/* SPDX-License-Identifier: GPL-2.0-or-later */
/* content.h - the bytes of one version or stage: a plain RAM file, or an overlay over older content.
 *
 *   plain:    file = the bytes, offset by offset
 *   overlay:  base = older content, of which the first base_bytes show through;
 *             file = changed blocks of CONTENT_BLOCK bytes, packed in the order they were first
 *             touched; slot[i] = 1 + place of block i in file, 0 = not changed;
 *             what is neither changed nor below base_bytes reads as zeros
 *
 * So rewriting 48 bytes of a 4 GB entry, or appending to it, costs the blocks touched. When nobody
 * else has the base any more, content_absorb moves the changed blocks into it, and the base's file
 * becomes the version's: plain again, for passthrough.
 *
 * Sharing: content is counted (refs, under the bank's lock); a version, each open reader, an overlay
 * on it and a hashing thread hold one each. The bytes change only through the one stage that is
 * writing it, or by content_absorb of an overlay that is the base's only owner.
 *
 * Lock: content->lock (a read-write lock) covers size, slots, base and base_bytes. Readers of bytes
 * take it shared, the stage's writer and content_absorb exclusive. Order: overlay before its base;
 * content->lock before the bank's lock, never the other way round.
 *
 * What it may hold is charged beforehand (room.h): content_charge says how much for a given size.
 */
#ifndef KV_BANK_CONTENT_H
#define KV_BANK_CONTENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bank/ram.h"

#define CONTENT_BLOCK RAM_PAGE
#define CONTENT_DEPTH_MAX 64u /* overlays on overlays; reading goes down all of them */

struct content {
	unsigned refs; /* bank's lock */
	pthread_rwlock_t lock;
	struct ram_file *file;
	_Atomic uint64_t size_bytes; /* may be looked at without the lock */
	uint64_t reserved_bytes; /* end of what fallocate asked for, beyond size_bytes */
	bool sparse;		 /* plain: somewhere pages may be missing below size_bytes */
	struct content *base;	 /* NULL: plain; owned reference */
	uint64_t base_bytes;
	uint32_t *slot;
	uint64_t slot_first;   /* block of slot[0]: an append needs no table for what is before it */
	size_t slots_cap;      /* blocks that slot[] covers, from there */
	uint32_t slots_made;   /* places used in file */
	uint32_t slots_given_back; /* of these, punched out again */
	uint32_t tail_slots;   /* live slots of blocks wholly at or beyond base_bytes */
	size_t absorb_next;    /* elements of slot[] before it have been absorbed */
	uint32_t slots_punched; /* the places below are all given back */
	struct content *next_dead; /* bank's list of content to give back */
};

/* Takes the file. base (a reference is handed over) makes it an overlay showing all of it. NULL: no memory;
 * then nothing was taken. */
struct content *content_new(struct ram_file *file, struct content *base);
/* Frees the object; file and base are the caller's again. */
void content_free(struct content *c);

/* Bytes that must be charged for c before [off, off+len) is written (len 0: as it is). Lock held exclusive. */
uint64_t content_charge(const struct content *c, uint64_t off, uint64_t len);
/* Bytes that must be charged for it with another size or reservation. Lock held exclusive. */
uint64_t content_charge_size(const struct content *c, uint64_t size_bytes, uint64_t reserved_bytes);

/* What is to be charged once something was given back: as content_charge for it as it is, but never less
 * than the file holds. A tmpfs cannot always give back part of a large page at once. */
uint64_t content_holds(const struct content *c);

/* Lock held exclusive, charged before. -ENOMEM, -ENOSPC (the tier against all accounts), -EIO. */
int content_write(struct content *c, const void *buf, size_t len, uint64_t off);
int content_truncate(struct content *c, uint64_t size_bytes);

/* Copies up to len bytes; the count is short only at the end. Takes the lock shared. */
ssize_t content_read(struct content *c, void *buf, size_t len, uint64_t off);

/* Before a commit: missing pages are made real so that a reader's mapping cannot, and what fallocate
 * reserved beyond the size is forgotten. Takes the lock. -ENOSPC, -ENOMEM. */
int content_finish(struct content *c);
/* No more writing: the descriptor rests. Takes the lock. */
void content_rest(struct content *c);
/* How many contents it is made of: 1 for a plain one. Bank's lock. */
unsigned content_depth(const struct content *c);
/* Its file has the bytes, offset by offset. Never changes, so no lock. */
bool content_is_plain(const struct content *c);

/* Moves at most max_bytes of changed blocks into the base, which the caller made sure nobody else
 * has. While it runs the tier holds up to max_bytes more than both charges say: reserve them; after it
 * the charges of both files are content_charge again. Takes both locks. Returns 1 when more is left,
 * 0 when the base now is the whole content, or -errno (nothing is lost: it may be tried again). */
int content_absorb(struct content *c, size_t max_bytes);

#endif
