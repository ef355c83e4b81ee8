/* SPDX-License-Identifier: GPL-2.0-or-later */
/* client.h - what /proc tells of a process that made a request.
 *
 * Ids are those of a request's context: thread ids in the daemon's own pid namespace, 0 = unseen.
 * All calls read /proc afresh, keep nothing, take no lock and may be made from any thread. None of
 * them ever sends a request to a mount, so a request handler may call them (see the warnings).
 */
#ifndef KV_FS_CLIENT_H
#define KV_FS_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The process (thread group) of thread `tid`; 0 when it cannot be seen: gone, in another pid
 * namespace, or hidden by the hidepid option of /proc. Safe at any time. */
pid_t client_process(pid_t tid);

/* Is the thread that sent this FLUSH dying of a signal? 1 yes, 0 no (it closes a descriptor, runs
 * execve, or exits of its own accord, whatever its exit status), -1 cannot be told.
 * Call it while the FLUSH is not yet answered: then the thread can neither vanish nor change. */
int client_dying(pid_t tid);

/* Has process `pid` a descriptor of inode `inode`, with `writable` one opened for writing?
 * False also when that cannot be seen. O(descriptors of the process), about 5 us each.
 * Inodes of other file systems count as well (the number is all there is to compare), so the answer
 * may be a false yes where small numbers are used; no safety may hang on a yes alone.
 * Descriptors that only a message in flight or a mapping keeps alive are unseen. Safe at any time. */
bool client_holds(pid_t pid, uint64_t inode, bool writable);

/* When thread `tid` started, in clock ticks since boot; 0 when it cannot be seen. With the tid this
 * names a thread for ever. WARNING: only for a thread that waits in an open, lookup or setattr which
 * the caller is serving. At FLUSH the thread may be closing descriptors inside execve; the kernel
 * then holds a lock that reading `stat` waits for, and both wait for each other. */
uint64_t client_start_time(pid_t tid);

/* Does thread `tid` exist? Also true for a later thread of that number. Safe at any time. */
bool client_alive(pid_t tid);

/* For tests: reads `directory` in place of /proc. Borrowed. NULL: /proc again. */
void client_use_proc(const char *directory);

#endif
