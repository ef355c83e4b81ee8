/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ggsq_section.c - ATTN, REC and DSV4 sections under a guess.
 *
 *	ATTN: n_stream, per stream: cells | v_trans n_layer [rotation] | K of each layer | V of each layer
 *	REC:  cells | s_trans n_layer | R of each recurrent layer | S of each recurrent layer
 *	DSV4: magic | cells | window ATTN | 3 x compressed K | 3 x compressor state
 *
 * A wrong guess must fail early and for certain: every word is held against what a writer can write (known
 * type, whole blocks in a row, small counts, one sequence in a sequence's state). All counts are bounded
 * before they are multiplied, and data is skipped, not read: the work is one small read a tensor and the
 * cells themselves.
 *
 * Cells say which token a row belongs to, by position. A cache that wrapped round or was used by several
 * conversations has its rows in runs; a picture's tokens share one position, and then the order of rows is
 * the order of tokens.
 *
 * Easy to forget: only a tensor whose *head* was plausible may set ran_past, since that refuses a commit. */
#include "codec/ggsq_section.h"

#include <errno.h>

#include "codec/kvtype.h"

enum {
	STREAMS_MAX = 256,
	LAYERS_MAX = 1024,
	SEQUENCES_MAX = 256,
	RUNS_MAX = 256, /* of one stream; more scattered rows are taken in order */
	EMBED_MAX = 1 << 24,
	PLACE_MAX = 1 << 28,
	ROTATION_MAX = 1 << 16,
	REC_CELLS_MAX = 4096,
	DSV4_MAGIC = 0x34565344,
	DSV4_VERSION = 1,
	COMPRESSED_TAG = 2,
	COMPRESSOR_TAG = 1,
	COMPRESSORS = 3,
};

/* What the cells of one stream say. */
struct cells {
	uint64_t count;
	uint32_t first_run;
	uint32_t n_runs;
	uint32_t stream;
	bool scattered; /* too many runs */
	bool alike;	/* all cells have the same size */
	uint32_t n_seq; /* of the first cell */
	int32_t seq_id; /* of the first cell */
	int32_t last_pos;
};

static bool tensor_fits(struct guess *g, uint64_t data_bytes)
{
	if (g->bytes.error)
		return false;
	if (data_bytes <= bytes_left(&g->bytes))
		return true;
	g->ran_past = true;
	return false;
}

/* Adds a tensor whose data begins here, and steps over it. */
static int add_here(struct guess *g, struct layout_tensor *tensor)
{
	int ret;

	if (!tensor_fits(g, tensor->data_bytes))
		return g->bytes.error ? g->bytes.error : -ENODATA;
	tensor->section = (uint16_t)(g->builder->layout->n_sections - 1);
	ret = build_tensor(g->builder, tensor, g->bytes.at);
	if (ret)
		return ret;
	bytes_skip(&g->bytes, tensor->data_bytes);
	return g->bytes.error;
}

static void note_type(int *noted, int type)
{
	if (*noted == LAYOUT_NO_TYPE)
		*noted = type;
	else if (*noted != type)
		*noted = LAYOUT_MIXED_TYPE;
}

/* ---- cells ---- */

static int note_position(struct guess *g, struct cells *c, uint64_t row, int32_t pos)
{
	struct layout *l = g->builder->layout;
	struct layout_run run = {.row = row, .token = (uint64_t)pos, .count = 1};
	bool goes_on = row && (int64_t)pos == (int64_t)c->last_pos + 1;

	c->last_pos = pos;
	if (c->scattered)
		return 0;
	if (goes_on) {
		l->runs[l->n_runs - 1].count++;
		return 0;
	}
	if (c->n_runs == RUNS_MAX) {
		c->scattered = true;
		return 0;
	}
	c->n_runs++;
	return build_run(g->builder, &run);
}

static bool sequences_plausible(const struct guess *g, uint32_t n_seq)
{
	if (g->whole_state)
		return n_seq >= 1 && n_seq <= SEQUENCES_MAX;
	return n_seq == (g->without_streams ? 0 : 1);
}

/* Place in a picture's grid, or the position once more; and from version 3 on the token. */
static int read_place(struct guess *g)
{
	for (uint32_t i = 0; i < g->cell_extra / 4; i++) {
		int32_t word = bytes_i32(&g->bytes);

		if (word < -1 || (i < 2 && (word < 0 || word > PLACE_MAX)))
			return g->bytes.error ? g->bytes.error : -EBADMSG;
	}
	return g->bytes.error;
}

/* Sequence ids ascend. Gives the last one; leaves *seq_id alone when there are none. */
static int read_sequences(struct guess *g, uint32_t n_seq, int32_t *seq_id)
{
	for (uint32_t i = 0; i < n_seq; i++) {
		int32_t next = bytes_i32(&g->bytes);

		if (next <= *seq_id || next >= SEQUENCES_MAX)
			return g->bytes.error ? g->bytes.error : -EBADMSG;
		*seq_id = next;
	}
	return g->bytes.error;
}

static int read_cell(struct guess *g, struct cells *c, uint64_t row)
{
	int32_t pos = bytes_i32(&g->bytes), seq_id = -1;
	uint32_t n_seq = bytes_u32(&g->bytes);
	int ret = g->bytes.error;

	if (ret)
		return ret;
	if (pos < 0 || !sequences_plausible(g, n_seq))
		return -EBADMSG;
	ret = read_place(g);
	if (!ret)
		ret = read_sequences(g, n_seq, &seq_id);
	if (ret)
		return ret;
	if (!row) {
		c->n_seq = n_seq;
		c->seq_id = seq_id;
	}
	if (!g->whole_state && seq_id != c->seq_id)
		return -EBADMSG; /* a sequence's state holds one sequence */
	if (!g->whole_state && !g->cell_extra && row && pos == c->last_pos)
		return -EBADMSG; /* and each position of it once: a hole of zeros is no run of cells */
	c->alike = c->alike && n_seq == c->n_seq;
	return note_position(g, c, row, pos);
}

/* Decides which token each row belongs to: leaves runs only where rows are not simply the tokens in order. */
static int settle_runs(struct guess *g, struct cells *c)
{
	struct layout *l = g->builder->layout;
	struct layout_run tail = {.count = c->count};

	if (c->n_runs == 1 && !c->scattered && !l->runs[c->first_run].token) {
		l->n_runs = c->first_run;
		c->n_runs = 0;
		return 0;
	}
	if (!c->scattered && (!g->cell_extra || c->n_runs == 1))
		return 0;
	l->n_runs = c->first_run;
	c->n_runs = 0;
	if (c->count >= g->n_tokens)
		return 0;
	tail.token = g->n_tokens - c->count; /* a window's rows are the last ones */
	c->n_runs = 1;
	return build_run(g->builder, &tail);
}

static int add_cells(struct guess *g, const struct cells *c, uint64_t begin)
{
	struct layout_tensor t = {
		.role = LAYOUT_CELLS,
		.section = (uint16_t)(g->builder->layout->n_sections - 1),
		.stream = (uint16_t)c->stream,
		.data_bytes = g->bytes.at - begin,
		.element_bytes = 4,
		.first_run = c->first_run,
		.n_runs = c->n_runs,
		.lanes = 1,
	};

	if (c->alike) {
		t.rows = c->count;
		t.valid_rows = c->count;
		t.row_bytes = t.data_bytes / c->count;
	}
	return build_tensor(g->builder, &t, begin);
}

static int read_cells(struct guess *g, struct cells *c)
{
	uint64_t begin = g->bytes.at;
	int ret = 0;

	if (c->count > bytes_left(&g->bytes) / (8 + g->cell_extra))
		return -ENODATA;
	c->first_run = (uint32_t)g->builder->layout->n_runs;
	c->alike = true;
	for (uint64_t row = 0; !ret && row < c->count; row++)
		ret = read_cell(g, c, row);
	if (!ret)
		ret = settle_runs(g, c);
	return ret ? ret : add_cells(g, c, begin);
}

/* ---- ATTN ---- */

static int add_rows(struct guess *g, const struct cells *c, enum layout_role role, uint32_t layer, int *noted)
{
	int32_t number = bytes_i32(&g->bytes);
	uint64_t row_bytes = bytes_u64(&g->bytes);
	const struct kvtype *type = kvtype_find(number);
	struct layout_tensor t = {
		.role = (uint8_t)role,
		.stream = (uint16_t)c->stream,
		.layer = (uint16_t)layer,
		.rows = c->count,
		.valid_rows = c->count,
		.lanes = 1,
		.first_run = c->first_run,
		.n_runs = c->n_runs,
	};

	if (g->bytes.error)
		return g->bytes.error;
	if (!type || !kvtype_row_fits(type, row_bytes))
		return -EBADMSG;
	note_type(noted, number);
	t.row_bytes = row_bytes;
	t.data_bytes = c->count * row_bytes;
	t.element_bytes = kvtype_element(type);
	return add_here(g, &t);
}

/* V without flash attention: one lane for each element, the tokens of it side by side. */
static int add_transposed(struct guess *g, const struct cells *c, uint32_t layer, int *noted)
{
	int32_t number = bytes_i32(&g->bytes);
	uint32_t element_bytes = bytes_u32(&g->bytes), n_embed = bytes_u32(&g->bytes);
	const struct kvtype *type = kvtype_find(number);
	struct layout_tensor t = {
		.role = LAYOUT_V,
		.stream = (uint16_t)c->stream,
		.layer = (uint16_t)layer,
		.rows = c->count,
		.valid_rows = c->count,
		.row_bytes = element_bytes,
		.element_bytes = element_bytes,
		.lanes = n_embed,
		.first_run = c->first_run,
		.n_runs = c->n_runs,
	};

	if (g->bytes.error)
		return g->bytes.error;
	if (!type || type->block_elements != 1 || element_bytes != type->block_bytes)
		return -EBADMSG;
	if (!n_embed || n_embed > EMBED_MAX)
		return -EBADMSG;
	note_type(noted, number);
	t.data_bytes = c->count * element_bytes * n_embed;
	return add_here(g, &t);
}

static bool rotation_plausible(uint32_t word)
{
	return word <= ROTATION_MAX && (word & (word - 1)) == 0;
}

/* v_trans, n_layer and rotation of a stream: the same in all streams of a section. */
static int read_attn_words(struct guess *g, enum attn_parts parts, struct layout_section *s, bool first)
{
	uint32_t v_trans = bytes_u32(&g->bytes), n_layer = bytes_u32(&g->bytes), rot_k = 0, rot_v = 0;

	if (g->has_rotation) {
		rot_k = bytes_u32(&g->bytes);
		rot_v = bytes_u32(&g->bytes);
	}
	if (g->bytes.error)
		return g->bytes.error;
	if (v_trans > 1 || n_layer > LAYERS_MAX || (n_layer == 0) != (parts == ATTN_CELLS_ONLY))
		return -EBADMSG;
	if (!rotation_plausible(rot_k) || !rotation_plausible(rot_v))
		return -EBADMSG;
	if (!first &&
	    ((int)v_trans != s->v_trans || n_layer != s->n_layer || rot_k != s->rot_k || rot_v != s->rot_v))
		return -EBADMSG;
	s->v_trans = (int)v_trans;
	s->n_layer = n_layer;
	s->rot_k = rot_k;
	s->rot_v = rot_v;
	return 0;
}

static int read_attn_layers(struct guess *g, enum attn_parts parts, struct layout_section *s,
			    const struct cells *c)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && i < s->n_layer; i++)
		ret = add_rows(g, c, LAYOUT_K, i, &s->k_type);
	for (uint32_t i = 0; !ret && parts == ATTN_KV && i < s->n_layer; i++)
		ret = s->v_trans ? add_transposed(g, c, i, &s->v_type)
				 : add_rows(g, c, LAYOUT_V, i, &s->v_type);
	return ret;
}

static int read_stream(struct guess *g, enum attn_parts parts, struct layout_section *s, uint32_t stream)
{
	struct cells c = {.stream = stream, .count = bytes_u32(&g->bytes)};
	bool first = s->n_cells == 0;
	int ret = g->bytes.error;

	if (ret || !c.count)
		return ret;
	if (!first && !g->whole_state)
		return -EBADMSG; /* a sequence lives in one stream */
	ret = read_cells(g, &c);
	if (!ret)
		ret = read_attn_words(g, parts, s, first);
	if (!ret)
		ret = read_attn_layers(g, parts, s, &c);
	s->n_cells += c.count;
	return ret;
}

/* Unified or one stream for each slot: a server has it the same in all its caches. */
static bool streams_plausible(const struct layout *l, uint32_t n_stream)
{
	for (size_t i = 0; i < l->n_sections; i++)
		if (l->sections[i].n_stream && l->sections[i].n_stream != n_stream)
			return false;
	return n_stream && n_stream <= STREAMS_MAX;
}

/* An indexer (keys alone, and not the first section) has a row for each row of the attention before it. In
 * the layout of 2025 a single cell would be, byte for byte, a recurrent state, whole or cut in the middle. */
static bool cells_plausible(const struct guess *g, enum attn_parts parts, const struct layout_section *s)
{
	const struct layout *l = g->builder->layout;

	if (parts == ATTN_K && s->kind == LAYOUT_ATTN && s->n_cells != l->sections[0].n_cells)
		return false;
	return !g->without_streams || s->n_cells != 1;
}

static int read_attn(struct guess *g, enum attn_parts parts, enum layout_section_kind kind)
{
	uint32_t n_stream = g->without_streams ? 1 : bytes_u32(&g->bytes);
	struct layout_section *s;
	int ret = g->bytes.error;

	if (ret)
		return ret;
	if (!streams_plausible(g->builder->layout, n_stream))
		return -EBADMSG;
	ret = build_section(g->builder, kind, &s);
	if (ret)
		return ret;
	s->n_stream = n_stream;
	for (uint32_t i = 0; !ret && i < n_stream; i++)
		ret = read_stream(g, parts, s, i);
	s->cell_extra = s->n_cells ? g->cell_extra : 0;
	if (!ret && !cells_plausible(g, parts, s))
		ret = -EBADMSG;
	return ret;
}

int section_attn(struct guess *g, enum attn_parts parts)
{
	return read_attn(g, parts, LAYOUT_ATTN);
}

/* ---- REC ---- */

/* The head that all R, or all S, of a section share. */
struct state_head {
	int32_t type;
	uint64_t row_bytes;
};

static bool next_head_is(struct guess *g, const struct state_head *head)
{
	uint64_t at = g->bytes.at;
	int32_t type = bytes_i32(&g->bytes);
	uint64_t row_bytes = bytes_u64(&g->bytes);
	bool same = !g->bytes.error && type == head->type && row_bytes == head->row_bytes;

	if (!same)
		bytes_seek(&g->bytes, at);
	return same;
}

static int read_state_head(struct guess *g, struct state_head *head)
{
	uint64_t at = g->bytes.at;
	const struct kvtype *type;

	head->type = bytes_i32(&g->bytes);
	head->row_bytes = bytes_u64(&g->bytes);
	if (g->bytes.error)
		return g->bytes.error;
	type = kvtype_find(head->type);
	if (!type || (head->row_bytes && !kvtype_row_fits(type, head->row_bytes)))
		return -EBADMSG;
	bytes_seek(&g->bytes, at);
	return g->bytes.error;
}

static int add_state(struct guess *g, const struct layout_section *s, const struct state_head *head,
		     enum layout_role role, uint32_t layer)
{
	const struct kvtype *type = kvtype_find(head->type);
	struct layout_tensor t = {
		.role = (uint8_t)role,
		.layer = (uint16_t)layer,
		.lanes = 1,
		.data_bytes = s->n_cells * head->row_bytes,
		.element_bytes = type ? kvtype_element(type) : 1,
	};

	return add_here(g, &t);
}

/* Reads states as long as heads are equal to the first, at most `limit` in all. */
static int read_alike(struct guess *g, const struct layout_section *s, const struct state_head *head,
		      enum layout_role role, uint32_t limit, uint32_t *count)
{
	int ret = 0;

	while (!ret && *count < limit && next_head_is(g, head)) {
		ret = add_state(g, s, head, role, *count);
		if (!ret)
			++*count;
	}
	return ret;
}

/* A row whose head is its size alone. That is too little to be certain of, so it never tells of a cut file.
 */
static int read_p_row(struct guess *g, const struct layout_section *s, uint32_t layer)
{
	uint64_t row_bytes = bytes_u64(&g->bytes);
	struct layout_tensor t = {
		.role = LAYOUT_REC_P,
		.layer = (uint16_t)layer,
		.lanes = 1,
		.data_bytes = s->n_cells * row_bytes,
		.element_bytes = row_bytes % 4 ? 2 : 4,
	};

	if (g->bytes.error)
		return g->bytes.error;
	if (!kvtype_row_fits(kvtype_find(KVTYPE_F16), row_bytes) || t.data_bytes > bytes_left(&g->bytes))
		return -EBADMSG;
	return add_here(g, &t);
}

static int read_r(struct guess *g, enum rec_guess how, struct layout_section *s, struct state_head *head)
{
	uint32_t limit = s->n_layer;
	int ret = read_state_head(g, head);

	if (!ret)
		ret = read_alike(g, s, head, LAYOUT_REC_R, limit, &s->rec_layers);
	if (ret || how != REC_WITH_P)
		return ret;
	s->has_p = true;
	ret = read_p_row(g, s, s->rec_layers - 1);
	return ret ? ret : read_alike(g, s, head, LAYOUT_REC_R, limit, &s->rec_layers);
}

static int read_s(struct guess *g, struct layout_section *s, const struct state_head *r)
{
	struct state_head head;
	uint32_t count = 0;
	int ret = read_state_head(g, &head);

	if (ret)
		return ret;
	if (head.type == r->type && head.row_bytes == r->row_bytes)
		return -EBADMSG;
	s->v_type = head.type;
	ret = read_alike(g, s, &head, LAYOUT_REC_S, s->rec_layers, &count);
	if (!ret && count != s->rec_layers)
		ret = g->bytes.error ? g->bytes.error : -EBADMSG;
	return ret;
}

/* Layers that the attention sections before this one have. */
static uint32_t attention_layers(const struct layout *l)
{
	uint32_t n_layer = 0;

	for (size_t i = 0; i < l->n_sections; i++)
		if (l->sections[i].kind == LAYOUT_ATTN)
			n_layer += l->sections[i].n_layer;
	return n_layer;
}

/* R and S with equal heads: as many of each, so an even number in all, and the second half is S. Some R of a
 * cut file look just like that; but then layers are missing: they are either attention or recurrent, or all
 * of them both. */
static int read_equal_halves(struct guess *g, struct layout_section *s, struct state_head *head)
{
	struct layout *l = g->builder->layout;
	uint32_t count = 0;
	int ret = read_state_head(g, head);

	if (!ret)
		ret = read_alike(g, s, head, LAYOUT_REC_R, 2 * s->n_layer, &count);
	if (ret)
		return ret;
	if (!count || count % 2 || !s->n_cells)
		return -EBADMSG;
	if (count / 2 != s->n_layer && attention_layers(l) + count / 2 != s->n_layer)
		return -EBADMSG;
	s->rec_layers = count / 2;
	s->v_type = head->type;
	for (uint32_t i = 0; i < s->rec_layers; i++) {
		struct layout_tensor *t = &l->tensors[l->n_tensors - s->rec_layers + i];

		t->role = LAYOUT_REC_S;
		t->layer = (uint16_t)i;
	}
	return 0;
}

static int read_rec_cells(struct guess *g, uint64_t n_cells, int32_t *last_pos)
{
	if (n_cells > (g->whole_state ? REC_CELLS_MAX : 1))
		return -EBADMSG;
	for (uint64_t i = 0; i < n_cells; i++) {
		int32_t pos = bytes_i32(&g->bytes);
		uint32_t n_seq = bytes_u32(&g->bytes);

		if (g->bytes.error)
			return g->bytes.error;
		if (pos < -1 || n_seq > (g->whole_state ? SEQUENCES_MAX : 0))
			return -EBADMSG;
		bytes_skip(&g->bytes, 4 * (uint64_t)n_seq);
		*last_pos = pos;
	}
	return g->bytes.error;
}

/* A hybrid model has both kinds of cells or, in an empty slot, neither. */
static bool agrees_with_attention(const struct layout *l, uint64_t n_cells)
{
	for (size_t i = 0; i < l->n_sections; i++)
		if ((l->sections[i].n_cells == 0) != (n_cells == 0))
			return false;
	return true;
}

int section_rec(struct guess *g, enum rec_guess how)
{
	uint32_t n_cells = bytes_u32(&g->bytes), s_trans, n_layer;
	struct state_head head;
	struct layout_section *s;
	int32_t last_pos = -1;
	int ret = g->bytes.error ? g->bytes.error : read_rec_cells(g, n_cells, &last_pos);

	if (ret)
		return ret;
	s_trans = bytes_u32(&g->bytes);
	n_layer = bytes_u32(&g->bytes);
	if (g->bytes.error)
		return g->bytes.error;
	if (s_trans || !n_layer || n_layer > LAYERS_MAX ||
	    !agrees_with_attention(g->builder->layout, n_cells))
		return -EBADMSG;
	ret = build_section(g->builder, LAYOUT_REC, &s);
	if (ret)
		return ret;
	s->n_cells = n_cells;
	s->n_layer = n_layer;
	s->last_pos = last_pos;
	if (how == REC_ALIKE)
		ret = read_equal_halves(g, s, &head);
	else
		ret = read_r(g, how, s, &head);
	s->k_type = head.type;
	return ret || how == REC_ALIKE ? ret : read_s(g, s, &head);
}

/* ---- DSV4 ---- */

struct dsv4_part {
	struct layout_tensor tensor; /* role, part */
	uint32_t streams;
};

/* i32 type, u64 n_embd, u64 rows, u64 row_bytes, data of all streams */
static int add_dsv4_tensor(struct guess *g, const struct dsv4_part *part, uint32_t layer, int *noted)
{
	int32_t number = bytes_i32(&g->bytes);
	uint64_t n_embed = bytes_u64(&g->bytes), rows = bytes_u64(&g->bytes),
		 row_bytes = bytes_u64(&g->bytes);
	const struct kvtype *type = kvtype_find(number);
	struct layout_tensor t = part->tensor;

	if (g->bytes.error)
		return g->bytes.error;
	if (!type || !kvtype_row_fits(type, row_bytes) || rows > UINT32_MAX)
		return -EBADMSG;
	if (n_embed % type->block_elements || n_embed / type->block_elements != row_bytes / type->block_bytes)
		return -EBADMSG;
	note_type(noted, number);
	t.layer = (uint16_t)layer;
	t.element_bytes = kvtype_element(type);
	t.lanes = part->streams;
	t.row_bytes = row_bytes;
	if (t.role == LAYOUT_COMPRESSED) {
		t.rows = rows;
		t.valid_rows = rows;
	}
	if (rows && row_bytes * part->streams > UINT64_MAX / rows)
		return -EBADMSG;
	t.data_bytes = rows * row_bytes * part->streams;
	return add_here(g, &t);
}

static int read_dsv4_layers(struct guess *g, struct dsv4_part *part, uint32_t n_tensors, int *noted)
{
	uint32_t n_layer;
	int ret = 0;

	part->streams = bytes_u32(&g->bytes);
	n_layer = bytes_u32(&g->bytes);
	if (g->bytes.error)
		return g->bytes.error;
	if (!part->streams || part->streams > STREAMS_MAX || n_layer > LAYERS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; !ret && i < n_layer; i++) {
		uint32_t layer = bytes_u32(&g->bytes);

		if (!g->bytes.error && layer >= LAYERS_MAX)
			return -EBADMSG;
		for (uint32_t k = 0; !ret && k < n_tensors; k++) {
			part->tensor.part = (uint8_t)(part->tensor.part / 2 * 2 + k);
			ret = add_dsv4_tensor(g, part, layer, noted);
		}
	}
	return ret;
}

static int read_compressed(struct guess *g, uint32_t index, int *noted)
{
	struct dsv4_part part = {.tensor = {.role = LAYOUT_COMPRESSED, .part = (uint8_t)(2 * index)}};
	uint32_t tag = bytes_u32(&g->bytes);

	bytes_u32(&g->bytes); /* rows, once more in each tensor */
	if (!g->bytes.error && tag != COMPRESSED_TAG)
		return -EBADMSG;
	return read_dsv4_layers(g, &part, 1, noted);
}

static int read_compressor(struct guess *g, uint32_t index, int *noted, uint32_t *ratio)
{
	struct dsv4_part part = {.tensor = {.role = LAYOUT_COMPRESSOR, .part = (uint8_t)(2 * index)}};
	uint32_t tag = bytes_u32(&g->bytes);

	*ratio = bytes_u32(&g->bytes);
	bytes_skip(&g->bytes, 8); /* size, n_embd */
	if (!g->bytes.error && (tag != COMPRESSOR_TAG || !*ratio || *ratio > EMBED_MAX))
		return -EBADMSG;
	return read_dsv4_layers(g, &part, 2, noted);
}

/* A row of the compressed cache stands for as many tokens as its compressor takes in. */
static void note_ratio(struct layout *l, size_t from, uint32_t index, uint32_t ratio)
{
	for (size_t i = from; i < l->n_tensors; i++)
		if (l->tensors[i].role == LAYOUT_COMPRESSED && l->tensors[i].part / 2 == index)
			l->tensors[i].tokens_per_row = ratio;
}

int section_dsv4(struct guess *g)
{
	struct layout *l = g->builder->layout;
	uint32_t magic = bytes_u32(&g->bytes), version = bytes_u32(&g->bytes), mode = bytes_u32(&g->bytes);
	uint32_t ratio = 0;
	struct layout_section *s;
	size_t from = l->n_tensors;
	int ret = g->bytes.error;

	if (ret)
		return ret;
	if (magic != DSV4_MAGIC || version != DSV4_VERSION || mode)
		return -EBADMSG;
	ret = read_attn(g, ATTN_CELLS_ONLY, LAYOUT_DSV4_CELLS);
	if (!ret)
		ret = read_attn(g, ATTN_K, LAYOUT_DSV4_WINDOW);
	if (!ret)
		ret = build_section(g->builder, LAYOUT_DSV4_STATE, &s);
	for (uint32_t i = 0; !ret && i < COMPRESSORS; i++)
		ret = read_compressed(g, i, &s->k_type);
	for (uint32_t i = 0; !ret && i < COMPRESSORS; i++) {
		ret = read_compressor(g, i, &s->v_type, &ratio);
		if (!ret)
			note_ratio(l, from, i, ratio);
	}
	return ret;
}
