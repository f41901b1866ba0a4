"""What the benchmarks share: figures with their spread, a server to read from, and where results go."""

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out"


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def shown(s, digits):
    return f"{s['median']:.{digits}f}  ({s['min']:.{digits}f} … {s['max']:.{digits}f})"


def table(head, rows):
    """Prints columns as wide as they need to be; the first is aligned to the left."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        line = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "   ".join(line).rstrip())


def machine():
    """What the figures depend on, for the JSON."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "processor": model.group(1) if model else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def write(name, result, keep=False):
    """Writes bench/out/NAME.json; `keep`: what is in it under other names stays."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    old = json.loads(path.read_text()) if keep and path.exists() else {}
    path.write_text(json.dumps({**old, "machine": machine(), **result}, indent=1) + "\n")
    print(f"\nwritten to {path.relative_to(ROOT)}")


@contextlib.contextmanager
def scratch(bytes_wanted):
    """A folder for data, in memory where there is room for it: the disk is not what is measured."""
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and shutil.disk_usage(shm).free > 2 * bytes_wanted
    with tempfile.TemporaryDirectory(prefix="leat-bench-", dir=shm if roomy else None) as folder:
        yield Path(folder)


def make_data(build, folder, total, sample, *options):
    """Buckets with a packed dataset data/set of samples of this many bytes, which do not compress."""
    raw = folder / "raw"
    raw.mkdir()
    block = os.urandom(sample)
    for i in range(int(total // sample)):
        (raw / f"{i:07}.bin").write_bytes(i.to_bytes(8, "little") + block[8:])
    bucket = folder / "buckets" / "data"
    bucket.mkdir(parents=True)
    leat = str(build / "src" / "cli" / "leat")
    subprocess.run([leat, "pack", "--quiet", *options, str(raw), str(bucket / "set")], check=True)
    shutil.rmtree(raw)
    return folder / "buckets"


@contextlib.contextmanager
def serving(build, folder, *options):
    """`leat serve` over the folder; yields the variables that point S3 clients at it."""
    command = [str(build / "src" / "cli" / "leat"), "serve", str(folder), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = re.search(r"https?://[^\s/]+", server.stdout.readline())
            if not url:
                raise SystemExit("leat serve did not start")
            yield {
                **{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "LEAT_"))},
                "AWS_ENDPOINT_URL": url.group(),
                "AWS_ACCESS_KEY_ID": "bench",
                "AWS_SECRET_ACCESS_KEY": "bench-secret",
                "AWS_REGION": "us-east-1",
            }
        finally:
            server.send_signal(signal.SIGTERM)


def run_measured(command, env):
    """(seconds, CPU seconds, what it printed) of a command that must succeed."""
    start = time.monotonic()
    with subprocess.Popen([str(word) for word in command], env=env, stdout=subprocess.PIPE, text=True) as child:
        text = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{command[0]} ended with status {child.returncode}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, text
