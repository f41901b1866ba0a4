"""What tests of loaders share: small datasets, a runtime folder a test with its agents watched, and ranks as processes.

The client always comes from a build that Python can load; with ThreadSanitizer only the agent is of the build under
test, and the rest comes from build/release.
"""

import atexit
import contextlib
import functools
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from conftest import BUILD, PRELOAD, PYTHON_ENV, ROOT, SANITIZE, assert_no_report

PYTHON_BUILD = ROOT / "build" / "release" if SANITIZE == "thread" else BUILD
RANK = Path(__file__).with_name("loader_rank.py")
WARM = Path(__file__).with_name("warm.py")
SLOW = 5 if SANITIZE else 1  # sanitizers take their time


def import_leat():
    """The package, from the build that this interpreter can load."""
    if not (PYTHON_BUILD / "python").exists():
        pytest.skip(f"{PYTHON_BUILD} is not built: ThreadSanitizer's agent needs a plain client")
    path = str(PYTHON_BUILD / "python")
    if path not in sys.path:
        sys.path.insert(0, path)
    if SANITIZE == "thread" and str(BUILD / "python") in sys.path:
        sys.path.remove(str(BUILD / "python"))
    import leat

    return leat


def make_images(folder, count, classes=3, seed=1, sides=(20, 40)):
    """PNG files of noise, so that chunks fill up; {key: class}."""
    import numpy
    from PIL import Image

    draw = numpy.random.default_rng(seed)
    labels = {}
    for i in range(count):
        key = f"c{i % classes}/{i:04d}.png"
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        height, width = draw.integers(*sides, size=2)
        Image.fromarray(draw.integers(0, 256, size=(height, width, 3), dtype=numpy.uint8)).save(path)
        labels[key] = i % classes
    return labels


def make_blobs(folder, count, seed=1, sizes=(0, 3000), ending="bin"):
    """Files that are no images; {key: bytes}."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"{i:04d}.{ending}": draw.randbytes(draw.randint(*sizes)) for i in range(count)}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return files


class Packed:
    """A dataset on disk and what is known of it."""

    def __init__(self, path, known, info):
        self.path = path
        self.url = str(path)
        self.known = known
        self.samples = info["samples"]
        self.chunks = info["chunks"]


def pack(leat_bin, source, dest, *options, known=None):
    done = subprocess.run(
        [leat_bin, "pack", "--quiet", "--json", *map(str, options), str(source), str(dest)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return Packed(Path(dest), known, json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="session")
def images(leat_bin, tmp_path_factory):
    """203 small images in three classes, in about 40 chunks."""
    folder = tmp_path_factory.mktemp("images")
    known = make_images(folder / "files", 203)
    return pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "16KiB", known=known)


@pytest.fixture(scope="session")
def squares(leat_bin, tmp_path_factory):
    """96 images that have the size of a small network already, so that no two programs can resize them differently."""
    folder = tmp_path_factory.mktemp("squares")
    known = make_images(folder / "files", 96, sides=(16, 17))
    return pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "8KiB", known=known)


@pytest.fixture(scope="session")
def blobs(leat_bin, tmp_path_factory):
    """300 blobs without labels, in about 30 chunks; one is much larger than a slot provides for."""
    folder = tmp_path_factory.mktemp("blobs")
    known = make_blobs(folder / "files", 300)
    known["0007.bin"] = random.Random(7).randbytes(400_000)
    (folder / "files" / "0007.bin").write_bytes(known["0007.bin"])
    return pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "16KiB", known=known)


@pytest.fixture(scope="session")
def large(leat_bin, tmp_path_factory):
    """120 blobs, 10 MB in about 20 chunks: more than the smallest budget of a loader holds."""
    folder = tmp_path_factory.mktemp("large")
    known = make_blobs(folder / "files", 120, sizes=(60_000, 100_000))
    return pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "512KiB", known=known)


def processes_of(folder):
    """Ids of live agents whose runtime folder this is."""
    wanted = f"LEAT_RUNTIME_DIR={folder}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            if b"agent" in command and b"run" in command and wanted in Path(f"/proc/{entry}/environ").read_bytes():
                found.append(int(entry))
    return found


def wait_until(condition, timeout=60.0, what="the condition"):
    """Waits for an event. The deadline only ends a hang: it should be far longer than the event takes anywhere."""
    deadline = time.monotonic() + timeout * SLOW
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {timeout * SLOW:.0f} s"
        time.sleep(0.02)


def warm_all(run_leat, runtime, *words, env=None):
    """Fills a cache by `leat warm`. Of two chunks it may leave out the one that is still in memory at the end, and says so: then it
    is run once more."""

    def all_there():
        told = json.loads(run_leat("warm", "--json", "-q", *words, env={**runtime.env, **(env or {})}, status=0).stdout)
        runtime.wait_gone()
        return told["stored_bytes"] == told["bytes"]

    wait_until(all_there)


def threads_of(pid):
    """{thread: (its state, how often it has begun to run)} of a process."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            text = (task / "status").read_text()
            state = re.search(r"^State:\s+(\w)", text, re.M).group(1)
            found[int(task.name)] = state, sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", text)))
    return found


def is_idle(pid, thread=None):
    """Whether a process sleeps: no thread of it (or not this one) runs, can run, or has run between two looks. So it has done
    what it had to, however long that took, and one that is kept from running by others is not idle."""
    looks = []
    for _ in range(2):
        found = threads_of(pid)
        looks.append(found if thread is None else {thread: found.get(thread, ("?", 0))})
        time.sleep(0.01)
    return looks[0] == looks[1] and all(state == "S" for state, _ in looks[0].values())


@contextlib.contextmanager
def stopped(*pids):
    """These processes do not run inside. A signal takes effect when a thread runs next, which may be after the caller's
    next request: hence the wait."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for pid in pids:
            wait_until(lambda pid=pid: {state for state, _ in threads_of(pid).values()} == {"T"}, what="the stop")
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class Runtime:
    """A runtime folder of its own, the environment that points to it, and the agents in it."""

    def __init__(self, folder, env):
        self.folder = folder
        self.env = env

    def agents(self):
        return processes_of(self.folder)

    def agent(self):
        """The one agent there is."""
        found = self.agents()
        assert len(found) == 1, f"{len(found)} agents"
        return found[0]

    def kill_agents(self, number=signal.SIGKILL):
        for pid in self.agents():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def log(self):
        return "".join(p.read_text(errors="replace") for p in Path(self.folder).glob("*.log"))

    def wait_gone(self):
        """Until no agent is left; then nothing but logs may lie in the folder, unless one was killed."""
        wait_until(lambda: not self.agents(), what="the end of the agents")

    def left_behind(self):
        return sorted(p.name for p in Path(self.folder).iterdir() if p.suffix != ".log")

    def start_rank(self, loader, **job):
        """A process that runs loader_rank.py."""
        env = {**self.env, "PYTHONPATH": str(PYTHON_BUILD / "python")}
        if PRELOAD:
            env["LD_PRELOAD"] = PRELOAD
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "").replace("detect_leaks=1", "detect_leaks=0")
        return Rank(
            subprocess.Popen(
                [sys.executable, str(RANK), json.dumps({"loader": loader, **job})],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
            )
        )

    def run_world(self, world, loader, timeout=60, **job):
        """All ranks of a world at once; their lines, by rank."""
        ranks = [self.start_rank({**loader, "rank": r, "world_size": world}, **job) for r in range(world)]
        return [rank.finish(timeout) for rank in ranks]


class Rank:
    """A running rank."""

    def __init__(self, process):
        self.process = process
        self.pending = b""  # read from the pipe, not yet given out

    def read(self):
        """The next line; None at the end."""
        while b"\n" not in self.pending:
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                return None
            self.pending += piece
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def go(self):
        self.process.stdin.write(b"\n")

    def rest(self, timeout=60):
        """Waits for the end; whatever was not read yet, and what it complained about."""
        out, stderr = self.process.communicate(timeout=timeout)
        return (self.pending + out).decode(), stderr.decode(errors="replace")

    def finish(self, timeout=60, status=0):
        """Waits for the end and returns all lines that were not read yet."""
        try:
            out, stderr = self.rest(timeout * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, stderr = self.rest()
            pytest.fail(f"a rank hangs; it printed\n{out[-2000:]}\n{stderr}")
        assert_no_report("a rank", self.process.returncode, stderr)
        assert self.process.returncode == status, f"exit status {self.process.returncode}\n{out[-2000:]}\n{stderr}"
        return [json.loads(line) for line in out.splitlines()]

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)


@pytest.fixture
def runtime(leat_bin, monkeypatch):
    """A private runtime folder, short enough for a socket; no agent may be left in it when the test ends."""
    folder = tempfile.mkdtemp(prefix="leat-t-", dir="/tmp")
    for name in list(os.environ):
        if name.startswith(("AWS_", "LEAT_", "XDG_", "SLURM_")) or name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LEAT_RUNTIME_DIR", folder)
    monkeypatch.setenv("LEAT_AGENT", str(leat_bin))
    monkeypatch.setenv("LEAT_LINGER", "300ms")
    monkeypatch.setenv("LEAT_HEDGE", "off")  # as in conftest.clean_env
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    it = Runtime(folder, dict(os.environ))
    yield it
    it.kill_agents(signal.SIGTERM)
    it.wait_gone()
    log = it.log()
    shutil.rmtree(folder, ignore_errors=True)
    assert_no_report("the agent", 0, log)
    assert not re.search(r"Assertion|SIGSEGV", log), log


@pytest.fixture
def lt(runtime):
    """The package leat, with a runtime folder of this test's own."""
    return import_leat()


@pytest.fixture(params=["numpy", "torch"])
def as_numpy(request):
    """Every test of it with arrays and with tensors."""
    if request.param == "torch":
        pytest.importorskip("torch")
    return request.param == "numpy"


@pytest.fixture
def worker_env(lt, monkeypatch):
    """Transform workers load the package too: with a sanitizer they need its runtime, which conftest.py takes from everything
    else that tests start."""
    from leat import transform

    class Popen(subprocess.Popen):
        def __init__(self, command, **more):
            if "leat._worker" in command[-1]:
                more["env"] = {**more["env"], **PYTHON_ENV}
            super().__init__(command, **more)

    monkeypatch.setattr(transform.subprocess, "Popen", Popen)


def batches_of(lines):
    """The lines of a rank that are batches."""
    return [line for line in lines if "index" in line]


def global_batches(ranks):
    """[[(index, pixels, …) of all ranks], …]: what the ranks together saw in each step."""
    steps = zip(*(batches_of(lines) for lines in ranks))
    return [[sample for line in step for sample in samples_of(line)] for step in steps]


def run_here(lt, world, loader, epochs=1, batches=None, state=None, fields=("x", "y", "index", "valid")):
    """What Runtime.run_world gives, from loaders of this process that take their batches in turn: without an interpreter for
    each rank, where that is not the point."""
    import loader_rank

    outputs = {name: loader_rank.FIELDS[name]() for name in fields}
    with contextlib.ExitStack() as stack:
        ranks = []
        for rank in range(world):
            place = {"rank": rank, "world_size": world}
            made = lt.Loader(**{"fields": outputs, "as_numpy": True, "as_dict": True, **place, **loader})
            ranks.append(stack.enter_context(made))
        lines = [[] for _ in ranks]
        for rank in ranks if state else ():
            rank.load_state_dict(state)
        steps = (step for _ in range(epochs) for step in itertools.zip_longest(*ranks))
        for step in itertools.islice(steps, batches):
            assert None not in step, "every rank has as many batches"
            for batch, rank, mine in zip(step, ranks, lines):
                values = {name: loader_rank.plain(name, batch[name]) for name in fields}
                mine.append({"epoch": rank.epoch, **values, "state": rank.state_dict()})
        for rank, mine in zip(ranks, lines):
            mine.append({"end": True, "state": rank.state_dict(), "stats": rank.stats()})
    return lines


def samples_of(line):
    """(index, pixels, label) of the places that count."""
    return [
        (index, pixels, label)
        for index, pixels, label, valid in zip(line["index"], line["x"], line["y"], line["valid"])
        if valid
    ]


def numbers(lt, url, **more):
    """The sample numbers of an epoch, batch by batch."""
    with lt.Loader(url, fields={"i": lt.index()}, **{"batch_size": 24, **more}) as loader:
        return [i.tolist() for (i,) in loader]


def values_of(batches):
    """{key: bytes} of batches of keys and blobs."""
    return {key: bytes(value) for keys, values in batches for key, value in zip(keys, values)}


def content(column):
    """Something to compare: the bytes of an array or tensor, the values of a ragged column."""
    if hasattr(column, "numpy"):
        column = column.numpy()
    return column.tobytes() if hasattr(column, "tobytes") else column.tolist()


def smallest_budget(lt, url, **options):
    """The budget in bytes that a refusal names."""
    with pytest.raises(lt.Error, match="at least") as caught:
        lt.Loader(url, ram="1kib", linger=0, **options)
    return int(re.search(r'ram="(\d+)mib"', str(caught.value)).group(1)) << 20


def point_to(server, monkeypatch):
    """S3 clients of this process, and of what it starts, talk to a server from here on."""
    for name, value in (server.s3_env() if hasattr(server, "s3_env") else server.env()).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def in_bucket(serve, bucket_dir, monkeypatch):
    """in_bucket(packed, "--latency", "50ms") -> Server with the dataset as s3://bucket/ds; the environment points to it."""

    def start(packed, *options, **more):
        shutil.copytree(packed.path, bucket_dir / "bucket" / "ds", dirs_exist_ok=True)
        server = serve(bucket_dir, *options, **more)
        point_to(server, monkeypatch)
        return server

    return start


def upload(server, folder, to="bucket/ds"):
    """Files as objects of a FaultyServer."""
    for path in Path(folder).rglob("*"):
        if path.is_file():
            server.objects[f"{to}/{path.relative_to(folder)}"] = path.read_bytes()


def chunk_requests(server):
    """Those for chunks that a FaultyServer was asked so far."""
    return [request for request in server.of("GET") if "/chunks/" in request.key]


@pytest.fixture
def held(faulty, monkeypatch):
    """held(packed) -> FaultyServer with the dataset as s3://bucket/ds, which answers requests for chunks (but the first
    `after`) only when `server.go.set()` was called. So tests need no deadline to see what happens during a wait."""

    def start(packed, after=0):
        server = faulty()
        upload(server, packed.path)
        server.go = threading.Event()

        def hold(exchange):
            while not server.go.wait(0.02) and not server.stopping:
                pass
            server.proper(exchange)

        server.fault(hold, after=after, method="GET", match=lambda request: "/chunks/" in request.key)
        point_to(server, monkeypatch)
        return server

    return start


def free_port():
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@functools.cache
def warm_server():
    """The socket of a Python that has imported torch (warm.py). It ends with this process."""
    path = f"{tempfile.mkdtemp(prefix='leat-warm-', dir='/tmp')}/socket"
    atexit.register(shutil.rmtree, os.path.dirname(path), ignore_errors=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"OMP_NUM_THREADS": "1", **PYTHON_ENV}
    server = subprocess.Popen([sys.executable, WARM, "serve", path], env=env, stdin=subprocess.PIPE)
    atexit.register(server.wait)
    atexit.register(server.stdin.close)
    wait_until(lambda: os.path.exists(path) or server.poll() is not None, 60, "the socket of warm.py")
    return path


def warm_python(*args):
    """The command `python ARG…`, in a process that need not import torch any more."""
    return [sys.executable, "-IS", str(WARM), "run", warm_server(), *map(str, args)]


def torchrun(*args, ranks=2, warm=False):
    """The command that starts a program under torchrun, all by address: a machine need not know its own name. With `warm` its
    ranks need not import torch any more, as torchrun itself never does."""
    places = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
    program = ["--no-python", *warm_python(*args)] if warm else args
    return warm_python("-m", "torch.distributed.run", *places, f"--nproc-per-node={ranks}", *program)


def run_jobs(runtime, tmp_path, cases, timeout=60):
    """Runs programs/job.py with cases [(ranks, port or None), …]; what every rank of each got."""
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([{"ranks": ranks, "port": port} for ranks, port in cases]))
    program = [RANK.parent / "programs" / "job.py", path]
    python = warm_python(*program) if any(port for _, port in cases) else [sys.executable, *map(str, program)]
    process = start(runtime, python, start_new_session=True)
    try:
        out, stderr = process.communicate(timeout=timeout * SLOW)
    except subprocess.TimeoutExpired:
        pytest.fail("a case hangs")
    finally:  # with the ranks it has forked, which hang where it does
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert_no_report("a rank", process.returncode, stderr)
    assert process.returncode == 0, stderr
    return [json.loads(line) for line in out.splitlines()]


def rank_env(rank, world, local_rank=None, local_world=None, port=29500, **more):
    """A rank's environment as torchrun makes it."""
    names = {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank if local_rank is None else local_rank,
        "LOCAL_WORLD_SIZE": world if local_world is None else local_world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": "job",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": 1,
        **more,
    }
    return {name: str(value) for name, value in names.items()}


def start_python(runtime, code, *args, **env):
    return start(runtime, [sys.executable, "-c", code, *map(str, args)], **env)


def start(runtime, command, start_new_session=False, **env):
    """A Python that loads the package."""
    full = {**runtime.env, "PYTHONPATH": str(PYTHON_BUILD / "python"), **env}
    if PRELOAD:
        full["LD_PRELOAD"] = PRELOAD
        full["ASAN_OPTIONS"] = full.get("ASAN_OPTIONS", "").replace("detect_leaks=1", "detect_leaks=0")
    return subprocess.Popen(
        command,
        env=full,
        start_new_session=start_new_session,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
