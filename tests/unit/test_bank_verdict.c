/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_bank_verdict.c - what a close means, in all the ways a descriptor is closed. */
#include "bank/verdict.h"

#include "unit.h"

static void a_killed_writer_is_dropped(void)
{
	struct verdict_flush f = { .dying = true, .is_writer = true, .written = true };

	CHECK_INT(verdict_flush(&f), VERDICT_DROP);
	f.committed = true;
	CHECK_INT(verdict_flush(&f), VERDICT_DROP);
	f.held = true;
	CHECK_INT(verdict_flush(&f), VERDICT_DROP);
}

static void a_killed_bystander_changes_nothing(void)
{
	struct verdict_flush f = { .dying = true, .written = true };

	CHECK_INT(verdict_flush(&f), VERDICT_NOTHING);
}

static void a_failed_write_fails_every_close(void)
{
	struct verdict_flush f = { .poisoned = true, .written = true };

	CHECK_INT(verdict_flush(&f), VERDICT_REFUSE);
	f.committed = true;
	CHECK_INT(verdict_flush(&f), VERDICT_REFUSE);
}

static void early_ones_commit_nothing(void)
{
	struct verdict_flush held = { .held = true, .written = true }, empty = { 0 }, busy = { .busy = true, .written = true };

	CHECK_INT(verdict_flush(&held), VERDICT_EARLY);
	CHECK_INT(verdict_flush(&empty), VERDICT_EARLY);
	CHECK_INT(verdict_flush(&busy), VERDICT_EARLY);
}

static void the_last_living_close_commits(void)
{
	struct verdict_flush f = { .written = true };

	CHECK_INT(verdict_flush(&f), VERDICT_COMMIT);
	f.committed = true;
	CHECK_INT(verdict_flush(&f), VERDICT_NOTHING);
}

static enum verdict release(struct verdict_release f, const char *want_reason)
{
	const char *reason;
	enum verdict v = verdict_release(&f, &reason);

	if (v == VERDICT_DROP)
		CHECK_STR(reason, want_reason);
	return v;
}

static void release_decides_the_rest(void)
{
	CHECK_INT(release((struct verdict_release){ .flushed = true, .changed = true }, ""), VERDICT_COMMIT);
	CHECK_INT(release((struct verdict_release){ .flushed = true }, ""), VERDICT_NOTHING);
	CHECK_INT(release((struct verdict_release){ .changed = true }, "no_close"), VERDICT_DROP);
	CHECK_INT(release((struct verdict_release){ .flushed = true, .changed = true, .dying = true }, "killed"), VERDICT_DROP);
	CHECK_INT(release((struct verdict_release){ .flushed = true, .changed = true, .poisoned = true }, "write_failed"), VERDICT_DROP);
	CHECK_INT(release((struct verdict_release){ .flushed = true, .changed = true, .committed = true, .dying = true }, ""),
		  VERDICT_NOTHING);
}

int main(void)
{
	RUN("a killed writer's stage is dropped, also after an early commit", a_killed_writer_is_dropped);
	RUN("the death of a process that only inherited the descriptor changes nothing", a_killed_bystander_changes_nothing);
	RUN("after a failed write every close fails", a_failed_write_fails_every_close);
	RUN("an early close commits nothing", early_ones_commit_nothing);
	RUN("the last close of a living writer commits, once", the_last_living_close_commits);
	RUN("RELEASE commits, drops or forgets what no close decided", release_decides_the_rest);
	UNIT_END();
}
