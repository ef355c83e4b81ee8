/* SPDX-License-Identifier: GPL-2.0-or-later */
/* handles.c - a list with a lock. Easy to forget: close takes locks of the bank, so it is never called
 * with the list's lock held. */
#include "fs/handles.h"

#include <pthread.h>
#include <stdlib.h>
#include <utlist.h>

struct handles {
	pthread_mutex_t lock;
	struct handle *first;
};

struct handles *handles_new(void)
{
	struct handles *all = calloc(1, sizeof(*all));

	if (all)
		pthread_mutex_init(&all->lock, NULL);
	return all;
}

void handles_free(struct handles *all)
{
	if (!all)
		return;
	pthread_mutex_destroy(&all->lock);
	free(all);
}

void handles_add(struct handles *all, struct handle *h)
{
	pthread_mutex_lock(&all->lock);
	DL_APPEND(all->first, h);
	pthread_mutex_unlock(&all->lock);
}

void handles_remove(struct handles *all, struct handle *h)
{
	pthread_mutex_lock(&all->lock);
	DL_DELETE(all->first, h);
	pthread_mutex_unlock(&all->lock);
}

void handles_close_all(struct handles *all, struct fs *fs)
{
	struct handle *h;

	if (!all)
		return;
	for (;;) {
		pthread_mutex_lock(&all->lock);
		h = all->first;
		if (h)
			DL_DELETE(all->first, h);
		pthread_mutex_unlock(&all->lock);
		if (!h)
			return;
		h->close(fs, h);
	}
}
