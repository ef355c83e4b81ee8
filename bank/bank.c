/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bank.c - the bank's life: opening, threads, configuration, counters, and the lock that all the
 * other files use.
 *
 * Who does what (a put and a restore, hop by hop):
 *   put      stage.c bank_create / bank_stage_begin + bank_write_open     a stage and its content
 *            put.c bank_write -> room.c room_charge -> content.c content_write
 *            commit.c bank_flush -> stage_publish                          the name shows the new version
 *            commit.c bank_write_close -> settle.c, upkeep.c                final; hash and absorb later
 *   restore  tree.c bank_lookup -> read.c bank_read_open -> bank_reader_backing or bank_read
 * What the objects are and the lock order: core.h. What may be in RAM and who has to go: room.c,
 * budget.c, evict.c. */
#include "bank/core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>
#include <utlist.h>

enum { RAM_LEAST = 1 << 20, NS_PER_S = 1000000000, PATH_SHOWN_MAX = 4096 };

int64_t core_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t core_now_ms(void)
{
	return core_now_ns() / NS_PER_MS;
}

struct timespec core_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t;
}

void core_lock(struct bank *b)
{
	pthread_mutex_lock(&b->lock);
}

/* A client still maps it: its bytes count until it does no more (upkeep.c looks). */
static void become_zombie(struct bank *b, struct content *c)
{
	b->freeing_bytes -= c->file->charged_bytes;
	b->zombie_bytes += c->file->charged_bytes;
	c->next_dead = b->zombies;
	b->zombies = c;
	upkeep_want(b);
}

static void forget_content(struct bank *b, struct content *c)
{
	b->freeing_bytes -= c->file->charged_bytes;
	room_set_payer(b, c->file, NULL);
	DL_DELETE(b->files, c->file);
	free(c->file);
	if (c->base)
		content_unref(b, c->base);
	content_free(c);
	pthread_cond_broadcast(&b->room);
}

/* Lock held, let go of while bytes are freed, held again. */
static void free_dead(struct bank *b)
{
	while (b->dead) {
		struct content *c = b->dead;
		bool unused;

		b->dead = c->next_dead;
		pthread_mutex_unlock(&b->lock);
		ram_file_rest(c->file);
		unused = ram_file_unused(c->file);
		if (unused)
			ram_file_discard(c->file);
		pthread_mutex_lock(&b->lock);
		if (unused)
			forget_content(b, c);
		else
			become_zombie(b, c);
	}
}

void core_unlock(struct bank *b)
{
	free_dead(b);
	pthread_mutex_unlock(&b->lock);
}

void core_wait(struct bank *b, pthread_cond_t *cond, int64_t timeout_ms)
{
	struct timespec until;

	if (b->dead) {
		free_dead(b);
		return; /* the caller looks again before it really waits */
	}
	if (timeout_ms < 0) {
		pthread_cond_wait(cond, &b->lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * NS_PER_MS;
	if (until.tv_nsec >= NS_PER_S) {
		until.tv_sec++;
		until.tv_nsec -= NS_PER_S;
	}
	pthread_cond_timedwait(cond, &b->lock, &until);
}

void core_log(struct bank *b, int priority, const char *format, ...)
{
	char line[512];
	va_list args;

	if (!b->hooks.log)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	b->hooks.log(b->hooks.ctx, priority, line);
}

static int check_config(const struct bank_config *cfg)
{
	if (cfg->ram_bytes < RAM_LEAST || cfg->ram_bytes > INT64_MAX || cfg->session_ram_bytes > INT64_MAX)
		return -EINVAL;
	return 0;
}

static void init_conditions(struct bank *b)
{
	pthread_cond_t *all[] = { &b->room, &b->changed, &b->settle_work, &b->upkeep_work };
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		pthread_cond_init(all[i], &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static int make_root(struct bank *b)
{
	struct bank_who who = { .uid = b->cfg.root_uid, .gid = b->cfg.root_gid };

	b->root = calloc(1, sizeof(*b->root));
	if (!b->root)
		return -ENOMEM;
	b->next_id = BANK_ROOT;
	node_add(b, &b->root->node, BANK_SESSION, (mode_t)b->cfg.root_mode, &who);
	b->next_id = FIRST_ID;
	b->root->node.refs = 1;
	return 0;
}

int bank_open(const struct bank_config *cfg, const struct bank_hooks *hooks, struct bank **out)
{
	struct bank *b;
	int ret = check_config(cfg);

	if (ret)
		return ret;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->cfg = *cfg;
	if (hooks)
		b->hooks = *hooks;
	pthread_mutex_init(&b->lock, NULL);
	init_conditions(b);
	ret = -ENOMEM;
	b->former = calloc(FORMER_NAMES, sizeof(*b->former));
	b->events = b->former ? events_new() : NULL;
	if (!b->events)
		goto free_bank;
	ret = ram_open(cfg->ram_bytes, cfg->want_memfd, &b->ram);
	if (ret)
		goto free_events;
	b->files_max = ram_files_max(b->ram);
	ret = make_root(b);
	if (ret)
		goto close_ram;
	*out = b;
	return 0;
close_ram:
	ram_close(b->ram);
free_events:
	events_free(b->events);
free_bank:
	free(b->former);
	free(b);
	return ret;
}

int bank_start(struct bank *b)
{
	int ret = pthread_create(&b->settle_thread, NULL, settle_main, b);

	if (ret)
		return -ret;
	ret = pthread_create(&b->upkeep_thread, NULL, upkeep_main, b);
	if (ret) {
		core_lock(b);
		b->stopping = true;
		pthread_cond_broadcast(&b->settle_work);
		core_unlock(b);
		pthread_join(b->settle_thread, NULL);
		return -ret;
	}
	b->started = true;
	return 0;
}

static void stop_threads(struct bank *b)
{
	core_lock(b);
	b->stopping = true;
	b->settle_abort = true;
	pthread_cond_broadcast(&b->settle_work);
	pthread_cond_broadcast(&b->upkeep_work);
	pthread_cond_broadcast(&b->changed);
	core_unlock(b);
	if (!b->started)
		return;
	pthread_join(b->settle_thread, NULL);
	pthread_join(b->upkeep_thread, NULL);
}

static void drop_chain(struct content *c)
{
	while (c && --c->refs == 0) {
		struct content *base = c->base;

		content_free(c);
		c = base;
	}
}

/* At the end everything goes, whoever still has a hold on it. */
static void free_everything(struct bank *b)
{
	struct ram_file *f, *next_file;
	struct name *n, *next_name;
	struct node *node, *next_node;

	HASH_ITER(hh, b->names, n, next_name) {
		struct stage *st, *next_stage;

		DL_FOREACH_SAFE(n->stages, st, next_stage)
			free(st);
		HASH_DEL(b->names, n);
		free(n);
	}
	HASH_ITER(hh, b->nodes, node, next_node) {
		if (node->kind == BANK_ENTRY) {
			drop_chain(to_version(node)->content);
			free(to_version(node)->last_name);
		}
		HASH_DEL(b->nodes, node);
		attr_free(node);
		free(node);
	}
	DL_FOREACH_SAFE(b->files, f, next_file) {
		ram_file_discard(f);
		free(f);
	}
}

void bank_close(struct bank *b)
{
	if (!b)
		return;
	stop_threads(b);
	core_lock(b);
	core_unlock(b); /* frees what is dead */
	while (b->zombies) {
		struct content *c = b->zombies;

		b->zombies = c->next_dead;
		content_free(c);
	}
	free_everything(b);
	ram_close(b->ram);
	events_free(b->events);
	free(b->former);
	pthread_cond_destroy(&b->room);
	pthread_cond_destroy(&b->changed);
	pthread_cond_destroy(&b->settle_work);
	pthread_cond_destroy(&b->upkeep_work);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* The new caps are obeyed first and the tmpfs shrinks last; when that fails all is as it was. */
int bank_configure(struct bank *b, const struct bank_config *cfg)
{
	struct bank_config old;
	int ret = check_config(cfg);

	if (ret)
		return ret;
	core_lock(b);
	old = b->cfg;
	if (cfg->ram_bytes > old.ram_bytes)
		ret = ram_resize(b->ram, cfg->ram_bytes);
	if (!ret) {
		b->cfg = *cfg;
		ret = room_obey(b);
	}
	if (!ret && cfg->ram_bytes < old.ram_bytes)
		ret = ram_resize(b->ram, cfg->ram_bytes);
	if (ret)
		b->cfg = old;
	pthread_cond_broadcast(&b->settle_work);
	core_unlock(b);
	return ret == -ENOSPC || ret == -EDQUOT ? -EBUSY : ret;
}

void bank_config_get(struct bank *b, struct bank_config *out)
{
	core_lock(b);
	*out = b->cfg;
	core_unlock(b);
}

enum bank_tier_kind bank_tier(const struct bank *b)
{
	return ram_is_tmpfs(b->ram) ? BANK_TIER_TMPFS : BANK_TIER_MEMFD;
}

/* What could be evicted if it had to be; unused ones are not probed, so mapped ones count too. */
static uint64_t evictable_bytes(struct bank *b)
{
	struct version *v;
	uint64_t sum = 0;

	DL_FOREACH(b->lru, v)
		if (!v->readers && !v->stage && v->pin_until_ms <= 0)
			sum += version_bytes(v);
	return sum;
}

void bank_counters(struct bank *b, struct bank_counters *out)
{
	core_lock(b);
	*out = b->count;
	out->stages = b->stages;
	out->ram_bytes = b->ram_bytes;
	out->ram_max = b->cfg.ram_bytes;
	out->zombie_bytes = b->zombie_bytes;
	core_unlock(b);
}

void bank_space(struct bank *b, struct bank_space *out)
{
	core_lock(b);
	out->total_bytes = b->cfg.ram_bytes;
	out->held_bytes = b->ram_bytes;
	out->evictable_bytes = evictable_bytes(b);
	core_unlock(b);
}

/* ---- events ---- */

void core_event_name(struct bank *b, const char *event, const char *reason, uint64_t bytes, const struct name *name)
{
	char path[PATH_SHOWN_MAX] = "";

	if (name && name_path(name, path, sizeof(path)) < 0)
		name_path_end(name, path, sizeof(path));
	events_add(b->events, event, reason ? reason : "-", bytes, path);
}

void core_event_version(struct bank *b, const char *event, const char *reason, const struct version *v)
{
	const struct name *name = v->names ? v->names : v->stage ? v->stage->name : NULL;

	core_event_name(b, event, reason, version_bytes(v), name);
}

size_t bank_events_read(struct bank *b, uint64_t *off, char *buf, size_t cap)
{
	return events_read(b->events, off, buf, cap);
}

uint64_t bank_events_end(struct bank *b, struct timespec *last)
{
	return events_end(b->events, last);
}

void bank_event(struct bank *b, const char *event, const char *reason, uint64_t bytes, uint64_t parent, const char *name)
{
	struct session *s;
	int error = 0;

	core_lock(b);
	s = name ? node_session(b, parent, &error) : NULL;
	core_event_name(b, event, reason, bytes, s ? name_find(b, s, name, &error) : NULL);
	core_unlock(b);
}

/* ---- self-check ---- */

uint64_t bank_tier_used(struct bank *b)
{
	struct ram_file *f;
	uint64_t sum = 0;

	if (ram_is_tmpfs(b->ram))
		return ram_used(b->ram);
	core_lock(b);
	DL_FOREACH(b->files, f)
		sum += ram_file_held(f);
	core_unlock(b);
	return sum;
}

static int disagree(struct bank *b, const char *what, uint64_t got, uint64_t want)
{
	if (got == want)
		return 0;
	core_log(b, LOG_ERR, "check: %s is %llu, its parts add up to %llu", what, (unsigned long long)got,
		 (unsigned long long)want);
	return 1;
}

/* Charges of all files against the sums, and of files at rest against what they hold. */
static int check_files(struct bank *b)
{
	struct ram_file *f;
	uint64_t charged = 0;
	int wrong = 0;

	DL_FOREACH(b->files, f) {
		charged += f->charged_bytes;
		if (f->fd < 0 && !b->absorbing && f->charged_bytes < ram_file_held(f))
			wrong += disagree(b, "a file's charge", f->charged_bytes, ram_file_held(f));
	}
	return wrong + disagree(b, "ram_bytes", b->ram_bytes, charged);
}

static int check_sessions(struct bank *b)
{
	struct node *n, *next;
	uint64_t entries = 0, sessions = 0, own = 0;
	int wrong = 0;

	HASH_ITER(hh, b->nodes, n, next) {
		if (n->kind != BANK_SESSION)
			continue;
		entries += to_session(n)->entries;
		own += to_session(n)->own_bytes;
		sessions += !to_session(n)->removed && to_session(n) != b->root;
	}
	wrong += disagree(b, "entries", b->count.entries, entries);
	wrong += disagree(b, "sessions", b->count.sessions, sessions);
	return wrong + disagree(b, "sessions' bytes", b->ram_bytes, own);
}

int bank_check(struct bank *b)
{
	int wrong;

	core_lock(b);
	wrong = check_files(b) + check_sessions(b);
	core_unlock(b);
	return wrong;
}
