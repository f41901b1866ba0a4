"""Loaders with a cache on disk: read from there by the next epoch, agent and job; and whatever happens to the folder, the
training goes on from the bucket, the log says so once, and no byte is wrong."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from loading import make_blobs, pack, point_to, wait_until

KIB = 1 << 10
MIB = 1 << 20
BATCH = 8
RAM = 4 * MIB  # of 8: half of the chunks have to come again, from somewhere


@pytest.fixture(scope="module")
def heavy(leat_bin, tmp_path_factory):
    """160 blobs, 8 MB in 32 chunks."""
    folder = tmp_path_factory.mktemp("heavy")
    known = make_blobs(folder / "files", 160, sizes=(49_000, 51_000))
    it = pack(leat_bin, folder / "files", folder / "served" / "bucket" / "ds", "--chunk-size", "256KiB", known=known)
    it.served = folder / "served"
    it.bytes = sum(path.stat().st_size for path in (it.path / "leat" / "chunks").rglob("*") if path.is_file())
    return it


@pytest.fixture
def bucket(heavy, serve, monkeypatch):
    """A server with the blobs."""
    server = serve(heavy.served)
    point_to(server, monkeypatch)
    return server


def chunk_gets(server):
    return sum("leat/chunks/" in line.get("key", "") for line in server.log())


@pytest.fixture
def folder(shm_path):
    """Where no other program keeps the disk busy: what a busy disk cannot take is not written."""
    return shm_path / "cache"


def opened(lt, folder, **more):
    options = {
        "batch_size": BATCH,
        "window": 4,
        "ram": RAM,
        "last": "short",
        "timeout": 60,
        "linger": "50ms",
        "cache_dir": str(folder),
        "fields": {"b": lt.bytes("bin"), "k": lt.key()},
        "as_numpy": True,
    }
    if folder is None:
        del options["cache_dir"]
    return lt.Loader("s3://bucket/ds", **{**options, **more})


def read_epoch(loader, heavy, act=None):
    """An epoch, every value compared; `act` is called with the number of each batch."""
    seen = []
    for number, (values, keys) in enumerate(loader):
        for value, key in zip(values, keys.tolist()):
            assert bytes(value) == heavy.known[key], f"wrong bytes for {key}"
            seen.append(key)
        if act:
            act(number)
    assert sorted(seen) == sorted(heavy.known)


def sources(loader):
    return loader.stats()["bytes_by_source"]


def close(loader, runtime):
    """With its agent."""
    loader.close()
    runtime.wait_gone()


def disk_lines(runtime):
    """What the log says of the disk as a warning."""
    return [line for line in runtime.log().splitlines() if " on disk" in line and "warning" in line.lower()]


def demote(loader, heavy, least):
    """Reads until more bytes than this are on disk: what leaves memory while the disk is busy is not written."""

    def enough():
        read_epoch(loader, heavy)
        return loader.stats()["disk_bytes"] > least

    wait_until(enough, what=f"more than {least} bytes on disk")


def fill(lt, runtime, heavy, folder, **more):
    """Epochs with a cache for everything until most is in it, and the end of its agent; what came from where."""
    loader = opened(lt, folder, **more)
    demote(loader, heavy, heavy.bytes - RAM)
    result = sources(loader)
    close(loader, runtime)
    return result


def segments(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_size > 64 * KIB]


def test_next_epoch_agent_and_job_read_from_disk(lt, runtime, heavy, bucket, folder):
    with opened(lt, folder) as loader:
        read_epoch(loader, heavy)
        assert sources(loader)["bucket"] >= heavy.bytes
        demote(loader, heavy, heavy.bytes * 7 / 8)
        before = sources(loader)
        read_epoch(loader, heavy)
        after = sources(loader)
        assert after["disk"] > before["disk"]
        assert after["bucket"] - before["bucket"] <= heavy.bytes / 8, "nearly all of it is here now"
    runtime.wait_gone()
    before = chunk_gets(bucket)
    for _ in range(2):  # another agent, another job
        loader = opened(lt, folder)
        read_epoch(loader, heavy)
        read_epoch(loader, heavy)
        assert sources(loader)["disk"] > heavy.bytes
        close(loader, runtime)
    assert chunk_gets(bucket) - before <= heavy.chunks // 4, "what lay in memory alone when the agents ended"
    assert not disk_lines(runtime)


def test_other_dataset_of_the_same_chunks_has_them_from_disk(lt, runtime, heavy, bucket, folder):
    fill(lt, runtime, heavy, folder)
    shutil.copytree(heavy.path, heavy.served / "bucket" / "copy", dirs_exist_ok=True)
    loader = opened(lt, folder)
    other = lt.Loader(
        "s3://bucket/copy",
        batch_size=BATCH,
        window=4,
        last="short",
        fields={"b": lt.bytes("bin"), "k": lt.key()},
        as_numpy=True,
    )
    read_epoch(other, heavy)
    assert sources(other)["bucket"] < 0.6 * heavy.bytes, "half of them are on disk at the least"
    other.close()
    close(loader, runtime)


def test_kill_of_the_agent_in_mid_write_loses_and_changes_nothing(lt, runtime, heavy, bucket, folder):
    draw = random.Random(3)
    loader = opened(lt, folder)
    kills = []

    def kill_sometimes(number):
        if draw.random() < 0.2:
            kills.append(number)
            runtime.kill_agents(signal.SIGKILL)

    for _ in range(3):
        read_epoch(loader, heavy, kill_sometimes)
    assert len(kills) > 3
    assert loader.stats()["agents_lost"] >= 3
    demote(loader, heavy, 0)
    read_epoch(loader, heavy)
    assert sources(loader)["disk"] > 0
    close(loader, runtime)


def remove(folder):
    shutil.rmtree(folder)


def remove_and_put_a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("no folder")


def truncate(folder):
    for path in segments(folder):
        os.truncate(path, path.stat().st_size // 3)


def extent(path):
    """Bytes from the beginning in which its chunks lie: the rest is a hole."""
    return min(path.stat().st_size, 16 * MIB)


def flip_bits(folder):
    draw = random.Random(5)
    for path in segments(folder):
        with open(path, "r+b") as file:
            size = extent(path)
            for at in range(0, size, 16 * KIB):
                place = min(size - 1, at + draw.randrange(16 * KIB))
                file.seek(place)
                byte = file.read(1)
                file.seek(place)
                file.write(bytes([byte[0] ^ 1 << draw.randrange(8)]))


def swap_halves(folder):
    for path in segments(folder):
        with open(path, "r+b") as file:
            data = file.read(extent(path))
            half = len(data) // 4 // 4096 * 4096
            file.seek(0)
            file.write(data[half:] + data[:half])


def write_zeros(folder):
    for path in segments(folder):
        with open(path, "r+b") as file:
            file.write(bytes(extent(path)))


def forbid(folder):
    os.chmod(folder, 0o500)


def open_to_all(folder):
    os.chmod(folder, 0o777)


# Bytes that do not match their checksum are one case, however they came to be so.
DAMAGE = [
    *(remove, remove_and_put_a_file, truncate, flip_bits, forbid, open_to_all),
    *(pytest.param(damage, marks=pytest.mark.long) for damage in (swap_halves, write_zeros)),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda f: f.__name__)
def test_folder_damaged_under_a_running_agent(lt, runtime, heavy, bucket, folder, damage):
    loader = opened(lt, folder)
    demote(loader, heavy, heavy.bytes - RAM)
    read_epoch(loader, heavy, lambda number: damage(folder) if number == 3 else None)
    read_epoch(loader, heavy)
    assert len(disk_lines(runtime)) <= 1, "said once"
    if damage in (flip_bits, write_zeros, swap_halves):
        assert len(disk_lines(runtime)) == 1
    close(loader, runtime)
    if damage is remove_and_put_a_file:
        folder.unlink()
    elif folder.exists():
        os.chmod(folder, 0o700)
    loader = opened(lt, folder)  # the next job begins with what is left
    demote(loader, heavy, 0)
    read_epoch(loader, heavy)
    assert sources(loader)["disk"] > 0
    close(loader, runtime)


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda f: f.__name__)
def test_folder_damaged_between_two_agents(lt, runtime, heavy, bucket, folder, damage):
    fill(lt, runtime, heavy, folder)
    damage(folder)
    loader = opened(lt, folder)
    read_epoch(loader, heavy)
    read_epoch(loader, heavy)
    assert len(disk_lines(runtime)) <= 1
    if damage is remove_and_put_a_file:
        assert "no cache on disk" in runtime.log()
        assert str(folder) in runtime.log()
    if damage is open_to_all:
        assert "no cache on disk" in runtime.log()
    close(loader, runtime)
    if folder.is_dir():
        os.chmod(folder, 0o700)


def test_folder_of_somebody_else_is_not_used(lt, runtime, heavy, bucket, folder):
    folder.mkdir(mode=0o700)
    try:
        os.chown(folder, 12345, 12345)
    except PermissionError:
        pytest.skip("only root can give a folder away")
    loader = opened(lt, folder)
    read_epoch(loader, heavy)
    read_epoch(loader, heavy)
    assert sources(loader)["disk"] == 0
    assert list(folder.iterdir()) == []
    said = disk_lines(runtime)
    assert len(said) == 1
    assert str(folder) in said[0]
    close(loader, runtime)


@contextlib.contextmanager
def small_disk(path, size):
    path.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_full_disk(lt, runtime, heavy, bucket, folder):
    with small_disk(folder, 4 * MIB):
        loader = opened(lt, folder / "cache", cache="100mib")
        for _ in range(3):
            read_epoch(loader, heavy)
        assert len(disk_lines(runtime)) <= 1
        close(loader, runtime)


def test_disk_that_others_fill(lt, runtime, heavy, bucket, folder):
    with small_disk(folder, 16 * MIB):
        loader = opened(lt, folder / "cache", cache="12mib")
        read_epoch(loader, heavy)

        def fill_up(number):
            if number == 4:
                with contextlib.suppress(OSError), open(folder / "other", "wb") as file:
                    for _ in range(16):
                        file.write(bytes(MIB))

        read_epoch(loader, heavy, fill_up)
        for _ in range(2):
            read_epoch(loader, heavy)
        assert len(disk_lines(runtime)) <= 1
        close(loader, runtime)


def test_remount_for_reading_only(lt, runtime, heavy, bucket, folder):
    with small_disk(folder, 32 * MIB):
        loader = opened(lt, folder / "cache", cache="5mib")
        read_epoch(loader, heavy)

        def remount(number):
            if number == 4:
                subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=False, capture_output=True)

        read_epoch(loader, heavy, remount)
        read_epoch(loader, heavy)
        assert len(disk_lines(runtime)) <= 1
        close(loader, runtime)


def test_two_agents_in_one_folder(lt, runtime, heavy, bucket, folder):
    loaders = [opened(lt, folder, scope=scope, linger="50ms") for scope in ("one", "two")]
    failures = []

    def train(loader):
        try:
            for _ in range(2):
                read_epoch(loader, heavy)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=train, args=(loader,)) for loader in loaders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    for loader in loaders:
        demote(loader, heavy, 0)
        read_epoch(loader, heavy)
    pids = {loader.stats()["agent_pid"] for loader in loaders}
    assert len(pids) == 2
    assert all(sources(loader)["disk"] > 0 for loader in loaders)
    os.kill(loaders[0].stats()["agent_pid"], signal.SIGKILL)
    for loader in loaders:
        read_epoch(loader, heavy)
        loader.close()
    runtime.wait_gone()
    assert not disk_lines(runtime)


def test_cache_that_can_hold_nothing_is_refused(lt, runtime, heavy, bucket, folder):
    with pytest.raises(lt.Error, match=r'at least cache="1mib"'):
        opened(lt, folder, cache="100kib")
    runtime.wait_gone()


def test_cache_smaller_than_a_chunk_of_the_dataset_is_said(lt, leat_bin, runtime, folder, tmp_path):
    known = make_blobs(tmp_path / "files", 6, sizes=(1_500_000, 1_600_000))
    large = pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--chunk-size", "3MiB", known=known)
    fields = {"b": lt.bytes("bin"), "k": lt.key()}
    with lt.Loader(
        large.url, batch_size=2, fields=fields, cache_dir=str(folder), cache="1mib", as_numpy=True
    ) as loader:
        for _ in range(2):
            for values, keys in loader:
                assert [bytes(v) for v in values] == [known[key] for key in keys.tolist()]
        assert len(disk_lines(runtime)) == 1
        assert "cannot hold a chunk of this dataset" in disk_lines(runtime)[0]


def test_no_cache_asked_for_leaves_nothing_on_disk(lt, runtime, heavy, bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    loader = opened(lt, None)
    read_epoch(loader, heavy)
    assert sources(loader)["disk"] == 0
    assert loader.stats()["disk_budget"] == 0
    close(loader, runtime)
    assert not list(tmp_path.rglob(".cache"))
