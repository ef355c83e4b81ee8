/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blocks.c - walks tensors and cuts them by tokens.
 *
 * Rows are counted in *units*, a unit being the tokens of one row (1, or the ratio of a compressed cache).
 * A stretch of rows is cut at multiples of `step` units, at the cuts, where the row-to-token map jumps, and
 * where padding begins. `step` depends only on the size of a row, never on how many there are: that is what
 * makes the prefix of a grown file fall into the same blocks. A row whose lanes together are longer than a
 * block is cut by lanes first. */
#include "codec/blocks.h"

#include <assert.h>

#include "codec/build.h"

enum { HEADS_MAX = BLOCKS_BYTES_MAX / BUILD_HEAD_MAX * 16 };

struct walk {
	const uint64_t *cuts;
	size_t n_cuts;
	layout_block_fn *visit;
	void *ctx;
};

/* Rows of one tensor that lie in one group of lanes. */
struct slice {
	const struct layout_tensor *tensor;
	uint64_t first_lane;
	uint64_t lanes;
	uint64_t step; /* units between natural cuts, a power of two */
};

/* The first cut after `unit`, in units, or `end`. */
static uint64_t next_cut(const struct walk *w, uint64_t unit, uint64_t end, uint32_t tokens_per_row)
{
	size_t low = 0, high = w->n_cuts;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (w->cuts[middle] / tokens_per_row <= unit)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == w->n_cuts || w->cuts[low] / tokens_per_row >= end)
		return end;
	return w->cuts[low] / tokens_per_row;
}

static int visit_rows(const struct walk *w, const struct slice *s, uint64_t row, uint64_t unit,
		      uint64_t count)
{
	const struct layout_tensor *t = s->tensor;
	uint64_t lane_bytes = t->rows * t->row_bytes;
	struct layout_block block = {
		.tensor = t,
		.token_first = unit * t->tokens_per_row,
		.token_end = (unit + count) * t->tokens_per_row,
		.padding = row >= t->valid_rows,
		.n_runs = s->lanes,
		.offset = layout_data_offset(t) + s->first_lane * lane_bytes + row * t->row_bytes,
		.run_bytes = count * t->row_bytes,
		.stride = lane_bytes,
		.element_bytes = t->element_bytes,
	};

	block.bytes = block.n_runs * block.run_bytes;
	return w->visit(w->ctx, &block);
}

/* `count` rows from `row` on that belong to units from `unit` on. */
static int cut_stretch(const struct walk *w, const struct slice *s, uint64_t row, uint64_t unit,
		       uint64_t count)
{
	uint64_t end = unit + count;
	int ret = 0;

	while (!ret && unit < end) {
		uint64_t natural = (unit / s->step + 1) * s->step;
		uint64_t next = next_cut(w, unit, natural < end ? natural : end, s->tensor->tokens_per_row);

		ret = visit_rows(w, s, row, unit, next - unit);
		row += next - unit;
		unit = next;
	}
	return ret;
}

static int cut_at_padding(const struct walk *w, const struct slice *s, uint64_t row, uint64_t unit,
			  uint64_t count)
{
	uint64_t valid = s->tensor->valid_rows;
	uint64_t before = row >= valid ? 0 : valid - row;
	int ret;

	if (!before || before >= count)
		return cut_stretch(w, s, row, unit, count);
	ret = cut_stretch(w, s, row, unit, before);
	return ret ? ret : cut_stretch(w, s, row + before, unit + before, count - before);
}

static int cut_slice(const struct layout *l, const struct walk *w, const struct slice *s)
{
	const struct layout_tensor *t = s->tensor;
	int ret = 0;

	if (!t->n_runs)
		return cut_at_padding(w, s, 0, 0, t->rows);
	for (uint32_t i = 0; !ret && i < t->n_runs; i++) {
		const struct layout_run *run = &l->runs[t->first_run + i];

		ret = cut_at_padding(w, s, run->row, run->token / t->tokens_per_row, run->count);
	}
	return ret;
}

/* The largest power of two of rows that fit a block, at least 1. */
static uint64_t natural_step(uint64_t bytes_per_row)
{
	uint64_t step = 1;

	while (2 * step * bytes_per_row <= BLOCKS_BYTES_MAX)
		step *= 2;
	return step;
}

static int cut_rows(const struct layout *l, const struct walk *w, const struct layout_tensor *t)
{
	uint64_t group = BLOCKS_BYTES_MAX / t->row_bytes;
	struct slice s = {.tensor = t};
	int ret = 0;

	if (group > t->lanes)
		group = t->lanes;
	s.step = natural_step(group * t->row_bytes);
	for (uint64_t lane = 0; !ret && lane < t->lanes; lane += group) {
		s.first_lane = lane;
		s.lanes = t->lanes - lane < group ? t->lanes - lane : group;
		ret = cut_slice(l, w, &s);
	}
	return ret;
}

static int cut_bytes(const struct walk *w, const struct layout_tensor *t)
{
	uint64_t at = 0;
	int ret = 0;

	while (!ret && at < t->data_bytes) {
		uint64_t left = t->data_bytes - at;
		struct layout_block block = {
			.tensor = t,
			.bytes = left < BLOCKS_BYTES_MAX ? left : BLOCKS_BYTES_MAX,
			.n_runs = 1,
			.offset = layout_data_offset(t) + at,
			.element_bytes = t->element_bytes,
		};

		block.run_bytes = block.bytes;
		block.stride = block.bytes;
		ret = w->visit(w->ctx, &block);
		at += block.bytes;
	}
	return ret;
}

/* One block of heads from tensor number `from` on. */
static struct layout_block gather_heads(const struct layout *l, size_t from)
{
	struct layout_block block = {.tensor = &l->tensors[from], .element_bytes = 1};

	for (size_t i = from; i < l->n_tensors && block.n_heads < HEADS_MAX; i++) {
		if (block.bytes + l->tensors[i].head_bytes > BLOCKS_BYTES_MAX)
			break;
		block.bytes += l->tensors[i].head_bytes;
		block.n_heads++;
	}
	block.n_runs = block.n_heads;
	return block;
}

static int cut_heads(const struct layout *l, const struct walk *w)
{
	size_t at = 0;
	int ret = 0;

	while (!ret && at < l->n_tensors) {
		struct layout_block block = gather_heads(l, at);

		if (block.bytes)
			ret = w->visit(w->ctx, &block);
		at += block.n_heads;
	}
	return ret;
}

int layout_blocks(const struct layout *layout, const uint64_t *cuts, size_t n_cuts, layout_block_fn *visit,
		  void *ctx)
{
	struct walk w = {.cuts = cuts, .n_cuts = n_cuts, .visit = visit, .ctx = ctx};
	int ret = cut_heads(layout, &w);

	for (size_t i = 0; !ret && i < layout->n_tensors; i++) {
		const struct layout_tensor *t = &layout->tensors[i];

		ret = t->rows ? cut_rows(layout, &w, t) : cut_bytes(&w, t);
	}
	return ret;
}

void layout_block_run(const struct layout_block *block, uint64_t index, uint64_t *offset, uint64_t *len)
{
	assert(index < block->n_runs);
	if (block->n_heads) {
		*offset = block->tensor[index].offset;
		*len = block->tensor[index].head_bytes;
		return;
	}
	*offset = block->offset + index * block->stride;
	*len = block->run_bytes;
}
