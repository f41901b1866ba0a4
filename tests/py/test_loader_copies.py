"""Copies and pickles of batches and of loaders, which frameworks make; and what a loader is where torch is installed."""

import copy
import gc
import pickle
import weakref

import numpy
import pytest
from loading import SLOW, content
from test_loader_kinds import FIELDS, every_output, known, plain, write

COPIES = [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))]


def load(lt, data, **more):
    fields = {"x": lt.image("png").resize((64, 64)), "i": lt.index(), "k": lt.key(), "b": lt.bytes("png")}
    return lt.Loader(data.url, fields=fields, **{"batch_size": 20, "timeout": 60 * SLOW, "seed": 3, **more})


@pytest.mark.parametrize("make", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_copies_of_ragged_columns_hold_the_same_when_the_batch_is_gone(lt, tmp_path, as_numpy, make):
    write(tmp_path, FIELDS, [known(i) for i in range(24)])
    with lt.Loader(tmp_path, batch_size=24, fields=every_output(lt), as_dict=True, as_numpy=as_numpy) as loader:
        batch = next(iter(loader))
        wanted = {name: batch[name].tolist() for name in ("rows", "last", "map", "text", "raw", "caption")}
        copies = {name: make(batch[name]) for name in wanted}
        offsets = {name: batch[name].offsets.tolist() for name in wanted}
        shapes = {name: batch[name].shapes.tolist() for name in ("rows", "last", "map", "text")}
        sizes = {name: batch[name].nbytes for name in wanted}
        del batch
    for name, column in copies.items():
        assert len(column) == 24
        assert column.offsets.tolist() == offsets[name]
        assert column.nbytes == sizes[name]
        assert len(column[3:20]) == 17
        assert isinstance(column, lt.loader.RaggedTensors)
        again = make(column)
        for value, other, third in zip(wanted[name], column, again.tolist(), strict=True):
            if name in ("raw", "caption"):
                assert type(third) is (str if name == "caption" else bytes)
                assert (bytes(other) if name == "raw" else other) == third == value
            else:
                assert other.shape == value.shape and other.dtype == value.dtype
                assert numpy.array_equal(plain(value), plain(other)) and numpy.array_equal(plain(value), plain(third))
        if name in shapes:
            assert column.shapes == shapes[name]
        else:
            assert not hasattr(column, "shapes")
        assert column.to("cpu") is not None


@pytest.mark.parametrize("make", COPIES[1:], ids=["deepcopy", "pickle"])
def test_copies_of_batches_are_the_users_own(lt, images, as_numpy, make):
    for as_dict in (False, True):
        with load(lt, images, as_numpy=as_numpy, as_dict=as_dict) as loader:
            batch = next(iter(loader))
            other = make(batch)
            assert type(other) is type(batch)
            mine, yours = (b.values() if as_dict else b for b in (batch, other))
            for column, copied in zip(mine, yours, strict=True):
                assert content(column) == content(copied)
                with pytest.raises(lt.errors.InvalidError):
                    lt.state_of(copied)
            x, y = (b["x"] if as_dict else b[0] for b in (batch, other))
            y[0] = 0
            assert content(x) != content(y)


@pytest.mark.parametrize("make", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_copy_of_a_loader_is_another_one_at_the_same_place(lt, images, as_numpy, make):
    more = {"as_numpy": as_numpy, "as_dict": True, "last": "short", "slots": numpy.int8(3), "shuffle": True}
    with load(lt, images, **more) as loader:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        with make(loader) as other:
            assert type(other) is type(loader)
            assert other.state_dict() == loader.state_dict()
            assert other.version == loader.version
            mine = [batch["i"].tolist() for batch in batches]
            assert [batch["i"].tolist() for batch in other] == mine
            assert len(mine) == len(loader) - 3
            other.set_epoch(5)
            next(iter(other))
            assert loader.epoch == 1, "what one does is not the other's business"


def test_subclass_of_a_loader_stays_one_in_copies_and_pickles(lt, images):
    with OwnLoader.of(lt)(images.url, batch_size=20, fields={"i": lt.index()}) as loader:
        assert type(loader).__name__ == "Own"
        assert loader.mark() == "own"
        with copy.deepcopy(loader) as other:
            assert other.mark() == "own"
            assert sum(1 for _ in other) == 10


class OwnLoader:
    @staticmethod
    def of(lt):
        class Own(lt.Loader):
            def mark(self):
                return "own"

        return Own


def test_loader_is_what_torch_and_its_frameworks_take_for_a_dataset(lt, images):
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    for shuffle, kind in ((True, data.RandomSampler), (False, data.SequentialSampler)):
        with load(lt, images, shuffle=shuffle, rank=1, world_size=2) as loader:
            assert isinstance(loader, lt.Loader) and isinstance(loader, data.IterableDataset)
            assert type(loader).__name__ == "Loader"
            assert not isinstance(loader, data.DataLoader)
            assert isinstance(loader.sampler, kind) and isinstance(loader.batch_sampler.sampler, kind)
            assert (loader.batch_size, loader.drop_last, loader.num_workers) == (20, True, 0)
            assert len(loader.dataset) == images.samples
            assert len(loader.batch_sampler) == len(loader) == images.samples // 40
            for wrong in (lambda: loader[0], lambda: loader.dataset[0], lambda: loader.dataset.__getitems__([0, 1])):
                with pytest.raises(lt.errors.InvalidError, match="whole batches"):
                    wrong()
    with load(lt, images, global_batch_size=40, batch_size=None, last="short") as loader:
        assert (loader.batch_size, loader.drop_last) == (40, False)


def test_numbers_of_batches_go_to_their_place_and_skip_nothing(lt, images):
    data = pytest.importorskip("torch").utils.data
    with load(lt, images, last="short") as loader:
        whole = [i.tolist() for _, i, *_ in loader]
        for skipped in (0, 1, 4, len(whole) - 1):
            loader.set_epoch(0)
            numbers = list(loader.batch_sampler)[skipped:]
            batches = data.DataLoader(loader.dataset, batch_sampler=numbers, collate_fn=loader.collate_fn)
            loader.batch_sampler.set_epoch(0)
            loader.dataset.begin()
            assert [i.tolist() for _, i, *_ in batches] == whole[skipped:]
        loader.dataset.begin()
        loader.dataset.__getitems__([3])
        with pytest.raises(lt.errors.InvalidError, match="whole batches"):
            loader.dataset.__getitems__([5])


def test_loader_that_frameworks_have_asked_goes_with_its_last_name(lt, images, runtime):
    data = pytest.importorskip("torch").utils.data
    gc.disable()
    try:
        loader = load(lt, images)
        gone = weakref.ref(loader)
        batches = data.DataLoader(loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn)
        assert sum(1 for _ in batches) == len(loader)
        del loader, batches
        assert gone() is None, "a cycle keeps it until Python looks for cycles"
    finally:
        gc.enable()


def test_numbers_of_numpy_are_numbers(lt, images):
    x = lt.image("png").resize(numpy.int64(20)).random_crop((numpy.int32(16), numpy.uint8(16))).flip(numpy.float32(0.5))
    fields = {"x": x, "i": lt.index()}
    numbers = {"batch_size": numpy.int64(20), "seed": numpy.uint64(3), "slots": numpy.int8(3), "window": numpy.int16(4)}
    with lt.Loader(images.url, fields=fields, rank=numpy.int64(0), world_size=numpy.int64(1), **numbers) as loader:
        x, _ = next(iter(loader))
        assert tuple(x.shape) == (20, 16, 16, 3)
        loader.set_epoch(numpy.int64(2))
        loader.seek(numpy.int64(2), numpy.int32(40))
        assert loader.state_dict()["streams"][0]["position"] == 40
