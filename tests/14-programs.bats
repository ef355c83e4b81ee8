#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The programs that people use on files work on the mount, every way to read gives the same bytes, and
# real states come back as they were put.

load lib/kv

setup() {
  kv_skip_without_fuse
  kv_mount "ram=384M,session_ram=320M"
}

original() { # SIZE: a file of random bytes, made once for a test
  local file="$BATS_TEST_TMPDIR/original.$1"
  [ -f "$file" ] || head -c "$1" /dev/urandom >"$file"
  echo "$file"
}

corpus_files() {
  local corpus="${KV_CORPUS:-$KV_ROOT/../shared/corpus}"
  find "$KV_DATA" -type f ! -name SHA256SUMS
  [ ! -d "$corpus" ] || find "$corpus" -type f ! -name INDEX.tsv | sort |
    awk -v every="$(kv_count 1 8 1)" 'NR % every == 0'
}

all_settled() {
  local file
  for file in "$@"; do
    kv_is_settled "$file" || return 1
  done
}

@test "every real state: put, size right after close, byte-equal, its SHA-256 known within seconds" {
  local file name count=0
  while read -r file; do
    name="${file##*/}"
    cp "$file" "$M/$name"
    [ "$(stat -c %s "$M/$name")" = "$(stat -c %s "$file")" ]
    cmp "$file" "$M/$name"
    count=$((count + 1))
  done < <(corpus_files)
  kv_wait_for 30 all_settled "$M"/*
  while read -r file; do
    kv_same_hash "$M/${file##*/}" "$file" || {
      echo "# the attribute of ${file##*/} is not its hash"
      return 1
    }
    [ "$(kv_attr state "$M/${file##*/}")" = settled ] || [ "$(kv_attr state "$M/${file##*/}")" = ram-only ]
  done < <(corpus_files)
  echo "# $count states"
  [ "$count" -ge 4 ]
  kv_umount
}

@test "cp, cp -a, cp --sparse=always and install" {
  local from
  from=$(original 3000001)
  cp "$from" "$M/a"
  cp -a "$from" "$M/b"
  truncate -s 1M "$BATS_TEST_TMPDIR/zeros"
  cat "$BATS_TEST_TMPDIR/zeros" "$from" "$BATS_TEST_TMPDIR/zeros" >"$BATS_TEST_TMPDIR/holes"
  cp --sparse=always "$BATS_TEST_TMPDIR/holes" "$M/c"
  cp --sparse=always "$M/c" "$BATS_TEST_TMPDIR/back"
  cp --reflink=auto "$M/a" "$M/d"
  install -m 600 "$from" "$M/e"
  cmp "$from" "$M/a"
  cmp "$from" "$M/b"
  cmp "$BATS_TEST_TMPDIR/holes" "$M/c"
  cmp "$BATS_TEST_TMPDIR/holes" "$BATS_TEST_TMPDIR/back"
  cmp "$from" "$M/d"
  cmp "$from" "$M/e"
  cp -f "$(original 5)" "$M/a"
  cmp "$(original 5)" "$M/a"
  kv_umount
}

@test "rsync -a, again, in place and with append" {
  kv_skip_without rsync
  local from
  from=$(original 2000000)
  mkdir "$BATS_TEST_TMPDIR/tree"
  cp "$from" "$BATS_TEST_TMPDIR/tree/a"
  echo small >"$BATS_TEST_TMPDIR/tree/b"
  rsync -a "$BATS_TEST_TMPDIR/tree/" "$M/tree/"
  [ -z "$(rsync -aic "$BATS_TEST_TMPDIR/tree/" "$M/tree/")" ]
  printf XXXX | dd of="$BATS_TEST_TMPDIR/tree/a" bs=1 seek=1000000 conv=notrunc status=none
  echo more >>"$BATS_TEST_TMPDIR/tree/b"
  rsync -ac --inplace --no-whole-file "$BATS_TEST_TMPDIR/tree/" "$M/tree/"
  diff -r "$BATS_TEST_TMPDIR/tree" "$M/tree"
  head -c 1000000 "$from" >>"$BATS_TEST_TMPDIR/tree/a"
  rsync -a --append "$BATS_TEST_TMPDIR/tree/" "$M/tree/"
  diff -r "$BATS_TEST_TMPDIR/tree" "$M/tree"
  [ "$(ls -A "$M/tree" | tr '\n' ' ')" = "a b " ]
  kv_umount
}

@test "tar into the mount and out of it" {
  umask 077 # modes that the mount makes itself
  mkdir -p "$BATS_TEST_TMPDIR/tree/s/t"
  cp "$(original 1000000)" "$BATS_TEST_TMPDIR/tree/s/a"
  echo x >"$BATS_TEST_TMPDIR/tree/s/t/b"
  tar -C "$BATS_TEST_TMPDIR/tree" -cf "$M/tree.tar" s
  tar -tf "$M/tree.tar" | grep -q s/t/b
  tar -C "$M" -xf "$M/tree.tar"
  diff -r "$BATS_TEST_TMPDIR/tree/s" "$M/s"
  tar -C "$M" -c s | tar -d -C "$BATS_TEST_TMPDIR/tree"
  kv_umount
}

@test "dd with conv=fsync, conv=notrunc, oflag=append and oflag=direct" {
  local from
  from=$(original 4194304)
  dd if="$from" of="$M/a" bs=64K conv=fsync status=none
  cmp "$from" "$M/a"
  dd if="$from" of="$M/b" bs=4K status=none
  cmp "$from" "$M/b"
  dd if="$from" of="$M/c" bs=1M oflag=direct status=none
  cmp "$from" "$M/c"
  cp "$from" "$BATS_TEST_TMPDIR/changed"
  printf changed | dd of="$BATS_TEST_TMPDIR/changed" bs=1 seek=1234567 conv=notrunc status=none
  printf changed | dd of="$M/a" bs=1 seek=1234567 conv=notrunc status=none
  cmp "$BATS_TEST_TMPDIR/changed" "$M/a"
  printf tail | dd of="$M/a" oflag=append conv=notrunc status=none
  printf tail >>"$BATS_TEST_TMPDIR/changed"
  cmp "$BATS_TEST_TMPDIR/changed" "$M/a"
  kv_umount
}

@test "mv, mv s/* t/, rm, rm -r" {
  mkdir "$M/s" "$M/t"
  local i
  for i in $(seq 50); do
    echo "$i" >"$M/s/e$i"
  done
  mv "$M"/s/* "$M/t/"
  [ "$(ls "$M/t" | wc -l)" = 50 ]
  [ -z "$(ls -A "$M/s")" ]
  [ "$(cat "$M/t/e17")" = 17 ]
  mv "$M/t/e17" "$BATS_TEST_TMPDIR/e17"
  mv "$BATS_TEST_TMPDIR/e17" "$M/s/"
  [ "$(cat "$M/s/e17")" = 17 ]
  rm "$M"/t/e1*
  rm -r "$M/s" "$M/t"
  [ -z "$(ls -A "$M")" ]
  kv_umount
}

@test "truncate, fallocate, >>, tee, sed -i, split and sort" {
  local from
  from=$(original 1000000)
  cp "$from" "$M/a"
  truncate -s 500000 "$M/a"
  cmp <(head -c 500000 "$from") "$M/a"
  truncate -s 600000 "$M/a"
  cmp <(head -c 500000 "$from"; head -c 100000 /dev/zero) "$M/a"
  truncate -s 0 "$M/a"
  [ "$(stat -c %s "$M/a")" = 0 ]
  truncate -s 12345 "$M/new"
  [ "$(stat -c %s "$M/new")" = 12345 ]
  fallocate -l 100000 "$M/b"
  [ "$(stat -c %s "$M/b")" = 100000 ]
  kv_not fallocate -p -o 0 -l 4096 "$M/b"
  echo one >"$M/c"
  echo two >>"$M/c"
  echo three | tee -a "$M/c" >/dev/null
  sed -i s/two/zwei/ "$M/c"
  [ "$(cat "$M/c")" = "one
zwei
three" ]
  split -n 7 "$from" "$M/part."
  cat "$M"/part.* | cmp - "$from"
  sort -o "$M/c" "$M/c"
  [ "$(head -n 1 "$M/c")" = one ]
  kv_umount
}

@test "sha256sum -c over what was put" {
  cp "$KV_DATA"/chat* "$KV_DATA"/empty* "$KV_DATA/SHA256SUMS" "$M"
  (cd "$M" && sha256sum --quiet -c SHA256SUMS)
  kv_umount
}

@test "every way to read: mmap, O_DIRECT, pread parallel and backward, readv, sendfile, seeks, copies" {
  local from size
  for size in 1 4096 5000001; do
    from=$(original $size)
    cp "$from" "$M/e"
    "$KV_PYTHON" "$KV_LIB/reads.py" "$M/e" "$from" "$M/copy"
    cmp "$from" "$M/copy"
  done
  kv_umount
}

@test "an empty entry is legal: 0 bytes to read, nothing to map, its hash is that of nothing" {
  : >"$M/e"
  [ -e "$M/e" ]
  [ "$(stat -c %s "$M/e")" = 0 ]
  [ -z "$(cat "$M/e")" ]
  kv_wait_for 10 kv_is_settled "$M/e"
  kv_same_hash "$M/e" /dev/null
  kv_umount
}

@test "a private mapping that is written stays private" {
  local from
  from=$(original 1000000)
  cp "$from" "$M/e"
  "$KV_PYTHON" - "$M/e" <<'END'
import mmap, sys
with open(sys.argv[1], "rb") as file:
    view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    view[:] = b"x" * len(view)
    assert open(sys.argv[1], "rb").read(10) != b"x" * 10
END
  cmp "$from" "$M/e"
  kv_umount
}

@test "numpy.memmap, numpy.load and numpy.save" {
  "$KV_PYTHON" -c 'import numpy' 2>/dev/null || skip "python3-numpy is not installed"
  "$KV_PYTHON" - "$M" <<'END'
import sys
import numpy

path = sys.argv[1] + "/array.npy"
array = numpy.arange(500000, dtype=numpy.float32).reshape(1000, 500)
numpy.save(path, array)
assert (numpy.load(path) == array).all()
mapped = numpy.load(path, mmap_mode="r")
assert (mapped[::-1] == array[::-1]).all()
array.tofile(sys.argv[1] + "/raw")
raw = numpy.memmap(sys.argv[1] + "/raw", dtype=numpy.float32, mode="r", shape=(1000, 500))
assert (raw == array).all()
END
  kv_umount
}

@test "two processes that map one entry share its pages (passthrough)" {
  kv_has_passthrough || skip "no passthrough in this mode"
  head -c 32M /dev/urandom >"$M/e"
  run "$KV_PYTHON" "$KV_LIB/shared_pages.py" "$M/e"
  echo "# $output"
  [ "$status" = 0 ]
  kv_umount
}

@test "git clone into the mount, commit there, and fsck" {
  kv_skip_without git
  export HOME="$BATS_TEST_TMPDIR" GIT_CONFIG_NOSYSTEM=1
  export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
  local repository="$BATS_TEST_TMPDIR/repository"
  git init -q "$repository"
  cp -r "$KV_ROOT/tests" "$repository/"
  git -C "$repository" add -A
  git -C "$repository" commit -q -m first
  git clone -q "file://$repository" "$M/clone"
  diff -r "$repository/tests" "$M/clone/tests"
  [ -z "$(git -C "$M/clone" status --porcelain)" ]
  echo more >"$M/clone/more"
  git -C "$M/clone" add more
  git -C "$M/clone" commit -q -m second
  git -C "$M/clone" fsck --strict
  git -C "$M/clone" gc -q
  git -C "$M/clone" log --oneline | wc -l | grep -qx 2
  rm -rf "$M/clone"
  kv_umount
}

@test "fio writes, reads and verifies" {
  kv_skip_without fio
  local size
  size=$(kv_count 16M 4M)
  cd "$BATS_TEST_TMPDIR" # fio leaves a file with its state where it runs
  fio --name=stream --directory="$M" --rw=write --bs=128k --size="$size" --verify=crc32c --do_verify=1 --ioengine=psync \
    --fallocate=none --output="$BATS_TEST_TMPDIR/fio" || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
  fio --name=random --directory="$M" --rw=randwrite --bs=4k --size="$(kv_count 4M 1M)" --verify=crc32c --do_verify=1 \
    --ioengine=psync --output="$BATS_TEST_TMPDIR/fio" || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
  fio --name=readers --filename="$M/stream.0.0" --rw=randread --bs=16k --size="$size" --numjobs=4 --ioengine=mmap \
    --output="$BATS_TEST_TMPDIR/fio" || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
  kv_umount
}
