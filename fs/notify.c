/* SPDX-License-Identifier: GPL-2.0-or-later */
/* notify.c - the queue and its thread.
 *
 * Easy to forget: a FLUSH that committed must not be answered before the old name is forgotten by the
 * kernel, else another process could open the old version after close(2) returned. So its answer goes
 * through the queue as well; the worker that handled it is free meanwhile. Only requests for which the kernel
 * holds no lock of a directory or an entry may wait so: FSYNC once deadlocked with a rename that way. */
#include "fs/notify.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

enum { TICK_S = 1 };

struct item {
	uint64_t id;	/* parent of the name, or the node whose attributes changed */
	fuse_req_t req; /* or the request to answer */
	int error;
	bool is_name;
	struct item *prev, *next;
	char name[];
};

struct notify {
	struct fuse_session *session;
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t work, idle;
	struct item *queue;
	bool busy; /* an item is being sent */
	bool stopping, started;
	pthread_t thread;
	notify_tick_fn *tick;
	void *ctx;
};

int notify_new(struct fuse_session *session, struct notify **out)
{
	struct notify *n = calloc(1, sizeof(*n));
	pthread_condattr_t monotonic;

	if (!n)
		return -ENOMEM;
	n->session = session;
	pthread_mutex_init(&n->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&n->work, &monotonic);
	pthread_cond_init(&n->idle, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*out = n;
	return 0;
}

static void enqueue(struct notify *n, struct item *item)
{
	pthread_mutex_lock(&n->lock);
	DL_APPEND(n->queue, item);
	pthread_cond_signal(&n->work);
	pthread_mutex_unlock(&n->lock);
}

static struct item *item_new(const char *name)
{
	size_t len = name ? strlen(name) + 1 : 1;
	struct item *item = calloc(1, sizeof(*item) + len);

	if (item && name)
		memcpy(item->name, name, len);
	return item;
}

void notify_name(struct notify *n, uint64_t parent, const char *name)
{
	struct item *item = item_new(name);

	if (!item)
		return;
	item->id = parent;
	item->is_name = true;
	enqueue(n, item);
}

void notify_attr(struct notify *n, uint64_t id)
{
	struct item *item = item_new(NULL);

	if (!item)
		return;
	item->id = id;
	enqueue(n, item);
}

void notify_then_reply(struct notify *n, fuse_req_t req, int error)
{
	struct item *item = item_new(NULL);
	bool idle;

	pthread_mutex_lock(&n->lock);
	idle = !item || (!n->queue && !n->busy) || n->stopping;
	if (!idle) {
		item->req = req;
		item->error = error;
		DL_APPEND(n->queue, item);
		pthread_cond_signal(&n->work);
	}
	pthread_mutex_unlock(&n->lock);
	if (idle) {
		free(item);
		fuse_reply_err(req, error);
	}
}

void notify_wait(struct notify *n)
{
	pthread_mutex_lock(&n->lock);
	while ((n->queue || n->busy) && n->started && !n->stopping)
		pthread_cond_wait(&n->idle, &n->lock);
	pthread_mutex_unlock(&n->lock);
}

/* Errors mean that the kernel had nothing cached. */
static void send_item(struct notify *n, const struct item *item)
{
	if (item->req)
		fuse_reply_err(item->req, item->error);
	else if (item->is_name)
		fuse_lowlevel_notify_inval_entry(n->session, item->id, item->name, strlen(item->name));
	else
		fuse_lowlevel_notify_inval_inode(n->session, item->id, -1, 0);
}

/* Lock held: waits for work or the next tick. Returns whether it is time for the tick. */
static bool wait_for_work(struct notify *n, struct timespec *next_tick)
{
	struct timespec now;

	while (!n->queue && !n->stopping)
		if (pthread_cond_timedwait(&n->work, &n->lock, next_tick) == ETIMEDOUT)
			break;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec < next_tick->tv_sec)
		return false;
	next_tick->tv_sec = now.tv_sec + TICK_S;
	return true;
}

static void *notify_main(void *arg)
{
	struct notify *n = arg;
	struct timespec next_tick;

	clock_gettime(CLOCK_MONOTONIC, &next_tick);
	next_tick.tv_sec += TICK_S;
	pthread_mutex_lock(&n->lock);
	while (!n->stopping) {
		bool tick = wait_for_work(n, &next_tick);
		struct item *item = n->queue;

		if (item)
			DL_DELETE(n->queue, item);
		n->busy = item != NULL;
		pthread_mutex_unlock(&n->lock);
		if (item)
			send_item(n, item);
		free(item);
		if (tick && n->tick)
			n->tick(n->ctx);
		pthread_mutex_lock(&n->lock);
		n->busy = false;
		if (!n->queue)
			pthread_cond_broadcast(&n->idle);
	}
	pthread_cond_broadcast(&n->idle);
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

int notify_start(struct notify *n, notify_tick_fn *tick, void *ctx)
{
	int ret;

	n->tick = tick;
	n->ctx = ctx;
	ret = pthread_create(&n->thread, NULL, notify_main, n);
	n->started = !ret;
	return -ret;
}

void notify_stop(struct notify *n)
{
	struct item *item, *next;

	pthread_mutex_lock(&n->lock);
	n->stopping = true;
	pthread_cond_signal(&n->work);
	pthread_mutex_unlock(&n->lock);
	if (n->started)
		pthread_join(n->thread, NULL);
	n->started = false;
	DL_FOREACH_SAFE(n->queue, item, next) {
		DL_DELETE(n->queue, item);
		if (item->req)
			fuse_reply_err(item->req, item->error);
		free(item);
	}
}

void notify_free(struct notify *n)
{
	if (!n)
		return;
	pthread_cond_destroy(&n->work);
	pthread_cond_destroy(&n->idle);
	pthread_mutex_destroy(&n->lock);
	free(n);
}
