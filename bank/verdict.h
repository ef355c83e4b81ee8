/* SPDX-License-Identifier: GPL-2.0-or-later */
/* verdict.h - what the close of a descriptor means for a stage: pure decisions.
 *
 * FLUSH is not "last close": shells dup2 and close, every fork + exec closes inherited descriptors, a
 * killed process closes all of its own. RELEASE is, but its answer reaches nobody. So FLUSH commits
 * when it is sure, and RELEASE decides what is left.
 */
#ifndef KV_BANK_VERDICT_H
#define KV_BANK_VERDICT_H

#include <stdbool.h>

enum verdict {
	VERDICT_NOTHING, /* not this stage's business, or committed already */
	VERDICT_EARLY,	 /* may still be written: RELEASE decides */
	VERDICT_COMMIT,
	VERDICT_DROP,	/* the writer was killed */
	VERDICT_REFUSE, /* a write failed before: tell so, every time */
};

struct verdict_flush {
	bool dying;	/* the closing process dies of a signal */
	bool is_writer; /* it opened the stage, or wrote to it, or nobody else can have */
	bool held;	/* it or the opener still has the stage open */
	bool busy;	/* a write is going on */
	bool committed; /* nothing new since the last commit */
	bool written;
	bool poisoned;
	bool killed; /* a writer was, and nobody has written since */
};
enum verdict verdict_flush(const struct verdict_flush *facts);

struct verdict_release {
	bool dying, poisoned, flushed, committed;
	bool changed; /* created, truncated or written */
};
/* VERDICT_NOTHING: an unchanged stage vanishes silently. *reason: why it is dropped, static text. */
enum verdict verdict_release(const struct verdict_release *facts, const char **reason);

#endif
