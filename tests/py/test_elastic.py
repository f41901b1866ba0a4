"""A machine of a training under torchrun is lost, and torchrun starts the ranks that are left again: they go on from the state
that was saved, and every sample of the epoch counts once."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import SANITIZE
from loading import SLOW, free_port, wait_until
from machines import launched

pytestmark = pytest.mark.skipif(SANITIZE == "thread", reason="the interpreter cannot load a ThreadSanitizer extension")

PROGRAM = Path(__file__).parent / "programs" / "elastic_rank.py"
WAIT_AT = 13  # steps; the last checkpoint is three of them old


def lives(folder):
    """What each process said, by the step at which it began; a last line may be half written."""
    found = []
    for path in folder.glob("rank-*.jsonl"):
        text = path.read_text()
        found.append([json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()])
    return sorted((life for life in found if life), key=lambda life: life[0]["start"])


def elastic(runtime, port, node, ranks, folder, url, env):
    """One machine's torchrun. A machine that is silent for three seconds is lost, and nobody is waited for."""
    conf = f"is_host={'true' if node == 0 else 'false'},keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=2,join_timeout=120"
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", f"--nproc-per-node={ranks}", "--max-restarts=3",
               "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=elastic", f"--rdzv-conf={conf}",
               "--local-addr=127.0.0.1", "--monitor-interval=0.1", str(PROGRAM),
               json.dumps({"url": url, "folder": str(folder), "wait_at": WAIT_AT})]  # fmt: skip
    log = open(folder / f"torchrun-{node}.log", "w")
    return subprocess.Popen(command, env={**launched(runtime), **env}, stdout=log, stderr=log)


def processes_of(runtime):
    """All that run on a machine: torchrun, ranks and agent have its folder in their environment."""
    mark = f"LEAT_RUNTIME_DIR={runtime.folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:
            continue  # gone, or another user's
    return found


def kill_machine(runtime):
    for pid in processes_of(runtime):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2])
def test_torchrun_goes_on_without_a_machine_that_died(ranks, bucket, machines, tmp_path):
    url, env, server, data = bucket()
    env["LEAT_LINGER"] = "60s"  # longer than torchrun takes
    if ranks > 1:  # else torch 2.13's gloo may connect to the ranks of the first life, which are gone
        env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    port = free_port()
    both = machines(2).runtimes
    started = [elastic(r, port, i, ranks, tmp_path, url, env) for i, r in enumerate(both)]
    try:
        wait_until(
            lambda: sum(life[-1].get("step") == WAIT_AT - 1 for life in lives(tmp_path)) == 2 * ranks,
            120 * SLOW,
            "all ranks in mid-epoch",
        )
        (agent,) = both[0].agents()
        before = server.stats()["bytes_sent"]
        kill_machine(both[1])
        started[1].wait(10 * SLOW)
        status = started[0].wait(180 * SLOW)
    finally:
        for runtime in both:
            if runtime is both[1] or started[0].poll() is None:
                kill_machine(runtime)
        for process in started:
            process.wait()
    said = lives(tmp_path)
    assert status == 0, (tmp_path / "torchrun-0.log").read_text()[-3000:]
    first, second = said[: 2 * ranks], said[2 * ranks :]
    assert [life[0]["world"] for life in first] == [2 * ranks] * 2 * ranks
    assert [(life[0]["start"], life[0]["world"]) for life in second] == [(10, ranks)] * ranks
    assert all(life[-1].get("done") == 30 for life in second)
    # What came after the checkpoint is trained again; what counts is what was trained before it, and all that followed.
    counts = [k for life in first for line in life[1:] if line["step"] < 10 for k in line["keys"]]
    counts += [k for life in second for line in life[1:-1] for k in line["keys"]]
    assert sorted(counts) == sorted(data.known)
    assert all(life[-1]["stats"]["agent_pid"] == agent for life in second)  # with what it had fetched
    assert (
        server.stats()["bytes_sent"] - before <= 0.75 * data.bytes
    )  # the lost one's half, and what was not fetched yet


def meet_all(store, world, late):
    """What each of `world` ranks, a thread each, is told by the others through a store; rank `late` comes later."""
    from leat import ranks
    from torch.distributed import PrefixStore

    begun = threading.Semaphore(0)

    def one(rank):
        if rank == late:
            for _ in range(world - 1):
                assert begun.acquire(timeout=60)
        begun.release()
        exchange = ranks.Exchange(rank, world, PrefixStore("default_pg", store), 20 * SLOW)
        told = [exchange.gather(name, f"{name} {rank} of {world} {late}", "; ".join) for name in ("nodes", "cards")]
        exchange.part()
        return told

    with concurrent.futures.ThreadPoolExecutor(world) as pool:
        return list(pool.map(one, range(world)))


def test_ranks_that_start_again_hear_nothing_of_an_earlier_life():
    """torchrun keeps its store, with all that was said in it, when it starts ranks again, on more machines or on fewer."""
    from torch.distributed import HashStore

    store = HashStore()
    for world, late in [(4, 0), (2, 1), (2, 0), (3, 2), (3, 1), (3, 0)]:
        told = meet_all(store, world, late)
        every = ["; ".join(f"{name} {r} of {world} {late}" for r in range(world)) for name in ("nodes", "cards")]
        assert told == [every] * world, (world, late)
