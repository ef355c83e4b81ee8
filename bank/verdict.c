/* SPDX-License-Identifier: GPL-2.0-or-later */
/* verdict.c - the two decision tables of verdict.h, first match wins. */
#include "bank/verdict.h"

enum verdict verdict_flush(const struct verdict_flush *facts)
{
	if (facts->dying)
		return facts->is_writer ? VERDICT_DROP : VERDICT_NOTHING;
	if (facts->poisoned)
		return VERDICT_REFUSE;
	if (facts->committed)
		return VERDICT_NOTHING;
	if (facts->held || facts->busy || facts->killed || !facts->written)
		return VERDICT_EARLY;
	return VERDICT_COMMIT;
}

enum verdict verdict_release(const struct verdict_release *facts, const char **reason)
{
	*reason = facts->dying ? "killed" : facts->poisoned ? "write_failed" : "no_close";
	if (facts->committed)
		return VERDICT_NOTHING;
	if (!facts->changed)
		return VERDICT_NOTHING;
	if (facts->dying || facts->poisoned || !facts->flushed)
		return VERDICT_DROP;
	return VERDICT_COMMIT;
}
