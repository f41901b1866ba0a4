"""A loader among threads and forks: looking at it disturbs nobody, using it twice is refused, children have sessions of their own."""

import contextlib
import os
import signal
import sys
import threading
import time
import types

import pytest
from loading import SLOW, is_idle, numbers, start_python, stopped, wait_until


@contextlib.contextmanager
def waiting(lt, loader, batches, found):
    """A thread waits for the next batch, or for its error, both of which go to `found`."""

    def wait():
        try:
            found.append(next(batches))
        except lt.Error as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: "chunk" in loader.stats()["waiting_for"], what="an answer that names the chunk")
    wait_until(lambda: is_idle(os.getpid(), thread.native_id), what="a thread that waits")
    yield thread
    thread.join()


def test_looking_at_a_loader_from_other_threads_disturbs_no_batch(lt, images):
    expected = [numbers(lt, images.url, epoch=epoch) for epoch in range(3)]
    over = threading.Event()
    looks, failures = [], []

    def look(call):
        while not over.is_set():
            try:
                looks.append(call())
            except Exception as error:
                failures.append(error)
                return

    with lt.Loader(images.url, batch_size=24, fields={"i": lt.index()}) as loader:
        threads = [
            threading.Thread(target=look, args=(call,)) for call in (loader.stats, loader.stats, loader.state_dict)
        ]
        for thread in threads:
            thread.start()
        try:
            seen = []
            for _ in range(3):
                seen.append([i.tolist() for (i,) in loader])
            for epoch in (7, 9, 3):
                loader.set_epoch(epoch)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not failures
        assert seen == expected
        assert len(looks) > 20
        assert loader.stats()["batches"] == sum(map(len, expected))


def test_statistics_come_while_a_batch_is_waited_for_and_a_second_use_is_refused(lt, runtime, blobs, held):
    server = held(blobs)
    found = []
    with lt.Loader("s3://bucket/ds", batch_size=8, fields={"b": lt.bytes("bin")}, as_numpy=True) as loader:
        before = loader.state_dict()
        with waiting(lt, loader, iter(loader), found) as thread:
            for _ in range(20):
                assert "chunk" in loader.stats()["waiting_for"]
                assert loader.state_dict() == before
            batches = iter(loader._core)
            for use in (
                loader.close,
                lambda: next(batches),
                lambda: next(iter(loader)),
                lambda: loader.set_epoch(4),
                lambda: loader.load_state_dict(before),
            ):
                with pytest.raises(RuntimeError, match="thread"):
                    use()
            assert thread.is_alive() and not found, "it has not been disturbed"
            server.go.set()
    assert len(found[0][0]) == 8


def in_child(what):
    """Runs a function in a fork; its text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = what()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, str(text).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def test_fork_while_another_thread_waits_for_a_batch(lt, runtime, blobs, held):
    """The child has a session and a deadline of its own."""
    held(blobs)
    timeout = 20 * SLOW  # longer than a machine takes to begin waiting
    options = {"batch_size": 8, "fields": {"b": lt.bytes("bin")}, "as_numpy": True}
    with lt.Loader("s3://bucket/ds", **options), lt.Loader("s3://bucket/ds", timeout=timeout, **options) as loader:
        batches, found = iter(loader), []
        with waiting(lt, loader, batches, found):
            for _ in range(3):  # a fork in the moment in which the thread looks for its batch is refused in the child
                began = time.monotonic()
                said = in_child(lambda: next(batches))
                if "forked" not in said:
                    break
        assert said.startswith("TimeoutError: no batch"), said
        assert time.monotonic() - began > timeout - 0.1
        assert "no batch" in str(found[0])


def test_fork_while_another_thread_moves_the_loader_is_refused_in_the_child(lt, runtime, images):
    first = lt.Loader(images.url, batch_size=24, fields={"i": lt.index()}, as_numpy=True)  # it has brought up the agent
    loader = lt.Loader(images.url, batch_size=24, timeout=60, fields={"i": lt.index()}, as_numpy=True)

    thread = threading.Thread(target=loader.set_epoch, args=(5,))
    with stopped(runtime.agent()):
        thread.start()
        wait_until(lambda: is_idle(os.getpid(), thread.native_id), what="a thread that waits")
        assert "forked" in in_child(lambda: next(iter(loader)))
        assert "forked" in in_child(loader.state_dict)
        assert in_child(loader.close) == "None"
    thread.join()
    assert [i.tolist() for (i,) in loader] == numbers(lt, images.url, epoch=5), "the parent's move was not disturbed"
    loader.close()
    first.close()


def test_children_do_not_keep_their_parents_session(lt, runtime, images):
    """A child that has nothing to do with the loader, as a DataLoader's worker, has copies of its descriptors."""
    loader = lt.Loader(images.url, batch_size=24, fields={"i": lt.index()}, as_numpy=True)
    next(iter(loader))
    pid = os.fork()
    if pid == 0:
        signal.pause()
    try:
        loader.close()
        runtime.wait_gone()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


ORPHANED = """
import os, signal, sys, time, leat
loader = leat.Loader(sys.argv[1], batch_size=24, fields={"i": leat.index()}, as_numpy=True)
batches = iter(loader)
first = next(batches)[0].tolist()
child = os.fork()
if child == 0:
    sys.stdin.readline()  # until the parent has ended
    print([i.tolist() for i, in batches], flush=True)
    signal.pause()
print(child, first, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_ranks_session_ends_though_its_child_lives_and_the_child_goes_on(lt, runtime, images):
    expected = numbers(lt, images.url)
    process = start_python(runtime, ORPHANED, images.url)
    child, first = process.stdout.readline().split(" ", 1)
    try:
        process.wait(60)
        runtime.wait_gone()  # nobody is left that it serves
        process.stdin.write("go\n")
        process.stdin.flush()
        assert eval(first) == expected[0]
        assert eval(process.stdout.readline()) == expected[1:]
        assert len(runtime.agents()) == 1
    finally:
        os.kill(int(child), signal.SIGKILL)
        process.communicate()


def test_workers_of_a_dataloader_neither_keep_nor_disturb_a_loader(lt, runtime, images):
    torch_data = pytest.importorskip("torch.utils.data")
    expected = numbers(lt, images.url)
    runtime.wait_gone()
    loader = lt.Loader(images.url, batch_size=24, fields={"i": lt.index()})
    other = torch_data.DataLoader(
        list(range(64)), batch_size=4, num_workers=2, persistent_workers=True, multiprocessing_context="fork"
    )
    seen = [i.tolist() for (i,), _ in zip(loader, other)]
    assert seen == expected
    wait_until(lambda: is_idle(runtime.agent()), what="an idle agent")
    loader.close()
    runtime.wait_gone()
    assert len(list(other)) == 16


IMPORTING = """
import sys, threading, leat
other = threading.Thread(target=lambda: __import__("torch"))
other.start()
passes = 0
while other.is_alive() or not passes:
    with leat.Loader(sys.argv[1], batch_size=24, fields={"i": leat.index()}, as_numpy=True) as loader:
        assert sum(len(i) for i, in loader) == 192
        len(loader)
    passes += 1
other.join()
print(passes)
"""


@pytest.mark.long
def test_another_thread_may_import_torch_meanwhile(lt, runtime, images):
    pytest.importorskip("torch")
    process = start_python(runtime, IMPORTING, images.url)
    out, stderr = process.communicate(timeout=120 * SLOW)
    assert process.returncode == 0, stderr
    assert int(out) > 1


@pytest.mark.parametrize("parts", [[], ["distributed"], ["utils"], ["utils", "utils.data", "distributed"]], ids=str)
def test_torch_that_is_half_imported_is_no_torch(lt, images, monkeypatch, parts):
    torch = types.ModuleType("torch")
    for name in parts:
        above = torch.utils if name == "utils.data" else torch
        setattr(above, name.rpartition(".")[2], types.ModuleType(f"torch.{name}"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    with lt.Loader(images.url, batch_size=24, fields={"i": lt.index()}, as_numpy=True) as loader:
        assert sum(1 for _ in loader) == len(loader) == 8
