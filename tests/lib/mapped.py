#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""mapped.py ENTRY STATS BYTES [FILL] - an entry that is closed and only mapped.

Unlinked it must count until munmap; with FILL, a name to put five others at, it must not be evicted for them.

Python's own mmap keeps a descriptor, so libc's is called: in passthrough mode the daemon then sees the
last close long before munmap."""
import ctypes
import os
import sys
import time

entry, stats, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def ram_bytes():
    with open(stats) as f:
        return int(dict(line.split(" ", 1) for line in f.read().splitlines())["ram_bytes"])


fd = os.open(entry, os.O_RDONLY)
address = libc.mmap(None, size, 1, 1, fd, 0)
if address == ctypes.c_void_p(-1).value:
    sys.exit("mmap: %s" % os.strerror(ctypes.get_errno()))
first = ctypes.string_at(address, 1)
os.close(fd)
if len(sys.argv) > 4:
    for i in range(5):
        with open("%s%d" % (sys.argv[4], i), "wb") as f:
            f.write(b"x" * size)
    if not os.path.exists(entry):
        sys.exit("a mapped entry was evicted")
    sys.exit(0)
os.unlink(entry)
for _ in range(10):
    time.sleep(0.1)
    if ram_bytes() < size:
        sys.exit("mapped bytes are counted no more: %d" % ram_bytes())
ctypes.string_at(address, size)
libc.munmap(address, size)
deadline = time.time() + 5
while ram_bytes() and time.time() < deadline:
    time.sleep(0.05)
sys.exit("still counted after munmap: %d" % ram_bytes() if ram_bytes() else 0)
