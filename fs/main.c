/* SPDX-License-Identifier: GPL-2.0-or-later */
/* main.c - brings everything up in order, runs the session loop, takes everything down in reverse.
 *
 *	options		the terminal gets what is wrong with them, from the process it started
 *	background	fork; from here on the child, with the parent waiting for the mount
 *	store, bank	the lock first; the bank's memory, no threads yet
 *	mount		a dead mount of ours is cleared first; the kernel's INIT waits in the queue
 *	threads		bank, log, notifications, signals: all after the last fork
 *	loop		answers INIT, whose handler calls daemon_ready
 *
 * Exit status: 0 done, 1 usage, 2 STORE or the bank, 3 the mount.
 *
 * Whoever holds the mount after it was lazily taken away keeps the connection alive, and with it the loop.
 * When the signal thread gives up on them it stops the notifications first, while requests are still
 * answered: a notification waits in the kernel for directories that a waiting request may hold.
 *
 * Easy to forget: fuse_session_unmount unmounts by path whatever is there by now, unless the connection
 * is dead. So we unmount ourselves, by device number, and cut the connection before it looks.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/compat.h"
#include "fs/daemon.h"
#include "fs/fs.h"
#include "fs/handles.h"
#include "fs/iomode.h"
#include "fs/late.h"
#include "fs/log.h"
#include "fs/mountpoint.h"
#include "fs/notify.h"
#include "fs/ops.h"
#include "fs/options.h"
#include "fs/redirect.h"
#include "fs/store.h"

#define EXIT_USAGE  1
#define EXIT_STORE  2
#define EXIT_MOUNT  3
#define THREADS_MIN 32u
#define MESSAGE_CAP MOUNTPOINT_MESSAGE_CAP
#define HELP_CAP    8192u

_Static_assert(MESSAGE_CAP >= STORE_MESSAGE_CAP, "one buffer for all messages");
_Static_assert(MESSAGE_CAP >= OPTIONS_MESSAGE_CAP, "one buffer for all messages");

struct program {
	struct fs fs;
	struct options *options;
	struct store store;
	struct mountpoint mountpoint;
	bool notify_stopped; /* by the signal thread; the main thread looks after daemon_loop_ended */
	char message[MESSAGE_CAP];
};

/* ---- options ---- */

static void say(const struct program *p)
{
	log_line(LOG_ERR, "%s", p->message);
}

static int help(void)
{
	char text[HELP_CAP];
	size_t len = options_help(text, sizeof(text));

	return fwrite(text, 1, len, stdout) == len && !fflush(stdout) ? EXIT_SUCCESS : EXIT_USAGE;
}

static int version(void)
{
	return printf("kvbankfs %s\nlibfuse %s\n", KVBANK_VERSION, fuse_pkgversion()) > 0 && !fflush(stdout)
		       ? EXIT_SUCCESS
		       : EXIT_USAGE;
}

/* -EINVAL and the like with the message said. */
static int take_options(struct program *p, int argc, char **argv)
{
	struct options_machine machine;
	char fuse_words[LOG_LINE_CAP];
	int ret;

	log_hold_fuse(fuse_words, sizeof(fuse_words)); /* our line says it better */
	ret = options_parse(p->options, argc, argv, p->message, sizeof(p->message));
	log_hold_fuse(NULL, 0);
	if (!ret && (p->options->action == OPTIONS_MOUNT || p->options->action == OPTIONS_PRETEND)) {
		options_machine_read(p->options->store, &machine);
		ret = options_resolve(p->options, &machine, p->message, sizeof(p->message));
	}
	if (ret)
		say(p);
	return ret;
}

/* ---- store and bank ---- */

static void name_changed(void *ctx, uint64_t parent, const char *name)
{
	struct fs *fs = ctx;

	if (fs->notify)
		notify_name(fs->notify, parent, name);
}

static void attr_changed(void *ctx, uint64_t id)
{
	struct fs *fs = ctx;

	if (fs->notify)
		notify_attr(fs->notify, id);
}

static int apply_config(void *ctx, const struct bank_config *config)
{
	return bank_configure(ctx, config);
}

static int open_store(struct program *p)
{
	if (p->options->bank.ssd_mode == BANK_SSD_OFF)
		return 0;
	return store_open(p->options->store, p->mountpoint.path, &p->store, p->message, sizeof(p->message));
}

static int open_bank(struct program *p)
{
	const struct bank_hooks hooks = {
		.ctx = &p->fs, .name_changed = name_changed, .attr_changed = attr_changed, .log = log_hook};
	int ret = bank_open(&p->options->bank, &hooks, &p->fs.bank);

	if (ret) {
		log_line(LOG_ERR, "the bank cannot be opened: %s", strerror(-ret));
		return ret;
	}
	options_on_change(p->options, apply_config, p->fs.bank);
	return 0;
}

/* ---- mount ---- */

static int new_session(struct program *p)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);

	if (!fuse_opt_add_arg(&args, "kvbankfs") && !fuse_opt_add_arg(&args, "-o") &&
	    !fuse_opt_add_arg(&args, p->options->fuse_options))
		p->fs.session = fuse_session_new(&args, &fs_ops, sizeof(fs_ops), &p->fs);
	fuse_opt_free_args(&args);
	return p->fs.session ? 0 : -EINVAL;
}

static int mount_session(struct program *p)
{
	int ret;

	if (fuse_session_mount(p->fs.session, p->mountpoint.path))
		return -EIO;
	ret = mountpoint_identify(&p->mountpoint);
	if (!ret)
		ret = compat_install(p->fs.session);
	if (ret) {
		fuse_session_unmount(p->fs.session);
		p->mountpoint.mounted = false;
	}
	return ret;
}

/* libfuse tells why in lines of its own, in words like "fuse: mount failed: ...". */
static int mount_it(struct program *p)
{
	char why[LOG_LINE_CAP];
	int ret = mountpoint_prepare(&p->mountpoint, p->message, sizeof(p->message));

	if (ret) {
		say(p);
		return ret;
	}
	log_hold_fuse(why, sizeof(why));
	ret = new_session(p);
	if (!ret)
		ret = mount_session(p);
	log_hold_fuse(NULL, 0);
	if (ret) {
		log_line(LOG_ERR, "mount point %s: cannot mount%s%s", p->mountpoint.path, why[0] ? ": " : "",
			 why);
		fuse_session_destroy(p->fs.session);
		p->fs.session = NULL;
		return ret;
	}
	if (!mountpoint_read_ahead(&p->mountpoint, MOUNTPOINT_READ_AHEAD_KB))
		log_line(LOG_DEBUG, "read-ahead stays as the kernel has it: not permitted to raise it");
	return 0;
}

/* A descriptor of a connection that still has users becomes that of a broken pipe: the users get errors
 * at once, and libfuse takes the mount for gone, as it is. */
static void cut_connection(struct fuse_session *session)
{
	struct pollfd device = {.fd = fuse_session_fd(session)};
	int ends[2];

	if (poll(&device, 1, 0) == 1 && (device.revents & POLLERR))
		return;
	if (pipe2(ends, O_CLOEXEC))
		return;
	close(ends[0]);
	dup3(ends[1], device.fd, O_CLOEXEC);
	close(ends[1]);
}

static void unmount_it(struct program *p)
{
	int ret = mountpoint_unmount(&p->mountpoint);

	if (ret)
		log_line(LOG_ERR, "mount point %s: cannot unmount: %s", p->mountpoint.path, strerror(-ret));
	cut_connection(p->fs.session);
	fuse_session_unmount(p->fs.session);
	fuse_session_destroy(p->fs.session);
	p->fs.session = NULL;
}

/* ---- signals ---- */

static void stop_notify(struct program *p)
{
	if (!p->notify_stopped)
		notify_stop(p->fs.notify);
	p->notify_stopped = true;
}

static void on_unmount(void *ctx)
{
	struct program *p = ctx;
	int ret = mountpoint_unmount(&p->mountpoint);

	if (ret)
		log_line(LOG_ERR, "mount point %s: cannot unmount: %s", p->mountpoint.path, strerror(-ret));
}

static void on_abandon(void *ctx)
{
	struct program *p = ctx;

	stop_notify(p);
	fuse_session_exit(p->fs.session);
}

static void on_statistics(void *ctx)
{
	struct program *p = ctx;
	struct bank_counters c;
	int wrong = bank_check(p->fs.bank);

	bank_counters(p->fs.bank, &c);
	log_line(LOG_INFO,
		 "entries %llu sessions %llu stages %llu ram_bytes %llu of %llu tier_used %llu put_entries "
		 "%llu "
		 "evicted_entries %llu refused_entries %llu accounts_wrong %d",
		 (unsigned long long)c.entries, (unsigned long long)c.sessions, (unsigned long long)c.stages,
		 (unsigned long long)c.ram_bytes, (unsigned long long)c.ram_max,
		 (unsigned long long)bank_tier_used(p->fs.bank), (unsigned long long)c.put_entries,
		 (unsigned long long)c.evicted_entries, (unsigned long long)c.refused_entries, wrong);
}

/* ---- threads and the loop ---- */

static int run_loop(struct program *p)
{
	struct fuse_loop_config *config;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned threads = cores > 0 && 2 * (unsigned)cores > THREADS_MIN ? 2 * (unsigned)cores : THREADS_MIN;
	int ret;

	if (p->options->single_thread)
		return fuse_session_loop(p->fs.session);
	config = fuse_loop_cfg_create();
	if (!config)
		return -ENOMEM;
	/* Idle threads stay: ending and making them costs more than they hold. */
	fuse_loop_cfg_set_max_threads(config, threads);
	ret = fuse_session_loop_mt(p->fs.session, config);
	fuse_loop_cfg_destroy(config);
	return ret;
}

static int loop_with_signals(struct program *p)
{
	const struct daemon_actions actions = {
		.ctx = p, .unmount = on_unmount, .abandon = on_abandon, .statistics = on_statistics};
	int ret = daemon_signals_start(&actions);

	if (ret) {
		log_line(LOG_ERR, "the signal thread cannot start: %s", strerror(-ret));
		return ret;
	}
	log_line(LOG_INFO, "mounted on %s, RAM in %s", p->mountpoint.path,
		 bank_tier(p->fs.bank) == BANK_TIER_TMPFS ? "a tmpfs" : "memory files");
	ret = run_loop(p);
	daemon_loop_ended();
	if (!daemon_is_ready() && ret >= 0)
		ret = -EINTR;
	if (ret < 0)
		log_line(LOG_ERR, "the session has ended%s: %s",
			 daemon_is_ready() ? "" : " before the mount was up", strerror(-ret));
	return ret;
}

static int run_threads(struct program *p)
{
	int ret = bank_start(p->fs.bank);

	if (ret) {
		log_line(LOG_ERR, "the bank's threads cannot start: %s", strerror(-ret));
		return ret;
	}
	ret = notify_start(p->fs.notify, ops_tick, &p->fs);
	if (ret) {
		log_line(LOG_ERR, "the notifying thread cannot start: %s", strerror(-ret));
		return ret;
	}
	if (log_start())
		log_line(LOG_WARNING,
			 "the log has no thread of its own; a slow reader of it slows the mount");
	ret = loop_with_signals(p);
	stop_notify(p);
	return ret;
}

/* Everything between mount and unmount. */
static int serve(struct program *p)
{
	struct fs *fs = &p->fs;
	int ret = notify_new(fs->session, &fs->notify);

	if (ret)
		goto no_memory;
	ret = -ENOMEM;
	fs->redirects = redirects_new();
	fs->iomode = iomode_new(fs->session);
	fs->late = late_new();
	fs->handles = handles_new();
	if (!fs->redirects || !fs->iomode || !fs->late || !fs->handles)
		goto no_memory;
	return run_threads(p);
no_memory:
	log_line(LOG_ERR, "the mount cannot be served: %s", strerror(-ret));
	return ret;
}

/* Of what is left open first (backing files go back through the session), then the session: its destroy
 * handler may still look at the rest. */
static void close_fs(struct program *p)
{
	handles_close_all(p->fs.handles, &p->fs);
	unmount_it(p);
	handles_free(p->fs.handles);
	iomode_free(p->fs.iomode);
	late_free(p->fs.late);
	redirects_free(p->fs.redirects);
}

/* The bank's threads may notify until they have ended. */
static void close_bank(struct program *p)
{
	options_on_change(p->options, NULL, NULL);
	bank_close(p->fs.bank);
	notify_free(p->fs.notify);
}

static int run_child(struct program *p)
{
	int status = EXIT_MOUNT;

	daemon_harden();
	if (mountpoint_resolve(p->options->mountpoint, &p->mountpoint, p->message, sizeof(p->message))) {
		say(p);
		return status;
	}
	status = EXIT_STORE;
	if (open_store(p)) {
		say(p);
		return status;
	}
	if (chdir("/"))
		log_line(LOG_WARNING, "cannot change to /: %s", strerror(errno));
	if (open_bank(p))
		goto close_store;
	status = EXIT_MOUNT;
	if (mount_it(p))
		goto close_bank;
	if (serve(p) >= 0)
		status = EXIT_SUCCESS;
	close_fs(p);
	log_line(LOG_INFO, "unmounted from %s", p->mountpoint.path);
close_bank:
	close_bank(p);
close_store:
	store_close(&p->store);
	log_stop();
	daemon_signals_stop();
	return status;
}

static int run(struct program *p, int argc, char **argv)
{
	int ret;

	if (take_options(p, argc, argv))
		return EXIT_USAGE;
	if (p->options->action == OPTIONS_HELP)
		return help();
	if (p->options->action == OPTIONS_VERSION)
		return version();
	if (p->options->action == OPTIONS_PRETEND)
		return EXIT_SUCCESS;
	log_open(p->options->debug, p->options->foreground);
	ret = daemon_background(p->options->foreground);
	if (ret) {
		log_line(LOG_ERR, "cannot go to the background: %s", strerror(-ret));
		return EXIT_MOUNT;
	}
	return run_child(p);
}

int main(int argc, char **argv)
{
	static struct program program = {.store = STORE_NONE};
	int status = EXIT_USAGE;

	daemon_standard_fds();
	log_open(false, true);
	fuse_set_log_func(log_fuse);
	program.options = options_new();
	program.fs.options = program.options;
	if (!program.options)
		log_line(LOG_ERR, "no memory");
	else
		status = run(&program, argc, argv);
	options_free(program.options);
	return status;
}
