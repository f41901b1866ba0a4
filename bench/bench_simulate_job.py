"""`leat simulate --nodes` beside jobs of 1, 2, 4 and 8 machines that are run: bytes by source, and time.

python bench/bench_simulate_job.py [--build build/release] [--nodes 1,2,4,8] [--runs 1]

Machines are processes with an agent each, which fetch from each other and from one bucket (`leat serve`). The bucket's
line is slow enough to be the limit: eight agents on a few cores must wait for it, and not for the cores. The time is
from when all ranks ask for their first batch until the last step, which they make together. What a step takes without
its data is measured, and what the simulation is told.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, make_data, scratch, serving, table, write

SAMPLE, SAMPLES, CHUNK = 16_000, 960, 65536
EPOCHS, BATCH, WINDOW = 3, 8, 8
LINE, LATENCY = "1500kb/s", "20ms"
STEP_S = 0.01
SHARES = {"all": 2, "a quarter": 0.25}  # of the dataset, in the memories of all machines together


def job(url, ram):
    """A rank, in a process of its own."""
    import leat
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    loader = leat.Loader(
        url, fields={"x": leat.bytes("bin")}, batch_size=BATCH, seed=1, window=WINDOW, last="short", shuffle=True,
        timeout=300, ram=int(ram), job="auto",
    )  # fmt: skip
    loader.stats()  # opens it
    dist.barrier()
    began, slept, agreed = time.monotonic(), [], []
    for _ in range(EPOCHS):
        for _batch in loader:
            at = time.monotonic()
            dist.all_reduce(torch.ones(1))
            then = time.monotonic()
            time.sleep(STEP_S)
            agreed.append(then - at)
            slept.append(time.monotonic() - then)
    took = time.monotonic() - began
    # Of agreeing what nobody waited for: the rest is the wait for the rank whose batch came last.
    step_s = sum(slept) / len(slept) + sorted(agreed)[len(agreed) // 10]
    print(json.dumps({"took": took, "step_s": step_s, "bytes": loader.stats()["bytes_by_source"]}), flush=True)
    dist.barrier()  # nobody takes its agent away from the others
    loader.close()


def run_real(build, buckets, n, ram, port):
    with (
        serving(build, buckets, "--bandwidth", LINE, "--latency", LATENCY) as env,
        tempfile.TemporaryDirectory(prefix="leat-bench-job-") as folder,
    ):
        ranks = []
        for r in range(n):
            runtime = Path(folder) / str(r)
            runtime.mkdir(mode=0o700)
            names = {"RANK": r, "WORLD_SIZE": n, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "job", "GLOO_SOCKET_IFNAME": "lo",
                     "OMP_NUM_THREADS": 1, "LEAT_RUNTIME_DIR": runtime, "LEAT_LINGER": "1s",
                     "LEAT_AGENT": build / "src" / "cli" / "leat", "PYTHONPATH": build / "python"}  # fmt: skip
            command = [sys.executable, __file__, "--job", "s3://data/set", str(ram)]
            mine = {**env, **{name: str(value) for name, value in names.items()}}
            ranks.append(subprocess.Popen(command, env=mine, stdout=subprocess.PIPE, text=True))
        told = [json.loads(p.communicate(timeout=600)[0]) for p in ranks]
        time.sleep(1.5)  # agents end
    sums = {name: sum(t["bytes"][name] for t in told) for name in ("bucket", "peer", "ram")}
    return {"time_s": max(t["took"] for t in told), "step_s": max(t["step_s"] for t in told), "bytes": sums}


def run_simulated(build, dataset, n, ram, step_s):
    command = [str(build / "src" / "cli" / "leat"), "simulate", str(dataset), "--json", "--nodes", str(n)]
    command += ["--batch", str(BATCH), "--window", str(WINDOW), "--seed", "1", "--last", "short"]
    command += ["--epochs", str(EPOCHS), "--ram", str(ram), "--compute", f"{step_s:.6f}s", "--bandwidth", "0"]
    command += ["--bucket-bandwidth", LINE, "--latency", LATENCY, "--peers", "0", "--burst", "100ms"]
    (done,) = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["runs"]
    parts = [*done["epochs"], done["ahead"]]
    sums = {name: sum(part[name]["bytes"] for part in parts) for name in ("bucket", "peer", "ram")}
    return {"time_s": done["time_s"], "bytes": sums}


def off(simulated, real):
    return f"{100 * (simulated / real - 1):+.1f} %" if real else ""


def main():
    if sys.argv[1:2] == ["--job"]:
        job(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--nodes", default="1,2,4,8")
    parser.add_argument("--shares", default=",".join(SHARES))
    parser.add_argument("--runs", type=int, default=1, help="of each; the middle one by time counts")
    options = parser.parse_args()
    dataset_bytes = SAMPLE * SAMPLES
    rows, kept = [], []
    with scratch(2 * dataset_bytes) as folder:
        buckets = make_data(options.build, folder, dataset_bytes, SAMPLE, "--chunk-size", str(CHUNK))
        for name in options.shares.split(","):
            for n in map(int, options.nodes.split(",")):
                ram = int(SHARES[name] * dataset_bytes / n) + 16 * CHUNK * (SHARES[name] < 1)
                port = 29700 + os.getpid() % 200
                runs = [run_real(options.build, buckets, n, ram, port + i) for i in range(options.runs)]
                did = sorted(runs, key=lambda r: r["time_s"])[len(runs) // 2]
                said = run_simulated(options.build, buckets / "data" / "set", n, ram, did["step_s"])
                kept.append({"nodes": n, "memory": name, "simulated": said, "real": runs})
                row = [n, name]
                for source in ("bucket", "peer"):
                    a, b = said["bytes"][source], did["bytes"][source]
                    row += [f"{b / 1e6:.2f}", f"{a / 1e6:.2f}", off(a, b)]
                row += [f"{did['time_s']:.2f}", f"{said['time_s']:.2f}", off(said["time_s"], did["time_s"])]
                rows.append(row)
                print("  ", *row, flush=True)
    head = ["machines", "memory", "bucket, real MB", "simulated", "off", "peers, real MB", "simulated", "off"]
    table([*head, "real s", "simulated", "off"], rows)
    write("simulate_job", {"rows": kept})


if __name__ == "__main__":
    main()
