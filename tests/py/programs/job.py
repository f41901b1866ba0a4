"""Ranks of one job, forked from one interpreter so that torch is imported once. job.py CASES.json

A case is {"ranks": [{"env", "loader", …}, …], "port": PORT or null}. With a port the ranks form a gloo group there, rank and
world being those of "group" or else of the environment. A rank may "wait" for a file, run a "command", open its loader,
"touch" a file, and then takes its batches ("steps", or all of "epochs"). Prints for each case a line of JSON with what every rank
got: {"batches": [[[index, checksum], …], …], "error", "text", "seconds"}.
"""

import json
import os
import subprocess
import sys
import time
import traceback
import zlib

import leat
import numpy  # noqa: F401 (once, before the forks)

FIELDS = {"i": leat.index(), "b": leat.bytes("bin"), "v": leat.valid()}


def join(port, group):
    import torch

    rank, world = group or (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)


def wait_for(path):
    deadline = time.monotonic() + 30
    while not os.path.exists(path):
        assert time.monotonic() < deadline, f"nobody made {path}"
        time.sleep(0.01)


def read(job, loader, batches):
    left = job.get("steps", -1)
    for _ in range(job.get("epochs", 1)):
        for i, b, v in loader:
            batches.append([[n, zlib.crc32(d)] for n, d, ok in zip(i.tolist(), b, v.tolist()) if ok])
            left -= 1
            if left == 0:
                return
            time.sleep(job.get("sleep", 0))


def run(job, port, out):
    os.environ.update(job.get("env", {}))
    result = {"batches": [], "error": None, "text": None}
    try:
        if port:
            join(port, job.get("group"))
        if job.get("wait"):
            wait_for(job["wait"])
        if job.get("command"):
            subprocess.run(job["command"], check=True, capture_output=True)
        began = time.monotonic()
        try:
            if job.get("loader"):
                with leat.Loader(fields=FIELDS, as_numpy=True, **job["loader"]) as loader:
                    if job.get("state"):
                        loader.load_state_dict(job["state"])
                    if job.get("touch"):
                        open(job["touch"], "w").close()
                    read(job, loader, result["batches"])
                    result["state"] = loader.state_dict()
        except leat.Error as error:
            result.update(error=type(error).__name__, text=str(error))
        result["seconds"] = time.monotonic() - began
    except BaseException:
        result.update(error="crash", text=traceback.format_exc())
    with os.fdopen(out, "w") as pipe:
        json.dump(result, pipe)


def main():
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    if any(case["port"] for case in cases):
        import torch.distributed  # noqa: F401
    for case in cases:
        ends = []
        for job in case["ranks"]:
            mine, theirs = os.pipe()
            if os.fork() == 0:
                os.close(mine)
                run(job, case["port"], theirs)
                os._exit(0)  # torch's own threads now and then abort a process that ends
            os.close(theirs)
            ends.append(mine)
        results = []
        for end in ends:
            with os.fdopen(end) as pipe:
                results.append(json.loads(pipe.read() or '{"error": "died", "text": "", "batches": []}'))
        for _ in ends:
            os.wait()
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
