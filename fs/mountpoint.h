/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mountpoint.h - the place of the mount, as /proc/self/mountinfo tells it.
 *
 * Nothing here makes a request to our own mount: the daemon would wait for itself. */
#ifndef KV_FS_MOUNTPOINT_H
#define KV_FS_MOUNTPOINT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define MOUNTPOINT_MESSAGE_CAP	 4608u /* room for any message */
#define MOUNTPOINT_READ_AHEAD_KB 4096u

/* A mount: where, and the device number that tells it from any other at the same place. */
struct mountpoint {
	char path[PATH_MAX]; /* resolved */
	unsigned major, minor;
	bool mounted; /* major and minor are known */
};

/* Finds the real path. Works also when a dead mount is there. -errno with one line in message. */
int mountpoint_resolve(const char *given, struct mountpoint *m, char *message, size_t cap);
/* Makes sure that something can be mounted there: a directory without a live kvbankfs or other FUSE
 * mount on it. A dead kvbankfs is unmounted first. -ENOENT, -ENOTDIR, -EBUSY, ... with one line. */
int mountpoint_prepare(const struct mountpoint *m, char *message, size_t cap);
/* After the mount: learns which one is ours. -ENOENT: none. */
int mountpoint_identify(struct mountpoint *m);
/* Unmounts lazily what mountpoint_identify found, and nothing else: not what somebody put there since.
 * 0 also when it is gone already. Waits for fusermount3 for some seconds at most. */
int mountpoint_unmount(const struct mountpoint *m);
/* Lets the kernel read ahead further than its 128 KiB, where that is allowed. Before INIT is answered. */
bool mountpoint_read_ahead(const struct mountpoint *m, unsigned kib);

#endif
