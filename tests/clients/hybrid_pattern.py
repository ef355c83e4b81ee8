# SPDX-License-Identifier: GPL-2.0-or-later
"""hybrid_pattern.py - how llama-server saves and restores a hybrid model, replayed call by call.

No small hybrid model can be had as a package, but states of one are in tests/data: the same chat
after one and after two turns. llama-server writes such a state with two opens of one name: O_TRUNC,
everything up to the checkpoints, close; then O_APPEND, one writev for each checkpoint, close. So
after the first close the file is whole but not final. It reads with three opens, each in
its own order. With KV_CORPUS=FOLDER, which holds `ggsq/INDEX.tsv`, the states of
the server named there are replayed as well.

Easy to forget: the second open must find what the first one wrote without another copy of it, and a
writer that dies during the second must leave the first behind, whole.
"""

import os
import random
import signal
import struct
import time

import checks

STDIO_BYTES = 4096
STREAM_BYTES = 8191  # the buffer of a C++ stream that reads
TENSOR_BYTES = 5 * 4096
BIG_HEAD_BYTES = 64 << 20
BIG_TRAILER_BYTES = 1 << 20
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data")


class State:
    """A saved state, cut where llama-server cuts it: `head`, then the checkpoints."""

    def __init__(self, path):
        with open(path, "rb") as stream:
            self.bytes = stream.read()
        self.name = os.path.basename(path)
        self.trailer_at, self.checkpoints = find_trailer(self.bytes)

    @property
    def head(self):
        return self.bytes[:self.trailer_at]

    @property
    def trailer_writes(self):
        """What the writev calls of the second open carry, as lists of buffers: a stream's small
        values wait in its buffer until a blob goes out with them; the rest goes out at close."""
        pending_from = self.trailer_at
        for blob_from, blob_to in self.checkpoints:
            yield [self.bytes[pending_from:blob_from], self.bytes[blob_from:blob_to]]
            pending_from = blob_to
        if pending_from < len(self.bytes):
            yield [self.bytes[pending_from:]]


def parse_trailer(data, at):
    """The ranges of all blobs of the `SCKP` at `at`, or None when it does not end with the file."""
    if len(data) - at < 12:
        return None
    version, count = struct.unpack_from("<II", data, at + 4)
    if version != 1 or count > 1000:
        return None
    at += 12
    blobs = []
    for _ in range(count):
        at += 16
        for _ in range(3):
            if len(data) - at < 8:
                return None
            (length,) = struct.unpack_from("<Q", data, at)
            at += 8
            if length > len(data) - at:
                return None
            if length:
                blobs.append((at, at + length))
            at += length
    return blobs if at == len(data) else None


def find_trailer(data):
    at = data.find(b"SCKP")
    while at >= 0:
        blobs = parse_trailer(data, at)
        if blobs is not None:
            return at, blobs
        at = data.find(b"SCKP", at + 1)
    return len(data), []


# ---- writing ----


def open_truncated(path):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.fstat(descriptor)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def write_all(descriptor, buffers):
    wanted = sum(len(buffer) for buffer in buffers)
    written = os.writev(descriptor, buffers)
    checks.expect_equal(written, wanted, "bytes taken by one write")


def tensor_sizes():
    """With flash attention: a tensor, rounded down to 4 KiB, and 4 KiB between two."""
    while True:
        yield STDIO_BYTES
        yield TENSOR_BYTES


def small_sizes(seed):
    """Without: an element row at a time, 4 to 8 KiB."""
    source = random.Random(seed)
    while True:
        yield source.randrange(4096, 8193)


def write_head(path, head, sizes):
    descriptor = open_truncated(path)
    at = 0
    while at < len(head):
        size = next(sizes)
        write_all(descriptor, [head[at:at + size]])
        at += size
    os.close(descriptor)


def append(path, writes):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for buffers in writes:
        write_all(descriptor, buffers)
    os.close(descriptor)


# ---- reading ----


def read_exactly(descriptor, size, wanted, where):
    """One read call; short only at the end of the file, and equal to what was saved."""
    found = os.read(descriptor, size)
    checks.expect(found == wanted, f"a read of {size} bytes {where}: expected the {len(wanted)} bytes saved, "
                                   f"found {len(found)} bytes, {'other' if len(found) == len(wanted) else 'cut'}")


def read_last_block(descriptor, data):
    checks.expect_equal(os.fstat(descriptor).st_size, len(data), "st_size after open")
    last = len(data) // STDIO_BYTES * STDIO_BYTES
    os.lseek(descriptor, last, os.SEEK_SET)
    read_exactly(descriptor, STDIO_BYTES, data[last:], "of the last block")
    os.lseek(descriptor, 0, os.SEEK_SET)


def restore_size(path, data):
    descriptor = os.open(path, os.O_RDONLY)
    read_last_block(descriptor, data)
    read_exactly(descriptor, STDIO_BYTES, data[:STDIO_BYTES], "at 0")
    os.close(descriptor)


def restore_cells(path, data, end):
    descriptor = os.open(path, os.O_RDONLY)
    read_last_block(descriptor, data)
    at, sizes = 0, tensor_sizes()
    while at < end:
        size = next(sizes)
        read_exactly(descriptor, size, data[at:at + size], f"at {at}")
        at += size
    os.close(descriptor)


def restore_checkpoints(path, state):
    descriptor = os.open(path, os.O_RDONLY)
    data, at = state.bytes, state.trailer_at
    checks.expect_equal(os.lseek(descriptor, 0, os.SEEK_END), len(data), "seek to the end")
    os.lseek(descriptor, at, os.SEEK_SET)
    for _, blob_to in state.checkpoints:
        for size in (STREAM_BYTES, max(0, blob_to - at - STREAM_BYTES)):
            read_exactly(descriptor, size, data[at:at + size], f"of a checkpoint at {at}")
            at += len(data[at:at + size])
    read_exactly(descriptor, STREAM_BYTES, data[at:at + STREAM_BYTES], "behind the last checkpoint")
    os.close(descriptor)


def restore(path, state):
    restore_size(path, state.bytes)
    restore_cells(path, state.bytes, len(state.head))
    restore_checkpoints(path, state)


def read_whole(path):
    with open(path, "rb") as stream:
        return stream.read()


# ---- the checks ----


def save_and_restore(folder, states, make_sizes):
    """A chat: each turn saved over the one before it. Whole after the first close, final after the second."""
    path = os.path.join(folder, "slot0.bin")
    for turn, state in enumerate(states):
        write_head(path, state.head, make_sizes(turn))
        checks.expect(read_whole(path) == state.head, f"{state.name} after the first close: expected the "
                                                      f"{len(state.head)} bytes before the checkpoints")
        append(path, state.trailer_writes)
        checks.expect_equal(os.stat(path).st_size, len(state.bytes), f"st_size of {state.name} after the second close")
        restore(path, state)
        checks.expect(read_whole(path) == state.bytes, f"{state.name}: expected the bytes saved")
    attribute = checks.settled_sha256(path)
    if attribute is not None:
        checks.expect_equal(attribute, checks.sha256_of(path), "user.kvbank.sha256")
    return f"{len(states)} states, {sum(len(state.checkpoints) for state in states)} checkpoints"


def killed_in_the_second_open(folder, state):
    """The writer is killed with half of the first checkpoint written."""
    if checks.bank_of(folder) is None:
        raise checks.Skip("not a kvbankfs mount")
    path = os.path.join(folder, "killed.bin")
    write_head(path, state.head, tensor_sizes())
    ready_read, ready_write = os.pipe()
    child = os.fork()
    if child == 0:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.write(descriptor, state.bytes[len(state.head):len(state.head) + 1000])
        os.write(ready_write, b"x")
        time.sleep(60)
        os._exit(1)
    os.read(ready_read, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready_read)
    os.close(ready_write)
    end = time.monotonic() + 1
    while read_whole(path) != state.head:
        checks.expect(time.monotonic() < end, f"a second after the kill: expected the {len(state.head)} bytes of the "
                                              f"first open, found {os.stat(path).st_size}")
        time.sleep(0.02)
    append(path, state.trailer_writes)
    checks.expect(read_whole(path) == state.bytes, "appending again after the kill: expected the whole state")


def append_is_cheap(folder):
    """Appending must not hold, nor take the time of, a second copy of what is there."""
    path = os.path.join(folder, "big.bin")
    head, trailer = checks.pattern("big head", BIG_HEAD_BYTES), checks.pattern("big trailer", BIG_TRAILER_BYTES)
    descriptor = open_truncated(path)
    for at in range(0, len(head), 1 << 20):
        write_all(descriptor, [head[at:at + (1 << 20)]])
    os.close(descriptor)
    held = checks.bank_stat(folder, "ram_bytes")
    started = time.monotonic()
    append(path, [[trailer]])
    seconds = time.monotonic() - started
    grown = checks.bank_stat(folder, "ram_bytes") - held
    checks.expect(read_whole(path) == head + trailer, "after the append: expected head and trailer")
    os.unlink(path)
    checks.expect(BIG_TRAILER_BYTES <= grown <= 2 * BIG_TRAILER_BYTES,
                  f"RAM held after appending {BIG_TRAILER_BYTES} bytes to {BIG_HEAD_BYTES}: expected to grow by about "
                  f"as much, grew by {grown}")
    return f"appending 1 MiB to 64 MiB: {seconds * 1000:.1f} ms, RAM held grew by {grown}"


def own_states():
    return [State(os.path.join(DATA, name)) for name in ("chat-turn1.bin", "chat-turn2.bin")]


def corpus_chats(folder):
    """The server's chats in a corpus folder: {name without turn: [states]}, with trailers where the index has them."""
    chats = {}
    with open(os.path.join(folder, "INDEX.tsv"), encoding="utf-8") as index:
        rows = [line.rstrip("\n").split("\t") for line in index]
    for row in sorted(rows, key=lambda row: row[0]):
        if not row[0].startswith("v4-srv-") or not row[0][:-5].endswith("-t"):
            continue
        state = State(os.path.join(folder, row[0]))
        checks.expect_equal(str(state.trailer_at), row[18].replace("-", str(len(state.bytes))),
                            f"offset of the trailer in {row[0]}, against the index")
        chats.setdefault(row[0][:-len("-t0.bin")], []).append(state)
    return chats


def corpus(directory):
    chats = corpus_chats(os.path.join(os.environ["KV_CORPUS"], "ggsq"))
    checks.expect("v4-srv-qwen3next" in chats, "expected v4-srv-qwen3next-t*.bin in the corpus")
    for name, states in chats.items():
        os.mkdir(os.path.join(directory, name))
        save_and_restore(os.path.join(directory, name), states, lambda _: tensor_sizes())
    return f"{len(chats)} chats, {sum(len(states) for states in chats.values())} states"


def in_folder(directory, name):
    folder = os.path.join(directory, name)
    os.mkdir(folder)
    return folder


def main():
    options = checks.arguments("replays how llama-server saves and restores a hybrid model").parse_args()
    report = checks.Checks(options.label)
    place = options.directory
    report.run("hybrid: two opens, tensors and 4 KiB between, restored by three opens",
               lambda: save_and_restore(in_folder(place, "tensors"), own_states(), lambda _: tensor_sizes()))
    report.run("hybrid: two opens, 4 to 8 KiB pieces",
               lambda: save_and_restore(in_folder(place, "pieces"), own_states(), small_sizes))
    report.run("hybrid: killed in the second open leaves the first whole",
               lambda: killed_in_the_second_open(in_folder(place, "killed"), own_states()[0]))
    report.run("hybrid: the second open copies nothing", lambda: append_is_cheap(in_folder(place, "cheap")))
    if os.environ.get("KV_CORPUS"):
        report.run("hybrid: the server's states of a corpus", lambda: corpus(in_folder(place, "corpus")))
    report.finish()


if __name__ == "__main__":
    main()
