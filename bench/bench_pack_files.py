"""Packing many small files: leat pack beside tar, and beside what other libraries pack with, in turns. A table, and
bench/out/pack_files.json.

python bench/bench_pack_files.py [--build build/release] [--files 200000] [--rounds 3] [--peers ENV/bin/python]

The environment of --peers has mosaicml-streaming, litdata and webdataset; each works with as many processes as there are CPUs.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import time
from pathlib import Path

from common import ROOT, scratch, shown, spread, table, write

PEERS = {"MDSWriter": "mds", "litData optimize": "litdata", "ShardWriter": "webdataset"}


def make_files(folder, n):
    """Files of 4 to 16 KB in a hundred folders."""
    draw = random.Random(1)
    block = os.urandom(16 << 20)
    for i in range(100):
        (folder / f"c{i:03}").mkdir(parents=True)
    for i in range(n):
        size, at = draw.randint(4096, 16384), draw.randrange(15 << 20)
        (folder / f"c{i % 100:03}" / f"{i:06}.bin").write_bytes(block[at : at + size])


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command, env=None):
    before, start = cpu(), time.monotonic()
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - start, cpu() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", help="Python of an environment with the other libraries")
    options = parser.parse_args()
    leat = str(Path(options.build) / "src" / "cli" / "leat")
    workers = str(len(os.sched_getaffinity(0)))
    walls, cpus = {}, {}
    with scratch(options.files * 10_500 * 2) as folder:
        make_files(folder / "files", options.files)
        commands = {
            "leat pack": [leat, "pack", "--quiet", "files", "out"],
            "tar cf": ["tar", "cf", "out.tar", "files"],
        }
        for name, word in PEERS.items() if options.peers else ():
            commands[name] = [options.peers, str(ROOT / "bench" / "pack_peers.py"), word, "files", "out", workers]
        env = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder)}
        os.chdir(folder)
        for i in range(options.rounds):
            for name, command in commands.items():
                wall, used = timed(command, env)
                walls.setdefault(name, []).append(wall)
                cpus.setdefault(name, []).append(used)
                print(f"round {i + 1}: {name}: {wall:.1f} s, {used:.1f} s of processor time", flush=True)
                shutil.rmtree("out", ignore_errors=True)
                Path("out.tar").unlink(missing_ok=True)
        os.chdir(ROOT)
    ratio = {name: spread([w / own for w, own in zip(walls[name], walls["leat pack"], strict=True)]) for name in walls}
    rows = [[n, shown(spread(walls[n]), 1), shown(spread(cpus[n]), 1), shown(ratio[n], 2)] for n in walls]
    print(f"\n{options.files:,} files of 4 to 16 KB, {workers} CPUs: median (least … most) of {options.rounds} rounds")
    table(["", "wall, s", "processor, s", "times leat's wall"], rows)
    write("pack_files", {"files": options.files, "wall_s": walls, "cpu_s": cpus, "ratio": ratio})


if __name__ == "__main__":
    main()
