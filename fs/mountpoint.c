/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mountpoint.c - looks at, cleans and unmounts the place of the mount.
 *
 * A line of /proc/self/mountinfo: "ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [TAGS...] - TYPE SOURCE ...",
 * with octal escapes for odd bytes of PLACE. Of several lines for one place the last lies on top.
 *
 * What may be at the place before us: nothing or another kind of mount (an automounter's, a bind mount of
 * a container): we mount on top. A dead kvbankfs (its daemon was killed: ENOTCONN): unmounted.
 * Anything else of FUSE, dead or alive: refused, it is somebody's.
 *
 * Dead or alive: stat may be answered from attributes that the kernel remembers, so it is told to ask. A
 * daemon that is being killed right now still has its mount: who asked waits for it, gets ECONNABORTED when
 * it is gone, and ENOTCONN when asking again.
 *
 * Unmounting by path may hit what others mounted there later, so the device number must be ours.
 *
 * Easy to forget: as an ordinary user only fusermount3 may unmount, and it must not inherit our blocked
 * signals, or it could not be stopped.
 */
#include "fs/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/text.h"

#define OWN_TYPE       "fuse.kvbankfs"
#define TYPE_CAP       64
#define ABORTED_MAX    5  /* times to ask again */
#define STALE_MAX      16 /* dead mounts on top of each other */
#define UNMOUNT_WAIT_S 5
#define TICK_MS	       20

extern char **environ;

/* What lies on top at a place. */
struct top {
	bool found;
	unsigned major, minor;
	char type[TYPE_CAP];
};

/* ---- /proc/self/mountinfo ---- */

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* Undoes \ooo in place. */
static void unescape(char *text)
{
	char *out = text;

	while (*text) {
		if (text[0] == '\\' && is_octal(text[1]) && is_octal(text[2]) && is_octal(text[3])) {
			*out++ = (char)((text[1] & 3u) << 6 | (text[2] & 7u) << 3 | (text[3] & 7u));
			text += 4;
		} else {
			*out++ = *text++;
		}
	}
	*out = 0;
}

/* Takes one line apart; true when it is about `path`. */
static bool parse_line(const char *line, const char *path, struct top *out)
{
	const char *dash = strstr(line, " - ");
	char *place = NULL;
	struct top top = {.found = true};
	bool is_it = dash && sscanf(line, "%*u %*u %u:%u %*s %ms", &top.major, &top.minor, &place) == 3 &&
		     sscanf(dash, " - %63s", top.type) == 1;

	if (is_it) {
		unescape(place);
		is_it = !strcmp(place, path);
	}
	free(place);
	if (is_it)
		*out = top;
	return is_it;
}

static int find_top(const char *path, struct top *out)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t cap = 0;

	memset(out, 0, sizeof(*out));
	if (!file)
		return -errno;
	while (getline(&line, &cap, file) > 0)
		parse_line(line, path, out);
	free(line);
	fclose(file);
	return 0;
}

/* ---- unmounting ---- */

static int spawn_fusermount(const char *path, pid_t *out)
{
	const char *argv[] = {"fusermount3", "-u", "-q", "-z", "--", path, NULL};
	posix_spawnattr_t attr;
	sigset_t none, plain;
	int ret;

	sigemptyset(&none);
	sigemptyset(&plain);
	sigaddset(&plain, SIGPIPE);
	sigaddset(&plain, SIGHUP);
	if (posix_spawnattr_init(&attr))
		return -ENOMEM;
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &plain);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	ret = posix_spawnp(out, argv[0], NULL, &attr, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attr);
	return -ret;
}

static int wait_briefly(pid_t pid)
{
	const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
	int status;

	for (int i = 0; i < UNMOUNT_WAIT_S * 1000 / TICK_MS; i++) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EPERM;
		if (got < 0 && errno != EINTR)
			return -errno;
		nanosleep(&tick, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -ETIMEDOUT;
}

static int unmount_top(const char *path)
{
	pid_t pid;
	int ret;

	if (!umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW))
		return 0;
	if (errno != EPERM)
		return -errno;
	ret = spawn_fusermount(path, &pid);
	return ret ? ret : wait_briefly(pid);
}

int mountpoint_unmount(const struct mountpoint *m)
{
	struct top top;
	int ret;

	if (!m->mounted)
		return 0;
	ret = find_top(m->path, &top);
	if (ret)
		return ret;
	if (!top.found || top.major != m->major || top.minor != m->minor)
		return 0;
	return unmount_top(m->path);
}

/* ---- before and after the mount ---- */

/* The kind of what is there, from its daemon and not from what the kernel remembers of it. */
static int look(const char *path, mode_t *mode)
{
	struct statx st;
	int ret = 0;

	for (int i = 0; i < ABORTED_MAX; i++) {
		ret = statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC, STATX_TYPE, &st) ? -errno : 0;
		if (ret != -ECONNABORTED)
			break;
	}
	if (!ret)
		*mode = st.stx_mode;
	return ret;
}

static int resolve_parent(const char *given, char path[PATH_MAX])
{
	char copy[PATH_MAX], parent[PATH_MAX], *slash;
	size_t len = strlen(given);

	if (len >= sizeof(copy))
		return -ENAMETOOLONG;
	memcpy(copy, given, len + 1);
	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = 0;
	slash = strrchr(copy, '/');
	if (!slash || !slash[1] || !strcmp(slash + 1, ".") || !strcmp(slash + 1, ".."))
		return -ENOTCONN;
	*slash = 0;
	if (!realpath(slash == copy ? "/" : copy, parent))
		return -errno;
	if ((size_t)snprintf(path, PATH_MAX, "%s/%s", strcmp(parent, "/") ? parent : "", slash + 1) >=
	    PATH_MAX)
		return -ENAMETOOLONG;
	return 0;
}

int mountpoint_resolve(const char *given, struct mountpoint *m, char *message, size_t cap)
{
	struct text t = text_over(message, cap);
	mode_t mode = S_IFDIR;
	int ret = 0;

	m->mounted = false;
	if (look(given, &mode) == -ENOTCONN)
		ret = resolve_parent(given, m->path);
	else if (!realpath(given, m->path))
		ret = -errno;
	else if (!S_ISDIR(mode))
		ret = -ENOTDIR;
	if (ret)
		text_add(&t, "mount point %s: %s; expected a directory", given, strerror(-ret));
	return ret;
}

static bool is_fuse(const char *type)
{
	return !strcmp(type, "fuse") || !strcmp(type, "fuseblk") || !strncmp(type, "fuse.", 5);
}

static int refuse(const struct mountpoint *m, int error, const char *what, char *message, size_t cap)
{
	struct text t = text_over(message, cap);

	text_add(&t, "mount point %s: %s", m->path, what);
	return error;
}

/* Something of FUSE is there. 0: it was dead and ours, and is gone now; another may lie below. */
static int clear_fuse(const struct mountpoint *m, const struct top *top, char *message, size_t cap)
{
	struct text t = text_over(message, cap);
	mode_t mode;
	bool dead = look(m->path, &mode) == -ENOTCONN;
	int ret;

	if (!dead && !strcmp(top->type, OWN_TYPE))
		return refuse(m, -EBUSY, "a kvbankfs is mounted there already", message, cap);
	if (!dead)
		return refuse(m, -EBUSY, "another FUSE file system is mounted there already", message, cap);
	if (!strcmp(top->type, OWN_TYPE)) {
		ret = unmount_top(m->path);
		if (!ret)
			return 0;
	}
	text_add(&t, "mount point %s: the daemon of the %s mounted there is dead; run: fusermount3 -uz %s",
		 m->path, top->type, m->path);
	return -EBUSY;
}

static int check_directory(const struct mountpoint *m, char *message, size_t cap)
{
	struct text t = text_over(message, cap);
	mode_t mode = 0;
	int ret = look(m->path, &mode);

	if (!ret && !S_ISDIR(mode))
		ret = -ENOTDIR;
	if (ret)
		text_add(&t, "mount point %s: %s; expected a directory", m->path, strerror(-ret));
	return ret;
}

int mountpoint_prepare(const struct mountpoint *m, char *message, size_t cap)
{
	struct top top;
	int ret = 0;

	for (int i = 0; i < STALE_MAX && !ret; i++) {
		ret = find_top(m->path, &top);
		if (ret)
			return refuse(m, ret, "/proc/self/mountinfo cannot be read; expected /proc", message,
				      cap);
		if (!top.found || !is_fuse(top.type))
			return check_directory(m, message, cap);
		ret = clear_fuse(m, &top, message, cap);
	}
	return ret ? ret : refuse(m, -EBUSY, "too many dead mounts there", message, cap);
}

int mountpoint_identify(struct mountpoint *m)
{
	struct top top;
	int ret = find_top(m->path, &top);

	if (ret)
		return ret;
	if (!top.found || strcmp(top.type, OWN_TYPE))
		return -ENOENT;
	m->major = top.major;
	m->minor = top.minor;
	m->mounted = true;
	return 0;
}

bool mountpoint_read_ahead(const struct mountpoint *m, unsigned kib)
{
	char path[64], number[16];
	int fd, len;
	bool written;

	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", m->major, m->minor);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = snprintf(number, sizeof(number), "%u", kib);
	written = write(fd, number, (size_t)len) == len;
	close(fd);
	return written;
}
