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


def shares(program, what, runs):
    found = {}
    for epoch in range(runs):
        for row in measure(program, what, epoch):
            found.setdefault((row["chunks"], row["nodes"]), []).append(row)
    return [
        {
            "chunks": chunks,
            "nodes": nodes,
            "share_percent": spread([100 * row["share"] for row in rows]),
            "readers": spread([row["readers"] for row in rows]),
            "assign_us": spread([row["assign_us"] for row in rows]),
        }
        for (chunks, nodes), rows in sorted(found.items())
    ]


def show_share(row):
    share, readers = shown(row["share_percent"], 1), row["readers"]["median"]
    print(f"  {row['chunks']:6}  {row['nodes']:5}   {share:28}  {readers:23.2f}   {row['assign_us']['median']:.0f} µs")


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

    print("\nReads from the node that owns the chunk, 75 samples per chunk, window 128, G = 4096, 8 ranks per node")
    print("  chunks  nodes   share of an epoch, %          nodes that read a chunk   assigning a batch")
    result["local"] = local = shares(program, "local", options.runs)
    for row in local:
        show_share(row)
    result["nodes"] = nodes = shares(program, "nodes", options.runs)
    for row in nodes:
        if row["nodes"] in (24, 48, 96, 100, 120, 128):
            show_share(row)
    print("  of 2 to 128 nodes: the least share, and the most nodes that read a chunk")
    show_share(min(nodes, key=lambda row: row["share_percent"]["median"]))
    show_share(max(nodes, key=lambda row: row["readers"]["median"]))
    print("  after a node has left and another joined, 100 times")
    result["changed"] = shares(program, "changed", 1)
    for row in result["changed"]:
        show_share(row)

    print("\nAssigning a batch, CPU time of one core")
    result["assign"] = measure(program, "assign", 0)
    for row in result["assign"]:
        print(f"  G = {row['batch']:,} over {row['ranks']:,} ranks: {row['ms']} ms, with costs {row['costs_ms']} ms")

    result["shape"] = measure(program, "shape", 0)
    print("\nThe window, 75 samples per chunk, w = 128, G = 4096")
    for row in result["shape"]:
        print(
            f"  {row['chunks']:6} chunks: at most {row['live_max']} live; new ones in a batch: first"
            f" {row['first_batch_chunks']}, later at most {row['batch_chunks_max']}; correlation of a sample's position"
            f" with the next epoch's {row['correlation']:+.3f} (sd of unrelated ones {row['correlation_sd']:.3f})"
        )
    write("order", result)


if __name__ == "__main__":
    main()
