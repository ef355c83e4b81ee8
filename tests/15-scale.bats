#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# A session of many entries is as fast as one of few, and its listing streams.

load lib/kv

setup() {
  kv_skip_without_fuse
  kv_mount "ram=$(kv_count 512M 256M 2G),session_ram=$(kv_count 512M 256M 2G)"
}

@test "create, lookup and open are as fast among many entries as among 1,000" {
  local many
  many=$(kv_count_entries 20000 4000 100000)
  "$KV_PYTHON" "$KV_LIB/rates.py" "$M" "$many" "$(kv_count 0.8 0.4)" >&3
  [ "$(kv_stat entries)" -ge "$many" ]
  kv_umount
}

@test "a listing of many entries starts at once and is complete" {
  "$KV_PYTHON" "$KV_LIB/listing.py" "$M" "$(kv_count_entries 20000 3000 100000)" >&3
  kv_umount
}

@test "many sessions, each with an entry, are made, listed and removed" {
  local sessions
  sessions=$(kv_count 1000 200 10000)
  "$KV_PYTHON" - "$M" "$sessions" <<'END'
import os, sys
root, count = sys.argv[1], int(sys.argv[2])
for i in range(count):
    os.mkdir("%s/s%d" % (root, i))
    with open("%s/s%d/e" % (root, i), "w") as file:
        file.write(str(i))
assert len(os.listdir(root)) == count
END
  [ "$(kv_stat sessions)" -ge "$sessions" ]
  [ "$(cat "$M/s$((sessions - 1))/e")" = $((sessions - 1)) ]
  rm -r "$M"/s*
  [ -z "$(ls -A "$M")" ]
  [ "$(kv_stat entries)" = 0 ]
  kv_umount
}
