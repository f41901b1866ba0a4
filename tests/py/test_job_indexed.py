"""The machines of a job share an indexed dataset too: what is made of recipes leaves the bucket once, and is compared
on arrival with whatever is known of it."""

import re
import signal

import pytest
from conftest import SANITIZE
from loading import make_blobs
from machines import FakePeer, finish, keys_of, machines
from shards import write_tar
from test_job import Alone, request, sources

__all__ = ["machines"]
pytestmark = pytest.mark.skipif(SANITIZE == "thread", reason="the interpreter cannot load a ThreadSanitizer extension")


class Indexed:
    """An indexed dataset behind a server that counts."""

    def __init__(self, url, env, server, known, size):
        self.url, self.env, self.server, self.known, self.bytes = url, env, server, known, size


@pytest.fixture
def indexed(bucket_dir, serve, run_leat):
    """indexed("objects" or "tar", …): about 60 chunks of four objects each, or of a shard."""

    def make(kind, count=240, sizes=(15000, 17000)):
        known = make_blobs(bucket_dir / "files", count, sizes=sizes)
        (bucket_dir / "bucket" / "raw").mkdir()
        server = serve(bucket_dir)
        env = server.s3_env()
        if kind == "tar":
            known = {name.removesuffix(".bin"): data for name, data in known.items()}
            write_tar(bucket_dir / "bucket" / "raw" / "one.tar", [(f"{k}.bin", v) for k, v in known.items()])
        else:  # uploaded, so that their ETags are MD5s
            run_leat("cp", "--quiet", "-r", bucket_dir / "files", "s3://bucket/raw", env=env, status=0)
        options = ["--format", "tar"] if kind == "tar" else []
        run_leat(
            "index",
            "--quiet",
            "--chunk-size",
            "64KiB",
            *options,
            "s3://bucket/raw",
            "s3://bucket/ds",
            env=env,
            status=0,
        )
        size = sum(p.stat().st_size for p in (bucket_dir / "bucket").rglob("*") if p.is_file())
        return Indexed("s3://bucket/ds", env, server, known, size)

    return make


@pytest.mark.parametrize("kind", ["objects", "tar"])
def test_each_byte_leaves_the_bucket_once_for_the_whole_job(kind, indexed, machines):
    data = indexed(kind)
    before = data.server.stats()["bytes_sent"]
    ranks = machines(2).start({"url": data.url, "epochs": 2, "loader": {"job": "auto"}}, data.env)
    lines = [finish(rank)[0] for rank in ranks]
    for epoch in range(2):
        assert sorted(k for each in lines for k in keys_of(each, epoch)) == sorted(data.known)
    for line in (line for each in lines for line in each):
        assert all(n == len(data.known[k]) for k, n in zip(line.get("keys", ()), line.get("sums", ())))
    sent = data.server.stats()["bytes_sent"] - before
    assert sent <= 1.02 * data.bytes + 2 * 8192  # pointers, roots and places of recipes are read by each
    assert all(each["peer"] > 0 for each in sources(lines))


# One rank, whose job has a second machine that the test plays.


@pytest.fixture
def plays(lt, indexed, runtime, tmp_path, monkeypatch):
    """plays(alter): what rank 0 has read beside a machine that sends `alter(path, what an honest one would send)`, and
    both machines' log."""
    peers = []

    def read(data, answers):
        peer = FakePeer(answers)
        peers.append(peer)
        alone = Alone(lt, data.url, peer.address)
        peer.begin(tmp_path, alone.members["cert"], alone.members["key"])
        alone.join()
        keys = alone.read()
        assert sorted(k for k, _ in keys) == sorted({k for k, _ in keys})
        assert keys and all(data.known[k] == body for k, body in keys)
        return alone, peer

    def run(alter, kind="objects"):
        data = indexed(kind, 60)
        for name, value in data.env.items():
            monkeypatch.setenv(name, value)
        alone, peer = read(data, lambda path: (404, b""))
        asked = sorted({path for path, _ in peer.asked if path.startswith("/chunk/")})
        paths = [path.replace("/chunk/", part) for path in asked for part in ("/chunk/", "/recipe/")]
        honest = {path: request(alone.own, path, alone.members["token"]) for path in paths}
        assert honest and all(code == 200 for code, _ in honest.values())
        alone.close()
        runtime.kill_agents(signal.SIGTERM)
        runtime.wait_gone()
        alone, peer = read(data, lambda path: alter(path, *honest[path]) if path in honest else (404, b""))
        stats = alone.loader.stats()
        alone.close()
        return stats, peer

    yield run
    for peer in peers:
        peer.close()


def flip(body, at):
    out = bytearray(body)
    out[at] ^= 1
    return bytes(out)


def test_what_an_honest_machine_has_made_is_taken(plays):
    stats, peer = plays(lambda path, code, body: (code, body))
    assert stats["bytes_by_source"]["peer"] > 0 and stats["chunks_failed"] == 0
    assert any(path.startswith("/recipe/") for path, _ in peer.asked)


def test_where_the_recipe_is_gone_it_comes_from_the_bucket(plays):
    stats, _ = plays(lambda path, code, body: (404, b"") if path.startswith("/recipe/") else (code, body))
    assert stats["bytes_by_source"]["peer"] > 0


def test_its_first_part_is_made_here_whatever_was_sent(plays):
    stats, _ = plays(lambda path, code, body: (code, flip(body, 100) if path.startswith("/chunk/") else body))
    assert stats["bytes_by_source"]["peer"] > 0


@pytest.mark.parametrize("kind", ["objects", "tar"])  # by the MD5s that ETags are, and by the snapshot
@pytest.mark.parametrize("part", ["chunk", "recipe"])
def test_a_machine_that_sends_other_bytes_is_set_aside(part, kind, plays, runtime):
    stats, _ = plays(lambda path, code, body: (code, flip(body, -9) if path.startswith(f"/{part}/") else body), kind)
    assert stats["bytes_by_source"]["peer"] == 0 and stats["chunks_failed"] == 0
    assert re.search(r"machine 1 of the job .* has sent wrong bytes and is set aside", runtime.log())
