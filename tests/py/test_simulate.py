"""leat simulate: what it prints, the picture, and what it refuses."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

SMALL = ("--samples", "20000", "--sample-bytes", "100kb", "--chunk", "1mb", "--window", "8", "--batch", "32")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def simulate(run_leat):
    """simulate("--ram", "1gb") -> the parsed JSON of a small job."""

    def run(*more):
        return json.loads(run_leat("simulate", "--json", *SMALL, *more, status=0).stdout)

    return run


def test_each_epoch_has_a_line(run_leat):
    out = run_leat("simulate", *SMALL, "--ram", "1gb", "--epochs", "4", "--compute", "10ms", status=0).stdout
    assert "20000 samples, 1.86 GiB in 2000 chunks, window 8" in out
    assert "1 node x 1 rank, batches of 32" in out
    lines = out.split("next-use\n", 1)[1].splitlines()
    heads = "epoch seconds stalled share for data for prep hits memory disk peers bucket requests"
    assert lines[0].split() == heads.split()
    assert [line.split()[0] for line in lines[1:5]] == ["1", "2", "3", "4"]
    assert lines[5].endswith("s") and "s in total" in lines[5]


def test_json_adds_up(simulate):
    got = simulate(
        "--ram", "1gb", "--nodes", "2", "--ranks", "2", "--epochs", "3", "--compute", "20ms", "--prep", "3000"
    )
    assert got["version"] == 1
    assert got["dataset"]["bytes"] == 20000 * 100_000
    assert got["job"]["nodes"] == 2 and got["job"]["ranks"] == 2
    (run,) = got["runs"]
    assert run["policy"] == "next-use"
    assert len(run["epochs"]) == 3
    for epoch in run["epochs"]:
        assert epoch["steps"] == 20000 // 128
        assert epoch["samples"] == epoch["steps"] * 128
        assert epoch["time_s"] == pytest.approx(epoch["stall_s"] + epoch["steps"] * 0.02)
        assert epoch["stall_s"] == pytest.approx(epoch["stall_data_s"] + epoch["stall_prep_s"])
        here = epoch["ram"]["bytes"] + epoch["disk"]["bytes"] + epoch["peer"]["bytes"]
        assert epoch["hits"] == pytest.approx(here / (here + epoch["bucket"]["bytes"]))
    assert run["epochs"][0]["ram"]["bytes"] == 0
    assert sum(epoch["time_s"] for epoch in run["epochs"]) == pytest.approx(run["time_s"])


def test_a_bucket_that_is_the_limit_stays_one_whatever_lines_save(simulate):
    limits = ("--bandwidth", "0", "--bucket-bandwidth", "100MB/s", "--burst", "100ms")
    got = simulate("--nodes", "2", "--ram", "1gb", "--epochs", "1", "--compute", "1ms", *limits)["runs"][0]
    fetched = sum(part["bucket"]["bytes"] for part in got["epochs"])
    assert got["time_s"] >= fetched / 100e6 - 0.1


def test_a_line_that_machines_share_does_not_rest_when_one_of_them_does(simulate):
    job = ("--nodes", "2", "--ram", "1gb", "--epochs", "1", "--compute", "1ms", "--bucket-bandwidth", "100MB/s")
    saves = ("--burst", "100ms")
    assert simulate(*job, *saves, "--bandwidth", "0")["runs"] == simulate(*job, "--bandwidth", "0")["runs"]
    assert simulate(*job, *saves, "--bandwidth", "40MB/s")["runs"] != simulate(*job, "--bandwidth", "40MB/s")["runs"]


def test_peers_fetch_each_byte_once(simulate):
    job = ("--nodes", "4", "--ram", "600mb", "--epochs", "2", "--compute", "20ms", "--window", "8")
    got = simulate(*job, "--peers", "1GB/s")
    first, second = got["runs"][0]["epochs"]
    assert got["peers"] == {"bytes_per_s": 1e9, "latency_s": 0.0005}
    assert first["bucket"]["bytes"] == pytest.approx(got["dataset"]["bytes"], rel=0.02)
    assert first["peer"]["bytes"] > 0
    assert second["bucket"]["bytes"] < 0.2 * got["dataset"]["bytes"]
    alone = simulate(*job, "--peers", "off")
    assert alone["peers"] is None
    assert alone["runs"][0]["epochs"][0]["peer"]["bytes"] == 0
    assert alone["runs"][0]["epochs"][0]["bucket"]["bytes"] > 1.05 * first["bucket"]["bytes"]


def test_what_machines_do_for_each_other_is_said(run_leat):
    job = ("simulate", "--samples", "1000", "--nodes", "2", "--batch", "8", "--ram", "2gb")
    assert "peers    off: each node fetches from the bucket" in run_leat(*job, "--peers", "off").stdout
    assert "each node gives the others 1.25 GB/s of what it owns" in run_leat(*job).stdout
    assert "each node gives the others 1.00 GB/s of what it owns" in run_leat(*job, "--peers", "1GB/s").stdout


def test_the_same_settings_give_the_same_text(run_leat):
    words = ["simulate", *SMALL, "--ram", "500mb", "--policy", "all"]
    first = run_leat(*words, status=0).stdout
    assert run_leat(*words, status=0).stdout == first
    assert run_leat(*words, "--seed", "1", status=0).stdout != first


def test_policies_differ_as_they_should(simulate):
    runs = simulate("--ram", "1200mb", "--policy", "all", "--compute", "100ms")["runs"]
    later = {run["policy"]: run["epochs"][-1]["hits"] for run in runs}
    assert list(later) == ["next-use", "lru", "fifo", "minio", "none"]
    for best in ("next-use", "minio"):
        assert later["lru"] + 0.1 < later[best] <= 0.6  # the cache is 0.6 of the dataset


def test_a_real_dataset_is_read_by_its_root(run_leat, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for i in range(300):
        (raw / f"{i}.bin").write_bytes(os.urandom(10_000))
    run_leat("pack", raw, tmp_path / "set", "--chunk-size", "100kb", "--quiet", status=0)
    root = json.loads(run_leat("info", tmp_path / "set", "--json", status=0).stdout)
    options = ["--batch", "16", "--window", "4", "--ram", "2mb", "--last", "short", "--json"]
    got = json.loads(run_leat("simulate", tmp_path / "set", *options, status=0).stdout)
    assert got["dataset"]["samples"] == 300
    assert got["dataset"]["chunks"] == root["chunks"]
    assert all(epoch["samples"] == 300 for epoch in got["runs"][0]["epochs"])
    assert got["runs"][0]["epochs"][0]["bucket"]["bytes"] == got["dataset"]["bytes"]


def points_of(line):
    return [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]


def test_the_picture_is_xml_of_its_own_with_a_line_for_each_policy(run_leat, tmp_path):
    path = tmp_path / "policies.svg"
    out = run_leat("simulate", *SMALL, "--ram", "1gb", "--json", "--svg", path, "--points", "5", status=0).stdout
    text = path.read_text()
    picture = ElementTree.fromstring(text)
    assert picture.tag == SVG + "svg"
    assert "href" not in text and "url(" not in text and "<script" not in text
    lines = [line for line in picture.iter(SVG + "polyline") if line.get("class") == "policy"]
    names = [text.text for text in picture.iter(SVG + "text")]
    sweep = json.loads(out)["sweep"]
    assert len(lines) == len(sweep) == 5
    assert {*sweep, "dataset − cache"} <= set(names)
    bound = next(line for line in picture.iter(SVG + "line") if line.get("class") == "bound")
    left, top, right, bottom = (float(bound.get(name)) for name in ("x1", "y1", "x2", "y2"))
    for line, points in zip(reversed(lines), sweep.values()):
        drawn = points_of(line)
        assert len(drawn) == len(points) == 6
        for (x, y), point in zip(drawn, points):
            assert x == pytest.approx(left + point["cache"] * (right - left), abs=0.1)
            assert y == pytest.approx(bottom - point["bucket"] * (bottom - top), abs=0.1)
            assert point["bucket"] >= 1 - point["cache"] - 0.001  # nobody is below the bound


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give the address of a dataset"),
        (["--samples", "0"], "give the address of a dataset"),
        (["--samples", "1.5"], "a whole number from 1 to 1e15"),
        (["--samples", "-3"], "a whole number from 1 to 1e15"),
        (["--samples", "1e300"], "a whole number from 1 to 1e15"),
        (["--samples", "1e15", "--sample-bytes", "8mib"], "more than an order can hold"),
        (["--samples", "10", "--sample-bytes", "0"], "from 1 byte to 4 GiB"),
        (["--samples", "10", "--chunk", "5gib"], "from 1 byte to 4 GiB"),
        ([*SMALL, "s3://bucket/set"], "not both"),
        ([*SMALL, "--nodes", "0"], "0 nodes"),
        ([*SMALL, "--nodes", "70000"], "--nodes 70000: at most 65536"),
        ([*SMALL, "--nodes", "2", "--peers", "fast"], "--peers"),
        ([*SMALL, "--ranks", "0"], "0 ranks"),
        ([*SMALL, "--batch", "0"], "batches of 0"),
        ([*SMALL, "--batch", "5000000000"], "--batch 5000000000: at most"),
        ([*SMALL, "--batch", "30000"], "an epoch would have no step"),
        ([*SMALL, "--epochs", "0"], "0 epochs"),
        ([*SMALL, "--slots", "1"], "1 slots: from 2 to 64"),
        ([*SMALL, "--slots", "65"], "--slots 65: at most 64"),
        ([*SMALL, "--window", "0"], "--window 0: from 1 to 65536"),
        ([*SMALL, "--window", "x"], "--window"),
        ([*SMALL, "--policy", "belady"], "next-use, lru, fifo, minio, none or all"),
        ([*SMALL, "--last", "first"], "first"),
        ([*SMALL, "--prep", "-1"], "preparation of -1"),
        ([*SMALL, "--jitter", "1"], "a jitter of 1"),
        ([*SMALL, "--cores", "0"], "0 cores"),
        ([*SMALL, "--connections", "300"], "--connections 300: at most 256"),
        ([*SMALL, "--svg", "x.svg", "--points", "0"], "--points 0: from 1 to 100"),
        ([*SMALL, "--svg", "x.svg", "--epochs", "1"], "give --epochs 2 or more"),
    ],
)
def test_what_cannot_work_is_refused_with_a_sentence(run_leat, tmp_path, words, said):
    done = run_leat("simulate", *words, status=2, cwd=tmp_path)
    assert said in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "x.svg").exists()


def test_too_little_memory_is_refused_with_the_least_that_works(run_leat):
    done = run_leat("simulate", *SMALL, "--ram", "1mb", status=7)
    least = done.stderr.split("give at least ")[1].split()[0]
    run_leat("simulate", *SMALL, "--ram", least, status=0)


def test_a_picture_that_cannot_be_written_says_so(run_leat, tmp_path):
    done = run_leat("simulate", *SMALL, "--svg", tmp_path / "no" / "x.svg", "--points", "1")
    assert done.returncode != 0
    assert "x.svg" in done.stderr


LONG = ("simulate", "--samples", "1e8", "--nodes", "512", "--ranks", "8", "--epochs", "1000", "--ram", "64gib")


def test_ctrl_c_ends_it_cleanly_and_a_terminal_shows_progress(leat_bin, clean_env):
    """Without Ctrl-C it would take hours."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [str(leat_bin), *LONG], env={**clean_env, "TERM": "xterm"}, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    text = b""
    while b"samples" not in text:
        text += os.read(ours, 4096)
    child.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):  # how a terminal ends
        while piece := os.read(ours, 4096):
            text += piece
    os.close(ours)
    assert child.stdout.read() == b""
    child.stdout.close()
    assert child.wait(60) == 130
    assert b"%" in text and b"interrupted" in text


def test_policy_none_keeps_nothing_though_there_is_room(simulate):
    (run,) = simulate("--ram", "1200mb", "--policy", "none", "--compute", "100ms")["runs"]
    assert all(epoch["hits"] < 0.05 for epoch in run["epochs"])  # but for a chunk in use over the end of an epoch
