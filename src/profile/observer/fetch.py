"""The fetches of batches, in a loader's workers or in the rank itself: how long they took, how much of it was preparing, what
they read and which files they opened."""

import contextlib
import fcntl
import functools
import mmap
import os
import sys
import threading
import time

lanes = sys.modules["_leat_lane"]
current, now = lanes.current, lanes.now
FETCH, READ, SOURCE, OBSERVED = lanes.FETCH, lanes.READ, lanes.SOURCE, lanes.OBSERVED

serial_loader = [0]  # the loader whose next() fetches in this process


def _queue_ns():
    """Nanoseconds this thread was ready and had no core."""
    words = lanes.ask("/proc/thread-self/schedstat").split()
    return int(words[1]) if len(words) > 1 else 0


class Reading:
    """What this process has read, between two times of asking. Every eighth fetch asks: it costs microseconds."""

    EVERY = 8

    def __init__(self):
        self.fetches = self.blocked = 0
        self.last = None
        self.received = received[0]
        self.queue = _queue_ns()  # when it was last asked
        self.stands = False  # the last fetch had no core for a while: time with no core is told apart exactly

    def add(self, blocked, loader, mode):
        self.fetches += 1
        self.blocked += blocked
        if self.last is not None and mode == OBSERVED and self.fetches < self.EVERY:
            return
        words = lanes.ask("/proc/self/io").split()
        if len(words) < 10:
            return
        read = int(words[1]), int(words[9])  # by read(), and from a disk
        if self.last is not None:
            at, size, disk = now(), read[0] - self.last[0], read[1] - self.last[1]
            lanes.lane().write(READ, at - self.blocked, at, loader, max(0, size), max(0, disk), self.fetches, mode)
            if received[0]:
                came = received[0] - self.received
                stood = self.blocked if came >= 0.9 * (came + size) else 0
                lanes.lane().write(SOURCE, at - stood, at, loader, came, 0, self.fetches, mode)
        self.last, self.fetches, self.blocked, self.received = read, 0, 0, received[0]


received = [0]  # bytes that came through the network in fetches, as far as sockets of Python tell


def follow_sockets(module):
    """Of a dataset that reads from a bucket by itself. Clients that are not written in Python are not seen."""
    kind, family = module.socket, module._socket.socket.family.__get__
    networks = (module.AF_INET, module.AF_INET6)

    def follow(name, size_of):
        plain = getattr(kind, name)

        @functools.wraps(plain)
        def receive(self, *args, **kwargs):
            got = plain(self, *args, **kwargs)
            if current.accounts is not None and family(self) in networks:
                received[0] += size_of(got)
            return got

        setattr(kind, name, receive)

    follow("recv", len)
    follow("recv_into", int)


def follow_tls(module):
    kind = module.SSLSocket
    plain = kind.read

    @functools.wraps(plain)
    def read(self, *args, **kwargs):
        got = plain(self, *args, **kwargs)
        if current.accounts is not None:
            received[0] += got if isinstance(got, int) else len(got)
        return got

    kind.read = read


_reading = {}  # of each thread that fetches


class Accounts:
    """What one fetch of a batch spent in transforms."""

    __slots__ = ("cpu", "wall")

    def __init__(self):
        self.cpu = self.wall = 0


def _timed(call, args, kwargs):
    accounts = current.accounts
    if accounts is None:
        return call(*args, **kwargs)
    current.accounts = None  # transforms within transforms count once
    start, cpu = now(), time.thread_time_ns()
    try:
        return call(*args, **kwargs)
    finally:
        accounts.wall += now() - start
        accounts.cpu += time.thread_time_ns() - cpu
        current.accounts = accounts


class TimedFunction:
    """A function that is a transform. A pickle of it is the function again."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return _timed(self.function, args, kwargs)

    def __getattr__(self, name):
        if name == "function":  # while it is being made
            raise AttributeError(name)
        return getattr(self.function, name)

    def __reduce__(self):
        return functools.partial, (self.function,)


class Functions:
    """Plain functions that a dataset has as transforms. They are replaced while a batch is fetched: outside of that the script finds
    its own ones."""

    def __init__(self, dataset):
        self.rows = []  # (attributes of a dataset, name, function, its timed one)
        with contextlib.suppress(Exception):  # whatever a dataset is, it is no error here
            self.find(dataset)

    def find(self, dataset, depth=4):
        """Times what a dataset calls its transforms. Classes are patched and not objects, so that their types stay. Nothing of the
        dataset's own is called and no iterator is looked into: it would have less to give."""
        attributes = object.__getattribute__(dataset, "__dict__")
        inner = attributes.get("datasets")
        for each in [attributes.get("dataset"), *(inner[:64] if isinstance(inner, (list, tuple)) else ())]:
            if depth and each is not None:
                with contextlib.suppress(Exception):  # a class of an extension has no attributes
                    self.find(each, depth - 1)
        for name in ("transform", "transforms", "target_transform", "joint_transform"):
            found = attributes.get(name)
            if found is None or not callable(found):
                continue
            if hasattr(found, "__code__"):
                self.rows.append((attributes, name, found, TimedFunction(found)))
            elif not isinstance(found, type):
                _time_calls(type(found))

    def replace(self):
        for attributes, name, plain, timed in self.rows:
            if attributes.get(name) is plain:
                attributes[name] = timed

    def put_back(self):
        for attributes, name, plain, timed in self.rows:
            if attributes.get(name) is timed:
                attributes[name] = plain


def _time_calls(kind):
    plain = kind.__call__
    if getattr(plain, "leat_observed", False):
        return

    @functools.wraps(plain)
    def call(*args, **kwargs):
        return _timed(plain, args, kwargs)

    call.leat_observed = True
    with contextlib.suppress(TypeError):  # a class of an extension
        kind.__call__ = call


def patch_fetch(kind):
    plain = kind.fetch
    thread_time = time.thread_time_ns

    def fetch(self, possibly_batched_index):
        functions = self.__dict__.get("leat_functions")
        if functions is None:
            functions = self.leat_functions = Functions(self.dataset)
        if _park is not None:
            _park.enter()
        thread = threading.get_ident()
        reading = _reading.get(thread)
        if reading is None:
            reading = _reading[thread] = Reading()
        elif reading.stands:
            reading.queue = _queue_ns()
        accounts = Accounts()
        outer, current.accounts = current.accounts, accounts
        if functions.rows:
            functions.replace()
        cpu, start = thread_time(), now()
        try:
            return plain(self, possibly_batched_index)
        finally:
            end = now()
            if functions.rows:
                functions.put_back()
            current.accounts = outer
            cpu = thread_time() - cpu
            # Transforms count whole. Outside of them the processor's time is preparing, and what remains is fetching; time
            # without a core, though ready for one, belongs to both in proportion.
            wall, busy = end - start - accounts.wall, cpu - accounts.cpu
            queue = 0
            reading.stands = end - start - cpu > (end - start) >> 4
            if reading.stands:
                # Where the last fetch did not stand, this counts from some fetch before: asking costs as much as all else here.
                before, reading.queue = reading.queue, _queue_ns()
                queue = max(0, reading.queue - before) * wall // max(1, end - start)
            blocked = max(0, wall - busy - queue)
            prepare = accounts.wall + wall * busy // max(1, busy + blocked)
            loader, mode = _worker or (serial_loader[0], current.mode)
            lanes.lane().write(FETCH, start, end, loader, max(0, min(prepare, end - start)), max(0, cpu), 0, mode)
            reading.add(blocked, loader, mode)
            if _opened is not None:
                _tell_files(possibly_batched_index)
            if _park is not None:
                _park.leave()

    kind.fetch = fetch


PARK_LOADERS, PARK_WORKERS = 16, 256


class Park:
    """Where a loader's workers stop between two batches while a differential block runs: else they would work ahead, and the
    training would find batches that it would not have had. A file in the folder of lanes: the rank locks it to hold the workers
    back, and a lock ends with the rank; a byte of each worker says whether it is within a fetch."""

    def __init__(self, folder, pid):
        self.fd = os.open(os.path.join(folder, f"park-{pid}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self.fd, 0, PARK_LOADERS * PARK_WORKERS)  # in a full /dev/shm an error, and no signal later
        self.map = mmap.mmap(self.fd, PARK_LOADERS * PARK_WORKERS)
        self.at = None
        self.closed = False

    def place(self, loader, worker):
        return loader % PARK_LOADERS * PARK_WORKERS + worker % PARK_WORKERS

    def enter(self):
        if self.at is None:
            told = sys.modules["torch.utils.data"].get_worker_info()
            self.at = self.place(_worker[0], told.id if told else 0)
        fcntl.flock(self.fd, fcntl.LOCK_SH)
        fcntl.flock(self.fd, fcntl.LOCK_UN)
        self.map[self.at] = 1

    def leave(self):
        self.map[self.at] = 0

    def close(self):
        if not self.closed:
            self.closed = True
            fcntl.flock(self.fd, fcntl.LOCK_EX)

    def open(self):
        if self.closed:
            self.closed = False
            fcntl.flock(self.fd, fcntl.LOCK_UN)

    def drop(self):
        """In a forked child: the lock is to end with the rank."""
        os.close(self.fd)

    def busy(self, loader, workers):
        first = self.place(loader, 0)
        return any(self.map[first : first + min(workers, PARK_WORKERS)])


_park = None  # in a worker of the script's own loader, where differential blocks are asked for


_opened = None  # files that this fetch has opened, where differential runs ask for them


def follow_files():
    """Cold runs drop from the page cache what the fetches of the script have opened."""
    global _opened  # noqa: PLW0603
    _opened = []

    def opening(event, args):
        if event == "open" and current.accounts is not None and isinstance(args[0], (str, bytes)):
            _opened.append(os.fsdecode(args[0]))

    sys.addaudithook(opening)


def _kept_open():
    """Files that the process holds open or mapped: an archive, a memory map."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))
        with open("/proc/self/maps") as maps:
            found.update(line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6)
    return [
        path
        for path in found
        if path.startswith("/")
        and not path.startswith(("/dev/", "/proc/", "/sys/", sys.prefix, sys.base_prefix, "/usr/", "/lib"))
        and os.path.isfile(path)
    ]


def _tell_files(index):
    replay = sys.modules.get("_leat_replay")
    if replay is None:
        return
    paths, _opened[:] = [path for path in _opened if "\0" not in path and "\n" not in path], []
    if not paths:
        if "kept" not in _files:
            _files["kept"] = _kept_open()
        paths = _files["kept"]
    if paths:
        line = "\0".join([replay.key_of(index), *map(os.path.abspath, paths)]) + "\n"
        with contextlib.suppress(OSError, UnicodeError):
            if "fd" not in _files:
                name = os.path.join(lanes.folder, f"files-{os.getpid()}")
                _files["fd"] = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _files.setdefault("size", 0) < _FILES_BYTES:
                _files["size"] += os.write(_files["fd"], os.fsencode(line))


_files = {}
_FILES_BYTES = 4 << 20


_worker = ()  # (loader, mode) of the process that is one of its workers


def who():
    global _worker, _park  # noqa: PLW0603
    loader, mode, rank = (os.environ.get("LEAT_PROFILE_LOADER", "") + "::").split(":")[:3]
    _worker = (int(loader), int(mode or 0)) if loader.isdigit() else ()
    _park = None
    if _worker and _worker[1] == OBSERVED and os.environ.get("LEAT_PROFILE_RUNS"):
        with contextlib.suppress(OSError):
            _park = Park(lanes.folder, rank)


def forget():
    """In a forked child."""
    _reading.clear()
    if "fd" in _files:
        os.close(_files["fd"])
    _files.clear()
    who()
