/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kvtype.h - the ggml types that llama.cpp accepts for K, V and states: number, name, block. */
#ifndef KV_CODEC_KVTYPE_H
#define KV_CODEC_KVTYPE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KVTYPE_F32 = 0,
	KVTYPE_F16 = 1,
};

struct kvtype {
	const char *name;
	int32_t number;
	uint16_t block_bytes;	 /* a row is a whole number of these */
	uint16_t block_elements; /* 1 = not quantised */
};

/* NULL when no such type is known. Borrowed, for ever. */
const struct kvtype *kvtype_find(int32_t number);
/* True for a row size that a tensor of this type can have; zero is none. */
bool kvtype_row_fits(const struct kvtype *type, uint64_t row_bytes);
/* Bytes of an element for byte planes; 1 when quantised. */
uint32_t kvtype_element(const struct kvtype *type);

#endif
