#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Traps between a kernel, its processes and a mount like this one. Each test is one that a plausible
# implementation falls into. Scripts are for build/programs/steps (see its head).

load lib/kv
load lib/steps

setup() {
  kv_skip_without_fuse
}

# ---- 1: asking /proc about a task that closes a stage inside execve ----

@test "a program can be started while a close-on-exec stage is open" {
  steps <<'END'
put e old
open w e wronly,trunc,cloexec
write w one,
run true = 0
thread run true = 0
B: cat e = old
A: write w two
run ps ax -o pid= = any
close w
B: cat e = one,two
END
}

@test "a writer that becomes another program commits what close-on-exec closes" {
  steps <<'END'
put e old
B: open w e wronly,trunc,cloexec
B: write w whole
B: exec true = died
A: cat e = whole
C: open w e wronly,trunc,cloexec
C: write w threads
C: spin 4
C: exec true = died
A: cat e = threads
END
}

@test "python's subprocess runs while stages are open" {
  kv_skip_without python3
  kv_mount
  timeout 60 python3 - "$M" <<'END'
import subprocess, sys, threading
mount = sys.argv[1]
def writer(i):
    for j in range(10):
        with open(f"{mount}/e{i}", "wb") as out:
            out.write(b"x" * 5000)
            out.flush()
            subprocess.run(["true"], check=True)
            subprocess.run("true", shell=True, check=True, close_fds=False)
            out.write(b"y" * 5000)
        with open(f"{mount}/e{i}", "rb") as back:
            assert back.read() == b"x" * 5000 + b"y" * 5000
threads = [threading.Thread(target=writer, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
END
  kv_umount
}

# ---- 2: the shell's early FLUSH at size 0 ----

@test "a killed command of a shell redirection leaves the old version" {
  kv_mount
  echo old >"$M/e"
  local how pid
  for how in "sleep 9 > e" "exec sleep 9 > e" "{ echo half; sleep 9; } > e" "(echo half; exec sleep 9) > e" \
    "echo half > e.part; sleep 9 >> e.part"; do
    setsid sh -c "cd $M; $how" 3>&- &
    pid=$!
    sleep 0.3
    [ "$(cat "$M/e")" = old ] || { echo "# shown too early: $how"; return 1; }
    kill -KILL -- "-$pid"
    wait "$pid" || true
    sleep 0.2 # its children are dying, too
    [ "$(cat "$M/e")" = old ] || { echo "# committed: $how"; return 1; }
  done
  kv_umount
}

@test "a shell's dup2 and close at size 0 commit nothing" {
  steps <<'END'
put e old
open w e wronly,trunc
open x /dev/null wronly
dup2 w x
close w
B: cat e = old
A: write x new
B: cat e = old
A: close x
B: cat e = new
END
}

@test "a shell redirection that is killed before it wrote leaves the old version" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: open x /dev/null wronly
B: dup2 w x
B: close w
kill B KILL = died
A: cat e = old
END
}

# ---- 3: fork and exec in another thread FLUSH a half-written stage ----

@test "a program started by another thread shows nobody a half-written stage" {
  steps <<'END'
put e old
open w e wronly,trunc
write w half,
thread run true = 0
B: cat e = old
A: thread run sh -c true = 0
B: cat e = old
A: open n new wronly,creat
write n half,
thread run true = 0
B: cat new = EBUSY
A: write w whole
close w
B: cat e = half,whole
A: write n whole
close n
B: cat new = half,whole
END
}

@test "a program that inherits a stage and lives on does not end it" {
  steps <<'END'
put e old
open w e wronly,trunc
write w one,
fork C
C: exec sleep 1 = died
B: cat e = old
A: write w two
close w
B: cat e = one,two
END
}

# ---- 4: FORGET of a stage before its OPEN ----

@test "stages reached while the kernel forgets inodes are the right ones" {
  kv_mount
  local forgetter status=0
  forget_often 3>&- 4>&- &
  forgetter=$!
  program overwrite "$M/e" "$(kv_count 1500 300)" 4 0 3 3000 || status=$?
  kill "$forgetter" 2>/dev/null || true
  wait "$forgetter" || true
  [ "$status" = 0 ]
  kv_umount
}

# Root may have the kernel forget at once. It forgets by itself, too: names with a stage expire at once.
forget_often() {
  local i
  [ -w /proc/sys/vm/drop_caches ] || return 0
  for i in 1 2 3 4 5 6 7 8; do
    sleep 0.2
    echo 2 >/proc/sys/vm/drop_caches
  done
}

# ---- 5: the number of LOOKUPs in a redirect varies ----

@test "eight writers and a stat loop on one name: no error, every stage its own inode" {
  kv_mount
  program overwrite "$M/e" "$(kv_count 3000 500)" 8 0 2 3000
  kv_umount
}

@test "eight writers and a stat loop on a name in nested sessions" {
  kv_mount
  mkdir -p "$M/a/b/c"
  program overwrite "$M/a/b/c/e" "$(kv_count 1500 300)" 8 2 1 3000
  kv_umount
}

# ---- 6: a redirect left by a dead thread, and its thread id used again ----

@test "a process with the id of a killed writer sees the committed version" {
  kv_mount
  local status=0
  program reuse "$M/e" "$(kv_count 300 100 2000)" || status=$?
  [ "$status" != 77 ] || skip "process ids cannot be chosen here"
  [ "$status" = 0 ]
  kv_umount
}

# ---- 7: a shared mapping that writes after close and RELEASE ----

@test "a mapping of a stage changes nothing once the version is committed" {
  steps <<'END'
put e old
open w e rdwr,trunc
ftruncate w 70000
pwrite w 0 before
map m w 70000 shared read,write = any
map-write m mapped = any
close w
B: xattr e user.kvbank.state = any
B: cat e = $text
A: sleep 300
map-write m AFTER = any
B: cat e = $text
B: open d e rdonly,direct
B: read d = $text
A: sleep 300
B: cat e = $text
END
}

# ---- 8: a tier that runs full while a writer ignores errors ----

@test "a writer that ignores a full tier is told at close and the old version stays" {
  kv_mount "ram=4M,session_ram=4M"
  setfattr -n user.kvbank.evict -v no "$M"
  script <<'END'
open w e wronly,creat
fill w 2000000 1
close w
inode-name e = $old
open w e wronly,trunc
fill w 9000000 2 = any
pwrite w 0 more = any
pwrite w 100 more = any
close w = ENOSPC
B: inode-name e = $old
B: check-name e 2000000 1
END
  kv_umount
}

@test "many writers that ignore a full tier leave every version whole" {
  kv_mount "ram=4M,session_ram=4M"
  local i pids=()
  for i in 1 2 3 4 5 6; do
    script >"$BATS_TEST_TMPDIR/out.$i" <<END &
open w e$i wronly,creat = any
fill w 1500000 $i = any
close w = any
open w e$i wronly,creat,trunc = any
fill w 1500000 $i = any
fill w 10 $i = any
close w = any
END
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i"; done
  for i in 1 2 3 4 5 6; do
    [ -e "$M/e$i" ] || continue
    script <<END || script <<END2
check-name e$i 1500000 $i
END
check-name e$i 1500010 $i
END2
  done
  kv_umount
}

# ---- 9: open modes of one inode in every order ----

@test "a version can be open in every mode and order" {
  kv_mount
  local order step
  for order in "r d m" "r m d" "d r m" "d m r" "m r d" "m d r"; do
    {
      echo "open w e wronly,creat,trunc"
      echo "fill w 70000 3"
      echo "close w"
      for step in $order; do
        case $step in
        r) printf '%s\n' "open a e rdonly" "check a 70000 3" ;;
        d) printf '%s\n' "open b e rdonly,direct" "size b = 70000" ;;
        m) printf '%s\n' "B: open c e rdonly" "B: map m c 70000 shared read" "B: map-check m 70000 3" ;;
        esac
      done
      printf '%s\n' "open w e wronly,append" "write w more" "check a 70000 3" "B: map-check m 70000 3" "close w" \
        "check a 70000 3" "B: map-check m 70000 3" "B: size-name e = 70004"
    } >"$BATS_TEST_TMPDIR/script"
    script <"$BATS_TEST_TMPDIR/script" || { echo "# order: $order"; return 1; }
  done
  kv_umount
}

@test "a stage can be written, read and committed in every order of opens" {
  kv_mount
  local order step
  for order in "own read fsync other map" "fsync other own read map" "own fsync map other read" \
    "fsync map own other read" "read own fsync other map" "fsync other map read own"; do
    {
      printf '%s\n' "put e old" "open w e wronly,trunc" "fill w 70000 3"
      for step in $order; do
        case $step in
        own) printf '%s\n' "open a e rdwr" "check a 70000 3" ;;
        read) printf '%s\n' "open b e rdonly" "check b 70000 3" ;;
        fsync) echo "fsync w" ;;
        other) printf '%s\n' "B: open c e rdonly" "B: check c 70000 3" ;;
        map) printf '%s\n' "C: open d e rdonly" "C: map m d 70000 shared read" "C: map-check m 70000 3" ;;
        esac
      done
      printf '%s\n' "close w" "close a" "B: check c 70000 3" "C: map-check m 70000 3" "C: check d 70000 3" \
        "D: check-name e 70000 3" "check b 70000 3"
    } >"$BATS_TEST_TMPDIR/script"
    script <"$BATS_TEST_TMPDIR/script" || { echo "# order: $order"; return 1; }
  done
  kv_umount
}

# ---- 10: who is dying, and who only looks like it ----

@test "_exit with spinning threads commits" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: write w exit3
B: spin 4
B: exit 3 = died
A: cat e = exit3
C: open w e wronly,trunc
C: write w thread
C: spin 4
C: thread exit 3 = died
A: cat e = thread
END
}

@test "SIGKILL, SIGTERM and a crash with spinning threads drop" {
  steps <<'END'
put e old
B: open w e wronly,trunc
B: write w killed
B: spin 4
kill B KILL = died
A: cat e = old
C: open w e wronly,trunc
C: write w killed
C: spin 4
kill C TERM = died
A: cat e = old
D: open w e wronly,trunc
D: write w crashed
D: spin 4
D: segv = died
A: cat e = old
E: open w e wronly,trunc
E: write w crashed
E: spin 4
E: thread abort = died
A: cat e = old
F: open w e wronly,trunc
F: write w killed
F: spin 4
F: thread tgkill KILL = died
A: cat e = old
END
}

# ---- 14: a committed file opened for writing by its descriptor ----

@test "a committed file cannot be opened for writing through /proc/self/fd" {
  steps <<'END'
put e old
open r e rdonly
reopen x r wronly = ETXTBSY
reopen x r rdwr,trunc = ETXTBSY
open p e path
reopen x p rdwr = ETXTBSY
reopen x p rdonly
read x = old
close x
B: cat e = old
A: open w e wronly,trunc
write w new
close w
B: cat e = new
A: read r = old
END
}

@test "after ETXTBSY the same thread finds its way by name" {
  steps <<'END'
put e old
open p e path
reopen x p wronly = ETXTBSY
open w e wronly,trunc
write w one
close w
B: cat e = one
A: reopen x p wronly = ETXTBSY
truncate e 1
B: cat e = o
END
}
