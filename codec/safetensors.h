/* SPDX-License-Identifier: GPL-2.0-or-later */
/* safetensors.h - the header of a safetensors file, checked, and found by name.
 *
 * safetensors_parse is for layout.c; the rest is what mlx.c asks of a header. */
#ifndef KV_CODEC_SAFETENSORS_H
#define KV_CODEC_SAFETENSORS_H

#include "codec/layout.h"

#define SAFETENSORS_RANK_MAX 8u /* of a shape that is looked at */

struct safetensor {
	const char *name;  /* borrowed from the header */
	const char *dtype; /* the same */
	uint64_t begin;	   /* in the data */
	uint64_t end;
	uint64_t shape[SAFETENSORS_RANK_MAX];
	uint32_t rank;		/* above SAFETENSORS_RANK_MAX: the shape is not kept */
	uint32_t element_bytes; /* 0 when elements are no whole bytes or the dtype is unknown */
	/* Filled in by whoever knows what the tensor means; rows 0 = plain bytes. */
	uint64_t rows;
	uint64_t valid_rows;
	uint64_t row_bytes;
	uint64_t lanes;
};

struct safetensors_text {
	const char *key; /* borrowed from the header */
	const char *value;
};

struct safetensors {
	const struct source *source;
	uint64_t data_at;	    /* first byte of the data in the file */
	struct safetensor *tensors; /* by name */
	size_t n_tensors;
	struct safetensors_text *texts; /* __metadata__, by key */
	size_t n_texts;
};

/* Fills the layout, whose size_bytes is set and all else zero: kind, state and, when complete, the rest.
 * Leaves kind LAYOUT_OPAQUE when the source is no safetensors. 0, -ENOMEM, or what the source failed with;
 * the layout is then still the caller's to free. */
int safetensors_parse(const struct source *source, struct layout *layout);

/* NULL when there is no such tensor, or no such key. Logarithmic. */
struct safetensor *safetensors_find(const struct safetensors *s, const char *name);
const char *safetensors_text(const struct safetensors *s, const char *key);
/* The value of an integer tensor with one element. -ENOENT when it is none, else what the source failed with.
 */
int safetensors_scalar(const struct safetensors *s, const struct safetensor *tensor, uint64_t *out);
/* Reads len bytes at off of a tensor. -ENOENT beyond its end, else what the source failed with. */
int safetensors_data(const struct safetensors *s, const struct safetensor *tensor, uint64_t off, void *buf,
		     size_t len);

#endif
