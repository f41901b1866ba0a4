"""The examples run, and what they print is true."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(command, env, timeout=60):
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)


def test_the_c_example_reads_every_sample_once(run_leat, leat_build, runtime, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for i in range(100):
        (source / f"{i:03}.txt").write_bytes(b"x" * 4 * i)
    run_leat("pack", source, tmp_path / "set", "--chunk-size", "4KiB", status=0)
    done = run([leat_build / "examples" / "example_read_batches", tmp_path / "set", "8"], runtime.env)
    assert done.returncode == 0, done.stderr
    assert "100 samples in 13 batches" in done.stdout
    assert "100 samples seen, numbers add up to 4950" in done.stdout
    assert '"epoch":1,"position":0' in done.stdout


def test_the_c_example_says_what_is_wrong(leat_build, runtime, tmp_path):
    done = run([leat_build / "examples" / "example_read_batches", tmp_path / "nothing"], runtime.env)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "nothing" in done.stderr


@pytest.mark.skipif(bool(os.environ.get("LEAT_SANITIZE")), reason="a demo of speed")
def test_the_demo_trains_both_ways_and_cleans_up(leat_build, clean_env, tmp_path):
    python = str(leat_build / "python")
    env = {**clean_env, "LEAT_BUILD": str(leat_build), "PYTHONPATH": python, "TMPDIR": str(tmp_path)}
    command = [sys.executable, ROOT / "examples" / "demo" / "demo.py", "--images", "160", "--epochs", "1"]
    done = run([*command, "--workers", "2", "--batch-size", "32"], env, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "times as fast" in done.stdout
    assert not list(tmp_path.glob("leat-demo-*"))
