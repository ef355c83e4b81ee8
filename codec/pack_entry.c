/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pack_entry.c - entry records to bytes and back; the format is in pack.h.
 *
 * One function, entry_check, says what an entry may be. The writer's caller is told -EINVAL by it, a reader
 * -EBADMSG: what was written can always be read. Counts are compared with the bytes that are left before
 * anything is allocated for them.
 * Easy to forget: names come back as paths one day, so "..", "." and "/" must not pass either way. */
#include "codec/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "codec/pack_record.h"

enum { FIXED_BYTES = 144, NAME_BYTES_MIN = 3, XATTR_BYTES_MIN = 7, SEGMENT_BYTES = 16, TIMES = 4 };

#define FLAG_DIGEST 1u

static bool name_good(const struct pack_bytes *name)
{
	const char *text = name->bytes;

	if (!name->len || name->len > PACK_NAME_MAX || memchr(text, 0, name->len) ||
	    memchr(text, '/', name->len))
		return false;
	return !(name->len == 1 && text[0] == '.') && !(name->len == 2 && text[0] == '.' && text[1] == '.');
}

static bool names_good(const struct pack_entry *entry)
{
	if (entry->n_names > PACK_NAMES_MAX || (!entry->n_names && S_ISREG(entry->mode)))
		return false;
	for (size_t i = 0; i < entry->n_names; i++)
		if (!name_good(&entry->names[i]))
			return false;
	return true;
}

static bool xattrs_good(const struct pack_entry *entry)
{
	size_t left = PACK_XATTRS_MAX;

	for (size_t i = 0; i < entry->n_xattrs; i++) {
		const struct pack_xattr *x = &entry->xattrs[i];

		if (!x->name.len || x->name.len > PACK_NAME_MAX || memchr(x->name.bytes, 0, x->name.len))
			return false;
		if (x->name.len > left || x->value.len > left - x->name.len)
			return false;
		left -= x->name.len + x->value.len;
	}
	return true;
}

static bool segments_good(const struct pack_entry *entry)
{
	uint64_t left = PACK_BLOCKS_MAX;

	if (entry->n_segments > PACK_SEGMENTS_MAX || (entry->n_segments && !S_ISREG(entry->mode)))
		return false;
	for (size_t i = 0; i < entry->n_segments; i++) {
		const struct pack_segment *s = &entry->segments[i];

		if (!s->count || s->count > left || s->first > PACK_BLOCKS_MAX)
			return false;
		if (s->parent == entry->version || (!s->parent && s->first))
			return false;
		left -= s->count;
	}
	return true;
}

static bool times_good(const struct pack_entry *entry)
{
	const struct timespec *times[TIMES] = {&entry->created, &entry->modified, &entry->changed,
					       &entry->accessed};

	for (size_t i = 0; i < TIMES; i++)
		if (times[i]->tv_nsec < 0 || times[i]->tv_nsec >= 1000000000)
			return false;
	return true;
}

static bool entry_check(const struct pack_entry *entry)
{
	if (!entry->version || entry->part_of == entry->version)
		return false;
	if ((!S_ISREG(entry->mode) && !S_ISDIR(entry->mode)) || (entry->mode & ~(S_IFMT | 07777u)))
		return false;
	if (!entry->digest_known && !pack_all_zero(entry->digest, DIGEST_LEN))
		return false;
	return names_good(entry) && xattrs_good(entry) && segments_good(entry) && times_good(entry);
}

uint64_t pack_entry_blocks(const struct pack_entry *entry)
{
	uint64_t count = 0;

	for (size_t i = 0; i < entry->n_segments; i++)
		count += entry->segments[i].count;
	return count;
}

/* --- to bytes --- */

/* Of a checked entry: cannot overflow, its parts are bounded. */
static uint64_t entry_len(const struct pack_entry *entry)
{
	uint64_t len = FIXED_BYTES + (uint64_t)entry->map.len;

	for (size_t i = 0; i < entry->n_names; i++)
		len += 2 + entry->names[i].len;
	for (size_t i = 0; i < entry->n_xattrs; i++)
		len += 6 + entry->xattrs[i].name.len + entry->xattrs[i].value.len;
	for (size_t i = 0; i < entry->n_segments; i++)
		len += SEGMENT_BYTES +
		       (entry->segments[i].parent ? 0 : (uint64_t)entry->segments[i].count * DIGEST_LEN);
	return len;
}

static uint8_t *put_bytes(uint8_t *to, const void *bytes, size_t len)
{
	if (len)
		memcpy(to, bytes, len);
	return to + len;
}

static uint8_t *put_time(uint8_t *to, const struct timespec *time)
{
	pack_put_u64(to, (uint64_t)time->tv_sec);
	pack_put_u32(to + 8, (uint32_t)time->tv_nsec);
	return to + 12;
}

static uint8_t *put_fixed(uint8_t *to, const struct pack_entry *entry)
{
	uint8_t *at = to + 64;

	pack_put_u64(to, entry->version);
	pack_put_u64(to + 8, entry->part_of);
	pack_put_u64(to + 16, entry->size_bytes);
	pack_put_u32(to + 24, entry->uid);
	pack_put_u32(to + 28, entry->gid);
	pack_put_u32(to + 32, entry->mode);
	pack_put_u32(to + 36, entry->layout);
	pack_put_u32(to + 40, entry->digest_known ? FLAG_DIGEST : 0);
	pack_put_u32(to + 44, (uint32_t)entry->n_names);
	pack_put_u32(to + 48, (uint32_t)entry->n_xattrs);
	pack_put_u32(to + 52, (uint32_t)entry->n_segments);
	pack_put_u32(to + 56, (uint32_t)entry->map.len);
	pack_put_u32(to + 60, 0);
	at = put_time(at, &entry->created);
	at = put_time(at, &entry->modified);
	at = put_time(at, &entry->changed);
	at = put_time(at, &entry->accessed);
	return put_bytes(at, entry->digest, DIGEST_LEN);
}

static uint8_t *put_xattr(uint8_t *to, const struct pack_xattr *xattr)
{
	pack_put_u16(to, (uint16_t)xattr->name.len);
	pack_put_u32(to + 2, (uint32_t)xattr->value.len);
	to = put_bytes(to + 6, xattr->name.bytes, xattr->name.len);
	return put_bytes(to, xattr->value.bytes, xattr->value.len);
}

static uint8_t *put_segment(uint8_t *to, const struct pack_segment *segment)
{
	pack_put_u64(to, segment->parent);
	pack_put_u32(to + 8, segment->first);
	pack_put_u32(to + 12, segment->count);
	to += SEGMENT_BYTES;
	return segment->parent ? to : put_bytes(to, segment->names, (size_t)segment->count * DIGEST_LEN);
}

int pack_entry_bytes(const struct pack_entry *entry, uint8_t **out, size_t *len)
{
	uint8_t *bytes, *at;
	uint64_t need;

	if (!entry_check(entry))
		return -EINVAL;
	if (entry->map.len > PACK_ENTRY_MAX)
		return -EFBIG;
	need = entry_len(entry);
	if (need > PACK_ENTRY_MAX)
		return -EFBIG;
	bytes = malloc((size_t)need);
	if (!bytes)
		return -ENOMEM;
	at = put_fixed(bytes, entry);
	for (size_t i = 0; i < entry->n_names; i++) {
		pack_put_u16(at, (uint16_t)entry->names[i].len);
		at = put_bytes(at + 2, entry->names[i].bytes, entry->names[i].len);
	}
	for (size_t i = 0; i < entry->n_xattrs; i++)
		at = put_xattr(at, &entry->xattrs[i]);
	for (size_t i = 0; i < entry->n_segments; i++)
		at = put_segment(at, &entry->segments[i]);
	put_bytes(at, entry->map.bytes, entry->map.len);
	*out = bytes;
	*len = (size_t)need;
	return 0;
}

/* --- from bytes --- */

/* A place in the record; NULL once something was not there. */
struct cursor {
	const uint8_t *at;
	size_t left;
};

/* The next len bytes, or NULL, from then on always. */
static const uint8_t *take(struct cursor *c, size_t len)
{
	const uint8_t *bytes = c->at;

	if (!bytes || len > c->left) {
		c->at = NULL;
		c->left = 0;
		return NULL;
	}
	c->at += len;
	c->left -= len;
	return bytes;
}

static struct timespec get_time(const uint8_t *from)
{
	struct timespec time = {.tv_sec = (time_t)bytes_get_u64(from), .tv_nsec = bytes_get_u32(from + 8)};

	return time;
}

static void get_fixed(const uint8_t *from, struct pack_entry *entry)
{
	entry->version = bytes_get_u64(from);
	entry->part_of = bytes_get_u64(from + 8);
	entry->size_bytes = bytes_get_u64(from + 16);
	entry->uid = bytes_get_u32(from + 24);
	entry->gid = bytes_get_u32(from + 28);
	entry->mode = bytes_get_u32(from + 32);
	entry->layout = bytes_get_u32(from + 36);
	entry->digest_known = bytes_get_u32(from + 40) == FLAG_DIGEST;
	entry->n_names = bytes_get_u32(from + 44);
	entry->n_xattrs = bytes_get_u32(from + 48);
	entry->n_segments = bytes_get_u32(from + 52);
	entry->map.len = bytes_get_u32(from + 56);
	entry->created = get_time(from + 64);
	entry->modified = get_time(from + 76);
	entry->changed = get_time(from + 88);
	entry->accessed = get_time(from + 100);
	memcpy(entry->digest, from + 112, DIGEST_LEN);
}

/* Counts that the bytes left can hold and that stay inside the limits; before anything is allocated. */
static bool counts_good(const struct pack_entry *entry, const uint8_t *fixed, size_t left)
{
	if (bytes_get_u32(fixed + 40) > FLAG_DIGEST || bytes_get_u32(fixed + 60))
		return false;
	if (entry->n_names > PACK_NAMES_MAX || entry->n_names > left / NAME_BYTES_MIN)
		return false;
	if (entry->n_xattrs > PACK_XATTRS_MAX || entry->n_xattrs > left / XATTR_BYTES_MIN)
		return false;
	return entry->n_segments <= PACK_SEGMENTS_MAX && entry->n_segments <= left / SEGMENT_BYTES;
}

static void get_names(struct cursor *c, struct pack_bytes *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint8_t *head = take(c, 2);

		names[i].len = head ? (size_t)(head[0] | head[1] << 8) : 0;
		names[i].bytes = take(c, names[i].len);
	}
}

static void get_xattrs(struct cursor *c, struct pack_xattr *xattrs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint8_t *head = take(c, 6);

		xattrs[i].name.len = head ? (size_t)(head[0] | head[1] << 8) : 0;
		xattrs[i].value.len = head ? bytes_get_u32(head + 2) : 0;
		xattrs[i].name.bytes = take(c, xattrs[i].name.len);
		xattrs[i].value.bytes = take(c, xattrs[i].value.len);
	}
}

static void get_segments(struct cursor *c, struct pack_segment *segments, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint8_t *head = take(c, SEGMENT_BYTES);

		if (!head)
			return;
		segments[i].parent = bytes_get_u64(head);
		segments[i].first = bytes_get_u32(head + 8);
		segments[i].count = bytes_get_u32(head + 12);
		if (!segments[i].parent)
			segments[i].names = take(c, (uint64_t)segments[i].count * DIGEST_LEN);
	}
}

/* One allocation: the entry, then its three arrays. */
static struct pack_entry *entry_new(const struct pack_entry *counts)
{
	size_t names = counts->n_names * sizeof(struct pack_bytes),
	       xattrs = counts->n_xattrs * sizeof(struct pack_xattr);
	size_t segments = counts->n_segments * sizeof(struct pack_segment);
	uint8_t *memory = calloc(1, sizeof(*counts) + names + xattrs + segments);
	struct pack_entry *entry = (struct pack_entry *)(void *)memory;

	if (!entry)
		return NULL;
	*entry = *counts;
	entry->names = (void *)(memory + sizeof(*counts));
	entry->xattrs = (void *)(memory + sizeof(*counts) + names);
	entry->segments = (void *)(memory + sizeof(*counts) + names + xattrs);
	return entry;
}

int pack_entry_parse(const void *raw, size_t len, struct pack_entry **out)
{
	struct cursor c = {.at = raw, .left = len};
	const uint8_t *fixed = take(&c, FIXED_BYTES);
	struct pack_entry counts = {0}, *entry;

	if (!fixed || len > PACK_ENTRY_MAX)
		return -EBADMSG;
	get_fixed(fixed, &counts);
	if (!counts_good(&counts, fixed, c.left))
		return -EBADMSG;
	entry = entry_new(&counts);
	if (!entry)
		return -ENOMEM;
	get_names(&c, (struct pack_bytes *)entry->names, entry->n_names);
	get_xattrs(&c, (struct pack_xattr *)entry->xattrs, entry->n_xattrs);
	get_segments(&c, (struct pack_segment *)entry->segments, entry->n_segments);
	entry->map.bytes = take(&c, entry->map.len);
	if (!c.at || c.left || !entry_check(entry)) {
		pack_entry_free(entry);
		return -EBADMSG;
	}
	*out = entry;
	return 0;
}

void pack_entry_free(struct pack_entry *entry)
{
	free(entry);
}
