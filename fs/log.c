/* SPDX-License-Identifier: GPL-2.0-or-later */
/* log.c - lines to standard error or syslog.
 *
 * A reader of the log can be slow or stopped (a full pipe, a journal that hangs), and lines come from
 * threads that hold the bank's lock. So once log_start ran, log_line only copies into a ring of fixed
 * size, and one thread writes. A full ring drops the line and counts it; the count is told when there
 * is room again. With -d every request makes lines: they are written directly, slow and complete.
 *
 * Lock: `queue.lock` covers the ring; taken alone, never held while writing.
 * Easy to forget: log_stop must run after everything that logs has ended, or its last words are lost.
 */
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#include "fs/log.h"

#include <errno.h>
#include <fuse_log.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define QUEUE_LINES 256u
#define OWN_NAME    "kvbankfs"

struct line {
	int priority;
	char text[LOG_LINE_CAP];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	pthread_t thread;
	bool running;
	bool stop;
	size_t first, count; /* of `lines` */
	unsigned long dropped;
	struct line lines[QUEUE_LINES];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

static atomic_bool to_syslog;
static bool debug_shown;
static bool quiet_terminal;
static char *held_text;
static size_t held_cap;

void log_open(bool debug, bool foreground)
{
	debug_shown = debug;
	quiet_terminal = !foreground;
	openlog(OWN_NAME, LOG_PID, LOG_DAEMON);
}

void log_to_syslog(void)
{
	atomic_store(&to_syslog, true);
}

/* One write(2) a line, so that lines of different threads do not mix. */
static void write_line(int priority, const char *text)
{
	char line[LOG_LINE_CAP + sizeof(OWN_NAME) + 8];
	int len;

	if (atomic_load(&to_syslog) || (quiet_terminal && priority >= LOG_INFO)) {
		syslog(priority, "%s", text);
		return;
	}
	len = snprintf(line, sizeof(line), OWN_NAME ": %s\n", text);
	if (len > 0 && write(STDERR_FILENO, line, (size_t)len) < 0)
		return; /* nobody to tell */
}

static bool pop_locked(struct line *out, unsigned long *dropped)
{
	*dropped = queue.dropped;
	queue.dropped = 0;
	if (!queue.count)
		return false;
	*out = queue.lines[queue.first];
	queue.first = (queue.first + 1) % QUEUE_LINES;
	queue.count--;
	return true;
}

static void write_popped(const struct line *line, bool got, unsigned long dropped)
{
	char text[96];

	if (got)
		write_line(line->priority, line->text);
	if (!dropped)
		return;
	snprintf(text, sizeof(text), "%lu lines of this log were lost: too many at once", dropped);
	write_line(LOG_WARNING, text);
}

static void *writer(void *arg)
{
	struct line line;
	unsigned long dropped;
	bool got;

	(void)arg;
	pthread_mutex_lock(&queue.lock);
	for (;;) {
		got = pop_locked(&line, &dropped);
		if (!got && !dropped && queue.stop)
			break;
		if (!got && !dropped) {
			pthread_cond_wait(&queue.filled, &queue.lock);
			continue;
		}
		pthread_mutex_unlock(&queue.lock);
		write_popped(&line, got, dropped);
		pthread_mutex_lock(&queue.lock);
	}
	pthread_mutex_unlock(&queue.lock);
	return NULL;
}

int log_start(void)
{
	int ret = 0;

	if (debug_shown)
		return 0;
	pthread_mutex_lock(&queue.lock);
	queue.stop = false;
	ret = pthread_create(&queue.thread, NULL, writer, NULL);
	queue.running = !ret;
	pthread_mutex_unlock(&queue.lock);
	return -ret;
}

void log_stop(void)
{
	bool running;

	pthread_mutex_lock(&queue.lock);
	running = queue.running;
	queue.running = false;
	queue.stop = true;
	pthread_cond_signal(&queue.filled);
	pthread_mutex_unlock(&queue.lock);
	if (running)
		pthread_join(queue.thread, NULL);
}

/* False: there is no thread that would write it. */
static bool enqueue(int priority, const char *text)
{
	bool running;

	pthread_mutex_lock(&queue.lock);
	running = queue.running;
	if (running && queue.count == QUEUE_LINES) {
		queue.dropped++;
	} else if (running) {
		struct line *line = &queue.lines[(queue.first + queue.count++) % QUEUE_LINES];

		line->priority = priority;
		snprintf(line->text, sizeof(line->text), "%s", text);
		pthread_cond_signal(&queue.filled);
	}
	pthread_mutex_unlock(&queue.lock);
	return running;
}

static void take(int priority, const char *text)
{
	if (priority == LOG_DEBUG && !debug_shown)
		return;
	if (!enqueue(priority, text))
		write_line(priority, text);
}

void log_line(int priority, const char *format, ...)
{
	char text[LOG_LINE_CAP];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	take(priority, text);
}

void log_line_now(int priority, const char *format, ...)
{
	char text[LOG_LINE_CAP];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	write_line(priority, text);
}

void log_hook(void *ctx, int priority, const char *line)
{
	(void)ctx;
	take(priority, line);
}

static int fuse_priority(enum fuse_log_level level)
{
	if (level <= FUSE_LOG_ERR)
		return LOG_ERR;
	if (level == FUSE_LOG_WARNING)
		return LOG_WARNING;
	return level == FUSE_LOG_DEBUG ? LOG_DEBUG : LOG_INFO;
}

void log_hold_fuse(char *buf, size_t cap)
{
	held_text = buf;
	held_cap = cap;
	if (buf)
		buf[0] = 0;
}

void log_fuse(enum fuse_log_level level, const char *format, va_list args)
{
	char text[LOG_LINE_CAP];
	size_t len;

	vsnprintf(text, sizeof(text), format, args);
	len = strlen(text);
	while (len && text[len - 1] == '\n')
		text[--len] = 0;
	if (held_text && level != FUSE_LOG_DEBUG)
		snprintf(held_text, held_cap, "%s", text);
	else
		take(fuse_priority(level), text);
}
