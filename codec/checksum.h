/* SPDX-License-Identifier: GPL-2.0-or-later */
/* checksum.h - the 64-bit checksum of everything that crosses the disk: XXH3, seed 0, the number that
 * xxhsum -H3 prints. It catches damage, not malice: names and identity are SHA-256 (digest.h). */
#ifndef KV_CODEC_CHECKSUM_H
#define KV_CODEC_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* XXH3-64 of len bytes; about 10 GB/s and more. Cannot fail. */
uint64_t checksum_bytes(const void *buf, size_t len);

#endif
