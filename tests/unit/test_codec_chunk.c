/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_codec_chunk.c - cuts depend on content alone, and an insertion moves only the chunks around it. */
#include "codec/chunk.h"

#include "unit.h"

enum { CUTS_MAX = 4096 };

struct cuts {
	size_t count;
	size_t at[CUTS_MAX]; /* ends of chunks, the end of the stream included */
};

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint8_t *random_bytes(size_t len, uint64_t seed)
{
	uint8_t *bytes = malloc(len);

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(random_next(&seed) >> 32);
	return bytes;
}

/* Cuts a stream that is handed over in pieces of 1 to piece_max bytes. */
static void cut_all(const uint8_t *bytes, size_t len, size_t piece_max, struct cuts *cuts)
{
	uint64_t seed = 77;
	size_t at = 0;
	struct chunk c;

	chunk_init(&c);
	cuts->count = 0;
	while (at < len) {
		size_t piece = 1 + random_next(&seed) % piece_max, left = len - at < piece ? len - at : piece;

		while (left && cuts->count < CUTS_MAX) {
			bool cut;
			size_t taken = chunk_next(&c, bytes + at, left, &cut);

			at += taken;
			left -= taken;
			if (cut)
				cuts->at[cuts->count++] = at;
		}
	}
	if (c.len)
		cuts->at[cuts->count++] = len;
}

static void the_table_never_changes(void)
{
	struct chunk c;
	uint64_t sum = 0;

	chunk_init(&c);
	for (size_t i = 0; i < 256; i++)
		sum = sum * 31 + c.table[i];
	CHECK(c.table[0] == UINT64_C(0x6b4f419bb65b4fcb));
	CHECK(sum == UINT64_C(0xe29604bd7f2d4143));
}

static void known_bytes_are_cut_where_they_always_were(void)
{
	static const size_t want[] = {219141,  603591,	847256,	 1074130, 1293251, 1587863, 1860615, 2086321,
				      2197870, 2543046, 2821977, 3055560, 3340423, 3923961, 3999729, 4194304};
	uint8_t *bytes = random_bytes(4 << 20, 1);
	struct cuts cuts;

	cut_all(bytes, 4 << 20, 4 << 20, &cuts);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		CHECK_INT(cuts.at[i], want[i]);
	free(bytes);
}

static void pieces_do_not_matter(void)
{
	static const size_t pieces[] = {1, 7, 64, 4096, 100000, 3 << 20};
	size_t len = 6 << 20;
	uint8_t *bytes = random_bytes(len, 2);
	static struct cuts whole, parts;

	memset(bytes + (2 << 20), 0, 2 << 20);
	cut_all(bytes, len, len, &whole);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		cut_all(bytes, len, pieces[i], &parts);
		CHECK(parts.count == whole.count &&
		      !memcmp(parts.at, whole.at, whole.count * sizeof(whole.at[0])));
	}
	free(bytes);
}

static void lengths_stay_inside_their_limits(void)
{
	size_t len = 256 << 20, begin = 0, average;
	uint8_t *bytes = random_bytes(len, 3);
	static struct cuts cuts;
	uint64_t sum = 0;

	cut_all(bytes, len, 1 << 20, &cuts);
	for (size_t i = 0; i < cuts.count; i++) {
		size_t chunk = cuts.at[i] - begin;

		sum = sum * 31 + chunk;
		CHECK(chunk <= CHUNK_MAX);
		CHECK(chunk >= CHUNK_MIN || i + 1 == cuts.count);
		begin = cuts.at[i];
	}
	average = len / cuts.count;
	CHECK_INT(cuts.count, 1033);
	CHECK(sum == UINT64_C(0x4d968c44b7c4c5ee)); /* else bytes put again would be cut elsewhere */
	printf("# average chunk of %zu: %zu bytes\n", cuts.count, average);
	CHECK(average > (230 << 10) && average < (282 << 10));
	free(bytes);
}

static void bytes_without_content_make_equal_chunks(void)
{
	size_t len = 5 << 20;
	uint8_t *bytes = calloc(1, len);
	struct cuts cuts;

	cut_all(bytes, len, 12345, &cuts);
	CHECK_INT(cuts.count, 5);
	for (size_t i = 0; i < cuts.count; i++)
		CHECK_INT(cuts.at[i], (i + 1) * CHUNK_MAX);
	free(bytes);
}

/* Chunks of `now` that are not chunks of `before`; ends after the change have moved by `shift`. */
static size_t chunks_changed(const struct cuts *before, const struct cuts *now, size_t change, size_t shift)
{
	size_t changed = 0, begin = 0;

	for (size_t i = 0; i < now->count; i++) {
		bool found = false;

		for (size_t k = 0; k < before->count && !found; k++) {
			size_t was = k ? before->at[k - 1] : 0;

			found = (was == begin && before->at[k] == now->at[i] && now->at[i] <= change) ||
				(was + shift == begin && before->at[k] + shift == now->at[i] &&
				 begin >= change + shift);
		}
		changed += !found;
		begin = now->at[i];
	}
	return changed;
}

static void an_insertion_moves_only_the_chunks_around_it(void)
{
	static const size_t shifts[] = {1, 3, 64, 1000, 70000};
	size_t len = 16 << 20, worst = 0, sum = 0, tries = 0;
	uint8_t *bytes = random_bytes(len, 4), *longer = malloc(len + 70000);
	static struct cuts before, now;
	uint64_t seed = 5;

	cut_all(bytes, len, len, &before);
	for (size_t i = 0; i < 100; i++, tries++) {
		size_t at = random_next(&seed) % len, shift = shifts[i % 5], changed;

		memcpy(longer, bytes, at);
		for (size_t k = 0; k < shift; k++)
			longer[at + k] = (uint8_t)random_next(&seed);
		memcpy(longer + at + shift, bytes + at, len - at);
		cut_all(longer, len + shift, len, &now);
		changed = chunks_changed(&before, &now, at, shift);
		sum += changed;
		worst = changed > worst ? changed : worst;
	}
	printf("# chunks changed by an insertion into %zu: %.1f on average, %zu at worst\n", before.count,
	       (double)sum / (double)tries, worst);
	CHECK(worst <= 12);
	CHECK(sum <= 2 * tries);
	free(bytes);
	free(longer);
}

int main(void)
{
	RUN("the table never changes", the_table_never_changes);
	RUN("known bytes are cut where they always were", known_bytes_are_cut_where_they_always_were);
	RUN("pieces do not matter", pieces_do_not_matter);
	RUN("lengths stay inside their limits", lengths_stay_inside_their_limits);
	RUN("bytes without content make equal chunks", bytes_without_content_make_equal_chunks);
	RUN("an insertion moves only the chunks around it", an_insertion_moves_only_the_chunks_around_it);
	UNIT_END();
}
