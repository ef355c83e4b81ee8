/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_codec_encode.c - what is stored decodes to the same bytes, never takes more room, and hostile bytes
 * never make a decoder write, read or promise too much. */
#include "codec/encode.h"

#include <errno.h>

#include "codec/checksum.h"
#include "unit.h"

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* bf16-like rows: each channel has a size of its own that moves little from token to token. */
static uint8_t *channels(size_t len, size_t row_elements, uint64_t seed)
{
	uint8_t *bytes = malloc(len);

	for (size_t i = 0; i < len; i++) {
		size_t channel = i / 2 % row_elements;
		uint64_t noise = random_next(&seed);

		bytes[i] = i % 2 ? (uint8_t)(0x30 + channel * 7 % 16 + (noise % 16 == 0)) : (uint8_t)noise;
	}
	return bytes;
}

static uint8_t *noise(size_t len, uint64_t seed)
{
	uint8_t *bytes = malloc(len);

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(random_next(&seed) >> 24);
	return bytes;
}

/* Stores and loads, in memory of exactly the promised sizes so that a sanitizer sees every step too far. */
static size_t round_trip(enum encode_policy policy, struct encode_form form, const uint8_t *raw, size_t len)
{
	uint8_t *work = malloc(encode_store_work(len)), *back = malloc(len), *stored;
	struct encoded e;

	CHECK_INT(encode_store(policy, &form, raw, len, work, &e), 0);
	CHECK(e.len <= len);
	CHECK(e.form.method == ENCODE_RAW ? e.len == len : e.len < len);
	CHECK_INT(encode_check(&e.form, len, e.len), 0);
	stored = malloc(e.len);
	memcpy(stored, e.bytes, e.len);
	free(work);
	work = malloc(encode_load_work(len));
	CHECK_INT(encode_load(&e.form, stored, e.len, back, len, work), 0);
	CHECK(!memcmp(raw, back, len));
	free(work);
	free(back);
	free(stored);
	return e.len;
}

static void every_form_and_length_comes_back(void)
{
	static const size_t lengths[] = {1, 2, 3, 15, 16, 17, 63, 64, 255, 1000, 4095, 65536, 200003};
	static const uint16_t elements[] = {1, 2, 3, 4, 8, 34, 64};
	static const uint32_t rows[] = {1, 2, 7, 8, 64, 192, 1024, ENCODE_RAW_MAX};

	for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
		uint8_t *raw = channels(lengths[l], 64, l + 1), *hard = noise(lengths[l], l + 1);

		for (size_t e = 0; e < sizeof(elements) / sizeof(elements[0]); e++)
			for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
				struct encode_form form = {ENCODE_LZ4, elements[e], rows[r]};

				round_trip(ENCODE_POLICY_LZ4, form, raw, lengths[l]);
				round_trip(ENCODE_POLICY_AUTO, form, raw, lengths[l]);
				round_trip(ENCODE_POLICY_LZ4, form, hard, lengths[l]);
			}
		free(raw);
		free(hard);
	}
}

static void planes_lie_as_documented(void)
{
	enum { C = 20, T = 37, ELEMENT = 2, LEN = C * T * ELEMENT + 5 };
	struct encode_form form = {ENCODE_LZ4, ELEMENT, C};
	uint8_t raw[LEN], planes[LEN], work[2 * LEN];
	struct encoded e;

	for (size_t i = 0; i < LEN; i++)
		raw[i] = (uint8_t)(i / (C * ELEMENT) + (i % ELEMENT) * 100);
	CHECK_INT(encode_store(ENCODE_POLICY_LZ4, &form, raw, LEN, work, &e), 0);
	CHECK(e.form.element_bytes == ELEMENT && e.form.row_elements == C);
	form = (struct encode_form){ENCODE_LZ4, 1, 1};
	CHECK_INT(encode_load(&form, e.bytes, e.len, planes, LEN, NULL), 0);
	for (size_t t = 0; t < T; t++)
		for (size_t i = 0; i < C; i++)
			for (size_t p = 0; p < ELEMENT; p++)
				CHECK(planes[(p * C + i) * T + t] == raw[(t * C + i) * ELEMENT + p]);
	CHECK(!memcmp(planes + C * T * ELEMENT, raw + C * T * ELEMENT, LEN - C * T * ELEMENT));
}

static struct encode_form choose(enum encode_policy policy, const uint8_t *raw, size_t len, uint64_t element,
				 uint64_t row)
{
	uint8_t *work = malloc(encode_store_work(len));
	struct encode_form form = encode_choose(policy, raw, len, element, row, work);

	free(work);
	return form;
}

static void auto_takes_the_order_that_saves_most(void)
{
	size_t len = 256 << 10;
	uint8_t *raw = channels(len, 192, 9), *hard = noise(len, 9);
	struct encode_form form = choose(ENCODE_POLICY_AUTO, raw, len, 2, 192);
	size_t channel, plain;

	CHECK_INT(form.method, ENCODE_LZ4);
	CHECK_INT(form.element_bytes, 2);
	CHECK_INT(form.row_elements, 192);
	channel = round_trip(ENCODE_POLICY_AUTO, form, raw, len);
	plain = round_trip(ENCODE_POLICY_AUTO, (struct encode_form){ENCODE_LZ4, 2, 1}, raw, len);
	CHECK(channel < plain);
	CHECK_INT(choose(ENCODE_POLICY_AUTO, hard, len, 2, 192).method, ENCODE_RAW);
	CHECK_INT(choose(ENCODE_POLICY_LZ4, hard, len, 2, 192).method, ENCODE_RAW);
	CHECK_INT(choose(ENCODE_POLICY_NONE, raw, len, 2, 192).method, ENCODE_RAW);
	free(raw);
	free(hard);
}

static void odd_numbers_about_a_tensor_are_harmless(void)
{
	static const uint64_t odd[] = {0,	  1, 65, 65536, 1u << 20, (1u << 20) + 1, UINT64_C(1) << 32,
				       UINT64_MAX};
	uint8_t *raw = channels(70000, 64, 3);

	for (size_t e = 0; e < sizeof(odd) / sizeof(odd[0]); e++)
		for (size_t r = 0; r < sizeof(odd) / sizeof(odd[0]); r++)
			round_trip(ENCODE_POLICY_AUTO, choose(ENCODE_POLICY_AUTO, raw, 70000, odd[e], odd[r]),
				   raw, 70000);
	free(raw);
}

/* Bytes of which a part is zeros: LZ4 saves about that part. */
static void auto_wants_a_sixteenth(void)
{
	size_t len = 64 << 10;
	struct encode_form lz4 = {ENCODE_LZ4, 1, 1};
	uint8_t *raw = noise(len, 5);

	memset(raw, 0, len / 20);
	CHECK_INT(round_trip(ENCODE_POLICY_AUTO, lz4, raw, len), len);
	CHECK(round_trip(ENCODE_POLICY_LZ4, lz4, raw, len) < len);
	memset(raw, 0, len / 12);
	CHECK(round_trip(ENCODE_POLICY_AUTO, lz4, raw, len) <= len - len / 16);
	CHECK_INT(round_trip(ENCODE_POLICY_NONE, lz4, raw, len), len);
	free(raw);
}

static void padding_is_compressed_in_a_raw_tensor_too(void)
{
	struct encode_form raw_form = {ENCODE_RAW, 1, 1};
	uint8_t *raw = calloc(1, ENCODE_RAW_MAX);

	CHECK(round_trip(ENCODE_POLICY_AUTO, raw_form, raw, ENCODE_RAW_MAX) < 8192);
	CHECK_INT(round_trip(ENCODE_POLICY_NONE, raw_form, raw, ENCODE_RAW_MAX), ENCODE_RAW_MAX);
	free(raw);
}

static void sizes_that_cannot_be_are_refused(void)
{
	struct encode_form raw = {ENCODE_RAW, 1, 1}, lz4 = {ENCODE_LZ4, 1, 1}, none = {ENCODE_LZ4, 0, 1};
	struct encode_form wide = {ENCODE_LZ4, ENCODE_ELEMENT_MAX + 1, 1}, newer = {2, 1, 1},
			   odd = {ENCODE_RAW, 2, 1};
	struct encode_form row = {ENCODE_LZ4, 1, ENCODE_RAW_MAX + 1}, no_row = {ENCODE_LZ4, 1, 0},
			   long_row = {ENCODE_LZ4, 2, 100};

	CHECK_INT(encode_check(&raw, 5, 5), 0);
	CHECK_INT(encode_check(&raw, 5, 4), -EBADMSG);
	CHECK_INT(encode_check(&raw, 0, 0), -EBADMSG);
	CHECK_INT(encode_check(&raw, (size_t)ENCODE_RAW_MAX + 1, (size_t)ENCODE_RAW_MAX + 1), -EBADMSG);
	CHECK_INT(encode_check(&lz4, SIZE_MAX, 10), -EBADMSG);
	CHECK_INT(encode_check(&lz4, 100, 100), -EBADMSG);
	CHECK_INT(encode_check(&lz4, 100, 0), -EBADMSG);
	CHECK_INT(encode_check(&lz4, 255, 1), 0);
	CHECK_INT(encode_check(&lz4, 256, 1), -EBADMSG);
	CHECK_INT(encode_check(&lz4, 25600, 100), -EBADMSG);
	CHECK_INT(encode_check(&none, 100, 50), -EBADMSG);
	CHECK_INT(encode_check(&wide, 100, 50), -EBADMSG);
	CHECK_INT(encode_check(&row, 100, 50), -EBADMSG);
	CHECK_INT(encode_check(&no_row, 100, 50), -EBADMSG);
	CHECK_INT(encode_check(&odd, 100, 100), -EBADMSG);
	CHECK_INT(encode_check(&long_row, 199, 50), -EBADMSG);
	CHECK_INT(encode_check(&long_row, 200, 50), 0);
	CHECK_INT(encode_check(&newer, 100, 50), -EPROTONOSUPPORT);
}

static void the_exact_length_is_wanted(void)
{
	struct encode_form lz4 = {ENCODE_LZ4, 1, 1};
	size_t len = 5000;
	uint8_t *raw = channels(len, 8, 4), *work = malloc(2 * len), *back = malloc(len + 1);
	struct encoded e;

	memset(raw, 7, len / 2);
	CHECK_INT(encode_store(ENCODE_POLICY_LZ4, &lz4, raw, len, work, &e), 0);
	CHECK_INT(e.form.method, ENCODE_LZ4);
	CHECK_INT(encode_load(&lz4, e.bytes, e.len, back, len + 1, NULL), -EBADMSG);
	CHECK_INT(encode_load(&lz4, e.bytes, e.len, back, len - 1, NULL), -EBADMSG);
	CHECK_INT(encode_load(&lz4, e.bytes, e.len - 1, back, len, NULL), -EBADMSG);
	free(raw);
	free(work);
	free(back);
}

/* 20,000 damaged streams: an error, or some bytes of the right number; a checksum tells which. */
static void damaged_streams_stay_inside(void)
{
	struct encode_form form = {ENCODE_LZ4, 2, 64};
	size_t len = 20000, refused = 0, unseen = 0;
	uint8_t *raw = channels(len, 64, 6), *work = malloc(2 * len), *back = malloc(len), *bad;
	uint64_t seed = 11, sum;
	struct encoded e;

	CHECK_INT(encode_store(ENCODE_POLICY_LZ4, &form, raw, len, work, &e), 0);
	CHECK_INT(e.form.method, ENCODE_LZ4);
	bad = malloc(e.len);
	sum = checksum_bytes(e.bytes, e.len);
	for (size_t i = 0; i < 20000; i++) {
		uint8_t *load_work = malloc(encode_load_work(len));

		memcpy(bad, e.bytes, e.len);
		for (size_t k = 0; k <= i % 4; k++)
			bad[random_next(&seed) % e.len] ^= (uint8_t)(1 + random_next(&seed) % 255);
		refused += encode_load(&form, bad, e.len, back, len, load_work) != 0;
		unseen += checksum_bytes(bad, e.len) == sum && memcmp(bad, e.bytes, e.len);
		free(load_work);
	}
	printf("# of 20000 damaged streams the decoder itself refused %zu, the checksum missed %zu\n",
	       refused, unseen);
	CHECK(refused > 0);
	CHECK_INT(unseen, 0);
	free(raw);
	free(work);
	free(back);
	free(bad);
}

static void names_and_checksums_are_the_known_ones(void)
{
	static const uint8_t abc[4] = {0xba, 0x78, 0x16, 0xbf};
	uint8_t name[DIGEST_LEN];

	CHECK_INT(encode_name("abc", 3, name), 0);
	CHECK(!memcmp(name, abc, sizeof(abc)));
	CHECK(checksum_bytes("", 0) == UINT64_C(0x2d06800538d394c2));
}

int main(void)
{
	RUN("every form and length comes back", every_form_and_length_comes_back);
	RUN("planes lie as documented", planes_lie_as_documented);
	RUN("auto takes the order that saves most", auto_takes_the_order_that_saves_most);
	RUN("odd numbers about a tensor are harmless", odd_numbers_about_a_tensor_are_harmless);
	RUN("auto wants a sixteenth", auto_wants_a_sixteenth);
	RUN("padding is compressed in a raw tensor too", padding_is_compressed_in_a_raw_tensor_too);
	RUN("sizes that cannot be are refused", sizes_that_cannot_be_are_refused);
	RUN("the exact length is wanted", the_exact_length_is_wanted);
	RUN("damaged streams stay inside", damaged_streams_stay_inside);
	RUN("names and checksums are the known ones", names_and_checksums_are_the_known_ones);
	UNIT_END();
}
