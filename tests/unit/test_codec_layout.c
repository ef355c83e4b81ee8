/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_codec_layout.c - formats recognised, refused and left alone, on tiny files built here.
 *
 * Every promise ends by checking that tensors and blocks cover the file, whatever it was taken for. */
#include "test_codec.h"

#include "codec/tokens.h"
#include "unit.h"

enum { F32 = 0, F16 = 1, Q8_0 = 8 };

#define GGSQ 0x67677371u
#define GGSN 0x6767736eu

/* ---- what llama.cpp writes ---- */

static void put_data(struct file *f, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t byte = (uint8_t)(seed * 31 + i * 7 + 1);

		put(f, &byte, 1);
	}
}

static void put_head(struct file *f, uint32_t magic, uint32_t version, uint32_t n_tokens)
{
	put_u32(f, magic);
	put_u32(f, version);
	put_u32(f, n_tokens);
	for (uint32_t i = 0; i < n_tokens; i++)
		put_u32(f, 100 + i);
}

static void put_cells(struct file *f, uint32_t cells, uint32_t first_pos, uint32_t extra)
{
	put_u32(f, cells);
	for (uint32_t i = 0; i < cells; i++) {
		put_u32(f, first_pos + i);
		put_u32(f, 1);
		for (uint32_t k = 0; k < extra / 4; k++)
			put_u32(f, first_pos + i);
		put_u32(f, 3);
	}
}

static void put_rows(struct file *f, uint32_t type, uint64_t row_bytes, uint32_t cells, unsigned seed)
{
	put_u32(f, type);
	put_u64(f, row_bytes);
	put_data(f, row_bytes * cells, seed);
}

static void put_words(struct file *f, uint32_t v_trans, uint32_t layers, bool rotation)
{
	put_u32(f, v_trans);
	put_u32(f, layers);
	if (rotation)
		put_u64(f, 0);
}

static void put_attn(struct file *f, uint32_t cells, uint32_t first_pos, uint32_t layers, bool with_v)
{
	put_u32(f, 1);
	put_cells(f, cells, first_pos, 0);
	if (!cells)
		return;
	put_words(f, 0, layers, true);
	for (uint32_t i = 0; i < layers * (with_v ? 2 : 1); i++)
		put_rows(f, F16, 64, cells, i);
}

static void put_rec(struct file *f, uint32_t layers, uint32_t with_data, uint64_t r_bytes, uint64_t s_bytes)
{
	put_u32(f, 1);
	put_u32(f, 7);
	put_u32(f, 0);
	put_words(f, 0, layers, false);
	for (uint32_t i = 0; i < with_data; i++)
		put_rows(f, F32, r_bytes, 1, i);
	for (uint32_t i = 0; i < with_data; i++)
		put_rows(f, F32, s_bytes, 1, 50 + i);
}

static void put_checkpoint(struct file *f, uint64_t n_tokens)
{
	put_u64(f, n_tokens);
	put_u32(f, 0);
	put_u32(f, (uint32_t)n_tokens - 1);
	put_u64(f, 60);
	put_u32(f, 0xaf143cd8u);
	put_data(f, 56, (unsigned)n_tokens);
	put_u64(f, 0);
	put_u64(f, 0);
}

static void check_covered(const struct layout *l)
{
	static const uint64_t cuts[] = {1, 2, 5, 9};

	CHECK(tensors_tile(l));
	CHECK(blocks_cover(l, NULL, 0));
	CHECK(blocks_cover(l, cuts, 4));
}

/* With KV_SEEDS, a folder, each file is written there: seeds for the fuzzer. */
static void keep_seed(const struct file *f)
{
	static unsigned number;
	const char *folder = getenv("KV_SEEDS");
	char path[500];
	FILE *out;

	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/built-%u", folder, number++);
	out = fopen(path, "wb");
	if (!out || (f->len && fwrite(f->bytes, 1, f->len, out) != f->len) || fclose(out))
		printf("# cannot write %s\n", path);
}

/* Parses, checks cover and state, and gives the layout to look at. */
static struct layout *parsed(struct file *f, enum layout_kind kind, enum layout_state state)
{
	struct layout *l = file_layout(f);

	keep_seed(f);
	CHECK(l != NULL);
	if (!l)
		exit(EXIT_FAILURE);
	CHECK_INT(l->kind, kind);
	CHECK_INT(l->state, state);
	check_covered(l);
	return l;
}

static void expect(struct file *f, enum layout_kind kind, enum layout_state state)
{
	layout_free(parsed(f, kind, state));
}

static const struct layout_tensor *find_role(const struct layout *l, enum layout_role role)
{
	for (size_t i = 0; i < l->n_tensors; i++)
		if (l->tensors[i].role == role)
			return &l->tensors[i];
	return NULL;
}

static void plain_attention(void)
{
	struct file f = {0};
	struct layout *l;
	const struct layout_tensor *k;
	char name[LAYOUT_NAME_MAX];

	put_head(&f, GGSQ, 4, 10);
	put_attn(&f, 10, 0, 3, true);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK_STR(l->text, "ggsq 4: attn n_stream=1 k=f16 v=f16 v_trans=0 layers=3 rot=0,0");
	CHECK_INT(l->n_tokens, 10);
	CHECK_INT(l->tokens[9], 109);
	CHECK(l->tokens_exact);
	CHECK(!l->recurrent);
	k = find_role(l, LAYOUT_K);
	CHECK(k != NULL);
	CHECK_INT(k ? k->rows : 0, 10);
	CHECK_INT(k ? k->row_bytes : 0, 64);
	CHECK_INT(k ? k->element_bytes : 0, 2);
	CHECK_STR(k ? layout_name(l, k, name, sizeof(name)) : "", "section 0 stream 0 layer 0 k.0");
	layout_free(l);
	file_free(&f);
}

static void put_transposed(struct file *f, uint32_t cells, uint32_t elements)
{
	put_u32(f, 1);
	put_cells(f, cells, 0, 0);
	put_words(f, 1, 1, true);
	put_rows(f, Q8_0, 68, cells, 1);
	put_u32(f, F16);
	put_u32(f, 2);
	put_u32(f, elements);
	put_data(f, 2 * (size_t)elements * cells, 5);
}

static void transposed_v(void)
{
	struct file f = {0};
	struct layout *l;
	const struct layout_tensor *v;

	put_head(&f, GGSQ, 4, 10);
	put_transposed(&f, 10, 32);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK_STR(l->text, "ggsq 4: attn n_stream=1 k=q8_0 v=f16 v_trans=1 layers=1 rot=0,0");
	v = find_role(l, LAYOUT_V);
	CHECK_INT(v ? v->lanes : 0, 32);
	CHECK_INT(v ? v->rows : 0, 10);
	CHECK_INT(v ? v->row_bytes : 0, 2);
	CHECK_INT(find_role(l, LAYOUT_K)->element_bytes, 1);
	layout_free(l);
	file_free(&f);
}

static void sliding_window_rows_know_their_tokens(void)
{
	struct file f = {0};
	struct layout *l;

	put_head(&f, GGSQ, 4, 20);
	put_attn(&f, 20, 0, 1, true);
	put_attn(&f, 8, 12, 2, true);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK_INT(l->n_sections, 2);
	CHECK_INT(l->n_runs, 1);
	CHECK_INT(l->runs[0].token, 12);
	CHECK_INT(l->runs[0].count, 8);
	layout_free(l);
	file_free(&f);
}

static void hybrid_with_checkpoints(void)
{
	struct file f = {0};
	struct layout *l;
	uint64_t trailer;

	put_head(&f, GGSQ, 4, 12);
	put_attn(&f, 12, 0, 1, true);
	put_rec(&f, 4, 3, 96, 256);
	trailer = f.len;
	put(&f, "SCKP", 4);
	put_u32(&f, 1);
	put_u32(&f, 3);
	put_checkpoint(&f, 9);
	put_checkpoint(&f, 4);
	put_checkpoint(&f, 9);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK(l->recurrent);
	CHECK_INT(l->trailer_offset, trailer);
	CHECK_INT(l->n_checkpoints, 3);
	CHECK_INT(l->n_boundaries, 2);
	CHECK_INT(l->boundaries[0], 4);
	CHECK_INT(l->boundaries[1], 9);
	CHECK_INT(l->sections[1].rec_layers, 3);
	layout_free(l);
	f.len--;
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN); /* a broken trailer: the server skips it, so do we */
	f.len = trailer;
	expect(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	file_free(&f);
}

static void states_with_equal_heads(void)
{
	struct file f = {0};
	struct layout *l;

	put_head(&f, GGSQ, 4, 8);
	put_attn(&f, 8, 0, 2, true);
	put_rec(&f, 6, 4, 128, 128);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK_INT(l->sections[1].rec_layers, 4);
	CHECK_INT(find_role(l, LAYOUT_REC_S)->layer, 0);
	layout_free(l);
	f.len -= 2 * (12 + 128); /* six heads alike are not three of each: a layer would be neither */
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	file_free(&f);
}

static void ids_and_cells_are_equally_many(void)
{
	struct file f = {0};
	struct layout *l;

	put_head(&f, GGSQ, 4, 9);
	put_attn(&f, 8, 0, 2, true);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK(!l->tokens_exact);
	layout_free(l);
	f.len = 0;
	put_head(&f, GGSQ, 4, 8);
	put_rec(&f, 4, 4, 96, 128); /* at position 7 */
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK(l->tokens_exact);
	layout_free(l);
	file_free(&f);
}

static void states_without_s(void)
{
	struct file f = {0};

	put_head(&f, GGSQ, 4, 8);
	put_attn(&f, 8, 0, 1, true);
	put_rec(&f, 6, 4, 128, 0);
	expect(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	file_free(&f);
}

/* The row without a type, after the first of three R rows. */
static void put_rec_with_p(struct file *f)
{
	put_u32(f, 1);
	put_u32(f, 7);
	put_u32(f, 0);
	put_words(f, 0, 4, false);
	put_rows(f, F32, 96, 1, 1);
	put_u64(f, 40);
	put_data(f, 40, 9);
	put_rows(f, F32, 96, 1, 2);
	put_rows(f, F32, 96, 1, 3);
	for (unsigned i = 0; i < 3; i++)
		put_rows(f, F32, 256, 1, 50 + i);
}

static void hybrid_with_an_odd_row_and_an_indexer(void)
{
	struct file f = {0};
	struct layout *l;

	put_head(&f, GGSQ, 4, 8);
	put_attn(&f, 8, 0, 1, true);
	put_rec_with_p(&f);
	put_attn(&f, 8, 0, 1, false);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK_INT(l->n_sections, 3);
	CHECK(l->sections[1].has_p);
	CHECK_INT(find_role(l, LAYOUT_REC_P)->layer, 0);
	layout_free(l);
	file_free(&f);
}

static void put_dsv4_tensor(struct file *f, uint32_t type, uint64_t n_embed, uint64_t rows,
			    uint64_t row_bytes)
{
	put_u32(f, type);
	put_u64(f, n_embed);
	put_u64(f, rows);
	put_u64(f, row_bytes);
	put_data(f, rows * row_bytes, 4);
}

static void put_dsv4(struct file *f, uint32_t cells)
{
	static const uint32_t ratios[] = {4, 128, 4};

	put_u32(f, 0x34565344);
	put_u32(f, 1);
	put_u32(f, 0);
	put_u32(f, 1);
	put_cells(f, cells, 0, 0);
	put_words(f, 0, 0, true);
	put_attn(f, 6, cells - 6, 2, false);
	for (uint32_t i = 0; i < 3; i++) {
		put_u32(f, 2);
		put_u32(f, cells / ratios[i]);
		put_u32(f, 1);
		put_u32(f, 1);
		put_u32(f, i);
		put_dsv4_tensor(f, F16, 8, cells / ratios[i], 16);
	}
	for (uint32_t i = 0; i < 3; i++) {
		put_u32(f, 1);
		put_u32(f, ratios[i]);
		put_u32(f, 8);
		put_u32(f, 4);
		put_u32(f, 1);
		put_u32(f, 1);
		put_u32(f, i);
		put_dsv4_tensor(f, F32, 4, 2, 16);
		put_dsv4_tensor(f, F32, 4, 2, 16);
	}
}

static void compressed_caches(void)
{
	struct file f = {0};
	struct layout *l;
	const struct layout_tensor *t;

	put_head(&f, GGSQ, 4, 22);
	put_dsv4(&f, 22);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK(l->recurrent);
	CHECK_STR(
		l->text,
		"ggsq 4: dsv4-cells n_stream=1 layers=0 rot=0,0 + dsv4-window n_stream=1 k=f16 v=- v_trans=0 "
		"layers=2 rot=0,0 + dsv4-state k=f16 state=f32");
	t = find_role(l, LAYOUT_COMPRESSED);
	CHECK_INT(t ? t->tokens_per_row : 0, 4);
	CHECK_INT(t ? t->rows : 0, 5);
	layout_free(l);
	f.len -= 20;
	expect(&f, LAYOUT_GGSQ, LAYOUT_INCOMPLETE);
	file_free(&f);
}

static void the_layout_of_2025(void)
{
	struct file f = {0};
	struct layout *l;

	put_head(&f, GGSQ, 2, 5);
	put_u32(&f, 5);
	for (uint32_t i = 0; i < 5; i++) {
		put_u32(&f, i);
		put_u32(&f, 0);
	}
	put_words(&f, 0, 2, false);
	for (unsigned i = 0; i < 4; i++)
		put_rows(&f, F16, 32, 5, i);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK_STR(l->text, "ggsq 2 2025: attn n_stream=1 k=f16 v=f16 v_trans=0 layers=2");
	layout_free(l);
	file_free(&f);
}

static void whole_states(void)
{
	struct file f = {0};
	struct layout *l;

	put_head(&f, GGSN, 11, 6);
	put_u32(&f, 5);
	put(&f, "llama", 5);
	put_attn(&f, 6, 0, 2, true);
	l = parsed(&f, LAYOUT_GGSN, LAYOUT_COMPLETE);
	CHECK_STR(l->text, "ggsn 11 llama: attn n_stream=1 k=f16 v=f16 v_trans=0 layers=2 rot=0,0");
	layout_free(l);
	put(&f, "SCKP\1\0\0\0\0\0\0", 12);
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN); /* a whole state has no trailer */
	file_free(&f);
}

/* Eight ids, the third to the fifth a picture, the seventh another. */
static void put_packed(struct file *f, const char *one, const char *other)
{
	static const int32_t ids[] = {1, 2, -1, -1, -1, 3, -1, 4};
	uint32_t bytes = (uint32_t)(4 * (8 + 3 + 1 + 2 + 2) + strlen(one) + strlen(other));

	put_u32(f, GGSQ);
	put_u32(f, 4);
	put_u32(f, (bytes + 3) / 4);
	put_u32(f, UINT32_MAX);
	put_u32(f, 1);
	put_u32(f, 8);
	for (size_t i = 0; i < 8; i++)
		put_u32(f, (uint32_t)ids[i]);
	put_u32(f, 2);
	put_u32(f, 2);
	put_u32(f, 6);
	put_u32(f, (uint32_t)strlen(one));
	put(f, one, strlen(one));
	put_u32(f, (uint32_t)strlen(other));
	put(f, other, strlen(other));
	put(f, "\0\0\0", (4 - bytes % 4) % 4);
	put_attn(f, 8, 0, 1, true);
}

static void pictures_are_told_apart(void)
{
	struct file one = {0}, same = {0}, other = {0};
	struct layout *l, *m, *n;

	put_packed(&one, "cat", "a dog");
	put_packed(&same, "cat", "a dog");
	put_packed(&other, "cow", "a dog");
	l = parsed(&one, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	m = parsed(&same, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	n = parsed(&other, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK(l->packed);
	CHECK(l->tokens_exact);
	CHECK_INT(l->n_media, 2);
	CHECK_INT(l->n_tokens, 8);
	CHECK(l->tokens[2] < INT32_MIN && l->tokens[2] != l->tokens[3]);
	CHECK_INT(tokens_shared(l->tokens, 8, m->tokens, 8), 8);
	CHECK_INT(tokens_shared(l->tokens, 8, n->tokens, 8), 2);
	CHECK_INT(l->tokens[6], n->tokens[6]);
	layout_free(l);
	layout_free(m);
	layout_free(n);
	file_free(&one);
	file_free(&same);
	file_free(&other);
}

static void unexplained_ids_are_no_key(void)
{
	struct file f = {0};
	struct layout *l;

	put_head(&f, GGSQ, 4, 4);
	memset(f.bytes + 12 + 8, 0xff, 4);
	put_attn(&f, 4, 0, 1, true);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK_INT(l->n_tokens, 4);
	CHECK_INT(l->tokens[2], -1);
	CHECK(!l->tokens_exact);
	layout_free(l);
	file_free(&f);
}

static void cut_files_are_never_complete(void)
{
	struct file f = {0};
	size_t len, incomplete = 0, k_end;

	put_head(&f, GGSQ, 4, 10);
	put_attn(&f, 10, 0, 3, true);
	len = f.len;
	k_end = 12 + 40 + 4 + 4 + 120 + 16 +
		3 * (12 + 640); /* as MLA writes it: a valid file of another kind */
	while (f.len--) {
		struct layout *l = file_layout(&f);

		if (!l)
			break;
		CHECK((l->state == LAYOUT_COMPLETE) == (f.len == k_end));
		incomplete += l->state == LAYOUT_INCOMPLETE;
		check_covered(l);
		layout_free(l);
		if (!f.len)
			break;
	}
	CHECK_INT(incomplete, 6 * 640);
	CHECK(len > 6 * 640);
	file_free(&f);
}

static void strangers_are_opaque(void)
{
	struct file f = {0};

	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	put(&f, "qsgg", 4);
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	f.len = 0;
	put_head(&f, GGSQ, 5, 10); /* of a version that will come */
	put_attn(&f, 10, 0, 3, true);
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	f.len -= 100;
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	f.len = 0;
	put_head(&f, GGSQ, 4, 10); /* bytes that the server would ignore */
	put_attn(&f, 10, 0, 3, true);
	put_data(&f, 9000, 3);
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	f.len = 0;
	put_data(&f, 300000, 1);
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	file_free(&f);
}

/* As the fork writes version 4: cell count, cells without sequences, state word, layers. (One cell alone
 * would be, byte for byte, a recurrent state.) */
static void a_fork_with_the_same_number(void)
{
	struct file f = {0};

	for (uint32_t cells = 2; cells < 600; cells += cells < 20 ? 1 : 7) {
		f.len = 0;
		put_head(&f, GGSQ, 4, cells);
		put_u32(&f, cells);
		for (uint32_t i = 0; i < cells; i++) {
			put_u32(&f, i);
			put_u32(&f, 0);
		}
		put_words(&f, 0, 2, false);
		for (unsigned i = 0; i < 4; i++)
			put_rows(&f, F16, 128, cells, i);
		expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	}
	file_free(&f);
}

static void hostile_lengths(void)
{
	static const uint32_t numbers[] = {0,	       1,	   0x7f,       0xff,
					   0xffff,     0x7fffffff, 0x80000000, 0xfffffffe,
					   0xffffffff, 0x40000000, 0x10000001, 0x20202020};
	struct file f = {0}, g = {0};

	put_head(&f, GGSQ, 4, 10);
	put_attn(&f, 10, 0, 1, true);
	put_rec(&f, 4, 3, 96, 256);
	put(&f, "SCKP", 4);
	put_u32(&f, 1);
	put_u32(&f, 1);
	put_checkpoint(&f, 4);
	for (size_t at = 0; at + 4 <= f.len; at += 4)
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
			struct layout *l;

			g.len = 0;
			put(&g, f.bytes, at);
			put_u32(&g, numbers[i]);
			put(&g, f.bytes + at + 4, f.len - at - 4);
			l = file_layout(&g);
			CHECK(l && tensors_tile(l));
			layout_free(l);
		}
	file_free(&f);
	file_free(&g);
}

static int failing_read(void *ctx, void *buf, size_t len, uint64_t off)
{
	struct file *f = ctx;

	if (f->cap-- == 0)
		return -EIO;
	memset(buf, 0, len);
	if (off + len <= f->len)
		memcpy(buf, f->bytes + off, len);
	return 0;
}

static void a_failing_disk_is_told(void)
{
	struct file f = {0};
	struct layout *l = NULL;
	size_t n = 0;
	int ret = -EIO;

	put_head(&f, GGSQ, 4, 3000);
	put_attn(&f, 3000, 0, 2, true);
	while (ret == -EIO && n < 100) {
		struct file view = {.bytes = f.bytes, .len = f.len, .cap = n++};
		struct source source = {failing_read, &view, f.len};

		ret = layout_parse(&source, &l);
		CHECK(ret == 0 || ret == -EIO);
	}
	CHECK_INT(ret, 0);
	CHECK(n > 5 && n < 100);
	CHECK_INT(l->state, LAYOUT_COMPLETE);
	layout_free(l);
	file_free(&f);
}

/* A hole of zeros behind a plausible head, many gigabytes long: decided at once, not read. */
static void holes_cost_nothing(void)
{
	struct file f = {0};
	struct layout *l = NULL;
	int ret;

	for (uint32_t version = 2; version <= 4; version++) {
		struct file view;
		struct source source = {failing_read, &view, UINT64_C(1) << 40};

		f.len = 0;
		put_head(&f, GGSQ, version, 0);
		put_u32(&f, version == 2 ? UINT32_MAX : 1);
		put_u32(&f, version == 2 ? 0 : UINT32_MAX);
		view = (struct file){.bytes = f.bytes, .len = f.len, .cap = 1000};
		ret = layout_parse(&source, &l);
		CHECK_INT(ret, 0);
		CHECK(!ret && l->kind == LAYOUT_OPAQUE);
		CHECK(view.cap > 900);
		layout_free(ret ? NULL : l);
	}
	file_free(&f);
}

/* ---- safetensors ---- */

static void put_json(struct file *f, const char *json, size_t data_bytes)
{
	f->len = 0;
	put_u64(f, strlen(json));
	put(f, json, strlen(json));
	put_data(f, data_bytes, 77);
}

/* The text with ' for ". */
static void put_quoted(struct file *f, const char *text, size_t data_bytes)
{
	char json[2000];
	size_t len = strlen(text);

	for (size_t i = 0; i <= len; i++)
		json[i] = text[i];
	for (size_t i = 0; i < len; i++)
		if (json[i] == '\'')
			json[i] = '"';
	put_json(f, json, data_bytes);
}

#define KV031                                                                                                \
	"'0.0':{'dtype':'F16','shape':[1,2,5,8],'data_offsets':[160,320]},"                                  \
	"'0.1':{'data_offsets':[0,160],'shape':[1,2,5,8],'dtype':'F16'}"

static void mlx_up_to_031(void)
{
	struct file f = {0};
	struct layout *l;

	put_quoted(&f, "{'__metadata__':{'2.0':'KVCache','0.0':'','1.tokens':'5, 6 7,8 9 10'}," KV031 "}  ",
		   320);
	l = parsed(&f, LAYOUT_SAFETENSORS, LAYOUT_COMPLETE);
	CHECK_STR(l->text, "safetensors mlx-lm 0.31: layers=1 KVCache*1 types=F16");
	CHECK_INT(l->n_tokens, 5); /* the writer's sixth id is not in the cache */
	CHECK(l->tokens_exact);
	CHECK_INT(l->tokens[4], 9);
	CHECK_INT(l->n_tensors, 2);
	CHECK_STR(l->tensors[0].name, "0.1");
	CHECK_INT(l->tensors[0].lanes, 2);
	CHECK_INT(l->tensors[0].rows, 5);
	CHECK_INT(l->tensors[0].row_bytes, 16);
	layout_free(l);
	f.len--;
	expect(&f, LAYOUT_SAFETENSORS, LAYOUT_INCOMPLETE);
	f.len -= 319;
	expect(&f, LAYOUT_SAFETENSORS, LAYOUT_INCOMPLETE);
	f.len--;
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	put_quoted(&f, "{'__metadata__':{'2.0':'KVCache','0.0':'','1.tokens':'5 6'}," KV031 "}", 321);
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN); /* one byte too many */
	file_free(&f);
}

static void fewer_ids_than_tokens(void)
{
	struct file f = {0};
	struct layout *l;

	put_quoted(&f, "{'__metadata__':{'2.0':'KVCache','1.tokens':'5 6'}," KV031 "}", 320);
	l = parsed(&f, LAYOUT_SAFETENSORS, LAYOUT_COMPLETE);
	CHECK_INT(l->n_tokens, 5);
	CHECK(l->tokens == NULL);
	CHECK(!l->tokens_exact);
	layout_free(l);
	file_free(&f);
}

static void mlx_from_032(void)
{
	struct file f = {0};
	struct layout *l;

	put_quoted(&f,
		   "{'__metadata__':{'1.0':'KVCache','2.0':'','2.1.0':'0.2','2.1.1':'scalar','0.token_ids':'"
		   "5 6 7'},"
		   "'0.0':{'dtype':'F16','shape':[1,2,5,8],'data_offsets':[0,160]},"
		   "'0.1':{'dtype':'F16','shape':[1,2,5,8],'data_offsets':[160,320]},"
		   "'0.2':{'dtype':'I32','shape':[],'data_offsets':[320,324]}}",
		   324);
	f.len -= 4;
	put_u32(&f, 3);
	l = parsed(&f, LAYOUT_SAFETENSORS, LAYOUT_COMPLETE);
	CHECK_STR(l->text, "safetensors mlx-lm 0.32: layers=1 KVCache*1 types=F16");
	CHECK_INT(l->n_tokens, 3);
	CHECK(l->tokens_exact);
	CHECK_INT(l->tensors[0].valid_rows, 3);
	CHECK_INT(l->tensors[0].rows, 5);
	CHECK(!l->recurrent);
	layout_free(l);
	file_free(&f);
}

static bool recurrent_with(const char *metadata)
{
	struct file f = {0};
	struct layout *l;
	char text[1000];
	bool recurrent;

	snprintf(text, sizeof(text), "{'__metadata__':{%s}," KV031 "}", metadata);
	put_quoted(&f, text, 320);
	l = parsed(&f, LAYOUT_SAFETENSORS, LAYOUT_COMPLETE);
	recurrent = l->recurrent;
	layout_free(l);
	file_free(&f);
	return recurrent;
}

static void classes_that_cannot_be_cut(void)
{
	CHECK(!recurrent_with("'2.0':'KVCache'"));
	CHECK(recurrent_with("'2.0':'ArraysCache'"));
	CHECK(recurrent_with("'2.0':'SomeFutureCache'"));
	CHECK(!recurrent_with("'2.0':'RotatingKVCache','0.0.0':'4','0.0.1':'64','0.0.2':'5','0.0.3':'5'"));
	CHECK(recurrent_with("'2.0':'RotatingKVCache','0.0.0':'4','0.0.1':'64','0.0.2':'500','0.0.3':'5'"));
	CHECK(recurrent_with(
		"'2.0':'CacheList','0.0.0.0':'KVCache','0.0.0.1':'RotatingKVCache','0.0.1.1.0':'0',"
		"'0.0.1.1.1':'8','0.0.1.1.2':'9','0.0.1.1.3':'1'"));
	CHECK(!recurrent_with(
		"'2.0':'CacheList','0.0.0.0':'KVCache','0.0.0.1':'RotatingKVCache','0.0.1.1.0':'0',"
		"'0.0.1.1.1':'80','0.0.1.1.2':'9','0.0.1.1.3':'1'"));
	CHECK(!recurrent_with("'format':'pt'"));
}

static void token_tensors(void)
{
	struct file f = {0};
	struct layout *l;

	put_quoted(&f, "{'token_ids':{'dtype':'I64','shape':[1,3],'data_offsets':[0,24]}}", 0);
	put_u64(&f, 11);
	put_u64(&f, 12);
	put_u64(&f, 13);
	l = parsed(&f, LAYOUT_SAFETENSORS, LAYOUT_COMPLETE);
	CHECK_INT(l->n_tokens, 3);
	CHECK(l->tokens_exact);
	CHECK_INT(l->tokens[2], 13);
	CHECK_STR(l->text, "safetensors types=I64");
	layout_free(l);
	file_free(&f);
}

static const char *const not_safetensors[] = {
	"{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]},'b':{'dtype':'U8','shape':[4],'data_offsets':["
	"3,7]}}",
	"{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]},'a':{'dtype':'U8','shape':[4],'data_offsets':["
	"4,8]}}",
	"{'a':{'dtype':'U8','shape':[4],'data_offsets':[4,0]}}",
	"{'a':{'dtype':'U8','shape':[5],'data_offsets':[0,4]}}",
	"{'a':{'dtype':'U8','shape':[-4],'data_offsets':[0,4]}}",
	"{'a':{'dtype':'U8','shape':[4.5],'data_offsets':[0,4]}}",
	"{'a':{'dtype':'u8','shape':[4],'data_offsets':[0,4]}}",
	"{'a':{'dtype':'U8','shape':[4294967296,4294967296,16],'data_offsets':[0,0]}}",
	"{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,1e300]}}",
	"{'a':{'dtype':'U8','shape':[4]}}",
	"{'a':3}",
	"{'__metadata__':{'a':1}}",
	"{'__metadata__':{},'__metadata__':{}}",
	"{}x",
	"{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}",
};

static void bad_headers_are_opaque(void)
{
	struct file f = {0};

	for (size_t i = 0; i < sizeof(not_safetensors) / sizeof(not_safetensors[0]); i++) {
		put_quoted(&f, not_safetensors[i], 4);
		expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	}
	put_quoted(&f, "{}", 0);
	expect(&f, LAYOUT_SAFETENSORS, LAYOUT_COMPLETE);
	put_quoted(&f,
		   "{'a':{'dtype':'U8','shape':[0],'data_offsets':[2,2]},"
		   "'b':{'dtype':'F77','shape':[9],'data_offsets':[0,4]}}",
		   4);
	expect(&f, LAYOUT_SAFETENSORS, LAYOUT_COMPLETE);
	f.len = 0;
	put_u64(&f, UINT64_MAX);
	put(&f, "{}", 2);
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	file_free(&f);
}

static void headers_of_too_many_values(void)
{
	size_t len = 4 << 20;
	char *json = malloc(len + 1);
	struct file f = {0};

	memset(json, '[', len);
	json[0] = '{';
	json[len] = 0;
	put_json(&f, json, 0);
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	for (size_t i = 1; i < len; i++)
		json[i] = i % 2 ? '1' : ',';
	put_json(&f, json, 0);
	expect(&f, LAYOUT_OPAQUE, LAYOUT_UNKNOWN);
	free(json);
	file_free(&f);
}

/* ---- blocks ---- */

struct cuts {
	const uint64_t *at;
	size_t n;
	bool good;
	uint64_t largest;
};

static int look_for_crossing(void *ctx, const struct layout_block *block)
{
	struct cuts *c = ctx;

	for (size_t i = 0; i < c->n; i++)
		if (block->token_first < c->at[i] && c->at[i] < block->token_end &&
		    block->tensor->tokens_per_row == 1)
			c->good = false;
	if (block->bytes > c->largest)
		c->largest = block->bytes;
	return 0;
}

static void no_block_crosses_a_cut(void)
{
	static const uint64_t at[] = {1, 700, 1500, 1501, 2999, 4000};
	struct cuts c = {.at = at, .n = 6, .good = true};
	struct file f = {0};
	struct layout *l;

	put_head(&f, GGSQ, 4, 3000);
	put_attn(&f, 3000, 0, 2, true);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK(blocks_cover(l, at, 6));
	layout_blocks(l, at, 6, look_for_crossing, &c);
	CHECK(c.good);
	CHECK(c.largest <= BLOCKS_BYTES_MAX);
	layout_free(l);
	file_free(&f);
}

static int stop_at_third(void *ctx, const struct layout_block *block)
{
	size_t *n = ctx;

	(void)block;
	return ++*n == 3 ? -ECANCELED : 0;
}

static void a_visitor_can_stop(void)
{
	struct file f = {0};
	struct layout *l;
	size_t n = 0;

	put_head(&f, GGSQ, 4, 10);
	put_attn(&f, 10, 0, 3, true);
	l = parsed(&f, LAYOUT_GGSQ, LAYOUT_COMPLETE);
	CHECK_INT(layout_blocks(l, NULL, 0, stop_at_third, &n), -ECANCELED);
	CHECK_INT(n, 3);
	layout_free(l);
	file_free(&f);
}

static void token_hash(void)
{
	static const int64_t ids[] = {1, -1};
	uint8_t hash[DIGEST_LEN];
	char hex[DIGEST_HEX_LEN + 1];

	CHECK_INT(tokens_hash(ids, 2, hash), 0);
	digest_hex(hash, hex); /* of 01 00 00 00 00 00 00 00 ff ff ff ff ff ff ff ff */
	CHECK_STR(hex, "db0550d553e2a146e34164d19cd55f006c38d700d8f9a4e3ba2c889a1d7c26b2");
	CHECK_INT(tokens_hash(NULL, 0, hash), 0);
	digest_hex(hash, hex);
	CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

int main(void)
{
	RUN("attention: text, tokens, tensors and their names", plain_attention);
	RUN("transposed V is element-major", transposed_v);
	RUN("rows of a sliding window know their tokens", sliding_window_rows_know_their_tokens);
	RUN("hybrid with checkpoints: boundaries once each, a broken trailer is opaque",
	    hybrid_with_checkpoints);
	RUN("R and S with equal heads are halves", states_with_equal_heads);
	RUN("ids that are not as many as the cells are no prefix key", ids_and_cells_are_equally_many);
	RUN("S rows of no bytes", states_without_s);
	RUN("a row without a type, and an indexer after it", hybrid_with_an_odd_row_and_an_indexer);
	RUN("compressed caches: a row stands for several tokens", compressed_caches);
	RUN("the layout of 2025", the_layout_of_2025);
	RUN("a whole state names its architecture and has no trailer", whole_states);
	RUN("equal pictures match, others of the same size do not", pictures_are_told_apart);
	RUN("ids below 0 that nothing explains are no prefix key", unexplained_ids_are_no_key);
	RUN("a cut file is never complete, and incomplete only inside a tensor",
	    cut_files_are_never_complete);
	RUN("unknown versions, bytes after the end and strangers are opaque", strangers_are_opaque);
	RUN("the fork that uses the same version number is opaque", a_fork_with_the_same_number);
	RUN("hostile lengths in every word", hostile_lengths);
	RUN("a source that fails is told, whichever read it was", a_failing_disk_is_told);
	RUN("terabytes of holes are decided at once", holes_cost_nothing);
	RUN("mlx-lm up to 0.31, whole, cut and too long", mlx_up_to_031);
	RUN("fewer ids than tokens leave them unknown", fewer_ids_than_tokens);
	RUN("mlx-lm from 0.32: padded rows", mlx_from_032);
	RUN("classes that cannot be cut", classes_that_cannot_be_cut);
	RUN("ids in a tensor", token_tensors);
	RUN("headers that contradict themselves are opaque", bad_headers_are_opaque);
	RUN("headers of too many values are not parsed", headers_of_too_many_values);
	RUN("no block crosses a cut", no_block_crosses_a_cut);
	RUN("a visitor can stop the walk", a_visitor_can_stop);
	RUN("token hash: ids as 8-byte little-endian", token_hash);
	UNIT_END();
}
