/* SPDX-License-Identifier: GPL-2.0-or-later */
/* unit.h - the few lines that a unit test program needs.
 *
 * A program is a list of named promises: RUN("promise", function). It prints one TAP-like line for
 * each ("ok promise" / "not ok promise: file:line: what"), and exits 1 when one failed. */
#ifndef KV_UNIT_H
#define KV_UNIT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int unit_failed;
static int unit_bad;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
			unit_bad++;                                                                \
		}                                                                                  \
	} while (0)

#define CHECK_INT(got, want)                                                                       \
	do {                                                                                       \
		long long unit_got = (long long)(got), unit_want = (long long)(want);             \
		if (unit_got != unit_want) {                                                       \
			printf("# %s:%d: %s is %lld, expected %lld\n", __FILE__, __LINE__, #got,   \
			       unit_got, unit_want);                                               \
			unit_bad++;                                                                \
		}                                                                                  \
	} while (0)

#define CHECK_STR(got, want)                                                                       \
	do {                                                                                       \
		const char *unit_got = (got), *unit_want = (want);                                 \
		if (strcmp(unit_got, unit_want)) {                                                 \
			printf("# %s:%d: %s is '%s', expected '%s'\n", __FILE__, __LINE__, #got,   \
			       unit_got, unit_want);                                               \
			unit_bad++;                                                                \
		}                                                                                  \
	} while (0)

static inline void unit_run(const char *promise, void (*test)(void))
{
	unit_bad = 0;
	test();
	printf("%s %s\n", unit_bad ? "not ok" : "ok", promise);
	fflush(stdout);
	unit_failed += unit_bad != 0;
}

#define RUN(promise, test) unit_run(promise, test)
#define UNIT_END() return unit_failed ? EXIT_FAILURE : EXIT_SUCCESS

#endif
