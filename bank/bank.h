/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bank.h - the whole contract between the bank and whoever shows it (fs/).
 *
 * The bank keeps sessions (directories) and entries (files). An entry's name points at a *version*:
 * immutable bytes with attributes. Writers never touch a version; they work on a *stage*, which
 * becomes the name's next version when it commits. Sessions, versions and stages are *nodes*, known
 * to callers by a 64-bit id that is never reused; a stage keeps its id when it commits.
 *
 * Ownership: ids handed out by a call that says "holds" must be given back with bank_forget;
 * a held node stays valid although its name is gone. Readers, writers and directory streams are
 * owned by the caller until the matching close.
 *
 * Errors: every call returns 0 (or a count, where said) or -errno. Out parameters are written on
 * success only. -ESTALE always means: this id no longer is what the name stands for, look it up again.
 *
 * Threads: every call may be made from any thread. None waits for a disk. Calls that may wait for
 * another thread of the bank say so. Hooks are called with the bank's lock held and may only enqueue.
 */
#ifndef KV_BANK_BANK_H
#define KV_BANK_BANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define BANK_ROOT 1u	       /* id of the root session */
#define BANK_ANY_VERSION 0u    /* no id: whatever version a name stands for */
#define BANK_NAME_MAX 255u     /* bytes of a name; longer: -ENAMETOOLONG */
#define BANK_XATTRS_MAX 65536u /* bytes of names and values of one node; more: -ENOSPC */
#define BANK_STAGES_SHOWN 16u  /* stages of one name that bank_stages tells */
#define BANK_SHA256_LEN 32u

struct bank;
struct bank_reader; /* an open version or stage, being read */
struct bank_writer; /* an open stage, being written */
struct bank_dir;    /* an open directory stream */

enum bank_kind { BANK_SESSION = 1, BANK_ENTRY = 2 };

enum bank_settle { BANK_SETTLE_OFF, BANK_SETTLE_LAZY, BANK_SETTLE_EAGER };
enum bank_ssd_mode { BANK_SSD_OFF, BANK_SSD_WRITE_ONLY, BANK_SSD_ON };
enum bank_tier_kind { BANK_TIER_TMPFS, BANK_TIER_MEMFD };

/* What the bank itself obeys. Plain data; sizes in bytes, times in seconds, 0 = no limit where a
 * limit is meant. bank_configure changes all but `store` while running. */
struct bank_config {
	uint64_t ram_bytes;	    /* cap of the RAM tier; at least 1 MiB */
	uint64_t session_ram_bytes; /* cap of one session's own entries in RAM */
	uint64_t entries_max;	    /* entries in the bank */
	uint64_t session_entries_max;
	uint64_t idle_ttl_s;
	uint64_t pin_ttl_s;
	enum bank_settle settle;
	enum bank_ssd_mode ssd_mode;
	uint64_t root_mode; /* permission bits of the root session */
	uid_t root_uid;
	gid_t root_gid;
	bool want_memfd; /* do not try the private tmpfs */
};

/* Upward news. Called with the bank's lock held: enqueue and return. `name` is borrowed. */
struct bank_hooks {
	void *ctx;
	/* The bank itself changed what (parent, name) stands for: a commit, a drop, an eviction. */
	void (*name_changed)(void *ctx, uint64_t parent, const char *name);
	/* Attributes of a node changed without a request for it (link count of a replaced version). */
	void (*attr_changed)(void *ctx, uint64_t id);
	/* One line for the operator's log; no entry names, no content. */
	void (*log)(void *ctx, int priority, const char *line);
};

/* Who asks. `pid` is the process (thread group) id, 0 when it cannot be seen. */
struct bank_who {
	uid_t uid;
	gid_t gid;
	pid_t pid;
};

/* What stat(2) shows of a node. */
struct bank_stat {
	uint64_t id;
	enum bank_kind kind;
	mode_t mode; /* permission bits only */
	uid_t uid;
	gid_t gid;
	uint32_t nlink;
	uint64_t size_bytes;
	struct timespec atime, mtime, ctime;
	bool stage;   /* not committed yet: size may change, never cache it */
	bool staged;  /* bank_lookup only: the name has a stage, never cache the name */
};

/* Everything about a node that the user.kvbank.* attributes show. */
struct bank_info {
	struct bank_stat st;
	const char *state;  /* open lazy settled ram-only; static text, NULL on sessions */
	const char *reason; /* why ram-only, static text, or NULL */
	bool sha256_known;
	uint8_t sha256[BANK_SHA256_LEN];
	uint64_t nbytes; /* bytes held in RAM for it; of a session: of its own entries */
	uint64_t hits;
	struct timespec created_at, last_access, settled_at; /* tv_sec 0 = never */
	int64_t pin_s;	  /* seconds left, -1 forever, 0 not pinned */
	uint64_t entries; /* sessions: own entries */
	bool evict_no;	  /* sessions: own setting */
	uint64_t ram_max; /* sessions: cap of the subtree, 0 none */
};

/* ---- life ---- */

/* Makes an empty bank with its RAM tier (a private, never attached tmpfs where that is allowed,
 * else memfds). Copies cfg and hooks. No thread runs yet, so the caller may still fork.
 * -EINVAL: a config value out of range; -ENOMEM and what making the tier gave otherwise. */
int bank_open(const struct bank_config *cfg, const struct bank_hooks *hooks, struct bank **out);
/* Starts the settle and the upkeep threads. Once, after the last fork. */
int bank_start(struct bank *b);
/* Stops the threads, gives everything back. Readers, writers and streams must be closed. NULL is fine. */
void bank_close(struct bank *b);
/* Takes new values. Caps below what is held evict until they hold; -EBUSY and nothing is changed
 * when what cannot be evicted stays above. -EINVAL: a value out of range. */
int bank_configure(struct bank *b, const struct bank_config *cfg);
void bank_config_get(struct bank *b, struct bank_config *out);
enum bank_tier_kind bank_tier(const struct bank *b);

/* ---- nodes ---- */

/* Finds `name` in session `parent`: its committed version, else its newest stage; holds the node.
 * -ENOENT, -ENOTDIR, -ENAMETOOLONG, -ESTALE (parent is gone). May wait up to 10 ms for a RELEASE
 * that decides whether a stage closed without a write is a version. */
int bank_lookup(struct bank *b, uint64_t parent, const char *name, struct bank_stat *out);
/* Gives back n holds. Unknown ids are ignored. */
void bank_forget(struct bank *b, uint64_t id, uint64_t n);
/* One more hold on a node that is known to be alive. -ESTALE. */
int bank_hold(struct bank *b, uint64_t id, struct bank_stat *out);
int bank_getattr(struct bank *b, uint64_t id, struct bank_stat *out);
int bank_get_info(struct bank *b, uint64_t id, struct bank_info *out);

enum bank_set { BANK_SET_MODE = 1, BANK_SET_UID = 2, BANK_SET_GID = 4, BANK_SET_ATIME = 8, BANK_SET_MTIME = 16 };
struct bank_change {
	unsigned what; /* enum bank_set, or-ed */
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec atime, mtime;
};
/* -EPERM: set-user-id or set-group-id on an entry. */
int bank_setattr(struct bank *b, uint64_t id, const struct bank_change *change, struct bank_stat *out);

/* ---- names ---- */

/* mode is masked with 0700. Holds the new session. -EEXIST, -ENAMETOOLONG, -ESTALE. */
int bank_mkdir(struct bank *b, uint64_t parent, const char *name, mode_t mode, const struct bank_who *who, struct bank_stat *out);
/* -ENOTEMPTY, -ENOTDIR, -ENOENT, -EBUSY (the root's own). */
int bank_rmdir(struct bank *b, uint64_t parent, const char *name);
/* Ends a name: its version, and every stage on it (their writers finish to nowhere, as POSIX has it).
 * Open readers finish. -EISDIR, -ENOENT. */
int bank_unlink(struct bank *b, uint64_t parent, const char *name);
/* A further name for a committed version. Holds it. -EBUSY for a stage, -EEXIST, -EPERM for a session. */
int bank_link(struct bank *b, uint64_t id, uint64_t newparent, const char *newname, struct bank_stat *out);
/* Moves a name; an existing target is replaced at once. `own_stage` (0 none) is the caller's stage on
 * the old name: it is committed and moved. noreplace: -EEXIST when the target exists. -EBUSY when
 * only other writers' stages have the name; -EDQUOT/-ENOSPC when the other session's cap has no room;
 * -EINVAL into its own subtree; -ENOTEMPTY, -EISDIR, -ENOTDIR, -ENOENT. */
int bank_rename(struct bank *b, uint64_t parent, const char *name, uint64_t newparent, const char *newname, bool noreplace, uint64_t own_stage);

struct bank_dirent {
	uint64_t cookie; /* pass as `after` to continue behind this one */
	const char *name;
	struct bank_stat st; /* st.staged as in bank_lookup */
};
int bank_dir_open(struct bank *b, uint64_t id, struct bank_dir **out);
enum bank_shown {
	BANK_SHOW_STOP, /* no room: this entry is shown again next time */
	BANK_SHOWN,
	BANK_SHOWN_HELD, /* and the node is now held by the caller */
};
/* Shows entries behind cookie `after` (0 = from the start) in the order they were made, until `show`
 * says stop or the end. Names that exist all the while are shown exactly once whatever else changes.
 * `show` runs under the bank's lock: copy and return. Continuing where the stream stopped is O(1). */
typedef enum bank_shown bank_show_fn(void *arg, const struct bank_dirent *entry);
void bank_dir_read(struct bank_dir *dir, uint64_t after, bank_show_fn *show, void *arg);
void bank_dir_close(struct bank_dir *dir);

/* ---- writing ---- */

struct bank_stage_info {
	uint64_t id;
	pid_t opener; /* process that made it */
};
/* The stages on a name, newest first, at most BANK_STAGES_SHOWN. Returns how many. */
int bank_stages(struct bank *b, uint64_t parent, const char *name, struct bank_stage_info out[BANK_STAGES_SHOWN]);

enum bank_open_flags { BANK_TRUNC = 1, BANK_APPEND = 2, BANK_READ = 4, BANK_WRITE = 8, BANK_EXCL = 16 };

/* A new name and its stage, opened; also for a name that exists (then as bank_stage_begin + open).
 * mode is masked with 0700. Holds the stage's node. -EEXIST with BANK_EXCL, -EISDIR,
 * -ENOSPC/-EDQUOT: entry caps. */
int bank_create(struct bank *b, uint64_t parent, const char *name, mode_t mode, unsigned flags, const struct bank_who *who,
		struct bank_stat *st, struct bank_writer **out);
/* An empty version, committed at once (mknod of a regular file). Holds it. */
int bank_make_empty(struct bank *b, uint64_t parent, const char *name, mode_t mode, const struct bank_who *who, struct bank_stat *st);
/* A stage over `name`, which must still stand for `refused` (its version, or a stage on it), or have done
 * so a moment ago, or for any version with BANK_ANY_VERSION: empty
 * with BANK_TRUNC, else an overlay of the version. Holds the stage's node; it lives without a writer
 * until bank_write_open or bank_stage_drop. -ESTALE: the name stands for something else now. */
int bank_stage_begin(struct bank *b, uint64_t parent, const char *name, uint64_t refused, unsigned flags, const struct bank_who *who,
		     struct bank_stat *st);
/* Opens a stage that was begun, or once more one that is open. -ESTALE: `id` is no stage any more,
 * or (BANK_TRUNC) one already opened: a truncating open always gets a fresh stage. */
int bank_write_open(struct bank *b, uint64_t id, unsigned flags, const struct bank_who *who, struct bank_writer **out);
/* Sets the size of a begun, unopened stage and commits it (truncate(2) by path). -ESTALE, and as bank_write. */
int bank_truncate_commit(struct bank *b, uint64_t id, uint64_t size_bytes, struct bank_stat *out);
/* Ends a begun stage that nobody opened. */
void bank_stage_drop(struct bank *b, uint64_t id);

/* Writes all of buf, making room first. A refusal poisons the stage: -EFBIG (would not fit an empty
 * bank or session), -EDQUOT (a session's cap), -ENOSPC. With append the offset is ignored. `pid` is
 * the writing process. Writing to a committed stage reopens it. Waits for no disk. */
int bank_write(struct bank_writer *w, const void *buf, size_t len, uint64_t off, pid_t pid);
int bank_writer_truncate(struct bank_writer *w, uint64_t size_bytes);
/* Charges the range now, and with grow extends the size to its end. Errors as bank_write. */
int bank_writer_reserve(struct bank_writer *w, uint64_t off, uint64_t len, bool grow);
/* Reads the stage's own bytes, also of an overlay. Returns the count, 0 at the end. */
ssize_t bank_writer_read(struct bank_writer *w, void *buf, size_t len, uint64_t off);
uint64_t bank_writer_node(const struct bank_writer *w);
bool bank_writer_appends(const struct bank_writer *w);
void bank_writer_who(const struct bank_writer *w, pid_t *opener);

/* What /proc told of the process that closed a descriptor. */
struct bank_closer {
	pid_t pid;     /* its process, 0 unknown */
	bool dying;    /* of a signal */
	bool held;     /* it or the opener still has the stage open: an early FLUSH */
	bool opener_gone; /* the process that opened the stage holds it no more */
};
/* A descriptor was closed. Commits the stage, or not: early, or nothing written yet (then
 * bank_write_close decides), or dying (then it is dropped, and a commit before it is taken back).
 * 0 in all those cases; a poisoned stage answers its error, every time. With settle=eager may wait
 * for the hash. */
int bank_flush(struct bank_writer *w, const struct bank_closer *closer);
/* Commits whatever the descriptors say; the stage stays open for more. Returns when what can be
 * durable is (ram only for now: at once). */
int bank_fsync(struct bank_writer *w);
/* Last close of this open. With the last writer gone the stage ends: committed for good, or dropped. */
void bank_write_close(struct bank_writer *w);

/* ---- reading ---- */

/* Opens a version. `own` = the caller may see it while it is a stage. -EBUSY: a stage of somebody
 * else; -ESTALE: gone. Counts a hit. */
int bank_read_open(struct bank *b, uint64_t id, bool own, struct bank_reader **out);
/* Returns the count, short only at the end; exact bytes or -EIO. */
ssize_t bank_read(struct bank_reader *r, void *buf, size_t len, uint64_t off);
/* A fresh read-only descriptor of the RAM file with exactly the version's bytes, which will not
 * change as long as somebody has it open; the caller closes it. -EAGAIN: there is none now (a stage,
 * an overlay). */
int bank_reader_backing(struct bank_reader *r);
/* Nobody had opened this version before: what the kernel may have cached of its stage is to be forgotten. */
bool bank_reader_is_first(const struct bank_reader *r);
/* It is the caller's own stage that was opened, not a version. */
bool bank_reader_is_stage(const struct bank_reader *r);
void bank_read_close(struct bank_reader *r);

/* ---- attributes by name, without the "user." ---- */

/* The raw store of user.* attributes. `flags`: XATTR_CREATE, XATTR_REPLACE. -EEXIST, -ENODATA,
 * -ENOSPC (BANK_XATTRS_MAX). Values are bytes. Names are full ("user.x"). */
int bank_xattr_set(struct bank *b, uint64_t id, const char *name, const void *value, size_t len, int flags);
/* Returns the length; copies when it fits `cap`, -ERANGE when not and cap > 0, -ENODATA. */
ssize_t bank_xattr_get(struct bank *b, uint64_t id, const char *name, void *buf, size_t cap);
/* NUL-separated names, same rules. */
ssize_t bank_xattr_list(struct bank *b, uint64_t id, char *buf, size_t cap);
int bank_xattr_remove(struct bank *b, uint64_t id, const char *name);
/* Seconds from now, -1 forever, 0 unpins. Entries only. */
int bank_pin(struct bank *b, uint64_t id, int64_t seconds);
/* Sessions: refuse rather than evict; a cap of the subtree (0 none), below which is evicted at once,
 * -EBUSY when that cannot be. -ENOTDIR. */
int bank_session_evict(struct bank *b, uint64_t id, bool may_evict);
int bank_session_ram_max(struct bank *b, uint64_t id, uint64_t bytes);
/* The identity fields (DESIGN: identity): names without prefix, NULL-terminated list. */
extern const char *const bank_identity_fields[];

/* ---- looking ---- */

struct bank_counters {
	uint64_t entries, sessions, stages;
	uint64_t ram_bytes, ram_max;
	uint64_t entries_durable, entries_pending;
	uint64_t put_entries, put_bytes, written_bytes;
	uint64_t evicted_entries, evicted_bytes, dropped_entries, refused_entries;
	uint64_t hit_entries, hit_bytes, miss_entries;
	uint64_t settled_entries, settle_queue_entries;
	uint64_t zombie_bytes; /* unlinked, still mapped */
	uint64_t overlay_entries;
};
void bank_counters(struct bank *b, struct bank_counters *out);

/* For statfs: linear in the number of entries. */
struct bank_space {
	uint64_t total_bytes, held_bytes, evictable_bytes;
};
void bank_space(struct bank *b, struct bank_space *out);
/* Walks everything and compares the sums of accounts with what the tier's files hold; for tests and
 * SIGUSR1. Returns the number of disagreements, each told through hooks.log. Slow. */
int bank_check(struct bank *b);
/* Bytes that the RAM tier really uses, from the tmpfs itself (memfd: from the files). */
uint64_t bank_tier_used(struct bank *b);

/* Events: a ring of lines. Offsets count every byte ever written. Copies from `*off` (moved up to the
 * oldest line still kept when that is later) and returns the count. */
size_t bank_events_read(struct bank *b, uint64_t *off, char *buf, size_t cap);
uint64_t bank_events_end(struct bank *b, struct timespec *last);
/* One event for something that only the caller sees. `path` may be NULL. */
void bank_event(struct bank *b, const char *event, const char *reason, uint64_t bytes, uint64_t parent, const char *name);

/* Steering. All may wait for other threads. Path forms are resolved by the caller. */
int bank_settle_all(struct bank *b, uint64_t id, uint64_t *settled); /* id: entry or session */
int bank_clear(struct bank *b, uint64_t id, uint64_t *entries, uint64_t *bytes); /* skips pinned and open ones */
int bank_shrink(struct bank *b, uint64_t bytes, uint64_t *freed);
/* "a/b/c" from the root, percent-escaped as in events, to a held node. */
int bank_resolve(struct bank *b, const char *path, struct bank_stat *out);
/* The oldest name of a node, or the one its stage is for, or the one it had until a moment ago. -ENOENT:
 * none is known. */
int bank_name_of(struct bank *b, uint64_t id, uint64_t *parent, char name[BANK_NAME_MAX + 1]);
/* The escaped path of a node's oldest name; "" for the root. -ERANGE, -ESTALE. */
int bank_path(struct bank *b, uint64_t id, char *buf, size_t cap);

#endif
