#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Two processes map one entry and touch every page; /proc/PID/smaps must charge each with half of it.
The kernel moves pages about meanwhile (compaction, huge pages), which blurs the figures for a moment:
so both touch and look again, a few times, until they are right.

usage: shared_pages.py ENTRY
"""
import mmap
import os
import socket
import sys
import time

TRIES = 10


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


def mapper(path, line):
    """Answers "touch" with ok and "look" with a figure, until the line is closed."""
    with open(path, "rb") as file:
        view = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    while True:
        order = line.recv(16)
        if order == b"touch":
            sum(view[at] for at in range(0, len(view), mmap.PAGESIZE))
            line.send(b"ok")
        elif order == b"look":
            line.send(b"%d" % proportional_kib(path))
        else:
            os._exit(0)


def start(path):
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        here.close()
        mapper(path, there)
    there.close()
    return here


def ask(lines, order):
    for line in lines:
        line.send(order)
    return [line.recv(16) for line in lines]


def main():
    path = sys.argv[1]
    size_kib = os.stat(path).st_size // 1024
    lines = [start(path), start(path)]
    for _ in range(TRIES):
        ask(lines, b"touch")
        shares = [int(answer) for answer in ask(lines, b"look")]
        print("%d KiB mapped, charged %s KiB" % (size_kib, shares))
        if all(0.45 * size_kib <= share <= 0.55 * size_kib for share in shares):
            return
        time.sleep(0.5)
    sys.exit("the processes do not share the pages")


if __name__ == "__main__":
    main()
