/* SPDX-License-Identifier: GPL-2.0-or-later */
/* redirect.h - writers of existing names on their way to a stage of their own.
 *
 * A committed version is never written. A thread that opens one for writing (or truncates it by path)
 * is answered ESTALE; the kernel walks the path again at once, the same thread sends one or more
 * LOOKUPs, and these are answered with a stage instead. This table remembers who is under way.
 *
 *	OPEN (to write) or SETATTR (size, no handle) of a committed inode:
 *		redirect_refuse -> answer what it returns; bank_stage_drop(*dropped) unless 0
 *	LOOKUP that found an entry, when redirect_has(tid):
 *		redirect_lookup -> REDIRECT_NONE	answer what was found
 *				-> REDIRECT_MAKE	bank_stage_begin over out->refused, redirect_bind,
 *							answer the stage. The bank says that this name is
 *							not about `refused`, or it cannot be bound (drop the
 *							stage): answer what was found
 *				-> REDIRECT_STAGE	answer out->stage
 *		with entry and attribute timeout 0 for a stage
 *	OPEN or SETATTR of a stage, whatever it will answer: redirect_end
 *	FLUSH: redirect_abandon
 *	every second or so: redirect_expire
 *
 * No call waits, none calls back with the lock held. Times: monotonic milliseconds, given by the caller.
 * `start` is client_start_time(tid), 0 when that is hidden: then the tid alone names the thread.
 */
#ifndef KV_FS_REDIRECT_H
#define KV_FS_REDIRECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bank/bank.h"

#define REDIRECTS_MAX	 65536u /* threads under way at one time */
#define REDIRECT_LIFE_MS 10000	/* a redirect ends after this, whatever became of its thread */

struct redirects;

/* The way of one thread, as told by redirect_lookup. */
struct redirect {
	uint64_t refused; /* the inode whose OPEN or SETATTR was refused */
	unsigned flags;	  /* enum bank_open_flags of that request */
	uint64_t stage;	  /* the stage made for it, 0 = not made yet */
	bool same_name;	  /* this LOOKUP is of the name that refused had, whatever it stands for by now */
};

enum redirect_answer { REDIRECT_NONE, REDIRECT_MAKE, REDIRECT_STAGE };

/* An empty table; NULL without memory. */
struct redirects *redirects_new(void);
/* Does not drop stages that are bound. NULL is fine. */
void redirects_free(struct redirects *redirects);

/* Refuses `refused` to a thread that wants to write it, and remembers `flags`. `parent` and `name` are
 * a name that refused has or just had, 0 and NULL when none is known: with it the thread finds its way
 * however often, and however long, others replace what the name stands for meanwhile.
 * A redirect that the thread had before ends; *dropped is its stage for the caller to drop, else 0.
 * Always returns an error to answer with: -ESTALE; -ETXTBSY when the same thread was refused the same
 * inode before and made no LOOKUP since (there is no path: /proc/PID/fd/N), which ends the redirect,
 * or when tid is 0; -ENFILE with REDIRECTS_MAX under way; -ENOMEM. */
int redirect_refuse(struct redirects *redirects, pid_t tid, uint64_t start, uint64_t refused, unsigned flags,
		    uint64_t parent, const char *name, int64_t now_ms, uint64_t *dropped);

/* Might thread `tid` be under way? Cheap; takes no lock while nobody is. */
bool redirect_has(struct redirects *redirects, pid_t tid);

/* Counts a LOOKUP of (parent, name), which found an entry, by thread tid, and says what it is to be
 * answered with; fills *out unless REDIRECT_NONE. Once a stage is bound, its name gets it, whatever
 * else the name stands for by now; no other name does, be it a hard link. */
enum redirect_answer redirect_lookup(struct redirects *redirects, pid_t tid, uint64_t start, uint64_t parent,
				     const char *name, int64_t now_ms, struct redirect *out);

/* Binds the stage that was made for (parent, name) to the thread's redirect. -ESTALE: the redirect is
 * no more, or has a stage already: the caller drops its stage. -ENAMETOOLONG. */
int redirect_bind(struct redirects *redirects, pid_t tid, uint64_t start, uint64_t stage, uint64_t parent,
		  const char *name);

/* Ends the redirect of thread tid if it leads to `stage`, which now belongs to the caller. Returns
 * whether it did, and then in *flags what the stage was begun with. */
bool redirect_end(struct redirects *redirects, pid_t tid, uint64_t stage, unsigned *flags);

/* A thread that closes a file is on no way any more: ends its redirect, if it has one (killed in the
 * middle of an open, it closes all its files). Returns the stage for the caller to drop, else 0. */
uint64_t redirect_abandon(struct redirects *redirects, pid_t tid);

/* What redirect_expire asks and tells. Both are called without the lock, `ctx` is handed through. */
struct redirect_upkeep {
	void *ctx;
	bool (*alive)(void *ctx, pid_t tid);
	void (*drop)(void *ctx, uint64_t stage); /* nobody will open it any more */
};
/* Ends what is older than REDIRECT_LIFE_MS and what belongs to a thread that is gone. Returns how many
 * ended. One caller at a time. */
unsigned redirect_expire(struct redirects *redirects, int64_t now_ms, const struct redirect_upkeep *upkeep);

#endif
