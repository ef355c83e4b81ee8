/* SPDX-License-Identifier: GPL-2.0-or-later */
/* core.h - the objects of the bank and who owns what; for the files under bank/ only.
 *
 *   node      what an id stands for: a session or a version (which may still be a stage)
 *   session   a directory: names, accounts, settings
 *   name      (session, bytes) -> node, and the stages that want to become its next version
 *   version   one immutable content with attributes; while it is being written, a stage has it
 *   stage     a put in progress: the version to be, the name it is for, who writes it
 *
 * Life of a version:   STAGED -> COMMITTED -> ENDED
 *   STAGED     only its stage (and its node id) leads to it; not counted as an entry of its own
 *   COMMITTED  some name points at it; counted; on the LRU list; may be provisional (stage->committed
 *              and the stage not ended): then the version it replaced is kept by stage->replaced
 *   ENDED      no name, no stage; stays while a reader, the kernel (holds) or a job has it
 *
 * Pins (refs, holds, readers) keep memory alive; the lock keeps it coherent.
 *
 * Lock order (each arrow: may be taken while the left one is held):
 *   content->lock (overlay before base) -> bank->lock -> event ring's lock
 * bank->lock covers everything in this header but the bytes. It is never held across reading, writing,
 * freeing or hashing bytes: what has to be freed is put on bank->dead, and core_unlock frees it after
 * letting go of the lock and charges back afterwards. So code that holds the lock may drop references
 * at will, and the accounts say "held" until the bytes are really gone.
 */
#ifndef KV_BANK_CORE_H
#define KV_BANK_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

#include "bank/bank.h"
#include "bank/content.h"
#include "bank/event.h"
#include "bank/ram.h"

#define FORMER_NAMES 1024u /* names that ids had a moment ago, for writers on their way to a stage */
/* Ids are inode numbers. They begin far above those of other file systems, because a process is known to
 * have a stage open by nothing but the number (/proc/PID/fdinfo). Below 2^53, so that every tool can. */
#define FIRST_ID (UINT64_C(1) << 40)
#define STAGE_WRITERS 8u /* processes remembered as writers of one stage */
#define KEY_MAX (sizeof(uint64_t) + BANK_NAME_MAX)
#define LOOKUP_WAIT_MS 10
#define DEPTH_MAX 4096u /* of sessions in sessions; paths that programs can use are shorter */
#define PIN_FOREVER INT64_MAX
#define NS_PER_MS 1000000

struct stage;
struct name;
struct former_name;

struct xattr {
	char *name;
	void *value;
	size_t len;
	bool inherited; /* from a session at commit: the next version asks the session again */
	struct xattr *next;
};

struct node {
	uint64_t id;
	enum bank_kind kind;
	uint64_t holds; /* given out to the caller */
	unsigned refs;	/* names, stages, readers, jobs, children */
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec atime, mtime, ctime;
	struct xattr *xattrs;
	size_t xattr_bytes;
	UT_hash_handle hh;
};

/* An element of a session's list of names, in the order they were made; also the place of a stream. */
struct dir_link {
	uint64_t cookie;
	bool mark; /* a stream's place, no name */
	struct dir_link *prev, *next;
};

struct session {
	struct node node;
	struct session *parent; /* NULL: the root, or removed */
	struct name *name;	/* in parent */
	struct dir_link *names;
	uint64_t next_cookie;
	uint64_t sessions;  /* direct children */
	uint64_t names_count;
	uint64_t entries;   /* versions charged here, and new names being written */
	uint64_t own_bytes; /* charged to it */
	uint64_t tree_bytes; /* to it and all below */
	unsigned depth;	     /* at which it was made */
	int64_t touched_ms;
	bool evict_no;
	uint64_t ram_max;
	bool removed;
};

struct name {
	struct dir_link link; /* first: streams walk links */
	struct session *session;
	struct node *node;     /* reference, or NULL while only stages have the name */
	struct stage *stages;  /* newest first */
	struct name *prev, *next; /* other names of the same version, oldest first */
	size_t len;
	UT_hash_handle hh;
	char key[]; /* session id, then the bytes, then a NUL */
};

enum version_state { VERSION_STAGED, VERSION_COMMITTED, VERSION_ENDED };

struct version {
	struct node node;
	enum version_state state;
	struct content *content; /* reference; NULL once ended and closed everywhere */
	uint64_t last_size_bytes; /* then: who walked to it a moment before still asks */
	struct name *names;	 /* oldest first; the oldest one's session is charged */
	struct stage *stage;	 /* that writes it, or committed it and has not ended */
	struct session *counted; /* in whose entries it counts, NULL in none; a node reference */
	unsigned readers;
	struct former_name *last_name; /* that it lost, for who still has its id; NULL none */
	unsigned kept; /* by stages that replaced it and may be taken back */
	bool listed; /* on bank->lru */
	bool mtime_set;
	uint64_t hits;
	int64_t last_access_ns; /* fine enough to order what happens within a millisecond */
	int64_t pin_until_ms;	/* PIN_FOREVER; 0 not pinned */
	struct timespec created_at, last_access, settled_at;
	bool opened; /* by a reader, since it was committed */
	bool settled, settle_queued;
	unsigned hash_epoch; /* moves when bytes may change after all: a hash begun before is void */
	uint8_t sha256[BANK_SHA256_LEN];
	struct version *prev, *next;	       /* lru, oldest first */
	struct version *settle_prev, *settle_next; /* settle queue */
	struct version *overlay_prev, *overlay_next; /* committed overlays, for the upkeep thread */
	bool overlay_listed;
};

struct stage {
	struct version *version; /* the one being made; node reference */
	struct name *name;	 /* NULL: unlinked meanwhile */
	struct version *replaced; /* kept until the stage ends; node reference */
	pid_t opener;
	pid_t writers[STAGE_WRITERS];
	unsigned opens;	 /* writers open on it */
	bool begun;	 /* made for a redirect, not opened yet */
	bool created;	 /* the name was new */
	bool truncated;	 /* or sized by request */
	bool written;
	bool committed;	 /* what was written so far is what the name shows */
	bool final;	 /* and stays even if the writer is killed now (rename, fsync) */
	bool flushed;	 /* some descriptor was closed by a living process */
	bool closing;	 /* and none is known to be left: RELEASE is on its way */
	bool dying;	 /* the writer was killed */
	bool reopened;	 /* written to after a commit */
	bool ending;	 /* its last writer is gone: nobody may open it any more */
	unsigned in_flight; /* writes going on: no commit meanwhile */
	struct version *shell; /* when writing went on after a commit: the version whose id the writers have open */
	int poison;	 /* first refused write, negative errno */
	int64_t flushed_ms;
	struct session *counted; /* session in whose entries a new name counts; a node reference */
	struct stage *prev, *next;
};

/* What an id was the moment before: a writer that was refused it finds its way to the name all the same. */
struct former_name {
	uint64_t id, parent;
	char name[BANK_NAME_MAX + 1];
};

struct bank {
	pthread_mutex_t lock;
	pthread_cond_t room;	/* bytes came back */
	pthread_cond_t changed; /* a stage ended, something settled */
	pthread_cond_t settle_work, upkeep_work;
	struct bank_config cfg;
	struct bank_hooks hooks;
	struct ram *ram;
	uint64_t files_max; /* ram_files_max */
	struct events *events;
	struct session *root;
	struct node *nodes; /* by id */
	struct name *names; /* by key */
	uint64_t next_id;
	struct former_name *former; /* a ring, newest at former_at - 1 */
	unsigned former_at;
	struct version *lru;
	struct version *overlays;
	struct version *settle_queue;
	struct version *settling; /* being hashed, being absorbed: not evictable meanwhile */
	struct version *absorbing;
	pthread_t absorber; /* the thread that absorbs, while it does */
	bool settle_abort;
	unsigned room_waiters; /* waiting for one of these two: it should end and not begin again */
	struct ram_file *files;
	struct content *dead;	/* to be freed by core_unlock */
	struct content *zombies; /* freed, but a client still maps the file */
	uint64_t ram_bytes, freeing_bytes, zombie_bytes;
	uint64_t spare_bytes; /* reserved by the upkeep thread while it absorbs */
	struct bank_counters count;
	uint64_t stages;
	pthread_t settle_thread, upkeep_thread;
	bool started, stopping, upkeep_wanted;
};

/* ---- bank.c ---- */
int64_t core_now_ms(void); /* monotonic */
int64_t core_now_ns(void); /* the same clock */
struct timespec core_now(void);
void core_lock(struct bank *b);
/* Lets go of the lock and frees what was put on b->dead meanwhile. */
void core_unlock(struct bank *b);
/* Waits on a condition; timeout_ms < 0 waits for ever. Frees b->dead first when there is some. */
void core_wait(struct bank *b, pthread_cond_t *cond, int64_t timeout_ms);
void core_log(struct bank *b, int priority, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Event of a name, or of a version by its oldest name. */
void core_event_name(struct bank *b, const char *event, const char *reason, uint64_t bytes, const struct name *name);
void core_event_version(struct bank *b, const char *event, const char *reason, const struct version *v);

/* ---- node.c ---- (all with the lock) */
void node_add(struct bank *b, struct node *n, enum bank_kind kind, mode_t mode, const struct bank_who *who);
struct node *node_find(struct bank *b, uint64_t id);
struct session *node_session(struct bank *b, uint64_t id, int *error); /* NULL and -ENOTDIR or -ESTALE */
struct version *node_version(struct bank *b, uint64_t id);	       /* NULL: none, or a session */
void node_ref(struct node *n);
/* Drops a reference; frees the node when nothing holds it any more. */
void node_unref(struct bank *b, struct node *n);
void node_stat(const struct node *n, struct bank_stat *out);
struct version *version_new(struct bank *b, mode_t mode, const struct bank_who *who);
/* Without names and stage it ends: gives up its content and its accounts. */
void version_end_if_gone(struct bank *b, struct version *v);
/* An ended version keeps its content while it is open somewhere. */
void version_drop_content(struct bank *b, struct version *v);
void version_touch(struct bank *b, struct version *v);
/* A stage keeps what it replaced (a node reference and v->kept), and lets go of it. */
void version_keep(struct version *v);
void version_let_go(struct bank *b, struct version *v);
uint64_t version_bytes(const struct version *v);
void content_ref(struct content *c);
void content_unref(struct bank *b, struct content *c);
static inline struct version *to_version(struct node *n)
{
	return (struct version *)n; /* node is the first member */
}
static inline struct session *to_session(struct node *n)
{
	return (struct session *)n;
}

/* ---- tree.c ---- (all with the lock) */
struct name *name_find(struct bank *b, const struct session *s, const char *bytes, int *error);
/* Finds or makes. -ENAMETOOLONG, -ENOMEM. */
struct name *name_get(struct bank *b, struct session *s, const char *bytes, int *error);
static inline const char *name_text(const struct name *n)
{
	return n->key + sizeof(uint64_t);
}
/* Points a name at a node (NULL: at none), moving counts, charges and link order; the old node is
 * returned with its reference, and not ended. */
struct node *name_point(struct bank *b, struct name *n, struct node *node);
/* That a version had this name until now; and whether an id had one: the last FORMER_NAMES are known. */
void name_remember(struct bank *b, const struct name *n, struct version *v);
bool name_stood_for(const struct bank *b, const struct name *n, uint64_t id);
/* Drops the reference that name_point returned; a version without other names ends. NULL is fine. */
void name_let_go(struct bank *b, struct node *old);
/* Frees it when neither a node nor a stage has it. Returns whether it is gone. */
bool name_drop_if_empty(struct bank *b, struct name *n);
/* Tells the fs that the bank itself changed the name. */
void name_tell(struct bank *b, const struct name *n);
/* Escaped path; returns the length, or -ERANGE. */
int name_path(const struct name *n, char *buf, size_t cap);
/* For paths that are too long to show: ".../" and the last component. cap at least 1,024. */
void name_path_end(const struct name *n, char *buf, size_t cap);
bool session_may_evict(const struct session *s);

/* ---- room.c ---- (with the lock, which those that may evict let go of for a moment) */
/* Brings a file's charge to total_bytes, evicting for it when it grows. entry_bytes: what the whole
 * entry then holds, to tell "too large for anything" (-EFBIG) from "no room now" (-EDQUOT: a session's
 * cap, -ENOSPC: the bank's). On refusal *reason is the cap in the way, static text. */
int room_charge(struct bank *b, struct ram_file *f, uint64_t total_bytes, uint64_t entry_bytes, const char **reason);
void room_count_entry(struct bank *b, struct session *s, int delta);
/* Brings it down; never fails. */
void room_uncharge(struct bank *b, struct ram_file *f, uint64_t total_bytes);
/* Sets a charge that is known to be right, without asking whether there is room. */
void room_set_charge(struct bank *b, struct ram_file *f, uint64_t total_bytes);
/* Makes the session pay for the file from now on. */
void room_set_payer(struct bank *b, struct ram_file *f, struct session *payer);
/* Room in `to` (and what is above it but not above `from`) for bytes and entries that come from there; with
 * subtree a whole session comes, so that to's own cap does not count. */
int room_for_move(struct bank *b, struct session *to, const struct session *from, uint64_t bytes, uint64_t entries, bool subtree,
		  const char **reason);
/* One more entry in a session: evicts for it. -ENOSPC, -EDQUOT. */
int room_for_entry(struct bank *b, struct session *s, const char **reason);
/* Up to `bytes` for a moment (upkeep), charged to nobody: give back with room_return_spare. -EAGAIN:
 * not now; it has evicted for it if it could. */
int room_take_spare(struct bank *b, uint64_t bytes);
void room_return_spare(struct bank *b, uint64_t bytes);
/* Evicts until no cap of b->cfg is exceeded, or none of one session; -ENOSPC, -EDQUOT when it cannot. */
int room_obey(struct bank *b);
int room_obey_session(struct bank *b, const struct session *s);
/* Evicts at least `bytes` if it can; returns what it evicted. */
uint64_t room_evict_bytes(struct bank *b, uint64_t bytes, const char *reason);
/* Committed, and neither pinned, open, mapped nor being written. */
bool room_droppable(const struct version *v);
/* And its session allows it. */
bool room_evictable(const struct version *v);
/* Is it being hashed or absorbed? Then asks for an end and waits a moment; true: look at all afresh. */
bool room_stop_work_on(struct bank *b, const struct version *v);
/* All names go; counted and told. lack_of_room tells evicted from dropped. */
void room_evict(struct bank *b, struct version *v, const char *reason, bool lack_of_room);

/* ---- commit.c ---- */
/* Unlink: writers on the name go on to nowhere. */
void stage_orphan_all(struct bank *b, struct name *n);
/* The name shows what was written so far. With the lock, which it may let go of for a moment, so the
 * caller must have the stage open. */
int stage_publish(struct bank *b, struct stage *st);
/* What was published stays, whatever becomes of the writer. */
void stage_make_final(struct bank *b, struct stage *st);
/* One open less; ends the stage with the last. May let go of the lock. */
void stage_close(struct bank *b, struct stage *st);

/* ---- settle.c ---- */
void settle_enqueue(struct bank *b, struct version *v);
void settle_cancel(struct bank *b, struct version *v);
/* Waits until it is settled (0), ended or taken back (-ESTALE), or the bank closes (-EINTR). */
int settle_wait(struct bank *b, struct version *v);
void *settle_main(void *bank);

/* ---- upkeep.c ---- */
void upkeep_want(struct bank *b);
/* Puts those that are mapped no more on b->dead. */
void upkeep_look_at_zombies(struct bank *b);
/* A committed overlay, to be folded into its base; and no longer. */
void upkeep_overlay(struct bank *b, struct version *v);
void upkeep_no_overlay(struct bank *b, struct version *v);
/* Folds a committed overlay into its base now, if that can be done at once. The lock is let go of meanwhile. */
void upkeep_fold(struct bank *b, struct version *v);
void *upkeep_main(void *bank);
void upkeep_once(struct bank *b);

/* ---- attr.c ---- */
void attr_inherit_identity(struct bank *b, struct version *v, const struct session *s);
void attr_copy(struct node *to, const struct node *from);
void attr_free(struct node *n);

#endif
