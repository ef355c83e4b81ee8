#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""opendir, readdir, telldir, seekdir and rewinddir on one directory, by the C library's own calls.

usage: readdir_seek.py DIRECTORY
"""
import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)


class Dirent(ctypes.Structure):
    _fields_ = [
        ("ino", ctypes.c_uint64),
        ("off", ctypes.c_int64),
        ("reclen", ctypes.c_uint16),
        ("type", ctypes.c_uint8),
        ("name", ctypes.c_char * 256),
    ]


libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.POINTER(Dirent)
libc.readdir.argtypes = libc.telldir.argtypes = libc.rewinddir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
libc.telldir.restype = ctypes.c_long
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]


def rest(stream):
    """Names and places from here to the end."""
    found = []
    while True:
        place = libc.telldir(stream)
        entry = libc.readdir(stream)
        if not entry:
            return found
        found.append((place, entry.contents.name))


directory = sys.argv[1]
stream = libc.opendir(directory.encode())
everything = rest(stream)
names = [name for _, name in everything]
assert len(names) == len(set(names)), "a name twice"
assert b"." in names and b".." in names, "dot entries"
for i in (0, 1, len(names) // 2, len(names) - 1):
    libc.seekdir(stream, everything[i][0])
    assert [name for _, name in rest(stream)] == names[i:], "seekdir to place %d" % i
os.close(os.open(os.path.join(directory, "later"), os.O_CREAT | os.O_WRONLY, 0o600))
os.unlink(os.path.join(directory, "e1"))
libc.rewinddir(stream)
again = [name for _, name in rest(stream)]
assert b"later" in again, "rewinddir shows a new name"
assert b"e1" not in again, "rewinddir hides an old name"
libc.closedir(stream)
