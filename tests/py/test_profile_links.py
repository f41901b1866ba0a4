"""Which links `leat profile --time` measures, and that a rank that does not come leaves nobody waiting in a collective."""

import subprocess
import sys
import threading
import types

import pytest
from loading import SLOW, torchrun
from profiling import OBSERVER, load

pytestmark = pytest.mark.python_only

torch = pytest.importorskip("torch")


@pytest.fixture
def exchange():
    return load("exchange")


@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        ([[0, 1]], [("MACHINE", [0, 1])]),
        ([[0], [1]], [("NETWORK", [0, 1])]),
        (
            [[0, 1, 2]],
            [("MACHINE", [0, 1, 2]), ("PAIR", [0, 1]), ("PAIR", [0, 2]), ("PAIR", [1, 2])],
        ),
        (
            [[0, 1], [2, 3]],
            [("MACHINE", [0, 1]), ("MACHINE", [2, 3]), ("NETWORK", [0, 2]), ("ALL", [0, 1, 2, 3])],
        ),
        # Machines need not have as many ranks, nor those that follow each other.
        ([[0, 2], [1]], [("MACHINE", [0, 2]), ("NETWORK", [0, 1]), ("ALL", [0, 1, 2])]),
    ],
)
def test_every_kind_of_link_is_measured_once(exchange, machines, expected):
    assert exchange.groups_of(machines) == [(getattr(exchange, scope), ranks) for scope, ranks in expected]


def test_eight_gpus_have_28_pairs(exchange):
    rows = exchange.groups_of([list(range(8))])
    assert len({tuple(ranks) for scope, ranks in rows if scope == exchange.PAIR}) == 28


def each(call, ranks):
    """call(rank) on these ranks at once, the last first -> what each got or raised."""
    found = {}

    def come(rank):
        try:
            found[rank] = call(rank)
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=come, args=(rank,), daemon=True) for rank in reversed(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120 * SLOW)
    return found


def together(exchange, ranks, world, patience_s):
    """meet() on these ranks of a world."""
    store = torch.distributed.HashStore()
    return store, each(lambda rank: exchange.meet(store, "links", rank, world, patience_s), ranks)


def test_ranks_that_are_started_again_hear_nothing_of_an_earlier_life():
    """torchrun's store outlives them, with all that they have said: a word of then would be taken for an answer."""
    life, store = load("life"), torch.distributed.HashStore()
    names = []
    for world in (3, 2, 4):  # machines are lost, and come
        found = each(lambda rank, world=world: life.begin(store, rank, world, 60 * SLOW), range(world))
        assert len(found) == world
        assert len(set(found.values())) == 1, found
        names.append(found[0])
    assert len(set(names)) == 3


def test_a_rank_that_is_not_profiled_leaves_nobody_waiting():
    life, store = load("life"), torch.distributed.HashStore()
    each(lambda rank: life.begin(store, rank, 2, 60 * SLOW), range(2))
    found = each(lambda rank: life.begin(store, rank, 2, 0.5), [0])
    assert "rank 1 did not answer in time" in str(found[0])
    found = each(lambda rank: life.begin(store, rank, 2, 0.5), [1])
    assert "rank 0 did not answer in time" in str(found[1])


def test_ranks_that_all_come_have_the_same_answer(exchange):
    _, found = together(exchange, range(4), 4, 60 * SLOW)
    assert found == {rank: [[0, 1, 2, 3]] for rank in range(4)}


def test_a_rank_that_does_not_come_ends_it_for_all_and_one_that_is_late_hears_of_it(exchange):
    store, found = together(exchange, [0, 1], 3, 1)
    assert set(found) == {0, 1}, "a rank still waits"
    assert all(isinstance(error, Exception) for error in found.values()), found
    with pytest.raises(RuntimeError, match="not every rank came"):
        exchange.meet(store, "links", 2, 3, 1)


def test_what_runs_in_a_stream_of_its_own_is_no_time_of_the_step(tmp_path, monkeypatch):
    """As FSDP's collectives do on a GPU. The host's own time is told all the same."""
    monkeypatch.syspath_prepend(str(OBSERVER))
    import observe

    class Event:
        def __init__(self, enable_timing):
            self.record = self.query = lambda: True

        def elapsed_time(self, other):
            return 1.0

    streams = ["main"]
    cuda = types.SimpleNamespace(
        Event=Event,
        current_device=lambda: 0,
        is_current_stream_capturing=lambda: False,
        current_stream=lambda: streams[-1],
    )
    device = observe.Device(types.SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(observe.lanes, "folder", str(tmp_path))
    monkeypatch.setattr(observe.current, "device", device)
    lane = observe.lanes.Lane(str(tmp_path), "1-1")
    monkeypatch.setattr(observe.lanes._threads, "lane", lane, raising=False)

    def told(stream):
        before = lane.head
        streams.append(stream)
        span = observe.Span(observe.COMM)
        span.keep_to_the_stream()
        span.end()
        streams.pop()
        device.collect()
        flags = [lane.words[64 + 5 * i + 2] >> 16 & observe.DEVICE for i in range(before, lane.head)]
        return [bool(flag) for flag in flags]

    assert told("side") == [False, True]  # nobody has said yet which stream is the script's
    device.home = "main"
    assert told("main") == [False, True]
    made = len(device.free[0])
    assert told("side") == [False]
    assert len(device.free[0]) == made  # no event is lost


FULL = f"""
import sys, types, torch
import torch.distributed as dist
sys.path.insert(0, {str(OBSERVER)!r})
import exchange
dist.init_process_group("gloo")
written = []
lane = types.SimpleNamespace(write=lambda *record: written.append(record))
lanes = types.SimpleNamespace(lane=lambda: lane, now=lambda: 0, LINK=1, note=lambda text: sys.stdout.write(f"note {{text}}\\n"))
plain = torch.zeros
def full(*args, **more):
    raise MemoryError("full")
if dist.get_rank() == 1 and sys.argv[1] == "full":
    torch.zeros = full
exchange.measure(torch, lanes, 60, dist.distributed_c10d._get_default_store(), "links", [])
torch.zeros = plain
mine = torch.full((3,), 1.0)
dist.all_reduce(mine)
sys.stdout.write(f"rank {{dist.get_rank()}} {{mine.tolist()}} {{bool(written)}}\\n")  # torchrun lets print() write in pieces
dist.destroy_process_group()
"""


@pytest.mark.parametrize("kind", ["full", "free"])
def test_a_rank_without_room_ends_it_for_all_and_the_training_goes_on(tmp_path, monkeypatch, kind):
    """The next collective is the training's own: no rank may still be in another."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    script = tmp_path / "full.py"
    script.write_text(FULL)
    done = subprocess.run(
        torchrun(script, kind, warm=True), capture_output=True, text=True, timeout=120 * SLOW, check=True
    ).stdout.splitlines()
    measured = kind == "free"
    assert sorted(line for line in done if line.startswith("rank")) == [
        f"rank {rank} [2.0, 2.0, 2.0] {measured}" for rank in range(2)
    ]
    assert ("note links were not measured to the end: MemoryError('full')" in done) != measured


FAKE = """
import sys, torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
net = torch.nn.Linear(4, 2)  # DDP does not work with it
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
steps = 0
for x in torch.utils.data.DataLoader(torch.ones(240, 4), batch_size=2):
    net(x).sum().backward()
    dist.all_reduce(net.weight.grad)
    optimizer.step()
    optimizer.zero_grad()
    steps += 1
print("steps", steps, flush=True)
"""


def test_ranks_that_do_not_exist_are_not_waited_for(profile):
    """As people try out a large job on one machine."""
    done, report = profile(None, "--time", "5s", program=["-c", FAKE])
    assert done.stdout == "steps 120\n"
    assert report["links"] == []


AGAIN = f"""
import os, sys, tempfile, threading
import torch.distributed as dist
sys.path.insert(0, {str(OBSERVER)!r})
import observe
sys.modules["_leat_observe"] = observe
mirror, lanes = observe._part("mirror"), observe.lanes
there, here = tempfile.mkdtemp(dir=sys.argv[1]), tempfile.mkdtemp(dir=sys.argv[1])
store = dist.HashStore()
store.set(mirror.KEY, "an earlier rank 0")
lanes.folder = there
lane = lanes.lane()
lane.write(lanes.WAIT, 1, 2)
sender = mirror.Sender(store, 1)
sender.send(False)  # to whom it may concern
receiver = mirror.Receiver(store, 2)
store.set(mirror.KEY, receiver.name)
lane.write(lanes.WAIT, 3, 4)
sender.send(False)
lane.write(lanes.WAIT, 5, 6)
sender.send(True)
lanes.folder = here
receiver.run()
(got,) = receiver.lanes.values()
print(got.head, got.words[lanes.W_DROPPED], receiver.open, flush=True)
os._exit(0)
"""


def test_records_that_were_meant_for_an_earlier_rank_0_come_to_the_one_of_now(tmp_path):
    done = subprocess.run([sys.executable, "-c", AGAIN, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout == "3 0 {}\n", done.stderr
