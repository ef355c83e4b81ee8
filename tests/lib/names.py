#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Random byte names made, listed, read, renamed, linked and removed.

usage: names.py MOUNT STORE SEED COUNT
"""
import os
import random
import sys

ALPHABET = [byte for byte in range(1, 256) if byte != ord("/")]
SPECIAL = [b".", b"-", b"\n", b"%", b"\xff", b"\xc3\xa9", b"e\xcc\x81", b"'", b'"', b"\\", b".tmp", b".tokens.x"]


def name_of(rng):
    length = rng.choice([1, 2, 3, 8, 64, 254, 255, 255])
    if rng.random() < 0.5:
        name = bytes(rng.choice(ALPHABET) for _ in range(length))
    else:
        name = (b"".join(rng.choice(SPECIAL) for _ in range(length)))[:length]
    return name if name not in (b".", b"..", b".kvbank") else b"x" + name


def put(path, content):
    with open(path, "wb") as file:
        file.write(content)


def get(path):
    with open(path, "rb") as file:
        return file.read()


def check_listing(directory, names):
    listed = os.listdir(directory)
    assert len(listed) == len(set(listed)), "a name twice"
    assert set(listed) == set(names), "listed is not what was made: %r" % sorted(set(listed) ^ set(names))[:3]


def main():
    mount, store = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
    rng = random.Random(int(sys.argv[3]))
    session = os.path.join(mount, b"names")
    os.mkdir(session)
    names = list({name_of(rng) for _ in range(int(sys.argv[4]))})
    for name in names:
        put(os.path.join(session, name), name)
    check_listing(session, names)
    for name in names:
        assert get(os.path.join(session, name)) == name, name

    other = os.path.join(mount, b"other")
    os.mkdir(other)
    for name in names[::3]:
        os.rename(os.path.join(session, name), os.path.join(other, name))
    for name in names[1::3]:
        os.link(os.path.join(session, name), os.path.join(other, name))
    check_listing(other, names[::3] + names[1::3])
    for name in names[::3] + names[1::3]:
        assert get(os.path.join(other, name)) == name, name
        os.unlink(os.path.join(other, name))
    check_listing(other, [])
    check_listing(session, names[1::3] + names[2::3])

    sessions = names[:200]
    for name in sessions:
        os.mkdir(os.path.join(other, name))
        put(os.path.join(other, name, name), name)
    check_listing(other, sessions)
    for name in sessions:
        check_listing(os.path.join(other, name), [name])
        assert get(os.path.join(other, name, name)) == name

    plain = {b"lock", b"tmp", b"packs", b"quarantine", b"manifest.sqlite"}
    for folder, folders, files in os.walk(store):
        strange = {name for name in folders + files if name in set(names) and len(name) > 3} - plain
        assert not strange, "names in the store: %r" % strange
    print("%d names" % len(names))


if __name__ == "__main__":
    main()
