/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_codec_corpus.c - the parsers against real states, column by column, and against damaged copies.
 *
 * The corpus is a folder with ggsq/ and safetensors/, each with an INDEX.tsv that says what its files hold:
 * $KV_CORPUS, or ../shared/corpus beside the checkout. Without it the promises are skipped with a line.
 * Damage is random: the seed is printed, and KV_SEED repeats a run. */
#include "test_codec.h"

#include <time.h>
#include <unistd.h>

#include "codec/tokens.h"
#include "unit.h"

enum { COLUMNS = 21, DAMAGED = 1500, FILES_MAX = 400, FLIPS_MAX = 8, TURNS_MAX = 3 };

static const char *corpus;
static unsigned seed;

/* ---- the index ---- */

struct line {
	char *text;
	char *column[COLUMNS];
	size_t columns;
};

struct index {
	struct line line[FILES_MAX];
	size_t n;
	const char *folder;
};

static void path_of(char *out, size_t len, const char *folder, const char *name)
{
	snprintf(out, len, "%s/%s/%s", corpus, folder, name);
}

static bool index_load(struct index *index, const char *folder)
{
	char path[1000], text[4000];
	FILE *in;

	memset(index, 0, sizeof(*index));
	index->folder = folder;
	path_of(path, sizeof(path), folder, "INDEX.tsv");
	in = fopen(path, "r");
	while (in && index->n < FILES_MAX && fgets(text, sizeof(text), in)) {
		struct line *l = &index->line[index->n++];
		char *rest;

		text[strcspn(text, "\n")] = 0;
		rest = l->text = strdup(text);
		while (rest && l->columns < COLUMNS)
			l->column[l->columns++] = strsep(&rest, "\t");
	}
	if (in)
		fclose(in);
	return index->n != 0;
}

static void index_free(struct index *index)
{
	for (size_t i = 0; i < index->n; i++)
		free(index->line[i].text);
}

static struct layout *load(struct file *f, const char *folder, const char *name)
{
	char path[1000];
	struct layout *l;

	path_of(path, sizeof(path), folder, name);
	if (!file_load(f, path)) {
		printf("# cannot read %s\n", path);
		exit(EXIT_FAILURE);
	}
	l = file_layout(f);
	if (!l)
		exit(EXIT_FAILURE);
	return l;
}

/* ---- columns of llama.cpp's files ---- */

static void add(char *out, size_t len, const char *between, const char *word)
{
	size_t used = strlen(out);

	snprintf(out + used, len - used, "%s%s", used ? between : "", word);
}

static void add_number(char *out, size_t len, const char *between, long long number)
{
	char word[32];

	snprintf(word, sizeof(word), "%lld", number);
	add(out, len, between, word);
}

static bool in_dsv4(const struct layout_section *s)
{
	return s->kind == LAYOUT_DSV4_CELLS || s->kind == LAYOUT_DSV4_WINDOW || s->kind == LAYOUT_DSV4_STATE;
}

static void section_names(const struct layout *l, char *out, size_t len)
{
	for (size_t i = 0; i < l->n_sections; i++) {
		const struct layout_section *s = &l->sections[i];

		if (!in_dsv4(s) || i == 0)
			add(out, len, "+", s->kind == LAYOUT_REC ? "REC" : in_dsv4(s) ? "DSV4" : "ATTN");
	}
}

static void layer_counts(const struct layout *l, char *out, size_t len)
{
	for (size_t i = 0; i < l->n_sections; i++) {
		const struct layout_section *s = &l->sections[i];

		if (s->kind == LAYOUT_DSV4_STATE)
			continue;
		if (s->kind != LAYOUT_REC && !s->n_cells)
			add(out, len, "+", "-");
		else
			add_number(out, len, "+", s->n_layer);
	}
}

static int by_text(const void *one, const void *other)
{
	return strcmp(one, other);
}

/* "k,v" of each section that has cells, each pair once. */
static void rotations(const struct layout *l, char *out, size_t len)
{
	char pairs[8][24];
	size_t n = 0;

	for (size_t i = 0; i < l->n_sections && n < 8; i++) {
		const struct layout_section *s = &l->sections[i];

		if (s->kind != LAYOUT_REC && s->kind != LAYOUT_DSV4_STATE && s->n_cells)
			snprintf(pairs[n++], sizeof(pairs[0]), "%u,%u", s->rot_k, s->rot_v);
	}
	qsort(pairs, n, sizeof(pairs[0]), by_text);
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(pairs[i - 1], pairs[i]))
			add(out, len, " ", pairs[i]);
}

static const struct layout_section *first_attention(const struct layout *l)
{
	for (size_t i = 0; i < l->n_sections; i++)
		if (l->sections[i].kind == LAYOUT_ATTN || l->sections[i].kind == LAYOUT_DSV4_WINDOW)
			return &l->sections[i];
	return NULL;
}

static void first_ids(const struct layout *l, char *out, size_t len)
{
	for (uint64_t i = 0; l->tokens && i < l->n_tokens && i < 4; i++)
		add_number(out, len, ",", l->tokens[i]);
}

static bool wrong;

static void column_is(const char *file, const char *column, const char *got, const char *want)
{
	if (!got[0])
		got = "-";
	if (!strcmp(got, want))
		return;
	printf("# %s: %s is '%s', expected '%s'\n", file, column, got, want);
	wrong = true;
}

static void number_is(const char *file, const char *column, unsigned long long got, const char *want)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", got);
	column_is(file, column, text, want);
}

static void check_attention(const struct layout *l, const struct line *line)
{
	const struct layout_section *s = first_attention(l);
	const char *file = line->column[0];
	bool cells = s && s->n_cells;
	char text[64] = "";

	rotations(l, text, sizeof(text));
	column_is(file, "v_trans", cells ? (s->v_trans ? "1" : "0") : "-", line->column[8]);
	column_is(file, "K type", cells ? layout_type_name(s->k_type) : "-", line->column[10]);
	column_is(file, "V type", cells ? layout_type_name(s->v_type) : "-", line->column[11]);
	column_is(file, "rotation words", l->version == 4 || l->version == 11 ? text : "-", line->column[17]);
	if (s)
		number_is(file, "n_stream", s->n_stream, line->column[9]);
	else
		column_is(file, "n_stream", "-", line->column[9]);
	if (cells)
		number_is(file, "bytes of a cell", s->cell_extra, line->column[16]);
	else
		column_is(file, "bytes of a cell", "-", line->column[16]);
}

static void check_state(const struct layout *l, const struct line *line)
{
	const char *file = line->column[0];
	char text[200];

	CHECK_INT(l->state, LAYOUT_COMPLETE);
	column_is(file, "kind",
		  l->kind == LAYOUT_GGSQ   ? "ggsq"
		  : l->kind == LAYOUT_GGSN ? "ggsn"
					   : "?",
		  line->column[1]);
	number_is(file, "version", l->version, line->column[2]);
	number_is(file, "tokens", l->n_tokens, line->column[5]);
	text[0] = 0;
	first_ids(l, text, sizeof(text));
	column_is(file, "first ids", text, line->column[6]);
	text[0] = 0;
	section_names(l, text, sizeof(text));
	column_is(file, "sections", text, line->column[7]);
	text[0] = 0;
	layer_counts(l, text, sizeof(text));
	column_is(file, "layers", text, line->column[12]);
	number_is(file, "recurrent", l->recurrent, line->column[13]);
	column_is(file, "token array", l->packed ? "packed" : "plain", line->column[15]);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)l->trailer_offset);
	column_is(file, "trailer", l->trailer_offset ? text : "-", line->column[18]);
	number_is(file, "checkpoints", l->n_checkpoints, line->column[19]);
	number_is(file, "media", l->n_media, line->column[20]);
	CHECK(l->tokens_exact || strstr(file, "image")); /* plain arrays do not say what a picture is */
	CHECK(l->tokens_exact == !(strstr(file, "image") && !l->packed));
	if (l->kind == LAYOUT_GGSN)
		CHECK(strstr(l->text, line->column[4]) != NULL);
	check_attention(l, line);
}

/* ---- columns of mlx-lm's files ---- */

static void check_cache(const struct layout *l, const struct line *line)
{
	const char *file = line->column[0];
	char text[200], ids[200] = "";
	uint64_t tensors = 0;
	size_t len;

	CHECK_INT(l->state, LAYOUT_COMPLETE);
	CHECK_INT(l->kind, LAYOUT_SAFETENSORS);
	snprintf(text, sizeof(text), "0.%u", l->version);
	len = strlen(text);
	CHECK(!strncmp(text, line->column[1], len));
	snprintf(text, sizeof(text), "layers=%s ", line->column[3]);
	CHECK(strstr(l->text, text) != NULL);
	number_is(file, "tokens", l->n_tokens, line->column[4]);
	first_ids(l, ids, sizeof(ids));
	if (l->n_tokens)
		column_is(file, "first ids", ids, line->column[5]);
	for (size_t i = 0; i < l->n_tensors; i++)
		tensors += l->tensors[i].role == LAYOUT_NAMED;
	number_is(file, "tensors", tensors, line->column[6]);
	number_is(file, "trimmable", !l->recurrent, line->column[8]);
	number_is(file, "size", l->size_bytes, line->column[9]);
	for (char *class = strtok(line->column[2], "+"); class; class = strtok(NULL, "+")) {
		snprintf(text, sizeof(text), "%s*", class);
		CHECK(strstr(l->text, text) != NULL);
	}
}

/* ---- all files ---- */

static void each_file(const char *folder, void (*check)(const struct layout *l, const struct line *line))
{
	static struct index index;

	CHECK(index_load(&index, folder));
	for (size_t i = 0; i < index.n; i++) {
		struct file f;
		struct layout *l = load(&f, folder, index.line[i].column[0]);

		wrong = false;
		check(l, &index.line[i]);
		CHECK(!wrong);
		layout_free(l);
		file_free(&f);
	}
	printf("# %zu files of %s\n", index.n, folder);
	index_free(&index);
}

static void states(void)
{
	each_file("ggsq", check_state);
}

static void caches(void)
{
	each_file("safetensors", check_cache);
}

static void check_cover(const struct layout *l, const struct line *line)
{
	uint64_t half = l->n_tokens / 2, all = l->n_tokens, odd[] = {1, 3, 57, 84, 149, 1000, 100000};

	(void)line;
	CHECK(tensors_tile(l));
	CHECK(blocks_cover(l, NULL, 0));
	CHECK(blocks_cover(l, &half, 1));
	CHECK(blocks_cover(l, &all, 1));
	CHECK(blocks_cover(l, odd, 7));
}

static void covered(void)
{
	each_file("ggsq", check_cover);
	each_file("safetensors", check_cover);
}

/* ---- damage ---- */

static size_t below(size_t limit)
{
	return (size_t)rand_r(&seed) % limit;
}

enum damage { FLIP, TRUNCATE, WORD, REMOVE, INSERT, DAMAGES };

static const char *const damage_names[] = {"flip", "truncate", "word", "remove", "insert"};

/* Most of a file is tensor data, where damage cannot be seen: aim at heads more often than not. */
static size_t somewhere(const struct layout *l)
{
	const struct layout_tensor *t = &l->tensors[below(l->n_tensors)];

	if (!below(4))
		return below(l->size_bytes);
	if (t->head_bytes && below(3))
		return t->offset + below(t->head_bytes);
	return t->data_bytes ? layout_data_offset(t) + below(t->data_bytes < 512 ? t->data_bytes : 512)
			     : t->offset + below(t->head_bytes ? t->head_bytes : 1);
}

static void put_word(struct file *f, size_t at)
{
	static const uint32_t words[] = {0,    1,    2,	    3,	    4,		8,	    30,	       0x7f,
					 0x80, 0xff, 0x100, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
	uint32_t old, word = words[below(sizeof(words) / sizeof(words[0]))];

	if (at + 4 > f->len)
		at = f->len - 4;
	memcpy(&old, f->bytes + at, 4);
	if (below(2))
		word = old + (uint32_t)below(5) - 2;
	memcpy(f->bytes + at, &word, 4);
}

/* Damages a copy; returns what was done, *at where. */
static enum damage hurt(struct file *f, const struct layout *l, size_t *at)
{
	uint8_t stuffing[64];
	enum damage how = (enum damage)below(DAMAGES);
	size_t n = 1 + below(sizeof(stuffing));

	*at = somewhere(l);
	*at = *at < f->len ? *at : f->len - 1;
	if (how == FLIP)
		for (size_t i = 1 + below(FLIPS_MAX); i; i--)
			f->bytes[below(2) ? *at : below(f->len)] ^= (uint8_t)(1 << below(8));
	if (how == TRUNCATE)
		f->len = *at;
	if (how == WORD)
		put_word(f, *at);
	if (how == REMOVE) {
		n = n < f->len - *at ? n : f->len - *at;
		memmove(f->bytes + *at, f->bytes + *at + n, f->len - *at - n);
		f->len -= n;
	}
	if (how == INSERT) {
		n = n < f->len ? n : f->len;
		memcpy(stuffing, f->bytes, n);
		put(f, stuffing, n);
		memmove(f->bytes + *at + n, f->bytes + *at, f->len - n - *at);
	}
	return how;
}

/* A cut file may be a whole file of another kind: without its trailer, its last section, or its V. */
static bool ends_there(const struct layout *l, uint64_t size)
{
	for (size_t i = 0; i + 1 < l->n_tensors; i++) {
		const struct layout_tensor *t = &l->tensors[i], *next = t + 1;
		uint64_t end = layout_data_offset(t) + t->data_bytes;
		uint64_t empty_streams =
			next->section != t->section ? 4 * (uint64_t)l->sections[0].n_stream : 0;

		if (size < end || size > end + empty_streams)
			continue;
		return next->section != t->section || next->role == LAYOUT_CHECKPOINT ||
		       (t->role == LAYOUT_K && next->role == LAYOUT_V);
	}
	return l->trailer_offset && l->trailer_offset == size;
}

/* The same pieces in the same places: the damage fell on what a piece holds, not on what it is. */
static bool same_pieces(const struct layout *l, const struct layout *m)
{
	if (l->n_tensors != m->n_tensors || l->size_bytes != m->size_bytes)
		return false;
	for (size_t i = 0; i < l->n_tensors; i++)
		if (l->tensors[i].offset != m->tensors[i].offset ||
		    (l->tensors[i].data_bytes != m->tensors[i].data_bytes &&
		     l->tensors[i].role != LAYOUT_TOKENS))
			return false;
	return true;
}

/* An empty slot says so little that a damaged one may well be that of another model. */
static bool empty_slot(const struct layout *l)
{
	for (size_t i = 0; i < l->n_sections; i++)
		if (l->sections[i].n_cells || l->sections[i].kind == LAYOUT_DSV4_STATE)
			return false;
	return l->n_sections && l->size_bytes < 1000;
}

static bool excused(const struct layout *sound, const struct layout *hurt_one, enum damage how)
{
	if (empty_slot(sound) && empty_slot(hurt_one))
		return true;
	if (how == TRUNCATE)
		return ends_there(sound, hurt_one->size_bytes) || sound->size_bytes == hurt_one->size_bytes;
	/* a damaged token array may read as another one, whose ids then are not as many as the cells: no key
	 */
	return same_pieces(sound, hurt_one) ||
	       (!hurt_one->tokens_exact && hurt_one->n_tensors == sound->n_tensors);
}

struct counts {
	size_t complete;
	size_t incomplete;
	size_t opaque;
};

static void damage_one(const char *folder, const char *name, struct counts *counts)
{
	struct file f;
	struct layout *sound = load(&f, folder, name), *l;
	unsigned before = seed;
	size_t at;
	enum damage how = hurt(&f, sound, &at);

	l = file_layout(&f);
	CHECK(l && tensors_tile(l) && blocks_cover(l, NULL, 0));
	if (l && l->state == LAYOUT_COMPLETE) {
		counts->complete++;
		if (!excused(sound, l, how)) {
			printf("# %s: %s at %zu is taken for '%s' (seed there %u)\n", name, damage_names[how],
			       at, l->text, before);
			unit_bad++;
		}
	} else if (l) {
		l->state == LAYOUT_INCOMPLETE ? counts->incomplete++ : counts->opaque++;
	}
	layout_free(l);
	layout_free(sound);
	file_free(&f);
}

static void damaged(void)
{
	static struct index states_index, caches_index;
	struct counts counts = {0};

	index_load(&states_index, "ggsq");
	index_load(&caches_index, "safetensors");
	printf("# KV_SEED=%u\n", seed);
	for (size_t i = 0; i < DAMAGED; i++) {
		const struct index *index = below(4) ? &states_index : &caches_index;

		damage_one(index->folder, index->line[below(index->n)].column[0], &counts);
	}
	printf("# %d damaged copies: %zu opaque, %zu incomplete, %zu with the same pieces or a valid file of "
	       "another kind\n",
	       DAMAGED, counts.opaque, counts.incomplete, counts.complete);
	index_free(&states_index);
	index_free(&caches_index);
}

/* Every length of the smaller files, one byte after the other. */
static void all_cuts(void)
{
	static struct index index;

	index_load(&index, "ggsq");
	for (size_t i = 0; i < index.n; i++) {
		struct file f;
		struct layout *sound = load(&f, "ggsq", index.line[i].column[0]);

		while (f.len && f.len <= 14000) {
			struct layout *l;

			f.len--;
			l = file_layout(&f);
			if (l && l->state == LAYOUT_COMPLETE && !excused(sound, l, TRUNCATE)) {
				printf("# %s cut at %zu is taken for '%s'\n", index.line[i].column[0], f.len,
				       l->text);
				unit_bad++;
			}
			layout_free(l);
		}
		layout_free(sound);
		file_free(&f);
	}
	index_free(&index);
}

/* ---- growth ---- */

struct stored {
	uint8_t (*hash)[DIGEST_LEN];
	size_t n;
	size_t cap;
	uint64_t put_bytes;
	uint64_t kept_bytes;
	uint64_t padding_bytes; /* of them */
};

struct turn {
	struct file file;
	struct layout *layout;
	struct stored *store;
	uint64_t prefix_end; /* blocks of tokens below it must be known already */
	uint64_t strange_bytes;
};

static bool hash_block(const struct file *f, const struct layout_block *block, uint8_t hash[DIGEST_LEN])
{
	struct digest *d = digest_new();
	int ret = d ? 0 : -ENOMEM;

	for (uint64_t i = 0; !ret && i < block->n_runs; i++) {
		uint64_t offset, len;

		layout_block_run(block, i, &offset, &len);
		ret = digest_add(d, f->bytes + offset, (size_t)len);
	}
	if (!ret)
		ret = digest_end(d, hash);
	digest_free(d);
	return !ret;
}

static bool is_stored(const struct stored *s, const uint8_t hash[DIGEST_LEN])
{
	for (size_t i = 0; i < s->n; i++)
		if (!memcmp(s->hash[i], hash, DIGEST_LEN))
			return true;
	return false;
}

/* K, V and rows of named tensors: what must be the same from turn to turn. */
static bool of_the_prefix(const struct turn *t, const struct layout_block *block)
{
	const struct layout_tensor *tensor = block->tensor;
	bool rows = tensor->role == LAYOUT_K || tensor->role == LAYOUT_V ||
		    (tensor->role == LAYOUT_NAMED && tensor->rows);

	return rows && !block->n_heads && !block->padding && block->token_end <= t->prefix_end;
}

static int put_block(void *ctx, const struct layout_block *block)
{
	struct turn *t = ctx;
	struct stored *s = t->store;
	uint8_t hash[DIGEST_LEN];

	if (!hash_block(&t->file, block, hash))
		return -EIO;
	s->put_bytes += block->bytes;
	if (is_stored(s, hash))
		return 0;
	if (of_the_prefix(t, block))
		t->strange_bytes += block->bytes;
	if (s->n == s->cap) {
		s->cap = 2 * s->cap + 256;
		s->hash = reallocarray(s->hash, s->cap, sizeof(*s->hash));
	}
	memcpy(s->hash[s->n++], hash, DIGEST_LEN);
	s->kept_bytes += block->bytes;
	s->padding_bytes += block->padding ? block->bytes : 0;
	return 0;
}

static uint64_t token_of_row(const struct layout *l, const struct layout_tensor *t, uint64_t row)
{
	for (uint32_t i = 0; i < t->n_runs; i++) {
		const struct layout_run *run = &l->runs[t->first_run + i];

		if (row >= run->row && row < run->row + run->count)
			return run->token + row - run->row;
	}
	return row;
}

/* The limit of any block map: rows of tokens that the parent did not share, states and checkpoints not seen.
 */
static uint64_t new_bytes(struct turn *t, struct stored *whole_tensors)
{
	const struct layout *l = t->layout;
	uint64_t bytes = 0;

	for (size_t i = 0; i < l->n_tensors; i++) {
		const struct layout_tensor *tensor = &l->tensors[i];
		struct layout_block all = {.tensor = tensor,
					   .n_runs = 1,
					   .bytes = tensor->data_bytes,
					   .offset = layout_data_offset(tensor),
					   .run_bytes = tensor->data_bytes,
					   .element_bytes = 1};
		struct turn view = {.file = t->file, .store = whole_tensors};

		for (uint64_t row = 0; row < tensor->valid_rows; row++)
			if (token_of_row(l, tensor, row) >= t->prefix_end)
				bytes += tensor->row_bytes * tensor->lanes;
		if (!tensor->rows && tensor->data_bytes)
			put_block(&view, &all);
	}
	return bytes;
}

/* Where this turn leaves the one before; cuts after that are not its own. */
static void add_cut(struct turn *t, const struct turn *parent, uint64_t *cuts, size_t *n_cuts)
{
	t->prefix_end = tokens_shared(parent->layout->tokens, parent->layout->n_tokens, t->layout->tokens,
				      t->layout->n_tokens);
	while (*n_cuts && cuts[*n_cuts - 1] >= t->prefix_end)
		--*n_cuts;
	cuts[(*n_cuts)++] = t->prefix_end;
}

/* A block of the parent that is shared in part is referred to in part: its rows are known, and cost nothing.
 */
static void know_parts(struct turn *parent, const uint64_t *cuts, size_t n_cuts)
{
	uint64_t put_bytes = parent->store->put_bytes, kept_bytes = parent->store->kept_bytes;

	layout_blocks(parent->layout, cuts, n_cuts, put_block, parent);
	parent->store->put_bytes = put_bytes;
	parent->store->kept_bytes = kept_bytes;
}

/* Puts the turns of a chat one after the other, each cut where it leaves the one before. */
static void chat(const char *folder, const char *name, const char *extension, size_t turns)
{
	struct turn turn[TURNS_MAX];
	struct stored store = {0}, states_of_chat = {0};
	uint64_t cuts[TURNS_MAX], limit = 0;
	size_t n_cuts = 0;

	for (size_t i = 0; i < turns; i++) {
		char file[200];
		struct turn *t = &turn[i];

		memset(t, 0, sizeof(*t));
		snprintf(file, sizeof(file), "%s-t%zu.%s", name, i, extension);
		t->layout = load(&t->file, folder, file);
		t->store = &store;
		if (i) {
			add_cut(t, t - 1, cuts, &n_cuts);
			know_parts(t - 1, cuts, n_cuts);
		}
		limit += new_bytes(t, &states_of_chat);
		CHECK_INT(layout_blocks(t->layout, cuts, n_cuts, put_block, t), 0);
		CHECK_INT(t->strange_bytes, 0);
	}
	limit += states_of_chat.kept_bytes;
	printf("# %-22s kept %8llu of %8llu bytes put: %.4f, limit %.4f, padding %.4f\n", name,
	       (unsigned long long)store.kept_bytes, (unsigned long long)store.put_bytes,
	       (double)store.kept_bytes / (double)store.put_bytes, (double)limit / (double)store.put_bytes,
	       (double)store.padding_bytes / (double)store.put_bytes);
	CHECK(store.kept_bytes - store.padding_bytes <= limit + limit / 20);
	for (size_t i = 0; i < turns; i++) {
		layout_free(turn[i].layout);
		file_free(&turn[i].file);
	}
	free(store.hash);
	free(states_of_chat.hash);
}

static void growth(void)
{
	static const struct {
		const char *folder;
		const char *name;
		const char *extension;
		size_t turns;
	} chats[] = {
		{"ggsq", "v4-smollm2-f16", "bin", 3},
		{"ggsq", "v4-smollm2-f16-nofa", "bin", 3},
		{"ggsq", "v4-smollm2-q8_0", "bin", 3},
		{"ggsq", "v4-srv-qwen3next", "bin", 3},
		{"ggsq", "v4-srv-qwen35", "bin", 3},
		{"ggsq", "v4-srv-qwen4exp", "bin", 2},
		{"ggsq", "v4-srv-gemma3", "bin", 2},
		{"ggsq", "v4-srv-gemma3-image", "bin", 2},
		{"ggsq", "v4-srv-qwen2vl-image", "bin", 2},
		{"ggsq", "v4-srv-mamba2", "bin", 2},
		{"safetensors", "mlx031-kv", "safetensors", 3},
		{"safetensors", "mlx032-kv", "safetensors", 3},
		{"safetensors", "mlx031-hybrid", "safetensors", 2},
		{"safetensors", "mlx032-hybrid", "safetensors", 2},
	};

	for (size_t i = 0; i < sizeof(chats) / sizeof(chats[0]); i++)
		chat(chats[i].folder, chats[i].name, chats[i].extension, chats[i].turns);
}

static const char *find_corpus(void)
{
	const char *stated = getenv("KV_CORPUS");

	if (stated)
		return stated;
	return access("../shared/corpus/ggsq/INDEX.tsv", R_OK) ? NULL : "../shared/corpus";
}

int main(void)
{
	const char *wanted = getenv("KV_SEED");

	seed = wanted ? (unsigned)strtoul(wanted, NULL, 10) : (unsigned)time(NULL);
	corpus = find_corpus();
	if (!corpus) {
		printf("ok corpus of real states # SKIP no corpus: set KV_CORPUS to a folder with ggsq/ and "
		       "safetensors/\n");
		return EXIT_SUCCESS;
	}
	RUN("llama.cpp's states, every column of the index", states);
	RUN("mlx-lm's caches, every column of the index", caches);
	RUN("tensors and blocks cover every byte once, wherever it is cut", covered);
	RUN("no cut state is taken for a whole one", all_cuts);
	RUN("no damaged copy is taken for a sound one", damaged);
	RUN("a growing chat stores its new tokens, and its prefix is found again", growth);
	UNIT_END();
}
