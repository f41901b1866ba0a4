"""Packs the files of a folder with another library: pack_peers.py mds|litdata|webdataset FROM TO WORKERS. bench_pack.py runs it,
with the Python of an environment that has them."""

import multiprocessing
import sys
from pathlib import Path


def listed(folder):
    """(path, label), as a user of an ImageFolder would have them."""
    classes = sorted(p.name for p in Path(folder).iterdir())
    return [(str(p), i) for i, name in enumerate(classes) for p in sorted((Path(folder) / name).iterdir())]


def write_mds(job):
    from streaming import MDSWriter

    files, to = job
    with MDSWriter(out=to, columns={"bin": "bytes", "cls": "int", "key": "str"}, size_limit=64 << 20) as w:
        for path, label in files:
            with open(path, "rb") as f:
                w.write({"bin": f.read(), "cls": label, "key": path})


def write_webdataset(job):
    from webdataset import ShardWriter

    files, to = job
    Path(to).mkdir(parents=True)
    with ShardWriter(f"{to}/%06d.tar", maxcount=10**9, maxsize=64 << 20, verbose=0) as w:
        for i, (path, label) in enumerate(files):
            with open(path, "rb") as f:
                w.write({"__key__": f"{i:08}", "bin": f.read(), "cls": label})


def take(item):
    path, label = item
    with open(path, "rb") as f:
        return {"bin": f.read(), "cls": label, "key": path}


def main():
    which, source, to, workers = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    files = listed(source)
    if which == "litdata":
        from litdata import optimize

        optimize(fn=take, inputs=files, output_dir=to, num_workers=workers, chunk_bytes="64MB")
        return
    write = {"mds": write_mds, "webdataset": write_webdataset}[which]
    jobs = [(files[i::workers], f"{to}/{i}") for i in range(workers)]
    with multiprocessing.Pool(workers) as pool:
        pool.map(write, jobs, chunksize=1)
    if which == "mds":
        from streaming.base.util import merge_index

        merge_index(to, keep_local=True)


if __name__ == "__main__":
    main()
