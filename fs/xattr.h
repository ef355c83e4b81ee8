/* SPDX-License-Identifier: GPL-2.0-or-later */
/* xattr.h - what extended attributes mean on this mount.
 *
 * user.kvbank.* is the bank speaking: some computed, some that users set; every other user.* is kept
 * as bytes. All calls take full names ("user.x") and 0-ended ones, may be made from any thread, wait
 * for nothing and answer for the control directory as well. They return what is said or -errno, and
 * -ESTALE when the node is gone. */
#ifndef KV_FS_XATTR_H
#define KV_FS_XATTR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fs;

#define XATTR_VALUE_MAX 4096u /* bytes of one user.kvbank.* value that users may set */

/* Sets len bytes; flags as setxattr(2). 0, or
 * -EPERM: a computed attribute and another value than it has, or a user.kvbank.* name that is none;
 * -EINVAL: not a value that this attribute takes; -E2BIG: a user.kvbank.* value beyond XATTR_VALUE_MAX;
 * -EOPNOTSUPP: another namespace, or tokens, which are not taken yet; -EEXIST, -ENODATA: flags; -ENOSPC. */
int xattr_set(struct fs *fs, uint64_t id, const char *name, const char *value, size_t len, int flags);
/* Returns the length of the value; with cap 0 nothing is copied. -ERANGE: cap is too small;
 * -ENODATA: none; -EOPNOTSUPP: another namespace (but security.capability is -ENODATA). */
ssize_t xattr_get(struct fs *fs, uint64_t id, const char *name, char *buf, size_t cap);
/* Returns the length of the names, each closed by a NUL; exactly those that xattr_get gives, less
 * user.kvbank.info. With cap 0 nothing is copied. -ERANGE. */
ssize_t xattr_list(struct fs *fs, uint64_t id, char *buf, size_t cap);
/* -EPERM: computed; -ENODATA: not set; -EOPNOTSUPP: another namespace. */
int xattr_remove(struct fs *fs, uint64_t id, const char *name);

#endif
