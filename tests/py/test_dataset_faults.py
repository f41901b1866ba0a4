"""Bytes of a dataset that arrive damaged, short or long: fetched once more, then an error that names the object."""

import os
import random
import shutil

import pytest
from format_writer import Field, Place, chunk_bytes, root_bytes, schema_bytes
from loading import upload

pytestmark = pytest.mark.every_case

PARTS = ["leat/chunks/", "leat/sections/", "leat/roots/", "leat/current"]


@pytest.fixture
def dataset(bucket_dir, tmp_path, run_leat):
    """A dataset of one chunk a few blocks long in the bucket "bucket", as a path."""
    (tmp_path / "files").mkdir()
    draw = random.Random(1)
    for i in range(40):
        (tmp_path / "files" / f"{i:02d}.bin").write_bytes(draw.randbytes(2000))
    run_leat("pack", tmp_path / "files", bucket_dir / "bucket/ds", status=0)
    return bucket_dir / "bucket/ds"


def objects(dataset, part):
    """The names below the dataset of what a part consists of."""
    found = [p for p in dataset.rglob("*") if p.is_file()]
    return sorted(str(p.relative_to(dataset)) for p in found if str(p.relative_to(dataset)).startswith(part))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("part", PARTS)
def test_what_arrives_damaged_once_is_right_the_second_time(part, seed, dataset, serve, bucket_dir, run_leat):
    fault = ["--fault", "corrupt=1", "--fault-only", part, "--fault-count", 1, "--seed", seed]
    server = serve(bucket_dir, *fault)
    done = run_leat("verify", "-j", 1, "s3://bucket/ds", env=server.s3_env(), status=0)
    assert "all good" in done.stdout
    assert sum(server.stats()["faults"].values()) == 1


@pytest.mark.parametrize("part", PARTS)
def test_what_arrives_damaged_twice_is_corrupt_and_named(part, dataset, serve, bucket_dir, run_leat):
    server = serve(bucket_dir, "--fault", "corrupt=1", "--fault-only", part, "--fault-count", 2)
    done = run_leat("verify", "-j", 1, "s3://bucket/ds", env=server.s3_env(), status=6)
    assert any(name in done.stderr for name in objects(dataset, part)), done.stderr
    assert sum(server.stats()["faults"].values()) == 2  # and not read a third time


def change_length(path, by):
    """The file with fewer bytes, or more, after the same beginning."""
    os.chmod(path, 0o644)
    size = path.stat().st_size
    with open(path, "r+b") as f:
        f.truncate(size + by)


@pytest.mark.parametrize("where", ["bucket", "folder"])
@pytest.mark.parametrize("by", [-1, -70_000, 1])
@pytest.mark.parametrize("part", PARTS[:2])
def test_object_of_another_length_is_corrupt(part, by, where, dataset, serve, bucket_dir, run_leat):
    name = objects(dataset, part)[0]
    size = (dataset / name).stat().st_size
    change_length(dataset / name, max(by, -size))
    server = serve(bucket_dir)
    url = "s3://bucket/ds" if where == "bucket" else dataset
    done = run_leat("verify", url, env=server.s3_env(), status=6)
    assert name in done.stderr
    said = "shorter than the snapshot says" if by < 0 else f"it has {size + 1} bytes instead of {size}"
    assert said in done.stderr, done.stderr


def test_empty_chunk_is_corrupt(dataset, serve, bucket_dir, run_leat):
    name = objects(dataset, "leat/chunks/")[0]
    change_length(dataset / name, -(dataset / name).stat().st_size)
    server = serve(bucket_dir)
    done = run_leat("cat", "-n", 0, "s3://bucket/ds", env=server.s3_env(), status=6)
    assert "shorter than the snapshot says" in done.stderr


def test_pointer_with_a_wrong_digit_is_read_again(dataset, faulty, run_leat):
    """The root it names is not there: nothing but the pointer's second reading helps."""
    from faulty_server import changed

    server = faulty()
    upload(server, dataset)

    def other_digit(code, headers, body):
        at = body.index(b'"root": "') + 9
        digit = b"1" if body[at : at + 1] == b"0" else b"0"
        return code, headers, body[:at] + digit + body[at + 1 :]

    server.fault(changed(other_digit), times=1, method="GET", key="bucket/ds/leat/current")
    run_leat("verify", "s3://bucket/ds", env=server.env(), status=0)
    assert server.count("GET", "bucket/ds/leat/current") == 2


def test_chunk_that_is_gone_is_not_found(dataset, serve, bucket_dir, run_leat):
    shutil.rmtree(dataset / "leat/chunks")
    server = serve(bucket_dir)
    done = run_leat("cat", "-n", 0, "s3://bucket/ds", env=server.s3_env(), status=3)
    assert "chunk 0 of s3://bucket/ds" in done.stderr


def test_rebuilding_reads_a_damaged_chunk_once_more(dataset, serve, bucket_dir, run_leat):
    before = (dataset / "leat/current").read_text()
    (dataset / "leat/current").unlink()
    server = serve(bucket_dir, "--fault", "corrupt=1", "--fault-only", "leat/chunks/", "--fault-count", 1)
    run_leat("rebuild", "s3://bucket/ds", env=server.s3_env(), status=0)
    assert sum(server.stats()["faults"].values()) == 1
    assert (dataset / "leat/current").read_text() == before


def test_rebuilding_names_a_chunk_that_is_damaged_for_good(dataset, serve, bucket_dir, run_leat):
    (dataset / "leat/current").unlink()
    server = serve(bucket_dir, "--fault", "corrupt=1", "--fault-only", "leat/chunks/")
    done = run_leat("rebuild", "s3://bucket/ds", env=server.s3_env(), status=6)
    assert objects(dataset, "leat/chunks/")[0] in done.stderr
    assert not (dataset / "leat/current").exists()


def test_snapshot_that_promises_gigabytes_is_compared_before_they_are_set_aside(serve, bucket_dir, run_leat):
    samples = [[(b"k", {"raw": b"some bytes"})]]
    Place(bucket_dir / "bucket/ds").write([Field("raw", 1)], samples, root={"sizes": [3 << 30]})
    server = serve(bucket_dir)
    done = run_leat("cat", "-n", 0, "s3://bucket/ds", env=server.s3_env(), status=6)
    assert "the snapshot says 3221225472" in done.stderr
    assert [r["method"] for r in server.log() if "/chunks/" in r["key"]] == ["HEAD"]


@pytest.fixture
def many_chunks(bucket_dir):
    """A dataset whose root has some 3 MB: one small chunk, named many times."""
    fields, packing, n = [Field("raw", 1)], b"p" * 16, 60_000
    data = chunk_bytes(fields, [(b"k", {"raw": b"some bytes"})], packing, 0, 1)
    place = Place(bucket_dir / "bucket/many")
    place.put_chunk(data)
    place.publish(root_bytes(schema_bytes(fields), [(1, data)] * n, [], [(packing, n)]))
    return n


def of_roots(server):
    return [r for r in server.log() if "/roots/" in r["key"]]


def test_large_root_comes_in_ranges(many_chunks, serve, bucket_dir, run_leat):
    server = serve(bucket_dir)
    assert f"{many_chunks}" in run_leat("info", "--json", "s3://bucket/many", env=server.s3_env(), status=0).stdout
    assert [r["method"] for r in of_roots(server)] == ["GET"] * 3  # the first 64 KiB, then two of 1 MiB or more


@pytest.mark.parametrize(("times", "status"), [(1, 0), (None, 6)])
def test_large_root_damaged_in_one_of_its_ranges(times, status, many_chunks, faulty, bucket_dir, run_leat):
    from faulty_server import changed

    server = faulty()
    upload(server, bucket_dir / "bucket", "bucket")

    def flip(code, headers, body):
        return code, headers, body[:-1] + bytes([body[-1] ^ 1])

    def from_the_middle(request):
        return "/roots/" in request.key and not request.headers["range"].startswith("bytes=0-")

    server.fault(changed(flip), times=times, method="GET", match=from_the_middle)
    done = run_leat("info", "s3://bucket/many", env=server.env(), status=status)
    assert status == 0 or "leat/roots/" in done.stderr
    assert len([r for r in server.of("GET") if "/roots/" in r.key]) == 2 * 3
