"""The account: waits by cause add up to what the caller waited, whatever a wait ended with, and sums outlive agents."""

import json
import re
import shutil
import subprocess
import threading
import time

import pytest
from conftest import ROOT
from loading import SLOW, chunk_requests, make_images, pack, stopped, wait_until


class Watch:
    """A loader whose calls are timed from outside: what it says it waited is no more than that. Tests compare it with what it
    must have waited at the least, by the latency of a server or a deadline: both hold on the slowest machine."""

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

    def check(self):
        """The parts are the whole, and the whole is not more than what was waited."""
        stats = self.loader.stats()
        causes = stats["wait_by_cause_s"]
        assert sum(causes.values()) == pytest.approx(stats["wait_s"], rel=1e-3, abs=1e-4)
        assert stats["wait_s"] <= self.waited
        return stats, causes


URL = "s3://bucket/ds"


def fields(lt):
    return {"x": lt.image("png").resize((16, 16)), "i": lt.index()}


def test_waits_for_a_slow_bucket_are_fetch_and_add_up(lt, runtime, in_bucket, images):
    server = in_bucket(images, "--latency", "60ms", "--bandwidth", "400kb/s")
    it = Watch(lt, URL, batch_size=8, fields=fields(lt))
    it.read()
    stats, causes = it.check()
    line_s = stats["bytes_by_source"]["bucket"] / 400_000
    assert causes["fetch"] > 0.5 * line_s, "most of what the bytes take on the line, whatever else takes time meanwhile"
    assert causes["open"] > 0.1, "the pointer, the root: a round trip each"
    assert causes["agent"] == causes["ranks"] == causes["slots"] == 0
    assert stats["fetch_wait_by_source_s"] == {"bucket": pytest.approx(causes["fetch"]), "disk": 0, "peer": 0}
    assert server.stats()["bytes_sent"] >= stats["bytes_by_source"]["bucket"] > 0
    assert stats["requests"] >= stats["chunks_by_source"]["bucket"] == stats["chunks_fetched"] >= images.chunks
    assert stats["request_s"] > 0.06 * stats["requests"] * 0.9
    assert stats["prep_cpu_s"] > 0
    it.loader.close()


def test_waits_for_preparation_are_prep(lt, leat_bin, tmp_path):
    make_images(tmp_path / "files", 24, sides=(200, 300))
    big = pack(leat_bin, tmp_path / "files", tmp_path / "ds")
    it = Watch(lt, big.url, batch_size=12, threads=1, fields={"x": lt.image("png").resize((512, 512))})
    it.read()
    stats, causes = it.check()
    assert stats["chunks_fetched"] == big.chunks, "everything is in memory from here on"

    def prep_grew():
        it.read()
        return it.check()[1]["prep"] > causes["prep"]

    wait_until(prep_grew, what="another wait for preparation")
    later, causes_later = it.check()
    assert causes_later["fetch"] == causes["fetch"]
    assert later["chunks_fetched"] == big.chunks
    assert later["prep_cpu_s"] > stats["prep_cpu_s"] > 0
    it.loader.close()


def test_parts_add_up_after_lost_agents_and_sums_go_on(lt, runtime, in_bucket, images):
    in_bucket(images, "--latency", "20ms")
    it = Watch(lt, URL, batch_size=8, fields=fields(lt))
    it.begin()
    calls, seen, requests = 0, 0, 0
    while (batch := it.next()) is not None:
        seen += len(batch[1])
        calls += 1
        if calls in (3, 9, 15):
            now = it.loader.stats()
            assert now["requests"] > requests, "sums go on where another agent's began at 0"
            requests = now["requests"]
            runtime.kill_agents()
    assert seen == images.samples // 8 * 8
    stats, causes = it.check()
    assert stats["agents_lost"] == 3
    assert causes["agent"] > 0.01
    assert stats["chunks_fetched"] > images.chunks, "those of agents that are gone count too"
    assert stats["samples"] == seen
    it.loader.close()


def test_parts_add_up_while_an_agent_dies_in_a_wait(lt, runtime, held, images):
    server = held(images)
    it = Watch(lt, URL, batch_size=100, fields=fields(lt))
    it.begin()

    def kill():
        wait_until(lambda: chunk_requests(server), what="a wait for a chunk")
        runtime.kill_agents()
        time.sleep(0.2)  # nothing depends on it but the numbers below
        server.go.set()

    killer = threading.Thread(target=kill)
    killer.start()
    assert it.next() is not None
    killer.join()
    stats, causes = it.check()
    assert stats["agents_lost"] == 1
    assert causes["agent"] > 0, "the successor opens the dataset again"
    assert stats["wait_s"] > 0.2
    it.loader.close()


def test_time_outs_of_a_hung_bucket_count_once_and_as_fetch(lt, runtime, held, images, blobs):
    held(blobs)
    timeout = 0.5 * SLOW
    with lt.Loader(images.url, batch_size=8, fields=fields(lt)):  # the agent is there already
        it = Watch(lt, URL, batch_size=100, fields={"b": lt.bytes("bin")}, timeout=timeout)
        it.begin()
        for _ in range(3):
            with pytest.raises(lt.errors.TimeoutError):
                it.next()
        stats, causes = it.check()
        assert stats["timeouts"] == 3
        assert causes["fetch"] >= 3 * timeout * 0.95
        it.loader.close()


def test_stopped_agent_is_what_was_waited_for(lt, runtime, images):
    with lt.Loader(images.url, batch_size=8, fields=fields(lt)):
        it = Watch(lt, images.url, batch_size=8, fields=fields(lt), timeout=1.0)
        it.begin()
        assert it.next() is not None
        with stopped(runtime.agent()), pytest.raises(lt.errors.TimeoutError):
            while it.next() is not None:
                pass
        stats, causes = it.check()
        assert causes["agent"] > 0.9
        assert stats["timeouts"] == 1
        while it.next() is not None:
            pass
        it.check()
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
    stats, causes = it.check()
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
    it.check()  # an error is made and thrown, which takes longer than a call
    (tmp_path / "away").rename(victim)
    assert it.next() is not None or it.next() is None
    it.check()
    it.loader.close()


def test_series_reaches_from_the_first_batch_to_now(lt, runtime, in_bucket, images):
    in_bucket(images, "--latency", "20ms")
    loader = lt.Loader(URL, batch_size=8, fields=fields(lt), as_numpy=True)
    assert "series" not in loader.stats()
    began = time.time()

    def three_points():
        for _ in loader:
            time.sleep(0.02)
        return len(loader.stats(series=True)["series"]["t"]) >= 3

    wait_until(three_points, what="a series")
    stats = loader.stats(series=True)
    series = stats["series"]
    t = series["t"]
    assert all(b - a >= 0.9 for a, b in zip(t, t[1:]))
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
