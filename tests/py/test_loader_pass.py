"""What a pass is: which epoch it sees and where it begins, after an end, a break, set_epoch, seek and a restored state.

Everything holds for loaders with stages that read ahead too: the user must not notice them."""

import json

import pytest

G = 24
STEPS = 8  # 203 images by 24, the rest dropped


AHEAD = 0  # how far a stage reads ahead; 0: there is none


@pytest.fixture(autouse=True, params=[0, pytest.param(1, marks=pytest.mark.long), 3], ids=lambda n: f"ahead {n}")
def ahead(request, monkeypatch):
    monkeypatch.setitem(globals(), "AHEAD", request.param)


class Copies:
    """A stage that hands copies over, and fails where it is told to."""

    def __init__(self, stages, depth):
        self.depth = depth
        self.fail_at = set()  # numbers of begun items

        class Item:
            def __init__(self, item):
                values = item.values()
                named = isinstance(values, dict)
                self._values = {k: v.copy() for k, v in values.items()} if named else tuple(v.copy() for v in values)
                self._state = item.state()
                self.epoch, self.began, self.position = item.epoch, item.began, item.position
                item.release()

            def values(self):
                return self._values

            def state(self):
                return self._state

        class Pass(stages.Ahead):
            def begin(this, item):
                self.begun = getattr(self, "begun", -1) + 1
                if self.begun in self.fail_at:
                    item.release()
                    raise RuntimeError("as it was told")
                return Item(item)

            def finish(this, item):
                return item

        self.over = lambda source: Pass(source, depth)

    def close(self):
        pass


def load(lt, images, **more):
    loader = lt.Loader(images.url, fields={"i": lt.index()}, **{"batch_size": G, "as_numpy": True, **more})
    if AHEAD:
        from leat import stages

        loader._keeper = stages.Keeper(loader._core, [Copies(stages, AHEAD)])
    return loader


def take(iterator, count):
    return [next(iterator)[0].tolist() for _ in range(count)]


def whole(loader):
    return [i.tolist() for (i,) in loader]


EPOCHS = []


@pytest.fixture
def epochs(lt, images):
    """The batches of epochs 0 to 3, each read by a loader of its own that begins there."""
    if not EPOCHS:
        found = []
        for epoch in range(4):
            with lt.Loader(images.url, fields={"i": lt.index()}, batch_size=G, epoch=epoch) as loader:
                found.append(whole(loader))
        assert [len(e) for e in found] == [STEPS] * 4
        assert len({json.dumps(e) for e in found}) == 4
        EPOCHS.extend(found)  # only when all of it is right: one failure must not become that of every later test
    return EPOCHS


def test_pass_after_a_finished_one_is_the_next_epoch(lt, images, epochs):
    with load(lt, images) as loader:
        assert [whole(loader) for _ in range(4)] == epochs


def test_stopping_at_len_without_asking_for_the_end_finishes_a_pass(lt, images, epochs):
    with load(lt, images) as loader:
        seen = []
        for _ in range(4):
            iterator = iter(loader)
            seen.append(take(iterator, len(loader)))
        assert seen == epochs


def test_zip_with_a_range_sees_whole_epochs(lt, images, epochs):
    with load(lt, images) as loader:
        assert [[b[0].tolist() for _, b in zip(range(len(loader)), loader)] for _ in range(3)] == epochs[:3]


def test_pass_after_a_broken_one_is_the_next_epoch_from_its_beginning(lt, images, epochs):
    with load(lt, images) as loader:
        assert take(iter(loader), 3) == epochs[0][:3]
        assert take(iter(loader), 1) == epochs[1][:1]
        assert whole(loader) == epochs[2]
        assert whole(loader) == epochs[3]


def test_iter_without_a_batch_taken_moves_nothing(lt, images, epochs):
    with load(lt, images) as loader:
        for _ in range(3):
            iter(loader)
        assert whole(loader) == epochs[0]
        iter(loader)
        assert whole(loader) == epochs[1]
        state = loader.state_dict()
        iter(loader)
        assert loader.state_dict() == state


def test_validation_after_a_sanity_check_is_whole(lt, images):
    with load(lt, images, shuffle=False) as loader:
        assert take(iter(loader), 2) == [list(range(G)), list(range(G, 2 * G))]
        for _ in range(3):
            assert [i for batch in whole(loader) for i in batch] == list(range(STEPS * G))


def test_an_older_iterator_is_over_when_a_new_one_begins(lt, images, epochs):
    with load(lt, images) as loader:
        first = iter(loader)
        assert take(first, 2) == epochs[0][:2]
        second = iter(loader)
        assert take(second, 2) == epochs[1][:2]
        try:
            more = take(first, 1)
        except (StopIteration, lt.Error):
            more = []  # it ends, or says so; it must not take batches away from the second
        assert more + take(second, STEPS - 2) == epochs[1][2:]


def test_set_epoch_inside_the_epoch_does_nothing(lt, images, epochs):
    with load(lt, images) as loader:
        iterator = iter(loader)
        assert take(iterator, 3) == epochs[0][:3]
        state = loader.state_dict()
        loader.set_epoch(0)
        assert loader.state_dict() == state
        assert take(iterator, STEPS - 3) == epochs[0][3:]


def test_set_epoch_after_a_broken_pass_begins_that_epoch_anew(lt, images, epochs):
    with load(lt, images) as loader:
        assert take(iter(loader), 3) == epochs[0][:3]
        loader.set_epoch(0)
        assert whole(loader) == epochs[0]
        loader.set_epoch(0)
        assert whole(loader) == epochs[0]
        loader.set_epoch(3)
        assert loader.epoch == 3
        assert whole(loader) == epochs[3]
        loader.set_epoch(2)
        assert take(iter(loader), 1) == epochs[2][:1]
        loader.set_epoch(1)
        assert whole(loader) == epochs[1]


def test_set_epoch_before_every_pass_as_samplers_want_it(lt, images, epochs):
    with load(lt, images) as loader:
        for epoch in range(4):
            loader.set_epoch(epoch)
            assert whole(loader) == epochs[epoch]


def test_restored_state_keeps_its_place_through_set_epoch_of_the_same_epoch(lt, images, epochs):
    with load(lt, images) as loader:
        iterator = iter(loader)
        take(iterator, 3)
        state = loader.state_dict()
    for before in ([], [0], [0, 0]):
        with load(lt, images) as loader:
            loader.load_state_dict(state)
            for epoch in before:
                loader.set_epoch(epoch)
            iter(loader)  # frameworks make iterators that they never use
            assert whole(loader) == epochs[0][3:], before
            assert whole(loader) == epochs[1], "only the first pass begins in the middle"
    with load(lt, images) as loader:
        loader.load_state_dict(state)
        loader.set_epoch(1)
        assert whole(loader) == epochs[1], "another epoch begins at its beginning"


def test_set_epoch_of_the_epoch_that_a_restored_state_ended_begins_it_again(lt, images, epochs):
    with load(lt, images) as loader:
        take(iter(loader), STEPS)
        state = loader.state_dict()
        for before, after in ([], 1), ([0], 0), ([1], 1), ([0, 0], 0):
            loader.load_state_dict(state)
            for epoch in before:
                loader.set_epoch(epoch)
            assert whole(loader) == epochs[after], before


def test_restored_pass_that_is_broken_off_is_over_too(lt, images, epochs):
    with load(lt, images) as loader:
        iterator = iter(loader)
        take(iterator, 3)
        state = loader.state_dict()
        loader.load_state_dict(state)
        assert take(iter(loader), 1) == epochs[0][3:4]
        assert whole(loader) == epochs[1]


def test_state_at_the_end_of_an_epoch_is_the_beginning_of_the_next(lt, images, epochs):
    with load(lt, images) as loader:
        iterator = iter(loader)
        take(iterator, STEPS)
        states = [loader.state_dict()]
        assert whole(iterator) == []
        states.append(loader.state_dict())
    for state in states:  # whether or not the end was asked for
        for before in ([], [1]):
            with load(lt, images) as loader:
                loader.load_state_dict(state)
                for epoch in before:
                    loader.set_epoch(epoch)
                assert whole(loader) == epochs[1]


def test_seek_goes_to_a_sample_of_an_epoch(lt, images, epochs):
    with load(lt, images) as loader:
        for epoch, step in ((2, 5), (0, 0), (1, STEPS - 1), (3, 1)):
            loader.seek(epoch, step * G)
            assert loader.epoch == epoch
            assert whole(loader) == epochs[epoch][step:]
        loader.seek(1, 2 * G)
        loader.set_epoch(1)
        assert whole(loader) == epochs[1][2:], "the place is kept as after load_state_dict"
        assert whole(loader) == epochs[2]
        for wrong in ((0, images.samples + 1), (-1, 0), (0, -1), ("0", 0), (0, 1.5)):
            with pytest.raises(lt.Error):
                loader.seek(*wrong)
        assert whole(loader) == epochs[3], "a refused place leaves the loader where it was"


@pytest.mark.parametrize("as_dict", [False, True])
def test_every_batch_knows_the_state_after_it(lt, images, epochs, as_dict):
    with load(lt, images, as_dict=as_dict, slots=8) as loader:
        held, states = [], []
        for batch in loader:
            held.append(batch)
            states.append(loader.state_dict())
            assert lt.state_of(batch) == states[-1]
            if len(held) == 4:
                break
        assert [lt.state_of(batch) for batch in held] == states, "later ones change nothing in it"
    assert [lt.state_of(batch) for batch in held] == states, "for as long as the batch lives"
    with load(lt, images) as loader:
        for number, state in enumerate(states, 1):
            loader.load_state_dict(state)
            assert whole(loader) == epochs[0][number:]
    copied = [column.copy() for column in (held[0].values() if as_dict else held[0])]
    for wrong in (None, (1, 2), {}, [held[0]], "x", copied):
        with pytest.raises((lt.Error, TypeError), match="batch"):
            lt.state_of(wrong)


def test_seed_and_window_come_from_the_state_unless_they_were_given(lt, images):
    with load(lt, images, seed=7, window=5) as loader:
        iterator = iter(loader)
        take(iterator, 2)
        state = loader.state_dict()
        rest = take(iterator, STEPS - 2)
        following = whole(loader)
    with load(lt, images) as loader:
        loader.load_state_dict(state)
        assert whole(loader) == rest
        assert whole(loader) == following
        assert {k: loader.state_dict()["streams"][0][k] for k in ("seed", "window")} == {"seed": 7, "window": 5}
    for given, name in (({"seed": 0}, "seed"), ({"window": 6}, "window"), ({"seed": 7, "window": 4}, "window")):
        with load(lt, images, **given) as loader, pytest.raises(lt.Error, match=name):
            loader.load_state_dict(state)
    with load(lt, images, seed=7) as loader:
        loader.load_state_dict(state)
        assert whole(loader) == rest


def test_seed_is_pinned_without_shuffle_too(lt, images):
    with load(lt, images, shuffle=False, seed=7) as loader:
        take(iter(loader), 2)
        state = loader.state_dict()
    assert state["streams"][0]["seed"] == 7
    with load(lt, images, shuffle=False, seed=8) as loader, pytest.raises(lt.Error, match="seed"):
        loader.load_state_dict(state)


def test_state_1_is_what_its_document_says(lt, images):
    with load(lt, images, seed=7, window=5, epoch=3) as loader:
        take(iter(loader), 2)
        state = loader.state_dict()
        version = loader.version
    stream = state["streams"][0]
    assert state == {"state": 1, "needs": ["order 1"], "streams": [stream]}
    assert stream == {
        "dataset": version, "view": "samples", "units": images.samples, "shuffle": True, "seed": 7, "window": 5,
        "epoch": 3, "position": 2 * G,
    }  # fmt: skip
    with load(lt, images, seed=7, window=5) as loader:
        loader.load_state_dict({**state, "note": "mine", "streams": [{**stream, "colour": "blue"}]})
        assert loader.state_dict() == state, "members that nobody needs are ignored"
        for wrong, match in (
            ({**state, "needs": ["order 1", "mixtures 7"]}, "mixtures 7"),
            ({**state, "state": 2}, "state|newer"),
            ({**state, "streams": []}, "stream"),
            ({**state, "streams": [stream, stream]}, "of 2 datasets"),
            ({**state, "streams": [{k: v for k, v in stream.items() if k != "position"}]}, "position"),
            ({**state, "streams": [{**stream, "dataset": "00" * 32}]}, "dataset"),
        ):
            with pytest.raises(lt.Error, match=match):
                loader.load_state_dict(wrong)
            assert loader.state_dict() == state


def test_stage_that_fails_loses_nothing(lt, images, epochs):
    if not AHEAD:
        pytest.skip("no stage")
    with load(lt, images) as loader:
        loader._keeper._stages[0].fail_at = {0, 3, 4, 9}
        seen, failures = [], 0
        iterator = iter(loader)
        while True:
            try:
                seen.append(next(iterator)[0].tolist())
                assert loader.state_dict()["streams"][0]["position"] == len(seen) * G
            except RuntimeError:
                failures += 1
                if failures % 2:
                    iterator = iter(loader)  # another pass goes on there, as the same one does
            except StopIteration:
                break
        assert seen == epochs[0]
        assert failures == 4
        assert whole(loader) == epochs[1]
