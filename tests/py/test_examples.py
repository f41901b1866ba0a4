"""The examples run, and what they print is true."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from loading import warm_python

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


def test_the_c_example_reads_back_what_it_writes(leat, leat_build, clean_env, tmp_path):
    program = leat_build / "examples" / "example_write_dataset"
    done = run([program, tmp_path / "set", "5001"], clean_env)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "5001 samples" in lines[0] and lines[0].split()[-1] == lines[1].split()[-1]
    assert lines[2:6] == [
        "field n: type 3",
        "field square: type 7",
        "field text: type 4",
        "field half: type 5, optional",
    ]
    assert lines[6] == "sample 2500: n 2500, square 6.25e+06, text 'number 2500', half none"
    assert lines[7] == "sample 5000: n 5000, square 2.5e+07, text 'number 5000', half none"
    ds = leat.open(tmp_path / "set")
    assert dict(ds["n/000077"])["half"] == 38.5 and ds[77]["square"].tolist() == [77 * 77]
    again = run([program, tmp_path / "set"], clean_env)
    assert again.returncode == 1 and "already" in again.stderr and len(again.stderr.splitlines()) == 1


@pytest.mark.skipif(bool(os.environ.get("LEAT_SANITIZE")), reason="a demo of speed")
def test_the_demo_trains_in_four_ways_and_cleans_up(leat_build, clean_env, tmp_path):
    python = str(leat_build / "python")
    env = {**clean_env, "LEAT_BUILD": str(leat_build), "PYTHONPATH": python, "TMPDIR": str(tmp_path)}
    command = warm_python(ROOT / "examples" / "demo" / "demo.py", "--images", "160", "--epochs", "1")
    done = run([*command, "--workers", "2", "--shard-workers", "2", "--batch-size", "32"], env, timeout=240)
    assert done.returncode == 0, done.stderr
    for name in ("PyTorch, objects", "PyTorch, tar shards", "Leat, objects", "Leat, packed"):
        assert re.search(rf"^  {name} +[\d.]+ s +[\d.]+ s +\d+$", done.stdout, re.M), done.stdout
    assert done.stdout.count("times as fast") == 2
    assert not list(tmp_path.glob("leat-demo-*"))
