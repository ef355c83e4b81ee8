/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stage.h - what stage.c (making and opening), put.c (writing) and commit.c (publishing, closing) share.
 *
 * All with the bank's lock. */
#ifndef KV_BANK_STAGE_H
#define KV_BANK_STAGE_H

#include "bank/core.h"

struct bank_writer {
	struct bank *bank;
	struct stage *stage; /* one of its opens */
	uint64_t node;	     /* id that was opened; one hold */
	bool appends;
};

/* A new name counts as an entry in a session from its first stage on; and no more. */
void stage_count_new_name(struct bank *b, struct stage *st, struct session *s);
void stage_forget_counted(struct bank *b, struct stage *st);
/* The version that a name shows, NULL when none. Borrowed. */
struct version *stage_base_of(const struct name *n);
/* Content for a new stage: empty, or an overlay of base's. Consumes the file, also on error (NULL). */
struct content *stage_content(struct ram_file *file, struct version *base);
/* The version takes the content; the session pays for it. */
void stage_give_content(struct bank *b, struct version *v, struct content *c, struct session *payer);
/* A file that nothing uses yet. NULL is fine. */
void stage_discard_file(struct ram_file *file);
/* The first refusal is remembered, counted and told; every close will answer it. */
void stage_poison(struct bank *b, struct stage *st, int error, const char *reason);
/* The commit is undone: the name shows what it showed before, the version is a stage again. */
void stage_take_back(struct bank *b, struct stage *st);
bool stage_can_take_back(const struct stage *st);
/* The stage is done with a version: what was published lives on by itself, anything else ends. */
void stage_release_version(struct bank *b, struct version *v);

#endif
