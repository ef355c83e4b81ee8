/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ram.c - RAM tier files in a detached tmpfs, or memfds.
 *
 * The tmpfs is made with fsopen/fsmount and never attached, so no path leads to it: its size= is a
 * bound that even a mistake of ours cannot pass. Its files have names (their number in hex) and are
 * opened on demand; memfds must stay open.
 *
 * huge=within_size: large pages only where they lie wholly inside the file, so a file never holds
 * more than its size rounded up to a page, and that is what room.c charges.
 *
 * Easy to forget: a descriptor given to the kernel for passthrough can be mapped by a client after
 * every close; only a lease tells (ram_file_unused). Leases count our own open descriptors too, so
 * both tests close or leave out f->fd. */
#include "bank/ram.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ram {
	int mount_fd; /* -1: memfds */
	_Atomic uint64_t next_number;
};

enum { NUMBER_TEXT = 24, OTHER_DESCRIPTORS = 512 };

static int set_option(int fs_fd, const char *key, const char *value)
{
	unsigned command = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

	return syscall(SYS_fsconfig, fs_fd, command, key, value, 0) ? -errno : 0;
}

/* A mount descriptor of a fresh tmpfs, or -errno (-EPERM without CAP_SYS_ADMIN). */
static int mount_tmpfs(uint64_t size_bytes)
{
	char size[NUMBER_TEXT];
	int fs_fd, mount_fd = -1;

	fs_fd = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	if (fs_fd < 0)
		return -errno;
	snprintf(size, sizeof(size), "%llu", (unsigned long long)size_bytes);
	if (set_option(fs_fd, "size", size) || set_option(fs_fd, "nr_inodes", "0") || set_option(fs_fd, "mode", "0700"))
		goto failed;
	/* Both are luxuries that older kernels refuse. */
	(void)set_option(fs_fd, "huge", "within_size");
	(void)set_option(fs_fd, "noswap", NULL);
	if (syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		goto failed;
	mount_fd = (int)syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (mount_fd < 0)
		goto failed;
	close(fs_fd);
	return mount_fd;
failed:
	mount_fd = -errno;
	close(fs_fd);
	return mount_fd;
}

int ram_open(uint64_t size_bytes, bool want_memfd, struct ram **out)
{
	struct ram *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	/* A lease that is asked for at the moment another thread opens the file is broken by SIGIO. */
	signal(SIGIO, SIG_IGN);
	r->mount_fd = want_memfd ? -1 : mount_tmpfs(size_bytes);
	if (r->mount_fd < 0)
		r->mount_fd = -1;
	*out = r;
	return 0;
}

void ram_close(struct ram *r)
{
	if (!r)
		return;
	if (r->mount_fd >= 0)
		close(r->mount_fd);
	free(r);
}

bool ram_is_tmpfs(const struct ram *r)
{
	return r->mount_fd >= 0;
}

uint64_t ram_files_max(const struct ram *r)
{
	struct rlimit limit;

	if (r->mount_fd >= 0 || getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	return limit.rlim_cur > 2 * OTHER_DESCRIPTORS ? limit.rlim_cur - OTHER_DESCRIPTORS : limit.rlim_cur / 2 + 1;
}

int ram_resize(struct ram *r, uint64_t size_bytes)
{
	char size[NUMBER_TEXT];
	int fs_fd, ret;

	if (r->mount_fd < 0)
		return 0;
	fs_fd = (int)syscall(SYS_fspick, r->mount_fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	if (fs_fd < 0)
		return -errno;
	snprintf(size, sizeof(size), "%llu", (unsigned long long)size_bytes);
	ret = set_option(fs_fd, "size", size);
	if (!ret && syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0))
		ret = -errno;
	close(fs_fd);
	return ret;
}

uint64_t ram_used(struct ram *r)
{
	struct statfs s;

	if (r->mount_fd < 0 || fstatfs(r->mount_fd, &s))
		return 0;
	return (uint64_t)(s.f_blocks - s.f_bfree) * (uint64_t)s.f_bsize;
}

static void file_name(const struct ram_file *f, char name[NUMBER_TEXT])
{
	snprintf(name, NUMBER_TEXT, "%llx", (unsigned long long)f->number);
}

int ram_file_new(struct ram *r, struct ram_file **out)
{
	struct ram_file *f = calloc(1, sizeof(*f));
	char name[NUMBER_TEXT];
	int ret;

	if (!f)
		return -ENOMEM;
	f->ram = r;
	f->number = atomic_fetch_add(&r->next_number, 1);
	file_name(f, name);
	if (r->mount_fd >= 0)
		f->fd = openat(r->mount_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	else
		f->fd = memfd_create("kvbank", MFD_CLOEXEC);
	if (f->fd < 0) {
		ret = -errno;
		free(f);
		return ret;
	}
	*out = f;
	return 0;
}

void ram_file_rest(struct ram_file *f)
{
	if (f->ram->mount_fd < 0 || f->fd < 0)
		return;
	close(f->fd);
	f->fd = -1;
}

void ram_file_discard(struct ram_file *f)
{
	char name[NUMBER_TEXT];

	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	if (f->ram->mount_fd >= 0) {
		file_name(f, name);
		unlinkat(f->ram->mount_fd, name, 0);
	}
}

/* The file's descriptor, or one opened for this call alone (*own says so). */
static int borrow_fd(struct ram_file *f, int flags, bool *own)
{
	char name[NUMBER_TEXT];
	int fd;

	*own = false;
	if (f->fd >= 0)
		return f->fd;
	file_name(f, name);
	fd = openat(f->ram->mount_fd, name, flags | O_CLOEXEC | O_NOFOLLOW);
	*own = fd >= 0;
	return fd < 0 ? -errno : fd;
}

static void return_fd(int fd, bool own)
{
	if (own)
		close(fd);
}

/* All of len, reading into p or writing from it. */
static int move_bytes(int fd, char *p, size_t len, uint64_t off, bool writing)
{
	while (len) {
		ssize_t n = writing ? pwrite(fd, p, len, (off_t)off) : pread(fd, p, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int ram_file_write(struct ram_file *f, const void *buf, size_t len, uint64_t off)
{
	bool own;
	int fd = borrow_fd(f, O_RDWR, &own), ret;

	if (fd < 0)
		return fd;
	ret = move_bytes(fd, (char *)buf, len, off, true); /* only read from */
	return_fd(fd, own);
	return ret;
}

int ram_file_read(struct ram_file *f, void *buf, size_t len, uint64_t off)
{
	bool own;
	int fd = borrow_fd(f, O_RDONLY, &own), ret;

	if (fd < 0)
		return fd;
	ret = move_bytes(fd, buf, len, off, false);
	return_fd(fd, own);
	return ret;
}

int ram_file_truncate(struct ram_file *f, uint64_t size_bytes)
{
	bool own;
	int fd = borrow_fd(f, O_RDWR, &own), ret;

	if (fd < 0)
		return fd;
	ret = ftruncate(fd, (off_t)size_bytes) ? -errno : 0;
	return_fd(fd, own);
	return ret;
}

static int file_fallocate(struct ram_file *f, int mode, uint64_t off, uint64_t len)
{
	bool own;
	int fd, ret;

	if (!len)
		return 0;
	fd = borrow_fd(f, O_RDWR, &own);
	if (fd < 0)
		return fd;
	do
		ret = fallocate(fd, mode, (off_t)off, (off_t)len) ? -errno : 0;
	while (ret == -EINTR);
	return_fd(fd, own);
	return ret;
}

int ram_file_fill(struct ram_file *f, uint64_t size_bytes)
{
	return file_fallocate(f, 0, 0, size_bytes);
}

int ram_file_punch(struct ram_file *f, uint64_t off, uint64_t len)
{
	return file_fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len);
}

uint64_t ram_file_held(struct ram_file *f)
{
	struct stat st;
	bool own;
	int fd = borrow_fd(f, O_RDONLY, &own), ret;

	if (fd < 0)
		return 0;
	ret = fstat(fd, &st);
	return_fd(fd, own);
	return ret ? 0 : (uint64_t)st.st_blocks * 512;
}

int ram_file_reopen(struct ram_file *f)
{
	char path[NUMBER_TEXT + 16];
	int fd;

	if (f->ram->mount_fd >= 0) {
		file_name(f, path);
		fd = openat(f->ram->mount_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	} else {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

static bool lease_granted(struct ram_file *f, int kind)
{
	int fd = ram_file_reopen(f);
	bool granted;

	if (fd < 0)
		return false;
	granted = fcntl(fd, F_SETLEASE, kind) == 0;
	if (granted)
		fcntl(fd, F_SETLEASE, F_UNLCK);
	close(fd);
	return granted;
}

bool ram_file_unused(struct ram_file *f)
{
	/* A memfd keeps our own descriptor, so the lease never is granted; but memfds are only shown
	 * to the kernel where the tmpfs could not be had, and passthrough needs the same right. */
	if (!f->shown)
		return true;
	return f->fd < 0 && lease_granted(f, F_WRLCK);
}

bool ram_file_unwritable(struct ram_file *f)
{
	/* As above: the only writer of a memfd is this process, and it writes through stages alone. */
	if (f->ram->mount_fd < 0)
		return true;
	return f->fd < 0 && lease_granted(f, F_RDLCK);
}
