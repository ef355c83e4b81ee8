/* SPDX-License-Identifier: GPL-2.0-or-later */
/* store.h - STORE, the directory of the SSD tier: made, checked and locked for one daemon. */
#ifndef KV_FS_STORE_H
#define KV_FS_STORE_H

#include <stddef.h>

#define STORE_MESSAGE_CAP 4352u /* room for any message: a path and a few words */

/* Nothing opened: both -1. */
struct store {
	int dir_fd;
	int lock_fd;
};

#define STORE_NONE                                                                                           \
	{                                                                                                    \
		.dir_fd = -1, .lock_fd = -1                                                                  \
	}

/* Makes the directory with mode 0700 when it is missing (its parent must be there), refuses it unless it
 * is a real directory, ours, closed to group and others, and apart from `mountpoint` (a resolved path),
 * and locks it; the lock is free as soon as this process is gone. Before anything else uses STORE.
 * 0, or -errno with one line in message, and then nothing has been changed but an empty directory and
 * its empty lock file; -EWOULDBLOCK: another daemon has it. Both descriptors are close-on-exec. */
int store_open(const char *path, const char *mountpoint, struct store *out, char *message, size_t cap);
/* Gives up the lock. The lock file stays: removing it would let two daemons in. */
void store_close(struct store *s);

#endif
