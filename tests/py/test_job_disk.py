"""A machine of a job gives the others what it has on disk, and its memory stays as it is."""

import pytest
from conftest import SANITIZE
from machines import FakePeer
from test_job import Alone, request

pytestmark = pytest.mark.skipif(SANITIZE == "thread", reason="the interpreter cannot load a ThreadSanitizer extension")


def test_chunks_on_disk_are_served_past_the_memory(lt, bucket, runtime, tmp_path, monkeypatch):
    url, env, server, packed = bucket()
    cache = {"LEAT_RAM": "512KiB", "LEAT_CACHE_DIR": str(tmp_path / "cache"), "LEAT_CACHE": "64MiB"}
    for name, value in {**env, **cache}.items():
        monkeypatch.setenv(name, value)
    peer = FakePeer(lambda path: (404, b""))
    alone = Alone(lt, url, peer.address)
    peer.begin(tmp_path, alone.members["cert"], alone.members["key"])
    alone.join()
    for _ in range(3):
        alone.read()  # what does not fit into memory goes to disk
    peer.close()
    chunks = sorted({path for path, _ in peer.asked if path.startswith("/chunk/")})
    assert len(chunks) >= 8
    before, sent = alone.loader.stats(), server.stats()["requests"]
    objects = {p.name: p.read_bytes() for p in packed.path.rglob("*") if p.is_file()}
    for path in chunks:
        code, body = request(alone.own, path, alone.members["token"])
        assert code == 200
        name = path.rsplit("/", 1)[1]
        assert body == next(data for key, data in objects.items() if name in key)
    after = alone.loader.stats()
    alone.close()
    fetched = server.stats()["requests"] - sent  # what a busy disk had not taken
    assert fetched <= len(chunks) // 2
    assert after["evictions"] - before["evictions"] <= fetched
