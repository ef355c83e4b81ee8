# SPDX-License-Identifier: GPL-2.0-or-later
"""patterns.py - the call patterns of clients that are too large to run here, replayed.

LMCache (local disk and fs connector), vLLM's fs tier, SGLang's HiCache and ds4 need a GPU or weights;
what they ask of a file system is known and is replayed call by call, with files of their
kind of name and smaller sizes. mlx-lm's way to save and load, the real safetensors and numpy, and
Python's mmap follow. Files are made of bytes that tell which file they belong to, so that
a foreign, short or stale page is found wherever it is.

KV_SLOW=full makes LMCache's directory 100,000 files, KV_SLOW=short makes everything small.
"""

import concurrent.futures
import ctypes
import errno
import mmap
import os
import random
import shutil
import statistics
import threading
import time
import uuid

import checks

PAGE = 4096
MIB = 1 << 20
FALLOC_FL_KEEP_SIZE = 1
DT_REG = 8
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data")


def count(normal, short, full):
    if checks.is_full_run():
        return full
    return short if checks.is_short_run() else normal


def needs_bank(place):
    if checks.bank_of(place) is None:
        raise checks.Skip("not a kvbankfs mount")


def write_file(path, data, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    descriptor = os.open(path, flags, 0o666)
    try:
        checks.expect_equal(os.write(descriptor, data), len(data), "bytes taken by one write")
    finally:
        os.close(descriptor)


def read_file(path):
    with open(path, "rb", buffering=0) as stream:
        return stream.readall()


def expect_file(path, wanted):
    found = read_file(path)
    checks.expect(found == wanted, f"{os.path.basename(path)}: expected the {len(wanted)} bytes written, found "
                                   f"{len(found)} {'other ones' if len(found) == len(wanted) else 'bytes'}")


# ---- LMCache, local disk: one flat directory, written in place, a vanished file is fatal ----


def lmcache_name(number):
    return f"vllm@meta-llama-Llama-3.1-8B-Instruct@1@0@{number * 0x9E3779B97F4A7C15 % (1 << 64):016x}@bfloat16.pt"


def rate(names, action):
    started = time.monotonic()
    for name in names:
        action(name)
    return len(names) / (time.monotonic() - started)


def lmcache_disk(place):
    numbers = range(count(2000, 300, 100000))
    size = count(16384, 4096, PAGE)
    if checks.bank_of(place):
        os.setxattr(place, "user.kvbank.evict", b"no")
    checks.expect_equal(os.statvfs(place).f_bsize, 4096, "f_bsize of statvfs")

    def put(number):
        with open(os.path.join(place, lmcache_name(number)), "wb") as stream:
            stream.write(checks.pattern(number, size))

    hundredth = max(1, len(numbers) // 100)
    slices = [numbers[at:at + hundredth] for at in range(0, len(numbers), hundredth)]
    put_rates = [rate(part, put) for part in slices]
    listed = {entry.name for entry in os.scandir(place)}
    checks.expect_equal(len(listed), len(numbers), "names listed")
    checks.expect(listed == {lmcache_name(number) for number in numbers}, "names listed: expected those written")
    for number in random.Random(1).sample(numbers, min(len(numbers), 2000)):
        expect_file(os.path.join(place, lmcache_name(number)), checks.pattern(number, size))
    tenth = max(1, len(slices) // 10)
    return (f"{len(numbers)} files; puts a second, median of the first tenth "
            f"{statistics.median(put_rates[:tenth]):.0f}, of the last {statistics.median(put_rates[-tenth:]):.0f}")


def gone_soon(path):
    """Within a second: the kernel tells of the last close a moment after close(2) has returned."""
    end = time.monotonic() + 1
    while os.path.exists(path):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def lmcache_refuses(place):
    """evict=no: a full session answers an error, at write or at close, and loses nothing."""
    needs_bank(place)
    os.setxattr(place, "user.kvbank.evict", b"no")
    os.setxattr(place, "user.kvbank.ram_max", str(8 * MIB).encode())
    kept, refused = [], None
    for number in range(20):
        try:
            write_file(os.path.join(place, lmcache_name(number)), checks.pattern(number, MIB))
            kept.append(number)
        except OSError as error:
            refused = refused or error.errno
            checks.expect(gone_soon(os.path.join(place, lmcache_name(number))),
                          "a refused file: expected no name to be left")
    checks.expect(refused in (errno.ENOSPC, errno.EDQUOT),
                  f"20 MiB into a session of 8: expected ENOSPC or EDQUOT, found {errno.errorcode.get(refused, refused)}")
    checks.expect(6 <= len(kept) <= 8, f"20 MiB into a session of 8: expected 6 to 8 files kept, found {len(kept)}")
    for number in kept:
        expect_file(os.path.join(place, lmcache_name(number)), checks.pattern(number, MIB))
    os.unlink(os.path.join(place, lmcache_name(kept[0])))
    write_file(os.path.join(place, lmcache_name(99)), checks.pattern(99, MIB))
    return f"{len(kept)} of 20 kept, then {errno.errorcode[refused]}"


# ---- LMCache, fs connector: .tmp and rename, several writers of one name ----


def lmcache_fs_writer(place, writer, rounds, size):
    """Runs in a process of its own. Returns what went wrong, other than losing a race."""
    for number in range(rounds):
        name = os.path.join(place, f"chunk{number % 4}.data")
        body = writer.to_bytes(4, "little") * 7 + writer.to_bytes(4, "little") * (size // 4)
        try:
            with open(name + ".tmp", "wb") as stream:
                stream.write(body[:28])
                stream.write(body[28:])
            os.rename(name + ".tmp", name)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EEXIST, errno.EBUSY):
                return f"writer {writer}, round {number}: {error.strerror}"
    return None


def lmcache_fs_reader(place, stop, size):
    """Returns what was wrong, and how many files were read."""
    reads = 0
    while not stop.is_set():
        try:
            data = read_file(os.path.join(place, f"chunk{reads % 4}.data"))
        except FileNotFoundError:
            time.sleep(0.001)
            continue
        reads += 1
        if len(data) != size + 28 or data != data[:4] * (len(data) // 4):
            return f"chunk{(reads - 1) % 4}.data: {len(data)} bytes, not those of one writer", reads
    return None, reads


def lmcache_fs(place):
    needs_bank(place)
    size, rounds = 256 * 1024, count(60, 15, 500)
    stop = threading.Event()
    with concurrent.futures.ProcessPoolExecutor(4) as writers, concurrent.futures.ThreadPoolExecutor(1) as readers:
        jobs = [writers.submit(lmcache_fs_writer, place, writer, rounds, size) for writer in range(1, 5)]
        reader = readers.submit(lmcache_fs_reader, place, stop, size)
        problems = [job.result() for job in jobs]
        stop.set()
        problem, reads = reader.result()
    for found in [*problems, problem]:
        checks.expect(found is None, f"expected each name to hold one writer's whole bytes: {found}")
    lmcache_fs_writer(place, 9, 4, size)
    listed = sorted(name for name in os.listdir(place) if not name.endswith(".tmp"))
    checks.expect_equal(listed, [f"chunk{number}.data" for number in range(4)], "names listed")
    for name in listed:
        expect_file(os.path.join(place, name), (9).to_bytes(4, "little") * (7 + size // 4))
    return f"4 writers, {4 * rounds} rounds, {reads} reads"


# ---- any client: a name that is replaced again and again can be opened at every moment ----


def replace_for(place, writer, by_rename, seconds):
    """Runs in a process of its own."""
    final = os.path.join(place, "busy.kv")
    name = f"{final}.{writer}.tmp" if by_rename else final
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        write_file(name, bytes([writer]) * 65536)
        if by_rename:
            os.rename(name, final)


def read_for(place, seconds):
    """Runs in a process of its own. Returns how many reads worked, and {what went wrong: how often}."""
    good, wrong = 0, {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            data = read_file(os.path.join(place, "busy.kv"))
            problem = None if data == data[:1] * 65536 else f"{len(data)} bytes, not those of one writer"
        except OSError as error:
            problem = error.strerror
        if problem:
            wrong[problem] = wrong.get(problem, 0) + 1
        good += not problem
    return good, wrong


def replaced_while_opened(place, by_rename):
    needs_bank(place)
    seconds = count(2, 1, 10)
    write_file(os.path.join(place, "busy.kv"), bytes(65536))
    with concurrent.futures.ProcessPoolExecutor(8) as processes:
        writers = [processes.submit(replace_for, place, writer, by_rename, seconds) for writer in range(1, 4)]
        readers = [processes.submit(read_for, place, seconds) for _ in range(5)]
        for writer in writers:
            writer.result()
        results = [reader.result() for reader in readers]
    good, wrong = sum(result[0] for result in results), [result[1] for result in results if result[1]]
    checks.expect(not wrong, f"5 readers of a name that 3 writers replace: expected no error, found {wrong} "
                             f"beside {good} good reads")
    return f"{good} reads"


# ---- vLLM's fs tier: O_EXCL, O_DIRECT, one write, one readv, nothing ever short ----


def aligned(data):
    """A page-aligned buffer with these bytes, as O_DIRECT wants it."""
    buffer = mmap.mmap(-1, len(data))
    buffer[:] = data
    return buffer


def vllm_path(place, number):
    key = f"{number * 0x9E3779B97F4A7C15 % (1 << 64):016x}"
    return os.path.join(place, "Llama-3.1-8B_0123456789ab_r0", key[:3], f"{key[3:5]}_g0", key + ".bin")


def vllm_store(place, number, size):
    path = vllm_path(place, number)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}_{uuid.uuid4().hex[:8]}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    write_file(temporary, aligned(checks.pattern(number, size)), flags | os.O_DIRECT)
    os.rename(temporary, path)


def vllm_load(place, number, size):
    descriptor = os.open(vllm_path(place, number), os.O_RDONLY | os.O_DIRECT)
    pieces = [mmap.mmap(-1, size // 2), mmap.mmap(-1, size - size // 2)]
    checks.expect_equal(os.readv(descriptor, pieces), size, "bytes of one readv")
    os.close(descriptor)
    checks.expect(pieces[0][:] + pieces[1][:] == checks.pattern(number, size),
                  f"file {number}: expected the bytes written")


def vllm(place):
    sizes = [512 * 1024, 1 * MIB, 5 * MIB // 2]
    numbers = range(count(120, 12, 200))
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for step in (vllm_store, vllm_load):
            for job in [threads.submit(step, place, number, sizes[number % 3]) for number in numbers]:
                job.result()
    vllm_store(place, 0, sizes[0])  # a second one of the same block
    vllm_load(place, 0, sizes[0])
    return vllm_misses(place)


def vllm_misses(place):
    """A miss must be quick: it comes before every block that has to be computed."""
    os.makedirs(os.path.dirname(vllm_path(place, 10**6)), exist_ok=True)
    took = []
    for number in range(10**6, 10**6 + 500):
        started = time.perf_counter()
        try:
            os.close(os.open(vllm_path(place, number), os.O_RDONLY))
            raise checks.Failure("opening a missing block: expected ENOENT, found a file")
        except FileNotFoundError:
            took.append(time.perf_counter() - started)
    median = statistics.median(took) * 1e6
    checks.expect(median < 2000, f"a missing block: expected ENOENT within 2 ms, took {median:.0f} us")
    return f"ENOENT in {median:.0f} us"


def vllm_exclusive(place):
    path = os.path.join(place, "block.bin_1.tmp")
    first = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    os.write(first, b"x" * PAGE)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        raise checks.Failure("O_EXCL on a name that is being written: expected EEXIST, found success")
    except FileExistsError:
        pass
    os.close(first)
    expect_file(path, b"x" * PAGE)


# ---- SGLang HiCache: fallocate, rename, utime on hits, the whole directory scanned ----


class Dirent(ctypes.Structure):
    """struct dirent of 64-bit Linux."""

    _fields_ = [("inode", ctypes.c_uint64), ("offset", ctypes.c_int64), ("length", ctypes.c_uint16),
                ("type", ctypes.c_uint8), ("name", ctypes.c_char * 256)]


libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = ctypes.c_void_p
libc.readdir.argtypes = [ctypes.c_void_p]
libc.readdir.restype = ctypes.POINTER(Dirent)
libc.closedir.argtypes = [ctypes.c_void_p]
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def keep_size(descriptor, length):
    if libc.fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, length):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def directory_types(path):
    """{name: d_type} as readdir gives them, without asking for a single inode."""
    stream = libc.opendir(os.fsencode(path))
    checks.expect(stream, "opendir: expected success")
    found = {}
    while entry := libc.readdir(stream):
        found[os.fsdecode(entry.contents.name)] = entry.contents.type
    libc.closedir(stream)
    del found["."], found[".."]
    return found


def hicache_name(number, size):
    return f"{number * 0x9E3779B97F4A7C15 % (1 << 64):016x}_Qwen3-8B_1_{size}.bin"


def hicache_store(place, number, size):
    path = os.path.join(place, hicache_name(number, size))
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}.{uuid.uuid4().hex}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    keep_size(descriptor, size)
    checks.expect_equal(os.fstat(descriptor).st_size, 0, "st_size after fallocate with KEEP_SIZE")
    checks.expect_equal(os.write(descriptor, checks.pattern(number, size)), size, "bytes taken by one write")
    os.close(descriptor)
    os.rename(temporary, path)


def hicache_hit(place, number, size):
    path = os.path.join(place, hicache_name(number, size))
    before = os.stat(path)
    os.utime(path, (1700000000 + number, 1700000000 + number))
    after = os.stat(path)
    checks.expect_equal((after.st_ino, after.st_size), (before.st_ino, size), "inode and size after utime")
    checks.expect_equal((after.st_atime, after.st_mtime), (1700000000 + number,) * 2, "times after utime")
    expect_file(path, checks.pattern(number, size))


def hicache(place):
    numbers, size = range(count(1000, 100, 10000)), 16384
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for step in (hicache_store, hicache_hit):
            for job in [threads.submit(step, place, number, size) for number in numbers]:
                job.result()
    types = directory_types(place)
    checks.expect_equal(len(types), len(numbers), "names listed")
    checks.expect(set(types.values()) == {DT_REG}, f"d_type: expected {DT_REG} throughout, found {set(types.values())}")
    hicache_store(place, 10**6, 9 * MIB)
    hicache_hit(place, 10**6, 9 * MIB)
    return f"{len(numbers)} pages of {size} bytes and one of 9 MiB"


# ---- ds4: 48 bytes of a large file rewritten at every hit ----


def ds4_hit(path, hits):
    descriptor = os.open(path, os.O_RDWR)
    found = os.pread(descriptor, 48, 0)
    checks.expect_equal(len(found), 48, "bytes of the header")
    checks.expect_equal(os.pwrite(descriptor, hits.to_bytes(48, "little"), 0), 48, "bytes of the header written")
    os.close(descriptor)
    return found


def ds4(place):
    size, hits = 76 * MIB, 20
    path = os.path.join(place, "prompt.kv")
    body = bytearray(checks.pattern("ds4", size))
    write_in_pieces(path, body, MIB)
    held = checks.bank_stat(place, "ram_bytes") if checks.bank_of(place) else 0
    took = []
    for number in range(hits):
        started = time.perf_counter()
        checks.expect(ds4_hit(path, number) == body[:48], f"hit {number}: expected the header of the hit before")
        took.append(time.perf_counter() - started)
        body[:48] = number.to_bytes(48, "little")
    expect_file(path, bytes(body))
    note = f"{statistics.median(took) * 1000:.2f} ms a hit on 76 MiB"
    if checks.bank_of(place):
        grown = checks.bank_stat(place, "ram_bytes") - held
        checks.expect(grown <= MIB, f"RAM held after {hits} headers of 48 bytes: expected to grow by less than 1 MiB, "
                                    f"grew by {grown}")
        note += f", RAM held grew by {grown}"
    return note


def ds4_with_reader(place):
    """Somebody reads the old version meanwhile: its bytes stay what they were."""
    needs_bank(place)
    size = 8 * MIB
    path = os.path.join(place, "prompt.kv")
    old = checks.pattern("ds4 held", size)
    write_in_pieces(path, old, MIB)
    with open(path, "rb", buffering=0) as reader:
        view = mmap.mmap(reader.fileno(), 0, access=mmap.ACCESS_READ)
        checks.expect(view[:PAGE] == old[:PAGE], "mapping before the hit: expected the bytes written")
        for number in range(3):
            ds4_hit(path, number)
        expect_file(path, (2).to_bytes(48, "little") + old[48:])
        checks.expect(reader.readall() == old, "a reader of the old version: expected the old bytes")
        checks.expect(view[:] == old, "a mapping of the old version: expected the old bytes")
        view.close()


# ---- mlx-lm: the final name truncated, one write for each tensor, parallel preads ----


def write_in_pieces(path, data, size):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    view = memoryview(data)
    for at in range(0, len(data), size):
        piece = view[at:at + size]
        checks.expect_equal(os.write(descriptor, piece), len(piece), "bytes taken by one write")
    os.close(descriptor)


def mlx_load(descriptor, data):
    """32 MiB preads in no order, from four threads, on one descriptor."""
    step = 32 * MIB
    offsets = list(range(0, len(data), step))
    random.Random(2).shuffle(offsets)

    def load(offset):
        wanted = data[offset:offset + step]
        found = os.pread(descriptor, step, offset)
        checks.expect(found == wanted, f"a pread of 32 MiB at {offset}: expected {len(wanted)} bytes as written, "
                                       f"found {len(found)}")

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for job in [threads.submit(load, offset) for offset in offsets]:
            job.result()


def mlx(place):
    size = count(100, 8, 200) * MIB + 12345
    path = os.path.join(place, "prompt_cache.safetensors")
    turns = [checks.pattern(f"mlx turn {turn}", size) for turn in range(3)]
    held_by = None
    for turn, data in enumerate(turns):
        write_in_pieces(path, data, 3 * MIB + 512)
        if held_by is not None and checks.bank_of(place):
            mlx_load(held_by, turns[turn - 1])  # the turn before, still open, is what it was
        if held_by is not None:
            os.close(held_by)
        held_by = os.open(path, os.O_RDONLY)
        mlx_load(held_by, data)
    os.close(held_by)


# ---- the real libraries ----


def safetensors_real(place):
    try:
        import numpy
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise checks.Skip(f"{error} (make clients)") from None
    source = numpy.random.default_rng(3)
    tensors = {f"{layer}.{part}": source.random((1, 3, 512, 64), dtype=numpy.float32)
               for layer in range(8) for part in range(2)}
    path = os.path.join(place, "cache.safetensors")
    for _ in range(2):  # a new name, then over it
        safetensors.numpy.save_file(tensors, path, metadata={"tokens": "1 2 3"})
        loaded = safetensors.numpy.load_file(path)
        checks.expect_equal(sorted(loaded), sorted(tensors), "tensors loaded")
        for name, tensor in tensors.items():
            checks.expect(numpy.array_equal(loaded[name], tensor), f"tensor {name}: expected the numbers saved")
    with safetensors.safe_open(path, framework="numpy") as opened:
        checks.expect_equal(opened.metadata(), {"tokens": "1 2 3"}, "metadata")
        checks.expect(numpy.array_equal(opened.get_slice("3.1")[:, :, 100:200], tensors["3.1"][:, :, 100:200]),
                      "a slice of tensor 3.1: expected the numbers saved")
    sample = os.path.join(place, "sample.safetensors")
    write_file(sample, read_file(os.path.join(DATA, "chat.safetensors")))
    checks.expect(len(safetensors.numpy.load_file(sample)) == 36, "a real prompt cache: expected 36 tensors")


def numpy_memmap(place):
    try:
        import numpy
    except ImportError as error:
        raise checks.Skip(f"{error} (make clients)") from None
    array = numpy.random.default_rng(4).integers(0, 2**31, (64, 65536), dtype=numpy.int32)
    raw, saved = os.path.join(place, "array.raw"), os.path.join(place, "array.npy")
    array.tofile(raw)
    numpy.save(saved, array)
    mapped = numpy.memmap(raw, dtype=numpy.int32, mode="r", shape=array.shape)
    checks.expect(numpy.array_equal(mapped, array), "numpy.memmap: expected the numbers written")
    private = numpy.memmap(raw, dtype=numpy.int32, mode="c", shape=array.shape)
    private[:] = 7
    checks.expect(numpy.array_equal(mapped, array), "numpy.memmap while a private one is written: expected no change")
    checks.expect(numpy.array_equal(numpy.load(saved, mmap_mode="r"), array), "numpy.load with mmap_mode: expected the "
                                                                            "numbers saved")


def mapped_equal(path, wanted):
    """Runs in processes of its own: shared and private, whole and a part."""
    with open(path, "rb") as stream:
        whole = mmap.mmap(stream.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        part = mmap.mmap(stream.fileno(), 3 * PAGE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE,
                         offset=16 * PAGE)
    good = whole[:] == wanted and part[:] == wanted[16 * PAGE:19 * PAGE]
    part[:5] = b"other"
    return good and whole[:] == wanted


def python_mmap(place):
    path, data = os.path.join(place, "mapped.kv"), checks.pattern("mapped", 8 * MIB + 99)
    write_file(path, data)
    with concurrent.futures.ProcessPoolExecutor(4) as processes:
        for job in [processes.submit(mapped_equal, path, data) for _ in range(8)]:
            checks.expect(job.result(), "a mapping: expected the bytes written")
    expect_file(path, data)


def other_reads(place):
    """sendfile, copy_file_range, readv, backward preads, SEEK_DATA: all give the bytes written."""
    path, data = os.path.join(place, "read.kv"), checks.pattern("read", 4 * MIB + 321)
    write_file(path, data)
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
    for offset in range(len(data) - 1000, 0, -100003):
        checks.expect(os.pread(descriptor, 1000, offset) == data[offset:offset + 1000], f"pread at {offset}")
    pieces = [bytearray(1000), bytearray(len(data))]
    checks.expect_equal(os.readv(descriptor, pieces), len(data), "bytes of one readv")
    checks.expect(bytes(pieces[0]) + bytes(pieces[1][:len(data) - 1000]) == data, "readv: expected the bytes written")
    checks.expect_equal(os.lseek(descriptor, 0, os.SEEK_DATA), 0, "SEEK_DATA from 0")
    checks.expect_equal(os.lseek(descriptor, 0, os.SEEK_HOLE), len(data), "SEEK_HOLE from 0")
    for name, send in (("sendfile", lambda out, at: os.sendfile(out, descriptor, at, MIB)),
                       ("copy_file_range", lambda out, at: os.copy_file_range(descriptor, out, MIB, at))):
        copied(os.path.join(place, name), send, data)
    os.close(descriptor)


def copied(path, send, data):
    out = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    at = 0
    while sent := send(out, at):
        at += sent
    os.close(out)
    expect_file(path, data)


PATTERNS = [
    ("LMCache local disk: a flat directory, written in place", lmcache_disk),
    ("LMCache local disk: evict=no refuses and loses nothing", lmcache_refuses),
    ("LMCache fs: several writers of one temporary name", lmcache_fs),
    ("a name replaced by rename can be opened throughout", lambda place: replaced_while_opened(place, True)),
    ("a name rewritten in place can be opened throughout", lambda place: replaced_while_opened(place, False)),
    ("vLLM fs tier: O_EXCL, O_DIRECT, one write, one readv", vllm),
    ("vLLM fs tier: O_EXCL on a name being written", vllm_exclusive),
    ("SGLang HiCache: fallocate, rename, utime, d_type", hicache),
    ("ds4: a header of 48 bytes rewritten at every hit", ds4),
    ("ds4: a header rewritten while the old version is read", ds4_with_reader),
    ("mlx-lm: a write for each tensor, parallel preads", mlx),
    ("safetensors: save_file, load_file, safe_open", safetensors_real),
    ("numpy: memmap, load with mmap_mode", numpy_memmap),
    ("Python mmap: shared, private, from four processes", python_mmap),
    ("reads: sendfile, copy_file_range, readv, backward pread", other_reads),
]


def in_its_own_folder(place, pattern):
    """Also a check that everything can be removed again."""
    os.mkdir(place)
    try:
        note = pattern(place)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    shutil.rmtree(place)
    return note


def main():
    parser = checks.arguments("replays the call patterns of several clients")
    parser.add_argument("--only", default="", help="run those whose name holds this")
    options = parser.parse_args()
    report = checks.Checks(options.label)
    for number, (name, pattern) in enumerate(PATTERNS):
        if options.only not in name:
            continue
        report.run(name, in_its_own_folder, os.path.join(options.directory, f"pattern-{number}"), pattern)
    report.finish()


if __name__ == "__main__":
    main()
