/* SPDX-License-Identifier: GPL-2.0-or-later */
/* redirect.c - writers of existing names on their way to a stage of their own.
 *
 * One way per thread, since a thread waits for one request at a time:
 *
 *	refuse --> REFUSED --LOOKUP of the name, bind--> BOUND --OPEN or SETATTR of the stage--> ended
 *	             |  \__ refused again without a LOOKUP: ETXTBSY, ended           |
 *	             \______ another refusal, another thread with this tid, 10 s, thread gone: ended
 *
 * A way that ends BOUND hands its stage to the caller, who drops it; it never leaves the table in two
 * hands. How many LOOKUPs the kernel sends is its own affair: one, or two when it finds that its cached
 * name is out of date, more when others look at the same name; so they are counted only to tell
 * "none" from "some", and the stage is given out as often as it is asked for.
 *
 * Which LOOKUP is the right one? Not bound: that of the name which the refused inode had, kept here since
 * others may commit any number of versions in between (the kernel walks the path only once more, so
 * answering with one of them would give the program an ESTALE); or of another name, a hard link, of which
 * the bank knows that it stands, or just stood, for the inode. Bound: exactly the name that was bound,
 * whatever it stands for by now.
 *
 * The table is a tsearch tree ordered by tid. Lock: `lock`, a leaf; `count` is also read without it:
 * the thread that asks has been refused before, by an answer that it waited for, so it sees itself.
 *
 * Easy to forget: a thread may be killed between any two steps, and its tid used again at once; thus
 * the start time, and the upkeep.
 */
#include "fs/redirect.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct way {
	pid_t tid; /* the key */
	uint64_t start;
	struct redirect redirect;
	uint64_t lookups;
	uint64_t parent; /* of the name that was refused, 0 = not known; bound: of the name that was bound */
	char name[BANK_NAME_MAX + 1];
	int64_t since_ms;
};

struct redirects {
	pthread_mutex_t lock;
	void *tree; /* of struct way */
	_Atomic unsigned count;
};

static int compare_tids(const void *a, const void *b)
{
	const struct way *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

struct redirects *redirects_new(void)
{
	struct redirects *redirects = calloc(1, sizeof(*redirects));

	if (redirects)
		pthread_mutex_init(&redirects->lock, NULL);
	return redirects;
}

void redirects_free(struct redirects *redirects)
{
	if (!redirects)
		return;
	tdestroy(redirects->tree, free);
	pthread_mutex_destroy(&redirects->lock);
	free(redirects);
}

/* Whichever thread the way of `tid` belongs to. */
static struct way *way_of_tid_locked(struct redirects *redirects, pid_t tid)
{
	struct way key = {.tid = tid};
	struct way **node = tfind(&key, &redirects->tree, compare_tids);

	return node ? *node : NULL;
}

/* The way of exactly this thread. */
static struct way *way_find_locked(struct redirects *redirects, pid_t tid, uint64_t start)
{
	struct way *way = way_of_tid_locked(redirects, tid);

	return way && way->start == start ? way : NULL;
}

static bool way_is_old(const struct way *way, int64_t now_ms)
{
	return now_ms - way->since_ms >= REDIRECT_LIFE_MS;
}

/* Ends a way, consumes it, and returns the stage that now belongs to the caller, or 0. */
static uint64_t way_end_locked(struct redirects *redirects, struct way *way)
{
	uint64_t stage = way->redirect.stage;
	void *gone = tdelete(way, &redirects->tree, compare_tids);

	assert(gone);
	(void)gone;
	free(way);
	redirects->count--;
	return stage;
}

/* Puts a way into the table; consumes it when that fails. */
static int way_insert_locked(struct redirects *redirects, struct way *way)
{
	if (redirects->count >= REDIRECTS_MAX) {
		free(way);
		return -ENFILE;
	}
	if (!tsearch(way, &redirects->tree, compare_tids)) {
		free(way);
		return -ENOMEM;
	}
	redirects->count++;
	return 0;
}

/* Ends what the tid was up to before. Returns true when that was the same refusal, and no LOOKUP came. */
static bool refuse_previous_locked(struct redirects *redirects, const struct way *next, uint64_t *dropped)
{
	struct way *way = way_of_tid_locked(redirects, next->tid);
	bool again;

	*dropped = 0;
	if (!way)
		return false;
	again = way->start == next->start && way->redirect.refused == next->redirect.refused &&
		!way->lookups && !way_is_old(way, next->since_ms);
	*dropped = way_end_locked(redirects, way);
	return again;
}

int redirect_refuse(struct redirects *redirects, pid_t tid, uint64_t start, uint64_t refused, unsigned flags,
		    uint64_t parent, const char *name, int64_t now_ms, uint64_t *dropped)
{
	struct way *way;
	int ret;

	*dropped = 0;
	if (tid <= 0)
		return -ETXTBSY;
	way = calloc(1, sizeof(*way));
	if (!way)
		return -ENOMEM;
	way->tid = tid;
	way->start = start;
	way->redirect.refused = refused;
	way->redirect.flags = flags;
	if (name && strlen(name) <= BANK_NAME_MAX) {
		way->parent = parent;
		strcpy(way->name, name);
	}
	way->since_ms = now_ms;
	pthread_mutex_lock(&redirects->lock);
	if (refuse_previous_locked(redirects, way, dropped)) {
		free(way);
		ret = -ETXTBSY;
	} else {
		ret = way_insert_locked(redirects, way);
	}
	pthread_mutex_unlock(&redirects->lock);
	return ret ? ret : -ESTALE;
}

bool redirect_has(struct redirects *redirects, pid_t tid)
{
	bool has;

	if (!redirects->count)
		return false;
	pthread_mutex_lock(&redirects->lock);
	has = way_of_tid_locked(redirects, tid) != NULL;
	pthread_mutex_unlock(&redirects->lock);
	return has;
}

static enum redirect_answer way_answer(const struct way *way, bool same_name)
{
	if (!way->redirect.stage)
		return REDIRECT_MAKE;
	return same_name ? REDIRECT_STAGE : REDIRECT_NONE;
}

enum redirect_answer redirect_lookup(struct redirects *redirects, pid_t tid, uint64_t start, uint64_t parent,
				     const char *name, int64_t now_ms, struct redirect *out)
{
	enum redirect_answer answer = REDIRECT_NONE;
	struct way *way;

	pthread_mutex_lock(&redirects->lock);
	way = way_find_locked(redirects, tid, start);
	if (way && !way_is_old(way, now_ms)) {
		way->lookups++;
		way->redirect.same_name = way->parent == parent && !strcmp(way->name, name);
		answer = way_answer(way, way->redirect.same_name);
		if (answer != REDIRECT_NONE)
			*out = way->redirect;
	}
	pthread_mutex_unlock(&redirects->lock);
	return answer;
}

int redirect_bind(struct redirects *redirects, pid_t tid, uint64_t start, uint64_t stage, uint64_t parent,
		  const char *name)
{
	int ret = -ESTALE;
	struct way *way;

	if (strlen(name) > BANK_NAME_MAX)
		return -ENAMETOOLONG;
	pthread_mutex_lock(&redirects->lock);
	way = way_find_locked(redirects, tid, start);
	if (way && !way->redirect.stage) {
		way->redirect.stage = stage;
		way->parent = parent;
		strcpy(way->name, name);
		ret = 0;
	}
	pthread_mutex_unlock(&redirects->lock);
	return ret;
}

bool redirect_end(struct redirects *redirects, pid_t tid, uint64_t stage, unsigned *flags)
{
	struct way *way;
	bool ended = false;

	if (!redirects->count || !stage)
		return false;
	pthread_mutex_lock(&redirects->lock);
	way = way_of_tid_locked(redirects, tid);
	if (way && way->redirect.stage == stage) {
		*flags = way->redirect.flags;
		way_end_locked(redirects, way);
		ended = true;
	}
	pthread_mutex_unlock(&redirects->lock);
	return ended;
}

uint64_t redirect_abandon(struct redirects *redirects, pid_t tid)
{
	struct way *way;
	uint64_t stage = 0;

	if (!redirects->count)
		return 0;
	pthread_mutex_lock(&redirects->lock);
	way = way_of_tid_locked(redirects, tid);
	if (way)
		stage = way_end_locked(redirects, way);
	pthread_mutex_unlock(&redirects->lock);
	return stage;
}

/* What the upkeep takes out of the table to ask about, without the lock. */
struct suspect {
	pid_t tid;
	uint64_t start;
	int64_t since_ms;
	bool ended; /* beyond doubt */
	uint64_t stage;
};

struct suspects {
	int64_t now_ms;
	size_t count, room;
	struct suspect *list;
};

static void suspect_collect(const void *node, VISIT visit, void *arg)
{
	const struct way *way = *(struct way *const *)node;
	struct suspects *suspects = arg;

	if (visit != postorder && visit != leaf)
		return;
	if (suspects->count == suspects->room)
		return;
	suspects->list[suspects->count++] = (struct suspect){
		.tid = way->tid,
		.start = way->start,
		.since_ms = way->since_ms,
		.ended = way_is_old(way, suspects->now_ms),
	};
}

/* Lists all ways. Without memory: nothing this time. */
static void suspects_collect(struct redirects *redirects, struct suspects *suspects)
{
	pthread_mutex_lock(&redirects->lock);
	suspects->room = redirects->count;
	suspects->list = suspects->room ? calloc(suspects->room, sizeof(*suspects->list)) : NULL;
	if (suspects->list)
		twalk_r(redirects->tree, suspect_collect, suspects);
	pthread_mutex_unlock(&redirects->lock);
}

/* Ends the way of a suspect, unless the thread has moved on meanwhile. */
static bool suspect_end_locked(struct redirects *redirects, struct suspect *suspect)
{
	struct way *way = way_find_locked(redirects, suspect->tid, suspect->start);

	if (!suspect->ended || !way || way->since_ms != suspect->since_ms)
		return false;
	suspect->stage = way_end_locked(redirects, way);
	return true;
}

unsigned redirect_expire(struct redirects *redirects, int64_t now_ms, const struct redirect_upkeep *upkeep)
{
	struct suspects suspects = {.now_ms = now_ms};
	unsigned ended = 0;

	if (!redirects->count)
		return 0;
	suspects_collect(redirects, &suspects);
	for (size_t i = 0; i < suspects.count; i++)
		if (!suspects.list[i].ended)
			suspects.list[i].ended = !upkeep->alive(upkeep->ctx, suspects.list[i].tid);
	pthread_mutex_lock(&redirects->lock);
	for (size_t i = 0; i < suspects.count; i++)
		ended += suspect_end_locked(redirects, &suspects.list[i]);
	pthread_mutex_unlock(&redirects->lock);
	for (size_t i = 0; i < suspects.count; i++)
		if (suspects.list[i].stage)
			upkeep->drop(upkeep->ctx, suspects.list[i].stage);
	free(suspects.list);
	return ended;
}
