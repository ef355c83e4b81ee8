/* SPDX-License-Identifier: GPL-2.0-or-later */
/* attr.c - attributes of nodes: owner, mode and times, the raw store of user.* values, pins, settings
 * of sessions, and bank_info.
 *
 * The store is a list per node, bounded by BANK_XATTRS_MAX; what names mean is the caller's business,
 * except the identity fields, which a version inherits from its session when it commits. */
#include "bank/core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

const char *const bank_identity_fields[] = {
	"model", "mtp_enabled", "hidden_variant", "template_hash", "mtp_history_policy", "draft_head_identity", "policy_fingerprint", NULL,
};

enum { XATTR_OVERHEAD = 16 };

/* ---- the store ---- */

static struct xattr *find(const struct node *n, const char *name)
{
	struct xattr *x;

	for (x = n->xattrs; x; x = x->next)
		if (!strcmp(x->name, name))
			return x;
	return NULL;
}

static size_t cost(const char *name, size_t len)
{
	return strlen(name) + len + XATTR_OVERHEAD;
}

static void xattr_free(struct xattr *x)
{
	if (!x)
		return;
	free(x->name);
	free(x->value);
	free(x);
}

static struct xattr *xattr_new(const char *name, const void *value, size_t len)
{
	struct xattr *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->name = strdup(name);
	x->value = malloc(len ? len : 1);
	x->len = len;
	if (x->name && x->value) {
		memcpy(x->value, value, len);
		return x;
	}
	xattr_free(x);
	return NULL;
}

static void unlink_xattr(struct node *n, struct xattr *gone)
{
	struct xattr **at;

	for (at = &n->xattrs; *at != gone; at = &(*at)->next)
		;
	*at = gone->next;
	n->xattr_bytes -= cost(gone->name, gone->len);
	xattr_free(gone);
}

static int store(struct node *n, const char *name, const void *value, size_t len)
{
	struct xattr *old = find(n, name), *fresh, **end;
	size_t before = old ? cost(old->name, old->len) : 0;

	if (n->xattr_bytes - before + cost(name, len) > BANK_XATTRS_MAX)
		return -ENOSPC;
	fresh = xattr_new(name, value, len);
	if (!fresh)
		return -ENOMEM;
	if (old)
		unlink_xattr(n, old);
	for (end = &n->xattrs; *end; end = &(*end)->next)
		;
	*end = fresh;
	n->xattr_bytes += cost(name, len);
	return 0;
}

void attr_free(struct node *n)
{
	while (n->xattrs)
		unlink_xattr(n, n->xattrs);
}

int bank_xattr_set(struct bank *b, uint64_t id, const char *name, const void *value, size_t len, int flags)
{
	struct node *n;
	int ret;

	core_lock(b);
	n = node_find(b, id);
	if (!n)
		ret = -ESTALE;
	else if (flags & XATTR_CREATE && find(n, name))
		ret = -EEXIST;
	else if (flags & XATTR_REPLACE && !find(n, name))
		ret = -ENODATA;
	else
		ret = store(n, name, value, len);
	if (!ret)
		n->ctime = core_now();
	core_unlock(b);
	return ret;
}

ssize_t bank_xattr_get(struct bank *b, uint64_t id, const char *name, void *buf, size_t cap)
{
	struct node *n;
	struct xattr *x;
	ssize_t ret;

	core_lock(b);
	n = node_find(b, id);
	x = n ? find(n, name) : NULL;
	ret = !n ? -ESTALE : !x ? -ENODATA : cap && x->len > cap ? -ERANGE : (ssize_t)x->len;
	if (ret > 0 && cap)
		memcpy(buf, x->value, x->len);
	core_unlock(b);
	return ret;
}

ssize_t bank_xattr_list(struct bank *b, uint64_t id, char *buf, size_t cap)
{
	struct node *n;
	struct xattr *x;
	size_t used = 0;
	ssize_t ret;

	core_lock(b);
	n = node_find(b, id);
	ret = n ? 0 : -ESTALE;
	for (x = n ? n->xattrs : NULL; x; x = x->next) {
		size_t len = strlen(x->name) + 1;

		if (cap && used + len > cap)
			ret = -ERANGE;
		else if (cap)
			memcpy(buf + used, x->name, len);
		used += len;
	}
	core_unlock(b);
	return ret ? ret : (ssize_t)used;
}

int bank_xattr_remove(struct bank *b, uint64_t id, const char *name)
{
	struct node *n;
	struct xattr *x;

	core_lock(b);
	n = node_find(b, id);
	x = n ? find(n, name) : NULL;
	if (x) {
		unlink_xattr(n, x);
		n->ctime = core_now();
	}
	core_unlock(b);
	return !n ? -ESTALE : x ? 0 : -ENODATA;
}

/* ---- inheriting ---- */

/* A new version in the place of an old one looks the same: owner, mode, all that users have set on it. */
void attr_copy(struct node *to, const struct node *from)
{
	to->mode = from->mode;
	to->uid = from->uid;
	to->gid = from->gid;
	for (const struct xattr *x = from->xattrs; x; x = x->next)
		if (!x->inherited)
			(void)store(to, x->name, x->value, x->len); /* it fitted there */
}

/* Fields the version has not itself come from the nearest session that has them. */
void attr_inherit_identity(struct bank *b, struct version *v, const struct session *s)
{
	for (const char *const *field = bank_identity_fields; *field; field++) {
		const struct session *at = s;
		const struct xattr *x = NULL;
		char name[64];

		snprintf(name, sizeof(name), "user.kvbank.%s", *field);
		if (find(&v->node, name))
			continue;
		while (at && !(x = find(&at->node, name)))
			at = at->parent;
		if (!x)
			continue;
		if (store(&v->node, name, x->value, x->len))
			core_event_version(b, "refuse", "identity_does_not_fit", v);
		else
			find(&v->node, name)->inherited = true;
	}
}

/* ---- owner, mode, times ---- */

static void apply(struct node *n, const struct bank_change *change)
{
	if (change->what & BANK_SET_MODE)
		n->mode = change->mode & 07777;
	if (change->what & BANK_SET_UID)
		n->uid = change->uid;
	if (change->what & BANK_SET_GID)
		n->gid = change->gid;
	if (change->what & BANK_SET_ATIME)
		n->atime = change->atime;
	if (change->what & BANK_SET_MTIME)
		n->mtime = change->mtime;
	if (change->what & BANK_SET_MTIME && n->kind == BANK_ENTRY)
		to_version(n)->mtime_set = true;
	n->ctime = core_now();
}

/* The version under a stage that has changed nothing yet. Such a stage vanishes when it is closed, so
 * what touch(1) or fchmod(2) set through it must be set on the version as well. Or NULL. */
static struct node *under_unchanged_stage(struct node *n)
{
	struct version *v = n->kind == BANK_ENTRY ? to_version(n) : NULL;
	struct stage *st = v && v->stage && v->stage->version == v ? v->stage : NULL;

	if (!st || st->committed || st->created || st->truncated || st->written || !st->name)
		return NULL;
	return st->name->node;
}

int bank_setattr(struct bank *b, uint64_t id, const struct bank_change *change, struct bank_stat *out)
{
	struct node *n, *under;
	int ret = 0;

	core_lock(b);
	n = node_find(b, id);
	if (!n)
		ret = -ESTALE;
	else if (n->kind == BANK_ENTRY && change->what & BANK_SET_MODE && change->mode & (S_ISUID | S_ISGID))
		ret = -EPERM;
	if (!ret) {
		under = under_unchanged_stage(n);
		if (under)
			apply(under, change);
		if (under && b->hooks.attr_changed)
			b->hooks.attr_changed(b->hooks.ctx, under->id);
		apply(n, change);
		node_stat(n, out);
	}
	core_unlock(b);
	return ret;
}

/* ---- pins and sessions' settings ---- */

int bank_pin(struct bank *b, uint64_t id, int64_t seconds)
{
	struct version *v;

	core_lock(b);
	v = node_version(b, id);
	if (v && seconds < 0)
		v->pin_until_ms = PIN_FOREVER;
	else if (v)
		v->pin_until_ms = !seconds ? 0 : seconds > INT64_MAX / 2000 ? PIN_FOREVER : core_now_ms() + seconds * 1000;
	core_unlock(b);
	return v ? 0 : -EISDIR;
}

int bank_session_evict(struct bank *b, uint64_t id, bool may_evict)
{
	struct session *s;
	int ret = 0;

	core_lock(b);
	s = node_session(b, id, &ret);
	if (s)
		s->evict_no = !may_evict;
	core_unlock(b);
	return ret;
}

int bank_session_ram_max(struct bank *b, uint64_t id, uint64_t bytes)
{
	struct session *s;
	uint64_t old;
	int ret = 0;

	core_lock(b);
	s = node_session(b, id, &ret);
	if (s) {
		old = s->ram_max;
		s->ram_max = bytes;
		node_ref(&s->node);
		ret = room_obey_session(b, s) ? -EBUSY : 0;
		if (ret)
			s->ram_max = old;
		node_unref(b, &s->node);
	}
	core_unlock(b);
	return ret;
}

/* ---- info ---- */

static void session_info(const struct session *s, struct bank_info *out)
{
	out->nbytes = s->own_bytes;
	out->entries = s->entries;
	out->evict_no = s->evict_no;
	out->ram_max = s->ram_max;
}

static const char *state_text(const struct bank *b, const struct version *v, const char **reason)
{
	if (v->state == VERSION_STAGED)
		return "open";
	if (b->cfg.ssd_mode == BANK_SSD_OFF) {
		*reason = "ssd_off";
		return "ram-only";
	}
	return v->settled ? "settled" : "lazy";
}

static int64_t pin_left(const struct version *v)
{
	int64_t left = v->pin_until_ms - core_now_ms();

	if (v->pin_until_ms == PIN_FOREVER)
		return -1;
	return v->pin_until_ms && left > 0 ? (left + 999) / 1000 : 0;
}

static void version_info(const struct bank *b, const struct version *v, struct bank_info *out)
{
	out->state = state_text(b, v, &out->reason);
	out->sha256_known = v->settled;
	memcpy(out->sha256, v->sha256, sizeof(out->sha256));
	out->nbytes = version_bytes(v);
	out->hits = v->hits;
	out->created_at = v->created_at;
	out->last_access = v->last_access;
	out->settled_at = v->settled_at;
	out->pin_s = pin_left(v);
}

int bank_get_info(struct bank *b, uint64_t id, struct bank_info *out)
{
	struct node *n;

	*out = (struct bank_info){ 0 };
	core_lock(b);
	n = node_find(b, id);
	if (n) {
		node_stat(n, &out->st);
		if (n->kind == BANK_SESSION)
			session_info(to_session(n), out);
		else
			version_info(b, to_version(n), out);
	}
	core_unlock(b);
	return n ? 0 : -ESTALE;
}
