"""A dataset is named, not pointed at: packed again under a running job, whatever the job does stays with its version."""

import multiprocessing
import shutil
import zlib
from pathlib import Path

import pytest
from conftest import PRELOAD
from loading import free_port, make_blobs, pack, rank_env, run_jobs

G = 16
COUNT = 96


class Versions:
    """A dataset with an old and a new version of the same keys, and packed copies of either to compare with."""

    def __init__(self, leat_bin, folder):
        self.leat_bin = leat_bin
        self.folder = folder
        self.url = str(folder / "ds")
        self.files = {
            name: make_blobs(folder / name, COUNT, seed=seed, sizes=(200, 900))
            for name, seed in (("old", 1), ("new", 2))
        }
        self.sums = {name: {key: zlib.crc32(data) for key, data in files.items()} for name, files in self.files.items()}
        for name in ("old", "new"):
            pack(leat_bin, folder / name, folder / f"{name}-ds", "--chunk-size", "4KiB")
        pack(leat_bin, folder / "old", folder / "ds", "--chunk-size", "4KiB", "--name", "first")

    def command(self):
        more = ["--quiet", "--replace", "--chunk-size", "4KiB"]
        return [str(self.leat_bin), "pack", *more, str(self.folder / "new"), self.url]

    def replace(self):
        pack(self.leat_bin, self.folder / "new", self.url, "--chunk-size", "4KiB", "--replace")

    def load(self, lt, url=None, **more):
        fields = {"k": lt.key(), "b": lt.bytes("bin")}
        return lt.Loader(url or self.url, fields=fields, as_numpy=True, **{"batch_size": G, **more})

    def read(self, batches):
        """[(key, checksum), …] of each batch."""
        return [[(key, zlib.crc32(data)) for key, data in zip(k, b)] for k, b in batches]

    def epochs(self, lt, name, count=3):
        """What epochs of a version hold, from a copy that nobody replaces."""
        with self.load(lt, str(self.folder / f"{name}-ds")) as loader:
            return [self.read(loader) for _ in range(count)]

    def of(self, sample):
        """Which version a sample is of."""
        (name,) = [name for name, sums in self.sums.items() if sums[sample[0]] == sample[1]]
        return name


@pytest.fixture
def versions(leat_bin, tmp_path):
    return Versions(leat_bin, tmp_path)


def test_whatever_a_loader_does_after_a_replacement_stays_with_its_version(lt, runtime, versions):
    old = versions.epochs(lt, "old")
    with versions.load(lt) as loader:
        iterator = iter(loader)
        first = versions.read([next(iterator)])
        state = loader.state_dict()
        versions.replace()
        runtime.kill_agents()
        assert first + versions.read(iterator) == old[0], "a new agent"
        assert versions.read(loader) == old[1], "the next epoch"
        loader.set_epoch(2)
        assert versions.read(loader) == old[2], "another epoch"
        loader.load_state_dict(state)
        runtime.kill_agents()
        assert versions.read(loader) == old[0][1:], "a restored state, and a new agent"
        loader.seek(1, 2 * G)
        assert versions.read(loader) == old[1][2:], "another place"
        assert {versions.of(sample) for batch in old[0] for sample in batch} == {"old"}


def test_restored_before_its_first_batch_a_loader_stays_with_what_it_opened(lt, runtime, versions):
    old = versions.epochs(lt, "old")
    with versions.load(lt) as loader:
        version = loader.version
        versions.replace()
        runtime.kill_agents()
        assert versions.read(loader) == old[0]
        assert loader.version == version


def child_reads(versions, loader, queue):
    try:
        queue.put(versions.read(loader))
    except Exception as error:
        queue.put(repr(error))


def test_child_of_a_fork_reads_its_parents_version(lt, versions):
    old = versions.epochs(lt, "old")
    with versions.load(lt) as loader:
        assert versions.read([next(iter(loader))]) == old[0][:1]
        versions.replace()
        loader.set_epoch(0)
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=child_reads, args=(versions, loader, queue))
        child.start()
        assert queue.get(timeout=60) == old[0]
        child.join(60)


def test_versions_are_opened_by_id_by_name_and_by_address(lt, versions):
    old, new = versions.epochs(lt, "old", 1), versions.epochs(lt, "new", 1)
    with versions.load(lt) as loader:
        old_id = loader.version
    versions.replace()
    with versions.load(lt) as loader:
        new_id = loader.version
        assert versions.read(loader) == new[0]
    assert len(old_id) == len(new_id) == 64 and old_id != new_id
    assert bytes.fromhex(old_id)
    for options, expected in (
        ({"version": old_id}, old),
        ({"version": new_id}, new),
        ({"version": "first"}, old),
        ({"url": f"{versions.url}?name=first"}, old),
        ({"url": f"{versions.url}?id={old_id}"}, old),
        ({"url": f"{versions.url}?id={old_id[:8]}"}, old),
    ):
        with versions.load(lt, **options) as loader:
            assert versions.read(loader) == expected[0], options
            assert loader.version == (old_id if expected is old else new_id)
    for options, word in (
        ({"version": "00" * 32}, "0000"),
        ({"version": "nobody"}, "nobody"),
        ({"version": 7}, "version"),
        ({"version": ""}, "version"),
        ({"url": f"{versions.url}?id={old_id}", "version": new_id}, old_id[:8]),
        ({"url": f"{versions.url}?id={old_id}&name=x"}, "id|name"),
        ({"url": f"{versions.url}?id={old_id[:7]}"}, "8"),
    ):
        with pytest.raises(lt.Error, match=word):
            versions.load(lt, **options).close()


def test_same_content_packed_elsewhere_is_the_same_version(lt, versions):
    """Order, draws and state belong to the content: a copy of a dataset goes on with the states of the other."""
    with versions.load(lt) as one, versions.load(lt, str(versions.folder / "old-ds")) as two:
        assert one.version == two.version
        iterator = iter(one)
        versions.read([next(iterator)])
        two.load_state_dict(one.state_dict())
        assert versions.read(two) == versions.read(iterator)


def test_state_of_a_replaced_version_resumes_on_it_or_says_how(lt, runtime, versions):
    old = versions.epochs(lt, "old")
    with versions.load(lt) as loader:
        iterator = iter(loader)
        versions.read([next(iterator), next(iterator)])
        state = loader.state_dict()
    runtime.kill_agents()
    versions.replace()
    with versions.load(lt, version=state["streams"][0]["dataset"]) as loader:
        loader.load_state_dict(state)
        assert versions.read(loader) == old[0][2:]
    with versions.load(lt) as loader:
        try:
            loader.load_state_dict(state)
        except lt.Error as error:
            assert "version" in str(error) and state["streams"][0]["dataset"][:8] in str(error), str(error)
        else:
            assert versions.read(loader) == old[0][2:]


@pytest.mark.parametrize(
    "grouped",
    [
        pytest.param(True, id="group", marks=pytest.mark.skipif(bool(PRELOAD), reason="torch is not looked at")),
        pytest.param(False, id="environment"),
    ],
)
def test_rank_that_opens_after_the_replacement_trains_on_the_same_version_or_all_stop(
    runtime, versions, tmp_path, grouped
):
    loader = {"url": versions.url, "global_batch_size": G}
    flag = str(tmp_path / "open")
    ranks = [
        {"env": rank_env(0, 2), "loader": loader, "touch": flag},
        {"env": rank_env(1, 2), "loader": loader, "wait": flag, "command": versions.command()},
    ]
    (got,) = run_jobs(runtime, tmp_path, [(ranks, free_port() if grouped else None)])
    sums = {name: set(sums.values()) for name, sums in versions.sums.items()}
    seen = [{c for batch in rank["batches"] for _, c in batch} for rank in got]
    if any(rank["error"] for rank in got):
        for rank in got:
            assert rank["error"] == "InvalidError" and not rank["batches"], rank
            assert "dataset" in rank["text"] or "version" in rank["text"], rank["text"]
    else:
        assert not seen[0] & seen[1]
        assert (seen[0] | seen[1]) in (sums["old"], sums["new"]), "two ranks, two datasets"


def test_loader_whose_version_is_gone_says_so_and_delivers_nothing_else(lt, runtime, versions):
    with versions.load(lt) as loader:
        iterator = iter(loader)
        versions.read([next(iterator)])
        version = loader.version
        shutil.rmtree(versions.url)
        pack(versions.leat_bin, versions.folder / "new", versions.url, "--chunk-size", "4KiB")
        runtime.kill_agents()
        with pytest.raises(lt.Error) as caught:
            for _ in range(4 * len(loader)):
                for sample in versions.read([next(iterator)])[0]:
                    assert versions.of(sample) == "old"
        assert not isinstance(caught.value, StopIteration)
        assert version[:8] in str(caught.value), str(caught.value)


def test_pointer_that_changes_all_the_time_is_read_once_by_a_loader(lt, runtime, versions):
    pointers = {name: (versions.folder / f"{name}-ds" / "leat" / "current").read_bytes() for name in versions.files}
    expected = {name: versions.epochs(lt, name, 1)[0] for name in versions.files}
    shutil.copytree(versions.folder / "new-ds", versions.url, dirs_exist_ok=True)
    pointer = Path(versions.url, "leat", "current")
    for turn in range(8):
        now, next_one = ("old", "new") if turn % 2 == 0 else ("new", "old")
        pointer.write_bytes(pointers[now])
        with versions.load(lt) as loader:
            assert len(loader.version) == 64
            pointer.write_bytes(pointers[next_one])
            if turn % 4 < 2:
                runtime.kill_agents()
            assert versions.read(loader) == expected[now], f"turn {turn}"
