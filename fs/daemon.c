/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon.c - background, readiness, signals and limits of the process.
 *
 * Background: fork at once, before any thread, lock or mount. The child does everything with the terminal
 * still at hand; the parent sits at a pipe. A byte in it: the mount is up, exit 0. End of file: the child
 * is gone, exit with its status; it has told the reason itself. Ctrl-C meanwhile reaches both; a child that
 * becomes ready and finds the pipe closed has nobody who wants the mount, and ends as by SIGTERM.
 *
 * Ending: libfuse's loop looks at the session's exit flag only when something wakes it. An unmount does:
 * the device then reads ENODEV. But after a lazy unmount the connection lives as long as any client has a
 * file or directory open, so the signal thread goes on:
 *	SERVING --SIGTERM, SIGINT: unmount--> LEAVING --GRACE_S: abandon--> FORCED --HARD_S--> _exit
 * In FORCED the thread of the loop, which sleeps in sem_wait or read, is interrupted by SIGUSR2 until it has
 * seen the flag. A second SIGTERM or SIGINT exits at once from any state but SERVING.
 *
 * No core: RLIMIT_CORE does not stop a core_pattern that pipes, not being dumpable does. It also makes
 * /proc/self belong to root, but a process may always follow its own /proc/self/fd. Leak checkers need to
 * look at the process, so address-sanitizer builds stay dumpable.
 *
 * Lock: signals.acting is held while an action runs, and by daemon_loop_ended, so that no action comes once
 * the session and the bank are being taken down. It is the only lock here, and held for seconds at worst.
 *
 * Easy to forget: SIGCHLD may be inherited as ignored, and then nobody can wait for fusermount3.
 */
#include "fs/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/log.h"

#define GRACE_S	    10 /* for clients to close what they have open */
#define HARD_S	    20 /* for requests under way and the rest */
#define TICK_MS	    100
#define EXIT_FORCED 1
#define EXIT_MOUNT  3

#if defined(__SANITIZE_ADDRESS__)
#define IS_ADDRESS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_ADDRESS_SANITIZED 1
#endif
#endif
#ifndef IS_ADDRESS_SANITIZED
#define IS_ADDRESS_SANITIZED 0
#endif

enum phase { SERVING, LEAVING, FORCED };

static int ready_pipe = -1; /* to the waiting parent */
static bool in_background;
static atomic_bool is_ready;

static struct {
	struct daemon_actions actions;
	pthread_t thread, loop_thread;
	bool running;
	pthread_mutex_t acting;
	atomic_bool loop_over; /* set under acting */
	atomic_bool stop;
	enum phase phase; /* the signal thread's own */
	time_t since_s;	  /* when the phase began, monotonic */
} signals = {.acting = PTHREAD_MUTEX_INITIALIZER};

/* ---- background and readiness ---- */

void daemon_standard_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static void wait_and_exit(pid_t child, int read_fd)
{
	char byte;
	ssize_t got;
	int status;

	do {
		got = read(read_fd, &byte, 1);
	} while (got < 0 && errno == EINTR);
	if (got == 1)
		_exit(EXIT_SUCCESS);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	log_line_now(LOG_ERR, "ended by signal %d before the mount was up", WTERMSIG(status));
	_exit(EXIT_MOUNT);
}

int daemon_background(bool foreground)
{
	int fds[2];
	pid_t child;

	signal(SIGCHLD, SIG_DFL);
	if (foreground)
		return 0;
	close_range(STDERR_FILENO + 1, ~0u,
		    0); /* whoever waits for the end of an inherited pipe would wait long */
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child < 0) {
		int ret = -errno;

		close(fds[0]);
		close(fds[1]);
		return ret;
	}
	if (child > 0) {
		close(fds[1]);
		wait_and_exit(child, fds[0]);
	}
	close(fds[0]);
	ready_pipe = fds[1];
	in_background = true;
	return 0;
}

/* One datagram to systemd, when it started us as a notifying service; '@' is the abstract namespace. */
static void tell_systemd(const char *text)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (!len || len > sizeof(to.sun_path) - 1 || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(to.sun_path, path, len + 1);
	if (path[0] == '@')
		to.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_line(LOG_WARNING, "systemd cannot be told that the state changed: %s", strerror(errno));
	close(fd);
}

static void leave_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	log_to_syslog();
	setsid();
	if (null < 0)
		return;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	close(null);
}

void daemon_ready(void)
{
	char text[64];

	if (atomic_exchange(&is_ready, true))
		return;
	snprintf(text, sizeof(text), "READY=1\nMAINPID=%ld", (long)getpid());
	tell_systemd(text);
	if (!in_background)
		return;
	leave_terminal();
	if (write(ready_pipe, "", 1) != 1)
		kill(getpid(), SIGTERM);
	close(ready_pipe);
	ready_pipe = -1;
}

bool daemon_is_ready(void)
{
	return atomic_load(&is_ready);
}

/* ---- limits and signals ---- */

static void interrupted(int signal)
{
	(void)signal; /* only to make a system call return */
}

static void watched_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGUSR1);
	sigaddset(set, SIGUSR2);
}

static void prepare_signals(void)
{
	struct sigaction wake = {.sa_handler = interrupted}; /* no SA_RESTART */
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigaction(SIGUSR2, &wake, NULL);
	watched_signals(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void daemon_harden(void)
{
	const struct rlimit no_core = {0, 0};
	struct rlimit files;

	if (!IS_ADDRESS_SANITIZED && prctl(PR_SET_DUMPABLE, 0))
		log_line(LOG_WARNING, "core dumps cannot be forbidden: %s", strerror(errno));
	setrlimit(RLIMIT_CORE, &no_core);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	umask(077);
	prepare_signals();
}

static time_t monotonic_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void enter(enum phase phase)
{
	signals.phase = phase;
	signals.since_s = monotonic_s();
}

static void exit_now(const char *why)
{
	log_line_now(LOG_ERR, "%s, exiting with work undone", why);
	_exit(EXIT_FORCED);
}

static void act(void (*action)(void *ctx))
{
	pthread_mutex_lock(&signals.acting);
	if (!atomic_load(&signals.loop_over))
		action(signals.actions.ctx);
	pthread_mutex_unlock(&signals.acting);
}

static void leave(void)
{
	if (signals.phase != SERVING)
		exit_now("told twice to end");
	tell_systemd("STOPPING=1");
	log_line(LOG_INFO, "told to end, unmounting");
	enter(LEAVING);
	act(signals.actions.unmount);
}

/* What is due by the clock. */
static void tick(void)
{
	time_t waited_s = monotonic_s() - signals.since_s;
	bool loop_over = atomic_load(&signals.loop_over);

	if (signals.phase == SERVING)
		return;
	if (signals.phase == FORCED && waited_s >= HARD_S)
		exit_now("the end takes too long");
	if (signals.phase == LEAVING && waited_s >= GRACE_S && !loop_over) {
		log_line(LOG_WARNING, "unmounted, but still in use; the users are left to errors");
		enter(FORCED);
		act(signals.actions.abandon);
	}
	if (signals.phase == FORCED && !loop_over)
		pthread_kill(signals.loop_thread, SIGUSR2);
}

static void *watch(void *arg)
{
	const struct timespec tick_time = {.tv_nsec = TICK_MS * 1000000L};
	sigset_t set;
	int got;

	(void)arg;
	watched_signals(&set);
	while (!atomic_load(&signals.stop)) {
		got = signals.phase == SERVING ? sigwaitinfo(&set, NULL)
					       : sigtimedwait(&set, NULL, &tick_time);
		if (got == SIGTERM || got == SIGINT)
			leave();
		else if (got == SIGUSR1)
			act(signals.actions.statistics);
		tick();
	}
	return NULL;
}

int daemon_signals_start(const struct daemon_actions *actions)
{
	sigset_t wake;
	int ret;

	signals.actions = *actions;
	signals.loop_thread = pthread_self();
	enter(SERVING);
	ret = pthread_create(&signals.thread, NULL, watch, NULL);
	if (ret)
		return -ret;
	signals.running = true;
	sigemptyset(&wake);
	sigaddset(&wake, SIGUSR2);
	pthread_sigmask(SIG_UNBLOCK, &wake, NULL);
	return 0;
}

void daemon_loop_ended(void)
{
	sigset_t wake;

	pthread_mutex_lock(&signals.acting);
	atomic_store(&signals.loop_over, true);
	pthread_mutex_unlock(&signals.acting);
	sigemptyset(&wake);
	sigaddset(&wake, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &wake, NULL);
}

void daemon_signals_stop(void)
{
	if (!signals.running)
		return;
	signals.running = false;
	atomic_store(&signals.stop, true);
	pthread_kill(signals.thread, SIGUSR2);
	pthread_join(signals.thread, NULL);
}
