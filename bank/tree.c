/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tree.c - sessions and names: finding, making, moving and ending them.
 *
 * All names are in one hash table, keyed by session id and bytes, and in their session's list in the
 * order they were made (dir.c walks it). A name exists while a node or a stage has it.
 *
 * name_point is the one place where a name changes what it stands for: link lists, entry counts and
 * who pays for the bytes all follow from it. The oldest name's session is charged.
 *
 * Names are bytes: they are compared with memcmp, never become paths, and are escaped when shown. */
#include "bank/core.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- names ---- */

static int make_key(const struct session *s, const char *bytes, char key[KEY_MAX + 1], size_t *len)
{
	size_t name_len = strnlen(bytes, BANK_NAME_MAX + 1);

	if (name_len > BANK_NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(key, &s->node.id, sizeof(uint64_t));
	memcpy(key + sizeof(uint64_t), bytes, name_len + 1);
	*len = sizeof(uint64_t) + name_len;
	return 0;
}

struct name *name_find(struct bank *b, const struct session *s, const char *bytes, int *error)
{
	char key[KEY_MAX + 1];
	struct name *n = NULL;
	size_t len = 0;

	*error = make_key(s, bytes, key, &len);
	if (*error)
		return NULL;
	HASH_FIND(hh, b->names, key, len, n);
	if (!n)
		*error = -ENOENT;
	return n;
}

struct name *name_get(struct bank *b, struct session *s, const char *bytes, int *error)
{
	struct name *n = name_find(b, s, bytes, error);
	char key[KEY_MAX + 1];
	size_t len = 0;

	if (n || *error != -ENOENT)
		return n;
	make_key(s, bytes, key, &len);
	n = calloc(1, sizeof(*n) + len + 1);
	*error = n ? 0 : -ENOMEM;
	if (!n)
		return NULL;
	memcpy(n->key, key, len + 1);
	n->len = len;
	n->session = s;
	n->link.cookie = ++s->next_cookie;
	DL_APPEND(s->names, &n->link);
	s->names_count++;
	node_ref(&s->node);
	HASH_ADD_KEYPTR(hh, b->names, n->key, n->len, n);
	return n;
}

bool name_drop_if_empty(struct bank *b, struct name *n)
{
	if (n->node || n->stages)
		return false;
	HASH_DEL(b->names, n);
	DL_DELETE(n->session->names, &n->link);
	n->session->names_count--;
	n->session->node.mtime = n->session->node.ctime = core_now();
	node_unref(b, &n->session->node);
	free(n);
	return true;
}

void name_tell(struct bank *b, const struct name *n)
{
	if (b->hooks.name_changed)
		b->hooks.name_changed(b->hooks.ctx, n->session->node.id, name_text(n));
}

static void fill_former(struct former_name *former, const struct name *n, uint64_t id)
{
	former->id = id;
	former->parent = n->session->node.id;
	strcpy(former->name, name_text(n)); /* names are at most BANK_NAME_MAX long */
}

void name_remember(struct bank *b, const struct name *n, struct version *v)
{
	fill_former(&b->former[b->former_at++ % FORMER_NAMES], n, v->node.id);
	if (!v->last_name)
		v->last_name = malloc(sizeof(*v->last_name));
	if (v->last_name) /* without memory a writer on its way may get an ESTALE */
		fill_former(v->last_name, n, v->node.id);
}

bool name_stood_for(const struct bank *b, const struct name *n, uint64_t id)
{
	for (unsigned i = 0; i < FORMER_NAMES; i++)
		if (b->former[i].id == id && b->former[i].parent == n->session->node.id && !strcmp(b->former[i].name, name_text(n)))
			return true;
	return false;
}

/* Count and charges follow the oldest name; without any name the bytes stay where they were. */
static void version_follow_names(struct bank *b, struct version *v)
{
	struct session *s = v->names ? v->names->session : NULL;

	if (v->counted != s) {
		if (v->counted) {
			room_count_entry(b, v->counted, -1);
			node_unref(b, &v->counted->node);
		}
		v->counted = s;
		if (s) {
			room_count_entry(b, s, 1);
			node_ref(&s->node);
		}
	}
	for (struct content *c = s ? v->content : NULL; c; c = c->base) {
		room_set_payer(b, c->file, s);
		if (c->base && c->base->refs > 1)
			break;
	}
}

struct node *name_point(struct bank *b, struct name *n, struct node *node)
{
	struct node *old = n->node;

	if (old && old->kind == BANK_ENTRY) {
		name_remember(b, n, to_version(old));
		DL_DELETE(to_version(old)->names, n);
		version_follow_names(b, to_version(old));
	}
	n->node = node;
	if (node)
		node_ref(node);
	if (node && node->kind == BANK_ENTRY) {
		DL_APPEND(to_version(node)->names, n);
		version_follow_names(b, to_version(node));
	}
	n->session->node.mtime = n->session->node.ctime = core_now();
	return old;
}

/* The old node of a name after name_point: ends it when it has no other name. */
void name_let_go(struct bank *b, struct node *old)
{
	if (!old)
		return;
	old->ctime = core_now();
	if (old->kind == BANK_ENTRY) {
		struct version *v = to_version(old);

		if (b->hooks.attr_changed)
			b->hooks.attr_changed(b->hooks.ctx, old->id);
		version_end_if_gone(b, v);
	}
	node_unref(b, old);
}

/* ---- paths ---- */

static int put_escaped(char *at, size_t room, const char *bytes)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t len = 0;

	for (const unsigned char *p = (const unsigned char *)bytes; *p; p++) {
		bool escape = *p < 0x21 || *p == 0x7f || *p == '%';

		if (len + 4 > room)
			return -ERANGE;
		if (escape) {
			at[len++] = '%';
			at[len++] = digits[*p >> 4];
			at[len++] = digits[*p & 15];
		} else {
			at[len++] = (char)*p;
		}
	}
	at[len] = 0;
	return (int)len;
}

/* From the last component backwards, then moved to the front: sessions may be nested deeper than a
 * recursion could go. */
int name_path(const struct name *n, char *buf, size_t cap)
{
	char part[3 * BANK_NAME_MAX + 4];
	size_t start = cap;

	if (!cap)
		return -ERANGE;
	buf[--start] = 0;
	for (; n; n = n->session->name) {
		size_t len = (size_t)put_escaped(part, sizeof(part), name_text(n));
		bool slash = buf[start] != 0;

		if (start < len + slash)
			return -ERANGE;
		if (slash)
			buf[--start] = '/';
		start -= len;
		memcpy(buf + start, part, len);
	}
	memmove(buf, buf + start, cap - start);
	return (int)(cap - start - 1);
}

void name_path_end(const struct name *n, char *buf, size_t cap)
{
	static const char cut[] = ".../";

	memcpy(buf, cut, sizeof(cut));
	put_escaped(buf + sizeof(cut) - 1, cap - sizeof(cut), name_text(n));
}

int bank_path(struct bank *b, uint64_t id, char *buf, size_t cap)
{
	struct node *n;
	struct name *name = NULL;
	int ret = -ESTALE;

	core_lock(b);
	n = node_find(b, id);
	if (n)
		name = n->kind == BANK_SESSION ? to_session(n)->name : to_version(n)->names;
	if (name)
		ret = name_path(name, buf, cap);
	else if (n == &b->root->node && cap) {
		buf[0] = 0;
		ret = 0;
	}
	core_unlock(b);
	return ret < 0 ? ret : 0;
}

int bank_name_of(struct bank *b, uint64_t id, uint64_t *parent, char name[BANK_NAME_MAX + 1])
{
	const struct former_name *former = NULL;
	const struct name *n = NULL;
	struct node *node;

	core_lock(b);
	node = node_find(b, id);
	if (node && node->kind == BANK_SESSION)
		n = to_session(node)->name;
	else if (node)
		n = to_version(node)->names ? to_version(node)->names : to_version(node)->stage ? to_version(node)->stage->name : NULL;
	if (n) {
		*parent = n->session->node.id;
		strcpy(name, name_text(n)); /* names are at most BANK_NAME_MAX long */
	} else {
		former = node && node->kind == BANK_ENTRY ? to_version(node)->last_name : NULL;
	}
	if (former) {
		*parent = former->parent;
		strcpy(name, former->name);
	}
	core_unlock(b);
	return n || former ? 0 : -ENOENT;
}

/* ---- finding ---- */

/* A stage whose last descriptor was just closed, nothing written: its RELEASE says in a moment
 * whether it is the name's next version. */
static bool about_to_end(const struct name *n, int64_t now_ms)
{
	const struct stage *st;

	DL_FOREACH(n->stages, st)
		if (st->closing && !st->committed && now_ms - st->flushed_ms < LOOKUP_WAIT_MS)
			return true;
	return false;
}

/* The newest stage that is not committed. */
static struct stage *newest_stage(const struct name *n)
{
	struct stage *st;

	DL_FOREACH(n->stages, st)
		if (!st->committed)
			return st;
	return NULL;
}

static struct node *shown_node(const struct name *n)
{
	struct stage *st = n->node ? NULL : newest_stage(n);

	return n->node ? n->node : st ? &st->version->node : NULL;
}

int bank_lookup(struct bank *b, uint64_t parent, const char *name, struct bank_stat *out)
{
	struct session *s;
	struct name *n = NULL;
	struct node *node;
	int ret = 0;

	core_lock(b);
	for (;;) {
		s = node_session(b, parent, &ret);
		n = s ? name_find(b, s, name, &ret) : NULL;
		if (!n || !about_to_end(n, core_now_ms()))
			break;
		core_wait(b, &b->changed, LOOKUP_WAIT_MS);
	}
	node = n ? shown_node(n) : NULL;
	if (node) {
		node->holds++;
		node_stat(node, out);
		out->staged = n->stages != NULL;
	} else if (n) {
		ret = -ENOENT;
	}
	core_unlock(b);
	return ret;
}

static int unescape(const char *text, size_t len, char out[BANK_NAME_MAX + 1])
{
	size_t used = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned byte = (unsigned char)text[i];
		char digits[3] = { 0 }, *end;

		if (used == BANK_NAME_MAX)
			return -ENAMETOOLONG;
		if (text[i] == '%') {
			if (i + 2 >= len)
				return -EINVAL;
			memcpy(digits, text + i + 1, 2);
			byte = (unsigned)strtoul(digits, &end, 16);
			if (end != digits + 2 || !byte || byte == '/')
				return -EINVAL;
			i += 2;
		}
		out[used++] = (char)byte;
	}
	out[used] = 0;
	return 0;
}

int bank_resolve(struct bank *b, const char *path, struct bank_stat *out)
{
	uint64_t id = BANK_ROOT;
	int ret = bank_hold(b, id, out);

	while (!ret && *path) {
		size_t len = strcspn(path, "/");
		char name[BANK_NAME_MAX + 1];
		struct bank_stat next;

		if (len) {
			ret = unescape(path, len, name);
			if (!ret)
				ret = bank_lookup(b, id, name, &next);
			bank_forget(b, id, 1);
			if (ret)
				return ret;
			id = next.id;
			*out = next;
		}
		path += len + (path[len] == '/');
	}
	return ret;
}

/* ---- sessions ---- */

bool session_may_evict(const struct session *s)
{
	for (; s; s = s->parent)
		if (s->evict_no)
			return false;
	return true;
}

int bank_mkdir(struct bank *b, uint64_t parent, const char *name, mode_t mode, const struct bank_who *who, struct bank_stat *out)
{
	struct session *s, *made = NULL;
	struct name *n;
	int ret = 0;

	core_lock(b);
	s = node_session(b, parent, &ret);
	if (!s)
		goto unlock;
	if (name_find(b, s, name, &ret))
		ret = -EEXIST;
	if (ret == -ENOENT && s->depth >= DEPTH_MAX)
		ret = -ENAMETOOLONG;
	if (ret != -ENOENT)
		goto unlock;
	made = calloc(1, sizeof(*made));
	n = made ? name_get(b, s, name, &ret) : NULL;
	if (!n) {
		ret = ret == -ENOENT ? -ENOMEM : ret;
		free(made);
		goto unlock;
	}
	node_add(b, &made->node, BANK_SESSION, mode & 0700, who);
	made->parent = s;
	made->depth = s->depth + 1;
	made->name = n;
	made->touched_ms = core_now_ms();
	name_point(b, n, &made->node);
	s->sessions++;
	b->count.sessions++;
	made->node.holds++;
	node_stat(&made->node, out);
	ret = 0;
unlock:
	core_unlock(b);
	return ret;
}

/* Bytes still charged to it (mapped by clients) leave the sums of those above. */
static void detach_session(struct bank *b, struct session *s)
{
	for (struct session *above = s->parent; above; above = above->parent)
		above->tree_bytes -= s->tree_bytes;
	s->parent->sessions--;
	b->count.sessions--;
	s->removed = true;
	s->parent = NULL;
	s->name = NULL;
}

static int remove_session(struct bank *b, struct name *n)
{
	struct session *s = to_session(n->node);
	struct node *old;

	if (s->names_count)
		return -ENOTEMPTY;
	detach_session(b, s);
	old = name_point(b, n, NULL);
	name_drop_if_empty(b, n);
	name_let_go(b, old);
	return 0;
}

int bank_rmdir(struct bank *b, uint64_t parent, const char *name)
{
	struct session *s;
	struct name *n;
	int ret = 0;

	core_lock(b);
	s = node_session(b, parent, &ret);
	n = s ? name_find(b, s, name, &ret) : NULL;
	if (n)
		ret = n->node && n->node->kind == BANK_SESSION ? remove_session(b, n) : -ENOTDIR;
	core_unlock(b);
	return ret;
}

/* ---- ending and moving names ---- */

int bank_unlink(struct bank *b, uint64_t parent, const char *name)
{
	struct session *s;
	struct name *n;
	int ret = 0;

	core_lock(b);
	s = node_session(b, parent, &ret);
	n = s ? name_find(b, s, name, &ret) : NULL;
	if (n && n->node && n->node->kind == BANK_SESSION)
		ret = -EISDIR;
	if (n && !ret) {
		stage_orphan_all(b, n);
		name_let_go(b, name_point(b, n, NULL));
		name_drop_if_empty(b, n);
	}
	core_unlock(b);
	return ret;
}

int bank_link(struct bank *b, uint64_t id, uint64_t newparent, const char *newname, struct bank_stat *out)
{
	struct version *v;
	struct session *s;
	struct name *n;
	int ret = 0;

	core_lock(b);
	s = node_session(b, newparent, &ret);
	v = node_version(b, id);
	if (!s)
		goto unlock;
	ret = !v ? (node_find(b, id) ? -EPERM : -ESTALE) : v->state == VERSION_STAGED ? -EBUSY : v->state == VERSION_ENDED ? -ENOENT : 0;
	if (ret)
		goto unlock;
	if (name_find(b, s, newname, &ret))
		ret = -EEXIST;
	n = ret == -ENOENT ? name_get(b, s, newname, &ret) : NULL;
	if (!n)
		goto unlock;
	name_point(b, n, &v->node);
	v->node.ctime = core_now();
	v->node.holds++;
	node_stat(&v->node, out);
	ret = 0;
unlock:
	core_unlock(b);
	return ret;
}

static bool is_within(const struct session *s, const struct session *above)
{
	for (; s; s = s->parent)
		if (s == above)
			return true;
	return false;
}

/* May what `from` has take the place of what `to` has? */
static int check_replace(const struct node *from, const struct node *to)
{
	if (!to)
		return 0;
	if (from->kind == BANK_SESSION)
		return to->kind != BANK_SESSION ? -ENOTDIR : ((const struct session *)to)->names_count ? -ENOTEMPTY : 0;
	return to->kind == BANK_SESSION ? -EISDIR : 0;
}

/* Bytes below a session move from the sums above its old place to those above the new one. */
static void reparent(struct session *moved, struct session *to, struct name *name)
{
	for (struct session *s = moved->parent; s; s = s->parent)
		s->tree_bytes -= moved->tree_bytes;
	for (struct session *s = to; s; s = s->parent)
		s->tree_bytes += moved->tree_bytes;
	moved->parent->sessions--;
	to->sessions++;
	moved->parent = to;
	moved->name = name;
}

/* What is replaced makes room itself. Lets go of the lock; node must be referenced. */
static int room_for_rename(struct bank *b, const struct node *node, const struct node *replaced, const struct session *from,
			   struct session *to)
{
	const char *reason = "-";
	uint64_t bytes, gone = 0;
	int ret;

	if (from == to)
		return 0;
	if (replaced && replaced->kind == BANK_ENTRY)
		gone = version_bytes((const struct version *)replaced);
	if (node->kind == BANK_SESSION) {
		ret = room_for_move(b, to, from, ((const struct session *)node)->tree_bytes, 0, true, &reason);
	} else {
		bytes = version_bytes((const struct version *)node);
		ret = room_for_move(b, to, from, bytes > gone ? bytes - gone : 0, replaced ? 0 : 1, false, &reason);
	}
	if (ret)
		core_event_name(b, "refuse", reason, 0, node->kind == BANK_SESSION ? ((const struct session *)node)->name
										   : ((const struct version *)node)->names);
	return ret;
}

/* The move itself: nothing can fail any more. */
static void move_name(struct bank *b, struct name *from, struct name *to)
{
	struct node *node = from->node, *replaced = to->node;

	if (replaced && replaced->kind == BANK_SESSION)
		detach_session(b, to_session(replaced));
	if (node->kind == BANK_SESSION)
		reparent(to_session(node), to->session, to);
	/* Point the new name first: the version must not end in between. */
	name_let_go(b, name_point(b, to, node));
	name_let_go(b, name_point(b, from, NULL));
	node->ctime = core_now();
	name_drop_if_empty(b, from);
}

/* What a rename starts from: the caller's own stage, committed, or the committed version. */
static int rename_source(struct bank *b, struct session *s, const char *name, struct stage *own, struct name **out)
{
	int ret = 0;

	if (own && own->name == name_find(b, s, name, &ret))
		ret = stage_publish(b, own);
	if (ret)
		return ret;
	*out = name_find(b, s, name, &ret);
	if (!*out)
		return ret;
	return (*out)->node ? 0 : -EBUSY;
}

/* The stages that had committed what is being moved go with it and are final. */
static void stages_follow(struct bank *b, struct name *from, struct name *to, const struct node *moved)
{
	struct stage *st, *next;

	DL_FOREACH_SAFE(from->stages, st, next) {
		if (!st->committed || &st->version->node != moved)
			continue;
		stage_make_final(b, st);
		DL_DELETE(from->stages, st);
		st->name = to;
		DL_PREPEND(to->stages, st);
	}
}

static int rename_locked(struct bank *b, struct session *s, const char *name, struct session *to, const char *newname,
			 bool noreplace, struct stage *own)
{
	struct name *source, *target;
	struct node *moved;
	int ret;

	if (noreplace && name_find(b, to, newname, &ret))
		return -EEXIST;
	ret = rename_source(b, s, name, own, &source);
	if (ret)
		return ret;
	target = name_find(b, to, newname, &ret);
	if (target == source)
		return 0;
	if (!target && ret != -ENOENT)
		return ret;
	if (source->node->kind == BANK_SESSION && is_within(to, to_session(source->node)))
		return -EINVAL;
	ret = check_replace(source->node, target ? target->node : NULL);
	if (ret || (target && target->node == source->node))
		return ret;
	if (target && target->stages && source->node->kind == BANK_SESSION)
		return -EBUSY;
	moved = source->node;
	node_ref(moved);
	ret = room_for_rename(b, moved, target ? target->node : NULL, s, to);
	node_unref(b, moved);
	if (ret)
		return ret;
	/* room_for_rename may have let go of the lock: look again, without that wait this time. */
	source = s->removed || to->removed ? NULL : name_find(b, s, name, &ret);
	if (!source || !source->node)
		return -ENOENT;
	target = name_get(b, to, newname, &ret);
	if (!target)
		return ret;
	ret = check_replace(source->node, target->node);
	if (ret) {
		name_drop_if_empty(b, target);
		return ret;
	}
	stages_follow(b, source, target, source->node);
	move_name(b, source, target);
	return 0;
}

int bank_rename(struct bank *b, uint64_t parent, const char *name, uint64_t newparent, const char *newname, bool noreplace,
		uint64_t own_stage)
{
	struct session *s, *to;
	struct version *v;
	struct stage *own;
	int ret = 0;

	core_lock(b);
	s = node_session(b, parent, &ret);
	to = s ? node_session(b, newparent, &ret) : NULL;
	if (!to)
		goto unlock;
	v = own_stage ? node_version(b, own_stage) : NULL;
	own = v && v->stage && !v->stage->ending ? v->stage : NULL;
	node_ref(&s->node);
	node_ref(&to->node);
	if (own)
		own->opens++;
	ret = rename_locked(b, s, name, to, newname, noreplace, own);
	if (own)
		stage_close(b, own);
	node_unref(b, &to->node);
	node_unref(b, &s->node);
unlock:
	core_unlock(b);
	return ret;
}
