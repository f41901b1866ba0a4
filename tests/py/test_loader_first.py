"""The first batch of a loader: what is asked of the bucket for it, and in which order."""

import random
from collections import Counter

import pytest
from loading import SLOW, pack, point_to

MIB = 1 << 20
LATENCY_S = 0.05


@pytest.fixture
def large(leat_bin, bucket_dir, serve, monkeypatch, tmp_path):
    """(URL, server, bytes by sample): 24 samples of 1 MB in their own order, in chunks of 4 samples."""
    files = {f"{i:02}.bin": random.Random(i).randbytes(1_000_000) for i in range(24)}
    (tmp_path / "files").mkdir()
    for name, data in files.items():
        (tmp_path / "files" / name).write_bytes(data)
    packed = pack(leat_bin, tmp_path / "files", bucket_dir / "bucket" / "ds", "--keep-order", "--chunk-size", "4MiB")
    assert packed.chunks == 6
    server = serve(bucket_dir, "--latency", f"{LATENCY_S}s")
    point_to(server, monkeypatch)
    return "s3://bucket/ds", server, list(files.values())


def load(lt, url, **more):
    options = {"batch_size": 4, "shuffle": False, "as_numpy": True, "timeout": 60 * SLOW, **more}
    return lt.Loader(url, fields={"b": lt.bytes("bin")}, **options)


def chunk_requests(server, after=0):
    """Those for chunks, in the order in which they were answered."""
    return [line for line in server.log(after) if "/chunks/" in line["key"]]


def test_chunks_of_the_first_batch_come_in_ranges_before_all_others_and_those_whole(lt, large):
    url, server, data = large
    with load(lt, url) as loader:
        got = [bytes(view) for (batch,) in loader for view in batch]
    assert got == data
    asked = chunk_requests(server)
    keys = [line["key"] for line in asked]
    assert sorted(Counter(keys).values()) == [1, 1, 1, 1, 1, 3]  # 4 MB: ranges of at least a mebibyte
    assert keys[0] == keys[1] == keys[2]
    # what does not belong to the first batch is sent for when that has come, and answered a round trip later
    assert asked[3]["time_s"] - asked[2]["time_s"] > 0.9 * LATENCY_S


def test_first_batch_of_a_resumed_loader_comes_in_ranges_too(lt, large):
    url, server, data = large
    with load(lt, url) as loader:
        for _ in zip(range(3), loader):
            pass
        state = loader.state_dict()
    seen = server.log()[-1]["number"]
    with load(lt, url, scope="another") as loader:
        loader.load_state_dict(state)
        (batch,) = next(iter(loader))
        assert [bytes(view) for view in batch] == data[12:16]
    asked = Counter(line["key"] for line in chunk_requests(server, seen))
    assert max(asked.values()) == 3


def test_many_chunks_of_a_first_batch_cost_no_further_requests_than_their_number_allows(lt, large):
    url, server, data = large
    with load(lt, url, batch_size=24, ram=64 * MIB) as loader:
        ((batch,),) = list(loader)
        assert [bytes(view) for view in batch] == data
    assert len(chunk_requests(server)) == 6 * 3


def test_chunks_that_are_there_already_are_not_asked_for_again(lt, large):
    url, server, data = large
    with load(lt, url) as first:
        for _ in first:
            pass
        before = len(chunk_requests(server))
        with load(lt, url) as second:
            assert [bytes(view) for (batch,) in second for view in batch] == data
    assert len(chunk_requests(server)) == before
