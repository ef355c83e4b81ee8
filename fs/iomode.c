/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iomode.c - a table of the versions that are open for reading now.
 *
 * Its lock is held across the registration of a backing file: two first opens must agree, and that
 * call only touches memory. Taken alone but for bank_reader_backing, which takes the bank's. */
#include "fs/iomode.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <uthash.h>

struct open_version {
	uint64_t id;
	unsigned opens;
	int backing_id; /* 0: page cache */
	UT_hash_handle hh;
};

struct iomode {
	struct fuse_session *session;
	pthread_mutex_t lock;
	struct open_version *open;
};

struct iomode *iomode_new(struct fuse_session *session)
{
	struct iomode *im = calloc(1, sizeof(*im));

	if (!im)
		return NULL;
	im->session = session;
	pthread_mutex_init(&im->lock, NULL);
	return im;
}

void iomode_free(struct iomode *im)
{
	struct open_version *v, *next;

	if (!im)
		return;
	HASH_ITER(hh, im->open, v, next) {
		HASH_DEL(im->open, v);
		free(v);
	}
	pthread_mutex_destroy(&im->lock);
	free(im);
}

/* Whatever is in the way of passthrough, the page cache always works. */
static int try_backing(struct iomode *im, struct bank_reader *reader)
{
	int fd = bank_reader_backing(reader), id;

	if (fd < 0)
		return 0;
	id = compat_backing_open(im->session, fd);
	close(fd);
	return id > 0 ? id : 0;
}

int iomode_open(struct iomode *im, uint64_t id, struct bank_reader *reader, bool may_passthrough)
{
	struct open_version *v;
	int ret;

	pthread_mutex_lock(&im->lock);
	HASH_FIND(hh, im->open, &id, sizeof(id), v);
	if (!v) {
		v = calloc(1, sizeof(*v));
		if (v) {
			v->id = id;
			v->backing_id = may_passthrough ? try_backing(im, reader) : 0;
			HASH_ADD(hh, im->open, id, sizeof(v->id), v);
		}
	}
	if (v)
		v->opens++;
	ret = v ? v->backing_id : -ENOMEM;
	pthread_mutex_unlock(&im->lock);
	return ret;
}

void iomode_close(struct iomode *im, uint64_t id)
{
	struct open_version *v;

	pthread_mutex_lock(&im->lock);
	HASH_FIND(hh, im->open, &id, sizeof(id), v);
	if (v && --v->opens == 0) {
		if (v->backing_id)
			compat_backing_close(im->session, v->backing_id);
		HASH_DEL(im->open, v);
		free(v);
	}
	pthread_mutex_unlock(&im->lock);
}
