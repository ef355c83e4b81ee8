/* SPDX-License-Identifier: GPL-2.0-or-later */
/* build.h - collects the tensors of a layout in file order, and takes back what a wrong guess added.
 *
 * The builder holds the invariant that tensors tile the file: each begins where the last one ended, and what
 * lies between its data and the end of the last becomes its head (or, when long, a tensor of plain bytes).
 * For the parsers only. */
#ifndef KV_CODEC_BUILD_H
#define KV_CODEC_BUILD_H

#include "codec/layout.h"

#define BUILD_HEAD_MAX 4096u	    /* longer heads become tensors of plain bytes */
#define BUILD_ROW_MAX  (256u << 10) /* rows longer than this are not cut by tokens */

struct builder {
	struct layout *layout; /* borrowed */
	size_t tensors_cap;
	size_t sections_cap;
	size_t runs_cap;
	uint64_t position; /* end of the last tensor */
};

struct build_mark {
	size_t n_tensors;
	size_t n_sections;
	size_t n_runs;
	uint64_t position;
};

void build_init(struct builder *b, struct layout *layout);

/* Adds a tensor whose data begins at data_offset, at or after the end of the last one; offset and head_bytes
 * are filled in. Rows longer than BUILD_ROW_MAX become plain bytes. -ENOMEM. */
int build_tensor(struct builder *b, const struct layout_tensor *tensor, uint64_t data_offset);
/* Adds a section and gives it, valid until the next one is added. -ENOMEM. */
int build_section(struct builder *b, enum layout_section_kind kind, struct layout_section **out);
/* -ENOMEM. */
int build_run(struct builder *b, const struct layout_run *run);
/* Whatever is left up to the end of the file becomes the last tensor. -ENOMEM. */
int build_finish(struct builder *b);

struct build_mark build_mark(const struct builder *b);
void build_return(struct builder *b, struct build_mark mark);

/* Gives items, perhaps moved, with room for one more than n; NULL when memory is short (items is then as it
 * was, and still the caller's). */
void *build_grow(void *items, size_t n, size_t *cap, size_t item_bytes);

#endif
