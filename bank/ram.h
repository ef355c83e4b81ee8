/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ram.h - the files of the RAM tier: where the bytes really are.
 *
 * One file for each run of bytes that belongs together, in a private tmpfs that is never attached to
 * the tree (as root), else a memfd. The tier knows nothing of entries, names or caps beyond its size.
 * No locks here: whoever owns a file decides who may change it (content.h).
 */
#ifndef KV_BANK_RAM_H
#define KV_BANK_RAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RAM_PAGE 4096u /* what a tmpfs charges by; a file never holds more than its size, rounded up to this */

struct ram;
struct session;

struct ram_file {
	struct ram *ram;
	uint64_t number;	/* its name in the tmpfs, in hex */
	int fd;			/* read-write; tmpfs: -1 once ram_file_rest was called */
	bool shown;		/* a descriptor of it was given to the kernel: it may be mapped unseen */
	uint64_t charged_bytes; /* by room.c, under the bank's lock */
	struct session *payer;	/* whose account that is; under the bank's lock */
	struct ram_file *prev, *next; /* bank's list of all files; under the bank's lock */
};

/* Makes the tier. With want_memfd, or where mounting a tmpfs is not allowed, memfds. size_bytes is
 * the hard bound of the tmpfs. */
int ram_open(uint64_t size_bytes, bool want_memfd, struct ram **out);
void ram_close(struct ram *r);
bool ram_is_tmpfs(const struct ram *r);
/* How many files it can have: memfds take a descriptor each. 0: no bound. */
uint64_t ram_files_max(const struct ram *r);
/* Moves the tmpfs's hard bound. -EINVAL below what it holds. memfds: nothing to do. */
int ram_resize(struct ram *r, uint64_t size_bytes);
/* What the tmpfs holds now by its own account; 0 for memfds. */
uint64_t ram_used(struct ram *r);

/* An empty file, open for writing. -EMFILE, -ENFILE, -ENOMEM, -ENOSPC. */
int ram_file_new(struct ram *r, struct ram_file **out);
/* No more writing for now: closes the descriptor where the file can be opened again by name, so that
 * a million entries need no million descriptors. */
void ram_file_rest(struct ram_file *f);
/* Gives the bytes back; the object is still the caller's to free(). */
void ram_file_discard(struct ram_file *f);

/* All of len, or -errno (-ENOSPC: the tier is full, -EIO: short at the end of the file). */
int ram_file_write(struct ram_file *f, const void *buf, size_t len, uint64_t off);
int ram_file_read(struct ram_file *f, void *buf, size_t len, uint64_t off);
int ram_file_truncate(struct ram_file *f, uint64_t size_bytes);
/* Makes the pages of [0, size) real, so that a reader's mapping cannot. */
int ram_file_fill(struct ram_file *f, uint64_t size_bytes);
/* Gives the pages of a range back; the range then reads as zeros. */
int ram_file_punch(struct ram_file *f, uint64_t off, uint64_t len);
/* Bytes of pages it holds, from fstat. */
uint64_t ram_file_held(struct ram_file *f);
/* A fresh read-only descriptor, for the caller to close; or -errno. */
int ram_file_reopen(struct ram_file *f);
/* Nobody but us has the file open or mapped: neither a client's mapping that outlived its close nor
 * the kernel. A write lease on a fresh descriptor is granted exactly then (fcntl(2), F_SETLEASE). */
bool ram_file_unused(struct ram_file *f);
/* Nobody can write to it: a read lease is granted exactly then. */
bool ram_file_unwritable(struct ram_file *f);

#endif
