/* SPDX-License-Identifier: GPL-2.0-or-later */
/* op_name.c - requests about names and attributes.
 *
 * LOOKUP is where writers of existing names find their stage: a thread that was refused a version
 * (redirect.h) is given a stage for the name it walks; a process that already writes a stage of the
 * name is given that; everybody else the committed version.
 *
 * Easy to forget: there is one dentry for a name in the kernel, shared by all processes. While a name
 * has a stage its timeout is 0, so that every walk asks here and each asker gets its own answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "fs/client.h"
#include "fs/control.h"
#include "fs/late.h"
#include "fs/notify.h"
#include "fs/redirect.h"
#include "fs/request.h"
#include "fs/xattr.h"

/* ---- lookup ---- */

/* Replaces what was found by another node; both are held, one hold is given back. */
static void take_instead(struct fs *fs, struct bank_stat *st, const struct bank_stat *other)
{
	bank_forget(fs->bank, st->id, 1);
	*st = *other;
	st->staged = true;
}

static int make_redirected_stage(struct fs *fs, fuse_req_t req, uint64_t start, uint64_t parent, const char *name,
				 const struct redirect *r, struct bank_stat *st)
{
	struct bank_who who = request_who(req, true);
	struct bank_stat stage;
	int ret = bank_stage_begin(fs->bank, parent, name, r->same_name ? BANK_ANY_VERSION : r->refused, r->flags, &who, &stage);

	if (ret)
		return ret == -ESTALE ? 0 : ret; /* another name: as it was found */
	if (redirect_bind(fs->redirects, fuse_req_ctx(req)->pid, start, stage.id, parent, name)) {
		bank_stage_drop(fs->bank, stage.id);
		bank_forget(fs->bank, stage.id, 1);
		return 0;
	}
	take_instead(fs, st, &stage);
	return 0;
}

/* The thread was refused a version a moment ago: is this the name? */
static int follow_redirect(struct fs *fs, fuse_req_t req, uint64_t parent, const char *name, struct bank_stat *st)
{
	pid_t tid = fuse_req_ctx(req)->pid;
	uint64_t start = client_start_time(tid);
	struct bank_stat stage;
	struct redirect r;

	switch (redirect_lookup(fs->redirects, tid, start, parent, name, request_now_ms(), &r)) {
	case REDIRECT_NONE:
		return 0;
	case REDIRECT_MAKE:
		return make_redirected_stage(fs, req, start, parent, name, &r, st);
	case REDIRECT_STAGE:
		if (!bank_hold(fs->bank, r.stage, &stage))
			take_instead(fs, st, &stage);
		return 0;
	}
	return 0;
}

static void prefer_own_stage(struct fs *fs, fuse_req_t req, uint64_t parent, const char *name, struct bank_stat *st)
{
	uint64_t own = request_own_stage(fs, client_process(fuse_req_ctx(req)->pid), parent, name);
	struct bank_stat stage;

	if (own && own != st->id && !bank_hold(fs->bank, own, &stage))
		take_instead(fs, st, &stage);
}

/* A reader on its second walk gets what it is told here, whatever replaces it before its OPEN. */
static void pin_for_reader(struct fs *fs, fuse_req_t req, uint64_t parent, const char *name, struct bank_stat *st)
{
	struct bank_reader *reader;
	struct bank_stat newer;
	int ret = bank_read_open(fs->bank, st->id, false, &reader);

	while (ret == -ESTALE && !bank_lookup(fs->bank, parent, name, &newer)) {
		bool same = newer.id == st->id;

		bank_forget(fs->bank, st->id, 1);
		*st = newer;
		if (same || newer.kind != BANK_ENTRY)
			return;
		ret = bank_read_open(fs->bank, st->id, false, &reader);
	}
	if (!ret)
		late_pin(fs->late, fuse_req_ctx(req)->pid, st->id, reader);
}

/* Nothing there: the kernel may remember that, since names only appear through it. A writer that was
 * refused a version has walked all the same; a creating open then makes the name anew. */
static void reply_absent(fuse_req_t req, uint64_t parent, const char *name)
{
	struct fuse_entry_param none = { .entry_timeout = REQUEST_LONG_S };
	struct fs *fs = request_fs(req);
	pid_t tid = fuse_req_ctx(req)->pid;
	struct redirect r;

	if (redirect_has(fs->redirects, tid))
		redirect_lookup(fs->redirects, tid, client_start_time(tid), parent, name, request_now_ms(), &r);
	fuse_reply_entry(req, &none);
}

static bool lookup_control(fuse_req_t req, uint64_t parent, const char *name)
{
	struct fuse_entry_param entry = { 0 };
	int ret;

	if (!control_reserved(parent, name) && !control_is(parent))
		return false;
	ret = control_lookup(request_fs(req), parent, name, &entry.attr);
	entry.ino = entry.attr.st_ino;
	if (ret)
		request_reply(req, ret);
	else
		fuse_reply_entry(req, &entry);
	return true;
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = request_fs(req);
	struct bank_stat st;
	int ret;

	if (lookup_control(req, parent, name))
		return;
	ret = bank_lookup(fs->bank, parent, name, &st);
	if (!ret && st.kind == BANK_ENTRY) {
		if (late_has(fs->late, fuse_req_ctx(req)->pid))
			pin_for_reader(fs, req, parent, name, &st);
		if (redirect_has(fs->redirects, fuse_req_ctx(req)->pid))
			ret = follow_redirect(fs, req, parent, name, &st);
		else if (st.staged)
			prefer_own_stage(fs, req, parent, name, &st);
		if (ret)
			bank_forget(fs->bank, st.id, 1);
	}
	if (ret == -ENOENT)
		reply_absent(req, parent, name);
	else if (ret)
		request_reply(req, ret);
	else
		request_reply_entry(req, &st);
}

void op_forget(fuse_req_t req, fuse_ino_t id, uint64_t count)
{
	if (!control_is(id))
		bank_forget(request_fs(req)->bank, id, count);
	fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		if (!control_is(forgets[i].ino))
			bank_forget(request_fs(req)->bank, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* ---- writers of what must not be written ---- */

void request_refuse_writer(fuse_req_t req, uint64_t id, unsigned flags)
{
	struct fs *fs = request_fs(req);
	pid_t tid = fuse_req_ctx(req)->pid;
	char name[BANK_NAME_MAX + 1];
	uint64_t parent = 0, dropped = 0;
	bool named = !bank_name_of(fs->bank, id, &parent, name);
	int ret;

	ret = redirect_refuse(fs->redirects, tid, client_start_time(tid), id, flags, parent, named ? name : NULL, request_now_ms(),
			      &dropped);
	if (dropped)
		bank_stage_drop(fs->bank, dropped);
	if (ret == -ETXTBSY)
		bank_event(fs->bank, "refuse", tid ? "no_path_to_rewrite" : "writer_in_another_pid_namespace", 0, parent,
			   named ? name : NULL);
	request_reply(req, ret);
}

/* ---- attributes ---- */

void op_getattr(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct fs *fs = request_fs(req);
	struct bank_stat st;
	struct stat attr;
	int ret;

	(void)fi;
	if (control_is(id)) {
		ret = control_stat(fs, id, &attr);
		if (ret)
			request_reply(req, ret);
		else
			fuse_reply_attr(req, &attr, 0);
		return;
	}
	ret = bank_getattr(fs->bank, id, &st);
	if (ret)
		request_reply(req, ret);
	else
		request_reply_attr(req, &st);
}

/* truncate(2) by path: a stage that was begun for it, the caller's own, or a redirect. Returns whether
 * the request was answered here with a redirect; else *ret and *st say how it went. */
static bool truncate_by_path(fuse_req_t req, uint64_t id, uint64_t size_bytes, int *ret, struct bank_stat *st)
{
	struct fs *fs = request_fs(req);
	struct bank_who who = request_who(req, true);
	struct bank_stage_info stage = { .id = id };
	struct bank_writer *w;
	unsigned begun_with = 0;

	if (redirect_end(fs->redirects, fuse_req_ctx(req)->pid, id, &begun_with)) {
		if (begun_with & BANK_TRUNC) { /* begun for another open of this thread */
			bank_stage_drop(fs->bank, id);
			request_refuse_writer(req, id, BANK_WRITE);
			return true;
		}
		*ret = bank_truncate_commit(fs->bank, id, size_bytes, st);
		return false;
	}
	*ret = bank_getattr(fs->bank, id, st);
	if (!*ret && st->kind == BANK_SESSION)
		*ret = -EISDIR;
	if (*ret)
		return false;
	if (!st->stage || !request_owns_stage(who.pid, &stage) || bank_write_open(fs->bank, id, BANK_WRITE, &who, &w)) {
		request_refuse_writer(req, id, BANK_WRITE);
		return true;
	}
	*ret = bank_writer_truncate(w, size_bytes);
	bank_write_close(w);
	if (!*ret)
		*ret = bank_getattr(fs->bank, id, st);
	return false;
}

static void set_times(const struct stat *attr, int what, struct bank_change *change)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (what & FUSE_SET_ATTR_ATIME) {
		change->what |= BANK_SET_ATIME;
		change->atime = what & FUSE_SET_ATTR_ATIME_NOW ? now : attr->st_atim;
	}
	if (what & FUSE_SET_ATTR_MTIME) {
		change->what |= BANK_SET_MTIME;
		change->mtime = what & FUSE_SET_ATTR_MTIME_NOW ? now : attr->st_mtim;
	}
}

static struct bank_change wanted_change(const struct stat *attr, int what)
{
	struct bank_change change = { .mode = attr->st_mode & 07777, .uid = attr->st_uid, .gid = attr->st_gid };

	change.what = (what & FUSE_SET_ATTR_MODE ? BANK_SET_MODE : 0) | (what & FUSE_SET_ATTR_UID ? BANK_SET_UID : 0) |
		      (what & FUSE_SET_ATTR_GID ? BANK_SET_GID : 0);
	if (!(what & FUSE_SET_ATTR_SIZE)) /* a truncate brings times of its own: those of the commit */
		set_times(attr, what, &change);
	return change;
}

static void setattr_control(fuse_req_t req, uint64_t id, int what)
{
	struct stat attr;
	int ret = control_stat(request_fs(req), id, &attr);

	if (!ret && what & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		ret = -EPERM;
	if (ret)
		request_reply(req, ret);
	else
		fuse_reply_attr(req, &attr, 0);
}

void op_setattr(fuse_req_t req, fuse_ino_t id, struct stat *attr, int what, struct fuse_file_info *fi)
{
	struct fs *fs = request_fs(req);
	struct bank_change change = wanted_change(attr, what);
	struct bank_stat st;
	int ret = 0;

	if (control_is(id)) {
		setattr_control(req, id, what);
		return;
	}
	if (what & FUSE_SET_ATTR_SIZE && fi)
		ret = file_truncate(fi, (uint64_t)attr->st_size);
	else if (what & FUSE_SET_ATTR_SIZE && truncate_by_path(req, id, (uint64_t)attr->st_size, &ret, &st))
		return;
	if (!ret)
		ret = change.what ? bank_setattr(fs->bank, id, &change, &st) : bank_getattr(fs->bank, id, &st);
	if (ret)
		request_reply(req, ret);
	else
		request_reply_attr(req, &st);
}

/* ---- names ---- */

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct bank_who who = request_who(req, false);
	struct bank_stat st;
	int ret = control_is(parent) || control_reserved(parent, name) ? -EPERM : 0;

	if (!ret)
		ret = bank_mkdir(request_fs(req)->bank, parent, name, mode, &who, &st);
	if (ret)
		request_reply(req, ret);
	else
		request_reply_entry(req, &st);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	int ret = control_is(parent) || control_reserved(parent, name) ? -EPERM : 0;

	request_reply(req, ret ? ret : bank_rmdir(request_fs(req)->bank, parent, name));
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	int ret = control_is(parent) || control_reserved(parent, name) ? -EPERM : 0;

	request_reply(req, ret ? ret : bank_unlink(request_fs(req)->bank, parent, name));
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname, unsigned flags)
{
	struct fs *fs = request_fs(req);
	uint64_t own;

	if (control_is(parent) || control_is(newparent) || control_reserved(parent, name) || control_reserved(newparent, newname)) {
		request_reply(req, -EPERM);
		return;
	}
	if (flags & ~(unsigned)RENAME_NOREPLACE) {
		request_reply(req, -EINVAL);
		return;
	}
	own = request_own_stage(fs, client_process(fuse_req_ctx(req)->pid), parent, name);
	request_reply(req, bank_rename(fs->bank, parent, name, newparent, newname, flags & RENAME_NOREPLACE, own));
}

void op_link(fuse_req_t req, fuse_ino_t id, fuse_ino_t newparent, const char *newname)
{
	struct bank_stat st;
	int ret = control_is(id) || control_is(newparent) || control_reserved(newparent, newname) ? -EPERM : 0;

	if (!ret)
		ret = bank_link(request_fs(req)->bank, id, newparent, newname, &st);
	if (ret)
		request_reply(req, ret);
	else
		request_reply_entry(req, &st);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	struct bank_who who = request_who(req, true);
	struct bank_stat st;
	int ret = !S_ISREG(mode) || control_is(parent) || control_reserved(parent, name) ? -EPERM : 0;

	(void)device;
	if (!ret)
		ret = bank_make_empty(request_fs(req)->bank, parent, name, mode, &who, &st);
	if (ret)
		request_reply(req, ret);
	else
		request_reply_entry(req, &st);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	(void)target;
	(void)parent;
	(void)name;
	request_reply(req, -EPERM);
}

/* ---- the whole mount ---- */

enum { STATFS_BLOCK = 4096 };

void op_statfs(fuse_req_t req, fuse_ino_t id)
{
	struct bank_space space;
	uint64_t free_bytes;
	struct statvfs s = { .f_bsize = STATFS_BLOCK, .f_frsize = STATFS_BLOCK, .f_namemax = BANK_NAME_MAX };

	(void)id;
	bank_space(request_fs(req)->bank, &space);
	free_bytes = space.total_bytes > space.held_bytes ? space.total_bytes - space.held_bytes : 0;
	s.f_blocks = space.total_bytes / STATFS_BLOCK;
	s.f_bfree = free_bytes / STATFS_BLOCK;
	/* What can be evicted is as good as free for whoever writes. */
	s.f_bavail = (free_bytes + space.evictable_bytes) / STATFS_BLOCK;
	fuse_reply_statfs(req, &s);
}

/* ---- extended attributes ---- */

void op_setxattr(fuse_req_t req, fuse_ino_t id, const char *name, const char *value, size_t len, int flags)
{
	request_reply(req, xattr_set(request_fs(req), id, name, value, len, flags));
}

/* The answer to a question for a size, or for the bytes. */
static void reply_bytes(fuse_req_t req, char *buf, size_t cap, ssize_t len)
{
	if (len < 0)
		request_reply(req, (int)len);
	else if (!cap)
		fuse_reply_xattr(req, (size_t)len);
	else
		fuse_reply_buf(req, buf, (size_t)len);
	free(buf);
}

void op_getxattr(fuse_req_t req, fuse_ino_t id, const char *name, size_t cap)
{
	char *buf = cap ? malloc(cap) : NULL;

	if (cap && !buf)
		request_reply(req, -ENOMEM);
	else
		reply_bytes(req, buf, cap, xattr_get(request_fs(req), id, name, buf, cap));
}

void op_listxattr(fuse_req_t req, fuse_ino_t id, size_t cap)
{
	char *buf = cap ? malloc(cap) : NULL;

	if (cap && !buf)
		request_reply(req, -ENOMEM);
	else
		reply_bytes(req, buf, cap, xattr_list(request_fs(req), id, buf, cap));
}

void op_removexattr(fuse_req_t req, fuse_ino_t id, const char *name)
{
	request_reply(req, xattr_remove(request_fs(req), id, name));
}
