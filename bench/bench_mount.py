"""`leat mount`: reading all files in the order's sequence beside `leat read`, listing a folder of a million files, and
fio where it is installed: tables, and bench/out/mount.json.

python bench/bench_mount.py [--build build/release] [--runs 5] [--mib 512] [--files 1000000] [--threads 4] [--latency 20ms]

Files of 110 kB, in memory or in a bucket in a box that answers late (--latency). `leat read` and the mount take turns;
each reads every byte once and has nothing from before;
the time to start an agent, or to mount, counts. What reads the mount takes the next file of a list on each
thread, as a DataLoader's workers do. CPU seconds are those of reader and mount, or of `leat read` and its agent.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, make_data, scratch, serving, shown, spread, table, write

SAMPLE = 110_000


def cpu_of(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid, name):
    """In MB. What belongs to files can be taken away by the kernel at any time; RssAnon cannot."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024 / 1e6


@contextlib.contextmanager
def mounted(leat, url, folder, env, *options):
    """Yields the mount's process id and how long it took."""
    folder.mkdir(exist_ok=True)
    start = time.monotonic()
    command = [leat, "mount", "--foreground", *options, url, folder]
    with subprocess.Popen([str(word) for word in command], env=env, stdout=subprocess.PIPE, text=True) as child:
        try:
            if not child.stdout.readline():
                raise SystemExit("leat mount did not start")
            yield child.pid, time.monotonic() - start
        finally:
            child.terminate()


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def keys_in_order(leat, url, env, shuffle):
    command = [leat, "order", "--keys", "--seed", "1", *([] if shuffle else ["--no-shuffle"]), url]
    text = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout
    return b"".join(line.split(b"\t")[-1] + b"\0" for line in text.splitlines())


def read_mount(options, leat, url, folder, env, names):
    """MB a second, CPU seconds, and the mount's memory in MB."""
    with mounted(leat, url, folder, env, "--memory", options.memory) as (pid, took):
        before, own = children_cpu(), cpu_of(pid)
        reader = [Path(options.build) / "bench" / "read_files", folder, str(options.threads)]
        told = subprocess.run(reader, input=names, stdout=subprocess.PIPE, check=True).stdout.split()
        cpu = children_cpu() - before + cpu_of(pid) - own
        return int(told[0]) / (took + float(told[1])) / 1e6, cpu, memory_of(pid, "VmHWM")


def read_loader(leat, url, env, shuffle):
    """MB a second and CPU seconds; the agent is waited for by nobody, so its time is from its own account."""
    command = [leat, "read", "--quiet", "--json", "--seed", "1", *([] if shuffle else ["--in-order"]), url]
    before = children_cpu()
    text = subprocess.run([str(word) for word in command], env=env, stdout=subprocess.PIPE, check=True).stdout
    told = json.loads(text)
    return told["batch_bytes"] / told["seconds"] / 1e6, children_cpu() - before


def bench_reading(options, leat, folder, env, url):
    """Rows of the table, one for each sequence."""
    rows = {}
    for sequence in ("in order", "shuffled"):
        names = keys_in_order(leat, url, env, sequence == "shuffled")
        seen = {"read_mb_s": [], "mount_mb_s": [], "ratio": [], "mount_cpu_s": [], "memory_mb": []}
        for _ in range(options.runs):
            loader, _ = read_loader(leat, url, env, sequence == "shuffled")
            rate, cpu, memory = read_mount(options, leat, url, folder / "mnt", env, names)
            for name, value in zip(seen, (loader, rate, rate / loader, cpu, memory)):
                seen[name].append(value)
        rows[sequence] = {name: spread(values) for name, values in seen.items()}
    return rows


def make_million(options, folder):
    """A dataset of this many small files in one folder; written sample by sample, since files would take minutes."""
    sys.path.insert(0, str(Path(options.build) / "python"))
    import leat

    with leat.Writer(str(folder / "many"), {"jpg": "bytes"}) as writer:
        for i in range(options.files):
            writer.write({"jpg": b"%d" % i}, key=f"train/img_{i * 7919 % options.files:08}.jpg")
    return folder / "many"


def bench_listing(options, leat, folder, env):
    url = make_million(options, folder)
    seen = {"mount_s": [], "ls_s": [], "ls_l_s": [], "find_s": [], "anon_mb": [], "rss_mb": []}
    for _ in range(min(options.runs, 3)):
        with mounted(leat, url, folder / "mnt", env) as (pid, took):
            times = []
            for command in (["ls", "-f"], ["ls"], ["ls", "-l"]):
                start = time.monotonic()
                with open(os.devnull, "wb") as nowhere:
                    subprocess.run([*command, folder / "mnt" / "train"], stdout=nowhere, check=True)
                times.append(time.monotonic() - start)
            values = (took, times[1], times[2], times[0], memory_of(pid, "RssAnon"), memory_of(pid, "VmRSS"))
            for name, value in zip(seen, values):
                seen[name].append(value)
    seen["ls_f_s"] = seen.pop("find_s")
    return {name: spread(values) for name, values in seen.items()}


def bench_fio(options, leat, folder, env):
    """MB a second of fio's sequential reading of one large file."""
    fio = shutil.which("fio")
    if not fio:
        return None
    (folder / "one").mkdir()
    (folder / "one" / "large.bin").write_bytes(os.urandom(128 << 20))
    subprocess.run([leat, "pack", "--quiet", folder / "one", folder / "large"], env=env, check=True)
    with mounted(leat, folder / "large", folder / "mnt", env):
        command = [fio, "--name=mount", "--rw=read", "--bs=128k", "--readonly", "--output-format=json",
                   "--filename=large.bin"]  # fmt: skip
        told = json.loads(subprocess.run(command, cwd=folder / "mnt", stdout=subprocess.PIPE, check=True).stdout)
    return told["jobs"][0]["read"]["bw_bytes"] / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--memory", default="1GiB", help="of the mount, for chunks")
    parser.add_argument("--latency", help="read from a bucket in a box that answers this late")
    options = parser.parse_args()
    build = Path(options.build)
    leat = build / "src" / "cli" / "leat"
    subprocess.run(["ninja", "-C", build, "src/cli/leat", "bench/read_files"], check=True, stdout=subprocess.DEVNULL)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "LEAT_"))}
    result = {"threads": options.threads, "latency": options.latency}
    with scratch(2 * options.mib << 20) as folder:
        buckets = make_data(build, folder, options.mib << 20, SAMPLE)
        if options.latency:
            with serving(build, buckets, "--latency", options.latency) as there:
                result["reading"] = bench_reading(options, leat, folder, there, "s3://data/set")
        else:
            result["reading"] = bench_reading(options, leat, folder, env, buckets / "data" / "set")
            result["fio_mb_s"] = bench_fio(options, leat, folder, env)
    rows = [
        [name, *(shown(row[c], 0) for c in ("read_mb_s", "mount_mb_s")), shown(row["ratio"], 2),
         shown(row["mount_cpu_s"], 2), shown(row["memory_mb"], 0)]
        for name, row in result["reading"].items()
    ]  # fmt: skip
    table(["files of 110 kB", "leat read, MB/s", "mount, MB/s", "ratio", "CPU s", "memory MB"], rows)
    if result.get("fio_mb_s"):
        print(f"\n  fio, a file of 128 MiB from front to back, 128 KiB at a time: {result['fio_mb_s']:.0f} MB/s")
    if options.files:
        with scratch(400 * options.files) as folder:
            result["listing"] = bench_listing(options, leat, folder, env)
        print()
        names = {"mount_s": "leat mount, s", "ls_f_s": "ls -f, s", "ls_s": "ls, s", "ls_l_s": "ls -l, s",
                 "anon_mb": "memory of its own, MB", "rss_mb": "with the catalog's file, MB"}  # fmt: skip
        table([f"{options.files} files", ""], [[names[n], shown(result["listing"][n], 2)] for n in names])
    write("mount", result)


if __name__ == "__main__":
    main()
