#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A directory listed again and again while a writer renames, creates and unlinks half of its names.
The other half must be in every listing exactly once; no name may appear that never was.

usage: readdir_stable.py DIRECTORY NAMES LISTINGS
"""
import collections
import multiprocessing
import os
import random
import sys


def make(directory, name):
    os.close(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def churn(directory, names, stop):
    """Every round renames one name there and back, and ends and makes another."""
    seed = random.Random(1)
    while not stop.is_set():
        name, other = seed.sample(names, 2)
        path = os.path.join(directory, name)
        os.rename(path, path + ".moved")
        os.rename(path + ".moved", path)
        os.unlink(os.path.join(directory, other))
        make(directory, other)


def listing(directory):
    with os.scandir(directory) as entries:
        return collections.Counter(entry.name for entry in entries)


def main():
    directory = os.path.join(sys.argv[1], "many")
    count, rounds = int(sys.argv[2]), int(sys.argv[3])
    os.mkdir(directory)
    stable = ["stable-%06d" % i for i in range(count // 2)]
    moving = ["moving-%06d" % i for i in range(count // 2)]
    for one, other in zip(stable, moving):
        make(directory, one)
        make(directory, other)
    stop = multiprocessing.Event()
    writer = multiprocessing.Process(target=churn, args=(directory, moving, stop))
    writer.start()
    bad = 0
    known = set(stable) | set(moving) | {name + ".moved" for name in moving}
    for _ in range(rounds):
        seen = listing(directory)
        missing = [name for name in stable if name not in seen]
        twice = [name for name in stable if seen[name] > 1]
        strange = set(seen) - known
        if missing or twice or strange:
            print("missing %d twice %d strange %d" % (len(missing), len(twice), len(strange)))
            bad = 1
    alive = writer.is_alive()
    stop.set()
    writer.join()
    if not alive or writer.exitcode:
        print("the writer failed")
        bad = 1
    print("%d names, %d listings" % (count, rounds))
    sys.exit(bad)


if __name__ == "__main__":
    main()
