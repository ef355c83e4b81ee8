/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mlx.c - prompt caches of mlx-lm, in the layout up to 0.31 and in that from 0.32.
 *
 *	     up to 0.31				from 0.32
 *	class of layer i	metadata 2.i			metadata 1.i
 *	user's keys		metadata 1.KEY			metadata 0.KEY
 *	numbers of layer i	metadata 0.i.0, 0.i.1, ...	integer tensors i.2, i.3, ...
 *	cache c in a CacheList	tensors i.c.*			tensors i.c.0.*
 *	its class		metadata 0.i.0.c		code points in tensor i.c.1
 *
 * The layout is told by where the class names stand. A cache holds as many tokens as its largest layer says.
 * Keys and values are [batch, heads, rows, head size]; from 0.32 on rows are padded, and a number says how
 * many count.
 *
 * A class that is not known, or known to hold more than keys and values of all tokens, makes the entry one
 * that cannot be cut: a guess the other way would offer a state that is not there.
 *
 * Easy to forget: the ids that a writer adds are its own word. More ids than the cache has tokens are cut to
 * what it has; fewer leave the tokens unknown. */
#include "codec/mlx.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/build.h"

enum {
	PATH_MAX_LEN = 64,
	CLASS_MAX_LEN = 64,
	NESTING_MAX = 3, /* a CacheList in a CacheList in one */
	CLASSES_MAX = 8, /* named in the text */
	TYPES_MAX = 8,
	LAYOUT_31 = 31,
	LAYOUT_32 = 32,
};

struct cache {
	struct safetensors *file;
	struct layout *layout;
	bool padded;  /* the layout from 0.32 on */
	bool counted; /* some layer said how many tokens it has */
	uint64_t n_tokens;
	uint64_t group_size; /* of a quantised layer; 0 = none */
	uint64_t bits;
};

/* Where one cache's tensors and numbers are. */
struct place {
	char tensors[PATH_MAX_LEN];
	char numbers[PATH_MAX_LEN]; /* in the metadata, up to 0.31 */
	int nesting;
};

static void join(char *out, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void join(char *out, const char *path, const char *format, ...)
{
	size_t len = strlen(path);
	va_list arguments;

	memmove(out, path, len + 1);
	va_start(arguments, format);
	vsnprintf(out + len, PATH_MAX_LEN - len, format, arguments);
	va_end(arguments);
}

static bool class_like(const char *text)
{
	size_t len = text ? strlen(text) : 0;

	if (!len || len >= CLASS_MAX_LEN || !isupper((unsigned char)text[0]) || !strstr(text, "Cache"))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return false;
	return true;
}

/* ---- numbers ---- */

static bool decimal(const char *text, uint64_t *out)
{
	char *end;

	if (!text || !isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end;
}

/* Number `tensor` of the cache from 0.32 on, number `text` before. -ENOENT when it is not there. */
static int number(const struct cache *c, const struct place *p, unsigned tensor, unsigned text, uint64_t *out)
{
	char path[PATH_MAX_LEN];

	if (!c->padded) {
		join(path, p->numbers, ".%u", text);
		return decimal(safetensors_text(c->file, path), out) ? 0 : -ENOENT;
	}
	join(path, p->tensors, ".%u", tensor);
	return safetensors_scalar(c->file, safetensors_find(c->file, path), out);
}

static void note_tokens(struct cache *c, uint64_t n)
{
	c->counted = true;
	if (n > c->n_tokens)
		c->n_tokens = n;
}

/* ---- keys and values ---- */

/* Gives the tensor rows: all of them, or `valid` when that is less. */
static void give_rows(const struct cache *c, const char *path, uint64_t valid)
{
	struct safetensor *t = safetensors_find(c->file, path);

	if (!t || t->rank != 4 || !t->element_bytes || t->begin == t->end)
		return;
	t->lanes = t->shape[0] * t->shape[1];
	t->rows = t->shape[2];
	t->row_bytes = t->shape[3] * t->element_bytes;
	t->valid_rows = valid < t->rows ? valid : t->rows;
}

static void give_plain_rows(const struct cache *c, const struct place *p, uint64_t valid)
{
	char path[PATH_MAX_LEN];

	for (unsigned i = 0; i < 2; i++) {
		join(path, p->tensors, ".%u", i);
		give_rows(c, path, valid);
	}
}

static void give_quantised_rows(const struct cache *c, const struct place *p, uint64_t valid)
{
	char path[PATH_MAX_LEN];

	for (unsigned i = 0; i < 6; i++) {
		join(path, p->tensors, ".%u.%u", i / 3, i % 3);
		give_rows(c, path, valid);
	}
}

static uint64_t rows_of(const struct cache *c, const struct place *p)
{
	char path[PATH_MAX_LEN];
	const struct safetensor *t;

	join(path, p->tensors, ".0");
	t = safetensors_find(c->file, path);
	return t && t->rank == 4 ? t->shape[2] : 0;
}

/* ---- classes ---- */

static int read_plain(struct cache *c, const struct place *p)
{
	uint64_t n = rows_of(c, p);
	int ret = c->padded ? number(c, p, 2, 0, &n) : 0;

	if (ret && ret != -ENOENT)
		return ret;
	give_plain_rows(c, p, n);
	note_tokens(c, n);
	return 0;
}

static int read_quantised(struct cache *c, const struct place *p)
{
	uint64_t n;
	int ret = number(c, p, 2, 0, &n);

	if (ret)
		return ret;
	ret = number(c, p, 3, 1, &c->group_size);
	if (!ret)
		ret = number(c, p, 4, 2, &c->bits);
	give_quantised_rows(c, p, n);
	note_tokens(c, n);
	return ret;
}

/* Keeps the last max_size tokens; once it is full its rows go round, and nothing can be taken back. */
static int read_rotating(struct cache *c, const struct place *p)
{
	uint64_t n, max_size;
	int ret = number(c, p, 2, 2, &n);

	if (!ret)
		ret = number(c, p, 4, 1, &max_size);
	if (ret)
		return ret;
	if (n >= max_size)
		c->layout->recurrent = true;
	give_plain_rows(c, p, n < max_size ? n : UINT64_MAX);
	note_tokens(c, n);
	return 0;
}

static int read_cache(struct cache *c, const char *class, const struct place *p);

/* The class of cache `index` in a list, and where that cache is. False when there is no such cache. */
static int member(const struct cache *c, const struct place *list, unsigned index, char *class,
		  struct place *p)
{
	char path[PATH_MAX_LEN];
	const struct safetensor *t;
	uint8_t points[4 * (CLASS_MAX_LEN - 1)];
	const char *text;
	size_t n;
	int ret;

	p->nesting = list->nesting + 1;
	join(p->numbers, list->numbers, ".1.%u", index);
	if (!c->padded) {
		join(p->tensors, list->tensors, ".%u", index);
		join(path, list->numbers, ".0.%u", index);
		text = safetensors_text(c->file, path);
		if (!class_like(text))
			return -ENOENT;
		strcpy(class, text);
		return 0;
	}
	join(p->tensors, list->tensors, ".%u.0", index);
	join(path, list->tensors, ".%u.1", index);
	t = safetensors_find(c->file, path);
	if (!t || t->rank != 1 || t->element_bytes != 4 || t->shape[0] >= CLASS_MAX_LEN)
		return -ENOENT;
	n = (size_t)t->shape[0];
	ret = safetensors_data(c->file, t, 0, points, 4 * n);
	if (ret)
		return ret;
	for (size_t i = 0; i < n; i++)
		class[i] = bytes_get_u32(points + 4 * i) < 128 ? (char)points[4 * i] : '?';
	class[n] = 0;
	return class_like(class) ? 0 : -ENOENT;
}

static int read_list(struct cache *c, const struct place *list)
{
	char class[CLASS_MAX_LEN];
	struct place p;
	unsigned index = 0;
	int ret = 0;

	if (list->nesting >= NESTING_MAX) {
		c->layout->recurrent = true;
		return 0;
	}
	while (!ret) {
		ret = member(c, list, index++, class, &p);
		if (!ret)
			ret = read_cache(c, class, &p);
	}
	return ret == -ENOENT ? 0 : ret;
}

static const struct {
	const char *class;
	int (*read)(struct cache *c, const struct place *p);
} readers[] = {
	{"KVCache", read_plain},
	{"ConcatenateKVCache", read_plain},
	{"QuantizedKVCache", read_quantised},
	{"RotatingKVCache", read_rotating},
	{"CacheList", read_list},
};

static int read_cache(struct cache *c, const char *class, const struct place *p)
{
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		int ret;

		if (strcmp(readers[i].class, class))
			continue;
		ret = readers[i].read(c, p);
		if (ret == -ENOENT) /* not what we know under that name */
			c->layout->recurrent = true;
		return ret == -ENOENT ? 0 : ret;
	}
	c->layout->recurrent = true;
	return 0;
}

/* ---- tokens ---- */

/* Writes the ids of a text, separated by spaces or commas. False when it is something else. */
static bool read_ids(const char *text, int64_t *ids, uint64_t *n)
{
	*n = 0;
	for (;;) {
		char *end;
		long long id;

		text += strspn(text, " ,\t\r\n");
		if (!*text)
			return true;
		if (!isdigit((unsigned char)*text))
			return false;
		errno = 0;
		id = strtoll(text, &end, 10);
		if (errno || id > INT32_MAX || (*end && !strchr(" ,\t\r\n", *end)))
			return false;
		ids[(*n)++] = id;
		text = end;
	}
}

static const char *find_token_text(const struct cache *c)
{
	static const char *const keys[] = {"0.tokens",	  "1.tokens",	 "tokens",
					   "0.token_ids", "1.token_ids", "token_ids"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *text = safetensors_text(c->file, keys[i]);

		if (text)
			return text;
	}
	return NULL;
}

static int tokens_from_text(struct layout *l, const char *text)
{
	int64_t *ids = calloc(strlen(text) / 2 + 1, sizeof(*ids));
	uint64_t n;

	if (!ids)
		return -ENOMEM;
	if (!read_ids(text, ids, &n)) {
		free(ids);
		return 0;
	}
	l->tokens = ids;
	l->n_tokens = n;
	return 0;
}

static int64_t token_at(const struct safetensor *t, const uint8_t *raw)
{
	return t->element_bytes == 8 ? (int64_t)bytes_get_u64(raw) : (int64_t)(int32_t)bytes_get_u32(raw);
}

static int tokens_from_tensor(const struct cache *c, struct safetensor *t)
{
	struct layout *l = c->layout;
	uint64_t n = (t->end - t->begin) / t->element_bytes;
	int64_t *ids = calloc(n + 1, sizeof(*ids));
	uint8_t raw[4096];
	int ret = 0;

	if (!ids)
		return -ENOMEM;
	l->tokens = ids;
	for (uint64_t at = 0; !ret && at < n;) {
		size_t now = n - at < 512 ? (size_t)(n - at) : 512;

		ret = safetensors_data(c->file, t, at * t->element_bytes, raw, now * t->element_bytes);
		for (size_t i = 0; !ret && i < now; i++)
			ids[at + i] = token_at(t, raw + i * t->element_bytes);
		at += now;
	}
	l->n_tokens = n;
	t->rows = n;
	t->valid_rows = n;
	t->row_bytes = t->element_bytes;
	t->lanes = 1;
	return ret;
}

static bool holds_tokens(const struct safetensor *t)
{
	return t && (t->element_bytes == 4 || t->element_bytes == 8) && strchr("IU", t->dtype[0]);
}

static void forget_tokens(struct layout *l)
{
	free(l->tokens);
	l->tokens = NULL;
	l->n_tokens = 0;
}

/* The writer's ids against what the cache holds. */
static void settle_tokens(const struct cache *c)
{
	struct layout *l = c->layout;

	if (c->counted && l->tokens && l->n_tokens < c->n_tokens)
		forget_tokens(l);
	if (c->counted)
		l->n_tokens = c->n_tokens;
	l->tokens_exact = l->tokens != NULL;
	for (uint64_t i = 0; l->tokens && i < l->n_tokens; i++)
		if (l->tokens[i] < 0 || l->tokens[i] > INT32_MAX)
			l->tokens_exact = false;
}

static int read_tokens(const struct cache *c)
{
	struct safetensor *t = safetensors_find(c->file, "token_ids");
	const char *text = find_token_text(c);
	int ret = 0;

	if (text)
		ret = tokens_from_text(c->layout, text);
	else if (holds_tokens(t))
		ret = tokens_from_tensor(c, t);
	if (!ret)
		settle_tokens(c);
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

struct tally {
	const char *name;
	uint64_t count;
};

/* Counts `name`; the name is kept by pointer. Names beyond the limit are not counted. */
static void tally_add(struct tally *tally, size_t limit, const char *name)
{
	for (size_t i = 0; i < limit; i++) {
		if (!tally[i].name)
			tally[i].name = name;
		if (!strcmp(tally[i].name, name)) {
			tally[i].count++;
			return;
		}
	}
}

static int by_tally_name(const void *one, const void *other)
{
	return strcmp(((const struct tally *)one)->name, ((const struct tally *)other)->name);
}

/* The types of keys, values and states, by name since the order of tensors means nothing. */
static void say_types(const struct cache *c)
{
	struct tally types[TYPES_MAX] = {{0}};
	size_t n = 0;

	for (size_t i = 0; i < c->file->n_tensors; i++)
		if (!c->layout->version || c->file->tensors[i].rank >= 3)
			tally_add(types, TYPES_MAX, c->file->tensors[i].dtype);
	while (n < TYPES_MAX && types[n].name)
		n++;
	qsort(types, n, sizeof(types[0]), by_tally_name);
	for (size_t i = 0; i < n; i++)
		say(c->layout, "%s%s", i ? "," : " types=", types[i].name);
}

static const char *layer_class(const struct cache *c, uint64_t layer)
{
	char key[PATH_MAX_LEN];

	snprintf(key, sizeof(key), "%u.%llu", c->padded ? 1 : 2, (unsigned long long)layer);
	return safetensors_text(c->file, key);
}

static void say_classes(const struct cache *c, uint64_t layers)
{
	struct tally classes[CLASSES_MAX] = {{0}};

	for (uint64_t i = 0; i < layers; i++)
		tally_add(classes, CLASSES_MAX, layer_class(c, i));
	for (size_t i = 0; i < CLASSES_MAX && classes[i].name; i++)
		say(c->layout, "%s%s*%llu", i ? "," : " ", classes[i].name,
		    (unsigned long long)classes[i].count);
}

static int read_layers(struct cache *c, uint64_t *layers)
{
	struct place p = {.nesting = 0};
	const char *class = layer_class(c, 0);
	int ret = 0;

	for (*layers = 0; !ret && class_like(class); class = layer_class(c, *layers)) {
		snprintf(p.tensors, sizeof(p.tensors), "%llu", (unsigned long long)*layers);
		snprintf(p.numbers, sizeof(p.numbers), "0.%llu", (unsigned long long)*layers);
		ret = read_cache(c, class, &p);
		++*layers;
	}
	return ret;
}

int mlx_read(struct safetensors *s, struct layout *layout)
{
	struct cache c = {.file = s, .layout = layout};
	uint64_t layers = 0;
	int ret;

	c.padded = !class_like(safetensors_text(s, "2.0")) && class_like(safetensors_text(s, "1.0"));
	ret = read_layers(&c, &layers);
	if (!ret)
		ret = read_tokens(&c);
	if (ret)
		return ret;
	say(layout, "safetensors");
	if (layers) {
		layout->version = c.padded ? LAYOUT_32 : LAYOUT_31;
		say(layout, " mlx-lm 0.%u: layers=%llu", layout->version, (unsigned long long)layers);
		say_classes(&c, layers);
	}
	if (c.group_size)
		say(layout, " quant=%llu/%llu", (unsigned long long)c.group_size, (unsigned long long)c.bits);
	say_types(&c);
	return 0;
}
