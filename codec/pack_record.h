/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pack_record.h - head, tail and record headers of a pack as numbers and as bytes. For the pack_* files only;
 * the format is in pack.h. */
#ifndef KV_CODEC_PACK_RECORD_H
#define KV_CODEC_PACK_RECORD_H

#include "codec/pack.h"

#define PACK_SALT_AT 24u /* in a record's header */

static inline void pack_put_u16(uint8_t *to, uint16_t number)
{
	to[0] = (uint8_t)number;
	to[1] = (uint8_t)(number >> 8);
}

static inline void pack_put_u32(uint8_t *to, uint32_t number)
{
	pack_put_u16(to, (uint16_t)number);
	pack_put_u16(to + 2, (uint16_t)(number >> 16));
}

static inline void pack_put_u64(uint8_t *to, uint64_t number)
{
	pack_put_u32(to, (uint32_t)number);
	pack_put_u32(to + 4, (uint32_t)(number >> 32));
}

static inline uint64_t pack_align(uint64_t offset)
{
	return (offset + 7) & ~UINT64_C(7);
}

struct pack_tail {
	uint64_t salt;
	uint64_t index_offset;
	uint64_t size_bytes;
};

void pack_head_put(uint64_t salt, uint8_t to[PACK_HEAD_BYTES]);
int pack_head_get(const uint8_t from[PACK_HEAD_BYTES], uint64_t *salt);
void pack_tail_put(const struct pack_tail *tail, uint8_t to[PACK_TAIL_BYTES]);
int pack_tail_get(const uint8_t from[PACK_TAIL_BYTES], struct pack_tail *out);

void pack_header_put(const struct pack_record *record, uint8_t to[PACK_HEADER_BYTES]);
/* -ENODATA for nothing but zeros, -EPROTONOSUPPORT, -EBADMSG; lengths are inside the limits of the kind. */
int pack_header_get(const uint8_t from[PACK_HEADER_BYTES], struct pack_record *out);

/* True when all bytes are 0, and for none. */
bool pack_all_zero(const void *bytes, size_t len);

/* Stored bytes against the record's checksum: 0, -ENODATA when all are zeros, -EBADMSG. */
int pack_stored_check(const struct pack_record *record, const void *stored);

/* The pack's name out of the three pieces that it covers. */
int pack_name(const uint8_t head[PACK_HEAD_BYTES], const uint8_t index_header[PACK_HEADER_BYTES],
	      const uint8_t tail[PACK_TAIL_BYTES], uint8_t name[DIGEST_LEN]);

/* The bytes of an entry record, owned by the caller (free). -EINVAL, -EFBIG, -ENOMEM as pack_writer_entry. */
int pack_entry_bytes(const struct pack_entry *entry, uint8_t **out, size_t *len);

#endif
