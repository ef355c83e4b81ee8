/* SPDX-License-Identifier: GPL-2.0-or-later */
/* event.h - the last thousands of events as lines in a ring of bytes.
 *
 * Offsets count every byte ever written, so a reader knows what it has seen. Own lock, a leaf:
 * may be called with any other lock held.
 */
#ifndef KV_BANK_EVENT_H
#define KV_BANK_EVENT_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct events;

struct events *events_new(void); /* NULL: no memory */
void events_free(struct events *e);
/* Adds "TIME EVENT reason=R bytes=N path=P". path is escaped already; reason "-" for none. */
void events_add(struct events *e, const char *event, const char *reason, uint64_t bytes, const char *path);
/* Copies whole or part lines from *off, which is moved up to the oldest line kept when it is earlier. */
size_t events_read(struct events *e, uint64_t *off, char *buf, size_t cap);
uint64_t events_end(struct events *e, struct timespec *last);

#endif
