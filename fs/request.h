/* SPDX-License-Identifier: GPL-2.0-or-later */
/* request.h - what the files that answer requests share: who asks, how nodes are shown, what to reply.
 *
 *   op_name.c   names and attributes     op_file.c   open files     op_dir.c   directory streams
 *   ops.c       the table
 *
 * Handlers run on any worker thread, never wait for a disk and hold no lock while they reply. */
#ifndef KV_FS_REQUEST_H
#define KV_FS_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "bank/bank.h"
#include "fs/compat.h"
#include "fs/fs.h"

#define REQUEST_LONG_S 3600.0 /* timeout of what only changes through us: we tell the kernel */
#define REQUEST_BLOCK  (1u << 20) /* st_blksize: large buffers in clients */

static inline struct fs *request_fs(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

int64_t request_now_ms(void);
/* Owner ids of the request; its process too when with_process (costs a look into /proc). */
struct bank_who request_who(fuse_req_t req, bool with_process);
/* Does process `pid` write the stage: it opened it, or has a descriptor of it? */
bool request_owns_stage(pid_t pid, const struct bank_stage_info *stage);
/* The id of the caller's own stage on a name, 0 when it has none. */
uint64_t request_own_stage(struct fs *fs, pid_t pid, uint64_t parent, const char *name);

void request_stat(const struct bank_stat *st, struct stat *out);
/* Fills an entry with the timeouts that fit: none for a stage or a name that has one. */
void request_entry(const struct bank_stat *st, struct fuse_entry_param *out);
/* Replies with a node that is held for the kernel; gives the hold back when the reply does not arrive. */
void request_reply_entry(fuse_req_t req, const struct bank_stat *st);
void request_reply_attr(fuse_req_t req, const struct bank_stat *st);
/* error: 0 or -errno. */
void request_reply(fuse_req_t req, int error);

/* ---- op_name.c ---- */
void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t req, fuse_ino_t id, uint64_t count);
void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void op_getattr(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t id, struct stat *attr, int what, struct fuse_file_info *fi);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname, unsigned flags);
void op_link(fuse_req_t req, fuse_ino_t id, fuse_ino_t newparent, const char *newname);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void op_statfs(fuse_req_t req, fuse_ino_t id);
void op_setxattr(fuse_req_t req, fuse_ino_t id, const char *name, const char *value, size_t len, int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t id, const char *name, size_t cap);
void op_listxattr(fuse_req_t req, fuse_ino_t id, size_t cap);
void op_removexattr(fuse_req_t req, fuse_ino_t id, const char *name);
/* Answers a request to write or truncate a node that must not be written: redirects the caller to a
 * stage of its own. */
void request_refuse_writer(fuse_req_t req, uint64_t id, unsigned flags);

/* ---- op_file.c ---- */
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void op_open(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t id, size_t len, off_t off, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t id, const char *buf, size_t len, off_t off, struct fuse_file_info *fi);
void op_flush(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void op_fsync(fuse_req_t req, fuse_ino_t id, int datasync, struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t id, int mode, off_t off, off_t len, struct fuse_file_info *fi);
/* ftruncate through an open handle. 0 or -errno. */
int file_truncate(struct fuse_file_info *fi, uint64_t size_bytes);

/* ---- op_dir.c ---- */
void op_opendir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t id, size_t cap, off_t off, struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t id, size_t cap, off_t off, struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void op_fsyncdir(fuse_req_t req, fuse_ino_t id, int datasync, struct fuse_file_info *fi);

#endif
