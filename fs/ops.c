/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ops.c - the table of requests, and the helpers that all handlers share.
 *
 * The way of a put:      op_lookup -> op_create, or op_open + redirect + op_lookup + op_open
 *                        -> op_write -> op_flush (commits) -> op_release
 * The way of a restore:  op_lookup -> op_open -> the kernel itself (passthrough), or op_read
 *
 * Absent on purpose, the kernel's own answer is right: access, locks, lseek, poll, bmap, ioctl,
 * copy_file_range, write_buf (which would turn splicing on). */
#include "fs/ops.h"

#include <errno.h>
#include <syslog.h>
#include <time.h>

#include "fs/client.h"
#include "fs/control.h"
#include "fs/daemon.h"
#include "fs/late.h"
#include "fs/redirect.h"
#include "fs/request.h"

int64_t request_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct bank_who request_who(fuse_req_t req, bool with_process)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct bank_who who = { .uid = ctx->uid, .gid = ctx->gid };

	if (with_process)
		who.pid = client_process(ctx->pid);
	return who;
}

bool request_owns_stage(pid_t pid, const struct bank_stage_info *stage)
{
	if (!pid)
		return false;
	return stage->opener == pid || client_holds(pid, stage->id, false);
}

uint64_t request_own_stage(struct fs *fs, pid_t pid, uint64_t parent, const char *name)
{
	struct bank_stage_info stages[BANK_STAGES_SHOWN];
	int count = pid ? bank_stages(fs->bank, parent, name, stages) : 0;

	for (int i = 0; i < count; i++)
		if (request_owns_stage(pid, &stages[i]))
			return stages[i].id;
	return 0;
}

void request_stat(const struct bank_stat *st, struct stat *out)
{
	*out = (struct stat){
		.st_ino = st->id,
		.st_mode = (st->kind == BANK_SESSION ? S_IFDIR : S_IFREG) | st->mode,
		.st_nlink = st->nlink,
		.st_uid = st->uid,
		.st_gid = st->gid,
		.st_size = (off_t)st->size_bytes,
		.st_blksize = REQUEST_BLOCK,
		/* Rounded up: less than the size would make cp and tar look for holes. */
		.st_blocks = (blkcnt_t)(st->size_bytes / 512 + (st->size_bytes % 512 != 0)),
		.st_atim = st->atime,
		.st_mtim = st->mtime,
		.st_ctim = st->ctime,
	};
}

void request_entry(const struct bank_stat *st, struct fuse_entry_param *out)
{
	*out = (struct fuse_entry_param){ .ino = st->id };
	request_stat(st, &out->attr);
	out->attr_timeout = st->stage ? 0 : REQUEST_LONG_S;
	out->entry_timeout = st->stage || st->staged ? 0 : REQUEST_LONG_S;
}

void request_reply_entry(fuse_req_t req, const struct bank_stat *st)
{
	struct bank *bank = request_fs(req)->bank;
	struct fuse_entry_param entry;

	request_entry(st, &entry);
	if (fuse_reply_entry(req, &entry) == -ENOENT)
		bank_forget(bank, st->id, 1);
}

void request_reply_attr(fuse_req_t req, const struct bank_stat *st)
{
	struct stat attr;

	request_stat(st, &attr);
	fuse_reply_attr(req, &attr, st->stage ? 0 : REQUEST_LONG_S);
}

void request_reply(fuse_req_t req, int error)
{
	fuse_reply_err(req, -error);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;

	compat_init(conn, options_get(fs->options, OPTION_PASSTHROUGH) == PASSTHROUGH_AUTO);
	daemon_ready();
}

static bool thread_alive(void *ctx, pid_t tid)
{
	(void)ctx;
	return client_alive(tid);
}

static void drop_stage(void *ctx, uint64_t stage)
{
	struct fs *fs = ctx;

	bank_stage_drop(fs->bank, stage);
}

void ops_tick(void *ctx)
{
	struct fs *fs = ctx;
	const struct redirect_upkeep upkeep = { .ctx = fs, .alive = thread_alive, .drop = drop_stage };

	redirect_expire(fs->redirects, request_now_ms(), &upkeep);
	late_expire(fs->late, request_now_ms());
}

const struct fuse_lowlevel_ops fs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.mkdir = op_mkdir,
	.rmdir = op_rmdir,
	.unlink = op_unlink,
	.rename = op_rename,
	.link = op_link,
	.mknod = op_mknod,
	.symlink = op_symlink,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
	.create = op_create,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.fallocate = op_fallocate,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsyncdir,
};
