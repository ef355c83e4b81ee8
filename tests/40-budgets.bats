#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Budgets: what may be held, who has to go, what is refused and how it is told.

load lib/kv

setup() {
  kv_skip_without_fuse
}

put() { # FILE MEBIBYTES
  dd if=/dev/zero of="$1" bs=1M count="$2" status=none
}

errno_of() { # COMMAND... : its last word of strerror
  run "$@"
  [ "$status" -ne 0 ]
  echo "$output"
}

accounts_agree() { # what SIGUSR1 writes to the log says no sum is wrong
  local before
  before=$(grep -c accounts_wrong "$KV_LOG" || true)
  kill -USR1 "$KV_PID"
  kv_wait_for 5 sh -c "[ \$(grep -c accounts_wrong '$KV_LOG') -gt $before ]"
  grep accounts_wrong "$KV_LOG" | tail -1 | grep -q 'accounts_wrong 0'
}

@test "caps hold at every instant under three times overload by six writers, and all is told" {
  kv_mount ram=64M,session_ram=24M
  run python3 "$KV_LIB/overload.py" "$M" "$(kv_count 6 5 20)" $((24 << 20))
  echo "$output"
  [ "$status" -eq 0 ]
  accounts_agree
  kv_umount
}

@test "an entry larger than the bank or the session is EFBIG at write time and changes nothing" {
  kv_mount ram=16M,session_ram=8M
  mkdir "$M/s"
  put "$M/s/old" 4
  run put "$M/s/new" 9
  [[ "$output" == *"File too large"* ]]
  [ ! -e "$M/s/new" ]
  put "$M/s/old" 4
  run fallocate -l 9M "$M/s/new" # said at once, so nobody is evicted for its beginning
  [[ "$output" == *"File too large"* ]]
  [ -e "$M/s/old" ]
  kv_events 'refuse reason=larger_than_session' | grep -q 'path=s/new'
  accounts_agree
  kv_umount
}

@test "a session's cap is EDQUOT when nothing in it may go, the bank's is ENOSPC" {
  kv_mount ram=16M,session_ram=8M
  mkdir "$M/a" "$M/b" "$M/c"
  put "$M/a/x" 6
  setfattr -n user.kvbank.pin -v forever "$M/a/x"
  run put "$M/a/y" 4
  [[ "$output" == *"quota"* ]]
  put "$M/b/x" 7
  setfattr -n user.kvbank.pin -v 3600 "$M/b/x"
  run put "$M/c/y" 5
  [[ "$output" == *"No space left"* ]]
  kv_events 'refuse reason=session_ram' | grep -q 'path=a/y'
  kv_events 'refuse reason=ram' | grep -q 'path=c/y'
  [ "$(kv_stat evicted_entries)" = 0 ]
  kv_umount
}

@test "the least recently used entry goes, the one just read stays" {
  kv_mount ram=16M,session_ram=16M
  put "$M/a" 5
  put "$M/b" 5
  put "$M/c" 5
  cat "$M/a" >/dev/null
  put "$M/d" 5
  [ -e "$M/a" ]
  [ ! -e "$M/b" ]
  [ -e "$M/c" ]
  kv_events 'evict reason=ram' | grep -q 'path=b'
  [ "$(kv_stat evicted_bytes)" = $((5 << 20)) ]
  kv_umount
}

@test "entries of idle sessions go before older ones of active sessions" {
  kv_mount ram=16M,session_ram=16M,pin_ttl=1s
  mkdir "$M/active" "$M/idle"
  put "$M/active/old" 5
  put "$M/idle/newer" 5
  sleep 2.1
  put "$M/active/now" 1
  put "$M/active/more" 6
  [ -e "$M/active/old" ]
  [ ! -e "$M/idle/newer" ]
  kv_umount
}

@test "open and mapped entries are never evicted and count until nobody has them" {
  kv_mount ram=16M,session_ram=16M
  put "$M/held" 6
  exec 5<"$M/held"
  put "$M/a" 6
  run put "$M/b" 12
  [[ "$output" == *"No space left"* ]]
  [ -e "$M/held" ]
  rm "$M/held"
  [ "$(kv_stat ram_bytes)" -ge $((6 << 20)) ]
  [ "$(head -c 1048576 <&5 | wc -c)" = 1048576 ]
  exec 5<&-
  kv_wait_for 3 sh -c "[ \$(awk '\$1 == \"ram_bytes\" { print \$2 }' '$M/.kvbank/stats') -le $((6 << 20)) ]"
  accounts_agree
  kv_umount
}

@test "bytes of an unlinked entry that is only mapped count until munmap" {
  kv_mount ram=64M
  put "$M/e" 8
  python3 "$KV_LIB/mapped.py" "$M/e" "$M/.kvbank/stats" $((8 << 20))
  accounts_agree
  kv_umount
}

@test "an entry that is only mapped is not evicted" {
  kv_mount ram=32M,session_ram=100%
  put "$M/e" 8
  python3 "$KV_LIB/mapped.py" "$M/e" "$M/.kvbank/stats" $((8 << 20)) "$M/other"
  [ "$(kv_stat evicted_entries)" -ge 2 ]
  kv_umount
}

@test "evict=no refuses instead of losing files" {
  kv_mount ram=16M,session_ram=8M
  mkdir "$M/keep" "$M/other"
  setfattr -n user.kvbank.evict -v no "$M/keep"
  put "$M/keep/a" 6
  run put "$M/keep/b" 4
  [[ "$output" == *"quota"* ]]
  [ -e "$M/keep/a" ]
  put "$M/other/a" 7
  put "$M/other/b" 7
  [ -e "$M/keep/a" ]
  [ ! -e "$M/other/a" ]
  kv_umount
}

@test "entry counts are capped in the bank and in a session" {
  kv_mount entries=5,session_entries=3
  mkdir "$M/s"
  for i in 1 2 3 4; do echo "$i" >"$M/s/e$i"; done
  [ "$(find "$M/s" -type f | wc -l)" = 3 ]
  [ ! -e "$M/s/e1" ]
  for i in 1 2 3; do echo "$i" >"$M/r$i"; done
  [ "$(kv_stat entries)" = 5 ]
  kv_events 'evict reason=session_entries' | grep -q 'path=s/e1'
  kv_events 'evict reason=entries' | grep -q 'path=s/e2'
  kv_umount
}

@test "appending costs what is appended, not what was there" {
  kv_mount ram=512M,session_ram=512M
  put "$M/big" 200
  before=$(kv_stat ram_bytes)
  dd if=/dev/zero bs=1M count=1 status=none >>"$M/big"
  [ "$(stat -c %s "$M/big")" = $((201 << 20)) ]
  grown=$(($(kv_stat ram_bytes) - before))
  [ "$grown" -le $((2 << 20)) ]
  settled_to() { [ $(($(kv_stat ram_bytes) - before)) = $((1 << 20)) ]; }
  kv_wait_for 5 settled_to
  printf X | dd of="$M/big" bs=1 seek=100 conv=notrunc status=none
  settled_again() { [ "$(kv_stat ram_bytes)" = $((201 << 20)) ]; }
  kv_wait_for 5 settled_again
  [ "$(stat -c %s "$M/big")" = $((201 << 20)) ]
  [ "$(dd if="$M/big" bs=1 skip=100 count=1 status=none)" = X ]
  accounts_agree
  kv_umount
}

@test "a nearly full tier still folds an append into its base" {
  kv_mount ram=64M,session_ram=64M
  put "$M/big" 50
  put "$M/last" 12
  dd if=/dev/urandom bs=1M count=6 of="$BATS_TEST_TMPDIR/tail" status=none
  cat "$BATS_TEST_TMPDIR/tail" >>"$M/big"
  folded() { [ "$(getfattr --only-values -n user.kvbank.nbytes "$M/big")" = $((56 << 20)) ] && [ "$(kv_stat overlay_entries)" = 0 ]; }
  kv_wait_for 10 folded
  tail -c $((6 << 20)) "$M/big" | cmp - "$BATS_TEST_TMPDIR/tail"
  accounts_agree
  kv_umount
}

@test "growing by truncate and fallocate is charged at once and refused when it does not fit" {
  kv_mount ram=16M,session_ram=16M
  run truncate -s 1T "$M/huge"
  [[ "$output" == *"File too large"* ]]
  exec 5>"$M/stage"
  fallocate -l 8M "/proc/self/fd/5" || python3 -c 'import os; os.posix_fallocate(5, 0, 8 << 20)'
  [ "$(kv_stat ram_bytes)" = $((8 << 20)) ]
  exec 5>&-
  [ "$(stat -c %s "$M/stage")" = $((8 << 20)) ]
  truncate -s 3M "$M/stage"
  small() { [ "$(kv_stat ram_bytes)" = $((3 << 20)) ]; }
  kv_wait_for 3 small
  accounts_agree
  kv_umount
}

@test "a lower ram= evicts until it holds, and is refused when it cannot" {
  kv_mount ram=64M,session_ram=100%
  put "$M/a" 20
  put "$M/b" 20
  echo ram=32M >"$M/.kvbank/config"
  [ "$(kv_stat ram_max)" = $((32 << 20)) ]
  [ ! -e "$M/a" ]
  [ -e "$M/b" ]
  setfattr -n user.kvbank.pin -v forever "$M/b"
  run sh -c "echo ram=8M >'$M/.kvbank/config'"
  [ "$status" -ne 0 ]
  [ "$(kv_stat ram_max)" = $((32 << 20)) ]
  echo ram=128M >"$M/.kvbank/config"
  put "$M/c" 90
  [ -e "$M/b" ]
  kv_umount
}

@test "idle_ttl drops entries that nobody used for that long, not pinned ones" {
  kv_mount idle_ttl=1s
  echo a >"$M/a"
  echo b >"$M/b"
  setfattr -n user.kvbank.pin -v forever "$M/b"
  gone() { [ ! -e "$M/a" ]; }
  kv_wait_for 6 gone
  [ -e "$M/b" ]
  kv_events 'drop reason=idle_ttl' | grep -q 'path=a'
  kv_umount
}

@test "a rename into a session that has no room is refused and nothing moves" {
  kv_mount ram=32M,session_ram=8M
  mkdir "$M/a" "$M/b"
  put "$M/a/x" 6
  put "$M/b/y" 6
  setfattr -n user.kvbank.pin -v forever "$M/b/y"
  run mv "$M/a/x" "$M/b/x"
  [ "$status" -ne 0 ]
  [ -e "$M/a/x" ]
  [ ! -e "$M/b/x" ]
  setfattr -x user.kvbank.pin "$M/b/y"
  mv "$M/a/x" "$M/b/x"
  gone() { [ ! -e "$M/b/y" ]; }
  kv_wait_for 2 gone # the kernel is told a moment after
  [ "$(getfattr --only-values -n user.kvbank.nbytes "$M/b")" = $((6 << 20)) ]
  [ "$(getfattr --only-values -n user.kvbank.nbytes "$M/a")" = 0 ]
  accounts_agree
  kv_umount
}
