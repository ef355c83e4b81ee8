/* SPDX-License-Identifier: GPL-2.0-or-later */
/* op_file.c - open files: what fi->fh points at, and the requests on it.
 *
 *   writer    an open stage; direct_io, so that every write is seen (budgets) and no shared mapping can
 *             write behind our back (mmap MAP_SHARED answers ENODEV)
 *   reader    a committed version: passthrough or page cache (iomode.h); or the caller's own stage,
 *             direct_io
 *   control   a file of .kvbank
 *
 * FLUSH is where a put commits. What /proc tells of the closing process is gathered here, the bank
 * decides (bank_flush), and the answer waits until the kernel has forgotten the old name (notify.h). */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/client.h"
#include "fs/control.h"
#include "fs/handles.h"
#include "fs/iomode.h"
#include "fs/late.h"
#include "fs/log.h"
#include "fs/notify.h"
#include "fs/redirect.h"
#include "fs/request.h"

enum { INTERRUPT_POLLS = 30, INTERRUPT_POLL_US = 100 };

struct file {
	struct handle handle;
	struct bank_writer *writer;
	struct bank_reader *reader;
	struct control_file *control;
	uint64_t id;
	bool own_stage;		      /* reader of a stage: no io mode */
	_Atomic uint64_t last_writer; /* thread id << 32 | its process: saves a look into /proc a write */
};

static struct file *file_of(const struct fuse_file_info *fi)
{
	return (struct file *)(uintptr_t)fi->fh; /* what open put there */
}

static struct file *file_new(uint64_t id)
{
	struct file *f = calloc(1, sizeof(*f));

	if (f)
		f->id = id;
	return f;
}

/* Gives everything back that an open took. */
static void file_close(struct fs *fs, struct file *f)
{
	if (f->writer)
		bank_write_close(f->writer);
	if (f->reader && !f->own_stage)
		iomode_close(fs->iomode, f->id);
	if (f->reader)
		bank_read_close(f->reader);
	control_close(f->control);
	free(f);
}

static void close_handle(struct fs *fs, struct handle *h)
{
	file_close(fs, (struct file *)h); /* its first member */
}

/* From here on the kernel may have it. */
static void hand_out(struct fs *fs, struct fuse_file_info *fi, struct file *f)
{
	f->handle.close = close_handle;
	handles_add(fs->handles, &f->handle);
	fi->fh = (uintptr_t)f;
}

/* The kernel has it no more, or never got it. */
static void take_back(struct fs *fs, struct file *f)
{
	handles_remove(fs->handles, &f->handle);
	file_close(fs, f);
}

/* ---- opening ---- */

/* Asked at an open: it cannot be known before INIT was answered. */
static bool may_passthrough(struct fs *fs)
{
	fs->passthrough = options_get(fs->options, OPTION_PASSTHROUGH) == PASSTHROUGH_AUTO &&
			  compat_passthrough_works(fs->session);
	return fs->passthrough;
}

static unsigned bank_flags(int flags)
{
	int access = flags & O_ACCMODE;

	return (access != O_RDONLY ? BANK_WRITE : 0) | (access != O_WRONLY ? BANK_READ : 0) | (flags & O_TRUNC ? BANK_TRUNC : 0) |
	       (flags & O_APPEND ? BANK_APPEND : 0) | (flags & O_EXCL ? BANK_EXCL : 0);
}

/* Hands f to the kernel; when nobody waits for the answer any more, closes it. */
static void reply_opened(fuse_req_t req, struct fuse_file_info *fi, struct file *f, int backing_id)
{
	struct fs *fs = request_fs(req);

	hand_out(fs, fi, f);
	if (compat_reply_open(req, fi, backing_id) == -ENOENT)
		take_back(fs, f);
}

/* The thread is on no way to a stage any more. */
static void abandon_redirect(fuse_req_t req)
{
	struct fs *fs = request_fs(req);
	uint64_t abandoned = redirect_abandon(fs->redirects, fuse_req_ctx(req)->pid);

	if (abandoned)
		bank_stage_drop(fs->bank, abandoned);
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct fs *fs = request_fs(req);
	struct bank_who who = request_who(req, true);
	struct fuse_entry_param entry;
	struct bank_stat st;
	struct file *f = NULL;
	int ret = control_is(parent) || control_reserved(parent, name) ? -EPERM : 0;

	abandon_redirect(req);
	if (!ret && !(f = file_new(0)))
		ret = -ENOMEM;
	if (!ret)
		ret = bank_create(fs->bank, parent, name, mode, bank_flags(fi->flags), &who, &st, &f->writer);
	if (ret) {
		free(f);
		request_reply(req, ret);
		return;
	}
	f->id = st.id;
	hand_out(fs, fi, f);
	fi->direct_io = 1;
	request_entry(&st, &entry);
	if (fuse_reply_create(req, &entry, fi) == -ENOENT) {
		take_back(fs, f);
		bank_forget(fs->bank, st.id, 1);
	}
}

static void open_control(fuse_req_t req, uint64_t id, struct fuse_file_info *fi)
{
	struct fs *fs = request_fs(req);
	struct file *f = file_new(id);
	int ret;

	may_passthrough(fs); /* stats tells */
	ret = f ? control_open(fs, id, fi->flags, &f->control) : -ENOMEM;
	if (ret) {
		free(f);
		request_reply(req, ret);
		return;
	}
	fi->direct_io = 1;
	fi->nonseekable = control_streams(f->control);
	reply_opened(req, fi, f, 0);
}

/* Opens the stage that a redirect led to, or once more the caller's own. -ESTALE: it is neither. */
static int open_stage(struct fs *fs, fuse_req_t req, uint64_t id, unsigned flags, struct bank_writer **out)
{
	struct bank_who who = request_who(req, true);
	struct bank_stage_info stage = { .id = id };
	struct bank_stat st;
	unsigned begun_with = 0;

	if (redirect_end(fs->redirects, fuse_req_ctx(req)->pid, id, &begun_with)) {
		if (!((begun_with ^ flags) & BANK_TRUNC))
			return bank_write_open(fs->bank, id, flags, &who, out);
		bank_stage_drop(fs->bank, id); /* begun for another open of this thread */
		return -ESTALE;
	}
	if (flags & BANK_TRUNC || bank_getattr(fs->bank, id, &st) || !st.stage || !request_owns_stage(who.pid, &stage))
		return -ESTALE;
	return bank_write_open(fs->bank, id, flags, &who, out);
}

static void open_writer(fuse_req_t req, uint64_t id, struct fuse_file_info *fi)
{
	struct fs *fs = request_fs(req);
	unsigned flags = bank_flags(fi->flags);
	struct file *f = file_new(id);
	int ret = f ? open_stage(fs, req, id, flags, &f->writer) : -ENOMEM;

	if (!ret) {
		fi->direct_io = 1;
		reply_opened(req, fi, f, 0);
		return;
	}
	free(f);
	if (ret == -ESTALE)
		request_refuse_writer(req, id, flags);
	else
		request_reply(req, ret);
}


/* Opens the version, or the caller's own stage; what was replaced since it was looked up is -ESTALE once. */
static int pin_version(struct fs *fs, fuse_req_t req, struct file *f)
{
	pid_t tid = fuse_req_ctx(req)->pid;
	struct bank_stage_info stage = { .id = f->id };
	struct bank_stat st;
	bool own;
	int ret;

	f->reader = late_take(fs->late, tid, f->id);
	if (f->reader)
		return 0;
	ret = bank_getattr(fs->bank, f->id, &st);
	if (!ret) {
		own = st.stage && request_owns_stage(client_process(tid), &stage);
		ret = bank_read_open(fs->bank, f->id, own, &f->reader);
	}
	if (ret == -ESTALE)
		late_note(fs->late, tid, request_now_ms());
	return ret;
}

static int open_version(struct fs *fs, fuse_req_t req, struct file *f, struct fuse_file_info *fi)
{
	int ret = pin_version(fs, req, f);

	if (ret)
		return ret;
	f->own_stage = bank_reader_is_stage(f->reader);
	fi->direct_io = f->own_stage;
	if (f->own_stage)
		return 0;
	ret = iomode_open(fs->iomode, f->id, f->reader, may_passthrough(fs));
	if (ret < 0)
		f->own_stage = true; /* nothing to give back there */
	/* A first open also forgets what was cached of the stage. */
	fi->keep_cache = !ret && !bank_reader_is_first(f->reader);
	return ret;
}

static void open_reader(fuse_req_t req, uint64_t id, struct fuse_file_info *fi)
{
	struct fs *fs = request_fs(req);
	struct file *f = file_new(id);
	int ret = f ? open_version(fs, req, f, fi) : -ENOMEM;

	if (ret >= 0) {
		reply_opened(req, fi, f, ret);
		return;
	}
	if (f)
		file_close(fs, f);
	request_reply(req, ret);
}

void op_open(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	if (control_is(id))
		open_control(req, id, fi);
	else if ((fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC)
		open_writer(req, id, fi);
	else
		open_reader(req, id, fi);
}

/* ---- reading ---- */

static pthread_key_t buffer_key;
static pthread_once_t buffer_once = PTHREAD_ONCE_INIT;

struct buffer {
	size_t cap;
	char bytes[];
};

static void make_buffer_key(void)
{
	pthread_key_create(&buffer_key, free);
}

/* One buffer a thread: a fresh megabyte for every request would be mapped and zeroed each time. */
static char *thread_buffer(size_t len)
{
	struct buffer *buffer;

	pthread_once(&buffer_once, make_buffer_key);
	buffer = pthread_getspecific(buffer_key);
	if (buffer && buffer->cap >= len)
		return buffer->bytes;
	free(buffer);
	buffer = malloc(sizeof(*buffer) + len);
	pthread_setspecific(buffer_key, buffer);
	if (!buffer)
		return NULL;
	buffer->cap = len;
	return buffer->bytes;
}

struct waiting_read {
	fuse_req_t req;
	struct control_file *control;
	size_t len;
	off_t off;
};

static void *finish_waiting_read(void *arg)
{
	struct waiting_read *w = arg;
	char *buf = malloc(w->len);
	ssize_t n = buf ? control_read(w->control, buf, w->len, w->off) : -ENOMEM;

	notify_wait(request_fs(w->req)->notify);
	if (n < 0)
		request_reply(w->req, (int)n);
	else
		fuse_reply_buf(w->req, buf, (size_t)n);
	free(buf);
	control_close(w->control);
	free(w);
	return NULL;
}

/* A command that takes long must not hold a worker. */
static int read_on_a_thread(fuse_req_t req, struct control_file *control, size_t len, off_t off)
{
	struct waiting_read *w = malloc(sizeof(*w));
	pthread_t thread;

	if (!w)
		return -ENOMEM;
	*w = (struct waiting_read){ req, control, len, off };
	control_keep(control);
	if (!pthread_create(&thread, NULL, finish_waiting_read, w)) {
		pthread_detach(thread);
		return 0;
	}
	control_close(control);
	free(w);
	return -EAGAIN;
}

void op_read(fuse_req_t req, fuse_ino_t id, size_t len, off_t off, struct fuse_file_info *fi)
{
	struct fs *fs = request_fs(req);
	struct file *f = file_of(fi);
	char *buf = thread_buffer(len);
	ssize_t n = -ENOMEM;

	(void)id;
	if (f->control && control_read_waits(f->control)) {
		n = read_on_a_thread(req, f->control, len, off);
		if (!n)
			return; /* that thread replies */
	} else if (buf && f->writer) {
		n = bank_writer_read(f->writer, buf, len, (uint64_t)off);
	} else if (buf && f->reader) {
		n = bank_read(f->reader, buf, len, (uint64_t)off);
	} else if (buf) {
		n = control_read(f->control, buf, len, off);
		notify_wait(fs->notify); /* what a command evicted is gone for everybody */
	}
	if (n < 0)
		request_reply(req, (int)n);
	else
		fuse_reply_buf(req, buf, (size_t)n);
}

/* ---- writing ---- */

/* The process of the writing thread; most writes come from the same thread as the one before. */
static pid_t writing_process(struct file *f, pid_t tid)
{
	uint64_t last = atomic_load_explicit(&f->last_writer, memory_order_relaxed);
	pid_t pid;

	if (tid && last >> 32 == (uint64_t)tid)
		return (pid_t)(last & UINT32_MAX);
	pid = client_process(tid);
	atomic_store_explicit(&f->last_writer, (uint64_t)tid << 32 | (uint32_t)pid, memory_order_relaxed);
	return pid;
}

void op_write(fuse_req_t req, fuse_ino_t id, const char *buf, size_t len, off_t off, struct fuse_file_info *fi)
{
	struct file *f = file_of(fi);
	ssize_t n = (ssize_t)len;
	int ret = 0;

	(void)id;
	if (f->control) {
		n = control_write(f->control, buf, len);
		ret = n < 0 ? (int)n : 0;
		notify_wait(request_fs(req)->notify); /* what it evicted is gone for everybody */
	} else if (f->writer) {
		ret = bank_write(f->writer, buf, len, (uint64_t)off, writing_process(f, fuse_req_ctx(req)->pid));
	} else {
		ret = -EBADF;
	}
	if (ret)
		request_reply(req, ret);
	else
		fuse_reply_write(req, (size_t)n);
}

int file_truncate(struct fuse_file_info *fi, uint64_t size_bytes)
{
	struct file *f = file_of(fi);

	if (f->control)
		return 0;
	return f->writer ? bank_writer_truncate(f->writer, size_bytes) : -EINVAL;
}

void op_fallocate(fuse_req_t req, fuse_ino_t id, int mode, off_t off, off_t len, struct fuse_file_info *fi)
{
	struct file *f = file_of(fi);

	(void)id;
	if (mode & ~FALLOC_FL_KEEP_SIZE)
		request_reply(req, -EOPNOTSUPP);
	else if (!f->writer)
		request_reply(req, -EBADF);
	else
		request_reply(req, bank_writer_reserve(f->writer, (uint64_t)off, (uint64_t)len, !(mode & FALLOC_FL_KEEP_SIZE)));
}

/* ---- closing ---- */

/* A process that /proc does not show: a kill interrupts its FLUSH at once. */
static bool interrupted_soon(fuse_req_t req)
{
	for (int i = 0; i < INTERRUPT_POLLS; i++) {
		if (fuse_req_interrupted(req))
			return true;
		usleep(INTERRUPT_POLL_US);
	}
	return false;
}

/* In this order: whether it dies is asked while it can only wait for us; see client.h for what must
 * not be read of a process that may be in execve. */
static struct bank_closer closer_of(fuse_req_t req, const struct bank_writer *w)
{
	pid_t tid = fuse_req_ctx(req)->pid, opener;
	uint64_t id = bank_writer_node(w);
	struct bank_closer closer = { 0 };

	if (!tid) {
		closer.dying = interrupted_soon(req);
		return closer;
	}
	closer.dying = client_dying(tid) == 1;
	closer.pid = client_process(tid);
	bank_writer_who(w, &opener);
	closer.held = client_holds(closer.pid, id, true);
	if (opener != closer.pid) {
		bool opener_holds = opener && client_holds(opener, id, true);

		closer.opener_gone = !opener_holds;
		closer.held = closer.held || opener_holds;
	}
	return closer;
}

static void flush_writer(fuse_req_t req, struct bank_writer *w)
{
	struct fs *fs = request_fs(req);
	struct bank_closer closer = closer_of(req, w);

	abandon_redirect(req);
	notify_then_reply(fs->notify, req, -bank_flush(w, &closer));
}

struct waiting_flush {
	fuse_req_t req;
	struct bank_writer *writer;
};

static void *finish_waiting_flush(void *arg)
{
	struct waiting_flush w = *(struct waiting_flush *)arg;

	free(arg);
	flush_writer(w.req, w.writer);
	return NULL;
}

/* With settle=eager a FLUSH waits for the hash: not on a worker. The writer cannot be released before
 * its FLUSH is answered. */
static bool flush_on_a_thread(fuse_req_t req, struct bank_writer *writer)
{
	struct waiting_flush *w = malloc(sizeof(*w));
	pthread_t thread;

	if (!w)
		return false;
	*w = (struct waiting_flush){ req, writer };
	if (pthread_create(&thread, NULL, finish_waiting_flush, w)) {
		free(w);
		return false;
	}
	pthread_detach(thread);
	return true;
}

void op_flush(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct file *f = file_of(fi);
	bool eager;

	(void)id;
	if (!f->writer) {
		request_reply(req, 0);
		return;
	}
	eager = options_get(request_fs(req)->options, OPTION_SETTLE) == BANK_SETTLE_EAGER;
	if (!eager || !flush_on_a_thread(req, f->writer))
		flush_writer(req, f->writer);
}

void op_release(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	(void)id;
	take_back(request_fs(req), file_of(fi));
	request_reply(req, 0);
}

/* Commits. Until there is an SSD tier nothing can be more durable than RAM: that is an event each
 * time, and said at mount and in the manual; failing instead would break every client that syncs. */
void op_fsync(fuse_req_t req, fuse_ino_t id, int datasync, struct fuse_file_info *fi)
{
	struct fs *fs = request_fs(req);
	struct file *f = file_of(fi);
	char name[BANK_NAME_MAX + 1];
	uint64_t parent;
	int ret = 0;

	(void)datasync;
	if (f->writer)
		ret = bank_fsync(f->writer);
	if (!f->control && !bank_name_of(fs->bank, id, &parent, name))
		bank_event(fs->bank, "fsync", ret ? "refused" : "ram_only", 0, parent, name);
	/* Not through the queue: the kernel holds the file's lock meanwhile, a rename that waits for that
	 * holds the directory's, and the notifying thread waits for the directory's. */
	request_reply(req, ret);
}
