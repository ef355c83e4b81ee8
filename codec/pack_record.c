/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pack_record.c - the fixed-size pieces of a pack, to bytes and back.
 *
 * Getting one is always in this order: magic, checksum, version, fields. The checksum comes before the
 * version, so that a flipped bit in the version is damage and not a newer program. Reserved bytes must be
 * zero: a later version that gives them a meaning has another number. */
#include "codec/pack_record.h"

#include <errno.h>
#include <string.h>

#include "codec/checksum.h"

static const char head_magic[] = "KVBPACK\n", tail_magic[] = "KVBTAIL\n", record_magic[] = "KVRC";

enum { MAGIC_BYTES = 8, RECORD_MAGIC_BYTES = 4, FRAME_SUM_AT = 56, HEADER_SUM_AT = 72 };

bool pack_all_zero(const void *bytes, size_t len)
{
	const uint8_t *b = bytes;

	return !len || (!b[0] && !memcmp(b, b + 1, len - 1));
}

/* Head and tail have their magic, version and checksum in the same places. */
static void frame_begin(uint8_t *to, const char *magic, uint64_t salt)
{
	memset(to, 0, PACK_HEAD_BYTES);
	memcpy(to, magic, MAGIC_BYTES);
	pack_put_u32(to + 8, PACK_VERSION);
	pack_put_u64(to + 16, salt);
}

static void frame_end(uint8_t *to)
{
	pack_put_u64(to + FRAME_SUM_AT, checksum_bytes(to, FRAME_SUM_AT));
}

static int frame_check(const uint8_t *from, const char *magic)
{
	if (memcmp(from, magic, MAGIC_BYTES) ||
	    checksum_bytes(from, FRAME_SUM_AT) != bytes_get_u64(from + FRAME_SUM_AT))
		return -EBADMSG;
	if (bytes_get_u32(from + 8) > PACK_VERSION)
		return -EPROTONOSUPPORT;
	return bytes_get_u32(from + 8) == PACK_VERSION && !bytes_get_u32(from + 12) ? 0 : -EBADMSG;
}

void pack_head_put(uint64_t salt, uint8_t to[PACK_HEAD_BYTES])
{
	frame_begin(to, head_magic, salt);
	frame_end(to);
}

int pack_head_get(const uint8_t from[PACK_HEAD_BYTES], uint64_t *salt)
{
	int ret = frame_check(from, head_magic);

	if (ret)
		return ret;
	if (!pack_all_zero(from + 24, FRAME_SUM_AT - 24))
		return -EBADMSG;
	*salt = bytes_get_u64(from + 16);
	return 0;
}

void pack_tail_put(const struct pack_tail *tail, uint8_t to[PACK_TAIL_BYTES])
{
	frame_begin(to, tail_magic, tail->salt);
	pack_put_u64(to + 24, tail->index_offset);
	pack_put_u64(to + 32, tail->size_bytes);
	frame_end(to);
}

int pack_tail_get(const uint8_t from[PACK_TAIL_BYTES], struct pack_tail *out)
{
	int ret = frame_check(from, tail_magic);

	if (ret)
		return ret;
	if (!pack_all_zero(from + 40, FRAME_SUM_AT - 40))
		return -EBADMSG;
	out->salt = bytes_get_u64(from + 16);
	out->index_offset = bytes_get_u64(from + 24);
	out->size_bytes = bytes_get_u64(from + 32);
	return 0;
}

void pack_header_put(const struct pack_record *record, uint8_t to[PACK_HEADER_BYTES])
{
	memset(to, 0, PACK_HEADER_BYTES);
	memcpy(to, record_magic, RECORD_MAGIC_BYTES);
	to[4] = PACK_VERSION;
	to[5] = (uint8_t)record->kind;
	to[6] = record->form.method;
	pack_put_u16(to + 8, record->form.element_bytes);
	pack_put_u32(to + 12, record->form.row_elements);
	pack_put_u32(to + 16, record->raw_len);
	pack_put_u32(to + 20, record->stored_len);
	pack_put_u64(to + PACK_SALT_AT, record->salt);
	memcpy(to + 32, record->digest, DIGEST_LEN);
	pack_put_u64(to + 64, record->checksum);
	pack_put_u64(to + HEADER_SUM_AT, checksum_bytes(to, HEADER_SUM_AT));
}

static int raw_check(const struct pack_record *record, size_t raw_max)
{
	const struct encode_form *form = &record->form;

	if (form->method != ENCODE_RAW || form->element_bytes != 1 || form->row_elements != 1)
		return -EBADMSG;
	if (!record->raw_len || record->raw_len > raw_max || record->raw_len != record->stored_len)
		return -EBADMSG;
	return 0;
}

static int record_check(const struct pack_record *record)
{
	switch (record->kind) {
	case PACK_BLOCK:
		return encode_check(&record->form, record->raw_len, record->stored_len);
	case PACK_ENTRY:
		return raw_check(record, PACK_ENTRY_MAX);
	case PACK_INDEX:
		return raw_check(record, (size_t)PACK_RECORDS_MAX * PACK_PLACE_BYTES);
	default:
		return -EBADMSG;
	}
}

int pack_header_get(const uint8_t from[PACK_HEADER_BYTES], struct pack_record *out)
{
	if (pack_all_zero(from, PACK_HEADER_BYTES))
		return -ENODATA;
	if (memcmp(from, record_magic, RECORD_MAGIC_BYTES) ||
	    checksum_bytes(from, HEADER_SUM_AT) != bytes_get_u64(from + HEADER_SUM_AT))
		return -EBADMSG;
	if (from[4] > PACK_VERSION)
		return -EPROTONOSUPPORT;
	if (from[4] != PACK_VERSION || from[7] || from[10] || from[11])
		return -EBADMSG;
	out->kind = from[5];
	out->form.method = from[6];
	out->form.element_bytes = (uint16_t)(from[8] | from[9] << 8);
	out->form.row_elements = bytes_get_u32(from + 12);
	out->raw_len = bytes_get_u32(from + 16);
	out->stored_len = bytes_get_u32(from + 20);
	out->salt = bytes_get_u64(from + PACK_SALT_AT);
	memcpy(out->digest, from + 32, DIGEST_LEN);
	out->checksum = bytes_get_u64(from + 64);
	return record_check(out);
}

int pack_stored_check(const struct pack_record *record, const void *stored)
{
	if (checksum_bytes(stored, record->stored_len) == record->checksum)
		return 0;
	return pack_all_zero(stored, record->stored_len) ? -ENODATA : -EBADMSG;
}

int pack_name(const uint8_t head[PACK_HEAD_BYTES], const uint8_t index_header[PACK_HEADER_BYTES],
	      const uint8_t tail[PACK_TAIL_BYTES], uint8_t name[DIGEST_LEN])
{
	uint8_t all[PACK_HEAD_BYTES + PACK_HEADER_BYTES + PACK_TAIL_BYTES];

	memcpy(all, head, PACK_HEAD_BYTES);
	memcpy(all + PACK_HEAD_BYTES, index_header, PACK_HEADER_BYTES);
	memcpy(all + PACK_HEAD_BYTES + PACK_HEADER_BYTES, tail, PACK_TAIL_BYTES);
	return encode_name(all, sizeof(all), name);
}

uint64_t pack_span(const struct pack_record *record)
{
	return PACK_HEADER_BYTES + pack_align(record->stored_len);
}
