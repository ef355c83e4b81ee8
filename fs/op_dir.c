/* SPDX-License-Identifier: GPL-2.0-or-later */
/* op_dir.c - directory streams: the bank's, and the fixed list of .kvbank.
 *
 * Offsets: 1 is behind ".", 2 behind "..", then the bank's cookies + 2. readdirplus hands out a held
 * node with each entry, but not for names that are being written: what they stand for depends on who
 * asks, so the kernel must look them up. */
#include <errno.h>
#include <stdlib.h>

#include "fs/control.h"
#include "fs/handles.h"
#include "fs/request.h"

enum { DOTS = 2 };

struct dir {
	struct handle handle;
	struct bank_dir *bank_dir; /* NULL: .kvbank */
	uint64_t id;
};

/* A reply being filled. */
struct filling {
	fuse_req_t req;
	char *buf;
	size_t cap, used;
	bool plus;
	uint64_t *held; /* nodes that go back when the reply does not arrive */
	size_t held_count, held_cap;
};

static struct dir *dir_of(const struct fuse_file_info *fi)
{
	return (struct dir *)(uintptr_t)fi->fh; /* what opendir put there */
}

static void close_handle(struct fs *fs, struct handle *h)
{
	struct dir *d = (struct dir *)h; /* its first member */

	(void)fs;
	if (d->bank_dir)
		bank_dir_close(d->bank_dir);
	free(d);
}

static void take_back(struct fs *fs, struct dir *d)
{
	handles_remove(fs->handles, &d->handle);
	close_handle(fs, &d->handle);
}

void op_opendir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct fs *fs = request_fs(req);
	struct dir *d = calloc(1, sizeof(*d));
	int ret = d ? 0 : -ENOMEM;

	if (!ret && !control_is(id))
		ret = bank_dir_open(fs->bank, id, &d->bank_dir);
	if (ret) {
		free(d);
		request_reply(req, ret);
		return;
	}
	d->id = id;
	d->handle.close = close_handle;
	handles_add(fs->handles, &d->handle);
	fi->fh = (uintptr_t)d;
	if (fuse_reply_open(req, fi) == -ENOENT)
		take_back(fs, d);
}

void op_releasedir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	(void)id;
	take_back(request_fs(req), dir_of(fi));
	request_reply(req, 0);
}

/* Entries are durable with their files; there is nothing else to sync yet. */
void op_fsyncdir(fuse_req_t req, fuse_ino_t id, int datasync, struct fuse_file_info *fi)
{
	(void)id;
	(void)datasync;
	(void)fi;
	request_reply(req, 0);
}

/* Returns whether it had room. An entry without ino is only shown, not given to the kernel. */
static bool add_entry(struct filling *f, const char *name, const struct fuse_entry_param *entry, uint64_t off)
{
	size_t room = f->cap - f->used, len;

	if (f->plus)
		len = fuse_add_direntry_plus(f->req, f->buf + f->used, room, name, entry, (off_t)off);
	else
		len = fuse_add_direntry(f->req, f->buf + f->used, room, name, &entry->attr, (off_t)off);
	if (len > room)
		return false;
	f->used += len;
	return true;
}

static bool add_dot(struct filling *f, const char *name, uint64_t id, uint64_t off)
{
	struct fuse_entry_param entry = { .attr = { .st_ino = id, .st_mode = S_IFDIR } };

	return add_entry(f, name, &entry, off);
}

static bool remember_held(struct filling *f, uint64_t id)
{
	if (f->held_count == f->held_cap) {
		size_t cap = f->held_cap ? 2 * f->held_cap : 64;
		uint64_t *more = realloc(f->held, cap * sizeof(*more));

		if (!more)
			return false;
		f->held = more;
		f->held_cap = cap;
	}
	f->held[f->held_count++] = id;
	return true;
}

static enum bank_shown show_entry(void *arg, const struct bank_dirent *dirent)
{
	struct filling *f = arg;
	struct fuse_entry_param entry;
	bool held = f->plus && !dirent->st.staged && !dirent->st.stage;

	request_entry(&dirent->st, &entry);
	if (held && !remember_held(f, dirent->st.id))
		held = false;
	if (!held)
		entry.ino = 0;
	if (!add_entry(f, dirent->name, &entry, dirent->cookie + DOTS)) {
		f->held_count -= held;
		return BANK_SHOW_STOP;
	}
	return held ? BANK_SHOWN_HELD : BANK_SHOWN;
}

static void fill_control(struct fs *fs, struct filling *f, uint64_t off)
{
	struct fuse_entry_param entry = { 0 };
	const char *name;

	while (!control_readdir(fs, (unsigned)off, &name, &entry.attr) && add_entry(f, name, &entry, off + 1))
		off++;
}

static void fill_session(struct filling *f, const struct dir *d, uint64_t off)
{
	if (off < 1 && !add_dot(f, ".", d->id, 1))
		return;
	if (off < DOTS && !add_dot(f, "..", BANK_ROOT, DOTS))
		return;
	bank_dir_read(d->bank_dir, off > DOTS ? off - DOTS : 0, show_entry, f);
}

static void read_dir(fuse_req_t req, size_t cap, uint64_t off, struct fuse_file_info *fi, bool plus)
{
	struct fs *fs = request_fs(req);
	struct dir *d = dir_of(fi);
	struct filling f = { .req = req, .buf = malloc(cap), .cap = cap, .plus = plus };

	if (!f.buf) {
		request_reply(req, -ENOMEM);
		return;
	}
	if (d->bank_dir)
		fill_session(&f, d, off);
	else
		fill_control(fs, &f, off);
	if (fuse_reply_buf(req, f.buf, f.used) == -ENOENT)
		for (size_t i = 0; i < f.held_count; i++)
			bank_forget(fs->bank, f.held[i], 1);
	free(f.held);
	free(f.buf);
}

void op_readdir(fuse_req_t req, fuse_ino_t id, size_t cap, off_t off, struct fuse_file_info *fi)
{
	(void)id;
	read_dir(req, cap, (uint64_t)off, fi, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t id, size_t cap, off_t off, struct fuse_file_info *fi)
{
	(void)id;
	read_dir(req, cap, (uint64_t)off, fi, true);
}
