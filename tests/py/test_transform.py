"""transform= and collate=: what they get, what comes back, and that every sample comes once."""

import gc
import json
import os
import pickle
import random
import subprocess
import weakref
from pathlib import Path

import numpy
import pytest
import transforms as t
from conftest import PRELOAD
from loading import PYTHON_BUILD, SLOW, numbers, torchrun
from transforms import G, loader_of

pytestmark = [pytest.mark.usefixtures("worker_env")] if PRELOAD else []


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_samples_go_through_the_transform_in_order(lt, images, workers):
    fields = {"x": lt.image("png").resize((16, 16)), "y": lt.int("cls"), "i": lt.index()}
    with loader_of(lt, images, fields, as_dict=True) as plain:
        expected = [[(b["x"].tobytes(), b["y"].tolist(), b["i"].tolist()) for b in plain] for _ in range(2)]
    with loader_of(lt, images, fields, as_dict=True, transform=t.doubled, transform_workers=workers) as loader:
        got = []
        for _ in range(2):
            got.append([])
            for b in loader:
                assert {type(v) for v in b.values()} == {numpy.ndarray}
                assert (os.getpid() in b["pid"]) == (workers == 0)
                got[-1].append((b["x"].tobytes(), (b["y"] // 2).tolist(), b["i"].tolist()))
    assert got == expected


def test_what_is_not_divided_by_the_batch_is_short_or_padded(lt, images):
    for last in ("short", "pad", "drop"):
        with loader_of(lt, images, last=last, transform=t.same) as loader:
            sizes = [len(i) for _, i in loader]
            assert len(sizes) == len(loader)
        full = images.samples // G
        assert sizes == [G] * full + {"short": [images.samples % G], "pad": [G], "drop": []}[last]


def test_a_transform_writes_to_what_it_is_given(lt, images):
    with loader_of(lt, images) as plain:
        expected = [(x + 1).tobytes() for x, _ in plain]
    for workers in (0, 2):
        with loader_of(lt, images, transform=t.in_place, transform_workers=workers) as loader:
            assert [x.tobytes() for x, _ in loader] == expected


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """A dataset with a field of every kind, by number."""
    from loading import import_leat

    lt = import_leat()
    path = tmp_path_factory.mktemp("kinds") / "ds"
    fields = {
        "n": "int",
        "f": "float",
        "s": "string",
        "b": "bytes",
        "j": "json",
        "t": lt.Tokens("uint16"),
        "a": lt.Array("float32", (None, 2)),
        "q": lt.Array("int16", (None, None)),
        "z": lt.Array("int32", (2, 3)),
    }
    draw = numpy.random.default_rng(1)
    with lt.Writer(path, fields, chunk_size="4KiB") as writer:
        for i in range(60):
            sample = {
                "n": i * 3,
                "f": i / 4,
                "s": f"text {i} ä",
                "b": bytes(range(i % 7)),
                "j": {"i": i, "l": [1, None]},
                "t": draw.integers(0, 60000, i % 5, dtype="uint16"),
                "a": draw.random((i % 4, 2), dtype="float32"),
                "q": draw.integers(0, 99, (i % 3, i % 2 + 1), dtype="int16"),
                "z": draw.integers(0, 99, (2, 3), dtype="int32"),
            }
            writer.write(sample, key=f"k{i}")
    return path


def fields_of(lt):
    return {
        "n": lt.int("n", dtype="int32"),
        "f": lt.float("f"),
        "s": lt.string("s"),
        "b": lt.bytes("b"),
        "j": lt.json("j"),
        "t": lt.tokens("t"),
        "t64": lt.tokens("t", dtype="int64").pad(6),
        "a": lt.array("a"),
        "q": lt.array("q"),
        "z": lt.array("z"),
        "key": lt.key(),
        "i": lt.index(),
        "valid": lt.valid(),
        "length": lt.length("q"),
        "tuple": lt.array("q").ragged(),
        "rows": lt.array("a").ragged(),
        "letters": lt.string("s").ragged(),
    }


@pytest.mark.parametrize("as_numpy", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_has_the_values_of_its_columns(lt, kinds, as_numpy, workers):
    if not as_numpy:
        pytest.importorskip("torch")
    fields = fields_of(lt)
    with lt.Loader(kinds, fields=fields, batch_size=7, as_dict=True, as_numpy=as_numpy, last="short") as plain:
        expected = []
        for b in plain:
            for i in range(len(b["n"])):
                one = {name: column[i] for name, column in b.items() if name not in ("tuple", "rows", "letters")}
                one |= {"tuple": b["q"][i], "rows": b["a"][i], "letters": b["s"][i]}
                for name in ("n", "f", "i", "valid"):
                    one[name] = one[name].numpy()[()] if not as_numpy else one[name]
                expected.append(json.loads(t.facts(one)["seen"]))
    more = {"as_dict": True, "as_numpy": as_numpy, "last": "short", "transform_workers": workers}
    with lt.Loader(kinds, fields=fields, batch_size=7, transform=t.facts, **more) as loader:
        got = [json.loads(seen) for b in loader for seen in b["seen"]]
    assert len(got) == 60
    for one, other in zip(got, expected):
        assert one == other


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_has_the_loaders_columns(lt, kinds, workers):
    fields = {k: f for k, f in fields_of(lt).items() if k not in ("tuple", "rows", "letters")}
    more = {"as_dict": True, "as_numpy": True}
    with lt.Loader(kinds, fields=fields, batch_size=7, **more) as plain:
        expected = [t.told_columns(b) for b in plain]
    more |= {"transform_on": "batch", "transform_workers": workers}
    with lt.Loader(kinds, fields=fields, batch_size=7, transform=t.told_columns, **more) as loader:
        assert list(loader) == expected


def test_columns_that_a_transform_leaves_alone_are_not_copied(lt, kinds):
    fields = fields_of(lt)
    with lt.Loader(kinds, fields=fields, batch_size=7, as_dict=True, as_numpy=True) as plain:
        expected = [
            t.told_columns({k: v for k, v in b.items() if k not in ("tuple", "rows", "letters")}) for b in plain
        ]
    more = {"as_dict": True, "as_numpy": True, "transform_on": "batch", "transform_workers": 2}
    with lt.Loader(kinds, fields=fields, batch_size=7, transform=t.same, **more) as loader:
        got = []
        for b in loader:
            assert isinstance(b["q"], lt.loader.Ragged) and b["q"].values.tolist() == b["tuple"][0].tolist()
            assert lt._core.state_of(b["z"].__array_interface__["data"][0]), "it lies in the ring"
            got.append(t.told_columns({k: v for k, v in b.items() if k not in ("tuple", "rows", "letters")}))
    assert got == expected


def test_values_larger_than_their_slot_arrive_too(lt, blobs):
    fields = {"b": lt.bytes("bin"), "key": lt.key()}
    settings = {"batch_size": 50, "as_dict": True, "as_numpy": True, "last": "short", "transform_workers": 2}
    for on in ("sample", "batch"):
        with lt.Loader(blobs.url, fields=fields, transform=t.same, transform_on=on, **settings) as loader:
            seen = {key: bytes(value) for b in loader for key, value in zip(b["key"], b["b"])}
        assert seen == blobs.known, on


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_dicts_tuples_and_lists_are_stacked(lt, images, workers):
    torch = pytest.importorskip("torch")
    with loader_of(lt, images, transform=t.nested, transform_workers=workers) as loader:
        b = next(iter(loader))
    assert isinstance(b["pair"], t.Pair) and b["pair"].index.dtype == numpy.int64
    assert b["pair"].key == [str(i) for i in b["pair"].index]
    assert b["list"][0].shape == (G, 16, 16, 3) and b["list"][0].dtype == numpy.float32
    assert b["list"][1].tolist() == [0.5] * G
    assert b["text"] == ["t" * int(i % 3) for i in b["pair"].index]
    fields = {"x": lt.image("png").resize((16, 16)), "i": lt.index()}
    with loader_of(lt, images, fields, transform=t.same, as_numpy=False, transform_workers=workers) as loader:
        x, i = next(iter(loader))
    assert type(x) is torch.Tensor and x.shape == (G, 16, 16, 3) and i.dtype == torch.int64


@pytest.mark.parametrize("workers", [0, 2])
def test_collate_gets_the_list_of_samples(lt, images, workers):
    with loader_of(lt, images) as plain:
        expected = [(x.tobytes(), i.tolist()) for x, i in plain]
    for more in ({}, {"transform": t.same}):
        with loader_of(lt, images, collate=t.as_lists, transform_workers=workers, **more) as loader:
            got = [(b"".join(x.tobytes() for x in b["x"]), b["i"]) for b in loader]
        assert got == expected


def test_layout_in_memory_and_types_survive_the_way_back(lt, images):
    torch = pytest.importorskip("torch")
    fields = {"x": lt.image("png").resize((16, 16)), "i": lt.index()}
    more = {"as_numpy": False, "as_dict": True, "transform_on": "batch"}
    with loader_of(lt, images, fields, as_numpy=False, as_dict=True) as plain:
        expected = next(iter(plain))["x"].clone()
    with loader_of(lt, images, fields, transform=t.channels_last, **more) as loader:
        b = next(iter(loader))
        assert torch.equal(b["x"].permute(0, 2, 3, 1), expected)
        assert b["x"].is_contiguous(memory_format=torch.channels_last)
        assert b["half"].dtype == torch.bfloat16 and torch.equal(b["half"].byte(), b["x"])
        assert b["f"].flags.f_contiguous and b["f"].shape == (3, 4)
    with loader_of(lt, images, fields, transform=t.flipped, as_dict=True, transform_on="batch") as loader:
        b = next(iter(loader))
        assert numpy.array_equal(b["x"], expected.numpy()[:, :, ::-1])
        assert numpy.array_equal(b["mean"], b["x"].mean(axis=(1, 2, 3)))


def test_a_sample_draws_the_same_whoever_works_on_it(lt, images):
    def epochs_of(workers, batch, transform=t.draws, **more):
        settings = {"batch_size": batch, "transform_workers": workers, "last": "short", **more}
        with loader_of(lt, images, {"i": lt.index()}, transform=transform, **settings) as loader:
            epochs = []
            for _ in range(2):
                rows = [(i, d, s) for b in loader for i, d, s in zip(*(c.tolist() for c in b))]
                epochs.append({i: (*d, s) for i, d, s in rows})
            return epochs

    first = epochs_of(3, G)
    assert [len(e) for e in first] == [images.samples] * 2
    assert epochs_of(1, 7) == first
    assert epochs_of(0, 50, rank=0, world_size=1) == first
    halves = [epochs_of(1, 12, rank=r, world_size=2) for r in range(2)]
    assert [{**a, **b} for a, b in zip(*halves)] == first
    for place in range(4):
        assert len({v[place] for e in first for v in e.values()}) == 2 * images.samples, "epochs and samples differ"
    assert epochs_of(1, G, seed=4) != first
    pytest.importorskip("torch")
    by_torch = epochs_of(2, G, t.draws_of_torch, as_numpy=False)
    assert [{i: v[:3] for i, v in e.items()} for e in by_torch] == [{i: v[:3] for i, v in e.items()} for e in first]
    assert epochs_of(0, 9, t.draws_of_torch, as_numpy=False) == by_torch
    assert len({v[3] for e in by_torch for v in e.values()}) > 390, "of 406 numbers of 24 bits"


def test_a_transform_in_the_loaders_process_leaves_its_random_numbers_alone(lt, images):
    random.seed(1)
    numpy.random.seed(1)
    before = random.getstate(), numpy.random.get_state()[1].tolist()
    with loader_of(lt, images, {"i": lt.index()}, transform=t.draws, transform_workers=0) as loader:
        next(iter(loader))
    assert (random.getstate(), numpy.random.get_state()[1].tolist()) == before


def results(process="self"):
    """Bytes of results' memory that a process has mapped."""
    lines = [line for line in Path(f"/proc/{process}/maps").read_text().splitlines() if "leat-result" in line]
    return sum(int(b, 16) - int(a, 16) for a, b in (line.split()[0].split("-") for line in lines))


def test_kept_results_stay_as_they_are_and_memory_is_used_again(lt, images):
    fields = {"x": lt.image("png").resize((64, 64)), "i": lt.index()}
    with loader_of(lt, images, fields, batch_size=8) as plain:
        expected = {tuple(i.tolist()): x.tobytes() for x, i in plain}
    with loader_of(lt, images, fields, batch_size=8, transform=t.same) as loader:
        kept = list(loader)
        for _ in range(3):
            for x, i in loader:
                del x, i
        assert {tuple(i.tolist()): x.tobytes() for x, i in kept} == expected
        most = results()
        del kept
        gc.collect()
        for _ in range(3):
            for x, i in loader:
                del x, i
        assert results() < most * 2 / 3, "what nobody has is given back"
    gc.collect()
    assert results() == 0


def test_a_small_part_of_a_result_does_not_keep_the_whole(lt, images):
    fields = {"x": lt.image("png").resize((64, 64)), "i": lt.index()}
    with loader_of(lt, images, fields, transform=t.same) as loader:
        labels, most = [], 0
        for _ in range(4):
            for x, i in loader:
                labels.append(i)
                most = max(most, results())
                del x
        assert most < 16 * G * 64 * 64 * 3
        assert len({tuple(i.tolist()) for i in labels}) == len(labels)


def test_any_number_of_results_can_be_kept(lt, images):
    """As list(loader) does: each result's memory has a descriptor, and a process may have a thousand."""
    fields = {"x": lt.image("png").resize((64, 64)), "i": lt.index()}
    with loader_of(lt, images, fields, batch_size=1, last="short", as_dict=True) as plain:
        expected = [(b["i"].tolist(), b["x"].tobytes()) for b in plain]
    with loader_of(lt, images, fields, batch_size=1, last="short", as_dict=True, transform=t.same) as loader:
        kept = list(loader)
        assert [(b["i"].tolist(), b["x"].tobytes()) for b in kept] == expected
        assert len(loader._python._pool.slots) < 100 < len(kept)


def test_results_outlive_the_loader(lt, images):
    with loader_of(lt, images) as plain:
        expected = [x.tobytes() for x, _ in plain][:2]
    loader = loader_of(lt, images, transform=t.same)
    batches = iter(loader)
    held = [next(batches)[0] for _ in range(2)]
    loader.close()
    del batches, loader
    gc.collect()
    assert [x.tobytes() for x in held] == expected


def test_the_loader_stands_where_its_user_stands(lt, images):
    with loader_of(lt, images) as plain:
        states = []
        for _ in range(2):
            for _ in plain:
                states.append(plain.state_dict())
    order = [n for e in range(2) for n in numbers(lt, images.url, seed=3, epoch=e)]
    with loader_of(lt, images, transform=t.same) as loader:
        got = []
        for _ in range(2):
            for x, i in loader:
                assert loader.state_dict() == states[len(got)]
                assert lt.state_of((x, i)) == states[len(got)]
                got.append(i.tolist())
    assert got == order
    for stop in (0, 3, len(states) // 2 - 1, len(states) - 1):
        with loader_of(lt, images, transform=t.same) as loader:
            loader.load_state_dict(states[stop])
            assert loader.state_dict() == states[stop]
            rest = [i.tolist() for _ in range(2) for _, i in loader]
            assert rest[: len(order) - stop - 1] == order[stop + 1 :]


def act(loader, draw):
    """Some use of a loader, the same for the same draws; what it got."""
    got = []
    for _ in range(12):
        what = draw.choice(["pass", "break", "break", "epoch", "again", "seek", "state"])
        if what == "epoch":
            loader.set_epoch(draw.randrange(4))
        elif what == "again":
            loader.set_epoch(loader.epoch)
        elif what == "seek":
            loader.seek(draw.randrange(3), draw.randrange(4) * G)
        elif what == "state":
            loader.load_state_dict(loader.state_dict())
        else:
            stop = draw.randrange(len(loader) + 1) if what == "break" else -1
            inside = draw.randrange(10)
            for n, batch in enumerate(loader):
                got.append((what, n, batch[1].tolist(), loader.epoch, json.dumps(loader.state_dict())))
                if n == inside:
                    loader.set_epoch(loader.epoch)
                if n == stop:
                    break
        got.append((what, loader.epoch, json.dumps(loader.state_dict())))
    return got


@pytest.mark.parametrize("seed", range(4))
def test_a_loader_with_a_transform_goes_the_way_of_one_without(lt, images, seed):
    with loader_of(lt, images) as plain:
        expected = act(plain, random.Random(seed))
    with loader_of(lt, images, transform=t.same) as loader:
        got = act(loader, random.Random(seed))
    for one, other in zip(got, expected):
        assert one == other


def test_a_loader_that_is_dropped_ends_its_workers(lt, images):
    loader = loader_of(lt, images, transform=t.same)
    next(iter(loader))
    process = loader._python._pool._process
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None
    assert not Path(f"/proc/{process}").exists()


def test_several_loaders_have_their_own_workers(lt, images, squares):
    with loader_of(lt, images, transform=t.same) as a, loader_of(lt, squares, transform=t.slowly, batch_size=8) as b:
        seen = [(i.tolist(), j.tolist()) for (_, i), (_, j) in zip(a, b)]
    assert [i for i, _ in seen] == numbers(lt, images.url, seed=3)
    assert [j for _, j in seen] == numbers(lt, squares.url, seed=3, batch_size=8)[: len(seen)]


@pytest.mark.skipif(bool(PRELOAD), reason="torchrun's workers do not get the sanitizer's runtime")
def test_ranks_under_torchrun_transform_every_sample_once(lt, runtime, squares, tmp_path):
    pytest.importorskip("torch")
    env = {**runtime.env, "PYTHONPATH": str(PYTHON_BUILD / "python"), "GLOO_SOCKET_IFNAME": "lo"}
    program = Path(__file__).parent / "programs" / "transformed.py"
    command = torchrun(program, squares.url, tmp_path / "seen", warm=True)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120 * SLOW)
    assert done.returncode == 0, done.stderr
    pairs = [pair for r in range(2) for pair in json.loads((tmp_path / f"seen.{r}").read_text())]
    seen = dict(map(tuple, pairs))
    assert len(pairs) == len(seen) == squares.samples
    more = {"as_numpy": False, "seed": 1, "transform_workers": 0}
    with loader_of(lt, squares, {"i": lt.index()}, transform=t.draws_of_torch, **more) as loader:
        alone = {int(i): float(r) for b in loader for i, r in zip(b[0], b[2])}
    assert seen == alone, "what is drawn for a sample does not depend on the number of ranks"


@pytest.mark.parametrize("device", ["cpu"])
def test_a_device_comes_after_the_transform(lt, images, device):
    torch = pytest.importorskip("torch")
    fields = {"x": lt.image("png").resize((16, 16)).normalize((0.5,) * 3, (0.5,) * 3), "i": lt.index()}
    with loader_of(lt, images, fields, as_numpy=False) as plain:
        expected = next(iter(plain))[0].clone()
    with loader_of(lt, images, fields, as_numpy=False, transform=t.same, device=device) as loader:
        x, _ = next(iter(loader))
    assert x.device.type == device and torch.equal(x, expected)


def test_a_copy_of_a_loader_has_its_transform(lt, images):
    with loader_of(lt, images, transform=t.same) as loader:
        order = [i.tolist() for _, i in loader]
        loader.set_epoch(0)
        batches = iter(loader)
        next(batches)
        with pickle.loads(pickle.dumps(loader)) as again:
            assert [i.tolist() for _, i in again] == order[1:]
            assert again.stats()["transform_workers"] == 2
