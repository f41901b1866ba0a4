"""The same function gives the same batches with any number of workers, or an error says what cannot come back.

What is expected comes from a model of the dataset (batch_steps.py) that goes through the same steps.
"""

import random

import batch_steps as steps
import numpy
import pytest
from conftest import PRELOAD

pytestmark = [pytest.mark.usefixtures("worker_env")] if PRELOAD else []

SAMPLES = 24
WORKERS = (0, 1, 2)


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A dataset of every kind of field. The ragged values of one sample are too large for a slot."""
    from loading import import_leat

    lt = import_leat()
    path = tmp_path_factory.mktemp("odd") / "ds"
    shapes = {"a": lt.Array("float32", (None, 2)), "q": lt.Array("int16", (None, None)), "z": lt.Array("int32", (2, 3))}
    fields = {"n": "int", "f": "float", "s": "string", "b": "bytes", "j": "json", **shapes}
    with lt.Writer(path, fields) as writer:
        for i in range(SAMPLES):
            writer.write(steps.sample_of(i))
    return path


def loader_of(lt, odd, workers, as_numpy, transform, **more):
    fields = {name: getattr(lt, kind)(name) for name, kind in zip("nfsbj", ("int", "float", "string", "bytes", "json"))}
    fields |= {name: lt.array(name) for name in "aqz"}
    settings = {"batch_size": steps.BATCH, "seed": 5, "as_dict": True, "as_numpy": as_numpy, "transform_on": "batch"}
    settings |= {"fields": fields, "transform": transform, "transform_workers": workers, **more}
    return lt.Loader(odd, **settings)


def samples_of(lt, odd, epochs):
    """By epoch and batch: which samples are in it. Nothing is transformed here."""
    with lt.Loader(odd, fields={"n": lt.int("n")}, batch_size=steps.BATCH, seed=5) as loader:
        return [[n.tolist() for (n,) in loader] for _ in range(epochs)]


def check(lt, odd, workers, as_numpy, programs):
    with loader_of(lt, odd, workers, as_numpy, steps.Programs(programs)) as loader:
        for program, batches in zip(programs, samples_of(lt, odd, len(programs)), strict=True):
            assert any(steps.HUGE in samples for samples in batches)
            for batch, samples in zip(loader, batches, strict=True):
                got = steps.compared(batch)
                want = steps.compared(steps.run(program, steps.model_batch(samples, not as_numpy)))
                for name in want | got:
                    assert got.get(name) == want.get(name), (name, [(step.__name__, at) for step, at in program])


@pytest.mark.parametrize("workers", WORKERS)
def test_a_batch_is_the_same_with_any_number_of_workers(lt, odd, as_numpy, workers):
    """Every step once, and some at random."""
    draw = random.Random(1)
    check(lt, odd, workers, as_numpy, [*steps.all_steps(), *(steps.drawn_steps(draw) for _ in range(6))])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
def test_more_batches_are_the_same_with_any_number_of_workers(lt, odd, as_numpy, seed):
    for workers in WORKERS:
        draw = random.Random(seed)
        check(lt, odd, workers, as_numpy, [steps.drawn_steps(draw) for _ in range(150)])


def test_what_cannot_come_back_is_an_error_that_says_so(lt, odd):
    pytest.importorskip("torch")
    with loader_of(lt, odd, 1, False, steps.what_cannot_come_back) as loader:
        for epoch, words in enumerate(("detach", r"format 'f' and shape \(2, 3\)")):
            loader.set_epoch(epoch)
            with pytest.raises(lt.errors.TransformError, match=words):
                next(iter(loader))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_names_the_sample_though_the_transform_has_renumbered_it(lt, odd, workers):
    first = samples_of(lt, odd, 1)[0][0][0]
    more = {"fields": {"i": lt.index()}, "as_numpy": True, "transform": steps.fails_after_writing}
    words = rf"begins with sample {first} \("
    with loader_of(lt, odd, workers, **more) as loader, pytest.raises(lt.errors.TransformError, match=words) as failure:
        next(iter(loader))
    assert failure.value.index == first


@pytest.mark.skipif(not hasattr(numpy.dtypes, "StringDType"), reason="numpy 1 has no text of any length")
def test_arrays_that_hold_references_travel_as_what_they_refer_to(lt, odd):
    with loader_of(lt, odd, 1, True, steps.text_of_numpys) as loader:
        assert [batch["x"].tolist() for batch in loader] == [["a" * 40, "b"] * 3] * (SAMPLES // steps.BATCH)


@pytest.mark.parametrize("workers", [0, 1])
def test_samples_without_boxes_are_stacked(lt, odd, workers):
    torch = pytest.importorskip("torch")
    more = {"as_dict": False, "transform_on": "sample", "fields": {"n": lt.int("n"), "x": lt.array("z")}}
    with loader_of(lt, odd, workers, False, steps.without_boxes, **more) as loader:
        for (n, x), samples in zip(loader, samples_of(lt, odd, 1)[0], strict=True):
            assert n.tolist() == samples
            assert x.dtype == torch.int32 and x.shape == (steps.BATCH, 0, 3)
