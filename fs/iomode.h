/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iomode.h - how the kernel reads an open version: from the RAM file itself (passthrough), or from
 * its page cache filled by us.
 *
 * The kernel fixes this for an inode from its first open to its last release, and takes one backing
 * id for it: a second way, or a second id, is EIO. So it is decided once and kept here.
 */
#ifndef KV_FS_IOMODE_H
#define KV_FS_IOMODE_H

#include <stdbool.h>
#include <stdint.h>

#include "bank/bank.h"
#include "fs/compat.h"

struct iomode;

struct iomode *iomode_new(struct fuse_session *session); /* NULL: no memory */
void iomode_free(struct iomode *im);

/* One more open of version `id` by `reader`. Returns the backing id for passthrough, or 0 for the page
 * cache. may_passthrough is only asked for the first open. -ENOMEM. */
int iomode_open(struct iomode *im, uint64_t id, struct bank_reader *reader, bool may_passthrough);
/* One less. */
void iomode_close(struct iomode *im, uint64_t id);

#endif
