"""Four jobs of one machine on the same data and pipeline, beside one alone and four that do not share.

python bench/bench_share.py [--build build/release] [--images 1500] [--epochs 3] [--runs 3]
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, scratch, shown, spread, table, write

BATCH = 64
JOBS = 4


def job(url, epochs, settings):
    """In a process of its own, with torch: opens, waits for a word, reads as fast as it gets batches."""
    import leat
    import torch  # noqa: F401 - batches are its tensors

    image = leat.image("jpg").random_resized_crop(224).flip()
    loader = leat.Loader(
        url, fields={"x": image, "y": leat.int("cls")}, batch_size=BATCH, shuffle=True, seed=1, **json.loads(settings)
    )
    print(json.dumps({"agent": loader.stats()["agent_pid"]}), flush=True)
    sys.stdin.readline()
    began, samples = time.monotonic(), 0
    for _ in range(int(epochs)):
        for x, _y in loader:
            samples += len(x)
    took = time.monotonic() - began
    stats = loader.stats()
    wanted = ("samples_decoded", "samples_shared", "shared_bytes", "prep_cpu_s")
    print(
        json.dumps({"rate": samples / took, "samples": samples, **{name: stats[name] for name in wanted}}), flush=True
    )
    sys.stdin.readline()


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def measure(url, env, count, epochs, stop=None, draws=False, **settings):
    """Rates of the jobs, decodes, and the agent's CPU time; `stop`: a signal for the last of them, soon after the start;
    `draws`: each has its own."""
    with contextlib.ExitStack() as stack:
        jobs = []
        for n in range(count):
            mine = {"linger": "100ms", **({"draw_seed": n} if draws else {}), **settings}
            command = [sys.executable, __file__, "--job", url, str(epochs), json.dumps(mine)]
            jobs.append(
                stack.enter_context(
                    subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                )
            )
        agents = [json.loads(p.stdout.readline())["agent"] for p in jobs]  # all are open: one agent
        before = cpu_s(agents[0])
        for p in jobs:
            p.stdin.write("\n")
            p.stdin.flush()
        if stop:
            time.sleep(0.5)
            jobs[-1].send_signal(stop)
        done = [json.loads(p.stdout.readline()) for p in (jobs[:-1] if stop else jobs)]
        used = cpu_s(agents[0]) - before
        if stop == signal.SIGSTOP:
            jobs[-1].send_signal(signal.SIGCONT)
            jobs[-1].stdout.readline()
        for p in jobs:
            with contextlib.suppress(OSError):
                p.stdin.close()
    return {
        "rates": [d["rate"] for d in done],
        "decoded": sum(d["samples_decoded"] for d in done),
        "shared": sum(d["samples_shared"] for d in done),
        "samples": done[0]["samples"],
        "agent_cpu_s": used,
        "shared_bytes": max(d["shared_bytes"] for d in done),
    }


def make_photos(build, folder, count):
    """Pictures of about 500 pixels that cost about what photographs cost."""
    import numpy
    from PIL import Image

    draw = numpy.random.default_rng(1)
    for i in range(count):
        path = folder / "raw" / f"c{i % 10}" / f"{i:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(draw.integers(0, 256, size=(47, 63, 3), dtype=numpy.uint8))
        picture = numpy.asarray(small.resize((500, 375), Image.BICUBIC)).astype(int)
        noise = draw.normal(0, 12, size=picture.shape)
        Image.fromarray((picture + noise).clip(0, 255).astype(numpy.uint8)).save(path, quality=88)
    subprocess.run(
        [str(build / "src" / "cli" / "leat"), "pack", "--quiet", str(folder / "raw"), str(folder / "ds")], check=True
    )
    return str(folder / "ds")


def main():
    if sys.argv[1:2] == ["--job"]:
        job(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", type=int, default=99, help="the first ones only")
    options = parser.parse_args()
    cases = {
        "one job": {"count": 1},
        f"{JOBS} jobs": {"count": JOBS},
        f"{JOBS} jobs, draws of their own": {"count": JOBS, "draws": True},
        f"{JOBS} jobs, share=off": {"count": JOBS, "share": "off"},
        f"{JOBS} jobs, one stopped": {"count": JOBS, "stop": signal.SIGSTOP},
        f"{JOBS} jobs, one killed": {"count": JOBS, "stop": signal.SIGKILL},
    }
    cases = dict(list(cases.items())[: options.cases])
    results = {name: [] for name in cases}
    with scratch(options.images * 100_000) as folder:
        url = make_photos(options.build, folder, options.images)
        env = {**os.environ, "PYTHONPATH": str(options.build / "python"), "LEAT_RUNTIME_DIR": str(folder)}
        env["LEAT_AGENT"] = str(options.build / "src" / "cli" / "leat")
        for _ in range(options.runs):
            for name, case in cases.items():
                results[name].append(measure(url, env, epochs=options.epochs, **case))
                time.sleep(0.5)
    rows = []
    for name, runs in results.items():
        slowest = spread([min(r["rates"]) for r in runs])
        cpu = spread([1000 * r["agent_cpu_s"] / r["samples"] for r in runs])
        decoded = spread([r["decoded"] / r["samples"] for r in runs])
        memory = max(r["shared_bytes"] for r in runs)
        rows.append([name, shown(slowest, 0), shown(decoded, 3), shown(cpu, 3), f"{memory / 1e6:.0f}"])
    table(["", "samples/s of the slowest job", "decodes per sample", "agent's CPU ms per sample", "MB shared"], rows)
    write("share", {"runs": results})


if __name__ == "__main__":
    main()
