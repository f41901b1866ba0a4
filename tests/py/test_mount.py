"""`leat mount`: a dataset as files for programs that know nothing of it; the same bytes, or an error that is said."""

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from augment import torchvision_v2
from conftest import ROOT, SANITIZE, assert_no_report
from loading import wait_until, warm_all

SMALL = ("--chunk-size", "64KiB")


class Mount:
    """A mount in the foreground: where it is, and what its process says."""

    def __init__(self, process, folder, stderr_path):
        self.process = process
        self.folder = folder
        self.stderr_path = stderr_path

    @property
    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"leat mount did not end\n{self.stderr}")
        finally:
            subprocess.run(["umount", "-l", self.folder], check=False, capture_output=True)
        assert_no_report("leat mount", self.process.returncode, self.stderr)


def is_mounted(folder):
    return any(line.split()[1] == str(folder) for line in Path("/proc/self/mounts").read_text().splitlines())


def lies_unread(port):
    """Whether something was sent to a port that nobody has read, or has taken the connection for."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, _, queues, *_ = line.split()
        if int(local.split(":")[1], 16) == port and int(queues.split(":")[1], 16):
            return True
    return False


@contextlib.contextmanager
def frozen(server):
    """It takes connections and never answers. All of its threads have stopped inside."""

    def is_stopped():
        tasks = Path(f"/proc/{server.process.pid}/task").glob("*/stat")
        return all(task.read_text().rsplit(")", 1)[1].split()[0] == "T" for task in tasks)

    server.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(is_stopped, 60)
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def pack(run_leat, source, to, *options):
    run_leat("pack", "--quiet", *SMALL, *options, source, to, status=0)
    return to


@pytest.fixture(scope="session")
def possible(leat_bin, tmp_path_factory):
    """Skips where mounts are not possible; anything else that is wrong is left to the tests."""
    base = tmp_path_factory.mktemp("possible")
    (base / "in").mkdir()
    (base / "in" / "a.bin").write_bytes(b"x")
    (base / "on").mkdir()
    subprocess.run([leat_bin, "pack", "--quiet", base / "in", base / "set"], check=True)
    tried = subprocess.run(
        [leat_bin, "mount", "--quiet", base / "set", base / "on"], check=False, capture_output=True, text=True
    )
    subprocess.run(["umount", base / "on"], check=False, capture_output=True)
    for why in ("/dev/fuse", "not permitted here", "built without libfuse3", "libfuse3.so"):
        if tried.returncode and why in tried.stderr:
            pytest.skip(f"mounts are not possible here: {tried.stderr.strip()}")


OWN_MOUNTS = ["unshare", "-m", "--propagation", "private"]


@pytest.fixture(scope="session")
def own_mounts():
    """Skips where a process cannot have mounts of its own, as where the root is no mount point."""
    tried = subprocess.run([*OWN_MOUNTS, "true"], check=False, capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"a process cannot have mounts of its own here: {tried.stderr.strip()}")


@pytest.fixture
def mount(possible, leat_bin, clean_env, tmp_path):
    """mount(dataset, *options) -> Mount. All of them are unmounted when the test ends."""
    mounts = []

    def start(dataset, *options, env=None):
        folder = tmp_path / f"mnt-{len(mounts)}"
        folder.mkdir()
        stderr_path = tmp_path / f"mnt-{len(mounts)}.stderr"
        command = [leat_bin, "mount", "--foreground", *options, dataset, folder]
        with open(stderr_path, "wb") as stderr:
            process = subprocess.Popen(
                [str(word) for word in command],
                env={**clean_env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        mounts.append(Mount(process, folder, stderr_path))
        line = process.stdout.readline()
        assert line.endswith(f"on {folder}\n"), f"{line!r}\n{mounts[-1].stderr}"
        return mounts[-1]

    yield start
    with contextlib.ExitStack() as stack:
        for each in mounts:
            stack.callback(each.stop)


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """Folders, names and sizes of several kinds; all below 200 kB but one."""
    draw = random.Random(5)
    folder = tmp_path_factory.mktemp("mount") / "source"
    for where in ("a", "a-b", "a/deep/er", "z", "with space", "ä"):
        (folder / where).mkdir(parents=True)
        for i in range(12):
            (folder / where / f"{i:03}.bin").write_bytes(draw.randbytes(draw.randrange(1, 200_000 if i == 7 else 9000)))
    (folder / "a" / "empty.bin").write_bytes(b"")
    (folder / "large.bin").write_bytes(draw.randbytes(3_000_000))
    return folder


@pytest.fixture(scope="session")
def packing_began():
    """The time before `packed` was made, in seconds."""
    return time.time()


@pytest.fixture(scope="session")
def packed(leat_bin, source, packing_began):
    """What is packed of `source`, and never changed."""
    dataset = source.with_name("set")
    subprocess.run([leat_bin, "pack", "--quiet", *SMALL, source, dataset], check=True)
    return dataset


@pytest.fixture
def own(packed, tmp_path):
    """A copy of it that a test may damage, or put elsewhere."""
    return shutil.copytree(packed, tmp_path / "own")


@pytest.fixture
def served(packed, serve, bucket_dir):
    """A server of it, where it is s3://bucket/set."""
    shutil.copytree(packed, bucket_dir / "bucket" / "set")
    return serve(bucket_dir)


def same(one, other):
    done = subprocess.run(["diff", "-r", one, other], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_files_are_those_that_were_packed_and_those_that_unpack_writes(mount, run_leat, source, tmp_path, packed):
    run_leat("unpack", "--quiet", packed, tmp_path / "unpacked", status=0)
    there = mount(packed)
    same(source, there.folder)
    same(tmp_path / "unpacked", there.folder)
    assert there.stderr == ""


def test_an_indexed_dataset_is_the_files_it_was_indexed_from(mount, run_leat, source, tmp_path):
    run_leat("index", "--quiet", source, tmp_path / "index", status=0)
    same(source, mount(tmp_path / "index").folder)


def test_chunks_of_an_index_that_a_job_has_put_on_disk_are_found(mount, runtime, run_leat, faulty, tmp_path, shm_path):
    """Though the agent was told the endpoint by a rank, and the mount looks it up itself."""
    server = faulty()
    files = {f"{i}.txt": b"%d" % i * 2000 for i in range(6)}
    server.objects.update({f"bucket/raw/{name}": data for name, data in files.items()})
    run_leat("index", "-q", "--chunk-size", "8KiB", "s3://bucket/raw", tmp_path / "ds", env=server.env(), status=0)
    cache = ["--cache-dir", shm_path / "cache", "--cache", "64MiB"]
    warm_all(run_leat, runtime, *cache, tmp_path / "ds", env=server.env())
    server.requests.clear()
    folder = mount(tmp_path / "ds", *cache, env=server.env()).folder
    assert {path.name: path.read_bytes() for path in folder.rglob("*.txt")} == files
    assert not [request for request in server.requests if "/raw/" in request.key]


def test_a_bucket_through_memory_for_two_chunks_and_a_cache_on_disk(mount, bucket_dir, source, tmp_path, served):
    options = ("--memory", "128KiB", "--cache-dir", tmp_path / "cache", "--cache", "64MiB")
    first = mount("s3://bucket/set", *options, env=served.s3_env())
    same(source, first.folder)
    first.stop()
    shutil.rmtree(bucket_dir / "bucket" / "set" / "leat" / "chunks")
    same(source, mount("s3://bucket/set", *options, env=served.s3_env()).folder)


def test_stat_has_sizes_and_times_and_numbers_that_stay(mount, source, packed, packing_began):
    one, other = mount(packed), mount(packed)
    seen, times = set(), set()
    for path in source.rglob("*"):
        of = path.relative_to(source)
        st = (one.folder / of).stat()
        assert st.st_ino == (other.folder / of).stat().st_ino
        seen.add(st.st_ino)
        times.add(st.st_mtime)
        if path.is_file():
            assert (st.st_size, st.st_mode & 0o777, st.st_nlink) == (path.stat().st_size, 0o444, 1)
            assert st.st_blocks == (st.st_size + 511) // 512
        else:
            assert st.st_nlink == 2 + sum(child.is_dir() for child in path.iterdir())
    assert len(seen) == sum(1 for _ in source.rglob("*"))
    assert times == {other.folder.stat().st_mtime}
    assert packing_began - 1 <= times.pop() <= time.time()
    for entry in os.scandir(one.folder):
        assert entry.inode() == entry.stat().st_ino
        assert entry.is_dir() == (source / entry.name).is_dir()


def test_nothing_can_be_written(mount, packed):
    there = mount(packed)
    with pytest.raises(OSError, match="Read-only") as caught:
        (there.folder / "new").write_bytes(b"")
    assert caught.value.errno == errno.EROFS
    with pytest.raises(OSError, match="Read-only"):
        (there.folder / "large.bin").unlink()
    with pytest.raises(FileNotFoundError):
        (there.folder / "a" / "nothing").read_bytes()
    with pytest.raises(OSError, match="too long"):
        (there.folder / ("n" * 256)).stat()


def test_grouped_samples_are_the_files_they_were_grouped_from(mount, run_leat, tmp_path):
    source = tmp_path / "pairs"
    (source / "p").mkdir(parents=True)
    for i in range(30):
        (source / "p" / f"{i:02}.txt").write_text(f"text {i}" * 50)
        (source / "p" / f"{i:02}.json").write_text(f'{{"i": {i}}}')
        (source / "p" / f"{i:02}.seg.bin").write_bytes(bytes([i]) * 1000)
    run_leat("index", "--quiet", "--group", source, tmp_path / "set", status=0)
    same(source, mount(tmp_path / "set").folder)
    run_leat("unpack", "--quiet", "--field", "txt", tmp_path / "set", tmp_path / "unpacked", status=0)
    plain = mount(tmp_path / "set", "--field", "txt")
    same(tmp_path / "unpacked", plain.folder)
    assert (plain.folder / "p" / "07").read_text() == "text 7" * 50


def test_values_that_are_compressed_come_out_whole_and_in_pieces(mount, leat, tmp_path):
    draw = random.Random(2)
    values = {f"d/{i}": b"%d " % i * draw.randrange(1, 400_000) for i in range(6)}
    with leat.Writer(str(tmp_path / "set"), {"x": "bytes"}, compress=True) as writer:
        for key, value in values.items():
            writer.write({"x": value}, key=key)
    there = mount(tmp_path / "set", "--memory", "1MiB")
    for key, value in values.items():
        with open(there.folder / key, "rb", buffering=0) as file:
            for _ in range(5):
                at, n = draw.randrange(len(value)), draw.randrange(1, 50_000)
                assert os.pread(file.fileno(), n, at) == value[at : at + n]
        assert (there.folder / key).read_bytes() == value


def test_what_cannot_be_a_file_is_named_and_refused_or_left_out(mount, leat, run_leat, tmp_path):
    keys = ["good", "..", "a//b", "/abs", "n" * 256, "f", "f/below", "good", b"nul\0", "", "deep/er"]
    with leat.Writer(str(tmp_path / "set"), {"x": leat.Optional("bytes")}) as writer:
        for i, key in enumerate(keys):
            writer.write({"x": b"%d" % i}, key=key or None)
        writer.write({}, key="absent")
    folder = tmp_path / "on"
    folder.mkdir()
    done = run_leat("mount", tmp_path / "set", folder, status=2)
    assert not is_mounted(folder)
    said = [
        "key '..' of sample 1 cannot be a path",
        "key 'a//b' of sample 2 cannot be a path",
        "key '/abs' of sample 3 cannot be a path",
        "nnn' of sample 4 cannot be a path",
        "sample 5 is the file 'f', which is a folder too: sample 6 lies in it",
        "sample 7 is the file 'good', as sample 0 is",
        "key 'nul?' of sample 8 cannot be a path",
        "sample 9 has no key",
        "sample 11 ('absent') has no 'x'",
        "9 samples cannot be files: --leave-out mounts the others",
    ]
    for line in said:
        assert line in done.stderr
    there = mount(tmp_path / "set", "--leave-out")
    for line in said[:-1]:
        assert line in there.stderr
    files = {str(p.relative_to(there.folder)): p.read_bytes() for p in there.folder.rglob("*") if p.is_file()}
    assert files == {"good": b"0", "f/below": b"6", "deep/er": b"10"}


def test_the_version_is_the_one_of_the_mount(mount, run_leat, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.bin").write_bytes(b"old" * 100)
    dataset = pack(run_leat, tmp_path / "in", tmp_path / "set")
    there = mount(dataset)
    (tmp_path / "in" / "a.bin").write_bytes(b"new!" * 100)
    pack(run_leat, tmp_path / "in", tmp_path / "set", "--replace")
    assert (there.folder / "a.bin").read_bytes() == b"old" * 100
    assert (mount(dataset).folder / "a.bin").read_bytes() == b"new!" * 100


def test_a_selection_shows_only_what_counts(mount, run_leat, source, tmp_path, own):
    keys = tmp_path / "keys.txt"
    keys.write_text("a/003.bin\nz/007.bin\n")
    run_leat("select", "--keys", keys, "--name", "few", own, status=0)
    there = mount(f"{own}?name=few")
    files = [str(p.relative_to(there.folder)) for p in sorted(there.folder.rglob("*")) if p.is_file()]
    assert files == ["a/003.bin", "z/007.bin"]
    assert (there.folder / "z" / "007.bin").read_bytes() == (source / "z" / "007.bin").read_bytes()


def test_a_large_folder_is_listed_whole_whatever_the_size_of_reads(mount, leat, tmp_path):
    names = {f"{i:05}-{'n' * (i % 90)}" for i in range(20_000)}
    with leat.Writer(str(tmp_path / "set"), {"x": "bytes"}) as writer:
        for name in names:
            writer.write({"x": b""}, key=f"all/{name}")
    there = mount(tmp_path / "set")
    assert sorted(os.listdir(there.folder / "all")) == sorted(names)
    assert {entry.name for entry in os.scandir(there.folder / "all")} == names
    # Offsets mean the same in the middle: two readers of one folder, and one that goes back.
    program = (
        "import ctypes, os, sys\n"
        "c = ctypes.CDLL(None)\n"
        "c.fdopendir.restype = c.readdir.restype = ctypes.c_void_p\n"
        "c.telldir.restype = ctypes.c_long\n"
        "d = ctypes.c_void_p(c.fdopendir(os.open(sys.argv[1], os.O_RDONLY)))\n"
        "def take():\n"
        "    e = c.readdir(d)\n"
        "    return ctypes.string_at(e + 19) if e else None\n"
        "for _ in range(7000): take()\n"
        "at = c.telldir(d)\n"
        "first = [take() for _ in range(3000)]\n"
        "c.seekdir(d, ctypes.c_long(at))\n"
        "assert [take() for _ in range(3000)] == first\n"
    )
    subprocess.run([sys.executable, "-c", program, there.folder / "all"], check=True)


def test_many_readers_get_their_own_bytes_from_little_memory(mount, source, packed):
    there = mount(packed, "--memory", "200KiB", "--ahead", "3", "--threads", "6")
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    wrong = []

    def work(seed):
        draw = random.Random(seed)
        for _ in range(150):
            path = draw.choice(files)
            want = (source / path).read_bytes()
            at = draw.randrange(len(want) + 1)
            # O_DIRECT asks the mount each time; else the kernel would answer.
            fd = os.open(there.folder / path, os.O_RDONLY | (os.O_DIRECT if draw.random() < 0.5 else 0))
            if os.pread(fd, 30_000, at) != want[at : at + 30_000]:
                wrong.append(path)
            os.close(fd)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    (said,) = there.stderr.splitlines()
    assert "the samples were permuted" in said


def damage(dataset):
    """Changes a byte in the middle of the largest chunk, and says which that is."""
    chunks = sorted(
        (p for p in (dataset / "leat" / "chunks").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size
    )
    data = bytearray(chunks[-1].read_bytes())
    data[len(data) // 2] ^= 1
    chunks[-1].write_bytes(data)
    return chunks[-1].name


def test_damage_is_an_error_and_one_line_that_names_chunk_and_object(mount, source, own):
    broken = damage(own)
    there = mount(own, "--ahead", "0")
    with pytest.raises(OSError, match="Input/output") as caught:
        (there.folder / "large.bin").read_bytes()  # the largest, which has a chunk of its own
    assert caught.value.errno == errno.EIO
    lines = there.stderr.splitlines()
    assert len(lines) == 1
    assert "chunk " in lines[0]
    assert broken in lines[0]
    for path in source.rglob("*"):
        if path.is_file() and path.name != "large.bin":
            assert (there.folder / path.relative_to(source)).read_bytes() == path.read_bytes()


def test_an_object_that_is_gone_is_an_error_that_names_it(mount, own):
    there = mount(own, "--ahead", "0")
    shutil.rmtree(own / "leat" / "chunks")
    with pytest.raises(OSError, match="Input/output"):
        (there.folder / "large.bin").read_bytes()
    assert "leat/chunks/" in there.stderr
    assert "chunk " in there.stderr


def test_an_indexed_file_that_has_changed_is_stale(mount, run_leat, source, tmp_path):
    source = shutil.copytree(source, tmp_path / "source")
    run_leat("index", "--quiet", source, tmp_path / "index", status=0)
    there = mount(tmp_path / "index", "--ahead", "0")
    (source / "large.bin").write_bytes(b"other bytes")
    with pytest.raises(OSError, match="Stale") as caught:
        (there.folder / "large.bin").read_bytes()
    assert caught.value.errno == errno.ESTALE
    assert "large.bin" in there.stderr
    assert "chunk " in there.stderr


def test_a_lost_bucket_is_an_error_after_the_deadline_and_can_come_back(mount, source, served):
    there = mount("s3://bucket/set", "--timeout", "1s", "--ahead", "0", env=served.s3_env())
    with frozen(served), pytest.raises(OSError, match="Input/output"):
        (there.folder / "large.bin").read_bytes()
    assert "chunk " in there.stderr

    def is_back():
        with contextlib.suppress(OSError):
            return (there.folder / "large.bin").read_bytes() == (source / "large.bin").read_bytes()
        return False

    wait_until(is_back, 60)


def test_a_signal_ends_it_although_a_reader_waits(mount, served):
    there = mount("s3://bucket/set", "--ahead", "0", env=served.s3_env())
    waiting = ["cat", there.folder / "large.bin"]
    with frozen(served), subprocess.Popen(waiting, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as cat:
        wait_until(lambda: lies_unread(served.port), 60)
        there.process.send_signal(signal.SIGINT)
        assert there.process.wait(timeout=60) == 0
        assert cat.wait(timeout=60) == 1
    assert not is_mounted(there.folder)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_unmounts_also_with_an_open_file(mount, how, packed):
    there = mount(packed)
    fd = os.open(there.folder / "large.bin", os.O_RDONLY)
    assert os.read(fd, 1)
    there.process.send_signal(how)
    assert there.process.wait(timeout=60) == 0
    assert not is_mounted(there.folder)
    with contextlib.suppress(OSError):  # nobody is there to hear of it
        os.close(fd)


def test_unmounting_ends_the_process(mount, packed):
    there = mount(packed)
    subprocess.run(["umount", there.folder], check=True)
    assert there.process.wait(timeout=60) == 0


@pytest.mark.skipif(not shutil.which("fusermount3"), reason="fusermount3 is what unmounts after kill -9")
def test_nothing_stays_mounted_after_kill_9(mount, own_mounts, packed):
    """fusermount3 looks at the mounts from a namespace of its own."""
    there = mount(packed)
    there.process.kill()
    there.process.wait()
    wait_until(lambda: not is_mounted(there.folder), 60)


def test_in_the_background_it_returns_when_files_are_there_and_logs_to_a_file(
    possible, run_leat, source, tmp_path, own
):
    broken = damage(own)
    folder = tmp_path / "on"
    folder.mkdir()
    done = run_leat("mount", "--log-file", tmp_path / "log", own, folder, status=0)
    try:
        assert done.stdout.startswith("74 files in 8 folders, ")
        assert done.stderr == ""
        assert (folder / "a" / "001.bin").read_bytes() == (source / "a" / "001.bin").read_bytes()
        with pytest.raises(OSError, match="Input/output"):
            (folder / "large.bin").read_bytes()
        assert broken in (tmp_path / "log").read_text()
    finally:
        subprocess.run(["umount", folder], check=True)
    assert_no_report("leat mount", 0, (tmp_path / "log").read_text())


def test_wrong_places_are_refused_before_anything_is_fetched(possible, run_leat, source, tmp_path, packed):
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "file").write_bytes(b"")
    assert "is not a folder" in run_leat("mount", packed, tmp_path / "file", status=2).stderr
    assert "is not empty" in run_leat("mount", packed, source, status=2).stderr
    assert "make it first" in run_leat("mount", packed, tmp_path / "none", status=3).stderr
    run_leat("mount", tmp_path / "no-set", empty, status=3)
    assert "no field 'nix'" in run_leat("mount", "--field", "nix", packed, empty, status=2).stderr
    assert "--threads" in run_leat("mount", "--threads", "0", packed, empty, status=2).stderr
    assert "--cache-dir" in run_leat("mount", "--cache", "1GiB", packed, empty, status=2).stderr
    assert "cannot write" in run_leat("mount", "--log-file", tmp_path / "no" / "log", packed, empty).stderr
    assert not is_mounted(empty)


def test_programs_that_know_nothing_of_it(mount, source, tmp_path, packed):
    there = mount(packed)
    shutil.copytree(there.folder, tmp_path / "copy")
    same(source, tmp_path / "copy")
    tar = subprocess.run(["tar", "-cf", "-", "-C", there.folder, "."], check=True, capture_output=True).stdout
    (tmp_path / "tar").mkdir()
    subprocess.run(["tar", "-xf", "-", "-C", tmp_path / "tar"], input=tar, check=True)
    same(source, tmp_path / "tar")
    subprocess.run(["chmod", "-R", "u+w", tmp_path / "copy", tmp_path / "tar"], check=True)


@pytest.mark.skipif(not shutil.which("fio"), reason="needs fio")
def test_fio_finds_what_it_wrote(mount, run_leat, tmp_path):
    """By every way to read: each block that it wrote has a checksum and its place in it."""
    (tmp_path / "in").mkdir()
    fio = ["fio", "--name=mount", "--thread", "--bs=64k", "--verify=crc32c", "--output-format=json"]
    written = [*fio, "--rw=write", "--size=4m", "--do_verify=0", f"--filename={tmp_path / 'in' / 'large.bin'}"]
    subprocess.run(written, cwd=tmp_path, check=True, capture_output=True)
    there = mount(pack(run_leat, tmp_path / "in", tmp_path / "set"))
    ways = [["--rw=read", "--ioengine=psync"], ["--rw=randread", "--ioengine=mmap"],
            ["--rw=randread", "--ioengine=libaio", "--direct=1", "--iodepth=8"]]  # fmt: skip
    for way in ways:
        command = [*fio, *way, "--readonly", f"--filename={there.folder / 'large.bin'}"]
        told = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert told.returncode == 0, (way, told.stderr)
        (did,) = json.loads(told.stdout[told.stdout.index("{") :])["jobs"]
        assert (did["error"], did["read"]["io_bytes"]) == (0, 4 << 20), way


@pytest.mark.long  # imports torchvision; programs_that_know_nothing_of_it lists and reads in the same way
def test_a_plain_image_folder_of_torchvision(mount, run_leat, tmp_path):
    pytest.importorskip("torch")
    if SANITIZE == "address":
        pytest.skip("torch is not loaded beside a sanitizer here: another test has the files")
    torchvision_v2()
    from PIL import Image
    from torchvision.datasets import ImageFolder

    for c, name in enumerate(("cat", "dog")):
        (tmp_path / "in" / name).mkdir(parents=True)
        for i in range(5):
            Image.new("RGB", (20, 10 + i), (100 * c, 20 * i, 9)).save(tmp_path / "in" / name / f"{i}.png")
    there = mount(pack(run_leat, tmp_path / "in", tmp_path / "set"))
    real, shown = ImageFolder(tmp_path / "in"), ImageFolder(there.folder)
    assert real.classes == shown.classes
    assert len(shown) == 10
    for (one, a), (other, b) in zip(real, shown):
        assert (a, one.size, one.tobytes()) == (b, other.size, other.tobytes())
    from torch.utils.data import DataLoader

    loader = DataLoader(shown, batch_size=3, num_workers=2, collate_fn=list)
    read = [(label, image.tobytes()) for batch in loader for image, label in batch]
    assert read == [(label, image.tobytes()) for image, label in real]


def test_who_reads_by_name_what_was_permuted_is_told(mount, run_leat, source, packed, tmp_path):
    sorted_ = pack(run_leat, source, tmp_path / "sorted", "--keep-order")
    told = "a program that reads them by name fetches a whole chunk for each file"
    for dataset, options, warned in (
        (packed, ["--memory", "128KiB"], True),
        (packed, [], False),
        (packed, ["--memory", "128KiB", "--cache-dir", tmp_path / "cache"], False),
        (sorted_, ["--memory", "128KiB"], False),
    ):
        there = mount(dataset, *options)
        there.stop()
        assert (told in there.stderr) == warned, (dataset, options, there.stderr)


AS_NOBODY = """
mount -t tmpfs -o mode=755 none /mnt || exit 77
mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse || exit 77
[ "$2" = conf ] && echo user_allow_other > /mnt/conf && mount --bind /mnt/conf /etc/fuse.conf
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp TMPDIR=/tmp"
cd "$1"
$nobody ./leat mount $3 --quiet set mnt || exit 5
$nobody cat mnt/a/001.bin > by_nobody || exit 6
cat mnt/a/001.bin > by_root && echo root reads
$nobody fusermount3 -u mnt
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(not shutil.which("fusermount3"), reason="users mount with fusermount3 (Debian: fuse3)")
@pytest.mark.parametrize(("conf", "option"), [("", ""), ("", "--allow-other"), ("conf", "--allow-other")])
def test_a_user_who_is_not_root_can_mount(possible, own_mounts, leat_bin, packed, source, conf, option):
    """In mounts of its own, with the device as other machines have it: mode 0666."""
    with tempfile.TemporaryDirectory(prefix="leat-u-", dir="/tmp") as folder:
        here = Path(folder)
        shutil.copy(leat_bin, here / "leat")
        shutil.copytree(packed, here / "set")
        (here / "mnt").mkdir()
        os.chown(here / "mnt", 65534, 65534)
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        command = [*OWN_MOUNTS, "bash", "-c", AS_NOBODY, "-", folder, conf, option]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 77:
            pytest.skip(f"no device can be made here: {done.stderr.strip()}")
        if option and not conf:
            assert done.returncode == 5
            assert "--allow-other needs 'user_allow_other' in /etc/fuse.conf" in done.stderr
            return
        assert done.returncode == 0, done.stderr
        assert (here / "by_nobody").read_bytes() == (source / "a" / "001.bin").read_bytes()
        assert ("root reads" in done.stdout) == bool(option)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_device_that_is_closed_to_the_user_is_said(possible, leat_bin):
    if os.stat("/dev/fuse").st_mode & 0o006:
        pytest.skip("it is open to all here")
    with tempfile.TemporaryDirectory(prefix="leat-u-", dir="/tmp") as folder:
        shutil.copy(leat_bin, f"{folder}/leat")
        os.mkdir(f"{folder}/mnt")
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "./leat", "mount", "set", "mnt"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "/dev/fuse may not be used by this user: its mode should be 0666" in done.stderr


@pytest.mark.parametrize("name", ["dataset-1", "kinds-1", "later-1", "optional-1", "selection-1"])
def test_golden_datasets_are_what_unpack_writes(mount, run_leat, tmp_path, name):
    done = run_leat("unpack", "--quiet", ROOT / "tests" / "golden" / name, tmp_path / "unpacked")
    if done.returncode == 1:  # a field of a type that is not known
        (tmp_path / "mnt").mkdir()
        refused = run_leat("mount", ROOT / "tests" / "golden" / name, tmp_path / "mnt", status=1)
        assert refused.stderr.endswith(done.stderr)
        return
    same(tmp_path / "unpacked", mount(ROOT / "tests" / "golden" / name, "--leave-out").folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("allowed", [True, False])
def test_others_read_only_where_they_are_allowed_to(mount, source, tmp_path, allowed, packed):
    there = mount(packed, *(["--allow-other"] if allowed else []))
    folder = os.open(tmp_path, os.O_PATH)  # the folders above it are closed to others
    tmp_path.chmod(0o755)

    def become_nobody():
        os.fchdir(folder)
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    command = ["cat", f"{there.folder.name}/a/001.bin"]
    done = subprocess.run(command, preexec_fn=become_nobody, check=False, capture_output=True)
    os.close(folder)
    if allowed:
        assert done.stdout == (source / "a" / "001.bin").read_bytes()
    else:
        assert done.returncode == 1
        assert b"Permission denied" in done.stderr
