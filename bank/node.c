/* SPDX-License-Identifier: GPL-2.0-or-later */
/* node.c - ids, and how long sessions, versions and contents live.
 *
 * A node is freed when the caller holds it no more (holds), nothing inside refers to it (refs) and it
 * has no name. Ids come from a counter and are never used again, so a stale id finds nothing.
 *
 * Everything here runs with the bank's lock. */
#include "bank/core.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

void node_add(struct bank *b, struct node *n, enum bank_kind kind, mode_t mode, const struct bank_who *who)
{
	n->id = b->next_id++;
	n->kind = kind;
	n->mode = mode;
	n->uid = who->uid;
	n->gid = who->gid;
	n->atime = n->mtime = n->ctime = core_now();
	HASH_ADD(hh, b->nodes, id, sizeof(n->id), n);
}

struct node *node_find(struct bank *b, uint64_t id)
{
	struct node *n;

	HASH_FIND(hh, b->nodes, &id, sizeof(id), n);
	return n;
}

struct session *node_session(struct bank *b, uint64_t id, int *error)
{
	struct node *n = node_find(b, id);

	if (!n || (n->kind == BANK_SESSION && to_session(n)->removed)) {
		*error = -ESTALE;
		return NULL;
	}
	if (n->kind != BANK_SESSION) {
		*error = -ENOTDIR;
		return NULL;
	}
	return to_session(n);
}

struct version *node_version(struct bank *b, uint64_t id)
{
	struct node *n = node_find(b, id);

	return n && n->kind == BANK_ENTRY ? to_version(n) : NULL;
}

void node_ref(struct node *n)
{
	n->refs++;
}

static void node_free_if_unused(struct bank *b, struct node *n)
{
	if (n->refs || n->holds)
		return;
	if (n->kind == BANK_ENTRY) {
		assert(!to_version(n)->content);
		assert(!to_version(n)->listed);
	}
	if (n->kind == BANK_ENTRY)
		free(to_version(n)->last_name);
	HASH_DEL(b->nodes, n);
	attr_free(n);
	free(n);
}

void node_unref(struct bank *b, struct node *n)
{
	assert(n->refs);
	n->refs--;
	node_free_if_unused(b, n);
}

static uint32_t link_count(const struct node *n)
{
	const struct version *v = (const struct version *)n;
	const struct name *name;
	uint32_t count = 0;

	if (n->kind == BANK_SESSION)
		return ((const struct session *)n)->removed ? 0 : (uint32_t)(2 + ((const struct session *)n)->sessions);
	for (name = v->names; name; name = name->next)
		count++;
	return count || v->state != VERSION_STAGED ? count : 1;
}

/* The size to show: a handle that goes on writing after its commit was taken back sees its own progress,
 * as long as no reader has the version. */
static uint64_t shown_size(const struct version *v)
{
	const struct content *c = v->content;

	if (v->state == VERSION_STAGED && v->stage && v->stage->version != v && !v->readers)
		c = v->stage->version->content;
	return c ? c->size_bytes : v->last_size_bytes;
}

void node_stat(const struct node *n, struct bank_stat *out)
{
	*out = (struct bank_stat){
		.id = n->id, .kind = n->kind, .mode = n->mode, .uid = n->uid, .gid = n->gid,
		.nlink = link_count(n), .atime = n->atime, .mtime = n->mtime, .ctime = n->ctime,
	};
	if (n->kind == BANK_ENTRY) {
		const struct version *v = (const struct version *)n;

		out->size_bytes = shown_size(v);
		out->stage = v->state == VERSION_STAGED || v->stage;
	}
}

/* ---- holds ---- */

void bank_forget(struct bank *b, uint64_t id, uint64_t count)
{
	struct node *n;

	core_lock(b);
	n = node_find(b, id);
	if (n) {
		n->holds -= count < n->holds ? count : n->holds; /* the count is not ours to trust */
		node_free_if_unused(b, n);
	}
	core_unlock(b);
}

int bank_hold(struct bank *b, uint64_t id, struct bank_stat *out)
{
	struct node *n;

	core_lock(b);
	n = node_find(b, id);
	if (n) {
		n->holds++;
		node_stat(n, out);
	}
	core_unlock(b);
	return n ? 0 : -ESTALE;
}

int bank_getattr(struct bank *b, uint64_t id, struct bank_stat *out)
{
	struct node *n;

	core_lock(b);
	n = node_find(b, id);
	if (n)
		node_stat(n, out);
	core_unlock(b);
	return n ? 0 : -ESTALE;
}

/* ---- versions and contents ---- */

struct version *version_new(struct bank *b, mode_t mode, const struct bank_who *who)
{
	struct version *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	node_add(b, &v->node, BANK_ENTRY, mode, who);
	v->state = VERSION_STAGED;
	v->created_at = v->node.mtime;
	v->last_access_ns = core_now_ns();
	return v;
}

void content_ref(struct content *c)
{
	c->refs++;
}

void content_unref(struct bank *b, struct content *c)
{
	assert(c->refs);
	if (--c->refs)
		return;
	b->freeing_bytes += c->file->charged_bytes;
	c->next_dead = b->dead;
	b->dead = c;
}

/* Own bytes and those of bases that only this version needs. */
uint64_t version_bytes(const struct version *v)
{
	uint64_t sum = 0;

	for (const struct content *c = v->content; c; c = c->base) {
		sum += c->file->charged_bytes;
		if (c->base && c->base->refs > 1)
			break;
	}
	return sum;
}

static void unlist(struct bank *b, struct version *v)
{
	if (v->listed)
		DL_DELETE(b->lru, v);
	v->listed = false;
	upkeep_no_overlay(b, v);
	settle_cancel(b, v);
}

void version_end_if_gone(struct bank *b, struct version *v)
{
	if (v->names || v->stage || v->kept || v->state == VERSION_ENDED)
		return;
	unlist(b, v);
	v->state = VERSION_ENDED;
	if (v->counted) {
		room_count_entry(b, v->counted, -1);
		node_unref(b, &v->counted->node);
		v->counted = NULL;
	}
	version_drop_content(b, v);
	node_free_if_unused(b, &v->node);
}

void version_drop_content(struct bank *b, struct version *v)
{
	if (v->state != VERSION_ENDED || v->readers || !v->content)
		return;
	v->last_size_bytes = v->content->size_bytes;
	content_unref(b, v->content);
	v->content = NULL;
}

/* Most recently used of all; its session, too. */
void version_touch(struct bank *b, struct version *v)
{
	v->last_access_ns = core_now_ns();
	if (v->names)
		v->names->session->touched_ms = v->last_access_ns / NS_PER_MS;
	if (!v->listed)
		return;
	DL_DELETE(b->lru, v);
	DL_APPEND(b->lru, v);
}

void version_keep(struct version *v)
{
	node_ref(&v->node);
	v->kept++;
}

void version_let_go(struct bank *b, struct version *v)
{
	v->kept--;
	version_end_if_gone(b, v);
	node_unref(b, &v->node);
}
