/* SPDX-License-Identifier: GPL-2.0-or-later */
/* checksum.c - XXH3-64 through libxxhash, the only file that knows it. */
#include "codec/checksum.h"

#include <xxhash.h>

uint64_t checksum_bytes(const void *buf, size_t len)
{
	return XXH3_64bits(buf, len);
}
