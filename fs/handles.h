/* SPDX-License-Identifier: GPL-2.0-or-later */
/* handles.h - all open files and directories of a mount, so that those whose RELEASE never comes are given
 * back as well: a mount that is taken away under its users (SIGTERM, umount -l) ends without it.
 *
 * Lock: handles->lock covers the list; a leaf. */
#ifndef KV_FS_HANDLES_H
#define KV_FS_HANDLES_H

struct fs;
struct handles;

/* The first member of whatever an open request hands to the kernel; owned by that. */
struct handle {
	void (*close)(struct fs *fs, struct handle *h); /* gives back everything, h too; not in the list any more */
	struct handle *prev, *next;
};

/* NULL: no memory. */
struct handles *handles_new(void);
/* Must be empty. NULL is fine. */
void handles_free(struct handles *all);

void handles_add(struct handles *all, struct handle *h);
void handles_remove(struct handles *all, struct handle *h);
/* Closes what is left. After the last request was answered, before the session is destroyed. */
void handles_close_all(struct handles *all, struct fs *fs);

#endif
