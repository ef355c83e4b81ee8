/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pack_scan.c - walks a pack record by record, over holes and damage, without its index.
 *
 * At each step the walk stands where something should begin: a record of this pack, a hole, or else junk,
 * which ends where the next record of this pack begins. A header that holds is believed about its length even
 * when its bytes are gone, so one bad block costs nothing but itself.
 *
 * What the source cannot read (-EIO) is damage like any other and is stepped over; any other failure of the
 * source ends the scan.
 * Easy to forget: the salt. Junk may be a client's bytes, and these may be a perfect record elsewhere. */
#include "codec/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/pack_record.h"

enum { SECTOR_BYTES = 4096, WINDOW_BYTES = 16 << 10 };

struct scan {
	const struct source *source;
	pack_found_fn *visit;
	void *ctx;
	uint64_t salt;
	uint64_t at;
	uint64_t end; /* of what is walked: the tail when it is in its place, else the end of the file */
	uint8_t *buffer;
	size_t buffer_bytes;
};

static int scan_read(const struct scan *s, void *buf, size_t len, uint64_t offset)
{
	if (offset > s->end || len > s->end - offset)
		return -EBADMSG;
	return s->source->read(s->source->ctx, buf, len, offset);
}

/* Errors that mean "these bytes are lost", not "the scan cannot go on". */
static bool is_damage(int ret)
{
	return ret == -EBADMSG || ret == -EIO || ret == -ENODATA;
}

/* From the head, else the tail, else the first record. */
static int learn_salt(struct scan *s)
{
	uint8_t bytes[PACK_HEADER_BYTES];
	struct pack_record record;
	struct pack_tail tail;
	int ret = scan_read(s, bytes, PACK_HEAD_BYTES, 0);

	if (!ret)
		ret = pack_head_get(bytes, &s->salt);
	if (!is_damage(ret))
		return ret;
	ret = s->end < PACK_TAIL_BYTES ? -EBADMSG
				       : scan_read(s, bytes, PACK_TAIL_BYTES, s->end - PACK_TAIL_BYTES);
	if (!ret)
		ret = pack_tail_get(bytes, &tail);
	if (!ret)
		s->salt = tail.salt;
	if (!is_damage(ret))
		return ret;
	ret = scan_read(s, bytes, PACK_HEADER_BYTES, PACK_HEAD_BYTES);
	if (!ret)
		ret = pack_header_get(bytes, &record);
	if (!ret)
		s->salt = record.salt;
	return is_damage(ret) ? -EBADMSG : ret;
}

/* The walk ends before this pack's tail when that is where the file ends. */
static int leave_out_tail(struct scan *s)
{
	uint8_t bytes[PACK_TAIL_BYTES];
	struct pack_tail tail;
	int ret;

	if (s->end < PACK_HEAD_BYTES + PACK_TAIL_BYTES)
		return 0;
	ret = scan_read(s, bytes, PACK_TAIL_BYTES, s->end - PACK_TAIL_BYTES);
	if (!ret)
		ret = pack_tail_get(bytes, &tail);
	if (!ret && tail.salt == s->salt && tail.size_bytes == s->end)
		s->end -= PACK_TAIL_BYTES;
	return is_damage(ret) ? 0 : ret;
}

static int buffer_reserve(struct scan *s, size_t len)
{
	uint8_t *larger;

	if (len <= s->buffer_bytes)
		return 0;
	larger = realloc(s->buffer, len);
	if (!larger)
		return -ENOMEM;
	s->buffer = larger;
	s->buffer_bytes = len;
	return 0;
}

/* Tells of a range without a record. */
static int tell_range(struct scan *s, enum pack_state state, uint64_t end)
{
	struct pack_found found = {.state = state, .offset = s->at, .len = end - s->at};

	s->at = end;
	return found.len ? s->visit(s->ctx, &found) : 0;
}

static int tell_record(struct scan *s, enum pack_state state, const struct pack_record *record, uint64_t end)
{
	struct pack_found found = {.state = state, .offset = s->at, .len = end - s->at, .record = *record};

	if (state == PACK_SOUND)
		found.stored = s->buffer;
	s->at = end;
	return s->visit(s->ctx, &found);
}

/* A whole header stands at s->at: its stored bytes, and its padding. */
static int scan_record(struct scan *s, const struct pack_record *record)
{
	uint64_t room = s->end - s->at, span = pack_span(record), end = s->at + span;
	size_t body = span - PACK_HEADER_BYTES;
	int ret;

	if (record->stored_len > room - PACK_HEADER_BYTES)
		return tell_record(s, PACK_DAMAGED, record, s->end);
	if (span > room) {
		end = s->end;
		body = room - PACK_HEADER_BYTES;
	}
	ret = buffer_reserve(s, body);
	if (!ret)
		ret = scan_read(s, s->buffer, body, s->at + PACK_HEADER_BYTES);
	if (!ret)
		ret = pack_stored_check(record, s->buffer);
	if (is_damage(ret))
		return tell_record(s, ret == -ENODATA ? PACK_PUNCHED : PACK_DAMAGED, record, end);
	if (ret)
		return ret;
	if (pack_all_zero(s->buffer + record->stored_len, body - record->stored_len))
		return tell_record(s, PACK_SOUND, record, end);
	ret = tell_record(s, PACK_SOUND, record, s->at + PACK_HEADER_BYTES + record->stored_len);
	return ret ? ret : tell_range(s, PACK_JUNK, end);
}

/* Where the zeros that begin at s->at end, down to a place where a record can begin. */
static int zeros_end(const struct scan *s, uint64_t *end)
{
	uint8_t window[WINDOW_BYTES];
	uint64_t at = s->at;

	while (at < s->end) {
		size_t len = s->end - at < sizeof(window) ? (size_t)(s->end - at) : sizeof(window), i = 0;
		int ret = scan_read(s, window, len, at);

		if (ret && !is_damage(ret))
			return ret;
		if (!ret && pack_all_zero(window, len)) {
			at += len;
			continue;
		}
		while (!ret && !window[i])
			i++;
		at += i & ~(size_t)7;
		break;
	}
	*end = at;
	return 0;
}

/* Looks for a record of this pack in `len` bytes that lie at `offset`; gives its offset, or the walk's end.
 */
static uint64_t find_record(const struct scan *s, const uint8_t *window, size_t len, uint64_t offset)
{
	struct pack_record record;

	for (size_t i = 0; i + PACK_HEADER_BYTES <= len; i += 8) {
		int ret;

		if (bytes_get_u64(window + i + PACK_SALT_AT) != s->salt)
			continue;
		ret = pack_header_get(window + i, &record);
		if (!ret || ret == -EPROTONOSUPPORT)
			return offset + i;
	}
	return s->end;
}

/* Where the junk that begins at s->at ends: at a record of this pack, or with the walk. */
static int junk_end(const struct scan *s, uint64_t *end)
{
	uint8_t window[SECTOR_BYTES + PACK_HEADER_BYTES];
	uint64_t at = s->at + 8;

	*end = s->end;
	while (*end == s->end && at < s->end) {
		uint64_t next = (at / SECTOR_BYTES + 1) * SECTOR_BYTES, last = next + PACK_HEADER_BYTES - 8;
		size_t len = (size_t)((last < s->end ? last : s->end) - at);
		int ret = scan_read(s, window, len, at);

		if (ret && !is_damage(ret))
			return ret;
		if (!ret)
			*end = find_record(s, window, len, at);
		at = next;
	}
	return 0;
}

static int scan_step(struct scan *s)
{
	uint8_t header[PACK_HEADER_BYTES];
	struct pack_record record;
	uint64_t end = 0;
	int ret = scan_read(s, header, sizeof(header), s->at);

	if (ret && !is_damage(ret))
		return ret;
	if (!ret && bytes_get_u64(header + PACK_SALT_AT) == s->salt) {
		ret = pack_header_get(header, &record);
		if (!is_damage(ret))
			return ret ? ret : scan_record(s, &record);
	}
	ret = zeros_end(s, &end);
	if (!ret && end > s->at)
		return tell_range(s, PACK_HOLE, end);
	if (!ret)
		ret = junk_end(s, &end);
	return ret ? ret : tell_range(s, PACK_JUNK, end);
}

int pack_scan(const struct source *source, pack_found_fn *visit, void *ctx)
{
	struct scan s = {.source = source,
			 .visit = visit,
			 .ctx = ctx,
			 .at = PACK_HEAD_BYTES,
			 .end = source->size_bytes};
	int ret = source->size_bytes > PACK_SIZE_MAX ? -EBADMSG : learn_salt(&s);

	if (!ret)
		ret = leave_out_tail(&s);
	while (!ret && s.at < s.end)
		ret = scan_step(&s);
	free(s.buffer);
	return ret;
}
