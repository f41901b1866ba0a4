"""The account: waits by cause add up to what the caller waited, whatever a wait ended with, and sums outlive agents."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from loading import SLOW, make_images, pack, wait_until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.alone  # waits are compared with the clock


class Watch:
    """A loader whose calls are timed from outside."""

    def __init__(self, lt, url, **options):
        self.waited = 0.0
        self.loader = self.timed(lambda: lt.Loader(url, as_numpy=True, **options))
        self.iterator = None

    def timed(self, call):
        began = time.monotonic()
        try:
            return call()
        finally:
            self.waited += time.monotonic() - began

    def begin(self):
        self.iterator = self.timed(lambda: iter(self.loader))

    def next(self):
        return self.timed(lambda: next(self.iterator, None))

    def read(self):
        """The rest of an epoch."""
        self.begin()
        while self.next() is not None:
            pass

    def check(self, calls):
        """The parts are the whole, the whole is what was waited: within 1 %, and what Python itself takes for each call."""
        stats = self.loader.stats()
        causes = stats["wait_by_cause_s"]
        assert sum(causes.values()) == pytest.approx(stats["wait_s"], rel=0.01, abs=1e-4)
        assert stats["wait_s"] == pytest.approx(self.waited, rel=0.01, abs=0.0005 * calls * SLOW + 0.005 * SLOW)
        assert stats["wait_s"] <= self.waited
        return stats, causes


@pytest.fixture
def bucket(serve, images, bucket_dir, monkeypatch):
    """The images in a bucket of the given manners; its address."""

    def start(*options):
        shutil.copytree(images.path, bucket_dir / "bucket" / "ds")
        server = serve(bucket_dir, *options)
        for name, value in server.s3_env().items():
            monkeypatch.setenv(name, value)
        return "s3://bucket/ds"

    return start


def fields(lt):
    return {"x": lt.image("png").resize((16, 16)), "i": lt.index()}


def test_waits_for_a_slow_bucket_are_fetch_and_add_up(lt, bucket, images):
    url = bucket("--latency", "60ms", "--bandwidth", "400kb/s")
    it = Watch(lt, url, batch_size=8, fields=fields(lt))
    it.read()
    stats, causes = it.check(calls=images.samples // 8 + 3)
    assert causes["fetch"] > 0.5 * stats["wait_s"]
    assert causes["open"] > 0.1, "the pointer, the root: a round trip each"
    assert causes["other"] < 0.05 * stats["wait_s"] + 0.01 * SLOW
    assert causes["agent"] == causes["ranks"] == causes["slots"] == 0
    assert stats["fetch_wait_by_source_s"] == {"bucket": pytest.approx(causes["fetch"]), "disk": 0, "peer": 0}
    assert stats["bytes_by_source"]["bucket"] > 0
    assert stats["requests"] >= stats["chunks_by_source"]["bucket"] == stats["chunks_fetched"] >= images.chunks
    assert stats["request_s"] > 0.06 * stats["requests"] * 0.9
    assert stats["prep_cpu_s"] > 0
    it.loader.close()


def test_waits_for_preparation_are_prep(lt, leat_bin, tmp_path):
    make_images(tmp_path / "files", 24, sides=(700, 800))
    big = pack(leat_bin, tmp_path / "files", tmp_path / "ds")
    it = Watch(lt, big.url, batch_size=12, threads=1, fields={"x": lt.image("png").resize((512, 512))})
    for _ in range(3):
        it.read()
    stats, causes = it.check(calls=12)
    assert causes["prep"] > 0.5 * (stats["wait_s"] - causes["open"])
    assert 0.05 < stats["prep_cpu_s"] < 60 * SLOW, "processor time: other programs do not count"
    it.loader.close()


def test_parts_add_up_after_lost_agents_and_sums_go_on(lt, runtime, bucket, images):
    url = bucket("--latency", "20ms")
    it = Watch(lt, url, batch_size=8, fields=fields(lt))
    it.begin()
    calls, seen, requests = 0, 0, 0
    while (batch := it.next()) is not None:
        seen += len(batch[1])
        calls += 1
        if calls in (3, 9, 15):
            now = it.loader.stats()
            assert now["requests"] > requests, "sums go on where another agent's began at 0"
            requests = now["requests"]
            time.sleep(0.1)
            runtime.kill_agents()
    assert seen == images.samples // 8 * 8
    stats, causes = it.check(calls)
    assert stats["agents_lost"] == 3
    assert causes["agent"] > 0.01
    assert stats["chunks_fetched"] > images.chunks, "those of agents that are gone count too"
    assert stats["samples"] == seen
    it.loader.close()


def test_parts_add_up_while_an_agent_dies_in_a_wait(lt, runtime, bucket):
    url = bucket("--latency", "400ms")
    it = Watch(lt, url, batch_size=100, fields=fields(lt), timeout=30 * SLOW)
    it.begin()
    killer = threading.Timer(0.2, runtime.kill_agents)
    killer.start()
    assert it.next() is not None
    killer.join()
    stats, causes = it.check(calls=3)
    assert stats["agents_lost"] == 1
    assert causes["agent"] > 0.3, "the successor opens the dataset again, a round trip or two"
    assert causes["fetch"] > 0.3
    it.loader.close()


def test_time_outs_of_a_hung_bucket_count_once_and_as_fetch(lt, bucket):
    url = bucket("--fault", "stall=1", "--fault-only", "chunks/", "--fault-count", "40")
    it = Watch(lt, url, batch_size=100, fields=fields(lt), timeout=0.5 * SLOW)
    it.begin()
    for _ in range(3):
        with pytest.raises(lt.errors.TimeoutError):
            it.next()
    stats, causes = it.check(calls=5)
    assert stats["timeouts"] == 3
    assert causes["fetch"] == pytest.approx(1.5 * SLOW, rel=0.1)
    it.loader.close()


def test_stopped_agent_is_what_was_waited_for(lt, runtime, images):
    it = Watch(lt, images.url, batch_size=8, fields=fields(lt), timeout=1.0)
    it.begin()
    assert it.next() is not None
    agent = runtime.agent()
    os.kill(agent, signal.SIGSTOP)
    try:
        with pytest.raises(lt.errors.TimeoutError):
            while it.next() is not None:
                pass
    finally:
        os.kill(agent, signal.SIGCONT)
    stats, causes = it.check(calls=10)
    assert causes["agent"] > 0.9
    assert causes["fetch"] + causes["prep"] < 0.3 * SLOW
    assert stats["timeouts"] == 1
    while it.next() is not None:
        pass
    it.check(calls=40)
    it.loader.close()


def test_jumps_are_openings_and_keep_what_was_counted(lt, images):
    it = Watch(lt, images.url, batch_size=8, fields=fields(lt))
    it.begin()
    assert it.next() is not None
    before = it.loader.stats()
    for epoch in (5, 2, 9, 4):
        it.timed(lambda epoch=epoch: it.loader.set_epoch(epoch))
        it.begin()
        assert it.next() is not None
    stats, causes = it.check(calls=14)
    assert causes["open"] > before["wait_by_cause_s"]["open"]
    assert stats["prep_cpu_s"] > before["prep_cpu_s"]
    assert stats["chunks_fetched"] <= images.chunks, "one agent, one dataset: counted once"
    it.loader.close()


def test_parts_add_up_after_a_failed_batch(lt, images, tmp_path):
    shutil.copytree(images.path, tmp_path / "ds")
    victim = sorted((tmp_path / "ds").glob("leat/chunks/**/*"))[-1]
    victim.rename(tmp_path / "away")
    it = Watch(lt, str(tmp_path / "ds"), batch_size=24, fields=fields(lt), timeout=20 * SLOW)
    calls = 0
    with pytest.raises(lt.Error):
        for _ in range(3):
            it.begin()
            while it.next() is not None:
                calls += 1
    it.check(calls + 30)  # an error is made and thrown, which takes longer than a call
    (tmp_path / "away").rename(victim)
    assert it.next() is not None or it.next() is None
    it.check(calls + 8)
    it.loader.close()


def test_series_reaches_from_the_first_batch_to_now(lt, bucket, images):
    url = bucket("--latency", "20ms")
    loader = lt.Loader(url, batch_size=8, fields=fields(lt), as_numpy=True)
    assert "series" not in loader.stats()
    began = time.time()
    until = time.monotonic() + 3.3
    while time.monotonic() < until:
        for _ in loader:
            time.sleep(0.02)
    stats = loader.stats(series=True)
    series = stats["series"]
    t = series["t"]
    assert 3 <= len(t) <= 5
    assert all(0.9 <= b - a < 2 for a, b in zip(t, t[1:]))
    assert began - 0.2 <= t[0] <= t[-1] <= time.time() + 0.1
    for values in (series["samples"], series["wait_s"], series["bytes_by_source"]["bucket"]):
        assert len(values) == len(t)
        assert values == sorted(values)
    assert series["samples"][-1] > series["samples"][0]
    assert series["samples"][-1] <= stats["samples"]
    assert max(series["cache_bytes"]) > 0
    loader.close()


def test_agents_tell_the_same_names(lt, runtime, leat_bin, images):
    with lt.Loader(images.url, batch_size=8, fields=fields(lt), as_numpy=True) as loader:
        for _ in loader:
            pass
        wait_until(lambda: loader.stats()["chunks_fetched"] == images.chunks, what="having read every chunk")
        done = subprocess.run([leat_bin, "agent", "ls", "--json"], capture_output=True, text=True, check=True)
        agent = json.loads(done.stdout)
        stats = loader.stats()
    for name in ("bytes_by_source", "chunks_fetched", "requests", "ring_bytes", "cache_bytes", "cache_budget"):
        assert agent[name] == stats[name], name
    assert "wait_s" not in agent, "that is the rank's"


def test_page_lists_every_number(lt, leat_bin, images):
    table = subprocess.run([leat_bin, "agent", "fields"], capture_output=True, text=True, check=True).stdout
    assert table in (ROOT / "docs" / "loader.md").read_text(), (
        "docs/loader.md: put the output of `leat agent fields` there"
    )
    names = set(re.findall(r"^\| `([a-z_.]+)`", table, re.M))
    with lt.Loader(images.url, batch_size=8, fields=fields(lt), as_numpy=True) as loader:
        stats = loader.stats()
    beside = {"waiting_for", "job_problem", "shares", "version", "agent_pid", "socket", "log"}
    said = set(beside)
    for name, value in stats.items():
        said |= {f"{name}.{part}" for part in value} if isinstance(value, dict) else {name}
    assert said == names | beside
