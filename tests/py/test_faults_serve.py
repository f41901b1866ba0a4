"""Many objects through `leat serve` while it misbehaves at random: every byte arrives, in not many more requests."""

import json

import pytest
from command_tools import MIB, leftovers, some_bytes, tree

FAULTS = {
    "refusals": "503=0.05,500=0.03,429=0.02",
    "broken": "reset=0.04,truncate=0.04",
    "ranges": "wrong-range=0.03,lost-range=0.03,ignore-range=0.04",
    "error200": "error200=0.08",
    "silence": "stall=0.005,slow=0.005",
}


@pytest.fixture
def source(bucket_dir):
    """A bucket of many small objects and a few large ones."""
    folder = bucket_dir / "bucket" / "data"
    folder.mkdir()
    for n in range(150):
        (folder / f"{n:03}").write_bytes(some_bytes(1000 + 37 * n, n))
    for n in range(3):
        (folder / f"big-{n}").write_bytes(some_bytes(12 * MIB + n, n))
    return folder


@pytest.mark.parametrize("kind", FAULTS)
def test_every_byte_arrives_from_a_bucket_with_faults(run_leat, serve, source, bucket_dir, shm_path, kind):
    server = serve(bucket_dir, "--fault", FAULTS[kind], "--seed", 3)
    options = ["--inactivity", "1s"] if kind == "silence" else []
    done = run_leat("cp", "-r", "--json", *options, "s3://bucket/data", shm_path / "to", env=server.s3_env(), status=0)
    assert json.loads(done.stdout)["objects"] == 153
    assert tree(shm_path / "to") == tree(source)
    assert leftovers(shm_path) == []
    stats = server.stats()
    happened = sum(stats["faults"].values())
    assert happened > 0
    # 150 objects of one part, 3 of two that are looked at first, and the listing: each fault costs one more, at most. A
    # machine that stands still for a second is silent, too.
    assert stats["requests"] <= 150 + 6 + 3 + 4 + happened or kind == "silence"


def test_every_byte_arrives_at_a_bucket_with_faults(run_leat, serve, source, bucket_dir, shm_path):
    server = serve(bucket_dir, "--fault", "503=0.03,500=0.03,reset=0.06", "--seed", 5)
    (bucket_dir / "other").mkdir()
    run_leat("cp", "-r", source, "s3://other/copy", env=server.s3_env(), status=0)
    assert tree(bucket_dir / "other" / "copy") == tree(source)
    assert server.stats()["faults"]["reset"] > 0


def test_a_bucket_that_checks_region_clock_and_keys_is_satisfied(run_leat, serve, source, bucket_dir):
    keys = ["--access-key", "test", "--secret-key", "test-secret"]
    server = serve(bucket_dir, *keys, "--region", "eu-north-1", "--region-redirect", "--clock-skew", "3h")
    done = run_leat("cat", "s3://bucket/data/007", env=server.s3_env(region="us-east-1"), text=False, status=0)
    assert done.stdout == (source / "007").read_bytes()
    warnings = done.stderr.decode().splitlines()
    assert len(warnings) == 2
    assert "eu-north-1" in "".join(warnings)
    assert "clock" in "".join(warnings)
    done = run_leat("cat", "s3://bucket/data/007", env=server.s3_env(secret_key="wrong"), status=4)
    assert "wrong" not in done.stderr
