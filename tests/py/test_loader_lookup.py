"""Keys that are looked up while batches flow: the service may be slow, and training does not wait for it as long as the
old ones live."""

import os
import signal
import threading
import time

import pytest
from keys_box import KeysBox
from loading import make_blobs, pack, start_python, wait_until
from test_loader_keys import Guard, bucket, load  # noqa: F401 (a fixture)


@pytest.fixture(scope="module")
def blobs(leat_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lookup")
    known = make_blobs(folder / "files", 200, sizes=(10_000, 30_000))
    return pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "64KiB", known=known)


@pytest.fixture
def box():
    made = KeysBox(life=8)
    yield made
    made.stop()


@pytest.fixture
def no_keys(bucket, monkeypatch):  # noqa: F811
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    return bucket


def for_ever(loader):
    """Steps of a training: it does not take batches as fast as they come."""
    while True:
        for batch in loader:
            time.sleep(0.02)
            yield batch


def slow_program(folder, monkeypatch, life=8):
    """credential_process: answers at once the first time, then waits for the file "go". It counts its runs."""
    script = folder / "keys.sh"
    script.write_text(
        f"""#!/bin/sh
echo run >> {folder}/runs
n=$(wc -l < {folder}/runs)
if [ $n -gt 1 ]; then
    i=0
    while [ ! -e {folder}/go ] && [ $i -lt 1200 ]; do sleep 0.1; i=$((i+1)); done
    [ -e {folder}/go ] || echo > {folder}/gave-up
fi
until=$(date -u -d "@$(($(date +%s) + {life}))" +%Y-%m-%dT%H:%M:%SZ)
echo '{{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "token-'$n'", "Expiration": "'$until'"}}'
"""
    )
    script.chmod(0o755)
    (folder / "config").write_text(f"[default]\ncredential_process = {script}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))


def test_batches_flow_while_a_program_takes_its_time_with_new_keys(lt, no_keys, blobs, monkeypatch, tmp_path):
    """It does not end before 40 batches were taken: who waits for it waits for ever."""
    guard = Guard(no_keys, ["token-1", "token-2", "token-3"])
    slow_program(tmp_path, monkeypatch)
    runs = tmp_path / "runs"
    with load(lt, ram="2mib", window=4) as loader:
        it = for_ever(loader)
        wait_until(lambda: next(it) and runs.read_text().count("run") > 1, what="keys to be asked for again")
        for _ in range(40):
            next(it)
        assert not (tmp_path / "gave-up").exists(), "a batch waited for the keys"
        (tmp_path / "go").touch()

        def renewed():
            next(it)
            return any(guard.token(r) == "token-2" for r in no_keys.requests)

        wait_until(renewed, what="a request with the new keys")
    assert guard.refused == []


def test_batches_flow_while_a_metadata_service_takes_five_seconds(lt, no_keys, blobs, box, monkeypatch):
    """Which is longer than it is waited for: it is asked three times, then again later, and the old keys go on. Who waits
    for it in next() never sees that it was asked once or twice."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{box.url}/container/keys")
    with load(lt, ram="2mib", window=4) as loader:
        it = for_ever(loader)
        next(it)
        box.delay = 5
        before = box.arrived
        wait_until(lambda: next(it) and (box.arrived - before) % 3, what="a batch between two questions", timeout=90)
        assert loader.stats()["timeouts"] == 0


def test_a_loader_is_closed_and_interrupted_while_keys_are_looked_up(
    lt, no_keys, blobs, runtime, monkeypatch, tmp_path
):
    """Ctrl-C, then the end of the process: neither waits for the program, which would take two minutes."""
    slow_program(tmp_path, monkeypatch)
    code = """
import sys, time, leat
loader = leat.Loader("s3://bucket/ds", batch_size=10, fields={"k": leat.key()}, as_numpy=True, ram="2mib", window=4)
runs = sys.argv[1]
try:
    while True:
        for batch in loader:
            time.sleep(0.02)
            if open(runs).read().count("run") > 1:
                print("asked", flush=True)
except KeyboardInterrupt:
    loader.close()
    print("closed", flush=True)
"""
    env = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    process = start_python(runtime, code, str(tmp_path / "runs"), **env)
    assert process.stdout.readline().strip() == "asked"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert "closed" in out
    assert process.returncode == 0
    assert not (tmp_path / "gave-up").exists()


def test_a_child_that_is_forked_during_a_lookup_has_keys_of_its_own(lt, no_keys, blobs, monkeypatch, tmp_path):
    Guard(no_keys, [f"token-{i}" for i in range(1, 50)])
    slow_program(tmp_path, monkeypatch)
    runs = tmp_path / "runs"
    with load(lt, ram="2mib", window=4) as loader:
        it = for_ever(loader)
        wait_until(lambda: next(it) and runs.read_text().count("run") > 1, what="keys to be asked for again")
        (tmp_path / "go").touch()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                next(iter(loader))
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert status == 0
        next(it)


@pytest.mark.long
def test_keys_that_seem_to_be_over_are_asked_for_less_and_less_often(lt, no_keys, blobs, box, runtime, monkeypatch):
    """They came without a Date, so nobody can tell that a clock is wrong; the bucket takes them. Once a second would be
    eight times and more."""
    box.life = -100
    box.dateless = True
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{box.url}/container/keys")
    with load(lt, ram="2mib", window=4) as loader:
        it = for_ever(loader)
        next(it)
        before = box.number
        until = time.monotonic() + 16
        while time.monotonic() < until:
            next(it)
        asked = box.number - before
    assert 1 <= asked <= 5, "after 1, 2, 4 and 8 s"
    assert runtime.log().count("expire: asking for new ones") <= 1


@pytest.mark.long
def test_keys_that_are_refused_are_asked_for_again_while_the_old_ones_live(
    lt, no_keys, blobs, box, runtime, monkeypatch
):
    """An early renewal that fails is tried again, and not only when a bucket has refused something."""
    guard = Guard(no_keys, [f"token-{i}" for i in range(50)])
    box.life = 40
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{box.url}/container/keys")
    with load(lt, ram="2mib", window=4) as loader:
        it = for_ever(loader)
        next(it)
        box.fail["container"] = (404, "no")
        wait_until(lambda: next(it) and "has no new keys" in runtime.log(), what="a failure")
        del box.fail["container"]
        wait_until(lambda: next(it) and box.number > 1, what="new keys")
    assert guard.refused == []


def test_a_rank_that_comes_while_another_looks_for_keys_is_asked_too_and_the_other_may_die(
    lt, no_keys, blobs, runtime, monkeypatch, tmp_path
):
    """The first is killed before its program has an answer: nobody would ever ask for keys again."""
    guard = Guard(no_keys, ["token-1"])
    slow_program(tmp_path, monkeypatch, life=3600)
    code = """
import time, leat
loader = leat.Loader("s3://bucket/ds", batch_size=10, fields={"k": leat.key()}, as_numpy=True, ram="2mib", window=4)
while True:
    for batch in loader:
        time.sleep(0.02)
        print("batch", flush=True)
"""
    env = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    first = start_python(runtime, code, **env)
    try:
        assert first.stdout.readline().strip() == "batch"
        guard.valid = set()
        drain = threading.Thread(target=first.stdout.read)
        drain.start()
        runs = tmp_path / "runs"
        wait_until(lambda: runs.read_text().count("run") > 1, what="the first to be asked")
        guard.valid = {"token-1"}
        monkeypatch.delenv("AWS_CONFIG_FILE")
        for name, value in (("ACCESS_KEY_ID", "A"), ("SECRET_ACCESS_KEY", "S"), ("SESSION_TOKEN", "token-1")):
            monkeypatch.setenv(f"AWS_{name}", value)
        with load(lt, window=4, timeout=60) as second:
            it = iter(second)
            next(it)
            first.kill()
            drain.join()
            guard.valid = {"new"}
            monkeypatch.setenv("AWS_SESSION_TOKEN", "new")
            assert sum(len(keys) for keys, _ in it) == blobs.samples - 10
        assert not (tmp_path / "gave-up").exists()
    finally:
        first.kill()
        (tmp_path / "go").touch()  # its program ends, and lets go of its standard error
        first.communicate()
    assert guard.token(no_keys.requests[-1]) == "new"
