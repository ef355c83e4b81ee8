/* SPDX-License-Identifier: GPL-2.0-or-later */
/* budget.h - does it fit, and if not, which cap stands in the way: pure arithmetic.
 */
#ifndef KV_BANK_BUDGET_H
#define KV_BANK_BUDGET_H

#include <stdint.h>

/* One cap and what counts towards it. max 0 = no cap. */
struct budget_cap {
	uint64_t max, used;
	int refusal; /* -ENOSPC for the bank's own caps, -EDQUOT for a session's */
};

/* What has to become free so that `more` can be added; 0 when it fits. */
uint64_t budget_shortfall(const struct budget_cap *cap, uint64_t more);

/* Would something that is `total` in the end fit below the cap if nothing else were there? */
int budget_fits_empty(const struct budget_cap *cap, uint64_t total); /* 0 or -EFBIG */

#endif
