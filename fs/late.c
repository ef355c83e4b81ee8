/* SPDX-License-Identifier: GPL-2.0-or-later */
/* late.c - the table of late readers, one row a thread, under one lock that is a leaf: readers are
 * closed after it is let go of, because that takes the bank's. */
#include "fs/late.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <uthash.h>

struct row {
	pid_t tid;
	int64_t since_ms;
	uint64_t id;
	struct bank_reader *reader; /* NULL: no LOOKUP yet */
	struct row *next_gone;
	UT_hash_handle hh;
};

struct late {
	pthread_mutex_t lock;
	struct row *rows;
	atomic_uint count;
};

struct late *late_new(void)
{
	struct late *l = calloc(1, sizeof(*l));

	if (l)
		pthread_mutex_init(&l->lock, NULL);
	return l;
}

/* Lock held. The row is the caller's. */
static void take_out(struct late *l, struct row *row)
{
	HASH_DEL(l->rows, row);
	atomic_fetch_sub(&l->count, 1);
}

static void row_free(struct row *row)
{
	if (row->reader)
		bank_read_close(row->reader);
	free(row);
}

void late_free(struct late *l)
{
	struct row *row, *next;

	if (!l)
		return;
	HASH_ITER(hh, l->rows, row, next) {
		take_out(l, row);
		row_free(row);
	}
	pthread_mutex_destroy(&l->lock);
	free(l);
}

void late_note(struct late *l, pid_t tid, int64_t now_ms)
{
	struct row *row;

	if (!tid)
		return;
	pthread_mutex_lock(&l->lock);
	HASH_FIND(hh, l->rows, &tid, sizeof(tid), row);
	if (!row) {
		row = calloc(1, sizeof(*row));
		if (row) {
			row->tid = tid;
			HASH_ADD(hh, l->rows, tid, sizeof(row->tid), row);
			atomic_fetch_add(&l->count, 1);
		}
	}
	if (row)
		row->since_ms = now_ms;
	pthread_mutex_unlock(&l->lock);
}

bool late_has(struct late *l, pid_t tid)
{
	struct row *row;

	if (!tid || !atomic_load(&l->count))
		return false;
	pthread_mutex_lock(&l->lock);
	HASH_FIND(hh, l->rows, &tid, sizeof(tid), row);
	pthread_mutex_unlock(&l->lock);
	return row != NULL;
}

void late_pin(struct late *l, pid_t tid, uint64_t id, struct bank_reader *reader)
{
	struct bank_reader *old = reader;
	struct row *row;

	pthread_mutex_lock(&l->lock);
	HASH_FIND(hh, l->rows, &tid, sizeof(tid), row);
	if (row) {
		old = row->reader;
		row->reader = reader;
		row->id = id;
	}
	pthread_mutex_unlock(&l->lock);
	if (old)
		bank_read_close(old);
}

struct bank_reader *late_take(struct late *l, pid_t tid, uint64_t id)
{
	struct bank_reader *reader = NULL;
	struct row *row;

	if (!tid || !atomic_load(&l->count))
		return NULL;
	pthread_mutex_lock(&l->lock);
	HASH_FIND(hh, l->rows, &tid, sizeof(tid), row);
	if (row)
		take_out(l, row);
	pthread_mutex_unlock(&l->lock);
	if (!row)
		return NULL;
	if (row->id == id) {
		reader = row->reader;
		row->reader = NULL;
	}
	row_free(row);
	return reader;
}

void late_expire(struct late *l, int64_t now_ms)
{
	struct row *gone = NULL, *row, *next;

	if (!atomic_load(&l->count))
		return;
	pthread_mutex_lock(&l->lock);
	HASH_ITER(hh, l->rows, row, next) {
		if (now_ms - row->since_ms < LATE_LIFE_MS)
			continue;
		take_out(l, row);
		row->next_gone = gone;
		gone = row;
	}
	pthread_mutex_unlock(&l->lock);
	for (row = gone; row; row = next) {
		next = row->next_gone;
		row_free(row);
	}
}
