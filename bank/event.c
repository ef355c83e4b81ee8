/* SPDX-License-Identifier: GPL-2.0-or-later */
/* event.c - the ring. RING_BYTES hold some ten thousand ordinary lines; the oldest line goes whole,
 * so a reader that starts at the oldest offset always starts at a line. */
#include "bank/event.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RING_BYTES = 2 << 20, LINE_MAX_BYTES = 8192 };

struct events {
	pthread_mutex_t lock;
	char *ring;
	uint64_t start, end; /* offsets of the oldest byte kept and behind the newest */
	struct timespec last;
};

struct events *events_new(void)
{
	struct events *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->ring = malloc(RING_BYTES);
	if (!e->ring) {
		free(e);
		return NULL;
	}
	pthread_mutex_init(&e->lock, NULL);
	return e;
}

void events_free(struct events *e)
{
	if (!e)
		return;
	pthread_mutex_destroy(&e->lock);
	free(e->ring);
	free(e);
}

/* Gives up whole lines until len bytes are free. */
static void make_space(struct events *e, size_t len)
{
	while (e->end - e->start + len > RING_BYTES) {
		while (e->ring[e->start % RING_BYTES] != '\n')
			e->start++;
		e->start++;
	}
}

static void ring_put(struct events *e, const char *line, size_t len)
{
	size_t at = e->end % RING_BYTES, first = RING_BYTES - at < len ? RING_BYTES - at : len;

	memcpy(e->ring + at, line, first);
	memcpy(e->ring, line + first, len - first);
	e->end += len;
}

void events_add(struct events *e, const char *event, const char *reason, uint64_t bytes, const char *path)
{
	char line[LINE_MAX_BYTES], when[32];
	struct timespec now;
	struct tm tm;
	int len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	len = snprintf(line, sizeof(line), "%s.%06ldZ %s reason=%s bytes=%llu path=%s\n", when, now.tv_nsec / 1000, event,
		       reason, (unsigned long long)bytes, path);
	if (len >= (int)sizeof(line)) { /* a path of many escaped names: cut, but still a line */
		len = sizeof(line) - 1;
		line[len - 1] = '\n';
	}
	pthread_mutex_lock(&e->lock);
	make_space(e, (size_t)len);
	ring_put(e, line, (size_t)len);
	e->last = now;
	pthread_mutex_unlock(&e->lock);
}

size_t events_read(struct events *e, uint64_t *off, char *buf, size_t cap)
{
	size_t len, at, first;

	pthread_mutex_lock(&e->lock);
	if (*off < e->start)
		*off = e->start;
	len = *off >= e->end ? 0 : e->end - *off;
	len = len < cap ? len : cap;
	at = *off % RING_BYTES;
	first = RING_BYTES - at < len ? RING_BYTES - at : len;
	memcpy(buf, e->ring + at, first);
	memcpy(buf + first, e->ring, len - first);
	pthread_mutex_unlock(&e->lock);
	return len;
}

uint64_t events_end(struct events *e, struct timespec *last)
{
	uint64_t end;

	pthread_mutex_lock(&e->lock);
	end = e->end;
	if (last)
		*last = e->last;
	pthread_mutex_unlock(&e->lock);
	return end;
}
