/* SPDX-License-Identifier: GPL-2.0-or-later */
/* publish.c - many writers with one temporary name.
 *
 *	publish DIRECTORY ROUNDS WRITERS
 *
 * In each round all writers at once write DIRECTORY/n.tmp and rename it to DIRECTORY/n, as programs do
 * that did not think of each other. Afterwards n must hold one writer's whole bytes of this round. Who
 * loses may be told so (ENOENT, EEXIST, EBUSY, ESTALE from rename), and at least one must win.
 * Prints one line of counters; status 0: no fault.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pattern.h"

#define LENGTH	    40000
#define WRITERS_MAX 64

static char temporary[4096], final[4096];

/* Exit status of a writer. */
enum outcome { WON, LOST, FAILED };

static enum outcome fail(const char *what)
{
	printf("# %s: %s\n", what, strerror(errno));
	fflush(stdout);
	return FAILED;
}

static enum outcome publish(uint64_t seed, int start)
{
	static char buf[LENGTH];
	size_t len = 20000 + seed % 20000;
	char go;
	int fd;

	pattern_mark(buf, len, seed);
	if (read(start, &go, 1) < 0)
		return fail("read");
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		return fail("open");
	for (size_t at = 0; at < len; at += 4000)
		if (write(fd, buf + at, len - at < 4000 ? len - at : 4000) < 0)
			return fail("write");
	if (seed % 3 == 0 && fsync(fd))
		return fail("fsync");
	if (close(fd))
		return fail("close");
	if (!rename(temporary, final))
		return WON;
	return errno == ENOENT || errno == EEXIST || errno == EBUSY ? LOST : fail("rename");
}

/* The whole bytes of one writer of this round? */
static bool judge(uint64_t first_seed, int writers)
{
	static char buf[LENGTH + 1];
	uint64_t seed = 0;
	ssize_t len;
	int fd = open(final, O_RDONLY);

	if (fd < 0)
		return !fail("open of the result");
	len = read(fd, buf, sizeof(buf));
	close(fd);
	if (len < 0 || pattern_judge(buf, (size_t)len, &seed) != PATTERN_WHOLE || seed < first_seed ||
	    seed >= first_seed + (uint64_t)writers) {
		printf("# a round ended with %zd bytes that say they are %llu\n", len,
		       (unsigned long long)seed);
		return false;
	}
	return true;
}

static bool round_run(uint64_t first_seed, int writers, int outcomes[3])
{
	int start[2], status, before = outcomes[WON];

	if (pipe(start))
		return !fail("pipe");
	for (int i = 0; i < writers; i++) {
		if (fork())
			continue;
		close(start[1]);
		_exit((int)publish(first_seed + (uint64_t)i, start[0]));
	}
	close(start[0]);
	close(start[1]); /* end of file is the signal */
	while (wait(&status) > 0)
		outcomes[WIFEXITED(status) ? WEXITSTATUS(status) : FAILED]++;
	if (outcomes[WON] == before) {
		printf("# nobody won\n");
		return false;
	}
	return judge(first_seed, writers);
}

int main(int argc, char **argv)
{
	int outcomes[3] = {0}, bad = 0, writers;

	if (argc != 4 || (writers = atoi(argv[3])) > WRITERS_MAX) {
		fprintf(stderr, "usage: publish DIRECTORY ROUNDS WRITERS\n");
		return 2;
	}
	snprintf(temporary, sizeof(temporary), "%s/n.tmp", argv[1]);
	snprintf(final, sizeof(final), "%s/n", argv[1]);
	for (int i = 0; i < atoi(argv[2]); i++)
		bad += !round_run((uint64_t)i * WRITERS_MAX + 1, writers, outcomes);
	printf("rounds %s bad %d won %d lost %d failed %d\n", argv[2], bad, outcomes[WON], outcomes[LOST],
	       outcomes[FAILED]);
	return bad || outcomes[FAILED];
}
