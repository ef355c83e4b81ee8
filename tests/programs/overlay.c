/* SPDX-License-Identifier: GPL-2.0-or-later */
/* overlay.c - random changes of one file, against a model in memory.
 *
 *	overlay FILE ROUNDS [SEED]
 *
 * Each round opens FILE for writing in some way (overlay, append, truncated), makes a few random writes,
 * truncations and reservations, and closes it, or, in a child, is killed: then nothing may have
 * happened. Readers that opened earlier versions are kept and looked at now and then: each must see
 * its own version to the end, by read or by mapping. Pauses let the daemon fold changes together.
 *
 * Prints the seed and one line. Status 0: the file was always what the model says.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pattern.h"

#define LENGTH_MAX 200000u
#define READERS	   4
#define CHANGES	   6

struct model {
	size_t len;
	unsigned char bytes[LENGTH_MAX];
};

/* Somebody who opened a version and remembers it. */
struct reader {
	int fd; /* -1: none */
	unsigned char *map;
	struct model seen;
};

static const char *file;
static struct model now;
static struct reader readers[READERS];
static uint64_t random_state;
static int bad;

static uint64_t random_below(uint64_t bound)
{
	random_state = pattern_word(random_state, 7);
	return (random_state >> 16) % bound;
}

static void wrong(const char *what, int round)
{
	printf("# round %d: %s (%s)\n", round, what, strerror(errno));
	fflush(stdout);
	bad++;
}

static void model_resize(struct model *model, size_t len)
{
	if (len > model->len)
		memset(model->bytes + model->len, 0, len - model->len);
	model->len = len;
}

static bool change_write(int fd, struct model *model, bool appends)
{
	size_t len = 1 + random_below(random_below(3) ? 60 : 30000);
	size_t off = appends ? model->len : random_below(model->len + 5000);
	unsigned char bytes[30000];

	if (off + len > LENGTH_MAX)
		return true;
	pattern_fill(bytes, len, random_state, 0);
	if (pwrite(fd, bytes, len, (off_t)off) != (ssize_t)len)
		return false;
	if (off + len > model->len)
		model_resize(model, off + len);
	memcpy(model->bytes + off, bytes, len);
	return true;
}

static bool change_size(int fd, struct model *model)
{
	size_t len = random_below(2) ? random_below(model->len + 1) : random_below(LENGTH_MAX);

	model_resize(model, len);
	return !ftruncate(fd, (off_t)len);
}

static bool change_reserve(int fd, struct model *model)
{
	size_t len = 1 + random_below(LENGTH_MAX - 1);
	bool keep = random_below(2);

	if (!keep && len > model->len)
		model_resize(model, len);
	return !fallocate(fd, keep ? FALLOC_FL_KEEP_SIZE : 0, 0, (off_t)len);
}

static bool change(int fd, struct model *model, bool appends)
{
	switch (random_below(8)) {
	case 0:
		return change_size(fd, model);
	case 1:
		return change_reserve(fd, model);
	default:
		return change_write(fd, model, appends);
	}
}

static bool fd_shows(int fd, const struct model *model)
{
	static unsigned char bytes[LENGTH_MAX + 1];
	ssize_t len = pread(fd, bytes, sizeof(bytes), 0);

	return len == (ssize_t)model->len && !memcmp(bytes, model->bytes, model->len);
}

/* One put; the model becomes what it wrote. Returns the descriptor, still open. */
static int put(struct model *model, int round)
{
	static const int ways[] = {O_RDWR,	    O_RDWR, O_WRONLY, O_RDWR | O_APPEND, O_WRONLY | O_APPEND,
				   O_RDWR | O_TRUNC};
	int flags = ways[random_below(sizeof(ways) / sizeof(ways[0]))];
	int fd = open(file, flags | O_CLOEXEC);

	if (fd < 0) {
		wrong("open for writing", round);
		return -1;
	}
	if (flags & O_TRUNC)
		model->len = 0;
	for (uint64_t i = random_below(CHANGES); i-- > 0;)
		if (!change(fd, model, flags & O_APPEND))
			wrong("change", round);
	if ((flags & O_ACCMODE) == O_RDWR && !fd_shows(fd, model))
		wrong("the writer does not see what it wrote", round);
	return fd;
}

static void put_and_close(int round)
{
	int fd = put(&now, round);

	if (fd >= 0 && close(fd))
		wrong("close", round);
}

/* A child does as above and is killed before it closes. */
static void put_and_die(int round)
{
	static struct model model;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		model = now;
		put(&model, round);
		if (bad)
			_exit(1);
		raise(SIGKILL);
	}
	random_below(2);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		wrong("the child that should have been killed", round);
}

static void reader_check(const struct reader *reader, int round)
{
	if (!fd_shows(reader->fd, &reader->seen))
		wrong("a reader's version changed", round);
	if (reader->map && memcmp(reader->map, reader->seen.bytes, reader->seen.len))
		wrong("a mapped version changed", round);
}

static void reader_open(struct reader *reader, int round)
{
	reader->seen = now;
	reader->fd = open(file, O_RDONLY | O_CLOEXEC);
	if (reader->fd < 0) {
		wrong("open for reading", round);
		return;
	}
	reader->map = NULL;
	if (now.len && random_below(2)) {
		reader->map = mmap(NULL, now.len, PROT_READ, MAP_SHARED, reader->fd, 0);
		if (reader->map == MAP_FAILED)
			reader->map = NULL;
	}
	reader_check(reader, round);
}

static void reader_close(struct reader *reader, int round)
{
	reader_check(reader, round);
	if (reader->map)
		munmap(reader->map, reader->seen.len);
	close(reader->fd);
	reader->fd = -1;
}

static void look(int round)
{
	struct stat st;
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || !fd_shows(fd, &now))
		wrong("the name does not show what was put last", round);
	close(fd);
	if (stat(file, &st) || (size_t)st.st_size != now.len)
		wrong("the size is not what was put last", round);
}

static void round_run(int round)
{
	struct reader *reader = &readers[random_below(READERS)];

	if (random_below(5))
		put_and_close(round);
	else
		put_and_die(round);
	if (random_below(3) == 0)
		usleep((useconds_t)random_below(20000));
	look(round);
	if (reader->fd >= 0)
		reader_close(reader, round);
	else
		reader_open(reader, round);
	for (int i = 0; i < READERS; i++)
		if (readers[i].fd >= 0)
			reader_check(&readers[i], round);
}

int main(int argc, char **argv)
{
	int fd;

	if (argc < 3) {
		fprintf(stderr, "usage: overlay FILE ROUNDS [SEED]\n");
		return 2;
	}
	file = argv[1];
	random_state = argc > 3 ? (uint64_t)atoll(argv[3]) : (uint64_t)getpid();
	printf("# seed %llu\n", (unsigned long long)random_state);
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || close(fd)) {
		fprintf(stderr, "%s: %s\n", file, strerror(errno));
		return 2;
	}
	for (int i = 0; i < READERS; i++)
		readers[i].fd = -1;
	for (int i = 0; i < atoi(argv[2]) && !bad; i++) {
		fflush(stdout);
		round_run(i);
	}
	printf("rounds %s bad %d\n", argv[2], bad);
	return bad != 0;
}
