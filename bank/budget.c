/* SPDX-License-Identifier: GPL-2.0-or-later */
/* budget.c - the arithmetic of caps. Amounts come from clients, so sums are never formed before they
 * are known not to wrap. */
#include "bank/budget.h"

#include <errno.h>

uint64_t budget_shortfall(const struct budget_cap *cap, uint64_t more)
{
	uint64_t room;

	if (!cap->max)
		return 0;
	if (cap->used > cap->max)
		return more + (cap->used - cap->max) < more ? UINT64_MAX : more + (cap->used - cap->max);
	room = cap->max - cap->used;
	return more > room ? more - room : 0;
}

int budget_fits_empty(const struct budget_cap *cap, uint64_t total)
{
	return cap->max && total > cap->max ? -EFBIG : 0;
}
