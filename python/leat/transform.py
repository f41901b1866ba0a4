"""A user's Python between the agent's batches and the user: transform= and collate= of a loader.

The loader's side. leat._worker is what runs in the processes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import multiprocessing.spawn  # also makes '__mp_main__' known, where workers' classes of the user's program come from
import os
import pickle
import pickletools
import select
import signal
import socket
import subprocess
import sys
import time
import weakref

import numpy

from leat import _worker, ranks
from leat._collate import Import
from leat._columns import Columns, Plan
from leat.errors import InvalidError, TimeoutError, TransformError
from leat.stages import Ahead

WORKERS_MOST = 56  # a ring has at most 64 slots
_AHEAD = 2  # batches ready for whichever worker is idle first
_MORE_SLOTS = 4  # for batches that the agent makes, and that the user has
_COPIED = 16  # what is smaller than this part of a result is copied out of its memory, so that keeping it costs little
_SLOTS_MOST = 64  # results whose memory the user has, each with a descriptor: more of them are copied out
_END_S = 1.0  # workers that have nothing to do end at once; others are killed
_TICK_S = 0.2
_START_S = 30.0  # what is imported may take a while
_NAMED_MOST = 10  # samples that are skipped and named; then they are only counted
_log = logging.getLogger("leat")


def _default_workers():
    share = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    return max(1, min(8, len(os.sched_getaffinity(0)) // max(share, 1)))


# How a transform gets to its worker.


def _main_module():
    """How to import the user's program elsewhere; None: it is typed in, or comes from a pipe."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {"init_main_from_name": name}
    path = getattr(main, "__file__", None)
    if path is None or hasattr(sys, "ps1") or not os.path.exists(path):
        return None
    return {"init_main_from_path": os.path.abspath(path)}


def _mentions_main(text):
    return any(argument in ("__main__", "__mp_main__") for _, argument, _ in pickletools.genops(text))


def _pickled(what, task):
    """(task as bytes, how its worker imports the user's program or None)."""
    main = _main_module()
    problem = None
    try:
        text = pickle.dumps(task, 5)
        if not _mentions_main(text):
            return text, None
        if main is not None:
            return text, main
        problem = "it is defined in a notebook or an interactive program, where workers cannot import it from"
    except Exception as error:  # pickle has several kinds
        problem = f"{type(error).__name__}: {error}"
    try:
        import cloudpickle
    except ImportError:
        raise InvalidError(
            f"{what} cannot be given to worker processes: {problem}. Define it in a module, install cloudpickle, or run it in "
            "this process with transform_workers=0"
        ) from None
    try:
        return cloudpickle.dumps(task), main
    except Exception as error:
        raise InvalidError(f"{what} cannot be given to worker processes: {type(error).__name__}: {error}") from None


_pools = weakref.WeakSet()


def _forked():
    for pool in list(_pools):
        pool.forget()


os.register_at_fork(after_in_child=_forked)


def _end(process, sock, life, pid):
    """Ends the workers: those that are idle by themselves, the others and what they have started by force."""
    if os.getpid() != pid:
        return
    sock.close()
    deadline = time.monotonic() + _END_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so that the number is still its own
    os.close(life)
    process.wait()


class Pool:
    """The processes, and what was given to them. Ends with this object, and with this process however that ends."""

    def __init__(self, task, main, workers, tensors, timeout_s):
        self.pid = os.getpid()
        self.workers = workers
        self.jobs = {}  # by number: Work that is under way, whether somebody waits for it or not
        self.slots = {}  # by number: maps of results' memory
        self.lost = None  # why it cannot be used any more
        self.ready_at = 0.0  # 0: they have not started yet
        self._timeout_s = timeout_s
        self._begun = time.monotonic()
        self._number = 0
        page = _worker.make_memory("leat-workers")
        os.ftruncate(page, (workers + 1) * _worker.ROW * 8)
        self.page = numpy.frombuffer(mmap.mmap(page, 0), numpy.int64).reshape(-1, _worker.ROW)
        setup = _worker.make_memory("leat-setup")
        with open(setup, "wb", closefd=False) as file:
            pickle.dump(sys.path, file)
            what = {"argv": sys.argv, "folder": os.getcwd(), "main": main, "torch": tensors, "workers": workers}
            pickle.dump({**what, "task": task}, file)
        os.lseek(setup, 0, os.SEEK_SET)
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ear, life = os.pipe()
        try:
            process = self._start(setup, theirs.fileno(), ear, page)
        except BaseException:
            os.close(life)
            raise
        finally:
            theirs.close()
            for fd in (setup, ear, page):
                os.close(fd)
        self._life = life
        self._process = process.pid
        self._poll = select.poll()
        self._poll.register(self._sock, select.POLLIN)
        self.close = weakref.finalize(self, _end, process, self._sock, life, self.pid)
        _pools.add(self)

    @staticmethod
    def _start(setup, sock, ear, page):
        program = (
            f"import sys, pickle; setup = open({setup}, 'rb'); sys.path[:] = pickle.load(setup); "
            f"from leat._worker import main; main(setup, {sock}, {ear}, {page})"
        )
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        flags = subprocess._args_from_interpreter_flags()  # as multiprocessing does
        return subprocess.Popen(
            [os.fsdecode(multiprocessing.spawn.get_executable()), *flags, "-c", program],
            env={**os.environ, **one},
            stdin=subprocess.DEVNULL,
            pass_fds=(setup, sock, ear, page),
            start_new_session=True,
        )

    def forget(self):
        """In a forked child: the processes are the parent's."""
        if self.close.detach() is not None:  # else they have ended, and the number may be another's
            self._sock.close()
            os.close(self._life)

    def submit(self, work):
        self._number += 1
        work.number = self._number
        work.reply = None
        work.message["job"].number = work.number
        with _worker.packed(work.message) as (data, fds):
            try:
                self.jobs[work.number] = work
                socket.send_fds(self._sock, [data], [*fds, *work.descriptors()])
            except OSError:
                self.receive(0)  # perhaps it has said why
                self._gone()
            except BaseException:  # of a signal handler: whether a worker has it is not known
                self.lost = self.lost or "a batch was interrupted on its way to the transform workers"
                raise

    def kill(self):
        """Ends all of them, whatever they do."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process, signal.SIGKILL)

    def cancel(self):
        """Nobody wants what was submitted so far."""
        self.page[0, _worker.CANCELLED] = self._number

    def receive(self, timeout_s):
        """Takes one message, if one comes in time. A failure of a whole worker is raised."""
        try:
            if not self._poll.poll(max(0, timeout_s) * 1000):
                return
            got = self._take()
            if got is None:
                self._gone()
            self._understand(*got)
        except BlockingIOError:
            return
        except BaseException as error:  # Ctrl-C too: a message may be half understood
            self.lost = self.lost or str(error) or type(error).__name__
            raise

    def _take(self):
        """A message and its descriptors; None: the other side has ended."""
        try:
            return _worker.receive(self._sock, socket.MSG_DONTWAIT)
        except ConnectionResetError:  # said once, before what was sent earlier
            return _worker.receive(self._sock, socket.MSG_DONTWAIT)

    def _gone(self):
        """Raises what they said last, or that they said nothing."""
        if self.lost is None:
            self.lost = "the transform workers have ended"
            with contextlib.suppress(OSError):
                while (got := self._take()) is not None:
                    self._understand(*got)
        raise TransformError(
            f"{self.lost} without a word: killed from outside, or for lack of memory; the next batch starts others"
        )

    def _understand(self, message, fds):
        kind = message["kind"]
        if kind == "ready":
            self.ready_at = time.monotonic()
        elif kind == "unready":
            self.lost = "the transform workers cannot start"
            if ranks.IMPORTED in message["trace"]:
                raise InvalidError(ranks.IMPORTED)
            raise TransformError(
                f"the transform cannot be loaded in a worker process: {message['error']}\n\n{message['trace']}"
            )
        elif kind == "died":
            self._died(message)
        else:
            if message.get("slot") is not None and fds:
                self.slots[message["slot"]] = mmap.mmap(fds[0], message["size"])
            for fd in fds:
                os.close(fd)
            for number in message["dropped"]:
                self.slots.pop(number, None)
            self.ready_at = (
                self.ready_at or time.monotonic()
            )  # its reply may be faster than the word that they are ready
            work = self.jobs.pop(message["number"])
            work.reply = message
            if work.abandoned:
                work.discard(self)

    def _died(self, message):
        work = self.jobs.get(message["number"])
        how = _ended(message["status"])
        if work is None:
            self.lost = "a transform worker has ended"
            raise TransformError(f"a transform worker (process {message['pid']}) {how} while it had nothing to do")
        del self.jobs[message["number"]]
        work.died(message["pid"], how, message["place"], self)

    def worker_of(self, work):
        """(process id, place of the sample) of the worker that has it; None: it waits in the queue."""
        for row in self.page[1:].tolist():
            if row[_worker.JOB] == work.number:
                return row[_worker.PID], row[_worker.PLACE]
        return None

    def waiting_for(self, work):
        """In words."""
        found = self.worker_of(work)
        if not self.ready_at:
            return "transform workers to start"
        if found is None:
            return "a transform worker that is idle"
        return f"the transform of {work.named(found[1])} in process {found[0]}"

    def drain(self):
        """Until no worker is busy with what nobody wants: then nothing reads or writes the ring any more."""
        self.cancel()
        deadline = time.monotonic() + self._timeout_s
        while self.jobs and self.lost is None:
            self.receive(_TICK_S)
            if time.monotonic() > deadline:
                self.lost = "a transform hangs"


def _ended(status):
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in signal.Signals._value2member_map_ else str(number)
        return f"was killed by {name}" + (" (for lack of memory?)" if number == signal.SIGKILL else "")
    return f"ended with exit status {os.waitstatus_to_exitcode(status)}"


def _draw_seed(state):
    """What is drawn from, at a loader's state."""
    known = json.loads(state)
    return known.get("draw_seed", known["streams"][0]["seed"])


class Work:
    """A batch under way, and the item that the next stage, or the user, gets."""

    def __init__(self, item, stage):
        self._item = item
        self._stage = stage
        self.number = 0
        self.reply = None
        self.error = None
        self.abandoned = False
        self.epoch, self.began, self.position = item.epoch, item.began, item.position
        self._state = item.state()
        self._values = None
        self._columns = None  # of the item, once one is asked for
        layout = item.layout()
        outside = [c for c, row in enumerate(layout) if not row[8]]
        number, self._ring, _, size = item.ring()
        self._others = {c: _copied(item.memory(c)) for c in outside}
        job = _worker.Job(0, item.epoch, _draw_seed(self._state), item.samples)
        self.message = {"job": job, "ring": (number, size), "others": outside, "layout": layout}

    def descriptors(self):
        return [self._ring, *self._others.values()]

    def release(self):
        while self._others:
            os.close(self._others.popitem()[1])
        if self._item is not None:
            self._item.release()
        self._item = None

    def named(self, place):
        """A sample of this batch, for messages."""
        columns = Columns.handed(self._item.values(), self._item.samples, self._stage.plan)
        return _sample_named(int(columns.of("index", place, 0)), columns.of("key", place, ""), self.epoch)

    def died(self, pid, how, place, pool):
        """Its worker has ended."""
        if self.abandoned:
            self.discard(pool)
            return
        what = f"a transform worker (process {pid}) {how} at {self.named(place)}"
        job = self.message["job"]
        if self._stage.skip and self._stage.on == "sample" and place not in job.avoid:
            self._stage.skipped += 1
            _log.warning("%s: it is skipped", what)
            job.avoid = (*job.avoid, place)
            pool.submit(self)
            return
        pool.lost = what
        raise TransformError(f"{what}: the transform, or a library it calls, ends its process")

    def discard(self, pool):
        """Its reply has come, and nobody wants it. In a forked child the memory is still the parent's."""
        if self.reply is not None and self.reply["kind"] == "done" and pool.pid == os.getpid():
            pool.slots[self.reply["slot"]][0] = 0
        self.release()

    # An item's.

    def state(self):
        return self._state

    def values(self):
        return self._values

    def deliver(self, pool):
        """Takes the result out of the reply."""
        reply, self.reply = self.reply, None
        if reply["kind"] == "failed":
            raise _error_of(reply, self.epoch)
        if reply["kind"] != "done":
            raise TransformError(
                f"the transform keeps arrays of samples when it is done ({self.named(0)} is the first of the batch): they lie in "
                "memory that is used again, so keep copies: x.copy(), x.clone()"
            )
        self._stage.count_skipped(reply["skipped"], self.epoch)
        self._stage.report(reply["notes"])
        view = _View(pool.slots[reply["slot"]], pool.pid, len(pool.slots) > _SLOTS_MOST)
        self._values = Import(reply["text"], view.part, self._column).load()
        self._columns = None
        self.release()

    def _column(self, c):
        """One of the batch's own, with what the transform has written to it."""
        if c in self._others:
            _copy_back(self._others[c], self._item.memory(c))
        if self._columns is None:
            values = self._item.values()
            self._columns = [*values.values()] if isinstance(values, dict) else values
        return self._columns[c]


def _copied(data):
    """Memory that others can map, with these bytes in it."""
    fd = _worker.make_memory("leat-column")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    return fd


def _copy_back(fd, data):
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        file.readinto(data)


class _View:
    """A result's memory while somebody has a part of it."""

    _alive = {}  # by id, of all of them: references that wait for the end

    def __init__(self, memory, pid, copied):
        self._copied = copied
        self._root = numpy.frombuffer(memory, numpy.uint8)  # every array of the result is a view of this one

        def free(reference):
            _View._alive.pop(id(reference), None)
            if os.getpid() == pid:  # in a forked child it is still the parent's
                memory[0] = 0

        reference = weakref.ref(self._root, free)
        _View._alive[id(reference)] = reference

    def part(self, at, count):
        at += _worker.HEADER
        part = self._root[at : at + count]
        return part.copy() if self._copied or count * _COPIED < len(self._root) else part


def _sample_named(index, key, epoch):
    return f"sample {index} ({key!r}, epoch {epoch})" if key else f"sample {index} (epoch {epoch})"


def _error_of(reply, epoch):
    """The exception for a failure of the user's code."""
    sample = _sample_named(reply["index"], reply["key"], epoch)
    where = f"the batch that begins with {sample}" if reply["place"] is None else sample
    error = TransformError(f"{reply['step']} of {where}: {reply['error']}\n\n{reply['trace']}".rstrip())
    error.index, error.key, error.epoch = reply["index"], reply["key"], epoch
    if reply["pickled"] is not None:
        with contextlib.suppress(Exception):  # a class that only the worker knows
            error.__cause__ = pickle.loads(reply["pickled"])
    error.__suppress_context__ = True
    return error


class Transforming(Ahead):
    """One pass, in workers."""

    def __init__(self, source, stage):
        super().__init__(source, stage.workers + _AHEAD)
        self._stage = stage
        self._pool = stage.pool()

    def begin(self, item):
        work = Work(item, self._stage)
        try:
            self._pool.submit(work)
            return work
        except BaseException:
            self.abandon(work)  # workers may have it all the same
            raise

    def ready(self, work):
        while work.reply is None and work.number in self._pool.jobs:
            before = len(self._pool.jobs)
            self._pool.receive(0)
            if len(self._pool.jobs) == before:
                break
        return work.reply is not None

    def finish(self, work):
        began = time.monotonic()
        deadline, warned = began + self._stage.timeout_s, 5.0
        try:
            while work.reply is None:
                more = not (self.over or self.error) and len(self.waiting) + 1 < self.depth
                self._pool.receive(0.002 if more else _TICK_S)
                if more and work.reply is None:
                    self.fill(False)
                waited = time.monotonic() - max(began, self._pool.ready_at)
                if time.monotonic() > deadline:
                    self._hung(work)
                    deadline = time.monotonic() + self._stage.timeout_s
                elif waited > warned and (self._pool.ready_at or waited > _START_S):
                    _log.warning("has been waiting for %.0f s for %s", waited, self._pool.waiting_for(work))
                    warned *= 2
            self._stage.wait_s += time.monotonic() - began
            work.deliver(self._pool)
        except BaseException:
            self.abandon(work)
            self._stage.let_go()
            raise
        return work

    def _hung(self, work):
        """At the deadline. The worker is killed; with on_error="skip" the sample is skipped when its end is told."""
        what = self._pool.waiting_for(work)
        found = self._pool.worker_of(work)
        if found is not None and self._stage.skip and self._stage.on == "sample":
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGKILL)
            return
        self._pool.lost = "a transform hangs"
        raise TimeoutError(f"waited {self._stage.timeout_s:.0f} s for {what}; it was killed")

    def abandon(self, work):
        """Its slot stays ours until the worker has let go of it: a transform may write to what it is given."""
        work.abandoned = True
        if work.number not in self._pool.jobs:
            work.discard(self._pool)


class Here(Ahead):
    """One pass, in the loader's own process: for debuggers."""

    def __init__(self, source, stage):
        super().__init__(source, 1)
        self._stage = stage

    def begin(self, item):
        return item

    def abandon(self, work):
        work.release()

    def finish(self, work):
        stage = self._stage
        done = Done(work)
        columns = Columns.handed(work.values(), work.samples, stage.plan)
        job = _worker.Job(0, work.epoch, _draw_seed(done.state()), work.samples)
        stage.task.prepare()
        with stage.task.generators.kept():
            try:
                result, _, skipped = stage.task.run(job, columns, lambda place: None, _here_memory)
            except _worker.Failed as failure:
                if not isinstance(failure.error, Exception):  # Ctrl-C
                    raise failure.error from None
                error = _error_of(_worker.describe(failure, columns), work.epoch)
                raise error from failure.error
        named = {i: (int(columns.of("index", i, 0)), columns.of("key", i, ""), why) for i, why in skipped.items()}
        stage.count_skipped(named, work.epoch)
        stage.report(stage.task.generators.take_notes())
        done.result = result
        work.release()
        return done


def _here_memory(count):
    return numpy.empty(count, numpy.uint8)


class Done:
    """An item that was made in this process."""

    def __init__(self, item):
        self.epoch, self.began, self.position = item.epoch, item.began, item.position
        self._state = item.state()
        self.result = None

    def state(self):
        return self._state

    def values(self):
        return self.result

    def release(self):
        self.result = None


class Stage:
    """transform= and collate= of one loader. `problems` says what is wrong with them."""

    def __init__(self, transform, collate, on, workers, fields, as_dict, tensors, skip, mixed):
        problems = []
        for name, function in (("transform", transform), ("collate", collate)):
            if function is not None and not callable(function):
                problems.append(f"{name}={function!r} is not a function")
        if on not in ("sample", "batch"):
            problems.append(f'transform_on={on!r} is neither "sample" nor "batch"')
        if on == "batch" and (collate is not None or transform is None):
            problems.append('transform_on="batch" needs a transform, and has no samples to collate')
        if workers is None:
            workers = _default_workers()
        try:
            workers = -1 if isinstance(workers, bool) else workers.__index__()
        except AttributeError:
            workers = -1
        if not 0 <= workers <= WORKERS_MOST:
            problems.append(f"transform_workers is not a whole number from 0 to {WORKERS_MOST}")
        self.problems = problems
        wanted = ["index", "key"] + ["stream"] * mixed
        self.plan = Plan(fields, as_dict, tensors, wanted)
        self.task = _worker.Task(transform, collate, on, skip, self.plan)
        self.on, self.skip, self.workers = on, skip, workers
        self.timeout_s = 600.0
        self.skipped = 0
        self.reported = set()  # libraries
        self.wait_s = 0.0
        self._pool = None
        self._pickled = None
        if workers > 0 and not problems:
            what = "the transform" if collate is None else "collate" if transform is None else "transform or collate"
            try:
                self._pickled = _pickled(what, self.task)
            except InvalidError as error:
                problems.append(str(error))

    def slots(self, given):
        """How many slots the ring needs; what is wrong with the number that was given is in problems."""
        least = self.workers + _AHEAD + 1 if self.workers else 2
        if given is None:
            return str(least + _MORE_SLOTS - 1) if self.workers else None
        if given.isdigit() and int(given) < least:
            self.problems.append(
                f"slots={given} is too few for {self.workers} transform workers: give at least {least}, or leave it out"
            )
        return given

    def start(self, timeout_s):
        """Starts the workers, which do not wait for the first batch to come."""
        self.timeout_s = timeout_s
        if self.workers:
            self.pool()

    def pool(self):
        """The workers; others, where those there were have ended or are another process's."""
        pool = self._pool
        if pool is not None and pool.pid == os.getpid():
            if pool.lost is None:
                with contextlib.suppress(TransformError):
                    pool.drain()
            if pool.lost is None:
                return pool
            self.close()
        self._pool = Pool(*self._pickled, self.workers, self.plan.tensors, self.timeout_s)
        return self._pool

    def let_go(self):
        """Ends workers that cannot be used any more."""
        if self._pool is not None and self._pool.lost is not None:
            self.close()

    def over(self, source):
        return Transforming(source, self) if self.workers else Here(source, self)

    def count_skipped(self, skipped, epoch):
        for index, key, why in skipped.values():
            if "its worker ended" in why:
                continue  # said when it did
            self.skipped += 1
            if self.skipped <= _NAMED_MOST:
                more = "; others are counted, and not named" if self.skipped == _NAMED_MOST else ""
                _log.warning("transform of %s: %s: it is skipped%s", _sample_named(index, key, epoch), why, more)

    def report(self, notes):
        """What random numbers do not repeat, and why: once per library."""
        for library, why in notes.items():
            if library not in self.reported:
                self.reported.add(library)
                _log.warning("random numbers of %s are not the same in every run: %s", library, why)

    def stats(self):
        return {
            "transform_workers": self.workers,
            "transform_wait_s": self.wait_s,
            "transform_samples_skipped": self.skipped,
        }

    def close(self):
        pool, self._pool = self._pool, None
        if pool is None or pool.pid != os.getpid():
            return
        pool.cancel()
        if pool.lost is not None:
            pool.kill()
        pool.close()
        for work in pool.jobs.values():  # nobody reads them any more
            work.release()
