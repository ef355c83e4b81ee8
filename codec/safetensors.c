/* SPDX-License-Identifier: GPL-2.0-or-later */
/* safetensors.c - reads and checks a safetensors header.
 *
 *	u64 header length | JSON: name -> { dtype, shape, data_offsets [begin, end) } | data
 *
 * The JSON is parsed by cJSON: it is in Debian 12 and 13 (yyjson is not in 12), has no state of its own
 * beyond an error pointer that nobody reads here, keeps duplicate keys so that they can be refused (json-c
 * quietly keeps the last), and bounds its nesting. Its two weak points are answered here. Numbers are
 * doubles: offsets must be whole and below 2^53. Looking a key up in an object is linear: members are walked
 * once and sorted. A value costs about a hundred bytes of memory, so a header with more values for its length
 * than tensors need, or more than any cache has, is not parsed and the file is opaque.
 *
 * A header that contradicts itself (a size that does not follow from dtype and shape, tensors that overlap,
 * one name twice) is no safetensors. One that is sound and states more bytes than the file has is certain to
 * be incomplete.
 *
 * Out of memory inside cJSON looks like bad JSON: such a file is opaque, which loses its blocks, not its bytes.
 * Easy to forget: strings and numbers live as long as the cJSON tree; the names that the layout keeps are
 * copied. */
#include "codec/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/build.h"
#include "codec/bytes.h"
#include "codec/mlx.h"

#define HEADER_BYTES_MAX (100u << 20)
#define NUMBER_MAX	 9007199254740992.0 /* 2^53 */

enum {
	VALUES_MAX = 1 << 18,
	VALUES_FREE = 1024,  /* so many whatever the length */
	BYTES_PER_VALUE = 4, /* a tensor's entry has 6 and more */
	DTYPE_LEN_MAX = 16,
};

static const struct {
	const char *name;
	uint32_t bits;
} dtypes[] = {
	{"BOOL", 8}, {"U8", 8},	  {"I8", 8},	{"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"U16", 16},
	{"I16", 16}, {"F16", 16}, {"BF16", 16}, {"U32", 32},	{"I32", 32},	{"F32", 32},	{"U64", 64},
	{"I64", 64}, {"F64", 64}, {"C64", 64},	{"F4", 4},	{"F6_E2M3", 6}, {"F6_E3M2", 6},
};

/* ---- from JSON ---- */

static bool whole_number(const cJSON *item, uint64_t *out)
{
	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > NUMBER_MAX)
		return false;
	*out = (uint64_t)item->valuedouble;
	return (double)*out == item->valuedouble;
}

static bool read_offsets(const cJSON *item, struct safetensor *t)
{
	const cJSON *first = cJSON_IsArray(item) ? item->child : NULL;
	const cJSON *second = first ? first->next : NULL;

	return second && !second->next && whole_number(first, &t->begin) && whole_number(second, &t->end) &&
	       t->begin <= t->end;
}

static bool read_shape(const cJSON *item, struct safetensor *t, uint64_t *elements)
{
	*elements = 1;
	if (!cJSON_IsArray(item))
		return false;
	for (const cJSON *one = item->child; one; one = one->next) {
		uint64_t extent;

		if (!whole_number(one, &extent) || __builtin_mul_overflow(*elements, extent, elements))
			return false;
		if (t->rank < SAFETENSORS_RANK_MAX)
			t->shape[t->rank] = extent;
		t->rank++;
	}
	return true;
}

/* Bits of an element; 0 for a type of the future, -1 for what is no type at all. */
static int dtype_bits(const char *name)
{
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (!strcmp(dtypes[i].name, name))
			return (int)dtypes[i].bits;
	if (strlen(name) > DTYPE_LEN_MAX ||
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != strlen(name))
		return -1;
	return name[0] ? 0 : -1;
}

static bool size_follows(const struct safetensor *t, uint64_t elements, int bits)
{
	uint64_t all_bits;

	if (!bits)
		return true;
	if (__builtin_mul_overflow(elements, (uint64_t)bits, &all_bits))
		return false;
	return all_bits / 8 + (all_bits % 8 != 0) == t->end - t->begin;
}

/* Exactly dtype, shape and data_offsets, in any order. */
static bool read_tensor(const cJSON *item, struct safetensor *t)
{
	bool shape = false, offsets = false;
	uint64_t elements = 0;
	int bits;

	*t = (struct safetensor){.name = item->string};
	if (!cJSON_IsObject(item))
		return false;
	for (const cJSON *field = item->child; field; field = field->next) {
		if (!strcmp(field->string, "dtype") && !t->dtype && cJSON_IsString(field))
			t->dtype = field->valuestring;
		else if (!strcmp(field->string, "shape") && !shape && read_shape(field, t, &elements))
			shape = true;
		else if (!strcmp(field->string, "data_offsets") && !offsets && read_offsets(field, t))
			offsets = true;
		else
			return false;
	}
	if (!t->dtype || !shape || !offsets)
		return false;
	bits = dtype_bits(t->dtype);
	if (bits < 0 || !size_follows(t, elements, bits))
		return false;
	t->element_bytes = bits % 8 ? 0 : (uint32_t)bits / 8;
	return true;
}

static int by_name(const void *one, const void *other)
{
	return strcmp(((const struct safetensor *)one)->name, ((const struct safetensor *)other)->name);
}

static int by_key(const void *one, const void *other)
{
	return strcmp(((const struct safetensors_text *)one)->key,
		      ((const struct safetensors_text *)other)->key);
}

static int by_offset(const void *one, const void *other)
{
	const struct safetensor *a = *(struct safetensor *const *)one,
				*b = *(struct safetensor *const *)other;

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	return strcmp(a->name, b->name);
}

static size_t count_members(const cJSON *object)
{
	size_t n = 0;

	for (const cJSON *item = object->child; item; item = item->next)
		n++;
	return n;
}

static int read_texts(struct safetensors *s, const cJSON *metadata)
{
	if (!cJSON_IsObject(metadata) || s->texts)
		return -EBADMSG;
	s->texts = calloc(count_members(metadata) + 1, sizeof(*s->texts));
	if (!s->texts)
		return -ENOMEM;
	for (const cJSON *item = metadata->child; item; item = item->next) {
		if (!cJSON_IsString(item))
			return -EBADMSG;
		s->texts[s->n_texts++] = (struct safetensors_text){item->string, item->valuestring};
	}
	qsort(s->texts, s->n_texts, sizeof(*s->texts), by_key);
	return 0;
}

static int read_members(struct safetensors *s, const cJSON *root)
{
	if (!cJSON_IsObject(root))
		return -EBADMSG;
	s->tensors = calloc(count_members(root) + 1, sizeof(*s->tensors));
	if (!s->tensors)
		return -ENOMEM;
	for (const cJSON *item = root->child; item; item = item->next) {
		int ret = 0;

		if (!strcmp(item->string, "__metadata__"))
			ret = read_texts(s, item);
		else if (!read_tensor(item, &s->tensors[s->n_tensors++]))
			ret = -EBADMSG;
		if (ret)
			return ret;
	}
	qsort(s->tensors, s->n_tensors, sizeof(*s->tensors), by_name);
	for (size_t i = 1; i < s->n_tensors; i++)
		if (!strcmp(s->tensors[i - 1].name, s->tensors[i].name))
			return -EBADMSG;
	return 0;
}

/* ---- the header ---- */

/* Counts what could be values, without parsing. */
static bool few_values(const char *text, size_t len)
{
	size_t values = 0;
	bool quoted = false;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == '"')
			quoted = !quoted;
		else if (quoted && text[i] == '\\')
			i++;
		else if (!quoted && (text[i] == ',' || text[i] == '[' || text[i] == '{'))
			values++;
	}
	return values <= VALUES_MAX && values <= VALUES_FREE + len / BYTES_PER_VALUE;
}

/* Gives the header's text, ended by NUL, or NULL when it cannot be a header; *error tells a failure. */
static char *read_text(struct bytes *b, size_t *len, int *error)
{
	uint64_t stated = bytes_u64(b);
	char *text;

	*error = b->read_error;
	if (b->error || stated < 2 || stated > HEADER_BYTES_MAX || stated > bytes_left(b))
		return NULL;
	*len = (size_t)stated;
	text = malloc(*len + 1);
	if (!text) {
		*error = -ENOMEM;
		return NULL;
	}
	bytes_take(b, text, *len);
	text[*len] = 0;
	*error = b->read_error;
	if (!*error && text[0] == '{' && !memchr(text, 0, *len) && few_values(text, *len))
		return text;
	free(text);
	return NULL;
}

/* The first byte of the JSON is asked for alone: most files end here, without 100 MB of memory. */
static bool begins_like_one(const struct source *source, int *error)
{
	struct bytes b;
	char first;

	bytes_init(&b, source);
	bytes_skip(&b, 8);
	bytes_take(&b, &first, 1);
	*error = b.read_error;
	return !b.error && first == '{';
}

/* ---- the layout ---- */

/* Tensors in the order of the file. -EBADMSG when two overlap; *data_bytes is the largest end. */
static int order_tensors(struct safetensors *s, struct safetensor **order, uint64_t *data_bytes)
{
	uint64_t end = 0;

	for (size_t i = 0; i < s->n_tensors; i++)
		order[i] = &s->tensors[i];
	qsort(order, s->n_tensors, sizeof(struct safetensor *), by_offset);
	for (size_t i = 0; i < s->n_tensors; i++) {
		if (order[i]->begin < end && order[i]->end > order[i]->begin)
			return -EBADMSG;
		if (order[i]->end > end)
			end = order[i]->end;
	}
	*data_bytes = end;
	return 0;
}

static int copy_names(struct layout *l, const struct safetensors *s)
{
	size_t len = 1;

	for (size_t i = 0; i < s->n_tensors; i++)
		len += strlen(s->tensors[i].name) + 1;
	l->names = malloc(len);
	return l->names ? 0 : -ENOMEM;
}

static int add_tensors(struct layout *l, const struct safetensors *s, struct safetensor *const *order)
{
	struct builder b;
	char *name = l->names;
	int ret = 0;

	build_init(&b, l);
	for (size_t i = 0; !ret && i < s->n_tensors; i++) {
		const struct safetensor *t = order[i];
		uint64_t at = s->data_at + t->begin;
		struct layout_tensor out = {
			.role = LAYOUT_NAMED,
			.name = name,
			.data_bytes = t->end - t->begin,
			.rows = t->rows,
			.valid_rows = t->valid_rows,
			.row_bytes = t->row_bytes,
			.lanes = t->rows ? t->lanes : 1,
			.element_bytes = t->element_bytes,
		};

		name = stpcpy(name, t->name) + 1;
		ret = build_tensor(&b, &out, at < b.position ? b.position : at);
	}
	return ret ? ret : build_finish(&b);
}

static int lay_out(struct layout *l, struct safetensors *s, struct safetensor *const *order)
{
	int ret = mlx_read(s, l);

	if (!ret)
		ret = copy_names(l, s);
	if (!ret)
		ret = add_tensors(l, s, order);
	return ret;
}

static int judge(struct layout *l, struct safetensors *s, struct safetensor **order)
{
	uint64_t data_bytes, left = l->size_bytes - s->data_at;
	int ret = order_tensors(s, order, &data_bytes);

	if (ret)
		return ret;
	if (left > data_bytes)
		return -EBADMSG;
	l->kind = LAYOUT_SAFETENSORS;
	l->state = left < data_bytes ? LAYOUT_INCOMPLETE : LAYOUT_COMPLETE;
	return left < data_bytes ? 0 : lay_out(l, s, order);
}

static int read_json(struct layout *l, struct safetensors *s, const char *text, size_t len)
{
	cJSON *root = cJSON_ParseWithLengthOpts(text, len + 1, NULL, 1);
	struct safetensor **order = NULL;
	int ret = root ? read_members(s, root) : -EBADMSG;

	if (!ret) {
		order = calloc(s->n_tensors + 1, sizeof(*order));
		ret = order ? judge(l, s, order) : -ENOMEM;
	}
	free(order);
	free(s->tensors);
	free(s->texts);
	cJSON_Delete(root);
	return ret;
}

int safetensors_parse(const struct source *source, struct layout *layout)
{
	struct safetensors s = {.source = source};
	struct bytes b;
	size_t len;
	char *text;
	int ret;

	if (!begins_like_one(source, &ret))
		return ret;
	bytes_init(&b, source);
	text = read_text(&b, &len, &ret);
	if (!text)
		return ret;
	s.data_at = 8 + (uint64_t)len;
	ret = read_json(layout, &s, text, len);
	free(text);
	return ret == -EBADMSG ? 0 : ret;
}

/* ---- for those who read the header ---- */

struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
	struct safetensor key = {.name = name};

	return bsearch(&key, s->tensors, s->n_tensors, sizeof(key), by_name);
}

const char *safetensors_text(const struct safetensors *s, const char *key)
{
	struct safetensors_text wanted = {.key = key};
	const struct safetensors_text *found = NULL;

	if (s->n_texts)
		found = bsearch(&wanted, s->texts, s->n_texts, sizeof(wanted), by_key);
	return found ? found->value : NULL;
}

int safetensors_data(const struct safetensors *s, const struct safetensor *t, uint64_t off, void *buf,
		     size_t len)
{
	if (off > t->end - t->begin || len > t->end - t->begin - off)
		return -ENOENT;
	return s->source->read(s->source->ctx, buf, len, s->data_at + t->begin + off);
}

int safetensors_scalar(const struct safetensors *s, const struct safetensor *t, uint64_t *out)
{
	uint64_t len = t ? t->end - t->begin : 0;
	uint8_t raw[8] = {0};
	int ret;

	if (!t || (len != 4 && len != 8) || len != t->element_bytes || !strchr("IU", t->dtype[0]))
		return -ENOENT;
	ret = safetensors_data(s, t, 0, raw, (size_t)len);
	if (!ret)
		*out = bytes_get_u64(raw);
	return ret;
}
