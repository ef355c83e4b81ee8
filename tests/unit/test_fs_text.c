/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_fs_text.c - the promises of fs/text.h. */
#include "fs/text.h"

#include <errno.h>

#include "unit.h"

static void times_are_rfc3339_utc_with_nanoseconds(void)
{
	char buf[TEXT_TIME_CAP];
	struct text t = text_over(buf, sizeof(buf));

	setenv("TZ", "America/Caracas", 1);
	text_add_time(&t, &(struct timespec){.tv_sec = 1796058000, .tv_nsec = 123456789});
	CHECK_STR(buf, "2026-11-30T17:00:00.123456789Z");
	t = text_over(buf, sizeof(buf));
	text_add_time(&t, &(struct timespec){.tv_sec = 0, .tv_nsec = 5});
	CHECK_STR(buf, "1970-01-01T00:00:00.000000005Z");
	t = text_over(buf, sizeof(buf));
	text_add_time(&t, &(struct timespec){.tv_sec = -1, .tv_nsec = 0});
	CHECK_STR(buf, "1969-12-31T23:59:59.000000000Z");
}

static void a_time_beyond_every_calendar_is_left_out(void)
{
	char buf[TEXT_TIME_CAP];
	struct text t = text_over(buf, sizeof(buf));

	text_add_time(&t, &(struct timespec){.tv_sec = INT64_MAX, .tv_nsec = 0});
	CHECK(t.cut);
	CHECK_STR(buf, "");
}

static void control_bytes_and_percent_are_escaped_and_nothing_else(void)
{
	char buf[256];
	struct text t = text_over(buf, sizeof(buf));

	text_add_escaped(&t, "a b%c\n\x7f\xff\xc3\xa9~!", 12);
	CHECK_STR(buf, "a%20b%25c%0A%7F\xff\xc3\xa9~!");
	t = text_over(buf, sizeof(buf));
	text_add_escaped(&t, "\0\x1f\x20\x21", 4);
	CHECK_STR(buf, "%00%1F%20!");
}

static void what_does_not_fit_is_left_out_whole(void)
{
	char buf[9];
	struct text t = text_over(buf, sizeof(buf));

	text_add(&t, "%s", "1234567");
	text_add(&t, "%s", "89");
	CHECK_STR(buf, "1234567");
	CHECK(t.cut);
	text_add(&t, "8");
	text_add_bytes(&t, "8", 1);
	CHECK_STR(buf, "1234567");
	CHECK_INT(t.len, 7);
}

static void an_escaped_name_is_never_cut_in_half(void)
{
	char buf[9];
	struct text t = text_over(buf, sizeof(buf));

	text_add(&t, "p=");
	text_add_escaped(&t, "abcd\n", 5);
	CHECK_STR(buf, "p=");
	CHECK(t.cut);
}

static void a_text_fills_its_buffer_to_the_last_byte(void)
{
	char buf[9];
	struct text t = text_over(buf, sizeof(buf));

	text_add_bytes(&t, "12345678", 8);
	CHECK(!t.cut);
	CHECK_INT(t.len, 8);
	CHECK_STR(buf, "12345678");
	text_add_bytes(&t, "", 0);
	CHECK(!t.cut);
}

static void check_size(const char *text, int want, uint64_t want_bytes)
{
	uint64_t bytes = 4711;

	CHECK_INT(text_size(text, strlen(text), &bytes), want);
	CHECK_INT(bytes, want ? 4711 : want_bytes);
}

static void sizes_take_k_m_g_t_and_refuse_the_rest(void)
{
	check_size("0", 0, 0);
	check_size("12", 0, 12);
	check_size("3K", 0, 3072);
	check_size("3k", 0, 3072);
	check_size("2M", 0, 2u << 20);
	check_size("1G", 0, 1u << 30);
	check_size("1t", 0, 1ull << 40);
	check_size("18446744073709551615", 0, UINT64_MAX);
	check_size("18446744073709551616", -ERANGE, 0);
	check_size("16777216T", -ERANGE, 0);
	check_size("", -EINVAL, 0);
	check_size("K", -EINVAL, 0);
	check_size("-1", -EINVAL, 0);
	check_size("+1", -EINVAL, 0);
	check_size(" 1", -EINVAL, 0);
	check_size("1 ", -EINVAL, 0);
	check_size("1KB", -EINVAL, 0);
	check_size("1.5G", -EINVAL, 0);
	check_size("0x10", -EINVAL, 0);
}

static void hex_and_words(void)
{
	char buf[16];
	struct text t = text_over(buf, sizeof(buf));

	text_add_hex(&t, (const uint8_t[]){0x00, 0xab, 0x7f}, 3);
	CHECK_STR(buf, "00ab7f");
	CHECK(text_is("yes", 3, "yes"));
	CHECK(!text_is("yes\n", 4, "yes"));
	CHECK(!text_is("ye", 2, "yes"));
}

int main(void)
{
	RUN("times are RFC 3339 in UTC with nanoseconds", times_are_rfc3339_utc_with_nanoseconds);
	RUN("a time beyond every calendar is left out", a_time_beyond_every_calendar_is_left_out);
	RUN("control bytes and percent are escaped, nothing else",
	    control_bytes_and_percent_are_escaped_and_nothing_else);
	RUN("what does not fit is left out whole", what_does_not_fit_is_left_out_whole);
	RUN("an escaped name is never cut in half", an_escaped_name_is_never_cut_in_half);
	RUN("a text fills its buffer to the last byte", a_text_fills_its_buffer_to_the_last_byte);
	RUN("sizes take K M G T and refuse the rest", sizes_take_k_m_g_t_and_refuse_the_rest);
	RUN("hex digits and whole words", hex_and_words);
	UNIT_END();
}
