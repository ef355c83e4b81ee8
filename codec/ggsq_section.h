/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ggsq_section.h - one section of a llama.cpp state, read under one guess.
 *
 * Nothing in a state says which sections follow or of what kind they are, so the caller guesses and these
 * functions say whether the bytes could be such a section. Each adds its tensors to the builder; after a
 * refusal the caller returns to its own mark. For ggsq.c only. */
#ifndef KV_CODEC_GGSQ_SECTION_H
#define KV_CODEC_GGSQ_SECTION_H

#include "codec/build.h"
#include "codec/bytes.h"

struct guess {
	struct bytes bytes;
	struct builder *builder; /* borrowed */
	uint64_t n_tokens;
	uint32_t cell_extra;  /* M-RoPE bytes in each cell: 0, 8 or 12 */
	bool whole_state;     /* ggsn: cells of all sequences, shared ones too */
	bool has_rotation;    /* versions 4 and 11 */
	bool without_streams; /* the layout of 2025 */
	bool ran_past;	      /* some guess ran through plausible heads into a tensor beyond the end */
};

enum attn_parts {
	ATTN_KV,
	ATTN_K,		 /* MLA and indexers */
	ATTN_CELLS_ONLY, /* the first one of DSV4 */
};

/* How REC says how many layers have data (it does not). */
enum rec_guess {
	REC_DIFFERENT, /* R and S heads differ */
	REC_ALIKE,     /* R and S heads are equal: half of them are R */
	REC_WITH_P,    /* one R row is followed by a row without a type */
	REC_GUESSES,
};

/* Each reads from guess->bytes on and leaves it behind the section. 0; -EBADMSG when the bytes are no such
 * section; -ENODATA when they end too early; -ENOMEM; what the source failed with. */
int section_attn(struct guess *g, enum attn_parts parts);
int section_rec(struct guess *g, enum rec_guess how);
int section_dsv4(struct guess *g);

#endif
