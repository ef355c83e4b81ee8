/* SPDX-License-Identifier: GPL-2.0-or-later */
/* control.c - the directory .kvbank and its open files.
 *
 * Three kinds of file. stats, metrics and config are texts made at open: however a reader cuts its
 * reads, it sees one moment. events is a window on the bank's ring. control is a conversation:
 *
 *	FRESH --read--> ANSWERED (usage)
 *	FRESH, ANSWERED --write--> ASKING --write--> ASKING
 *	ASKING --read--> RUNNING --done--> ANSWERED --read--> ... 0 at the end
 *	RUNNING --read or write--> -EBUSY
 *
 * Offsets in events count every byte ever written, so that the size only grows and `tail -f` follows.
 * A reader that goes forward (from 0, or on from where it was) and finds its next byte gone is moved
 * to the oldest line and remembers how far: `shift` is added to its offsets from then on. A reader that
 * jumps to bytes that are gone (tail going backwards) gets newlines for them: empty lines, never a
 * piece of another place.
 *
 * Config: each write is whole lines, the last with or without its newline, applied at once, so that
 * the writer gets the errno. A line cut by the end of a write is a bad line.
 *
 * Lock: file->lock covers an open file's state and is not held while a command runs. Under it only the
 * events' own lock is taken.
 *
 * Easy to forget: the thread of a long command owns the file as well (control_keep), because the
 * kernel sends RELEASE as soon as the interrupted read was answered. */
#include "fs/control.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/command.h"
#include "fs/fs.h"
#include "fs/log.h"
#include "fs/metrics.h"
#include "fs/text.h"

#define DIRECTORY   ".kvbank"
#define TEXT_CAP    METRICS_CAP /* stats, metrics, config */
#define REQUEST_CAP 4096u	/* a line written to control */
#define ANSWER_CAP  8192u	/* holds any answer that quotes a request */
#define LINE_CAP    4096u	/* a line written to config */

enum node { NODE_DIRECTORY, NODE_STATS, NODE_METRICS, NODE_CONFIG, NODE_EVENTS, NODE_CONTROL, NODES };

static const struct {
	const char *name;
	mode_t mode;
} nodes[NODES] = {
	[NODE_DIRECTORY] = {DIRECTORY, S_IFDIR | 0555}, [NODE_STATS] = {"stats", S_IFREG | 0444},
	[NODE_METRICS] = {"metrics", S_IFREG | 0444},	[NODE_CONFIG] = {"config", S_IFREG | 0644},
	[NODE_EVENTS] = {"events", S_IFREG | 0600},	[NODE_CONTROL] = {"control", S_IFREG | 0600},
};

enum talk { FRESH, ASKING, RUNNING, ANSWERED };

struct control_file {
	struct fs *fs;
	enum node node;
	bool may_read, may_write;
	pthread_mutex_t lock;
	unsigned owners;
	enum talk talk;	   /* control only */
	char *text;	   /* stats, metrics, config: the content; control: request or answer */
	size_t len;	   /* bytes of text */
	size_t taken;	   /* control: bytes of the answer that were read */
	uint64_t shift;	   /* events: added to every offset */
	uint64_t next_off; /* events: where a reader that goes forward goes on */
};

/* ---- the directory ---- */

static uint64_t node_id(enum node node)
{
	return FS_CONTROL_FIRST_ID + node;
}

bool control_is(uint64_t id)
{
	return id >= FS_CONTROL_FIRST_ID && id < FS_CONTROL_FIRST_ID + NODES;
}

bool control_reserved(uint64_t parent, const char *name)
{
	return control_is(parent) || (parent == BANK_ROOT && !strcmp(name, DIRECTORY));
}

static void fill_stat(struct fs *fs, enum node node, struct stat *out)
{
	memset(out, 0, sizeof(*out));
	out->st_ino = node_id(node);
	out->st_mode = nodes[node].mode;
	out->st_nlink = node == NODE_DIRECTORY ? 2 : 1;
	out->st_uid = getuid();
	out->st_gid = getgid();
	out->st_blksize = 4096;
	clock_gettime(CLOCK_REALTIME, &out->st_mtim);
	if (node == NODE_EVENTS) {
		out->st_size = (off_t)bank_events_end(fs->bank, &out->st_mtim);
		out->st_blocks = (out->st_size + 511) / 512;
	}
	out->st_atim = out->st_mtim;
	out->st_ctim = out->st_mtim;
}

int control_stat(struct fs *fs, uint64_t id, struct stat *out)
{
	if (!control_is(id))
		return -ESTALE;
	fill_stat(fs, (enum node)(id - FS_CONTROL_FIRST_ID), out);
	return 0;
}

int control_lookup(struct fs *fs, uint64_t parent, const char *name, struct stat *out)
{
	if (parent == BANK_ROOT && !strcmp(name, DIRECTORY))
		return control_stat(fs, node_id(NODE_DIRECTORY), out);
	if (parent != node_id(NODE_DIRECTORY))
		return control_is(parent) ? -ENOTDIR : -ENOENT;
	for (enum node node = NODE_STATS; node < NODES; node++)
		if (!strcmp(name, nodes[node].name))
			return control_stat(fs, node_id(node), out);
	return -ENOENT;
}

int control_readdir(struct fs *fs, unsigned index, const char **name, struct stat *out)
{
	if (index > NODES)
		return -ENOENT;
	if (index < 2) {
		*name = index ? ".." : ".";
		fill_stat(fs, NODE_DIRECTORY, out);
		if (index)
			out->st_ino = BANK_ROOT;
		return 0;
	}
	*name = nodes[index - 1].name;
	fill_stat(fs, (enum node)(index - 1), out);
	return 0;
}

/* ---- open and close ---- */

static int check_open(enum node node, int flags)
{
	bool read_only = node == NODE_STATS || node == NODE_METRICS || node == NODE_EVENTS;
	int access = flags & O_ACCMODE;

	if (node == NODE_DIRECTORY)
		return -EISDIR;
	if (read_only && access != O_RDONLY)
		return -EACCES;
	return node == NODE_CONTROL && access == O_WRONLY ? -EINVAL : 0;
}

static int make_text(struct control_file *file)
{
	struct text text;

	if (file->node == NODE_EVENTS)
		return 0;
	file->text = malloc(TEXT_CAP);
	if (!file->text)
		return -ENOMEM;
	text = text_over(file->text, TEXT_CAP);
	if (file->node == NODE_STATS)
		metrics_stats(file->fs, &text);
	else if (file->node == NODE_METRICS)
		metrics_prometheus(file->fs, &text);
	else if (file->node == NODE_CONFIG && file->may_read)
		text.len = options_text(file->fs->options, file->text, TEXT_CAP);
	file->len = text.len;
	return 0;
}

int control_open(struct fs *fs, uint64_t id, int flags, struct control_file **out)
{
	struct control_file *file;
	int ret = control_is(id) ? check_open((enum node)(id - FS_CONTROL_FIRST_ID), flags) : -ESTALE;

	if (ret)
		return ret;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->fs = fs;
	file->node = (enum node)(id - FS_CONTROL_FIRST_ID);
	file->may_read = (flags & O_ACCMODE) != O_WRONLY;
	file->may_write = (flags & O_ACCMODE) != O_RDONLY;
	file->owners = 1;
	ret = make_text(file);
	if (ret) {
		free(file);
		return ret;
	}
	pthread_mutex_init(&file->lock, NULL);
	*out = file;
	return 0;
}

bool control_streams(const struct control_file *file)
{
	return file->node == NODE_CONTROL;
}

void control_keep(struct control_file *file)
{
	pthread_mutex_lock(&file->lock);
	file->owners++;
	pthread_mutex_unlock(&file->lock);
}

void control_close(struct control_file *file)
{
	unsigned left;

	if (!file)
		return;
	pthread_mutex_lock(&file->lock);
	left = --file->owners;
	pthread_mutex_unlock(&file->lock);
	if (left)
		return;
	pthread_mutex_destroy(&file->lock);
	free(file->text);
	free(file);
}

/* ---- reading ---- */

static ssize_t read_text(const struct control_file *file, char *buf, size_t cap, off_t off)
{
	size_t left = (uint64_t)off < file->len ? file->len - (size_t)off : 0;
	size_t len = left < cap ? left : cap;

	memcpy(buf, file->text + file->len - left, len);
	return (ssize_t)len;
}

/* Fills buf from `from` on; bytes that are no longer kept become newlines. */
static size_t read_ring(struct bank *bank, uint64_t from, char *buf, size_t cap)
{
	size_t done = 0;

	while (done < cap) {
		uint64_t at = from + done;
		size_t len = bank_events_read(bank, &at, buf + done, cap - done);
		uint64_t gone = at - (from + done);

		if (gone) {
			size_t fill = gone < cap - done ? (size_t)gone : cap - done;

			memset(buf + done, '\n', fill);
			done += fill;
			continue;
		}
		if (!len)
			break;
		done += len;
	}
	return done;
}

static ssize_t read_events(struct control_file *file, char *buf, size_t cap, off_t off)
{
	struct bank *bank = file->fs->bank;
	uint64_t at;
	size_t len;

	pthread_mutex_lock(&file->lock);
	at = (uint64_t)off + file->shift;
	if ((uint64_t)off == file->next_off) {
		len = bank_events_read(bank, &at, buf, cap);
		file->shift = at - (uint64_t)off;
	} else {
		len = read_ring(bank, at, buf, cap);
	}
	file->next_off = (uint64_t)off + len;
	pthread_mutex_unlock(&file->lock);
	return (ssize_t)len;
}

static void answer_usage(struct control_file *file)
{
	struct text answer = text_over(file->text, TEXT_CAP);

	command_usage(&answer);
	file->len = answer.len;
	file->taken = 0;
	file->talk = ANSWERED;
}

/* Runs the request without the lock; nobody else touches text, len and taken while RUNNING. */
static void run_request(struct control_file *file)
{
	char room[ANSWER_CAP];
	struct text answer = text_over(room, sizeof(room));

	file->talk = RUNNING;
	pthread_mutex_unlock(&file->lock);
	command_run(file->fs->bank, file->text, file->len, &answer);
	pthread_mutex_lock(&file->lock);
	memcpy(file->text, room, answer.len);
	file->len = answer.len;
	file->taken = 0;
	file->talk = ANSWERED;
}

static ssize_t read_control(struct control_file *file, char *buf, size_t cap)
{
	ssize_t len = -EBUSY;

	pthread_mutex_lock(&file->lock);
	if (file->talk == FRESH)
		answer_usage(file);
	else if (file->talk == ASKING)
		run_request(file);
	if (file->talk == ANSWERED) {
		len = read_text(file, buf, cap, (off_t)file->taken);
		file->taken += (size_t)len;
	}
	pthread_mutex_unlock(&file->lock);
	return len;
}

bool control_read_waits(struct control_file *file)
{
	bool waits;

	if (file->node != NODE_CONTROL)
		return false;
	pthread_mutex_lock(&file->lock);
	waits = file->talk == ASKING && command_waits(file->text, file->len);
	pthread_mutex_unlock(&file->lock);
	return waits;
}

ssize_t control_read(struct control_file *file, char *buf, size_t cap, off_t off)
{
	if (!file->may_read)
		return -EBADF;
	if (file->node == NODE_CONTROL)
		return read_control(file, buf, cap);
	if (off < 0)
		return -EINVAL;
	return file->node == NODE_EVENTS ? read_events(file, buf, cap, off) : read_text(file, buf, cap, off);
}

/* ---- writing ---- */

static ssize_t write_control(struct control_file *file, const char *buf, size_t len)
{
	ssize_t ret = (ssize_t)len;

	pthread_mutex_lock(&file->lock);
	if (file->talk == RUNNING) {
		ret = -EBUSY;
		goto unlock;
	}
	if (file->talk != ASKING)
		file->len = 0;
	file->talk = ASKING;
	if (len > REQUEST_CAP - file->len) {
		file->talk = FRESH; /* half a request must not run */
		ret = -E2BIG;
		goto unlock;
	}
	memcpy(file->text + file->len, buf, len);
	file->len += len;
unlock:
	pthread_mutex_unlock(&file->lock);
	return ret;
}

/* Says what was expected to whoever looks at events or the log. An event's reason is one word. */
static void tell_refused(struct fs *fs, const char *message)
{
	char reason[OPTIONS_MESSAGE_CAP];
	size_t len = strnlen(message, sizeof(reason) - 1);

	for (size_t i = 0; i < len; i++)
		reason[i] = message[i] == ' ' ? '_' : message[i];
	reason[len] = 0;
	bank_event(fs->bank, "config", reason, 0, BANK_ROOT, NULL);
	log_line(LOG_WARNING, "config: %s", message);
}

/* A copy without a comment, as config shows them; NULL when it is no line of text. */
static char *config_line(const char *line, size_t len)
{
	char *own = len < LINE_CAP && !memchr(line, 0, len) ? strndup(line, len) : NULL;
	char *comment = own ? strstr(own, " #") : NULL;

	if (comment)
		*comment = 0;
	return own;
}

static int change_option(struct fs *fs, const char *line, size_t len)
{
	char message[OPTIONS_MESSAGE_CAP] = "expected name=value lines";
	char *own = config_line(line, len);
	int ret = -EINVAL;

	if (own && !own[strspn(own, " \t")])
		ret = 0; /* an empty line */
	else if (own)
		ret = options_change(fs->options, own, message, sizeof(message));
	if (ret)
		tell_refused(fs, message);
	free(own);
	return ret;
}

static ssize_t write_config(struct fs *fs, const char *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		const char *line = buf + done;
		const char *end = memchr(line, '\n', len - done);
		size_t line_len = end ? (size_t)(end - line) : len - done;
		int ret = change_option(fs, line, line_len);

		if (ret)
			return done ? (ssize_t)done : ret;
		done += line_len + (end != NULL);
	}
	return (ssize_t)done;
}

ssize_t control_write(struct control_file *file, const char *buf, size_t len)
{
	if (!file->may_write)
		return -EBADF;
	return file->node == NODE_CONTROL ? write_control(file, buf, len) : write_config(file->fs, buf, len);
}
