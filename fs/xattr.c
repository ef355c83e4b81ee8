/* SPDX-License-Identifier: GPL-2.0-or-later */
/* xattr.c - the extended attributes: user.kvbank.* by a table, every other user.* as bytes.
 *
 * An attribute of ours is one row: where it may stand, and up to three functions.
 *
 *	show	accept	apply	what it is
 *	yes	-	-	computed from bank_info (state, hits, ...); setting it: -EPERM
 *	yes	yes	yes	set in the bank itself and read back from bank_info (pin, ram_max)
 *	-	yes	-	kept in the bank's raw store, as `accept` wrote it (identity fields, names)
 *	-	yes	yes	kept raw, and told to the bank as well (evict)
 *
 * Invariants: listed = readable (info alone is readable and not listed); what is read back after a
 * set is the accepted, normalised text; a value never holds a control byte, so that `key value` lines
 * stay lines. Values from users are bytes with a length: nothing here relies on a closing NUL.
 *
 * No locks: each call asks the bank at most a few questions, and two answers may be of different
 * moments. The kernel holds the inode's lock around set and remove, so the flags' check and the set
 * that follows it are one step for everybody on the mount.
 *
 * Easy to forget: security.capability is asked before every write where the kernel has no
 * HANDLE_KILLPRIV_V2, so it is answered first; ENOSYS would turn attributes off for the whole mount. */
#include "fs/xattr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/control.h"
#include "fs/fs.h"
#include "fs/text.h"

#define USER	  "user."
#define OURS	  "user.kvbank."
#define OURS_LEN  (sizeof(OURS) - 1)
#define NAMES_CAP 1024u	       /* room for the names of all shown attributes */
#define INFO_CAP  (64u * 1024) /* room for `info`: 7 identity fields of XATTR_VALUE_MAX, and the rest */
#define PIN_MAX_S (100ull * 365 * 86400) /* longer is a slip of the finger; `forever` is there for that */

enum where { ON_ENTRY = 1, ON_SESSION = 2 };

struct attribute {
	const char *name; /* behind user.kvbank.; NULL for the rows that stand for identity fields */
	unsigned where;
	bool zero_unsets; /* the value 0 is the same as removing it */
	/* Adds the value, or nothing when there is none now. */
	void (*show)(const struct bank_info *info, struct text *value);
	/* Checks a value and writes it as it is kept. -EINVAL. */
	int (*accept)(const char *value, size_t len, struct text *kept);
	/* Tells the bank. `kept` is NULL when the attribute is removed. */
	int (*apply)(struct bank *bank, uint64_t id, const char *kept);
};

/* ---- computed values ---- */

static void show_state(const struct bank_info *info, struct text *value)
{
	if (info->state)
		text_add(value, "%s", info->state);
}

static void show_reason(const struct bank_info *info, struct text *value)
{
	if (info->reason)
		text_add(value, "%s", info->reason);
}

static void show_tier(const struct bank_info *info, struct text *value)
{
	(void)info; /* one tier so far */
	text_add(value, "ram");
}

static void show_format(const struct bank_info *info, struct text *value)
{
	(void)info; /* no format is recognised so far */
	text_add(value, "opaque");
}

static void show_sha256(const struct bank_info *info, struct text *value)
{
	if (info->sha256_known)
		text_add_hex(value, info->sha256, sizeof(info->sha256));
}

static void show_nbytes(const struct bank_info *info, struct text *value)
{
	text_add(value, "%llu", (unsigned long long)info->nbytes);
}

static void show_hits(const struct bank_info *info, struct text *value)
{
	text_add(value, "%llu", (unsigned long long)info->hits);
}

static void show_entries(const struct bank_info *info, struct text *value)
{
	text_add(value, "%llu", (unsigned long long)info->entries);
}

static void show_time(const struct timespec *when, struct text *value)
{
	if (when->tv_sec)
		text_add_time(value, when);
}

static void show_created_at(const struct bank_info *info, struct text *value)
{
	show_time(&info->created_at, value);
}

static void show_last_access(const struct bank_info *info, struct text *value)
{
	show_time(&info->last_access, value);
}

static void show_settled_at(const struct bank_info *info, struct text *value)
{
	show_time(&info->settled_at, value);
}

static void show_pin(const struct bank_info *info, struct text *value)
{
	if (info->pin_s < 0)
		text_add(value, "forever");
	else if (info->pin_s > 0)
		text_add(value, "%lld", (long long)info->pin_s);
}

static void show_ram_max(const struct bank_info *info, struct text *value)
{
	if (info->ram_max)
		text_add(value, "%llu", (unsigned long long)info->ram_max);
}

/* ---- values that users set ---- */

/* Any text of one line. Empty is refused: unset is what stands for unknown. */
static int accept_line(const char *value, size_t len, struct text *kept)
{
	if (!len)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
			return -EINVAL;
	text_add_bytes(kept, value, len);
	return 0;
}

/* Two policies have older names; any other stays as it is. */
static int accept_history_policy(const char *value, size_t len, struct text *kept)
{
	if (text_is(value, len, "full"))
		return accept_line("committed", strlen("committed"), kept);
	if (text_is(value, len, "window") || text_is(value, len, "lastwindow"))
		return accept_line("last_window", strlen("last_window"), kept);
	return accept_line(value, len, kept);
}

/* One of the words, NULL-ended. */
static int accept_word(const char *value, size_t len, const char *const *words, struct text *kept)
{
	for (; *words; words++)
		if (text_is(value, len, *words))
			return accept_line(value, len, kept);
	return -EINVAL;
}

static int accept_flag(const char *value, size_t len, struct text *kept)
{
	return accept_word(value, len, (const char *const[]){"0", "1", NULL}, kept);
}

static int accept_yes_no(const char *value, size_t len, struct text *kept)
{
	return accept_word(value, len, (const char *const[]){"yes", "no", NULL}, kept);
}

static int accept_names(const char *value, size_t len, struct text *kept)
{
	return accept_word(value, len, (const char *const[]){"both", "given", "prefix", NULL}, kept);
}

static int accept_size(const char *value, size_t len, struct text *kept)
{
	uint64_t bytes;

	if (text_size(value, len, &bytes))
		return -EINVAL;
	text_add(kept, "%llu", (unsigned long long)bytes);
	return 0;
}

static int accept_pin(const char *value, size_t len, struct text *kept)
{
	uint64_t seconds;

	if (text_is(value, len, "forever"))
		return accept_line(value, len, kept);
	if (text_number(value, len, &seconds) || seconds > PIN_MAX_S)
		return -EINVAL;
	text_add(kept, "%llu", (unsigned long long)seconds);
	return 0;
}

static int apply_pin(struct bank *bank, uint64_t id, const char *kept)
{
	uint64_t seconds = 0;

	if (kept && text_is(kept, strlen(kept), "forever"))
		return bank_pin(bank, id, -1);
	if (kept)
		text_number(kept, strlen(kept), &seconds);
	return bank_pin(bank, id, (int64_t)seconds);
}

static int apply_ram_max(struct bank *bank, uint64_t id, const char *kept)
{
	uint64_t bytes = 0;

	if (kept)
		text_number(kept, strlen(kept), &bytes);
	return bank_session_ram_max(bank, id, bytes);
}

static int apply_evict(struct bank *bank, uint64_t id, const char *kept)
{
	return bank_session_evict(bank, id, !kept || text_is(kept, strlen(kept), "yes"));
}

/* ---- the table ---- */

static const struct attribute table[] = {
	{.name = "state", .where = ON_ENTRY, .show = show_state},
	{.name = "reason", .where = ON_ENTRY, .show = show_reason},
	{.name = "tier", .where = ON_ENTRY, .show = show_tier},
	{.name = "format", .where = ON_ENTRY, .show = show_format},
	{.name = "sha256", .where = ON_ENTRY, .show = show_sha256},
	{.name = "entries", .where = ON_SESSION, .show = show_entries},
	{.name = "nbytes", .where = ON_ENTRY | ON_SESSION, .show = show_nbytes},
	{.name = "hits", .where = ON_ENTRY, .show = show_hits},
	{.name = "created_at", .where = ON_ENTRY, .show = show_created_at},
	{.name = "last_access", .where = ON_ENTRY, .show = show_last_access},
	{.name = "settled_at", .where = ON_ENTRY, .show = show_settled_at},
	{.name = "pin",
	 .where = ON_ENTRY,
	 .zero_unsets = true,
	 .show = show_pin,
	 .accept = accept_pin,
	 .apply = apply_pin},
	{.name = "recurrent", .where = ON_ENTRY | ON_SESSION, .accept = accept_flag},
	{.name = "ram_max",
	 .where = ON_SESSION,
	 .zero_unsets = true,
	 .show = show_ram_max,
	 .accept = accept_size,
	 .apply = apply_ram_max},
	{.name = "ssd_max", .where = ON_SESSION, .zero_unsets = true, .accept = accept_size},
	{.name = "evict", .where = ON_SESSION, .accept = accept_yes_no, .apply = apply_evict},
	{.name = "names", .where = ON_SESSION, .accept = accept_names},
};
static const struct attribute identity = {.where = ON_ENTRY | ON_SESSION, .accept = accept_line};
static const struct attribute history_policy = {.where = ON_ENTRY | ON_SESSION,
						.accept = accept_history_policy};

#define TABLE_LEN (sizeof(table) / sizeof(table[0]))

/* One question about one node: everything that the functions below need. */
struct look {
	struct bank *bank;
	uint64_t id;
	struct bank_info info;
};

static int look_at(struct fs *fs, uint64_t id, struct look *out)
{
	out->bank = fs->bank;
	out->id = id;
	return bank_get_info(fs->bank, id, &out->info);
}

static bool stands_on(const struct attribute *a, const struct bank_info *info)
{
	return a->where & (info->st.kind == BANK_SESSION ? ON_SESSION : ON_ENTRY);
}

static const struct attribute *find_identity(const char *field)
{
	for (const char *const *known = bank_identity_fields; *known; known++)
		if (!strcmp(*known, field))
			return strcmp(field, "mtp_history_policy") ? &identity : &history_policy;
	return NULL;
}

/* The row of a name behind user.kvbank., NULL when a node of this kind has no such attribute. */
static const struct attribute *find(const struct bank_info *info, const char *field)
{
	const struct attribute *found = find_identity(field);

	for (size_t i = 0; !found && i < TABLE_LEN; i++)
		if (!strcmp(table[i].name, field))
			found = &table[i];
	return found && stands_on(found, info) ? found : NULL;
}

/* Copies a whole value out, or tells its length. */
static ssize_t hand_over(const char *value, size_t len, char *buf, size_t cap)
{
	if (!cap)
		return (ssize_t)len;
	if (len > cap)
		return -ERANGE;
	memcpy(buf, value, len);
	return (ssize_t)len;
}

/* The value of a row; -ENODATA when there is none now. */
static ssize_t value_of(const struct look *look, const struct attribute *a, const char *name, char *buf,
			size_t cap)
{
	char room[128];
	struct text value = text_over(room, sizeof(room));

	if (!a->show)
		return bank_xattr_get(look->bank, look->id, name, buf, cap);
	a->show(&look->info, &value);
	return value.len ? hand_over(room, value.len, buf, cap) : -ENODATA;
}

/* ---- info: everything in one value ---- */

static void add_info_line(const struct look *look, const struct attribute *a, const char *field,
			  struct text *info)
{
	char name[OURS_LEN + 64], room[XATTR_VALUE_MAX];
	struct text full = text_over(name, sizeof(name));
	ssize_t len;

	text_add(&full, OURS "%s", field);
	len = value_of(look, a, name, room, sizeof(room));
	if (len >= 0)
		text_add(info, "%s%s %.*s", info->len ? "\n" : "", field, (int)len, room);
}

static ssize_t get_info(const struct look *look, char *buf, size_t cap)
{
	char *room = malloc(INFO_CAP);
	struct text info;
	ssize_t len;

	if (!room)
		return -ENOMEM;
	info = text_over(room, INFO_CAP);
	for (size_t i = 0; i < TABLE_LEN; i++)
		if (stands_on(&table[i], &look->info))
			add_info_line(look, &table[i], table[i].name, &info);
	for (const char *const *field = bank_identity_fields; *field; field++)
		add_info_line(look, &identity, *field, &info);
	len = hand_over(room, info.len, buf, cap);
	free(room);
	return len;
}

/* ---- reading ---- */

static ssize_t get_ours(struct fs *fs, uint64_t id, const char *name, char *buf, size_t cap)
{
	const char *field = name + OURS_LEN;
	const struct attribute *a;
	struct look look;
	int ret = look_at(fs, id, &look);

	if (ret)
		return ret;
	if (!strcmp(field, "info"))
		return get_info(&look, buf, cap);
	a = find(&look.info, field);
	return a ? value_of(&look, a, name, buf, cap) : -ENODATA;
}

ssize_t xattr_get(struct fs *fs, uint64_t id, const char *name, char *buf, size_t cap)
{
	if (!strcmp(name, "security.capability"))
		return -ENODATA;
	if (strncmp(name, USER, strlen(USER)))
		return -EOPNOTSUPP;
	if (control_is(id))
		return -ENODATA;
	if (!strncmp(name, OURS, OURS_LEN))
		return get_ours(fs, id, name, buf, cap);
	return bank_xattr_get(fs->bank, id, name, buf, cap);
}

/* The names that the raw store does not list: those shown, as far as they have a value. */
static void add_shown_names(const struct bank_info *info, struct text *names)
{
	for (size_t i = 0; i < TABLE_LEN; i++) {
		char room[128];
		struct text value = text_over(room, sizeof(room));

		if (!table[i].show || !stands_on(&table[i], info))
			continue;
		table[i].show(info, &value);
		if (!value.len)
			continue;
		text_add(names, OURS "%s", table[i].name);
		text_add_bytes(names, "", 1);
	}
}

ssize_t xattr_list(struct fs *fs, uint64_t id, char *buf, size_t cap)
{
	char room[NAMES_CAP];
	struct text shown = text_over(room, sizeof(room));
	struct look look;
	ssize_t raw;
	int ret;

	if (control_is(id))
		return 0;
	ret = look_at(fs, id, &look);
	if (ret)
		return ret;
	add_shown_names(&look.info, &shown);
	if (cap && shown.len > cap)
		return -ERANGE;
	raw = bank_xattr_list(fs->bank, id, buf, cap ? cap - shown.len : 0);
	if (raw < 0 || !cap)
		return raw < 0 ? raw : raw + (ssize_t)shown.len;
	if ((size_t)raw >
	    cap - shown.len) /* the shown names left no room, so the bank only told the length */
		return -ERANGE;
	memcpy(buf + raw, room, shown.len);
	return raw + (ssize_t)shown.len;
}

/* ---- writing ---- */

/* A computed attribute, or none of ours: only what it says already is accepted, so that a copy of
 * all attributes onto the same node is no error. */
static int set_computed(struct fs *fs, uint64_t id, const char *name, const char *value, size_t len,
			int flags)
{
	char *now = malloc(INFO_CAP);
	ssize_t now_len;
	bool same;

	if (!now)
		return -ENOMEM;
	now_len = get_ours(fs, id, name, now, INFO_CAP);
	same = now_len >= 0 && (size_t)now_len == len && !memcmp(now, value, len);
	free(now);
	if (!same)
		return -EPERM;
	return flags & XATTR_CREATE ? -EEXIST : 0;
}

/* setxattr's flags for what the raw store does not keep. */
static int check_flags(const struct look *look, const struct attribute *a, const char *name, int flags)
{
	bool there = value_of(look, a, name, NULL, 0) >= 0;

	if ((flags & XATTR_CREATE) && there)
		return -EEXIST;
	return (flags & XATTR_REPLACE) && !there ? -ENODATA : 0;
}

static int keep(const struct look *look, const struct attribute *a, const char *name, const struct text *kept,
		int flags)
{
	int ret = a->show ? check_flags(look, a, name, flags)
			  : bank_xattr_set(look->bank, look->id, name, kept->buf, kept->len, flags);

	if (ret || !a->apply)
		return ret;
	return a->apply(look->bank, look->id, kept->buf);
}

static int unset(const struct look *look, const struct attribute *a, const char *name)
{
	int ret = 0;

	if (a->show && value_of(look, a, name, NULL, 0) < 0)
		return -ENODATA;
	if (!a->show)
		ret = bank_xattr_remove(look->bank, look->id, name);
	if (ret || !a->apply)
		return ret;
	return a->apply(look->bank, look->id, NULL);
}

/* The value 0 of an attribute for which that means unset: as removing it, but not finding it is fine. */
static int set_zero(const struct look *look, const struct attribute *a, const char *name, int flags)
{
	int ret = check_flags(look, a, name, flags);

	if (!ret)
		ret = unset(look, a, name);
	return ret == -ENODATA && !(flags & XATTR_REPLACE) ? 0 : ret;
}

static int set_ours(struct fs *fs, uint64_t id, const char *name, const char *value, size_t len, int flags)
{
	char room[XATTR_VALUE_MAX + 1];
	struct text kept = text_over(room, sizeof(room));
	const struct attribute *a;
	struct look look;
	int ret = look_at(fs, id, &look);

	if (ret)
		return ret;
	if (!strcmp(name, OURS "tokens") && look.info.st.kind == BANK_ENTRY)
		return -EOPNOTSUPP;
	a = find(&look.info, name + OURS_LEN);
	if (!a || !a->accept)
		return set_computed(fs, id, name, value, len, flags);
	if (len > XATTR_VALUE_MAX)
		return -E2BIG;
	ret = a->accept(value, len, &kept);
	if (ret)
		return ret;
	if (a->zero_unsets && text_is(room, kept.len, "0"))
		return set_zero(&look, a, name, flags);
	return keep(&look, a, name, &kept, flags);
}

int xattr_set(struct fs *fs, uint64_t id, const char *name, const char *value, size_t len, int flags)
{
	if (strncmp(name, USER, strlen(USER)))
		return -EOPNOTSUPP;
	if (!name[strlen(USER)])
		return -EINVAL;
	if (control_is(id))
		return -EPERM;
	if (!strncmp(name, OURS, OURS_LEN))
		return set_ours(fs, id, name, value, len, flags);
	return bank_xattr_set(fs->bank, id, name, value, len, flags);
}

int xattr_remove(struct fs *fs, uint64_t id, const char *name)
{
	const struct attribute *a;
	struct look look;
	int ret;

	if (strncmp(name, USER, strlen(USER)))
		return -EOPNOTSUPP;
	if (control_is(id))
		return -ENODATA;
	if (strncmp(name, OURS, OURS_LEN))
		return bank_xattr_remove(fs->bank, id, name);
	ret = look_at(fs, id, &look);
	if (ret)
		return ret;
	a = find(&look.info, name + OURS_LEN);
	if (a && a->accept)
		return unset(&look, a, name);
	return get_ours(fs, id, name, NULL, 0) >= 0 ? -EPERM : -ENODATA;
}
