"""Two ranks in step, one with images four times as large: how much longer does one wait than the other?

python bench/bench_mixed.py [--build build/release] [--steps 60] [--runs 3]
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from common import ROOT, scratch, shown, spread, table, write

BATCH = 32
IMAGES = 256
SIDES = {"small": 200, "large": 400}
WARM = 10  # steps before the measurement


def rank(folder, steps, compute):
    """In a process of its own: two loaders, a barrier before each step."""
    import leat

    loaders = {
        name: leat.Loader(
            f"{folder}/{name}/ds",
            batch_size=BATCH,
            threads=2,
            ram="256mib",
            linger="100ms",
            timeout=120,
            fields={"x": leat.image("jpg").resize((64, 64))},
            as_numpy=True,
        )
        for name in SIDES
    }
    barrier, waits = threading.Barrier(len(SIDES)), {name: [] for name in SIDES}

    def train(name):
        batches = iter(loaders[name])
        for _ in range(int(steps)):
            barrier.wait()
            began = time.monotonic()
            batch = next(batches, None) or next(batches := iter(loaders[name]))
            waits[name].append(time.monotonic() - began)
            del batch
            time.sleep(float(compute))

    threads = [threading.Thread(target=train, args=(name,)) for name in SIDES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = {name: loader.stats() for name, loader in loaders.items()}
    cost = {name: s["prep_cpu_s"] / s["batches"] for name, s in stats.items()}
    pid = stats["small"]["agent_pid"]
    print(json.dumps({"waits": {n: sum(w[WARM:]) for n, w in waits.items()}, "cost": cost, "agent_pid": pid}))
    for loader in loaders.values():
        loader.close()


def make_data(build, folder):
    import numpy
    from PIL import Image

    draw = numpy.random.default_rng(1)
    for name, side in SIDES.items():
        raw = folder / name / "raw"
        raw.mkdir(parents=True)
        for i in range(IMAGES):
            pixels = draw.integers(0, 256, (side, side, 3), dtype=numpy.uint8)
            Image.fromarray(pixels).save(raw / f"{i:04}.jpg", quality=85)
        command = [str(build / "src" / "cli" / "leat"), "pack", "--quiet", str(raw), str(folder / name / "ds")]
        subprocess.run(command, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(*options.rank)
        return
    build = Path(options.build)
    results = {0.0: [], 0.02: []}
    with scratch(200e6) as folder:
        make_data(build, folder)
        leat = str(build / "src" / "cli" / "leat")
        env = {**os.environ, "PYTHONPATH": str(build / "python"), "LEAT_AGENT": leat, "LEAT_RUNTIME_DIR": str(folder)}
        for _ in range(options.runs):
            for compute, rows in results.items():
                command = [sys.executable, __file__, "--rank", str(folder), str(options.steps), str(compute)]
                done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
                rows.append(json.loads(done.stdout))
                while Path(f"/proc/{rows[-1]['agent_pid']}").exists():
                    time.sleep(0.05)
    print("two ranks in step, two threads; JPEGs of 200 × 200 and of 400 × 400, batches of 32")
    lines, written = [], []
    for compute, rows in results.items():
        longer = spread([max(r["waits"].values()) / max(1e-9, min(r["waits"].values())) for r in rows])
        cost = spread([r["cost"]["large"] / r["cost"]["small"] for r in rows])
        lines.append([f"{1e3 * compute:.0f} ms", shown(cost, 2), shown(longer, 2)])
        written.append({"compute_s": compute, "cost_ratio": cost, "wait_ratio": longer, "runs": rows})
    table(["compute a step", "a batch's cost, large : small", "waiting, longer : shorter"], lines)
    print("  the aim is 1.05 where preparation is the limit")
    write("mixed", {"rows": written})


if __name__ == "__main__":
    main()
