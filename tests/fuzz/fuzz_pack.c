/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fuzz_pack.c - hostile packs, entry records and stored blocks.
 *
 * The first byte chooses a target, the rest are its bytes:
 *	0  a pack as it is
 *	1  a pack whose checksums are made right first, so that damage reaches what lies behind them
 *	2  an entry record
 *	3  a stored block: 10 bytes of form and lengths, then stored bytes
 *	4  raw bytes to encode, with a form of 8 bytes
 *
 * Properties: nothing is read outside the source; the ranges of a scan follow each other to its end; an
 * index that is believed lies inside the file; an entry that parses is written as the same bytes; what is
 * encoded decodes.
 *
 * For clang's libFuzzer (-fsanitize=fuzzer), or with replay.c for a run over files. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/checksum.h"
#include "codec/pack.h"
#include "codec/pack_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
	const uint8_t *bytes;
	size_t len;
	uint64_t at; /* where the next range of a scan must begin */
};

static void must(bool truth)
{
	if (!truth)
		abort();
}

static int memory_read(void *ctx, void *buf, size_t len, uint64_t offset)
{
	const struct memory *m = ctx;

	must(offset <= m->len && len <= m->len - offset);
	memcpy(buf, m->bytes + offset, len);
	return 0;
}

static void try_entry(const uint8_t *raw, size_t len)
{
	struct pack_entry *entry;
	uint8_t *again;
	size_t again_len;

	if (pack_entry_parse(raw, len, &entry))
		return;
	must(pack_entry_blocks(entry) <= PACK_BLOCKS_MAX);
	must(!pack_entry_bytes(entry, &again, &again_len));
	must(again_len == len && !memcmp(again, raw, len));
	free(again);
	pack_entry_free(entry);
}

static void try_block(const struct pack_record *record, const void *stored)
{
	uint8_t *raw = malloc(record->raw_len), *work = malloc(encode_load_work(record->raw_len));

	must(record->raw_len <= ENCODE_RAW_MAX && record->stored_len <= record->raw_len);
	pack_block_load(record, stored, raw, work, false);
	free(raw);
	free(work);
}

static int look_at(void *ctx, const struct pack_found *found)
{
	struct memory *m = ctx;

	must(found->offset == m->at && found->len && found->len <= m->len - found->offset);
	m->at = found->offset + found->len;
	if (found->state == PACK_SOUND && found->record.kind == PACK_ENTRY)
		try_entry(found->stored, found->record.raw_len);
	if (found->state == PACK_SOUND && found->record.kind == PACK_BLOCK)
		try_block(&found->record, found->stored);
	return 0;
}

static void try_index(const struct source *source)
{
	uint8_t *stored = malloc(ENCODE_RAW_MAX);
	struct pack_index *index;
	struct pack_record record;

	if (!pack_index_read(source, &index)) {
		for (size_t i = 0; i < index->n_places; i++) {
			const struct pack_place *p = &index->places[i];

			must(p->offset < source->size_bytes);
			must(pack_span(&p->record) <= source->size_bytes - p->offset);
			if (!pack_block_read(source, p->offset, p->record.digest, stored, ENCODE_RAW_MAX,
					     &record))
				try_block(&record, stored);
		}
		pack_index_free(index);
	}
	free(stored);
}

static void try_pack(const uint8_t *bytes, size_t len)
{
	struct memory m = {.bytes = bytes, .len = len, .at = PACK_HEAD_BYTES};
	struct source source = {.read = memory_read, .ctx = &m, .size_bytes = len};

	if (!pack_scan(&source, look_at, &m) && len > PACK_HEAD_BYTES)
		must(m.at == len || m.at == len - PACK_TAIL_BYTES);
	try_index(&source);
}

/* Signs one record; gives where the next begins. Headers in an index are signed too. */
static size_t sign_record(uint8_t *bytes, size_t at, size_t len)
{
	uint8_t *header = bytes + at, *stored = header + PACK_HEADER_BYTES;
	size_t room = len - at - PACK_HEADER_BYTES, stored_len = bytes_get_u32(header + 20);

	stored_len = stored_len < room ? stored_len : room;
	for (size_t i = 0; header[5] == PACK_INDEX && i + PACK_PLACE_BYTES <= stored_len;
	     i += PACK_PLACE_BYTES)
		pack_put_u64(stored + i + 80, checksum_bytes(stored + i + 8, 72));
	if (header[5] == PACK_INDEX)
		encode_name(stored, stored_len, header + 32);
	pack_put_u64(header + 64, checksum_bytes(stored, stored_len));
	pack_put_u64(header + 72, checksum_bytes(header, 72));
	return at + PACK_HEADER_BYTES + pack_align(stored_len);
}

static void sign_pack(uint8_t *bytes, size_t len)
{
	size_t at = PACK_HEAD_BYTES;

	if (len < PACK_HEAD_BYTES + PACK_TAIL_BYTES)
		return;
	pack_put_u64(bytes + 56, checksum_bytes(bytes, 56));
	pack_put_u64(bytes + len - 8, checksum_bytes(bytes + len - PACK_TAIL_BYTES, 56));
	while (at < len && len - at >= PACK_HEADER_BYTES + PACK_TAIL_BYTES)
		at = memcmp(bytes + at, "KVRC", 4) ? at + 8 : sign_record(bytes, at, len);
}

static void try_stored(const uint8_t *bytes, size_t len)
{
	struct encode_form form;
	uint8_t *raw, *work;
	size_t raw_len;

	if (len < 10)
		return;
	form.method = bytes[0];
	form.element_bytes = (uint16_t)(bytes[1] | bytes[2] << 8);
	form.row_elements = bytes_get_u32(bytes + 2) >> 8;
	raw_len = bytes_get_u32(bytes + 6);
	if (encode_check(&form, raw_len, len - 10))
		return;
	raw = malloc(raw_len);
	work = malloc(encode_load_work(raw_len));
	encode_load(&form, bytes + 10, len - 10, raw, raw_len, work);
	free(raw);
	free(work);
}

static void try_encode(const uint8_t *bytes, size_t len)
{
	struct encode_form form;
	uint8_t *work, *back, *load_work;
	struct encoded e;

	if (len < 9)
		return;
	work = malloc(encode_store_work(len - 8));
	back = malloc(len - 8);
	load_work = malloc(encode_load_work(len - 8));
	form = encode_choose(bytes[0] % 3, bytes + 8, len - 8, bytes[1],
			     bytes_get_u32(bytes + 2) >> bytes[6] % 32, work);
	must(!encode_store(bytes[0] % 3, &form, bytes + 8, len - 8, work, &e) && e.len <= len - 8);
	must(!encode_load(&e.form, e.bytes, e.len, back, len - 8, load_work) &&
	     !memcmp(back, bytes + 8, len - 8));
	free(work);
	free(back);
	free(load_work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;

	if (!size--)
		return 0;
	bytes = malloc(size ? size : 1); /* of the exact size, and ours to write to */
	memcpy(bytes, data + 1, size);
	switch (data[0] % 5) {
	case 0:
		try_pack(bytes, size);
		break;
	case 1:
		sign_pack(bytes, size);
		try_pack(bytes, size);
		break;
	case 2:
		try_entry(bytes, size);
		break;
	case 3:
		try_stored(bytes, size);
		break;
	default:
		try_encode(bytes, size);
	}
	free(bytes);
	return 0;
}
