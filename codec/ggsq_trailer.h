/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ggsq_trailer.h - the checkpoints that llama-server appends to a sequence state. For ggsq.c only. */
#ifndef KV_CODEC_GGSQ_TRAILER_H
#define KV_CODEC_GGSQ_TRAILER_H

#include "codec/build.h"
#include "codec/bytes.h"

/* Reads a trailer from here to the end of the file: adds a tensor for each blob, and fills boundaries,
 * n_checkpoints and trailer_offset. 0 when it is whole; -EBADMSG or -ENODATA when these bytes are no whole
 * trailer (the builder is then to be returned to a mark, the rest is as it was); -ENOMEM; what the source
 * failed with. */
int ggsq_trailer(struct bytes *b, struct builder *builder);

#endif
