/* SPDX-License-Identifier: GPL-2.0-or-later */
/* commit.c - the name shows what was written, or not: publishing, taking back, closing.
 *
 * FLUSH and RELEASE are judged in verdict.c from what the caller found out; here their verdicts are carried
 * out. A commit is provisional until the stage ends or stage_make_final: st->replaced keeps what it replaced.
 *
 * Easy to forget: stage_publish waits for writes in flight and makes room, so it lets go of the lock; the
 * caller must have the stage open, and whatever it knew of names and sessions is old afterwards. */
#include "bank/core.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "bank/stage.h"
#include "bank/verdict.h"

/* ---- publishing and taking back ---- */

void stage_make_final(struct bank *b, struct stage *st)
{
	struct version *replaced = st->replaced;

	st->final = true;
	st->replaced = NULL;
	if (replaced)
		version_let_go(b, replaced);
}

/* Waits for writes that go on and makes the bytes fit for readers. Lock held, let go of meanwhile. */
static int settle_bytes(struct bank *b, struct stage *st)
{
	for (;;) {
		struct content *c = st->version->content;
		int ret;

		if (st->in_flight) {
			core_wait(b, &b->changed, -1);
			continue;
		}
		if (!c->sparse && !c->reserved_bytes) {
			room_uncharge(b, c->file, content_holds(c));
			return 0;
		}
		content_ref(c);
		st->in_flight++; /* a write that comes now waits for nothing, but the loop goes round again */
		core_unlock(b);
		ret = content_finish(c);
		core_lock(b);
		st->in_flight--;
		pthread_cond_broadcast(&b->changed);
		content_unref(b, c);
		if (ret)
			return ret;
	}
}

/* The name shows the stage's version now. */
static void show_version(struct bank *b, struct stage *st)
{
	struct version *v = st->version, *old = stage_base_of(st->name);
	struct name *n = st->name;

	if (old) {
		version_keep(old);
		st->replaced = old;
	}
	stage_forget_counted(b, st);
	name_let_go(b, name_point(b, n, &v->node));
	v->state = VERSION_COMMITTED;
	st->committed = true;
	v->node.ctime = core_now();
	if (!v->mtime_set)
		v->node.mtime = v->node.ctime;
	attr_inherit_identity(b, v, n->session);
	n->session->touched_ms = core_now_ms();
	if (!st->created || st->reopened) /* else the kernel has this very node, uncached */
		name_tell(b, n);
	b->count.put_entries++;
	b->count.put_bytes += v->content->size_bytes;
	core_event_version(b, "put", "-", v);
}

int stage_publish(struct bank *b, struct stage *st)
{
	const char *reason = "-";
	int ret;

	ret = st->poison ? st->poison : settle_bytes(b, st);
	while (!ret && st->name && !st->name->node && !st->counted && !st->committed) {
		struct session *s = st->name->session;

		node_ref(&s->node);
		ret = room_for_entry(b, s, &reason);
		if (!ret && st->name && st->name->session == s && !st->name->node)
			stage_count_new_name(b, st, s);
		node_unref(b, &s->node);
		if (!ret)
			ret = settle_bytes(b, st);
	}
	if (ret || st->committed)
		return ret;
	if (st->name)
		show_version(b, st);
	else
		st->committed = true; /* unlinked: the bytes go nowhere, as POSIX has it */
	return 0;
}

/* Another stage replaced what this one had published: what this one replaced is what that would bring back. */
static void hand_on_replaced(struct stage *st)
{
	struct stage *other;

	DL_FOREACH(st->name->stages, other) {
		if (other->replaced != st->version)
			continue;
		other->replaced = st->replaced;
		st->replaced = st->version; /* the caller lets go of this keep instead */
		return;
	}
}

/* The commit is undone: the name shows what it showed before. The version is a stage again. */
void stage_take_back(struct bank *b, struct stage *st)
{
	struct version *v = st->version, *replaced;
	struct name *n = st->name;

	if (n && n->node == &v->node) {
		struct node *old = name_point(b, n, st->replaced ? &st->replaced->node : NULL);

		node_unref(b, old);
		if (!n->node)
			stage_count_new_name(b, st, n->session);
		name_tell(b, n);
	} else if (n) {
		hand_on_replaced(st);
	}
	v->state = VERSION_STAGED;
	v->hash_epoch++;
	v->settled = false;
	v->opened = false;
	settle_cancel(b, v);
	st->committed = false;
	replaced = st->replaced;
	st->replaced = NULL;
	if (replaced)
		version_let_go(b, replaced);
}

/* Hard links were made to what was published, or other things happened that cannot be undone. */
bool stage_can_take_back(const struct stage *st)
{
	const struct name *n;

	if (st->final)
		return false;
	for (n = st->version->names; n; n = n->next)
		if (n != st->name)
			return false;
	return true;
}

void stage_orphan_all(struct bank *b, struct name *n)
{
	struct stage *st, *next;

	DL_FOREACH_SAFE(n->stages, st, next) {
		if (st->committed)
			stage_make_final(b, st);
		DL_DELETE(n->stages, st);
		st->name = NULL;
		stage_forget_counted(b, st);
	}
}

/* ---- closing ---- */

static bool is_writer(const struct stage *st, const struct bank_closer *closer)
{
	if (closer->pid == st->opener)
		return true;
	for (unsigned i = 0; i < STAGE_WRITERS; i++)
		if (st->writers[i] && st->writers[i] == closer->pid)
			return true;
	return closer->opener_gone && !st->writers[0];
}

static void flush_dying(struct bank *b, struct stage *st)
{
	if (st->committed && stage_can_take_back(st))
		stage_take_back(b, st);
	if (!st->committed)
		st->dying = true;
}

static int flush_commit(struct bank *b, struct stage *st)
{
	struct version *v;
	int ret;

	st->flushed = true;
	ret = stage_publish(b, st);
	if (ret) {
		stage_poison(b, st, ret, "commit_failed");
		return ret;
	}
	v = st->version;
	if (b->cfg.settle == BANK_SETTLE_EAGER && st->name) {
		settle_enqueue(b, v);
		node_ref(&v->node);
		settle_wait(b, v);
		node_unref(b, &v->node);
	}
	return 0;
}

int bank_flush(struct bank_writer *w, const struct bank_closer *closer)
{
	struct bank *b = w->bank;
	struct stage *st = w->stage;
	struct verdict_flush facts;
	int ret = 0;

	core_lock(b);
	facts = (struct verdict_flush){
		.dying = closer->dying,
		.is_writer = is_writer(st, closer),
		.held = closer->held,
		.busy = st->in_flight > 0,
		.committed = st->committed,
		.written = st->written,
		.poisoned = st->poison != 0,
		.killed = st->dying,
	};
	switch (verdict_flush(&facts)) {
	case VERDICT_DROP:
		flush_dying(b, st);
		break;
	case VERDICT_REFUSE:
		ret = st->poison;
		break;
	case VERDICT_COMMIT:
		ret = flush_commit(b, st);
		break;
	case VERDICT_EARLY:
		st->flushed = true;
		st->closing = !closer->held;
		st->flushed_ms = core_now_ms();
		break;
	case VERDICT_NOTHING:
		break;
	}
	core_unlock(b);
	return ret;
}

int bank_fsync(struct bank_writer *w)
{
	struct bank *b = w->bank;
	struct stage *st = w->stage;
	int ret;

	core_lock(b);
	ret = st->poison;
	if (!ret && (st->created || st->truncated || st->written)) {
		ret = stage_publish(b, st);
		if (!ret)
			stage_make_final(b, st);
	}
	core_unlock(b);
	return ret;
}

/* What was published lives on by itself. */
static void version_becomes_final(struct bank *b, struct version *v)
{
	if (v->state != VERSION_COMMITTED || v->listed)
		return;
	DL_APPEND(b->lru, v);
	v->listed = true;
	version_touch(b, v);
	if (b->cfg.settle != BANK_SETTLE_OFF)
		settle_enqueue(b, v);
	if (!content_is_plain(v->content))
		upkeep_overlay(b, v);
}

void stage_release_version(struct bank *b, struct version *v)
{
	v->stage = NULL;
	version_becomes_final(b, v);
	version_end_if_gone(b, v);
	node_unref(b, &v->node);
}

/* Everything that a stage has is given back; what it committed stays. */
static void stage_free(struct bank *b, struct stage *st)
{
	struct name *n = st->name;

	if (n) {
		name_remember(b, n, st->version);
		DL_DELETE(n->stages, st);
	}
	stage_forget_counted(b, st);
	if (st->replaced)
		stage_make_final(b, st);
	stage_release_version(b, st->version);
	if (st->shell)
		stage_release_version(b, st->shell);
	if (n && !n->node && !n->stages) {
		name_tell(b, n);
		name_drop_if_empty(b, n);
	}
	b->stages--;
	free(st);
	pthread_cond_broadcast(&b->changed);
}

static enum verdict decide_release(const struct stage *st, const char **reason)
{
	struct verdict_release facts = {
		.dying = st->dying,
		.poisoned = st->poison != 0,
		.flushed = st->flushed,
		.committed = st->committed,
		.changed = st->created || st->truncated || st->written,
	};

	return verdict_release(&facts, reason);
}

/* No writer is left, so the descriptor of the file can rest. Lock held, let go of meanwhile. */
static void rest_bytes(struct bank *b, struct stage *st)
{
	struct content *c = st->version->content;

	content_ref(c);
	core_unlock(b);
	for (struct content *part = c; part; part = part->base) /* also what was published before */
		content_rest(part);
	core_lock(b);
	content_unref(b, c);
}

void stage_close(struct bank *b, struct stage *st)
{
	const char *reason;
	enum verdict verdict;

	if (--st->opens || st->begun || st->ending)
		return;
	st->ending = true;
	verdict = decide_release(st, &reason);
	if (verdict == VERDICT_COMMIT && stage_publish(b, st)) {
		verdict = VERDICT_DROP;
		reason = "commit_failed";
	}
	if (verdict == VERDICT_DROP && st->name) {
		b->count.dropped_entries++;
		core_event_name(b, "drop", reason, version_bytes(st->version), st->name);
	}
	rest_bytes(b, st);
	stage_free(b, st);
}

void bank_write_close(struct bank_writer *w)
{
	struct bank *b = w->bank;

	core_lock(b);
	stage_close(b, w->stage);
	core_unlock(b);
	free(w);
}

int bank_truncate_commit(struct bank *b, uint64_t id, uint64_t size_bytes, struct bank_stat *out)
{
	struct bank_who nobody = { 0 };
	struct bank_writer *w;
	int ret = bank_write_open(b, id, BANK_WRITE, &nobody, &w);

	if (ret)
		return ret;
	ret = bank_writer_truncate(w, size_bytes);
	if (!ret) {
		core_lock(b);
		w->stage->flushed = true;
		ret = stage_publish(b, w->stage);
		node_stat(&w->stage->version->node, out);
		core_unlock(b);
	}
	bank_write_close(w);
	return ret;
}
