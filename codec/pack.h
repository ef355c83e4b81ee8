/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pack.h - the bytes of a pack, packs/ab/<name>.kvp: blocks and entry records, each once, for ever.
 *
 * A pack is written once and never changed, except that the range of a record nobody needs any more is
 * punched out (reads as zeros). It is read in three ways: one block at an offset that the manifest knows
 * (pack_block_read, pack_block_open); all of it by its index (pack_index_read); record by record when the
 * index is lost or doubted (pack_scan). Nothing in it is trusted: not lengths, not counts, not offsets.
 *
 * FORMAT, version 1. Numbers are little-endian, not signed unless said. Reserved bytes and padding are 0.
 *
 *	head | record, record, ... | index record | tail		each begins at a multiple of 8
 *
 * head, 64 bytes			tail, the last 64 bytes of the file
 *	0  8  "KVBPACK\n"			0  8  "KVBTAIL\n"
 *	8  u32 version, 1			8  u32 version, 1
 *	12 u32 0				12 u32 0
 *	16 u64 salt				16 u64 salt
 *	24 32 bytes 0				24 u64 offset of the index record
 *						32 u64 size of the whole file, tail included
 *						40 16 bytes 0
 *	56 u64 checksum of bytes 0-55		56 u64 checksum of bytes 0-55
 *
 * record: a header of 80 bytes, the stored bytes, 0 to 7 bytes of padding. Its *span* is all three.
 *	0  4   "KVRC"
 *	4  u8  version, 1
 *	5  u8  kind: 1 block, 2 entry, 3 index
 *	6  u8  method		)
 *	7  u8  0		)
 *	8  u16 element_bytes	) the form, see encode.h; entries and the index are raw (0, 1, 1)
 *	10 u16 0		)
 *	12 u32 row_elements	)
 *	16 u32 raw length, at least 1
 *	20 u32 stored length
 *	24 u64 salt
 *	32 32  SHA-256 of the raw bytes: a block's name
 *	64 u64 checksum of the stored bytes
 *	72 u64 checksum of bytes 0-71
 *
 * index: for each record before it, in the order of the file, 88 bytes: u64 offset, and the record's header
 * once more. So a damaged or punched header can still be read, and the records are known to touch each other.
 *
 * entry: everything needed to put an entry back under its name when the manifest is lost.
 *	0   u64 version id of the bank, not 0; a greater one is newer
 *	8   u64 version id of the entry that this is a part of, 0 none
 *	16  u64 size of the file
 *	24  u32 uid, u32 gid
 *	32  u32 st_mode: a regular file, or a directory (a session, without blocks)
 *	36  u32 layout kind (layout.h)
 *	40  u32 flags: 1 = the file's SHA-256 is known
 *	44  u32 number of names, u32 of attributes, u32 of segments
 *	56  u32 length of the map
 *	60  u32 0
 *	64  4 x (i64 seconds, u32 nanoseconds): created, modified, changed, accessed
 *	112 32  SHA-256 of the file, or 0
 *	144 names: u16 length, bytes. The path from the root; raw bytes without '/' and NUL, never "." or ".."
 *	    attributes: u16 length of the name, u32 length of the value, name, value
 *	    segments: u64 parent, u32 first, u32 count; with parent 0 then count x 32 bytes, names of blocks
 *	    map: bytes of the bank's own that say where in the file the blocks' bytes lie; may be empty
 * The block list is the segments one after the other: names written out, or `count` names of the list of
 * version `parent` beginning with number `first`. Whole = one segment of names; a grown chat = one segment of
 * the parent and one of names.
 *
 * Checksums are XXH3-64 (checksum.h). The *salt* is 64 random bits, another for each pack, told to nobody: a
 * scan that has lost its place accepts only records with this pack's salt, or a client could store bytes
 * that look like an entry of somebody else and wait for damage.
 *
 * The *name* of a pack is the SHA-256 over its head, the header of its index record and its tail, 208 bytes.
 * That is enough: the index's header holds the SHA-256 of the index, which holds every record's header, which
 * holds the SHA-256 of that record. So no block is hashed a second time, and the name can be checked when
 * records are punched.
 *
 * Later versions keep: the first 16 bytes and the checksum of head and tail, and of a record header its
 * length, bytes 0-4, the salt and the checksum. So a newer pack is told from a damaged one, and refused.
 *
 * Errors that calls here have in common: -EBADMSG damaged; -ENODATA punched out; -EPROTONOSUPPORT written by
 * a newer version (or with a method that this build lacks); -ENOMEM; -EIO (libcrypto); and whatever the
 * source or the sink gives. Calls allocate only what they have checked against the limits below and against
 * the size of the file. No locks, no globals; one object belongs to one thread at a time. */
#ifndef KV_CODEC_PACK_H
#define KV_CODEC_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "codec/bytes.h"
#include "codec/digest.h"
#include "codec/encode.h"

#define PACK_VERSION	  1u
#define PACK_HEAD_BYTES	  64u
#define PACK_HEADER_BYTES 80u
#define PACK_TAIL_BYTES	  64u
#define PACK_PLACE_BYTES  88u	      /* in the index, for each record */
#define PACK_RECORDS_MAX  (1u << 18)  /* in one pack */
#define PACK_ENTRY_MAX	  (64u << 20) /* bytes of an entry record: two million block names */
#define PACK_SIZE_MAX	  (UINT64_C(1) << 40)
#define PACK_NAME_MAX	  255u
#define PACK_NAMES_MAX	  4096u	       /* names in a path */
#define PACK_XATTRS_MAX	  (256u << 10) /* bytes of names and values of one entry */
#define PACK_SEGMENTS_MAX (1u << 18)
#define PACK_BLOCKS_MAX	  (1u << 26) /* in the block list of one entry, the parents' included */

enum pack_kind { PACK_BLOCK = 1, PACK_ENTRY = 2, PACK_INDEX = 3 };

/* What a record's header says. */
struct pack_record {
	enum pack_kind kind;
	struct encode_form form;
	uint32_t raw_len;
	uint32_t stored_len;
	uint64_t salt;
	uint64_t checksum; /* of the stored bytes */
	uint8_t digest[DIGEST_LEN];
};

/* Bytes from the record's offset to the next record's: what to punch out, and what to charge. Punching frees
 * whole file-system blocks only, so punch a record together with the holes beside it. */
uint64_t pack_span(const struct pack_record *record);

/* --- one block ------------------------------------------------------------------------------- */

/* Reads and checks the header at `offset`, any kind. The record is known to lie inside the file. */
int pack_header_read(const struct source *source, uint64_t offset, struct pack_record *out);

/* Reads the record's stored bytes (stored_len of them) into `stored` and compares the checksum. */
int pack_stored_read(const struct source *source, uint64_t offset, const struct pack_record *record,
		     void *stored);

/* Both, for the block `name`: another block there is -EBADMSG. -ENOSPC when it has more than cap bytes. */
int pack_block_read(const struct source *source, uint64_t offset, const uint8_t name[DIGEST_LEN],
		    void *stored, size_t cap, struct pack_record *out);

/* The same for a span that is in memory already: one pread of what the manifest says a block takes. `len` may
 * leave the padding out. *stored is borrowed from bytes. */
int pack_block_open(const void *bytes, size_t len, const uint8_t name[DIGEST_LEN], struct pack_record *out,
		    const void **stored);

/* Decodes verified stored bytes into raw, raw_len of them; work as encode_load wants it. With `full` the raw
 * bytes' SHA-256 is compared with the name as well. On failure raw is worthless. */
int pack_block_load(const struct pack_record *record, const void *stored, void *raw, void *work, bool full);

/* --- the index ------------------------------------------------------------------------------- */

struct pack_place {
	uint64_t offset;
	struct pack_record record; /* a block or an entry, never the index */
};

struct pack_index {
	uint8_t name[DIGEST_LEN]; /* what this pack must be called; compare it with the file's name */
	uint64_t salt;
	uint64_t size_bytes;
	size_t n_places;
	struct pack_place *places; /* in the order of the file, each beginning where the last one ends */
};

/* Reads head, tail and index; no other record. Owned by the caller, freed with pack_index_free. -EBADMSG: use
 * pack_scan. The records themselves may still be damaged or punched. */
int pack_index_read(const struct source *source, struct pack_index **out);
/* NULL is fine. */
void pack_index_free(struct pack_index *index);

/* --- the scan -------------------------------------------------------------------------------- */

enum pack_state {
	PACK_SOUND,   /* header and stored bytes match their checksums */
	PACK_PUNCHED, /* the header is whole, the stored bytes are zeros */
	PACK_DAMAGED, /* the header is whole, the stored bytes are not, or end with the file */
	PACK_HOLE,    /* zeros where a record should begin; no record */
	PACK_JUNK,    /* bytes that are no record: damage; no record */
};

struct pack_found {
	enum pack_state state;
	uint64_t offset;
	uint64_t len; /* bytes of the file that this is about */
	struct pack_record record;
	const void *stored; /* PACK_SOUND: its stored bytes, borrowed until visit returns. Else NULL */
};

/* Anything but 0 ends the scan and is what pack_scan returns. */
typedef int pack_found_fn(void *ctx, const struct pack_found *found);

/* Walks the file from the first record to the end without the index, and tells `visit` of all of it, every
 * byte after the head in exactly one range except a tail in its place. After damage it goes on at the next
 * record of this pack. A sound pack gives nothing but sound records, the index last. Memory: the largest
 * record. -EBADMSG only when head, tail and first record are all lost: nothing can be trusted then. */
int pack_scan(const struct source *source, pack_found_fn *visit, void *ctx);

/* --- entry records --------------------------------------------------------------------------- */

struct pack_bytes {
	const void *bytes;
	size_t len;
};

struct pack_xattr {
	struct pack_bytes name;
	struct pack_bytes value;
};

struct pack_segment {
	uint64_t parent;      /* version id; 0 = names are written out */
	uint32_t first;	      /* with a parent: number of its first block taken, else 0 */
	uint32_t count;	      /* at least 1 */
	const uint8_t *names; /* without a parent: count x DIGEST_LEN bytes */
};

/* Pointers are borrowed: from the caller for pack_writer_entry, from `raw` after pack_entry_parse. */
struct pack_entry {
	uint64_t version;
	uint64_t part_of;
	uint64_t size_bytes;
	uint32_t uid;
	uint32_t gid;
	uint32_t mode;
	uint32_t layout;
	struct timespec created;
	struct timespec modified;
	struct timespec changed;
	struct timespec accessed;
	bool digest_known;
	uint8_t digest[DIGEST_LEN]; /* of the whole file */
	size_t n_names;
	const struct pack_bytes *names;
	size_t n_xattrs;
	const struct pack_xattr *xattrs;
	size_t n_segments;
	const struct pack_segment *segments;
	struct pack_bytes map;
};

/* Reads an entry record's bytes. Everything is checked, names above all: they may become paths. *out is owned
 * by the caller (pack_entry_free) and points into raw, which must outlive it. -EBADMSG, -ENOMEM. */
int pack_entry_parse(const void *raw, size_t len, struct pack_entry **out);
/* NULL is fine. */
void pack_entry_free(struct pack_entry *entry);
/* Blocks in the list, the parents' included. */
uint64_t pack_entry_blocks(const struct pack_entry *entry);

/* --- writing --------------------------------------------------------------------------------- */

/* Takes all of len bytes, in order; 0 or -errno. Called two or three times for each record: buffer them. */
typedef int pack_write_fn(void *ctx, const void *buf, size_t len);

struct pack_writer;

/* Begins a pack: writes its head. `salt` must be random bits that nobody can guess (getrandom). */
int pack_writer_new(pack_write_fn *write, void *ctx, uint64_t salt, struct pack_writer **out);

/* Adds a block. *offset is where its record begins. -EINVAL for an encoding that cannot be (encode_check),
 * -EFBIG when the pack has PACK_RECORDS_MAX records or PACK_SIZE_MAX bytes; nothing is written then. A failed
 * sink is final: every later call gives the same error. */
int pack_writer_block(struct pack_writer *w, const uint8_t name[DIGEST_LEN], size_t raw_len,
		      const struct encoded *encoded, uint64_t *offset);

/* Adds an entry record. -EINVAL for fields that pack_entry_parse would refuse, -EFBIG as above or for a
 * record longer than PACK_ENTRY_MAX: write it with a parent then. */
int pack_writer_entry(struct pack_writer *w, const struct pack_entry *entry, uint64_t *offset);

/* Bytes written so far, and what pack_writer_end would still add. */
uint64_t pack_writer_size(const struct pack_writer *w);
uint64_t pack_writer_end_size(const struct pack_writer *w);

/* Writes index and tail and tells the pack's name. Nothing may be added after it. -ENODATA for a pack without
 * records. The caller syncs, renames, syncs the directory. */
int pack_writer_end(struct pack_writer *w, uint8_t name[DIGEST_LEN]);

/* NULL is fine. Writes nothing. */
void pack_writer_free(struct pack_writer *w);

#endif
