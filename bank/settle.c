/* SPDX-License-Identifier: GPL-2.0-or-later */
/* settle.c - lazy versions become settled: sealed, their SHA-256 known.
 *
 * One thread at idle priority, one version at a time, so hashing never costs more than one core and
 * never a put. The queue is the versions themselves. A version that ends while it waits leaves the
 * queue; one that ends, or whose bytes may change after all (hash_epoch), or whose RAM somebody needs
 * (settle_abort) while it is hashed is given up, in the last case to begin again later.
 *
 * Settled is said only when nobody can write the bytes any more (ram_file_unwritable). */
#include "bank/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>
#include <utlist.h>

#include "codec/digest.h"

enum { HASH_CHUNK = 1 << 20, IDLE_NICE = 19 };

void settle_enqueue(struct bank *b, struct version *v)
{
	if (v->settled || v->settle_queued || v == b->settling)
		return;
	DL_APPEND2(b->settle_queue, v, settle_prev, settle_next);
	v->settle_queued = true;
	b->count.settle_queue_entries++;
	pthread_cond_signal(&b->settle_work);
}

void settle_cancel(struct bank *b, struct version *v)
{
	if (!v->settle_queued)
		return;
	DL_DELETE2(b->settle_queue, v, settle_prev, settle_next);
	v->settle_queued = false;
	b->count.settle_queue_entries--;
}

int settle_wait(struct bank *b, struct version *v)
{
	unsigned epoch = v->hash_epoch;

	while (!v->settled && !b->stopping) {
		if (v->state != VERSION_COMMITTED || v->hash_epoch != epoch)
			return -ESTALE;
		if (!v->settle_queued && v != b->settling)
			return -EIO;
		core_wait(b, &b->changed, -1);
	}
	return v->settled ? 0 : -EINTR;
}

static bool given_up(struct bank *b, const struct version *v, unsigned epoch)
{
	bool up;

	pthread_mutex_lock(&b->lock);
	up = b->settle_abort || v->state != VERSION_COMMITTED || v->hash_epoch != epoch;
	pthread_mutex_unlock(&b->lock);
	return up;
}

/* Without the lock. -ECANCELED: given up. */
static int hash_content(struct bank *b, const struct version *v, struct content *c, unsigned epoch, uint8_t sha256[DIGEST_LEN])
{
	struct digest *d = digest_new();
	char *buf = malloc(HASH_CHUNK);
	uint64_t off = 0;
	ssize_t n = 1;
	int ret = d && buf ? 0 : -ENOMEM;

	while (!ret && n > 0) {
		n = content_read(c, buf, HASH_CHUNK, off);
		ret = n < 0 ? (int)n : n ? digest_add(d, buf, (size_t)n) : 0;
		off += n > 0 ? (uint64_t)n : 0;
		if (!ret && given_up(b, v, epoch))
			ret = -ECANCELED;
	}
	if (!ret)
		ret = digest_end(d, sha256);
	digest_free(d);
	free(buf);
	return ret;
}

static void now_settled(struct bank *b, struct version *v, const uint8_t sha256[DIGEST_LEN])
{
	memcpy(v->sha256, sha256, DIGEST_LEN);
	v->settled = true;
	v->settled_at = core_now();
	b->count.settled_entries++;
	core_event_version(b, "settle", "-", v);
}

/* Hashes the first of the queue. Lock held, let go of meanwhile. */
static void settle_first(struct bank *b)
{
	struct version *v = b->settle_queue;
	struct content *c = v->content;
	unsigned epoch = v->hash_epoch;
	uint8_t sha256[DIGEST_LEN];
	int ret;

	settle_cancel(b, v);
	b->settling = v;
	node_ref(&v->node);
	content_ref(c);
	core_unlock(b);
	ret = hash_content(b, v, c, epoch, sha256);
	core_lock(b);
	b->settling = NULL;
	/* A stage that has just committed rests its descriptor only when it ends; until then the lease
	 * says no, but only this process can write, and that would move the epoch. */
	if (!ret && !v->stage && content_is_plain(c) && !ram_file_unwritable(c->file))
		ret = -EBUSY;
	content_unref(b, c);
	if (!ret && v->state == VERSION_COMMITTED && v->hash_epoch == epoch)
		now_settled(b, v, sha256);
	else if (v->state == VERSION_COMMITTED && (ret == -ECANCELED || v->hash_epoch != epoch))
		settle_enqueue(b, v);
	else if (ret && ret != -ECANCELED)
		core_log(b, LOG_WARNING, "an entry stays lazy: hashing it failed: %s", strerror(-ret));
	node_unref(b, &v->node);
	pthread_cond_broadcast(&b->changed);
}

void *settle_main(void *arg)
{
	struct bank *b = arg;

	/* Of this thread alone; without the right to it, hashing runs at ordinary priority. */
	(void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), IDLE_NICE);
	core_lock(b);
	while (!b->stopping) {
		if (b->settle_queue && !b->room_waiters)
			settle_first(b);
		else
			core_wait(b, &b->settle_work, -1);
	}
	core_unlock(b);
	return NULL;
}
