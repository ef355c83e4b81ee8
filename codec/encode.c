/* SPDX-License-Identifier: GPL-2.0-or-later */
/* encode.c - byte planes and LZ4, the only file that knows liblz4.
 *
 * Work memory of a store: the planes, then the compressed bytes. LZ4 is given exactly the room that the
 * policy allows, so bytes that do not pay are found out early and nothing can be written past the end.
 * Easy to forget: planes are a permutation, so a form with other numbers decodes without an error into other
 * bytes. The form is covered by the record header's checksum. */
#include "codec/encode.h"

#include <errno.h>
#include <lz4.h>
#include <stdbool.h>
#include <string.h>

enum { TILE = 16 };

static const struct encode_form form_raw = {.method = ENCODE_RAW, .element_bytes = 1, .row_elements = 1};
static const struct encode_form form_lz4 = {.method = ENCODE_LZ4, .element_bytes = 1, .row_elements = 1};

size_t encode_store_work(size_t raw_len)
{
	return 2 * raw_len;
}

size_t encode_load_work(size_t raw_len)
{
	return raw_len;
}

/* The most stored bytes that `policy` takes; 0 = store raw. */
static size_t stored_max(enum encode_policy policy, size_t raw_len)
{
	switch (policy) {
	case ENCODE_POLICY_AUTO:
		return raw_len - (raw_len + 15) / 16;
	case ENCODE_POLICY_LZ4:
		return raw_len - 1;
	case ENCODE_POLICY_NONE:
	default:
		return 0;
	}
}

static bool has_planes(const struct encode_form *form)
{
	return form->element_bytes > 1 || form->row_elements > 1;
}

/* Splitting into planes is a transposition of bytes: the block is `rows` rows of `columns` bytes, and each
 * column goes, whole, to a place that its plane and its channel decide. */
struct planes {
	size_t rows;
	size_t columns;
	size_t element_bytes;
	size_t row_elements;
};

static struct planes planes_of(const struct encode_form *form, size_t len)
{
	struct planes p = {.element_bytes = form->element_bytes, .row_elements = form->row_elements};

	p.columns = p.element_bytes * p.row_elements;
	p.rows = len / p.columns;
	return p;
}

static size_t column_place(const struct planes *p, size_t column)
{
	return (column % p->element_bytes * p->row_elements + column / p->element_bytes) * p->rows;
}

typedef uint8_t lane __attribute__((vector_size(TILE)));

/* Each round interleaves the first half of the lanes with the second; four make 16 x 16 bytes change sides.
 */
static inline void tile_transpose(lane tile[TILE])
{
	lane mixed[TILE];

	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < TILE / 2; i++) {
			lane a = tile[i], b = tile[i + TILE / 2];

			mixed[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
							       6, 22, 7, 23);
			mixed[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
								   13, 29, 14, 30, 15, 31);
		}
		memcpy(tile, mixed, sizeof(mixed));
	}
}

static void split_tile(const struct planes *p, const uint8_t *raw, size_t row, size_t column, uint8_t *planes)
{
	lane tile[TILE];

	for (size_t i = 0; i < TILE; i++)
		memcpy(&tile[i], raw + (row + i) * p->columns + column, TILE);
	tile_transpose(tile);
	for (size_t i = 0; i < TILE; i++)
		memcpy(planes + column_place(p, column + i) + row, &tile[i], TILE);
}

static void join_tile(const struct planes *p, const uint8_t *planes, size_t row, size_t column, uint8_t *raw)
{
	lane tile[TILE];

	for (size_t i = 0; i < TILE; i++)
		memcpy(&tile[i], planes + column_place(p, column + i) + row, TILE);
	tile_transpose(tile);
	for (size_t i = 0; i < TILE; i++)
		memcpy(raw + (row + i) * p->columns + column, &tile[i], TILE);
}

/* Whole tiles first, then what is left of each column: all of it where the tiles do not reach. */
static void planes_split(const struct encode_form *form, const uint8_t *raw, size_t len, uint8_t *planes)
{
	struct planes p = planes_of(form, len);
	size_t tiled_rows = p.rows - p.rows % TILE, tiled_columns = p.columns - p.columns % TILE;

	for (size_t row = 0; row < tiled_rows; row += TILE)
		for (size_t column = 0; column < tiled_columns; column += TILE)
			split_tile(&p, raw, row, column, planes);
	for (size_t column = 0; column < p.columns; column++) {
		uint8_t *to = planes + column_place(&p, column);

		for (size_t row = column < tiled_columns ? tiled_rows : 0; row < p.rows; row++)
			to[row] = raw[row * p.columns + column];
	}
	memcpy(planes + p.rows * p.columns, raw + p.rows * p.columns, len - p.rows * p.columns);
}

static void planes_join(const struct encode_form *form, const uint8_t *planes, size_t len, uint8_t *raw)
{
	struct planes p = planes_of(form, len);
	size_t tiled_rows = p.rows - p.rows % TILE, tiled_columns = p.columns - p.columns % TILE;

	for (size_t row = 0; row < tiled_rows; row += TILE)
		for (size_t column = 0; column < tiled_columns; column += TILE)
			join_tile(&p, planes, row, column, raw);
	for (size_t column = 0; column < p.columns; column++) {
		const uint8_t *from = planes + column_place(&p, column);

		for (size_t row = column < tiled_columns ? tiled_rows : 0; row < p.rows; row++)
			raw[row * p.columns + column] = from[row];
	}
	memcpy(raw + p.rows * p.columns, planes + p.rows * p.columns, len - p.rows * p.columns);
}

static bool form_possible(const struct encode_form *form)
{
	if (!form->element_bytes || form->element_bytes > ENCODE_ELEMENT_MAX)
		return false;
	if (!form->row_elements || form->row_elements > ENCODE_RAW_MAX)
		return false;
	return form->method != ENCODE_RAW || !has_planes(form);
}

/* A block shorter than one row has no planes; and no hostile form makes a short block long work. */
static bool form_fits(const struct encode_form *form, size_t raw_len)
{
	return (size_t)form->element_bytes * form->row_elements <= raw_len;
}

/* Compressed length, 0 when it is more than `max`. The bytes are then at work + len. */
static size_t compress(const struct encode_form *form, const uint8_t *raw, size_t len, size_t max,
		       uint8_t *work)
{
	const uint8_t *from = raw;
	int stored;

	if (!max)
		return 0;
	if (has_planes(form)) {
		planes_split(form, raw, len, work);
		from = work;
	}
	stored = LZ4_compress_default((const char *)from, (char *)work + len, (int)len, (int)max);
	return stored > 0 ? (size_t)stored : 0;
}

struct encode_form encode_choose(enum encode_policy policy, const void *sample, size_t len,
				 uint64_t element_bytes, uint64_t row_elements, void *work)
{
	uint16_t element = element_bytes > ENCODE_ELEMENT_MAX ? 1 : (uint16_t)element_bytes;
	uint32_t row = row_elements > ENCODE_RAW_MAX ? 1 : (uint32_t)row_elements;
	struct encode_form tries[] = {
		{ENCODE_LZ4, 1, 1}, {ENCODE_LZ4, element, 1}, {ENCODE_LZ4, element, row}};
	struct encode_form best = form_raw;
	size_t max;

	if (!len || len > ENCODE_RAW_MAX)
		return form_raw;
	max = stored_max(policy, len);
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		size_t stored;

		if (!form_possible(&tries[i]) || !form_fits(&tries[i], len) ||
		    (i && !memcmp(&tries[i], &tries[i - 1], sizeof(tries[i]))))
			continue;
		stored = compress(&tries[i], sample, len, max, work);
		if (!stored)
			continue;
		best = tries[i];
		max = stored - 1; /* the next one must be better */
	}
	return best;
}

int encode_store(enum encode_policy policy, const struct encode_form *form, const void *raw, size_t raw_len,
		 void *work, struct encoded *out)
{
	struct encode_form try = *form;
	size_t stored = 0;

	if (!raw_len || raw_len > ENCODE_RAW_MAX || !form_possible(form) || form->method > ENCODE_LZ4)
		return -EINVAL;
	if (form->method == ENCODE_RAW && raw_len > 1 && !memcmp(raw, (const uint8_t *)raw + 1, raw_len - 1))
		try = form_lz4;
	if (!form_fits(&try, raw_len))
		try = form_lz4;
	if (try.method == ENCODE_LZ4)
		stored = compress(&try, raw, raw_len, stored_max(policy, raw_len), work);
	out->form = stored ?
	try : form_raw
		;
	out->bytes = stored ? (const uint8_t *)work + raw_len : raw;
	out->len = stored ? stored : raw_len;
	return 0;
}

int encode_check(const struct encode_form *form, size_t raw_len, size_t stored_len)
{
	if (!raw_len || raw_len > ENCODE_RAW_MAX || !form_possible(form) || !form_fits(form, raw_len))
		return -EBADMSG;
	switch (form->method) {
	case ENCODE_RAW:
		return stored_len == raw_len ? 0 : -EBADMSG;
	case ENCODE_LZ4:
		if (!stored_len || stored_len >= raw_len || raw_len / stored_len > ENCODE_RATIO_MAX)
			return -EBADMSG;
		return 0;
	default:
		return -EPROTONOSUPPORT;
	}
}

int encode_load(const struct encode_form *form, const void *stored, size_t stored_len, void *raw,
		size_t raw_len, void *work)
{
	uint8_t *to = has_planes(form) ? work : raw;
	int ret = encode_check(form, raw_len, stored_len);

	if (ret)
		return ret;
	if (form->method == ENCODE_RAW) {
		memcpy(raw, stored, raw_len);
		return 0;
	}
	ret = LZ4_decompress_safe(stored, (char *)to, (int)stored_len, (int)raw_len);
	if (ret < 0 || (size_t)ret != raw_len)
		return -EBADMSG;
	if (has_planes(form))
		planes_join(form, to, raw_len, raw);
	return 0;
}

int encode_name(const void *raw, size_t raw_len, uint8_t name[DIGEST_LEN])
{
	struct digest *d = digest_new();
	int ret;

	if (!d)
		return -ENOMEM;
	ret = digest_add(d, raw, raw_len);
	if (!ret)
		ret = digest_end(d, name);
	digest_free(d);
	return ret;
}
