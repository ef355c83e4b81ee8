/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bench_sides.c - the same file system work on several directories by turns, compared with the last one.
 *
 *   bench_sides [-t TEST] MEGABYTES ROUNDS LABEL=DIRECTORY... (2 to 4 of them)
 *
 * A round runs every test once on every directory (side); the order of the sides changes from round to
 * round, so that a machine that speeds up or slows down meanwhile favours nobody. ROUNDS of them are
 * measured after one that is not; multiples of 6 have three sides in all their orders equally often.
 * A line for each test: the median of every side, and the ratio of the first side to each other one,
 * where more than 1.00 always means that the first is better.
 *
 * A put is open(O_WRONLY|O_CREAT|O_TRUNC) of a fresh name, writes, close; removing the file is not
 * timed. One that is not timed goes before it: virtual machines give memory that was free for seconds
 * back to their host, and its return costs several times what is measured here. Reads are of one
 * committed file, which is left alone until its hash is known, so that hashing in the background is
 * not measured on another side.
 *
 * Easy to forget: which memory a file got decides a quarter of its speed, and that is what the side
 * before has just freed. So the files that are read are all removed and made anew each round, and
 * orders do not merely rotate, else one side always has the same predecessor. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define SIDES_MAX	  4
#define ROUNDS_MAX	  101
#define MIB		  ((size_t)1 << 20)
#define PAGE		  ((size_t)4096)
#define SMALL_WRITES_MAX  (256 * MIB) /* a put in 4 KiB pieces is no larger: it can be slow */
#define OPENED_FILES	  64
#define OPENED_FILE_BYTES MIB
#define OPENS		  2000
#define SMALL_PUTS	  2000
#define SMALL_PUT_BYTES	  ((size_t)16384)
#define FUSE_MAGIC	  0x65735546
#define SETTLE_S	  120

struct side {
	const char *label;
	int dir;
	bool is_fuse;
};

static size_t size_bytes;
static unsigned char *buffer; /* MIB bytes that do not compress */
static volatile unsigned char sink;

static void die(const char *what)
{
	fprintf(stderr, "bench_sides: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fill(unsigned char *at, size_t len)
{
	uint64_t word = 0x9E3779B97F4A7C15u;

	for (size_t i = 0; i + sizeof(word) <= len; i += sizeof(word)) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		memcpy(at + i, &word, sizeof(word));
	}
}

static int open_or_die(const struct side *side, const char *name, int flags)
{
	int fd = openat(side->dir, name, flags, 0600);

	if (fd < 0)
		die(name);
	return fd;
}

/* Makes a file of `len` bytes by writes of `piece` bytes each. Exits when one is refused or short. */
static void put(const struct side *side, const char *name, size_t len, size_t piece)
{
	int fd = open_or_die(side, name, O_WRONLY | O_CREAT | O_TRUNC);

	for (size_t at = 0; at < len; at += piece) {
		const unsigned char *from = buffer + (piece < MIB ? at % MIB : 0);

		if (write(fd, from, piece) != (ssize_t)piece)
			die("write");
	}
	if (close(fd))
		die("close");
}

/* Waits until a committed file of a kvbankfs has its hash. */
static void wait_settled(const struct side *side, const char *name)
{
	double end = now_s() + SETTLE_S;
	char hash[65];
	int fd;

	if (!side->is_fuse)
		return;
	fd = open_or_die(side, name, O_RDONLY);
	while (fgetxattr(fd, "user.kvbank.sha256", hash, sizeof(hash)) < 0 && errno == ENODATA &&
	       now_s() < end)
		usleep(20000);
	close(fd);
}

/* ---- the tests: each returns its figure for one side ---- */

static double gigabytes_a_second(size_t len, double started)
{
	return (double)len / (now_s() - started) / 1e9;
}

static double test_read(const struct side *side)
{
	double started = now_s();
	int fd = open_or_die(side, "bench.kv", O_RDONLY);
	size_t sum = 0;
	ssize_t n;

	while ((n = read(fd, buffer, MIB)) > 0)
		sum += (size_t)n;
	close(fd);
	if (sum != size_bytes)
		die("read: short file");
	return gigabytes_a_second(sum, started);
}

static unsigned char *map_whole(const struct side *side)
{
	int fd = open_or_die(side, "bench.kv", O_RDONLY);
	unsigned char *at = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		die("mmap");
	close(fd);
	return at;
}

static double test_mmap_touch(const struct side *side)
{
	double started = now_s();
	unsigned char *at = map_whole(side);
	unsigned char sum = 0;

	for (size_t i = 0; i < size_bytes; i += PAGE)
		sum ^= at[i];
	sink = sum;
	munmap(at, size_bytes);
	return gigabytes_a_second(size_bytes, started);
}

static double test_mmap_copy(const struct side *side)
{
	double started = now_s();
	unsigned char *at = map_whole(side);

	for (size_t i = 0; i < size_bytes; i += MIB) {
		memcpy(buffer, at + i, MIB);
		sink = buffer[i % MIB];
	}
	munmap(at, size_bytes);
	return gigabytes_a_second(size_bytes, started);
}

static void remove_put(const struct side *side, const char *name)
{
	if (unlinkat(side->dir, name, 0))
		die("unlink");
}

static double timed_put(const struct side *side, size_t len, size_t piece)
{
	double started, figure;

	put(side, "put.kv", len, MIB);
	remove_put(side, "put.kv");
	started = now_s();
	put(side, "put.kv", len, piece);
	figure = gigabytes_a_second(len, started);
	remove_put(side, "put.kv");
	return figure;
}

static double test_put_large(const struct side *side)
{
	return timed_put(side, size_bytes, MIB);
}

static double test_put_pieces(const struct side *side)
{
	return timed_put(side, size_bytes < SMALL_WRITES_MAX ? size_bytes : SMALL_WRITES_MAX, PAGE);
}

static void opened_name(unsigned i, char name[32])
{
	snprintf(name, 32, "opened-%u.kv", i);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Microseconds from before open to after the first 4 KiB, the median of many opens. */
static double test_first_byte(const struct side *side)
{
	static double took[OPENS];
	char name[32];

	for (unsigned i = 0; i < OPENS; i++) {
		double started;
		int fd;

		opened_name(i % OPENED_FILES, name);
		started = now_s();
		fd = open_or_die(side, name, O_RDONLY);
		if (pread(fd, buffer, PAGE, 0) != (ssize_t)PAGE)
			die("pread");
		took[i] = (now_s() - started) * 1e6;
		close(fd);
	}
	return median(took, OPENS);
}

/* Thousands of puts of 16 KiB a second, each under a new name. */
static double test_small_put(const struct side *side)
{
	double started = now_s(), took;
	char name[32];

	for (unsigned i = 0; i < SMALL_PUTS; i++) {
		snprintf(name, sizeof(name), "small-%u.kv", i);
		put(side, name, SMALL_PUT_BYTES, SMALL_PUT_BYTES);
	}
	took = now_s() - started;
	for (unsigned i = 0; i < SMALL_PUTS; i++) {
		snprintf(name, sizeof(name), "small-%u.kv", i);
		remove_put(side, name);
	}
	return SMALL_PUTS / took / 1000;
}

/* ---- sides by turns ---- */

static const struct test {
	const char *name, *unit;
	double (*run)(const struct side *side);
	bool less_is_better;
} tests[] = {
	{"read, 1 MiB pieces", "GB/s", test_read, false},
	{"the same once more", "GB/s", test_read, false}, /* what the first read left in the page cache */
	{"mmap, a byte of each page", "GB/s", test_mmap_touch, false},
	{"mmap, copied", "GB/s", test_mmap_copy, false},
	{"put, 1 MiB writes", "GB/s", test_put_large, false},
	{"put, 4 KiB writes", "GB/s", test_put_pieces, false},
	{"open to first byte", "us", test_first_byte, true},
	{"put, 16 KiB files", "k/s", test_small_put, false},
};
#define TESTS (sizeof(tests) / sizeof(tests[0]))

/* Every measured figure of a test. */
struct figures {
	double of[SIDES_MAX][ROUNDS_MAX];
};

static void print_line(const struct test *test, struct figures *figures, size_t sides, unsigned rounds)
{
	double first = median(figures->of[0], rounds);

	printf("%-26s %9.2f %-4s", test->name, first, test->unit);
	for (size_t i = 1; i < sides; i++) {
		double other = median(figures->of[i], rounds);

		double ratio = test->less_is_better ? other / first : first / other;

		printf(" %9.2f %-4s %6.2f", other, test->unit, ratio);
	}
	printf("\n");
}

static void remove_files(const struct side *side)
{
	char name[32];

	unlinkat(side->dir, "bench.kv", 0);
	for (unsigned i = 0; i < OPENED_FILES; i++) {
		opened_name(i, name);
		unlinkat(side->dir, name, 0);
	}
}

static void make_files(const struct side *side)
{
	char name[32];

	put(side, "bench.kv", size_bytes, MIB);
	for (unsigned i = 0; i < OPENED_FILES; i++) {
		opened_name(i, name);
		put(side, name, OPENED_FILE_BYTES, MIB);
	}
	wait_settled(side, "bench.kv");
	for (unsigned i = 0; i < OPENED_FILES; i++) {
		opened_name(i, name);
		wait_settled(side, name);
	}
}

/* Which side is the i-th of a round: forward from each side in turn, then backward from each. */
static size_t side_of_turn(size_t i, size_t n, unsigned round)
{
	size_t first = round % n;

	return round / n % 2 ? (first + n - i) % n : (first + i) % n;
}

static void run_round(const struct side sides[], size_t n, unsigned round, const char *only,
		      struct figures *figures)
{
	for (size_t i = 0; i < n; i++)
		remove_files(&sides[side_of_turn(i, n, round)]);
	for (size_t i = 0; i < n; i++)
		make_files(&sides[side_of_turn(i, n, round)]);
	for (size_t t = 0; t < TESTS; t++) {
		if (!strstr(tests[t].name, only))
			continue;
		for (size_t i = 0; i < n; i++) {
			size_t turn = side_of_turn(i, n, round);

			figures[t].of[turn][round] = tests[t].run(&sides[turn]);
		}
	}
}

static void run_all(const struct side sides[], size_t n, unsigned rounds, const char *only)
{
	static struct figures figures[TESTS];

	run_round(sides, n, 0, only, figures); /* overwritten by the first measured one */
	for (unsigned round = 0; round < rounds; round++) {
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "round %u of %u\r", round + 1, rounds);
		run_round(sides, n, round, only, figures);
	}
	for (size_t t = 0; t < TESTS; t++)
		if (strstr(tests[t].name, only))
			print_line(&tests[t], &figures[t], n, rounds);
	for (size_t i = 0; i < n; i++)
		remove_files(&sides[i]);
}

static struct side parse_side(char *argument)
{
	char *path = strchr(argument, '=');
	struct statfs fs;
	struct side side;

	if (!path) {
		fprintf(stderr, "bench_sides: expected LABEL=DIRECTORY, not '%s'\n", argument);
		exit(1);
	}
	*path++ = '\0';
	side.label = argument;
	side.dir = open(path, O_RDONLY | O_DIRECTORY);
	if (side.dir < 0 || fstatfs(side.dir, &fs))
		die(path);
	side.is_fuse = (unsigned long)fs.f_type == FUSE_MAGIC;
	return side;
}

static void print_head(const struct side sides[], size_t n)
{
	printf("%-26s", "");
	for (size_t i = 0; i < n; i++)
		printf(i ? " %14s  ratio" : " %14s", sides[i].label);
	printf("\n");
}

static void usage(void)
{
	fprintf(stderr, "usage: bench_sides [-t TEST] MEGABYTES ROUNDS LABEL=DIRECTORY... (2 to %d)\n",
		SIDES_MAX);
	exit(1);
}

int main(int argc, char **argv)
{
	struct side sides[SIDES_MAX];
	const char *only = "";
	size_t n = 0;
	unsigned rounds;

	if (argc > 2 && !strcmp(argv[1], "-t")) {
		only = argv[2];
		argc -= 2;
		argv += 2;
	}
	if (argc < 5 || argc > 3 + SIDES_MAX)
		usage();
	size_bytes = strtoul(argv[1], NULL, 10) * MIB;
	rounds = (unsigned)strtoul(argv[2], NULL, 10);
	if (!size_bytes || !rounds || rounds > ROUNDS_MAX)
		usage();
	buffer = aligned_alloc(PAGE, MIB);
	if (!buffer)
		die("memory");
	fill(buffer, MIB);
	for (int i = 3; i < argc; i++)
		sides[n++] = parse_side(argv[i]);

	print_head(sides, n);
	run_all(sides, n, rounds, only);
	return 0;
}
