/* SPDX-License-Identifier: GPL-2.0-or-later */
/* options.h - the command line and the -o options, at start and while mounted.
 *
 * Life: options_new, options_parse (what was said), options_machine_read (what the machine has),
 * options_resolve (what that makes). Then the values are in force; options_text shows them and
 * options_change changes one. One line of text tells every refusal: it names the option, the value
 * and what would be accepted.
 *
 * Lock: options->lock covers `spec`, `value` and `bank` once requests run. options_text and
 * options_change take it; whoever reads a value that can change while mounted calls options_get.
 * The rest never changes after options_resolve. */
#ifndef KV_FS_OPTIONS_H
#define KV_FS_OPTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bank/bank.h"

#define OPTIONS_MESSAGE_CAP 512u  /* room for any message */
#define OPTIONS_TEXT_CAP    4096u /* room for options_text */
#define OPTIONS_GIVEN_CAP   48u	  /* bytes kept of a value as it was written, for messages */
#define OPTIONS_RAM_MIN	    (1u << 20)
#define OPTIONS_SESSION_MIN (4u << 10)

/* In the order of the table in the manual; text and messages follow it. */
enum option_id {
	OPTION_RAM,
	OPTION_SESSION_RAM,
	OPTION_ENTRIES,
	OPTION_SESSION_ENTRIES,
	OPTION_SSD,
	OPTION_SSD_MODE,
	OPTION_RESERVE,
	OPTION_WRITE_BUDGET,
	OPTION_BACKLOG,
	OPTION_STALL,
	OPTION_PAUSE,
	OPTION_IDLE_TTL,
	OPTION_PIN_TTL,
	OPTION_PROTECT_TERMINAL,
	OPTION_SHED_BOUNDARIES,
	OPTION_SETTLE,
	OPTION_HISTORY,
	OPTION_BLOCK,
	OPTION_MIN_MATCH,
	OPTION_GAP,
	OPTION_MIN_TOKENS,
	OPTION_COMPRESS,
	OPTION_VERIFY,
	OPTION_DEDUPE,
	OPTION_NAMES,
	OPTION_PASSTHROUGH,
	OPTION_COUNT
};

enum options_compress { COMPRESS_AUTO, COMPRESS_LZ4, COMPRESS_NONE };
enum options_verify { VERIFY_READ, VERIFY_FULL };
enum options_dedupe { DEDUPE_OWNER, DEDUPE_SESSION, DEDUPE_GLOBAL };
enum options_names { NAMES_BOTH, NAMES_GIVEN, NAMES_PREFIX };
enum options_passthrough { PASSTHROUGH_AUTO, PASSTHROUGH_OFF };

/* An option as it was said. Sizes said in percent stay so and follow what they are a part of. */
struct option_spec {
	bool given;
	bool percent;
	uint64_t number;
	char text[OPTIONS_GIVEN_CAP];
};

/* What the machine has; 0 = not known. */
struct options_machine {
	uint64_t ram_bytes;
	uint64_t disk_bytes; /* the file system that holds STORE */
	uint64_t disk_free_bytes;
	uint64_t store_used_bytes; /* what STORE holds already */
};

enum options_action { OPTIONS_MOUNT, OPTIONS_HELP, OPTIONS_VERSION, OPTIONS_PRETEND };

/* Makes new bank values take effect; 0 or -errno, and then nothing has changed. */
typedef int options_apply_fn(void *ctx, const struct bank_config *config);

struct options {
	pthread_mutex_t lock;
	struct option_spec spec[OPTION_COUNT];
	uint64_t value[OPTION_COUNT]; /* in force: bytes, seconds, counts, on = 1, or the option's enum */
	struct bank_config bank;      /* the same for the bank */
	struct options_machine machine;

	enum options_action action;
	char *store;	    /* absolute, as given otherwise; NULL before options_parse */
	char *mountpoint;   /* likewise */
	char *fuse_options; /* for libfuse's -o: fsname, subtype and what is passed on */
	bool foreground;
	bool debug;
	bool single_thread;
	bool allow_other;

	options_apply_fn *apply; /* set by options_on_change */
	void *apply_ctx;
};

/* Heap, everything at "not said". NULL: no memory. */
struct options *options_new(void);
void options_free(struct options *o);

/* Takes the whole command line, argv[0] included. 0, or -EINVAL / -ENOMEM with the one line in
 * message (cap at least OPTIONS_MESSAGE_CAP). Values are checked in options_resolve. */
int options_parse(struct options *o, int argc, char **argv, char *message, size_t cap);
/* Asks the machine. `store` need not exist: then its directory is asked. What cannot be known is 0. */
void options_machine_read(const char *store, struct options_machine *out);
/* Computes every value in force and checks it. -EINVAL with the one line. */
int options_resolve(struct options *o, const struct options_machine *machine, char *message, size_t cap);

/* One value in force, under the lock. */
uint64_t options_get(struct options *o, enum option_id id);
/* All values in force as "name=value" lines, with " # not yet" behind those without effect in this
 * version. Returns the length; what does not fit cap (OPTIONS_TEXT_CAP is enough) is left out. */
size_t options_text(struct options *o, char *buf, size_t cap);
/* Who is asked, under the lock, before a change of the bank's values is taken. */
void options_on_change(struct options *o, options_apply_fn *apply, void *ctx);
/* Changes one option by a line "name=value". -EINVAL, -EPERM (not while mounted) or what apply
 * answered, each with the one line in message; nothing has changed then. */
int options_change(struct options *o, const char *line, char *message, size_t cap);

/* The text of -h: usage and every option. Returns the length. */
size_t options_help(char *buf, size_t cap);

/* ---- pure parts, public for their tests ---- */

uint64_t options_ram_default(uint64_t machine_ram_bytes);
uint64_t options_session_ram_default(uint64_t ram_bytes);
uint64_t options_ssd_default(uint64_t disk_free_bytes, uint64_t store_used_bytes);
uint64_t options_reserve_default(uint64_t disk_bytes);
uint64_t options_backlog_default(uint64_t ram_bytes);
/* "24G", "512m", "1000", or with *percent set "25%". -EINVAL, -ERANGE. */
int options_parse_size(const char *text, uint64_t *number, bool *percent);
/* "90", "90s", "10m", "2h", "7d" in seconds. -EINVAL, -ERANGE. */
int options_parse_duration(const char *text, uint64_t *seconds);

#endif
