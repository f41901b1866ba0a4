"""A loader among threads and forks: looking at it disturbs nobody, using it twice is refused, children have sessions of their own."""

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
import types

import pytest
from loading import SLOW, is_idle, numbers, start_python, wait_until

alone = pytest.mark.alone  # beside others, moments come too late


@pytest.fixture
def stuck(lt, runtime, blobs, tmp_path, serve, monkeypatch):
    """A loader whose bucket does not give a chunk."""
    folder = tmp_path / "served"
    shutil.copytree(blobs.path, folder / "bucket" / "ds")
    server = serve(folder, "--fault", "stall=1", "--fault-only", "chunks/")
    for name, value in server.s3_env().items():
        monkeypatch.setenv(name, value)
    return lt.Loader("s3://bucket/ds", batch_size=8, timeout=3 * SLOW, fields={"b": lt.bytes("bin")}, as_numpy=True)


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


@alone
def test_statistics_come_while_a_batch_is_waited_for_and_a_second_use_is_refused(lt, stuck):
    failures = []

    def wait():
        try:
            next(iter(stuck))
        except lt.Error as error:
            failures.append(error)

    before = stuck.state_dict()
    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: "chunk" in stuck.stats()["waiting_for"], 2, "an answer that names the chunk")
    for _ in range(20):
        began = time.monotonic()
        assert "chunk" in stuck.stats()["waiting_for"]
        assert stuck.state_dict() == before
        assert time.monotonic() - began < 0.5 * SLOW
    batches = iter(stuck._core)
    for use in (stuck.close, lambda: next(batches), lambda: stuck.set_epoch(4), lambda: stuck.load_state_dict(before)):
        with pytest.raises(RuntimeError, match="thread"):
            use()
    assert thread.is_alive(), "it has not been disturbed"
    thread.join()
    assert isinstance(failures[0], TimeoutError)
    assert "chunk" in str(failures[0])
    stuck.close()


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


@alone
def test_fork_while_another_thread_waits_for_a_batch(lt, stuck):
    batches = iter(stuck)
    failures = []

    def wait():
        try:
            next(batches)
        except lt.Error as error:
            failures.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: "chunk" in stuck.stats()["waiting_for"], 2, "a thread that waits")
    for _ in range(3):  # a fork in the moment in which the thread looks for its batch is refused in the child
        began = time.monotonic()
        said = in_child(lambda: next(batches))
        if "forked" not in said:
            break
    assert said.startswith("TimeoutError: no batch"), said
    assert time.monotonic() - began > 2 * SLOW, "with a session and a deadline of its own"
    thread.join()
    assert "no batch" in failures[0]
    stuck.close()


def test_fork_while_another_thread_moves_the_loader_is_refused_in_the_child(lt, runtime, images):
    loader = lt.Loader(images.url, batch_size=24, timeout=1.5 * SLOW, fields={"i": lt.index()}, as_numpy=True)

    def move():
        with contextlib.suppress(TimeoutError):
            loader.set_epoch(5)

    thread = threading.Thread(target=move)
    runtime.kill_agents(signal.SIGSTOP)
    try:
        thread.start()
        time.sleep(0.3)
        assert "forked" in in_child(lambda: next(iter(loader)))
        assert "forked" in in_child(loader.state_dict)
        assert in_child(loader.close) == "None"
        thread.join()
    finally:
        runtime.kill_agents(signal.SIGCONT)
    assert [i.tolist() for (i,) in loader] == numbers(lt, images.url), "the parent goes on where it was"
    loader.close()


def test_children_do_not_keep_their_parents_session(lt, runtime, images):
    """A child that has nothing to do with the loader, as a DataLoader's worker, has copies of its descriptors."""
    loader = lt.Loader(images.url, batch_size=24, fields={"i": lt.index()}, as_numpy=True)
    next(iter(loader))
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    try:
        loader.close()
        runtime.wait_gone(5)
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
    time.sleep(60)
    os._exit(0)
print(child, first, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_ranks_session_ends_though_its_child_lives_and_the_child_goes_on(lt, runtime, images):
    expected = numbers(lt, images.url)
    process = start_python(runtime, ORPHANED, images.url)
    child, first = process.stdout.readline().split(" ", 1)
    try:
        process.wait(20)
        runtime.wait_gone(5)  # nobody is left that it serves
        process.stdin.write("go\n")
        process.stdin.flush()
        assert eval(first) == expected[0]
        assert eval(process.stdout.readline()) == expected[1:]
        assert len(runtime.agents()) == 1
    finally:
        os.kill(int(child), signal.SIGKILL)
        process.communicate()


@alone
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
    runtime.wait_gone(5)
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
