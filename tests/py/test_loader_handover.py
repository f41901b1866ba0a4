"""A batch that the program did not get comes again, and no batch comes twice: whatever is raised between next() and its return.

Exceptions are raised at every bytecode that runs in next() and iter(), by a signal handler at every point where one can run,
and by every allocation of Python's that can fail. What is expected is counted here, and not asked of the loader.
"""

import contextlib
import ctypes
import functools
import itertools
import json
import signal
import socket
import sys

import pytest
import transforms as t
from conftest import PRELOAD
from loading import numbers

pytestmark = [pytest.mark.usefixtures("worker_env")] if PRELOAD else []

SAMPLES, BATCH = 12, 3
PER_EPOCH = SAMPLES // BATCH
OWN = sys._getframe().f_code.co_filename


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """Samples whose conversion runs Python: JSON."""
    from loading import import_leat

    lt = import_leat()
    path = tmp_path_factory.mktemp("notes") / "ds"
    with lt.Writer(path, {"j": "json", "n": "int"}) as writer:
        for i in range(SAMPLES):
            writer.write({"j": {"i": i}, "n": i})
    return path


class Raised(BaseException):
    """Like Ctrl-C's, no Exception."""


class Timer(Exception):
    """As some signal handlers raise it."""


class At:
    """Does something at the n-th bytecode that runs in a block, in whatever function of others."""

    def __init__(self, n, act):
        self.left, self._act = n, act

    def _event(self, frame, event, _):
        if frame.f_code.co_filename == OWN:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                self._act()
        return self._event

    def __enter__(self):
        sys.settrace(self._event)

    def __exit__(self, *_):
        sys.settrace(None)


def raises(kind):
    def act():
        raise kind

    return act


class User:
    """Takes batches, one after the other over all epochs, and checks that each is the one that is due."""

    def __init__(self, lt, notes, loader):
        self.loader = loader
        orders = (numbers(lt, notes, seed=3, epoch=e, batch_size=BATCH) for e in itertools.count())
        self.due = (indices for order in orders for indices in order)
        self.wanted = next(self.due)
        self.count = 0
        self.iterator = None

    def take(self, inside=contextlib.nullcontext):
        """A batch, with next() and iter() in a context of their own. What is raised leaves the loader where it was."""
        while True:
            if self.iterator is None:
                with inside():
                    iterator = iter(self.loader)
                self.iterator = iterator
            batch = None
            with inside():
                # Not next(), a function: when it has returned, a handler may run before the assignment.
                for batch in self.iterator:  # noqa: B007
                    break
            if batch is not None:
                break
            self.iterator = None
        assert batch[0].tolist() == self.wanted, f"batch {self.count}"
        self.wanted = next(self.due)
        self.count += 1

    def check_state(self):
        epoch, position = divmod(self.count, PER_EPOCH)
        at = self.loader.state_dict()["streams"][0]
        stands = (at["epoch"], at["position"])
        assert stands in ((epoch, position * BATCH), (epoch - 1, SAMPLES) if position == 0 else ()), stands


def interrupt_everywhere(user, act, kinds, step=1):
    """Until a call has so few bytecodes that nothing happens in it. After each interruption a batch comes in peace."""
    interrupted = 0
    for n in itertools.count(1, step):
        before = user.count
        at = At(n, act)
        try:
            user.take(lambda at=at: at)
        except kinds:
            assert user.count == before
            user.check_state()
            interrupted += 1
            if interrupted % 3:  # else interrupted again at once, while it recovers
                user.take()
                user.check_state()
        else:
            if at.left > 0:
                return interrupted


STAGES = {"plain": {}, "here": {"transform_workers": 0}, "worker": {"transform_workers": 1}}


def loader_of(lt, notes, stage, **more):
    fields = {"n": lt.index(), "j": lt.json("j"), "v": lt.valid()}
    if stage != "plain":
        more |= {"transform": t.same, "transform_on": "batch", **STAGES[stage]}
    return lt.Loader(notes, fields=fields, batch_size=BATCH, seed=3, **{"as_numpy": True, **more})


@pytest.mark.parametrize("kind", [Raised, Timer])
@pytest.mark.parametrize("stage", ["plain", "here", "worker"])
def test_an_exception_at_any_bytecode_costs_no_batch(lt, notes, stage, kind):
    with loader_of(lt, notes, stage) as loader:
        step = {"plain": 1, "here": 7, "worker": 41}[stage]
        kinds = (kind, lt.errors.TransformError)  # the latter where a Timer comes inside the transform
        assert interrupt_everywhere(User(lt, notes, loader), raises(kind), kinds, step) > 10


def test_a_signal_handler_that_runs_in_c_costs_no_batch(lt, notes, monkeypatch):
    """A signal comes while C converts the last value: its handler runs after all of Python's functions, in next() itself."""
    ran = []

    def handler(number, frame):
        ran.append(frame.f_code.co_name)
        raise Raised

    before = signal.signal(signal.SIGINT, handler)
    try:
        with loader_of(lt, notes, "plain") as loader:
            user = User(lt, notes, loader)
            for _ in range(2 * PER_EPOCH):
                user.take()
                with monkeypatch.context() as patch, pytest.raises(Raised):
                    patch.setattr(json, "loads", ctypes.pythonapi.PyErr_SetInterrupt)  # notes a signal, and no more
                    user.take()
                user.check_state()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ran == ["take"] * 2 * PER_EPOCH


@pytest.mark.parametrize("stage", ["plain", "here"])
def test_an_allocation_of_pythons_that_fails_costs_no_batch(lt, notes, stage):
    memory = pytest.importorskip("_testcapi")

    class Fails:
        def __init__(self, n):
            self.n = n

        def __enter__(self):
            memory.set_nomemory(self.n, self.n + 1)

        def __exit__(self, *_):
            memory.remove_mem_hooks()

    with loader_of(lt, notes, stage) as loader:
        user = User(lt, notes, loader)
        user.take()
        failed = 0
        for n in range(1, 400, {"plain": 1, "here": 7}[stage]):
            try:
                user.take(lambda n=n: Fails(n))
            except (MemoryError, lt.errors.TransformError):
                failed += 1
                user.check_state()
        assert failed > 10


def test_ctrl_c_while_a_batch_goes_to_a_worker_costs_no_batch(lt, notes, monkeypatch):
    """The worker has the batch by then: its answer is to a question that nobody remembers asking."""
    send_fds = socket.send_fds

    def sends(*what):
        send_fds(*what)
        raise Raised

    with loader_of(lt, notes, "worker") as loader:
        user = User(lt, notes, loader)
        user.take()
        with monkeypatch.context() as patch, pytest.raises(Raised):
            patch.setattr(socket, "send_fds", sends)
            for _ in range(2 * PER_EPOCH):  # some are with the worker already
                user.take()
        user.check_state()
        for _ in range(2 * PER_EPOCH):
            user.take()


def test_a_handler_sees_the_state_before_the_batch(lt, notes):
    """A handler that saves a state while a batch is converted: the batch is not in it yet."""
    with loader_of(lt, notes, "plain") as loader:
        user = User(lt, notes, loader)
        user.take()
        for n in range(1, 200, 10):
            user.take(lambda n=n: At(n, user.check_state))


@pytest.mark.parametrize("stage", ["plain", "here"])
def test_a_loader_that_is_used_by_another_call_says_so(lt, notes, stage):
    """From a thread or from a signal handler: here from the transform, or from what converts JSON."""
    with loader_of(lt, notes, stage) as loader:
        user = User(lt, notes, loader)
        user.take()
        said = []
        for call in (lambda: next(user.iterator), lambda: loader.seek(0), lambda: loader.set_epoch(5), loader.close):
            act = functools.partial(note_error, call, said)
            if user.count % PER_EPOCH == 0:
                user.take()  # with iter(), which is no call that is under way
            user.take(lambda act=act: At(30, act))
        assert [type(error) for error in said] == [lt.errors.BusyError] * 4


def note_error(call, said):
    try:
        call()
    except Exception as error:
        said.append(error)


@pytest.mark.long
@pytest.mark.parametrize("stage", ["here", "worker"])
def test_an_exception_at_each_single_bytecode_costs_no_batch(lt, notes, stage):
    with loader_of(lt, notes, stage) as loader:
        assert interrupt_everywhere(User(lt, notes, loader), raises(Raised), Raised) > 500
