/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pack_writer.c - streams a pack into a sink and keeps only its index in memory, 88 bytes a record.
 *
 * A record is refused before its first byte is written, or it is written whole, or the sink failed and the
 * pack is lost: the writer then repeats that error and never writes again.
 * Easy to forget: room in the index is taken before the record goes out, so that memory cannot run short
 * between the two. */
#include "codec/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/checksum.h"
#include "codec/pack_record.h"

struct pack_writer {
	pack_write_fn *write;
	void *ctx;
	uint64_t salt;
	uint64_t at;
	int error; /* sticky: the sink's, or -EINVAL once ended */
	uint8_t *index;
	size_t n_places;
	size_t places_cap;
};

static int emit(struct pack_writer *w, const void *buf, size_t len)
{
	if (!w->error && len)
		w->error = w->write(w->ctx, buf, len);
	if (!w->error)
		w->at += len;
	return w->error;
}

int pack_writer_new(pack_write_fn *write, void *ctx, uint64_t salt, struct pack_writer **out)
{
	struct pack_writer *w = calloc(1, sizeof(*w));
	uint8_t head[PACK_HEAD_BYTES];
	int ret;

	if (!w)
		return -ENOMEM;
	w->write = write;
	w->ctx = ctx;
	w->salt = salt;
	pack_head_put(salt, head);
	ret = emit(w, head, sizeof(head));
	if (ret) {
		pack_writer_free(w);
		return ret;
	}
	*out = w;
	return 0;
}

static int index_reserve(struct pack_writer *w)
{
	size_t cap = w->places_cap ? 2 * w->places_cap : 64;
	uint8_t *larger;

	if (w->n_places < w->places_cap)
		return 0;
	larger = realloc(w->index, cap * PACK_PLACE_BYTES);
	if (!larger)
		return -ENOMEM;
	w->index = larger;
	w->places_cap = cap;
	return 0;
}

static int emit_record(struct pack_writer *w, const uint8_t header[PACK_HEADER_BYTES],
		       const struct pack_record *record, const void *stored)
{
	static const uint8_t padding[8];

	emit(w, header, PACK_HEADER_BYTES);
	emit(w, stored, record->stored_len);
	return emit(w, padding, pack_span(record) - PACK_HEADER_BYTES - record->stored_len);
}

/* Fills in what all records have, writes it, and notes it in the index. */
static int add_record(struct pack_writer *w, struct pack_record *record, const void *stored, uint64_t *offset)
{
	uint64_t begins = w->at;
	uint8_t *place;
	int ret = w->error;

	if (ret)
		return ret;
	if (w->n_places == PACK_RECORDS_MAX ||
	    pack_writer_size(w) > PACK_SIZE_MAX - 2 * (uint64_t)PACK_ENTRY_MAX)
		return -EFBIG;
	ret = index_reserve(w);
	if (ret)
		return ret;
	record->salt = w->salt;
	record->checksum = checksum_bytes(stored, record->stored_len);
	place = w->index + w->n_places * PACK_PLACE_BYTES;
	pack_put_u64(place, begins);
	pack_header_put(record, place + 8);
	ret = emit_record(w, place + 8, record, stored);
	if (ret)
		return ret;
	w->n_places++;
	*offset = begins;
	return 0;
}

int pack_writer_block(struct pack_writer *w, const uint8_t name[DIGEST_LEN], size_t raw_len,
		      const struct encoded *encoded, uint64_t *offset)
{
	struct pack_record record = {.kind = PACK_BLOCK, .form = encoded->form};

	if (encode_check(&encoded->form, raw_len, encoded->len))
		return -EINVAL;
	record.raw_len = (uint32_t)raw_len;
	record.stored_len = (uint32_t)encoded->len;
	memcpy(record.digest, name, DIGEST_LEN);
	return add_record(w, &record, encoded->bytes, offset);
}

static struct pack_record raw_record(enum pack_kind kind, size_t len)
{
	struct pack_record record = {
		.kind = kind,
		.form = {.method = ENCODE_RAW, .element_bytes = 1, .row_elements = 1},
		.raw_len = (uint32_t)len,
		.stored_len = (uint32_t)len,
	};

	return record;
}

int pack_writer_entry(struct pack_writer *w, const struct pack_entry *entry, uint64_t *offset)
{
	struct pack_record record;
	uint8_t *bytes;
	size_t len;
	int ret = pack_entry_bytes(entry, &bytes, &len);

	if (ret)
		return ret;
	record = raw_record(PACK_ENTRY, len);
	ret = encode_name(bytes, len, record.digest);
	if (!ret)
		ret = add_record(w, &record, bytes, offset);
	free(bytes);
	return ret;
}

uint64_t pack_writer_size(const struct pack_writer *w)
{
	return w->at;
}

uint64_t pack_writer_end_size(const struct pack_writer *w)
{
	return PACK_HEADER_BYTES + (uint64_t)w->n_places * PACK_PLACE_BYTES + PACK_TAIL_BYTES;
}

int pack_writer_end(struct pack_writer *w, uint8_t name[DIGEST_LEN])
{
	size_t len = w->n_places * PACK_PLACE_BYTES;
	struct pack_record record = raw_record(PACK_INDEX, len);
	struct pack_tail tail = {
		.salt = w->salt, .index_offset = w->at, .size_bytes = w->at + pack_writer_end_size(w)};
	uint8_t head[PACK_HEAD_BYTES], header[PACK_HEADER_BYTES], tail_bytes[PACK_TAIL_BYTES];
	int ret = w->error;

	if (!ret && !len)
		ret = -ENODATA;
	if (!ret)
		ret = encode_name(w->index, len, record.digest);
	if (ret)
		return ret;
	record.salt = w->salt;
	record.checksum = checksum_bytes(w->index, len);
	pack_head_put(w->salt, head);
	pack_header_put(&record, header);
	pack_tail_put(&tail, tail_bytes);
	ret = pack_name(head, header, tail_bytes, name);
	if (!ret)
		ret = emit_record(w, header, &record, w->index);
	if (!ret)
		ret = emit(w, tail_bytes, sizeof(tail_bytes));
	if (!ret)
		w->error = -EINVAL;
	return ret;
}

void pack_writer_free(struct pack_writer *w)
{
	if (!w)
		return;
	free(w->index);
	free(w);
}
