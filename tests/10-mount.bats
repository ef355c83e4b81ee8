#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Mounting: options, what is refused and how it is told, one daemon for one store, every way to end.

load lib/kv

setup() {
  kv_skip_without_fuse
  kv_names
  mkdir -p "$M"
}

# Runs kvbankfs as a person would, without -f; the terminal is the test's output.
daemon() {
  # shellcheck disable=SC2086 # KV_WRAP is a command with arguments
  timeout 30 ${KV_WRAP:-} "$KVBANKFS" "$@" </dev/null 3>&- 4>&-
}

# A refusal is one line that names TEXT, and this status; nothing is mounted.
refuses() { # STATUS TEXT ARGUMENTS...
  local want="$1" text="$2"
  shift 2
  run daemon "$@"
  if [ "$status" != "$want" ] || [ "${#lines[@]}" != 1 ] || [[ "$output" != *"$text"* ]]; then
    echo "# kvbankfs $*"
    echo "# expected status $want and one line with '$text', got status $status and: $output"
    return 1
  fi
  kv_not kv_is_mounted
}

# Starts a daemon in the background (not -f) and waits for its first process only.
daemon_mounts() { # STORE MOUNTPOINT OPTIONS
  run daemon -o "$(kv_options "$3")" "$1" "$2"
  [ "$status" = 0 ] || { echo "# $output"; return 1; }
  [ -z "$output" ] || { echo "# expected silence, got: $output"; return 1; }
  kv_is_mounted "$2"
}

@test "-V prints the version and ends with 0" {
  run daemon -V
  [ "$status" = 0 ]
  [[ "$output" =~ kvbankfs.*[0-9]+\.[0-9]+ ]]
  [[ "$output" == *[Ff][Uu][Ss][Ee]* ]]
  run daemon --version
  [ "$status" = 0 ]
}

@test "-h names every option and ends with 0" {
  run daemon -h
  [ "$status" = 0 ]
  local option
  for option in ram session_ram entries session_entries ssd ssd_mode reserve write_budget backlog stall pause idle_ttl \
    pin_ttl protect_terminal shed_boundaries settle history block min_match gap min_tokens compress verify dedupe names \
    passthrough; do
    grep -qE "^ +(-o )?${option}[ =]" <<<"$output" || { echo "# -h lacks $option"; return 1; }
  done
  run daemon --help
  [ "$status" = 0 ]
}

@test "without arguments, or with too few or many: status 1 and what was expected" {
  local arguments
  for arguments in "" "$S" "$S $M $M"; do
    # shellcheck disable=SC2086 # the arguments are several words
    run daemon $arguments
    [ "$status" = 1 ]
    [ -n "$output" ]
  done
  kv_not kv_is_mounted
}

@test "an unknown option is refused with status 1 and named" {
  refuses 1 no_such_option -o no_such_option=1 "$S" "$M"
  refuses 1 ramm -o ramm=1G "$S" "$M"
  run daemon --no-such-option "$S" "$M"
  [ "$status" = 1 ]
  [ ! -e "$S" ]
}

@test "a bad value is refused with status 1 and one line that names the option" {
  local option
  for option in ram=lots ram=-1 ram= ram=0 ram=101% ram=1Q ram=1GG ram=99999999999999999999G session_ram=x entries=-1 \
    entries=many session_entries=1.5 ssd=big ssd_mode=maybe reserve=x write_budget=-5 backlog=no stall=soon stall=-1s pause=x \
    idle_ttl=never pin_ttl=x protect_terminal=perhaps shed_boundaries=2 settle=never history=-1 history=x block=0 block=x \
    min_match=-1 gap=x min_tokens=x compress=gzip verify=no dedupe=all names=some passthrough=yes; do
    refuses 1 "${option%%=*}" -o "$option" "$S" "$M" || return 1
  done
  [ ! -e "$S" ]
}

@test "good values of every option are accepted and shown in .kvbank/config" {
  local pair options="" name value
  local pairs=(session_ram=32M entries=1000 session_entries=100 ssd=1G ssd_mode=on reserve=1M write_budget=2G backlog=16M
    stall=20s pause=3s idle_ttl=3600 pin_ttl=300s protect_terminal=off shed_boundaries=off settle=lazy history=4 block=128
    min_match=256 gap=4 min_tokens=10 compress=none verify=full dedupe=session names=given)
  for pair in ram=64M "${pairs[@]}"; do
    options="$options,$pair"
  done
  kv_mount "${options#,}"
  for pair in "${pairs[@]}"; do
    name="${pair%%=*}" value="${pair#*=}"
    grep -q "^$name=" "$M/.kvbank/config" || { echo "# config lacks $name="; return 1; }
    case "$value" in
    *[0-9]*) ;; # sizes and times may be shown in another unit
    *) grep -q "^$name=$value\b" "$M/.kvbank/config" || { grep "^$name=" "$M/.kvbank/config"; return 1; } ;;
    esac
  done
  kv_umount
}

@test "sizes take K, M, G, T and a percentage" {
  local ram
  for ram in 65536K 64M 67108864; do
    kv_mount "ram=$ram"
    [ "$(kv_stat ram_max)" = 67108864 ]
    kv_umount
  done
  kv_mount ram=1%
  [ "$(kv_stat ram_max)" -gt 1048576 ]
  kv_umount
}

@test "several -o and options behind the paths work alike" {
  run daemon "$S" "$M" -o "$(kv_options ram=32M)" -o entries=7
  [ "$status" = 0 ]
  [ "$(kv_stat ram_max)" = 33554432 ]
  grep -q '^entries=7' "$M/.kvbank/config"
}

@test "a line written to .kvbank/config changes one option; a bad one is EINVAL and changes nothing" {
  kv_mount ram=64M
  echo ram=48M >"$M/.kvbank/config"
  [ "$(kv_stat ram_max)" = 50331648 ]
  before=$(cat "$M/.kvbank/config")
  local line
  for line in ram=lots no_such=1 ram "ram=32M entries=2" settle=never; do
    kv_call EINVAL write_line "$M/.kvbank/config" "$line"
  done
  [ "$(cat "$M/.kvbank/config")" = "$before" ]
  kv_umount
}

@test "STORE that is a file, a symlink or below a file is refused with status 2" {
  echo content >"$BATS_TEST_TMPDIR/file"
  refuses 2 "$BATS_TEST_TMPDIR/file" "$BATS_TEST_TMPDIR/file" "$M"
  [ "$(cat "$BATS_TEST_TMPDIR/file")" = content ]
  mkdir -m 700 "$BATS_TEST_TMPDIR/real"
  ln -s real "$BATS_TEST_TMPDIR/link"
  refuses 2 "$BATS_TEST_TMPDIR/link" "$BATS_TEST_TMPDIR/link" "$M"
  ln -s nowhere "$BATS_TEST_TMPDIR/dangling"
  refuses 2 "$BATS_TEST_TMPDIR/dangling" "$BATS_TEST_TMPDIR/dangling" "$M"
  refuses 2 "$BATS_TEST_TMPDIR/file/store" "$BATS_TEST_TMPDIR/file/store" "$M"
  refuses 2 "$BATS_TEST_TMPDIR/no/parent" "$BATS_TEST_TMPDIR/no/parent" "$M"
  [ -z "$(ls -A "$BATS_TEST_TMPDIR/real")" ]
}

@test "STORE that others may write to is refused with status 2" {
  local mode
  for mode in 777 770 720 702; do
    mkdir "$S"
    chmod "$mode" "$S"
    refuses 2 "$S" "$S" "$M" || return 1
    [ -z "$(ls -A "$S")" ]
    rmdir "$S"
  done
}

@test "STORE of another user is refused with status 2" {
  kv_skip_without_root "a store of another user"
  mkdir -m 700 "$S"
  chown 65534 "$S"
  refuses 2 "$S" "$S" "$M"
}

@test "STORE is made private whatever the umask" {
  umask 000
  kv_mount
  echo x >"$M/e"
  [ "$(stat -c %a "$S")" = 700 ]
  run find "$S" -mindepth 1 \( -type f ! -perm 600 -o -type d ! -perm 700 \)
  [ -z "$output" ]
  kv_umount
}

@test "a mount point that is missing, a file, or the store itself is refused with status 3 or 2" {
  refuses 3 "$BATS_TEST_TMPDIR/missing" "$S" "$BATS_TEST_TMPDIR/missing"
  echo x >"$BATS_TEST_TMPDIR/file"
  refuses 3 "$BATS_TEST_TMPDIR/file" "$S" "$BATS_TEST_TMPDIR/file"
  mkdir -p -m 700 "$S/inside"
  run daemon "$S" "$S"
  [ "$status" = 2 ] || [ "$status" = 3 ]
  run daemon "$S" "$S/inside"
  [ "$status" = 2 ] || [ "$status" = 3 ]
  run daemon "$M/store" "$M"
  [ "$status" = 2 ] || [ "$status" = 3 ]
  [ -z "$(ls -A "$M")" ]
}

@test "a busy mount point is refused with status 3 and the first mount goes on" {
  kv_mount
  echo first >"$M/e"
  run daemon "$BATS_TEST_TMPDIR/store2" "$M"
  [ "$status" = 3 ]
  [[ "$output" == *"$M"* ]]
  [ "$(cat "$M/e")" = first ]
  kv_umount
  kv_not kv_is_mounted
}

@test "a second daemon on one STORE is refused at once with status 2" {
  kv_mount
  mkdir "$BATS_TEST_TMPDIR/mnt2"
  before=$(find "$S" -printf '%P %s %T@\n' | sort)
  local start=$SECONDS
  run daemon "$S" "$BATS_TEST_TMPDIR/mnt2"
  [ "$status" = 2 ]
  [[ "$output" == *"$S"* ]]
  [ $((SECONDS - start)) -le 3 ]
  kv_not kv_is_mounted "$BATS_TEST_TMPDIR/mnt2"
  [ "$(find "$S" -printf '%P %s %T@\n' | sort)" = "$before" ]
  kv_umount
}

@test "a second daemon is refused by another path too, and with the lock file deleted" {
  kv_mount
  mkdir "$BATS_TEST_TMPDIR/mnt2"
  ln -s . "$BATS_TEST_TMPDIR/here"
  run daemon "$BATS_TEST_TMPDIR/here/store" "$BATS_TEST_TMPDIR/mnt2"
  [ "$status" = 2 ]
  if [ "$(id -u)" = 0 ]; then
    mkdir "$BATS_TEST_TMPDIR/bound"
    mount --bind "$S" "$BATS_TEST_TMPDIR/bound"
    run daemon "$BATS_TEST_TMPDIR/bound" "$BATS_TEST_TMPDIR/mnt2"
    [ "$status" = 2 ]
  fi
  rm -f "$S/lock"
  run daemon "$S" "$BATS_TEST_TMPDIR/mnt2"
  [ "$status" = 2 ]
  kv_not kv_is_mounted "$BATS_TEST_TMPDIR/mnt2"
  [ ! -e "$BATS_TEST_TMPDIR/bound" ] || umount "$BATS_TEST_TMPDIR/bound"
  kv_umount
}

@test "two daemons started at once on one STORE: exactly one wins" {
  local round first second
  mkdir "$BATS_TEST_TMPDIR/mnt2"
  for round in 1 2 3; do
    daemon -o "$(kv_options)" "$S" "$M" >"$BATS_TEST_TMPDIR/one" 2>&1 &
    first=$!
    daemon -o "$(kv_options)" "$S" "$BATS_TEST_TMPDIR/mnt2" >"$BATS_TEST_TMPDIR/two" 2>&1 &
    second=$!
    local one=0 two=0
    wait "$first" || one=$?
    wait "$second" || two=$?
    [ "$one $two" = "0 2" ] || [ "$one $two" = "2 0" ] || { cat "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two"; return 1; }
    kv_clean_below "$BATS_TEST_TMPDIR" >/dev/null
    kv_wait_for 10 lock_is_free
  done
}

lock_is_free() {
  [ ! -e "$S/lock" ] || flock -n "$S/lock" true
}

@test "after kill -9 the lock is free and the stale mount point mounts again at once" {
  local round
  for round in 1 2 3; do
    kv_mount
    echo "round $round" >"$M/e"
    kv_kill
    run cat "$M/e"
    [ "$status" != 0 ]
    kv_mount
    [ ! -e "$M/e" ] || [ "$(cat "$M/e")" = "round $round" ]
    kv_umount
    kv_not kv_is_mounted
  done
}

@test "after kill -9 another mount point gets the STORE at once" {
  kv_mount
  kv_kill
  mkdir "$BATS_TEST_TMPDIR/mnt2"
  daemon_mounts "$S" "$BATS_TEST_TMPDIR/mnt2" ""
}

@test "readers and writers of a killed daemon get an errno at once" {
  kv_mount
  head -c 1000000 /dev/zero >"$M/e"
  exec 7<"$M/e" 8>"$M/new"
  kv_kill
  run timeout 10 cat "$M/e"
  [ "$status" = 1 ]
  run timeout 10 ls "$M"
  [ "$status" = 2 ]
  run timeout 10 bash -c 'echo x >&8'
  [ "$status" = 1 ]
  exec 7<&- 8>&- || true
}

@test "SIGTERM and SIGINT unmount and end with status 0" {
  local signal
  for signal in TERM INT; do
    kv_mount
    echo x >"$M/e"
    kill -"$signal" "$KV_PID"
    kv_ended
    kv_not kv_is_mounted
  done
}

@test "SIGTERM ends the daemon although a client holds files and a directory" {
  kv_mount
  echo x >"$M/e"
  mkdir "$M/s"
  (cd "$M/s" && exec sleep 60 <"$M/e" 3>&- 4>&- 7>"$M/unfinished" 8<"$M/s") &
  local holder=$!
  holds_all() { [ "$(readlink "/proc/$holder/cwd" /proc/"$holder"/fd/{0,7,8} | tr '\n' ' ')" = "$M/s $M/e $M/unfinished $M/s " ]; }
  kv_wait_for 5 holds_all
  kill -TERM "$KV_PID"
  kv_ended
  kv_not kv_is_mounted
  kill "$holder"
  wait "$holder" || true
}

@test "fusermount3 -u ends the daemon with status 0; while in use it is refused" {
  kv_mount
  echo x >"$M/e"
  exec 7<"$M/e"
  run fusermount3 -u "$M"
  [ "$status" != 0 ]
  [ "$(cat "$M/e")" = x ]
  exec 7<&-
  kv_umount
}

@test "SIGHUP and SIGPIPE do not end the daemon" {
  kv_mount
  kill -HUP "$KV_PID"
  kill -PIPE "$KV_PID"
  sleep 0.2
  echo x >"$M/e"
  [ "$(cat "$M/e")" = x ]
  kv_umount
}

@test "in daemon mode the command returns when the mount is up, silently" {
  daemon_mounts "$S" "$M" ""
  echo x >"$M/e"
  [ "$(cat "$M/e")" = x ]
  [ "$(stat -c %a "$M")" = 700 ]
  fusermount3 -u "$M" || umount "$M"
  kv_wait_for 10 lock_is_free
}

@test "the daemon keeps neither the caller's folder nor its descriptors" {
  mkdir "$BATS_TEST_TMPDIR/folder"
  exec 7>"$BATS_TEST_TMPDIR/kept"
  (cd "$BATS_TEST_TMPDIR/folder" && daemon_mounts "$S" "$M" "")
  exec 7>&-
  rmdir "$BATS_TEST_TMPDIR/folder"
  local pid
  pid=$(pgrep -f "$KVBANKFS .*$M" | head -n 1)
  [ -n "$pid" ]
  [ "$(id -u)" = 0 ] || skip "/proc/$pid is root's alone"
  [ "$(readlink "/proc/$pid/cwd")" = / ]
  kv_not bash -c "ls -l /proc/$pid/fd | grep $BATS_TEST_TMPDIR/kept"
}

@test "mount -t fuse.kvbankfs works as from fstab" {
  kv_skip_without_root "mount(8)"
  [ -x /sbin/mount.fuse ] || [ -x /sbin/mount.fuse3 ] || skip "mount.fuse3 is not installed"
  [ ! -e /sbin/mount.fuse.kvbankfs ] || skip "an installed mount.fuse.kvbankfs would be taken instead"
  [ -z "${KV_WRAP:-}" ] || skip "the sanitizer needs a wrapper that mount(8) does not know"
  unshare -m true 2>/dev/null || skip "no mount namespace can be made here (a chroot?)"
  # mount(8) cleans PATH: in a mount namespace of our own the daemon is where it looks
  unshare -m bash -euc '
    mount --make-rprivate /
    mount -t tmpfs none /usr/local/bin
    ln -s "$1" /usr/local/bin/kvbankfs
    mount -t fuse.kvbankfs "$2" "$3" -o "$4"
    [ "$(findmnt -n -o FSTYPE "$3")" = fuse.kvbankfs ]
    [ "$(findmnt -n -o SOURCE "$3")" = "$2" ]
    echo x >"$3/e"
    [ "$(cat "$3/e")" = x ]
    umount "$3"' - "$KVBANKFS" "$S" "$M" \
    "$(kv_options rw,nosuid,nodev,noauto,nofail,_netdev,user,x-systemd.automount,noatime)"
  kv_wait_for 10 lock_is_free
}

@test "called as mount.fuse.kvbankfs it takes what mount(8) gives a helper" {
  kv_skip_without_root "mount(8)"
  ln -s "$KVBANKFS" "$BATS_TEST_TMPDIR/mount.fuse.kvbankfs"
  # shellcheck disable=SC2086 # KV_WRAP is a command with arguments
  ${KV_WRAP:-} "$BATS_TEST_TMPDIR/mount.fuse.kvbankfs" "$S" "$M" -s -n -v -o "rw,$(kv_options nofail)" -t fuse.kvbankfs 3>&- 4>&-
  echo x >"$M/e"
  [ "$(cat "$M/e")" = x ]
  umount "$M"
  kv_wait_for 10 lock_is_free
}

@test "default_permissions is always on; allow_other only when asked for" {
  kv_mount
  [[ "$(findmnt -n -o OPTIONS "$M")" == *default_permissions* ]]
  [[ "$(findmnt -n -o OPTIONS "$M")" != *allow_other* ]]
  kv_umount
  kv_skip_without_root "allow_other"
  kv_mount allow_other
  [[ "$(findmnt -n -o OPTIONS "$M")" == *default_permissions* ]]
  [[ "$(findmnt -n -o OPTIONS "$M")" == *allow_other* ]]
  [ "$(stat -c %a "$M")" = 1777 ]
  kv_umount
}

@test "ssd_mode=off leaves STORE untouched" {
  mkdir -m 700 "$S"
  echo mine >"$S/file"
  before=$(find "$S" -printf '%p %s %m %T@ %C@\n' | sort)
  kv_mount ssd_mode=off
  [ "$(kv_stat store)" = off ]
  head -c 100000 /dev/urandom >"$M/e"
  mkdir "$M/s"
  kv_umount
  [ "$(find "$S" -printf '%p %s %m %T@ %C@\n' | sort)" = "$before" ]
}
