/* SPDX-License-Identifier: GPL-2.0-or-later */
/* build.c - growing arrays of a layout, with marks to go back to.
 *
 * Easy to forget: build_return does not shrink the arrays; and a tensor without rows must have row_bytes 0,
 * lanes 1, so that nobody multiplies by them. */
#include "codec/build.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void *build_grow(void *items, size_t n, size_t *cap, size_t item_bytes)
{
	size_t wanted = n < 16 ? 16 : n + n / 2;
	void *grown;

	if (n < *cap)
		return items;
	grown = reallocarray(items, wanted, item_bytes);
	if (grown)
		*cap = wanted;
	return grown;
}

void build_init(struct builder *b, struct layout *layout)
{
	*b = (struct builder){.layout = layout};
}

static int append(struct builder *b, const struct layout_tensor *tensor)
{
	struct layout *l = b->layout;
	struct layout_tensor *grown = build_grow(l->tensors, l->n_tensors, &b->tensors_cap, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	l->tensors = grown;
	l->tensors[l->n_tensors] = *tensor;
	if (!tensor->element_bytes)
		l->tensors[l->n_tensors].element_bytes = 1;
	if (!tensor->tokens_per_row)
		l->tensors[l->n_tensors].tokens_per_row = 1;
	l->n_tensors++;
	b->position = tensor->offset + tensor->head_bytes + tensor->data_bytes;
	assert(b->position <= l->size_bytes);
	return 0;
}

static int append_bytes(struct builder *b, uint64_t end)
{
	struct layout_tensor between = {
		.offset = b->position,
		.data_bytes = end - b->position,
		.lanes = 1,
		.role = LAYOUT_BYTES,
	};

	return append(b, &between);
}

static void without_rows(struct layout_tensor *t)
{
	t->rows = 0;
	t->valid_rows = 0;
	t->row_bytes = 0;
	t->lanes = 1;
	t->first_run = 0;
	t->n_runs = 0;
}

int build_tensor(struct builder *b, const struct layout_tensor *tensor, uint64_t data_offset)
{
	struct layout_tensor t = *tensor;
	int ret;

	assert(data_offset >= b->position);
	if (data_offset - b->position > BUILD_HEAD_MAX) {
		ret = append_bytes(b, data_offset);
		if (ret)
			return ret;
	}
	t.offset = b->position;
	t.head_bytes = (uint32_t)(data_offset - b->position);
	if (!t.rows || !t.row_bytes || t.row_bytes > BUILD_ROW_MAX)
		without_rows(&t);
	return append(b, &t);
}

int build_section(struct builder *b, enum layout_section_kind kind, struct layout_section **out)
{
	struct layout *l = b->layout;
	struct layout_section *grown =
		build_grow(l->sections, l->n_sections, &b->sections_cap, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	l->sections = grown;
	*out = &l->sections[l->n_sections++];
	**out = (struct layout_section){
		.kind = kind,
		.v_trans = -1,
		.k_type = LAYOUT_NO_TYPE,
		.v_type = LAYOUT_NO_TYPE,
		.last_pos = -1,
	};
	return 0;
}

int build_run(struct builder *b, const struct layout_run *run)
{
	struct layout *l = b->layout;
	struct layout_run *grown = build_grow(l->runs, l->n_runs, &b->runs_cap, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	l->runs = grown;
	l->runs[l->n_runs++] = *run;
	return 0;
}

int build_finish(struct builder *b)
{
	struct layout_tensor end = {.offset = b->position, .lanes = 1, .role = LAYOUT_END};
	uint64_t left = b->layout->size_bytes - b->position;

	if (!left)
		return 0;
	if (left > BUILD_HEAD_MAX)
		return append_bytes(b, b->layout->size_bytes);
	end.head_bytes = (uint32_t)left;
	return append(b, &end);
}

struct build_mark build_mark(const struct builder *b)
{
	return (struct build_mark){
		.n_tensors = b->layout->n_tensors,
		.n_sections = b->layout->n_sections,
		.n_runs = b->layout->n_runs,
		.position = b->position,
	};
}

void build_return(struct builder *b, struct build_mark mark)
{
	b->layout->n_tensors = mark.n_tensors;
	b->layout->n_sections = mark.n_sections;
	b->layout->n_runs = mark.n_runs;
	b->position = mark.position;
}
