"""Loaders on selections: exactly the selected samples, from no other chunk."""

import json

import pytest
from format_reader import Dataset
from format_writer import Field, Place

FIELDS = [Field("data", 1), Field("cls", 3)]
COUNT = 300


@pytest.fixture
def ds(tmp_path, run_leat):
    samples = [(b"%d" % i, {"data": b"value %d" % i, "cls": i % 5}) for i in range(COUNT)]
    cuts = [0, 1, 50, 114, 180, 181, 250, 300]
    Place(tmp_path / "ds").write(FIELDS, [samples[a:b] for a, b in zip(cuts, cuts[1:])])
    run_leat("select", tmp_path / "ds", "--where", "cls in (1, 2)", "--name", "some", status=0)
    run_leat("select", tmp_path / "ds", "--numbers", "60:100,181:200", "--name", "part", status=0)
    return tmp_path / "ds"


def load(lt, url, **more):
    fields = {"k": lt.key(), "d": lt.bytes("data"), "c": lt.int("cls")}
    return lt.Loader(url, fields=fields, as_numpy=True, **{"batch_size": 16, "last": "short", **more})


def read(batches):
    found = []
    for keys, data, classes in batches:
        for key, value, cls in zip(keys, data, classes):
            assert bytes(value) == b"value %d" % int(key)
            assert int(cls) == int(key) % 5
            found.append(int(key))
    return found


def test_every_epoch_has_each_selected_sample_once(lt, ds):
    chosen = [i for i in range(COUNT) if i % 5 in (1, 2)]
    with load(lt, f"{ds}?name=some") as loader:
        epochs = [read(loader) for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [chosen] * 3
    assert epochs[0] != epochs[1]


def test_the_order_is_the_one_that_the_command_prints(lt, ds, run_leat):
    lines = run_leat("order", "--seed", 3, "--json", "--keys", f"{ds}?name=some", status=0).stdout.splitlines()
    with load(lt, f"{ds}?name=some", seed=3) as loader:
        assert read(loader) == [int(json.loads(line)["key"]) for line in lines]


def test_a_state_resumes_where_it_was_at_another_batch_size(lt, ds):
    with load(lt, f"{ds}?name=some") as loader:
        batches = iter(loader)
        first = read([next(batches) for _ in range(3)])
        state = loader.state_dict()
    with load(lt, f"{ds}?name=some", batch_size=7) as loader:
        loader.load_state_dict(state)
        rest = read(loader)
    assert sorted(first + rest) == [i for i in range(COUNT) if i % 5 in (1, 2)]


def test_ranks_share_the_selected_samples(lt, ds):
    found = []
    for rank in range(3):
        with load(lt, f"{ds}?name=some", batch_size=8, rank=rank, world_size=3) as loader:
            found += read(loader)
    assert sorted(found) == [i for i in range(COUNT) if i % 5 in (1, 2)]


def test_chunks_without_selected_samples_are_not_read(lt, ds):
    version = Dataset(ds, name="part")
    needed = {name.hex() for name, places in zip(version.root.names, version.places) if places}
    assert len(needed) == 2
    for path in (ds / "leat/chunks").rglob("*"):
        if path.is_file() and path.name not in needed:
            path.unlink()
    with load(lt, f"{ds}?name=part") as loader:
        assert sorted(read(loader)) == [*range(60, 100), *range(181, 200)]
