#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The tree: sessions, names and what stat(2) says of them behave as a file system's.

load lib/kv

setup() {
  kv_skip_without_fuse
  kv_mount "${MOUNT_OPTIONS:-}"
}

inode() {
  stat -c %i "$1"
}

@test "sessions nest, and find sees every one and every entry" {
  mkdir -p "$M/user/agent/thread"
  local at
  for at in "" user/ user/agent/ user/agent/thread/; do
    echo "$at" >"$M/${at}e"
  done
  run bash -c "cd '$M' && find . | sort"
  [ "$output" = ".
./e
./user
./user/agent
./user/agent/e
./user/agent/thread
./user/agent/thread/e
./user/e" ]
  [ "$(cat "$M/user/agent/thread/e")" = user/agent/thread/ ]
  [ "$(stat -c %F "$M/user/agent")" = directory ]
  kv_umount
}

@test "mkdir and rmdir answer as POSIX says" {
  kv_call ok mkdir "$M/s"
  kv_call EEXIST mkdir "$M/s"
  kv_call ENOENT mkdir "$M/no/s"
  echo x >"$M/e"
  kv_call EEXIST mkdir "$M/e"
  kv_call ENOTDIR mkdir "$M/e/s"
  kv_call ENOTDIR rmdir "$M/e"
  echo x >"$M/s/e"
  kv_call ENOTEMPTY rmdir "$M/s"
  kv_call EISDIR unlink "$M/s"
  rm "$M/s/e"
  kv_call ok rmdir "$M/s"
  kv_call ENOENT rmdir "$M/s"
  kv_call EBUSY rmdir "$M"
  kv_umount
}

@test "a working directory that was removed lists nothing and takes nothing" {
  mkdir "$M/s"
  cd "$M/s"
  rmdir "$M/s"
  [ -z "$(ls -A . 2>/dev/null)" ]
  kv_call ENOENT create new
  cd /
  kv_umount
}

@test "rename moves an entry within a session and across sessions, and keeps its inode" {
  mkdir -p "$M/s/deep" "$M/t"
  head -c 300000 /dev/urandom >"$BATS_TEST_TMPDIR/original"
  cp "$BATS_TEST_TMPDIR/original" "$M/s/deep/e"
  before=$(inode "$M/s/deep/e")
  mv "$M/s/deep/e" "$M/s/deep/f"
  mv "$M/s/deep/f" "$M/t/g"
  mv "$M/t/g" "$M/h"
  [ "$(inode "$M/h")" = "$before" ]
  cmp "$BATS_TEST_TMPDIR/original" "$M/h"
  [ -z "$(ls -A "$M/s/deep" "$M/t" | grep -v :)" ]
  kv_umount
}

@test "rename over an existing name replaces it; readers of the old one finish" {
  mkdir "$M/s"
  echo old >"$M/s/e"
  echo new >"$M/f"
  exec 7<"$M/s/e"
  new=$(inode "$M/f")
  mv -f "$M/f" "$M/s/e"
  [ "$(cat "$M/s/e")" = new ]
  [ "$(inode "$M/s/e")" = "$new" ]
  [ "$(cat <&7)" = old ]
  exec 7<&-
  [ ! -e "$M/f" ]
  kv_umount
}

@test "rename of whole sessions takes along everything in them" {
  mkdir -p "$M/a/b/c" "$M/x/y"
  local i
  for i in 1 2 3; do
    echo "$i" >"$M/a/b/c/e$i"
  done
  mv "$M/a/b" "$M/x/y/moved"
  [ "$(cat "$M/x/y/moved/c/e1" "$M/x/y/moved/c/e2" "$M/x/y/moved/c/e3")" = "1
2
3" ]
  [ ! -e "$M/a/b" ]
  echo more >"$M/x/y/moved/c/e4"
  [ "$(ls "$M/x/y/moved/c" | wc -l)" = 4 ]
  mv "$M/x" "$M/renamed"
  [ "$(cat "$M/renamed/y/moved/c/e4")" = more ]
  kv_umount
}

@test "a rename that cannot be answers the right errno and changes nothing" {
  mkdir -p "$M/a/b" "$M/full" "$M/empty"
  echo x >"$M/full/e"
  echo f >"$M/file"
  kv_call EINVAL rename "$M/a" "$M/a/b/c"
  kv_call EINVAL rename "$M/a" "$M/a/c"
  kv_call ENOTEMPTY rename "$M/a" "$M/full"
  kv_call EISDIR rename "$M/file" "$M/empty"
  kv_call ENOTDIR rename "$M/a" "$M/file"
  kv_call ENOENT rename "$M/none" "$M/new"
  kv_call ENOENT rename "$M/file" "$M/none/new"
  kv_call EEXIST noreplace "$M/file" "$M/full/e"
  kv_call EINVAL exchange "$M/file" "$M/full/e"
  [ "$(cat "$M/file" "$M/full/e")" = "f
x" ]
  kv_call ok noreplace "$M/file" "$M/new"
  kv_call ok rename "$M/a" "$M/empty"
  [ -d "$M/empty/b" ]
  kv_call ok rename "$M/new" "$M/new"
  [ "$(cat "$M/new")" = f ]
  kv_umount
}

@test "an unlinked entry stays readable until its last close, and its bytes count until then" {
  head -c 8M /dev/urandom >"$BATS_TEST_TMPDIR/original"
  cp "$BATS_TEST_TMPDIR/original" "$M/e"
  exec 7<"$M/e"
  held=$(kv_stat ram_bytes)
  rm "$M/e"
  [ ! -e "$M/e" ]
  [ "$(stat -L -c %h /proc/self/fd/7)" = 0 ]
  [ "$(kv_stat ram_bytes)" -ge 8388608 ]
  cmp - "$BATS_TEST_TMPDIR/original" <&7
  echo fresh >"$M/e"
  [ "$(cat "$M/e")" = fresh ]
  exec 7<&-
  bytes_are_back() { [ "$(kv_stat ram_bytes)" -lt $((held - 8000000)) ]; }
  kv_wait_for 3 bytes_are_back
  kv_umount
}

@test "hard links: one inode, the link count told, either name may go" {
  mkdir "$M/s"
  echo content >"$M/e"
  ln "$M/e" "$M/s/f"
  ln "$M/e" "$M/g"
  [ "$(inode "$M/e")" = "$(inode "$M/s/f")" ]
  [ "$(stat -c %h "$M/e" "$M/s/f" "$M/g" | sort -u)" = 3 ]
  rm "$M/e"
  [ "$(cat "$M/s/f")" = content ]
  [ "$(stat -c %h "$M/s/f")" = 2 ]
  mv "$M/s/f" "$M/s/h"
  rm "$M/g"
  [ "$(cat "$M/s/h")" = content ]
  [ "$(stat -c %h "$M/s/h")" = 1 ]
  kv_umount
}

@test "links that cannot be, and renames between two names of one entry" {
  echo x >"$M/e"
  mkdir "$M/s"
  kv_call EPERM link "$M/s" "$M/t"
  kv_call EEXIST link "$M/e" "$M/s"
  kv_call ENOENT link "$M/none" "$M/f"
  kv_call ok link "$M/e" "$M/f"
  kv_call EEXIST link "$M/e" "$M/f"
  # POSIX: both names of one file, nothing happens
  kv_call ok rename "$M/e" "$M/f"
  [ "$(cat "$M/e" "$M/f")" = "x
x" ]
  kv_umount
}

@test "only the name that was written gets the new version of a hard-linked entry" {
  echo old >"$M/e"
  ln "$M/e" "$M/f"
  echo new >"$M/e"
  [ "$(cat "$M/e")" = new ]
  [ "$(cat "$M/f")" = old ]
  [ "$(stat -c %h "$M/e")" = 1 ]
  [ "$(stat -c %h "$M/f")" = 1 ]
  kv_umount
}

@test "every version has an inode of its own, never used again" {
  local i
  : >"$BATS_TEST_TMPDIR/inodes"
  for i in $(seq 50); do
    echo "$i" >"$M/e"
    inode "$M/e" >>"$BATS_TEST_TMPDIR/inodes"
    if [ $((i % 5)) = 0 ]; then
      rm "$M/e"
    fi
  done
  [ "$(sort "$BATS_TEST_TMPDIR/inodes" | uniq -d | wc -l)" = 0 ]
  kv_umount
}

@test "symlinks, devices, FIFOs and sockets are EPERM; an empty regular file by mknod works" {
  kv_call EPERM symlink target "$M/link"
  kv_call EPERM mkfifo "$M/fifo"
  kv_call EPERM mksocket "$M/socket"
  if [ "$(id -u)" = 0 ]; then
    kv_call EPERM mkchar "$M/char"
    kv_call EPERM mkblock "$M/block"
  fi
  [ -z "$(ls -A "$M")" ]
  kv_call ok mknod "$M/e"
  [ "$(stat -c %s "$M/e")" = 0 ]
  [ -z "$(cat "$M/e")" ]
  kv_umount
}

@test "create and mkdir mask with 0700 whatever the umask; chmod widens" {
  umask 000
  echo x >"$M/e"
  mkdir "$M/s"
  [ "$(stat -c %a "$M/e")" = 600 ]
  [ "$(stat -c %a "$M/s")" = 700 ]
  kv_call ok chmod "$M/e" 644
  kv_call ok chmod "$M/s" 755
  [ "$(stat -c %a "$M/e")" = 644 ]
  [ "$(stat -c %a "$M/s")" = 755 ]
  kv_call EPERM chmod "$M/e" 4755
  [ "$(stat -c %a "$M/e")" = 644 ]
  [ "$(stat -c %u:%g "$M/e")" = "$(id -u):$(id -g)" ]
  kv_umount
}

@test "the mode survives a rewrite; the owner is who made it" {
  echo x >"$M/e"
  chmod 640 "$M/e"
  echo y >"$M/e"
  [ "$(stat -c %a "$M/e")" = 640 ]
  if [ "$(id -u)" = 0 ]; then
    chown 1234:4321 "$M/e"
    [ "$(stat -c %u:%g "$M/e")" = 1234:4321 ]
    mkdir "$M/s"
    mv "$M/e" "$M/s/f"
    [ "$(stat -c %u:%g "$M/s/f")" = 1234:4321 ]
  fi
  kv_umount
}

@test "times that were set stay, to the nanosecond, and reading does not change mtime" {
  echo x >"$M/e"
  mkdir "$M/s"
  touch -d "2001-02-03 04:05:06.123456789 UTC" "$M/e" "$M/s"
  want=$(stat -c %y "$M/e")
  [[ "$want" == *.123456789* ]] || { echo "# mtime is $want"; return 1; }
  cat "$M/e" >/dev/null
  mv "$M/e" "$M/s/f"
  touch -d "2001-02-03 04:05:06.123456789 UTC" "$M/s"
  [ "$(stat -c %y "$M/s/f")" = "$want" ]
  [ "$(stat -c %y "$M/s")" = "$want" ]
  touch -a -d "2011-02-03 04:05:06 UTC" "$M/s/f"
  [ "$(stat -c %X "$M/s/f")" = 1296705906 ]
  [ "$(stat -c %y "$M/s/f")" = "$want" ]
  kv_umount
}

@test "mtime is the time of the commit, and changes in a session touch it" {
  echo x >"$M/e"
  now=$(date +%s)
  mtime=$(stat -c %Y "$M/e")
  [ $((now - mtime)) -le 2 ] && [ $((now - mtime)) -ge 0 ]
  mkdir "$M/s"
  touch -d @1000000000 "$M/s"
  echo y >"$M/s/f"
  [ "$(stat -c %Y "$M/s")" -ge "$mtime" ]
  touch -d @1000000000 "$M/s"
  rm "$M/s/f"
  [ "$(stat -c %Y "$M/s")" -ge "$mtime" ]
  kv_umount
}

@test "cp -a, rsync -a and tar keep modes and times, into the mount and out of it" {
  local from="$BATS_TEST_TMPDIR/from"
  mkdir -p "$from/s"
  echo one >"$from/s/a"
  head -c 100000 /dev/urandom >"$from/s/b"
  chmod 600 "$from/s/b"
  chmod 700 "$from/s"
  # tar as an ordinary user trusts that a file has the mode it was made with; ours are masked with 0700
  [ "$(id -u)" = 0 ] && chmod 640 "$from/s/a" || chmod 600 "$from/s/a"
  touch -d "2002-02-02 02:02:02.25 UTC" "$from/s/a" "$from/s/b" "$from/s"
  listing() { (cd "$1" && find s -printf '%p %m %s %T@ %u %g\n' | sort); }
  # a directory's size is the file system's own affair
  same() { diff <(listing "$from" | sed -E 's/^(s [0-9]+) [0-9]+/\1/') <(listing "$1" | sed -E 's/^(s [0-9]+) [0-9]+/\1/'); }
  mkdir "$M/cp" "$M/tar" "$BATS_TEST_TMPDIR/cp" "$BATS_TEST_TMPDIR/tar" "$BATS_TEST_TMPDIR/rsync"
  cp -a "$from/s" "$M/cp/"
  same "$M/cp"
  cp -a "$M/cp/s" "$BATS_TEST_TMPDIR/cp/"
  same "$BATS_TEST_TMPDIR/cp"
  tar -C "$from" --format=posix -c s | tar -C "$M/tar" -xp
  same "$M/tar"
  tar -C "$M/tar" --format=posix -c s | tar -C "$BATS_TEST_TMPDIR/tar" -xp
  same "$BATS_TEST_TMPDIR/tar"
  if command -v rsync >/dev/null; then
    mkdir "$M/rsync"
    rsync -a "$from/s" "$M/rsync/"
    same "$M/rsync"
    rsync -a "$M/rsync/s" "$BATS_TEST_TMPDIR/rsync/"
    same "$BATS_TEST_TMPDIR/rsync"
    [ -z "$(rsync -aicn "$from/s" "$M/rsync/")" ]
  fi
  kv_umount
}

@test "stat tells the size right after close and blocks that leave no hole" {
  local size blocks
  for size in 0 1 511 512 513 4095 4096 4097 1000000 3145729; do
    head -c "$size" /dev/zero >"$M/e"
    [ "$(stat -c %s "$M/e")" = "$size" ]
    blocks=$(stat -c %b "$M/e")
    [ $((blocks * 512)) -ge "$size" ]
    [ $((blocks * 512)) -lt $((size + 4096)) ]
  done
  [ "$(stat -c %B "$M/e")" = 512 ]
  kv_umount
}

@test "df: size is the RAM cap without an SSD, used is what is held, names have 255 bytes" {
  kv_umount
  kv_mount ram=64M,session_ram=64M,ssd_mode=off
  [ "$(stat -f -c %S "$M")" = 4096 ]
  [ "$(stat -f -c %l "$M")" = 255 ]
  [ $(($(stat -f -c %b "$M") * 4096)) = 67108864 ]
  before=$(stat -f -c %f "$M")
  head -c 10M /dev/urandom >"$M/e"
  after=$(stat -f -c %f "$M")
  [ $(((before - after) * 4096)) -ge 10485760 ]
  [ $(((before - after) * 4096)) -le 12000000 ]
  df "$M" >/dev/null
  # what can be evicted is available
  [ $(($(stat -f -c %a "$M") * 4096)) -ge 60000000 ]
  setfattr -n user.kvbank.pin -v forever "$M/e"
  [ $(($(stat -f -c %a "$M") * 4096)) -le 57000000 ]
  kv_umount
}

@test "a directory of many names lists those that stay exactly once while others change" {
  local names
  names=$(kv_count_entries 20000 2000 100000)
  run "$KV_PYTHON" "$KV_LIB/readdir_stable.py" "$M" "$names" "$(kv_count 8 4 8)"
  echo "# $output"
  [ "$status" = 0 ]
  kv_umount
}

@test "rewinddir shows what is there now; telldir and seekdir come back to the same place" {
  mkdir "$M/s"
  local i
  for i in $(seq 300); do
    : >"$M/s/e$i"
  done
  "$KV_PYTHON" "$KV_LIB/readdir_seek.py" "$M/s"
  kv_umount
}
