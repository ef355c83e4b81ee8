/* SPDX-License-Identifier: GPL-2.0-or-later */
/* killer.c - writers that are killed at random points.
 *
 *	killer MOUNT WRITERS [SEED]
 *
 * In turn each way of writing: straight over MOUNT/e; by MOUNT/e.tmp that would be renamed; with
 * duplicated descriptors, of which some are closed; with a child that inherits the descriptor; with
 * spinning threads; with programs started meanwhile. A writer goes round (open, write, and for want of
 * a close begin again) and never closes its last descriptor, so nothing it does may ever be seen.
 * SIGKILL comes after a random time. Then e must have its old bytes and inode, and e.tmp must not be.
 * At the end the bytes that all of them took must be back within BACK_MS.
 *
 * Prints one line; status 0: nothing was committed and all bytes are back.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

#define OLD_LENGTH 100000u
#define OLD_SEED   4242u
#define PIECE	   20000u
#define PIECES	   200 /* of one file: 4 MB */
#define BACK_MS	   1000
#define NAME_MS	   2000

static char file[4096], temporary[4096], stats[4096];

enum way { STRAIGHT, RENAMED, DUPLICATED, INHERITED, THREADED, SPAWNING, WAYS };
static const char *const way_names[WAYS] = {
	"straight", "renamed", "duplicated", "inherited", "threaded", "spawning",
};

static void *spin(void *arg)
{
	for (;;)
		__asm__ volatile("" ::: "memory");
	return arg;
}

static void *spawn(void *arg)
{
	for (;;) {
		pid_t pid = fork();

		if (pid == 0) {
			execlp("true", "true", NULL);
			_exit(127);
		}
		waitpid(pid, NULL, 0);
	}
	return arg;
}

static void threads_start(int count, void *(*run)(void *))
{
	pthread_t thread;

	for (int i = 0; i < count; i++)
		pthread_create(&thread, NULL, run, NULL);
}

/* Early FLUSHes: duplicates come and go, one descriptor stays. */
static void duplicates_come_and_go(int fd)
{
	int copy = dup(fd);

	close(copy);
	copy = dup(fd);
	dup2(fd, copy);
	close(copy);
}

/* Writes until killed. Never closes the last descriptor of a stage. */
static void write_until_killed(enum way way)
{
	static char buf[PIECE];
	int fd = open(way == RENAMED ? temporary : file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		_exit(10);
	if (way == INHERITED && fork() == 0)
		for (;;)
			pause();
	for (int i = 0;; i++) {
		pattern_fill(buf, sizeof(buf), 1, 0);
		if (pwrite(fd, buf, sizeof(buf), (off_t)(i % PIECES) * PIECE) < 0)
			_exit(11);
		if (way == DUPLICATED)
			duplicates_come_and_go(fd);
	}
}

/* A writer that opens the name again and again, and so dies in the middle of an open, too. */
static void open_until_killed(enum way way)
{
	for (int i = 0; i < 200; i++)
		if (open(way == RENAMED ? temporary : file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) <
		    0)
			_exit(12);
	write_until_killed(way);
}

static void writer_run(enum way way, bool opens)
{
	setpgid(0, 0);
	if (way == THREADED)
		threads_start(4, spin);
	if (way == SPAWNING)
		threads_start(1, spawn);
	if (opens)
		open_until_killed(way);
	write_until_killed(way);
}

/* True when e is what it was before all this. */
static bool old_is_whole(ino_t inode)
{
	static char buf[OLD_LENGTH + 1];
	struct stat st = {0};
	ssize_t len = -1;
	int fd = open(file, O_RDONLY);

	if (fd >= 0) {
		len = read(fd, buf, sizeof(buf));
		if (fstat(fd, &st))
			len = -1;
		close(fd);
	}
	if (len == OLD_LENGTH && st.st_ino == inode &&
	    pattern_differs(buf, OLD_LENGTH, OLD_SEED, 0) == OLD_LENGTH)
		return true;
	printf("# e has %zd bytes, inode %llu, expected %u, inode %llu\n", len, (unsigned long long)st.st_ino,
	       OLD_LENGTH, (unsigned long long)inode);
	return false;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The name of a dropped stage goes with the last close, which the kernel tells a little later; that of
 * a stage which the writer never reached, when the daemon finds that its thread is gone. */
static bool temporary_goes(void)
{
	int64_t start = now_ms();
	int fd;

	while (now_ms() - start < NAME_MS) {
		fd = open(temporary, O_RDONLY);
		if (fd >= 0) {
			close(fd);
			printf("# e.tmp was committed\n");
			return false;
		}
		if (errno == ENOENT)
			return true;
		usleep(2000);
	}
	printf("# e.tmp remains: %s\n", strerror(errno));
	return false;
}

static bool kill_one(enum way way, uint64_t random, ino_t inode)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		writer_run(way, random >> 32 & 1);
	setpgid(pid, pid);
	usleep((useconds_t)(random % (way == THREADED || way == SPAWNING ? 30000 : 12000)));
	kill(-pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) {
		printf("# a %s writer ended by itself with %x\n", way_names[way], status);
		return false;
	}
	while (waitpid(-pid, &status, 0) > 0) /* its children are ours now */
		;
	if (temporary_goes() && old_is_whole(inode))
		return true;
	printf("# this writer was %s\n", way_names[way]);
	return false;
}

static long stat_value(const char *wanted)
{
	FILE *in = fopen(stats, "r");
	char key[64], value[64];
	long found = -1;

	while (in && fscanf(in, "%63s %63[^\n]", key, value) == 2)
		if (!strcmp(key, wanted))
			found = atol(value);
	if (in)
		fclose(in);
	return found;
}

/* How long until ram_bytes is back at `before`, or -1. */
static int64_t bytes_come_back_ms(long before)
{
	int64_t start = now_ms();

	while (stat_value("ram_bytes") != before) {
		if (now_ms() - start > 10 * BACK_MS)
			return -1;
		usleep(5000);
	}
	return now_ms() - start;
}

/* The version that must survive; its inode. */
static ino_t old_make(void)
{
	static char buf[OLD_LENGTH];
	struct stat st;
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	pattern_fill(buf, sizeof(buf), OLD_SEED, 0);
	if (fd < 0 || write(fd, buf, sizeof(buf)) != (ssize_t)sizeof(buf) || close(fd) || stat(file, &st)) {
		fprintf(stderr, "%s: %s\n", file, strerror(errno));
		exit(2);
	}
	return st.st_ino;
}

int main(int argc, char **argv)
{
	uint64_t random = argc > 3 ? (uint64_t)atol(argv[3]) : (uint64_t)time(NULL);
	int64_t back_ms;
	long before;
	int committed = 0;
	ino_t inode;

	if (argc < 3) {
		fprintf(stderr, "usage: killer MOUNT WRITERS [SEED]\n");
		return 2;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	printf("# seed %llu\n", (unsigned long long)random);
	snprintf(file, sizeof(file), "%s/e", argv[1]);
	snprintf(temporary, sizeof(temporary), "%s/e.tmp", argv[1]);
	snprintf(stats, sizeof(stats), "%s/.kvbank/stats", argv[1]);
	inode = old_make();
	usleep(100000); /* let what is lazy about it be done */
	before = stat_value("ram_bytes");
	if (before < 0) {
		fprintf(stderr, "%s has no ram_bytes\n", stats);
		return 2;
	}
	for (int i = 0; i < atoi(argv[2]) && !committed; i++) {
		random = pattern_word(random, (uint64_t)i);
		fflush(stdout);
		committed += !kill_one((enum way)(i % WAYS), random, inode);
	}
	back_ms = bytes_come_back_ms(before);
	printf("killed %s committed %d ram_bytes_before %ld back_ms %lld\n", argv[2], committed, before,
	       (long long)back_ms);
	return committed || back_ms < 0 || back_ms > BACK_MS;
}
