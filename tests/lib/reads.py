#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads one entry in every way that programs do and compares each with the original's bytes.

usage: reads.py ENTRY ORIGINAL COPY   (COPY is made by copy_file_range beside ENTRY)
"""
import concurrent.futures
import errno
import mmap
import os
import shutil
import sys
import tempfile

entry, original, copy = sys.argv[1:]
with open(original, "rb") as file:
    want = file.read()
size = len(want)


def check(what, got):
    if got != want:
        sys.exit("%s: not the original's bytes (%d of %d)" % (what, len(got), size))


def plain(fd):
    pieces = []
    while True:
        piece = os.read(fd, 100001)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def backward(fd, step=65537):
    """pread from the end to the start."""
    starts = range(0, size, step)
    return b"".join(reversed([os.pread(fd, step, at) for at in reversed(starts)]))


def parallel(fd, step=77777):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return b"".join(pool.map(lambda at: os.pread(fd, step, at), range(0, size, step)))


def vector(fd):
    buffers = [bytearray(1000), bytearray(3), bytearray(size)]
    got = os.preadv(fd, buffers, 0)
    return b"".join(bytes(buffer) for buffer in buffers)[:got]


def direct(path):
    """O_DIRECT into page-aligned memory, in whole pages."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    memory = mmap.mmap(-1, 1 << 20)
    pieces = []
    at = 0
    while True:
        got = os.preadv(fd, [memory], at)
        if not got:
            break
        pieces.append(memory[:got])
        at += got
    os.close(fd)
    return b"".join(pieces)


def sent(fd):
    with tempfile.TemporaryFile() as target:
        at = 0
        while at < size:
            at += os.sendfile(target.fileno(), fd, at, size - at)
        target.seek(0)
        return target.read()


def mapped(fd, flags, protection):
    with mmap.mmap(fd, 0, flags, protection) as view:
        return view[:]


def part_mapped(fd):
    """Only the second page and what follows."""
    page = mmap.PAGESIZE
    if size <= page:
        return want
    with mmap.mmap(fd, size - page, mmap.MAP_SHARED, mmap.PROT_READ, offset=page) as view:
        return os.pread(fd, page, 0) + view[:]


def seeks(fd):
    assert os.lseek(fd, 0, os.SEEK_END) == size
    assert os.lseek(fd, 0, os.SEEK_DATA) == 0
    assert os.lseek(fd, 0, os.SEEK_HOLE) == size
    assert os.lseek(fd, size - 1, os.SEEK_DATA) == size - 1
    for whence in (os.SEEK_DATA, os.SEEK_HOLE):
        try:
            os.lseek(fd, size, whence)
            sys.exit("lseek at the end of the file did not fail")
        except OSError as error:
            assert error.errno == errno.ENXIO
    assert os.pread(fd, 10, size) == b""
    assert os.pread(fd, 10, size + 1000000) == b""


def copied(fd, path):
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        at = 0
        while at < size:
            got = os.copy_file_range(fd, target, size - at, at, at)
            assert got > 0
            at += got
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
        os.close(target)
        shutil.copyfile(entry, path)
        return
    os.close(target)


fd = os.open(entry, os.O_RDONLY)
check("read", plain(fd))
check("backward pread", backward(fd))
check("parallel pread", parallel(fd))
check("preadv", vector(fd))
check("O_DIRECT", direct(entry))
check("sendfile", sent(fd))
check("shared mapping", mapped(fd, mmap.MAP_SHARED, mmap.PROT_READ))
check("private mapping", mapped(fd, mmap.MAP_PRIVATE, mmap.PROT_READ))
check("partial mapping", part_mapped(fd))
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
check("read after fadvise", backward(fd))
seeks(fd)
copied(fd, copy)
try:
    mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    sys.exit("a read-only descriptor gave a writable mapping")
except PermissionError:
    pass
os.close(fd)
