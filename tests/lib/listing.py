#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A directory of many entries: the first names come at once, every name comes once.

usage: listing.py MOUNT NAMES
"""
import os
import sys
import time


def main():
    directory, count = os.path.join(sys.argv[1], "listed"), int(sys.argv[2])
    os.mkdir(directory)
    names = ["e%07d" % i for i in range(count)]
    for name in names:
        os.close(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT, 0o600))
    first = total = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        seen = []
        with os.scandir(directory) as entries:
            for entry in entries:
                if not seen:
                    first = min(first, time.perf_counter() - start)
                seen.append(entry.name)
        total = min(total, time.perf_counter() - start)
        assert sorted(seen) == names, "not every name exactly once"
    print("# %d names: the first after %.1f ms, all after %.0f ms" % (count, first * 1e3, total * 1e3))
    if first > max(0.02, total / 5):
        sys.exit("the listing does not stream")


if __name__ == "__main__":
    main()
