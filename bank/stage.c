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
 * This file makes and opens stages; put.c writes them, commit.c publishes and ends them.
 *
 * Easy to forget: everything that makes room or frees bytes lets go of the lock, so after room_*,
 * stage_publish and core_wait the name, the stage's version and the session are looked at afresh. */
#include "bank/core.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "bank/stage.h"

/* ---- making ---- */

void stage_forget_counted(struct bank *b, struct stage *st)
{
	if (!st->counted)
		return;
	room_count_entry(b, st->counted, -1);
	node_unref(b, &st->counted->node);
	st->counted = NULL;
}

void stage_count_new_name(struct bank *b, struct stage *st, struct session *s)
{
	st->counted = s;
	node_ref(&s->node);
	room_count_entry(b, s, 1);
}

struct version *stage_base_of(const struct name *n)
{
	return n->node && n->node->kind == BANK_ENTRY ? to_version(n->node) : NULL;
}

void stage_give_content(struct bank *b, struct version *v, struct content *c, struct session *payer)
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
	if (stage_base_of(n)) {
		attr_copy(&v->node, n->node);
		v->pin_until_ms = stage_base_of(n)->pin_until_ms;
	} else {
		stage_count_new_name(b, st, n->session);
		if (n->stages) /* one more writer of a new name: the same file to whoever looks */
			attr_copy(&v->node, &n->stages->version->node);
	}
	stage_give_content(b, v, c, n->session);
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
struct content *stage_content(struct ram_file *file, struct version *base)
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

void stage_discard_file(struct ram_file *file)
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
		stage_discard_file(file);
		return ret;
	}
	c = stage_content(file, flags & BANK_TRUNC ? NULL : stage_base_of(n));
	*out = c ? stage_new(b, n, mode, who, c) : NULL;
	if (!*out) {
		if (c) {
			stage_discard_file(file);
			if (c->base)
				content_unref(b, c->base);
			content_free(c);
		}
		name_drop_if_empty(b, n);
		return -ENOMEM;
	}
	(*out)->truncated = flags & BANK_TRUNC && stage_base_of(n);
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
		stage_discard_file(file);
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
	if (refused == BANK_ANY_VERSION)
		return true;
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
		stage_discard_file(file);
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
