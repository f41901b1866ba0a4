"""What `leat simulate --peers` says of a job beside the same job, run: bytes by source, over all machines.

By default only where everything fits into memory: there the bytes are the same at any speed. Smaller memories keep what time allows;
bench/bench_simulate_job.py compares more of them.
"""

import json

import pytest
from conftest import SANITIZE
from loading import make_blobs, pack
from machines import finish

pytestmark = [
    pytest.mark.skipif(bool(SANITIZE), reason="a job that computes for milliseconds"),
]

EPOCHS = 3
BATCH = 8


@pytest.fixture
def bucket(leat_bin, bucket_dir, serve):
    """960 samples in about 240 chunks of 64 KiB."""
    known = make_blobs(bucket_dir / "files", 960, sizes=(15000, 17000))
    packed = pack(leat_bin, bucket_dir / "files", bucket_dir / "bucket" / "ds", "--chunk-size", "64KiB", known=known)
    server = serve(bucket_dir)
    return "s3://bucket/ds", server.s3_env(), packed


def real(url, env, machines, n, ram):
    job = {
        "url": url,
        "epochs": EPOCHS,
        "batch": BATCH,
        "pause": 0.02 if ram < 960 * 16000 else 0,
        "loader": {"job": "auto", "shuffle": True, "ram": ram},
    }
    lines = [finish(rank)[0] for rank in machines(n).start(job, env)]
    got = [each[-1]["stats"]["bytes_by_source"] for each in lines]
    return {source: sum(each[source] for each in got) for source in ("bucket", "peer")}


def simulated(run_leat, url, env, n, ram):
    command = ["simulate", url, "--json", "--nodes", n, "--batch", BATCH, "--window", 8, "--seed", 1, "--last", "short"]
    command += ["--epochs", EPOCHS, "--ram", ram, "--compute", "25ms", "--bandwidth", "0", "--latency", "2ms"]
    command += ["--peers", "0"]
    (run,) = json.loads(run_leat(*map(str, command), env=env, status=0).stdout)["runs"]
    return {source: sum(e[source]["bytes"] for e in [*run["epochs"], run["ahead"]]) for source in ("bucket", "peer")}


def case(n, share):
    return pytest.param(n, share, marks=() if (n, share) == (2, 2) else pytest.mark.long)


@pytest.mark.parametrize(("n", "share"), [case(n, share) for n in (1, 2, 4, 8) for share in (2, 0.25)])
def test_simulated_and_real_jobs_fetch_the_same(n, share, bucket, machines, run_leat):
    """share: of the dataset, in the memories of all machines together."""
    url, env, packed = bucket
    dataset = sum(map(len, packed.known.values()))
    ram = int(share * dataset / n) + 16 * 65536 * (share < 1)
    said, did = simulated(run_leat, url, env, n, ram), real(url, env, machines, n, ram)
    assert said["bucket"] == pytest.approx(did["bucket"], rel=0.05)
    assert said["peer"] == pytest.approx(did["peer"], rel=0.05, abs=0.05 * dataset)
