"""Random numbers that a transform draws, from whatever generator: they depend on seed, epoch and sample, and on nothing else."""

import copy
import hashlib
import importlib
import logging
import random
import struct
import sys

import draws
import numpy
import pytest
from augment import ROOT
from conftest import PRELOAD
from transforms import G, loader_of

pytestmark = [pytest.mark.python_only, *([pytest.mark.usefixtures("worker_env")] if PRELOAD else [])]
AUGMENT = ROOT / ".venv" / "augment"  # by `tools/venv --augment`


@pytest.fixture(params=["draws", *(pytest.param(m, marks=pytest.mark.long) for m in ("draws_torch", "draws_more"))])
def module(request):
    if request.param == "draws_torch":
        pytest.importorskip("torch")
    if request.param == "draws_more":
        if AUGMENT.exists() and str(AUGMENT) not in sys.path:
            sys.path.append(str(AUGMENT))
        for name in ("albumentations", "audiomentations", "cv2", "numba"):
            pytest.importorskip(name, reason="tests/requirements-augment.txt is not installed: tools/venv --augment")
    return importlib.import_module(request.param)


def epochs_of(lt, images, transform, batch=G, stop=None, **more):
    """[{index: numbers} of two epochs]; with `stop` a loader continues where another stopped, after the batch of that number."""
    settings = {"batch_size": batch, "last": "short", "transform": transform, **more}
    epochs, state = [{}, {}], None
    if stop is not None:
        with loader_of(lt, images, {"i": lt.index()}, **settings) as loader:
            for n, (index, drawn) in enumerate(loader):
                epochs[0].update(zip(index.tolist(), drawn.tolist()))
                if n == stop:
                    state = loader.state_dict()
                    break
    with loader_of(lt, images, {"i": lt.index()}, **settings) as loader:
        if state is not None:
            loader.load_state_dict(state)
        for epoch in epochs:
            for index, drawn in loader:
                epoch.update(zip(index.tolist(), drawn.tolist()))
    return epochs


def test_draws_depend_on_the_sample_alone(lt, images, module):
    """Every library, with other workers, after a restart and on other ranks."""
    first = epochs_of(lt, images, module.transform, transform_workers=3)
    assert [len(epoch) for epoch in first] == [images.samples] * 2
    names = [name for name, draw in module.DRAWS.items() for _ in draw()]
    columns = list(zip(*(numbers for epoch in first for numbers in epoch.values())))
    repeat = [name for name, column in zip(names, columns) if len(set(column)) < len(column)]
    assert repeat == []
    assert len(set(columns)) == len(columns), "no two generators draw the same"
    same = {
        "no worker": epochs_of(lt, images, module.transform, 50, transform_workers=0),
        "resumed": epochs_of(lt, images, module.transform, 7, stop=11, transform_workers=2),
    }
    halves = [epochs_of(lt, images, module.transform, 12, transform_workers=1, rank=r, world_size=2) for r in (0, 1)]
    same["two ranks"] = [{**a, **b} for a, b in zip(*halves)]
    for what, epochs in same.items():
        for epoch, expected in zip(epochs, first):
            assert epoch.keys() == expected.keys()
            pairs = [(a, b) for n in epoch for a, b in [(epoch[n], expected[n])]]
            differ = {name for a, b in pairs for name, x, y in zip(names, a, b) if x != y}
            assert differ == set(), what


def test_seeds_are_those_of_the_specification(lt, images):
    """docs/transform.md, by hand."""
    for epoch, drawn in enumerate(epochs_of(lt, images, draws.transform)):
        for index, numbers in drawn.items():
            text = struct.pack("<QQQQQ", 3, epoch, 0, index, 0)
            seed = hashlib.blake2b(text, digest_size=8).digest()
            of = [hashlib.blake2b(name, key=seed, digest_size=16).digest() for name in (b"random", b"numpy")]
            generator = random.Random(int.from_bytes(of[0][:8], "little"))
            legacy = numpy.random.RandomState(int.from_bytes(of[1][:4], "little"))
            assert numbers[:4] == [generator.random(), generator.gauss(0, 1), legacy.random(), legacy.normal()]


def test_libraries_do_not_draw_the_same_numbers(lt, images):
    """numpy and torch have the same generator inside."""
    pytest.importorskip("torch")
    module = importlib.import_module("draws_torch")
    with loader_of(lt, images, {"i": lt.index()}, transform=module.bits, transform_workers=0) as loader:
        bits = numpy.concatenate([numpy.array(batch[:3]) for batch in loader], axis=1)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert 60 < (bits[a] == bits[b]).sum() < 140, "of 200"


@pytest.mark.parametrize("workers", [0, 2])
def test_collate_draws_other_numbers_than_its_first_sample(lt, images, workers):
    more = {"transform": draws.transform, "collate": draws.collate, "transform_workers": workers}
    with loader_of(lt, images, {"i": lt.index()}, **more) as loader:
        for _, samples, own in loader:
            assert not set(own.tolist()) & set(samples.ravel().tolist())


def test_a_stand_in_gets_numbers_of_its_own(lt, images):
    more = {"transform": draws.fails_at_7, "on_error": "skip", "transform_workers": 0, "last": "short"}
    with loader_of(lt, images, {"i": lt.index()}, **more) as loader:
        drawn = [(int(i), float(x)) for batch in loader for i, x in zip(*batch)]
    numbers = [i for i, _ in drawn]
    (twice,) = {i for i in numbers if numbers.count(i) > 1}
    assert len({x for i, x in drawn if i == twice}) == 2


def test_a_transform_in_the_loaders_process_leaves_its_generators_alone(lt, images):
    def drawn():
        sources = dict(draws.DRAWS)
        for name in ("Pillow", "numpy Generator without a seed", "random.Random without a seed"):
            del sources[name]  # C's cannot be put back, and others are new
        return [x for draw in sources.values() for x in draw()]

    states = random.getstate(), numpy.random.get_state()
    own = draws.SHARED.bit_generator.state, draws.STATE.getstate(), draws.OWN.random_generator.bit_generator.state
    unseeded = random.Random.seed, numpy.random.bit_generator.randbits
    with loader_of(lt, images, {"i": lt.index()}, transform=draws.transform, transform_workers=0) as loader:
        next(iter(loader))
    assert random.getstate() == states[0]
    assert numpy.array_equal(numpy.random.get_state()[1], states[1][1])
    after = draws.SHARED.bit_generator.state, draws.STATE.getstate(), draws.OWN.random_generator.bit_generator.state
    assert after == own
    assert (random.Random.seed, numpy.random.bit_generator.randbits) == unseeded
    assert random.Random().random() != random.Random().random()
    assert numpy.random.default_rng().random() != numpy.random.default_rng().random()
    assert len(set(drawn())) > 10


def warnings_of(lt, images, caplog, transform, workers):
    """What is logged in two epochs, in alphabetical order."""
    settings = {"transform": transform, "transform_workers": workers}
    with caplog.at_level(logging.WARNING, "leat"), loader_of(lt, images, {"i": lt.index()}, **settings) as loader:
        for _ in range(2):
            for _ in loader:
                pass
    return sorted(record.getMessage() for record in caplog.records)


HIDES = """
import random
pool = {random.Random(5)}
def draw():
    return next(iter(pool)).random()
"""
LATE = """
import sys, types
cv2 = sys.modules["cv2"] = types.ModuleType("cv2")
cv2.setRNGSeed = lambda seed: None
tensorflow = sys.modules["tensorflow.python.eager.context"] = types.ModuleType("context")
tensorflow._context = types.SimpleNamespace(_context_handle=1)
def draw():
    return 1.0
"""
REPORTED = [
    (draws.hidden, {"library_that_hides": "cannot reach its generator"}),
    (draws.Lazy(), {"draws": "at transform.generator"}),
    (draws.imports, {"cv2": "imported inside the transform", "tensorflow": "does not seed it"}),
]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("transform", "reported"), REPORTED, ids=["hidden", "lazy", "imported"])
def test_what_cannot_be_seeded_is_reported_once_by_its_library(
    lt, images, tmp_path, monkeypatch, caplog, workers, transform, reported
):
    (tmp_path / "library_that_hides.py").write_text(HIDES)
    (tmp_path / "late_library.py").write_text(LATE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("library_that_hides", "late_library", "cv2", "tensorflow.python.eager.context"):
        monkeypatch.setitem(sys.modules, name, None)  # so that it is put back
        del sys.modules[name]
    said = warnings_of(lt, images, caplog, copy.copy(transform), workers)
    assert len(said) == len(reported)
    for text, (library, why) in zip(said, reported.items()):
        assert text.startswith(f"random numbers of {library} ") and why in text


@pytest.mark.parametrize("transform", [draws.transform, draws.Reseeds()], ids=["seeded", "by itself"])
def test_what_is_seeded_is_not_reported(lt, images, caplog, transform):
    assert warnings_of(lt, images, caplog, transform, 1) == []
