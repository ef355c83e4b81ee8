/* SPDX-License-Identifier: GPL-2.0-or-later */
/* layout.c - asks each format in turn whether a file is its own; what nobody knows is opaque.
 *
 * The two families cannot be mistaken for each other: a state begins with its magic, and as a header length
 * that magic would be larger than any safetensors header may be.
 *
 * Invariant, whatever the format and the damage: the tensors of the result tile the file. Opaque and
 * incomplete files are one tensor of plain bytes. */
#include "codec/layout.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/build.h"
#include "codec/ggsq.h"
#include "codec/kvtype.h"
#include "codec/safetensors.h"

/* One tensor over all bytes. */
static int all_bytes(struct layout *l)
{
	struct layout_tensor all = {.data_bytes = l->size_bytes, .lanes = 1};
	struct builder b;

	build_init(&b, l);
	l->n_tensors = 0;
	return l->size_bytes ? build_tensor(&b, &all, 0) : 0;
}

/* Gives back what the parsers' growing arrays reserved ahead. */
static void shrink(struct layout *l)
{
	void *smaller = l->n_tensors ? reallocarray(l->tensors, l->n_tensors, sizeof(*l->tensors)) : NULL;

	if (smaller)
		l->tensors = smaller;
}

static int parse_any(const struct source *source, struct layout *l)
{
	int ret = ggsq_parse(source, l);

	if (!ret && l->kind == LAYOUT_OPAQUE)
		ret = safetensors_parse(source, l);
	if (!ret && l->state != LAYOUT_COMPLETE)
		ret = all_bytes(l);
	if (!ret)
		shrink(l);
	return ret;
}

int layout_parse(const struct source *source, struct layout **out)
{
	struct layout *l = calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return -ENOMEM;
	l->size_bytes = source->size_bytes;
	ret = parse_any(source, l);
	if (ret) {
		layout_free(l);
		return ret;
	}
	*out = l;
	return 0;
}

void layout_free(struct layout *l)
{
	if (!l)
		return;
	free(l->tokens);
	free(l->boundaries);
	free(l->sections);
	free(l->runs);
	free(l->tensors);
	free(l->names);
	free(l);
}

uint64_t layout_data_offset(const struct layout_tensor *tensor)
{
	return tensor->offset + tensor->head_bytes;
}

const char *layout_type_name(int type)
{
	const struct kvtype *known = kvtype_find(type);

	if (type == LAYOUT_NO_TYPE)
		return "-";
	if (type == LAYOUT_MIXED_TYPE)
		return "mixed";
	return known ? known->name : NULL;
}

const char *layout_name(const struct layout *layout, const struct layout_tensor *t, char *buf, size_t len)
{
	static const char *const roles[] = {
		[LAYOUT_BYTES] = "bytes",
		[LAYOUT_TOKENS] = "tokens",
		[LAYOUT_CELLS] = "cells",
		[LAYOUT_K] = "k",
		[LAYOUT_V] = "v",
		[LAYOUT_REC_R] = "r",
		[LAYOUT_REC_S] = "s",
		[LAYOUT_REC_P] = "p",
		[LAYOUT_COMPRESSED] = "compressed",
		[LAYOUT_COMPRESSOR] = "compressor",
		[LAYOUT_END] = "end",
	};

	if (t->role == LAYOUT_NAMED)
		snprintf(buf, len, "tensor %s", t->name);
	else if (t->role == LAYOUT_CHECKPOINT)
		snprintf(buf, len, "checkpoint %llu.%u", (unsigned long long)t->number, t->part);
	else if (t->role == LAYOUT_TOKENS || t->role == LAYOUT_END)
		snprintf(buf, len, "%s", roles[t->role]);
	else if (t->role == LAYOUT_BYTES)
		snprintf(buf, len, "bytes %zu", (size_t)(t - layout->tensors));
	else
		snprintf(buf, len, "section %u stream %u layer %u %s.%u", t->section, t->stream, t->layer,
			 roles[t->role], t->part);
	return buf;
}
