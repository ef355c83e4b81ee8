/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_fs_redirect.c - writers of existing names find their stage, and nobody else does. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>

#include "fs/redirect.h"

#define DIRECTORY 7u
#define OLD	  100u /* the committed inode that is refused */
#define STAGE	  200u

static struct redirects *table;

static void begin(void)
{
	table = redirects_new();
}

static void end(void)
{
	redirects_free(table);
}

/* Refuses OLD, expecting that no stage is handed out. */
static int refuse(pid_t tid, uint64_t start, int64_t now_ms)
{
	uint64_t dropped = 99;
	int ret = redirect_refuse(table, tid, start, OLD, BANK_TRUNC, DIRECTORY, "e", now_ms, &dropped);

	CHECK_INT(dropped, 0);
	return ret;
}

static enum redirect_answer look(pid_t tid, uint64_t start, const char *name, int64_t now_ms)
{
	struct redirect out;

	return redirect_lookup(table, tid, start, DIRECTORY, name, now_ms, &out);
}

static int bind_stage(pid_t tid, uint64_t start, uint64_t stage, const char *name)
{
	return redirect_bind(table, tid, start, stage, DIRECTORY, name);
}

/* Ends the way to a stage, which was begun with the flags of the refused open. */
static bool ends(pid_t tid, uint64_t stage)
{
	unsigned flags = 99;
	bool ended = redirect_end(table, tid, stage, &flags);

	CHECK_INT(flags, ended ? BANK_TRUNC : 99);
	return ended;
}

static void the_refused_name_is_known(void)
{
	struct redirect out;

	begin();
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(redirect_lookup(table, 5, 50, DIRECTORY, "link", 1, &out), REDIRECT_MAKE);
	CHECK(!out.same_name);
	CHECK_INT(redirect_lookup(table, 5, 50, DIRECTORY + 1, "e", 1, &out), REDIRECT_MAKE);
	CHECK(!out.same_name);
	CHECK_INT(redirect_lookup(table, 5, 50, DIRECTORY, "e", 1, &out), REDIRECT_MAKE);
	CHECK(out.same_name);
	end();
}

static void whole_way(void)
{
	struct redirect out;

	begin();
	CHECK(!redirect_has(table, 5));
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK(redirect_has(table, 5));
	CHECK_INT(redirect_lookup(table, 5, 50, DIRECTORY, "e", 1, &out), REDIRECT_MAKE);
	CHECK_INT(out.refused, OLD);
	CHECK_INT(out.flags, BANK_TRUNC);
	CHECK_INT(out.stage, 0);
	CHECK_INT(bind_stage(5, 50, STAGE, "e"), 0);
	CHECK_INT(redirect_lookup(table, 5, 50, DIRECTORY, "e", 2, &out), REDIRECT_STAGE);
	CHECK_INT(out.stage, STAGE);
	CHECK(ends(5, STAGE));
	CHECK(!redirect_has(table, 5));
	CHECK(!ends(5, STAGE));
	CHECK_INT(look(5, 50, "e", 3), REDIRECT_NONE);
	end();
}

static void number_of_lookups_varies(void)
{
	for (int lookups = 1; lookups < 6; lookups++) {
		begin();
		CHECK_INT(refuse(5, 50, 0), -ESTALE);
		CHECK_INT(look(5, 50, "e", 1), REDIRECT_MAKE);
		CHECK_INT(bind_stage(5, 50, STAGE, "e"), 0);
		for (int i = 1; i < lookups; i++)
			CHECK_INT(look(5, 50, "e", 1), REDIRECT_STAGE);
		CHECK(ends(5, STAGE));
		end();
	}
}

static void other_names_are_left_alone(void)
{
	struct redirect out;

	begin();
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(look(5, 50, "other", 1), REDIRECT_MAKE); /* the bank says no to this one */
	CHECK_INT(look(5, 50, "e", 1), REDIRECT_MAKE);
	CHECK_INT(bind_stage(5, 50, STAGE, "e"), 0);
	CHECK_INT(look(5, 50, "other", 1), REDIRECT_NONE);
	CHECK_INT(redirect_lookup(table, 5, 50, DIRECTORY + 1, "e", 1, &out), REDIRECT_NONE);
	CHECK_INT(look(5, 50, "e", 1), REDIRECT_STAGE);
	end();
}

static void no_lookup_is_text_busy(void)
{
	begin();
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(refuse(5, 50, 1), -ETXTBSY);
	CHECK(!redirect_has(table, 5));
	CHECK_INT(refuse(5, 50, 2), -ESTALE); /* begins anew */
	CHECK_INT(look(5, 50, "d", 3), REDIRECT_MAKE);
	CHECK_INT(refuse(5, 50, 4), -ESTALE);			 /* a LOOKUP came, of whatever */
	CHECK_INT(refuse(5, 50, 4 + REDIRECT_LIFE_MS), -ESTALE); /* too long ago to be the same open */
	end();
}

static void unseen_thread_is_text_busy(void)
{
	begin();
	CHECK_INT(refuse(0, 0, 0), -ETXTBSY);
	CHECK(!redirect_has(table, 0));
	end();
}

static void new_refusal_hands_the_old_stage_out(void)
{
	struct redirect out;
	uint64_t dropped = 0;

	begin();
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(look(5, 50, "e", 1), REDIRECT_MAKE);
	CHECK_INT(bind_stage(5, 50, STAGE, "e"), 0);
	CHECK_INT(redirect_refuse(table, 5, 50, OLD + 1, 0, 0, NULL, 2, &dropped), -ESTALE);
	CHECK_INT(dropped, STAGE);
	CHECK_INT(redirect_lookup(table, 5, 50, DIRECTORY, "f", 3, &out), REDIRECT_MAKE);
	CHECK_INT(out.refused, OLD + 1);
	CHECK_INT(out.stage, 0);
	CHECK(!ends(5, STAGE));
	end();
}

static void same_inode_refused_again_after_its_stage_begins_anew(void)
{
	uint64_t dropped = 0;

	begin();
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(look(5, 50, "e", 1), REDIRECT_MAKE);
	CHECK_INT(bind_stage(5, 50, STAGE, "e"), 0);
	CHECK_INT(redirect_refuse(table, 5, 50, OLD, 0, 0, NULL, 2, &dropped), -ESTALE);
	CHECK_INT(dropped, STAGE);
	CHECK_INT(look(5, 50, "e", 3), REDIRECT_MAKE);
	end();
}

static void reused_tid_inherits_nothing(void)
{
	uint64_t dropped = 0;

	begin();
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(look(5, 51, "e", 1), REDIRECT_NONE);
	CHECK_INT(bind_stage(5, 51, STAGE, "e"), -ESTALE);
	CHECK_INT(look(5, 50, "e", 1), REDIRECT_MAKE);
	CHECK_INT(bind_stage(5, 50, STAGE, "e"), 0);
	CHECK_INT(look(5, 51, "e", 1), REDIRECT_NONE);
	CHECK_INT(redirect_refuse(table, 5, 51, OLD, 0, 0, NULL, 2, &dropped), -ESTALE);
	CHECK_INT(dropped, STAGE);
	end();
	begin(); /* not even the memory of the refusal */
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(refuse(5, 51, 1), -ESTALE);
	end();
}

static void two_threads_get_two_stages(void)
{
	struct redirect out;

	begin();
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(refuse(6, 60, 0), -ESTALE);
	CHECK_INT(look(6, 60, "e", 1), REDIRECT_MAKE);
	CHECK_INT(bind_stage(6, 60, STAGE + 6, "e"), 0);
	CHECK_INT(look(5, 50, "e", 1), REDIRECT_MAKE);
	CHECK_INT(bind_stage(5, 50, STAGE + 5, "e"), 0);
	CHECK_INT(redirect_lookup(table, 6, 60, DIRECTORY, "e", 1, &out), REDIRECT_STAGE);
	CHECK_INT(out.stage, STAGE + 6);
	CHECK(!ends(5, STAGE + 6));
	CHECK(ends(6, STAGE + 6));
	CHECK_INT(redirect_lookup(table, 5, 50, DIRECTORY, "e", 1, &out), REDIRECT_STAGE);
	CHECK_INT(out.stage, STAGE + 5);
	end();
}

static void second_stage_is_not_bound(void)
{
	char name[BANK_NAME_MAX + 2];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	begin();
	CHECK_INT(bind_stage(5, 50, STAGE, "e"), -ESTALE);
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(bind_stage(5, 50, STAGE, name), -ENAMETOOLONG);
	name[BANK_NAME_MAX] = '\0';
	CHECK_INT(bind_stage(5, 50, STAGE, name), 0);
	CHECK_INT(bind_stage(5, 50, STAGE + 1, "e"), -ESTALE);
	CHECK_INT(look(5, 50, name, 1), REDIRECT_STAGE);
	end();
}

/* What the upkeep was told. */
struct world {
	pid_t living;
	unsigned asked, dropped;
	uint64_t last_dropped;
};

static bool world_alive(void *ctx, pid_t tid)
{
	struct world *world = ctx;

	world->asked++;
	CHECK(redirect_has(table, tid)); /* would hang if the lock were held */
	return tid == world->living;
}

static void world_drop(void *ctx, uint64_t stage)
{
	struct world *world = ctx;

	world->dropped++;
	world->last_dropped = stage;
	CHECK(!ends(5, stage)); /* it is ours alone now */
}

static unsigned expire(struct world *world, int64_t now_ms)
{
	const struct redirect_upkeep upkeep = {.ctx = world, .alive = world_alive, .drop = world_drop};

	return redirect_expire(table, now_ms, &upkeep);
}

static void upkeep_ends_the_old_and_the_orphaned(void)
{
	struct world world = {.living = 6};

	begin();
	CHECK_INT(expire(&world, 0), 0);
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(look(5, 50, "e", 1), REDIRECT_MAKE);
	CHECK_INT(bind_stage(5, 50, STAGE, "e"), 0);
	CHECK_INT(refuse(6, 60, 0), -ESTALE);
	CHECK_INT(expire(&world, 1), 1);
	CHECK_INT(world.asked, 2);
	CHECK_INT(world.dropped, 1);
	CHECK_INT(world.last_dropped, STAGE);
	CHECK(!redirect_has(table, 5));
	CHECK(redirect_has(table, 6));
	CHECK_INT(expire(&world, REDIRECT_LIFE_MS - 1), 0);
	CHECK_INT(look(6, 60, "e", REDIRECT_LIFE_MS), REDIRECT_NONE); /* even before the upkeep */
	CHECK_INT(expire(&world, REDIRECT_LIFE_MS), 1);
	CHECK(!redirect_has(table, 6));
	CHECK_INT(world.dropped, 1); /* it had no stage */
	end();
}

/* The thread reaches its stage while the upkeep asks about it. */
static bool reaches_its_stage(void *ctx, pid_t tid)
{
	(void)ctx;
	CHECK(ends(tid, STAGE));
	CHECK_INT(refuse(tid, 50, 2), -ESTALE);
	return false;
}

static void upkeep_leaves_whoever_moved_on(void)
{
	struct world world = {0};
	const struct redirect_upkeep upkeep = {.ctx = &world, .alive = reaches_its_stage, .drop = world_drop};

	begin();
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(bind_stage(5, 50, STAGE, "e"), 0);
	CHECK_INT(redirect_expire(table, 1, &upkeep), 0);
	CHECK_INT(world.dropped, 0);
	CHECK(redirect_has(table, 5));
	end();
}

static void table_is_bounded(void)
{
	struct world world = {0};

	begin();
	for (unsigned tid = 1; tid <= REDIRECTS_MAX; tid++)
		if (refuse((pid_t)tid, 1, 0) != -ESTALE)
			CHECK(!"refused before the bound");
	CHECK_INT(refuse(REDIRECTS_MAX + 1, 1, 0), -ENFILE);
	CHECK(!redirect_has(table, REDIRECTS_MAX + 1));
	CHECK_INT(refuse(17, 2, 0), -ESTALE); /* replaces, so there is room */
	CHECK_INT(expire(&world, REDIRECT_LIFE_MS), REDIRECTS_MAX);
	CHECK_INT(refuse(REDIRECTS_MAX + 1, 1, 0), -ESTALE);
	end();
}

static void closing_thread_is_on_no_way(void)
{
	begin();
	CHECK_INT(redirect_abandon(table, 5), 0);
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(redirect_abandon(table, 6), 0);
	CHECK_INT(redirect_abandon(table, 5), 0);
	CHECK(!redirect_has(table, 5));
	CHECK_INT(refuse(5, 50, 0), -ESTALE);
	CHECK_INT(bind_stage(5, 50, STAGE, "e"), 0);
	CHECK_INT(redirect_abandon(table, 5), STAGE);
	CHECK_INT(redirect_abandon(table, 5), 0);
	end();
}

#define ROUNDS	2000
#define THREADS 4

/* One writer's life over and over; its stages are its own. */
static void *writer(void *arg)
{
	pid_t tid = *(pid_t *)arg;
	struct redirect out;
	uint64_t dropped;
	long bad = 0;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t stage = (uint64_t)tid * ROUNDS + i + 1;

		bad += redirect_refuse(table, tid, 1, OLD, BANK_TRUNC, 0, NULL, 0, &dropped) != -ESTALE;
		bad += !redirect_has(table, tid);
		bad += redirect_lookup(table, tid, 1, DIRECTORY, "e", 0, &out) != REDIRECT_MAKE;
		bad += redirect_bind(table, tid, 1, stage, DIRECTORY, "e") != 0;
		bad += redirect_lookup(table, tid, 1, DIRECTORY, "e", 0, &out) != REDIRECT_STAGE;
		bad += out.stage != stage;
		bad += !ends(tid, stage);
		bad += redirect_has(table, tid);
	}
	return (void *)bad;
}

static bool all_live(void *ctx, pid_t tid)
{
	(void)ctx;
	return tid > 0;
}

static void threads_at_once(void)
{
	pthread_t threads[THREADS];
	pid_t tids[THREADS];
	struct world world = {0};
	const struct redirect_upkeep upkeep = {.ctx = &world, .alive = all_live, .drop = world_drop};
	void *bad;

	begin();
	for (int i = 0; i < THREADS; i++) {
		tids[i] = i + 1;
		CHECK_INT(pthread_create(&threads[i], NULL, writer, &tids[i]), 0);
	}
	for (int i = 0; i < 500; i++)
		CHECK_INT(redirect_expire(table, 0, &upkeep), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_INT(pthread_join(threads[i], &bad), 0);
		CHECK_INT((long)bad, 0);
	}
	end();
}

int main(void)
{
	RUN("the LOOKUP of the refused name is told from all others", the_refused_name_is_known);
	RUN("a refused writer is led to its stage, once", whole_way);
	RUN("any number of LOOKUPs leads to the same stage", number_of_lookups_varies);
	RUN("a stage is given out under its name only", other_names_are_left_alone);
	RUN("the same refusal again without a LOOKUP is ETXTBSY", no_lookup_is_text_busy);
	RUN("a thread that cannot be seen is not redirected", unseen_thread_is_text_busy);
	RUN("a refusal of another inode hands the old stage out", new_refusal_hands_the_old_stage_out);
	RUN("the same inode refused after its stage begins anew",
	    same_inode_refused_again_after_its_stage_begins_anew);
	RUN("a reused tid inherits nothing", reused_tid_inherits_nothing);
	RUN("two threads get two stages", two_threads_get_two_stages);
	RUN("a second stage is not bound, a name of 255 bytes is", second_stage_is_not_bound);
	RUN("the upkeep ends what is old or has no thread", upkeep_ends_the_old_and_the_orphaned);
	RUN("the upkeep leaves a thread that moved on meanwhile", upkeep_leaves_whoever_moved_on);
	RUN("a thread that closes files is on no way", closing_thread_is_on_no_way);
	RUN("the table is bounded and empties again", table_is_bounded);
	RUN("threads at once do not meet", threads_at_once);
	UNIT_END();
}
