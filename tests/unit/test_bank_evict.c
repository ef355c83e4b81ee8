/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_bank_evict.c - who has to go, and whether it fits at all. */
#include "bank/budget.h"
#include "bank/evict.h"

#include <errno.h>

#include "unit.h"

static struct evict_candidate candidate(uint64_t amount, int64_t last_access, bool idle, uint16_t serves)
{
	return (struct evict_candidate){ .amount = amount, .last_access = last_access, .idle = idle, .serves = serves };
}

static bool victim_with(const struct evict_candidate *c, size_t count, int64_t last_access)
{
	for (size_t i = 0; i < count; i++)
		if (c[i].last_access == last_access)
			return c[i].victim;
	return false;
}

static void oldest_goes_first(void)
{
	struct evict_candidate c[] = { candidate(10, 3, false, 1), candidate(10, 1, false, 1), candidate(10, 2, false, 1) };
	struct evict_needs needs = { { 15 }, 1 };

	CHECK(evict_plan(c, 3, &needs));
	CHECK(victim_with(c, 3, 1));
	CHECK(victim_with(c, 3, 2));
	CHECK(!victim_with(c, 3, 3));
}

static void idle_sessions_go_before_older_ones(void)
{
	struct evict_candidate c[] = { candidate(10, 1, false, 1), candidate(10, 5, true, 1) };
	struct evict_needs needs = { { 10 }, 1 };

	CHECK(evict_plan(c, 2, &needs));
	CHECK(victim_with(c, 2, 5));
	CHECK(!victim_with(c, 2, 1));
}

static void larger_goes_first_among_equals(void)
{
	struct evict_candidate c[] = { candidate(1, 7, false, 1), candidate(100, 7, false, 1) };
	struct evict_needs needs = { { 1 }, 1 };

	CHECK(evict_plan(c, 2, &needs));
	CHECK_INT(c[0].amount, 100);
	CHECK(c[0].victim);
	CHECK(!c[1].victim);
}

static void nothing_is_evicted_for_what_cannot_fit(void)
{
	struct evict_candidate c[] = { candidate(10, 1, false, 1), candidate(10, 2, false, 1) };
	struct evict_needs needs = { { 21 }, 1 };

	CHECK(!evict_plan(c, 2, &needs));
	CHECK(!c[0].victim);
	CHECK(!c[1].victim);
}

static void needless_victims_are_spared(void)
{
	/* The small one is older, but the large one is needed anyway and is enough. */
	struct evict_candidate c[] = { candidate(1, 1, false, 1), candidate(50, 2, false, 1) };
	struct evict_needs needs = { { 50 }, 1 };

	CHECK(evict_plan(c, 2, &needs));
	CHECK(!victim_with(c, 2, 1));
	CHECK(victim_with(c, 2, 2));
}

static void a_sessions_need_is_served_by_its_own(void)
{
	/* Need 0: the bank; need 1: one session, served by the newest candidate alone. */
	struct evict_candidate c[] = { candidate(10, 1, false, 1), candidate(10, 2, false, 1), candidate(10, 3, false, 3) };
	struct evict_needs needs = { { 10, 10 }, 2 };

	CHECK(evict_plan(c, 3, &needs));
	CHECK(victim_with(c, 3, 3));
	CHECK(!victim_with(c, 3, 1));
	CHECK(!victim_with(c, 3, 2));
}

static void shortfall_counts_what_is_over_already(void)
{
	struct budget_cap cap = { .max = 100, .used = 90 };

	CHECK_INT(budget_shortfall(&cap, 10), 0);
	CHECK_INT(budget_shortfall(&cap, 11), 1);
	cap.used = 120;
	CHECK_INT(budget_shortfall(&cap, 0), 20);
	CHECK(budget_shortfall(&cap, UINT64_MAX) == UINT64_MAX);
	cap.max = 0;
	CHECK_INT(budget_shortfall(&cap, UINT64_MAX), 0);
}

static void too_large_is_told_from_full(void)
{
	struct budget_cap cap = { .max = 100, .used = 100 };

	CHECK_INT(budget_fits_empty(&cap, 100), 0);
	CHECK_INT(budget_fits_empty(&cap, 101), -EFBIG);
	cap.max = 0;
	CHECK_INT(budget_fits_empty(&cap, UINT64_MAX), 0);
}

int main(void)
{
	RUN("the least recently used go first, as many as are needed", oldest_goes_first);
	RUN("entries of idle sessions go before older ones of active sessions", idle_sessions_go_before_older_ones);
	RUN("the larger of two equally old goes first", larger_goes_first_among_equals);
	RUN("nothing is evicted for what would not fit even then", nothing_is_evicted_for_what_cannot_fit);
	RUN("a victim that others make needless is spared", needless_victims_are_spared);
	RUN("a session's cap is served by its own entries", a_sessions_need_is_served_by_its_own);
	RUN("a shortfall includes what is over the cap already", shortfall_counts_what_is_over_already);
	RUN("larger than the cap is told from full", too_large_is_told_from_full);
	UNIT_END();
}
