"""Memory that somebody else writes to, that runs out, or that very uneven samples ask for: one loader may fail, with a
typed error; the agent and the others go on."""

import contextlib
import json
import os
import resource

import pytest
from loading import SLOW, is_idle, numbers, pack, smallest_budget, start_python, stopped, values_of, wait_until

G = 24

SCRIBBLE = """
import ctypes, json, random, re, sys, time
import leat

def ring():
    maps = [line for line in open("/proc/self/maps") if "leat-ring" in line]
    first, last = (int(n, 16) for n in maps[-1].split()[0].split("-"))
    return first, last - first

def put(at, data):
    ctypes.memmove(at, data, len(data))

def scribble(draw, at, size):
    slots, slot_bytes = (ctypes.c_uint32.from_address(at + 12).value, ctypes.c_uint64.from_address(at + 40).value)
    if not 2 <= slots <= 64 or not 0 < slot_bytes < size:
        slots, slot_bytes = 4, (size - 8192) // 4
    slot = at + 8192 + draw.randrange(slots) * slot_bytes  # the head takes two pages
    slot = min(slot, at + size - 4096)
    kind = draw.randrange(9)
    if kind == 0:
        put(at, draw.randbytes(4224))  # the whole head
    elif kind == 1:
        put(at + 128, draw.randbytes(4))  # published
    elif kind == 2:
        put(at + 128, ((ctypes.c_uint32.from_address(at + 128).value + draw.choice((1, 5, 63, 1000))) & 0xffffffff).to_bytes(4, "little"))
    elif kind == 3:
        put(at + 384, b"".join(draw.choice((draw.randrange(8), draw.randrange(2**32))).to_bytes(4, "little") for _ in range(64)))  # queue
    elif kind == 4:
        put(at + 640, draw.randbytes(112 * 4))  # columns
    elif kind == 5:
        for i in range(slots):  # all is free, though it is not
            if at + 8192 + i * slot_bytes + 4 <= at + size:
                put(at + 8192 + i * slot_bytes, bytes(4))
    elif kind == 6:
        put(slot + draw.choice((0, 4, 8, 16, 24, 32, 36, 40)), draw.randbytes(draw.choice((1, 4, 8))))
    elif kind == 7:
        put(slot, draw.randbytes(600))  # header, and the ends after it
    else:
        put(at + draw.randrange(size - 64), draw.randbytes(64))

def fields():
    return {"i": leat.index(), "k": leat.key(), "b": leat.bytes("bin"), "c": leat.bytes("bin"), "v": leat.valid()}

def look(batch):
    i, k, b, c, v = batch
    return len(i.tolist()), len(k.tolist() if hasattr(k, "tolist") else list(k)), sum(map(len, b)), len(v)

draw = random.Random(int(sys.argv[2]))
count = {}
left = int(sys.argv[3])
while left:
    options = {"batch_size": 7, "seed": draw.randrange(100), "timeout": 0.5, "as_numpy": True}
    try:
        with leat.Loader(sys.argv[1], fields=fields(), **options) as loader:
            for _ in range(20):
                for batch in loader:
                    look(batch)
                    del batch
                    for _ in range(draw.randrange(3)):
                        left -= left > 0
                        scribble(draw, *ring())
                    if draw.random() < 0.2:
                        time.sleep(draw.random() * 0.005)
                    if not left:
                        break
                if not left:
                    break
    except leat.Error as error:
        name = type(error).__name__
        count[name] = count.get(name, 0) + 1
    except UnicodeDecodeError:
        count["text"] = count.get("text", 0) + 1
print(json.dumps(count), flush=True)
"""


def test_rank_that_scribbles_over_its_ring_fails_alone(lt, runtime, blobs):
    """Head, queue, columns, slots: random bytes, many times. Another rank sees every sample all the while."""
    fields = {"i": lt.index(), "k": lt.key(), "b": lt.bytes("bin")}
    options = {"batch_size": 20, "fields": fields, "as_numpy": True}
    with lt.Loader(blobs.url, **options) as loader:
        expected = [(i.tolist(), list(k), b.tolist()) for i, k, b in loader]
        agent = runtime.agent()
        ranks = [start_python(runtime, SCRIBBLE, blobs.url, seed, 150 // SLOW) for seed in range(2)]
        good = 0
        while any(rank.poll() is None for rank in ranks) or not good:
            loader.set_epoch(0)
            assert [(i.tolist(), list(k), b.tolist()) for i, k, b in loader] == expected
            good += 1
            loader.set_epoch(1)  # a jump: from what is in no slot
        errors = {}
        for rank in ranks:
            out, stderr = rank.communicate(timeout=60)
            assert rank.returncode == 0, f"{rank.returncode}\n{stderr}"
            for name, n in json.loads(out).items():
                errors[name] = errors.get(name, 0) + n
        assert errors.get("CorruptError"), errors
        assert errors.keys() <= {"CorruptError", "TimeoutError", "LimitError", "OutOfMemoryError", "text"}, errors
        assert runtime.agent() == agent, "the agent has seen nothing of it"


@pytest.fixture(scope="module")
def large_first(leat_bin, tmp_path_factory):
    """100 samples of 20 KB before 300 of 10 bytes: far more than twice the average, for more batches than slots."""
    folder = tmp_path_factory.mktemp("large-first")
    files = folder / "files"
    files.mkdir()
    for i in range(400):
        (files / f"{i:04d}.bin").write_bytes(bytes([i % 251]) * (20_000 if i < 100 else 10))
    return pack(leat_bin, files, folder / "ds", "--chunk-size", "64KiB", "--keep-order")


MANY_COLUMNS = """
import leat, sys
fields = {f"b{i}": leat.bytes("bin") for i in range(30)}
loader = leat.Loader(sys.argv[1], batch_size=1, shuffle=False, slots=64, fields=fields, as_numpy=True)
print("open", flush=True)
n = 0
for batch in loader:
    wanted = bytes([n % 251]) * (20_000 if n < 100 else 10)
    assert all(column[0] == wanted for column in batch), n
    n += 1
print(n, loader.stats()["agents_lost"], flush=True)
"""


def test_stopped_rank_with_64_slots_of_30_large_columns_disturbs_nobody_and_goes_on(lt, runtime, large_first, images):
    """None of the 64 batches that are made for it fits its slot; its socket must hold whatever it is told of them."""
    process = start_python(runtime, MANY_COLUMNS, large_first.url)
    assert process.stdout.readline() == "open\n"
    with stopped(process.pid):
        for seed in range(2):
            assert len(numbers(lt, images.url, seed=seed)) == images.samples // G
        pid = runtime.agent()
        wait_until(lambda: is_idle(pid), what="having made all that the stopped rank has slots for")
    out, stderr = process.communicate(timeout=60 * SLOW)
    assert out.split() == ["400", "0"], stderr


@pytest.fixture(scope="module")
def uneven(leat_bin, tmp_path_factory):
    """Chunks of one sample beside one of 10,000, and among them a sample of 20 MB: an average says nothing."""
    folder = tmp_path_factory.mktemp("uneven")
    files = folder / "files"
    files.mkdir()
    known = {}

    def add(count, size):
        for _ in range(count):
            n = len(known)
            known[f"{n:05d}.bin"] = bytes([n % 251]) * size
            (files / f"{n:05d}.bin").write_bytes(known[f"{n:05d}.bin"])

    for count, size in ((25, 300_000), (10_000, 3), (30, 250_000), (1, 20_000_000), (300, 1000), (25, 300_000)):
        add(count, size)
    return pack(leat_bin, files, folder / "ds", "--chunk-size", "300KB", "--keep-order", known=known)


@pytest.mark.parametrize(
    ("batch", "more"),
    [
        (64, {"window": 8}),
        (64, {"window": 8, "rank": 1, "world_size": 3}),
        pytest.param(40, {"window": 1}, marks=pytest.mark.long),
        pytest.param(1000, {"window": 30}, marks=pytest.mark.long),
        pytest.param(300, {"shuffle": False}, marks=pytest.mark.long),
        (1, {"window": 20}),
    ],
)
def test_loader_that_opened_never_fails_for_uneven_chunks(lt, runtime, uneven, batch, more):
    """With the smallest budget that is not refused, every batch comes, whatever it takes."""
    fields = {"k": lt.key(), "b": lt.bytes("bin"), "i": lt.index(), "again": lt.bytes("bin")}
    # by this seed some batch of three epochs touches more chunks than was estimated, in every case
    options = {"batch_size": batch, "last": "short", "fields": fields, "as_numpy": True, "seed": 3, **more}
    budget = smallest_budget(lt, uneven.url, **options)
    assert budget < 90 << 20, "a window of chunks, not as many times the largest"
    runtime.wait_gone()
    with lt.Loader(uneven.url, ram=budget, linger=0, timeout=60 * SLOW, **options) as loader:
        for _ in range(3):
            seen = {}
            for keys, values, numbers, again in loader:
                seen.update(zip(keys, numbers.tolist()))
                for key, value, twice in zip(keys, values, again):
                    assert value == twice == uneven.known[key]
                if batch == 1 and len(seen) > 300:
                    break
            assert all(int(key[:5]) == number for key, number in seen.items())
            assert len(seen) == uneven.samples or batch == 1 or more.get("world_size")
        stats = loader.stats()
        assert stats["cache_bytes"] <= stats["cache_budget"]
        assert stats["batches_split"] > 0 or batch in (1, 300)


def test_eight_ranks_need_no_more_than_one_that_reads_their_global_batch(lt, runtime, large):
    """All of them mix the same window of chunks: it has to be there once, not once for each of them."""
    options = {"window": 8, "last": "short", "fields": {"i": lt.index()}, "as_numpy": True}
    budget = smallest_budget(lt, large.url, batch_size=48, **options)
    runtime.wait_gone()
    options |= {"batch_size": 6, "world_size": 8, "timeout": 60 * SLOW}
    with contextlib.ExitStack() as stack:
        ranks = [stack.enter_context(lt.Loader(large.url, rank=r, ram=budget, **options)) for r in range(8)]
        for _ in range(2):
            seen = [n for batches in zip(*ranks, strict=True) for (i,) in batches for n in i.tolist()]
            assert sorted(seen) == list(range(large.samples))
        assert ranks[0].stats()["cache_budget"] == budget
        with pytest.raises(lt.Error, match="other loaders"):
            lt.Loader(large.url, seed=1, **options | {"batch_size": 48, "world_size": 1, "rank": 0})


def test_two_loaders_with_split_batches_share_the_smallest_budget(lt, runtime, uneven):
    fields = {"i": lt.index(), "b": lt.bytes("bin")}
    options = {"batch_size": 64, "window": 8, "last": "short", "fields": fields, "as_numpy": True}
    both = 2 * smallest_budget(lt, uneven.url, **options)
    runtime.wait_gone()
    options["timeout"] = 60 * SLOW
    with (
        lt.Loader(uneven.url, ram=both, **options) as one,
        lt.Loader(uneven.url, seed=1, **options) as two,
    ):
        rest = iter(one)
        kept = next(rest)
        seen = [sorted(n for i, _ in batches for n in i.tolist()) for batches in (two, rest)]
        assert seen[0] == list(range(uneven.samples))
        assert sorted(seen[1] + kept[0].tolist()) == list(range(uneven.samples))
        assert one.stats()["batches_split"] + two.stats()["batches_split"] > 0


@contextlib.contextmanager
def files_no_larger_than(pid, size):
    """Shared memory counts as a file."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def test_no_memory_for_a_ring_is_an_error_at_the_start_and_leaves_nothing(lt, runtime, images):
    fields = {"x": lt.image("png").resize((100, 100)), "k": lt.key()}
    with lt.Loader(images.url, batch_size=4, fields=fields) as other:
        pid = runtime.agent()
        wait_until(lambda: other.stats()["chunks_fetched"] == images.chunks, what="having read every chunk")
        before = len(os.listdir(f"/proc/{pid}/fd"))
        with files_no_larger_than(pid, 1 << 20):
            for _ in range(20):
                with pytest.raises(lt.Error, match="shared memory"):
                    lt.Loader(images.url, batch_size=40, fields=fields)
        for slots, size in ((64, 20_000), (64, 4000)):
            huge = {"x": lt.image("png").resize((size, size))}
            with pytest.raises(lt.Error, match="slots"):
                lt.Loader(images.url, batch_size=200, slots=slots, fields=huge)
        wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) == before, what="the end of the refused")
        assert runtime.agent() == pid
        assert sum(len(k) for _, k in other) == images.samples // 4 * 4
        with lt.Loader(images.url, batch_size=40, fields=fields) as loader:
            assert len([0 for _ in loader]) == len(loader)


def test_no_memory_for_a_large_batch_is_an_error_that_passes(lt, runtime, blobs):
    fields = {"k": lt.key(), "b": lt.bytes("bin")}
    seen = {}
    with lt.Loader(blobs.url, batch_size=4, slots=2, last="short", fields=fields, as_numpy=True) as loader:
        pid = runtime.agent()
        with files_no_larger_than(pid, 300_000), pytest.raises(lt.Error, match="shared memory"):
            for keys, values in loader:
                seen.update(zip(keys, values.tolist()))
        assert "0007.bin" not in seen
        rest = values_of(loader)
        assert not seen.keys() & rest.keys()
        seen |= rest
        assert runtime.agent() == pid
    assert seen == blobs.known
