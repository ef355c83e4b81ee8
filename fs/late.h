/* SPDX-License-Identifier: GPL-2.0-or-later */
/* late.h - readers that came too late: the version they looked up was replaced before they opened it.
 *
 * Such an OPEN is answered ESTALE; the kernel walks the path once more, and only once. So that a name that
 * is rewritten all the time can still be opened, the LOOKUPs of that second walk *pin* what they
 * answer: the version is opened for the thread at once and kept until its OPEN takes it.
 *
 *	OPEN to read answered ESTALE	late_note
 *	LOOKUP, when late_has(tid)	bank_read_open, late_pin
 *	OPEN to read			late_take, before bank_read_open
 *	every second or so		late_expire
 *
 * Times: monotonic milliseconds, given by the caller. No call waits.
 */
#ifndef KV_FS_LATE_H
#define KV_FS_LATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bank/bank.h"

#define LATE_LIFE_MS 2000 /* a thread that has not come by then does not come */

struct late;

struct late *late_new(void); /* NULL: no memory */
/* Closes what is still pinned. NULL is fine. */
void late_free(struct late *l);

/* Thread tid was answered ESTALE. Does nothing for tid 0, or without memory. */
void late_note(struct late *l, pid_t tid, int64_t now_ms);
/* Is tid on its second walk? Cheap; takes no lock while nobody is. */
bool late_has(struct late *l, pid_t tid);
/* Keeps the open reader of version id for the thread, in place of what it had. Takes the reader; closes it
 * when the thread is no longer known. */
void late_pin(struct late *l, pid_t tid, uint64_t id, struct bank_reader *reader);
/* The thread opens version id: its reader, the caller's from now on, or NULL. Ends the second walk. */
struct bank_reader *late_take(struct late *l, pid_t tid, uint64_t id);
void late_expire(struct late *l, int64_t now_ms);

#endif
