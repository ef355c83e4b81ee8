#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Names are bytes: whatever is legal comes back as it was, nothing of it reaches the store or a terminal.

load lib/kv

setup() {
  kv_skip_without_fuse
  kv_mount
}

long_name() { # LENGTH
  head -c "$1" /dev/zero | tr '\0' n
}

@test "random names of any bytes come back byte-equal, as entries and as sessions" {
  local seed="${KV_SEED:-$RANDOM}"
  echo "# KV_SEED=$seed"
  "$KV_PYTHON" "$KV_LIB/names.py" "$M" "$S" "$seed" "$(kv_count 2000 300 10000)"
  kv_umount
}

@test "names with a meaning elsewhere are ordinary names" {
  local name names
  names=(-n -rf ' ' '  x ' '*' '?' '~' '$HOME' '`id`' 'a;b' "it's" '"' '\' '%s%n' '%2F' '..x' '...' '.hidden' 'CON' 'nul' \
    "'; drop table entries; --" 'manifest.sqlite' lock tmp packs quarantine 'e.tmp' 'e.tokens.tmp' '#1' '@' 'a@5' 'x~2' \
    $'tab\there' $'line\nbreak' $'\x01' $'\x7f' $'\xff\xfe' $'\xc3\xa9' $'e\xcc\x81' 'ABC' 'abc')
  for name in "${names[@]}"; do
    printf '%s' "$name" >"$M/$name"
    [ "$(cat -- "$M/$name")" = "$name" ] || { echo "# not what was written: $name"; return 1; }
  done
  [ "$(find "$M" -mindepth 1 -printf x | wc -c)" = "${#names[@]}" ]
  rm -f -- "$M"/* "$M"/.[!.]* "$M"/..?*
  [ -z "$(ls -A "$M")" ]
  kv_umount
}

@test "255 bytes work, 256 and 1,024 are ENAMETOOLONG for every call, and nothing stays behind" {
  local length name call
  echo x >"$M/e"
  for length in 200 254 255; do
    name=$(long_name $length)
    kv_call ok create "$M/$name"
    kv_call ok rename "$M/$name" "$M/moved"
    kv_call ok mkdir "$M/$name"
    echo x >"$M/$name/$name"
    [ "$(ls "$M/$name")" = "$name" ]
    rm -r "$M/$name" "$M/moved"
  done
  for length in 256 1024; do
    name=$(long_name $length)
    for call in create exclusive mkdir mknod stat read unlink rmdir; do
      kv_call ENAMETOOLONG $call "$M/$name"
    done
    for call in rename noreplace link; do
      kv_call ENAMETOOLONG $call "$M/e" "$M/$name"
    done
    kv_call ENAMETOOLONG rename "$M/$name" "$M/f"
  done
  [ "$(ls -A "$M")" = e ]
  kv_umount
}

@test "names that are prefixes of each other do not shadow one another" {
  local name="" i
  for i in $(seq 64); do
    name="${name}a"
    echo "$i" >"$M/$name"
  done
  [ "$(ls "$M" | wc -l)" = 64 ]
  [ "$(ls "$M" | sort -u | wc -l)" = 64 ]
  name=""
  for i in $(seq 64); do
    name="${name}a"
    [ "$(cat "$M/$name")" = "$i" ]
    [ $((i % 3)) != 0 ] || rm "$M/$name"
  done
  name=""
  for i in $(seq 64); do
    name="${name}a"
    if [ $((i % 3)) = 0 ]; then
      [ ! -e "$M/$name" ]
    else
      [ "$(cat "$M/$name")" = "$i" ]
    fi
  done
  kv_umount
}

@test ".kvbank is reserved in the root and in no listing; elsewhere it is a name" {
  local call
  [ -d "$M/.kvbank" ]
  [ -z "$(ls -A "$M")" ]
  for call in mkdir create exclusive mknod unlink rmdir; do
    kv_not kv_call ok $call "$M/.kvbank" >/dev/null
  done
  echo x >"$M/e"
  mkdir "$M/s"
  kv_not kv_call ok rename "$M/e" "$M/.kvbank" >/dev/null
  kv_not kv_call ok rename "$M/s" "$M/.kvbank" >/dev/null
  kv_not kv_call ok rename "$M/.kvbank" "$M/x" >/dev/null
  kv_not kv_call ok link "$M/e" "$M/.kvbank" >/dev/null
  kv_not kv_call ok create "$M/.kvbank/new" >/dev/null
  kv_not kv_call ok mkdir "$M/.kvbank/new" >/dev/null
  kv_not kv_call ok unlink "$M/.kvbank/stats" >/dev/null
  kv_not kv_call ok rename "$M/.kvbank/stats" "$M/stats" >/dev/null
  kv_not kv_call ok rename "$M/e" "$M/.kvbank/e" >/dev/null
  kv_not kv_call ok link "$M/.kvbank/stats" "$M/stats" >/dev/null
  [ "$(ls -A "$M" | sort | tr '\n' ' ')" = "e s " ]
  [ "$(kv_stat entries)" -ge 1 ]
  mkdir "$M/s/.kvbank"
  echo y >"$M/s/.kvbank/stats"
  [ "$(cat "$M/s/.kvbank/stats")" = y ]
  [ "$(ls -A "$M/s")" = .kvbank ]
  kv_umount
}

@test "control characters and percent signs in names are escaped in events" {
  local name=$'a\nb\x1b[31m\x7f %c'
  echo x >"$M/$name"
  in_events() { kv_events 'put .*path=a%0Ab%1B\[31m%7F%20%25c'; }
  kv_wait_for 5 in_events >/dev/null
  # nothing but printable bytes and line ends
  kv_not grep -aqP '[^\x20-\x7e\x80-\xff\n]' "$M/.kvbank/events"
  kv_umount
}

@test "names and content reach neither the store nor the log" {
  local canary="canary-name-$RANDOM$RANDOM" content="canary-content-$RANDOM$RANDOM"
  mkdir "$M/$canary"
  echo "$content" >"$M/$canary/$canary"
  kv_call ENAMETOOLONG create "$M/$canary$(long_name 256)"
  kv_call ENOTEMPTY rmdir "$M/$canary"
  sync -f "$M"
  kv_umount
  [ -z "$(find "$S" -name "*canary*")" ]
  kv_not grep -raq -e "$canary" -e "$content" "$S" "$KV_LOG"
}
