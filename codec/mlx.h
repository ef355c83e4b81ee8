/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mlx.h - what the tensors of an mlx-lm prompt cache mean. For safetensors.c only. */
#ifndef KV_CODEC_MLX_H
#define KV_CODEC_MLX_H

#include "codec/safetensors.h"

/* Fills rows, lanes and padding of the tensors, and of the layout: text, version, tokens, n_tokens,
 * tokens_exact and recurrent. A file that is no prompt cache gets a text and, where the writer put them, its
 * tokens. 0, -ENOMEM, or what the source failed with. */
int mlx_read(struct safetensors *s, struct layout *layout);

#endif
