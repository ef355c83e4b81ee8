/* SPDX-License-Identifier: GPL-2.0-or-later */
/* put.c - writing to a stage: the bytes, the room for them, and what happens when there is none.
 *
 * Each change runs in three steps: begin_change pins the content and counts itself in stage->in_flight
 * (nothing is published meanwhile); charge_change makes room; then the bytes move without the bank's lock,
 * under the content's own. A refusal poisons the stage: every close will say so.
 *
 * Writing after a commit reopens the stage: the commit is taken back, or, where it is final or somebody reads
 * what was published, a further version is begun on top of it.
 *
 * Easy to forget: a chain of such versions (write, fsync, write, fsync, ...) is folded as it grows. */
#include "bank/core.h"

#include <errno.h>

#include "bank/stage.h"

void stage_poison(struct bank *b, struct stage *st, int error, const char *reason)
{
	if (st->poison)
		return;
	st->poison = error;
	b->count.refused_entries++;
	core_event_name(b, "refuse", reason, version_bytes(st->version), st->name);
}

/* Somebody may still look at the bytes that were published. */
static bool is_being_read(const struct version *v)
{
	return v->readers || v->content->refs > 1 || v->content->file->shown;
}

/* A further version for a stage whose last one must stay as it is. */
static int next_version(struct bank *b, struct stage *st, struct content *c)
{
	struct bank_who who = { .pid = st->opener };
	struct version *old = st->version, *v = version_new(b, 0600, &who);
	struct session *payer = old->content->file->payer;

	if (!v)
		return -ENOMEM;
	attr_copy(&v->node, &old->node);
	stage_give_content(b, v, c, payer);
	node_ref(&v->node);
	v->stage = st;
	st->version = v;
	if (!st->shell) {
		st->shell = old; /* keeps its reference and old->stage */
	} else {
		stage_release_version(b, old);
	}
	return 0;
}

/* Writing after a commit. The lock may be let go of. */
static int reopen(struct bank *b, struct stage *st)
{
	struct ram_file *file;
	struct content *c;
	int ret;

	st->reopened = true;
	if (stage_can_take_back(st)) {
		stage_take_back(b, st);
		if (!is_being_read(st->version))
			return 0;
	}
	upkeep_fold(b, st->version);
	if (content_depth(st->version->content) >= CONTENT_DEPTH_MAX)
		return -ENOSPC;
	ret = ram_file_new(b->ram, &file);
	if (ret)
		return ret;
	c = stage_content(file, st->version);
	ret = c ? next_version(b, st, c) : -ENOMEM;
	if (ret && c) {
		stage_discard_file(file);
		content_unref(b, c->base);
		content_free(c);
	}
	if (ret)
		return ret;
	if (st->replaced) /* linked elsewhere: what was published stays */
		stage_make_final(b, st);
	st->final = false;
	st->committed = false;
	st->written = st->truncated = false;
	return 0;
}

static void remember_writer(struct stage *st, pid_t pid)
{
	for (unsigned i = 0; i < STAGE_WRITERS && pid; i++) {
		if (st->writers[i] == pid)
			return;
		if (st->writers[i])
			continue;
		st->writers[i] = pid;
		return;
	}
}

/* Begins a change of the bytes: the content, referenced and exclusively locked, and in_flight. */
static int begin_change(struct bank_writer *w, struct content **out)
{
	struct bank *b = w->bank;
	struct stage *st = w->stage;
	int ret;

	core_lock(b);
	ret = st->poison;
	if (!ret && st->committed) {
		ret = reopen(b, st);
		if (ret)
			stage_poison(b, st, ret, "tier_error");
	}
	if (!ret) {
		st->in_flight++;
		*out = st->version->content;
		content_ref(*out);
	}
	core_unlock(b);
	if (!ret)
		pthread_rwlock_wrlock(&(*out)->lock);
	return ret;
}

/* Charges c for what it will hold. Content's lock held. */
static int charge_change(struct bank *b, struct stage *st, struct content *c, uint64_t total_bytes)
{
	uint64_t below = 0;
	const char *reason = "-";
	int ret;

	core_lock(b);
	for (const struct content *base = c->base; base; base = base->base)
		below += base->file->charged_bytes;
	ret = room_charge(b, c->file, total_bytes, total_bytes + below, &reason);
	if (ret)
		stage_poison(b, st, ret, reason);
	core_unlock(b);
	return ret;
}

/* Ends a change; an error of the tier itself poisons, too. */
static void end_change(struct bank_writer *w, struct content *c, int ret, uint64_t bytes, pid_t pid)
{
	struct bank *b = w->bank;
	struct stage *st = w->stage;

	pthread_rwlock_unlock(&c->lock);
	core_lock(b);
	if (ret)
		stage_poison(b, st, ret, "tier_error");
	else
		st->written = true;
	if (!ret)
		st->dying = false; /* somebody goes on with what a killed writer began */
	st->version->mtime_set = false; /* times set before this write are history */
	st->closing = false;
	remember_writer(st, pid);
	b->count.written_bytes += ret ? 0 : bytes;
	st->in_flight--;
	pthread_cond_broadcast(&b->changed);
	content_unref(b, c);
	core_unlock(b);
}

int bank_write(struct bank_writer *w, const void *buf, size_t len, uint64_t off, pid_t pid)
{
	struct content *c;
	int ret = begin_change(w, &c);

	if (ret)
		return ret;
	if (w->appends)
		off = c->size_bytes;
	if (off > INT64_MAX - len)
		ret = -EFBIG;
	if (!ret)
		ret = charge_change(w->bank, w->stage, c, content_charge(c, off, len));
	if (!ret)
		ret = content_write(c, buf, len, off);
	end_change(w, c, ret, len, pid);
	return ret;
}

int bank_writer_truncate(struct bank_writer *w, uint64_t size_bytes)
{
	struct content *c;
	int ret = begin_change(w, &c);

	if (ret)
		return ret;
	if (size_bytes > INT64_MAX)
		ret = -EFBIG;
	if (!ret)
		ret = charge_change(w->bank, w->stage, c, content_charge_size(c, size_bytes, c->reserved_bytes));
	if (!ret)
		ret = content_truncate(c, size_bytes);
	if (!ret) {
		core_lock(w->bank);
		room_uncharge(w->bank, c->file, content_holds(c));
		core_unlock(w->bank);
	}
	end_change(w, c, ret, 0, 0);
	return ret;
}

int bank_writer_reserve(struct bank_writer *w, uint64_t off, uint64_t len, bool grow)
{
	struct content *c;
	uint64_t end = off + len;
	int ret = begin_change(w, &c);

	if (ret)
		return ret;
	if (off > INT64_MAX || len > INT64_MAX - off)
		ret = -EFBIG;
	if (!ret)
		ret = charge_change(w->bank, w->stage, c, content_charge_size(c, c->size_bytes, end > c->reserved_bytes ? end : c->reserved_bytes));
	if (!ret && end > c->reserved_bytes)
		c->reserved_bytes = end;
	if (!ret && grow && end > c->size_bytes)
		ret = content_truncate(c, end);
	end_change(w, c, ret, 0, 0);
	return ret;
}

ssize_t bank_writer_read(struct bank_writer *w, void *buf, size_t len, uint64_t off)
{
	struct content *c;
	ssize_t n;

	core_lock(w->bank);
	c = w->stage->version->content;
	content_ref(c);
	core_unlock(w->bank);
	n = content_read(c, buf, len, off);
	core_lock(w->bank);
	content_unref(w->bank, c);
	core_unlock(w->bank);
	return n;
}

uint64_t bank_writer_node(const struct bank_writer *w)
{
	return w->node;
}

bool bank_writer_appends(const struct bank_writer *w)
{
	return w->appends;
}

void bank_writer_who(const struct bank_writer *w, pid_t *opener)
{
	core_lock(w->bank);
	*opener = w->stage->opener;
	core_unlock(w->bank);
}
