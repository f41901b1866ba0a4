"""Waits that take long: every call keeps the caller's own deadline and ends at Ctrl-C, and says what it waits for before that."""

import logging
import os
import re
import signal
import threading
import time

import pytest
from faulty_server import black_hole
from loading import PYTHON_BUILD, RANK, SLOW, is_idle, start_python, stopped, wait_until


def drain(batches):
    for _ in batches:
        pass


def test_every_call_on_a_hung_agent_ends_at_the_callers_deadline_and_names_it(lt, runtime, blobs):
    options = {"batch_size": 8, "timeout": 0.6 * SLOW, "fields": {"i": lt.index()}}
    with lt.Loader(blobs.url, batch_size=8, fields={"i": lt.index()}), lt.Loader(blobs.url, **options) as loader:
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
        with stopped(pid):
            for call in calls.values():
                began = time.monotonic()
                with pytest.raises(TimeoutError, match=rf"pid {pid}.*stopped"):
                    call()
                assert time.monotonic() - began > 0.5 * SLOW
            assert loader.state_dict()["streams"]
            assert loader.epoch == 0, "a jump that failed moves nothing"
        loader.load_state_dict(state)
        assert sum(i.numel() for (i,) in loader) == 296


HUNG_CALLS = """
import os, signal, sys, threading, leat, loading
url, agent = sys.argv[1:]
options = {"batch_size": 8, "timeout": 600, "fields": {"i": leat.index()}, "as_numpy": True}
loader = leat.Loader(url, **options)
batches = iter(loader)
next(batches)
calls = [
    lambda: [None for _ in batches],
    loader.stats,
    lambda: leat.Loader(url, **options),
    lambda: loader.set_epoch(3),
    lambda: leat.Loader(url, scope="other", **options),
]

def is_waiting():
    if not begun or (begun[0] == len(calls) - 1 and not os.path.exists(f"{agent}.pid")):
        return False
    return loading.is_idle(os.getpid(), main)

def press():
    loading.wait_until(is_waiting)
    os.kill(os.getpid(), signal.SIGINT)

main = threading.get_native_id()
with loading.stopped(loader.stats()["agent_pid"]):
    for n, call in enumerate(calls):
        if n == len(calls) - 1:
            os.environ["LEAT_AGENT"] = agent  # one that never becomes ready
        begun = []
        thread = threading.Thread(target=press)
        thread.start()
        try:
            begun.append(n)
            call()
            print("no interruption of call", n, flush=True)
        except KeyboardInterrupt:
            print("interrupted", n, flush=True)
        thread.join()
"""


def test_ctrl_c_ends_every_call_on_a_hung_agent(lt, runtime, blobs, tmp_path):
    never = tmp_path / "never"
    never.write_text(f"#!/bin/sh\necho $$ > {never}.new\nmv {never}.new {never}.pid\nexec sleep 600\n")
    never.chmod(0o755)
    process = start_python(runtime, HUNG_CALLS, blobs.url, never, PYTHONPATH=f"{PYTHON_BUILD}/python:{RANK.parent}")
    out, stderr = process.communicate(timeout=120)
    os.kill(int((tmp_path / "never.pid").read_text()), signal.SIGKILL)
    assert process.returncode == 0, stderr
    assert out.splitlines() == [f"interrupted {n}" for n in range(5)]


def test_bucket_that_is_down_is_told_of_after_seconds_and_named_at_the_deadline(lt, runtime, blobs, in_bucket, caplog):
    server = in_bucket(blobs)
    timeout = 7 * SLOW
    options = {"batch_size": 20, "window": 4, "timeout": timeout, "fields": {"b": lt.bytes("bin")}, "as_numpy": True}
    loader = lt.Loader("s3://bucket/ds", ram="700kb", **options)
    failures = {}

    def attempt(name, call):
        try:
            call()
        except TimeoutError as error:
            failures[name] = str(error)

    calls = {"next": lambda: drain(loader), "open": lambda: lt.Loader("s3://bucket/ds", **options)}
    with stopped(server.process.pid), caplog.at_level(logging.WARNING, logger="leat"):
        threads = [threading.Thread(target=attempt, args=call) for call in calls.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures.keys() == {"next", "open"}
    for text in failures.values():
        assert "s3://bucket/ds" in text and f"within {timeout} s" in text
    said = [record.getMessage() for record in caplog.records if record.name == "leat"]
    for words in (
        r"no batch for (\d+) s: the agent waits for chunk.*s3://bucket/ds",
        rf"for (\d+) s: the agent is opening 's3://bucket/ds' and waits for an answer of {server.url}",
    ):
        first = next(found for found in (re.search(words, text) for text in said) if found)
        assert int(first.group(1)) >= 5
    drain(loader)
    loader.close()


HANGING = """
import sys, threading, leat

def hang(n):
    leat.Loader(f"s3://bucket/{n}", endpoint_url=sys.argv[1], region="x", batch_size=8, timeout=600, fields={"i": leat.index()})

for n in range(24):
    threading.Thread(target=hang, args=(n,)).start()
"""


def test_openings_on_a_bucket_that_hangs_keep_no_other_loader_waiting(lt, runtime, images, blobs, faulty, monkeypatch):
    server = faulty()
    server.fault(black_hole)
    fields = {"i": lt.index()}
    with lt.Loader(images.url, batch_size=8, fields=fields) as healthy:
        process = start_python(runtime, HANGING, server.url, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
        try:
            # of 24, which is more than an agent begins at once
            wait_until(
                lambda: len({request.key for request in server.requests}) >= 16, what="as many openings as may run"
            )
            for epoch in (5, 6, 7):
                healthy.set_epoch(epoch)
                next(iter(healthy))
            with lt.Loader(blobs.url, batch_size=8, fields=fields) as new:
                next(iter(new))
            assert process.poll() is None, "they still hang"
        finally:
            process.kill()
            print(sorted({request.key for request in server.requests}), *process.communicate())  # where it fails
