# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# kv.bash - what every test of a mount needs: start the daemon, stop it, look at it, clean up.
#
# A test has a store, a mount point and a daemon of its own, all under BATS_TEST_TMPDIR; nothing is
# shared. `load lib/kv` gives a bats file the default teardown and a time limit for each test.
#
#   kv_mount [comma,options]   starts the daemon in the foreground and waits until it is mounted;
#                              sets M (mount point), S (store), KV_PID, KV_LOG. A second call mounts again.
#   kv_umount                  unmounts; the daemon must end with status 0 and a log without errors
#   kv_stat KEY                a value of .kvbank/stats
#   kv_events [REGEX]          the lines of .kvbank/events
#   kv_wait_for SECONDS CMD    repeats CMD until it succeeds
#
# From outside: BUILD is the build folder under test (build, build/san-thread, ...), KV_OPTS are
# options for every mount (passthrough=off), KV_SLOW=short shortens loops, KV_SLOW=full has them all.
#
# Easy to forget: a bare `wait` also waits for the clock that limits the test's time. Always give it
# a process id. Background processes need `3>&-`, else bats waits for them.

KV_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
BUILD="${BUILD:-build}"
case "$BUILD" in
/*) KV_BUILD="$BUILD" ;;
*) KV_BUILD="$KV_ROOT/$BUILD" ;;
esac
KVBANKFS="$KV_BUILD/kvbankfs"
KV_PROGRAMS="${KV_PROGRAMS:-$KV_ROOT/build/programs}"
KV_LIB="$KV_ROOT/tests/lib"
KV_DATA="$KV_ROOT/tests/data"
KV_PYTHON=/usr/bin/python3 # the one that Debian's python3-numpy is for
[ -x "$KV_PYTHON" ] || KV_PYTHON=python3
KV_OPTS="${KV_OPTS:-}"
KV_SLOW="${KV_SLOW:-}"
KV_PIDS=()
KV_WATCHERS=()
export BATS_TEST_TIMEOUT="${BATS_TEST_TIMEOUT:-180}"
export PYTHONDONTWRITEBYTECODE=1

# ---- what this machine can do ----

kv_skip_without_fuse() {
  [ -e /dev/fuse ] || skip "no /dev/fuse on this machine"
  { : <>/dev/fuse; } 2>/dev/null || skip "/dev/fuse may not be opened here"
  if [ "$(id -u)" = 0 ]; then
    (((16#$(awk '$1 == "CapEff:" { print $2 }' /proc/self/status) >> 21 & 1) == 1)) ||
      skip "root without CAP_SYS_ADMIN may not mount"
  else
    command -v fusermount3 >/dev/null || skip "fusermount3 is not installed"
  fi
}

kv_skip_without_root() {
  [ "$(id -u)" = 0 ] || skip "needs root: ${1:-other users}"
}

kv_skip_without() { # COMMAND
  command -v "$1" >/dev/null || skip "$1 is not installed"
}

# Prints the first number, with KV_SLOW=short the second, with KV_SLOW=full the third.
kv_count() { # NORMAL SHORT FULL
  case "$KV_SLOW" in
  short) echo "${2:-$1}" ;;
  full) echo "${3:-$1}" ;;
  *) echo "$1" ;;
  esac
}

# As kv_count, but no more entries than the mounted daemon can hold: in memory files each takes a descriptor.
kv_count_entries() { # NORMAL SHORT FULL
  local count most
  count=$(kv_count "$@")
  most=$(($(ulimit -Hn) * 3 / 4))
  if [ "$(kv_stat ram_tier)" = memfd ] && [ "$count" -gt "$most" ]; then
    count=$most
  fi
  echo "$count"
}

# ---- sanitizers ----

# A daemon built with a sanitizer writes its findings to files that kv_no_findings looks for.
kv_sanitizer_environment() {
  local log="log_path=$BATS_TEST_TMPDIR/sanitizer" leaks=0
  [ "$(id -u)" = 0 ] && leaks=1 # the leak check must trace a process that is not dumpable
  export ASAN_OPTIONS="$log:exitcode=97:detect_leaks=$leaks"
  export UBSAN_OPTIONS="$log:exitcode=97:print_stacktrace=1"
  export LSAN_OPTIONS="exitcode=97:print_suppressions=0:suppressions=$KV_LIB/lsan.supp"
  export TSAN_OPTIONS="$log:exitcode=97:halt_on_error=0:second_deadlock_stack=1"
}

kv_no_findings() {
  local file found=0
  for file in "$BATS_TEST_TMPDIR"/sanitizer*; do
    [ -s "$file" ] || continue
    echo "# sanitizer report $file:"
    head -n 80 "$file"
    found=1
  done
  return $found
}

# gcc's thread sanitizer cannot start where the kernel randomises many address bits.
kv_wrap() {
  case "$BUILD" in
  *thread*) "$KVBANKFS" -V >/dev/null 2>&1 || echo "setarch $(uname -m) -R" ;;
  esac
}

case "$BUILD" in
*san-*)
  kv_sanitizer_environment
  KV_WRAP="${KV_WRAP-$(kv_wrap)}"
  export KV_WRAP
  ;;
esac

# ---- mounting ----

kv_wait_for() { # SECONDS COMMAND...
  local end=$((SECONDS + $1 + 1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.05
  done
}

kv_is_mounted() { # [DIRECTORY]
  mountpoint -q "${1:-$M}" 2>/dev/null
}

kv_options() { # [comma,options]: with the defaults of the tests and KV_OPTS
  local options="${1:-}"
  case ",$options,$KV_OPTS," in
  *,ram=*) ;;
  *) options="ram=256M${options:+,$options}" ;;
  esac
  echo "${options:+$options}${KV_OPTS:+,$KV_OPTS}"
}

kv_names() {
  M="${M:-$BATS_TEST_TMPDIR/mnt}"
  S="${S:-$BATS_TEST_TMPDIR/store}"
  KV_LOG="${KV_LOG:-$BATS_TEST_TMPDIR/daemon.log}"
}

kv_mount() { # [comma,options]
  kv_names
  [ -d "$M" ] || mkdir -p "$M" 2>/dev/null || true
  # shellcheck disable=SC2086 # KV_WRAP is a command with arguments
  ${KV_WRAP:-} "$KVBANKFS" -f -o "$(kv_options "${1:-}")" "$S" "$M" >>"$KV_LOG" 2>&1 </dev/null 3>&- 4>&- &
  KV_PID=$!
  KV_PIDS+=("$KV_PID")
  kv_watch "$KV_PID"
  if ! kv_wait_for 20 kv_mounted_or_dead || ! kill -0 "$KV_PID" 2>/dev/null; then
    echo "# kvbankfs did not mount; its log:"
    tail -n 30 "$KV_LOG"
    return 1
  fi
}

kv_mounted_or_dead() {
  kv_is_mounted || ! kill -0 "$KV_PID" 2>/dev/null
}

# The kernel lets nothing end that waits for a stuck daemon, not even by SIGKILL. Cutting the
# connection (its number is the minor of the mount's device) sets everybody free.
kv_connections_below() { # DIRECTORY
  awk -v dir="$1/" 'index($5 "/", dir) == 1 && $0 ~ / - fuse/ { split($3, device, ":"); print device[2] }' \
    /proc/self/mountinfo
}

kv_cut() { # CONNECTION
  local file="/sys/fs/fuse/connections/$1/abort"
  [ ! -w "$file" ] || echo 1 >"$file"
}

# Outlives the test's time limit a little and then cuts what still hangs.
kv_watch() { # PID
  (
    trap 'kill "$!" 2>/dev/null; exit 0' TERM
    sleep $((BATS_TEST_TIMEOUT + 10)) &
    wait "$!"
    for connection in $(kv_connections_below "$BATS_TEST_TMPDIR"; [ -z "${KV_PUBLIC:-}" ] || kv_connections_below "$KV_PUBLIC"); do
      kv_cut "$connection"
    done
    kill -KILL "$1"
  ) >/dev/null 2>&1 </dev/null 3>&- 4>&- &
  KV_WATCHERS+=("$!")
}

kv_umount_once() {
  kv_is_mounted || return 0
  fusermount3 -u "$M" 2>/dev/null || umount "$M" 2>/dev/null
}

kv_umount() {
  if ! kv_wait_for 10 kv_umount_once; then
    echo "# $M stays busy"
    return 1
  fi
  kv_ended
}

kv_is_gone() {
  ! kill -0 "$KV_PID" 2>/dev/null
}

# Where each thread of a process hangs, as far as this machine tells.
kv_stacks() { # PID
  local task
  for task in "/proc/$1/task"/*; do
    echo "# ${task##*/} $(cat "$task/wchan" 2>/dev/null) $(head -n 5 "$task/stack" 2>/dev/null | sed 's/^.* //; s/+.*//' | tr '\n' ' ')"
  done
  ! command -v gdb >/dev/null || timeout 30 gdb -p "$1" -batch -ex 'thread apply all bt 12' 2>/dev/null | tail -n 200
}

# The daemon must end by itself, with status 0 and without an error in its log.
kv_ended() {
  local status=0
  if ! kv_wait_for 30 kv_is_gone; then
    echo "# the daemon still runs 30 s after the unmount; its threads:"
    kv_stacks "$KV_PID"
    kill -KILL "$KV_PID"
    return 1
  fi
  wait "$KV_PID" || status=$?
  kv_no_findings || return 1
  if [ "$status" != 0 ]; then
    echo "# the daemon ended with status $status; its log:"
    tail -n 30 "$KV_LOG"
    return 1
  fi
  kv_log_is_clean
}

# KV_LOG_MAY is a regular expression of lines that a test expects.
kv_log_is_clean() {
  local bad
  bad=$(grep -aiE '(^|[^a-z_])(error|fatal|warning|assert[a-z]*|disagree[a-z]*|sanitizer|failed)([^a-z_]|$)' "$KV_LOG" |
    grep -avE "${KV_LOG_MAY:-^\$}") || return 0
  echo "# the daemon's log complains:"
  echo "$bad" | head -n 20
  return 1
}

kv_kill() { # SIGKILL, as a crash would
  kill -KILL "$KV_PID"
  wait "$KV_PID" 2>/dev/null || true
}

# ---- looking ----

kv_stat() { # KEY
  awk -v key="$1" '$1 == key { print $2; found = 1 } END { exit !found }' "$M/.kvbank/stats"
}

kv_events() { # [REGEX]
  if [ $# -gt 0 ]; then
    grep -aE -- "$1" "$M/.kvbank/events"
  else
    cat "$M/.kvbank/events"
  fi
}

kv_attr() { # NAME FILE: a user.kvbank attribute
  getfattr --absolute-names --only-values -n "user.kvbank.$1" -- "$2" 2>/dev/null
}

kv_has_passthrough() {
  [ "$(kv_stat passthrough)" = 1 ]
}

kv_is_settled() { # FILE
  [ -n "$(kv_attr sha256 "$1")" ]
}

kv_same_hash() { # FILE OTHER: the attribute of FILE is the SHA-256 of OTHER
  [ "$(kv_attr sha256 "$1")" = "$(sha256sum <"$2" | cut -d' ' -f1)" ]
}

# bats does not notice a failing `! command`; this one it does.
kv_not() { # COMMAND...
  if "$@"; then
    echo "# expected to fail: $*"
    return 1
  fi
}

# One system call: kv_call ok|ERRNO rename A B, kv_call EPERM symlink A B, ... (tests/lib/call.py lists them).
kv_call() { # WANTED CALL ARGUMENTS...
  local want="$1" got
  shift
  got=$("$KV_PYTHON" "$KV_LIB/call.py" "$@")
  [ "$got" = "$want" ] || {
    echo "# $*: expected $want, got $got"
    return 1
  }
}

# Fails unless COMMAND fails with this errno's text (Permission denied, ...).
kv_refused() { # TEXT COMMAND...
  local text="$1" said
  shift
  if said=$(LC_ALL=C "$@" 2>&1); then
    echo "# expected '$text', but it worked: $*"
    return 1
  fi
  case "$said" in
  *"$text"*) return 0 ;;
  esac
  echo "# expected '$text' from $*, got: $said"
  return 1
}

# A directory that other users can reach, gone with the test.
kv_public_dir() {
  local dir
  dir=$(mktemp -d "${KV_PUBLIC_TMP:-/tmp}/kvbankfs-public.XXXXXX")
  chmod 755 "$dir"
  KV_PUBLIC="$dir"
}

kv_as() { # UID COMMAND...: as an ordinary user without any group of ours
  local uid="$1"
  shift
  setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps=-all -- "$@"
}

# ---- the end ----

kv_mounts_below() { # DIRECTORY: innermost first
  awk -v dir="$1/" 'index($5 "/", dir) == 1 { print $5 }' /proc/self/mountinfo | tac
}

kv_clean_below() { # DIRECTORY: takes every mount away; prints the connections that were there
  local mount
  kv_connections_below "$1"
  kv_mounts_below "$1" | while IFS= read -r mount; do
    mount=$(printf '%b' "$mount") # \040 and its like
    umount -l "$mount" 2>/dev/null || fusermount3 -uz "$mount" 2>/dev/null || true
  done
}

# Ends every daemon of the test, whatever state it is in, and leaves no mount behind. Fails the test
# when a sanitizer found something.
kv_teardown() {
  local pid connection connections status=0
  cd "$KV_ROOT" || return 1
  if [ -z "${BATS_TEST_COMPLETED:-}" ] && [ -s "${KV_LOG:-}" ]; then
    echo "# the daemon's log ends with:"
    tail -n 15 "$KV_LOG"
  fi
  connections=$(kv_clean_below "$BATS_TEST_TMPDIR"; [ -z "${KV_PUBLIC:-}" ] || kv_clean_below "$KV_PUBLIC")
  for pid in "${KV_WATCHERS[@]}"; do
    kill "$pid" 2>/dev/null
  done
  for pid in "${KV_PIDS[@]}"; do
    kill -0 "$pid" 2>/dev/null || continue
    KV_PID="$pid"
    if ! kv_wait_for 5 kv_is_gone; then
      kill -KILL "$pid" 2>/dev/null
      for connection in $connections; do
        kv_cut "$connection"
      done
    fi
    wait "$pid" 2>/dev/null || true
  done
  kv_no_findings || status=1
  [ -z "${KV_PUBLIC:-}" ] || rm -rf --one-file-system "$KV_PUBLIC"
  return $status
}

teardown() {
  kv_teardown
}
