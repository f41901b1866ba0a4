"""From one machine's memory to another's, on the loopback: Leat's door and client, bare calls of the kernel and of OpenSSL with
the same cipher, and iperf3. Rate, and processor time per GB at either end: a table, and bench/out/peers.json.

python bench/bench_peers.py [--build build/release] [--runs 5] [--mib 1024]

Every run measures each way once, one after the other. iperf3 counts plain bytes over one connection, without looking at them;
Leat's client compares a checksum of every chunk. Strangers are connections without a token that come back when they are thrown
out, each once a second at most.
"""

import argparse
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path

from common import shown, spread, table, write

STRANGERS = 1000
WAYS = [
    ("iperf3", "plain"),
    ("bare", "plain"),
    ("leat", "plain"),
    ("bare", "tls"),
    ("leat", "tls"),
    ("leat", "tls", STRANGERS),
]


def run_iperf3(mib):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen(
        ["iperf3", "-s", "-1", "-p", str(port), "-J"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    client = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-J", "-n", f"{mib}M"]
    try:
        for _ in range(50):  # until it listens
            time.sleep(0.2)
            done = subprocess.run(client, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
    finally:
        server.terminate()
        server.communicate()
    end = json.loads(done.stdout)["end"]
    seconds, size = end["sum_received"]["seconds"], end["sum_received"]["bytes"]
    cpu = end["cpu_utilization_percent"]
    return {
        "gb": size / 1e9,
        "seconds": seconds,
        "server_cpu_s": cpu["host_total"] / 100 * seconds,  # iperf3's client is the one that sends
        "client_cpu_s": cpu["remote_total"] / 100 * seconds,
    }


def measure(build, mib, way, kind, strangers=0):
    if way == "iperf3":
        return run_iperf3(mib)
    done = subprocess.run(
        [str(Path(build) / "bench" / "bench_peers"), way, kind, str(mib), str(strangers)],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--mib", type=int, default=1024)
    args = parser.parse_args()
    subprocess.run(["ninja", "-C", args.build, "bench/bench_peers"], check=True, stdout=subprocess.DEVNULL)
    ways = [w for w in WAYS if w[0] != "iperf3" or shutil.which("iperf3")]
    found = {way: [] for way in ways}
    for _ in range(args.runs):
        for way in ways:
            found[way].append(measure(args.build, args.mib, *way))
    rows, result = [], {}
    for way in ways:
        figures = {
            "gb_per_s": spread([r["gb"] / r["seconds"] for r in found[way]]),
            "server_cpu_s_per_gb": spread([r["server_cpu_s"] / r["gb"] for r in found[way]]),
            "client_cpu_s_per_gb": spread([r["client_cpu_s"] / r["gb"] for r in found[way]]),
        }
        name = " ".join(way[:2]) + (f", {way[2]} strangers" if len(way) > 2 else "")
        result[name] = figures
        rows.append([name, *(shown(f, 2) for f in figures.values())])
    table(["", "GB/s", "CPU s/GB, sends", "CPU s/GB, receives"], rows)
    write("peers", result)


if __name__ == "__main__":
    main()
