/* SPDX-License-Identifier: GPL-2.0-or-later */
/* control.h - the directory .kvbank in the root: stats, metrics, config, events, control.
 *
 * Its nodes have fixed ids from FS_CONTROL_FIRST_ID upwards, no lookup counts, and are never cached:
 * whoever answers requests gives them entry and attribute timeout 0 and opens them with direct_io,
 * those of control_streams() as nonseekable too. Nothing here touches a disk.
 *
 * All calls may be made from any thread and return 0 (or a count, where said) or -errno. None waits,
 * but for control_read when control_read_waits says so. */
#ifndef KV_FS_CONTROL_H
#define KV_FS_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct fs;
struct control_file; /* an open file of the directory */

/* Whether id is the control directory or one of its files. */
bool control_is(uint64_t id);
/* Whether (parent, name) is ours to name: create, mkdir, rename, link and the like answer EPERM. */
bool control_reserved(uint64_t parent, const char *name);
/* (BANK_ROOT, ".kvbank") or a file of the directory. -ENOENT. */
int control_lookup(struct fs *fs, uint64_t parent, const char *name, struct stat *out);
/* -ESTALE: no such id. */
int control_stat(struct fs *fs, uint64_t id, struct stat *out);
/* The index-th name of the directory, from 0, "." and ".." first; *name is static text. -ENOENT: no more. */
int control_readdir(struct fs *fs, unsigned index, const char **name, struct stat *out);

/* Opens a file; flags as open(2), O_TRUNC and O_CREAT mean nothing. What stats, metrics and config
 * show is made now, so that one open reads one moment. The caller owns *out until control_close.
 * -EISDIR: the directory; -EACCES: a file that is only read; -EINVAL: control, to be written only
 * (nobody would read the answer); -ENOMEM, -ESTALE. */
int control_open(struct fs *fs, uint64_t id, int flags, struct control_file **out);
/* Whether offsets mean nothing here. */
bool control_streams(const struct control_file *file);
/* One more owner, each gives it back by control_close: for a thread that goes on when the request
 * it works for was interrupted. */
void control_keep(struct control_file *file);
/* Gives up one ownership. NULL is fine. */
void control_close(struct control_file *file);

/* Whether the next control_read will run a command that takes long: then call it from a thread
 * that may wait. A changed answer by the time of the read does no harm but the waiting. */
bool control_read_waits(struct control_file *file);
/* Returns the count, 0 at the end. -EBUSY: another read of this open runs a command. */
ssize_t control_read(struct control_file *file, char *buf, size_t cap, off_t off);
/* Takes a request's bytes, or lines of config. Returns len; for several lines of config less than
 * that when a later one is refused (the next write then says why). What options_change answers, then
 * what was expected is an event and logged; -E2BIG: a request that is too long, it is forgotten;
 * -EBUSY: as control_read; -EBADF. */
ssize_t control_write(struct control_file *file, const char *buf, size_t len);

#endif
