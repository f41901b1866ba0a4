"""Ranks agree or stop: what differs between ranks is an error on every one of them before the first batch, however
their machines look and whenever their loaders were built."""

import json
import os
import re
import shutil
import zlib
from collections import Counter

import pytest
from conftest import PRELOAD
from loading import free_port, pack, rank_env, run_jobs, start, warm_python

G = 24

GROUPED = [
    pytest.param(True, id="group", marks=pytest.mark.skipif(bool(PRELOAD), reason="torch is not what is looked at")),
    pytest.param(False, id="environment"),
]
# Where a group only answers what the ranks of a machine do without one.
SELDOM_GROUPED = [pytest.param(True, id="group", marks=[*GROUPED[0].marks, pytest.mark.long]), GROUPED[1]]


@pytest.fixture
def checksums(blobs):
    return Counter(zlib.crc32(data) for data in blobs.known.values())


def port_of(grouped):
    return free_port() if grouped else None


def assert_all_once(ranks, blobs, checksums, epochs=1):
    for number, rank in enumerate(ranks):
        assert not rank["error"], f"rank {number}: {rank['text']}"
    assert len({len(rank["batches"]) for rank in ranks}) == 1, "every rank has as many batches"
    samples = [tuple(sample) for rank in ranks for batch in rank["batches"] for sample in batch]
    assert Counter(index for index, _ in samples) == dict.fromkeys(range(blobs.samples), epochs)
    assert Counter(c for _, c in samples) == {c: n * epochs for c, n in checksums.items()}
    assert len({repr(rank["state"]) for rank in ranks}) == 1, "one state for all ranks"


def two_nodes(runtime, loader, first=4, second=2, **more):
    """Ranks of two machines of different size, each with a runtime folder of its own."""
    world = first + second
    ranks = []
    for node, (base, size) in enumerate(((0, first), (first, second))):
        folder = f"{runtime.folder}/node{node}"
        for local in range(size):
            env = rank_env(base + local, world, local, size, GROUP_RANK=node, LEAT_RUNTIME_DIR=folder)
            ranks.append({"env": env, "loader": loader, **more})
    return ranks


@pytest.mark.parametrize("grouped", GROUPED)
@pytest.mark.parametrize("last", ["short", pytest.param("pad", marks=pytest.mark.long)])
def test_nodes_of_four_and_two_ranks_lose_and_repeat_nothing(runtime, blobs, checksums, tmp_path, grouped, last):
    for node in range(2):
        os.mkdir(f"{runtime.folder}/node{node}", 0o700)
    ranks = two_nodes(runtime, {"url": blobs.url, "global_batch_size": 36, "last": last}, epochs=2)
    (got,) = run_jobs(runtime, tmp_path, [(ranks, port_of(grouped))])
    if not grouped and any(
        rank["error"] for rank in got
    ):  # nobody there who could know all machines: it may be refused
        for rank in got:
            assert "LOCAL_WORLD_SIZE" in rank["text"], rank
            assert not rank["batches"]
    else:
        assert_all_once(got, blobs, checksums, epochs=2)


def differing(blobs, grouped):
    """(what differs, the word that names it, the second rank's loader and environment)"""
    base = {"url": blobs.url, "global_batch_size": G, "seed": 1, "window": 4, "last": "drop"}
    cases = [
        ("seed", r"\bseed\b", {"seed": 2}, {}),
        ("draw_seed", r"\bdraw_seed\b", {"draw_seed": 2}, {}),
        ("window", r"\bwindow\b", {"window": 5}, {}),
        ("batch", r"batch", {"global_batch_size": 2 * G}, {}),
        ("last", r"\blast\b", {"last": "short"}, {}),
        ("shuffle", r"\bshuffle\b", {"shuffle": False}, {}),
        ("dataset", r"\bdataset\b|\bversion\b", {"url": f"{blobs.url}-other"}, {}),
    ]
    if not grouped:  # a group has one world
        cases.append(("world", r"\bworld", {}, {"WORLD_SIZE": "3"}))
    return base, cases


@pytest.mark.parametrize("grouped", GROUPED)
def test_ranks_that_disagree_get_an_error_on_each_that_names_the_difference(
    runtime, blobs, leat_bin, tmp_path, grouped
):
    other = blobs.path.with_name("ds-other")
    if not other.exists():
        files = tmp_path / "other"
        shutil.copytree(blobs.path.parent / "files", files)
        (files / "0003.bin").write_bytes(b"another text of another length")
        pack(leat_bin, files, other, "--chunk-size", "16KiB")
    base, cases = differing(blobs, grouped)
    jobs = []
    for number, (_name, _word, loader, env) in enumerate(cases):
        ranks = [
            {"env": rank_env(0, 2, port=29500 + number), "loader": base, "group": [0, 2]},
            {"env": {**rank_env(1, 2, port=29500 + number), **env}, "loader": {**base, **loader}, "group": [1, 2]},
        ]
        jobs.append((ranks, port_of(grouped)))
    for (name, word, _, _), ranks in zip(cases, run_jobs(runtime, tmp_path, jobs)):
        for number, rank in enumerate(ranks):
            assert rank["error"], f"{name} differs, and rank {number} trains: {rank['batches'][:1]}"
            assert rank["error"] == "InvalidError", (name, rank)
            assert not rank["batches"], f"{name}: rank {number} was given a batch"
            assert re.search(word, rank["text"]), (name, rank["text"])


@pytest.mark.parametrize("grouped", SELDOM_GROUPED)
def test_ranks_that_stand_at_different_places_are_told(lt, runtime, blobs, tmp_path, grouped):
    """One rank resumes and the other has not found the checkpoint, or another one."""
    loader = {"url": blobs.url, "global_batch_size": G}
    with lt.Loader(**loader, fields={"i": lt.index()}, as_numpy=True) as one:
        iterator = iter(one)
        states = [None, *(one.state_dict() for _ in range(2) if next(iterator))]
        one.seek(4, 0)
        states.append(one.state_dict())
    jobs = []
    for number, (first, second) in enumerate(((0, 1), (1, 2), (3, 0))):
        ranks = [
            {"env": rank_env(rank, 2, port=29600 + number), "loader": loader, "state": states[at]}
            for rank, at in enumerate((first, second))
        ]
        jobs.append((ranks, port_of(grouped)))
    for ranks in run_jobs(runtime, tmp_path, jobs):
        for rank in ranks:
            assert rank["error"] == "InvalidError" and not rank["batches"], rank
            assert re.search(r"\b(epoch|position)\b", rank["text"]), rank["text"]


@pytest.mark.parametrize("grouped", GROUPED)
def test_ranks_that_agree_go_on_when_one_comes_late_and_again_after_a_jump(
    runtime, blobs, checksums, tmp_path, grouped
):
    loader = {"url": blobs.url, "global_batch_size": G, "last": "short"}
    flag = str(tmp_path / "late")
    ranks = [
        {"env": rank_env(0, 2), "loader": loader, "epochs": 2, "touch": flag},
        {"env": rank_env(1, 2), "loader": loader, "epochs": 2, "wait": flag, "command": ["sleep", "0.7"]},
    ]
    (got,) = run_jobs(runtime, tmp_path, [(ranks, port_of(grouped))])
    assert_all_once(got, blobs, checksums, epochs=2)


@pytest.mark.parametrize("grouped", SELDOM_GROUPED)
def test_world_of_one_inside_a_job_asks_nobody(runtime, blobs, checksums, tmp_path, grouped):
    """Validation on rank 0 alone: the other ranks open nothing, and nobody may wait for them."""
    alone = {"url": blobs.url, "batch_size": G, "last": "short", "rank": 0, "world_size": 1}
    ranks = [{"env": rank_env(0, 2), "loader": alone}, {"env": rank_env(1, 2)}]
    (got,) = run_jobs(runtime, tmp_path, [(ranks, port_of(grouped))])
    assert_all_once(got[:1], blobs, checksums)


def test_rank_that_never_comes_is_said_within_the_loaders_own_time(runtime, blobs, tmp_path):
    loader = {"url": blobs.url, "global_batch_size": G, "timeout": 2}
    (got,) = run_jobs(runtime, tmp_path, [([{"env": rank_env(0, 2), "loader": loader}, {"env": rank_env(1, 2)}], None)])
    assert got[0]["error"] == "TimeoutError", got[0]
    assert "rank" in got[0]["text"] and "within 2 s" in got[0]["text"], got[0]["text"]


def test_loader_older_than_its_group_takes_rank_and_world_from_it(runtime, blobs, checksums, tmp_path):
    """The mp.spawn way, without anything in the environment; see also programs/spawn.py."""
    pytest.importorskip("torch")
    if PRELOAD:
        pytest.skip("torch is not what is looked at")
    code = (
        "import json, os, sys, zlib, leat, torch\n"
        "rank, port = int(sys.argv[2]), sys.argv[3]\n"
        "fields = {'i': leat.index(), 'b': leat.bytes('bin')}\n"
        "loader = leat.Loader(sys.argv[1], batch_size=12, last='short', fields=fields)\n"
        "torch.distributed.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=2)\n"
        "batches = [[[n, zlib.crc32(d)] for n, d in zip(i.tolist(), b)] for i, b in loader]\n"
        "print(json.dumps({'batches': batches, 'error': None, 'state': loader.state_dict(), 'steps': len(loader)}))\n"
        "sys.stdout.flush(); os._exit(0)\n"
    )
    port = free_port()
    commands = [warm_python("-c", code, blobs.url, rank, port) for rank in (0, 1)]
    processes = [start(runtime, command, GLOO_SOCKET_IFNAME="lo") for command in commands]
    ranks = []
    for process in processes:
        out, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
        ranks.append(json.loads(out))
    assert_all_once(ranks, blobs, checksums)
    assert ranks[0]["steps"] == len(ranks[0]["batches"])


@pytest.mark.parametrize(
    ("env", "word"),
    [
        ({"WORLD_SIZE": "2"}, "RANK"),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "RANK"),
        ({"RANK": "1"}, "WORLD_SIZE"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "rank"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "WORLD_SIZE|world"),
    ],
)
def test_half_an_environment_is_refused(lt, images, monkeypatch, env, word):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    fields = {"i": lt.index()}
    with pytest.raises(lt.Error, match=word), lt.Loader(images.url, batch_size=8, fields=fields) as loader:
        next(iter(loader))
    with lt.Loader(images.url, batch_size=8, fields=fields, rank=0, world_size=1) as loader:
        assert sum(1 for _ in loader) == images.samples // 8, "what was said goes before what the environment says"


def test_world_of_one_needs_no_rank(lt, images, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}) as loader:
        assert sum(1 for _ in loader) == images.samples // 8


def test_rank_and_world_are_looked_up_at_the_first_batch(lt, images, monkeypatch):
    fields = {"i": lt.index()}
    with lt.Loader(images.url, batch_size=8, last="short", fields=fields) as loader:
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        seen = [n for (i,) in loader for n in i.tolist()]
    with lt.Loader(images.url, batch_size=8, last="short", fields=fields, rank=1, world_size=2) as loader:
        assert [n for (i,) in loader for n in i.tolist()] == seen
        assert len(seen) in (images.samples // 2, images.samples - images.samples // 2)
