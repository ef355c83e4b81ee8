#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Two processes map one entry and touch every page; /proc/PID/smaps must charge each with half of it.

usage: shared_pages.py ENTRY
"""
import mmap
import os
import sys


def proportional_kib(path):
    """Pss of this process's mapping of path."""
    inside = False
    with open("/proc/self/smaps") as smaps:
        for line in smaps:
            if "-" in line.split(" ")[0]:
                inside = line.rstrip("\n").endswith(path)
            elif inside and line.startswith("Pss:"):
                return int(line.split()[1])
    sys.exit("no mapping of %s in smaps" % path)


def mapper(path, others_ready, go, answer, done):
    with open(path, "rb") as file:
        view = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    total = sum(view[at] for at in range(0, len(view), mmap.PAGESIZE))
    os.write(others_ready, b"r")
    os.read(go, 1)
    os.write(answer, b"%d %d\n" % (proportional_kib(path), total))
    os.read(done, 1)
    os._exit(0)


def main():
    path = sys.argv[1]
    size_kib = os.stat(path).st_size // 1024
    ready, ready_write = os.pipe()
    go_read, go = os.pipe()
    answer_read, answer = os.pipe()
    done_read, done = os.pipe()
    for _ in range(2):
        if os.fork() == 0:
            mapper(path, ready_write, go_read, answer, done_read)
    for _ in range(2):
        os.read(ready, 1)
    os.write(go, b"gg")
    answers = b""
    while answers.count(b"\n") < 2:
        answers += os.read(answer_read, 100)
    os.write(done, b"dd")
    shares = [int(line.split()[0]) for line in answers.splitlines()]
    print("%d KiB mapped, charged %s KiB" % (size_kib, shares))
    for share in shares:
        if not 0.45 * size_kib <= share <= 0.55 * size_kib:
            sys.exit("the processes do not share the pages")


if __name__ == "__main__":
    main()
