/* SPDX-License-Identifier: GPL-2.0-or-later */
/* evict.h - who has to go: pure policy, no clock, no lock, no I/O.
 *
 * The caller offers candidates (never pinned, open or held ones) and says what must become free, as
 * *needs*: up to EVICT_NEEDS amounts, each of which only some candidates can serve (the bank's budget:
 * all; a session's cap: that session's). A victim serves all its needs at once.
 */
#ifndef KV_BANK_EVICT_H
#define KV_BANK_EVICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVICT_NEEDS 16u

struct evict_candidate {
	uint64_t amount;     /* what its going frees: bytes, or 1 for count caps */
	int64_t last_access; /* any monotonic unit */
	bool idle;	     /* its session was not touched within pin_ttl */
	uint16_t serves;     /* bit i: counts towards need i */
	void *owner;	     /* the caller's */
	bool victim;	     /* out */
};

struct evict_needs {
	uint64_t amount[EVICT_NEEDS];
	unsigned count;
};

/* Marks victims so that every need is met: sessions idle past pin_ttl first, then the least recently
 * used, larger first among equals; none is marked whose going the others make unnecessary. Returns
 * false, with nothing marked, when not even all of them are enough. Sorts `candidates`. */
bool evict_plan(struct evict_candidate *candidates, size_t count, const struct evict_needs *needs);

#endif
