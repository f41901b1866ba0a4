"""What a batch is in Python: arrays, tensors and ragged values on the ring's own memory."""

import contextlib
import functools
import gc
import threading
import time
from collections.abc import Sequence

import pytest
from loading import SLOW, content


def load(lt, images, fields, **more):
    return lt.Loader(images.url, fields=fields, **{"batch_size": 20, "timeout": 60 * SLOW, **more})


def every_type(lt):
    image = lt.image("png").resize((12, 10))
    return {
        "u8": image,
        "nchw": image.layout("nchw"),
        "f32": image.dtype("float32"),
        "f16": image.dtype("float16"),
        "bf16": image.dtype("bfloat16"),
        "gray": image.gray(),
        "y": lt.int("cls"),
        "i": lt.index(),
        "v": lt.valid(),
        "k": lt.key(),
    }


def test_arrays_and_tensors_hold_the_same(lt, images):
    import numpy

    torch = pytest.importorskip("torch")
    fields = every_type(lt)
    with (
        load(lt, images, fields, as_numpy=True, as_dict=True, last="short") as arrays,
        load(lt, images, fields, as_numpy=False, as_dict=True, last="short") as tensors,
    ):
        batches = 0
        for a, t in zip(arrays, tensors):
            assert list(a) == list(t) == list(fields)
            assert t["bf16"].dtype == torch.bfloat16 and a["bf16"].dtype == numpy.uint16
            assert a["v"].dtype == bool and t["v"].dtype == torch.bool
            assert a["k"].tolist() == t["k"].tolist()
            assert numpy.array_equal(t["bf16"].view(torch.int16).numpy(), a["bf16"].view("int16"))
            for name in ("u8", "nchw", "f32", "f16", "gray", "y", "i", "v"):
                assert type(a[name]) is numpy.ndarray and type(t[name]) is torch.Tensor
                assert a[name].flags.writeable and a[name].flags.c_contiguous and a[name].flags.aligned
                assert t[name].is_contiguous()
                assert numpy.array_equal(t[name].numpy(), a[name])
            n = len(a["i"])
            assert sorted(a["u8"].shape[1:]) == [3, 10, 12] and len(a["u8"]) == n
            assert a["nchw"].shape[1] == 3 and numpy.array_equal(a["nchw"].transpose(0, 2, 3, 1), a["u8"])
            batches += 1
            del a, t
        assert batches == len(arrays) == 11


def test_numpy_that_is_not_known_gives_the_same_arrays(lt, images, monkeypatch):
    """Its constructor is called instead of its table of functions."""
    import numpy

    fields = every_type(lt)
    with load(lt, images, fields, as_numpy=True, last="short") as loader:
        direct = [[v.copy() if isinstance(v, numpy.ndarray) else v.tolist() for v in batch] for batch in loader]
    plan = lt.loader._plan_numpy
    make = functools.partial(numpy.ndarray, order="C")
    monkeypatch.setattr(lt.loader, "_plan_numpy", lambda *a: (make, plan(*a)[1]))
    with load(lt, images, fields, as_numpy=True, last="short") as loader:
        for batch, expected in zip(loader, direct):
            for value, before in zip(batch, expected):
                if isinstance(value, numpy.ndarray):
                    assert value.dtype == before.dtype and numpy.array_equal(value, before)
                    assert value.flags.writeable
                else:
                    assert value.tolist() == before
            del batch, value


def test_what_a_plan_raises_comes_out_of_next_and_costs_no_batch_and_no_slot(lt, images, monkeypatch):
    broken = [True] * 6

    def plan(kind, dtype):
        import numpy

        if broken:
            broken.pop()
            raise KeyError("no such type")
        return numpy.ndarray, numpy.dtype("int64")

    monkeypatch.setattr(lt.loader, "_plan_numpy", plan)
    with load(lt, images, {"i": lt.index()}, as_numpy=True, slots=2) as loader:
        batches = iter(loader)
        for _ in range(6):
            with pytest.raises(KeyError, match="no such type"):
                next(batches)
        assert [len(i) for (i,) in batches] == [20] * 10


def test_one_column_that_is_kept_keeps_its_bytes(lt, images, as_numpy):
    fields = {"x": lt.image("png").resize((64, 64)), "i": lt.index(), "k": lt.key()}
    for column in range(3):
        with load(lt, images, fields, as_numpy=as_numpy, slots=2) as loader:
            kept, before = None, None
            for epoch in range(2):
                for batch in loader:
                    if kept is None:
                        kept = batch[column]
                        before = content(kept)
                    del batch
                    assert content(kept) == before, epoch


def test_views_of_a_column_keep_it(lt, images, as_numpy):
    fields = {"x": lt.image("png").resize((8, 8)), "b": lt.bytes("png")}
    with load(lt, images, fields, as_numpy=as_numpy, slots=3) as loader:
        x, b = next(iter(loader))
        part, view = x[3:5, 1:], b[7]
        before = content(part), bytes(view)
        del x, b
        for _ in range(2):
            for batch in loader:
                del batch
        assert (content(part), bytes(view)) == before
    gc.collect()
    assert (content(part), bytes(view)) == before  # the loader is closed


def test_columns_may_be_dropped_on_other_threads(lt, images, as_numpy):
    fields = {"x": lt.image("png").resize((8, 8)), "i": lt.index(), "b": lt.bytes("png")}
    with load(lt, images, fields, as_numpy=as_numpy, slots=8) as loader:
        seen = []
        waiting = []

        def drop():
            while waiting or not done.is_set():
                with contextlib.suppress(IndexError):
                    waiting.pop(0).clear()

        done = threading.Event()
        threads = [threading.Thread(target=drop) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for x, i, b in loader:
                seen += i.tolist()
                waiting.extend(([x], [i], [b]))
                del x, i, b
                while len(waiting) > 4:
                    time.sleep(0.001)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert len(set(seen)) == 200


def test_rank_without_a_sample_in_the_last_batch_gets_an_empty_one(lt, blobs):
    """300 samples in global batches of 299: the last one has a sample for one rank of 13. Which slot it comes in, and what
    that held before, is a matter of time: hence many passes."""
    options = {"batch_size": 23, "world_size": 13, "last": "short", "as_numpy": True, "timeout": 60 * SLOW}
    fields = {"k": lt.key(), "b": lt.bytes("bin")}
    for slots in (2, 3, 4):
        with lt.Loader(blobs.url, rank=12, fields=fields, slots=slots, **options) as loader:
            passes = [[(len(keys), len(values)) for keys, values in loader] for _ in range(5)]
        assert passes == [[(23, 23), (0, 0)]] * 5


def test_pass_that_is_over_stays_over(lt, images):
    with load(lt, images, {"i": lt.index()}) as loader:
        batches = iter(loader)
        assert iter(batches) is batches
        assert sum(1 for _ in batches) == len(loader) == 10
        for _ in range(3):
            with pytest.raises(StopIteration):
                next(batches)
        assert loader.epoch == 1
        assert sum(1 for _ in loader) == 10
        assert loader.epoch == 2


def test_pass_goes_on_after_an_error_and_does_not_end(lt, blobs, tmp_path):
    import shutil

    shutil.copytree(blobs.path, tmp_path / "ds")
    victim = sorted((tmp_path / "ds").glob("leat/chunks/*/*"))[5]
    victim.rename(tmp_path / "away")
    with lt.Loader(tmp_path / "ds", batch_size=10, fields={"k": lt.key()}, timeout=60 * SLOW) as loader:
        keys = []
        batches = iter(loader)
        with pytest.raises(FileNotFoundError):
            for (k,) in batches:
                keys += k.tolist()
        with pytest.raises(FileNotFoundError):
            next(batches)
        (tmp_path / "away").rename(victim)
        for (k,) in batches:
            keys += k.tolist()
        assert sorted(keys) == sorted(blobs.known)


def test_pass_of_a_closed_loader_says_so(lt, images):
    loader = load(lt, images, {"i": lt.index()})
    batches = iter(loader)
    next(batches)
    loader.close()
    for _ in range(2):
        with pytest.raises(ValueError, match="closed"):
            next(batches)


def test_ragged_values_are_a_sequence(lt, blobs):
    fields = {"k": lt.key(), "b": lt.bytes("bin")}
    with lt.Loader(blobs.url, batch_size=20, fields=fields, timeout=60 * SLOW) as loader:
        keys, values = next(iter(loader))
        assert isinstance(keys, Sequence) and isinstance(values, Sequence)
        assert len(keys) == len(values) == 20
        known = [blobs.known[key] for key in keys]
        assert [bytes(v) for v in values] == values.tolist() == known
        assert values.nbytes == sum(map(len, known))
        assert repr(values) == f"Ragged(20 values, {values.nbytes} bytes)"
        assert list(reversed(keys)) == keys[::-1] == keys.tolist()[::-1]
        assert keys[-1] == keys[19] and keys[-20] == keys[0]
        assert [bytes(v) for v in values[2:9:3]] == known[2:9:3]
        assert values[30:] == []
        assert keys[4] in keys and "no such key" not in keys
        assert keys.index(keys[4]) == 4 and keys.count(keys[4]) == 1
        for wrong in (20, -21, 2**70):
            with pytest.raises(IndexError):
                keys[wrong]
        with pytest.raises(TypeError):
            keys["0"]
        with pytest.raises(ValueError, match="zero"):
            values[::0]


def test_ragged_values_without_a_batch_cannot_be_made(lt):
    with pytest.raises(TypeError):
        lt.loader.Ragged()
    with pytest.raises(TypeError):
        object.__new__(lt.loader.Ragged)


def test_ragged_values_whose_ends_were_overwritten_are_an_error_and_no_other_memory(lt, blobs):
    import ctypes

    import numpy

    with lt.Loader(blobs.url, batch_size=16, fields={"b": lt.bytes("bin")}, timeout=60 * SLOW) as loader:
        (values,) = next(iter(loader))
        data = numpy.frombuffer(values[0], dtype="uint8").ctypes.data
        ends = (ctypes.c_uint64 * 16).from_address(data - 128)  # 16 of them, right before the first byte
        lengths = [len(v) for v in values]
        assert [ends[i] for i in range(16)] == list(numpy.cumsum(lengths))
        for wrong in (2**63, values.nbytes + 1, 0):
            before, ends[5] = ends[5], wrong
            for i in (5, 6) if wrong else (5,):
                with pytest.raises(lt.errors.CorruptError, match=f"value {i} ends where it cannot"):
                    values[i]
            ends[5] = before
        assert [len(v) for v in values] == lengths


def test_normalised_values_are_floats_whether_or_not_a_type_was_named(lt, images):
    import numpy

    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.5)
    plain = lt.image("png").resize((12, 10))
    normal = plain.normalize(mean, std)
    fields = {
        "u8": plain,
        "unnamed": normal,
        "f32": normal.dtype("float32"),
        "f16": normal.dtype("float16"),
        "scaled": plain.normalize(0, 1),
    }
    with load(lt, images, fields, as_numpy=True, as_dict=True) as loader:
        batch = next(iter(loader))
        levels = batch["u8"].astype("float64") / 255
        assert batch["unnamed"].dtype == batch["scaled"].dtype == numpy.float32
        assert numpy.array_equal(batch["unnamed"], batch["f32"])
        assert numpy.allclose(batch["unnamed"], (levels - mean) / std, atol=1e-5)
        assert numpy.allclose(batch["f16"], (levels - mean) / std, atol=1e-2)
        assert numpy.allclose(batch["scaled"], levels, atol=1e-6)
    for wrong, word in (
        (normal.dtype("uint8"), "normalised"),
        (plain.dtype("uint8").normalize(0, 1), "normalised"),
        (plain.normalize(0.5, 0), "above 0"),
    ):
        with pytest.raises(lt.Error, match=word):
            load(lt, images, {"x": wrong})
