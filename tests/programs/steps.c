/* SPDX-License-Identifier: GPL-2.0-or-later */
/* steps.c - several processes that do one file operation after the other, as a script says.
 *
 *	steps DIRECTORY < SCRIPT
 *
 * Each line is "[PROCESS:] COMMAND ARGUMENTS... [= ANSWER]". Processes are A to H, A when not named;
 * each has descriptors and mappings of its own, called a to z. Without an answer the command must
 * succeed; an answer is a number, a text, an errno's name, `died` for a process that is no more, or
 * $NAME, which remembers the answer the first time and stands for it later; `any` accepts all.
 * `!= ANSWER` must differ, `< ANSWER` must be less; $NAME+NUMBER adds.
 * Stops at the first line that fails, tells what came instead, and exits 1.
 *
 * The controller has no file open below DIRECTORY. It makes a channel for each process before the
 * first fork, so that a process can fork another one, which inherits its descriptors. Whether a
 * process has died is asked of its pidfd: then its files are closed. A command that does not answer
 * within TIMEOUT_MS fails: a hanging mount fails the test and does not hang it.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pattern.h"

#define PROCESSES  8
#define LETTERS	   26
#define WORDS	   16
#define TEXT_MAX   4096
#define TIMEOUT_MS 20000
#define PIECE	   65536u

/* ---- what a process can do ---- */

static int descriptors[LETTERS];
static struct {
	char *at;
	size_t len;
} mappings[LETTERS];
static int channels[PROCESSES][2]; /* controller's end, process's end */
static char said[TEXT_MAX];	   /* a text answer, when not empty */

static void serve(int process);

static int *descriptor(const char *letter)
{
	return &descriptors[(*letter - 'a') % LETTERS];
}

static int64_t number(const char *text)
{
	return strtoll(text, NULL, 0);
}

/* The number that a call returned, or its errno, negative. */
static int64_t result(int64_t returned)
{
	return returned < 0 ? -errno : returned;
}

struct word {
	const char *text;
	int value;
};

/* The values of a list "a,b,c", or-ed. */
static int words_value(const struct word *words, const char *list)
{
	char copy[256], *rest = copy, *text;
	int value = 0;

	snprintf(copy, sizeof(copy), "%s", list);
	while ((text = strsep(&rest, ","))) {
		const struct word *word = words;

		while (word->text && strcmp(word->text, text))
			word++;
		if (!word->text) {
			fprintf(stderr, "# unknown word %s\n", text);
			_exit(2);
		}
		value |= word->value;
	}
	return value;
}

static const struct word open_words[] = {
	{"rdonly", O_RDONLY},
	{"wronly", O_WRONLY},
	{"rdwr", O_RDWR},
	{"trunc", O_TRUNC},
	{"creat", O_CREAT},
	{"excl", O_EXCL},
	{"append", O_APPEND},
	{"cloexec", O_CLOEXEC},
	{"path", O_PATH},
	{"direct", O_DIRECT},
	{"tmpfile", O_TMPFILE},
	{"sync", O_SYNC},
	{NULL, 0},
};
static const struct word map_words[] = {{"shared", MAP_SHARED}, {"private", MAP_PRIVATE}, {NULL, 0}};
static const struct word protection_words[] = {{"read", PROT_READ}, {"write", PROT_WRITE}, {NULL, 0}};
static const struct word rename_words[] = {
	{"", 0}, {"noreplace", RENAME_NOREPLACE}, {"exchange", RENAME_EXCHANGE}, {NULL, 0}};
static const struct word fallocate_words[] = {
	{"0", 0},
	{"keep_size", FALLOC_FL_KEEP_SIZE},
	{"punch_hole", FALLOC_FL_PUNCH_HOLE},
	{"collapse_range", FALLOC_FL_COLLAPSE_RANGE},
	{"zero_range", FALLOC_FL_ZERO_RANGE},
	{"insert_range", FALLOC_FL_INSERT_RANGE},
	{NULL, 0},
};
static const struct word signal_words[] = {{"KILL", SIGKILL}, {"TERM", SIGTERM}, {"INT", SIGINT},
					   {"SEGV", SIGSEGV}, {"ABRT", SIGABRT}, {NULL, 0}};

static int64_t do_open(char **argument)
{
	int fd = open(argument[1], words_value(open_words, argument[2]), 0600);

	if (fd >= 0)
		*descriptor(argument[0]) = fd;
	return fd < 0 ? -errno : 0;
}

/* Opens a descriptor once more by its name in /proc. */
static int64_t do_reopen(char **argument)
{
	char path[64], *arguments[] = {argument[0], path, argument[2]};

	snprintf(path, sizeof(path), "/proc/self/fd/%d", *descriptor(argument[1]));
	return do_open(arguments);
}

static int64_t do_close(char **argument)
{
	return result(close(*descriptor(argument[0])));
}

static int64_t do_dup(char **argument)
{
	return (*descriptor(argument[1]) = dup(*descriptor(argument[0]))) < 0 ? -errno : 0;
}

/* dup2 over a descriptor that is open, as a shell does for `command > file`. */
static int64_t do_dup2(char **argument)
{
	return dup2(*descriptor(argument[0]), *descriptor(argument[1])) < 0 ? -errno : 0;
}

static int64_t do_write(char **argument)
{
	return result(write(*descriptor(argument[0]), argument[1], strlen(argument[1])));
}

static int64_t do_pwrite(char **argument)
{
	return result(
		pwrite(*descriptor(argument[0]), argument[2], strlen(argument[2]), number(argument[1])));
}

/* fill FD LENGTH SEED: writes the pattern that belongs at the current offset. */
static int64_t do_fill(char **argument)
{
	int fd = *descriptor(argument[0]);
	int64_t length = number(argument[1]), at = lseek(fd, 0, SEEK_CUR);
	char piece[PIECE];

	if (at < 0)
		return -errno;
	while (length > 0) {
		size_t want = length < PIECE ? (size_t)length : PIECE;
		ssize_t count;

		pattern_fill(piece, want, (uint64_t)number(argument[2]), (uint64_t)at);
		count = write(fd, piece, want);
		if (count < 0)
			return -errno;
		length -= count;
		at += count;
	}
	return at;
}

/* The bytes of a descriptor as text, unprintable ones as dots. */
static int64_t do_read(char **argument)
{
	ssize_t count = pread(*descriptor(argument[0]), said, 1024, 0);

	if (count < 0)
		return -errno;
	for (ssize_t i = 0; i < count; i++)
		if (!isgraph((unsigned char)said[i]))
			said[i] = '.';
	strcpy(said + count, count ? "" : "nothing");
	return 0;
}

static int64_t check_descriptor(int fd, int64_t length, uint64_t seed, uint64_t from)
{
	char piece[PIECE];
	int64_t at = (int64_t)from;
	ssize_t count;

	while ((count = pread(fd, piece, sizeof(piece), at)) > 0 && at < length) {
		size_t want = length - at < count ? (size_t)(length - at) : (size_t)count;
		size_t good = pattern_differs(piece, want, seed, (uint64_t)at);

		at += (int64_t)good;
		if (good < (size_t)count)
			break;
	}
	if (count < 0)
		return -errno;
	if (at == length && count == 0)
		return 0;
	snprintf(said, sizeof(said), "differs at %lld", (long long)at);
	return -EBADMSG;
}

/* check FD LENGTH SEED [FROM]: exactly LENGTH bytes of the pattern. */
static int64_t do_check(char **argument)
{
	return check_descriptor(*descriptor(argument[0]), number(argument[1]), (uint64_t)number(argument[2]),
				argument[3] ? (uint64_t)number(argument[3]) : 0);
}

/* Runs a command that wants a descriptor on a name, opened for reading. */
static int64_t by_name(char **argument, int64_t (*command)(char **))
{
	char letter[] = "z", *name = argument[0];
	int64_t ret;
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*descriptor(letter) = fd;
	argument[0] = letter;
	ret = command(argument);
	close(fd);
	return ret;
}

static int64_t do_cat(char **argument)
{
	return by_name(argument, do_read);
}

static int64_t do_check_name(char **argument)
{
	return by_name(argument, do_check);
}

/* put NAME TEXT: a committed version. */
static int64_t do_put(char **argument)
{
	int fd = open(argument[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t len = strlen(argument[1]);

	if (fd < 0)
		return -errno;
	if (write(fd, argument[1], len) != (ssize_t)len) {
		close(fd);
		return -EIO;
	}
	return close(fd) ? -errno : 0;
}

static int64_t do_size(char **argument)
{
	struct stat st;

	return fstat(*descriptor(argument[0]), &st) ? -errno : st.st_size;
}

static int64_t do_inode(char **argument)
{
	struct stat st;

	return fstat(*descriptor(argument[0]), &st) ? -errno : (int64_t)st.st_ino;
}

static int64_t do_size_name(char **argument)
{
	struct stat st;

	return stat(argument[0], &st) ? -errno : st.st_size;
}

static int64_t do_inode_name(char **argument)
{
	struct stat st;

	return stat(argument[0], &st) ? -errno : (int64_t)st.st_ino;
}

static int64_t do_seek(char **argument)
{
	return result(lseek(*descriptor(argument[0]), number(argument[1]), SEEK_SET));
}

static int64_t do_truncate(char **argument)
{
	return result(truncate(argument[0], number(argument[1])));
}

static int64_t do_ftruncate(char **argument)
{
	return result(ftruncate(*descriptor(argument[0]), number(argument[1])));
}

static int64_t do_fallocate(char **argument)
{
	return result(fallocate(*descriptor(argument[0]), words_value(fallocate_words, argument[1]),
				number(argument[2]), number(argument[3])));
}

static int64_t do_fsync(char **argument)
{
	return result(fsync(*descriptor(argument[0])));
}

static int64_t do_rename(char **argument)
{
	int flags = words_value(rename_words, argument[2] ? argument[2] : "");

	return result(renameat2(AT_FDCWD, argument[0], AT_FDCWD, argument[1], (unsigned)flags));
}

static int64_t do_unlink(char **argument)
{
	return result(unlink(argument[0]));
}

static int64_t do_link(char **argument)
{
	return result(link(argument[0], argument[1]));
}

static int64_t do_mkdir(char **argument)
{
	return result(mkdir(argument[0], 0700));
}

static int64_t do_chmod(char **argument)
{
	return result(chmod(argument[0], (mode_t)number(argument[1])));
}

/* map MAPPING FD LENGTH shared|private read,write */
static int64_t do_map(char **argument)
{
	int slot = (*argument[0] - 'a') % LETTERS;
	size_t len = (size_t)number(argument[2]);
	char *at = mmap(NULL, len, words_value(protection_words, argument[4]),
			words_value(map_words, argument[3]), *descriptor(argument[1]), 0);

	if (at == MAP_FAILED)
		return -errno;
	mappings[slot].at = at;
	mappings[slot].len = len;
	return 0;
}

static int64_t do_unmap(char **argument)
{
	int slot = (*argument[0] - 'a') % LETTERS;

	return result(munmap(mappings[slot].at, mappings[slot].len));
}

static int64_t do_map_check(char **argument)
{
	int slot = (*argument[0] - 'a') % LETTERS;
	size_t len = (size_t)number(argument[1]);
	size_t good = pattern_differs(mappings[slot].at, len, (uint64_t)number(argument[2]), 0);

	if (good == len)
		return 0;
	snprintf(said, sizeof(said), "differs at %zu", good);
	return -EBADMSG;
}

static int64_t do_map_read(char **argument)
{
	int slot = (*argument[0] - 'a') % LETTERS;

	snprintf(said, sizeof(said), "%.*s", (int)number(argument[1]), mappings[slot].at);
	return 0;
}

static int64_t do_map_write(char **argument)
{
	int slot = (*argument[0] - 'a') % LETTERS;

	if (!mappings[slot].at)
		return -EFAULT;
	memcpy(mappings[slot].at, argument[1], strlen(argument[1]));
	return 0;
}

/* key NAME: a number of .kvbank/stats, below the directory where all this happens. */
static int64_t do_key(char **argument)
{
	FILE *stats = fopen(".kvbank/stats", "re");
	char key[64], value[64];
	int64_t ret = -ENODATA;

	if (!stats)
		return -errno;
	while (ret == -ENODATA && fscanf(stats, "%63s %63[^\n]", key, value) == 2)
		if (!strcmp(key, argument[0]))
			ret = number(value);
	fclose(stats);
	return ret;
}

/* xattr NAME ATTRIBUTE: its text. */
static int64_t do_xattr(char **argument)
{
	ssize_t len = getxattr(argument[0], argument[1], said, sizeof(said) - 1);

	if (len < 0)
		return -errno;
	strcpy(said + len, len ? "" : "nothing");
	return 0;
}

/* Forks and executes; answers the exit status. */
static int64_t do_run(char **argument)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		execvp(argument[0], argument);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

static int64_t do_exec(char **argument)
{
	execvp(argument[0], argument);
	return -errno;
}

/* Forks process argument[0], which inherits everything; answers its pid. */
static int64_t do_fork(char **argument)
{
	pid_t pid = fork();

	if (pid == 0)
		serve(*argument[0] - 'A');
	return result(pid);
}

static void *spin(void *arg)
{
	for (;;)
		__asm__ volatile("" ::: "memory");
	return arg;
}

static int64_t do_spin(char **argument)
{
	pthread_t thread;

	for (int64_t i = 0; i < number(argument[0]); i++)
		pthread_create(&thread, NULL, spin, NULL);
	return 0;
}

static int64_t do_sleep(char **argument)
{
	return result(usleep((useconds_t)number(argument[0]) * 1000));
}

static int64_t do_exit(char **argument)
{
	_exit((int)number(argument[0]));
}

static int64_t do_raise(char **argument)
{
	int number_of_signal = words_value(signal_words, argument[0]);

	signal(number_of_signal, SIG_DFL);
	return result(raise(number_of_signal));
}

/* SIGKILL for this thread alone, as tgkill(2) sends it. */
static int64_t do_tgkill(char **argument)
{
	return result(syscall(SYS_tgkill, getpid(), gettid(), words_value(signal_words, argument[0])));
}

static int64_t do_segv(char **argument)
{
	(void)argument;
	signal(SIGSEGV, SIG_DFL);
	return *(volatile char *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int64_t do_abort(char **argument)
{
	(void)argument;
	abort();
}

static int64_t do_thread(char **argument);

static const struct {
	const char *name;
	int arguments;
	int64_t (*run)(char **argument);
} commands[] = {
	{"open", 3, do_open},
	{"reopen", 3, do_reopen},
	{"close", 1, do_close},
	{"dup", 2, do_dup},
	{"dup2", 2, do_dup2},
	{"write", 2, do_write},
	{"pwrite", 3, do_pwrite},
	{"fill", 3, do_fill},
	{"read", 1, do_read},
	{"check", 3, do_check},
	{"cat", 1, do_cat},
	{"check-name", 3, do_check_name},
	{"put", 2, do_put},
	{"size", 1, do_size},
	{"inode", 1, do_inode},
	{"size-name", 1, do_size_name},
	{"inode-name", 1, do_inode_name},
	{"seek", 2, do_seek},
	{"truncate", 2, do_truncate},
	{"ftruncate", 2, do_ftruncate},
	{"fallocate", 4, do_fallocate},
	{"fsync", 1, do_fsync},
	{"rename", 2, do_rename},
	{"unlink", 1, do_unlink},
	{"link", 2, do_link},
	{"mkdir", 1, do_mkdir},
	{"chmod", 2, do_chmod},
	{"map", 5, do_map},
	{"unmap", 1, do_unmap},
	{"map-check", 3, do_map_check},
	{"map-read", 2, do_map_read},
	{"map-write", 2, do_map_write},
	{"key", 1, do_key},
	{"xattr", 2, do_xattr},
	{"run", 1, do_run},
	{"exec", 1, do_exec},
	{"fork", 1, do_fork},
	{"spin", 1, do_spin},
	{"sleep", 1, do_sleep},
	{"exit", 1, do_exit},
	{"raise", 1, do_raise},
	{"tgkill", 1, do_tgkill},
	{"segv", 0, do_segv},
	{"abort", 0, do_abort},
	{"thread", 1, do_thread},
};

static int64_t run_command(char **word)
{
	int count = 0;

	while (word[count])
		count++;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(word[0], commands[i].name) && count > commands[i].arguments)
			return commands[i].run(word + 1);
	snprintf(said, sizeof(said), "no such command, or too few arguments: %s", word[0]);
	return -EINVAL;
}

static void *run_in_thread(void *arg)
{
	static int64_t ret;

	ret = run_command(arg);
	return &ret;
}

/* thread COMMAND...: the same, in a thread of its own. */
static int64_t do_thread(char **argument)
{
	pthread_t thread;
	void *ret;

	if (pthread_create(&thread, NULL, run_in_thread, argument) || pthread_join(thread, &ret))
		return -EAGAIN;
	return *(int64_t *)ret;
}

static void split(char *line, char *word[WORDS + 1])
{
	char *rest = line, *text;
	int count = 0;

	while ((text = strsep(&rest, " \t\n")) && count < WORDS)
		if (*text)
			word[count++] = text;
	word[count] = NULL;
}

/* A process: takes a line, answers '+' or '-' and a text, for ever. */
static void serve(int process)
{
	char line[TEXT_MAX], answer[TEXT_MAX + 32], *word[WORDS + 1];
	int channel = channels[process][1];

	for (int i = 0; i < PROCESSES; i++) {
		if (channels[i][0] >= 0)
			close(channels[i][0]); /* so that all end with the controller */
		channels[i][0] = -1;
	}
	for (;;) {
		ssize_t len = recv(channel, line, sizeof(line) - 1, 0);
		int64_t ret;

		if (len <= 0)
			_exit(0);
		line[len] = '\0';
		split(line, word);
		said[0] = '\0';
		ret = run_command(word);
		if (said[0])
			snprintf(answer, sizeof(answer), "%c%s", ret < 0 ? '-' : '+', said);
		else if (ret < 0)
			snprintf(answer, sizeof(answer), "-%s", strerrorname_np((int)-ret));
		else
			snprintf(answer, sizeof(answer), "+%lld", (long long)ret);
		send(channel, answer, strlen(answer), 0);
	}
}

/* ---- the controller ---- */

static struct {
	pid_t pid;
	int pidfd;
} processes[PROCESSES];

static struct {
	char name[32], value[TEXT_MAX];
} variables[32];

static void process_known(int process, pid_t pid)
{
	processes[process].pid = pid;
	processes[process].pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (processes[process].pidfd < 0) {
		fprintf(stderr, "# pidfd_open: %s\n", strerror(errno));
		exit(2);
	}
}

static void process_start(int process)
{
	pid_t pid = fork();

	if (pid == 0) {
		const struct rlimit no_core = {0, 0};

		setrlimit(RLIMIT_CORE, &no_core);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(process);
	}
	process_known(process, pid);
}

static bool process_dies(int process, int timeout_ms)
{
	struct pollfd poll_exit = {.fd = processes[process].pidfd, .events = POLLIN};

	if (poll(&poll_exit, 1, timeout_ms) != 1)
		return false;
	close(processes[process].pidfd);
	waitpid(processes[process].pid, NULL, WNOHANG);
	processes[process].pid = 0;
	return true;
}

/* Waits for the answer to a command, for the end of the process, or for too long. */
static void process_answer(int process, char answer[TEXT_MAX])
{
	struct pollfd events[2] = {{.fd = channels[process][0], .events = POLLIN},
				   {.fd = processes[process].pidfd, .events = POLLIN}};
	ssize_t len;

	poll(events, 2, TIMEOUT_MS);
	if (events[0].revents) {
		len = recv(channels[process][0], answer, TEXT_MAX - 1, 0);
		answer[len < 0 ? 0 : len] = '\0';
	} else {
		strcpy(answer,
		       events[1].revents && process_dies(process, 0) ? "+died" : "-no answer in time");
	}
}

static void process_do(int process, const char *line, char answer[TEXT_MAX])
{
	char other;

	if (!processes[process].pid)
		process_start(process);
	if (send(channels[process][0], line, strlen(line), 0) < 0) {
		strcpy(answer, "-cannot be told");
		return;
	}
	process_answer(process, answer);
	if (answer[0] == '+' && sscanf(line, "fork %c", &other) == 1)
		process_known(other - 'A', (pid_t)number(answer + 1));
}

/* kill PROCESS SIGNAL: answers "died" once its files are closed. */
static void process_kill(const char *line, char answer[TEXT_MAX])
{
	char name, signal_name[16];

	if (sscanf(line, "kill %c %15s", &name, signal_name) != 2 || !processes[name - 'A'].pid) {
		strcpy(answer, "-no such process");
		return;
	}
	kill(processes[name - 'A'].pid, words_value(signal_words, signal_name));
	strcpy(answer, process_dies(name - 'A', TIMEOUT_MS) ? "+died" : "-lives on");
}

/* The value of a remembered answer; the first use remembers this one. */
static const char *variable(const char *name, const char *answer)
{
	size_t i = 0;

	while (variables[i].name[0] && strcmp(variables[i].name, name))
		i++;
	if (!variables[i].name[0]) {
		snprintf(variables[i].name, sizeof(variables[i].name), "%s", name);
		snprintf(variables[i].value, sizeof(variables[i].value), "%s", answer);
	}
	return variables[i].value;
}

/* What comes after a command. */
struct wanted {
	char relation; /* '=', '!' or '<'; 0 = it must succeed */
	char value[TEXT_MAX];
};

/* Puts the value of "$NAME" or "$NAME+NUMBER" in its place. */
static void wanted_resolve(struct wanted *wanted, const char *answer)
{
	char *plus = strchr(wanted->value, '+');
	int64_t sum;

	if (wanted->value[0] != '$')
		return;
	if (plus)
		*plus = '\0';
	sum = number(variable(wanted->value, answer));
	if (plus)
		snprintf(wanted->value, sizeof(wanted->value), "%lld", (long long)(sum + number(plus + 1)));
	else
		snprintf(wanted->value, sizeof(wanted->value), "%s", variable(wanted->value, answer));
}

static bool answer_is_right(const char *answer, struct wanted *wanted)
{
	wanted_resolve(wanted, answer + 1);
	if (wanted->relation == '=')
		return !strcmp(answer + 1, wanted->value) || !strcmp(wanted->value, "any");
	if (wanted->relation == '!')
		return answer[0] == '+' && strcmp(answer + 1, wanted->value);
	if (wanted->relation == '<')
		return answer[0] == '+' && number(answer + 1) < number(wanted->value);
	return answer[0] == '+' && strcmp(answer, "+died");
}

/* Cuts " = ANSWER", " != ANSWER" or " < ANSWER" off a line. */
static void wanted_cut(char *line, struct wanted *wanted)
{
	static const char *const marks[] = {" = ", " != ", " < "};

	wanted->relation = '\0';
	strcpy(wanted->value, "success");
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		char *at = strstr(line, marks[i]);

		if (!at)
			continue;
		wanted->relation = marks[i][1];
		snprintf(wanted->value, sizeof(wanted->value), "%s", at + strlen(marks[i]));
		*at = '\0';
		return;
	}
}

static bool line_run(char *line)
{
	char answer[TEXT_MAX] = "", *command = line;
	struct wanted wanted;
	int process = 0;

	wanted_cut(line, &wanted);
	if (line[0] >= 'A' && line[0] < 'A' + PROCESSES && line[1] == ':') {
		process = line[0] - 'A';
		command = line + 2 + strspn(line + 2, " ");
	}
	if (!strncmp(command, "kill ", 5))
		process_kill(command, answer);
	else
		process_do(process, command, answer);
	if (answer_is_right(answer, &wanted))
		return true;
	printf("# %s: expected %c %s, got %s\n", line, wanted.relation ? wanted.relation : ' ', wanted.value,
	       answer + 1);
	return false;
}

static void end_all(void)
{
	for (int i = 0; i < PROCESSES; i++)
		if (processes[i].pid)
			kill(processes[i].pid, SIGKILL);
}

int main(int argc, char **argv)
{
	char line[TEXT_MAX];
	bool right = true;
	int lines = 0;

	if (argc != 2 || chdir(argv[1])) {
		fprintf(stderr, "usage: steps DIRECTORY < SCRIPT\n");
		return 2;
	}
	signal(SIGINT, SIG_DFL); /* a shell starts what runs in the background with it ignored */
	signal(SIGQUIT, SIG_DFL);
	memset(descriptors, 0xff, sizeof(descriptors)); /* -1: not open */
	for (int i = 0; i < PROCESSES; i++)
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channels[i]))
			return 2;
	while (right && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (!line[strspn(line, " \t")] || line[0] == '#')
			continue;
		lines++;
		right = line_run(line);
	}
	end_all();
	if (!lines)
		printf("# no steps were given\n");
	return right && lines ? 0 : 1;
}
