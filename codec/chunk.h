/* SPDX-License-Identifier: GPL-2.0-or-later */
/* chunk.h - cuts opaque bytes where their content says so, so that an insertion moves only the chunks
 * around it and everything after it is found again.
 *
 * A gear hash (as in FastCDC) over the last 64 bytes decides: h = 2 h + table[byte], modulo 2^64. A chunk
 * ends behind the first byte at which h ends a chunk of its length:
 *
 *	below CHUNK_MIN			never
 *	below CHUNK_CENTRE		when the top 20 bits of h are 0
 *	below CHUNK_MAX			when the top 16 bits of h are 0
 *	at CHUNK_MAX			always
 *
 * which gives chunks of 256 KiB on average on bytes without pattern. A cut depends on the 64 bytes before it
 * and on the length of its chunk, on nothing else: not on how the stream was handed in pieces.
 *
 * The table is the first 256 outputs of splitmix64 (Steele, Lea, Flood 2014) from the state CHUNK_SEED:
 *
 *	state += 0x9e3779b97f4a7c15
 *	z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9
 *	z = (z ^ z >> 27) * 0x94d049bb133111eb
 *	output z ^ z >> 31
 *
 * None of these numbers may ever change: bytes put again would be cut elsewhere and stored twice.
 * No locks; one thread at a time. */
#ifndef KV_CODEC_CHUNK_H
#define KV_CODEC_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_MIN    (64u << 10)
#define CHUNK_CENTRE (208u << 10)
#define CHUNK_MAX    (1u << 20)
#define CHUNK_SEED   UINT64_C(0x6b766368756e6b31)

struct chunk {
	uint64_t table[256];
	uint64_t hash;
	size_t len; /* bytes of the chunk that has begun, below CHUNK_MAX */
};

/* Begins a stream. Two kilobytes, no memory of its own, nothing to release. */
void chunk_init(struct chunk *c);

/* Takes bytes up to the end of the chunk or of buf, and gives how many. *cut tells which: true = the chunk
 * ends behind the last byte taken, the next call begins another. What is left at the end of the stream is
 * the last chunk. 1 to 3 GB/s. */
size_t chunk_next(struct chunk *c, const void *buf, size_t len, bool *cut);

#endif
