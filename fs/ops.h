/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ops.h - the table of request handlers; their userdata is the struct fs. */
#ifndef KV_FS_OPS_H
#define KV_FS_OPS_H

#include "fs/compat.h"

extern const struct fuse_lowlevel_ops fs_ops;

/* About once a second: ends what was kept for threads that are gone. ctx is the struct fs. */
void ops_tick(void *ctx);

#endif
