/* SPDX-License-Identifier: GPL-2.0-or-later */
/* compat.c - the same kernel features from libfuse 3.14 and from 3.17.
 *
 * libfuse before 3.17 passes on only the INIT flags it knows. It lets us read and write the device
 * ourselves, though (fuse_session_custom_io with the descriptor of the mount): our read notes which INIT
 * request came and what the kernel offers, our write adds to the one reply that answers it:
 *	PASSTHROUGH		with max_stack_depth 1: backing files may not be stacked themselves
 *	HANDLE_KILLPRIV_V2	else a getxattr of security.capability precedes every write; we may say
 *				it because no file here ever carries set-user-id bits or capabilities
 *	NO_EXPORT_SUPPORT	no handles for NFS: node ids are not found again after a forget
 * The reply to OPEN has its last word for the backing id; libfuse leaves it 0, so it is sent raw.
 * From 3.17 on the library does all this when asked.
 *
 * Registering a backing file is the same ioctl everywhere. libfuse's own call hides the errno.
 *
 * INIT is one request, before all others and answered by one thread; `init` below is written by the thread
 * that handles it and read afterwards, when requests come that the kernel holds back until then.
 *
 * Easy to forget: read_ahead is the smaller of what the bdi has when INIT is answered and what the reply
 * says, so both must be large by then.
 */
#include "fs/compat.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_BACKGROUND	     512u /* with the default of 12, 16 slow readers stall everybody */
#define CONGESTION_THRESHOLD 384u

#define LIBRARY_KNOWS_PASSTHROUGH (FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17))

/* The kernel's words for all this, which its headers lack before 6.9. */
struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define IOC_BACKING_OPEN  _IOW(229, 1, struct backing_map)
#define IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)

enum probe { NOT_TRIED, WORKS, WORKS_NOT };
static atomic_int probed;
static atomic_bool passthrough_negotiated;

#if LIBRARY_KNOWS_PASSTHROUGH

int compat_install(struct fuse_session *session)
{
	(void)session;
	return 0;
}

static void negotiate_new(struct fuse_conn_info *conn, bool want_passthrough)
{
	fuse_set_feature_flag(conn, FUSE_CAP_HANDLE_KILLPRIV_V2);
	fuse_set_feature_flag(conn, FUSE_CAP_NO_EXPORT_SUPPORT);
	if (!want_passthrough || !fuse_set_feature_flag(conn, FUSE_CAP_PASSTHROUGH))
		return;
	conn->max_backing_stack_depth = 1;
	atomic_store(&passthrough_negotiated, true);
}

static void want(struct fuse_conn_info *conn, uint64_t capability, bool wanted)
{
	if (wanted)
		fuse_set_feature_flag(conn, capability);
	else
		fuse_unset_feature_flag(conn, capability);
}

static int reply_open_backed(fuse_req_t req, const struct fuse_file_info *fi, int backing_id)
{
	struct fuse_file_info own = *fi;

	own.backing_id = backing_id;
	return fuse_reply_open(req, &own);
}

#else /* libfuse 3.14 to 3.16 */

#define INIT_EXT	     (1u << 30)
#define INIT_KILLPRIV_V2     (1ull << 28)
#define INIT_PASSTHROUGH     (1ull << 37)
#define INIT_NO_EXPORT	     (1ull << 38)
#define OPEN_PASSTHROUGH     (1u << 7)
#define OPEN_NOFLUSH	     (1u << 5)
#define INIT_REPLY_MIN_BYTES 40u /* up to and with max_stack_depth */
#define BACKING_STACK_DEPTH  1u

/* struct fuse_init_in and fuse_init_out of the kernel's protocol 7.40, as far as we need them. */
struct init_request {
	uint32_t major, minor, max_readahead, flags, flags2;
};
struct init_reply {
	uint32_t major, minor, max_readahead, flags;
	uint16_t max_background, congestion_threshold;
	uint32_t max_write, time_gran;
	uint16_t max_pages, map_alignment;
	uint32_t flags2, max_stack_depth;
};
_Static_assert(sizeof(struct init_reply) == INIT_REPLY_MIN_BYTES, "as the kernel lays it out");

struct open_reply {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id;
};
_Static_assert(sizeof(struct open_reply) == sizeof(struct fuse_open_out), "as the kernel lays it out");

static struct {
	atomic_bool over; /* answered: every later read and write goes straight through */
	uint64_t unique;
	uint64_t offered;
	bool want_passthrough;
} init;

static void note_init(const char *request, size_t len)
{
	struct fuse_in_header header;
	struct init_request in = {0};
	size_t body;

	if (len < sizeof(header))
		return;
	memcpy(&header, request, sizeof(header));
	if (header.opcode != FUSE_INIT)
		return;
	body = len - sizeof(header);
	memcpy(&in, request + sizeof(header), body < sizeof(in) ? body : sizeof(in));
	init.unique = header.unique;
	init.offered = in.flags;
	if (in.flags & INIT_EXT)
		init.offered |= (uint64_t)in.flags2 << 32;
}

static ssize_t device_read(int fd, void *buf, size_t len, void *userdata)
{
	ssize_t got = read(fd, buf, len);

	(void)userdata;
	if (got > 0 && !atomic_load_explicit(&init.over, memory_order_acquire))
		note_init(buf, (size_t)got);
	return got;
}

static void extend_init(struct init_reply *out)
{
	uint64_t wanted = INIT_KILLPRIV_V2 | INIT_NO_EXPORT | (init.want_passthrough ? INIT_PASSTHROUGH : 0);
	uint64_t added = wanted & init.offered;

	out->flags |= (uint32_t)added;
	if (added >> 32) {
		out->flags |= INIT_EXT;
		out->flags2 |= (uint32_t)(added >> 32);
	}
	if (added & INIT_PASSTHROUGH) {
		out->max_stack_depth = BACKING_STACK_DEPTH;
		atomic_store(&passthrough_negotiated, true);
	}
}

/* A reply too short for our fields comes from a kernel that lacks them. */
static void answer_init(struct iovec *iov, int count)
{
	struct fuse_out_header header;
	struct init_reply out;

	memcpy(&header, iov[0].iov_base, sizeof(header));
	if (!init.unique || header.unique != init.unique || header.error)
		return;
	if (count < 2 || iov[1].iov_len < sizeof(out))
		return;
	memcpy(&out, iov[1].iov_base, sizeof(out));
	extend_init(&out);
	memcpy(iov[1].iov_base, &out, sizeof(out));
	atomic_store_explicit(&init.over, true, memory_order_release);
}

static ssize_t device_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	(void)userdata;
	if (!atomic_load_explicit(&init.over, memory_order_acquire))
		answer_init(iov, count);
	return writev(fd, iov, count);
}

int compat_install(struct fuse_session *session)
{
	static const struct fuse_custom_io io = {.read = device_read, .writev = device_writev};

	return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}

static void negotiate_new(struct fuse_conn_info *conn, bool want_passthrough)
{
	(void)conn;
	init.want_passthrough = want_passthrough;
}

static void want(struct fuse_conn_info *conn, unsigned capability, bool wanted)
{
	if (wanted)
		conn->want |= conn->capable & capability;
	else
		conn->want &= ~capability;
}

static int reply_open_backed(fuse_req_t req, const struct fuse_file_info *fi, int backing_id)
{
	struct open_reply out = {.fh = fi->fh, .open_flags = OPEN_PASSTHROUGH, .backing_id = backing_id};

	if (fi->direct_io)
		out.open_flags |= FOPEN_DIRECT_IO;
	if (fi->noflush)
		out.open_flags |= OPEN_NOFLUSH;
	return fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

#endif

void compat_init(struct fuse_conn_info *conn, bool want_passthrough)
{
	want(conn, FUSE_CAP_ASYNC_READ, true);
	want(conn, FUSE_CAP_ASYNC_DIO, true);
	want(conn, FUSE_CAP_ATOMIC_O_TRUNC, true);
	want(conn, FUSE_CAP_PARALLEL_DIROPS, true);
	want(conn, FUSE_CAP_READDIRPLUS, true);
	want(conn, FUSE_CAP_READDIRPLUS_AUTO, true);
	want(conn, FUSE_CAP_EXPLICIT_INVAL_DATA, true);
	want(conn, FUSE_CAP_AUTO_INVAL_DATA, false);
	want(conn, FUSE_CAP_WRITEBACK_CACHE, false);
	want(conn, FUSE_CAP_SPLICE_READ, false);
	want(conn, FUSE_CAP_SPLICE_WRITE, false);
	want(conn, FUSE_CAP_SPLICE_MOVE, false);
	want(conn, FUSE_CAP_EXPORT_SUPPORT, false);
	want(conn, FUSE_CAP_POSIX_ACL, false);
	conn->max_background = MAX_BACKGROUND;
	conn->congestion_threshold = CONGESTION_THRESHOLD;
	conn->max_readahead = COMPAT_READ_AHEAD_BYTES;
	negotiate_new(conn, want_passthrough);
}

static bool probe(struct fuse_session *session)
{
	int fd = memfd_create("probe", MFD_CLOEXEC), id;

	if (fd < 0)
		return false;
	id = compat_backing_open(session, fd);
	if (id > 0)
		compat_backing_close(session, id);
	close(fd);
	return id > 0;
}

/* Two threads may try at once; both find the same. */
bool compat_passthrough_works(struct fuse_session *session)
{
	int known = atomic_load(&probed);

	if (!atomic_load(&passthrough_negotiated))
		return false;
	if (known == NOT_TRIED) {
		known = probe(session) ? WORKS : WORKS_NOT;
		atomic_store(&probed, known);
	}
	return known == WORKS;
}

int compat_backing_open(struct fuse_session *session, int fd)
{
	struct backing_map map = {.fd = fd};
	int id = ioctl(fuse_session_fd(session), IOC_BACKING_OPEN, &map);

	if (id < 0)
		return errno == ENOTTY ? -EOPNOTSUPP : -errno;
	return id > 0 ? id : -EIO;
}

void compat_backing_close(struct fuse_session *session, int id)
{
	uint32_t number = (uint32_t)id;

	ioctl(fuse_session_fd(session), IOC_BACKING_CLOSE, &number);
}

int compat_reply_open(fuse_req_t req, const struct fuse_file_info *fi, int backing_id)
{
	if (backing_id > 0)
		return reply_open_backed(req, fi, backing_id);
	return fuse_reply_open(req, fi);
}
