/* SPDX-License-Identifier: GPL-2.0-or-later */
/* read.c - open versions: what a reader holds, and what it may be given.
 *
 * A reader pins the content it opened: whatever the name shows later, whatever is evicted, it reads
 * those bytes to the end. A version that ended stays readable while somebody has it open, so that
 * /proc/PID/fd/N of an open entry works. */
#include "bank/core.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct bank_reader {
	struct bank *bank;
	struct version *version; /* node reference, and one of its readers */
	struct content *content; /* reference */
	bool stage;		 /* the caller's own stage: bytes may still change */
	bool first;		 /* of its version */
};

/* A committed version, or the caller's own stage. */
static int check_open(const struct version *v, bool own)
{
	if (!v || (v->state == VERSION_ENDED && !v->content))
		return -ESTALE;
	if (v->state == VERSION_STAGED && !own)
		return v->stage ? -EBUSY : -ESTALE;
	return 0;
}

static void count_hit(struct bank *b, struct version *v)
{
	v->hits++;
	v->last_access = core_now();
	version_touch(b, v);
	b->count.hit_entries++;
	b->count.hit_bytes += v->content->size_bytes;
}

int bank_read_open(struct bank *b, uint64_t id, bool own, struct bank_reader **out)
{
	struct bank_reader *r = calloc(1, sizeof(*r));
	struct version *v;
	int ret = -ENOMEM;

	if (!r)
		return ret;
	core_lock(b);
	v = node_version(b, id);
	ret = check_open(v, own);
	if (!ret) {
		r->bank = b;
		r->version = v;
		r->stage = v->state == VERSION_STAGED;
		r->content = r->stage && v->stage ? v->stage->version->content : v->content;
		node_ref(&v->node);
		content_ref(r->content);
		v->readers += !r->stage;
		r->first = !v->opened;
		v->opened = true;
		if (v->state == VERSION_COMMITTED)
			count_hit(b, v);
	}
	core_unlock(b);
	if (ret)
		free(r);
	else
		*out = r;
	return ret;
}

ssize_t bank_read(struct bank_reader *r, void *buf, size_t len, uint64_t off)
{
	return content_read(r->content, buf, len, off);
}

int bank_reader_backing(struct bank_reader *r)
{
	struct bank *b = r->bank;
	bool plain;

	core_lock(b);
	plain = !r->stage && content_is_plain(r->content) && ram_is_tmpfs(b->ram);
	if (plain)
		r->content->file->shown = true;
	core_unlock(b);
	return plain ? ram_file_reopen(r->content->file) : -EAGAIN;
}

bool bank_reader_is_stage(const struct bank_reader *r)
{
	return r->stage;
}

bool bank_reader_is_first(const struct bank_reader *r)
{
	return r->first;
}

void bank_read_close(struct bank_reader *r)
{
	struct bank *b = r->bank;
	struct version *v = r->version;

	core_lock(b);
	content_unref(b, r->content);
	if (!r->stage) {
		assert(v->readers);
		v->readers--;
		version_end_if_gone(b, v);
		version_drop_content(b, v);
	}
	node_unref(b, &v->node);
	upkeep_want(b);
	core_unlock(b);
	free(r);
}
