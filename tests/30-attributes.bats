#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# 30-attributes.bats - extended attributes: what the bank computes, what users set, what they keep.

load lib/kv

setup() {
  kv_skip_without_fuse
  kv_skip_without getfattr
}

# Sets an attribute of the bank, quietly.
set_attr() { # NAME VALUE FILE
  setfattr -n "user.kvbank.$1" -v "$2" -- "$3"
}

has_no_attr() { # NAME FILE
  kv_refused "No such attribute" getfattr --absolute-names -n "user.kvbank.$1" -- "$2"
}

listed() { # FILE: the names that getfattr lists, sorted
  getfattr --absolute-names -m - -- "$1" | grep -av '^#' | sed '/^$/d' | sort
}

put() { # BYTES FILE
  head -c "$1" /dev/urandom >"$2"
}

settle() {
  exec 7<>"$M/.kvbank/control"
  echo settle >&7
  cat <&7 | grep -a '^ok'
  exec 7>&-
}

# ---- computed ----

@test "an entry shows its state, tier, format, size, hits and times at once" {
  kv_mount settle=off
  put 100000 "$M/e"
  [ "$(kv_attr state "$M/e")" = lazy ]
  [ "$(kv_attr tier "$M/e")" = ram ]
  [ "$(kv_attr format "$M/e")" = opaque ]
  [ "$(kv_attr nbytes "$M/e")" -ge 100000 ]
  [ "$(kv_attr hits "$M/e")" = 0 ]
  [[ "$(kv_attr created_at "$M/e")" =~ ^20[0-9-]+T[0-9:]+\.[0-9]{9}Z$ ]]
  kv_umount
}

@test "created_at is the time of the commit, in UTC" {
  local before after created
  kv_mount
  before=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
  put 10 "$M/e"
  after=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
  created=$(kv_attr created_at "$M/e")
  [[ ! "$created" < "${before%.*}" ]]
  [[ ! "$created" > "$after" ]]
  kv_umount
}

@test "every attribute that is listed can be read, and info lists what has a value" {
  local name names="$BATS_TEST_TMPDIR/names" info="$BATS_TEST_TMPDIR/info"
  kv_mount
  mkdir "$M/s"
  put 5000 "$M/s/e"
  set_attr model m "$M/s/e"
  set_attr pin 600 "$M/s/e"
  set_attr evict no "$M/s"
  settle
  for file in "$M/s/e" "$M/s" "$M"; do
    listed "$file" >"$names"
    [ -s "$names" ]
    while read -r name; do
      getfattr --absolute-names --only-values -n "$name" "$file" >/dev/null
    done <"$names"
    getfattr --absolute-names --only-values -n user.kvbank.info "$file" | cut -d' ' -f1 | sort >"$info"
    sed -n 's/^user\.kvbank\.//p' "$names" | sort | cmp - "$info"
  done
  [ "$(wc -l <"$info")" = 2 ]
  kv_umount
}

@test "attributes that have no value are absent, not empty" {
  kv_mount settle=off
  put 10 "$M/e"
  local name
  for name in sha256 settled_at durable_at token_hash token_count gdn_boundaries stored_bytes layout pin \
    model recurrent tokens nonsense; do
    has_no_attr "$name" "$M/e"
  done
  has_no_attr state "$M"
  has_no_attr pin "$M"
  kv_umount
}

@test "sha256 is what sha256sum says, once the entry is settled" {
  kv_mount
  put 3000001 "$M/e"
  : >"$M/empty"
  settle
  [ "$(kv_attr state "$M/e")" = settled ]
  [ "$(kv_attr sha256 "$M/e")" = "$(sha256sum <"$M/e" | cut -d' ' -f1)" ]
  [ "$(kv_attr sha256 "$M/empty")" = "$(sha256sum </dev/null | cut -d' ' -f1)" ]
  [[ "$(kv_attr settled_at "$M/e")" > "$(kv_attr created_at "$M/e")" ]]
  kv_umount
}

@test "an entry settles in the background without being asked" {
  kv_mount settle=lazy
  put 100000 "$M/e"
  kv_wait_for 20 kv_is_settled "$M/e"
  kv_same_hash "$M/e" "$M/e"
  kv_umount
}

@test "a new version does not keep the hash of the old one" {
  kv_mount
  put 1000 "$M/e"
  settle
  local old
  old=$(kv_attr sha256 "$M/e")
  put 1000 "$M/e"
  settle
  [ "$(kv_attr sha256 "$M/e")" != "$old" ]
  kv_same_hash "$M/e" "$M/e"
  kv_umount
}

@test "hits counts the opens for reading and last_access moves with them" {
  local first
  kv_mount
  put 1000 "$M/e"
  cat "$M/e" >/dev/null
  first=$(kv_attr last_access "$M/e")
  cat "$M/e" "$M/e" >/dev/null
  [ "$(kv_attr hits "$M/e")" = 3 ]
  [[ "$(kv_attr last_access "$M/e")" > "$first" ]]
  stat "$M/e" >/dev/null
  [ "$(kv_attr hits "$M/e")" = 3 ]
  kv_umount
}

@test "a file that is being written says open" {
  kv_mount
  exec 8>"$M/e"
  echo half >&8
  [ "$(kv_attr state "$M/e")" = open ]
  exec 8>&-
  [ "$(kv_attr state "$M/e")" != open ]
  kv_umount
}

@test "a computed attribute takes only the value it has already" {
  kv_mount settle=off
  put 1000 "$M/e"
  set_attr state lazy "$M/e"
  set_attr nbytes "$(kv_attr nbytes "$M/e")" "$M/e"
  kv_refused "Operation not permitted" set_attr state settled "$M/e"
  kv_refused "Operation not permitted" set_attr sha256 00 "$M/e"
  kv_refused "Operation not permitted" set_attr nbytes 1 "$M/e"
  kv_refused "Operation not permitted" set_attr info x "$M/e"
  kv_refused "Operation not permitted" set_attr entries 0 "$M/e"
  kv_refused "Operation not permitted" setfattr -x user.kvbank.state "$M/e"
  kv_refused "No such attribute" setfattr -x user.kvbank.sha256 "$M/e"
  [ "$(kv_attr state "$M/e")" = lazy ]
  kv_umount
}

@test "names of ours that do not exist, and other namespaces, are refused" {
  kv_mount
  put 10 "$M/e"
  kv_refused "Operation not permitted" set_attr nonsense 1 "$M/e"
  kv_refused "Operation not permitted" set_attr ram_max 1G "$M/e"
  kv_refused "Operation not permitted" set_attr pin 10 "$M"
  kv_refused "Operation not supported" set_attr tokens "1 2 3" "$M/e"
  if [ "$(id -u)" = 0 ]; then
    kv_refused "Operation not supported" setfattr -n trusted.x -v 1 "$M/e"
    kv_refused "Operation not supported" setfattr -n security.x -v 1 "$M/e"
    kv_refused "Operation not supported" getfattr -n trusted.x "$M/e"
  fi
  kv_refused "No such attribute" getfattr -n security.capability "$M/e"
  kv_umount
}

# ---- pin ----

@test "pin reads the seconds that are left, or forever, and 0 removes it" {
  kv_mount
  put 10 "$M/e"
  set_attr pin 600 "$M/e"
  local left
  left=$(kv_attr pin "$M/e")
  [ "$left" -gt 590 ] && [ "$left" -le 600 ]
  set_attr pin forever "$M/e"
  [ "$(kv_attr pin "$M/e")" = forever ]
  set_attr pin 0 "$M/e"
  has_no_attr pin "$M/e"
  set_attr pin 0 "$M/e"
  set_attr pin 5 "$M/e"
  setfattr -x user.kvbank.pin "$M/e"
  has_no_attr pin "$M/e"
  kv_refused "No such attribute" setfattr -x user.kvbank.pin "$M/e"
  kv_umount
}

@test "a pin ends when its time is over" {
  kv_mount
  put 10 "$M/e"
  set_attr pin 1 "$M/e"
  [ "$(kv_attr pin "$M/e")" = 1 ]
  kv_wait_for 5 has_no_attr pin "$M/e"
  kv_umount
}

@test "a bad pin is refused and changes nothing" {
  kv_mount
  put 10 "$M/e"
  set_attr pin forever "$M/e"
  local value
  for value in "" -1 1.5 10s ten Forever " 5" 99999999999999999999; do
    kv_refused "Invalid argument" set_attr pin "$value" "$M/e"
  done
  kv_refused "Invalid argument" setfattr -n user.kvbank.pin -v 0x350a "$M/e" # "5" and a newline
  [ "$(kv_attr pin "$M/e")" = forever ]
  kv_umount
}

@test "a pinned entry is not evicted, whatever else must go" {
  kv_mount ram=16M,session_ram=16M,settle=off
  put 4M "$M/kept"
  set_attr pin forever "$M/kept"
  sha256sum <"$M/kept" >"$BATS_TEST_TMPDIR/before"
  local i
  for i in $(seq 1 12); do put 3M "$M/other$i"; done
  [ "$(kv_stat evicted_entries)" -ge 8 ]
  sha256sum <"$M/kept" | cmp - "$BATS_TEST_TMPDIR/before"
  set_attr pin 0 "$M/kept"
  for i in $(seq 1 12); do put 3M "$M/more$i"; done
  [ ! -e "$M/kept" ]
  kv_umount
}

# ---- identity ----

@test "identity fields of a session are copied into a version at commit and stay" {
  kv_mount
  mkdir -p "$M/user/chat"
  set_attr model llama "$M/user"
  set_attr template_hash abc "$M/user"
  set_attr model qwen "$M/user/chat"
  put 10 "$M/user/chat/e"
  [ "$(kv_attr model "$M/user/chat/e")" = qwen ]
  [ "$(kv_attr template_hash "$M/user/chat/e")" = abc ]
  set_attr model later "$M/user/chat"
  [ "$(kv_attr model "$M/user/chat/e")" = qwen ]
  put 10 "$M/user/chat/f"
  [ "$(kv_attr model "$M/user/chat/f")" = later ]
  put 10 "$M/elsewhere"
  has_no_attr model "$M/elsewhere"
  kv_umount
}

@test "an identity field set on an entry wins and may be changed or removed" {
  kv_mount
  mkdir "$M/s"
  set_attr model session "$M/s"
  put 10 "$M/s/e"
  set_attr model own "$M/s/e"
  [ "$(kv_attr model "$M/s/e")" = own ]
  set_attr model other "$M/s/e"
  [ "$(kv_attr model "$M/s/e")" = other ]
  setfattr -x user.kvbank.model "$M/s/e"
  has_no_attr model "$M/s/e"
  kv_umount
}

@test "a rewritten entry keeps what users set on it, and takes the session's identity of the time" {
  kv_mount
  mkdir "$M/s"
  set_attr model first "$M/s"
  put 10 "$M/s/e"
  setfattr -n user.note -v kept "$M/s/e"
  set_attr template_hash own "$M/s/e"
  chmod 640 "$M/s/e"
  set_attr model second "$M/s"
  set_attr template_hash session "$M/s"
  put 10 "$M/s/e"
  [ "$(getfattr --absolute-names --only-values -n user.note "$M/s/e")" = kept ]
  [ "$(kv_attr template_hash "$M/s/e")" = own ]
  [ "$(stat -c %a "$M/s/e")" = 640 ]
  [ "$(kv_attr model "$M/s/e")" = second ]
  kv_umount
}

@test "without the SSD an entry is ram-only and says why" {
  kv_mount ssd_mode=off
  put 1000 "$M/e"
  [ "$(kv_attr state "$M/e")" = ram-only ]
  [ "$(kv_attr reason "$M/e")" = ssd_off ]
  kv_wait_for 20 kv_is_settled "$M/e"
  [ "$(kv_attr state "$M/e")" = ram-only ]
  kv_umount
}

@test "all identity fields can be set on entries and sessions" {
  kv_mount
  mkdir "$M/s"
  put 10 "$M/s/e"
  local field file
  for file in "$M/s" "$M/s/e" "$M"; do
    for field in model mtp_enabled hidden_variant template_hash mtp_history_policy draft_head_identity \
      policy_fingerprint; do
      set_attr "$field" "value of $field: äöü" "$file"
      [ "$(kv_attr "$field" "$file")" = "value of $field: äöü" ]
    done
  done
  kv_umount
}

@test "older words for a history policy are read back as the common ones" {
  kv_mount
  put 10 "$M/e"
  set_attr mtp_history_policy full "$M/e"
  [ "$(kv_attr mtp_history_policy "$M/e")" = committed ]
  set_attr mtp_history_policy window "$M/e"
  [ "$(kv_attr mtp_history_policy "$M/e")" = last_window ]
  set_attr mtp_history_policy lastwindow "$M/e"
  [ "$(kv_attr mtp_history_policy "$M/e")" = last_window ]
  set_attr mtp_history_policy none "$M/e"
  [ "$(kv_attr mtp_history_policy "$M/e")" = none ]
  kv_umount
}

@test "identity fields take one line of at most 4096 bytes" {
  kv_mount
  put 10 "$M/e"
  set_attr model "$(printf 'm%.0s' $(seq 4096))" "$M/e"
  kv_refused "Argument list too long" set_attr model "$(printf 'm%.0s' $(seq 4097))" "$M/e"
  kv_refused "Invalid argument" set_attr model "" "$M/e"
  kv_refused "Invalid argument" set_attr model "two
lines" "$M/e"
  kv_refused "Invalid argument" setfattr -n user.kvbank.model -v 0x6100 "$M/e"
  [ "$(kv_attr model "$M/e" | wc -c)" = 4096 ]
  kv_umount
}

@test "recurrent is 0 or 1 on entries and sessions" {
  kv_mount
  put 10 "$M/e"
  set_attr recurrent 1 "$M/e"
  set_attr recurrent 0 "$M"
  [ "$(kv_attr recurrent "$M/e")$(kv_attr recurrent "$M")" = 10 ]
  kv_refused "Invalid argument" set_attr recurrent yes "$M/e"
  kv_refused "Invalid argument" set_attr recurrent 2 "$M/e"
  kv_umount
}

# ---- sessions ----

@test "a session takes caps, evict and names, and counts its entries" {
  kv_mount
  mkdir "$M/s"
  put 10000 "$M/s/a"
  put 20000 "$M/s/b"
  [ "$(kv_attr entries "$M/s")" = 2 ]
  [ "$(kv_attr nbytes "$M/s")" -ge 30000 ]
  set_attr ram_max 64M "$M/s"
  [ "$(kv_attr ram_max "$M/s")" = 67108864 ]
  set_attr ssd_max 1g "$M/s"
  [ "$(kv_attr ssd_max "$M/s")" = 1073741824 ]
  set_attr evict no "$M/s"
  [ "$(kv_attr evict "$M/s")" = no ]
  set_attr evict yes "$M/s"
  [ "$(kv_attr evict "$M/s")" = yes ]
  set_attr names prefix "$M/s"
  [ "$(kv_attr names "$M/s")" = prefix ]
  kv_umount
}

@test "a session refuses bad values and forgets what is removed" {
  kv_mount
  mkdir "$M/s"
  local pair
  for pair in ram_max=1.5G ram_max=-1 ram_max=10% ssd_max=lots evict=maybe names=all "evict=" "ram_max="; do
    kv_refused "Invalid argument" set_attr "${pair%%=*}" "${pair#*=}" "$M/s"
    has_no_attr "${pair%%=*}" "$M/s"
  done
  for pair in ram_max=1G ssd_max=1G evict=no names=given; do
    set_attr "${pair%%=*}" "${pair#*=}" "$M/s"
    setfattr -x "user.kvbank.${pair%%=*}" "$M/s"
    has_no_attr "${pair%%=*}" "$M/s"
    kv_refused "No such attribute" setfattr -x "user.kvbank.${pair%%=*}" "$M/s"
  done
  set_attr ram_max 1G "$M/s"
  set_attr ssd_max 1G "$M/s"
  set_attr ram_max 0 "$M/s"
  set_attr ssd_max 0 "$M/s"
  has_no_attr ram_max "$M/s"
  has_no_attr ssd_max "$M/s"
  kv_umount
}

@test "a session with evict=no refuses instead of losing entries" {
  kv_mount ram=16M,session_ram=16M
  mkdir "$M/s"
  set_attr evict no "$M/s"
  put 6M "$M/s/a"
  put 6M "$M/s/b"
  run put 6M "$M/s/c"
  [ "$status" != 0 ]
  [ -e "$M/s/a" ] && [ -e "$M/s/b" ] && [ ! -e "$M/s/c" ]
  [ "$(kv_stat evicted_entries)" = 0 ]
  kv_umount
}

@test "ram_max caps a session and those below it" {
  kv_mount settle=off
  mkdir -p "$M/s/t"
  set_attr ram_max 10M "$M/s"
  local i
  for i in 1 2 3 4; do put 4M "$M/s/t/e$i"; done
  [ $(($(kv_attr nbytes "$M/s") + $(kv_attr nbytes "$M/s/t"))) -le 10485760 ]
  [ -e "$M/s/t/e4" ]
  kv_umount
}

# ---- what users keep ----

@test "twenty user attributes with binary values come back byte-equal, also an empty one" {
  kv_mount
  put 10 "$M/e"
  mkdir "$M/s"
  python3 - "$M/e" "$M/s" <<'PY'
import os, sys, random
rnd = random.Random(26)
sizes = [0, 1, 2, 3, 15, 16, 17, 255, 256, 257, 1000, 1023, 1024, 1025, 2000, 3000, 4095, 4096, 4097, 8192]
for path in sys.argv[1:]:
    want = {}
    for n, size in enumerate(sizes):
        name = f"user.field {n} \u00e4%\n" if n % 3 else f"user.{n}"
        value = bytes(rnd.randrange(256) for _ in range(size))
        if n == 3:
            value = b"\0\0\0"
        want[name] = value
        os.setxattr(path, name, value)
    for name, value in want.items():
        assert os.getxattr(path, name) == value, name
    listed = os.listxattr(path)
    assert len(listed) == len(set(listed))
    assert set(want) <= set(listed), listed
    assert {n for n in listed if not n.startswith("user.kvbank.")} == set(want)
PY
  kv_umount
}

@test "values up to the limit of the kernel are kept, beyond the node's limit there is no space" {
  kv_mount
  put 10 "$M/e"
  python3 - "$M/e" <<'PY'
import errno, os, sys
path = sys.argv[1]
def refused(code, *args):
    try:
        os.setxattr(path, *args)
    except OSError as error:
        assert error.errno == code, error
    else:
        raise SystemExit(f"{args[0]} was accepted")
big = bytes(range(256)) * 240  # 61440
os.setxattr(path, "user.big", big)
assert os.getxattr(path, "user.big") == big
refused(errno.ENOSPC, "user.more", b"x" * 8192)
refused(errno.E2BIG, "user.big", b"x" * 65537)
assert os.getxattr(path, "user.big") == big
assert "user.more" not in os.listxattr(path)
os.removexattr(path, "user.big")
os.setxattr(path, "user.more", b"x" * 8192)
longest = "user." + "n" * 250
os.setxattr(path, longest, b"v")
assert os.getxattr(path, longest) == b"v"
refused(errno.ERANGE, longest + "n", b"v")
refused(errno.EINVAL, "user.", b"v")
PY
  kv_umount
}

@test "create and replace flags, size probing and short buffers answer as the manual says" {
  kv_mount
  put 10 "$M/e"
  python3 - "$M/e" <<'PY'
import ctypes, errno, os, sys
path = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
def code(call, *args):
    try:
        call(*args)
    except OSError as error:
        return error.errno
    return 0
for name, value in (("user.x", b"12345"), ("user.kvbank.model", b"12345"), ("user.kvbank.pin", b"10000")):
    assert code(os.setxattr, path, name, value, os.XATTR_REPLACE) == errno.ENODATA, name
    assert code(os.setxattr, path, name, value, os.XATTR_CREATE) == 0, name
    assert code(os.setxattr, path, name, value, os.XATTR_CREATE) == errno.EEXIST, name
    assert code(os.setxattr, path, name, value, os.XATTR_REPLACE) == 0, name
    raw, buf = path.encode(), ctypes.create_string_buffer(64)
    length = libc.getxattr(raw, name.encode(), None, 0)
    assert length in (4, 5), (name, length)
    assert libc.getxattr(raw, name.encode(), buf, length - 1) == -1 and ctypes.get_errno() == errno.ERANGE
    assert libc.getxattr(raw, name.encode(), buf, length) == length
buf = ctypes.create_string_buffer(4096)
need = libc.listxattr(raw, None, 0)
assert need > 0
assert libc.listxattr(raw, buf, need - 1) == -1 and ctypes.get_errno() == errno.ERANGE
assert libc.listxattr(raw, buf, 1) == -1 and ctypes.get_errno() == errno.ERANGE
assert libc.listxattr(raw, buf, need) == need
os.removexattr(path, "user.x")
assert code(os.removexattr, path, "user.x") == errno.ENODATA
assert code(os.getxattr, path, "user.x") == errno.ENODATA
PY
  kv_umount
}

@test "user attributes follow a rename and are seen through every hard link" {
  kv_mount
  mkdir "$M/s"
  put 10 "$M/e"
  setfattr -n user.note -v kept "$M/e"
  ln "$M/e" "$M/s/link"
  mv "$M/e" "$M/s/moved"
  [ "$(getfattr --absolute-names --only-values -n user.note "$M/s/moved")" = kept ]
  [ "$(getfattr --absolute-names --only-values -n user.note "$M/s/link")" = kept ]
  setfattr -n user.note -v new "$M/s/link"
  [ "$(getfattr --absolute-names --only-values -n user.note "$M/s/moved")" = new ]
  kv_umount
}

@test "attributes set while a file is written are those of the version that commits" {
  kv_mount
  exec 8>"$M/e"
  echo text >&8
  setfattr -n user.note -v early "$M/e"
  set_attr model mine "$M/e"
  exec 8>&-
  [ "$(getfattr --absolute-names --only-values -n user.note "$M/e")" = early ]
  [ "$(kv_attr model "$M/e")" = mine ]
  kv_umount
}

@test "cp -a inside the mount keeps user attributes and ends with 0" {
  kv_mount
  put 1000 "$M/e"
  setfattr -n user.note -v kept "$M/e"
  set_attr model mine "$M/e"
  cp -a "$M/e" "$M/copy"
  cmp "$M/e" "$M/copy"
  [ "$(getfattr --absolute-names --only-values -n user.note "$M/copy")" = kept ]
  [ "$(kv_attr model "$M/copy")" = mine ]
  kv_umount
}

# ---- who may ----

@test "other users read attributes where they may read and set them where they may write" {
  kv_skip_without_root
  kv_public_dir
  M="$KV_PUBLIC/mnt"
  kv_mount allow_other,default_permissions
  mkdir "$M/s"
  put 10 "$M/s/e"
  setfattr -n user.note -v mine "$M/s/e"
  kv_refused "Permission denied" kv_as 65534 getfattr -n user.note "$M/s/e"
  chmod 755 "$M/s"
  kv_refused "Permission denied" kv_as 65534 getfattr -n user.note "$M/s/e"
  chmod 644 "$M/s/e"
  [ "$(kv_as 65534 getfattr --absolute-names --only-values -n user.note "$M/s/e")" = mine ]
  [ -n "$(kv_as 65534 getfattr --absolute-names --only-values -n user.kvbank.state "$M/s/e")" ]
  kv_refused "Permission denied" kv_as 65534 setfattr -n user.note -v theirs "$M/s/e"
  kv_refused "Permission denied" kv_as 65534 setfattr -n user.kvbank.pin -v forever "$M/s/e"
  kv_refused "Permission denied" kv_as 65534 setfattr -n user.kvbank.evict -v no "$M/s"
  [ "$(getfattr --absolute-names --only-values -n user.note "$M/s/e")" = mine ]
  kv_umount
}

@test "the control directory has no attributes and takes none" {
  kv_mount
  [ -z "$(getfattr --absolute-names -m - "$M/.kvbank/stats" "$M/.kvbank")" ]
  kv_refused "Operation not permitted" setfattr -n user.x -v 1 "$M/.kvbank/config"
  kv_refused "No such attribute" getfattr -n user.kvbank.state "$M/.kvbank/stats"
  kv_umount
}
