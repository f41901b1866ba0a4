"""Copies to a GPU on a machine that has none: the C side with a driver of our own (tests/unit/fake_cuda.c), whose copies are
as late as a test wants them, and what the GPU computes, done by torch on the CPU.

tests/gpu/check_device.py has the same promises on a real one."""

import collections
import ctypes
import dataclasses
import os
import signal
import subprocess
import sys
import time
import types

import fake_torch
import numpy
import pytest
from loading import BUILD, SANITIZE, import_leat

FAKE = BUILD / "tests" / "unit" / "libfake_cuda.so"
G = 16


@pytest.fixture
def fake():
    library = ctypes.CDLL(str(FAKE))
    library.fake_run.argtypes = [ctypes.c_size_t]

    class Fake:
        def __getattr__(self, name):
            return ctypes.c_int.in_dll(library, f"fake_{name}").value

        def __setattr__(self, name, value):
            ctypes.c_int.in_dll(library, f"fake_{name}").value = value

        def run(self, n=1 << 40):
            library.fake_run(n)

    yield Fake()
    library.fake_run(1 << 40)
    ROOMS.clear()


def load(lt, images, **more):
    fields = {"x": lt.image("png").resize((24, 20)), "i": lt.index()}
    settings = {"batch_size": G, "shuffle": True, "seed": 2, "as_numpy": True, "slots": 3, **more}
    return lt.Loader(images.url, fields=fields, **settings)


def copier(lt):
    made = lt._core.Copier(library=str(FAKE), stream=1)
    made.column(0, 0, 0, 0, 1, (1,) * 4, (0,) * 4)
    made.column(1, 0, 0, 0, 1, (1,) * 4, (0,) * 4)
    return made


ROOMS = []  # late copies go there


def room():
    x, i = numpy.zeros((G, 24, 20, 3), numpy.uint8), numpy.zeros(G, numpy.int64)
    ROOMS.append((x, i))
    return (x, i), (x.ctypes.data, i.ctypes.data)


def take(source, seconds=20):
    """A batch, if one comes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        batch = source.take(False)
        if batch is not None:
            return batch
        time.sleep(0.01)
    return None


@pytest.fixture
def expected(lt, images):
    with load(lt, images) as loader:
        return [tuple(column.copy() for column in batch) for batch in loader]


def test_slot_is_free_only_when_the_copy_is_done(lt, images, fake, expected):
    with load(lt, images) as loader:
        source = iter(loader._core)
        work, arrived = copier(lt), []
        copies = []
        for _ in range(3):  # all slots
            values, addresses = room()
            copies.append(work.copy(source.take(True), addresses))
            arrived.append(values)
        assert take(source, 0.5) is None, "a slot was given back before its copy"
        assert [c.done() for c in copies] == [False] * 3
        fake.run(3)  # two copies and the event of the first batch
        assert [c.done() for c in copies] == [True, False, False]
        fourth = take(source)
        assert fourth is not None
        fake.run()
        for got, want in zip(arrived, expected):
            assert all((a == b).all() for a, b in zip(got, want)), "what was copied was overwritten before"
        values, addresses = room()
        last = work.copy(fourth, addresses)
        fake.run()
        assert last.done() and (values[0] == expected[3][0]).all()


def test_ring_is_registered_once_and_taken_back_before_it_is_unmapped(lt, images, fake):
    before = fake.registered, fake.unregistered
    with load(lt, images) as loader:
        work = copier(lt)
        source = iter(loader._core)
        while (batch := next_or_none(source)) is not None:
            work.copy(batch, room()[1])
            fake.run()
        assert fake.registered == before[0] + 1
        assert work.registered
        assert fake.unregistered == before[1]
        os.kill(loader.stats()["agent_pid"], signal.SIGKILL)  # the next one has another ring
        source = iter(loader._core)
        for _ in range(6):  # the old ring has up to three
            work.copy(source.take(True), room()[1])
            fake.run()
        assert fake.registered == before[0] + 2
    assert fake.unregistered == before[1] + 2, "the driver would go on reading memory that is somebody else's"
    assert fake.unmapped_too_early == 0


def next_or_none(source):
    try:
        return source.take(True)
    except StopIteration:
        return None


def test_memory_that_cannot_be_registered_is_copied_all_the_same(lt, images, fake, expected):
    with load(lt, images) as loader:
        work = copier(lt)
        fake.fail_in = 1
        values, addresses = room()
        work.copy(iter(loader._core).take(True), addresses)
        assert not work.registered
        fake.run()
        assert (values[0] == expected[0][0]).all()


@pytest.mark.parametrize("at", [1, 2, 3], ids=["first column", "second column", "event"])
def test_copy_that_fails_loses_nothing(lt, images, fake, expected, at):
    with load(lt, images) as loader:
        source = iter(loader._core)
        work = copier(lt)
        work.copy(source.take(True), room()[1])
        batch = source.take(True)
        fake.fail_in = at
        with pytest.raises(RuntimeError, match="as the test wanted it"):
            work.copy(batch, room()[1])
        values, addresses = room()
        work.copy(batch, addresses)  # it is still there
        fake.run()
        assert all((a == b).all() for a, b in zip(values, expected[1]))
        for number in range(2, len(expected)):
            values, addresses = room()
            work.copy(source.take(True), addresses)
            fake.run()
            assert (values[1] == expected[number][1]).all(), "a slot was lost, or a batch"


@pytest.mark.parametrize("order", ["pixels", "planes"])
def test_kernel_gets_what_it_needs(lt, images, fake, expected, order):
    work = lt._core.Copier(library=str(FAKE), stream=1)
    (function,) = work.load(b"\0", [f"leat_float32_3_{order}_4"])
    raw = numpy.zeros((G, 24 * 20 * 3), numpy.uint8)
    work.column(0, function, raw.ctypes.data, 24 * 20, 4, (0.5, 1, 2, 0), (1, 2, 3, 0))
    out = numpy.zeros((G, 24, 20, 3) if order == "pixels" else (G, 3, 24, 20), numpy.float32)
    with load(lt, images) as loader:
        copy = work.copy(iter(loader._core).take(True), (out.ctypes.data,))
        fake.run()
        assert copy.done()
    want = expected[0][0] * numpy.array((0.5, 1, 2), numpy.float32) + numpy.array((1, 2, 3), numpy.float32)
    assert (out == (want if order == "pixels" else want.transpose(0, 3, 1, 2))).all()


def test_wrong_calls_are_errors(lt, images, fake):
    with load(lt, images) as loader:
        work = copier(lt)
        batch = iter(loader._core).take(True)
        with pytest.raises(ValueError, match="2 columns"):
            work.copy(batch, (1,))
        with pytest.raises(TypeError, match="not a batch"):
            work.copy("batch", (1, 2))
        values = batch.values()
        batch.release()
        with pytest.raises(ValueError, match="released"):
            work.copy(batch, (1, 2))
        del values


@pytest.mark.skipif(bool(SANITIZE), reason="the sanitizer's runtime must be loaded first")
@pytest.mark.parametrize(
    ("library", "text"), [("libm.so.6", "too old"), ("libno_such_driver.so.1", "libno_such_driver.so.1")]
)
def test_driver_that_is_missing_or_too_old_says_so(library, text):
    program = f"from leat import _core; _core.Copier(library={library!r}, stream=0)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(BUILD / "python")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "OSError" in done.stderr and text in done.stderr


# What the device computes.

TAILS = [
    "dtype=float32",
    "dtype=float16",
    "dtype=bfloat16",
    "mean=0.485:0.456:0.406 std=0.229:0.224:0.225",
    "mean=0.5 std=0.25 dtype=bfloat16 layout=nchw",
    "mean=0.1:0.2:0.3 dtype=float16 layout=nchw",
    "layout=nchw",
    "colour=gray mean=1/2 std=1/4",
]


@pytest.mark.parametrize("words", TAILS)
def test_device_computes_what_the_agent_computes(lt, images, words):
    """Bit for bit: a training that moves to device= sees the same numbers."""
    torch = pytest.importorskip("torch")
    from leat import device

    whole = f"resize=24x20 {words}"
    left, tail = device.split("image", whole)
    assert tail is not None and not any(word.split("=")[0] in left for word in ("dtype=", "mean=", "std=", "layout="))

    def read(pipeline):
        field = lt.image("png")
        field = type(field)("png", words=tuple(pipeline.split()))
        with lt.Loader(images.url, fields={"x": field}, batch_size=64, shuffle=False, last="short") as loader:
            return torch.cat([x.clone() for (x,) in loader])

    want, raw = read(whole), read(left)
    assert raw.dtype == torch.uint8
    got = device.by_torch(raw, tail)
    assert got.dtype == want.dtype and got.shape == want.shape and torch.equal(got, want)


def test_channels_last_is_a_view_of_the_same_pixels(lt):
    torch = pytest.importorskip("torch")
    from leat import device

    raw = torch.randint(0, 256, (4, 6, 5, 3), dtype=torch.uint8)
    _, tail = device.split("image", "layout=channels_last dtype=float16")
    got = device.by_torch(raw, tail)
    assert got.shape == (4, 3, 6, 5) and got.is_contiguous(memory_format=torch.channels_last)
    _, tail = device.split("image", "layout=nchw dtype=float16")
    assert torch.equal(got, device.by_torch(raw, tail))


@pytest.mark.parametrize(
    "words", ["dtype=uint16", "bits=16 dtype=float32", "colour=rgba", "colour=index filter=nearest"]
)
def test_what_the_device_cannot_do_stays_with_the_agent(words):
    import_leat()
    from leat import device

    assert device.split("image", f"resize=8x8 {words}") == (f"resize=8x8 {words}", None)


@pytest.mark.parametrize("device", ["cuda", "cuda:3", "mps", "cdua", 3, 3.5])
def test_device_that_cannot_be_used_says_why(lt, images, device):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(lt.Error, match="device=") as caught:
        lt.Loader(images.url, batch_size=4, fields={"i": lt.index()}, device=device)
    assert "\n" not in str(caught.value)


def test_cpu_is_a_device(lt, images):
    pytest.importorskip("torch")
    with lt.Loader(images.url, batch_size=4, fields={"i": lt.index()}, device="cpu") as loader:
        assert next(iter(loader))[0].device.type == "cpu"


def test_device_and_numpy_exclude_each_other(lt, images):
    with pytest.raises(lt.Error, match="as_numpy"):
        lt.Loader(images.url, batch_size=4, fields={"i": lt.index()}, device="cuda", as_numpy=True)


def test_channels_last_without_a_device_says_so(lt, images):
    with pytest.raises(lt.Error, match="channels_last"):
        lt.Loader(images.url, batch_size=4, fields={"x": lt.image("png").resize((8, 8)).layout("channels_last")})


# The whole way from next() to the driver, with a torch and a driver of our own.


@pytest.fixture
def gpu(lt, fake, monkeypatch):
    """device="cuda" of a machine without one; returns what stands in for torch."""
    torch = pytest.importorskip("torch")
    from leat import device

    standing_in = fake_torch.make(torch, monkeypatch)
    begin = device.Device._begin_with
    monkeypatch.setattr(device, "_LIBRARY", str(FAKE))
    monkeypatch.setattr(device, "_compile", lambda source, capability: (b"\0", None))
    monkeypatch.setattr(device, "check", lambda asked: types.SimpleNamespace(type="cuda", index=0))
    monkeypatch.setattr(device.Device, "_begin_with", lambda stage, _: begin(stage, standing_in))
    monkeypatch.setattr(device.Device, "send", lambda stage, tensor: tensor.clone())
    yield standing_in
    fake.run()


def arrivals(loader, fake):
    for batch in loader:
        fake.run()
        yield batch


@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("words", ["", "mean=0.5 std=0.25 layout=nchw", "mean=0.5 std=0.25 layout=channels_last"])
def test_batches_on_the_device_are_those_of_the_cpu(lt, images, fake, gpu, words, as_dict):
    def fields(layout):
        image = type(lt.image("png"))("png", words=("resize=24x20", *words.replace("channels_last", layout).split()))
        return {"k": lt.key(), "x": image, "i": lt.index()}

    more = {"batch_size": G, "last": "short", "seed": 2, "as_dict": as_dict}
    with lt.Loader(images.url, fields=fields("nchw"), **more) as cpu:
        expected = [[column if name == 0 else column.clone() for name, column in columns(batch)] for batch in cpu]
        names = [list(k) for k, _, _ in expected]
    with lt.Loader(images.url, fields=fields("channels_last"), device="cuda", **more) as loader:
        got = list(arrivals(loader, fake))
        assert len(got) == len(expected) and images.samples % G, "the last batch is a short one"
        assert set(gpu.recorded) == {7}, "memory is kept until the program's stream has read it"
        assert gpu.switched[-2:] == [1, 7], "the program's stream is the current one again"
    fake.run()
    for batch, (_, x, i), key in zip(got, expected, names):
        (_, k), (_, gx), (_, gi) = columns(batch)
        assert list(k) == key and (gi == i).all()
        assert gx.dtype == x.dtype and gx.shape == x.shape and (gx == x).all()
        if "channels_last" in words:
            assert gx.stride()[1] == 1


def columns(batch):
    return list(enumerate(batch.values() if isinstance(batch, dict) else batch))


def test_without_a_compiler_torch_converts(lt, images, fake, gpu, monkeypatch, caplog):
    from leat import device

    monkeypatch.setattr(device, "_compile", lambda source, capability: (None, "there is none"))
    monkeypatch.setattr(device, "_said", set())
    fields = {"x": lt.image("png").resize((24, 20)).normalize(0.5, 0.25).layout("nchw"), "i": lt.index()}
    original = device.by_torch
    monkeypatch.setattr(device, "by_torch", lambda raw, tail: (fake.run(), original(raw, tail))[1])
    with lt.Loader(images.url, fields=fields, batch_size=G, seed=2) as cpu:
        expected = [x.clone() for x, _ in cpu]
    with lt.Loader(images.url, fields=fields, batch_size=G, seed=2, device="cuda") as loader:
        got = [x for x, _ in arrivals(loader, fake)]
    assert all((a == b).all() for a, b in zip(got, expected)) and len(got) == len(expected)
    assert [r.getMessage() for r in caplog.records] == [
        "pictures are converted by torch, which is slower: there is none"
    ]


def test_device_that_cannot_be_begun_says_so_in_one_line(lt, images, gpu, monkeypatch):
    """Another process may have all of its memory, or have it for itself."""
    from leat import device

    def fail(stage, _):
        raise RuntimeError(f"CUDA error: {text}\nCUDA kernel errors might be reported later")

    monkeypatch.setattr(device.Device, "_begin_with", fail)
    with lt.Loader(images.url, fields={"i": lt.index()}, batch_size=4, device="cuda") as loader:
        for text, kind in (("out of memory", lt.errors.OutOfMemoryError), ("busy", lt.errors.UnsupportedError)):
            with pytest.raises(kind, match=text) as caught:
                next(iter(loader))
            assert "\n" not in str(caught.value)


@dataclasses.dataclass(frozen=True)
class Parts:
    x: object
    name: str


class Knows:
    """Something with a to() of its own."""

    def __init__(self, moved=False):
        self.moved = moved

    def to(self, device):
        return Knows(True)


def gather(samples):
    import torch

    x = torch.stack([torch.as_tensor(sample[0]) for sample in samples])
    counted = collections.defaultdict(list, x=x)
    return {"plain": x, "parts": Parts(x, "a"), "counted": counted, "knows": [Knows()], "pair": (x, 3)}


def test_whatever_holds_tensors_gets_to_the_device(lt, images, fake, gpu, monkeypatch):
    from leat import device

    sent = []
    monkeypatch.setattr(device.Device, "send", lambda stage, tensor: sent.append(tensor) or tensor.clone())
    fields = {"i": lt.index()}
    with lt.Loader(
        images.url, fields=fields, batch_size=4, collate=gather, transform_workers=0, device="cuda", seed=2
    ) as loader:
        batch = next(iter(loader))
        sent_then = len(sent)
    assert sent_then % 4 == 0 and sent_then, "each of the four places where a tensor is"
    assert isinstance(batch["parts"], Parts) and batch["parts"].name == "a"
    assert type(batch["counted"]) is collections.defaultdict and batch["counted"].default_factory is list
    assert batch["knows"][0].moved
    assert all((x == batch["plain"]).all() for x in (batch["parts"].x, batch["counted"]["x"], batch["pair"][0]))
