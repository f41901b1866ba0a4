"""The order's figures: a table, and bench/out/order.json.

python bench/bench_order.py [--build build/release] [--runs 5]
"""

import argparse
import json
import subprocess
from pathlib import Path

from common import ROOT, shown, spread, write


def measure(program, what, epoch):
    done = subprocess.run([program, what, str(epoch)], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    subprocess.run(["ninja", "-C", options.build, "bench/bench_order"], check=True, stdout=subprocess.DEVNULL)
    program = str(Path(options.build) / "bench" / "bench_order")

    speed = [row for epoch in range(options.runs) for row in measure(program, "speed", epoch)]
    result = {name: spread([row[name] for row in speed]) for name in speed[0] if name != "what"}
    print("1,000,000 chunks of 100 samples, window 128, CPU time of one core: median (min … max)")
    print(f"  tables of an epoch     {shown(result['open_ms'], 1)} ms")
    print(f"  seek within it         {shown(result['seek_ms'], 2)} ms")
    print(f"  both: a resume         {shown(result['resume_ms'], 1)} ms   (aim: 50)")
    millions = {k: v / 1e6 for k, v in result["reads_per_s"].items()}
    print(f"  samples read           {shown(millions, 1)} million/s   (aim: 10)")

    local = {}
    for epoch in range(options.runs):
        for row in measure(program, "local", epoch):
            local.setdefault((row["chunks"], row["nodes"]), []).append(row)
    result["local"] = []
    print("\nReads from the rank's own node, 75 samples a chunk, window 128, G = 4096, 8 ranks a node")
    print("  chunks  nodes   share of an epoch             assigning a batch")
    for (chunks, nodes), rows in sorted(local.items()):
        share = spread([100 * row["share"] for row in rows])
        took = spread([row["assign_us"] for row in rows])
        result["local"].append({"chunks": chunks, "nodes": nodes, "share_percent": share, "assign_us": took})
        print(f"  {chunks:6}  {nodes:5}   {shown(share, 1):28}  {took['median']:.0f} µs")

    result["shape"] = measure(program, "shape", 0)
    print("\nThe window, 75 samples a chunk, w = 128, G = 4096")
    for row in result["shape"]:
        print(
            f"  {row['chunks']:6} chunks: at most {row['live_max']} live; new ones in a batch: first"
            f" {row['first_batch_chunks']}, later at most {row['batch_chunks_max']}; correlation of a sample's position"
            f" with the next epoch's {row['correlation']:+.3f} (sd of unrelated ones {row['correlation_sd']:.3f})"
        )
    write("order", result)


if __name__ == "__main__":
    main()
