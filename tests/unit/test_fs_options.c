/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_fs_options.c - the command line and run-time changes, on a made-up machine of 16 GiB and a disk of 1
 * TiB. */
#include "unit.h"

#include <errno.h>
#include <unistd.h>

#include "fs/options.h"

#define KIB	 1024ull
#define MIB	 (1024 * KIB)
#define GIB	 (1024 * MIB)
#define ARGS_MAX 16

static const struct options_machine machine = {
	.ram_bytes = 16 * GIB, .disk_bytes = 1024 * GIB, .disk_free_bytes = 600 * GIB, .store_used_bytes = 0};

static char message[OPTIONS_MESSAGE_CAP];
static int result;

/* The words of `line` behind "kvbankfs"; `result` and `message` tell how it went. */
static struct options *parse(const char *program, const char *line)
{
	struct options *o = options_new();
	char *copy = strdup(line), *save = NULL;
	char *argv[ARGS_MAX + 1] = {strdup(program)};
	int argc = 1;

	for (char *word = strtok_r(copy, " ", &save); word && argc < ARGS_MAX;
	     word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	message[0] = 0;
	result = options_parse(o, argc, argv, message, sizeof(message));
	if (!result)
		result = options_resolve(o, &machine, message, sizeof(message));
	free(argv[0]);
	free(copy);
	return o;
}

static struct options *mount_with(const char *words)
{
	char line[256];

	snprintf(line, sizeof(line), "-o %s /s /m", words);
	return parse("kvbankfs", line);
}

static uint64_t value_of(const char *words, enum option_id id)
{
	struct options *o = mount_with(words);
	uint64_t value = o->value[id];

	if (result)
		printf("# %s: %s\n", words, message);
	CHECK_INT(result, 0);
	options_free(o);
	return value;
}

static void check_refused(const char *words, const char *part)
{
	options_free(mount_with(words));
	if (result != -EINVAL || !strstr(message, part) || strchr(message, '\n'))
		printf("# %s: %d '%s'\n", words, result, message);
	CHECK_INT(result, -EINVAL);
	CHECK(strstr(message, part));
	CHECK(!strchr(message, '\n'));
}

static void sizes_take_units_of_1024(void)
{
	CHECK_INT(value_of("ram=1048576", OPTION_RAM), MIB);
	CHECK_INT(value_of("ram=1024K", OPTION_RAM), MIB);
	CHECK_INT(value_of("ram=1024k", OPTION_RAM), MIB);
	CHECK_INT(value_of("ram=3M", OPTION_RAM), 3 * MIB);
	CHECK_INT(value_of("ram=16G", OPTION_RAM), 16 * GIB);
	CHECK_INT(value_of("ssd=2t", OPTION_SSD), 2048 * GIB);
	CHECK_INT(value_of("write_budget=0", OPTION_WRITE_BUDGET), 0);
	check_refused("ram=", "option ram=: expected a size");
	check_refused("ram", "option ram=: expected a size");
	check_refused("ram=G", "option ram=G: expected a size");
	check_refused("ram=-1G", "option ram=-1G: expected");
	check_refused("ram=1.5G", "option ram=1.5G: expected");
	check_refused("ram=1GB", "option ram=1GB: expected");
	check_refused("ram=1E", "option ram=1E: expected");
	check_refused("ssd=99999999T", "option ssd=99999999T: expected");
	check_refused("ssd=18446744073709551616", "expected a size in bytes or with K, M, G or T");
	check_refused("ssd=16777216T", "option ssd=16777216T: expected"); /* 2^64 */
	check_refused("ssd=8388607T", "from 0 to 4194304T");
}

static void percentages_follow_what_they_are_of(void)
{
	CHECK_INT(value_of("ram=25%", OPTION_RAM), 4 * GIB);
	CHECK_INT(value_of("ram=100%", OPTION_RAM), 16 * GIB);
	CHECK_INT(value_of("ram=1%", OPTION_RAM), 16 * GIB / 100);
	CHECK_INT(value_of("ram=8G,session_ram=50%", OPTION_SESSION_RAM), 4 * GIB);
	CHECK_INT(value_of("session_ram=50%,ram=8G", OPTION_SESSION_RAM), 4 * GIB);
	CHECK_INT(value_of("ssd=10%", OPTION_SSD), 1024 * GIB / 10);
	CHECK_INT(value_of("reserve=1%", OPTION_RESERVE), 1024 * GIB / 100);
	CHECK_INT(value_of("ssd=100G,write_budget=10%", OPTION_WRITE_BUDGET), 10 * GIB);
	CHECK_INT(value_of("ram=8G,backlog=25%", OPTION_BACKLOG), 2 * GIB);
	check_refused("ram=101%", "option ram=101%: expected");
	check_refused("ram=0%", "from 1M to 16G");
	check_refused("ram=%", "option ram=%: expected");
	check_refused("ram=18446744073709551615%", "percentage of this machine's memory");
	check_refused("session_ram=0%", "percentage of ram");
	check_refused("entries=5%", "option entries=5%: expected a whole number");
}

static void defaults_depend_on_the_machine(void)
{
	CHECK_INT(value_of("ro", OPTION_RAM), 4 * GIB);
	CHECK_INT(value_of("ro", OPTION_SESSION_RAM), 4 * GIB / 3 * 2 + 4 * GIB % 3 * 2 / 3);
	CHECK_INT(value_of("ram=3G", OPTION_SESSION_RAM), 2 * GIB);
	CHECK_INT(value_of("ro", OPTION_SSD), 100 * GIB);
	CHECK_INT(value_of("ro", OPTION_RESERVE), 10 * GIB);
	CHECK_INT(value_of("ro", OPTION_BACKLOG), 2 * GIB);
	CHECK_INT(value_of("ro", OPTION_WRITE_BUDGET), 128 * GIB);
	CHECK_INT(value_of("ro", OPTION_PIN_TTL), 600);
	CHECK_INT(value_of("ro", OPTION_SSD_MODE), BANK_SSD_ON);
	CHECK_INT(value_of("ro", OPTION_SETTLE), BANK_SETTLE_LAZY);
	CHECK_INT(options_ram_default(0), OPTIONS_RAM_MIN);
	CHECK_INT(options_ram_default(1000 * GIB), 250 * GIB);
	CHECK_INT(options_ssd_default(40 * GIB, 5 * GIB), 15 * GIB);
	CHECK_INT(options_ssd_default(4000 * GIB, 0), 100 * GIB);
	CHECK_INT(options_ssd_default(0, 0), 0);
	CHECK_INT(options_reserve_default(100 * GIB), 5 * GIB);
	CHECK_INT(options_reserve_default(200 * GIB), 10 * GIB);
	CHECK_INT(options_session_ram_default(5), 3);
	CHECK(options_session_ram_default(UINT64_MAX) < UINT64_MAX);
}

static void ram_and_session_ram_fit_together(void)
{
	CHECK_INT(value_of("ram=1M", OPTION_RAM), MIB);
	CHECK_INT(value_of("ram=1G,session_ram=1G", OPTION_SESSION_RAM), GIB);
	CHECK_INT(value_of("ram=1G,session_ram=100%", OPTION_SESSION_RAM), GIB);
	CHECK_INT(value_of("session_ram=4K", OPTION_SESSION_RAM), 4 * KIB);
	check_refused("ram=1048575", "from 1M to 16G");
	check_refused("ram=17179869185", "from 1M to 16G");
	check_refused("ram=1G,session_ram=1073741825", "option session_ram=1073741825: expected");
	check_refused("session_ram=2G,ram=1G", "to 1G (ram)");
	check_refused("session_ram=4095", "from 4K");
	check_refused("session_ram=0", "from 4K");
}

static void times_take_s_m_h_d(void)
{
	CHECK_INT(value_of("pin_ttl=90", OPTION_PIN_TTL), 90);
	CHECK_INT(value_of("pin_ttl=90s", OPTION_PIN_TTL), 90);
	CHECK_INT(value_of("pin_ttl=10m", OPTION_PIN_TTL), 600);
	CHECK_INT(value_of("idle_ttl=2h", OPTION_IDLE_TTL), 7200);
	CHECK_INT(value_of("idle_ttl=7d", OPTION_IDLE_TTL), 7 * 86400);
	CHECK_INT(value_of("idle_ttl=3650d", OPTION_IDLE_TTL), 3650ll * 86400);
	CHECK_INT(value_of("idle_ttl=0", OPTION_IDLE_TTL), 0);
	CHECK_INT(value_of("stall=1d", OPTION_STALL), 86400);
	CHECK_INT(value_of("pause=0s", OPTION_PAUSE), 0);
	check_refused("idle_ttl=3651d", "from 0 to 3650d");
	check_refused("stall=25h", "option stall=25h: expected a time");
	check_refused("pause=s", "option pause=s: expected a time in seconds or with s, m, h or d");
	check_refused("pause=", "option pause=: expected a time");
	check_refused("pause=5w", "option pause=5w: expected a time");
	check_refused("pause=-5", "option pause=-5: expected a time");
	check_refused("pin_ttl=18446744073709551615d", "expected a time");
	check_refused("pin_ttl=99999999999999999999", "expected a time");
}

/* Every option once with its least, a usual and its largest value, and with one beyond. */
static void counts_have_bounds(void)
{
	static const struct {
		const char *name;
		enum option_id id;
		uint64_t min, max;
	} counts[] = {
		{"entries", OPTION_ENTRIES, 0, UINT32_MAX},
		{"session_entries", OPTION_SESSION_ENTRIES, 0, UINT32_MAX},
		{"history", OPTION_HISTORY, 0, 1000000},
		{"block", OPTION_BLOCK, 1, 1 << 20},
		{"min_match", OPTION_MIN_MATCH, 0, INT32_MAX},
		{"gap", OPTION_GAP, 0, INT32_MAX},
		{"min_tokens", OPTION_MIN_TOKENS, 0, INT32_MAX},
	};
	char words[64];

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		snprintf(words, sizeof(words), "%s=%" PRIu64, counts[i].name, counts[i].min);
		CHECK_INT(value_of(words, counts[i].id), counts[i].min);
		snprintf(words, sizeof(words), "%s=%" PRIu64, counts[i].name, counts[i].max);
		CHECK_INT(value_of(words, counts[i].id), counts[i].max);
		snprintf(words, sizeof(words), "%s=%" PRIu64, counts[i].name, counts[i].max + 1);
		check_refused(words, words);
		check_refused(words, ": expected a whole number, from ");
		snprintf(words, sizeof(words), "%s=many", counts[i].name);
		check_refused(words, words);
		snprintf(words, sizeof(words), "%s=-1", counts[i].name);
		check_refused(words, words);
	}
	check_refused("block=0", "option block=0: expected a whole number, from 1 to 1048576");
}

static void words_are_as_listed(void)
{
	CHECK_INT(value_of("ssd_mode=off", OPTION_SSD_MODE), BANK_SSD_OFF);
	CHECK_INT(value_of("ssd_mode=write-only", OPTION_SSD_MODE), BANK_SSD_WRITE_ONLY);
	CHECK_INT(value_of("ssd_mode=on", OPTION_SSD_MODE), BANK_SSD_ON);
	CHECK_INT(value_of("settle=off", OPTION_SETTLE), BANK_SETTLE_OFF);
	CHECK_INT(value_of("settle=eager", OPTION_SETTLE), BANK_SETTLE_EAGER);
	CHECK_INT(value_of("protect_terminal=off", OPTION_PROTECT_TERMINAL), 0);
	CHECK_INT(value_of("shed_boundaries=on", OPTION_SHED_BOUNDARIES), 1);
	CHECK_INT(value_of("compress=lz4", OPTION_COMPRESS), COMPRESS_LZ4);
	CHECK_INT(value_of("compress=none", OPTION_COMPRESS), COMPRESS_NONE);
	CHECK_INT(value_of("verify=full", OPTION_VERIFY), VERIFY_FULL);
	CHECK_INT(value_of("dedupe=session", OPTION_DEDUPE), DEDUPE_SESSION);
	CHECK_INT(value_of("dedupe=global", OPTION_DEDUPE), DEDUPE_GLOBAL);
	CHECK_INT(value_of("names=given", OPTION_NAMES), NAMES_GIVEN);
	CHECK_INT(value_of("names=prefix", OPTION_NAMES), NAMES_PREFIX);
	CHECK_INT(value_of("passthrough=off", OPTION_PASSTHROUGH), PASSTHROUGH_OFF);
	check_refused("ssd_mode=no", "option ssd_mode=no: expected off, write-only or on");
	check_refused("settle=Lazy", "option settle=Lazy: expected off, lazy or eager");
	check_refused("protect_terminal=yes", "expected off or on");
	check_refused("shed_boundaries=1", "expected off or on");
	check_refused("compress=zstd", "expected auto, lz4 or none");
	check_refused("verify=", "expected read or full");
	check_refused("dedupe=user", "expected owner, session or global");
	check_refused("names=all", "expected both, given or prefix");
	check_refused("passthrough=on", "expected auto or off");
}

static void the_last_of_equal_options_wins(void)
{
	CHECK_INT(value_of("ram=1G,ram=2G", OPTION_RAM), 2 * GIB);
	CHECK_INT(value_of("ram=1G,ram=50%", OPTION_RAM), 8 * GIB);
}

static void unknown_options_are_named(void)
{
	check_refused("frobnicate", "unknown option frobnicate: expected");
	check_refused("frob=1", "unknown option frob=1: expected");
	check_refused("ramm=1G", "unknown option ramm=1G");
	check_refused("ra=1G", "unknown option ra=1G");
	check_refused("allow_root", "unknown option allow_root");
	options_free(parse("kvbankfs", "-z /s /m"));
	CHECK_INT(result, -EINVAL);
	CHECK(strstr(message, "unknown option -z"));
	check_refused("ram=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		      "aaa...: expected");
	check_refused("ram=\x1b[31m", "option ram=?[31m: expected");
}

static void arguments_are_counted(void)
{
	options_free(parse("kvbankfs", ""));
	CHECK(result == -EINVAL && strstr(message, "expected STORE and MOUNTPOINT"));
	options_free(parse("kvbankfs", "/s"));
	CHECK(result == -EINVAL && strstr(message, "expected STORE and MOUNTPOINT"));
	options_free(parse("kvbankfs", "/s /m /x"));
	CHECK(result == -EINVAL && strstr(message, "too many arguments"));
	options_free(parse("kvbankfs", "/s /m -o"));
	CHECK(result == -EINVAL && strstr(message, "expected a value"));
}

static void flags_and_paths_are_taken(void)
{
	struct options *o = parse("kvbankfs", "/s -f -o ram=1G /m -s");

	CHECK_INT(result, 0);
	CHECK_STR(o->store, "/s");
	CHECK_STR(o->mountpoint, "/m");
	CHECK(o->foreground && o->single_thread && !o->debug && o->action == OPTIONS_MOUNT);
	options_free(o);
	o = parse("kvbankfs", "-d /s /m");
	CHECK(o->debug && o->foreground);
	CHECK(strstr(o->fuse_options, "debug"));
	options_free(o);
	o = parse("kvbankfs", "-h");
	CHECK(!result && o->action == OPTIONS_HELP);
	options_free(o);
	o = parse("kvbankfs", "--version");
	CHECK(!result && o->action == OPTIONS_VERSION);
	options_free(o);
}

static void relative_paths_become_absolute(void)
{
	struct options *o;

	CHECK_INT(chdir("/usr"), 0);
	o = parse("kvbankfs", "store ../m");
	CHECK_STR(o->store, "/usr/store");
	CHECK_STR(o->mountpoint, "/usr/../m");
	options_free(o);
	CHECK_INT(chdir("/"), 0);
	o = parse("kvbankfs", "store m");
	CHECK_STR(o->store, "/store");
	options_free(o);
}

static void words_of_fstab_are_swallowed_or_passed_on(void)
{
	struct options *o =
		mount_with("rw,dev,nodev,suid,nosuid,exec,_netdev,nofail,auto,noauto,user,users,nouser,"
			   "owner,group,defaults,relatime,noatime,atime,x-systemd.automount,user=bob");

	CHECK_INT(result, 0);
	CHECK_STR(o->fuse_options, "fsname=/s,subtype=kvbankfs,default_permissions");
	options_free(o);
	o = mount_with("ro,noexec,allow_other,allow_other,default_permissions");
	CHECK_STR(o->fuse_options, "ro,noexec,allow_other,fsname=/s,subtype=kvbankfs,default_permissions");
	options_free(o);
	o = parse("kvbankfs", "-n -v -t fuse.kvbankfs /s,x /m");
	CHECK_STR(o->fuse_options, "fsname=/s\\,x,subtype=kvbankfs,default_permissions");
	options_free(o);
}

static void mount_helpers_have_other_flags(void)
{
	struct options *o = parse("/sbin/mount.fuse.kvbankfs", "/s /m -s -o rw");

	CHECK(!result && !o->single_thread && !o->foreground && o->action == OPTIONS_MOUNT);
	options_free(o);
	o = parse("mount.fuse.kvbankfs", "/s /m -f");
	CHECK(!result && o->action == OPTIONS_PRETEND);
	options_free(o);
}

static void the_bank_gets_its_part(void)
{
	struct options *o =
		mount_with("ram=2G,session_ram=1G,entries=7,session_entries=3,idle_ttl=5m,pin_ttl=1h,"
			   "settle=eager,ssd_mode=off");

	CHECK_INT(o->bank.ram_bytes, 2 * GIB);
	CHECK_INT(o->bank.session_ram_bytes, GIB);
	CHECK_INT(o->bank.entries_max, 7);
	CHECK_INT(o->bank.session_entries_max, 3);
	CHECK_INT(o->bank.idle_ttl_s, 300);
	CHECK_INT(o->bank.pin_ttl_s, 3600);
	CHECK_INT(o->bank.settle, BANK_SETTLE_EAGER);
	CHECK_INT(o->bank.ssd_mode, BANK_SSD_OFF);
	CHECK_INT(o->bank.root_mode, 0700);
	CHECK_INT(o->bank.root_uid, geteuid());
	options_free(o);
	o = mount_with("allow_other");
	CHECK_INT(o->bank.root_mode, 01777);
	options_free(o);
}

static void config_text_shows_every_value(void)
{
	struct options *o = mount_with("ram=6G,passthrough=off,settle=off");
	char text[OPTIONS_TEXT_CAP];
	size_t len = options_text(o, text, sizeof(text)), lines = 0;

	CHECK_INT(len, strlen(text));
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	CHECK_INT(lines, OPTION_COUNT);
	CHECK(!strncmp(text, "ram=6G\nsession_ram=4G\nentries=0\nsession_entries=0\nssd=100G # not yet\n",
		       66));
	CHECK(strstr(text, "\nssd_mode=on # not yet\n"));
	CHECK(strstr(text, "\nstall=30s # not yet\n"));
	CHECK(strstr(text, "\npin_ttl=600s\n"));
	CHECK(strstr(text, "\nidle_ttl=0\n"));
	CHECK(strstr(text, "\nprotect_terminal=on # not yet\n"));
	CHECK(strstr(text, "\nsettle=off\n"));
	CHECK(strstr(text, "\npassthrough=off\n"));
	options_free(o);
	o = mount_with("ssd_mode=off");
	options_text(o, text, sizeof(text));
	CHECK(strstr(text, "\nssd_mode=off\n"));
	options_free(o);
}

/* ---- changes while mounted ---- */

static struct bank_config applied;
static int apply_answer, applies;

static int apply(void *ctx, const struct bank_config *config)
{
	CHECK(ctx == &applied);
	applies++;
	if (!apply_answer)
		applied = *config;
	return apply_answer;
}

static struct options *mounted(const char *words)
{
	struct options *o = mount_with(words);

	CHECK_INT(result, 0);
	options_on_change(o, apply, &applied);
	apply_answer = applies = 0;
	return o;
}

static int change(struct options *o, const char *line)
{
	message[0] = 0;
	return options_change(o, line, message, sizeof(message));
}

static void changes_reach_the_bank(void)
{
	struct options *o = mounted("ram=6G");

	CHECK_INT(change(o, "ram=3G\n"), 0);
	CHECK_INT(options_get(o, OPTION_RAM), 3 * GIB);
	CHECK_INT(applied.ram_bytes, 3 * GIB);
	CHECK_INT(applied.session_ram_bytes, 2 * GIB);
	CHECK_INT(o->bank.ram_bytes, 3 * GIB);
	CHECK_INT(applied.root_mode, 0700);
	CHECK_INT(change(o, "  settle=off  "), 0);
	CHECK_INT(applied.settle, BANK_SETTLE_OFF);
	CHECK_INT(change(o, "pin_ttl=1h"), 0);
	CHECK_INT(applied.pin_ttl_s, 3600);
	CHECK_INT(change(o, "gap=3"), 0);
	CHECK_INT(options_get(o, OPTION_GAP), 3);
	options_free(o);
}

static void a_session_ram_that_was_said_stays(void)
{
	struct options *o = mounted("ram=6G,session_ram=2G");

	CHECK_INT(change(o, "ram=4G"), 0);
	CHECK_INT(applied.session_ram_bytes, 2 * GIB);
	CHECK_INT(change(o, "ram=1G"), -EINVAL);
	CHECK(strstr(message, "option session_ram=2G: expected"));
	CHECK(strstr(message, "to 1G (ram)"));
	CHECK_INT(options_get(o, OPTION_RAM), 4 * GIB);
	CHECK_INT(change(o, "session_ram=50%"), 0);
	CHECK_INT(change(o, "ram=1G"), 0);
	CHECK_INT(applied.session_ram_bytes, GIB / 2);
	options_free(o);
}

static void refused_changes_change_nothing(void)
{
	struct options *o = mounted("ram=6G");
	char before[OPTIONS_TEXT_CAP], after[OPTIONS_TEXT_CAP];

	options_text(o, before, sizeof(before));
	CHECK_INT(change(o, "ram=5K"), -EINVAL);
	CHECK(strstr(message, "option ram=5K: expected"));
	CHECK_INT(change(o, "ram"), -EINVAL);
	CHECK_INT(change(o, ""), -EINVAL);
	CHECK_INT(change(o, "=1"), -EINVAL);
	CHECK_INT(change(o, "nothing=1"), -EINVAL);
	CHECK(strstr(message, "unknown option nothing=1: expected name=value"));
	CHECK_INT(change(o, "ram=1G entries=5"), -EINVAL);
	CHECK_INT(change(o, "ram=1G\nentries=5"), -EINVAL);
	CHECK(!strchr(message, '\n'));
	CHECK_INT(change(o, "passthrough=off"), -EPERM);
	CHECK(strstr(message, "option passthrough: cannot change while mounted"));
	CHECK_INT(change(o, "ssd_mode=off"), -EPERM);
	CHECK_INT(change(o, "block=128"), -EPERM);
	CHECK_INT(change(o, "dedupe=global"), -EPERM);
	CHECK_INT(applies, 0);
	apply_answer = -EBUSY;
	CHECK_INT(change(o, "ram=1M"), -EBUSY);
	CHECK(strstr(message, "option ram=1M: expected no less than what is held"));
	CHECK_INT(applies, 1);
	options_text(o, after, sizeof(after));
	CHECK_STR(after, before);
	options_free(o);
}

static void help_names_every_option(void)
{
	char text[8192];
	size_t len = options_help(text, sizeof(text));

	CHECK_INT(len, strlen(text));
	CHECK(len < sizeof(text) - 512);
	CHECK(strstr(text, "session_entries"));
	CHECK(strstr(text, "passthrough"));
	CHECK(strstr(text, "Exit status"));
}

int main(void)
{
	RUN("sizes take units of 1024 and nothing else", sizes_take_units_of_1024);
	RUN("percentages follow what they are of", percentages_follow_what_they_are_of);
	RUN("defaults depend on the machine", defaults_depend_on_the_machine);
	RUN("ram and session_ram must fit together", ram_and_session_ram_fit_together);
	RUN("times take s, m, h and d", times_take_s_m_h_d);
	RUN("counts have bounds", counts_have_bounds);
	RUN("words are as listed", words_are_as_listed);
	RUN("the last of equal options wins", the_last_of_equal_options_wins);
	RUN("unknown options are named in one line", unknown_options_are_named);
	RUN("arguments are counted", arguments_are_counted);
	RUN("flags and paths are taken in any order", flags_and_paths_are_taken);
	RUN("relative paths become absolute", relative_paths_become_absolute);
	RUN("words of fstab are swallowed or passed on", words_of_fstab_are_swallowed_or_passed_on);
	RUN("a mount helper has other flags", mount_helpers_have_other_flags);
	RUN("the bank gets its part", the_bank_gets_its_part);
	RUN("config text shows every value", config_text_shows_every_value);
	RUN("changes reach the bank", changes_reach_the_bank);
	RUN("a session_ram that was said stays when ram changes", a_session_ram_that_was_said_stays);
	RUN("refused changes change nothing", refused_changes_change_nothing);
	RUN("help names every option", help_names_every_option);
	UNIT_END();
}
