/* SPDX-License-Identifier: GPL-2.0-or-later */
/* compat.h - libfuse's low-level API, and all that differs between its versions.
 *
 * Everything under fs/ that needs libfuse includes this file, so that all ask for the same API. The
 * project builds and runs with libfuse 3.14 to 3.16, which know nothing of passthrough, and 3.17 on.
 * One mount in a process.
 *
 * Order: fuse_session_mount, compat_install, then the session loop; compat_init in the init handler;
 * the rest in any request after that, from any thread. */
#ifndef KV_FS_COMPAT_H
#define KV_FS_COMPAT_H

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#endif
#include <fuse_lowlevel.h>
#include <stdbool.h>

#define COMPAT_READ_AHEAD_BYTES (4u << 20) /* asked of the kernel; it gives what the bdi allows */

/* Once, right after fuse_session_mount succeeded. 0 or -errno. */
int compat_install(struct fuse_session *session);
/* Chooses what is negotiated with the kernel. With want_passthrough, passthrough where it is offered. */
void compat_init(struct fuse_conn_info *conn, bool want_passthrough);
/* Whether passthrough was negotiated and a file can really be registered (that takes CAP_SYS_ADMIN).
 * The first call tries it with a small file, later ones know. Not before INIT was answered, so not
 * in the init handler itself. */
bool compat_passthrough_works(struct fuse_session *session);

/* Registers an open file for passthrough; the caller may close fd afterwards. An id > 0, to be given to
 * compat_backing_close once and after the last RELEASE of an inode that uses it, or -errno: -EPERM not
 * permitted, -ELOOP a file of a stacked file system, -EOPNOTSUPP. */
int compat_backing_open(struct fuse_session *session, int fd);
void compat_backing_close(struct fuse_session *session, int id);
/* fuse_reply_open; with backing_id > 0 the kernel does reads, writes and maps itself. fi->keep_cache must
 * be off then. All opens of one inode between first open and last release must use the same id.
 * 0, or -ENOENT when the opener has been interrupted: then there will be no RELEASE. */
int compat_reply_open(fuse_req_t req, const struct fuse_file_info *fi, int backing_id);

#endif
