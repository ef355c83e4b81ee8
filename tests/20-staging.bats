#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# An entry's life: stages, commits, dropped writers, overlays, publishing by rename. Each test is a
# script for build/programs/steps (see its head) in a mount of its own: A writes, B looks.

load lib/kv
load lib/steps

setup() {
  kv_skip_without_fuse
}

# ---- visibility ----

@test "a rewritten name shows its old version to others until close" {
  steps <<'END'
put e first
inode-name e = $old
open w e wronly,trunc
write w second
B: cat e = first
B: size-name e = 5
B: inode-name e = $old
A: close w
B: cat e = second
B: size-name e = 6
B: inode-name e != $old
END
}

@test "every way to open an existing name for writing leaves the old version until close" {
  steps <<'END'
put e first
open w e wronly
write w OPENED
B: cat e = first
A: close w
B: cat e = OPENED
A: open w e rdwr
read w = OPENED
write w both
read w = bothED
B: cat e = OPENED
A: close w
B: cat e = bothED
A: open w e rdwr,trunc
size w = 0
write w x
B: cat e = bothED
A: close w
B: cat e = x
A: open w e wronly,creat,trunc
write w yy
B: cat e = x
A: close w
B: cat e = yy
A: open w e wronly,creat
write w z
close w
B: cat e = zy
END
}

@test "O_RDONLY with O_TRUNC empties the name at close, not before" {
  steps <<'END'
put e first
open w e rdonly,trunc
B: cat e = first
A: close w
B: size-name e = 0
B: cat e = nothing
END
}

@test "readers that hold the old version finish it" {
  steps <<'END'
open w e wronly,creat
fill w 300000 1
close w
B: open r e rdonly
B: inode r = $old
A: open w e wronly,trunc
fill w 200000 2
B: check r 300000 1
A: close w
B: check r 300000 1
B: size r = 300000
B: inode r = $old
B: check-name e 200000 2
A: unlink e
B: check r 300000 1
B: close r
B: cat e = ENOENT
END
}

@test "every version has an inode of its own, the one that its stage had" {
  steps <<'END'
put e 1
inode-name e = $1
open w e wronly,trunc
write w 2
inode w = $2
inode w != $1
close w
B: inode-name e = $2
A: open w e wronly,append
write w 3
inode w = $3
inode w != $2
inode w != $1
close w
B: inode-name e = $3
A: truncate e 1
inode-name e != $3
inode-name e != $2
inode-name e != $1
END
}

@test "a new name shows its size so far, is EBUSY for others, and readable after close" {
  steps <<'END'
open w e wronly,creat
write w half
B: size-name e = 4
B: open r e rdonly = EBUSY
A: write w +rest
B: size-name e = 9
B: cat e = EBUSY
A: close w
B: cat e = half+rest
END
}

@test "the process that writes a name sees its own stage" {
  steps <<'END'
open w new wronly,creat
write w half
cat new = half
thread cat new = half
B: cat new = EBUSY
A: close w
put e old
open w e wronly,trunc
write w own
cat e = own
size-name e = 3
B: cat e = old
A: open v e rdwr
read v = own
close v
B: cat e = old
A: close w
B: cat e = own
END
}

@test "the last commit of two in-place writers wins" {
  steps <<'END'
put e old
A: open w e wronly,trunc
B: open w e wronly,trunc
A: write w AAAA
B: write w BB
A: inode w = $a
B: inode w != $a
C: cat e = old
A: close w
C: cat e = AAAA
B: close w
C: cat e = BB
END
}

@test "two writers of a new name have a stage each" {
  steps <<'END'
A: open w e wronly,creat
A: write w from-a
B: open w e wronly,creat,trunc
B: write w b
A: cat e = from-a
B: cat e = b
C: cat e = EBUSY
B: close w
C: cat e = b
A: close w
C: cat e = from-a
END
}

@test "O_TRUNC by the holder of a stage is a fresh stage" {
  steps <<'END'
put e old
open w e wronly,trunc
write w first-stage
open v e wronly,trunc
inode w = $w
inode v != $w
size v = 0
write v second
size w = 11
B: cat e = old
A: close v
B: cat e = second
A: close w
B: cat e = first-stage
END
}

@test "a stage that was neither written nor truncated vanishes" {
  steps <<'END'
put e old
inode-name e = $old
open w e wronly
close w
B: inode-name e = $old
A: open w e rdwr,append
read w = old
close w
B: inode-name e = $old
B: cat e = old
END
}

@test "O_EXCL: EEXIST for a committed name and for one that is being written" {
  steps <<'END'
put e old
open w e wronly,creat,excl = EEXIST
cat e = old
open w new wronly,creat,excl
B: open w new wronly,creat,excl = EEXIST
A: write w 1
close w
B: cat new = 1
END
}

@test "O_TMPFILE is refused" {
  steps <<'END'
open w . wronly,tmpfile = EOPNOTSUPP
mkdir s
open w s rdwr,tmpfile = EOPNOTSUPP
END
}

# ---- commits and drops ----

@test "exit without close commits, whatever the status" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: write w exit0
B: exit 0 = died
A: cat e = exit0
C: open w e wronly,trunc
C: write w exit1
C: exit 1 = died
A: cat e = exit1
D: open w new wronly,creat
D: write w whole
D: exit 1 = died
A: cat new = whole
END
}

@test "a killed writer leaves the old version" {
  steps <<'END'
put e old
inode-name e = $old
B: open w e wronly,trunc
B: write w killed
kill B KILL = died
A: cat e = old
inode-name e = $old
C: open w e wronly,append
C: write w killed
kill C TERM = died
A: cat e = old
D: open w e rdwr
D: write w killed
kill D INT = died
A: cat e = old
inode-name e = $old
END
}

@test "a crashed writer leaves the old version" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: write w crashed
B: segv = died
A: cat e = old
C: open w e wronly,trunc
C: write w crashed
C: abort = died
A: cat e = old
D: open w e wronly,trunc
D: write w crashed
D: raise INT = died
A: cat e = old
E: open w e wronly,trunc
E: write w crashed
E: tgkill KILL = died
A: cat e = old
F: open w e wronly,trunc
F: write w crashed
F: thread raise SEGV = died
A: cat e = old
END
}

@test "a killed writer of a new name leaves no name and no bytes" {
  steps <<'END'
put e old
key ram_bytes = $before
B: open w new wronly,creat
B: fill w 3000000 1
B: mkdir s
B: open v s/deep wronly,creat
B: fill v 1000000 1
kill B KILL = died
A: sleep 200
size-name new = ENOENT
size-name s/deep = ENOENT
key ram_bytes = $before
END
}

@test "drops are told as events with a reason" {
  kv_mount
  script <<'END'
B: open w told wronly,creat
B: write w killed
kill B KILL = died
sleep 100
END
  kv_events 'path=told' | grep -E 'reason=[a-z_]+'
  kv_umount
}

@test "a writer killed with duplicated descriptors leaves the old version" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: write w one
B: dup w x
B: dup w y
B: close x
A: cat e = old
B: write y two
A: cat e = old
kill B KILL = died
A: cat e = old
END
}

@test "a writer killed together with the child that inherited its descriptor leaves the old version" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: write w one
B: fork C
C: write w two
A: cat e = old
kill C KILL = died
A: cat e = old
kill B KILL = died
A: cat e = old
D: open w e wronly,trunc
D: write w one
D: fork E
kill D KILL = died
A: cat e = old
kill E KILL = died
A: cat e = old
END
}

@test "a child that inherited the descriptor does not commit what its killed parent wrote" {
  steps <<'END'
put e old
B: open w e wronly,trunc,cloexec
B: write w half
B: fork C
kill B KILL = died
C: close w
A: sleep 100
cat e = old
D: open w e wronly,trunc,cloexec
D: write w half
D: fork E
kill D KILL = died
E: exit 0 = died
A: sleep 100
cat e = old
F: open w e wronly,trunc,cloexec
F: write w half
F: fork G
kill F KILL = died
G: exec true = died
A: sleep 100
cat e = old
END
}

@test "a killed child does not take its parent's stage along" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: write w one,
B: fork C
kill C KILL = died
A: cat e = old
B: write w two
B: close w
A: cat e = one,two
END
}

@test "a child that inherited the descriptor may finish what its parent began" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: write w one,
B: fork C
B: close w
A: cat e = any
C: write w two
C: close w
A: cat e = one,two
END
}

@test "a duplicated descriptor that is closed commits nothing, the last one does" {
  steps <<'END'
put e old
open w e wronly,trunc
write w one,
dup w x
close w
B: cat e = old
A: write x two
B: cat e = old
A: close x
B: cat e = one,two
A: open n new wronly,creat
dup n x
close n
B: cat new = EBUSY
A: write x new
close x
B: cat new = new
END
}

@test "fsync commits and the writer may go on" {
  steps <<'END'
put e old
open w e wronly,trunc
write w one
fsync w
B: cat e = one
B: open r e rdonly
A: write w two
B: read r = one
B: size r = 3
A: close w
B: cat e = onetwo
B: read r = one
END
}

@test "what was fsynced stays when the writer is killed later" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: write w one
B: fsync w
kill B KILL = died
A: cat e = one
END
}

@test "empty files are versions" {
  steps <<'END'
open w new wronly,creat
close w
B: size-name new = 0
B: cat new = nothing
A: put e full
open w e wronly,trunc
close w
B: size-name e = 0
B: cat e = nothing
END
}

@test "shell redirections write whole versions" {
  kv_mount
  echo first >"$M/e"
  [ "$(cat "$M/e")" = first ]
  sh -c 'echo second; echo third' >"$M/e"
  [ "$(cat "$M/e")" = "second
third" ]
  sh -c "seq 10000 > $M/e; seq 10001 20000 >> $M/e"
  cmp "$M/e" <(seq 20000)
  seq 5 | tee "$M/e" | cat >/dev/null
  cmp "$M/e" <(seq 5)
  (echo a; sh -c 'echo b'; echo c) >"$M/e"
  [ "$(tr '\n' ' ' <"$M/e")" = "a b c " ]
  : >"$M/e"
  [ "$(stat -c %s "$M/e")" = 0 ]
  dd if=/dev/zero of="$M/e" bs=4096 count=100 status=none
  [ "$(stat -c %s "$M/e")" = 409600 ]
  dd if=/dev/zero of="$M/e" bs=4096 count=1 seek=10 conv=notrunc status=none
  [ "$(stat -c %s "$M/e")" = 409600 ]
  kv_umount
}

# ---- sizes, random writes, overlays ----

@test "truncate by path makes a version at once, up and down" {
  steps <<'END'
put e 0123456789
B: open r e rdonly
A: inode-name e = $1
truncate e 4
inode-name e != $1
inode-name e = $2
B: cat e = 0123
B: size-name e = 4
A: truncate e 8
inode-name e != $2
B: size-name e = 8
B: cat e = 0123....
B: read r = 0123456789
A: truncate e 0
B: size-name e = 0
A: truncate e 5000000
B: size-name e = 5000000
END
}

@test "ftruncate changes the stage only" {
  steps <<'END'
put e 0123456789
open w e rdwr
ftruncate w 4
size w = 4
read w = 0123
B: size-name e = 10
A: ftruncate w 6
read w = 0123..
close w
B: cat e = 0123..
A: open r e rdonly
ftruncate r 1 = EINVAL
END
}

@test "append adds to the committed bytes, wherever the offset is" {
  steps <<'END'
put e 0123
open w e wronly,append
write w 45
pwrite w 0 67
size w = 8
B: cat e = 0123
A: close w
B: cat e = 01234567
END
}

@test "the old version keeps size and bytes while the next one is appended" {
  steps <<'END'
open w e wronly,creat
fill w 3000000 5
close w
B: open r e rdonly
B: map m r 3000000 shared read
A: open w e wronly,append
seek w 3000000
fill w 1000000 5 = 4000000
B: check r 3000000 5
B: size r = 3000000
B: check-name e 3000000 5
B: size-name e = 3000000
C: check-name e 3000000 5
A: close w
B: check r 3000000 5
B: size r = 3000000
B: map-check m 3000000 5
B: check-name e 4000000 5
B: size-name e = 4000000
B: unmap m
B: close r
C: check-name e 4000000 5
END
}

@test "a dropped append leaves the old size and bytes" {
  steps <<'END'
open w e wronly,creat
fill w 1000000 5
close w
B: open w e wronly,append
B: seek w 1000000
B: fill w 2000000 6
kill B KILL = died
A: size-name e = 1000000
check-name e 1000000 5
open w e wronly,append
seek w 1000000
fill w 500000 5
close w
check-name e 1500000 5
END
}

@test "appending takes room for what is added only" {
  steps "ram=96M,session_ram=96M" <<'END'
open w e wronly,creat
fill w 64000000 5
close w
key ram_bytes = $before
open w e wronly,append
seek w 64000000
fill w 1000000 5 = 65000000
sleep 100
key ram_bytes < $before+2100000
close w
sleep 100
key ram_bytes < $before+2100000
B: check-name e 65000000 5
END
}

@test "random writes land where they belong" {
  steps <<'END'
open w e rdwr,creat
pwrite w 100000 end
size w = 100003
pwrite w 5 five
pwrite w 0 start
close w
open r e rdonly
size r = 100003
read r = any
close r
open w e wronly
seek w 0
fill w 100003 9
close w
B: check-name e 100003 9
A: open w e wronly
seek w 50000
fill w 70000 9
close w
B: check-name e 120000 9
END
}

@test "rewriting 48 bytes of a 64 MiB entry takes room for little" {
  steps <<'END'
open w e wronly,creat
fill w 67108864 5
close w
B: open r e rdonly
A: inode-name e = $old
key ram_bytes = $before
open w e wronly
pwrite w 0 111111111111111111111111111111111111111111111111
sleep 100
key ram_bytes < $before+2000000
B: check r 67108864 5
C: check-name e 67108864 5
B: close r
A: close w
sleep 100
key ram_bytes < $before+2000000
inode-name e != $old
xattr e user.kvbank.nbytes < 69000000
open r e rdonly
check r 67108864 5 48
close r
B: open r e rdonly
B: read r != nothing
B: check r 67108864 5 = differs at 0
END
}

@test "an overlay over a version that somebody reads leaves the reader its bytes" {
  steps <<'END'
open w e wronly,creat
fill w 5000000 5
close w
B: open r e rdonly
B: map m r 5000000 shared read
A: open w e rdwr
pwrite w 2500000 changed
pwrite w 4999999 longer
check w 5000000 5 = differs at 2500000
B: check r 5000000 5
C: check-name e 5000000 5
A: close w
B: check r 5000000 5
B: map-check m 5000000 5
B: size r = 5000000
C: size-name e = 5000005
C: check-name e 5000000 5 = differs at 2500000
B: close r
B: map-check m 5000000 5
B: unmap m
END
}

@test "a change made while an older change is folded into its base is not lost" {
  steps <<'END'
put e 0123456789
B: open r e rdonly
A: open w e rdwr
pwrite w 0 AB
close w
open w e rdwr
B: close r
A: sleep 400
pwrite w 0 XY
pwrite w 8 Z
close w
B: cat e = XY234567Z9
A: sleep 600
B: cat e = XY234567Z9
B: open d e rdonly,direct
B: read d = XY234567Z9
END
}

@test "random changes, readers that stay and killed writers agree with a model" {
  kv_mount
  program overlay "$M/e" "$(kv_count 1000 300 5000)"
  kv_umount
}

@test "a dropped overlay leaves no trace" {
  steps <<'END'
open w e wronly,creat
fill w 5000000 5
close w
key ram_bytes = $before
B: open w e rdwr
B: pwrite w 100 changed
B: ftruncate w 70
B: ftruncate w 6000000
B: pwrite w 5500000 changed
kill B KILL = died
A: check-name e 5000000 5
sleep 500
key ram_bytes = $before
END
}

@test "fallocate: plain and KEEP_SIZE work, the other modes are EOPNOTSUPP" {
  steps <<'END'
open w e rdwr,creat
fallocate w 0 0 5000
size w = 5000
fallocate w keep_size 0 100000
size w = 5000
pwrite w 0 x
fallocate w punch_hole,keep_size 0 4096 = EOPNOTSUPP
fallocate w collapse_range 0 4096 = EOPNOTSUPP
fallocate w zero_range 0 4096 = EOPNOTSUPP
fallocate w insert_range 0 4096 = EOPNOTSUPP
size w = 5000
close w
B: size-name e = 5000
END
}

# ---- refusals ----

@test "a write that fits no empty session is EFBIG, then close and rename fail, too" {
  steps "ram=8M,session_ram=4000K" <<'END'
put e old
open w e wronly,trunc
fill w 6000000 1 = EFBIG
B: cat e = old
A: rename e f = EFBIG
close w = EFBIG
B: cat e = old
B: cat f = ENOENT
A: sleep 300
A: key ram_bytes < 100000
END
}

@test "a session over its cap is EDQUOT, then close and rename fail, too" {
  kv_mount "ram=16M,session_ram=4M"
  mkdir "$M/s"
  setfattr -n user.kvbank.evict -v no "$M/s"
  script <<'END'
open w s/full wronly,creat
fill w 3000000 1
close w
put s/e old
open w s/e wronly,trunc
fill w 2000000 1 = EDQUOT
rename s/e s/f = EDQUOT
close w = EDQUOT
B: cat s/e = old
B: check-name s/full 3000000 1
END
  kv_umount
}

@test "a full bank is ENOSPC, then close and rename fail, too" {
  kv_mount "ram=8M,session_ram=6M"
  mkdir "$M/s" "$M/t"
  setfattr -n user.kvbank.evict -v no "$M/s"
  setfattr -n user.kvbank.evict -v no "$M/t"
  script <<'END'
put t/e old
open w s/full wronly,creat
fill w 5000000 1
close w
open w t/e wronly,trunc
fill w 4000000 1 = ENOSPC
write w more = any
rename t/e t/f = ENOSPC
close w = ENOSPC
B: cat t/e = old
B: cat t/f = ENOENT
B: check-name s/full 5000000 1
END
  kv_umount
}

@test "a poisoned stage of a duplicated descriptor fails at every close" {
  steps "ram=8M,session_ram=4000K" <<'END'
put e old
open w e wronly,trunc
fill w 6000000 1 = EFBIG
dup w x
close w = EFBIG
fsync x = EFBIG
close x = EFBIG
B: cat e = old
END
}

@test "after a refusal the name can be written again" {
  steps "ram=8M,session_ram=4000K" <<'END'
put e old
open w e wronly,trunc
fill w 6000000 1 = EFBIG
close w = EFBIG
put e new
B: cat e = new
END
}

# ---- names ----

@test "rename publishes a closed file over an existing name" {
  steps <<'END'
put e old
B: open r e rdonly
A: open w e.tmp wronly,creat,trunc
write w new
close w
inode-name e.tmp = $new
rename e.tmp e
B: read r = old
B: cat e = new
B: inode-name e = $new
B: cat e.tmp = ENOENT
END
}

@test "rename publishes a stage that is still open" {
  steps <<'END'
put e old
open w e.tmp wronly,creat,trunc
write w new
B: cat e.tmp = EBUSY
A: rename e.tmp e
B: cat e = new
B: cat e.tmp = ENOENT
A: write w +more
close w
B: cat e = new+more
END
}

@test "rename into another session publishes there" {
  steps <<'END'
mkdir s
mkdir s/t
put s/t/e old
put x new
rename x s/t/e
B: cat s/t/e = new
B: cat x = ENOENT
A: rename s/t u
B: cat u/e = new
END
}

@test "a name that only another process writes cannot be renamed" {
  steps <<'END'
put e old
open w e.tmp wronly,creat
write w half
B: rename e.tmp e = EBUSY
B: cat e = old
A: close w
B: rename e.tmp e
B: cat e = half
END
}

@test "RENAME_NOREPLACE keeps an existing name, RENAME_EXCHANGE is EINVAL" {
  steps <<'END'
put e old
put x new
rename x e noreplace = EEXIST
cat e = old
rename x y noreplace
cat y = new
rename y e exchange = EINVAL
cat e = old
cat y = new
END
}

@test "rename of one hard link to the other changes nothing" {
  steps <<'END'
put a text
link a b
rename a b
cat a = text
cat b = text
END
}

@test "two writers on one temporary name never mix bytes" {
  kv_mount
  program publish "$M" "$(kv_count 100 20 1000)" 4
  kv_umount
}

@test "an unlinked file is readable until its last close, and its bytes count until then" {
  steps <<'END'
key ram_bytes = $empty
open w e wronly,creat
fill w 3000000 5
close w
key ram_bytes = $full
B: open r e rdonly
A: unlink e
cat e = ENOENT
B: check r 3000000 5
B: size r = 3000000
A: key ram_bytes = $full
B: close r
A: sleep 500
key ram_bytes = $empty
END
}

@test "an unlinked mapping keeps its bytes" {
  steps <<'END'
open w e wronly,creat
fill w 3000000 5
close w
B: open r e rdonly
B: map m r 3000000 shared read
B: close r
A: unlink e
put e new
B: map-check m 3000000 5
B: unmap m
A: cat e = new
END
}

@test "unlinking a name that is being written drops the stage" {
  steps <<'END'
put e old
open w e wronly,trunc
write w new
B: unlink e
A: write w more
close w
B: cat e = ENOENT
A: open w new wronly,creat
write w half
B: unlink new
A: close w
B: cat new = ENOENT
A: put new again
B: cat new = again
END
}

@test "of a hard-linked file only the name that was looked up is rewritten" {
  steps <<'END'
put one text
link one two
inode-name one = $old
inode-name two = $old
open w one wronly,trunc
write w changed
B: cat one = text
B: cat two = text
A: close w
B: cat one = changed
B: cat two = text
B: inode-name two = $old
A: open w two wronly,append
write w +
close w
B: cat two = text+
B: cat one = changed
A: link two three
truncate three 2
B: cat three = te
B: cat two = text+
END
}

@test "a name that is being written cannot be linked" {
  steps <<'END'
open w e wronly,creat
write w half
B: link e f = EBUSY
A: close w
B: link e f
B: cat f = half
END
}

@test "writing in nested sessions finds its way" {
  steps <<'END'
mkdir a
mkdir a/b
mkdir a/b/c
put a/b/c/e old
B: open w a/b/c/e wronly,trunc
B: write w new
A: cat a/b/c/e = old
B: close w
A: cat a/b/c/e = new
A: truncate a/b/c/e 1
B: cat a/b/c/e = n
END
}

# ---- mappings ----

@test "committed versions can be mapped, shared and private, by all" {
  steps <<'END'
open w e wronly,creat
fill w 1000001 5
close w
open r e rdonly
map s r 1000001 shared read
map p r 1000001 private read,write
B: open r e rdonly
B: map s r 1000001 shared read
map-check s 1000001 5
map-check p 1000001 5
B: map-check s 1000001 5
A: map-write p private
map-read p 7 = private
map-check s 1000001 5
B: map-check s 1000001 5
B: check-name e 1000001 5
A: map x r 4096 shared read,write = EACCES
close r
map-check s 1000001 5
END
}

@test "O_DIRECT reads, also while the version is mapped" {
  steps <<'END'
open w e wronly,creat
fill w 1000000 5
close w
B: open r e rdonly
B: map s r 1000000 shared read
A: open d e rdonly,direct
seek d 0
inode d = $i
B: inode r = $i
A: size d = 1000000
B: map-check s 1000000 5
END
}

@test "a stage cannot be mapped shared and writable, or its version never changes after close" {
  steps <<'END'
open w e rdwr,creat
ftruncate w 8192
pwrite w 0 12345
map m w 8192 shared read,write = any
map-write m 54321 = any
close w
B: cat e = $text
A: map-write m AFTER = any
B: cat e = $text
B: size-name e = 8192
END
}

# ---- many at once ----

@test "overwrites under readers: nothing mixed, short or wrong, no inode twice" {
  kv_mount
  program overwrite "$M/e" "${KV_OVERWRITES:-$(kv_count 200 60 1000)}" 4 8 0
  kv_umount
}

@test "killed writers commit nothing and give their bytes back" {
  kv_mount
  program killer "$M" "${KV_KILLS:-$(kv_count 150 60 300)}"
  kv_umount
}
