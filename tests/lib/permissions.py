#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Three users on one mount with allow_other: the owner of a session, another user, and the mounter
(root) only to set things up. Every call is made in a process of that user; the table below says what
it must answer. What is allowed is tried on fresh copies, so that one call does not spoil the next.

usage: permissions.py MOUNT   (as root)
"""
import os
import sys

from call import call

OWNER, OTHER = 1001, 1002
bad = 0
checked = 0


def as_user(uid, work):
    """Runs work() as uid and returns its text."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.write(write_end, str(work()).encode())
        os._exit(0)
    os.close(write_end)
    answer = os.read(read_end, 4096).decode()
    os.close(read_end)
    os.waitpid(pid, 0)
    return answer


def expect(uid, wanted, name, *arguments):
    global bad, checked
    got = as_user(uid, lambda: call(name, [os.fsencode(str(a)) for a in arguments]))
    checked += 1
    if got not in wanted.split("|"):
        print("uid %d %s %s: expected %s, got %s" % (uid, name, " ".join(map(str, arguments)), wanted, got))
        bad += 1


def put(path, text, mode):
    def work():
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return "ok"

    answer = as_user(OWNER, work)
    assert answer == "ok", "%s: %s" % (path, answer)


def make(path, mode):
    assert as_user(OWNER, lambda: call("mkdir", [path.encode()])) == "ok", path
    assert as_user(OWNER, lambda: call("chmod", [path.encode(), oct(mode)[2:].encode()])) == "ok", path


def read_text(uid, path):
    def work():
        try:
            with open(path) as file:
                return file.read()
        except OSError as error:
            return type(error).__name__

    return as_user(uid, work)


def entry_calls(uid, entry, elsewhere, table):
    """table: what each call on an entry answers."""
    for name, wanted in table.items():
        arguments = {
            "truncate": (entry, 1),
            "chmod": (entry, "666"),
            "chown": (entry, uid, uid),
            "utime": (entry, 1),
            "getxattr": (entry, "user.kvbank.state"),
            "setxattr": (entry, "user.note", "x"),
            "removexattr": (entry, "user.mark"),
            "rename": (entry, elsewhere),
            "link": (entry, elsewhere),
        }.get(name, (entry,))
        expect(uid, wanted, name, *arguments)


def private_session(mount):
    """0700: another user sees that it is there and nothing more."""
    private = mount + "/private"
    make(private, 0o700)
    put(private + "/e", "secret", 0o666)
    denied = dict.fromkeys(
        "stat read write readwrite truncate chmod chown utime getxattr setxattr listxattr removexattr "
        "link rename unlink".split(), "EACCES")
    entry_calls(OTHER, private + "/e", mount + "/stolen", denied)
    for name in ("list", "create", "mkdir"):
        expect(OTHER, "EACCES", name, private if name == "list" else private + "/new")
    expect(OTHER, "EACCES", "stat", private + "/missing")
    expect(OTHER, "ok", "stat", private)
    expect(OTHER, "EPERM", "chmod", private, "777")
    expect(OTHER, "EPERM|EACCES", "rename", private, mount + "/taken")
    expect(OTHER, "EPERM|EACCES|ENOTEMPTY", "rmdir", private)
    expect(OTHER, "EACCES", "getxattr", private, "user.kvbank.entries")
    expect(OTHER, "EACCES", "setxattr", private, "user.kvbank.evict", "no")


def readable_session(mount):
    """0755 with entries of several modes: read what the mode says, change nothing."""
    shared = mount + "/shared"
    make(shared, 0o755)
    put(shared + "/r", "readable", 0o644)
    put(shared + "/p", "secret", 0o600)
    put(shared + "/w", "writable", 0o666)
    for entry in "rpw":
        as_user(OWNER, lambda: call("setxattr", [(shared + "/" + entry).encode(), b"user.mark", b"x"]))
    common = {"stat": "ok", "chmod": "EPERM", "chown": "EPERM", "unlink": "EACCES", "rename": "EACCES"}
    entry_calls(OTHER, shared + "/r", shared + "/new", dict(
        common, read="ok", write="EACCES", readwrite="EACCES", truncate="EACCES", utime="EPERM|EACCES", getxattr="ok",
        setxattr="EACCES", removexattr="EACCES", listxattr="ok", link="EACCES|EPERM"))
    entry_calls(OTHER, shared + "/p", shared + "/new", dict(
        common, read="EACCES", write="EACCES", readwrite="EACCES", truncate="EACCES", utime="EPERM|EACCES",
        getxattr="EACCES", setxattr="EACCES", removexattr="EACCES", link="EACCES|EPERM"))
    entry_calls(OTHER, shared + "/w", shared + "/new", dict(common, read="ok", getxattr="ok", setxattr="ok", removexattr="ok"))
    expect(OTHER, "EACCES", "setxattr", shared + "/r", "user.kvbank.pin", "forever")
    expect(OTHER, "ok", "list", shared)
    expect(OTHER, "EACCES", "create", shared + "/new")
    expect(OTHER, "EACCES", "mkdir", shared + "/new")
    expect(OTHER, "EACCES", "symlink", "x", shared + "/new")
    expect(OTHER, "ok", "statfs", shared)
    global bad
    if read_text(OTHER, shared + "/r") != "readable":
        print("the other user does not read what it may")
        bad += 1


def sticky_root(mount):
    """The root is 01777: everybody adds, everybody removes only what is theirs."""
    put(mount + "/owned", "text", 0o644)
    expect(OTHER, "EPERM|EACCES", "unlink", mount + "/owned")
    expect(OTHER, "EPERM|EACCES", "rename", mount + "/owned", mount + "/taken")
    expect(OTHER, "ok", "create", mount + "/mine")
    expect(OTHER, "EPERM|EACCES", "rename", mount + "/mine", mount + "/owned")
    expect(OTHER, "ok", "rename", mount + "/mine", mount + "/mine2")
    expect(OTHER, "ok", "unlink", mount + "/mine2")
    expect(OTHER, "ok", "mkdir", mount + "/mine")
    expect(OTHER, "ok", "rmdir", mount + "/mine")
    expect(OTHER, "EPERM|EACCES", "chmod", mount, "777")


def owner_may(mount):
    session = mount + "/owners"
    make(session, 0o700)
    put(session + "/e", "text", 0o600)
    entry_calls(OWNER, session + "/e", session + "/link", dict.fromkeys(
        "stat read write chmod utime setxattr listxattr getxattr link".split(), "ok"))
    expect(OWNER, "EPERM", "chown", session + "/e", OTHER, OTHER)
    for name in ("sha256", "state", "nbytes", "gdn_boundaries"):
        expect(OWNER, "EPERM", "setxattr", session + "/e", "user.kvbank." + name, "forged")
    expect(OWNER, "ok", "rename", session + "/e", session + "/f")
    expect(OWNER, "ok", "unlink", session + "/f")


def warm_caches(mount):
    """What was allowed a moment ago is refused at once after chmod, and the other way round."""
    global bad
    session = mount + "/warm"
    make(session, 0o755)
    put(session + "/e", "text", 0o644)
    for round_number in range(5):
        for mode, wanted in ((0o600, "PermissionError"), (0o644, "text")):
            as_user(OWNER, lambda: call("chmod", [(session + "/e").encode(), oct(mode)[2:].encode()]))
            if read_text(OTHER, session + "/e") != wanted:
                print("round %d: mode %o does not hold at once" % (round_number, mode))
                bad += 1
        for mode, wanted in ((0o700, "PermissionError"), (0o755, "text")):
            as_user(OWNER, lambda: call("chmod", [session.encode(), oct(mode)[2:].encode()]))
            if read_text(OTHER, session + "/e") != wanted:
                print("round %d: session mode %o does not hold at once" % (round_number, mode))
                bad += 1


def main():
    mount = sys.argv[1]
    private_session(mount)
    readable_session(mount)
    sticky_root(mount)
    owner_may(mount)
    warm_caches(mount)
    print("%d answers checked, %d wrong" % (checked, bad))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
