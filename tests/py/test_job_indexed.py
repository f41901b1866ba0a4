"""The machines of a job share an indexed dataset too: what is made of recipes leaves the bucket once, and is compared
on arrival with whatever is known of it."""

import re
import signal

import pytest
from conftest import SANITIZE
from loading import make_blobs
from machines import FakePeer, check_epochs, finish
from shards import write_tar
from test_job import Alone, request, sources

pytestmark = pytest.mark.skipif(SANITIZE == "thread", reason="the interpreter cannot load a ThreadSanitizer extension")


class Indexed:
    """An indexed dataset in a folder to be served, and its samples."""

    def __init__(self, folder, known):
        self.folder, self.known = folder, known
        self.bytes = sum(p.stat().st_size for p in (folder / "bucket").rglob("*") if p.is_file())
        self.honest = {}  # what an honest machine of its job answers, by path


MADE = {}


def make(kind, count, folder, serve, run_leat):
    """Uploaded, so that ETags are MD5s. They are part of the dataset's id, and the id decides which machine owns which chunk:
    with the time of a file in its ETag, the machine that a test plays had none to send in some runs."""
    known = make_blobs(folder / "files", count, sizes=(15000, 17000))
    (folder / "served" / "bucket").mkdir(parents=True)
    env = serve(folder / "served").s3_env()
    if kind == "tar":
        known = {name.removesuffix(".bin"): data for name, data in known.items()}
        (folder / "shards").mkdir()
        write_tar(folder / "shards" / "one.tar", [(f"{k}.bin", v) for k, v in known.items()])
    run_leat(
        "cp", "--quiet", "-r", folder / ("shards" if kind == "tar" else "files"), "s3://bucket/raw", env=env, status=0
    )
    options = ["--quiet", "--chunk-size", "64KiB", *(["--format", "tar"] if kind == "tar" else [])]
    run_leat("index", *options, "s3://bucket/raw", "s3://bucket/ds", env=env, status=0)
    return Indexed(folder / "served", known)


@pytest.fixture
def indexed(serve, run_leat, tmp_path_factory):
    """indexed("objects" or "tar"): s3://bucket/ds with about four objects in a chunk, or of a shard, and a server that counts."""

    def start(kind, count=240):
        if (kind, count) not in MADE:
            MADE[kind, count] = make(kind, count, tmp_path_factory.mktemp(kind), serve, run_leat)
        data = MADE[kind, count]
        return data, serve(data.folder)

    return start


@pytest.mark.parametrize("kind", ["objects", "tar"])
def test_each_byte_leaves_the_bucket_once_for_the_whole_job(kind, indexed, machines):
    data, server = indexed(kind)
    job = {"url": "s3://bucket/ds", "epochs": 2, "loader": {"job": "auto"}}
    ranks = machines(2).start(job, server.s3_env())
    lines = [finish(rank)[0] for rank in ranks]
    check_epochs(lines, data, 2)
    sent = server.stats()["bytes_sent"]
    assert sent <= 1.02 * data.bytes + 2 * 8192  # pointers, roots and places of recipes are read by each
    assert all(each["peer"] > 0 for each in sources(lines))


# One rank, whose job has a second machine that the test plays.


@pytest.fixture
def plays(lt, indexed, runtime, tmp_path, monkeypatch):
    """plays(alter): what rank 0 has read beside a machine that sends `alter(path, what an honest one would send)`, and
    both machines' log."""
    machines = []

    def read(data, answers):
        peer = FakePeer(answers)
        alone = Alone(lt, "s3://bucket/ds", peer.address)
        machines.extend([peer, alone])  # closed even if the test fails: Alone patches the module that others use
        peer.begin(tmp_path, alone.members["cert"], alone.members["key"])
        alone.join()
        keys = alone.read()
        assert sorted(k for k, _ in keys) == sorted({k for k, _ in keys})
        assert keys and all(data.known[k] == body for k, body in keys)
        return alone, peer

    def run(alter, kind="objects"):
        data, server = indexed(kind, 60)
        for name, value in server.s3_env().items():
            monkeypatch.setenv(name, value)
        if not data.honest:
            alone, peer = read(data, lambda path: (404, b""))
            asked = sorted({path for path, _ in peer.asked if path.startswith("/chunk/")})
            paths = [path.replace("/chunk/", part) for path in asked for part in ("/chunk/", "/recipe/")]
            data.honest = {path: request(alone.own, path, alone.members["token"]) for path in paths}
            assert data.honest and all(code == 200 for code, _ in data.honest.values()), (
                peer.asked,
                alone.loader.stats(),
            )
            alone.close()
            runtime.kill_agents(signal.SIGTERM)
            runtime.wait_gone()
        honest = data.honest
        alone, peer = read(data, lambda path: alter(path, *honest[path]) if path in honest else (404, b""))
        stats = alone.loader.stats()
        alone.close()
        return stats, peer

    yield run
    for machine in machines:
        machine.close()


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
