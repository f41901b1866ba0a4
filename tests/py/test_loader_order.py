"""Every sample once, in the order that `leat order` prints, with the same pixels, whatever the world looks like."""

import io
import json
import subprocess

import numpy
import pytest
from loading import batches_of, global_batches, make_images, pack, run_here, samples_of, stopped

G = 24


def order(leat_bin, url, *options):
    """The lines of `leat order` that name a sample, split."""
    command = [leat_bin, "order", f"--global-batch={G}", *options, url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [line.split("\t") for line in done.stdout.splitlines() if line[0].isdigit()]


@pytest.fixture(scope="module")
def expected(images, leat_bin):
    """(epoch) -> [sample numbers of step 0, 1, …, sorted], from `leat order`."""

    def read(epoch=0, last="drop"):
        steps = {}
        for _position, sample, _chunk, step, *_ in order(leat_bin, images.url, f"--epoch={epoch}", f"--last={last}"):
            steps.setdefault(int(step), []).append(int(sample))
        return [sorted(steps[i]) for i in sorted(steps)]

    return read


def sets(steps):
    return [sorted(index for index, _, _ in step) for step in steps]


def pixels(steps):
    return {index: (pixels, label) for step in steps for index, pixels, label in step}


ALONE = []


@pytest.fixture
def alone(lt, images):
    """What a world of one sees in epochs 0 and 1: computed once."""
    if not ALONE:
        steps = global_batches(run_here(lt, 1, {"url": images.url, "global_batch_size": G}, epochs=2))
        ALONE.extend((steps[: len(steps) // 2], steps[len(steps) // 2 :]))
    return ALONE


def test_one_rank_gets_what_leat_order_says(images, expected, alone):
    seen = alone
    for epoch in (0, 1):
        assert sets(seen[epoch]) == expected(epoch)
        assert len(pixels(seen[epoch])) == images.samples // G * G
    assert sets(seen[0]) != sets(seen[1])
    same = [pixels(seen[0])[i] == pixels(seen[1])[i] for i in pixels(seen[0]) if i in pixels(seen[1])]
    assert sum(same) < len(same) / 4, "another epoch must have other crops"


@pytest.mark.parametrize("world", [2, 3, 4, 8])
def test_every_world_sees_the_same_sets_and_pixels(lt, images, expected, alone, world):
    ranks = run_here(lt, world, {"url": images.url, "global_batch_size": G})
    steps = global_batches(ranks)
    assert sets(steps) == expected(0)
    assert pixels(steps) == pixels(alone[0])
    assert all(len(line["index"]) == G // world for lines in ranks for line in batches_of(lines))
    assert len({json.dumps(lines[-1]["state"], sort_keys=True) for lines in ranks}) == 1, "one state for all ranks"


def test_world_may_change_in_mid_epoch_and_at_any_batch(lt, images, alone, expected):
    state, seen = None, []
    job = {"url": images.url, "global_batch_size": G}
    for world, batches in ((4, 2), (1, 1), (3, 2), (2, 1), (8, 1)):
        ranks = run_here(lt, world, job, batches=batches, state=state)
        states = [lines[-1]["state"] for lines in ranks]
        assert all(s == states[0] for s in states)
        state = states[0]
        assert len(json.dumps(state)) < 1024
        seen += global_batches(ranks)
    seen += global_batches(run_here(lt, 2, job, state=state))
    assert sets(seen) == expected(0)
    assert pixels(seen) == pixels(alone[0])


def test_resumes_at_any_batch_and_twice(lt, images):
    def rest(state):
        fields = {"i": lt.index(), "x": lt.image("png").random_resized_crop(16).flip()}
        with lt.Loader(images.url, global_batch_size=G, fields=fields, as_numpy=True) as loader:
            loader.load_state_dict(state)
            return [(i.tolist(), x.tobytes()) for i, x in loader]

    fields = {"i": lt.index(), "x": lt.image("png").random_resized_crop(16).flip()}
    with lt.Loader(images.url, global_batch_size=G, fields=fields, as_numpy=True) as loader:
        states, whole = [loader.state_dict()], []
        for i, x in loader:
            whole.append((i.tolist(), x.tobytes()))
            states.append(loader.state_dict())
        assert len(loader) == len(whole) == images.samples // G
    for n, state in enumerate(states[:-1]):
        assert rest(state) == whole[n:]
    with lt.Loader(images.url, global_batch_size=G, fields=fields, as_numpy=True, epoch=1) as loader:
        assert rest(states[-1]) == [(i.tolist(), x.tobytes()) for i, x in loader], "nothing was left: the next epoch"
    assert rest(states[2]) == whole[2:], "a second time"


def test_samples_go_to_the_ranks_that_leat_order_names(runtime, images, leat_bin):
    ranks = runtime.run_world(2, {"url": images.url, "global_batch_size": G, "seed": 5}, batches=3)
    for rank in (0, 1):
        said = [int(row[1]) for row in order(leat_bin, images.url, "--seed=5", "--world=2", f"--rank={rank}")]
        got = [index for line in batches_of(ranks[rank]) for index in line["index"]]
        assert got == said[: len(got)]


@pytest.mark.parametrize("world", [1, 4])
def test_last_batch_is_dropped_padded_or_short_and_valid_says_which(lt, images, expected, world):
    rest = images.samples % G
    assert 0 < rest < G
    for last in ("drop", "pad", "short"):
        ranks = run_here(lt, world, {"url": images.url, "global_batch_size": G, "last": last})
        assert sets(global_batches(ranks)) == expected(0, last=last)
        final = [batches_of(lines)[-1] for lines in ranks]
        counts = [len(line["index"]) for line in final]
        valid = sum(sum(line["valid"]) for line in final)
        if last == "drop":
            assert counts == [G // world] * world
            assert valid == G
        elif last == "pad":
            assert counts == [G // world] * world
            assert valid == rest
        else:
            assert sum(counts) == valid == rest
            assert max(counts) - min(counts) <= 1


def test_ranks_without_a_sample_of_the_last_batch_get_an_empty_one(lt, leat_bin, tmp_path):
    make_images(tmp_path / "files", 17)
    small = pack(leat_bin, tmp_path / "files", tmp_path / "ds")
    ranks = run_here(lt, 8, {"url": small.url, "global_batch_size": 8, "last": "short"})
    final = [batches_of(lines)[-1] for lines in ranks]
    assert sorted(len(line["index"]) for line in final) == [0] * 7 + [1]
    assert all(len(batches_of(lines)) == 3 for lines in ranks)


def test_empty_last_batch_is_an_empty_tensor_too(lt, leat_bin, tmp_path):
    torch = pytest.importorskip("torch")
    make_images(tmp_path / "files", 3)
    small = pack(leat_bin, tmp_path / "files", tmp_path / "ds")
    fields = {"x": lt.image("png").resize((8, 8)), "k": lt.key(), "v": lt.valid()}
    with lt.Loader(small.url, global_batch_size=2, rank=1, world_size=2, last="short", fields=fields) as loader:
        shapes = [(tuple(x.shape), len(k), v.dtype) for x, k, v in loader]
    assert shapes == [((1, 8, 8, 3), 1, torch.bool), ((0, 8, 8, 3), 0, torch.bool)]


def test_without_shuffle_samples_come_in_their_own_order(lt, images):
    with lt.Loader(images.url, batch_size=10, shuffle=False, last="short", fields={"i": lt.index()}) as loader:
        assert [i for (batch,) in loader for i in batch.tolist()] == list(range(images.samples))


def test_labels_and_keys_belong_to_their_pixels(lt, images):
    from PIL import Image

    source = images.path.parent / "files"
    fields = {
        "x": lt.image("png").resize((24, 24)),
        "y": lt.int("cls"),
        "k": lt.key(),
        "raw": lt.bytes("png"),
    }
    with lt.Loader(images.url, batch_size=29, last="short", fields=fields, as_numpy=True) as loader:
        seen = set()
        for x, y, k, raw in loader:
            for pixels, label, key, data in zip(x, y, k, raw):
                assert images.known[key] == label
                assert (source / key).read_bytes() == bytes(data)
                size = Image.open(io.BytesIO(data)).size
                if size == (24, 24):
                    assert numpy.array_equal(numpy.asarray(Image.open(io.BytesIO(data))), pixels)
                seen.add(key)
    assert seen == set(images.known)


def test_several_processes_may_be_the_same_rank(runtime, images):
    ranks = [
        runtime.start_rank({"url": images.url, "global_batch_size": G, "rank": 1, "world_size": 2}, batches=4)
        for _ in range(3)
    ]
    lines = [batches_of(rank.finish()) for rank in ranks]
    assert lines[0] == lines[1] == lines[2]
    assert len(lines[0]) == 4


def test_pass_after_a_broken_one_begins_anew_although_its_first_attempt_fails(lt, runtime, images):
    with lt.Loader(images.url, batch_size=G, timeout=2, fields={"i": lt.index()}) as loader:
        it = iter(loader)
        next(it), next(it)
        with stopped(runtime.agent()), pytest.raises(TimeoutError):
            next(iter(loader))
        assert len([0 for _ in loader]) == len(loader)
        assert loader.epoch == 2


def test_two_loaders_in_one_process_do_not_disturb_each_other(lt, images, blobs):
    train = lt.Loader(images.url, batch_size=G, fields={"i": lt.index()})
    val = lt.Loader(blobs.url, batch_size=50, shuffle=False, fields={"i": lt.index(), "b": lt.bytes("bin")})
    with train, val:
        assert train.stats()["agent_pid"] == val.stats()["agent_pid"]
        seen = []
        for n, (i,) in enumerate(train):
            seen += i.tolist()
            if n % 3 == 0:
                numbers = [j for js, _ in val for j in js.tolist()]
                assert numbers == list(range(300))
        assert len(set(seen)) == images.samples // G * G


def test_large_blobs_get_memory_of_their_own_and_arrive_whole(lt, blobs):
    with lt.Loader(blobs.url, batch_size=20, fields={"k": lt.key(), "b": lt.bytes("bin")}, as_numpy=True) as loader:
        for _ in range(3):
            seen = {}
            for keys, values in loader:
                seen.update(zip(keys, values.tolist()))
                values[0][:1] = values[0][:1]  # a batch is the rank's to write to, this memory too
            assert seen == blobs.known


def test_states_of_something_else_are_refused_and_what_differs_is_named(lt, images, blobs):
    def loader(url=images.url, **more):
        return lt.Loader(url, batch_size=8, fields={"i": lt.index()}, **more)

    with loader(seed=1, window=4) as one:
        next(iter(one))
        state = one.state_dict()
        assert len(json.dumps(state)) < 1024
    cases = [
        ({"seed": 2, "window": 4}, "seed"),
        ({"seed": 1, "window": 5}, "window"),
        ({"seed": 1, "window": 4, "url": blobs.url}, "dataset"),
        ({"seed": 1, "window": 4, "shuffle": False}, "shuffle"),
    ]
    for options, word in cases:
        with loader(**options) as other:
            before = other.state_dict()
            with pytest.raises(lt.Error, match=word):
                other.load_state_dict(state)
            assert other.state_dict() == before
            assert next(iter(other))[0].shape == (8,), "a refused state leaves the loader as it was"
    with loader(seed=1, window=4) as same:
        stream = state["streams"][0]
        old = {"order": 1, **stream}
        without = {k: v for k, v in stream.items() if k != "seed"}
        for wrong, match in (
            ({**state, "state": 99}, "version 99"),
            ({**state, "needs": ["order 1", "time travel"]}, "time travel"),
            (old, r"Leat 0\.1"),
            ({**state, "streams": [without]}, "seed"),
            ({**state, "streams": [{**stream, "position": 10**12}]}, "position"),
            ({**state, "streams": [stream, stream]}, "of 2 datasets"),
            ({}, "state"),
        ):
            with pytest.raises(lt.Error, match=match):
                same.load_state_dict(wrong)
        same.load_state_dict(state)


def test_numpy_alone_is_enough(runtime, run_python, images):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import leat\n"
        f"fields = {{'x': leat.image('png').resize((8, 8)), 'v': leat.valid()}}\n"
        f"with leat.Loader({images.url!r}, batch_size=50, fields=fields) as l:\n"
        "    for x, v in l: print(type(x).__module__, x.shape, x.dtype, v.dtype)\n"
    )
    env = {name: runtime.env[name] for name in runtime.env if name.startswith("LEAT_")}
    done = run_python(code, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["numpy (50, 8, 8, 3) uint8 bool"] * 4


def test_import_order_of_rank_and_world(lt, images, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with lt.Loader(images.url, global_batch_size=G, fields={"i": lt.index()}) as loader:
        env = [i.tolist() for (i,) in loader]
    with lt.Loader(images.url, batch_size=G // 2, rank=1, world_size=2, fields={"i": lt.index()}) as loader:
        assert [i.tolist() for (i,) in loader] == env


def test_helpers_agree():
    assert samples_of({"index": [1, 2], "x": [3, 4], "y": [5, 6], "valid": [True, False]}) == [(1, 3, 5)]
