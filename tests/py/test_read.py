"""`leat read` and `leat warm`: the feed without a training, and what it says of itself."""

import json
import re
import signal
import subprocess

import pytest
from loading import SLOW, chunk_requests, make_blobs, pack, wait_until

URL = "s3://bucket/ds"


@pytest.fixture
def read(leat_bin, runtime):
    """read(url, "--epochs", "2", …) -> the JSON that it prints."""

    def run(url, *options, status=0):
        done = subprocess.run(
            [leat_bin, "read", url, "--json", *options], capture_output=True, text=True, check=False, timeout=120 * SLOW
        )
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout)

    return run


def test_numbers_are_those_of_the_bucket(read, in_bucket, blobs):
    server = in_bucket(blobs)
    told = read(URL, "--epochs", "2", "--batch", "32")
    assert told["dataset"] == {"samples": 300, "chunks": blobs.chunks, "bytes": told["dataset"]["bytes"]}
    assert told["samples"] == told["account"]["samples"] == 600
    account = told["account"]
    assert account["bytes_by_source"]["bucket"] == told["dataset"]["bytes"], "everything once: it fits into memory"
    assert account["chunks_fetched"] == blobs.chunks
    # the command reads pointer and root itself, the agent again
    assert 0 <= server.stats()["requests"] - account["requests"] <= 4
    assert told["batch_bytes"] == 2 * (sum(map(len, blobs.known.values())) + 8 * 300)
    assert [epoch["samples"] for epoch in told["epochs"]] == [300, 300]
    assert sum(e["bytes_by_source"]["bucket"] for e in told["epochs"]) == account["bytes_by_source"]["bucket"]
    assert told["epochs"][1]["bytes_by_source"]["bucket"] == 0
    assert told["reach"]["bucket_bytes"] == 0
    assert told["peak"]["agent_bytes"] > 10 << 20
    assert told["peak"]["own_bytes"] > 1 << 20
    assert told["cost"]["requests_usd"] == pytest.approx(account["requests"] * 0.0004 / 1000)
    assert told["cost"]["egress_usd"] == pytest.approx(account["bytes_by_source"]["bucket"] * 0.09 / 1e9)


def test_time_is_waiting_and_computing(read, in_bucket, blobs):
    in_bucket(blobs, "--latency", "30ms")
    told = read(URL, "--batch", "100", "--compute", "300ms")
    account = told["account"]
    assert sum(account["wait_by_cause_s"].values()) == pytest.approx(account["wait_s"], rel=0.01)
    assert account["wait_s"] >= 2 * 0.03, "round trips for the root and the first chunk"
    assert told["seconds"] >= account["wait_s"] + 3 * 0.3 - 0.01, "three steps"
    assert told["first_batch_s"] <= told["seconds"] - 3 * 0.3 + 0.01
    assert told["series"]["samples"]


def test_time_ends_it(read, images):
    told = read(images.url, "--time", "1s", "--batch", "200")
    assert told["seconds"] > 0.95, "an epoch takes milliseconds: they have no end until the time is over"
    assert told["samples"] >= 200


def test_reachable_is_said_first_and_what_happened_after(leat_bin, runtime, leat_build, tmp_path):
    make_blobs(tmp_path / "files", 400, sizes=(40_000, 40_000))
    it = pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--chunk-size", "128KiB")
    options = "--ram 8mib --window 8 --batch 16 --epochs 3 --line 10MB/s"
    command = [leat_bin, "read", it.url, *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60 * SLOW)
    lines = done.stdout.splitlines()
    said = re.fullmatch(
        r"cache ([\d.]+) MiB of 15\.3 MiB: (\d+) % of the bytes from here, ([\d.]+) MiB per epoch from the bucket, "
        r"([\d.]+) (s|ms) at 10\.0 MB/s",
        lines[0],
    )
    assert said, lines[0]
    assert float(said[1]) + float(said[3]) == pytest.approx(15.3, abs=0.2)
    assert int(said[2]) == pytest.approx(100 * float(said[1]) / 15.3, abs=1)
    assert [line.split(":")[0] for line in lines[1:4]] == ["epoch 0", "epoch 1", "epoch 2"]
    assert [line.split()[0] for line in lines[4:]] == [
        *("time", "samples", "bytes", "waiting", "requests", "price", "memory")
    ]
    assert "1200, " in done.stdout
    assert "November 2025" in done.stdout, "prices have a date"
    mine = subprocess.run([*command, "--price-requests", "0.01"], capture_output=True, text=True, check=True).stdout
    assert "November" not in mine


def test_ranks_read_their_share(read, images):
    shares = [read(images.url, "--rank", str(r), "--world", "3", "--batch", "8")["samples"] for r in range(3)]
    assert sum(shares) == images.samples
    assert max(shares) - min(shares) <= 8


def test_preparation_is_counted(read, images):
    told = read(images.url, "--prep", "resize=16 center_crop=16", "--batch", "20")
    assert told["batch_bytes"] == images.samples * (16 * 16 * 3 + 8)
    assert told["account"]["prep_cpu_s"] > 0


def test_lost_agent_costs_time_and_is_told(leat_bin, runtime, held, blobs):
    server = held(blobs, after=5)
    command = [leat_bin, "read", URL, "--json", "--batch", "20", "--epochs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: len(chunk_requests(server)) > 5, what="a request that is not answered")
    runtime.kill_agents()
    server.go.set()
    out, _ = process.communicate(timeout=60 * SLOW)
    told = json.loads(out)
    assert told["samples"] == 600
    assert told["account"]["agents_lost"] == 1
    assert told["account"]["wait_by_cause_s"]["agent"] > 0


def test_ctrl_c_ends_it_and_tells_what_was_read(leat_bin, runtime, images):
    command = [leat_bin, "read", images.url, "--json", "--epochs", "1000", "--batch", "10", "--compute", "50ms"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    listing = [leat_bin, "agent", "ls", "--json"]

    def some_were_read():
        lines = subprocess.run(listing, capture_output=True, text=True, check=False).stdout.splitlines()
        return any(loader.get("samples") for line in lines for loader in json.loads(line)["loaders"])

    wait_until(some_were_read, what="a batch")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    told = json.loads(out)
    assert told["interrupted"]
    assert 0 < told["samples"] < 1000 * images.samples
    assert told["account"]["samples"] == told["samples"]
    runtime.wait_gone()


def test_its_agent_ends_with_it_and_leaves_nothing(read, runtime, images):
    read(images.url)
    runtime.wait_gone()
    wait_until(lambda: runtime.left_behind() == [], what="an empty folder")


def test_another_agent_keeps_its_own_numbers(lt, read, runtime, images):
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}, as_numpy=True) as loader:
        for _ in loader:
            pass
        wait_until(lambda: loader.stats()["chunks_fetched"] == images.chunks, what="having read every chunk")
        told = read(images.url, "--scope", "default")
        assert len(runtime.agents()) == 1
    assert told["samples"] == images.samples
    assert told["account"]["bytes_by_source"]["bucket"] == 0, "what the other loader had fetched is not its"
    assert told["account"]["wait_by_cause_s"]["open"] > 0


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--batch", "0"], 2, "batch"),
        (["--batch", "9999999999"], 2, "batch"),
        (["--prep", ""], 2, "--prep"),
        (["--prep", "fly=3"], 2, "fly"),
        (["--field", "none"], 2, "no field"),
        (["--price-egress", "-1"], 2, "price"),
        (["--ram", "1kib"], 7, "ram"),
        (["--rank", "3", "--world", "2"], 2, "rank"),
    ],
)
def test_what_cannot_be_is_said(leat_bin, runtime, images, options, status, words):
    done = subprocess.run([leat_bin, "read", images.url, *options], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert done.stdout == ""


def test_warming_needs_to_know_the_cache(leat_bin, runtime, images):
    done = subprocess.run([leat_bin, "warm", images.url], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--cache-dir" in done.stderr


@pytest.fixture
def wide(leat_bin, tmp_path):
    """Bytes in 200 chunks, far more than warming keeps in memory."""
    make_blobs(tmp_path / "files", 1600, sizes=(8000, 8000))
    return pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--chunk-size", "64KiB")


def warm(leat_bin, url, *options):
    command = [leat_bin, "warm", url, "--json", "--quiet", *map(str, options)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120 * SLOW).stdout)


def test_warmed_cache_serves_the_next_agent_without_the_bucket(leat_bin, runtime, read, wide, tmp_path):
    folder = tmp_path / "cache"
    options = ("--cache-dir", str(folder), "--cache", "100mib")
    told = warm(leat_bin, wide.url, *options)
    assert told["stored_bytes"] == told["bytes"]
    assert told["bucket_bytes"] <= 1.1 * told["bytes"], "once, and little more"
    assert warm(leat_bin, wide.url, *options)["bucket_bytes"] == 0, "what is there is not fetched again"
    account = read(wide.url, *options, "--ram", "3mib", "--window", "4", "--batch", "8")["account"]
    assert account["bytes_by_source"]["bucket"] == 0
    assert account["bytes_by_source"]["disk"] >= told["bytes"]


def test_warming_fills_what_there_is_room_for(leat_bin, runtime, wide, tmp_path):
    told = warm(leat_bin, wide.url, "--cache-dir", tmp_path / "cache", "--cache", "6mib")
    assert 0.8 * (6 << 20) < told["stored_bytes"] <= 6 << 20
    assert told["bucket_bytes"] < 2 * told["bytes"]
    said = subprocess.run(
        [leat_bin, "warm", wide.url, "--cache-dir", tmp_path / "other", "--cache", "6mib"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.fullmatch(r"[\d.]+ MiB of 12\.[\d] MiB are in the cache on disk; .* came from the bucket, in .*\n", said)
