"""Processes that run a user's transform.

The loader starts one, the *nursery*: it imports what the transform needs, once, and forks the workers. All of them have one end
of one socket: a job goes to whichever worker is idle, and results come back through it. Columns are read in the ring's memory.
Arrays and tensors of a result lie in memory of the worker's own, which the loader maps; its first byte says whether somebody
still has them.

A worker has nothing that outlives it: the nursery and its workers are a process group that the kernel kills when the pipe
`life` is closed, however the loader's process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import hashlib
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import sys
import time
import traceback

import numpy

from leat import _sample, ranks
from leat._collate import Export, Stack
from leat._columns import Columns
from leat._generators import Generators

HEADER = 64  # bytes of a result's memory before the result
_STEP = 1 << 16
_SMALL = 1 << 16  # of a message; larger ones go through memory
_FDS = 40
_FD = struct.Struct("i")
_FREE_MOST = 3  # results' memory that a worker keeps though nobody has a result in it
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
F_SETSIG = 10  # <fcntl.h>; Python knows it from 3.9 on some systems only

# The page that loader and workers share: a row for each worker, after one for all.
ROW = 4
CANCELLED = 0  # in row 0: jobs up to this number are not wanted any more
PID, JOB, PLACE, SINCE = range(ROW)


def make_memory(name):
    """A file that lies in memory and nowhere else."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    library = ctypes.CDLL(None, use_errno=True)  # a Python that was built for an old system
    fd = library.memfd_create(name.encode(), 1)
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"memfd_create: {os.strerror(ctypes.get_errno())}")
    return fd


@contextlib.contextmanager
def packed(message):
    """(bytes, descriptors) to be sent: a large message is in memory of its own."""
    data = pickle.dumps(message, 5)
    if len(data) <= _SMALL:
        yield data, []
        return
    fd = make_memory("leat-message")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        yield b"large", [fd]
    finally:
        os.close(fd)


def send(sock, message, fds=()):
    with packed(message) as (data, large):
        socket.send_fds(sock, [data], [*large, *fds])


def receive(sock, flags=0):
    """(message, descriptors), or None at the end."""
    # socket.recv_fds() leaves flags out before Python 3.12
    room = socket.CMSG_SPACE(_FDS * _FD.size)
    data, parts, _, _ = sock.recvmsg(2 * _SMALL, room, flags | socket.MSG_CMSG_CLOEXEC)
    fds = [fd for _, _, part in parts for (fd,) in _FD.iter_unpack(part[: len(part) // _FD.size * _FD.size])]
    if not data:
        return None
    if data == b"large":
        with open(fds.pop(0), "rb") as file:
            file.seek(0)
            data = file.read()
    return pickle.loads(data), fds


# What a sample's seed is for: transform and collate of one sample do not draw the same numbers.
DRAW_SAMPLE, DRAW_BATCH, DRAW_COLLATE, DRAW_STAND_IN = range(4)


def seed_of(seed, epoch, stream, index, draw):
    """Of a sample in an epoch, for one of its draws, the one that works on it: 64 bits."""
    text = struct.pack("<QQQQQ", seed, epoch, stream, index, draw)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


class Failed(Exception):
    """Of the user's code: at a sample, or with a whole batch (place None)."""

    def __init__(self, step, place, error):
        super().__init__(step)
        self.step = step
        self.place = place
        self.error = error


class Cancelled(Exception):
    """Nobody wants the result any more."""


class Job:
    """A batch to work on, without its data."""

    def __init__(self, number, epoch, seed, samples, avoid=()):
        self.number = number
        self.epoch = epoch
        self.seed = seed
        self.samples = samples
        self.avoid = tuple(avoid)  # places that have ended a worker


class Task:
    """What to do with every batch."""

    def __init__(self, transform, collate, on, skip, plan):
        self.transform = transform
        self.collate = collate
        self.on = on
        self.skip = skip
        self.plan = plan
        self.generators = None  # where it runs

    def prepare(self):
        """Before the first run, in the process of it or the one that it is forked from."""
        self.generators = self.generators or Generators({"transform": self.transform, "collate": self.collate})

    def run(self, job, columns, note, allocate):
        """(result, {id of a column that the transform got: Given}, {place that was skipped: why}). Calls note(place) before
        each sample; allocate(bytes) returns memory for stacked samples."""
        self._pid = os.getpid()
        if self.on == "batch":
            note(0)
            batch, given = columns.whole()
            return self._call("transform", self.transform, batch, job, columns, 0, None, DRAW_BATCH), given, {}
        stack = [None] * job.samples if self.collate else Stack(job.samples, self.plan.tensors, allocate)
        skipped = dict.fromkeys(job.avoid, "its worker ended")
        for i in range(job.samples):
            note(i)
            if i not in skipped:
                self._try(job, columns, i, columns.sample(i, own=self.skip), stack, skipped)
        for i in skipped:
            self._fill(job, columns, i, stack, skipped, note)
        if self.collate is None:
            return stack.whole(), {}, skipped
        note(0)
        return self._call("collate", self.collate, stack, job, columns, 0, None, DRAW_COLLATE), {}, skipped

    def _try(self, job, columns, i, sample, stack, skipped, draw=DRAW_SAMPLE):
        try:
            value = (
                self._call("transform", self.transform, sample, job, columns, i, i, draw) if self.transform else sample
            )
        except Failed as failure:
            if not self.skip or not isinstance(failure.error, Exception):
                raise
            skipped[i] = _one_line(failure.error)
            return False
        if self.collate is not None:
            stack[i] = value
            return True
        try:
            stack.put(i, value)
        except Exception as error:
            raise Failed("collate", i, error) from None
        return True

    def _fill(self, job, columns, i, stack, skipped, note):
        """Another sample of the batch in the place of one that failed."""
        reason = skipped[i]
        for j in [*range(i + 1, job.samples), *range(i)]:
            if j in skipped:
                continue
            note(j)
            if self._try(job, columns, j, columns.stand_in(j), _At(stack, i), {}, DRAW_STAND_IN):
                return
        raise Failed("transform", i, RuntimeError(f"{reason}; no other sample of the batch can stand in for it"))

    def _call(self, step, function, value, job, columns, i, place, draw):
        index = int(columns.of("index", i, 0))
        seed = seed_of(job.seed, job.epoch, int(columns.of("stream", i, 0)), index, draw)
        self.generators.seed(seed)
        _sample.current = _sample.SampleInfo(job.epoch, index, columns.of("key", i, ""), seed)
        try:
            result = function(value)
        except BaseException as error:
            if os.getpid() == self._pid:
                raise Failed(step, place, error) from None
            traceback.print_exc()
            os._exit(1)
        finally:
            _sample.current = None
            self.generators.check()
        if os.getpid() != self._pid:  # a fork that has come back from the user's code
            print(f"leat: a process that the {step} has forked returned from it; it ends here", file=sys.stderr)
            os._exit(70)
        return result


class _At:
    """A stack that puts everything in one place."""

    def __init__(self, stack, i):
        self._stack = stack
        self._i = i

    def put(self, _, value):
        self._stack.put(self._i, value)

    def __setitem__(self, _, value):
        self._stack[self._i] = value


def _one_line(error):
    return f"{type(error).__name__}: {error}".split("\n")[0][:300]


def describe(failure, columns):
    """A failure as it travels: what, where, and the user's own lines of the traceback."""
    error, place = failure.error, failure.place
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__) + os.sep):
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        pickled = None
    at = 0 if place is None else place
    return {
        "step": failure.step,
        "place": place,
        "index": int(columns.of("index", at, 0)),
        "key": columns.of("key", at, ""),
        "error": _one_line(error),
        "trace": "".join(lines),
        "pickled": pickled,
    }


class Slot:
    """Memory for one result."""

    def __init__(self, number, size):
        self.number = number
        self.size = size
        self.fd = make_memory("leat-result")  # until the loader has it
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        self.array = numpy.frombuffer(self.map, numpy.uint8)

    def take_fd(self):
        fd, self.fd = self.fd, -1
        return [fd] if fd >= 0 else []


class Memory:
    """A worker's memory for results: as much as the user holds on to, and a little more."""

    def __init__(self):
        self._slots = []
        self._made = 0
        self.dropped = []  # numbers that the loader has not been told of

    def get(self, need):
        """A slot that nobody uses. It is the caller's until its first byte is 0 again."""
        free = sorted((s for s in self._slots if s.map[0] == 0), key=lambda s: s.size)
        fit = next((s for s in free if s.size >= need + HEADER), None)
        surplus = [s for s in free if s is not fit]
        for slot in surplus if fit is None else surplus[_FREE_MOST - 1 :]:
            self._slots.remove(slot)
            for fd in slot.take_fd():
                os.close(fd)
            self.dropped.append(slot.number)
        if fit is None:
            size = need + need // 8 + HEADER
            self._made += 1
            fit = Slot((os.getpid(), self._made), -(-size // _STEP) * _STEP)
            self._slots.append(fit)
        return fit


class Worker:
    def __init__(self, sock, task, page, row):
        self._sock = sock
        self._task = task
        self._page = page
        self._row = page[row]
        self._row[:] = os.getpid(), 0, 0, 0
        self._memory = Memory()
        self._ring = None, None  # (id, map)
        self._slot = None

    def serve(self):
        while True:
            got = receive(self._sock)
            if got is None:
                return
            message, fds = got
            self._row[PLACE] = 0
            self._row[SINCE] = time.monotonic_ns()
            self._row[JOB] = message["job"].number
            others = self._map(message, fds)
            self._work(message, others)
            self._row[JOB] = 0

    def _map(self, message, fds):
        """Takes the ring, and the memory of columns that do not lie in it."""
        number, size = message["ring"]
        ring, *rest = fds
        if self._ring[0] != number:
            self._ring = number, mmap.mmap(ring, size)
        others = {}
        for c, fd in zip(message["others"], rest):
            count = os.fstat(fd).st_size
            others[c] = numpy.frombuffer(mmap.mmap(fd, count) if count else b"", numpy.uint8)
        for fd in fds:
            os.close(fd)
        return others

    def _note(self, place):
        self._row[PLACE] = place
        if self._page[0, CANCELLED] >= self._row[JOB]:
            raise Cancelled

    def _allocate(self, count):
        self._slot = self._memory.get(count)
        return self._slot.array[HEADER : HEADER + count]

    def _work(self, message, others):
        job = message["job"]
        columns, roots = Columns.on_memory(self._ring[1], others, message["layout"], job.samples, self._task.plan)
        others.clear()
        self._slot = None
        fds = []
        try:
            reply, fds = self._transform(job, columns)
        except Cancelled:
            reply = {"kind": "cancelled"}
        except Failed as failure:
            reply = {"kind": "failed", **describe(failure, columns)}
            _forget_frames(failure.error)
        columns = None
        if reply["kind"] == "done" and _alive(roots):
            reply = {"kind": "kept"}
        if reply["kind"] == "done":
            self._slot.map[0] = 1
            reply["notes"] = self._task.generators.take_notes()
        dropped, self._memory.dropped = self._memory.dropped, []
        send(self._sock, {"number": job.number, "dropped": dropped, **reply}, fds)
        if fds:
            os.close(self._slot.take_fd()[0])

    def _transform(self, job, columns):
        result, given, skipped = self._task.run(job, columns, self._note, self._allocate)
        memory = self._slot.array[HEADER:] if self._slot else None
        try:
            export = Export(result, given, memory)
        except Exception as error:
            step = "collate" if self._task.collate else "transform"
            raise Failed(step, None, error) from None
        if self._slot is None:
            export.copy(self._allocate(export.bytes))
        return {
            "kind": "done",
            "slot": self._slot.number,
            "size": self._slot.size,
            "text": export.text,
            "skipped": {
                i: (int(columns.of("index", i, 0)), columns.of("key", i, ""), why) for i, why in skipped.items()
            },
        }, [self._slot.fd] if self._slot.fd >= 0 else []


def _forget_frames(error):
    """Frames of the user's code hold views of the batch."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__context__


def _alive(roots):
    """Whether a view of the batch is left: its memory is about to become another batch."""
    if all(root() is None for root in roots):
        return False
    gc.collect()
    return any(root() is not None for root in roots)


def _die_with(life):
    """Has the kernel kill this process group when the other end of the pipe is closed, whatever we are doing then."""
    fcntl.fcntl(life, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(life, 0)
    if poll.poll(0):  # it was closed before
        os._exit(1)


def _import_main(main):
    """The user's program as a module, for functions that are defined in it."""
    import multiprocessing.spawn

    ranks.importing_main = True
    try:
        multiprocessing.spawn.prepare(main)
    finally:
        ranks.importing_main = False


def _load(setup):
    """The task, from what the loader has written."""
    what = pickle.load(setup)
    sys.argv[:] = what["argv"]
    os.chdir(what["folder"])
    if what["main"]:
        _import_main(what["main"])
    if what["torch"]:
        import torch

        torch.set_num_threads(1)
    task = pickle.loads(what["task"])
    task.prepare()
    task.generators.settle()
    return what["workers"], task


def _keep_heap():
    """Arrays of some hundred kilobytes come and go with every sample, and malloc would give their memory back each time. With
    this bench_transform's heavy transform took 0.94 ms of CPU per sample, and 2.89 ms before."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return
    for what, count in ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 128 << 20)):
        mallopt(what, count)


def _fork(sock, task, page, row):
    page[row] = 0
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        Worker(sock, task, page, row).serve()
        status = 0
    except ConnectionError:  # the loader is gone
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _watch(sock, task, page, rows):
    """Waits for workers; tells the loader of those that ended by themselves, and forks others in their place."""
    while rows:
        pid, status = os.wait()
        row = rows.pop(pid, None)
        if row is None or status == 0:
            continue
        job, place = int(page[row, JOB]), int(page[row, PLACE])
        send(sock, {"kind": "died", "pid": pid, "status": status, "number": job, "place": place})
        if job:
            rows[_fork(sock, task, page, row)] = row


def main(setup, sock, life, page):
    """The nursery."""
    _die_with(life)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=sock)
    try:
        with open("/proc/self/comm", "w") as name:
            name.write("leat-transform")
    except OSError:
        pass
    try:
        workers, task = _load(setup)
    except BaseException as error:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        send(sock, {"kind": "unready", "error": _one_line(error), "trace": "".join(lines)})
        return
    setup.close()
    _keep_heap()
    page = numpy.frombuffer(mmap.mmap(page, 0), numpy.int64).reshape(-1, ROW)
    gc.collect()
    gc.freeze()
    rows = {_fork(sock, task, page, row): row for row in range(1, workers + 1)}
    send(sock, {"kind": "ready"})
    with contextlib.suppress(ConnectionError):
        _watch(sock, task, page, rows)
