"""Memory and time of packing many tiny samples: a table, and bench/out/pack.json.

python bench/bench_pack.py [--build build/release] [--samples 1000000 10000000]
"""

import argparse
import json
import subprocess
from pathlib import Path

from common import ROOT, scratch, table, write


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--samples", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    options = parser.parse_args()
    subprocess.run(["ninja", "-C", options.build, "bench/bench_pack"], check=True, stdout=subprocess.DEVNULL)
    program = str(Path(options.build) / "bench" / "bench_pack")
    rows = []
    for samples in options.samples:
        with scratch(samples * 300) as folder:
            done = subprocess.run([program, str(samples), str(folder)], check=True, capture_output=True, text=True)
            rows.append(json.loads(done.stdout))
    print("Samples of 16 bytes and a label, keys of 20 bytes, one thread; most memory resident, MiB (aim: 512)")
    table(
        ["samples", "chunks", "packing, s", "publishing, s", "memory packing", "memory in all"],
        [
            [
                f"{row['samples']:,}",
                row["chunks"],
                f"{row['pack_s']:.1f}",
                f"{row['publish_s']:.1f}",
                f"{row['peak_packing_mib']:.0f}",
                f"{row['peak_mib']:.0f}",
            ]
            for row in rows
        ],
    )
    write("pack", {"rows": rows})


if __name__ == "__main__":
    main()
