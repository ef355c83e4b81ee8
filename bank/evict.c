/* SPDX-License-Identifier: GPL-2.0-or-later */
/* evict.c - sort, take from the front until the needs are met, then give back what was too much. */
#include "bank/evict.h"

#include <stdlib.h>

/* Who goes first: negative when a does. */
static int by_worth(const void *left, const void *right)
{
	const struct evict_candidate *a = left, *b = right;

	if (a->idle != b->idle)
		return a->idle ? -1 : 1;
	if (a->last_access != b->last_access)
		return a->last_access < b->last_access ? -1 : 1;
	if (a->amount != b->amount)
		return a->amount > b->amount ? -1 : 1;
	return 0;
}

static bool serves(const struct evict_candidate *c, unsigned need)
{
	return c->serves >> need & 1;
}

/* Something is still needed that this candidate serves. */
static bool useful(const struct evict_candidate *c, const uint64_t missing[EVICT_NEEDS], unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (missing[i] && serves(c, i))
			return true;
	return false;
}

static void take(struct evict_candidate *c, uint64_t missing[EVICT_NEEDS], uint64_t spare[EVICT_NEEDS], unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint64_t used;

		if (!serves(c, i))
			continue;
		used = c->amount < missing[i] ? c->amount : missing[i];
		missing[i] -= used;
		spare[i] += c->amount - used;
	}
	c->victim = true;
}

/* Un-marks a victim when the spare amounts cover it everywhere. */
static void give_back(struct evict_candidate *c, uint64_t spare[EVICT_NEEDS], unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (serves(c, i) && spare[i] < c->amount)
			return;
	for (unsigned i = 0; i < count; i++)
		if (serves(c, i))
			spare[i] -= c->amount;
	c->victim = false;
}

bool evict_plan(struct evict_candidate *candidates, size_t count, const struct evict_needs *needs)
{
	uint64_t missing[EVICT_NEEDS], spare[EVICT_NEEDS] = { 0 };
	bool met = true;

	for (unsigned i = 0; i < needs->count; i++)
		missing[i] = needs->amount[i];
	if (count)
		qsort(candidates, count, sizeof(*candidates), by_worth);
	for (size_t i = 0; i < count; i++) {
		candidates[i].victim = false;
		if (useful(&candidates[i], missing, needs->count))
			take(&candidates[i], missing, spare, needs->count);
	}
	for (unsigned i = 0; i < needs->count; i++)
		met = met && !missing[i];
	/* From the most valuable victim down, so that what is spared is what is worth most. */
	for (size_t i = count; i-- > 0;)
		if (candidates[i].victim && met)
			give_back(&candidates[i], spare, needs->count);
		else
			candidates[i].victim = false;
	return met;
}
