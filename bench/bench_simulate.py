"""`leat simulate` beside the real thing: the same dataset, bucket and job, simulated and run.

python bench/bench_simulate.py [--build build/release] [--mb 400] [--runs 1] [--only TEXT]

A bucket (`leat serve`, which limits rate and latency), one loader that sleeps where a training computes, three epochs. The
hit rate is over all that was fetched in the run; the time is from the first batch to the end of the last step.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, scratch, serving, table, write

SAMPLE = 100_000
CHUNK = "2MiB"  # so that there are hundreds: one more or less of them must not be a point
EPOCHS = 3

# Sizes are shares of the dataset, compute is seconds a step; what a setting does not name is as in USUAL.
USUAL = {
    "batch": 64,
    "window": 16,
    "ram": 0.5,
    "disk": 0,
    "bandwidth": 60,
    "connection": 0,
    "latency": 30,
    "compute": 0,
    "slots": 4,
}
SETTINGS = {
    "half in memory": {},
    "a quarter in memory": {"ram": 0.25},
    "all in memory": {"ram": 1.3},
    "slow connections, long way": {"connection": 10, "latency": 100},
    "computing is the limit": {"compute": 0.2},
    "computing and line alike": {"compute": 0.1, "ram": 0.4},
    "large batches": {"batch": 512, "ram": 0.75},
    "a quarter in memory, the rest on disk": {"ram": 0.25, "disk": 1.3},
}


def rank(spec):
    """In a process of its own: reads all epochs as a training would, and prints what came from where."""
    import leat

    cache = {"cache_dir": spec["cache_dir"], "cache": str(spec["disk"])} if spec["disk"] else {}
    loader = leat.Loader(
        spec["url"],
        fields={"data": leat.bytes("bin")},
        batch_size=spec["batch"],
        window=spec["window"],
        ram=str(spec["ram"]),
        slots=spec["slots"],
        seed=0,
        last="short",
        as_numpy=True,
        linger="100ms",
        **cache,
    )
    start = 0.0  # when the first batch is there
    epochs = []
    for _ in range(EPOCHS):
        began = time.monotonic()
        samples = 0
        batches = iter(loader)
        while (batch := next(batches, None)) is not None:
            start = start or time.monotonic()
            samples += len(batch if not isinstance(batch, (tuple, list)) else batch[0])
            if spec["compute"]:
                time.sleep(spec["compute"])
            batch = None
        epochs.append({"time_s": time.monotonic() - began, "samples": samples})
    took = time.monotonic() - start
    stats = loader.stats()
    print(
        json.dumps(
            {
                "time_s": took,
                "epochs": epochs,
                "bytes": stats["bytes_by_source"],
                "requests": stats["requests"],
                "wait_s": stats["wait_by_cause_s"],
                "agent_pid": stats["agent_pid"],
            }
        )
    )
    loader.close()


def make_data(build, folder, total):
    """A bucket with a packed dataset of samples of SAMPLE bytes that do not compress."""
    raw = folder / "raw"
    raw.mkdir()
    block = os.urandom(SAMPLE)
    for i in range(int(total // SAMPLE)):
        (raw / f"{i:07}.bin").write_bytes(i.to_bytes(8, "little") + block[8:])
    bucket = folder / "buckets" / "data"
    bucket.mkdir(parents=True)
    leat = str(build / "src" / "cli" / "leat")
    subprocess.run([leat, "pack", str(raw), str(bucket / "set"), "--chunk-size", CHUNK, "--quiet"], check=True)
    subprocess.run(["rm", "-rf", str(raw)], check=True)
    return folder / "buckets"


def run_real(build, buckets, setting):
    limits = ["--bandwidth", f"{setting['bandwidth']}MB/s", "--latency", f"{setting['latency']}ms"]
    if setting["connection"]:
        limits += ["--connection-bandwidth", f"{setting['connection']}MB/s"]
    with serving(build, buckets, *limits) as env, tempfile.TemporaryDirectory(prefix="leat-bench-cache-") as cache:
        env = {**env, "PYTHONPATH": str(build / "python"), "LEAT_AGENT": str(build / "src" / "cli" / "leat")}
        spec = {**setting, "url": "s3://data/set", "cache_dir": cache}
        done = subprocess.run(
            [sys.executable, __file__, "--rank", json.dumps(spec)],
            env=env,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        result = json.loads(done.stdout)
        while Path(f"/proc/{result['agent_pid']}").exists():
            time.sleep(0.05)  # the next one must not find its cache
    here = result["bytes"]["ram"] + result["bytes"]["disk"]
    return {**result, "hits": here / (here + result["bytes"]["bucket"])}


def run_simulated(build, dataset, setting):
    command = [str(build / "src" / "cli" / "leat"), "simulate", str(dataset), "--json", "--last", "short"]
    command += ["--batch", str(setting["batch"]), "--window", str(setting["window"]), "--epochs", str(EPOCHS)]
    command += ["--ram", str(setting["ram"]), "--disk", str(setting["disk"]), "--slots", str(setting["slots"])]
    command += ["--bandwidth", f"{setting['bandwidth']}MB/s", "--latency", f"{setting['latency']}ms"]
    command += ["--connection-bandwidth", f"{setting['connection']}MB/s" if setting["connection"] else "0"]
    command += ["--compute", f"{setting['compute']}s", "--burst", "100ms"]
    done = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["runs"][0]
    parts = [*done["epochs"], done["ahead"]]
    sums = {name: sum(part.get(name, {}).get("bytes", 0) for part in parts) for name in ("ram", "disk", "bucket")}
    here = sums["ram"] + sums["disk"]
    return {**done, "bytes": sums, "hits": here / (here + sums["bucket"])}


def compare(build, buckets, dataset, name, setting, runs):
    real = sorted((run_real(build, buckets, setting) for _ in range(runs)), key=lambda r: r["time_s"])[runs // 2]
    simulated = run_simulated(build, dataset, setting)
    simulated["time_s"] -= simulated["first_step_s"]
    off = 100 * (simulated["time_s"] / real["time_s"] - 1)
    points = 100 * (simulated["hits"] - real["hits"])
    return {"name": name, "setting": setting, "real": real, "simulated": simulated, "off": off, "points": points}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--mb", type=float, default=400)
    parser.add_argument("--runs", type=int, default=1, help="of each setting; the middle one counts")
    parser.add_argument("--only", default="", help="settings with this text in their names")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(json.loads(options.rank))
        return
    build = Path(options.build)
    total = options.mb * 1e6
    rows = []
    with scratch(2 * total) as folder:
        buckets = make_data(build, folder, total)
        dataset = buckets / "data" / "set"
        for name, special in SETTINGS.items():
            if options.only not in name:
                continue
            setting = {**USUAL, **special}
            setting["ram"] = int(setting["ram"] * total)
            setting["disk"] = int(setting["disk"] * total)
            rows.append(compare(build, buckets, dataset, name, setting, options.runs))
    table(
        ["setting", "real s", "simulated", "off", "real hits", "simulated", "points"],
        [
            [
                row["name"],
                f"{row['real']['time_s']:.2f}",
                f"{row['simulated']['time_s']:.2f}",
                f"{row['off']:+.1f} %",
                f"{100 * row['real']['hits']:.1f} %",
                f"{100 * row['simulated']['hits']:.1f} %",
                f"{row['points']:+.1f}",
            ]
            for row in rows
        ],
    )
    for row in rows:
        real = " ".join(f"{e['time_s']:.2f}" for e in row["real"]["epochs"])
        simulated = " ".join(f"{e['time_s']:.2f}" for e in row["simulated"]["epochs"])
        print(f"  {row['name']}: epochs {real}, simulated {simulated}")
    write("simulate", {"rows": rows})


if __name__ == "__main__":
    main()
