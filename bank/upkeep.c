/* SPDX-License-Identifier: GPL-2.0-or-later */
/* upkeep.c - small work that nobody should wait for, on one thread.
 *
 *   zombies    files whose version is gone, still mapped by a client: freed when they are not any more
 *   overlays   committed overlays move their changed blocks into their base when nobody else has it,
 *              a piece at a time; then they are plain files again, fit for passthrough
 *   idle_ttl   entries idle for longer are dropped
 *
 * It looks every LOOK_OFTEN_MS while there is something to wait for, else every LOOK_SELDOM_MS. */
#include "bank/core.h"

#include <errno.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

enum { LOOK_OFTEN_MS = 100, LOOK_SELDOM_MS = 1000, ABSORB_BYTES = 1 << 20 };

void upkeep_want(struct bank *b)
{
	if (b->upkeep_wanted || (!b->zombies && !b->overlays))
		return;
	b->upkeep_wanted = true;
	pthread_cond_signal(&b->upkeep_work);
}

void upkeep_overlay(struct bank *b, struct version *v)
{
	if (v->overlay_listed)
		return;
	DL_APPEND2(b->overlays, v, overlay_prev, overlay_next);
	v->overlay_listed = true;
	b->count.overlay_entries++;
	upkeep_want(b);
}

void upkeep_no_overlay(struct bank *b, struct version *v)
{
	if (!v->overlay_listed)
		return;
	DL_DELETE2(b->overlays, v, overlay_prev, overlay_next);
	v->overlay_listed = false;
	b->count.overlay_entries--;
}

/* ---- zombies ---- */

/* Those that are mapped no more go through bank->dead, as everything that is freed. */
void upkeep_look_at_zombies(struct bank *b)
{
	struct content *still = NULL, *c, *next;

	for (c = b->zombies; c; c = next) {
		next = c->next_dead;
		if (ram_file_unused(c->file)) {
			b->zombie_bytes -= c->file->charged_bytes;
			b->freeing_bytes += c->file->charged_bytes;
			c->next_dead = b->dead;
			b->dead = c;
		} else {
			c->next_dead = still;
			still = c;
		}
	}
	b->zombies = still;
}

/* ---- overlays ---- */

static bool can_absorb(const struct bank *b, const struct version *v)
{
	const struct content *base = v->content->base;

	return base->refs == 1 && ram_file_unused(base->file) && !b->room_waiters && !b->stopping;
}

static bool can_go_on(const struct bank *b, const struct version *v, const struct content *top)
{
	return v->state == VERSION_COMMITTED && v->content == top && can_absorb(b, v);
}

static void recharge(struct bank *b, struct content *top)
{
	room_set_charge(b, top->base->file, content_holds(top->base));
	room_set_charge(b, top->file, content_holds(top));
}

/* The base is the whole content now. */
static void become_base(struct bank *b, struct version *v, struct content *top)
{
	if (v->content != top)
		return;
	v->content = top->base;
	content_ref(top->base);
	content_unref(b, top);
	room_set_payer(b, v->content->file, top->file->payer);
	if (content_is_plain(v->content))
		upkeep_no_overlay(b, v);
}

/* Lock held, let go of while bytes move. Returns whether it went on. */
static bool absorb_piece(struct bank *b, struct version *v, struct content *top)
{
	int ret = room_take_spare(b, ABSORB_BYTES);

	if (ret)
		return false;
	core_unlock(b);
	ret = content_absorb(top, ABSORB_BYTES);
	if (!ret)
		ret = content_finish(top->base);
	if (ret <= 0)
		content_rest(top->base);
	core_lock(b);
	recharge(b, top);
	room_return_spare(b, ABSORB_BYTES);
	if (ret < 0)
		core_log(b, LOG_WARNING, "an overlay could not be folded into its base: %s", strerror(-ret));
	if (!ret)
		become_base(b, v, top);
	return ret > 0;
}

static void absorb(struct bank *b, struct version *v)
{
	struct content *top = v->content;

	b->absorbing = v;
	b->absorber = pthread_self();
	node_ref(&v->node);
	content_ref(top);
	while (can_go_on(b, v, top) && absorb_piece(b, v, top))
		;
	b->absorbing = NULL;
	content_unref(b, top);
	node_unref(b, &v->node);
	pthread_cond_broadcast(&b->changed);
}

void upkeep_fold(struct bank *b, struct version *v)
{
	const struct content *before = NULL;

	node_ref(&v->node); /* absorb may let go of the last other one */
	/* As far down as it goes: what could not be folded the last time is folded now. */
	while (v->state == VERSION_COMMITTED && v->content != before && !content_is_plain(v->content) && !b->absorbing &&
	       can_absorb(b, v)) {
		before = v->content;
		absorb(b, v);
	}
	node_unref(b, &v->node);
}

/* Each overlay is tried once; those that cannot be absorbed now wait for the next look. */
static void look_at_overlays(struct bank *b)
{
	struct version *v;
	unsigned count = 0;

	DL_FOREACH2(b->overlays, v, overlay_next)
		count++;
	while (count-- && b->overlays) {
		v = b->overlays;
		DL_DELETE2(b->overlays, v, overlay_prev, overlay_next);
		DL_APPEND2(b->overlays, v, overlay_prev, overlay_next);
		if (!v->stage)
			upkeep_fold(b, v);
	}
}

/* ---- idle entries ---- */

static void drop_idle(struct bank *b)
{
	int64_t before = core_now_ms() - (int64_t)(b->cfg.idle_ttl_s * 1000);
	struct version *v, *next;

	if (!b->cfg.idle_ttl_s)
		return;
	DL_FOREACH_SAFE(b->lru, v, next) {
		if (v->last_access_ns / NS_PER_MS > before)
			break;
		if (v != b->settling && room_evictable(v))
			room_evict(b, v, "idle_ttl", false);
	}
}

void upkeep_once(struct bank *b)
{
	core_lock(b);
	b->upkeep_wanted = false;
	upkeep_look_at_zombies(b);
	look_at_overlays(b);
	drop_idle(b);
	core_unlock(b);
}

void *upkeep_main(void *arg)
{
	struct bank *b = arg;

	core_lock(b);
	while (!b->stopping) {
		if (!b->upkeep_wanted)
			core_wait(b, &b->upkeep_work, b->zombies || b->overlays ? LOOK_OFTEN_MS : LOOK_SELDOM_MS);
		core_unlock(b);
		upkeep_once(b);
		core_lock(b);
	}
	core_unlock(b);
	return NULL;
}
