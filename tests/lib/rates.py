#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates of create, of a lookup that finds nothing (it always reaches the daemon) and of open, in a
session of 1,000 entries and in one of many. Both are measured in turn and the best of each counts,
because the noise of a machine only slows down; while a ratio is too low, more rounds follow.

usage: rates.py MOUNT MANY RATIO   (fails when many / few is below RATIO for create or lookup; opening
names picked at random costs the kernel's own caches something, so there three quarters of it will do)
"""
import os
import random
import sys
import time

FEW, PIECE = 1000, 500
ROUNDS_LEAST, ROUNDS_MOST = 4, 24


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


def measure(directory, count, number, choose):
    """One round in one session: name of the work to its rate."""
    fresh = ["round%d-%d" % (number, i) for i in range(PIECE)]
    old = ["e%07d" % choose.randrange(count) for _ in range(PIECE)]
    absent = ["%d-%d" % (number, i) for i in range(PIECE)]
    rates = {
        "create": rate(create, directory, fresh),
        "lookup": rate(missing, directory, absent),
        "open": rate(reopen, directory, old),
    }
    for name in fresh:
        os.unlink(os.path.join(directory, name))
    return rates


def good(ratios, floor):
    return min(ratios["create"], ratios["lookup"]) >= floor and ratios["open"] >= 0.75 * floor


def main():
    mount, many, floor = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    filled = {"few": FEW, "many": many}
    best = {"few": {}, "many": {}}
    for kind, count in filled.items():
        os.mkdir(os.path.join(mount, kind))
        create(os.path.join(mount, kind), ["e%07d" % i for i in range(count)])
    choose = random.Random(1)
    ratios = {}
    for number in range(ROUNDS_MOST):
        for kind, count in filled.items():
            for name, got in measure(os.path.join(mount, kind), count, number, choose).items():
                best[kind][name] = max(best[kind].get(name, 0), got)
        ratios = {name: best["many"][name] / best["few"][name] for name in best["few"]}
        if number >= ROUNDS_LEAST and good(ratios, floor):
            break
    for name, ratio in ratios.items():
        print("# %s: %.0f/s among %d, %.0f/s among %d, ratio %.2f" % (
            name, best["few"][name], FEW, best["many"][name], many, ratio))
    if not good(ratios, floor):
        sys.exit("slower among many entries")


if __name__ == "__main__":
    main()
