"""Lanes: the records of a process's threads in shared memory, for `leat profile` to read. docs/profile.md has the layout,
src/profile/lane.h reads it."""

import contextlib
import errno
import mmap
import os
import struct
import threading
import time

WAIT, COPY, BACKWARD, COMM, OPTIM, FETCH, READ, SAVE, LOAD, BUCKET, FLOPS, LINK, SOURCE, LOOK = range(1, 15)
EXHAUSTED, DEVICE, ACCOUNTED, OPENING, EMPTY, NO_GRAD = 1, 2, 4, 8, 16, 32  # flags of a record
OBSERVED = 0  # modes of a step; others are given by replay.py
WARMUP = 0x80  # in a mode: not to be counted
MAGIC = int.from_bytes(b"LEATLANE", "little")
VERSION = 1
CAPACITY = 8192  # records that the reader may be behind, of a process's first thread: it trains
FEW = 1024  # … of its other threads and of workers: a loader starts new ones for every epoch
HEADER_WORDS, RECORD_WORDS = 64, 5
(
    W_MAGIC,
    W_VERSION,
    W_CAPACITY,
    W_PID,
    W_TID,
    W_RANK,
    W_WORLD,
    W_LOCAL,
    W_LOCAL_WORLD,
    W_ROLE,
    W_PARENT,
    W_LOADER,
    W_HEAD,
    W_TAIL,
    W_DROPPED,
    W_STATE,
    W_BORN,
    W_GRADIENT_BYTES,
    W_BUCKETS,
    W_WORKERS,
    W_SAMPLES,
    W_PEAK,
    W_NODE,
    W_EXPECT,
    W_EPOCH,
) = range(25)
W_NAME = 32  # 128 bytes: the accelerator
RUNNING, ENDED, RAISED = range(3)

now = time.perf_counter_ns  # CLOCK_MONOTONIC, which leat_now_ns() reads too


SPARE = 32 << 20  # bytes of shared memory that are left to the script, which would die without
PLACE = "/dev/shm"


def has_room(folder, size):
    """Whether this much more may be taken. A folder on a disk is full when it is full."""
    if os.path.dirname(folder) != PLACE:
        return True
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize >= size + SPARE


class Lane:
    """The records of one thread. Only that thread writes; a reader in another process takes them out."""

    def __init__(self, folder, name=None, capacity=None):
        worker = os.environ.get("LEAT_PROFILE_LOADER")
        first = not worker and threading.get_native_id() == os.getpid()
        self.capacity = capacity or (CAPACITY if first else FEW)
        size = 8 * (HEADER_WORDS + RECORD_WORDS * self.capacity)
        if not has_room(folder, size):
            raise OSError(errno.ENOSPC, "too little room for a lane")
        name = name or f"{os.getpid()}-{threading.get_native_id()}"
        path = os.path.join(folder, f".{name}.new")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)  # a full /dev/shm must be an error here, and not a signal later
            self.map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self.words = memoryview(self.map).cast("Q")
        self.head = 0
        self.pack = struct.Struct("=5Q").pack_into
        words = self.words
        words[W_MAGIC], words[W_VERSION], words[W_CAPACITY] = MAGIC, VERSION, self.capacity
        words[W_PID], words[W_TID], words[W_PARENT] = os.getpid(), threading.get_native_id(), os.getppid()
        words[W_BORN] = now()
        words[W_ROLE] = 2 if worker else 1
        words[W_LOADER] = int((worker or "0").partition(":")[0])
        if worker and worker.count(":") == 2:
            words[W_PARENT] = int(worker.split(":")[2])  # the rank, also where a server has forked the worker
        for word, value in place.items():
            words[word] = value
        # A reader sees whole lanes only.
        os.rename(path, os.path.join(folder, f"lane-{name}"))

    def write(self, kind, start, end, loader=0, value=0, extra=0, flags=0, mode=OBSERVED):
        self.put(start, end, kind | mode << 8 | flags << 16 | loader << 32, value, extra)

    def put(self, start, end, what, value, extra):
        head, words = self.head, self.words
        if head - words[W_TAIL] >= self.capacity:
            words[W_DROPPED] += 1
            return
        # HEADER_WORDS and RECORD_WORDS of 8 bytes
        self.pack(self.map, 512 + 40 * (head % self.capacity), start, end, what, value, extra)
        # After the record: the reader looks at what stands before the head, and only once it is a moment old.
        self.head = words[W_HEAD] = head + 1


class NoLane:
    """Where there is no room or no folder any more: the script goes on."""

    head = 0

    def __init__(self):
        self.words = [0] * HEADER_WORDS

    def write(self, *record, **more):
        pass

    put = write


folder = ""
_threads = threading.local()
lanes = []  # of this process
place = {}  # words that every lane of this process has: rank, world, …


def lane():
    """This thread's."""
    try:
        return _threads.lane
    except AttributeError:
        try:
            made = Lane(folder)
        except (OSError, ValueError):
            made = NoLane()
            with contextlib.suppress(OSError):  # a name needs no room
                os.close(os.open(os.path.join(folder, f"full-{os.getpid()}"), os.O_CREAT | os.O_CLOEXEC, 0o600))
        lanes.append(made)
        _threads.lane = made
        return made


def note(text):
    """A sentence for the report."""
    with contextlib.suppress(OSError), open(os.path.join(folder, f"note-{os.getpid()}"), "a") as file:
        file.write(text + "\n")


def put(word, value):
    """The same in every lane of this process."""
    place[word] = value
    for each in lanes:
        each.words[word] = value


def forget():
    """A forked child has the parent's mappings and files, and must not use them."""
    for opened in getattr(_threads, "files", {}).values():
        with contextlib.suppress(OSError):
            os.close(opened)
    _threads.__dict__.clear()
    lanes.clear()
    finishers.clear()


def ask(path):
    """What a file of /proc says of this thread. It stays open: opening it would cost ten times as much."""
    try:
        files = _threads.files
    except AttributeError:
        files = _threads.files = {}
    try:
        if path not in files:
            files[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(files[path], 512, 0)
    except OSError:
        return b""


finishers = []  # what has to be called when the process ends


def end(state):
    for each in lanes:
        if each.words[W_STATE] == RUNNING:
            each.words[W_STATE] = state
    while state != RAISED and finishers:
        finishers.pop()()


class Current:
    """Where the training of this process stands: what the hooks tell each other. One thread trains."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.mode = OBSERVED
        self.depth = 0  # of calls that are waits themselves: an iterator within an iterator counts once
        self.trained = False  # a backward pass since the last batch
        self.stepped = False  # a step of an optimizer
        self.steps = 0  # of optimizers
        self.accounts = None  # of the fetch that this thread is in
        self.device = None
        self.batches = 0
        self.backward = False  # in a backward pass
        self.collectives = 0  # that the script itself called while it trained, beside the exchange of gradients
        self.compiled = False  # by torch.compile


current = Current()
