#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Who may do what, and what leaves the daemon: nothing that others could read.

load lib/kv

setup() {
  kv_skip_without_fuse
  kv_names
}

public_mount() { # OPTIONS: below a folder that other users reach
  kv_public_dir
  cp "$KV_LIB/call.py" "$KV_PUBLIC"
  M="$KV_PUBLIC/mnt"
  mkdir "$M"
  kv_mount "${1:-}"
}

other_gets() { # WANTED CALL ARGUMENTS...: as kv_call, by another user
  local want="$1" got
  shift
  got=$(kv_as 1001 "$KV_PYTHON" "$KV_PUBLIC/call.py" "$@")
  [ "$got" = "$want" ] || {
    echo "# $*: expected $want, got $got"
    return 1
  }
}

@test "three users, every operation, every mode: as the table says, also with warm caches" {
  kv_skip_without_root "other users"
  public_mount allow_other
  run "$KV_PYTHON" "$KV_LIB/permissions.py" "$M"
  echo "$output"
  [ "$status" = 0 ]
  kv_umount
}

@test "without allow_other other users get EACCES from everything" {
  kv_skip_without_root "other users"
  public_mount
  echo secret >"$M/e"
  chmod 644 "$M/e"
  chmod 755 "$M"
  local call
  for call in list stat; do
    other_gets EACCES $call "$M"
  done
  for call in read write stat unlink listxattr; do
    other_gets EACCES $call "$M/e"
  done
  other_gets EACCES read "$M/.kvbank/stats"
  other_gets EACCES create "$M/new"
  kv_umount
}

@test "the control files: stats and metrics for all, events and control for the mounter" {
  kv_skip_without_root "other users"
  public_mount allow_other
  [ "$(stat -c %a "$M/.kvbank/stats" "$M/.kvbank/metrics" | sort -u)" = 444 ]
  [ "$(stat -c %a "$M/.kvbank/events" "$M/.kvbank/control" | sort -u)" = 600 ]
  local file
  for file in stats metrics config; do
    kv_as 1001 cat "$M/.kvbank/$file" >/dev/null
  done
  for file in events control; do
    other_gets EACCES read "$M/.kvbank/$file"
    other_gets EACCES write "$M/.kvbank/$file"
  done
  other_gets EACCES write_line "$M/.kvbank/config" ram=32M
  other_gets EACCES write "$M/.kvbank/stats"
  kv_umount
}

@test "set-user-id and capabilities never stick" {
  kv_mount
  cp /bin/true "$M/program"
  kv_call EPERM chmod "$M/program" 4755
  kv_call EPERM chmod "$M/program" 2755
  kv_not kv_call ok setxattr "$M/program" security.capability x >/dev/null
  kv_call ENODATA getxattr "$M/program" security.capability
  kv_not kv_call ok setxattr "$M/program" system.posix_acl_access x >/dev/null
  kv_call EOPNOTSUPP setxattr "$M/program" no.namespace x
  [ "$(stat -c %a "$M/program")" = 700 ]
  [[ ",$(findmnt -n -o OPTIONS "$M")," == *,nosuid,* ]]
  [[ ",$(findmnt -n -o OPTIONS "$M")," == *,nodev,* ]]
  kv_umount
}

@test "no core is written when the daemon crashes" {
  kv_skip_without_root "the core size limit"
  case "$BUILD" in *san-*) skip "the sanitizer handles the signal" ;; esac
  mkdir -p "$M"
  run timeout 60 "$KV_PYTHON" "$KV_LIB/no_core.py" "$KVBANKFS" "$S" "$M" "$(kv_options)"
  echo "$output"
  [ "$status" != 77 ] || skip "${lines[-1]}"
  [ "$status" = 0 ]
}

@test "the log holds neither names nor content, whatever goes wrong" {
  local canary="kvcanary$RANDOM$RANDOM"
  kv_mount ram=16M
  mkdir "$M/$canary"
  for i in 1 2 3 4; do
    yes "$canary-content" | head -c 5M >"$M/$canary/e$i" 2>/dev/null || true
  done
  yes "$canary-content" | head -c 64M >"$M/$canary/large" 2>/dev/null || true
  (exec 8>"$M/$canary/killed"; yes "$canary-content" | head -c 1M >&8; kill -9 "$BASHPID") 2>/dev/null || true
  setfattr -n user.note -v "$canary" "$M/$canary"
  echo "$canary-content" >"$M/$canary/small"
  kv_call EPERM setxattr "$M/$canary/small" user.kvbank.state "$canary"
  printf 'clear %s\n' "$canary/none" >"$M/.kvbank/control" 2>/dev/null || true
  mv "$M/$canary" "$M/moved$canary"
  rm -r "$M/moved$canary"
  kv_umount
  kv_not grep -aq "$canary" "$KV_LOG"
}

@test "a planted symlink, FIFO, directory or link as lock file harms nobody and is told" {
  local kind victim="$BATS_TEST_TMPDIR/victim"
  mkdir -p "$M"
  for kind in symlink dangling fifo directory; do
    rm -rf "$S"
    mkdir -m 700 "$S"
    echo precious >"$victim"
    rm -f "$victim.new"
    case $kind in
    symlink) ln -s "$victim" "$S/lock" ;;
    dangling) ln -s "$victim.new" "$S/lock" ;;
    fifo) mkfifo -m 600 "$S/lock" ;;
    directory) mkdir "$S/lock" ;;
    esac
    # shellcheck disable=SC2086 # KV_WRAP is a command with arguments
    run timeout 10 ${KV_WRAP:-} "$KVBANKFS" -o "$(kv_options)" "$S" "$M"
    echo "# $kind: status $status: $output"
    [ "$status" = 2 ]
    [[ "$output" == *lock* ]]
    kv_not kv_is_mounted
    [ "$(cat "$victim")" = precious ]
    [ ! -e "$victim.new" ]
  done
}

@test "symlinks planted for the store's other names are not followed" {
  local name outside="$BATS_TEST_TMPDIR/outside"
  mkdir -p "$M" "$outside"
  mkdir -m 700 "$S"
  for name in packs tmp quarantine; do
    ln -s "$outside" "$S/$name"
  done
  # shellcheck disable=SC2086 # KV_WRAP is a command with arguments
  run timeout 10 ${KV_WRAP:-} "$KVBANKFS" -o "$(kv_options)" "$S" "$M"
  if [ "$status" = 0 ]; then
    cp "$KV_DATA/chat-turn1.bin" "$M/e"
    sync "$M/e" || true
    kv_clean_below "$BATS_TEST_TMPDIR" >/dev/null
  fi
  [ -z "$(ls -A "$outside")" ]
}

@test "memory of a removed entry is not in a new one" {
  kv_mount ram=64M
  yes SECRETSECRET | head -c 8M >"$M/e"
  rm "$M/e"
  truncate -s 8M "$M/f"
  kv_not grep -aq SECRET "$M/f"
  fallocate -l 8M "$M/g"
  kv_not grep -aq SECRET "$M/g"
  kv_umount
}
