/* SPDX-License-Identifier: GPL-2.0-or-later */
/* reuse.c - a thread id that a killed writer left behind, used again at once.
 *
 *	reuse FILE ROUNDS
 *
 * In each round a writer opens FILE for writing over and over and is killed after a random time, often
 * between being refused the committed inode and reaching its stage. Then another process is made with
 * the very same id; it looks at FILE, which must be the committed version for it, too.
 *
 * Prints one line. Status 0: never a wrong look. 77: ids cannot be chosen here.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pattern.h"

#define TICK_US 20000 /* start times count in ticks of 10 ms; no system uses an id again that soon */
#define TEXT	"committed"

static const char *file;

/* fork that asks for this process id. */
static pid_t fork_as(pid_t wanted)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uint64_t)(uintptr_t)&wanted,
		.set_tid_size = 1,
	};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static void open_until_killed(void)
{
	for (;;) {
		int fd = open(file, O_WRONLY);

		if (fd < 0)
			_exit(10);
		close(fd);
	}
}

/* Exit status 0: FILE is what was committed. */
static void look(ino_t inode)
{
	char buf[64] = "";
	struct stat st, opened;
	int fd;

	if (stat(file, &st))
		_exit(1);
	fd = open(file, O_RDONLY);
	if (fd < 0 || fstat(fd, &opened) || read(fd, buf, sizeof(buf) - 1) < 0)
		_exit(2);
	if (st.st_ino != inode || st.st_size != (off_t)strlen(TEXT))
		_exit(3);
	if (opened.st_ino != inode || strcmp(buf, TEXT))
		_exit(4);
	_exit(0);
}

/* Returns 0, or what the second process found wrong. */
static int round_run(uint64_t random, ino_t inode)
{
	int status;
	pid_t pid = fork(), again;

	if (pid == 0)
		open_until_killed();
	usleep((useconds_t)(1000 + random % 3000));
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		return 90;
	usleep(TICK_US);
	again = fork_as(pid);
	if (again == 0)
		look(inode);
	if (again != pid)
		return errno == EPERM || errno == ENOSYS || errno == EINVAL ? 77 : errno == EEXIST ? 0 : 91;
	waitpid(again, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 92;
}

int main(int argc, char **argv)
{
	struct stat st;
	int fd, wrong = 0, result;

	if (argc != 3) {
		fprintf(stderr, "usage: reuse FILE ROUNDS\n");
		return 2;
	}
	file = argv[1];
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, TEXT, strlen(TEXT)) < 0 || close(fd) || stat(file, &st))
		return 2;
	for (int i = 0; i < atoi(argv[2]); i++) {
		result = round_run(pattern_word(1, (uint64_t)i), st.st_ino);
		if (result == 77)
			return 77;
		if (result)
			printf("# round %d: %d\n", i, result);
		wrong += result != 0;
	}
	printf("rounds %s wrong %d\n", argv[2], wrong);
	return wrong != 0;
}
