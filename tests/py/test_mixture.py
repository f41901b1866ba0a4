"""Mixtures: every stream exactly once an epoch of its own, in its proportion, over chains of resumes, worlds and lost agents.

SUITE_CHAIN=17 runs that one alone."""

import itertools
import json
import os
import random
import zlib

import pytest
from loading import make_blobs, make_images, pack

WEIGHTS = {"a": 0.5, "b": 0.25, "c": 0.15, "d": 0.09, "e": 0.01}
COUNTS = {"a": 61, "b": 148, "c": 300, "d": 7, "e": 33}


@pytest.fixture(scope="module")
def streams(leat_bin, tmp_path_factory):
    """Five datasets: of one epoch of the mixture some are read many times, others in part."""
    folder = tmp_path_factory.mktemp("streams")
    made = {}
    for seed, (name, count) in enumerate(COUNTS.items()):
        known = make_blobs(folder / f"{name}-files", count, seed=seed + 1, sizes=(0, 900))
        made[name] = pack(leat_bin, folder / f"{name}-files", folder / name, "--chunk-size", "4KiB", known=known)
    return made


def fields(lt):
    return {"i": lt.index(), "s": lt.stream(), "k": lt.key(), "b": lt.bytes("bin"), "v": lt.valid()}


def mix_of(lt, streams, weights=None, **more):
    return lt.Mix(weights or (None if more else WEIGHTS), {name: made.url for name, made in streams.items()}, **more)


def open_loader(lt, mix, **more):
    settings = {"batch_size": 16, "epoch_size": 500, "seed": 3, "rank": 0, "world_size": 1, "as_numpy": True} | more
    return lt.Loader(mix, fields=fields(lt), **settings)


def rows(batch):
    """(stream, index, crc of its bytes) of the places that count."""
    i, s, _, b, v = batch
    return [(t, n, zlib.crc32(data)) for n, t, data, ok in zip(i.tolist(), s.tolist(), b, v.tolist()) if ok]


class Alone:
    """What each stream gives when it is read alone, epoch after epoch."""

    def __init__(self, lt, streams, seed):
        self.lt, self.streams, self.seed = lt, list(streams.values()), seed
        self.known = [[] for _ in streams]

    def take(self, stream, first, n):
        known = self.known[stream]
        while len(known) < first + n:
            epoch = len(known) // self.streams[stream].samples
            more = {"batch_size": self.streams[stream].samples, "seed": self.seed, "epoch": epoch, "as_numpy": True}
            with self.lt.Loader(self.streams[stream].url, fields=fields(self.lt), **more) as loader:
                one = rows(next(iter(loader)))
            assert sorted(n for _, n, _ in one) == list(range(len(one)))
            known += [(stream, n, crc) for _, n, crc in one]
        return known[first : first + n]


class Job:
    """A world of loaders in this process, and what it should see next."""

    def __init__(self, lt, mix, alone, epoch_size, shares):
        self.lt, self.mix, self.alone = lt, mix, alone
        self.epoch_size, self.shares = epoch_size, shares
        self.taken = [0] * len(shares)
        self.at = 0
        self.state = None
        self.ranks = []

    def open(self, world, batch):
        self.close()
        more = {"world_size": world, "global_batch_size": batch, "batch_size": None, "last": "short"}
        more |= {"epoch_size": self.epoch_size, "seed": self.alone.seed, "slots": 2}
        self.ranks = [open_loader(self.lt, self.mix, rank=rank, **more) for rank in range(world)]
        self.batch = batch
        if self.state:
            for rank in self.ranks:
                rank.load_state_dict(self.state)
        self.passes = [iter(rank) for rank in self.ranks]

    def step(self):
        got = []
        ended = 0
        for each in self.passes:
            batch = next(each, None)
            ended += batch is None
            got += [] if batch is None else rows(batch)
        assert ended in (0, len(self.passes))
        if ended:
            assert self.at % self.epoch_size == 0
            self.passes = [iter(rank) for rank in self.ranks]
            return
        left = self.epoch_size - self.at % self.epoch_size
        assert len(got) == min(self.batch, left)
        for stream, share in enumerate(self.shares):
            mine = sorted(row for row in got if row[0] == stream)
            assert mine == sorted(self.alone.take(stream, self.taken[stream], len(mine))), f"stream {stream}"
            self.taken[stream] += len(mine)
            assert abs(self.taken[stream] - (self.at + len(got)) * share) < 1, f"stream {stream} is not in proportion"
        self.at += len(got)

    def save(self):
        states = [json.dumps(rank.state_dict()) for rank in self.ranks]
        assert len(set(states)) == 1
        self.state = json.loads(states[0])
        assert len(states[0]) < 4096

    def close(self):
        for rank in self.ranks:
            rank.close()
        self.ranks = []


def run_chain(lt, runtime, streams, number):
    draw = random.Random(f"mixture {number}")
    seed = draw.choice((0, 5))
    job = Job(lt, mix_of(lt, streams), ALONE.setdefault(seed, Alone(lt, streams, seed)), draw.randint(40, 700), SHARES)
    try:
        for _ in range(draw.randint(2, 5)):
            world = draw.choice((1, 1, 2, 3))
            job.open(world, world * draw.randint(1, 40))
            for _ in range(draw.randint(0, 12)):
                job.step()
                if draw.random() < 0.03:
                    runtime.kill_agents()
            job.save()
    except AssertionError as error:
        raise AssertionError(f"chain {number}: {error}") from error
    finally:
        job.close()
    return job.at


ALONE = {}
SHARES = list(WEIGHTS.values())


def chains(lt, runtime, streams, numbers):
    ALONE.clear()
    one = os.environ.get("SUITE_CHAIN")
    return sum(run_chain(lt, runtime, streams, number) for number in ([int(one)] if one else numbers))


def test_chains_give_every_stream_exactly_once_in_proportion(lt, runtime, streams):
    assert chains(lt, runtime, streams, range(20)) > 1000


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_thousand_chains(lt, runtime, streams):
    assert chains(lt, runtime, streams, range(1000, 2000)) > 100_000


def test_progress_of_every_stream_is_in_the_statistics(lt, streams):
    with open_loader(lt, mix_of(lt, streams), batch_size=100) as loader:
        assert len(loader) == 5
        for _ in itertools.islice(loader, 3):
            pass
        progress = loader.stats()["streams"]
        assert list(progress) == list(streams)
        assert progress["a"] == {"units": 61, "epoch": 2, "position": 28}  # 150 of 300
        assert progress["e"] == {"units": 33, "epoch": 0, "position": 3}
        state = loader.state_dict()
        assert (state["streams"][0]["epoch"], state["streams"][0]["position"]) == (2, 28)
        assert state["mixture"]["position"] == 300


def test_weights_follow_a_schedule(lt, streams):
    two = {name: streams[name] for name in "ab"}
    steps = [(0, {"a": 0.9, "b": 0.1}), (200, {"a": 0.0, "b": 1.0}), (300, {"a": 0.5, "b": 0.5})]
    with open_loader(lt, mix_of(lt, two, schedule=steps), batch_size=100) as loader:
        seen = [[t for t, _, _ in rows(batch)] for batch in loader]
    assert [batch.count(0) for batch in seen] == [90, 90, 0, 50, 50]


def test_a_temperature_weighs_by_size(lt, streams):
    two = {name: streams[name] for name in "ac"}  # 61 and 300
    for temperature, share in ((1, 61 / 361), (2, 61**0.5 / (61**0.5 + 300**0.5)), (1e9, 0.5)):
        with open_loader(lt, mix_of(lt, two, temperature=temperature), batch_size=500) as loader:
            got = rows(next(iter(loader)))
        assert abs([t for t, _, _ in got].count(0) - 500 * share) <= 1.1


def test_one_dataset_with_epochs_of_another_size(lt, streams):
    """Several epochs of the dataset in one, and a part of one: every sample once an epoch of the dataset's own."""
    one = streams["a"]
    for size in (20, 61, 150):
        with lt.Loader(
            one.url,
            fields=fields(lt),
            batch_size=10,
            epoch_size=size,
            last="short",
            as_numpy=True,
            rank=0,
            world_size=1,
        ) as loader:
            assert loader.samples == size and len(loader) == -(-size // 10)
            seen = []
            for _ in range(-(-200 // size)):
                seen += [n for batch in loader for _, n, _ in rows(batch)]
                assert len(seen) % size == 0
        for first in range(0, len(seen) - 61, 61):
            assert sorted(seen[first : first + 61]) == list(range(61))
        assert seen[:61] != seen[61:122]


def test_a_state_of_another_mixture_is_refused_and_what_differs_is_named(lt, streams):
    two = {name: streams[name] for name in "ab"}
    with open_loader(lt, mix_of(lt, two, {"a": 0.7, "b": 0.3})) as loader:
        next(iter(loader))
        state = loader.state_dict()
    cases = [
        (mix_of(lt, two, {"a": 0.6, "b": 0.4}), {}, "other weights"),
        (mix_of(lt, two, {"a": 0.7, "b": 0.3}), {"epoch_size": 501}, r"500 samples per epoch \(here 501"),
        (mix_of(lt, two, {"a": 0.7, "b": 0.3}), {"seed": 4}, "stream 0 of the state does not fit: it has seed 3"),
        (mix_of(lt, streams), {}, r"of 2 datasets \(here 5\)"),
        (streams["a"].url, {}, r"of 2 datasets \(here 1\)"),
    ]
    for mix, more, words in cases:
        with open_loader(lt, mix, **more) as loader, pytest.raises(lt.Error, match=words):
            loader.load_state_dict(state)
            next(iter(loader))


def test_streams_stay_with_the_versions_they_began_with(lt, leat_bin, runtime, tmp_path):
    made = {}
    for seed, name in enumerate("ab"):
        make_blobs(tmp_path / f"{name}-files", 40, seed=seed, sizes=(10, 50))
        made[name] = pack(leat_bin, tmp_path / f"{name}-files", tmp_path / name)
    mix = mix_of(lt, made, {"a": 0.5, "b": 0.5})
    with open_loader(lt, mix, epoch_size=80, batch_size=8) as loader:
        version = loader.version
        first = rows(next(iter(loader)))
        state = loader.state_dict()
        make_blobs(tmp_path / "other", 44, seed=9, sizes=(10, 50))
        pack(leat_bin, tmp_path / "other", tmp_path / "b", "--replace")
        runtime.kill_agents()
        rest = [row for batch in loader for row in rows(batch)]
        assert loader.version == version
    seen = first + rest
    assert len(seen) == len(set(seen)) == 80 or len(rest) in (72, 80)
    with open_loader(lt, mix, epoch_size=80, batch_size=8) as loader:
        next(iter(loader))  # from here on it is what it began with
        with pytest.raises(lt.Error, match="other versions than this loader began with"):
            loader.load_state_dict(state)
            next(iter(loader))
    with open_loader(lt, mix, epoch_size=80, batch_size=8) as loader:
        assert loader.version != version  # what is there now
        loader.load_state_dict(state)
        again = [row for batch in loader for row in rows(batch)]
        assert loader.version == version
    assert sorted(first + again) == sorted(set(first + again)) and len(first + again) == 80


def test_the_same_chunks_may_be_in_two_streams(lt, streams):
    """Two parts of one dataset, or two views of it: chunks are shared, and nothing is lost."""
    url = streams["c"].url
    with open_loader(
        lt, lt.Mix({"x": 0.5, "y": 0.5}, {"x": url, "y": url}), epoch_size=600, batch_size=60, ram="1mb"
    ) as loader:
        for _ in range(2):
            seen = [row for batch in loader for row in rows(batch)]
            for stream in (0, 1):
                assert sorted(n for t, n, _ in seen if t == stream) == list(range(300))
        numbers = loader.stats()
        assert numbers["requests"] < 2 * numbers["chunks_fetched"]  # they are one dataset's, and counted once


def test_images_of_several_datasets(lt, leat_bin, tmp_path):
    made = {}
    for seed, name in enumerate("ab"):
        known = make_images(tmp_path / f"{name}-files", 20, seed=seed)
        made[name] = pack(leat_bin, tmp_path / f"{name}-files", tmp_path / name, "--chunk-size", "8KiB", known=known)
    picture = lt.image("png").random_resized_crop(16).flip()
    some = {"x": picture, "i": lt.index(), "s": lt.stream()}
    alone = []
    for name in "ab":
        with lt.Loader(made[name].url, fields=some, batch_size=20, seed=7, as_numpy=True) as loader:
            x, i, _ = next(iter(loader))
            alone.append({n: x[k].copy() for k, n in enumerate(i.tolist())})
    with lt.Loader(
        mix_of(lt, made, {"a": 0.5, "b": 0.5}), fields=some, batch_size=10, epoch_size=40, seed=7, as_numpy=True
    ) as loader:
        seen = 0
        for x, i, s in loader:
            for k, (n, t) in enumerate(zip(i.tolist(), s.tolist())):
                assert (x[k] == alone[t][n]).all()  # the draws are the stream's own
                seen += 1
    assert seen == 40


def test_what_cannot_be_mixed_is_refused_in_words(lt, leat_bin, streams, tmp_path):
    two = {name: streams[name].url for name in "ab"}
    make_images(tmp_path / "files", 5)
    pictures = pack(leat_bin, tmp_path / "files", tmp_path / "pictures").url
    for arguments, words in (
        (({"a": 0.7, "b": 0.2}, two), "add up to 0.9, not to 1"),
        (({"a": 0.7}, two), "one weight for each of a, b"),
        (({"a": 0.7, "b": 0.3, "c": 0.0}, two), "one weight for each of a, b"),
        (({"a": 1.5, "b": -0.5}, two), "not a number from 0 to 1"),
        ((None, two), "give one of weights, schedule and temperature, not none"),
        (({"a": 0.5, "b": 0.5}, {}), "needs streams"),
        (({"a": 1.0}, {"a": ("x", "y", "z")}), "address, or"),
    ):
        with pytest.raises(lt.Error, match=words):
            lt.Mix(*arguments)
    with pytest.raises(lt.Error, match="not weights and temperature"):
        lt.Mix({"a": 0.5, "b": 0.5}, two, temperature=2)
    cases = (
        (
            lt.Mix({"a": 0.5, "b": 0.5}, two | {"b": str(tmp_path / "none")}),
            {},
            "stream 'b' of the mixture.*no dataset",
        ),
        (lt.Mix({"a": 0.5, "b": 0.5}, two | {"b": pictures}), {}, "stream 'b' of the mixture.*no field 'bin'"),
        (lt.Mix({"a": 0.5, "b": 0.5}, two, view="blocks=4"), {}, "stream 'a' of the mixture"),
        (lt.Mix(None, two, temperature=-1), {}, "temperature"),
        (lt.Mix(None, two, schedule=[(5, {"a": 0.5, "b": 0.5})]), {}, "begins at 5: the first must begin at 0"),
        (lt.Mix({"a": 0.5, "b": 0.5}, two), {"view": "samples"}, "its own view"),
        (lt.Mix({"a": 0.5, "b": 0.5}, two), {"version": "v1"}, "the URLs and versions of its streams"),
        (lt.Mix({"a": 0.5, "b": 0.5}, two), {"epoch_size": 10}, "a global batch of 16 is larger than an epoch .10"),
        (lt.Mix({"a": 0.5, "b": 0.5}, two), {"epoch_size": 0}, None),
    )
    for mix, more, words in cases:
        if words is None:  # as many as there are
            with open_loader(lt, mix, **more) as loader:
                assert loader.samples == 61 + 148
            continue
        with pytest.raises(lt.Error, match=words):
            open_loader(lt, mix, **more)


def test_labels_that_are_numbered_differently_are_not_mixed(lt, tmp_path):
    names = {"a": ["cat", "dog"], "b": ["dog", "cat"], "c": ["cat", "dog", "fox"]}
    for place, labels in names.items():
        with lt.Writer(tmp_path / place, fields={"y": lt.Label(labels), "n": "int"}) as w:
            for i, label in enumerate(labels):
                w.write({"y": label, "n": i})

    def load(one, other, field="y"):
        mix = lt.Mix({one: 0.5, other: 0.5}, {name: str(tmp_path / name) for name in (one, other)})
        with lt.Loader(mix, fields={"v": lt.int(field)}, batch_size=2, as_numpy=True) as loader:
            return sorted(int(v) for (batch,) in loader for v in batch)

    with pytest.raises(lt.Error, match=r"streams 'a' and 'b'.*--classes.*the label 0 is 'cat' there and 'dog' here"):
        load("a", "b")
    with pytest.raises(lt.Error, match="number their labels differently"):
        load("b", "c")
    assert set(load("a", "c")) <= {0, 1, 2}  # one has only more of them
    assert set(load("a", "b", "n")) == {0, 1}  # numbers without names


def test_the_largest_mixture(lt, leat_bin, tmp_path):
    """64 streams are the most; one more is refused."""
    make_blobs(tmp_path / "files", 3, sizes=(1, 9))
    url = pack(leat_bin, tmp_path / "files", tmp_path / "ds").url
    weights = {f"s{i}": 1 / 64 for i in range(64)}
    with open_loader(lt, lt.Mix(weights, dict.fromkeys(weights, url)), batch_size=64, epoch_size=640) as loader:
        for batch in loader:
            assert sorted(t for t, _, _ in rows(batch)) == list(range(64))
    many = {f"s{i}": 1 / 65 for i in range(65)}
    with pytest.raises(lt.Error, match="1 to 64 streams, not 65"):
        open_loader(lt, lt.Mix(many, dict.fromkeys(many, url)))
