/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_fs_client.c - living, exiting and dying processes are told apart.
 *
 * Zombies stand for dying threads here: they have lost their memory and show their exit code. What
 * cannot be held still (a thread that exits while others run) is shown in a made-up /proc; the mount
 * tests see it in a real one. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/client.h"

/* Forks a child that runs `life` and leaves it a zombie. */
static pid_t zombie(void (*life)(void))
{
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0) {
		const struct rlimit no_core = {0, 0};

		setrlimit(RLIMIT_CORE, &no_core);
		life();
		_exit(0);
	}
	CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	return pid;
}

static void reap(pid_t pid)
{
	CHECK_INT(waitpid(pid, NULL, 0), pid);
}

static void *spin(void *arg)
{
	for (;;)
		__asm__ volatile("" ::: "memory");
	return arg;
}

static void four_spinning_threads(void)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, spin, NULL);
}

static void live_exit0(void)
{
	_exit(0);
}

static void live_exit1(void)
{
	_exit(1);
}

static void live_exit3_in_threads(void)
{
	four_spinning_threads();
	_exit(3);
}

static void live_kill(void)
{
	kill(getpid(), SIGKILL);
}

static void live_kill_in_threads(void)
{
	four_spinning_threads();
	kill(getpid(), SIGKILL);
}

static void live_tgkill(void)
{
	syscall(SYS_tgkill, getpid(), gettid(), SIGKILL);
}

static void live_interrupt(void)
{
	signal(SIGINT, SIG_DFL);
	raise(SIGINT);
}

static void live_terminate(void)
{
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
}

static void live_segv(void)
{
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

static void live_abort(void)
{
	signal(SIGABRT, SIG_DFL);
	abort();
}

static int zombie_is_dying(void (*life)(void))
{
	pid_t pid = zombie(life);
	int dying = client_dying(pid);

	reap(pid);
	return dying;
}

static void exits_are_no_deaths(void)
{
	CHECK_INT(zombie_is_dying(live_exit0), 0);
	CHECK_INT(zombie_is_dying(live_exit1), 0);
	CHECK_INT(zombie_is_dying(live_exit3_in_threads), 0);
}

static void signals_are_deaths(void)
{
	CHECK_INT(zombie_is_dying(live_kill), 1);
	CHECK_INT(zombie_is_dying(live_kill_in_threads), 1);
	CHECK_INT(zombie_is_dying(live_tgkill), 1);
	CHECK_INT(zombie_is_dying(live_interrupt), 1);
	CHECK_INT(zombie_is_dying(live_terminate), 1);
	CHECK_INT(zombie_is_dying(live_segv), 1);
	CHECK_INT(zombie_is_dying(live_abort), 1);
}

static void *ask_about_self(void *arg)
{
	*(pid_t *)arg = client_process(gettid());
	CHECK_INT(client_dying(gettid()), 0);
	CHECK(client_start_time(gettid()) >= client_start_time(getpid()));
	CHECK(client_alive(gettid()));
	return NULL;
}

static void threads_belong_to_their_process(void)
{
	pthread_t thread;
	pid_t process = 0;

	CHECK_INT(client_process(getpid()), getpid());
	CHECK_INT(pthread_create(&thread, NULL, ask_about_self, &process), 0);
	pthread_join(thread, NULL);
	CHECK_INT(process, getpid());
}

static void gone_and_unseen_processes(void)
{
	pid_t pid = zombie(live_exit0);

	CHECK(client_alive(pid)); /* not reaped: the number is not free */
	CHECK(client_start_time(pid) > 0);
	reap(pid);
	CHECK_INT(client_process(pid), 0);
	CHECK_INT(client_dying(pid), -1);
	CHECK_INT(client_start_time(pid), 0);
	CHECK(!client_alive(pid));
	CHECK(!client_holds(pid, 1, false));
	CHECK_INT(client_process(0), 0);
	CHECK_INT(client_dying(0), -1);
	CHECK(!client_alive(0));
	CHECK(!client_holds(0, 1, false));
}

/* A file without a name; its inode number through *inode. */
static int open_unnamed(int flags, uint64_t *inode)
{
	char path[] = "/tmp/kv-unit-XXXXXX";
	struct stat st;
	int made = mkstemp(path), fd;

	CHECK(made >= 0);
	fd = open(path, flags | O_CLOEXEC);
	CHECK(fd >= 0);
	close(made);
	unlink(path);
	CHECK_INT(fstat(fd, &st), 0);
	*inode = st.st_ino;
	return fd;
}

static void descriptors_are_found(void)
{
	uint64_t reads, writes, appends;
	int read_only = open_unnamed(O_RDONLY, &reads), write_only = open_unnamed(O_WRONLY, &writes);
	int both = open_unnamed(O_RDWR | O_APPEND, &appends);

	CHECK(client_holds(getpid(), reads, false));
	CHECK(!client_holds(getpid(), reads, true));
	CHECK(client_holds(getpid(), writes, false));
	CHECK(client_holds(getpid(), writes, true));
	CHECK(client_holds(getpid(), appends, true));
	close(read_only);
	close(write_only);
	close(both);
	CHECK(!client_holds(getpid(), reads, false));
	CHECK(!client_holds(getpid(), writes, false));
}

static void duplicates_keep_it(void)
{
	uint64_t inode;
	int fd = open_unnamed(O_WRONLY, &inode), copy = dup(fd);

	close(fd);
	CHECK(client_holds(getpid(), inode, true));
	close(copy);
	CHECK(!client_holds(getpid(), inode, true));
}

static void inode_numbers_are_compared_whole(void)
{
	uint64_t inode;
	int fd = open_unnamed(O_WRONLY, &inode);

	CHECK(!client_holds(getpid(), inode * 10, false));
	CHECK(!client_holds(getpid(), inode / 10, false));
	CHECK(!client_holds(getpid(), inode + (1ull << 32), false));
	close(fd);
}

static void *hold_in_thread(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void leader_that_left_hides_nothing(void)
{
	uint64_t inode;
	int fd = open_unnamed(O_WRONLY, &inode);
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t thread;

		pthread_create(&thread, NULL, hold_in_thread, NULL);
		pthread_exit(NULL);
	}
	close(fd);
	for (int i = 0; i < 200 && client_dying(pid) == 0 && client_holds(pid, inode, true); i++) {
		char state[64] = "";
		char path[64];
		int stat_fd;

		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		stat_fd = open(path, O_RDONLY | O_CLOEXEC);
		CHECK(read(stat_fd, state, sizeof(state) - 1) > 0);
		close(stat_fd);
		if (strstr(state, ") Z"))
			break;
		usleep(10000);
	}
	CHECK(client_holds(pid, inode, true));
	kill(pid, SIGKILL);
	reap(pid);
	CHECK(!client_holds(pid, inode, true));
}

static void many_descriptors(void)
{
	int fds[500];
	uint64_t inode;

	for (int i = 0; i < 500; i++)
		fds[i] = dup(STDIN_FILENO);
	close(fds[499]);
	fds[499] = open_unnamed(O_WRONLY, &inode);
	CHECK(client_holds(getpid(), inode, true));
	for (int i = 0; i < 500; i++)
		close(fds[i]);
}

/* ---- a made-up /proc ---- */

#define MADE_UP 4711

static char made_up[] = "/tmp/kv-proc-XXXXXX";

static void made_up_file(const char *name, const char *content)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%d/%s", made_up, MADE_UP, name);
	file = fopen(path, "w");
	CHECK(file != NULL);
	if (!file)
		return;
	CHECK(fputs(content, file) >= 0);
	fclose(file);
}

static void made_up_begin(void)
{
	char path[PATH_MAX];

	CHECK(mkdtemp(made_up) != NULL);
	snprintf(path, sizeof(path), "%s/%d", made_up, MADE_UP);
	CHECK_INT(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%d/fdinfo", made_up, MADE_UP);
	CHECK_INT(mkdir(path, 0700), 0);
	client_use_proc(made_up);
}

static void made_up_end(void)
{
	char command[PATH_MAX];

	client_use_proc(NULL);
	snprintf(command, sizeof(command), "rm -r %s", made_up);
	CHECK_INT(system(command), 0);
	strcpy(made_up, "/tmp/kv-proc-XXXXXX");
}

/* status as the kernel prints it: memory or not, pending signals of the thread and of the process. */
static void made_up_status(const char *memory, const char *own, const char *shared)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "Name:\tx\\nVmSize:\nTgid:\t4000\nPid:\t4711\n%sSigQ:\t0/9\nSigPnd:\t%s\nShdPnd:\t%s\n",
		 memory, own, shared);
	made_up_file("status", text);
}

#define NO_MEMORY ""
#define MEMORY	  "VmPeak:\t  9 kB\nVmSize:\t  9 kB\n"
#define NONE	  "0000000000000000"
#define KILL	  "0000000000000100"
#define TERM	  "0000000000004000"

static void made_up_stat(const char *name, long code)
{
	char text[1024];
	int len = snprintf(text, sizeof(text), "4711 (%s) R", name);

	for (int field = 4; field < 52; field++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, " %d", field == 22 ? 123456789 : 9);
	snprintf(text + len, sizeof(text) - (size_t)len, " %ld\n", code);
	made_up_file("stat", text);
}

static void exit_code_decides_without_memory(void)
{
	made_up_begin();
	made_up_status(NO_MEMORY, NONE, NONE);
	made_up_stat("x", 9);
	CHECK_INT(client_dying(MADE_UP), 1);
	made_up_stat("x", 0x8b);
	CHECK_INT(client_dying(MADE_UP), 1);
	made_up_stat("x", 0x300);
	CHECK_INT(client_dying(MADE_UP), 0);
	made_up_stat(") R 9 9 (\n) 1 2", 15);
	CHECK_INT(client_dying(MADE_UP), 1);
	CHECK_INT(client_start_time(MADE_UP), 123456789);
	made_up_end();
}

static void exit_in_threads_leaves_sigkill_pending_and_is_no_death(void)
{
	made_up_begin();
	made_up_stat("x", 0x300);
	made_up_status(NO_MEMORY, KILL, NONE);
	CHECK_INT(client_dying(MADE_UP), 0);
	made_up_status(MEMORY, KILL, NONE);
	CHECK_INT(client_dying(MADE_UP), 0);
	made_up_end();
}

static void with_memory_stat_is_not_read(void)
{
	made_up_begin();
	made_up_stat("x", 9);
	made_up_status(MEMORY, NONE, NONE);
	CHECK_INT(client_dying(MADE_UP), 0);
	made_up_status(MEMORY, NONE, KILL);
	CHECK_INT(client_dying(MADE_UP), 1);
	made_up_status(MEMORY, NONE, TERM); /* caught, or blocked */
	CHECK_INT(client_dying(MADE_UP), 0);
	made_up_end();
}

static void hidden_exit_code_leaves_the_pending_kill(void)
{
	made_up_begin();
	made_up_status(NO_MEMORY, NONE, KILL);
	CHECK_INT(client_dying(MADE_UP), 1); /* no stat at all */
	made_up_stat("x", 0);
	CHECK_INT(client_dying(MADE_UP), 1); /* its numbers hidden */
	made_up_status(NO_MEMORY, NONE, NONE);
	CHECK_INT(client_dying(MADE_UP), 0);
	made_up_end();
}

static void damaged_proc_cannot_be_told(void)
{
	made_up_begin();
	CHECK_INT(client_dying(MADE_UP), -1);
	CHECK_INT(client_process(MADE_UP), 0);
	made_up_file("status", "Name:\tx\nTgid:\t4000\n");
	CHECK_INT(client_dying(MADE_UP), -1);
	CHECK_INT(client_process(MADE_UP), 4000);
	made_up_status(NO_MEMORY, NONE, NONE);
	CHECK_INT(client_dying(MADE_UP), -1); /* no stat */
	made_up_file("stat", "4711 (x) R 1 2 3");
	CHECK_INT(client_dying(MADE_UP), -1);
	CHECK_INT(client_start_time(MADE_UP), 0);
	made_up_end();
}

static void long_lines_are_passed_over(void)
{
	size_t len = 0;
	char *text = malloc(200000);

	CHECK(text != NULL);
	made_up_begin();
	len += (size_t)sprintf(text + len, "Name:\tx\nTgid:\t4000\nGroups:\t");
	for (int i = 0; i < 20000; i++)
		len += (size_t)sprintf(text + len, "%d ", 100000 + i);
	sprintf(text + len, "\nVmSize:\t  9 kB\nSigPnd:\t" NONE "\nShdPnd:\t" KILL "\n");
	made_up_file("status", text);
	made_up_stat("x", 0);
	CHECK_INT(client_process(MADE_UP), 4000);
	CHECK_INT(client_dying(MADE_UP), 1);
	for (int length = 900; length < 1200; length++) { /* the end of a long line is no line */
		len = (size_t)sprintf(text, "Tgid:\t4000\n");
		memset(text + len, 'x', (size_t)length);
		sprintf(text + len + length, "Tgid:\t9\nShdPnd:\t" NONE "\n");
		made_up_file("status", text);
		CHECK_INT(client_process(MADE_UP), 4000);
	}
	for (int shift = 0; shift < 1100; shift += 7) { /* lines that end anywhere in the buffer */
		memset(text, 'x', 1100);
		sprintf(text + shift, "\nTgid:\t4000\nVmSize:\t9 kB\nShdPnd:\t" KILL "\n");
		made_up_file("status", text);
		CHECK_INT(client_process(MADE_UP), 4000);
		CHECK_INT(client_dying(MADE_UP), 1);
	}
	made_up_end();
	free(text);
}

static void fdinfo_is_read_as_printed(void)
{
	made_up_begin();
	made_up_file("fdinfo/0", "pos:\t0\nflags:\t0100000\nmnt_id:\t24\nino:\t3\n");
	made_up_file("fdinfo/1", "pos:\t0\nflags:\t02100001\nmnt_id:\t24\nino:\t18446744073709551615\n");
	made_up_file("fdinfo/2", "pos:\t0\nflags:\t0100001\nmnt_id:\t24\n"); /* before Linux 5.14 */
	made_up_file("fdinfo/3", "");
	made_up_file("fdinfo/4", "pos:\t0\nflags:\t02\nmnt_id:\t24\nino:\t9\ntfd: 5 events: 19 ino:77\n");
	CHECK(client_holds(MADE_UP, 3, false));
	CHECK(!client_holds(MADE_UP, 3, true));
	CHECK(client_holds(MADE_UP, UINT64_MAX, true));
	CHECK(client_holds(MADE_UP, 9, true));
	CHECK(!client_holds(MADE_UP, 77, false));
	CHECK(!client_holds(MADE_UP, 24, false));
	CHECK(!client_holds(MADE_UP, 0, false));
	made_up_end();
}

/* Runs as nobody, looking at a process of root: what may be seen is told, nothing else. */
static void what_is_hidden_is_not_seen(void)
{
	uint64_t inode;
	int fd, status = 0;
	pid_t pid;

	if (geteuid() != 0) {
		printf("# not run as root: nothing is hidden from us\n");
		return;
	}
	fd = open_unnamed(O_WRONLY, &inode);
	pid = fork();
	if (pid == 0) {
		bool wrong = setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534);

		wrong |= client_process(getppid()) != getppid();
		wrong |= client_dying(getppid()) != 0;
		wrong |= client_holds(getppid(), inode, true);
		wrong |= !client_alive(getppid());
		_exit(wrong);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
	close(fd);
}

static void no_descriptor_leaks(void)
{
	int before = dup(STDIN_FILENO), after;

	close(before);
	for (int i = 0; i < 100; i++) {
		client_process(getpid());
		client_dying(getpid());
		client_start_time(getpid());
		client_holds(getpid(), UINT64_MAX, true);
	}
	after = dup(STDIN_FILENO);
	close(after);
	CHECK_INT(after, before);
}

int main(void)
{
	RUN("exits are no deaths, whatever their status and threads", exits_are_no_deaths);
	RUN("every signal that ends a process is a death", signals_are_deaths);
	RUN("threads belong to their process", threads_belong_to_their_process);
	RUN("gone and unseen processes are told as such", gone_and_unseen_processes);
	RUN("open descriptors are found, by access mode too", descriptors_are_found);
	RUN("a duplicate keeps the file held", duplicates_keep_it);
	RUN("inode numbers are compared whole", inode_numbers_are_compared_whole);
	RUN("descriptors are found when the first thread has left", leader_that_left_hides_nothing);
	RUN("the last of 500 descriptors is found", many_descriptors);
	RUN("without memory the exit code decides", exit_code_decides_without_memory);
	RUN("the SIGKILL that _exit sends to threads is no death",
	    exit_in_threads_leaves_sigkill_pending_and_is_no_death);
	RUN("with memory stat is not read", with_memory_stat_is_not_read);
	RUN("a hidden exit code leaves the pending SIGKILL", hidden_exit_code_leaves_the_pending_kill);
	RUN("a damaged or vanishing /proc cannot be told", damaged_proc_cannot_be_told);
	RUN("lines of any length are passed over", long_lines_are_passed_over);
	RUN("fdinfo is read as the kernel prints it", fdinfo_is_read_as_printed);
	RUN("what is hidden is not seen", what_is_hidden_is_not_seen);
	RUN("no call leaks a descriptor", no_descriptor_leaks);
	UNIT_END();
}
