/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tokens.h - the hash of a run of token ids, and ids for the tokens of pictures and sounds.
 *
 * A runtime gives every token of a medium the id -1: what it stands for is only in the medium's bytes. Here
 * each gets an id of its own, made from those bytes and its place in the medium: equal media give equal ids,
 * others do not, and no such id is a real one (they are below -2^62). No locks. */
#ifndef KV_CODEC_TOKENS_H
#define KV_CODEC_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "codec/digest.h"

/* SHA-256 over n ids, each as an 8-byte little-endian signed integer. -ENOMEM or -EIO. */
int tokens_hash(const int64_t *ids, size_t n, uint8_t out[DIGEST_LEN]);

/* The id of token `place` (from 0) of the medium whose bytes have the SHA-256 `medium`. */
int64_t tokens_medium_id(const uint8_t medium[DIGEST_LEN], uint64_t place);

/* How many leading ids the two share. */
size_t tokens_shared(const int64_t *one, size_t n_one, const int64_t *other, size_t n_other);

#endif
