"""`leat simulate` beside the real thing: the same dataset, bucket and job, simulated and run.

python bench/bench_simulate.py [--build build/release] [--mb 300] [--runs 1] [--only TEXT]

A bucket (`leat serve`, which limits rate and latency), and `leat read` for three epochs, which sleeps where a training
computes. The hit rate is over the whole run; the time is from the first batch to the end of the last step.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from common import ROOT, make_data, scratch, serving, table, write

SAMPLE = 100_000
CHUNK = "2MiB"  # so that there are hundreds: one more or less of them must not be a point
EPOCHS = 3

# Sizes are shares of the dataset, compute is seconds a step; what a setting does not name is as in USUAL.
USUAL = {
    "batch": 64,
    "window": 16,
    "ram": 0.5,
    "disk": 0,
    "bandwidth": 40,
    "connection": 0,
    "latency": 30,
    "compute": 0,
    "slots": 4,
}
SETTINGS = {
    "half in memory": {},
    "a quarter in memory": {"ram": 0.25},
    "all in memory": {"ram": 1.3},
    "slow connections, long way": {"connection": 5, "latency": 100},
    "computing is the limit": {"compute": 0.25},
    "computing and line alike": {"compute": 0.15, "ram": 0.4},
    "large batches": {"batch": 512, "ram": 0.75},
    "a quarter in memory, the rest on disk": {"ram": 0.25, "disk": 1.3},
}


def hits(sources):
    here = sources["ram"] + sources["disk"]
    return here / (here + sources["bucket"])


def run_real(build, buckets, setting):
    limits = ["--bandwidth", f"{setting['bandwidth']}MB/s", "--latency", f"{setting['latency']}ms"]
    if setting["connection"]:
        limits += ["--connection-bandwidth", f"{setting['connection']}MB/s"]
    with serving(build, buckets, *limits) as env, tempfile.TemporaryDirectory(prefix="leat-bench-cache-") as cache:
        command = [str(build / "src" / "cli" / "leat"), "read", "s3://data/set", "--json", "--quiet"]
        command += ["--batch", str(setting["batch"]), "--window", str(setting["window"]), "--epochs", str(EPOCHS)]
        command += ["--ram", str(setting["ram"]), "--slots", str(setting["slots"])]
        command += ["--compute", f"{setting['compute']}s"] if setting["compute"] else []
        command += ["--cache-dir", cache, "--cache", str(setting["disk"])] if setting["disk"] else []
        done = json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)
    sources = done["account"]["bytes_by_source"]
    return {
        "time_s": done["seconds"] - done["first_batch_s"],
        "epochs": [{"time_s": epoch["seconds"], "samples": epoch["samples"]} for epoch in done["epochs"]],
        "bytes": sources,
        "requests": done["account"]["requests"],
        "hits": hits(sources),
    }


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
    time_s = done["time_s"] - done["first_step_s"]
    return {**done, "time_s": time_s, "bytes": sums, "hits": hits(sums)}


def compare(build, buckets, dataset, name, setting, runs):
    real = sorted((run_real(build, buckets, setting) for _ in range(runs)), key=lambda r: r["time_s"])[runs // 2]
    simulated = run_simulated(build, dataset, setting)
    off = 100 * (simulated["time_s"] / real["time_s"] - 1)
    points = 100 * (simulated["hits"] - real["hits"])
    return {"name": name, "setting": setting, "real": real, "simulated": simulated, "off": off, "points": points}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--mb", type=float, default=300)
    parser.add_argument("--runs", type=int, default=1, help="of each setting; the middle one counts")
    parser.add_argument("--only", default="", help="settings with this text in their names")
    options = parser.parse_args()
    build = Path(options.build)
    total = options.mb * 1e6
    rows = []
    with scratch(2 * total) as folder:
        buckets = make_data(build, folder, total, SAMPLE, "--chunk-size", CHUNK)
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
