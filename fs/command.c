/* SPDX-License-Identifier: GPL-2.0-or-later */
/* command.c - reads a line of .kvbank/control, steers the bank, says what came of it.
 *
 * A line is a word and, behind one space, an argument: a path relative to the mount with %XX as events
 * write it ("/" is the root), or a size. Paths may hold spaces. A line is checked whole before
 * anything is done, so a bad one changes nothing.
 *
 * Easy to forget: what is echoed in an answer was written by the user; control bytes are refused
 * before that, or an answer could hold a second, forged line. */
#include "fs/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bank/bank.h"
#include "fs/text.h"

#define LINE_CAP 8192u /* longer than any request that control.c takes */

enum argument { OPTIONAL_PATH, PATH, SIZE };

struct command {
	const char *word;
	enum argument argument;
	/* id: what PATH stands for; bytes: what SIZE says. Adds the words behind "ok". */
	int (*run)(struct bank *bank, uint64_t id, uint64_t bytes, struct text *answer);
};

static int run_settle(struct bank *bank, uint64_t id, uint64_t bytes, struct text *answer)
{
	uint64_t settled = 0;
	int ret = bank_settle_all(bank, id, &settled);

	(void)bytes;
	if (!ret)
		text_add(answer, "ok entries=%llu\n", (unsigned long long)settled);
	return ret;
}

static int run_clear(struct bank *bank, uint64_t id, uint64_t bytes, struct text *answer)
{
	uint64_t entries = 0, freed = 0;
	int ret = bank_clear(bank, id, &entries, &freed);

	(void)bytes;
	if (!ret)
		text_add(answer, "ok entries=%llu bytes=%llu\n", (unsigned long long)entries,
			 (unsigned long long)freed);
	return ret;
}

static int run_shrink(struct bank *bank, uint64_t id, uint64_t bytes, struct text *answer)
{
	uint64_t freed = 0;
	int ret = bank_shrink(bank, bytes, &freed);

	(void)id;
	if (!ret)
		text_add(answer, "ok bytes=%llu\n", (unsigned long long)freed);
	return ret;
}

static const struct command commands[] = {
	{"settle", OPTIONAL_PATH, run_settle},
	{"clear", PATH, run_clear},
	{"shrink", SIZE, run_shrink},
};
/* Known words whose work belongs to the SSD tier. */
static const char *const not_yet[] = {"flush", "scrub", "gc", "drop-ram", "cancel", "archive"};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))
#define NOT_YET	 (sizeof(not_yet) / sizeof(not_yet[0]))
#define EXPECTED "expected settle [PATH], clear PATH or shrink BYTES"

void command_usage(struct text *out)
{
	text_add(out, "Write one line, then read the answer (ok ... or error ...):\n"
		      "  settle [PATH]   hash what is not hashed yet, below PATH or everywhere\n"
		      "  clear PATH      drop the entries of PATH that are neither pinned nor open\n"
		      "  shrink BYTES    give up this much RAM, least needed entries first\n"
		      "PATH is relative to the mount, / is all of it, %%XX stands for a byte.\n");
}

/* A request cut into a word and an argument, both NUL-ended in `room`. */
struct line {
	char room[LINE_CAP];
	const char *word, *argument; /* argument is "" when there is none */
};

/* Returns what is wrong, NULL when the line can be read. */
static const char *cut(const char *request, size_t len, struct line *out)
{
	char *space;

	if (len && request[len - 1] == '\n')
		len--;
	if (len >= sizeof(out->room))
		return "expected a shorter line";
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)request[i] < 0x20 || request[i] == 0x7f)
			return request[i] == '\n' ? "expected one line" : "expected %XX for control bytes";
	memcpy(out->room, request, len);
	out->room[len] = 0;
	out->word = out->room;
	space = strchr(out->room, ' ');
	out->argument = space ? space + 1 : "";
	if (space)
		*space = 0;
	return NULL;
}

static const struct command *find(const char *word)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i].word, word))
			return &commands[i];
	return NULL;
}

static bool is_not_yet(const char *word)
{
	for (size_t i = 0; i < NOT_YET; i++)
		if (!strcmp(not_yet[i], word))
			return true;
	return false;
}

bool command_waits(const char *request, size_t len)
{
	struct line line;

	return !cut(request, len, &line) && find(line.word);
}

/* Finds PATH and holds it; *id is then given back by the caller. */
static int resolve(struct bank *bank, const struct command *command, const char *path, uint64_t *id)
{
	struct bank_stat st;
	int ret;

	if (!*path && command->argument == PATH)
		return -EINVAL;
	while (*path == '/')
		path++;
	ret = bank_resolve(bank, path, &st);
	if (!ret)
		*id = st.id;
	return ret;
}

static void run_path(struct bank *bank, const struct command *command, const char *path, struct text *answer)
{
	uint64_t id;
	int ret = resolve(bank, command, path, &id);

	if (ret && !*path) {
		text_add(answer, "error %s: expected a path behind it, / for everything\n", command->word);
		return;
	}
	if (ret) {
		text_add(answer, "error %s: expected the path of an entry or session, found none at %s\n",
			 command->word, path);
		return;
	}
	ret = command->run(bank, id, 0, answer);
	bank_forget(bank, id, 1);
	if (ret)
		text_add(answer, "error %s: %s\n", command->word, strerrordesc_np(-ret));
}

static void run_size(struct bank *bank, const struct command *command, const char *size, struct text *answer)
{
	uint64_t bytes;
	int ret;

	if (text_size(size, strlen(size), &bytes)) {
		text_add(answer, "error %s: expected bytes, a number with or without K M G T\n",
			 command->word);
		return;
	}
	ret = command->run(bank, BANK_ROOT, bytes, answer);
	if (ret)
		text_add(answer, "error %s: %s\n", command->word, strerrordesc_np(-ret));
}

void command_run(struct bank *bank, const char *request, size_t len, struct text *answer)
{
	const struct command *command;
	struct line line;
	const char *wrong = cut(request, len, &line);

	if (wrong) {
		text_add(answer, "error %s\n", wrong);
		return;
	}
	command = find(line.word);
	if (command && command->argument == SIZE)
		run_size(bank, command, line.argument, answer);
	else if (command)
		run_path(bank, command, line.argument, answer);
	else if (is_not_yet(line.word))
		text_add(answer, "error %s not yet\n", line.word);
	else
		text_add(answer, "error " EXPECTED "\n");
}
