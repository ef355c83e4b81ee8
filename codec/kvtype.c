/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kvtype.c - the table of types; a number that is not in it makes a guess implausible. */
#include "codec/kvtype.h"

#include <stddef.h>

#define ROW_BYTES_MAX (64u << 20) /* a K or V row is kilobytes, a recurrent state's row some megabytes */

static const struct kvtype types[] = {
	{"f32", KVTYPE_F32, 4, 1}, {"f16", KVTYPE_F16, 2, 1}, {"q4_0", 2, 18, 32},
	{"q4_1", 3, 20, 32},	   {"q5_0", 6, 22, 32},	      {"q5_1", 7, 24, 32},
	{"q8_0", 8, 34, 32},	   {"iq4_nl", 20, 18, 32},    {"bf16", 30, 2, 1},
};

const struct kvtype *kvtype_find(int32_t number)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].number == number)
			return &types[i];
	return NULL;
}

bool kvtype_row_fits(const struct kvtype *type, uint64_t row_bytes)
{
	return row_bytes && row_bytes <= ROW_BYTES_MAX && row_bytes % type->block_bytes == 0;
}

uint32_t kvtype_element(const struct kvtype *type)
{
	return type->block_elements == 1 ? type->block_bytes : 1;
}
