"""The stores' figures: reading beside other clients, finding the bandwidth, listing. A table, and bench/out/store.json.

python bench/bench_store.py [--build build/release] [--runs 5] [--against OTHER/build/release] [read] [adapt] [list] [copy]

`copy` measures `leat cp` up and down, and plain reads; with --against, of two builds that take turns, which is what holds
on a busy machine.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, run_measured, scratch, serving, shown, spread, table, write

OBJECTS = 240
OBJECT_BYTES = 8 << 20
CONNECTIONS = (16, 32)
PYTHON_RUNS = 3  # of each: they take longer, and their figures spread less than they differ
LIMITS = ("--latency", "50ms", "--connection-bandwidth", "25MB/s", "--bandwidth", "400MB/s")
BANDWIDTH = 400e6
ADAPT_S = 15
LISTINGS = (10_000, 1_000_000)
COPY_OBJECTS = 8
COPY_LARGE = 64 << 20
COPY_BYTES = COPY_OBJECTS * OBJECT_BYTES + COPY_LARGE


def fill(folder):
    """OBJECTS objects, no two alike, in the bucket "bucket"."""
    block = os.urandom(OBJECT_BYTES - 8)
    (folder / "bucket").mkdir()
    for i in range(OBJECTS):
        (folder / "bucket" / f"{i:04}").write_bytes(i.to_bytes(8, "big") + block)


def read_leat(build, env, connections):
    command = [build / "bench" / "read_objects", "--connections", connections, "--ahead", connections * 5 // 4]
    _, _, text = run_measured([*command, "s3://bucket/"], env)
    result = json.loads(text)
    assert result["bytes"] == OBJECTS * OBJECT_BYTES
    # The buffers' first touch is not part of it, as the imports of the Python clients are not.
    return result["seconds"], result["user_s"] + result["system_s"]


def read_curl(build, env, connections):
    config = "".join(f'url = "{env["AWS_ENDPOINT_URL"]}/bucket/{i:04}"\noutput = "/dev/null"\n' for i in range(OBJECTS))
    path = Path(env["BENCH_FOLDER"]) / "curl.conf"
    path.write_text(config)
    options = ("--parallel", "--parallel-immediate", "--parallel-max", connections, "--no-progress-meter", "--fail")
    seconds, cpu, _ = run_measured(["curl", *options, "--config", path], {**env, "no_proxy": "*"})
    return seconds, cpu


def read_python(kind):
    def read(build, env, connections):
        script = ROOT / "bench" / "read_python.py"
        env = {**env, "AWS_DEFAULT_REGION": env["AWS_REGION"]}
        _, _, text = run_measured([sys.executable, script, kind, "bucket", connections], env)
        result = json.loads(text)
        assert result["bytes"] == OBJECTS * OBJECT_BYTES
        return result["seconds"], result["user_s"] + result["system_s"]

    return read


CLIENTS = {
    "leat": read_leat,
    "curl --parallel": read_curl,
    "boto3 get_object": read_python("get_object"),
    "boto3 download_fileobj": read_python("download_fileobj"),
    "s3torchconnector": read_python("s3torchconnector"),
}


def bench_read(build, runs):
    """Throughput and CPU time of reading 2 GB, the clients taking turns."""
    clients = dict(CLIENTS)
    if not importlib.util.find_spec("s3torchconnectorclient"):
        del clients["s3torchconnector"]
        print("s3torchconnector is left out: it is not installed (pip install -r bench/requirements.txt)")
    gb = OBJECTS * OBJECT_BYTES / 1e9
    result = {}
    with scratch(OBJECTS * OBJECT_BYTES) as folder, serving(build, folder) as env:
        fill(folder)
        env["BENCH_FOLDER"] = str(folder)
        for connections in CONNECTIONS:
            rates = {name: [] for name in clients}
            cpus = {name: [] for name in clients}
            for turn in range(runs):
                for name, read in clients.items():
                    if turn >= PYTHON_RUNS and name not in ("leat", "curl --parallel"):
                        continue
                    seconds, cpu = read(build, env, connections)
                    rates[name].append(gb / seconds)
                    cpus[name].append(cpu / gb)
            print_read(connections, rates, cpus)
            result[str(connections)] = {
                name: {"gb_per_s": spread(rates[name]), "cpu_s_per_gb": spread(cpus[name])} for name in clients
            }
    return result


def print_read(connections, rates, cpus):
    print(f"\n{OBJECTS} objects of 8 MiB from leat serve, {connections} connections: median (min … max)")
    rows = []
    for name in rates:
        ratio = statistics.median(rates["leat"]) / statistics.median(rates[name])
        cpu_ratio = statistics.median(cpus["leat"]) / statistics.median(cpus[name])
        rows.append(
            [name, shown(spread(rates[name]), 2), shown(spread(cpus[name]), 2), f"{ratio:.2f}", f"{cpu_ratio:.2f}"]
        )
    table(["client", "GB/s", "CPU s/GB", "leat's rate to it", "leat's CPU to it"], rows)


def reached(rates):
    """Seconds until half a second has passed at 95 % of the bandwidth; None: never."""
    capped = [min(rate, BANDWIDTH) for rate in rates]
    for i in range(5, len(capped) + 1):
        if sum(capped[i - 5 : i]) / 5 >= 0.95 * BANDWIDTH:
            return i / 10
    return None


def adapt_once(build, folder, *faults):
    command = [build / "bench" / "read_objects", "--duration", f"{ADAPT_S}s", "--ahead", 128, "s3://bucket/"]
    with serving(build, folder, *LIMITS, *faults) as env:
        _, _, text = run_measured(command, env)
    result = json.loads(text)
    steady = result["rates"][30 : ADAPT_S * 10 - 1]
    return {
        "share_percent": 100 * sum(steady) / len(steady) / BANDWIDTH,
        "reached_s": reached(result["rates"]),
        "extra_requests_percent": 100 * result["retries"] / (result["requests"] - result["retries"]),
        "limit": result["limits"][-1],
    }


def bench_adapt(build, runs):
    """How much of a bucket's bandwidth is used without any setting, and how soon."""
    result = {}
    rows = []
    with scratch(OBJECTS * OBJECT_BYTES) as folder:
        fill(folder)
        for name, faults in {"no faults": (), "5 % of 503": ("--fault", "503=0.05")}.items():
            seeds = range(1, min(runs, 3) + 1)
            turns = [adapt_once(build, folder, *faults, "--seed", str(seed)) for seed in seeds]
            result[name] = {key: spread([turn[key] for turn in turns]) for key in turns[0]}
            r = result[name]
            rows.append(
                [
                    name,
                    shown(r["share_percent"], 1) + " %",
                    shown(r["reached_s"], 1) + " s",
                    shown(r["extra_requests_percent"], 1) + " %",
                    f"{r['limit']['median']:.0f}",
                ]
            )
    print("\nNo settings, a bucket with 50 ms latency, 25 MB/s a connection, 400 MB/s in all: median (min … max)")
    table(["", "of 400 MB/s from 3 s on", "95 % reached after", "extra requests", "in flight"], rows)
    return result


def make_keys(folder, count):
    """Empty objects in folders of 1000, as image datasets have them."""
    for i in range(count // 1000):
        below = folder / "bucket" / "train" / f"n{i:08}"
        below.mkdir(parents=True)
        for j in range(1000):
            os.mknod(below / f"n{i:08}_{j}.JPEG")


def list_once(build, env):
    """(keys, seconds, peak KiB) of `leat ls -r`. VmHWM is asked for while it runs: the peak that wait4() reports counts
    this process's own memory, from before the exec."""
    command = [str(build / "src" / "cli" / "leat"), "ls", "--recursive", "s3://bucket/"]
    peak = 0
    start = time.monotonic()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as child:
        lines = 0
        while piece := os.read(child.stdout.fileno(), 1 << 16):
            lines += piece.count(b"\n")
            status = Path(f"/proc/{child.pid}/status").read_text()
            peak = max([peak] + [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")])
    if child.returncode != 0:
        raise SystemExit(f"leat ls ended with status {child.returncode}")
    return lines, time.monotonic() - start, peak


def bench_list(build, runs):
    """Memory of listing few and many keys."""
    result = {}
    rows = []
    for count in LISTINGS:
        with scratch(count * 1024) as folder:
            make_keys(folder, count)
            with serving(build, folder) as env:
                lines, seconds, peak = list_once(build, env)
        assert lines == count
        result[str(count)] = {"seconds": seconds, "peak_kib": peak}
        rows.append([f"{count:,}", f"{peak / 1024:.1f} MiB", f"{seconds:.1f} s", f"{count / seconds:,.0f}"])
    print("\nleat ls --recursive, from leat serve")
    table(["keys", "peak memory", "time", "keys/s"], rows)
    return result


def copy_once(build, what, env, folder):
    """(seconds, CPU seconds) of one way over COPY_BYTES."""
    leat = build / "src" / "cli" / "leat"
    if what == "read":
        command = [build / "bench" / "read_objects", "--connections", 8, "--ahead", 10, "s3://bucket/"]
        result = json.loads(run_measured(command, env)[2])
        assert result["bytes"] == COPY_BYTES
        return result["seconds"], result["user_s"] + result["system_s"]
    there = folder / "there"
    shutil.rmtree(there, ignore_errors=True)
    shutil.rmtree(folder / "up", ignore_errors=True)
    (folder / "up").mkdir()
    ends = ["s3://bucket/", there] if what == "download" else [folder / "bucket", "s3://up/x"]
    return run_measured([leat, "cp", "--recursive", "--quiet", "--connections", 8, *ends], env)[:2]


def bench_copy(build, runs, against=None):
    """Throughput and CPU time of `leat cp`, whole objects and parts, and of reads."""
    builds = {"this build": build, **({"the other": against} if against else {})}
    gb = COPY_BYTES / 1e9
    result = {}
    rows = []
    with scratch(3 * COPY_BYTES) as folder, serving(build, folder) as env:
        env["XDG_STATE_HOME"] = str(folder / "state")
        (folder / "bucket").mkdir()
        for i in range(COPY_OBJECTS):
            (folder / "bucket" / f"{i:04}").write_bytes(os.urandom(OBJECT_BYTES))
        (folder / "bucket" / "large").write_bytes(os.urandom(COPY_LARGE))
        for what in ("read", "download", "upload"):
            rates = {name: [] for name in builds}
            cpus = {name: [] for name in builds}
            for _ in range(runs):
                for name, which in builds.items():
                    seconds, cpu = copy_once(which, what, env, folder)
                    rates[name].append(gb / seconds)
                    cpus[name].append(cpu / gb)
            for name in builds:
                row = [what, name, shown(spread(rates[name]), 2), shown(spread(cpus[name]), 2)]
                ratio = statistics.median(a / b for a, b in zip(cpus["this build"], cpus[name]))
                rows.append([*row, f"{ratio:.2f}"])
            result[what] = {
                name: {"gb_per_s": spread(rates[name]), "cpu_s_per_gb": spread(cpus[name])} for name in builds
            }
    print(f"\n{COPY_OBJECTS} objects of 8 MiB and one of {COPY_LARGE >> 20} MiB, leat serve: median (min … max)")
    table(["", "build", "GB/s", "CPU s/GB", "this build's CPU to it"], rows)
    return result


PARTS = {"read": bench_read, "adapt": bench_adapt, "list": bench_list, "copy": bench_copy}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--against", help="another build, for copy")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all when none is named")
    options = parser.parse_args()
    if set(options.parts) - set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    build = Path(options.build).resolve()
    subprocess.run(["ninja", "-C", build, "bench/read_objects", "src/cli/leat"], check=True, stdout=subprocess.DEVNULL)
    more = {"copy": {"against": Path(options.against).resolve()}} if options.against else {}
    write(
        "store",
        {name: PARTS[name](build, options.runs, **more.get(name, {})) for name in options.parts or PARTS},
        keep=bool(options.parts),
    )


if __name__ == "__main__":
    main()
