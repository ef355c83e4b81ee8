/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ggsq_tokens.h - the token array of a llama.cpp state, plain or packed. For ggsq.c only. */
#ifndef KV_CODEC_GGSQ_TOKENS_H
#define KV_CODEC_GGSQ_TOKENS_H

#include "codec/build.h"
#include "codec/bytes.h"

/* Reads n_words words from here on into layout->tokens, n_tokens, n_media, packed and tokens_exact, and adds
 * the tensor of the ids. 0; -EBADMSG when a packed array contradicts itself; -ENODATA when the file ends in
 * it; -ENOMEM; -EIO when hashing a medium failed; what the source failed with. */
int ggsq_tokens(struct bytes *b, struct builder *builder, uint32_t n_words, bool may_be_packed);

#endif
