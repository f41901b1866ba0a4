"""`leat bench --shape`: an emulated training, fed by Leat and by a plain DataLoader, and what it refuses."""

import json
import os
import sys
from pathlib import Path

import pytest
from loading import SLOW

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    bool(os.environ.get("LEAT_SANITIZE")), reason="Python would need the sanitizer's runtime"
)


@pytest.fixture
def bench(run_leat, tmp_path):
    def run(*words, status=None):
        return run_leat(
            "bench", "--python", sys.executable, "--folder", tmp_path, *words, status=status, timeout=240 * SLOW
        )

    return run


@pytest.mark.alone  # it compares times
@pytest.mark.parametrize(
    ("shape", "scale"), [("resnet50", "0.02"), pytest.param("cosmoflow", "0.01", marks=pytest.mark.long)]
)
def test_utilisation_is_measured_for_both_loaders_and_nothing_stays(bench, tmp_path, shape, scale):
    words = ["--shape", shape, "--scale", scale, "--epoch-time", "1s", "--epochs", "1", "--accelerators", "2", "--json"]
    said = json.loads(bench(*words, status=0).stdout)
    assert said["samples"] == said["steps"] * said["batch"] * 2
    assert set(said["loaders"]) == {"leat", "DataLoader"}
    for result in said["loaders"].values():
        assert 0 < result["au"] <= 1.001
        assert result["au"] == pytest.approx(sum(result["epochs"]) / len(result["epochs"]))
        # The first step is excluded, so waiting can only be more than what is missing.
        missing = (said["steps"] - 1) * said["compute_s"] * (1 / result["au"] - 1)
        assert result["wait_s"] + 0.02 * said["steps"] > missing
    assert list(Path(tmp_path).glob("leat-shape-*")) == []


def test_what_cannot_be_is_refused_in_one_line(bench, run_leat, tmp_path):
    for words, says in (
        ([], "--shape: give one of"),
        (["--shape", "bert"], "--shape bert: one of resnet50"),
        (["--shape", "retinanet"], "--accelerator h100: step times of retinanet are known for b200"),
        (["--shape", "resnet50", "--scale", "0"], "--scale"),
        (["--shape", "resnet50", "--accelerators", "65"], "--accelerators"),
        (["--shape", "resnet50", "--bandwidth", "10Gb/s"], "--bandwidth"),
        (["--shape", "unet3d", "--accelerators", "64"], "--scale"),
    ):
        done = bench(*words)
        assert done.returncode != 0
        assert says in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH= exec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    done = run_leat("bench", "--python", bare, "--shape", "resnet50")
    assert done.returncode != 0
    assert "has no torch or no package leat" in done.stderr
    assert (
        "cannot start /no/python" in run_leat("bench", "--python", "/no/python", "--shape", "resnet50", status=3).stderr
    )


@pytest.fixture
def own(bucket_dir, run_leat, serve, tmp_path):
    """A dataset of 64 samples with two fields, in a bucket that asks for keys."""
    files = tmp_path / "files"
    files.mkdir()
    for i in range(64):
        (files / f"{i:03}.bin").write_bytes(os.urandom(20_000))
        (files / f"{i:03}.txt").write_text(f"caption {i}")
    (bucket_dir / "bucket" / "raw").mkdir()
    (bucket_dir / "bucket" / "raw" / "a.bin").write_bytes(b"raw")
    run_leat("pack", "--group", "--chunk-size", "200kB", files, bucket_dir / "bucket" / "set", status=0)
    return serve(bucket_dir, "--access-key", "test", "--secret-key", "test-secret")


def test_a_dataset_of_ones_own_feeds_both_loaders(own, run_leat):
    words = ["--shape", "cosmoflow", "--data", "s3://bucket/set", "--epoch-time", "0.1s", "--epochs", "1", "--json"]
    env = own.s3_env()
    said = json.loads(
        run_leat("bench", "--python", sys.executable, *words, env=env, status=0, timeout=240 * SLOW).stdout
    )
    assert said["data"] == "s3://bucket/set"
    assert said["steps"] == said["samples"] == 29  # 100 ms of 3.5 ms each
    assert said["bytes"] == pytest.approx(29 * 20_000, rel=0.1)
    assert all(0 < said["loaders"][name]["au"] <= 1.001 for name in ("leat", "DataLoader"))
    chunks = [row["key"] for row in own.log() if row["method"] == "GET" and "/chunks/" in row["key"]]
    # Neither reads from what the other has: the first chunks come at least twice.
    assert max(chunks.count(key) for key in chunks) >= 2, chunks


def test_data_that_cannot_be_read_is_refused_with_the_reason(own, run_leat):
    start = ["bench", "--python", sys.executable, "--shape"]
    denied = own.s3_env(secret_key="wrong")
    for words, env, status, says in (
        (["cosmoflow", "--data", "s3://bucket/raw"], own.s3_env(), 3, "no dataset at s3://bucket/raw"),
        (["cosmoflow", "--data", "s3://bucket/set"], denied, 4, "s3://bucket/set"),
        (["resnet50", "--data", "s3://bucket/set"], own.s3_env(), 1, "64 samples are fewer than two steps of 1 × 400"),
        (["resnet50", "--data", "s3://bucket/set", "--scale", "0.1"], {}, 2, "are for data that is made"),
        (["resnet50", "--data", ""], {}, 2, "--data: give the URL"),
    ):
        done = run_leat(*start, *words, env=env, status=status, timeout=120 * SLOW)
        assert says in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
