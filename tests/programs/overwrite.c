/* SPDX-License-Identifier: GPL-2.0-or-later */
/* overwrite.c - many versions of one name, written in place, while others read, map and stat it.
 *
 *	overwrite FILE OVERWRITES WRITERS READERS STATTERS [LENGTH_MAX [SEED]]
 *
 * Each version is a marked pattern of a random length (see pattern.h), so that each reader can judge
 * what it got. Writers and readers are processes, as on a shared host. A writer opens with O_TRUNC, two
 * times of three the name itself, else a temporary one that it renames, and notes the inode of its
 * stage; two versions with one inode are a fault. A reader opens the name, reads
 * it whole in random pieces or maps it, waits a little, reads the same descriptor again: it must still
 * be the same version. A statter wants a size that a whole version can have, at all times.
 *
 * Prints one line of counters. Status 0: no fault. Everything shared is in one shared mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pattern.h"

#define PROCESSES_MAX 64
#define VERSIONS_MAX  200000

enum fault {
	FAULT_MIXED,
	FAULT_SHORT,
	FAULT_WRONG,
	FAULT_CHANGED, /* a descriptor showed two versions */
	FAULT_INODE,   /* two versions, one inode */
	FAULT_SIZE,    /* stat showed a size that no version has */
	FAULT_ERROR,   /* a call failed */
	FAULTS,
};
static const char *const fault_names[FAULTS] = {
	"mixed", "short", "wrong", "changed", "shared_inodes", "sizes", "errors",
};

static struct shared {
	atomic_long next; /* version to write */
	atomic_bool done; /* the writers are */
	atomic_long reads, stats;
	atomic_long faults[FAULTS];
	_Atomic uint64_t inodes[VERSIONS_MAX + 1];
} * shared;

static const char *file;
static char temporary[4096]; /* of this writer */
static long overwrites;
static size_t length_max = 300000;
static uint64_t base_seed = 1;

/* `detail`: an errno or a number that tells more. */
static void fault(enum fault which, const char *what, long detail)
{
	if (atomic_fetch_add(&shared->faults[which], 1) < 5)
		printf("# %s: %s (%ld%s%s)\n", fault_names[which], what, detail,
		       which == FAULT_ERROR ? " " : "", which == FAULT_ERROR ? strerror((int)detail) : "");
	fflush(stdout);
}

/* Lengths are a function of the version, so that a stat can be judged. */
static size_t version_length(uint64_t version)
{
	return PATTERN_MARK + 1 + pattern_word(base_seed, version) % (length_max - PATTERN_MARK);
}

static void write_version(uint64_t version, char *buf)
{
	size_t len = version_length(version), at = 0;
	uint64_t random = pattern_word(base_seed + 1, version);
	bool renames = version % 3 == 2;
	const char *path = renames ? temporary : file;
	struct stat st;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0) {
		fault(FAULT_ERROR, "open for writing", errno);
		return;
	}
	pattern_mark(buf, len, version);
	if (fstat(fd, &st))
		fault(FAULT_ERROR, "fstat", errno);
	shared->inodes[version] = st.st_ino;
	while (at < len) {
		size_t piece = 1 + (random = pattern_word(random, at)) % 65536;
		ssize_t count = write(fd, buf + at, piece < len - at ? piece : len - at);

		if (count <= 0) {
			fault(FAULT_ERROR, "write", errno);
			break;
		}
		at += (size_t)count;
	}
	if (close(fd))
		fault(FAULT_ERROR, "close", errno);
	if (renames && rename(temporary, file))
		fault(FAULT_ERROR, "rename", errno);
}

static void writer_run(int which)
{
	char *buf = malloc(length_max + PATTERN_MARK);
	long version;

	snprintf(temporary, sizeof(temporary), "%s.tmp%d", file, which);
	while (buf && (version = atomic_fetch_add(&shared->next, 1)) <= overwrites)
		write_version((uint64_t)version, buf);
	_exit(buf ? 0 : 1);
}

/* Reads all of fd, in pieces. */
static size_t read_all(int fd, char *buf, size_t cap, uint64_t random)
{
	size_t at = 0;
	ssize_t count;

	do {
		size_t piece = 1 + (random = pattern_word(random, at)) % 131072;

		count = pread(fd, buf + at, piece < cap - at ? piece : cap - at, (off_t)at);
		if (count > 0)
			at += (size_t)count;
	} while (count > 0 && at < cap);
	if (count < 0)
		fault(FAULT_ERROR, "read", errno);
	return at;
}

/* Copies all of fd out of a mapping as large as fstat says. */
static size_t map_all(int fd, char *buf, size_t cap, uint64_t random)
{
	struct stat st;
	char *at;
	size_t len;

	if (fstat(fd, &st) || (size_t)st.st_size > cap) {
		fault(FAULT_ERROR, "fstat", errno);
		return 0;
	}
	len = (size_t)st.st_size;
	at = mmap(NULL, len, PROT_READ, random & 1 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED) {
		fault(FAULT_ERROR, "mmap", errno);
		return 0;
	}
	memcpy(buf, at, len);
	munmap(at, len);
	return len;
}

/* Reads one way or the other and judges it. Returns the version, 0 when it is none. */
static uint64_t read_version(int fd, char *buf, uint64_t random)
{
	size_t cap = length_max + PATTERN_MARK + 1;
	size_t len = random & 2 ? map_all(fd, buf, cap, random) : read_all(fd, buf, cap, random);
	uint64_t version = 0;

	switch (pattern_judge(buf, len, &version)) {
	case PATTERN_SHORT:
		fault(FAULT_SHORT, "read", (long)len);
		return 0;
	case PATTERN_MIXED:
		fault(FAULT_MIXED, "read", (long)len);
		return 0;
	case PATTERN_WRONG:
		fault(FAULT_WRONG, "read", (long)len);
		return 0;
	case PATTERN_WHOLE:
		break;
	}
	if (version > (uint64_t)overwrites || len != version_length(version))
		fault(FAULT_WRONG, "length", (long)len);
	return version;
}

static void reader_run(int which)
{
	char *buf = malloc(length_max + PATTERN_MARK + 1);
	uint64_t random = base_seed * 100 + (uint64_t)which, first, again;

	while (buf && !shared->done) {
		int fd = open(file, O_RDONLY | O_CLOEXEC);

		if (fd < 0) {
			fault(FAULT_ERROR, "open for reading", errno);
			continue;
		}
		random = pattern_word(random, 0);
		first = read_version(fd, buf, random);
		if (random % 4 == 0)
			usleep(random >> 8 & 0x3fff);
		again = read_version(fd, buf, random >> 16);
		if (first && again && first != again)
			fault(FAULT_CHANGED, "second read of one descriptor", (long)again);
		close(fd);
		atomic_fetch_add(&shared->reads, 2);
	}
	_exit(buf ? 0 : 1);
}

/* Does any version have this size? One that is about to be written has, too. */
static bool size_is_known(off_t size)
{
	for (long version = 0; version <= overwrites; version++)
		if ((size_t)size == version_length((uint64_t)version))
			return true;
	return false;
}

static void statter_run(int which)
{
	struct stat st;

	(void)which;
	while (!shared->done) {
		if (stat(file, &st))
			fault(FAULT_ERROR, "stat", errno);
		else if (!size_is_known(st.st_size))
			fault(FAULT_SIZE, "stat", (long)st.st_size);
		atomic_fetch_add(&shared->stats, 1);
	}
	_exit(0);
}

static int start(pid_t *pids, int count, void (*run)(int))
{
	for (int i = 0; i < count; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			run(i);
	}
	return count;
}

static void finish(const pid_t *pids, int count)
{
	int status = 0;

	for (int i = 0; i < count; i++)
		if (waitpid(pids[i], &status, 0) != pids[i] || status)
			fault(FAULT_ERROR, "a process ended badly", errno);
}

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void compare_inodes(void)
{
	size_t count = (size_t)overwrites + 1;
	uint64_t *inodes = malloc(count * sizeof(*inodes));

	for (size_t i = 0; inodes && i < count; i++)
		inodes[i] = shared->inodes[i];
	if (!inodes)
		return;
	qsort(inodes, count, sizeof(*inodes), compare_numbers);
	for (size_t i = 1; i < count; i++)
		if (inodes[i] == inodes[i - 1] && inodes[i])
			fault(FAULT_INODE, "two versions", (long)inodes[i]);
	free(inodes);
}

static int report(void)
{
	long sum = 0;

	printf("overwrites %ld reads %ld stats %ld", overwrites, shared->reads, shared->stats);
	for (int i = 0; i < FAULTS; i++) {
		printf(" %s %ld", fault_names[i], shared->faults[i]);
		sum += shared->faults[i];
	}
	printf("\n");
	return sum != 0;
}

int main(int argc, char **argv)
{
	pid_t writers[PROCESSES_MAX], lookers[2 * PROCESSES_MAX];
	int writing, looking;
	char *buf;

	if (argc < 6 || (overwrites = atol(argv[2])) > VERSIONS_MAX || atoi(argv[3]) > PROCESSES_MAX ||
	    atoi(argv[4]) > PROCESSES_MAX || atoi(argv[5]) > PROCESSES_MAX) {
		fprintf(stderr,
			"usage: overwrite FILE OVERWRITES WRITERS READERS STATTERS [LENGTH_MAX [SEED]]\n");
		return 2;
	}
	file = argv[1];
	length_max = argc > 6 ? (size_t)atol(argv[6]) : length_max;
	base_seed = argc > 7 ? (uint64_t)atol(argv[7]) : base_seed;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	buf = malloc(length_max + PATTERN_MARK);
	if (shared == MAP_FAILED || !buf)
		return 2;
	write_version(0, buf);
	shared->next = 1;
	writing = start(writers, atoi(argv[3]), writer_run);
	looking = start(lookers, atoi(argv[4]), reader_run);
	looking += start(lookers + looking, atoi(argv[5]), statter_run);
	finish(writers, writing);
	shared->done = true;
	finish(lookers, looking);
	compare_inodes();
	return report();
}
