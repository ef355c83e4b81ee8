/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fs.h - what one mount consists of, shared by the files under fs/.
 *
 * main.c makes it, ops.c answers requests with it. Everything in it lives from before the mount
 * until after the session loop has ended. The pieces have locks of their own; this struct has none:
 * its pointers never change while requests run. */
#ifndef KV_FS_FS_H
#define KV_FS_FS_H

#include <stdbool.h>
#include <stdint.h>

#include "bank/bank.h"
#include "fs/options.h"

#define FS_CONTROL_FIRST_ID (UINT64_MAX - 63) /* ids of .kvbank and its files; the bank never gets there */

struct fuse_session;
struct redirects;
struct notify;
struct iomode;
struct late;
struct handles;

struct fs {
	struct bank *bank;
	struct fuse_session *session;
	struct options *options;    /* effective values; see options.h for its lock */
	struct redirects *redirects; /* writers on their way to a stage: redirect.h */
	struct notify *notify;	    /* the thread that tells the kernel: notify.h */
	struct late *late;	    /* readers on their second walk: late.h */
	struct handles *handles;    /* what is open: handles.h */
	struct iomode *iomode;	    /* passthrough or page cache, per open inode: iomode.h */
	_Atomic bool passthrough;   /* negotiated, permitted and not switched off; known from the first open on */
};

#endif
