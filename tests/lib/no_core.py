#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Crashes a mounted daemon that may write core files of any size, and looks whether it did.
A process that does dump its core is tried first: where that leaves none, the answer means nothing (77).

usage: no_core.py KVBANKFS STORE MOUNTPOINT OPTIONS
"""
import os
import resource
import signal
import subprocess
import sys
import time


def dumped(process):
    """Ends a child by a crash; did the kernel write its core?"""
    os.kill(process.pid, signal.SIGSEGV)
    _, status = os.waitpid(process.pid, 0)
    return os.WCOREDUMP(status)


def start(arguments, folder):
    return subprocess.Popen(arguments, cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True)


def main():
    program, store, mount, options = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if not dumped(start(["sleep", "60"], os.path.dirname(store))):
        print("this machine writes no core files")
        sys.exit(77)
    daemon = start([program, "-f", "-o", options, store, mount], os.path.dirname(store))
    for _ in range(200):
        if os.path.ismount(mount):
            break
        time.sleep(0.05)
    else:
        sys.exit("the daemon did not mount")
    with open(mount + "/e", "wb") as file:
        file.write(b"canary" * 1000)
    wrote = dumped(daemon)
    subprocess.run(["umount", "-l", mount], check=False)
    sys.exit("the daemon wrote its core" if wrote else 0)


if __name__ == "__main__":
    main()
