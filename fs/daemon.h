/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon.h - being a process that serves for long: background, readiness, signals, limits. */
#ifndef KV_FS_DAEMON_H
#define KV_FS_DAEMON_H

#include <stdbool.h>
#include <stddef.h>

/* First of all: opens /dev/null on whichever of descriptors 0 to 2 is closed, so that no file of ours
 * gets such a number and a stray message into it. */
void daemon_standard_fds(void);
/* Without foreground forks, before any thread is there. The parent waits until daemon_ready and exits
 * with 0, or with the child's status when that ends first; only the child returns. 0 or -errno. */
int daemon_background(bool foreground);
/* No core dumps, umask 077, as many descriptors as allowed, and every signal of concern blocked in this
 * thread and all made from it. Once, before the first thread. */
void daemon_harden(void);

/* The mount is up: lets the parent go, leaves terminal and standard descriptors, tells systemd. Called by
 * the init handler; later calls do nothing. */
void daemon_ready(void);
bool daemon_is_ready(void);

/* What a signal asks for. All called from the signal thread, none may be NULL. */
struct daemon_actions {
	void *ctx;
	void (*unmount)(void *ctx);    /* SIGTERM, SIGINT: take the mount away, waits briefly at most */
	void (*abandon)(void *ctx);    /* some client still holds the mount: make the loop stop anyway */
	void (*statistics)(void *ctx); /* SIGUSR1 */
};
/* Starts the signal thread. From the thread that will run the session loop, before it does: that thread
 * is interrupted (EINTR) to see the session's exit flag. SIGTERM or SIGINT: `unmount`; when the loop has not
 * ended some seconds later, `abandon`; when that did not help either, or at a second signal, the process
 * exits with status 1. SIGHUP and SIGPIPE are ignored. 0 or -errno. */
int daemon_signals_start(const struct daemon_actions *actions);
/* The session loop has returned: its thread is interrupted no more, and no action is called any more; waits
 * for one under way. */
void daemon_loop_ended(void);
/* Ends the signal thread. Last of all, so that a second signal works until then. */
void daemon_signals_stop(void);

#endif
