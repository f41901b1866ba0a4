"""Batches that a program keeps: small columns are copies, and large ones are copied out when slots run short."""

import logging
from pathlib import Path

from loading import SLOW, content


def load(lt, data, **more):
    fields = {"x": lt.image("png").resize((64, 64)), "i": lt.index(), "k": lt.key(), "b": lt.bytes("png")}
    more = {"batch_size": 8, "timeout": 60 * SLOW, "slots": 3, **more}  # x takes 96 KiB, the others less than 64
    return lt.Loader(data.url, fields=fields, **more)


def plain(batch):
    x, i, k, b = batch
    return content(x), content(i), list(k), [bytes(v) for v in b]


def rings():
    """Stretches of memory that are slots."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "leat-ring" in line]
    return [tuple(int(at, 16) for at in line[0].split("-")) for line in lines]


def in_a_ring(column):
    at = column.__array_interface__["data"][0] if hasattr(column, "__array_interface__") else column.data_ptr()
    return any(first <= at < end for first, end in rings())


def test_an_epoch_kept_in_a_list_is_whole_and_told_once(lt, images, as_numpy, caplog):
    with load(lt, images, as_numpy=as_numpy, last="short") as loader, caplog.at_level(logging.WARNING, "leat"):
        kept = [(batch, loader.state_dict()) for batch in loader]
        again = [(batch, loader.state_dict()) for batch in loader]
        said = [record.getMessage() for record in caplog.records if record.name == "leat"]
        assert len(said) == 1
        assert "slots" in said[0] and "copied" in said[0]
        assert len(kept) == len(again) == len(loader)
        for batches in (kept, again):
            numbers = [n for batch, _ in batches for n in batch[1].tolist()]
            assert sorted(numbers) == list(range(images.samples))
            for batch, state in batches:
                assert lt.state_of(batch) == state
                for column in batch:
                    assert lt.state_of(column) == state
        assert sum(in_a_ring(batch[0]) for batch, _ in kept + again) == 2  # of three slots one was always given back
        before = [plain(batch) for batch, _ in kept]
    assert [plain(batch) for batch, _ in kept] == before  # the loader is closed
    with load(lt, images, as_numpy=as_numpy, last="short") as loader:
        assert [plain(batch) for batch in loader] == before, "what was copied is what was delivered"


def test_copying_ends_when_batches_are_dropped(lt, images, as_numpy):
    with load(lt, images, as_numpy=as_numpy) as loader:
        batches = iter(loader)
        kept = [next(batches) for _ in range(6)]
        assert [in_a_ring(batch[0]) for batch in kept] == [True, True, False, False, False, False]
        del kept
        assert all(in_a_ring(batch[0]) for batch in batches)


def test_small_columns_that_are_kept_take_no_slot(lt, images, as_numpy, caplog):
    with load(lt, images, as_numpy=as_numpy) as loader, caplog.at_level(logging.WARNING, "leat"):
        kept = []
        for _ in range(2):
            for x, i, k, b in loader:
                assert in_a_ring(x)
                kept.append((i, k, b, loader.state_dict()))
        del x
        numbers = [n for i, *_ in kept for n in i.tolist()]
        assert len(set(numbers[: len(numbers) // 2])) == len(numbers) // 2 == images.samples // 8 * 8
        assert [n for _, _, b, _ in kept for n in map(len, b)] == [
            len(images.path.parent.joinpath("files", key).read_bytes()) for _, k, _, _ in kept for key in k
        ]
        for i, k, b, state in kept:
            assert lt.state_of(i) == lt.state_of(k) == lt.state_of(b) == lt.state_of([i, k, b]) == state
        assert not [record for record in caplog.records if record.name == "leat"]


def test_a_plain_loop_copies_nothing_large(lt, images, as_numpy, caplog):
    for slots in (3, 4, 8):
        with load(lt, images, as_numpy=as_numpy, slots=slots) as loader, caplog.at_level(logging.WARNING, "leat"):
            assert all(in_a_ring(x) for x, *_ in loader)
    assert not [record for record in caplog.records if record.name == "leat"]
