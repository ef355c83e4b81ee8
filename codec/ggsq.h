/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ggsq.h - llama.cpp's sequence state (`ggsq`) and full state (`ggsn`). For layout.c only. */
#ifndef KV_CODEC_GGSQ_H
#define KV_CODEC_GGSQ_H

#include "codec/layout.h"

/* Fills the layout, whose size_bytes is set and all else zero, when the source is such a state: kind, state
 * and, when complete, all the rest. Leaves kind LAYOUT_OPAQUE when it is not. 0, -ENOMEM, -EIO when hashing
 * a medium failed, or what the source failed with; the layout is then still the caller's to free. */
int ggsq_parse(const struct source *source, struct layout *layout);

#endif
