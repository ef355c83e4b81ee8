/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics.h - the bank's counters as text, for people and scripts and for Prometheus.
 * Both calls take one consistent set of counters, add whole lines to `out`, touch no disk, wait for
 * nothing and may be made from any thread. METRICS_CAP bytes hold either text. */
#ifndef KV_FS_METRICS_H
#define KV_FS_METRICS_H

struct fs;
struct text;

#define METRICS_CAP 32768u

/* `key value` lines; the keys of the contract first, in its order. */
void metrics_stats(struct fs *fs, struct text *out);
/* The same in the Prometheus text format, names behind kvbank_, counters ending in _total. */
void metrics_prometheus(struct fs *fs, struct text *out);

#endif
