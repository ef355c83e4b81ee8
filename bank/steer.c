/* SPDX-License-Identifier: GPL-2.0-or-later */
/* steer.c - commands of an operator on an entry or on everything below a session: settle, clear, shrink.
 *
 * They work on ids collected first, because each of them may let go of the lock, and look each one up
 * again. */
#include "bank/core.h"

#include <errno.h>
#include <stdlib.h>

struct ids {
	uint64_t *of;
	size_t count, cap;
};

static int add_id(struct ids *ids, uint64_t id)
{
	if (ids->count == ids->cap) {
		size_t cap = ids->cap ? 2 * ids->cap : 256;
		uint64_t *more = realloc(ids->of, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		ids->of = more;
		ids->cap = cap;
	}
	ids->of[ids->count++] = id;
	return 0;
}

static bool is_below(const struct version *v, const struct node *top)
{
	const struct name *n;
	const struct session *s;

	if (&v->node == top)
		return true;
	for (n = v->names; n; n = n->next)
		for (s = n->session; s; s = s->parent)
			if (&s->node == top)
				return true;
	return false;
}

/* Committed versions at or below a node. */
static int collect_ids(struct bank *b, uint64_t id, struct ids *ids)
{
	struct node *top = node_find(b, id), *n, *next;
	int ret = top ? 0 : -ESTALE;

	HASH_ITER(hh, b->nodes, n, next) {
		if (ret)
			break;
		if (n->kind == BANK_ENTRY && to_version(n)->state == VERSION_COMMITTED && is_below(to_version(n), top))
			ret = add_id(ids, n->id);
	}
	return ret;
}

int bank_settle_all(struct bank *b, uint64_t id, uint64_t *settled)
{
	struct ids ids = { 0 };
	int ret;

	*settled = 0;
	core_lock(b);
	ret = collect_ids(b, id, &ids);
	for (size_t i = 0; !ret && i < ids.count; i++) {
		struct version *v = node_version(b, ids.of[i]);

		if (!v || v->state != VERSION_COMMITTED || v->stage)
			continue;
		node_ref(&v->node);
		settle_enqueue(b, v);
		ret = settle_wait(b, v);
		*settled += !ret;
		node_unref(b, &v->node);
		if (ret == -ESTALE) /* gone meanwhile */
			ret = 0;
	}
	core_unlock(b);
	free(ids.of);
	return ret;
}

int bank_clear(struct bank *b, uint64_t id, uint64_t *entries, uint64_t *bytes)
{
	struct ids ids = { 0 };
	int ret;

	*entries = *bytes = 0;
	core_lock(b);
	ret = collect_ids(b, id, &ids);
	for (size_t i = 0; !ret && i < ids.count; i++) {
		struct version *v = node_version(b, ids.of[i]);

		while (v && room_stop_work_on(b, v))
			v = node_version(b, ids.of[i]);
		if (!v || !room_droppable(v))
			continue;
		++*entries;
		*bytes += version_bytes(v);
		room_evict(b, v, "clear", false);
	}
	core_unlock(b);
	free(ids.of);
	return ret;
}

int bank_shrink(struct bank *b, uint64_t bytes, uint64_t *freed)
{
	core_lock(b);
	*freed = room_evict_bytes(b, bytes, "shrink");
	core_unlock(b);
	return 0;
}
