/* SPDX-License-Identifier: GPL-2.0-or-later */
/* room.c - who pays for the bytes, and making room for more.
 *
 * Every RAM file is charged to one session (its payer) and so to the bank and to every session above.
 * A charge is made *before* the bytes are written and given back *after* they are gone, so at every
 * instant the sums are at least what the tier holds, and caps on the sums are caps on the tier.
 *
 * Making room: limits_for_* list the caps in the way; what they lack are the needs; evictable versions
 * are the candidates; evict_plan (evict.c) picks. A request is admitted before anything is evicted
 * for it: when even all candidates are not enough, nothing is touched and the answer names the cap.
 *
 * While victims' bytes are being freed the lock is let go of, so all is looked at again: callers must
 * expect that as well. Bytes that another thread is just freeing are waited for, not evicted twice.
 *
 * Easy to forget: the bytes of a version being hashed or absorbed do not come back at once. When the plan
 * picks one, nothing is evicted yet: that work is asked to stop, and then all is looked at again. */
#include "bank/core.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <syslog.h>
#include <utlist.h>

#include "bank/budget.h"
#include "bank/evict.h"

enum { STOP_WAIT_MS = 1000, GRACE_MS = 50, GRACE_STEP_MS = 5 };

/* ---- charges ---- */

static void add_charge(struct bank *b, struct session *payer, int64_t bytes)
{
	b->ram_bytes += (uint64_t)bytes;
	if (payer)
		payer->own_bytes += (uint64_t)bytes;
	for (; payer; payer = payer->parent)
		payer->tree_bytes += (uint64_t)bytes;
}

void room_set_charge(struct bank *b, struct ram_file *f, uint64_t total_bytes)
{
	add_charge(b, f->payer, (int64_t)(total_bytes - f->charged_bytes));
	f->charged_bytes = total_bytes;
}

void room_uncharge(struct bank *b, struct ram_file *f, uint64_t total_bytes)
{
	if (total_bytes >= f->charged_bytes)
		return;
	room_set_charge(b, f, total_bytes);
	pthread_cond_broadcast(&b->room);
}

void room_set_payer(struct bank *b, struct ram_file *f, struct session *payer)
{
	struct session *old = f->payer;

	if (old == payer)
		return;
	add_charge(b, old, -(int64_t)f->charged_bytes);
	f->payer = payer;
	if (payer) {
		node_ref(&payer->node);
		add_charge(b, payer, (int64_t)f->charged_bytes);
	}
	if (old)
		node_unref(b, &old->node);
}

void room_count_entry(struct bank *b, struct session *s, int delta)
{
	s->entries += (uint64_t)(int64_t)delta;
	b->count.entries += (uint64_t)(int64_t)delta;
}

/* ---- limits ---- */

struct limit {
	struct budget_cap cap;
	const struct session *scope; /* NULL: the whole bank */
	bool subtree;
	const char *reason;
};

struct limits {
	struct limit of[EVICT_NEEDS];
	unsigned count;
	bool entries; /* amounts are entries, not bytes */
};

static void add_limit(struct limits *l, uint64_t max, uint64_t used, int refusal, const struct session *scope, bool subtree,
		      const char *reason)
{
	if (max && l->count < EVICT_NEEDS)
		l->of[l->count++] = (struct limit){ { max, used, refusal }, scope, subtree, reason };
}

static void limits_for_bytes(const struct bank *b, const struct session *s, struct limits *l)
{
	*l = (struct limits){ 0 };
	add_limit(l, b->cfg.ram_bytes, b->ram_bytes + b->spare_bytes, -ENOSPC, NULL, true, "ram");
	if (!s)
		return;
	add_limit(l, b->cfg.session_ram_bytes, s->own_bytes, -EDQUOT, s, false, "session_ram");
	for (; s; s = s->parent)
		add_limit(l, s->ram_max, s->tree_bytes, -EDQUOT, s, true, "ram_max");
}

static void limits_for_entries(const struct bank *b, const struct session *s, struct limits *l)
{
	*l = (struct limits){ .entries = true };
	add_limit(l, b->cfg.entries_max, b->count.entries, -ENOSPC, NULL, true, "entries");
	add_limit(l, b->files_max, b->count.entries + b->stages, -ENOSPC, NULL, true, "descriptors");
	if (s)
		add_limit(l, b->cfg.session_entries_max, s->entries, -EDQUOT, s, false, "session_entries");
}

static bool in_scope(const struct session *s, const struct limit *l)
{
	if (!l->scope || s == l->scope)
		return true;
	for (; l->subtree && s; s = s->parent)
		if (s == l->scope)
			return true;
	return false;
}

/* ---- candidates ---- */

static bool mapped_by_a_client(const struct version *v)
{
	for (const struct content *c = v->content; c; c = c->base)
		if (!ram_file_unused(c->file))
			return true;
	return false;
}

static bool being_written(const struct version *v)
{
	const struct name *n;

	if (v->stage || v->kept)
		return true;
	for (n = v->names; n; n = n->next)
		if (n->stages)
			return true;
	return false;
}

bool room_droppable(const struct version *v)
{
	if (v->state != VERSION_COMMITTED || !v->names || v->readers)
		return false;
	if (v->pin_until_ms && v->pin_until_ms > core_now_ms())
		return false;
	return !being_written(v) && !mapped_by_a_client(v);
}

bool room_evictable(const struct version *v)
{
	return v->names && session_may_evict(v->names->session) && room_droppable(v);
}

/* The last who waits for room lets the workers go on. */
static void end_waiting(struct bank *b)
{
	if (--b->room_waiters)
		return;
	b->settle_abort = b->stopping;
	pthread_cond_broadcast(&b->settle_work);
}

bool room_stop_work_on(struct bank *b, const struct version *v)
{
	if (v != b->settling && v != b->absorbing)
		return false;
	if (v == b->absorbing && pthread_equal(b->absorber, pthread_self()))
		return true; /* not for itself */
	b->room_waiters++;
	b->settle_abort = true;
	core_wait(b, &b->changed, STOP_WAIT_MS);
	end_waiting(b);
	return true;
}

struct candidates {
	struct evict_candidate *of;
	size_t count, cap;
	uint64_t served[EVICT_NEEDS]; /* what all collected would free for each need */
	bool out_of_memory;
};

static bool enough(const struct candidates *found, const struct evict_needs *needs)
{
	for (unsigned i = 0; i < needs->count; i++)
		if (found->served[i] < needs->amount[i])
			return false;
	return true;
}

static void add_candidate(struct candidates *found, const struct limits *l, const struct evict_needs *needs, struct version *v, bool idle)
{
	struct evict_candidate c = { .last_access = v->last_access_ns, .idle = idle, .owner = v };

	c.amount = l->entries ? 1 : version_bytes(v);
	for (unsigned i = 0; i < needs->count; i++)
		if (needs->amount[i] && in_scope(v->names->session, &l->of[i]))
			c.serves |= (uint16_t)(1u << i);
	if (!c.serves || !c.amount)
		return;
	if (found->count == found->cap) {
		size_t cap = found->cap ? 2 * found->cap : 64;
		struct evict_candidate *more = realloc(found->of, cap * sizeof(*more));

		found->out_of_memory = !more;
		if (!more)
			return;
		found->of = more;
		found->cap = cap;
	}
	found->of[found->count++] = c;
	for (unsigned i = 0; i < needs->count; i++)
		if (c.serves >> i & 1)
			found->served[i] += c.amount;
}

/* The least recently used evictable versions, as many as are enough: first those of sessions idle past
 * pin_ttl, then, if that is not enough, the others. */
static void collect(struct bank *b, const struct limits *l, const struct evict_needs *needs, struct candidates *found)
{
	int64_t idle_before = core_now_ms() - (int64_t)(b->cfg.pin_ttl_s * 1000);
	struct version *v;

	DL_FOREACH(b->lru, v) {
		if (enough(found, needs) || v->last_access_ns / NS_PER_MS > idle_before)
			break;
		if (v->names && v->names->session->touched_ms <= idle_before && room_evictable(v))
			add_candidate(found, l, needs, v, true);
	}
	DL_FOREACH(b->lru, v) {
		if (enough(found, needs))
			break;
		if (v->names && (v->last_access_ns / NS_PER_MS > idle_before || v->names->session->touched_ms > idle_before) &&
		    room_evictable(v))
			add_candidate(found, l, needs, v, false);
	}
}

/* ---- evicting ---- */

void room_evict(struct bank *b, struct version *v, const char *reason, bool lack_of_room)
{
	core_event_version(b, lack_of_room ? "evict" : "drop", reason, v);
	if (lack_of_room) {
		b->count.evicted_entries++;
		b->count.evicted_bytes += version_bytes(v);
	} else {
		b->count.dropped_entries++;
	}
	node_ref(&v->node);
	while (v->names) {
		struct name *n = v->names;
		struct node *old = name_point(b, n, NULL);

		name_tell(b, n);
		name_drop_if_empty(b, n);
		node_unref(b, old);
	}
	version_end_if_gone(b, v);
	node_unref(b, &v->node);
}

/* Returns false, with nothing evicted, when work on one of them had to be stopped first: look again. */
static bool evict_victims(struct bank *b, struct candidates *found, const char *reason)
{
	for (size_t i = 0; i < found->count; i++)
		if (found->of[i].victim && room_stop_work_on(b, found->of[i].owner))
			return false;
	for (size_t i = 0; i < found->count; i++)
		if (found->of[i].victim)
			room_evict(b, found->of[i].owner, reason, true);
	return true;
}

static int refusal(const struct limits *l, const struct evict_needs *needs, const struct candidates *found, const char **reason)
{
	for (unsigned i = 0; i < needs->count; i++)
		if (found->served[i] < needs->amount[i]) {
			*reason = l->of[i].reason;
			return l->of[i].cap.refusal;
		}
	*reason = "memory";
	return -ENOSPC;
}

static bool needs_of(const struct limits *l, uint64_t more, struct evict_needs *needs)
{
	bool any = false;

	needs->count = l->count;
	for (unsigned i = 0; i < l->count; i++) {
		needs->amount[i] = budget_shortfall(&l->of[i].cap, more);
		any = any || needs->amount[i];
	}
	return any;
}

static const char *first_reason(const struct limits *l, const struct evict_needs *needs)
{
	for (unsigned i = 0; i < needs->count; i++)
		if (needs->amount[i])
			return l->of[i].reason;
	return "-";
}

typedef void limits_fn(const struct bank *b, const struct session *s, struct limits *l);

/* One look: 0 there is room, 1 look again, or the refusal. */
static int try_room(struct bank *b, const struct limits *l, uint64_t more, const char **reason)
{
	struct candidates found = { 0 };
	struct evict_needs needs;
	int ret = 1;

	if (!needs_of(l, more, &needs))
		return 0;
	if (b->freeing_bytes && !l->entries) {
		core_wait(b, &b->room, STOP_WAIT_MS);
		return 1;
	}
	collect(b, l, &needs, &found);
	if (evict_plan(found.of, found.count, &needs))
		evict_victims(b, &found, first_reason(l, &needs));
	else
		ret = refusal(l, &needs, &found, reason);
	free(found.of);
	return ret;
}

/* What seems not to be had may come back in a moment: a RELEASE under way, a hash or a fold that holds a
 * file, a mapping that has just ended. A refusal stands when it still does after GRACE_MS. */
static bool wait_a_moment(struct bank *b, int64_t *until_ms)
{
	if (!*until_ms)
		*until_ms = core_now_ms() + GRACE_MS;
	if (core_now_ms() >= *until_ms)
		return false;
	b->settle_abort = true;
	upkeep_look_at_zombies(b);
	core_wait(b, &b->room, GRACE_STEP_MS);
	return true;
}

static int make_room(struct bank *b, limits_fn *limits, const struct session *s, uint64_t more, const char **reason)
{
	int64_t until_ms = 0;
	struct limits l;
	int ret;

	b->room_waiters++;
	do {
		limits(b, s, &l);
		ret = try_room(b, &l, more, reason);
	} while (ret > 0 || (ret && wait_a_moment(b, &until_ms)));
	end_waiting(b);
	return ret;
}

/* ---- what others ask for ---- */

static int check_too_large(const struct bank *b, const struct session *s, uint64_t entry_bytes, const char **reason)
{
	struct limits l;

	limits_for_bytes(b, s, &l);
	for (unsigned i = 0; i < l.count; i++)
		if (budget_fits_empty(&l.of[i].cap, entry_bytes)) {
			*reason = i ? "larger_than_session" : "larger_than_ram";
			return -EFBIG;
		}
	return 0;
}

int room_charge(struct bank *b, struct ram_file *f, uint64_t total_bytes, uint64_t entry_bytes, const char **reason)
{
	int ret;

	if (total_bytes <= f->charged_bytes)
		return 0;
	ret = check_too_large(b, f->payer, entry_bytes, reason);
	if (!ret)
		ret = make_room(b, limits_for_bytes, f->payer, total_bytes - f->charged_bytes, reason);
	if (!ret)
		room_set_charge(b, f, total_bytes);
	return ret;
}

int room_for_entry(struct bank *b, struct session *s, const char **reason)
{
	return make_room(b, limits_for_entries, s, 1, reason);
}

static bool is_above(const struct session *above, const struct session *s)
{
	for (; s; s = s->parent)
		if (s == above)
			return true;
	return false;
}

/* Drops the limits that the move does not change. */
static void keep_new_limits(struct limits *l, const struct session *from)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < l->count; i++)
		if (l->of[i].scope && !(l->of[i].subtree && is_above(l->of[i].scope, from)))
			l->of[kept++] = l->of[i];
	l->count = kept;
}

static int make_new_room(struct bank *b, limits_fn *limits, const struct session *to, const struct session *from, bool own,
			 uint64_t more, const char **reason)
{
	int64_t until_ms = 0;
	struct limits l;
	int ret;

	b->room_waiters++;
	do {
		limits(b, to, &l);
		keep_new_limits(&l, from);
		if (!own && l.count && !l.of[0].subtree) /* a whole session moves: the target's own stay as they are */
			l.of[0] = l.of[--l.count];
		ret = try_room(b, &l, more, reason);
	} while (ret > 0 || (ret && wait_a_moment(b, &until_ms)));
	end_waiting(b);
	return ret;
}

int room_for_move(struct bank *b, struct session *to, const struct session *from, uint64_t bytes, uint64_t entries, bool subtree,
		  const char **reason)
{
	int ret = make_new_room(b, limits_for_bytes, to, from, !subtree, bytes, reason);

	return ret || !entries ? ret : make_new_room(b, limits_for_entries, to, from, true, entries, reason);
}

int room_take_spare(struct bank *b, uint64_t bytes)
{
	struct candidates found = { 0 };
	struct evict_needs needs;
	struct limits l;

	limits_for_bytes(b, NULL, &l);
	if (!needs_of(&l, bytes, &needs)) {
		b->spare_bytes += bytes;
		return 0;
	}
	collect(b, &l, &needs, &found);
	if (evict_plan(found.of, found.count, &needs))
		evict_victims(b, &found, first_reason(&l, &needs));
	free(found.of);
	return -EAGAIN;
}

void room_return_spare(struct bank *b, uint64_t bytes)
{
	b->spare_bytes -= bytes;
	pthread_cond_broadcast(&b->room);
}

int room_obey_session(struct bank *b, const struct session *s)
{
	const char *reason;
	int ret = make_room(b, limits_for_entries, s, 0, &reason);

	return ret ? ret : make_room(b, limits_for_bytes, s, 0, &reason);
}

int room_obey(struct bank *b)
{
	struct node *n, *next;
	uint64_t *ids;
	size_t count = 0;
	int ret = 0, error;

	/* Sessions may go while room is made: remember ids. */
	ids = malloc(HASH_COUNT(b->nodes) * sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	HASH_ITER(hh, b->nodes, n, next)
		if (n->kind == BANK_SESSION)
			ids[count++] = n->id;
	for (size_t i = 0; i < count && !ret; i++) {
		struct session *s = node_session(b, ids[i], &error);

		if (!s)
			continue;
		node_ref(&s->node);
		ret = room_obey_session(b, s);
		node_unref(b, &s->node);
	}
	free(ids);
	return ret;
}

uint64_t room_evict_bytes(struct bank *b, uint64_t bytes, const char *reason)
{
	struct limits l = { .count = 1, .of = { { .reason = reason, .subtree = true } } };
	struct evict_needs needs = { .count = 1 };
	uint64_t freed = 0;
	bool done;

	do {
		struct candidates found = { 0 };

		needs.amount[0] = bytes;
		collect(b, &l, &needs, &found);
		if (needs.amount[0] > found.served[0])
			needs.amount[0] = found.served[0];
		done = !evict_plan(found.of, found.count, &needs) || evict_victims(b, &found, reason);
		for (size_t i = 0; done && i < found.count; i++)
			freed += found.of[i].victim ? found.of[i].amount : 0;
		free(found.of);
	} while (!done);
	return freed;
}
