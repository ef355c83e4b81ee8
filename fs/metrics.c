/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics.c - one table of figures, shown in two ways.
 *
 * A figure is a whole number of struct view at some offset: a new counter of the bank is one row more.
 * Those of the SSD tier and of lookup are there from the start, as 0, because scripts rely on the keys.
 * Easy to forget: a gauge may fall, a counter never; Prometheus takes a falling counter for a restart. */
#include "fs/metrics.h"

#include <stddef.h>

#include "fs/fs.h"
#include "fs/text.h"

struct view {
	struct bank_counters bank;
	uint64_t passthrough;
	uint64_t none; /* what no part of this version counts */
};

enum figure_kind { GAUGE, COUNTER };

struct figure {
	const char *key;
	enum figure_kind kind;
	size_t at; /* offset in struct view */
	const char *help;
};

#define BANK(member) offsetof(struct view, bank.member)
#define NONE	     offsetof(struct view, none)

static const struct figure figures[] = {
	{"entries", GAUGE, BANK(entries), "Entries in the bank"},
	{"sessions", GAUGE, BANK(sessions), "Sessions in the bank"},
	{"passthrough", GAUGE, offsetof(struct view, passthrough), "1 when reads bypass the daemon"},
	{"ram_bytes", GAUGE, BANK(ram_bytes), "Bytes held in RAM"},
	{"ram_max", GAUGE, BANK(ram_max), "Cap of the RAM tier in bytes"},
	{"ssd_bytes", GAUGE, NONE, "Bytes on SSD"},
	{"ssd_max", GAUGE, NONE, "Cap of the SSD tier in bytes"},
	{"entries_durable", GAUGE, BANK(entries_durable), "Entries that are on SSD and synced"},
	{"entries_pending", GAUGE, BANK(entries_pending), "Entries on their way to SSD"},
	{"backlog_bytes", GAUGE, NONE, "Bytes committed and not yet durable"},
	{"backlog_max", GAUGE, NONE, "Backlog at which writers are slowed, in bytes"},
	{"write_budget_used", GAUGE, NONE, "Bytes written to SSD in the last hour"},
	{"write_budget_max", GAUGE, NONE, "Bytes that may be written to SSD in an hour"},
	{"put_entries", COUNTER, BANK(put_entries), "Versions committed"},
	{"put_bytes", COUNTER, BANK(put_bytes), "Bytes of the versions committed"},
	{"written_bytes", COUNTER, BANK(written_bytes), "Bytes that writers wrote"},
	{"deduped_bytes", COUNTER, NONE, "Bytes found stored already"},
	{"restored_entries", COUNTER, NONE, "Entries brought back from SSD"},
	{"restored_bytes", COUNTER, NONE, "Bytes brought back from SSD"},
	{"evicted_entries", COUNTER, BANK(evicted_entries), "Entries gone for lack of room"},
	{"evicted_bytes", COUNTER, BANK(evicted_bytes), "Bytes of entries gone for lack of room"},
	{"dropped_entries", COUNTER, BANK(dropped_entries), "Entries and stages gone for another reason"},
	{"ram_released_entries", COUNTER, NONE, "RAM copies of durable entries given up"},
	{"ram_released_bytes", COUNTER, NONE, "Bytes of RAM copies given up"},
	{"refused_entries", COUNTER, BANK(refused_entries), "Puts refused"},
	{"quarantined_entries", COUNTER, NONE, "Entries that did not verify"},
	{"shed_boundaries", COUNTER, NONE, "Boundaries given up to keep their entry"},
	{"lookup_hits", COUNTER, NONE, "Lookups with a candidate"},
	{"lookup_misses", COUNTER, NONE, "Lookups without one"},
	{"stages", GAUGE, BANK(stages), "Stages: files being written"},
	{"overlay_entries", GAUGE, BANK(overlay_entries), "Versions kept as changes over another"},
	{"zombie_bytes", GAUGE, BANK(zombie_bytes), "Bytes unlinked or replaced, but still mapped or open"},
	{"hit_entries", COUNTER, BANK(hit_entries), "Opens for reading that found the entry"},
	{"hit_bytes", COUNTER, BANK(hit_bytes), "Bytes of the entries opened for reading"},
	{"miss_entries", COUNTER, BANK(miss_entries), "Names asked for that were not there"},
	{"settled_entries", COUNTER, BANK(settled_entries), "Versions sealed and hashed"},
	{"settle_queue_entries", GAUGE, BANK(settle_queue_entries), "Versions that wait for their hash"},
};

#define FIGURES (sizeof(figures) / sizeof(figures[0]))

static void look(struct fs *fs, struct view *out)
{
	bank_counters(fs->bank, &out->bank);
	out->passthrough = fs->passthrough;
	out->none = 0;
}

static unsigned long long figure_value(const struct view *view, const struct figure *figure)
{
	return *(const uint64_t *)((const char *)view + figure->at);
}

static const char *tier_name(struct fs *fs)
{
	return bank_tier(fs->bank) == BANK_TIER_TMPFS ? "tmpfs" : "memfd";
}

void metrics_stats(struct fs *fs, struct text *out)
{
	struct view view;

	look(fs, &view);
	for (size_t i = 0; i < FIGURES; i++)
		text_add(out, "%s %llu\n", figures[i].key, figure_value(&view, &figures[i]));
	text_add(out, "store off\n"); /* nothing is persisted yet */
	text_add(out, "ram_tier %s\n", tier_name(fs));
	text_add(out, "version %s\n", KVBANK_VERSION);
}

static void add_metric(struct text *out, const struct view *view, const struct figure *figure)
{
	bool counter = figure->kind == COUNTER;
	const char *end = counter ? "_total" : "";

	text_add(out, "# HELP kvbank_%s%s %s\n", figure->key, end, figure->help);
	text_add(out, "# TYPE kvbank_%s%s %s\n", figure->key, end, counter ? "counter" : "gauge");
	text_add(out, "kvbank_%s%s %llu\n", figure->key, end, figure_value(view, figure));
}

/* Words become labels: the state that holds has the value 1. */
static void add_words(struct fs *fs, struct text *out)
{
	text_add(out, "# HELP kvbank_store State of the SSD tier, 1 for the one that holds\n"
		      "# TYPE kvbank_store gauge\n"
		      "kvbank_store{state=\"ok\"} 0\n"
		      "kvbank_store{state=\"degraded\"} 0\n"
		      "kvbank_store{state=\"off\"} 1\n");
	text_add(out, "# HELP kvbank_build_info Version and kind of RAM tier, always 1\n"
		      "# TYPE kvbank_build_info gauge\n");
	text_add(out, "kvbank_build_info{version=\"%s\",ram_tier=\"%s\"} 1\n", KVBANK_VERSION, tier_name(fs));
}

void metrics_prometheus(struct fs *fs, struct text *out)
{
	struct view view;

	look(fs, &view);
	for (size_t i = 0; i < FIGURES; i++)
		add_metric(out, &view, &figures[i]);
	add_words(fs, out);
}
