#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes one system call and prints "ok", what it gave, or the errno's name.

usage: call.py CALL ARGUMENTS...   (calls are the functions below; paths are bytes)
"""
import ctypes
import errno
import os
import stat
import sys

libc = ctypes.CDLL(None, use_errno=True)


def renameat2(old, new, flags):
    if libc.renameat2(-100, old, -100, new, flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def opened(path, flags, mode=0o666):
    os.close(os.open(path, flags, mode))


def write_line(path, line):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, line + b"\n")
    finally:
        os.close(fd)


def write_at(path, offset, data):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(fd, data, int(offset))
    finally:
        os.close(fd)


def fallocated(path, mode, offset, length):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        if libc.fallocate(fd, int(mode), ctypes.c_long(int(offset)), ctypes.c_long(int(length))):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(fd)


CALLS = {
    "rename": os.rename,
    "noreplace": lambda old, new: renameat2(old, new, 1),
    "exchange": lambda old, new: renameat2(old, new, 2),
    "link": os.link,
    "symlink": os.symlink,
    "unlink": os.unlink,
    "mkdir": os.mkdir,
    "rmdir": os.rmdir,
    "mkfifo": os.mkfifo,
    "mknod": lambda path: os.mknod(path, stat.S_IFREG | 0o666),
    "mkchar": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3)),
    "mkblock": lambda path: os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 0)),
    "mksocket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "stat": lambda path: os.lstat(path) and None,
    "list": lambda path: os.listdir(path) and None,
    "read": lambda path: opened(path, os.O_RDONLY),
    "write": lambda path: opened(path, os.O_WRONLY),
    "readwrite": lambda path: opened(path, os.O_RDWR),
    "create": lambda path: opened(path, os.O_WRONLY | os.O_CREAT),
    "exclusive": lambda path: opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "tmpfile": lambda path: opened(path, os.O_RDWR | os.O_TMPFILE),
    "truncate": lambda path, size: os.truncate(path, int(size)),
    "chmod": lambda path, mode: os.chmod(path, int(mode, 8)),
    "chown": lambda path, uid, gid: os.chown(path, int(uid), int(gid)),
    "utime": lambda path, seconds: os.utime(path, (int(seconds), int(seconds))),
    "getxattr": lambda path, name: os.getxattr(path, name) and None,
    "setxattr": os.setxattr,
    "setxattr_new": lambda path, name, value: os.setxattr(path, name, value, os.XATTR_CREATE),
    "setxattr_old": lambda path, name, value: os.setxattr(path, name, value, os.XATTR_REPLACE),
    "setxattr_long": lambda path, name, size: os.setxattr(path, name, b"x" * int(size)),
    "removexattr": os.removexattr,
    "listxattr": lambda path: os.listxattr(path) and None,
    "statfs": lambda path: os.statvfs(path) and None,
    "write_line": write_line,
    "write_at": write_at,
    "fallocate": fallocated,
}


def call(name, arguments):
    """The errno's name, or ok."""
    try:
        CALLS[name](*arguments)
        return "ok"
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:  # Python has two names for it
            return "EOPNOTSUPP"
        return errno.errorcode.get(error.errno, str(error.errno))


if __name__ == "__main__":
    print(call(sys.argv[1], [os.fsencode(argument) for argument in sys.argv[2:]]))
