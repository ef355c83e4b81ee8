/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ggsq.c - recognises llama.cpp's states by trying the lists of sections that models have.
 *
 *	magic version n | tokens | [ggsn: architecture] | sections ... | [ggsq: SCKP trailer]
 *
 * The file names neither its model nor its sections, so a small tree of lists is walked: at each node the
 * bytes either are such a section or they are not, and a list fits when its end falls exactly on the end of
 * the file or on a whole trailer. The walk shares what lists have in common, so the first section is read
 * once for each kind, not once for each list. Three styles of cells are tried before one another: plain,
 * with M-RoPE words, and the layout of 2025 (version 2 alone).
 *
 * Nothing fits: the file is opaque, and welcome, unless a guess ran through plausible heads into a tensor
 * beyond the end: then it is incomplete. A broken trailer is no tensor: the file is opaque.
 *
 * Easy to forget: what a wrong guess added must be taken back; and the builder's position is where the
 * sections begin, not 0, since the token array is a tensor already. */
#include "codec/ggsq.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/build.h"
#include "codec/ggsq_section.h"
#include "codec/ggsq_tokens.h"
#include "codec/ggsq_trailer.h"
#include "codec/kvtype.h"

#define GGSQ_MAGIC 0x67677371u
#define GGSN_MAGIC 0x6767736eu

enum {
	ARCHITECTURE_MAX = 128,
	VERSIONS_APART = 7, /* ggsn 9 has the cells of ggsq 2, and so on */
	FIRST_VERSION = 2,
	LAST_VERSION = 4,
	STYLES = 3,
};

struct search {
	struct guess guess;
	struct builder builder;
	struct layout *layout; /* borrowed */
	uint32_t cells_of;     /* the ggsq version whose cells these are */
	uint64_t sections_at;
	char architecture[ARCHITECTURE_MAX + 1];
};

/* ---- the lists ---- */

enum step {
	STEP_ATTN_KV,
	STEP_ATTN_K,
	STEP_REC,
	STEP_DSV4,
};

enum node {
	ROOT,
	FULL_KV,
	FULL_K,
	RECURRENT,
	DEEPSEEK4,
	WINDOW_KV,
	INDEXER_K,
	HYBRID,
	HYBRID_INDEXER,
	HYBRID_MLA,
	NODES,
	NO_NODE = NODES,
};

/* What may follow a section; the list may end after each of them. */
static const struct {
	enum step step;
	enum node next[4];
} lists[NODES] = {
	[ROOT] = {0, {FULL_KV, FULL_K, RECURRENT, DEEPSEEK4}},
	[FULL_KV] = {STEP_ATTN_KV, {WINDOW_KV, HYBRID, NO_NODE}},
	[FULL_K] = {STEP_ATTN_K, {INDEXER_K, HYBRID_MLA, NO_NODE}},
	[RECURRENT] = {STEP_REC, {NO_NODE}},
	[DEEPSEEK4] = {STEP_DSV4, {NO_NODE}},
	[WINDOW_KV] = {STEP_ATTN_KV, {NO_NODE}},
	[INDEXER_K] = {STEP_ATTN_K, {NO_NODE}},
	[HYBRID] = {STEP_REC, {HYBRID_INDEXER, NO_NODE}},
	[HYBRID_INDEXER] = {STEP_ATTN_K, {NO_NODE}},
	[HYBRID_MLA] = {STEP_REC, {NO_NODE}},
};

/* Does the file end here, or with a whole trailer from here on? 0 = yes, -EBADMSG = no. */
static int fits_end(struct search *s)
{
	struct build_mark mark = build_mark(&s->builder);
	int ret;

	if (!bytes_left(&s->guess.bytes))
		return 0;
	if (s->guess.whole_state)
		return -EBADMSG;
	ret = ggsq_trailer(&s->guess.bytes, &s->builder);
	if (ret)
		build_return(&s->builder, mark);
	return ret;
}

static bool is_refusal(const struct search *s, int ret)
{
	return !s->guess.bytes.read_error && (ret == -EBADMSG || ret == -ENODATA);
}

static int try_next(struct search *s, enum node node);

/* The node's section from here on, and whatever may follow it. */
static int try_section(struct search *s, enum node node, enum rec_guess how)
{
	uint64_t end;
	int ret;

	switch (lists[node].step) {
	case STEP_ATTN_KV:
		ret = section_attn(&s->guess, ATTN_KV);
		break;
	case STEP_ATTN_K:
		ret = section_attn(&s->guess, ATTN_K);
		break;
	case STEP_REC:
		ret = section_rec(&s->guess, how);
		break;
	case STEP_DSV4:
	default:
		ret = section_dsv4(&s->guess);
		break;
	}
	if (ret)
		return ret;
	end = s->guess.bytes.at;
	ret = fits_end(s);
	if (!is_refusal(s, ret))
		return ret;
	bytes_seek(&s->guess.bytes, end);
	return try_next(s, node);
}

static int try_node(struct search *s, enum node node)
{
	struct build_mark mark = build_mark(&s->builder);
	uint64_t at = s->guess.bytes.at;
	int ways = lists[node].step == STEP_REC ? REC_GUESSES : 1, ret = -EBADMSG;

	if (node == RECURRENT || node == HYBRID_MLA)
		ways = REC_WITH_P; /* the model with such a row has attention with V before it */
	for (int how = 0; how < ways && is_refusal(s, ret); how++) {
		bytes_seek(&s->guess.bytes, at);
		build_return(&s->builder, mark);
		ret = try_section(s, node, (enum rec_guess)how);
	}
	return ret;
}

static int try_next(struct search *s, enum node node)
{
	struct build_mark mark = build_mark(&s->builder);
	uint64_t at = s->guess.bytes.at;
	int ret = -EBADMSG;

	for (size_t i = 0; i < 4 && lists[node].next[i] != NO_NODE && is_refusal(s, ret); i++) {
		bytes_seek(&s->guess.bytes, at);
		build_return(&s->builder, mark);
		ret = try_node(s, lists[node].next[i]);
	}
	return ret;
}

/* Cells plain, with M-RoPE words, or of 2025. False when this version has no such style. */
static bool set_style(struct search *s, int style)
{
	s->guess.cell_extra = 0;
	s->guess.without_streams = false;
	if (style == 1)
		s->guess.cell_extra = s->cells_of == FIRST_VERSION ? 8 : 12;
	if (style == 2)
		s->guess.without_streams = true;
	return style < 2 || s->cells_of == FIRST_VERSION;
}

static int try_lists(struct search *s)
{
	struct build_mark mark = build_mark(&s->builder);
	int ret = -EBADMSG;

	for (int style = 0; style < STYLES && is_refusal(s, ret); style++) {
		if (!set_style(s, style))
			continue;
		bytes_seek(&s->guess.bytes, s->sections_at);
		build_return(&s->builder, mark);
		ret = try_next(s, ROOT);
	}
	return ret;
}

/* ---- what the layout says ---- */

static void say(struct layout *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct layout *l, const char *format, ...)
{
	size_t used = strlen(l->text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(l->text + used, sizeof(l->text) - used, format, arguments);
	va_end(arguments);
}

static void say_attn(struct layout *l, const struct layout_section *s, bool has_rotation)
{
	say(l, " n_stream=%u", s->n_stream);
	if (!s->n_cells)
		return;
	if (s->n_layer)
		say(l, " k=%s v=%s v_trans=%d", layout_type_name(s->k_type), layout_type_name(s->v_type),
		    s->v_trans);
	say(l, " layers=%u", s->n_layer);
	if (has_rotation)
		say(l, " rot=%u,%u", s->rot_k, s->rot_v);
	if (s->cell_extra)
		say(l, " mrope=%u", s->cell_extra);
}

static void say_section(struct layout *l, const struct layout_section *s, bool has_rotation)
{
	static const char *const names[] = {
		[LAYOUT_ATTN] = "attn",
		[LAYOUT_REC] = "rec",
		[LAYOUT_DSV4_CELLS] = "dsv4-cells",
		[LAYOUT_DSV4_WINDOW] = "dsv4-window",
		[LAYOUT_DSV4_STATE] = "dsv4-state",
	};

	say(l, "%s%s", s == l->sections ? ": " : " + ", names[s->kind]);
	if (s->kind == LAYOUT_REC)
		say(l, " r=%s s=%s layers=%u/%u%s", layout_type_name(s->k_type), layout_type_name(s->v_type),
		    s->rec_layers, s->n_layer, s->has_p ? " p" : "");
	else if (s->kind == LAYOUT_DSV4_STATE)
		say(l, " k=%s state=%s", layout_type_name(s->k_type), layout_type_name(s->v_type));
	else
		say_attn(l, s, has_rotation);
}

/* Ids and cells are equally many. Where they are not, the ids are somebody's own word and no key. In a whole
 * state other sequences have cells too; of a recurrent model only the last position is known. */
static bool as_many_ids(const struct search *s)
{
	const struct layout_section *first = s->layout->sections;
	uint64_t n = first->n_cells;

	if (s->guess.whole_state)
		return first->kind == LAYOUT_REC || n >= s->layout->n_tokens;
	if (first->kind == LAYOUT_REC)
		n = (uint64_t)((int64_t)first->last_pos + 1);
	return n == s->layout->n_tokens;
}

static void describe(struct search *s)
{
	struct layout *l = s->layout;

	say(l, "%s %u", l->kind == LAYOUT_GGSQ ? "ggsq" : "ggsn", l->version);
	if (s->architecture[0])
		say(l, " %s", s->architecture);
	if (s->guess.without_streams)
		say(l, " 2025");
	l->tokens_exact = l->tokens_exact && as_many_ids(s);
	for (size_t i = 0; i < l->n_sections; i++) {
		say_section(l, &l->sections[i], s->guess.has_rotation);
		if (l->sections[i].kind == LAYOUT_REC || l->sections[i].kind == LAYOUT_DSV4_STATE)
			l->recurrent = true;
	}
}

/* ---- the head of the file ---- */

static bool version_known(struct search *s, uint32_t magic, uint32_t version)
{
	s->guess.whole_state = magic == GGSN_MAGIC;
	if (s->guess.whole_state && version < VERSIONS_APART)
		return false;
	s->cells_of = s->guess.whole_state ? version - VERSIONS_APART : version;
	s->guess.has_rotation = s->cells_of >= 4;
	return s->cells_of >= FIRST_VERSION && s->cells_of <= LAST_VERSION;
}

static int read_architecture(struct search *s)
{
	uint32_t len = bytes_u32(&s->guess.bytes);

	if (s->guess.bytes.error)
		return s->guess.bytes.error;
	if (!len || len > ARCHITECTURE_MAX)
		return -EBADMSG;
	bytes_take(&s->guess.bytes, s->architecture, len);
	for (uint32_t i = 0; i < len; i++)
		if (!isgraph((unsigned char)s->architecture[i]))
			return s->guess.bytes.error ? s->guess.bytes.error : -EBADMSG;
	return s->guess.bytes.error;
}

static int read_head(struct search *s)
{
	struct bytes *b = &s->guess.bytes;
	uint32_t magic = bytes_u32(b), version = bytes_u32(b), n_words = bytes_u32(b);
	int ret;

	if (b->error)
		return b->error;
	if ((magic != GGSQ_MAGIC && magic != GGSN_MAGIC) || !version_known(s, magic, version))
		return -EBADMSG;
	ret = ggsq_tokens(b, &s->builder, n_words, magic == GGSQ_MAGIC);
	if (!ret && magic == GGSN_MAGIC)
		ret = read_architecture(s);
	if (ret)
		return ret;
	s->layout->kind = magic == GGSQ_MAGIC ? LAYOUT_GGSQ : LAYOUT_GGSN;
	s->layout->version = version;
	s->guess.n_tokens = s->layout->n_tokens;
	s->sections_at = b->at;
	return 0;
}

/* Nothing fitted: forget what was read. */
static void give_up(struct search *s)
{
	struct layout *l = s->layout;

	build_return(&s->builder, (struct build_mark){0});
	free(l->tokens);
	l->tokens = NULL;
	l->n_tokens = 0;
	l->n_media = 0;
	l->tokens_exact = false;
	l->packed = false;
	l->state = LAYOUT_INCOMPLETE;
	if (s->guess.ran_past)
		return;
	l->state = LAYOUT_UNKNOWN;
	l->kind = LAYOUT_OPAQUE;
	l->version = 0;
}

static int search_run(struct search *s)
{
	int ret = read_head(s);

	if (!ret)
		ret = try_lists(s);
	if (is_refusal(s, ret)) {
		give_up(s);
		return 0;
	}
	if (ret)
		return ret;
	s->layout->state = LAYOUT_COMPLETE;
	describe(s);
	return build_finish(&s->builder);
}

int ggsq_parse(const struct source *source, struct layout *layout)
{
	struct search *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	s->layout = layout;
	build_init(&s->builder, layout);
	bytes_init(&s->guess.bytes, source);
	s->guess.builder = &s->builder;
	ret = search_run(s);
	free(s);
	return ret;
}
