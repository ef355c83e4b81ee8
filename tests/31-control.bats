#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# 31-control.bats - .kvbank: stats, metrics, config, events and the control conversation.

load lib/kv

setup() {
  kv_skip_without_fuse
}

put() { # BYTES FILE
  head -c "$1" /dev/urandom >"$2"
}

# One request and its answer.
ask() { # REQUEST
  exec 7<>"$M/.kvbank/control"
  printf '%s\n' "$1" >&7
  cat <&7
  exec 7>&-
}

config() { # NAME: the value in force
  sed -n "s/^$1=\([^ ]*\).*/\1/p" "$M/.kvbank/config"
}

write_config() { # TEXT: in one write, its errno as the name of the error
  python3 - "$M/.kvbank/config" "$1" <<'PY'
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
try:
    print(os.write(fd, sys.argv[2].encode()))
except OSError as error:
    print(errno.errorcode[error.errno])
PY
}

# ---- the directory ----

@test "the control directory is there and in no listing" {
  kv_mount
  [ -d "$M/.kvbank" ]
  [ -z "$(ls -A "$M")" ]
  run find "$M" -mindepth 1
  [ -z "$output" ]
  [ "$(ls "$M/.kvbank" | sort | tr '\n' ' ')" = "config control events metrics stats " ]
  [ "$(stat -c '%A %n' "$M"/.kvbank/{stats,metrics,config,events,control} | sed 's# .*/# #' | tr '\n' ' ')" = \
    "-r--r--r-- stats -r--r--r-- metrics -rw-r--r-- config -rw------- events -rw------- control " ]
  [ "$(stat -c %a "$M/.kvbank")" = 555 ]
  [ ! -e "$M/.kvbank/other" ]
  kv_umount
}

@test "nothing can be made, moved or removed in the control directory, or take its name" {
  kv_mount
  mkdir "$M/s"
  put 10 "$M/e"
  run touch "$M/.kvbank/new"
  [ "$status" != 0 ]
  run mkdir "$M/.kvbank"
  [ "$status" != 0 ]
  run mkdir "$M/.kvbank/new"
  [ "$status" != 0 ]
  run rmdir "$M/.kvbank"
  [ "$status" != 0 ]
  run rm -f "$M/.kvbank/stats"
  [ "$status" != 0 ]
  run mv -T "$M/e" "$M/.kvbank/stats"
  [ "$status" != 0 ]
  run mv -T "$M/s" "$M/.kvbank"
  [ "$status" != 0 ]
  run mv -T "$M/.kvbank" "$M/other"
  [ "$status" != 0 ]
  run mv "$M/.kvbank/stats" "$M/stats"
  [ "$status" != 0 ]
  run ln "$M/.kvbank/stats" "$M/stats"
  [ "$status" != 0 ]
  run ln "$M/e" "$M/.kvbank/link"
  [ "$status" != 0 ]
  run chmod 666 "$M/.kvbank/control"
  [ "$status" != 0 ]
  [ "$(stat -c %a "$M/.kvbank/control")" = 600 ]
  [ -d "$M/s" ] && [ -e "$M/e" ] && [ ! -e "$M/stats" ] && [ ! -e "$M/other" ]
  kv_stat entries
  kv_umount
}

@test "the name .kvbank is free in every other session" {
  kv_mount
  mkdir -p "$M/s/.kvbank"
  put 10 "$M/s/.kvbank/stats"
  rm -r "$M/s"
  kv_umount
}

@test "other users read stats, metrics and config only" {
  kv_skip_without_root
  kv_public_dir
  M="$KV_PUBLIC/mnt"
  kv_mount allow_other,default_permissions
  local file
  for file in stats metrics config; do
    [ -n "$(kv_as 65534 cat "$M/.kvbank/$file")" ]
  done
  kv_refused "Permission denied" kv_as 65534 cat "$M/.kvbank/events"
  kv_refused "Permission denied" kv_as 65534 cat "$M/.kvbank/control"
  kv_refused "Permission denied" kv_as 65534 sh -c "echo ram=1G >'$M/.kvbank/config'"
  kv_refused "Permission denied" kv_as 65534 sh -c "exec 3<>'$M/.kvbank/control'"
  kv_umount
}

@test "stats and metrics are not written by anybody" {
  kv_mount
  local file
  for file in stats metrics events; do
    run sh -c "echo x >'$M/.kvbank/$file'"
    [ "$status" != 0 ]
  done
  [ -n "$(cat "$M/.kvbank/stats")" ]
  kv_umount
}

# ---- stats and metrics ----

@test "stats has every key that scripts rely on, as whole numbers" {
  local key
  kv_mount
  for key in entries sessions passthrough ram_bytes ram_max ssd_bytes ssd_max entries_durable entries_pending \
    backlog_bytes backlog_max write_budget_used write_budget_max put_entries put_bytes written_bytes deduped_bytes \
    restored_entries restored_bytes evicted_entries evicted_bytes dropped_entries ram_released_entries \
    ram_released_bytes refused_entries quarantined_entries shed_boundaries lookup_hits lookup_misses; do
    [[ "$(kv_stat "$key")" =~ ^[0-9]+$ ]]
  done
  [[ "$(kv_stat store)" =~ ^(ok|degraded|off)$ ]]
  [ -z "$(cut -d' ' -f1 "$M/.kvbank/stats" | sort | uniq -d)" ]
  [ -z "$(grep -v '^[a-z0-9_]* [^ ]' "$M/.kvbank/stats")" ]
  kv_umount
}

@test "stats counts what happens" {
  kv_mount ram=64M,settle=off
  mkdir -p "$M/s/t"
  put 10000 "$M/s/a"
  put 20000 "$M/s/t/b"
  cat "$M/s/a" >/dev/null
  [ "$(kv_stat entries)" = 2 ]
  [ "$(kv_stat put_entries)" = 2 ]
  [ "$(kv_stat put_bytes)" = 30000 ]
  [ "$(kv_stat written_bytes)" = 30000 ]
  [ "$(kv_stat ram_max)" = 67108864 ]
  [ "$(kv_stat ram_bytes)" -ge 30000 ]
  [ "$(kv_stat hit_entries)" = 1 ]
  exec 8>"$M/s/c"
  echo x >&8
  [ "$(kv_stat stages)" = 1 ]
  exec 8>&-
  [ "$(kv_stat stages)" = 0 ]
  rm -r "$M/s"
  [ "$(kv_stat entries)" = 0 ]
  [ "$(kv_stat ram_bytes)" = 0 ]
  kv_umount
}

@test "metrics is well-formed Prometheus text with the numbers of stats" {
  kv_mount
  put 10000 "$M/e"
  python3 - "$M/.kvbank/metrics" "$M/.kvbank/stats" <<'PY'
import re, sys
text = open(sys.argv[1]).read()
stats = dict(line.split(" ", 1) for line in open(sys.argv[2]).read().splitlines())
assert text.endswith("\n")
help_of, type_of, samples, family = {}, {}, {}, None
for line in text.splitlines():
    if line.startswith("# HELP "):
        _, _, name, words = line.split(" ", 3)
        assert name not in help_of and words
        help_of[name] = words
        family = name
    elif line.startswith("# TYPE "):
        _, _, name, kind = line.split(" ")
        assert name == family and name not in type_of and kind in ("gauge", "counter")
        type_of[name] = kind
    else:
        match = re.fullmatch(r'(kvbank_[a-z0-9_]+)(\{[a-z_]+="[^"\\\n]*"(?:,[a-z_]+="[^"\\\n]*")*\})? (\d+)', line)
        assert match, line
        assert match[1] == family and match[1] in type_of and match[1] in help_of, line
        samples[match[1] + (match[2] or "")] = int(match[3])
assert set(help_of) == set(type_of)
for name, kind in type_of.items():
    assert name.endswith("_total") == (kind == "counter"), name
same = 0
for key, value in stats.items():
    if value.isdigit():
        name = "kvbank_" + key
        got = samples.get(name + "_total" if name + "_total" in samples else name)
        assert got == int(value), (key, value, got)
        same += 1
assert same > 30
assert samples['kvbank_store{state="off"}'] == 1
PY
  kv_umount
}

@test "one open of stats reads one moment, however small the reads are" {
  kv_mount
  exec 8<"$M/.kvbank/stats"
  local first rest
  IFS= read -r -n 1 first <&8
  put 10000 "$M/e"
  rest=$(cat <&8)
  exec 8<&-
  [ "$(printf '%s%s' "$first" "$rest" | awk '$1 == "entries" { print $2 }')" = 0 ]
  [ "$(kv_stat entries)" = 1 ]
  kv_umount
}

# ---- config ----

@test "config shows the options in force and a line written changes one" {
  kv_mount ram=64M
  [ "$(config ram)" = 64M ]
  echo ram=128M >"$M/.kvbank/config"
  [ "$(config ram)" = 128M ]
  [ "$(kv_stat ram_max)" = 134217728 ]
  printf ram=96M >"$M/.kvbank/config"
  [ "$(config ram)" = 96M ]
  printf 'idle_ttl=60\npin_ttl=10' >"$M/.kvbank/config"
  [ "$(config ram)" = 96M ]
  [[ "$(config idle_ttl)" =~ ^60s?$|^1m$ ]]
  kv_umount
}

@test "a bad config line fails the write, changes nothing and says what was expected" {
  KV_LOG_MAY=config
  kv_mount ram=64M
  cat "$M/.kvbank/config" >"$BATS_TEST_TMPDIR/before"
  [ "$(write_config 'ram=lots')" = EINVAL ]
  [ "$(write_config 'nonsense=1')" = EINVAL ]
  [ "$(write_config 'ram')" = EINVAL ]
  [ "$(write_config '=')" = EINVAL ]
  [ "$(write_config 'ram=')" = EINVAL ]
  [ "$(write_config 'settle=sometimes')" = EINVAL ]
  [ "$(write_config "$(printf 'x%.0s' $(seq 5000))")" = EINVAL ]
  [ "$(printf 'ram=1\0G' | python3 -c '
import errno, os, sys
try: os.write(os.open(sys.argv[1], os.O_WRONLY), sys.stdin.buffer.read())
except OSError as error: print(errno.errorcode[error.errno])' "$M/.kvbank/config")" = EINVAL ]
  run sh -c "echo ram=lots >'$M/.kvbank/config'"
  [ "$status" != 0 ]
  cat "$M/.kvbank/config" | cmp - "$BATS_TEST_TMPDIR/before"
  [ "$(kv_events '^[^ ]+ config reason=[^ ]*ram[^ ]*expected' | wc -l)" -ge 1 ]
  grep -a 'config: .*ram.*expected' "$KV_LOG"
  kv_umount
}

@test "an option that cannot change while mounted answers EPERM" {
  KV_LOG_MAY=config
  kv_mount
  [ "$(write_config "passthrough=off")" = EPERM ]
  kv_umount
}

@test "lines before a bad one are applied, and the error comes with the bad one" {
  KV_LOG_MAY=config
  kv_mount ram=64M
  [ "$(write_config 'ram=96M
ram=lots
ram=128M
')" = 8 ]
  [ "$(config ram)" = 96M ]
  run sh -c "printf 'ram=80M\nram=lots\n' >'$M/.kvbank/config'"
  [ "$status" != 0 ]
  [ "$(config ram)" = 80M ]
  kv_umount
}

@test "a line as config shows it can be written back" {
  kv_mount
  grep -m 1 '^idle_ttl=' "$M/.kvbank/config" >"$BATS_TEST_TMPDIR/line"
  cat "$BATS_TEST_TMPDIR/line" >"$M/.kvbank/config"
  printf '\n' >"$M/.kvbank/config"
  : >"$M/.kvbank/config"
  kv_umount
}

@test "a smaller ram evicts at once, and is refused while pinned entries need more" {
  KV_LOG_MAY=config
  kv_mount ram=64M,settle=off
  local i
  for i in 1 2 3 4; do put 8M "$M/e$i"; done
  echo ram=20M >"$M/.kvbank/config"
  [ "$(kv_stat ram_bytes)" -le 20971520 ]
  [ "$(kv_stat evicted_entries)" -ge 2 ]
  setfattr -n user.kvbank.pin -v forever "$M/e4"
  [ "$(write_config 'ram=4M')" = EBUSY ]
  [ "$(config ram)" = 20M ]
  [ "$(kv_stat ram_max)" = 20971520 ]
  [ -e "$M/e4" ]
  kv_umount
}

# ---- events ----

@test "an event is one line: time, event, reason, bytes, path" {
  kv_mount
  mkdir "$M/s"
  put 1234 "$M/s/e"
  kv_events '^20[0-9-]+T[0-9:.]+Z put reason=[^ ]+ bytes=[0-9]+ path=s/e$'
  [ -z "$(kv_events | grep -avE '^20[0-9-]{8}T[0-9:]{8}\.[0-9]+Z [a-z_]+ reason=[^ ]+ bytes=[0-9]+ path=[^ ]*$')" ]
  kv_umount
}

@test "names in events are escaped so that none can forge a line or a field" {
  kv_mount
  python3 - "$M" <<'PY'
import os, sys
os.chdir(sys.argv[1].encode())
names = [b"a b", b"50%", b"new\nline reason=x", b"tab\t", b"del\x7f", b"high\xff\xc3\xa9", b"-dash", b"..dots", b"n" * 255]
expect = []
for name in names:
    with open(name, "wb") as f:
        f.write(b"x")
    expect.append(b"".join(b"%%%02X" % c if c < 0x21 or c in (0x7f, 0x25) else bytes([c]) for c in name))
lines = open(".kvbank/events", "rb").read().split(b"\n")
assert lines.pop() == b""
puts = [line for line in lines if line.split(b" ")[1] == b"put"]
assert [line.split(b" path=")[1] for line in puts] == expect, puts
assert all(line.count(b" ") == 4 for line in lines), lines
PY
  # the escaped form is what control takes
  [[ "$(ask 'settle new%0Aline%20reason=x')" = ok* ]]
  [[ "$(ask 'settle 50%25')" = ok* ]]
  kv_umount
}

@test "the size of events only grows and its time is that of the last event" {
  local size
  kv_mount settle=off # no event comes between the two looks
  put 10 "$M/a"
  size=$(stat -c %s "$M/.kvbank/events")
  [ "$size" = "$(cat "$M/.kvbank/events" | wc -c)" ]
  put 10 "$M/b"
  [ "$(stat -c %s "$M/.kvbank/events")" -gt "$size" ]
  [ "$(stat -c %Y "$M/.kvbank/events")" -ge $(($(date +%s) - 5)) ]
  kv_umount
}

@test "tail -f follows events" {
  kv_mount
  local out="$BATS_TEST_TMPDIR/tail" all="$BATS_TEST_TMPDIR/tail_all"
  put 10 "$M/before"
  tail -n 1 -s 0.1 -f "$M/.kvbank/events" >"$out" 3>&- &
  local follower=$!
  tail -n +1 -s 0.1 -f "$M/.kvbank/events" >"$all" 3>&- &
  local from_start=$!
  kv_wait_for 5 grep -aq . "$out"
  local i
  for i in 1 2 3; do
    put 100 "$M/after$i"
    kv_wait_for 5 grep -aq " path=after$i\$" "$out"
    kv_wait_for 5 grep -aq " path=after$i\$" "$all"
  done
  kill "$follower" "$from_start"
  wait "$follower" "$from_start" || true
  [ "$(grep -ac 'put .*path=after' "$out")" = 3 ]
  cmp "$all" <(head -c "$(wc -c <"$all")" "$M/.kvbank/events")
  kv_umount
}

# Some hundred events of several thousand bytes each, so that the oldest go.
many_events() { # FIRST LAST
  python3 - "$M" "$1" "$2" <<'PY'
import os, sys
os.chdir(sys.argv[1])
for _ in range(5):
    name = "\x01" * 255
    os.makedirs(name, exist_ok=True)
    os.chdir(name)
for n in range(int(sys.argv[2]), int(sys.argv[3])):
    with open(f"e{n}", "w") as f:
        f.write("x")
    os.unlink(f"e{n}")
PY
}

@test "a reader from the start gets whole lines without a gap when the oldest are gone" {
  kv_mount ram=64M,settle=off
  many_events 0 1000
  local out="$BATS_TEST_TMPDIR/out"
  exec 8<"$M/.kvbank/events"
  dd bs=777 count=20 <&8 >"$out" 2>/dev/null
  local seen
  seen=$(wc -c <"$out")
  [ "$seen" = 15540 ]
  put 10 "$M/last"
  dd bs=5000 <&8 >>"$out" 2>/dev/null
  exec 8<&-
  [ "$(wc -c <"$out")" -lt "$(stat -c %s "$M/.kvbank/events")" ]
  run grep -avE '^20[0-9-]{8}T[0-9:]{8}\.[0-9]+Z [a-z_]+ reason=[^ ]+ bytes=[0-9]+ path=[^ ]*$' "$out"
  [ -z "$output" ]
  tail -n 1 "$out" | grep -a ' path=last$'
  # each put in order, none left out
  grep -aoE 'put .*/e[0-9]+$' "$out" | sed 's/.*e//' >"$BATS_TEST_TMPDIR/numbers"
  awk 'NR > 1 && $1 != last + 1 { exit 1 } { last = $1 } END { exit last != 999 }' "$BATS_TEST_TMPDIR/numbers"
  kv_umount
}

@test "tail -n with more lines than are kept shows no torn line" {
  kv_mount ram=64M,settle=off
  many_events 0 800
  local out="$BATS_TEST_TMPDIR/out"
  tail -n 4000 "$M/.kvbank/events" >"$out"
  run grep -avE '^$|^20[0-9-]{8}T[0-9:]{8}\.[0-9]+Z [a-z_]+ reason=[^ ]+ bytes=[0-9]+ path=[^ ]*$' "$out"
  [ -z "$output" ]
  [ "$(grep -ac 'put ' "$out")" -gt 100 ]
  kv_umount
}

# ---- control ----

@test "reading control before writing shows how to use it" {
  kv_mount
  cat "$M/.kvbank/control" | grep -a 'settle \[PATH\]'
  kv_umount
}

@test "a request is answered on the read, and another write begins the next" {
  kv_mount settle=off
  put 1000 "$M/e"
  exec 7<>"$M/.kvbank/control"
  echo settle >&7
  [[ "$(cat <&7)" = "ok entries=1" ]]
  [ -z "$(cat <&7)" ]
  echo settle >&7
  [[ "$(cat <&7)" = "ok entries=1" ]]
  echo "shrink 0" >&7
  [[ "$(cat <&7)" = "ok bytes=0" ]]
  exec 7>&-
  [ "$(kv_attr state "$M/e")" = settled ]
  kv_umount
}

@test "a request may be written in pieces, with or without its newline" {
  kv_mount
  mkdir "$M/s"
  put 1000 "$M/s/e"
  exec 7<>"$M/.kvbank/control"
  printf set >&7
  printf 'tle s' >&7
  printf '/e' >&7
  [[ "$(cat <&7)" = ok* ]]
  exec 7>&-
  kv_is_settled "$M/s/e"
  kv_umount
}

@test "two opens of control hold two conversations" {
  kv_mount
  exec 6<>"$M/.kvbank/control" 7<>"$M/.kvbank/control"
  printf 'nonsense' >&6
  printf 'settle' >&7
  [[ "$(cat <&6)" = error* ]]
  [[ "$(cat <&7)" = ok* ]]
  exec 6>&- 7>&-
  kv_umount
}

@test "a bad request changes nothing and reads back what was expected" {
  kv_mount
  put 1000 "$M/e"
  local request answer
  while IFS= read -r request; do
    answer=$(ask "$request")
    [[ "$answer" = error\ * ]]
    [ "$(wc -l <<<"$answer")" = 1 ]
    [ "${#answer}" -gt 10 ]
  done <<'REQUESTS'

nonsense
SETTLE
clear
clear no/such/path
clear e/below
settle no/such
settle ../e
shrink
shrink -1
shrink lots
shrink 1.5G
clear %
clear %0
clear %zz
REQUESTS
  [[ "$(ask $'settle\nclear /')" = "error expected one line" ]]
  [[ "$(ask $'clear a\tb')" = error* ]]
  [ -e "$M/e" ]
  kv_umount
}

@test "commands of later versions say so" {
  kv_mount
  local word
  for word in flush scrub gc drop-ram cancel "archive old"; do
    [ "$(ask "$word")" = "error ${word%% *} not yet" ]
  done
  kv_umount
}

@test "control knows no offsets, and cannot be opened to write only" {
  kv_mount
  python3 - "$M/.kvbank/control" <<'PY'
import errno, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_TRUNC)
def code(call, *args):
    try:
        call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
assert code(os.lseek, fd, 0, os.SEEK_SET) == "ESPIPE"
assert code(os.pread, fd, 10, 0) == "ESPIPE"
assert code(os.open, sys.argv[1], os.O_WRONLY) == "EINVAL"
assert code(os.write, fd, b"x" * 5000) == "E2BIG"
assert b"settle" in os.read(fd, 1000)  # the usage: nothing was asked
assert os.read(fd, 1000) == b""
os.write(fd, b"settle \0")
assert os.read(fd, 1000).startswith(b"error ")
os.write(fd, b"settle")
answer = b""
while piece := os.read(fd, 1):
    answer += piece
assert answer.startswith(b"ok ") and answer.endswith(b"\n"), answer
PY
  kv_umount
}

@test "clear drops what is below a path, but nothing pinned or open" {
  kv_mount settle=off
  mkdir -p "$M/s/t" "$M/other"
  put 10000 "$M/s/a"
  put 10000 "$M/s/t/b"
  put 10000 "$M/s/pinned"
  put 10000 "$M/s/held"
  put 10000 "$M/other/e"
  setfattr -n user.kvbank.pin -v forever "$M/s/pinned"
  exec 8<"$M/s/held"
  [[ "$(ask 'clear s')" =~ ^ok\ entries=2\ bytes=[0-9]+$ ]]
  [ ! -e "$M/s/a" ] && [ ! -e "$M/s/t/b" ]
  [ -e "$M/s/pinned" ] && [ -e "$M/s/held" ] && [ -e "$M/other/e" ]
  [ "$(wc -c <&8)" = 10000 ]
  exec 8<&-
  [[ "$(ask 'clear other/e')" = ok\ entries=1\ * ]]
  [ ! -e "$M/other/e" ]
  [[ "$(ask 'clear /')" = ok\ entries=1\ * ]]
  [ "$(find "$M" -type f)" = "$M/s/pinned" ]
  [ "$(kv_events ' reason=clear' | wc -l)" -ge 4 ]
  kv_umount
}

@test "clear never drops a file that is being written" {
  kv_mount
  exec 8>"$M/e"
  echo half >&8
  ask 'clear /' | grep -a '^ok'
  echo rest >&8
  exec 8>&-
  [ "$(cat "$M/e")" = "half
rest" ]
  kv_umount
}

@test "shrink gives up RAM, least needed first, and stays above what is pinned" {
  kv_mount ram=64M,settle=off
  local i held
  for i in 1 2 3 4; do put 4M "$M/e$i"; done
  setfattr -n user.kvbank.pin -v forever "$M/e1"
  held=$(kv_stat ram_bytes)
  [[ "$(ask 'shrink 5M')" =~ ^ok\ bytes=[0-9]+$ ]]
  [ "$(kv_stat ram_bytes)" -le $((held - 5242880)) ]
  [ -e "$M/e1" ] && [ -e "$M/e4" ]
  [[ "$(ask 'shrink 1T')" =~ ^ok\ bytes=[0-9]+$ ]]
  [ "$(find "$M" -type f)" = "$M/e1" ]
  kv_umount
}

@test "while a long command runs, everything else answers" {
  kv_mount ram=512M,settle=off
  local i
  for i in $(seq 1 4); do head -c 64M /dev/zero >"$M/e$i"; done
  ask settle >"$BATS_TEST_TMPDIR/answer" 3>&- &
  local asking=$!
  for i in $(seq 1 20); do
    timeout 1 cat "$M/.kvbank/stats" >/dev/null
    timeout 1 ls "$M" >/dev/null
  done
  wait "$asking"
  grep -a '^ok entries=4$' "$BATS_TEST_TMPDIR/answer"
  kv_umount
}

@test "a client that is killed while its command runs does no harm" {
  kv_mount ram=512M,settle=off
  local i client
  for i in $(seq 1 4); do head -c 64M /dev/zero >"$M/e$i"; done
  for i in 1 2 3; do
    python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.write(fd, b"settle")
os.read(fd, 100)' "$M/.kvbank/control" 3>&- &
    client=$!
    sleep 0.1
    kill -KILL "$client" 2>/dev/null || true # it may be done already
    wait "$client" 2>/dev/null || true
  done
  [[ "$(ask settle)" = ok* ]]
  [ "$(kv_attr state "$M/e4")" = settled ]
  kv_umount
}

@test "the files of the control directory survive careless use" {
  KV_LOG_MAY=config
  kv_mount
  local file
  for file in stats metrics config events control; do
    timeout 5 cp "$M/.kvbank/$file" "$BATS_TEST_TMPDIR/copy_$file"
    [ "$file" = events ] || [ -s "$BATS_TEST_TMPDIR/copy_$file" ]
    timeout 5 wc "$M/.kvbank/$file" >/dev/null
    timeout 5 tail -c 100 "$M/.kvbank/$file" >/dev/null
    timeout 5 head -c 10 "$M/.kvbank/$file" >/dev/null
    timeout 5 dd if="$M/.kvbank/$file" of=/dev/null bs=1 count=50 2>/dev/null
  done
  truncate -s 0 "$M/.kvbank/config" || true
  run truncate -s 0 "$M/.kvbank/stats"
  tar -C "$M/.kvbank" -cf /dev/null . 2>/dev/null || true
  [ -n "$(cat "$M/.kvbank/config")" ]
  kv_umount
}
