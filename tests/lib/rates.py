#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates of create, of a lookup that finds nothing (it always reaches the daemon) and of open, in a
session of 1,000 entries and in one of many. Both are measured in turn, several times, and the best
of each counts: noise of the machine only slows down.

usage: rates.py MOUNT MANY RATIO   (fails when many / few is below RATIO for any of the three)
"""
import os
import random
import sys
import time

FEW, PIECE, ROUNDS = 1000, 500, 5


def create(directory, names):
    for name in names:
        os.close(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def missing(directory, names):
    for name in names:
        try:
            os.stat(os.path.join(directory, "not-" + name))
            sys.exit("found a name that is not there")
        except FileNotFoundError:
            pass


def reopen(directory, names):
    for name in names:
        os.close(os.open(os.path.join(directory, name), os.O_RDONLY))


def rate(work, directory, names):
    start = time.perf_counter()
    work(directory, names)
    return len(names) / (time.perf_counter() - start)


def main():
    mount, many, floor = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    filled = {"few": FEW, "many": many}
    best = {}
    for kind, count in filled.items():
        os.mkdir(os.path.join(mount, kind))
        create(os.path.join(mount, kind), ["e%07d" % i for i in range(count)])
    choose = random.Random(1)
    for round_number in range(ROUNDS):
        for kind, count in filled.items():
            directory = os.path.join(mount, kind)
            fresh = ["round%d-%d" % (round_number, i) for i in range(PIECE)]
            old = ["e%07d" % choose.randrange(count) for _ in range(PIECE)]
            absent = ["%d-%d" % (round_number, i) for i in range(PIECE)]
            for name, work, names in (("create", create, fresh), ("lookup", missing, absent), ("open", reopen, old)):
                key = (name, kind)
                best[key] = max(best.get(key, 0), rate(work, directory, names))
            for name in fresh:
                os.unlink(os.path.join(directory, name))
    slow = 0
    for name in ("create", "lookup", "open"):
        ratio = best[name, "many"] / best[name, "few"]
        print("# %s: %.0f/s among %d, %.0f/s among %d, ratio %.2f" % (
            name, best[name, "few"], FEW, best[name, "many"], many, ratio))
        slow |= ratio < floor
    sys.exit("slower among many entries" if slow else 0)


if __name__ == "__main__":
    main()
