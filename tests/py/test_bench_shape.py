"""`leat bench --shape`: an emulated training, fed by Leat and by a plain DataLoader, and what it refuses."""

import json
import os
import sys
from pathlib import Path

import pytest
from loading import SLOW

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.alone,  # it measures time
    pytest.mark.skipif(bool(os.environ.get("LEAT_SANITIZE")), reason="Python would need the sanitizer's runtime"),
]


@pytest.fixture
def bench(run_leat, tmp_path):
    def run(*words, status=None):
        return run_leat(
            "bench", "--python", sys.executable, "--folder", tmp_path, *words, status=status, timeout=240 * SLOW
        )

    return run


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
