/* SPDX-License-Identifier: GPL-2.0-or-later */
/* notify.h - telling the kernel that what it has cached is no longer so.
 *
 * One thread sends all notifications, in order, with no lock held: the kernel takes the directory's
 * lock for them, which a request that is being answered may hold. Others only enqueue, also from the
 * bank's hooks (with the bank's lock held).
 */
#ifndef KV_FS_NOTIFY_H
#define KV_FS_NOTIFY_H

#include <stdint.h>

#include "fs/compat.h"

struct notify;

typedef void notify_tick_fn(void *ctx);

/* The queue; the thread comes with notify_start. -ENOMEM. */
int notify_new(struct fuse_session *session, struct notify **out);
/* Starts the thread, which also calls tick about once a second. After the last fork. */
int notify_start(struct notify *n, notify_tick_fn *tick, void *ctx);
/* Stops and joins it. What is still queued is answered, not sent: the mount is going. */
void notify_stop(struct notify *n);
void notify_free(struct notify *n);

/* The name no longer means what the kernel may think. Without memory the kernel's own timeout does it. */
void notify_name(struct notify *n, uint64_t parent, const char *name);
/* Attributes changed, bytes did not. */
void notify_attr(struct notify *n, uint64_t id);
/* Waits until all that was enqueued before is sent. Not while the kernel holds a lock for the request at
 * hand that a rename could wait for, of a directory (create, rename, unlink) or an entry (fsync, setattr):
 * it would wait for itself. */
void notify_wait(struct notify *n);
/* Answers a request once everything enqueued before was sent: whoever waits for it sees the change.
 * At once when nothing is queued. Only for requests without such a lock, as FLUSH. Consumes req. */
void notify_then_reply(struct notify *n, fuse_req_t req, int error);

#endif
