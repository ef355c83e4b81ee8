/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pattern.h - bytes that can be checked without a copy: a function of (seed, offset).
 *
 * A *marked* file begins with its own seed and length, so that whoever reads it can tell a whole
 * version from a mixed, a short and a wrong one. */
#ifndef KV_PROGRAMS_PATTERN_H
#define KV_PROGRAMS_PATTERN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_MARK 16u /* bytes of the mark; a marked file has more */

static inline uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	uint64_t word = seed * 0x9e3779b97f4a7c15u + index + 1;

	word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
	word = (word ^ word >> 27) * 0x94d049bb133111ebu;
	return word ^ word >> 31;
}

static inline void pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t offset)
{
	unsigned char *out = buf;

	for (size_t i = 0; i < len; i++)
		out[i] = (unsigned char)(pattern_word(seed, (offset + i) / 8) >> (offset + i) % 8 * 8);
}

/* Where buf first differs from the pattern, or len. */
static inline size_t pattern_differs(const void *buf, size_t len, uint64_t seed, uint64_t offset)
{
	const unsigned char *in = buf;
	size_t i = 0;

	while (i < len &&
	       in[i] == (unsigned char)(pattern_word(seed, (offset + i) / 8) >> (offset + i) % 8 * 8))
		i++;
	return i;
}

static inline void pattern_mark(void *buf, size_t len, uint64_t seed)
{
	uint64_t mark[2] = {seed, len};

	pattern_fill(buf, len, seed, 0);
	memcpy(buf, mark, sizeof(mark));
}

enum pattern_fault { PATTERN_WHOLE, PATTERN_SHORT, PATTERN_MIXED, PATTERN_WRONG };

/* Judges what was read of a marked file; *seed is what it says of itself. */
static inline enum pattern_fault pattern_judge(const void *buf, size_t len, uint64_t *seed)
{
	uint64_t mark[2];

	if (len <= PATTERN_MARK)
		return PATTERN_SHORT;
	memcpy(mark, buf, sizeof(mark));
	*seed = mark[0];
	if (len < mark[1])
		return PATTERN_SHORT;
	if (len > mark[1])
		return PATTERN_WRONG;
	if (pattern_differs((const char *)buf + PATTERN_MARK, len - PATTERN_MARK, *seed, PATTERN_MARK) <
	    len - PATTERN_MARK)
		return PATTERN_MIXED;
	return PATTERN_WHOLE;
}

#endif
