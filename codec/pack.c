/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pack.c - reads one block, and the index of a pack.
 *
 * The index is believed only as a whole: its checksum and its SHA-256 hold, every header in it holds, and the
 * records fill the file from the head to the index without a gap. What it says of a record is checked again
 * with the record's own header when that is read.
 * Easy to forget: a tail is the tail of this file only when it says the file's very size. */
#include "codec/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/pack_record.h"

static int source_read(const struct source *source, void *buf, size_t len, uint64_t offset)
{
	if (offset > source->size_bytes || len > source->size_bytes - offset)
		return -EBADMSG;
	return source->read(source->ctx, buf, len, offset);
}

int pack_header_read(const struct source *source, uint64_t offset, struct pack_record *out)
{
	uint8_t header[PACK_HEADER_BYTES];
	struct pack_record record;
	int ret = source_read(source, header, sizeof(header), offset);

	if (!ret)
		ret = pack_header_get(header, &record);
	if (ret)
		return ret;
	if (record.stored_len > source->size_bytes - offset - PACK_HEADER_BYTES)
		return -EBADMSG;
	*out = record;
	return 0;
}

int pack_stored_read(const struct source *source, uint64_t offset, const struct pack_record *record,
		     void *stored)
{
	int ret;

	if (offset > source->size_bytes)
		return -EBADMSG;
	ret = source_read(source, stored, record->stored_len, offset + PACK_HEADER_BYTES);
	return ret ? ret : pack_stored_check(record, stored);
}

static int block_check(const struct pack_record *record, const uint8_t name[DIGEST_LEN])
{
	return record->kind == PACK_BLOCK && !memcmp(record->digest, name, DIGEST_LEN) ? 0 : -EBADMSG;
}

int pack_block_read(const struct source *source, uint64_t offset, const uint8_t name[DIGEST_LEN],
		    void *stored, size_t cap, struct pack_record *out)
{
	struct pack_record record;
	int ret = pack_header_read(source, offset, &record);

	if (!ret)
		ret = block_check(&record, name);
	if (!ret && record.stored_len > cap)
		ret = -ENOSPC;
	if (!ret)
		ret = pack_stored_read(source, offset, &record, stored);
	if (!ret)
		*out = record;
	return ret;
}

int pack_block_open(const void *bytes, size_t len, const uint8_t name[DIGEST_LEN], struct pack_record *out,
		    const void **stored)
{
	const uint8_t *from = bytes;
	struct pack_record record;
	int ret;

	if (len < PACK_HEADER_BYTES)
		return -EBADMSG;
	ret = pack_header_get(from, &record);
	if (!ret)
		ret = block_check(&record, name);
	if (!ret && record.stored_len > len - PACK_HEADER_BYTES)
		ret = -EBADMSG;
	if (!ret)
		ret = pack_stored_check(&record, from + PACK_HEADER_BYTES);
	if (ret)
		return ret;
	*out = record;
	*stored = from + PACK_HEADER_BYTES;
	return 0;
}

int pack_block_load(const struct pack_record *record, const void *stored, void *raw, void *work, bool full)
{
	uint8_t digest[DIGEST_LEN];
	int ret = encode_load(&record->form, stored, record->stored_len, raw, record->raw_len, work);

	if (ret || !full)
		return ret;
	ret = encode_name(raw, record->raw_len, digest);
	if (ret)
		return ret;
	return memcmp(digest, record->digest, DIGEST_LEN) ? -EBADMSG : 0;
}

/* The pieces that a pack's name covers. */
struct outline {
	uint8_t head[PACK_HEAD_BYTES];
	uint8_t index_header[PACK_HEADER_BYTES];
	uint8_t tail[PACK_TAIL_BYTES];
	uint64_t salt;
	struct pack_tail end;
	struct pack_record record; /* of the index */
};

static int outline_ends(const struct source *source, struct outline *o)
{
	int ret;

	if (source->size_bytes < PACK_HEAD_BYTES)
		return -EBADMSG;
	ret = source_read(source, o->head, PACK_HEAD_BYTES, 0);
	if (!ret)
		ret = pack_head_get(o->head, &o->salt);
	if (!ret)
		ret = source_read(source, o->tail, PACK_TAIL_BYTES, source->size_bytes - PACK_TAIL_BYTES);
	if (!ret)
		ret = pack_tail_get(o->tail, &o->end);
	if (ret)
		return ret;
	return o->end.salt == o->salt && o->end.size_bytes == source->size_bytes ? 0 : -EBADMSG;
}

/* The index lies before the tail, and nothing between them. */
static int outline_index(const struct source *source, struct outline *o)
{
	uint64_t room = source->size_bytes - PACK_TAIL_BYTES;
	int ret;

	if (o->end.index_offset < PACK_HEAD_BYTES || o->end.index_offset > room)
		return -EBADMSG;
	ret = source_read(source, o->index_header, PACK_HEADER_BYTES, o->end.index_offset);
	if (!ret)
		ret = pack_header_get(o->index_header, &o->record);
	if (ret)
		return ret == -ENODATA ? -EBADMSG : ret;
	if (o->record.kind != PACK_INDEX || o->record.salt != o->salt || o->record.raw_len % PACK_PLACE_BYTES)
		return -EBADMSG;
	return pack_span(&o->record) == room - o->end.index_offset ? 0 : -EBADMSG;
}

static int places_fill(struct pack_index *index, const uint8_t *raw, uint64_t end)
{
	uint64_t at = PACK_HEAD_BYTES;

	for (size_t i = 0; i < index->n_places; i++, raw += PACK_PLACE_BYTES) {
		struct pack_place *place = &index->places[i];
		int ret = pack_header_get(raw + 8, &place->record);

		if (ret)
			return ret == -ENODATA ? -EBADMSG : ret;
		place->offset = bytes_get_u64(raw);
		if (place->offset != at || place->record.kind == PACK_INDEX ||
		    place->record.salt != index->salt)
			return -EBADMSG;
		at += pack_span(&place->record); /* at most 2^18 x 2^32: no overflow */
	}
	return at == end ? 0 : -EBADMSG;
}

static int index_load(const struct source *source, const struct outline *o, struct pack_index *index)
{
	uint8_t *raw = malloc(o->record.raw_len), digest[DIGEST_LEN];
	int ret = raw ? 0 : -ENOMEM;

	if (!ret)
		ret = pack_stored_read(source, o->end.index_offset, &o->record, raw);
	if (!ret)
		ret = encode_name(raw, o->record.raw_len, digest);
	if (!ret && memcmp(digest, o->record.digest, DIGEST_LEN))
		ret = -EBADMSG;
	if (!ret)
		ret = places_fill(index, raw, o->end.index_offset);
	if (!ret)
		ret = pack_name(o->head, o->index_header, o->tail, index->name);
	free(raw);
	return ret == -ENODATA ? -EBADMSG : ret;
}

int pack_index_read(const struct source *source, struct pack_index **out)
{
	struct outline o;
	struct pack_index *index;
	int ret = outline_ends(source, &o);

	if (!ret)
		ret = outline_index(source, &o);
	if (ret)
		return ret;
	index = calloc(1, sizeof(*index));
	if (!index)
		return -ENOMEM;
	index->salt = o.salt;
	index->size_bytes = source->size_bytes;
	index->n_places = o.record.raw_len / PACK_PLACE_BYTES;
	index->places = calloc(index->n_places, sizeof(*index->places));
	ret = index->places ? index_load(source, &o, index) : -ENOMEM;
	if (ret) {
		pack_index_free(index);
		return ret;
	}
	*out = index;
	return 0;
}

void pack_index_free(struct pack_index *index)
{
	if (!index)
		return;
	free(index->places);
	free(index);
}
