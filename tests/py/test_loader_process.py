"""Processes come and go: ranks and agents are killed, stopped, forked and started at once; nothing is left behind."""

import contextlib
import json
import multiprocessing
import os
import random
import re
import signal
import threading
import time
from pathlib import Path

import pytest
from conftest import PRELOAD, SANITIZE
from loading import (
    SLOW,
    batches_of,
    chunk_requests,
    import_leat,
    is_idle,
    make_blobs,
    numbers,
    pack,
    run_here,
    start_python,
    stopped,
    upload,
    values_of,
    wait_until,
)

G = 24


def shared_memory():
    """What there is of ours: other tests put folders of theirs there."""
    return sorted(n for n in os.listdir("/dev/shm") if re.match(r"leat-(\d+$|ring|batch)", n))


class Killer:
    """Kills the agents of a test at moments the test does not know: now, while the next one starts, or later."""

    def __init__(self, runtime, draw):
        self.runtime = runtime
        self.draw = draw
        self.thread = None
        self.kills = 0

    def strike(self, delays):
        time.sleep(delays[0])
        self.kills += bool(self.runtime.agents())
        self.runtime.kill_agents()
        if len(delays) > 1:  # and its successor, on its way
            self.strike(delays[1:])

    def begin(self, longest=0.06):
        """At most two kills, unless those begun before are still under way: a loader gives up after five in a row."""
        if self.thread and self.thread.is_alive():
            return
        delays = [self.draw.random() * longest for _ in range(self.draw.choice((1, 1, 2)))]
        self.thread = threading.Thread(target=self.strike, args=(delays,))
        self.thread.start()

    def end(self):
        if self.thread:
            self.thread.join()


def kill_agent_at_random(lt, runtime, images, times, seed):
    """Takes batches while the agent is killed again and again, and checks each."""
    killer = Killer(runtime, random.Random(seed))
    fields = {"i": lt.index(), "x": lt.image("png").random_resized_crop(16).flip()}
    with lt.Loader(images.url, batch_size=G, fields=fields, as_numpy=True) as loader:
        expected = [[(i.tolist(), x.tobytes()) for i, x in loader] for _ in range(3)]
    before = shared_memory()
    with lt.Loader(images.url, batch_size=G, fields=fields, as_numpy=True) as loader:
        epoch = 0
        while killer.kills < times:
            got = []
            for i, x in loader:
                got.append((i.tolist(), x.tobytes()))
                if killer.kills < times and killer.draw.random() < 0.5:
                    killer.begin()
            assert got == expected[epoch % 3], f"epoch {epoch} after {killer.kills} kills"
            epoch += 1
            if epoch % 3 == 0:
                loader.set_epoch(0)
        killer.end()
        assert loader.stats()["agents_lost"] > 0
    numbers(lt, images.url)  # the last kill may have left files; the next agent takes them along
    runtime.wait_gone()
    assert runtime.left_behind() == []
    assert shared_memory() == before


def test_killed_agents_cost_time_but_no_sample(lt, runtime, images):
    kill_agent_at_random(lt, runtime, images, 6, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_hundreds_of_killed_agents_cost_time_but_no_sample(lt, runtime, images):
    for seed in range(10):
        kill_agent_at_random(lt, runtime, images, 40, seed)


def test_agent_killed_while_a_loader_opens_costs_time_but_no_sample(lt, runtime, images):
    whole = numbers(lt, images.url)
    killer = Killer(runtime, random.Random(2))
    for _ in range(6):
        killer.begin(0.1)
        with lt.Loader(images.url, batch_size=G, fields={"i": lt.index()}) as loader:
            assert [i.tolist() for (i,) in loader] == whole
        killer.end()
    assert killer.kills


def kill_ranks_at_random(lt, runtime, images, times, seed):
    """Two ranks; one is killed at a random moment and started again at its last printed state, the agent sometimes too.
    What it printed plus what its successors print is exactly its share."""
    draw = random.Random(seed)
    job = {"url": images.url, "global_batch_size": G, "world_size": 2}
    whole = [batches_of(rank) for rank in run_here(lt, 2, {"url": images.url, "global_batch_size": G})]
    other = runtime.start_rank({**job, "rank": 1}, sleep=0.03 * SLOW)
    seen, more = [], {}
    for _ in range(times):
        rank = runtime.start_rank({**job, "rank": 0}, sleep=0.02, **more)
        for _ in range(draw.randint(0, 3)):
            line = rank.read()
            if line and "index" in line:
                seen.append(line)
        time.sleep(draw.random() * 0.05)
        rank.kill()
        out, _ = rank.rest(30)
        seen += [json.loads(line) for line in out.splitlines() if '"index"' in line and line.endswith("}")]
        more = {"state": seen[-1]["state"]} if seen else {}
        if draw.random() < 0.3:
            runtime.kill_agents()
        if seen and len(seen) >= len(whole[0]):
            break
    if len(seen) < len(whole[0]):  # else the state is that of the next epoch
        seen += batches_of(runtime.start_rank({**job, "rank": 0}, **more).finish())
    assert seen == whole[0]
    assert batches_of(other.finish()) == whole[1], "the other rank saw nothing of it"


def test_killed_ranks_disturb_nobody_and_resume_exactly(lt, runtime, images):
    kill_ranks_at_random(lt, runtime, images, 3, seed=3)
    runtime.wait_gone()
    assert runtime.left_behind() == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_killed_ranks_disturb_nobody_and_resume_exactly(lt, runtime, images):
    for seed in range(40):
        kill_ranks_at_random(lt, runtime, images, 6, seed)


def test_agent_that_dies_with_two_loaders_comes_back_for_both(lt, runtime, images):
    """Settings of the agent come from its first loader; the one that starts the next one must not lose them."""
    with (
        lt.Loader(images.url, batch_size=8, ram="90mib", threads=3, fields={"i": lt.index()}) as one,
        lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}) as two,
    ):
        a, b = iter(one), iter(two)
        assert next(a)[0].tolist() == next(b)[0].tolist()
        runtime.kill_agents()
        for _ in range(20):  # the one that asked for nothing is the first to notice
            left = next(b)[0].tolist()
        for _ in range(20):
            right = next(a)[0].tolist()
        assert left == right
        assert one.stats()["cache_budget"] == 90 << 20


def test_stopped_rank_does_not_disturb_the_others(lt, runtime, images):
    job = {"url": images.url, "global_batch_size": G, "world_size": 2}
    rank = runtime.start_rank({**job, "rank": 0}, go=True)
    assert rank.read()["open"]
    assert rank.read()["index"]
    with stopped(rank.process.pid), lt.Loader(**job, rank=1, fields={"i": lt.index()}) as other:
        for _ in range(3):
            assert sum(1 for _ in other) == images.samples // G
        assert len(runtime.agents()) == 1
    rank.go()
    assert rank.read()["index"]
    rank.process.stdin.close()
    rank.process.stdin = None
    rank.finish()


def test_agent_is_gone_after_its_linger(lt, runtime, images, monkeypatch):
    monkeypatch.setenv("LEAT_LINGER", "1s")
    with lt.Loader(images.url, batch_size=G, fields={"i": lt.index()}) as loader:
        next(iter(loader))
        began = time.monotonic()
    runtime.wait_gone()
    assert time.monotonic() - began > 0.9
    assert os.listdir(runtime.folder) == [], "a quiet agent leaves not even a log"


def test_linger_0_ends_the_agent_at_once(lt, runtime, images, monkeypatch):
    monkeypatch.setenv("LEAT_LINGER", "300s")
    with lt.Loader(images.url, batch_size=8, linger=0, fields={"i": lt.index()}) as loader:
        next(iter(loader))
        runtime.agent()
    runtime.wait_gone()
    for _ in range(5):  # the next one must not meet an agent that is just ending
        with lt.Loader(images.url, batch_size=8, linger=0, fields={"i": lt.index()}) as loader:
            next(iter(loader))


def test_jump_of_the_only_loader_does_not_end_the_agent(lt, runtime, images):
    """Its chunks would go with it."""
    with lt.Loader(images.url, batch_size=G, linger=0, fields={"i": lt.index()}) as loader:
        pid = loader.stats()["agent_pid"]
        for epoch in range(4, 8):
            loader.set_epoch(epoch)
            next(iter(loader))
            assert loader.stats()["agent_pid"] == pid


def test_many_ranks_that_open_at_once_share_one_agent(runtime, images):
    job = {"url": images.url, "batch_size": 8, "linger": 60}  # the last may come long after the first has gone
    ranks = [runtime.start_rank(job, batches=2) for _ in range(4)]
    lines = [rank.finish(120) for rank in ranks]
    assert len({line[0]["agent"] for line in lines}) == 1
    assert all(batches_of(line) == batches_of(lines[0]) for line in lines)


def test_threads_that_open_at_once_share_one_agent(lt, runtime, images):
    pids, failures = [], []

    def one():
        try:
            with lt.Loader(images.url, batch_size=8, linger=60, fields={"i": lt.index()}) as loader:
                next(iter(loader))
                pids.append(loader.stats()["agent_pid"])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert len(set(pids)) == 1


def test_stale_socket_and_lock_stand_in_nobodys_way(lt, runtime, images):
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}) as loader:
        next(iter(loader))
        runtime.kill_agents()
    wait_until(lambda: not runtime.agents())
    assert len(runtime.left_behind()) == 2, "a killed agent leaves its socket and its lock"
    assert numbers(lt, images.url)
    runtime.wait_gone()
    assert runtime.left_behind() == []


@pytest.mark.parametrize("times", [100, pytest.param(800, marks=pytest.mark.long)])
def test_opens_and_closes_do_not_grow(lt, runtime, images, times):
    def opened(times):
        for n in range(times):
            loader = lt.Loader(images.url, batch_size=4, slots=2, fields={"i": lt.index(), "k": lt.key()})
            if n % 3 == 0:
                next(iter(loader))
            loader.close()

    def memory(pid):
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(fields["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"])

    with lt.Loader(images.url, batch_size=4, fields={"i": lt.index()}) as other:
        wait_until(lambda: other.stats()["chunks_fetched"] == images.chunks, what="having read every chunk")
        few = memory(runtime.agent())[1:]
        opened(60)
        wait_until(lambda: memory(runtime.agent())[1:] == few, what="the end of the sessions")
        agent, mine = memory(runtime.agent()), memory(os.getpid())
        opened(times)
        wait_until(lambda: memory(runtime.agent())[1:] == few, what="as few descriptors and threads as before")
        agent_after, mine_after = memory(runtime.agent()), memory(os.getpid())
    assert mine_after[1] == mine[1], "descriptors of the rank"
    if not SANITIZE:
        assert agent_after[0] - agent[0] < 4096, "kilobytes of the agent"
        assert mine_after[0] - mine[0] < 4096, "kilobytes of the rank"


@pytest.mark.parametrize("times", [50, pytest.param(160, marks=pytest.mark.long)])
def test_datasets_opened_and_closed_one_after_another_do_not_grow_the_agent(lt, runtime, blobs, tmp_path, times):
    def use(n):
        url = tmp_path / f"{n}"
        url.symlink_to(blobs.path)  # by another name it is another dataset
        with lt.Loader(url, batch_size=20, slots=2, fields={"b": lt.bytes("bin")}, as_numpy=True) as loader:
            for _ in range(1 + n % 3):
                next(iter(loader))

    def status(name):
        text = Path(f"/proc/{runtime.agent()}/status").read_text()
        return int(re.search(rf"^{name}:\s+(\d+)", text, re.M).group(1))

    def counts():
        return len(os.listdir(f"/proc/{runtime.agent()}/fd")), status("Threads")

    size = sum(p.stat().st_size for p in blobs.path.rglob("*"))
    with lt.Loader(blobs.url, batch_size=4, fields={"i": lt.index()}) as loader:
        for n in range(40):
            use(n)
        wait_until(lambda: is_idle(runtime.agent()), what="the end of what was closed")
        before, memory = counts(), status("VmRSS")
        for n in range(40, 40 + times):
            use(n)
        # Threads start when there is work for them: a few more are no leak, one per dataset is.
        wait_until(lambda: all(a <= b + 4 for a, b in zip(counts(), before)), what="no more descriptors and threads")
        wait_until(lambda: loader.stats()["cache_bytes"] <= 5 * size, what="the end of the chunks of all but a few")
        if not SANITIZE:
            assert status("VmRSS") - memory < 4096, "kilobytes"


def test_chunks_of_a_dataset_outlive_its_last_loader(lt, runtime, images, blobs, monkeypatch):
    """A jump closes a loader and opens another; training and validation take turns."""
    monkeypatch.setenv("LEAT_LINGER", "60s")
    with lt.Loader(images.url, batch_size=G, fields={"i": lt.index()}) as loader:
        assert len([0 for _ in loader]) == len(loader)
        fetched = loader.stats()["chunks_fetched"]
        assert fetched == images.chunks
        loader.set_epoch(5)
        next(iter(loader))
        assert loader.stats()["chunks_fetched"] == fetched
    assert numbers(lt, blobs.url)
    with lt.Loader(images.url, batch_size=G, fields={"i": lt.index()}) as loader:
        assert len([0 for _ in loader]) == len(loader)
        assert loader.stats()["chunks_fetched"] == fetched


def child_goes_on(batches, batch, queue):
    """In a forked child: an inherited pass goes on by itself, an inherited batch stays the parent's."""
    got = [i.tolist() for i, _ in batches]
    del batch
    queue.put(got)


def test_fork_after_use_works_and_shares_no_socket(lt, runtime, images):
    fields = {"i": lt.index(), "x": lt.image("png").resize((16, 16))}
    with lt.Loader(images.url, batch_size=G, fields=fields, as_numpy=True) as loader:
        it = iter(loader)
        i, x = next(it)
        kept = (i.tolist(), x.tobytes())
        del i
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=child_goes_on, args=(it, x, queue))
        child.start()
        mine = [i.tolist() for i, _ in it]
        theirs = queue.get(timeout=60)
        child.join(60)
        assert child.exitcode == 0
        assert theirs == mine
        assert len(mine) == images.samples // G - 1
        assert x.tobytes() == kept[1]


def test_batch_kept_by_a_parent_does_not_change_when_its_child_drops_it(lt, images):
    fields = {"i": lt.index(), "x": lt.image("png").random_resized_crop(16)}
    with lt.Loader(images.url, batch_size=G, slots=2, fields=fields, as_numpy=True) as loader:
        it = iter(loader)
        i, x = next(it)
        kept = (i.tolist(), x.tobytes())
        pid = os.fork()
        if pid == 0:
            del i, x
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        for _ in range(4):
            next(it)
        assert (i.tolist(), x.tobytes()) == kept


def spawned(url, queue):
    lt = import_leat()
    with lt.Loader(url, batch_size=G, fields={"i": lt.index()}, as_numpy=True) as loader:
        queue.put([i.tolist() for (i,) in loader])


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.long)])
def test_every_way_to_start_a_process_works(lt, runtime, images, method):
    if PRELOAD and method != "fork":
        pytest.skip("the sanitizer's runtime is not preloaded into spawned interpreters")
    expected = numbers(lt, images.url)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=spawned, args=(images.url, queue)) for _ in range(2)]
    for child in children:
        child.start()
    assert [queue.get(timeout=60 * SLOW) for _ in children] == [expected, expected]
    for child in children:
        child.join(60)
    if method == "forkserver":
        multiprocessing.forkserver._forkserver._stop()


INTERRUPTED = """
import leat
try:
    print("begins", flush=True)
    fields = {"b": leat.bytes("bin")}
    loader = leat.Loader("s3://bucket/ds", batch_size=8, fields=fields, as_numpy=True, timeout=600)
    print("open", flush=True)
    for _ in loader: print("batch", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def dripping(faulty, large):
    """A FaultyServer with s3://bucket/ds. Its chunks take minutes, yet come too fast to be given up (a kilobyte a second for
    20 s), so that a process that waits for the bucket does so longer than any deadline here."""
    server = faulty()
    upload(server, large.path)

    def drip(exchange):
        exchange.keep = False
        code, headers, body = exchange.object_part()
        with contextlib.suppress(OSError):  # the other side has hung up, or the test is over
            exchange.head(code, {**headers, "Content-Length": len(body)})
            for at in range(0, len(body), 500):
                exchange.send(body[at : at + 500])
                time.sleep(0.25)

    server.fault(drip, method="GET", match=lambda request: "/chunks/" in request.key)
    return server


def press_ctrl_c(runtime, process):
    """In a wait, which is then over, and so is the agent: it does not wait for the bucket either."""
    wait_until(lambda: is_idle(process.pid), what="a program that waits")
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    process.communicate(timeout=60)
    runtime.wait_gone()
    assert runtime.left_behind() == []


def test_ctrl_c_ends_a_wait(runtime, dripping):
    process = start_python(runtime, INTERRUPTED, **dripping.env())
    assert [process.stdout.readline() for _ in range(2)] == ["begins\n", "open\n"]
    wait_until(lambda: chunk_requests(dripping), what="a request for a chunk")
    press_ctrl_c(runtime, process)


def test_ctrl_c_ends_an_open(runtime, faulty):
    server = faulty()
    dropped = []
    server.fault(lambda exchange: dropped.append(exchange.wait_gone()))
    process = start_python(runtime, INTERRUPTED, **server.env())
    assert process.stdout.readline() == "begins\n"
    wait_until(lambda: server.requests, what="a request")
    press_ctrl_c(runtime, process)
    wait_until(lambda: dropped, what="the end of the connection")
    assert dropped == [True] and len(server.requests) == 1, "given up with the agent, not tried again"


def test_new_loader_does_not_wait_for_an_agent_that_hangs_on_its_bucket(lt, runtime, images, dripping):
    process = start_python(runtime, INTERRUPTED, **dripping.env(), LEAT_LINGER="0s")
    wait_until(lambda: chunk_requests(dripping), what="a request for a chunk")
    process.kill()
    process.communicate(timeout=60)
    assert numbers(lt, images.url, timeout=60)


def test_loader_dropped_in_mid_iteration_ends_cleanly(lt, runtime, images):
    loader = lt.Loader(images.url, batch_size=8, fields={"i": lt.index(), "x": lt.image("png").resize((8, 8))})
    it = iter(loader)
    i, _ = next(it)
    kept = i.tolist()
    del loader, it
    assert i.tolist() == kept, "a batch outlives its loader"
    loader = lt.Loader(images.url, batch_size=8, fields={"i": lt.index()})
    it = iter(loader)
    next(it)
    loader.close()
    with pytest.raises(ValueError, match="closed"):
        next(it)
    for use in (loader.state_dict, loader.stats, lambda: loader.epoch, lambda: len(loader)):
        with pytest.raises(ValueError, match="closed"):
            use()
    loader.close()
    runtime.wait_gone()


def test_batches_kept_over_a_killed_agent_do_not_change(lt, runtime, images):
    fields = {"i": lt.index(), "x": lt.image("png").random_resized_crop(16)}
    with lt.Loader(images.url, batch_size=8, fields=fields, as_numpy=True) as loader:
        it = iter(loader)
        kept = [next(it) for _ in range(2)]
        copies = [(i.tolist(), x.tobytes()) for i, x in kept]
        runtime.kill_agents()
        for _ in range(12):
            next(it)
        assert [(i.tolist(), x.tobytes()) for i, x in kept] == copies


def test_dataset_that_was_packed_anew_is_seen_by_the_next_loader_and_mixed_into_none(lt, runtime, leat_bin, tmp_path):
    def loader():
        return lt.Loader(url, batch_size=5, fields={"k": lt.key(), "b": lt.bytes("bin")}, as_numpy=True)

    known = make_blobs(tmp_path / "files", 60)
    url = pack(leat_bin, tmp_path / "files", tmp_path / "ds").url
    with loader() as old:
        it = iter(old)
        next(it)
        more = make_blobs(tmp_path / "files", 90, seed=2)
        pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--replace")
        with loader() as new:
            assert values_of(new) == more
        assert len(old.state_dict()["streams"][0]["dataset"]) > 8
        for keys, values in it:
            assert all(known[k] == v for k, v in zip(keys, values.tolist()))
        runtime.kill_agents()
        assert values_of(old) == known, "it stays with its version"
        old.set_epoch(7)
        assert values_of(old) == known
