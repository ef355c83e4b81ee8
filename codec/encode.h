/* SPDX-License-Identifier: GPL-2.0-or-later */
/* encode.h - one block's raw bytes to the bytes that are stored, and back.
 *
 * A *form* says how stored bytes are to be read. Four kinds are made of its three numbers:
 *
 *	method  element_bytes  row_elements
 *	raw     1              1		the raw bytes
 *	LZ4     1              1		LZ4 block format of the raw bytes
 *	LZ4     n > 1          1		... of n planes: all first bytes, all second ones, ...
 *	LZ4     n              c > 1		... of n planes, each ordered channel by channel
 *
 * Channel order: the block is rows of c elements (a row belongs to a token, an element of it to a channel);
 * with T whole rows, byte p of element i of row t goes to place (p * c + i) * T + t. Bytes after the last
 * whole row follow as they are. Values of one channel resemble each other from token to token, which is all
 * that LZ4 can use in floating point numbers.
 *
 * Invariants: a block has 1 to ENCODE_RAW_MAX bytes; stored is shorter than raw or is raw itself; LZ4 is at
 * most 255 times shorter, which is what the format can do, so more is a bomb and refused unread; planes have
 * at least one whole row.
 * Nothing here is shared: no locks, any thread. */
#ifndef KV_CODEC_ENCODE_H
#define KV_CODEC_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "codec/digest.h"

#define ENCODE_RAW_MAX	   (1u << 20) /* bytes of a block */
#define ENCODE_RATIO_MAX   255u	      /* raw / stored bytes */
#define ENCODE_ELEMENT_MAX 64u	      /* bytes of an element */

/* Numbers on disk, never reused. 2 is kept for zstd. */
enum encode_method { ENCODE_RAW = 0, ENCODE_LZ4 = 1 };

/* Option compress=: none stores raw; auto wants a sixteenth saved; lz4 takes any byte saved. */
enum encode_policy { ENCODE_POLICY_NONE, ENCODE_POLICY_AUTO, ENCODE_POLICY_LZ4 };

struct encode_form {
	uint8_t method;
	uint16_t element_bytes;
	uint32_t row_elements;
};

/* Stored bytes of a block. `bytes` is borrowed: from the raw bytes (method raw) or from `work`. */
struct encoded {
	struct encode_form form;
	const void *bytes;
	size_t len;
};

/* Bytes of work memory that encode_choose and encode_store need for a block of raw_len, and encode_load. */
size_t encode_store_work(size_t raw_len);
size_t encode_load_work(size_t raw_len);

/* Finds the form for a tensor's blocks by trying LZ4 with and without planes on one of them, the more typical
 * the better; give a whole block, else the channel order has too few rows. element_bytes as layout.h has it,
 * row_elements = row bytes / element bytes; 0 or 1 where unknown. Numbers that no form can have count as
 * unknown. Gives the raw form when `policy` is none or nothing saves enough. Two or three LZ4 passes. */
struct encode_form encode_choose(enum encode_policy policy, const void *sample, size_t len,
				 uint64_t element_bytes, uint64_t row_elements, void *work);

/* Encodes a block in `form`, or raw when that saves less than `policy` asks for: never longer than raw.
 * Padding (one byte over and over) is compressed in a raw tensor too. Copies nothing when it stores raw.
 * -EINVAL for a length or form that cannot be; *out only on success. */
int encode_store(enum encode_policy policy, const struct encode_form *form, const void *raw, size_t raw_len,
		 void *work, struct encoded *out);

/* Whether a block of these lengths can exist, before anything is allocated, read or written for it.
 * -EBADMSG no; -EPROTONOSUPPORT for a method that this program does not know. */
int encode_check(const struct encode_form *form, size_t raw_len, size_t stored_len);

/* Decodes into raw, exactly raw_len bytes. `stored` is not trusted: encode_check's errors, and -EBADMSG when
 * the bytes do not decode to that length; raw is then worthless. Does not see damage that decodes to as many
 * other bytes: checksums do. `work` may be NULL for forms without planes. */
int encode_load(const struct encode_form *form, const void *stored, size_t stored_len, void *raw,
		size_t raw_len, void *work);

/* The block's name: SHA-256 of its raw bytes. -ENOMEM, -EIO (libcrypto). */
int encode_name(const void *raw, size_t raw_len, uint8_t name[DIGEST_LEN]);

#endif
