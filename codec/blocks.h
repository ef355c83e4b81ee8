/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blocks.h - the block map: cuts a file into the pieces that are stored once each.
 *
 * A block is one tensor's rows for a run of tokens: cut at multiples of a power of two of tokens, so that a
 * block has 128 to 256 KiB where there are that many, and at every token in `cuts`. Give as cuts the tokens
 * where this entry stops sharing with its parent, the parent with its own, and so on: then the blocks of the
 * shared prefix have the same bytes in both files, wherever they lie and however the file has grown.
 *
 * Plain bytes are cut each 256 KiB from where their tensor begins. The heads of tensors, a dozen bytes each,
 * are gathered into one block (or a few): it changes from turn to turn, and it is small.
 *
 * The blocks cover each byte of the file exactly once. A block is a list of *runs* of bytes; its content is
 * the runs one after the other. */
#ifndef KV_CODEC_BLOCKS_H
#define KV_CODEC_BLOCKS_H

#include "codec/layout.h"

#define BLOCKS_BYTES_MAX (256u << 10) /* no block is longer */

struct layout_block {
	const struct layout_tensor *tensor; /* borrowed from the layout; heads: the first one */
	uint64_t n_heads;     /* not 0: the heads of this many tensors from `tensor` on, and no data */
	uint64_t token_first; /* 0 and 0 for plain bytes and heads */
	uint64_t token_end;
	bool padding;	/* rows that no token owns yet */
	uint64_t bytes; /* in all */
	uint64_t n_runs;
	uint64_t offset;    /* of the first run; not for heads */
	uint64_t run_bytes; /* of each run; not for heads */
	uint64_t stride;    /* from run to run; not for heads */
	uint32_t element_bytes;
};

/* Called for each block; anything but 0 ends the walk and is what layout_blocks returns. */
typedef int layout_block_fn(void *ctx, const struct layout_block *block);

/* Visits all blocks: heads first, then tensors in the order of the file and in each the tokens as they lie.
 * `cuts` ascend. Takes no memory and reads nothing. 0 or what `visit` returned. */
int layout_blocks(const struct layout *layout, const uint64_t *cuts, size_t n_cuts, layout_block_fn *visit,
		  void *ctx);

/* Run number `index` of a block, below n_runs: where it is and how long. A run of heads may have length 0. */
void layout_block_run(const struct layout_block *block, uint64_t index, uint64_t *offset, uint64_t *len);

#endif
