/* SPDX-License-Identifier: GPL-2.0-or-later */
/* options.c - what can be said on the command line, and what it comes to.
 *
 * One table describes every -o option; parsing, checking, -h, .kvbank/config and changes while mounted
 * all follow it. libfuse's fuse_opt takes the command line apart.
 *
 * Two stages. What was said is kept in `spec` (a number, perhaps a percentage, and the text). Only
 * `resolve` turns all specs and the machine's figures into values, in the order of the table, and checks
 * the bounds: so a size that was not said, or was said in percent, follows what it is a part of, also
 * when that changes while mounted. A change is a resolve of a changed copy; it replaces the old one only
 * when all checks passed and the bank took it.
 *
 * What percentages are of: ram - the machine's memory; session_ram, backlog - ram; ssd, reserve - the
 * disk that holds STORE; write_budget - ssd.
 *
 * session_ram above ram is refused, not cut: who says both wants to hear that they do not fit together.
 * A session_ram that was not said cannot be above.
 *
 * Easy to forget: mount(8) has its own ideas of -f, -s, -n, -v, -t when it runs a helper, and puts words
 * of fstab that mean nothing to a file system into -o.
 */
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#include "fs/options.h"

#include <ctype.h>
#include <errno.h>
#include <fuse_opt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fs/text.h"

#define KIB	       1024ull
#define MIB	       (1024 * KIB)
#define GIB	       (1024 * MIB)
#define SIZE_MAX_BYTES (1ull << 62)
#define COUNT_MAX      ((uint64_t)UINT32_MAX)
#define TOKENS_MAX     ((uint64_t)INT32_MAX)
#define DAY_S	       86400ull
#define TEN_YEARS_S    (3650 * DAY_S)

enum option_kind { KIND_SIZE, KIND_COUNT, KIND_TIME, KIND_SWITCH, KIND_WORD };
enum option_flags {
	CHANGES = 1, /* may be changed while mounted */
	LATER = 2,   /* has no effect in this version */
};

struct option_def {
	const char *name;
	enum option_kind kind;
	unsigned flags;		  /* enum option_flags */
	uint64_t min, max;	  /* of the value; words: unused */
	uint64_t fallback;	  /* the default, where it does not depend on the machine */
	const char *const *words; /* KIND_WORD: by value, NULL ends */
	const char *default_text; /* for -h */
	const char *meaning;
};

static const char *const switch_words[] = {"off", "on", NULL};
static const char *const ssd_mode_words[] = {"off", "write-only", "on", NULL};
static const char *const settle_words[] = {"off", "lazy", "eager", NULL};
static const char *const compress_words[] = {"auto", "lz4", "none", NULL};
static const char *const verify_words[] = {"read", "full", NULL};
static const char *const dedupe_words[] = {"owner", "session", "global", NULL};
static const char *const names_words[] = {"both", "given", "prefix", NULL};
static const char *const passthrough_words[] = {"auto", "off", NULL};

/* The maximum of ram and session_ram is found in value_max. */
static const struct option_def defs[OPTION_COUNT] = {
	[OPTION_RAM] = {"ram", KIND_SIZE, CHANGES, OPTIONS_RAM_MIN, SIZE_MAX_BYTES, 0, NULL,
			"a quarter of RAM", "byte budget of the RAM tier; % is of RAM"},
	[OPTION_SESSION_RAM] = {"session_ram", KIND_SIZE, CHANGES, OPTIONS_SESSION_MIN, SIZE_MAX_BYTES, 0,
				NULL, "2/3 of ram", "byte cap of one session in RAM; % is of ram"},
	[OPTION_ENTRIES] = {"entries", KIND_COUNT, CHANGES, 0, COUNT_MAX, 0, NULL, "0",
			    "most entries in all, 0 none"},
	[OPTION_SESSION_ENTRIES] = {"session_entries", KIND_COUNT, CHANGES, 0, COUNT_MAX, 0, NULL, "0",
				    "most entries of one session, 0 none"},
	[OPTION_SSD] = {"ssd", KIND_SIZE, CHANGES | LATER, 0, SIZE_MAX_BYTES, 0, NULL,
			"min(100G, a quarter of the free space)",
			"cap of everything under STORE; % is of the disk"},
	[OPTION_SSD_MODE] = {"ssd_mode", KIND_WORD, LATER, 0, 0, BANK_SSD_ON, ssd_mode_words, "on",
			     "on, write-only (never restore), off (RAM only, STORE untouched)"},
	[OPTION_RESERVE] = {"reserve", KIND_SIZE, CHANGES | LATER, 0, SIZE_MAX_BYTES, 0, NULL,
			    "min(10G, 5% of the disk)", "free disk space never eaten into; % is of the disk"},
	[OPTION_WRITE_BUDGET] = {"write_budget", KIND_SIZE, CHANGES | LATER, 0, SIZE_MAX_BYTES, 128 * GIB,
				 NULL, "128G", "bytes written to STORE in any hour, 0 no limit; % is of ssd"},
	[OPTION_BACKLOG] = {"backlog", KIND_SIZE, CHANGES | LATER, 0, SIZE_MAX_BYTES, 0, NULL, "half of ram",
			    "bytes not yet durable before writers are slowed; % is of ram"},
	[OPTION_STALL] = {"stall", KIND_TIME, CHANGES | LATER, 0, DAY_S, 30, NULL, "30s",
			  "longest time a writer is slowed"},
	[OPTION_PAUSE] = {"pause", KIND_TIME, CHANGES | LATER, 0, DAY_S, 5, NULL, "5s",
			  "longest time that persisting stands aside for restores"},
	[OPTION_IDLE_TTL] = {"idle_ttl", KIND_TIME, CHANGES, 0, TEN_YEARS_S, 0, NULL, "0",
			     "drop the RAM copy of entries idle this long, 0 never"},
	[OPTION_PIN_TTL] = {"pin_ttl", KIND_TIME, CHANGES, 0, TEN_YEARS_S, 600, NULL, "600s",
			    "sessions touched this recently are evicted last"},
	[OPTION_PROTECT_TERMINAL] = {"protect_terminal", KIND_SWITCH, CHANGES | LATER, 0, 1, 1, switch_words,
				     "on", "spare the newest extending entry"},
	[OPTION_SHED_BOUNDARIES] = {"shed_boundaries", KIND_SWITCH, CHANGES | LATER, 0, 1, 1, switch_words,
				    "on", "give up boundaries before the entry"},
	[OPTION_SETTLE] = {"settle", KIND_WORD, CHANGES, 0, 0, BANK_SETTLE_LAZY, settle_words, "lazy",
			   "lazy, eager (seal and hash inside close), off"},
	[OPTION_HISTORY] = {"history", KIND_COUNT, CHANGES | LATER, 0, 1000000, 16, NULL, "16",
			    "uncovered old versions kept in a session, 0 none"},
	[OPTION_BLOCK] = {"block", KIND_COUNT, LATER, 1, 1 << 20, 256, NULL, "256", "tokens of a block"},
	[OPTION_MIN_MATCH] = {"min_match", KIND_COUNT, CHANGES | LATER, 0, TOKENS_MAX, 512, NULL, "512",
			      "least tokens of a block match"},
	[OPTION_GAP] = {"gap", KIND_COUNT, CHANGES | LATER, 0, TOKENS_MAX, 8, NULL, "8",
			"tokens that a near match may run past"},
	[OPTION_MIN_TOKENS] = {"min_tokens", KIND_COUNT, CHANGES | LATER, 0, TOKENS_MAX, 0, NULL, "0",
			       "entries with fewer known tokens are not persisted"},
	[OPTION_COMPRESS] = {"compress", KIND_WORD, CHANGES | LATER, 0, 0, COMPRESS_AUTO, compress_words,
			     "auto", "auto, lz4, none"},
	[OPTION_VERIFY] = {"verify", KIND_WORD, CHANGES | LATER, 0, 0, VERIFY_READ, verify_words, "read",
			   "read (checksums), full (SHA-256 as well)"},
	[OPTION_DEDUPE] = {"dedupe", KIND_WORD, LATER, 0, 0, DEDUPE_OWNER, dedupe_words, "owner",
			   "owner, session, global: who may share equal blocks"},
	[OPTION_NAMES] = {"names", KIND_WORD, CHANGES | LATER, 0, 0, NAMES_BOTH, names_words, "both",
			  "both, given, prefix: the names entries get"},
	[OPTION_PASSTHROUGH] = {"passthrough", KIND_WORD, 0, 0, 0, PASSTHROUGH_AUTO, passthrough_words,
				"auto", "auto (where the kernel allows), off"},
};

/* ---- reading values ---- */

int options_parse_size(const char *text, uint64_t *number, bool *percent)
{
	size_t len = strlen(text);

	if (len && text[len - 1] == '%') {
		*percent = true;
		return text_number(text, len - 1, number);
	}
	*percent = false;
	return text_size(text, len, number);
}

static uint64_t time_unit(char suffix)
{
	switch (suffix) {
	case 's':
		return 1;
	case 'm':
		return 60;
	case 'h':
		return 3600;
	case 'd':
		return DAY_S;
	default:
		return 0;
	}
}

int options_parse_duration(const char *text, uint64_t *seconds)
{
	size_t len = strlen(text);
	uint64_t unit = len ? time_unit(text[len - 1]) : 0;
	uint64_t number;
	int ret = text_number(text, unit ? len - 1 : len, &number);

	if (ret)
		return ret;
	if (!unit)
		unit = 1;
	if (number > UINT64_MAX / unit)
		return -ERANGE;
	*seconds = number * unit;
	return 0;
}

static int parse_word(const char *const *words, const char *text, uint64_t *number)
{
	for (uint64_t i = 0; words[i]; i++) {
		if (!strcmp(words[i], text)) {
			*number = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_value(const struct option_def *def, const char *text, struct option_spec *spec)
{
	switch (def->kind) {
	case KIND_SIZE:
		return options_parse_size(text, &spec->number, &spec->percent);
	case KIND_COUNT:
		return text_number(text, strlen(text), &spec->number);
	case KIND_TIME:
		return options_parse_duration(text, &spec->number);
	case KIND_SWITCH:
	case KIND_WORD:
		return parse_word(def->words, text, &spec->number);
	}
	return -EINVAL;
}

/* Values come from command lines and config writes; only printable text goes into a message. */
static void keep_text(char out[OPTIONS_GIVEN_CAP], const char *text)
{
	size_t len = strnlen(text, OPTIONS_GIVEN_CAP - 1);

	for (size_t i = 0; i < len; i++)
		out[i] = (char)(isprint((unsigned char)text[i]) ? text[i] : '?');
	out[len] = 0;
	if (text[len])
		memcpy(out + len - 3, "...", 3);
}

/* ---- writing values ---- */

static void add_size(struct text *t, uint64_t bytes)
{
	static const char units[] = "KMGT";
	uint64_t number = bytes;
	size_t unit = 0;

	while (number && number % 1024 == 0 && unit < 4) {
		number /= 1024;
		unit++;
	}
	text_add(t, "%llu", (unsigned long long)number);
	if (unit)
		text_add(t, "%c", units[unit - 1]);
}

static void add_value(struct text *t, const struct option_def *def, uint64_t value)
{
	if (def->words)
		text_add(t, "%s", def->words[value]);
	else if (def->kind == KIND_SIZE)
		add_size(t, value);
	else
		text_add(t, "%llu%s", (unsigned long long)value, def->kind == KIND_TIME && value ? "s" : "");
}

static void add_words(struct text *t, const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		text_add(t, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

static const char *percent_meaning(enum option_id id)
{
	if (id == OPTION_RAM)
		return "this machine's memory";
	if (id == OPTION_SESSION_RAM || id == OPTION_BACKLOG)
		return "ram";
	return id == OPTION_WRITE_BUDGET ? "ssd" : "the disk";
}

/* What would be accepted. max 0: how much is not known yet. */
static void add_expected(struct text *t, enum option_id id, uint64_t max)
{
	const struct option_def *def = &defs[id];

	text_add(t, "expected ");
	if (def->words) {
		add_words(t, def->words);
		return;
	}
	if (def->kind == KIND_SIZE)
		text_add(t, "a size in bytes or with K, M, G or T, or a percentage of %s",
			 percent_meaning(id));
	else
		text_add(t, def->kind == KIND_TIME ? "a time in seconds or with s, m, h or d"
						   : "a whole number");
	text_add(t, max ? ", from " : ", at least ");
	add_value(t, def, def->min);
	if (!max)
		return;
	text_add(t, " to ");
	if (def->kind == KIND_TIME)
		text_add(t, "%llud", (unsigned long long)(max / DAY_S));
	else
		add_value(t, def, max);
	if (id == OPTION_SESSION_RAM)
		text_add(t, " (ram)");
}

static int refuse_value(enum option_id id, const char *given, uint64_t max, char *message, size_t cap)
{
	struct text t = text_over(message, cap);

	text_add(&t, "option %s=%s: ", defs[id].name, given);
	add_expected(&t, id, max);
	return -EINVAL;
}

/* ---- values in force ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t options_ram_default(uint64_t machine_ram_bytes)
{
	uint64_t ram = machine_ram_bytes / 4;

	return ram < OPTIONS_RAM_MIN ? OPTIONS_RAM_MIN : ram;
}

uint64_t options_session_ram_default(uint64_t ram_bytes)
{
	return ram_bytes / 3 * 2 + ram_bytes % 3 * 2 / 3;
}

uint64_t options_ssd_default(uint64_t disk_free_bytes, uint64_t store_used_bytes)
{
	return least(100 * GIB, disk_free_bytes / 4 + store_used_bytes);
}

uint64_t options_reserve_default(uint64_t disk_bytes)
{
	return least(10 * GIB, disk_bytes / 20);
}

uint64_t options_backlog_default(uint64_t ram_bytes)
{
	return ram_bytes / 2;
}

static uint64_t default_value(enum option_id id, const uint64_t value[OPTION_COUNT],
			      const struct options_machine *m)
{
	switch ((int)id) {
	case OPTION_RAM:
		return options_ram_default(m->ram_bytes);
	case OPTION_SESSION_RAM:
		return options_session_ram_default(value[OPTION_RAM]);
	case OPTION_SSD:
		return options_ssd_default(m->disk_free_bytes, m->store_used_bytes);
	case OPTION_RESERVE:
		return options_reserve_default(m->disk_bytes);
	case OPTION_BACKLOG:
		return options_backlog_default(value[OPTION_RAM]);
	default:
		return defs[id].fallback;
	}
}

static uint64_t percent_base(enum option_id id, const uint64_t value[OPTION_COUNT],
			     const struct options_machine *m)
{
	switch ((int)id) {
	case OPTION_RAM:
		return m->ram_bytes;
	case OPTION_SESSION_RAM:
	case OPTION_BACKLOG:
		return value[OPTION_RAM];
	case OPTION_WRITE_BUDGET:
		return value[OPTION_SSD];
	default:
		return m->disk_bytes;
	}
}

static uint64_t value_max(enum option_id id, const uint64_t value[OPTION_COUNT],
			  const struct options_machine *m)
{
	if (id == OPTION_RAM && m->ram_bytes)
		return m->ram_bytes;
	return id == OPTION_SESSION_RAM ? value[OPTION_RAM] : defs[id].max;
}

/* Values before `id` in the table are already in force in `value`. */
static int resolve_one(enum option_id id, const struct option_spec *spec, const struct options_machine *m,
		       uint64_t value[OPTION_COUNT], char *message, size_t cap)
{
	uint64_t max = value_max(id, value, m), base, v;

	if (!spec->given) {
		value[id] = default_value(id, value, m);
		return 0;
	}
	v = spec->number;
	if (spec->percent && v > 100)
		return refuse_value(id, spec->text, max, message, cap);
	if (spec->percent) {
		base = percent_base(id, value, m);
		v = base / 100 * spec->number + base % 100 * spec->number / 100;
	}
	if (!defs[id].words && (v < defs[id].min || v > max))
		return refuse_value(id, spec->text, max, message, cap);
	value[id] = v;
	return 0;
}

static int resolve(const struct option_spec spec[OPTION_COUNT], const struct options_machine *m,
		   uint64_t value[OPTION_COUNT], char *message, size_t cap)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		int ret = resolve_one((enum option_id)id, &spec[id], m, value, message, cap);

		if (ret)
			return ret;
	}
	return 0;
}

static void fill_bank(const uint64_t value[OPTION_COUNT], struct bank_config *bank)
{
	bank->ram_bytes = value[OPTION_RAM];
	bank->session_ram_bytes = value[OPTION_SESSION_RAM];
	bank->entries_max = value[OPTION_ENTRIES];
	bank->session_entries_max = value[OPTION_SESSION_ENTRIES];
	bank->idle_ttl_s = value[OPTION_IDLE_TTL];
	bank->pin_ttl_s = value[OPTION_PIN_TTL];
	bank->settle = (enum bank_settle)value[OPTION_SETTLE];
	bank->ssd_mode = (enum bank_ssd_mode)value[OPTION_SSD_MODE];
}

/* With allow_other everybody may make sessions at the top, each their own, as in /tmp. */
static void fill_root(const struct options *o, struct bank_config *bank)
{
	bank->root_mode = o->allow_other ? 01777 : 0700;
	bank->root_uid = geteuid();
	bank->root_gid = getegid();
}

int options_resolve(struct options *o, const struct options_machine *machine, char *message, size_t cap)
{
	int ret;

	o->machine = *machine;
	ret = resolve(o->spec, machine, o->value, message, cap);
	if (ret)
		return ret;
	fill_bank(o->value, &o->bank);
	fill_root(o, &o->bank);
	return 0;
}

void options_machine_read(const char *store, struct options_machine *out)
{
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	struct statvfs disk;
	char *parent, *slash;

	memset(out, 0, sizeof(*out));
	if (pages > 0 && page_bytes > 0)
		out->ram_bytes = (uint64_t)pages * (uint64_t)page_bytes;
	if (statvfs(store, &disk)) {
		parent = strdup(store);
		slash = parent ? strrchr(parent, '/') : NULL;
		if (slash)
			slash[slash == parent] = 0;
		if (!slash || statvfs(parent, &disk))
			memset(&disk, 0, sizeof(disk));
		free(parent);
	}
	out->disk_bytes = (uint64_t)disk.f_blocks * disk.f_frsize;
	out->disk_free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
}

/* ---- one "name=value" ---- */

static int find(const char *line, const char **value)
{
	const char *equals = strchr(line, '=');
	size_t len = equals ? (size_t)(equals - line) : strlen(line);

	for (int id = 0; id < OPTION_COUNT; id++) {
		if (text_is(line, len, defs[id].name)) {
			*value = equals ? equals + 1 : NULL;
			return id;
		}
	}
	return -ENOENT;
}

/* Whether the value can be read at all; bounds come with resolve. */
static int set_spec(enum option_id id, const char *value, struct option_spec *spec, char *message, size_t cap)
{
	uint64_t max = id == OPTION_RAM || id == OPTION_SESSION_RAM ? 0 : defs[id].max;

	memset(spec, 0, sizeof(*spec));
	keep_text(spec->text, value ? value : "");
	spec->given = true;
	if (!value || parse_value(&defs[id], value, spec))
		return refuse_value(id, spec->text, max, message, cap);
	return 0;
}

static int refuse_unknown(const char *what, const char *expected, char *message, size_t cap)
{
	char shown[OPTIONS_GIVEN_CAP];
	struct text t = text_over(message, cap);

	keep_text(shown, what);
	text_add(&t, "unknown option %s: expected %s", shown, expected);
	return -EINVAL;
}

/* ---- the command line ---- */

enum flag_key { FLAG_FOREGROUND, FLAG_DEBUG, FLAG_HELP, FLAG_VERSION, FLAG_SINGLE, FLAG_SILENT };

static const struct fuse_opt flags[] = {
	FUSE_OPT_KEY("-f", FLAG_FOREGROUND), FUSE_OPT_KEY("-d", FLAG_DEBUG),
	FUSE_OPT_KEY("debug", FLAG_DEBUG),   FUSE_OPT_KEY("-h", FLAG_HELP),
	FUSE_OPT_KEY("--help", FLAG_HELP),   FUSE_OPT_KEY("-V", FLAG_VERSION),
	FUSE_OPT_KEY("-s", FLAG_SINGLE),     FUSE_OPT_KEY("--version", FLAG_VERSION),
	FUSE_OPT_KEY("-n", FLAG_SILENT),     FUSE_OPT_KEY("-v", FLAG_SILENT),
	FUSE_OPT_KEY("-t ", FLAG_SILENT),    FUSE_OPT_END,
};

/* Words of fstab and mount(8) that are no concern of a file system, or are so anyway. Neither devices
 * nor set-user-id files can exist here, so dev and suid are not passed on either. */
static const char *const silent_words[] = {
	"rw",
	"dev",
	"nodev",
	"suid",
	"nosuid",
	"exec",
	"async",
	"_netdev",
	"nofail",
	"auto",
	"noauto",
	"user",
	"users",
	"nouser",
	"nousers",
	"owner",
	"noowner",
	"group",
	"nogroup",
	"defaults",
	"relatime",
	"norelatime",
	"atime",
	"noatime",
	"diratime",
	"nodiratime",
	"strictatime",
	"nostrictatime",
	"lazytime",
	"nolazytime",
	"default_permissions",
};
static const char *const silent_prefixes[] = {"x-", "X-", "user=", "uhelper=", "helper=", "comment="};
static const char *const passed_words[] = {"ro", "noexec", "sync", "dirsync"};
static const char *const passed_prefixes[] = {"context=", "fscontext=", "defcontext=", "rootcontext="};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct parse {
	struct options *o;
	int ret;
	bool is_helper; /* run by mount(8) as mount.fuse.kvbankfs: -f and -s mean other things there */
	char *message;
	size_t cap;
};

static bool among(const char *arg, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(arg, words[i]))
			return true;
	}
	return false;
}

static bool begins_with_any(const char *arg, const char *const *prefixes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!strncmp(arg, prefixes[i], strlen(prefixes[i])))
			return true;
	}
	return false;
}

static int pass_on(struct parse *p, const char *word)
{
	return fuse_opt_add_opt_escaped(&p->o->fuse_options, word) ? -ENOMEM : 0;
}

static int take_word(struct parse *p, const char *arg)
{
	const char *value;
	int id = find(arg, &value);

	if (id >= 0)
		return set_spec((enum option_id)id, value, &p->o->spec[id], p->message, p->cap);
	if (!strcmp(arg, "allow_other")) {
		if (p->o->allow_other)
			return 0;
		p->o->allow_other = true;
		return pass_on(p, arg);
	}
	if (among(arg, silent_words, COUNT_OF(silent_words)) ||
	    begins_with_any(arg, silent_prefixes, COUNT_OF(silent_prefixes)))
		return 0;
	if (among(arg, passed_words, COUNT_OF(passed_words)) ||
	    begins_with_any(arg, passed_prefixes, COUNT_OF(passed_prefixes)))
		return pass_on(p, arg);
	return refuse_unknown(arg, "one of those that kvbankfs -h lists", p->message, p->cap);
}

static int absolute(const char *path, char **out)
{
	char *directory;
	int len;

	if (path[0] == '/') {
		*out = strdup(path);
		return *out ? 0 : -ENOMEM;
	}
	directory = getcwd(NULL, 0);
	if (!directory)
		return -errno;
	len = asprintf(out, "%s/%s", strcmp(directory, "/") ? directory : "", path);
	free(directory);
	return len < 0 ? -ENOMEM : 0;
}

static int take_path(struct parse *p, const char *arg)
{
	struct text t = text_over(p->message, p->cap);
	int ret;

	if (p->o->mountpoint) {
		text_add(&t, "too many arguments: expected STORE and MOUNTPOINT only");
		return -EINVAL;
	}
	if (!arg[0]) {
		text_add(&t, "%s is empty: expected a directory", p->o->store ? "MOUNTPOINT" : "STORE");
		return -EINVAL;
	}
	ret = absolute(arg, p->o->store ? &p->o->mountpoint : &p->o->store);
	if (ret)
		text_add(&t, "cannot find the current directory: %s", strerror(-ret));
	return ret;
}

static void take_flag(struct parse *p, int key)
{
	struct options *o = p->o;

	switch ((enum flag_key)key) {
	case FLAG_FOREGROUND:
		if (p->is_helper)
			o->action = OPTIONS_PRETEND;
		else
			o->foreground = true;
		break;
	case FLAG_DEBUG:
		o->debug = o->foreground = true;
		break;
	case FLAG_HELP:
		o->action = OPTIONS_HELP;
		break;
	case FLAG_VERSION:
		o->action = OPTIONS_VERSION;
		break;
	case FLAG_SINGLE:
		o->single_thread = !p->is_helper;
		break;
	case FLAG_SILENT:
		break;
	}
}

/* fuse_opt's callback: 0 = taken, -1 = stop. */
static int take(void *data, const char *arg, int key, struct fuse_args *left)
{
	struct parse *p = data;

	(void)left;
	if (key == FUSE_OPT_KEY_NONOPT)
		p->ret = take_path(p, arg);
	else if (key == FUSE_OPT_KEY_OPT)
		p->ret = take_word(p, arg);
	else
		take_flag(p, key);
	return p->ret ? -1 : 0;
}

static int add_own_fuse_options(struct options *o)
{
	char *name;
	int ret;

	if (asprintf(&name, "fsname=%s", o->store) < 0)
		return -ENOMEM;
	ret = fuse_opt_add_opt_escaped(&o->fuse_options, name) ||
	      fuse_opt_add_opt(&o->fuse_options, "subtype=kvbankfs") ||
	      fuse_opt_add_opt(&o->fuse_options, "default_permissions") ||
	      (o->debug && fuse_opt_add_opt(&o->fuse_options, "debug"));
	free(name);
	return ret ? -ENOMEM : 0;
}

static bool called_by_mount(const char *program)
{
	const char *slash = strrchr(program, '/');

	return !strncmp(slash ? slash + 1 : program, "mount.", 6);
}

int options_parse(struct options *o, int argc, char **argv, char *message, size_t cap)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct parse p = {.o = o, .is_helper = called_by_mount(argv[0]), .message = message, .cap = cap};
	struct text t = text_over(message, cap);
	int ret = fuse_opt_parse(&args, &p, flags, take);

	fuse_opt_free_args(&args);
	if (p.ret)
		return p.ret;
	if (ret) {
		text_add(&t, "the command line ends too early: expected a value behind its last option");
		return -EINVAL;
	}
	if (o->action == OPTIONS_HELP || o->action == OPTIONS_VERSION)
		return 0;
	if (!o->mountpoint) {
		text_add(&t, "too few arguments: expected STORE and MOUNTPOINT (kvbankfs -h tells more)");
		return -EINVAL;
	}
	ret = add_own_fuse_options(o);
	if (ret)
		text_add(&t, "no memory");
	return ret;
}

/* ---- life, looking, changing ---- */

struct options *options_new(void)
{
	struct options *o = calloc(1, sizeof(*o));

	if (o)
		pthread_mutex_init(&o->lock, NULL);
	return o;
}

void options_free(struct options *o)
{
	if (!o)
		return;
	pthread_mutex_destroy(&o->lock);
	free(o->store);
	free(o->mountpoint);
	free(o->fuse_options);
	free(o);
}

uint64_t options_get(struct options *o, enum option_id id)
{
	uint64_t value;

	pthread_mutex_lock(&o->lock);
	value = o->value[id];
	pthread_mutex_unlock(&o->lock);
	return value;
}

/* Of the SSD tier, being without it works already. */
static bool is_later(enum option_id id, uint64_t value)
{
	return (defs[id].flags & LATER) && !(id == OPTION_SSD_MODE && value == BANK_SSD_OFF);
}

size_t options_text(struct options *o, char *buf, size_t cap)
{
	struct text t = text_over(buf, cap);

	pthread_mutex_lock(&o->lock);
	for (int id = 0; id < OPTION_COUNT; id++) {
		text_add(&t, "%s=", defs[id].name);
		add_value(&t, &defs[id], o->value[id]);
		text_add(&t, is_later((enum option_id)id, o->value[id]) ? " # not yet\n" : "\n");
	}
	pthread_mutex_unlock(&o->lock);
	return t.len;
}

void options_on_change(struct options *o, options_apply_fn *apply, void *ctx)
{
	pthread_mutex_lock(&o->lock);
	o->apply = apply;
	o->apply_ctx = ctx;
	pthread_mutex_unlock(&o->lock);
}

static int apply_locked(struct options *o, enum option_id id, const char *given,
			const struct bank_config *bank, char *message, size_t cap)
{
	struct text t = text_over(message, cap);
	int ret = o->apply ? o->apply(o->apply_ctx, bank) : 0;

	if (ret == -EBUSY)
		text_add(&t, "option %s=%s: expected no less than what is held and cannot be evicted",
			 defs[id].name, given);
	else if (ret)
		text_add(&t, "option %s=%s: %s", defs[id].name, given, strerror(-ret));
	return ret;
}

static int change_locked(struct options *o, enum option_id id, const char *value, char *message, size_t cap)
{
	struct option_spec spec[OPTION_COUNT];
	uint64_t values[OPTION_COUNT];
	struct bank_config bank = o->bank;
	int ret;

	memcpy(spec, o->spec, sizeof(spec));
	ret = set_spec(id, value, &spec[id], message, cap);
	if (!ret)
		ret = resolve(spec, &o->machine, values, message, cap);
	if (ret)
		return ret;
	fill_bank(values, &bank);
	ret = apply_locked(o, id, spec[id].text, &bank, message, cap);
	if (ret)
		return ret;
	memcpy(o->spec, spec, sizeof(spec));
	memcpy(o->value, values, sizeof(values));
	o->bank = bank;
	return 0;
}

/* A copy without the white space around it. */
static char *trimmed(const char *line)
{
	size_t len;

	while (isspace((unsigned char)*line))
		line++;
	len = strlen(line);
	while (len && isspace((unsigned char)line[len - 1]))
		len--;
	return strndup(line, len);
}

int options_change(struct options *o, const char *line, char *message, size_t cap)
{
	struct text t = text_over(message, cap);
	char *own = trimmed(line);
	const char *value;
	int id, ret;

	if (!own)
		return -ENOMEM;
	id = find(own, &value);
	if (id < 0) {
		ret = refuse_unknown(own, "name=value with a name that config lists", message, cap);
	} else if (!(defs[id].flags & CHANGES)) {
		text_add(&t, "option %s: cannot change while mounted, expected it at the mount",
			 defs[id].name);
		ret = -EPERM;
	} else {
		pthread_mutex_lock(&o->lock);
		ret = change_locked(o, (enum option_id)id, value, message, cap);
		pthread_mutex_unlock(&o->lock);
	}
	free(own);
	return ret;
}

size_t options_help(char *buf, size_t cap)
{
	struct text t = text_over(buf, cap);

	text_add(&t, "usage: kvbankfs [options] STORE MOUNTPOINT\n\n"
		     "Keeps the KV caches of language models in RAM, as files under MOUNTPOINT.\n"
		     "STORE is the directory of the SSD tier; it is made when it is missing.\n\n"
		     "    -f                 stay in the foreground, log to standard error\n"
		     "    -d                 as -f, with every request\n"
		     "    -s                 one thread\n"
		     "    -h  -V             this help, versions\n"
		     "    -o allow_other     let other users in, each with their own sessions\n"
		     "    -o ro              read only\n"
		     "    -o name=value,...  as follows; sizes take K M G T or %%, times s m h d\n\n");
	for (int id = 0; id < OPTION_COUNT; id++)
		text_add(&t, "    %-17s %s%s\n    %-17s default: %s\n", defs[id].name, defs[id].meaning,
			 is_later((enum option_id)id, defs[id].fallback) ? " [not yet]" : "", "",
			 defs[id].default_text);
	text_add(&t, "\nExit status before the mount is up: 1 usage, 2 STORE, 3 MOUNTPOINT.\n");
	return t.len;
}
