"""`leat bench --shape`: an emulated training, fed by Leat and by a plain DataLoader, and what it refuses."""

import json
import os
import shlex
import sys
import types
from pathlib import Path

import pytest
from loading import SLOW, warm_python

pytest.importorskip("torch")
pytestmark = pytest.mark.python_only


@pytest.fixture
def bench(run_leat, tmp_path):
    """bench("--shape", …): its Python, and those that this one starts, need not import torch any more."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(warm_python())} "$@"\n')
    python.chmod(0o755)

    def run(*words, status=None, env=None):
        env = {"WARM_EXECUTABLE": python, **(env or {})}
        return run_leat("bench", "--python", python, *words, status=status, env=env, timeout=240 * SLOW)

    return run


@pytest.mark.parametrize(
    ("shape", "scale", "epoch"),
    [("cosmoflow", "0.01", "0.2s"), pytest.param("resnet50", "0.02", "1s", marks=pytest.mark.long)],
)
def test_utilisation_is_measured_for_both_loaders_and_nothing_stays(bench, tmp_path, shape, scale, epoch):
    words = [
        "--shape",
        shape,
        "--scale",
        scale,
        "--epoch-time",
        epoch,
        "--epochs",
        "1",
        "--accelerators",
        "2",
        "--json",
    ]
    said = json.loads(bench(*words, "--folder", tmp_path, status=0).stdout)
    assert said["samples"] == said["steps"] * said["batch"] * 2
    assert set(said["loaders"]) == {"leat", "DataLoader"}
    for result in said["loaders"].values():
        assert 0 < result["au"] <= 1.001
        assert result["au"] == pytest.approx(sum(result["epochs"]) / len(result["epochs"]))
        assert result["wait_s"] > 0
    assert list(Path(tmp_path).glob("leat-shape-*")) == []


def test_utilisation_is_computing_over_the_time_after_the_first_step(leat, monkeypatch, capsys):
    from leat import _shapes

    now = [100.0]

    def go_on(seconds):
        now[0] += seconds

    def batches():
        for wait_s in (9, 1, 2, 3):
            yield go_on(wait_s)

    monkeypatch.setattr(_shapes, "time", types.SimpleNamespace(perf_counter=lambda: now[0], sleep=go_on))
    monkeypatch.setattr(_shapes, "plain", lambda job: batches())
    _shapes.run_rank({"data": "", "loader": "DataLoader", "epochs": 1, "steps": 4, "compute_s": 2})
    assert json.loads(capsys.readouterr().out) == {"au": [3 * 2 / (3 * 2 + 1 + 2 + 3)], "wait_s": 9 + 1 + 2 + 3}


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


def test_a_dataset_of_ones_own_feeds_both_loaders(own, bench):
    words = ["--shape", "cosmoflow", "--data", "s3://bucket/set", "--epoch-time", "0.1s", "--epochs", "1", "--json"]
    said = json.loads(bench(*words, env=own.s3_env(), status=0).stdout)
    assert said["data"] == "s3://bucket/set"
    assert said["steps"] == said["samples"] == 29  # 100 ms of 3.5 ms each
    assert said["bytes"] == pytest.approx(29 * 20_000, rel=0.1)
    assert all(0 < said["loaders"][name]["au"] <= 1.001 for name in ("leat", "DataLoader"))
    chunks = [row["key"] for row in own.log() if row["method"] == "GET" and "/chunks/" in row["key"]]
    # Neither reads from what the other has: the first chunks come at least twice.
    assert max(chunks.count(key) for key in chunks) >= 2, chunks


def test_data_that_cannot_be_read_is_refused_with_the_reason(own, bench):
    denied = own.s3_env(secret_key="wrong")
    for words, env, status, says in (
        (["cosmoflow", "--data", "s3://bucket/raw"], own.s3_env(), 3, "no dataset at s3://bucket/raw"),
        (["cosmoflow", "--data", "s3://bucket/set"], denied, 4, "s3://bucket/set"),
        (["resnet50", "--data", "s3://bucket/set"], own.s3_env(), 1, "64 samples are fewer than two steps of 1 × 400"),
        (["resnet50", "--data", "s3://bucket/set", "--scale", "0.1"], {}, 2, "are for data that is made"),
        (["resnet50", "--data", ""], {}, 2, "--data: give the URL"),
    ):
        done = bench("--shape", *words, env=env, status=status)
        assert says in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
