# SPDX-License-Identifier: GPL-2.0-or-later
"""checks.py - what the client programs share: named checks, and a look at the bank they work on.

A client program is called as `PROGRAM DIRECTORY [--label TEXT]`. DIRECTORY is an existing, empty
directory: a session of a mount, or a plain directory (then what only kvbankfs can answer is left
out), so that every program can be tried on tmpfs first. Each check prints one TAP line: `ok NAME`,
`not ok NAME: why` or `ok NAME # skip why`. The program ends with status 1 when a check failed.
"""

import argparse
import hashlib
import os
import sys
import time
import traceback


class Skip(Exception):
    """The check cannot be made here; the text says what is missing."""


class Failure(Exception):
    """The check was made and found something else than expected."""


def expect(condition, text):
    """Fails the running check with `text`, which says what was expected and what was found."""
    if not condition:
        raise Failure(text)


def expect_equal(found, wanted, what):
    expect(found == wanted, f"{what}: expected {wanted}, found {found}")


class Checks:
    """Runs checks one after the other and counts the failed ones. Not for several threads."""

    def __init__(self, label):
        self.label = label
        self.failed = 0

    def run(self, name, function, *arguments):
        full_name = f"{self.label} {name}".strip()
        started = time.monotonic()
        try:
            note = function(*arguments)
        except Skip as reason:
            print(f"ok {full_name} # skip {reason}", flush=True)
            return
        except Failure as reason:
            self._fail(full_name, str(reason))
            return
        except Exception as error:  # whatever a client meets is a finding, and the rest still runs
            where = traceback.extract_tb(error.__traceback__)[-1]
            self._fail(full_name, f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})")
            return
        print(f"ok {full_name}", flush=True)
        print(f"# {time.monotonic() - started:.1f} s{'; ' + note if note else ''}", flush=True)

    def _fail(self, full_name, reason):
        self.failed += 1
        print(f"not ok {full_name}: {' '.join(reason.split())}", flush=True)

    def finish(self):
        sys.exit(1 if self.failed else 0)


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("directory", help="an empty directory on the mount, or a plain one")
    parser.add_argument("--label", default="", help="begins the name of every check")
    return parser


def is_full_run():
    """KV_SLOW=full asks for the largest numbers of files."""
    return os.environ.get("KV_SLOW") == "full"


def is_short_run():
    return os.environ.get("KV_SLOW") == "short"


def bank_of(path):
    """The mount point that holds `path`, or None when it is no kvbankfs."""
    path = os.path.realpath(path)
    while True:
        if os.path.exists(os.path.join(path, ".kvbank/stats")):
            return path
        if path == "/":
            return None
        path = os.path.dirname(path)


def bank_stat(path, key):
    """A whole number from .kvbank/stats of the mount that holds `path`. Skips on a plain directory."""
    bank = bank_of(path)
    if bank is None:
        raise Skip("not a kvbankfs mount")
    with open(os.path.join(bank, ".kvbank/stats"), encoding="utf-8") as lines:
        for line in lines:
            if line.split()[0] == key:
                return int(line.split()[1])
    raise Failure(f".kvbank/stats: expected a line '{key} NUMBER', found none")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def settled_sha256(path, seconds=30):
    """Waits until user.kvbank.sha256 of `path` is known and returns it; None on a plain directory."""
    if bank_of(path) is None:
        return None
    end = time.monotonic() + seconds
    while True:
        try:
            return os.getxattr(path, "user.kvbank.sha256").decode()
        except OSError as error:
            if time.monotonic() > end:
                raise Failure(f"user.kvbank.sha256 of {os.path.basename(path)}: expected within {seconds} s, "
                              f"found {error.strerror}") from None
        time.sleep(0.05)


def pattern(seed, length):
    """`length` bytes that differ for every seed and repeat nowhere within a page."""
    return hashlib.shake_128(str(seed).encode()).digest(length) if length < 65536 else _long_pattern(seed, length)


def _long_pattern(seed, length):
    """Made of one random piece whose copies each begin with their number: as good, and quick."""
    piece = hashlib.shake_128(str(seed).encode()).digest(65536 - 8)
    whole = b"".join(number.to_bytes(8, "little") + piece for number in range(length // 65536 + 1))
    return whole[:length]
