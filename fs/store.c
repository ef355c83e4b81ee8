/* SPDX-License-Identifier: GPL-2.0-or-later */
/* store.c - opens and locks the directory of the SSD tier.
 *
 * Order: find the real path, refuse a bad place, make, open without following a link, check, lock the
 * directory, open and lock its file, look once more whether path and name still lead to what is locked.
 *
 * Both the directory and `lock` inside it are locked with flock. The directory's lock cannot be deleted
 * and is the same by every path; the file's tells other programs who has it. flock belongs to the open
 * file, so it goes with the last descriptor: no child inherits one, and kill -9 frees it.
 *
 * Others may plant things before we come: everything is opened without following links, the lock must be
 * a regular file with one name, and nothing is believed that was looked at by path only.
 *
 * Easy to forget: "link/" with a slash behind is followed in spite of O_NOFOLLOW.
 */
#include "fs/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/text.h"

#define LOCK_NAME    "lock"
#define LOCK_TRIES   50 /* half a second: somebody waits for the refusal */
#define LOCK_TICK_MS 10

/* What is being opened, and where the one line goes. */
struct opening {
	const char *given;
	char path[PATH_MAX];
	struct text message;
};

static int refuse(struct opening *o, int error, const char *what)
{
	text_add(&o->message, "STORE %s: %s", o->given, what);
	return error;
}

static int refuse_errno(struct opening *o, int error, const char *what)
{
	text_add(&o->message, "STORE %s: %s: %s", o->given, what, strerror(-error));
	return error;
}

/* The parent's real path and the last name, without a slash behind it. */
static int find_path(struct opening *o)
{
	char copy[PATH_MAX], *slash, *name;
	char parent[PATH_MAX];
	size_t len = strlen(o->given);

	if (len >= sizeof(copy))
		return refuse(o, -ENAMETOOLONG, "the path is too long");
	memcpy(copy, o->given, len + 1);
	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = 0;
	slash = strrchr(copy, '/');
	name = slash ? slash + 1 : copy;
	if (!name[0] || !strcmp(name, ".") || !strcmp(name, ".."))
		return refuse(o, -EINVAL, "expected the name of a directory of its own");
	if (slash)
		*slash = 0;
	if (!realpath(!slash ? "." : slash == copy ? "/" : copy, parent))
		return refuse_errno(o, -errno, "expected its parent directory to exist");
	if ((size_t)snprintf(o->path, sizeof(o->path), "%s/%s", strcmp(parent, "/") ? parent : "", name) >=
	    sizeof(o->path))
		return refuse(o, -ENAMETOOLONG, "the path is too long");
	return 0;
}

static bool is_within(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	if (!strcmp(directory, "/"))
		return true;
	return !strncmp(path, directory, len) && (path[len] == '/' || !path[len]);
}

/* One inside the other would make the daemon wait for itself. */
static int check_place(struct opening *o, const char *mountpoint)
{
	if (is_within(o->path, mountpoint))
		return refuse(o, -EINVAL, "expected a directory outside of the mount point");
	if (is_within(mountpoint, o->path))
		return refuse(o, -EINVAL, "expected the mount point to be outside of it");
	return 0;
}

static int explain_not_opened(struct opening *o, int error)
{
	struct stat st;

	if (!lstat(o->path, &st) && S_ISLNK(st.st_mode))
		return refuse(o, -ELOOP, "is a symbolic link; expected the directory itself");
	if (error == -ENOTDIR)
		return refuse(o, error, "is not a directory");
	return refuse_errno(o, error, "cannot be opened");
}

static int open_directory(struct opening *o, int *dir_fd)
{
	int fd;

	if (mkdir(o->path, 0700) && errno != EEXIST)
		return refuse_errno(o, -errno, "cannot be made");
	fd = open(o->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return explain_not_opened(o, -errno);
	*dir_fd = fd;
	return 0;
}

static int check_directory(struct opening *o, int dir_fd)
{
	struct stat st;

	if (fstat(dir_fd, &st))
		return refuse_errno(o, -errno, "cannot be looked at");
	if (st.st_uid != geteuid())
		return refuse(o, -EPERM, "belongs to another user; expected to own it");
	if (st.st_mode & 077)
		return refuse(o, -EPERM, "is open to group or others; expected mode 0700 (chmod 700)");
	return 0;
}

static int open_lock(struct opening *o, int dir_fd, int *lock_fd)
{
	struct stat st;
	int fd = openat(dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
			0600);

	if (fd < 0 && errno == ELOOP)
		return refuse(o, -ELOOP, "its file \"lock\" is a symbolic link; expected a plain file");
	if (fd < 0)
		return refuse_errno(o, -errno, "its file \"lock\" cannot be opened");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid()) {
		close(fd);
		return refuse(o, -EPERM,
			      "its file \"lock\" is no plain file of ours with one name; remove it");
	}
	*lock_fd = fd;
	return 0;
}

/* A daemon that was just killed may need a moment to be gone. */
static int take_lock(struct opening *o, int fd)
{
	const struct timespec tick = {.tv_nsec = LOCK_TICK_MS * 1000000L};

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK)
			return refuse_errno(o, -errno, "cannot be locked");
		nanosleep(&tick, NULL);
	}
	return refuse(o, -EWOULDBLOCK, "another kvbankfs uses it; unmount that one first");
}

static bool same_file(int dir_fd, const char *path, int fd)
{
	struct stat named, opened;

	return !fstatat(dir_fd, path, &named, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &opened) &&
	       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/* Somebody may have exchanged the directory or the file before the locks were there. */
static int check_again(struct opening *o, const struct store *s)
{
	if (same_file(AT_FDCWD, o->path, s->dir_fd) && same_file(s->dir_fd, LOCK_NAME, s->lock_fd))
		return 0;
	return refuse(o, -ESTALE, "was exchanged while it was being locked; try again");
}

/* The directory first: who comes second must not even leave a lock file behind. */
static int open_and_lock(struct opening *o, struct store *s)
{
	int ret = open_directory(o, &s->dir_fd);

	if (!ret)
		ret = check_directory(o, s->dir_fd);
	if (!ret)
		ret = take_lock(o, s->dir_fd);
	if (!ret)
		ret = open_lock(o, s->dir_fd, &s->lock_fd);
	if (!ret)
		ret = take_lock(o, s->lock_fd);
	if (!ret)
		ret = check_again(o, s);
	return ret;
}

int store_open(const char *path, const char *mountpoint, struct store *out, char *message, size_t cap)
{
	struct opening o = {.given = path, .message = text_over(message, cap)};
	struct store s = STORE_NONE;
	int ret = find_path(&o);

	if (!ret)
		ret = check_place(&o, mountpoint);
	if (!ret)
		ret = open_and_lock(&o, &s);
	if (ret) {
		store_close(&s);
		return ret;
	}
	*out = s;
	return 0;
}

void store_close(struct store *s)
{
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	s->lock_fd = s->dir_fd = -1;
}
