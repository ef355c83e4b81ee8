/* SPDX-License-Identifier: GPL-2.0-or-later */
/* dir.c - directory streams that stay stable while names come and go.
 *
 * A stream is a mark in the session's list of names. Going on from where it stopped costs nothing,
 * however long the list is; going anywhere else walks from the start. New names come behind all marks
 * and removed ones just leave the list, so what exists all the while is shown exactly once.
 *
 * Cookies are the running numbers of names: unique for ever in a session, so a stream can be taken up
 * again behind a name that is gone. */
#include "bank/core.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

struct bank_dir {
	struct bank *bank;
	struct session *session; /* node reference */
	struct dir_link place;	 /* in the session's list; cookie = the last one shown */
};

int bank_dir_open(struct bank *b, uint64_t id, struct bank_dir **out)
{
	struct bank_dir *dir = calloc(1, sizeof(*dir));
	int ret = dir ? 0 : -ENOMEM;

	if (ret)
		return ret;
	core_lock(b);
	dir->session = node_session(b, id, &ret);
	if (dir->session) {
		dir->bank = b;
		dir->place.mark = true;
		node_ref(&dir->session->node);
		DL_PREPEND(dir->session->names, &dir->place);
	}
	core_unlock(b);
	if (ret) {
		free(dir);
		return ret;
	}
	*out = dir;
	return 0;
}

void bank_dir_close(struct bank_dir *dir)
{
	struct bank *b = dir->bank;

	core_lock(b);
	DL_DELETE(dir->session->names, &dir->place);
	node_unref(b, &dir->session->node);
	core_unlock(b);
	free(dir);
}

/* The first link behind cookie `after`. */
static struct dir_link *seek(struct bank_dir *dir, uint64_t after)
{
	struct dir_link *link = dir->session->names;

	if (after && after == dir->place.cookie)
		return dir->place.next;
	while (link && (link->mark || link->cookie <= after))
		link = link->next;
	return link;
}

static struct name *link_name(struct dir_link *link)
{
	return (struct name *)((char *)link - offsetof(struct name, link));
}

static struct node *shown(struct name *n)
{
	struct stage *st;

	if (n->node)
		return n->node;
	DL_FOREACH(n->stages, st)
		if (!st->committed)
			return &st->version->node;
	return NULL;
}

/* Puts the mark before `link` (NULL: at the end). */
static void move_place(struct bank_dir *dir, struct dir_link *link, uint64_t cookie)
{
	DL_DELETE(dir->session->names, &dir->place);
	if (link)
		DL_PREPEND_ELEM(dir->session->names, link, &dir->place);
	else
		DL_APPEND(dir->session->names, &dir->place);
	dir->place.cookie = cookie;
}

void bank_dir_read(struct bank_dir *dir, uint64_t after, bank_show_fn *show, void *arg)
{
	struct bank *b = dir->bank;
	struct dir_link *link;
	uint64_t last = after;

	core_lock(b);
	for (link = seek(dir, after); link; link = link->next) {
		struct bank_dirent entry = { .cookie = link->cookie };
		struct node *node = link->mark ? NULL : shown(link_name(link));
		enum bank_shown how;

		if (!node)
			continue;
		entry.name = name_text(link_name(link));
		node_stat(node, &entry.st);
		entry.st.staged = link_name(link)->stages != NULL;
		how = show(arg, &entry);
		if (how == BANK_SHOW_STOP)
			break;
		node->holds += how == BANK_SHOWN_HELD;
		last = link->cookie;
	}
	if (link != &dir->place)
		move_place(dir, link, last);
	core_unlock(b);
}
