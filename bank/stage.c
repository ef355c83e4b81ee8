/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stage.c - puts in progress: from the first open for writing to the commit and the end of the stage.
 *
 *   begun ----open----> OPEN --flush, fsync, rename--> COMMITTED --last close--> ended (final)
 *     |                  |  ^                              |  |
 *     |drop              |  +--- write after the commit ---+  +--- dying FLUSH: taken back, dropped
 *     v                  v last close: commit, drop or vanish (verdict.h)
 *   ended              ended
 *
 * A commit shows at once: the name points at the stage's version. It is *provisional* until the last
 * writer closes: the version it replaced is kept (stage->replaced) and comes back when the writer is
 * killed or writes on. Rename and fsync make it final: then what was published stays, and a writer
 * that goes on gets a further version (an overlay) under the same open handle (stage->shell).
 *
 * Bytes are written without the bank's lock; stage->in_flight says so, and nothing is published
 * meanwhile. A refused write poisons the stage.
 *
 * Easy to forget: everything that makes room or frees bytes lets go of the lock, so after room_*,
 * stage_publish and core_wait the name, the stage's version and the session are looked at afresh. */
#include "bank/core.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "bank/verdict.h"

struct bank_writer {
	struct bank *bank;
	struct stage *stage; /* one of its opens */
	uint64_t node;	     /* id that was opened; one hold */
	bool appends;
};

/* ---- making ---- */

static void forget_counted(struct bank *b, struct stage *st)
{
	if (!st->counted)
		return;
	room_count_entry(b, st->counted, -1);
	node_unref(b, &st->counted->node);
	st->counted = NULL;
}

static void count_new_name(struct bank *b, struct stage *st, struct session *s)
{
	st->counted = s;
	node_ref(&s->node);
	room_count_entry(b, s, 1);
}

static struct version *base_of(const struct name *n)
{
	return n->node && n->node->kind == BANK_ENTRY ? to_version(n->node) : NULL;
}

static void give_content(struct bank *b, struct version *v, struct content *c, struct session *payer)
{
	v->content = c;
	DL_APPEND(b->files, c->file);
	room_set_payer(b, c->file, payer);
}

/* A stage for name n with the given empty content; its version looks like what it will replace. */
static struct stage *stage_new(struct bank *b, struct name *n, mode_t mode, const struct bank_who *who, struct content *c)
{
	struct stage *st = calloc(1, sizeof(*st));
	struct version *v = st ? version_new(b, mode & 0700, who) : NULL;

	if (!v) {
		free(st);
		return NULL;
	}
	if (base_of(n)) {
		attr_copy(&v->node, n->node);
		v->pin_until_ms = base_of(n)->pin_until_ms;
	} else {
		count_new_name(b, st, n->session);
		if (n->stages) /* one more writer of a new name: the same file to whoever looks */
			attr_copy(&v->node, &n->stages->version->node);
	}
	give_content(b, v, c, n->session);
	st->version = v;
	node_ref(&v->node);
	v->stage = st;
	st->name = n;
	st->opener = who->pid;
	st->created = !n->node;
	DL_PREPEND(n->stages, st);
	b->stages++;
	n->session->touched_ms = core_now_ms();
	return st;
}

/* Content for a new stage: empty, or an overlay of what the name shows. Consumes the file, also on error. */
static struct content *stage_content(struct ram_file *file, struct version *base)
{
	struct content *c;

	if (base)
		content_ref(base->content);
	c = content_new(file, base ? base->content : NULL);
	if (c)
		return c;
	if (base)
		base->content->refs--;
	ram_file_discard(file);
	free(file);
	return NULL;
}

static void discard_file(struct ram_file *file)
{
	if (!file)
		return;
	ram_file_discard(file);
	free(file);
}

/* A session's room for one more entry when the name is new there. May let go of the lock. */
static int admit_name(struct bank *b, struct session *s, const char *name)
{
	struct name *n;
	const char *reason = "-";
	int ret;

	n = name_find(b, s, name, &ret);
	if (!n && ret != -ENOENT)
		return ret;
	if (n && n->node)
		return n->node->kind == BANK_SESSION ? -EISDIR : 0;
	node_ref(&s->node);
	ret = room_for_entry(b, s, &reason);
	if (!ret && s->removed)
		ret = -ESTALE;
	if (ret && ret != -ESTALE) {
		int error;

		b->count.refused_entries++;
		core_event_name(b, "refuse", reason, 0, name_find(b, s, name, &error));
	}
	node_unref(b, &s->node);
	return ret;
}

/* Finds or makes the name and a stage on it. Consumes the file, also on error. */
static int stage_on_name(struct bank *b, struct session *s, const char *name, mode_t mode, unsigned flags, const struct bank_who *who,
			 struct ram_file *file, struct stage **out)
{
	struct content *c;
	struct name *n;
	int ret = admit_name(b, s, name);

	n = ret ? NULL : name_get(b, s, name, &ret);
	if (!n) {
		discard_file(file);
		return ret;
	}
	c = stage_content(file, flags & BANK_TRUNC ? NULL : base_of(n));
	*out = c ? stage_new(b, n, mode, who, c) : NULL;
	if (!*out) {
		if (c) {
			discard_file(file);
			if (c->base)
				content_unref(b, c->base);
			content_free(c);
		}
		name_drop_if_empty(b, n);
		return -ENOMEM;
	}
	(*out)->truncated = flags & BANK_TRUNC && base_of(n);
	return 0;
}

static struct bank_writer *writer_new(struct bank *b, struct stage *st, unsigned flags)
{
	struct bank_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->bank = b;
	w->stage = st;
	w->node = st->shell ? st->shell->node.id : st->version->node.id;
	w->appends = flags & BANK_APPEND;
	st->opens++;
	return w;
}

static bool name_is_taken(const struct name *n)
{
	return n && (n->node || n->stages);
}

int bank_create(struct bank *b, uint64_t parent, const char *name, mode_t mode, unsigned flags, const struct bank_who *who,
		struct bank_stat *out_st, struct bank_writer **out)
{
	struct ram_file *file;
	struct session *s;
	struct stage *st;
	int ret = ram_file_new(b->ram, &file), error;

	if (ret)
		return ret;
	core_lock(b);
	s = node_session(b, parent, &ret);
	if (s && flags & BANK_EXCL && name_is_taken(name_find(b, s, name, &error)))
		ret = -EEXIST;
	if (ret)
		discard_file(file);
	else
		ret = stage_on_name(b, s, name, mode, flags, who, file, &st);
	if (!ret) {
		*out = writer_new(b, st, flags);
		st->version->node.holds++;
		node_stat(&st->version->node, out_st);
		out_st->staged = true;
		if (!*out) {
			st->version->node.holds--;
			st->opens++;
			stage_close(b, st);
			ret = -ENOMEM;
		}
	}
	core_unlock(b);
	return ret;
}

int bank_make_empty(struct bank *b, uint64_t parent, const char *name, mode_t mode, const struct bank_who *who, struct bank_stat *out)
{
	struct bank_writer *w;
	int ret = bank_create(b, parent, name, mode, BANK_EXCL, who, out, &w);

	if (ret)
		return ret;
	core_lock(b);
	ret = stage_publish(b, w->stage);
	node_stat(&w->stage->version->node, out);
	core_unlock(b);
	bank_write_close(w);
	if (ret)
		bank_forget(b, out->id, 1);
	return ret;
}

/* Does the name still stand for `refused`, or did it when that was refused? */
static bool is_about(const struct bank *b, const struct name *n, uint64_t refused)
{
	const struct stage *st;

	if (n->node && n->node->kind != BANK_ENTRY)
		return false;
	if ((n->node && n->node->id == refused) || name_stood_for(b, n, refused))
		return true;
	DL_FOREACH(n->stages, st)
		if (st->version->node.id == refused || (st->shell && st->shell->node.id == refused))
			return true;
	return false;
}

int bank_stage_begin(struct bank *b, uint64_t parent, const char *name, uint64_t refused, unsigned flags, const struct bank_who *who,
		     struct bank_stat *out)
{
	struct ram_file *file;
	struct session *s;
	struct name *n;
	struct stage *st;
	int ret = ram_file_new(b->ram, &file);

	if (ret)
		return ret;
	core_lock(b);
	s = node_session(b, parent, &ret);
	n = s ? name_find(b, s, name, &ret) : NULL;
	if (n && !is_about(b, n, refused))
		ret = -ESTALE;
	if (ret)
		discard_file(file);
	else
		ret = stage_on_name(b, s, name, 0600, flags, who, file, &st);
	if (!ret) {
		st->begun = true;
		st->version->node.holds++;
		node_stat(&st->version->node, out);
		out->staged = true;
	}
	core_unlock(b);
	return ret;
}

int bank_stages(struct bank *b, uint64_t parent, const char *name, struct bank_stage_info out[BANK_STAGES_SHOWN])
{
	struct session *s;
	struct name *n;
	struct stage *st;
	int ret = 0, count = 0;

	core_lock(b);
	s = node_session(b, parent, &ret);
	n = s ? name_find(b, s, name, &ret) : NULL;
	if (n)
		DL_FOREACH(n->stages, st)
			if (!st->committed && !st->begun && !st->ending && count < (int)BANK_STAGES_SHOWN)
				out[count++] = (struct bank_stage_info){ (st->shell ? st->shell : st->version)->node.id, st->opener };
	core_unlock(b);
	return count;
}

int bank_write_open(struct bank *b, uint64_t id, unsigned flags, const struct bank_who *who, struct bank_writer **out)
{
	struct version *v;
	struct stage *st;
	int ret = -ESTALE;

	core_lock(b);
	v = node_version(b, id);
	st = v ? v->stage : NULL;
	if (!st || st->ending || st->committed || (flags & BANK_TRUNC && !st->begun))
		goto unlock;
	*out = writer_new(b, st, flags);
	ret = *out ? 0 : -ENOMEM;
	if (ret)
		goto unlock;
	if (st->begun)
		st->opener = who->pid;
	st->begun = false;
unlock:
	core_unlock(b);
	return ret;
}

void bank_stage_drop(struct bank *b, uint64_t id)
{
	struct version *v;

	core_lock(b);
	v = node_version(b, id);
	if (v && v->stage && v->stage->begun) {
		v->stage->begun = false;
		v->stage->truncated = false;
		v->stage->created = false;
		v->stage->opens++;
		stage_close(b, v->stage);
	}
	core_unlock(b);
}

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
	struct version *v = st->version, *old = base_of(st->name);
	struct name *n = st->name;

	if (old) {
		version_keep(old);
		st->replaced = old;
	}
	forget_counted(b, st);
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
			count_new_name(b, st, s);
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
static void take_back(struct bank *b, struct stage *st)
{
	struct version *v = st->version, *replaced;
	struct name *n = st->name;

	if (n && n->node == &v->node) {
		struct node *old = name_point(b, n, st->replaced ? &st->replaced->node : NULL);

		node_unref(b, old);
		if (!n->node)
			count_new_name(b, st, n->session);
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
static bool can_take_back(const struct stage *st)
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
		forget_counted(b, st);
	}
}

/* ---- writing ---- */

static void poison(struct bank *b, struct stage *st, int error, const char *reason)
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

static void release_version(struct bank *b, struct version *v);

/* A further version for a stage whose last one must stay as it is. */
static int next_version(struct bank *b, struct stage *st, struct content *c)
{
	struct bank_who who = { .pid = st->opener };
	struct version *old = st->version, *v = version_new(b, 0600, &who);
	struct session *payer = old->content->file->payer;

	if (!v)
		return -ENOMEM;
	attr_copy(&v->node, &old->node);
	give_content(b, v, c, payer);
	node_ref(&v->node);
	v->stage = st;
	st->version = v;
	if (!st->shell) {
		st->shell = old; /* keeps its reference and old->stage */
	} else {
		release_version(b, old);
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
	if (can_take_back(st)) {
		take_back(b, st);
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
		discard_file(file);
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
			poison(b, st, ret, "tier_error");
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
		poison(b, st, ret, reason);
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
		poison(b, st, ret, "tier_error");
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
	if (st->committed && can_take_back(st))
		take_back(b, st);
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
		poison(b, st, ret, "commit_failed");
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

static void release_version(struct bank *b, struct version *v)
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
		name_remember(b, n, st->version->node.id);
		DL_DELETE(n->stages, st);
	}
	forget_counted(b, st);
	if (st->replaced)
		stage_make_final(b, st);
	release_version(b, st->version);
	if (st->shell)
		release_version(b, st->shell);
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
