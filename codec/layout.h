/* SPDX-License-Identifier: GPL-2.0-or-later */
/* layout.h - what the bytes of an entry say about themselves.
 *
 * `layout_parse` recognises a file by its content and gives one result for all formats: is it whole, which
 * tokens it holds, where it can be restored, and its *tensors*. The tensors lie in the order of the file and
 * cover each byte exactly once. A tensor is an optional *head* (bytes that describe it: type, row size,
 * counts) and its data:
 *
 *	head | lane 0: row 0, row 1, ... row n-1 | lane 1: row 0, ... | ...
 *
 * A row belongs to a token. Token-major tensors have one lane; head-major ones (safetensors) a lane for each
 * attention head; transposed V (llama.cpp without flash attention) a lane for each element. Bytes that no
 * token owns (recurrent states, checkpoints, whatever is in between) have rows 0.
 *
 * A layout is immutable once made and free of locks: threads may read one together. */
#ifndef KV_CODEC_LAYOUT_H
#define KV_CODEC_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/bytes.h"

#define LAYOUT_TEXT_MAX 512u
#define LAYOUT_NAME_MAX 300u /* longer names of safetensors are cut by layout_name, never stored so */

enum layout_kind {
	LAYOUT_OPAQUE,
	LAYOUT_GGSQ,
	LAYOUT_GGSN,
	LAYOUT_SAFETENSORS,
};

enum layout_state {
	LAYOUT_UNKNOWN,	   /* opaque: nothing is claimed about it, and it is welcome */
	LAYOUT_COMPLETE,   /* recognised to its last byte */
	LAYOUT_INCOMPLETE, /* recognised with certainty, and a tensor runs past the end */
};

enum layout_role {
	LAYOUT_BYTES, /* bytes between, or all of an opaque file */
	LAYOUT_TOKENS,
	LAYOUT_CELLS,
	LAYOUT_K,
	LAYOUT_V,
	LAYOUT_REC_R, /* convolution state */
	LAYOUT_REC_S, /* recurrent state */
	LAYOUT_REC_P, /* the row of Qwen4Exp that has no type */
	LAYOUT_COMPRESSED,
	LAYOUT_COMPRESSOR,
	LAYOUT_CHECKPOINT,
	LAYOUT_NAMED, /* a safetensors tensor, under its own name */
	LAYOUT_END,   /* a head with nothing after it: the last bytes of the file */
};

/* Rows row .. row + count - 1 belong to tokens token .. token + count - 1. */
struct layout_run {
	uint64_t row;
	uint64_t token;
	uint64_t count;
};

struct layout_tensor {
	uint64_t offset; /* of the head; of the data when head_bytes is 0 */
	uint64_t data_bytes;
	uint64_t rows;	     /* of each lane; 0 = plain bytes */
	uint64_t valid_rows; /* rows after these are padding */
	uint64_t row_bytes;  /* of one row in one lane */
	uint64_t lanes;
	uint64_t number;  /* checkpoint: its token count */
	const char *name; /* of safetensors tensors, else NULL */
	uint32_t head_bytes;
	uint32_t element_bytes;	 /* for byte planes; 1 when quantised or unknown */
	uint32_t tokens_per_row; /* 1, or the ratio of a compressed cache */
	uint32_t first_run;	 /* into layout->runs */
	uint32_t n_runs;	 /* 0 = row i is row of token i */
	uint16_t section;
	uint16_t stream;
	uint16_t layer;
	uint8_t part; /* which of several tensors with the same role and layer */
	uint8_t role; /* enum layout_role */
};

enum layout_section_kind {
	LAYOUT_ATTN,
	LAYOUT_REC,
	LAYOUT_DSV4_CELLS,
	LAYOUT_DSV4_WINDOW,
	LAYOUT_DSV4_STATE,
};

#define LAYOUT_NO_TYPE	  (-1) /* no such part, or empty */
#define LAYOUT_MIXED_TYPE (-2) /* differs from layer to layer */

/* A section of ggsq and ggsn. Fields of an empty section keep LAYOUT_NO_TYPE or 0. */
struct layout_section {
	enum layout_section_kind kind;
	uint32_t n_stream;
	uint64_t n_cells;    /* of all streams */
	uint32_t n_layer;    /* as written: for REC all layers of the model */
	uint32_t rec_layers; /* REC: layers that have data */
	int v_trans;	     /* -1 unknown */
	int k_type;	     /* K of ATTN, R of REC */
	int v_type;	     /* V of ATTN, S of REC */
	uint32_t rot_k;
	uint32_t rot_v;
	uint32_t cell_extra; /* bytes of M-RoPE words in a cell */
	int32_t last_pos;    /* REC: position of the last cell; -1 when empty */
	bool has_p;	     /* REC with a row of Qwen4Exp */
};

struct layout {
	enum layout_kind kind;
	enum layout_state state;
	uint32_t version;	    /* of ggsq and ggsn; safetensors: 31 or 32 for mlx-lm's layouts, else 0 */
	char text[LAYOUT_TEXT_MAX]; /* one line; "" when opaque. A runtime refuses any other. */
	uint64_t size_bytes;
	bool recurrent;	   /* carries state that cannot be cut */
	bool packed;	   /* ggsq: llama-server's packed token array */
	bool tokens_exact; /* every id says what its token is, and there are as many ids as the state has
			    * tokens; only then may they be a prefix key */
	int64_t *tokens;   /* NULL when unknown. Tokens of media have ids of their own, see tokens.h */
	uint64_t n_tokens; /* also known without ids, from the cache's own count; 0 else */
	uint64_t n_media;
	uint64_t *boundaries; /* token counts with a checkpoint inside the file, ascending, each once */
	size_t n_boundaries;
	uint64_t n_checkpoints;
	uint64_t trailer_offset; /* of SCKP; 0 = none */
	struct layout_section *sections;
	size_t n_sections;
	struct layout_run *runs;
	size_t n_runs;
	struct layout_tensor *tensors;
	size_t n_tensors;
	char *names; /* holds what tensors[].name point to */
};

/* Reads what it must of the source (heads, cells, tokens; never tensor data) and makes *out, owned by the
 * caller. Takes memory of at most a small multiple of the file's size. 0, -ENOMEM, -EIO when hashing a
 * medium failed, or what the source failed with; *out is written only on success. Unknown bytes are not an
 * error: they are LAYOUT_OPAQUE. */
int layout_parse(const struct source *source, struct layout **out);
/* NULL is fine. */
void layout_free(struct layout *layout);

/* A name that tells which tensor of an earlier or later save of the same chat to compare with: the same part
 * of the same layer has the same name, wherever it lies in the file. Checkpoints are named by token count;
 * two with one count share a name, so compare bytes before believing it. Gives buf. */
const char *layout_name(const struct layout *layout, const struct layout_tensor *tensor, char *buf,
			size_t len);

/* Where the data of a tensor begins. */
uint64_t layout_data_offset(const struct layout_tensor *tensor);

/* "f16" and so on; "-" for LAYOUT_NO_TYPE, "mixed", or "type N". Borrowed; NULL when unknown. */
const char *layout_type_name(int type);

#endif
