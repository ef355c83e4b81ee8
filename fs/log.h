/* SPDX-License-Identifier: GPL-2.0-or-later */
/* log.h - lines for the operator: to standard error at first and with -f, to syslog once in the background.
 *
 * Priorities are those of syslog(3): LOG_ERR the operator must act, LOG_WARNING something is degraded,
 * LOG_INFO start and stop, LOG_DEBUG single requests (shown with -d only). No entry names and no
 * content above LOG_DEBUG. */
#ifndef KV_FS_LOG_H
#define KV_FS_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <syslog.h>

#define LOG_LINE_CAP 480u /* bytes of a line; more is cut */

enum fuse_log_level;

/* Before any other call. With debug LOG_DEBUG is shown too, and lines never wait in the queue. Without
 * foreground LOG_INFO goes to syslog from the start: on a terminal, success is silent. */
void log_open(bool debug, bool foreground);
/* From now on everything to syslog. Any thread. */
void log_to_syslog(void);
/* From now on a thread of its own writes the lines: log_line only enqueues and never waits for a
 * slow reader. After the last fork. 0 or -errno (then lines are written directly, as before). */
int log_start(void);
/* Writes what is queued and ends the thread. */
void log_stop(void);

/* One line, without a newline at the end. Any thread, also with locks held. */
void log_line(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Past the queue, for the last words of a process that will not run log_stop. */
void log_line_now(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same as bank_hooks.log; ctx is not used. */
void log_hook(void *ctx, int priority, const char *line);

/* For fuse_set_log_func. */
void log_fuse(enum fuse_log_level level, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
/* While buf is set, libfuse's lines are kept there (the newest one) and not shown, so that a caller can
 * put its words into a line of its own. NULL ends that. Only before threads run. */
void log_hold_fuse(char *buf, size_t cap);

#endif
