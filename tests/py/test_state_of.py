"""Every batch knows the state after it: leat.state_of()."""

import gc
import os
import threading
import time

import pytest
from loading import SLOW


def load(lt, data, **more):
    fields = more.pop("fields", None) or {"x": lt.image("png").resize((8, 8)), "i": lt.index(), "k": lt.key()}
    return lt.Loader(data.url, fields=fields, **{"batch_size": 20, "timeout": 60 * SLOW, "slots": 8, **more})


@pytest.mark.parametrize("as_dict", [False, True])
def test_state_of_a_batch_is_the_loaders_state_after_it(lt, images, as_numpy, as_dict):
    with load(lt, images, as_numpy=as_numpy, as_dict=as_dict, last="short") as loader:
        held = []
        for batch in loader:
            held = [*held[-3:], (batch, loader.state_dict())]
            for earlier, state in held:
                assert lt.state_of(earlier) == state
        del batch, earlier


def test_batches_are_plain_tuples_and_dicts(lt, images, as_numpy):
    for as_dict, kind in ((False, tuple), (True, dict)):
        with load(lt, images, as_numpy=as_numpy, as_dict=as_dict) as loader:
            assert type(next(iter(loader))) is kind


def test_each_column_alone_knows_it_and_so_do_its_views(lt, images, as_numpy):
    fields = {"v": lt.valid(), "x": lt.image("png").resize((8, 8)), "i": lt.index(), "k": lt.key()}
    with load(lt, images, as_numpy=as_numpy, fields=fields) as loader:
        batch = next(iter(loader))
        state = loader.state_dict()
        for column in batch:
            assert lt.state_of(column) == lt.state_of([column]) == lt.state_of({"a": column, "b": 3}) == state
        assert lt.state_of(batch[1][5:7, 2]) == state
        assert lt.state_of((batch[1] * 2, None, batch[2])) == state


def test_state_is_still_known_behind_another_ring_and_a_closed_loader(lt, images, as_numpy):
    loader = load(lt, images, as_numpy=as_numpy)
    first = next(iter(loader))
    state = loader.state_dict()
    loader.set_epoch(3)
    second = next(iter(loader))
    assert lt.state_of(first) == state
    assert lt.state_of(second) == loader.state_dict() != state
    loader.load_state_dict(state)
    loader.close()
    assert lt.state_of(first) == state


def test_what_is_no_batch_has_no_state(lt, images, as_numpy):
    with load(lt, images, as_numpy=as_numpy) as loader:
        batch = next(iter(loader))
        copies = tuple(x.copy() if as_numpy else x.clone() for x in batch[:2])
        for thing in (None, 7, "text", (), {}, copies, list(copies), [None, 3], loader):
            with pytest.raises(lt.errors.InvalidError):
                lt.state_of(thing)
        other = next(iter(loader))
        with pytest.raises(lt.errors.InvalidError, match="different batches"):
            lt.state_of((batch[0], other[0]))


def test_memory_that_was_a_batch_has_no_state_of_it(lt, images):
    torch = pytest.importorskip("torch")
    with load(lt, images) as loader:
        batch = next(iter(loader))
        address = batch[0].data_ptr()
        assert lt._core.state_of(address) is not None
        del batch
        gc.collect()
        assert lt._core.state_of(address) is None
    assert torch is not None


def test_states_may_be_asked_while_other_threads_drop_batches(lt, images):
    torch = pytest.importorskip("torch")
    with load(lt, images, slots=16) as loader:
        dropped = []
        over = threading.Event()

        def drop():
            while not over.is_set() or dropped:
                if dropped:
                    dropped.pop()

        threads = [threading.Thread(target=drop) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                for batch in loader:
                    state = loader.state_dict()
                    dropped.append(batch[0])
                    assert lt.state_of(batch[1:]) == state
                    del batch
                    while len(dropped) > 8:  # there are 16 slots, and other threads get their turn every 5 ms only
                        time.sleep(0.001)
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert torch is not None


@pytest.mark.skipif(bool(os.environ.get("LEAT_SANITIZE")), reason="forks a process that sanitizers watch")
def test_child_of_a_fork_knows_the_states_of_its_own_batches(lt, images):
    with load(lt, images, as_numpy=True) as loader:
        batch = next(iter(loader))
        state = loader.state_dict()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                mine = next(iter(loader))
                same = lt.state_of(batch) == state and lt.state_of(mine) == loader.state_dict() != state
                status = 0 if same else 2
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert lt.state_of(batch) == state


def test_pytorchs_own_helpers_take_batches_as_they_are(lt, images):
    torch = pytest.importorskip("torch")
    from torch.utils import _pytree
    from torch.utils.data._utils.collate import default_convert

    for as_dict in (False, True):
        fields = {"x": lt.image("png").resize((8, 8)), "i": lt.index()}
        with load(lt, images, as_dict=as_dict, fields=fields) as loader:
            batch = next(iter(loader))
            state = loader.state_dict()
            assert lt.state_of(default_convert(batch)) == state
            moved = _pytree.tree_map(lambda t: t.to(torch.float32), batch)
            values = moved.values() if as_dict else moved
            assert type(moved) is type(batch) and all(t.dtype == torch.float32 for t in values)


@pytest.mark.parametrize(
    ("module", "move"),
    [
        ("accelerate.utils.operations", "send_to_device"),
        pytest.param("lightning.fabric.utilities.apply_func", "move_data_to_device", marks=pytest.mark.long),
    ],
)
def test_frameworks_move_batches_and_keep_what_they_do_not_copy(lt, images, module, move):
    operations = pytest.importorskip(module)
    for as_dict in (False, True):
        with load(lt, images, as_dict=as_dict) as loader:
            batch = next(iter(loader))
            moved = getattr(operations, move)(batch, "cpu")
            assert type(moved) is type(batch)
            assert lt.state_of(moved) == loader.state_dict()
            if hasattr(operations, "find_batch_size"):
                assert operations.find_batch_size(batch) == 20
