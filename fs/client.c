/* SPDX-License-Identifier: GPL-2.0-or-later */
/* client.c - what /proc tells of a process that made a request.
 *
 * A killed writer closes its files like any other: the mount sees an ordinary FLUSH and RELEASE. Only
 * the state of the thread that sends the FLUSH tells them apart, and it cannot go away meanwhile.
 *
 * Three files are read:
 *	status		the thread group, whether there still is memory, pending signals. Never blocks.
 *	stat		field 52, the exit code (low 7 bits: the signal), field 22, the start time.
 *			Waits for a lock that a task inside execve holds while it closes its descriptors,
 *			and such a task waits for our answer to its FLUSH. So at FLUSH it is read only of
 *			a task without memory: that one exits, and cannot be in execve.
 *	fdinfo/N	inode number and open flags of each descriptor; looking at fd/N would ask the mount.
 *
 * Why not simpler: PF_SIGNALED is set in every thread that another thread's _exit ends; a SIGKILL in
 * SigPnd is what _exit and execve send to the other threads, too; the thread group's leader may be long
 * gone, or spin on another processor while a dying thread closes the files.
 *
 * Easy to forget: /proc may hide things (hidepid, processes that are not dumpable). Hidden exit codes
 * read as 0, as an ordinary exit does; a SIGKILL in ShdPnd is still seen then.
 */
#include "fs/client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAT_MAX       2048u /* bytes of a stat file: about 50 numbers and a name of 64 bytes */
#define STAT_NAME      2     /* field numbers as in proc(5) */
#define STAT_START     22
#define STAT_EXIT_CODE 52

static const char *proc_directory = "/proc";

void client_use_proc(const char *directory)
{
	proc_directory = directory ? directory : "/proc";
}

/* Opens PROC/PID/what. Returns the descriptor or -1. */
static int proc_open(pid_t pid, const char *what, int flags)
{
	char path[PATH_MAX];

	if (pid <= 0)
		return -1;
	if (snprintf(path, sizeof(path), "%s/%d/%s", proc_directory, pid, what) >= (int)sizeof(path))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC | flags);
}

/* read(2) that goes on after signals. */
static ssize_t read_some(int fd, char *buf, size_t len)
{
	ssize_t count;

	do
		count = read(fd, buf, len);
	while (count < 0 && errno == EINTR);
	return count;
}

/* Lines of a small file. Lines longer than the buffer (the groups of somebody who is in thousands)
 * are passed over. */
struct lines {
	int fd;
	size_t start, end; /* unread bytes of buf */
	bool skipping;	   /* within a line that is too long */
	char buf[1024];
};

static void lines_init(struct lines *lines, int fd)
{
	lines->fd = fd;
	lines->start = lines->end = 0;
	lines->skipping = false;
}

/* Brings more bytes into the buffer; false at the end of the file. */
static bool lines_fill(struct lines *lines)
{
	ssize_t count;

	memmove(lines->buf, lines->buf + lines->start, lines->end - lines->start);
	lines->end -= lines->start;
	lines->start = 0;
	if (lines->end == sizeof(lines->buf)) {
		lines->skipping = true;
		lines->end = 0;
	}
	count = read_some(lines->fd, lines->buf + lines->end, sizeof(lines->buf) - lines->end);
	if (count <= 0)
		return false;
	lines->end += (size_t)count;
	return true;
}

/* The next line without its end, valid until the next call; NULL after the last. */
static const char *lines_next(struct lines *lines)
{
	for (;;) {
		char *line = lines->buf + lines->start;
		char *newline = memchr(line, '\n', lines->end - lines->start);
		bool whole = !lines->skipping;

		if (!newline) {
			if (!lines_fill(lines))
				return NULL;
			continue;
		}
		*newline = '\0';
		lines->start = (size_t)(newline + 1 - lines->buf);
		lines->skipping = false;
		if (whole)
			return line;
	}
}

/* Is this the line of `key` (with its colon)? Then *value is what follows. */
static bool line_has(const char *line, const char *key, const char **value)
{
	size_t len = strlen(key);

	if (strncmp(line, key, len))
		return false;
	*value = line + len;
	return true;
}

/* What matters in /proc/TID/status. */
struct status {
	pid_t process;
	bool memory;   /* it has an address space: it does not exit yet */
	bool killed;   /* SIGKILL was sent to the process and is still pending */
	bool complete; /* all of it was seen */
};

static bool status_take(struct status *status, const char *line)
{
	const char *value;

	if (line_has(line, "Tgid:", &value))
		status->process = (pid_t)strtol(value, NULL, 10);
	else if (line_has(line, "VmSize:", &value))
		status->memory = true;
	else if (line_has(line, "ShdPnd:", &value)) {
		status->killed = strtoull(value, NULL, 16) >> (SIGKILL - 1) & 1;
		status->complete = true; /* behind the others */
	}
	return !status->complete;
}

static struct status status_read(pid_t tid)
{
	struct status status = {0};
	struct lines lines;
	const char *line;
	int fd = proc_open(tid, "status", 0);

	if (fd < 0)
		return status;
	lines_init(&lines, fd);
	while ((line = lines_next(&lines)) && status_take(&status, line))
		;
	close(fd);
	return status;
}

/* Reads number `field` (after the name) of /proc/TID/stat. The name may hold spaces, parentheses and
 * newlines, so count from the last parenthesis. */
static bool stat_field(pid_t tid, int field, uint64_t *out)
{
	char buf[STAT_MAX + 1], *at;
	size_t len = 0;
	ssize_t count;
	int fd = proc_open(tid, "stat", 0);

	if (fd < 0)
		return false;
	while (len < STAT_MAX && (count = read_some(fd, buf + len, STAT_MAX - len)) > 0)
		len += (size_t)count;
	close(fd);
	buf[len] = '\0';
	at = memrchr(buf, ')', len);
	for (int i = STAT_NAME; at && i < field; i++)
		at = strchr(at + 1, ' ');
	if (!at)
		return false;
	*out = strtoull(at + 1, NULL, 10);
	return true;
}

pid_t client_process(pid_t tid)
{
	return status_read(tid).process;
}

int client_dying(pid_t tid)
{
	struct status status = status_read(tid);
	uint64_t code = 0;

	if (!status.complete)
		return -1;
	if (status.memory)
		return status.killed;
	if (!stat_field(tid, STAT_EXIT_CODE, &code))
		return status.killed ? 1 : -1;
	if (code == 0)
		return status.killed; /* exit(0), or hidden */
	return (code & 0x7f) != 0;
}

/* Does this fdinfo file tell of `inode`, opened for writing if that matters? */
static bool descriptor_matches(int fd, uint64_t inode, bool writable)
{
	struct lines lines;
	const char *line, *value;
	uint64_t flags = 0;

	lines_init(&lines, fd);
	while ((line = lines_next(&lines))) {
		if (line_has(line, "flags:", &value))
			flags = strtoull(value, NULL, 8);
		else if (line_has(line, "ino:", &value))
			return strtoull(value, NULL, 10) == inode &&
			       (!writable || (flags & O_ACCMODE) != O_RDONLY);
	}
	return false;
}

/* Looks through an open fdinfo directory, which it closes. Tells whether a descriptor matches; *seen
 * when there was any. */
static bool descriptors_match(int directory, uint64_t inode, bool writable, bool *seen)
{
	DIR *stream = fdopendir(directory);
	struct dirent *entry;
	bool found = false;

	if (!stream) {
		close(directory);
		return false;
	}
	while (!found && (entry = readdir(stream))) {
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		*seen = true;
		fd = openat(directory, entry->d_name, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		found = descriptor_matches(fd, inode, writable);
		close(fd);
	}
	closedir(stream);
	return found;
}

/* The leader of the group has exited and shows no descriptors: the other threads, one of which is
 * enough, since they share them. */
static bool threads_match(pid_t pid, uint64_t inode, bool writable)
{
	int tasks = proc_open(pid, "task", O_DIRECTORY);
	DIR *stream = tasks < 0 ? NULL : fdopendir(tasks);
	struct dirent *entry;
	bool found = false, seen = false;

	if (!stream) {
		if (tasks >= 0)
			close(tasks);
		return false;
	}
	while (!seen && (entry = readdir(stream))) {
		char path[sizeof(entry->d_name) + sizeof("/fdinfo")];
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/fdinfo", entry->d_name);
		fd = openat(tasks, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			found = descriptors_match(fd, inode, writable, &seen);
	}
	closedir(stream);
	return found;
}

bool client_holds(pid_t pid, uint64_t inode, bool writable)
{
	int directory = proc_open(pid, "fdinfo", O_DIRECTORY);
	bool seen = false;

	if (directory < 0)
		return false;
	if (descriptors_match(directory, inode, writable, &seen))
		return true;
	return !seen && threads_match(pid, inode, writable);
}

uint64_t client_start_time(pid_t tid)
{
	uint64_t ticks = 0;

	return stat_field(tid, STAT_START, &ticks) ? ticks : 0;
}

bool client_alive(pid_t tid)
{
	return tid > 0 && (kill(tid, 0) == 0 || errno == EPERM);
}
