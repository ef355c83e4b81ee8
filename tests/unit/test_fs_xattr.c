/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_fs_xattr.c - the promises of fs/xattr.h and of the open files of fs/control.h, on a bank
 * without a mount: what a kernel between would hide (short buffers, odd orders of calls). */
#include "fs/xattr.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/fs.h"
#include "unit.h"

#define MIB (1024u * 1024u)

static struct fs fs;
static uint64_t entry, session;

static const struct bank_who who = {.pid = 1};

static void put(const char *name, uint64_t *id)
{
	const struct bank_closer closer = {.pid = 1, .opener_gone = true};
	struct bank_writer *writer = NULL;
	struct bank_stat st;

	CHECK_INT(bank_create(fs.bank, session, name, 0600, BANK_WRITE, &who, &st, &writer), 0);
	CHECK_INT(bank_write(writer, "12345", 5, 0, 1), 0);
	CHECK_INT(bank_flush(writer, &closer), 0);
	bank_write_close(writer);
	*id = st.id;
}

static void begin(void)
{
	const struct bank_config config = {.ram_bytes = 64 * MIB,
					   .session_ram_bytes = 64 * MIB,
					   .settle = BANK_SETTLE_OFF,
					   .ssd_mode = BANK_SSD_ON,
					   .root_mode = 0700,
					   .want_memfd = true};
	const struct bank_hooks hooks = {0};
	char message[OPTIONS_MESSAGE_CAP];
	const struct options_machine machine = {.ram_bytes = 1024u * MIB};
	struct bank_stat st;

	CHECK_INT(bank_open(&config, &hooks, &fs.bank), 0);
	CHECK_INT(bank_start(fs.bank), 0);
	fs.options = options_new();
	CHECK_INT(options_resolve(fs.options, &machine, message, sizeof(message)), 0);
	CHECK_INT(bank_mkdir(fs.bank, BANK_ROOT, "s", 0700, &who, &st), 0);
	session = st.id;
	put("e", &entry);
}

static void end(void)
{
	bank_forget(fs.bank, entry, 1);
	bank_forget(fs.bank, session, 1);
	bank_close(fs.bank);
	options_free(fs.options);
}

static int set(uint64_t id, const char *name, const char *value)
{
	return xattr_set(&fs, id, name, value, strlen(value), 0);
}

/* The value as text; its error as "-number". */
static const char *get(uint64_t id, const char *name)
{
	static char value[XATTR_VALUE_MAX + 1];
	ssize_t len = xattr_get(&fs, id, name, value, sizeof(value) - 1);

	if (len < 0)
		snprintf(value, sizeof(value), "%zd", len);
	else
		value[len] = 0;
	return value;
}

static const char *no_data(void)
{
	static char text[16];

	snprintf(text, sizeof(text), "%d", -ENODATA);
	return text;
}

static void values_are_read_back_as_they_are_kept(void)
{
	CHECK_INT(set(entry, "user.kvbank.mtp_history_policy", "full"), 0);
	CHECK_STR(get(entry, "user.kvbank.mtp_history_policy"), "committed");
	CHECK_INT(set(session, "user.kvbank.ram_max", "2m"), 0);
	CHECK_STR(get(session, "user.kvbank.ram_max"), "2097152");
	CHECK_INT(set(session, "user.kvbank.ssd_max", "1K"), 0);
	CHECK_STR(get(session, "user.kvbank.ssd_max"), "1024");
	CHECK_INT(set(entry, "user.kvbank.pin", "forever"), 0);
	CHECK_STR(get(entry, "user.kvbank.pin"), "forever");
	CHECK_INT(set(entry, "user.kvbank.pin", "00"), 0);
	CHECK_STR(get(entry, "user.kvbank.pin"), no_data());
}

static void values_need_no_closing_nul(void)
{
	CHECK_INT(xattr_set(&fs, session, "user.kvbank.ram_max", "90000005", 7, 0), 0);
	CHECK_STR(get(session, "user.kvbank.ram_max"), "9000000");
	CHECK_INT(xattr_set(&fs, entry, "user.kvbank.model", "abcdef", 3, 0), 0);
	CHECK_STR(get(entry, "user.kvbank.model"), "abc");
	CHECK_INT(xattr_set(&fs, entry, "user.kvbank.model", "abc\0", 4, 0), -EINVAL);
	CHECK_INT(xattr_set(&fs, entry, "user.kvbank.pin", "10\n", 3, 0), -EINVAL);
}

static void each_kind_of_node_has_its_own_attributes(void)
{
	CHECK_INT(set(entry, "user.kvbank.evict", "no"), -EPERM);
	CHECK_INT(set(session, "user.kvbank.pin", "10"), -EPERM);
	CHECK_INT(set(session, "user.kvbank.tokens", "1"), -EPERM);
	CHECK_INT(set(entry, "user.kvbank.tokens", "1"), -EOPNOTSUPP);
	CHECK_STR(get(session, "user.kvbank.state"), no_data());
	CHECK_STR(get(session, "user.kvbank.entries"), "1");
	CHECK_INT(set(entry, "user.kvbank.", "1"), -EPERM);
	CHECK_INT(set(entry, "user.kvbank", "1"), 0); /* an ordinary name */
	CHECK_INT(set(entry, "user.", "1"), -EINVAL);
	CHECK_INT(set(entry, "trusted.x", "1"), -EOPNOTSUPP);
	CHECK_INT(xattr_get(&fs, entry, "system.posix_acl_access", NULL, 0), -EOPNOTSUPP);
	CHECK_INT(xattr_get(&fs, entry, "security.capability", NULL, 0), -ENODATA);
	CHECK_INT(xattr_remove(&fs, entry, "security.capability"), -EOPNOTSUPP);
	CHECK_INT(xattr_remove(&fs, entry, "user.kvbank"), 0);
}

static void computed_ones_take_only_what_they_say(void)
{
	CHECK_INT(set(entry, "user.kvbank.state", "lazy"), 0);
	CHECK_INT(set(entry, "user.kvbank.state", "lazier"), -EPERM);
	CHECK_INT(set(entry, "user.kvbank.state", "laz"), -EPERM);
	CHECK_INT(xattr_set(&fs, entry, "user.kvbank.state", "lazy", 4, XATTR_CREATE), -EEXIST);
	CHECK_INT(xattr_set(&fs, entry, "user.kvbank.state", "lazy", 4, XATTR_REPLACE), 0);
	CHECK_INT(xattr_remove(&fs, entry, "user.kvbank.state"), -EPERM);
	CHECK_INT(xattr_remove(&fs, entry, "user.kvbank.info"), -EPERM);
	CHECK_INT(xattr_remove(&fs, entry, "user.kvbank.sha256"), -ENODATA);
}

static void zero_unsets_with_the_flags_of_setxattr(void)
{
	const char *ram_max = "user.kvbank.ram_max", *ssd_max = "user.kvbank.ssd_max";
	const char *names[] = {ram_max, ssd_max};

	for (int i = 0; i < 2; i++) {
		xattr_remove(&fs, session, names[i]);
		CHECK_INT(xattr_set(&fs, session, names[i], "0", 1, XATTR_REPLACE), -ENODATA);
		CHECK_INT(xattr_set(&fs, session, names[i], "0", 1, XATTR_CREATE), 0);
		CHECK_STR(get(session, names[i]), no_data());
		CHECK_INT(set(session, names[i], "10"), 0);
		CHECK_INT(xattr_set(&fs, session, names[i], "0", 1, XATTR_CREATE), -EEXIST);
		CHECK_INT(xattr_set(&fs, session, names[i], "0", 1, XATTR_REPLACE), 0);
		CHECK_STR(get(session, names[i]), no_data());
	}
}

static void lists_fit_exactly_or_say_erange(void)
{
	char buf[4096];
	ssize_t need;

	CHECK_INT(set(entry, "user.one", "1"), 0);
	need = xattr_list(&fs, entry, NULL, 0);
	CHECK(need > 20);
	CHECK_INT(xattr_list(&fs, entry, buf, sizeof(buf)), need);
	for (size_t cap = 1; cap < (size_t)need; cap++)
		CHECK_INT(xattr_list(&fs, entry, buf, cap), -ERANGE);
	CHECK_INT(xattr_list(&fs, entry, buf, (size_t)need), need);
	for (const char *name = buf; name < buf + need; name += strlen(name) + 1)
		CHECK(xattr_get(&fs, entry, name, NULL, 0) >= 0);
	CHECK_INT(xattr_remove(&fs, entry, "user.one"), 0);
}

static void info_holds_the_longest_values_there_can_be(void)
{
	static char value[XATTR_VALUE_MAX], info[65536];
	ssize_t need, len;

	memset(value, 'v', sizeof(value));
	for (const char *const *field = bank_identity_fields; *field; field++) {
		char name[64];

		snprintf(name, sizeof(name), "user.kvbank.%s", *field);
		CHECK_INT(xattr_set(&fs, entry, name, value, sizeof(value), 0), 0);
		CHECK_INT(xattr_set(&fs, entry, name, value, sizeof(value) + 1, 0), -E2BIG);
	}
	need = xattr_get(&fs, entry, "user.kvbank.info", NULL, 0);
	CHECK(need > 7 * (ssize_t)sizeof(value));
	len = xattr_get(&fs, entry, "user.kvbank.info", info, sizeof(info));
	CHECK_INT(len, need);
	CHECK(len > 0 && info[len - 1] != '\n');
	CHECK_INT(xattr_get(&fs, entry, "user.kvbank.info", info, (size_t)need - 1), -ERANGE);
	for (const char *const *field = bank_identity_fields; *field; field++) {
		char name[64];

		snprintf(name, sizeof(name), "user.kvbank.%s", *field);
		CHECK_INT(xattr_remove(&fs, entry, name), 0);
	}
}

/* ---- open files of the control directory ---- */

static struct control_file *open_control(const char *name, int flags)
{
	struct control_file *file = NULL;
	struct stat directory, st;

	CHECK_INT(control_lookup(&fs, BANK_ROOT, ".kvbank", &directory), 0);
	CHECK_INT(control_lookup(&fs, directory.st_ino, name, &st), 0);
	CHECK_INT(control_open(&fs, st.st_ino, flags, &file), 0);
	return file;
}

static void the_directory_lists_what_lookup_finds(void)
{
	struct stat directory, st, found;
	const char *name;
	unsigned n = 0;

	CHECK_INT(control_lookup(&fs, BANK_ROOT, ".kvbank", &directory), 0);
	for (; !control_readdir(&fs, n, &name, &st); n++) {
		if (n < 2)
			continue;
		CHECK_INT(control_lookup(&fs, directory.st_ino, name, &found), 0);
		CHECK(found.st_ino == st.st_ino);
		CHECK(control_is(st.st_ino));
		CHECK(control_reserved(directory.st_ino, name));
	}
	CHECK_INT(n, 7);
	CHECK_INT(control_lookup(&fs, directory.st_ino, "nothing", &found), -ENOENT);
	CHECK_INT(control_lookup(&fs, session, ".kvbank", &found), -ENOENT);
	CHECK(!control_reserved(session, ".kvbank"));
	CHECK(control_reserved(BANK_ROOT, ".kvbank"));
	CHECK(!control_is(BANK_ROOT));
	CHECK(!control_is(UINT64_MAX));
	CHECK_INT(control_stat(&fs, UINT64_MAX, &found), -ESTALE);
}

static void a_text_is_read_in_any_pieces(void)
{
	struct control_file *file = open_control("stats", O_RDONLY);
	char whole[65536], pieces[65536];
	ssize_t len = control_read(file, whole, sizeof(whole), 0), at = 0, got;

	while ((got = control_read(file, pieces + at, 7, at)) > 0)
		at += got;
	CHECK_INT(got, 0);
	CHECK_INT(at, len);
	CHECK(len > 0 && !memcmp(whole, pieces, (size_t)len));
	CHECK_INT(control_read(file, pieces, 10, len + 100), 0);
	CHECK_INT(control_write(file, "x", 1), -EBADF);
	control_close(file);
}

static void a_forward_reader_of_events_goes_on_at_a_whole_line(void)
{
	struct control_file *file;
	char reason[4000], buf[65536], first[32];
	off_t off = 0;
	ssize_t len;

	memset(reason, 'r', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = 0;
	for (int i = 0; i < 1500; i++)
		bank_event(fs.bank, "test", reason, (uint64_t)i, BANK_ROOT, NULL);
	file = open_control("events", O_RDONLY);
	len = control_read(file, buf, 1000, off);
	CHECK_INT(len, 1000);
	memcpy(first, buf, 20);
	CHECK(first[0] == '2' && first[4] == '-' && first[10] == 'T');
	/* The rest of that line, in its own place. */
	off += len;
	len = control_read(file, buf, 4000, off);
	CHECK_INT(len, 4000);
	CHECK(memchr(buf, '\n', 4000) != NULL);
	/* The ring turns more than once; the reader goes on at a whole line. */
	off += len;
	for (int i = 0; i < 1500; i++)
		bank_event(fs.bank, "test", reason, (uint64_t)i, BANK_ROOT, NULL);
	len = control_read(file, buf, 4000, off);
	CHECK_INT(len, 4000);
	CHECK(buf[0] == '2' && buf[4] == '-' && buf[10] == 'T');
	while (len > 0) {
		off += len;
		len = control_read(file, buf, sizeof(buf), off);
	}
	CHECK_INT(len, 0);
	bank_event(fs.bank, "test", "last", 4711, BANK_ROOT, NULL);
	len = control_read(file, buf, sizeof(buf) - 1, off);
	CHECK(len > 0);
	buf[len > 0 ? len : 0] = 0;
	CHECK(strstr(buf, "reason=last bytes=4711") != NULL);
	control_close(file);
}

static void a_jump_to_events_that_are_gone_reads_empty_lines(void)
{
	struct control_file *file = open_control("events", O_RDONLY);
	struct stat directory, st;
	char buf[1000];

	CHECK_INT(control_lookup(&fs, BANK_ROOT, ".kvbank", &directory), 0);
	CHECK_INT(control_lookup(&fs, directory.st_ino, "events", &st), 0);
	CHECK_INT(control_read(file, buf, sizeof(buf), st.st_size - 1), 1);
	CHECK(buf[0] == '\n');
	CHECK_INT(control_read(file, buf, sizeof(buf), 5), 1000);
	for (size_t i = 0; i < sizeof(buf); i++)
		CHECK(buf[i] == '\n');
	CHECK_INT(control_read(file, buf, sizeof(buf), st.st_size + 10), 0);
	control_close(file);
}

static void a_conversation_goes_from_state_to_state(void)
{
	struct control_file *file = open_control("control", O_RDWR);
	char buf[4096];
	ssize_t len;

	CHECK(control_streams(file));
	CHECK(!control_read_waits(file));
	CHECK(control_read(file, buf, sizeof(buf), 0) > 0); /* the usage */
	CHECK_INT(control_read(file, buf, sizeof(buf), 0), 0);
	CHECK_INT(control_write(file, "sett", 4), 4);
	CHECK(!control_read_waits(file));
	CHECK_INT(control_write(file, "le\n", 3), 3);
	CHECK(control_read_waits(file));
	len = control_read(file, buf, 3, 0);
	CHECK(len == 3 && !memcmp(buf, "ok ", 3));
	CHECK(!control_read_waits(file));
	CHECK(control_read(file, buf, sizeof(buf), 0) > 0);
	CHECK_INT(control_read(file, buf, sizeof(buf), 0), 0);
	CHECK_INT(control_write(file, "flush", 5), 5);
	len = control_read(file, buf, sizeof(buf), 0);
	CHECK(len == 20 && !memcmp(buf, "error flush not yet\n", 20));
	control_keep(file);
	control_close(file);
	CHECK_INT(control_read(file, buf, sizeof(buf), 0), 0);
	control_close(file);
}

static void opens_are_checked(void)
{
	struct control_file *file;
	struct stat directory, st;

	CHECK_INT(control_lookup(&fs, BANK_ROOT, ".kvbank", &directory), 0);
	CHECK_INT(control_open(&fs, directory.st_ino, O_RDONLY, &file), -EISDIR);
	CHECK_INT(control_lookup(&fs, directory.st_ino, "stats", &st), 0);
	CHECK_INT(control_open(&fs, st.st_ino, O_RDWR, &file), -EACCES);
	CHECK_INT(control_lookup(&fs, directory.st_ino, "control", &st), 0);
	CHECK_INT(control_open(&fs, st.st_ino, O_WRONLY, &file), -EINVAL);
	CHECK_INT(control_open(&fs, UINT64_MAX, O_RDONLY, &file), -ESTALE);
	control_close(NULL);
}

static void config_takes_whole_lines(void)
{
	struct control_file *file = open_control("config", O_WRONLY);
	char buf[64];

	CHECK_INT(control_write(file, "idle_ttl=60", 11), 11);
	CHECK_INT(options_get(fs.options, OPTION_IDLE_TTL), 60);
	CHECK_INT(control_write(file, "idle_ttl=70\n\nidle_ttl=80 # not yet\n", 35), 35);
	CHECK_INT(options_get(fs.options, OPTION_IDLE_TTL), 80);
	CHECK_INT(control_write(file, "idle_ttl=90\nidle", 16), 12);
	CHECK_INT(control_write(file, "idle", 4), -EINVAL);
	CHECK_INT(control_write(file, "idle_ttl=1\0", 11), -EINVAL);
	CHECK_INT(options_get(fs.options, OPTION_IDLE_TTL), 90);
	CHECK_INT(control_read(file, buf, sizeof(buf), 0), -EBADF);
	control_close(file);
}

int main(void)
{
	begin();
	RUN("values are read back as they are kept", values_are_read_back_as_they_are_kept);
	RUN("values need no closing NUL", values_need_no_closing_nul);
	RUN("each kind of node has its own attributes", each_kind_of_node_has_its_own_attributes);
	RUN("computed attributes take only what they say", computed_ones_take_only_what_they_say);
	RUN("zero unsets, with the flags of setxattr", zero_unsets_with_the_flags_of_setxattr);
	RUN("lists fit exactly or say ERANGE", lists_fit_exactly_or_say_erange);
	RUN("info holds the longest values there can be", info_holds_the_longest_values_there_can_be);
	RUN("the control directory lists what lookup finds", the_directory_lists_what_lookup_finds);
	RUN("a text is read in any pieces", a_text_is_read_in_any_pieces);
	RUN("a forward reader of events goes on at a whole line",
	    a_forward_reader_of_events_goes_on_at_a_whole_line);
	RUN("a jump to events that are gone reads empty lines",
	    a_jump_to_events_that_are_gone_reads_empty_lines);
	RUN("a conversation goes from state to state", a_conversation_goes_from_state_to_state);
	RUN("opens are checked", opens_are_checked);
	RUN("config takes whole lines", config_takes_whole_lines);
	end();
	UNIT_END();
}
