#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""overload.py MOUNT SECONDS SESSION_CAP - six writers put three times what fits while the caps are sampled.

Every 50 ms ram_bytes is compared with ram_max, each session's nbytes with its cap, and df's used with
the total. At rest every put is accounted for: what is held is what the sessions say, each refused
put and each evicted byte has its event with a reason. Prints one line of figures; exits 1 with what is wrong.
"""
import errno
import os
import random
import re
import sys
import threading
import time

mount, seconds, session_cap = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
SESSIONS = [os.path.join(mount, "s%d" % i) for i in range(3)]
EXPECTED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
wrong, refused, put_bytes, samples = [], 0, 0, 0
lock = threading.Lock()
stop = threading.Event()


def stats():
    with open(os.path.join(mount, ".kvbank/stats")) as f:
        return dict(line.split(" ", 1) for line in f.read().splitlines())


def number(key, values):
    return int(values[key])


def put(path, size, rng):
    """Writes size bytes in pieces; True when it was refused."""
    data = rng.randbytes(65536)
    fd = -1
    failed = False
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        left = size
        while left > 0:
            left -= os.write(fd, data[:min(left, len(data))])
    except OSError as e:
        if e.errno not in EXPECTED:
            wrong.append("write: %s" % e)
        failed = True
    if fd >= 0:
        try:
            os.close(fd)
        except OSError as e:
            if e.errno not in EXPECTED or not failed:
                wrong.append("close: %s" % e)
    return failed


def writer(seed):
    global refused, put_bytes
    rng = random.Random(seed)
    while not stop.is_set():
        size = rng.choice([1, 4096, 100000, 1 << 20, 3 << 20, session_cap + 5000 if rng.random() < 0.05 else 2 << 20])
        path = os.path.join(rng.choice(SESSIONS), "e%d" % rng.randrange(40))
        failed = put(path, size, rng)
        with lock:
            refused += failed
            put_bytes += 0 if failed else size


def sampler():
    global samples
    while not stop.is_set():
        s = stats()
        if number("ram_bytes", s) > number("ram_max", s):
            wrong.append("ram_bytes %s over ram_max %s" % (s["ram_bytes"], s["ram_max"]))
        v = os.statvfs(mount)
        if v.f_bfree > v.f_blocks:
            wrong.append("statvfs: more free than there is")
        for session in SESSIONS:
            held = int(os.getxattr(session, "user.kvbank.nbytes"))
            if held > session_cap:
                wrong.append("%s holds %d, cap %d" % (session, held, session_cap))
        samples += 1
        time.sleep(0.05)


def events():
    with open(os.path.join(mount, ".kvbank/events")) as f:
        return [re.match(r"\S+ (\S+) reason=(\S+) bytes=(\d+) path=", line).groups() for line in f.read().splitlines()]


def main():
    for session in SESSIONS:
        os.mkdir(session)
    threads = [threading.Thread(target=writer, args=(i,)) for i in range(6)] + [threading.Thread(target=sampler)]
    for t in threads:
        t.start()
    time.sleep(seconds)
    stop.set()
    for t in threads:
        t.join()
    time.sleep(0.5)
    s = stats()
    held = sum(int(os.getxattr(x, "user.kvbank.nbytes")) for x in SESSIONS)
    if held != number("ram_bytes", s):
        wrong.append("sessions hold %d, ram_bytes is %s" % (held, s["ram_bytes"]))
    lines = events()
    told = sum(int(b) for e, r, b in lines if e == "evict")
    if told != number("evicted_bytes", s):
        wrong.append("events tell of %d evicted bytes, the counter of %s" % (told, s["evicted_bytes"]))
    if sum(e == "refuse" for e, r, b in lines) != refused or number("refused_entries", s) != refused:
        wrong.append("%d puts refused, %d events, counter %s" %
                     (refused, sum(e == "refuse" for e, r, b in lines), s["refused_entries"]))
    if any(r == "-" for e, r, b in lines if e in ("evict", "refuse", "drop")):
        wrong.append("an event without a reason")
    if put_bytes < 3 * number("ram_max", s):
        wrong.append("no overload: only %d bytes were put" % put_bytes)
    print("samples %d put_bytes %d refused %d evicted %s wrong %d" % (samples, put_bytes, refused, s["evicted_entries"], len(wrong)))
    for line in wrong[:10]:
        print(line)
    sys.exit(1 if wrong else 0)


main()
