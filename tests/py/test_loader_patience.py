"""Waits that take long: every call keeps the caller's own deadline and ends at Ctrl-C, and says what it waits for before that."""

import contextlib
import logging
import shutil
import signal
import socket
import threading
import time

import pytest
from loading import SLOW, is_idle, start_python, wait_until

pytestmark = pytest.mark.alone  # beside others, moments come too late


@contextlib.contextmanager
def hung(runtime):
    """An agent that does not get to run."""
    runtime.kill_agents(signal.SIGSTOP)
    try:
        yield
    finally:
        runtime.kill_agents(signal.SIGCONT)


def drain(batches):
    for _ in batches:
        pass


def test_every_call_on_a_hung_agent_ends_at_the_callers_deadline_and_names_it(lt, runtime, blobs):
    options = {"batch_size": 8, "timeout": 0.6 * SLOW, "fields": {"i": lt.index()}}
    with lt.Loader(blobs.url, **options) as loader:
        state = loader.state_dict()
        batches = iter(loader)
        next(batches)
        pid = runtime.agent()
        wait_until(lambda: is_idle(pid), what="an agent that has filled its ring")
        calls = {
            "next": lambda: drain(batches),
            "next again": lambda: next(batches),
            "stats": loader.stats,
            "constructor": lambda: lt.Loader(blobs.url, **options),
            "set_epoch": lambda: loader.set_epoch(3),
            "load_state_dict": lambda: loader.load_state_dict(state),
        }
        with hung(runtime):
            for name, call in calls.items():
                began = time.monotonic()
                with pytest.raises(TimeoutError, match=rf"pid {pid}.*stopped"):
                    call()
                took = time.monotonic() - began
                assert 0.5 * SLOW < took < 0.9 * SLOW, name
            began = time.monotonic()
            assert loader.state_dict()["streams"]
            assert loader.epoch == 0, "a jump that failed moves nothing"
        loader.load_state_dict(state)
        assert sum(i.numel() for (i,) in loader) == 296


HUNG_CALLS = """
import os, signal, sys, threading, time, leat
url, agent = sys.argv[1:]
options = {"batch_size": 8, "timeout": 60, "fields": {"i": leat.index()}, "as_numpy": True}
loader = leat.Loader(url, **options)
batches = iter(loader)
next(batches)
os.kill(loader.stats()["agent_pid"], signal.SIGSTOP)
calls = [
    lambda: [None for _ in batches],
    loader.stats,
    lambda: leat.Loader(url, **options),
    lambda: loader.set_epoch(3),
    lambda: leat.Loader(url, scope="other", **options),
]
for n, call in enumerate(calls):
    if n == len(calls) - 1:
        os.environ["LEAT_AGENT"] = agent  # one that never becomes ready
    pressed = []
    timer = threading.Timer(0.3, lambda: (pressed.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT)))
    timer.start()
    try:
        call()
        print("no interruption of call", n, flush=True)
    except KeyboardInterrupt:
        print(f"{time.monotonic() - pressed[0]:.3f}", flush=True)
"""


def test_ctrl_c_ends_every_call_on_a_hung_agent(lt, runtime, blobs, tmp_path):
    never = tmp_path / "never"
    never.write_text("#!/bin/sh\nexec sleep 5\n")
    never.chmod(0o755)
    process = start_python(runtime, HUNG_CALLS, blobs.url, never)
    out, stderr = process.communicate(timeout=60 * SLOW)
    runtime.kill_agents(signal.SIGCONT)
    assert process.returncode == 0, stderr
    assert len(out.split()) == 5, out
    for seconds in out.split():
        assert float(seconds) < 0.5 * SLOW, out


def test_bucket_that_is_down_is_told_of_after_seconds_and_named_at_the_deadline(
    lt, runtime, blobs, tmp_path, serve, monkeypatch, caplog
):
    folder = tmp_path / "served"
    shutil.copytree(blobs.path, folder / "bucket" / "ds")
    server = serve(folder)
    for name, value in server.s3_env().items():
        monkeypatch.setenv(name, value)
    timeout = 7 * SLOW
    options = {"batch_size": 20, "window": 4, "ram": "700kb", "timeout": timeout, "fields": {"b": lt.bytes("bin")}}
    loader = lt.Loader("s3://bucket/ds", as_numpy=True, **options)
    failures = {}

    def attempt(name, call):
        began = time.monotonic()
        try:
            call()
        except TimeoutError as error:
            failures[name] = (str(error), time.monotonic() - began)

    server.process.send_signal(signal.SIGSTOP)
    try:
        with caplog.at_level(logging.WARNING, logger="leat"):
            other = {**options, "ram": None, "as_numpy": True}
            threads = [
                threading.Thread(target=attempt, args=("next", lambda: drain(loader))),
                threading.Thread(target=attempt, args=("open", lambda: lt.Loader("s3://bucket/ds", **other))),
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert failures.keys() == {"next", "open"}
    for text, took in failures.values():
        assert "s3://bucket/ds" in text
        assert timeout - 0.1 < took < timeout + 1 * SLOW
    said = sorted(record.getMessage() for record in caplog.records if record.name == "leat")
    said = [text for text in said if " for 5 s: " in text]  # where everything is slow there are later ones too
    assert len(said) == 2, said
    assert "no batch for 5 s: the agent waits for chunk" in said[0]
    assert "s3://bucket/ds" in said[0]
    assert f"opening 's3://bucket/ds' and waits for an answer of {server.url}" in said[1]
    drain(loader)
    loader.close()


@pytest.fixture
def silent_bucket():
    """The address of a server that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(256)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_openings_on_a_bucket_that_hangs_keep_no_other_loader_waiting(
    lt, runtime, images, blobs, silent_bucket, monkeypatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    fields = {"i": lt.index()}
    failures = []

    def hang(n):
        try:
            lt.Loader(
                f"s3://bucket/{n}",
                endpoint_url=silent_bucket,
                region="x",
                batch_size=8,
                timeout=2.5 * SLOW,
                fields=fields,
            )
        except lt.Error as error:
            failures.append(error)

    healthy = lt.Loader(images.url, batch_size=8, fields=fields)
    threads = [threading.Thread(target=hang, args=(n,)) for n in range(24)]
    for thread in threads:
        thread.start()
    time.sleep(0.5 * SLOW)
    began = time.monotonic()
    for epoch in (5, 6, 7):
        healthy.set_epoch(epoch)
        next(iter(healthy))
    with lt.Loader(blobs.url, batch_size=8, fields=fields) as new:
        next(iter(new))
    assert time.monotonic() - began < 1.5 * SLOW
    assert not failures, "they still hang"
    for thread in threads:
        thread.join()
    assert {type(error) for error in failures} == {lt.errors.TimeoutError}
    assert len(failures) == 24
    healthy.close()
    runtime.wait_gone(10)
