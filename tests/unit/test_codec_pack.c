/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_codec_pack.c - what goes into a pack comes out of it, or an error does; a scan finds what is left.
 *
 * A model remembers the raw bytes of every record. Damage is checked in two ways: reading any record at its
 * place gives the model's bytes or an error, and looking over the whole pack notices that something is wrong.
 */
#include "codec/pack.h"

#include <errno.h>
#include <sys/stat.h>

#include "codec/checksum.h"
#include "codec/pack_record.h"
#include "unit.h"

enum { RECORDS_MAX = 64, SALT = 0x5a17 };

struct memory {
	uint8_t *bytes;
	size_t len;
	size_t cap;
	size_t writes;
	size_t fail_at;	 /* the write with this number fails; 0 = none */
	size_t bad_from; /* reads that touch bad_from .. bad_end - 1 fail with -EIO */
	size_t bad_end;
	size_t reads;
	size_t stall_at; /* the read with this number fails with -ETIMEDOUT; 0 = none */
};

struct model_record {
	uint64_t offset;
	uint8_t digest[DIGEST_LEN];
	uint8_t *raw;
	size_t len;
	enum pack_kind kind;
};

struct model {
	struct memory pack;
	struct memory work; /* the copy that gets damaged */
	struct model_record records[RECORDS_MAX];
	size_t count;
	uint8_t name[DIGEST_LEN];
};

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int memory_write(void *ctx, const void *buf, size_t len)
{
	struct memory *m = ctx;

	if (++m->writes == m->fail_at)
		return -ENOSPC;
	if (len > m->cap - m->len) {
		m->cap = 2 * (m->len + len);
		m->bytes = realloc(m->bytes, m->cap);
	}
	memcpy(m->bytes + m->len, buf, len);
	m->len += len;
	return 0;
}

static int memory_read(void *ctx, void *buf, size_t len, uint64_t offset)
{
	struct memory *m = ctx;

	if (offset > m->len || len > m->len - offset)
		abort(); /* a source is never asked for what it does not have */
	if (++m->reads == m->stall_at)
		return -ETIMEDOUT;
	if (offset < m->bad_end && offset + len > m->bad_from)
		return -EIO;
	memcpy(buf, m->bytes + offset, len);
	return 0;
}

static struct source source_of(struct memory *m)
{
	struct source source = {.read = memory_read, .ctx = m, .size_bytes = m->len};

	return source;
}

/* --- making packs --- */

static struct pack_bytes text(const char *bytes)
{
	struct pack_bytes t = {bytes, strlen(bytes)};

	return t;
}

/* Every field set, two segments, names that are no text. */
static struct pack_entry sample_entry(uint64_t version, const uint8_t *block_names, uint32_t count)
{
	static const struct pack_bytes names[] = {{"user\n\xff", 6}, {"...", 3}, {"slot0.bin", 9}};
	static struct pack_xattr xattrs[2];
	static struct pack_segment segments[2];
	struct pack_entry e = {
		.version = version,
		.part_of = 7,
		.size_bytes = UINT64_C(5) << 32,
		.uid = 1000,
		.gid = 4294967294u,
		.mode = S_IFREG | 0640,
		.layout = 1,
		.created = {1, 2},
		.modified = {-3, 999999999},
		.changed = {INT64_C(1) << 40, 0},
		.accessed = {5, 6},
		.digest_known = true,
		.n_names = 3,
		.names = names,
		.n_xattrs = 2,
		.xattrs = xattrs,
		.n_segments = count ? 2 : 1,
		.segments = segments,
		.map = {"map bytes", 9},
	};

	memset(e.digest, 0xd1, DIGEST_LEN);
	xattrs[0] = (struct pack_xattr){text("user.kvbank.model"), text("a model")};
	xattrs[1] = (struct pack_xattr){text("user.empty"), text("")};
	segments[0] = (struct pack_segment){.parent = 3, .first = 9, .count = 100000};
	segments[1] = (struct pack_segment){.count = count, .names = block_names};
	return e;
}

static void model_remember(struct model *m, enum pack_kind kind, const void *raw, size_t len, uint64_t offset)
{
	struct model_record *r = &m->records[m->count++];

	r->kind = kind;
	r->offset = offset;
	r->len = len;
	r->raw = malloc(len);
	memcpy(r->raw, raw, len);
	encode_name(raw, len, r->digest);
}

static void add_block(struct model *m, struct pack_writer *w, const uint8_t *raw, size_t len)
{
	uint8_t name[DIGEST_LEN], *work = malloc(encode_store_work(len));
	struct encode_form form = encode_choose(ENCODE_POLICY_AUTO, raw, len, 2, 16, work);
	struct encoded e;
	uint64_t offset;

	CHECK_INT(encode_name(raw, len, name), 0);
	CHECK_INT(encode_store(ENCODE_POLICY_AUTO, &form, raw, len, work, &e), 0);
	CHECK_INT(pack_writer_block(w, name, len, &e, &offset), 0);
	model_remember(m, PACK_BLOCK, raw, len, offset);
	free(work);
}

static void add_entry(struct model *m, struct pack_writer *w, uint64_t version)
{
	uint8_t *names = malloc(RECORDS_MAX * DIGEST_LEN), *raw;
	uint32_t count = 0;
	struct pack_entry entry;
	uint64_t offset;
	size_t len;

	for (size_t i = 0; i < m->count; i++)
		if (m->records[i].kind == PACK_BLOCK)
			memcpy(names + (size_t)DIGEST_LEN * count++, m->records[i].digest, DIGEST_LEN);
	entry = sample_entry(version, names, count);
	CHECK_INT(pack_writer_entry(w, &entry, &offset), 0);
	CHECK_INT(pack_entry_bytes(&entry, &raw, &len), 0);
	model_remember(m, PACK_ENTRY, raw, len, offset);
	free(raw);
	free(names);
}

/* Blocks of 1 to block_max bytes, every third one compressible, and an entry after each five. */
static void model_make(struct model *m, size_t blocks, size_t block_max, uint64_t salt)
{
	uint64_t seed = blocks * 1000 + block_max;
	uint8_t *raw = malloc(block_max);
	struct pack_writer *w;

	memset(m, 0, sizeof(*m));
	CHECK_INT(pack_writer_new(memory_write, &m->pack, salt, &w), 0);
	for (size_t i = 0; i < blocks; i++) {
		size_t len = 1 + random_next(&seed) % block_max;

		for (size_t k = 0; k < len; k++)
			raw[k] = i % 3 ? (uint8_t)random_next(&seed) : (uint8_t)(k / 64);
		add_block(m, w, raw, len);
		if (i % 5 == 4)
			add_entry(m, w, 100 + i);
	}
	CHECK_INT(pack_writer_end(w, m->name), 0);
	pack_writer_free(w);
	free(raw);
	m->work = m->pack;
	m->work.bytes = malloc(m->pack.len + 4096);
	memcpy(m->work.bytes, m->pack.bytes, m->pack.len);
}

static void model_free(struct model *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->records[i].raw);
	free(m->pack.bytes);
	free(m->work.bytes);
}

static void model_reset(struct model *m)
{
	memcpy(m->work.bytes, m->pack.bytes, m->pack.len);
	m->work.len = m->pack.len;
	m->work.bad_from = m->work.bad_end = 0;
}

/* --- looking over a pack --- */

struct findings {
	struct model *model;
	size_t sound;	/* records of the model that a scan gave back */
	size_t index;	/* index records */
	size_t punched; /* records */
	size_t holes;
	size_t flaws; /* ranges that are anything but sound */
	size_t wrong; /* bytes that nobody put: must stay 0 */
	uint64_t at;  /* ranges must follow each other */
};

static const struct model_record *model_find(const struct model *m, const struct pack_record *record)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->records[i].kind == record->kind &&
		    !memcmp(m->records[i].digest, record->digest, DIGEST_LEN))
			return &m->records[i];
	return NULL;
}

/* Whether verified stored bytes decode to what the model has under that name. */
static bool gives_what_was_put(const struct model *m, const struct pack_record *record, const void *stored)
{
	const struct model_record *r = model_find(m, record);
	uint8_t *raw, *work;
	bool good;

	if (!r || record->raw_len != r->len)
		return false;
	raw = malloc(record->raw_len);
	work = malloc(encode_load_work(record->raw_len));
	good = !pack_block_load(record, stored, raw, work, true) && !memcmp(raw, r->raw, r->len);
	free(raw);
	free(work);
	return good;
}

static int look_at(void *ctx, const struct pack_found *found)
{
	struct findings *f = ctx;

	f->wrong += found->offset != f->at || !found->len;
	f->at = found->offset + found->len;
	f->flaws += found->state != PACK_SOUND;
	f->holes += found->state == PACK_HOLE;
	f->punched += found->state == PACK_PUNCHED;
	if (found->state != PACK_SOUND)
		return 0;
	if (found->record.kind == PACK_INDEX) {
		f->index++;
		return 0;
	}
	f->sound++;
	f->wrong += !gives_what_was_put(f->model, &found->record, found->stored);
	return 0;
}

static struct findings look_over_records(struct model *m)
{
	struct source source = source_of(&m->work);
	struct findings f = {.model = m, .at = PACK_HEAD_BYTES};

	f.flaws += pack_scan(&source, look_at, &f) != 0;
	return f;
}

static struct findings look_over(struct model *m)
{
	struct source source = source_of(&m->work);
	struct findings f = look_over_records(m);
	struct pack_index *index;

	if (pack_index_read(&source, &index)) {
		f.flaws++;
		return f;
	}
	f.flaws += memcmp(index->name, m->name, DIGEST_LEN) != 0;
	for (size_t i = 0; i < index->n_places; i++)
		f.wrong += !model_find(m, &index->places[i].record) ||
			   index->places[i].offset != m->records[i].offset;
	pack_index_free(index);
	return f;
}

/* Reads every block where the model has it: how many come; what comes must be right. */
static size_t read_all(struct model *m)
{
	struct source source = source_of(&m->work);
	uint8_t *stored = malloc(ENCODE_RAW_MAX);
	size_t good = 0;

	for (size_t i = 0; i < m->count; i++) {
		const struct model_record *r = &m->records[i];
		struct pack_record record;

		if (r->kind != PACK_BLOCK)
			continue;
		if (pack_block_read(&source, r->offset, r->digest, stored, ENCODE_RAW_MAX, &record))
			continue;
		good++;
		CHECK(gives_what_was_put(m, &record, stored));
	}
	free(stored);
	return good;
}

static size_t blocks_of(const struct model *m)
{
	size_t blocks = 0;

	for (size_t i = 0; i < m->count; i++)
		blocks += m->records[i].kind == PACK_BLOCK;
	return blocks;
}

/* --- promises --- */

static void what_goes_in_comes_out(void)
{
	struct model m;
	struct findings f;

	model_make(&m, 20, 60000, SALT);
	f = look_over(&m);
	CHECK_INT(f.sound, 24);
	CHECK_INT(f.index, 1);
	CHECK_INT(f.flaws, 0);
	CHECK_INT(f.wrong, 0);
	CHECK_INT(f.at, m.pack.len - PACK_TAIL_BYTES);
	CHECK_INT(read_all(&m), 20);
	model_free(&m);
}

static void one_read_of_a_span_is_enough(void)
{
	struct pack_record record;
	const void *stored;
	struct model m;

	model_make(&m, 6, 3000, SALT);
	for (size_t i = 0; i < m.count; i++) {
		const struct model_record *r = &m.records[i];
		uint8_t *at = m.pack.bytes + r->offset;
		uint64_t end = i + 1 < m.count ? m.records[i + 1].offset : 0;

		if (r->kind == PACK_ENTRY) {
			CHECK_INT(pack_block_open(at, 4000, r->digest, &record, &stored), -EBADMSG);
			continue;
		}
		CHECK_INT(pack_block_open(at, m.pack.len - r->offset, r->digest, &record, &stored), 0);
		CHECK(gives_what_was_put(&m, &record, stored));
		CHECK(!end || pack_span(&record) == end - r->offset);
		CHECK_INT(pack_block_open(at, PACK_HEADER_BYTES + record.stored_len, r->digest, &record,
					  &stored),
			  0);
		CHECK_INT(pack_block_open(at, PACK_HEADER_BYTES + record.stored_len - 1, r->digest, &record,
					  &stored),
			  -EBADMSG);
		CHECK_INT(pack_block_open(at, 79, r->digest, &record, &stored), -EBADMSG);
	}
	CHECK_INT(pack_block_open(m.pack.bytes + m.records[0].offset, m.pack.len - m.records[0].offset,
				  m.records[1].digest, &record, &stored),
		  -EBADMSG);
	model_free(&m);
}

static void full_means_the_name_too(void)
{
	struct encode_form form = {ENCODE_LZ4, 1, 1};
	struct pack_record record = {.kind = PACK_BLOCK};
	uint8_t raw[900], back[900], work[1800];
	struct encoded e;

	memset(raw, 5, sizeof(raw));
	CHECK_INT(encode_store(ENCODE_POLICY_AUTO, &form, raw, sizeof(raw), work, &e), 0);
	record.form = e.form;
	record.raw_len = sizeof(raw);
	record.stored_len = (uint32_t)e.len;
	CHECK_INT(pack_block_load(&record, e.bytes, back, NULL, false), 0);
	CHECK_INT(pack_block_load(&record, e.bytes, back, NULL, true), -EBADMSG);
	encode_name(raw, sizeof(raw), record.digest);
	CHECK_INT(pack_block_load(&record, e.bytes, back, NULL, true), 0);
}

static bool bytes_equal(const struct pack_bytes *a, const struct pack_bytes *b)
{
	return a->len == b->len && (!a->len || !memcmp(a->bytes, b->bytes, a->len));
}

static void entries_keep_every_field(void)
{
	uint8_t names[3 * DIGEST_LEN], *raw;
	struct pack_entry put, *got;
	size_t len;

	memset(names, 0xab, sizeof(names));
	put = sample_entry(42, names, 3);
	CHECK_INT(pack_entry_bytes(&put, &raw, &len), 0);
	CHECK_INT(pack_entry_parse(raw, len, &got), 0);
	CHECK(got->version == 42 && got->part_of == 7 && got->size_bytes == put.size_bytes);
	CHECK(got->uid == put.uid && got->gid == put.gid && got->mode == put.mode && got->layout == 1);
	CHECK(!memcmp(&got->created, &put.created, 4 * sizeof(put.created)));
	CHECK(got->digest_known && !memcmp(got->digest, put.digest, DIGEST_LEN));
	CHECK_INT(got->n_names, 3);
	for (size_t i = 0; i < 3; i++)
		CHECK(bytes_equal(&got->names[i], &put.names[i]));
	CHECK_INT(got->n_xattrs, 2);
	for (size_t i = 0; i < 2; i++)
		CHECK(bytes_equal(&got->xattrs[i].name, &put.xattrs[i].name) &&
		      bytes_equal(&got->xattrs[i].value, &put.xattrs[i].value));
	CHECK_INT(got->n_segments, 2);
	CHECK(got->segments[0].parent == 3 && got->segments[0].first == 9 &&
	      got->segments[0].count == 100000);
	CHECK(!got->segments[1].parent && !memcmp(got->segments[1].names, names, sizeof(names)));
	CHECK(bytes_equal(&got->map, &put.map));
	CHECK_INT(pack_entry_blocks(got), 100003);
	pack_entry_free(got);
	free(raw);
}

static int entry_refusal(const struct pack_entry *entry)
{
	struct memory sink = {0};
	struct pack_writer *w;
	uint64_t offset;
	int ret;

	pack_writer_new(memory_write, &sink, SALT, &w);
	ret = pack_writer_entry(w, entry, &offset);
	CHECK(sink.len == PACK_HEAD_BYTES || !ret);
	pack_writer_free(w);
	free(sink.bytes);
	return ret;
}

static void names_that_could_climb_are_refused(void)
{
	static const struct pack_bytes bad[] = {{"", 0},    {".", 1},	 {"..", 2},
						{"a/b", 3}, {"a\0b", 3}, {"/", 1}};
	static char long_name[PACK_NAME_MAX + 1];
	struct pack_entry e = sample_entry(9, NULL, 0);
	struct pack_bytes name = {long_name, sizeof(long_name)};

	memset(long_name, 'x', sizeof(long_name));
	e.n_names = 1;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e.names = &bad[i];
		CHECK_INT(entry_refusal(&e), -EINVAL);
	}
	e.names = &name;
	CHECK_INT(entry_refusal(&e), -EINVAL);
	name.len = PACK_NAME_MAX;
	CHECK_INT(entry_refusal(&e), 0);
	e.n_names = 0;
	CHECK_INT(entry_refusal(&e), -EINVAL);
}

static void entries_that_cannot_be_are_refused(void)
{
	struct pack_segment segment = {.count = 1, .first = 1, .names = (const uint8_t *)""};
	static char value[PACK_XATTRS_MAX];
	struct pack_xattr xattr = {{"n", 1}, {value, sizeof(value)}};
	struct pack_entry e = sample_entry(0, NULL, 0);

	CHECK_INT(entry_refusal(&e), -EINVAL); /* version 0 */
	e = sample_entry(7, NULL, 0);
	CHECK_INT(entry_refusal(&e), -EINVAL); /* a part of itself */
	e = sample_entry(3, NULL, 0);
	CHECK_INT(entry_refusal(&e), -EINVAL); /* its own parent */
	e = sample_entry(9, NULL, 0);
	e.mode = S_IFLNK | 0777;
	CHECK_INT(entry_refusal(&e), -EINVAL);
	e.mode = S_IFDIR | 0700;
	CHECK_INT(entry_refusal(&e), -EINVAL); /* a session with blocks */
	e.n_segments = 0;
	e.n_names = 0;
	CHECK_INT(entry_refusal(&e), 0); /* the root session */
	e = sample_entry(9, NULL, 0);
	e.changed.tv_nsec = 1000000000;
	CHECK_INT(entry_refusal(&e), -EINVAL);
	e = sample_entry(9, NULL, 0);
	e.digest_known = false;
	CHECK_INT(entry_refusal(&e), -EINVAL); /* a digest that is not known */
	e = sample_entry(9, NULL, 0);
	e.segments = &segment;
	CHECK_INT(entry_refusal(&e), -EINVAL);
	e = sample_entry(9, NULL, 0);
	e.xattrs = &xattr;
	e.n_xattrs = 1;
	CHECK_INT(entry_refusal(&e), -EINVAL); /* more attributes than an entry may have */
	xattr.value.len = PACK_XATTRS_MAX - 1;
	CHECK_INT(entry_refusal(&e), 0);
	xattr.name.len = 0;
	CHECK_INT(entry_refusal(&e), -EINVAL);
	e = sample_entry(9, NULL, 0);
	e.map.len = PACK_ENTRY_MAX;
	CHECK_INT(entry_refusal(&e), -EFBIG);
}

/* Without the checksums: what parses is written again as the same bytes, so nothing has two readings. */
static void hostile_entries_have_one_reading_or_none(void)
{
	uint8_t names[2 * DIGEST_LEN] = {0}, *raw, *again, *exact;
	struct pack_entry put = sample_entry(42, names, 2), *got;
	uint64_t seed = 21;
	size_t len, again_len, parsed = 0;

	CHECK_INT(pack_entry_bytes(&put, &raw, &len), 0);
	for (size_t i = 0; i < 8 * len + 20000; i++) {
		size_t cut = i < 8 * len + 10000 ? len : random_next(&seed) % len;

		exact = malloc(cut);
		memcpy(exact, raw, cut);
		if (i < 8 * len)
			exact[i / 8] ^= (uint8_t)(1u << i % 8);
		else if (cut)
			exact[random_next(&seed) % cut] = (uint8_t)random_next(&seed);
		if (!pack_entry_parse(exact, cut, &got)) {
			parsed++;
			CHECK_INT(pack_entry_bytes(got, &again, &again_len), 0);
			CHECK(again_len == cut && !memcmp(again, exact, cut));
			pack_entry_free(got);
			free(again);
		}
		free(exact);
	}
	CHECK(parsed > 0);
	free(raw);
}

static void the_format_does_not_change_by_accident(void)
{
	uint8_t digest[DIGEST_LEN] = {0}, name[DIGEST_LEN], block[100] = {0};
	char hex[DIGEST_HEX_LEN + 1];
	struct encoded e = {{ENCODE_RAW, 1, 1}, block, sizeof(block)};
	struct memory sink = {0};
	struct pack_entry entry;
	struct pack_writer *w;
	uint64_t offset;

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)i;
	encode_name(block, sizeof(block), digest);
	entry = sample_entry(42, digest, 1);
	CHECK_INT(pack_writer_new(memory_write, &sink, SALT, &w), 0);
	CHECK_INT(pack_writer_block(w, digest, sizeof(block), &e, &offset), 0);
	CHECK_INT(offset, 64);
	CHECK_INT(pack_writer_entry(w, &entry, &offset), 0);
	CHECK_INT(offset, 248);
	CHECK_INT(pack_writer_size(w) + pack_writer_end_size(w), 936);
	CHECK_INT(pack_writer_end(w, name), 0);
	CHECK_INT(sink.len, 936);
	encode_name(sink.bytes, sink.len, digest);
	digest_hex(digest, hex);
	CHECK_STR(hex, "9c77e2beddea4edc6db8f8705d7d19be8c257d0cafbf5fdc0ad2f8faea83a700");
	digest_hex(name, hex);
	CHECK_STR(hex, "e0733bf39c19203773682e48a17eda7b0b17427b4e311cb46e23f6208ee1c894");
	CHECK_INT(pack_writer_block(w, digest, sizeof(block), &e, &offset), -EINVAL);
	CHECK_INT(pack_writer_end(w, name), -EINVAL);
	pack_writer_free(w);
	free(sink.bytes);
}

static void packs_of_equal_blocks_have_names_of_their_own(void)
{
	struct model a, b;

	model_make(&a, 3, 500, 1);
	model_make(&b, 3, 500, 2);
	CHECK(memcmp(a.name, b.name, DIGEST_LEN));
	model_free(&a);
	model_free(&b);
}

static void an_empty_pack_is_not_made(void)
{
	uint8_t name[DIGEST_LEN];
	struct memory sink = {0};
	struct pack_writer *w;

	CHECK_INT(pack_writer_new(memory_write, &sink, SALT, &w), 0);
	CHECK_INT(pack_writer_end(w, name), -ENODATA);
	pack_writer_free(w);
	free(sink.bytes);
}

static void a_failed_write_is_final(void)
{
	struct encoded e = {{ENCODE_RAW, 1, 1}, "12345", 5};
	uint8_t name[DIGEST_LEN] = {1};
	uint64_t offset;
	size_t n = 1;

	for (;; n++) {
		struct memory sink = {.fail_at = n};
		struct pack_writer *w;
		int ret = pack_writer_new(memory_write, &sink, SALT, &w);

		if (!ret) {
			ret = pack_writer_block(w, name, 5, &e, &offset);
			if (!ret)
				ret = pack_writer_block(w, name, 5, &e, &offset);
			if (!ret)
				ret = pack_writer_end(w, name);
			if (ret) {
				CHECK_INT(pack_writer_block(w, name, 5, &e, &offset), -ENOSPC);
				CHECK_INT(pack_writer_end(w, name), -ENOSPC);
				CHECK_INT(sink.writes, n);
			}
			pack_writer_free(w);
		}
		free(sink.bytes);
		if (!ret)
			break;
		CHECK_INT(ret, -ENOSPC);
	}
	CHECK_INT(n, 11);
}

static void every_flipped_bit_is_noticed(void)
{
	struct findings f;
	struct model m;

	model_make(&m, 6, 300, SALT);
	for (size_t bit = 0; bit < 8 * m.pack.len; bit++) {
		m.work.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		f = look_over(&m);
		CHECK_INT(f.wrong, 0);
		CHECK(f.flaws > 0);
		CHECK(f.sound + 1 >= m.count);
		CHECK(read_all(&m) + 1 >= blocks_of(&m));
		m.work.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	printf("# %zu bits\n", 8 * m.pack.len);
	model_free(&m);
}

static void every_truncation_is_noticed(void)
{
	struct findings f;
	struct model m;

	model_make(&m, 6, 300, SALT);
	for (m.work.len = 0; m.work.len < m.pack.len; m.work.len++) {
		size_t whole = 0;

		for (size_t i = 0; i + 1 < m.count; i++)
			whole += m.records[i + 1].offset <= m.work.len;
		f = look_over(&m);
		CHECK_INT(f.wrong, 0);
		CHECK(f.flaws > 0);
		CHECK(f.sound >= whole);
		read_all(&m);
	}
	model_free(&m);
}

/* One damage of many kinds; gives false when it happened to change nothing. */
static bool damage(struct model *m, uint64_t *seed)
{
	struct memory *w = &m->work;
	size_t at = random_next(seed) % w->len, left = w->len - at, other = random_next(seed) % w->len;
	size_t len = 1 + random_next(seed) % 5000;

	len = len < left ? len : left;
	switch (random_next(seed) % 7) {
	case 0: /* a bit */
		w->bytes[at] ^= (uint8_t)(1u << random_next(seed) % 8);
		break;
	case 1: /* a sector of zeros */
		at &= ~(size_t)511;
		memset(w->bytes + at, 0, w->len - at < 512 ? w->len - at : 512);
		break;
	case 2: /* cut */
		w->len = at;
		return true;
	case 3: /* longer */
		for (size_t i = 0; i < len % 4096; i++)
			w->bytes[w->len++] = (uint8_t)(random_next(seed) % 2 ? random_next(seed) : 0);
		break;
	case 4: /* noise */
		for (size_t i = 0; i < len; i++)
			w->bytes[at + i] = (uint8_t)random_next(seed);
		break;
	case 5: /* a piece of it elsewhere */
		len = len < w->len - other ? len : w->len - other;
		memmove(w->bytes + at, w->bytes + other, len);
		break;
	default: /* a record where another was */
		at = m->records[random_next(seed) % m->count].offset;
		other = m->records[random_next(seed) % m->count].offset;
		len = w->len - (at > other ? at : other);
		memmove(w->bytes + at, w->bytes + other, len < 20000 ? len : 20000);
		break;
	}
	return w->len != m->pack.len || memcmp(w->bytes, m->pack.bytes, w->len);
}

static void damaged_packs_never_give_wrong_bytes(void)
{
	size_t done = 0, unnoticed = 0, wrong = 0, found = 0, read = 0;
	uint64_t seed = 4711;
	struct model m;

	model_make(&m, 40, 20000, SALT);
	while (done < 2000) {
		struct findings f;

		model_reset(&m);
		if (!damage(&m, &seed))
			continue;
		done++;
		f = look_over(&m);
		wrong += f.wrong;
		unnoticed += !f.flaws;
		found += f.sound;
		read += read_all(&m);
	}
	printf("# 2000 damages: %zu unnoticed, %zu wrong; %.1f%% of records found by scan, %.1f%% of blocks "
	       "read\n",
	       unnoticed, wrong, 100.0 * (double)found / (double)(done * m.count),
	       100.0 * (double)read / (double)(done * blocks_of(&m)));
	CHECK_INT(unnoticed, 0);
	CHECK_INT(wrong, 0);
	model_free(&m);
}

static void punched_records_hurt_nobody(void)
{
	struct pack_record record;
	struct source source;
	struct findings f;
	struct model m;

	model_make(&m, 10, 30000, SALT);
	source = source_of(&m.work);
	for (size_t i = 0; i < m.count; i++) {
		struct model_record *r = &m.records[i];
		uint8_t stored[30000];

		model_reset(&m);
		CHECK_INT(pack_header_read(&source, r->offset, &record), 0);
		memset(m.work.bytes + r->offset + PACK_HEADER_BYTES, 0,
		       record.stored_len); /* its bytes only */
		f = look_over(&m);
		CHECK(f.sound == m.count - 1 && f.punched == 1 && f.flaws == 1 && !f.wrong);
		if (r->kind == PACK_BLOCK)
			CHECK_INT(pack_block_read(&source, r->offset, r->digest, stored, sizeof(stored),
						  &record),
				  -ENODATA);
		memset(m.work.bytes + r->offset, 0, pack_span(&record)); /* all of it */
		f = look_over(&m);
		CHECK(f.sound == m.count - 1 && f.holes == 1 && f.flaws == 1 && !f.wrong);
		CHECK_INT(pack_block_read(&source, r->offset, r->digest, stored, sizeof(stored), &record),
			  -ENODATA);
	}
	model_free(&m);
}

static void everything_may_be_punched_but_the_index(void)
{
	struct findings f;
	struct model m;

	model_make(&m, 10, 100000, SALT);
	memset(m.work.bytes + PACK_HEAD_BYTES, 0,
	       m.pack.len - PACK_HEAD_BYTES - 2 * PACK_HEADER_BYTES - m.count * PACK_PLACE_BYTES);
	f = look_over(&m);
	CHECK(f.sound == 0 && f.holes == 1 && !f.wrong);
	model_free(&m);
}

static void a_lost_head_or_index_costs_no_record(void)
{
	struct findings f;
	struct model m;

	model_make(&m, 10, 30000, SALT);
	memset(m.work.bytes, 0, PACK_HEAD_BYTES);
	f = look_over(&m);
	CHECK(f.sound == m.count && f.flaws > 0 && !f.wrong);
	m.work.len -= PACK_TAIL_BYTES + 100;
	f = look_over(&m);
	CHECK(f.sound == m.count && f.flaws > 0 && !f.wrong);
	memset(m.work.bytes, 0xee, PACK_HEAD_BYTES + PACK_HEADER_BYTES);
	f = look_over(&m);
	CHECK(f.sound == 0 && f.flaws > 0 && !f.wrong); /* the salt is lost: nothing can be believed */
	model_free(&m);
}

/* A client stores a whole pack of its own making, which lies in ours as it is; then the header before it is
 * damaged. */
static void a_pack_inside_a_block_is_not_believed(void)
{
	struct model inner, outer;
	struct pack_writer *w;
	struct encoded e;
	struct findings f;
	uint64_t offset;

	model_make(&inner, 6, 900, SALT + 1);
	memset(&outer, 0, sizeof(outer));
	e = (struct encoded){{ENCODE_RAW, 1, 1}, inner.pack.bytes, inner.pack.len};
	CHECK_INT(pack_writer_new(memory_write, &outer.pack, SALT, &w), 0);
	CHECK_INT(pack_writer_block(w, inner.name, inner.pack.len, &e, &offset), 0);
	add_block(&outer, w, (const uint8_t *)"after", 5);
	CHECK_INT(pack_writer_end(w, outer.name), 0);
	pack_writer_free(w);
	outer.work = outer.pack;
	outer.work.bytes = malloc(outer.pack.len);
	memcpy(outer.work.bytes, outer.pack.bytes, outer.pack.len);
	outer.work.bytes[offset + 40] ^= 1;
	outer.work.bytes[offset + PACK_HEADER_BYTES] ^=
		1; /* and the inner head: the walk begins with a record */
	f = look_over_records(&outer);
	CHECK_INT(f.sound, 1);
	CHECK_INT(f.flaws, 1);
	CHECK_INT(f.wrong, 0);
	/* zeros up to the first inner record: the walk stands before it */
	memset(outer.work.bytes + offset, 0, PACK_HEADER_BYTES + PACK_HEAD_BYTES);
	f = look_over_records(&outer);
	CHECK_INT(f.sound, 1);
	CHECK_INT(f.flaws, 2);
	CHECK_INT(f.wrong, 0);
	model_free(&inner);
	model_free(&outer);
}

static void sectors_that_cannot_be_read_are_stepped_over(void)
{
	uint64_t seed = 8;
	struct model m;

	model_make(&m, 40, 20000, SALT);
	for (size_t i = 0; i < 300; i++) {
		size_t touched = 0;
		struct findings f;

		m.work.bad_from = random_next(&seed) % m.pack.len & ~(size_t)4095;
		m.work.bad_end = m.work.bad_from + 4096;
		for (size_t k = 0; k < m.count; k++) {
			uint64_t end = k + 1 < m.count ? m.records[k + 1].offset : m.pack.len;

			touched += m.records[k].offset < m.work.bad_end && end > m.work.bad_from;
		}
		f = look_over(&m);
		CHECK(f.flaws > 0 && !f.wrong);
		CHECK(f.sound + touched >= m.count);
	}
	model_free(&m);
}

/* Anything but -EIO is the caller's to judge: no verdict about the pack comes out of it. */
static void a_source_that_fails_is_told_as_it_failed(void)
{
	struct pack_index *index;
	struct source source;
	size_t failed = 0;
	struct model m;

	model_make(&m, 3, 500, SALT);
	m.work.bytes[m.records[1].offset] ^= 1; /* the scan looks for the next one, too */
	source = source_of(&m.work);
	for (m.work.stall_at = 1; m.work.stall_at < 100; m.work.stall_at++) {
		struct findings f = {.model = &m, .at = PACK_HEAD_BYTES};
		int ret;

		m.work.reads = 0;
		ret = pack_scan(&source, look_at, &f);
		CHECK(ret == (m.work.reads >= m.work.stall_at ? -ETIMEDOUT : 0));
		failed += ret != 0;
		m.work.reads = 0;
		ret = pack_index_read(&source, &index);
		CHECK(ret == (m.work.reads >= m.work.stall_at ? -ETIMEDOUT : 0));
		if (!ret)
			pack_index_free(index);
	}
	CHECK(failed > 5);
	model_free(&m);
}

static void a_full_pack_takes_no_more(void)
{
	struct encoded e = {{ENCODE_RAW, 1, 1}, "12345", 5}, bad = {{ENCODE_LZ4, 1, 1}, "12345", 5};
	uint8_t name[DIGEST_LEN] = {1};
	struct memory sink = {0};
	struct pack_index *index;
	struct source source;
	struct pack_writer *w;
	uint64_t offset;
	int ret = 0;

	CHECK_INT(pack_writer_new(memory_write, &sink, SALT, &w), 0);
	CHECK_INT(pack_writer_block(w, name, 5, &bad, &offset), -EINVAL);
	CHECK_INT(pack_writer_block(w, name, 6, &e, &offset), -EINVAL);
	for (size_t i = 0; i < PACK_RECORDS_MAX && !ret; i++)
		ret = pack_writer_block(w, name, 5, &e, &offset);
	CHECK_INT(ret, 0);
	CHECK_INT(pack_writer_block(w, name, 5, &e, &offset), -EFBIG);
	CHECK_INT(pack_writer_end(w, name), 0);
	pack_writer_free(w);
	source = source_of(&sink);
	CHECK_INT(pack_index_read(&source, &index), 0);
	CHECK_INT(index->n_places, PACK_RECORDS_MAX);
	pack_index_free(index);
	free(sink.bytes);
}

static void frame_sign(uint8_t *frame)
{
	pack_put_u64(frame + 56, checksum_bytes(frame, 56));
}

static void header_sign(uint8_t *header)
{
	pack_put_u64(header + 72, checksum_bytes(header, 72));
}

static void a_newer_version_is_told_from_damage(void)
{
	struct findings f = {0};
	struct pack_record record;
	struct pack_index *index;
	struct source source;
	uint8_t stored[600];
	struct model m;

	model_make(&m, 3, 500, SALT);
	source = source_of(&m.work);
	f.model = &m;
	m.work.bytes[8] = 2;
	CHECK_INT(pack_index_read(&source, &index), -EBADMSG);
	frame_sign(m.work.bytes);
	CHECK_INT(pack_index_read(&source, &index), -EPROTONOSUPPORT);
	CHECK_INT(pack_scan(&source, look_at, &f), -EPROTONOSUPPORT);
	model_reset(&m);
	m.work.bytes[m.work.len - PACK_TAIL_BYTES + 8] = 2;
	frame_sign(m.work.bytes + m.work.len - PACK_TAIL_BYTES);
	CHECK_INT(pack_index_read(&source, &index), -EPROTONOSUPPORT);
	m.work.bytes[0] ^= 1;
	CHECK_INT(pack_scan(&source, look_at, &f), -EPROTONOSUPPORT);
	model_reset(&m);
	m.work.bytes[m.records[1].offset + 4] = 2;
	header_sign(m.work.bytes + m.records[1].offset);
	CHECK_INT(pack_block_read(&source, m.records[1].offset, m.records[1].digest, stored, 600, &record),
		  -EPROTONOSUPPORT);
	CHECK_INT(pack_scan(&source, look_at, &f), -EPROTONOSUPPORT);
	model_free(&m);
}

static void hostile_lengths_are_refused_before_they_cost(void)
{
	static const uint32_t lengths[] = {0, 1 << 20, (1 << 20) + 1, 0x7fffffff, 0xffffffff};
	struct pack_record record;
	struct source source;
	uint8_t stored[600];
	struct model m;

	model_make(&m, 3, 500, SALT);
	source = source_of(&m.work);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (uint8_t kind = 0; kind < 5; kind++) {
			uint8_t *header = m.work.bytes + m.records[1].offset;
			struct findings f = {.model = &m, .at = PACK_HEAD_BYTES};

			model_reset(&m);
			header[5] = kind;
			pack_put_u32(header + 16, lengths[i]);
			pack_put_u32(header + 20, lengths[i]);
			header_sign(header);
			CHECK_INT(pack_header_read(&source, m.records[1].offset, &record), -EBADMSG);
			CHECK_INT(pack_scan(&source, look_at, &f), 0);
			CHECK_INT(f.wrong, 0);
		}
	CHECK_INT(pack_header_read(&source, UINT64_MAX, &record), -EBADMSG);
	CHECK_INT(pack_header_read(&source, m.work.len - 79, &record), -EBADMSG);
	model_reset(&m);
	CHECK_INT(pack_block_read(&source, m.records[1].offset, m.records[1].digest, stored, 0, &record),
		  -ENOSPC);
	model_free(&m);
}

/* Signs the index anew, as a forger would who knows the salt. */
static void index_sign(struct model *m)
{
	uint8_t *tail = m->work.bytes + m->work.len - PACK_TAIL_BYTES;
	uint8_t *header = m->work.bytes + bytes_get_u64(tail + 24);
	uint32_t len = bytes_get_u32(header + 16);

	encode_name(header + PACK_HEADER_BYTES, len, header + 32);
	pack_put_u64(header + 64, checksum_bytes(header + PACK_HEADER_BYTES, len));
	header_sign(header);
	frame_sign(tail);
}

static int index_result(struct model *m)
{
	struct source source = source_of(&m->work);
	struct pack_index *index;
	int ret = pack_index_read(&source, &index);

	if (!ret)
		pack_index_free(index);
	return ret;
}

static void an_index_that_does_not_fit_is_refused(void)
{
	struct model m;
	uint8_t *tail, *place, *header;
	uint64_t index_offset;

	model_make(&m, 3, 500, SALT);
	tail = m.work.bytes + m.work.len - PACK_TAIL_BYTES;
	index_offset = bytes_get_u64(tail + 24);
	place = m.work.bytes + index_offset + PACK_HEADER_BYTES;
	index_sign(&m);
	CHECK_INT(index_result(&m), 0);
	for (uint64_t off = 0; off < 200; off += 8) { /* any other offset of the second record */
		pack_put_u64(place + PACK_PLACE_BYTES, off);
		index_sign(&m);
		CHECK_INT(index_result(&m), off == m.records[1].offset ? 0 : -EBADMSG);
	}
	model_reset(&m);
	pack_put_u32(place + 8 + 20, 1000000); /* longer than the file */
	pack_put_u32(place + 8 + 16, 1000000);
	header_sign(place + 8);
	index_sign(&m);
	CHECK_INT(index_result(&m), -EBADMSG);
	model_reset(&m);
	header = place + (m.count - 1) * PACK_PLACE_BYTES +
		 8; /* of a block that is raw: a gap before the index */
	CHECK_INT(header[6], ENCODE_RAW);
	pack_put_u32(header + 16, 1);
	pack_put_u32(header + 20, 1);
	header_sign(header);
	index_sign(&m);
	CHECK_INT(index_result(&m), -EBADMSG);
	model_reset(&m);
	m.work.bytes[index_offset + 5] = PACK_ENTRY; /* the index is an entry */
	index_sign(&m);
	CHECK_INT(index_result(&m), -EBADMSG);
	model_reset(&m);
	pack_put_u64(tail + 32, m.pack.len + 8); /* of a longer file */
	frame_sign(tail);
	CHECK_INT(index_result(&m), -EBADMSG);
	CHECK_INT(look_over_records(&m).flaws, 1);
	pack_put_u64(tail + 32, m.pack.len + 8); /* and a gap behind the index */
	frame_sign(tail);
	memmove(tail + 8, tail, PACK_TAIL_BYTES);
	m.work.len += 8;
	CHECK_INT(index_result(&m), -EBADMSG);
	model_reset(&m);
	pack_put_u64(tail + 24, UINT64_MAX - 8); /* the index is nowhere */
	frame_sign(tail);
	CHECK_INT(index_result(&m), -EBADMSG);
	model_reset(&m);
	pack_put_u64(tail + 24, m.records[0].offset); /* the index is a block */
	frame_sign(tail);
	CHECK_INT(index_result(&m), -EBADMSG);
	model_reset(&m);
	pack_put_u64(tail + 16, SALT + 1); /* another pack's tail */
	frame_sign(tail);
	CHECK_INT(index_result(&m), -EBADMSG);
	model_free(&m);
}

int main(void)
{
	RUN("what goes in comes out", what_goes_in_comes_out);
	RUN("one read of a span is enough", one_read_of_a_span_is_enough);
	RUN("full means the name too", full_means_the_name_too);
	RUN("entries keep every field", entries_keep_every_field);
	RUN("names that could climb are refused", names_that_could_climb_are_refused);
	RUN("entries that cannot be are refused", entries_that_cannot_be_are_refused);
	RUN("hostile entries have one reading or none", hostile_entries_have_one_reading_or_none);
	RUN("the format does not change by accident", the_format_does_not_change_by_accident);
	RUN("packs of equal blocks have names of their own", packs_of_equal_blocks_have_names_of_their_own);
	RUN("an empty pack is not made", an_empty_pack_is_not_made);
	RUN("a failed write is final", a_failed_write_is_final);
	RUN("every flipped bit is noticed", every_flipped_bit_is_noticed);
	RUN("every truncation is noticed", every_truncation_is_noticed);
	RUN("damaged packs never give wrong bytes", damaged_packs_never_give_wrong_bytes);
	RUN("punched records hurt nobody", punched_records_hurt_nobody);
	RUN("everything may be punched but the index", everything_may_be_punched_but_the_index);
	RUN("a lost head or index costs no record", a_lost_head_or_index_costs_no_record);
	RUN("a pack inside a block is not believed", a_pack_inside_a_block_is_not_believed);
	RUN("sectors that cannot be read are stepped over", sectors_that_cannot_be_read_are_stepped_over);
	RUN("a source that fails is told as it failed", a_source_that_fails_is_told_as_it_failed);
	RUN("a full pack takes no more", a_full_pack_takes_no_more);
	RUN("a newer version is told from damage", a_newer_version_is_told_from_damage);
	RUN("hostile lengths are refused before they cost", hostile_lengths_are_refused_before_they_cost);
	RUN("an index that does not fit is refused", an_index_that_does_not_fit_is_refused);
	UNIT_END();
}
