"""What every black-box test shares: the command, a server over a folder, and a clean environment.

Tests see the build in $LEAT_BUILD (build/release unless told otherwise; `make asan` points it at build/asan), no
settings of the person who runs them, and no proxy. A sanitizer's report in anything started here is a failure.
"""

import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

pytest_plugins = ["loading", "profiling", "machines", "etcd_box"]

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LEAT_BUILD", ROOT / "build" / "release")).resolve()
SANITIZE = os.environ.get("LEAT_SANITIZE", "")
THIN = bool(os.environ.get("SUITE_THIN"))
BEGAN = pytest.StashKey()

# `make asan` preloads the runtime into the interpreter and turns leak detection off there. Neither is right for what
# tests start: `leat` has the runtime linked in, and its leaks are ours.
PRELOAD = os.environ.pop("LD_PRELOAD", "")
if SANITIZE == "address":
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "").replace("detect_leaks=0", "detect_leaks=1")
# Where the matrix products of torch round differs from processor to processor, and with it which pixel an affine map takes.
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")
# What a Python that loads the package needs besides its environment.
PYTHON_ENV = {}
if PRELOAD:
    PYTHON_ENV = {
        "LD_PRELOAD": PRELOAD,
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "").replace("detect_leaks=1", "detect_leaks=0"),
    }


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Gives pytest's workers what this process was started with: they load the package, and this one runs no test."""
    os.environ.update(PYTHON_ENV)


# Files that take longest, the longest first. A worker takes whole files, so those that come last should be short.
LONGEST = [
    "test_profile.py",
    "test_docs.py",
    "test_frameworks.py",
    "test_etcd.py",
    "test_clouds.py",
    "test_checksums.py",
    "test_serve_hostile.py",
    "test_transform_faults.py",
    "test_transform.py",
    "test_profile_faults.py",
    "test_keys.py",
    "test_hf.py",
    "test_augment_draws.py",
    "test_image_formats.py",
    "test_index.py",
    "test_job.py",
    "test_tokens.py",
    "test_loader_no_memory.py",
    "test_profile_frameworks.py",
    "test_share.py",
    "test_types.py",
    "test_store_answers.py",
]


def runs_here(item):
    return not any(mark.args and mark.args[0] for mark in item.iter_markers("skipif"))


def thin_out(items, long):
    """What a sanitizer needs to see, and the rest: no test in which all of our code is Python, and one case of each
    parametrization, the first that runs here, unless each runs other code (SUITE_THIN, tools/suite). The release build runs
    all of them."""
    wanted, left = [], []
    seen = set()
    for item in items:
        name = item.name if item.get_closest_marker("every_case") else getattr(item, "originalname", item.name)
        again = THIN and (item.path, name) in seen
        (left if again or item.get_closest_marker("python_only") else wanted).append(item)
        if runs_here(item) and (long or not item.get_closest_marker("long")):
            seen.add((item.path, name))
    return wanted, left


def pytest_collection_modifyitems(config, items):
    """Workers are given files in the order of LONGEST, then those with most tests. A long test has an hour."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))
    if SANITIZE:
        items[:], left = thin_out(items, "not long" not in config.getoption("markexpr"))
        config.hook.pytest_deselected(items=left)
    if hasattr(config, "workerinput"):
        tests = collections.Counter(item.path.name for item in items)
        rank = {name: i for i, name in enumerate(LONGEST)}
        items.sort(key=lambda item: (rank.get(item.path.name, len(rank)), -tests[item.path.name], item.path.name))


def processor_time():
    """Of this process and of all children that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    item.stash[BEGAN] = processor_time()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Puts into the JUnit file what the test took of the processor; tools/times sums it up."""
    outcome = yield
    if call.when == "teardown":
        used = processor_time() - item.stash[BEGAN]
        outcome.get_result().user_properties.append(("processor_s", f"{used:.2f}"))


# What runs in this process has its environment: no test may ask the machine's own metadata service for keys.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

sys.path.insert(0, str(BUILD / "python"))

# A shell starts what it runs in the background with Ctrl-C ignored, and children inherit that. Tests press it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SANITIZER_EXIT = 99
SANITIZER_REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:")


def assert_no_report(name, returncode, stderr):
    """Fails with the report when a sanitizer of a child process had something to say."""
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr
    if returncode == SANITIZER_EXIT or SANITIZER_REPORT.search(text):
        pytest.fail(f"{name}: a sanitizer stopped it\n{text}", pytrace=False)


@pytest.fixture(scope="session")
def leat_build():
    """The build folder under test."""
    return BUILD


@pytest.fixture(scope="session")
def leat_bin():
    """The path of the command `leat`."""
    path = BUILD / "src" / "cli" / "leat"
    if not path.exists():
        pytest.exit(f"{path} is not there: run make first, or set LEAT_BUILD", returncode=2)
    return path


@pytest.fixture(scope="session")
def shared_bin(leat_bin):
    """The command where every user can run it: a clone below /root cannot be reached by others."""
    with tempfile.TemporaryDirectory(prefix="leat-shared-") as folder:
        os.chmod(folder, 0o755)
        yield Path(shutil.copy(leat_bin, folder))


@pytest.fixture(scope="session")
def leat():
    """The Python package, imported from the build folder."""
    if SANITIZE == "thread":
        pytest.skip("the interpreter cannot load a ThreadSanitizer extension")
    import leat as module

    assert Path(module.__file__).is_relative_to(BUILD), "imported another leat than the one just built"
    return module


@pytest.fixture
def clean_env(tmp_path):
    """The environment for commands: no settings, keys or proxies of the user who runs the tests, and a home of its own."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(
            ("AWS_", "LEAT_", "XDG_", "GOOGLE_", "GS_", "GCE_", "AZURE_", "STORAGE_", "HF_", "HUGGING")
        )
        and not name.lower().endswith("_proxy")
    }
    env["HOME"] = str(home)
    env["LC_ALL"] = "C.UTF-8"
    # Away from the test machine the instance's own credentials would be asked for, over the network.
    env["AWS_EC2_METADATA_DISABLED"] = "true"
    # Tests count requests, and on a busy machine some are late.
    env["LEAT_HEDGE"] = "off"
    return env


@pytest.fixture
def run_leat(leat_bin, clean_env):
    """run_leat("ls", url, env={...}, status=0) -> CompletedProcess with text in stdout and stderr.

    `env` is added to the clean environment (None removes a name). `status` is asserted when given.
    `text=False` gives bytes. Other keywords go to subprocess.run.
    """

    def run(*args, env=None, status=None, timeout=120, text=True, **more):
        full = dict(clean_env)
        for name, value in (env or {}).items():
            if value is None:
                full.pop(name, None)
            else:
                full[name] = str(value)
        more.setdefault("stdin", subprocess.DEVNULL if "input" not in more else None)
        if more["stdin"] is None:
            del more["stdin"]
        if not {"stdout", "stderr", "capture_output"} & more.keys():
            more["capture_output"] = True
        command = [str(leat_bin), *map(str, args)]
        done = subprocess.run(command, env=full, timeout=timeout, text=text, check=False, **more)
        assert_no_report(" ".join(command), done.returncode, done.stderr or "")
        if status is not None:
            assert done.returncode == status, (
                f"{' '.join(command)}: exit status {done.returncode}, not {status}\n{done.stderr or ''}"
            )
        return done

    return run


@pytest.fixture
def run_python(leat_build, clean_env):
    """run_python("import leat; …") -> CompletedProcess: a fresh interpreter that can import the built package."""
    if SANITIZE == "thread":
        pytest.skip("the interpreter cannot load a ThreadSanitizer extension")

    def run(code, *args, env=None, timeout=120):
        full = {**clean_env, **(env or {}), "PYTHONPATH": str(leat_build / "python")}
        full |= PYTHON_ENV
        command = [sys.executable, "-c", code, *map(str, args)]
        done = subprocess.run(command, env=full, timeout=timeout, text=True, capture_output=True, check=False)
        assert_no_report("python -c …", done.returncode, done.stderr)
        return done

    return run


class Server:
    """A running `leat serve`."""

    def __init__(self, process, line, url, stderr_path):
        self.process = process
        self.line = line  # what it printed first: the URL, or an object with --json
        self.url = url  # "http://127.0.0.1:PORT", no slash at the end
        self.stderr_path = stderr_path

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    @property
    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def stats(self):
        """What the server counted so far, from /-/stats."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + "/-/stats", timeout=30) as answer:
            return json.load(answer)

    def log(self, after=0):
        """The requests after number `after`, one dictionary each, from /-/log."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/-/log?after={after}", timeout=30) as answer:
            return [json.loads(line) for line in answer]

    def s3_env(self, access_key="test", secret_key="test-secret", region="us-east-1"):
        """Variables that point an S3 client at this server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": access_key,
            "AWS_SECRET_ACCESS_KEY": secret_key,
            "AWS_REGION": region,
        }

    def stop(self, timeout=20):
        """Ends it the way Ctrl-C does and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                pytest.fail(f"leat serve did not end within {timeout} s of SIGTERM\n{self.stderr}")
        self.process.stdout.close()
        assert_no_report("leat serve", self.process.returncode, self.stderr)
        return self.process.returncode


def read_first_line(process, stderr_path, timeout):
    """The first line of a child's stdout; fails with its stderr when none comes."""
    os.set_blocking(process.stdout.fileno(), False)
    line = b""
    deadline = time.monotonic() + timeout
    while not line.endswith(b"\n"):
        piece = process.stdout.read() or b""
        line += piece
        if piece:
            continue
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            stderr = stderr_path.read_text(errors="replace")
            assert_no_report("leat serve", process.returncode, stderr)
            pytest.fail(f"leat serve printed no URL (exit status {process.returncode})\n{stderr}")
        time.sleep(0.01)
    return line.decode()


@pytest.fixture
def serve(leat_bin, clean_env, tmp_path):
    """serve(folder, "--latency", "50ms", env={...}) -> Server. All of them are stopped when the test ends."""
    servers = []

    def start(folder, *options, env=None, timeout=30):
        stderr_path = tmp_path / f"serve-{len(servers)}.stderr"
        command = [str(leat_bin), "serve", str(folder), "--port", "0", *map(str, options)]
        with open(stderr_path, "wb") as stderr:
            process = subprocess.Popen(
                command,
                env={**clean_env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        line = read_first_line(process, stderr_path, timeout)
        found = re.search(r"https?://[^\s/\"]+", line)
        if not found:
            process.kill()
            process.wait()
            pytest.fail(f"no URL in the first line of leat serve: {line!r}")
        servers.append(Server(process, line, found.group(), stderr_path))
        return servers[-1]

    yield start
    with contextlib.ExitStack() as stack:  # all of them, also when one has something to complain of
        for server in servers:
            stack.callback(server.stop)


@pytest.fixture
def bucket_dir(tmp_path):
    """An empty folder to be served: every folder in it is a bucket, and one called "bucket" is there."""
    folder = tmp_path / "served"
    (folder / "bucket").mkdir(parents=True)
    return folder


@pytest.fixture
def faulty():
    """faulty(tls=None, …) -> FaultyServer: an S3 server that misbehaves on command. Stopped when the test ends."""
    from faulty_server import FaultyServer

    servers = []

    def start(**options):
        servers.append(FaultyServer(**options))
        return servers[-1]

    yield start
    with contextlib.ExitStack() as stack:  # all of them, also when one has something to complain of
        for server in servers:
            stack.callback(server.stop)


@pytest.fixture
def server(faulty):
    """One of them, with nothing in it and nothing amiss yet."""
    return faulty()


@pytest.fixture
def shm_path():
    """A folder in memory, where fsync costs nothing, and open to others."""
    path = Path(tempfile.mkdtemp(prefix="leat-test-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    path.chmod(0o755)
    yield path
    subprocess.run(["chmod", "-R", "u+rwx", str(path)], check=False)
    shutil.rmtree(path)


@pytest.fixture
def save(tmp_path):
    def run(image, name, **options):
        path = tmp_path / name
        image.save(path, **options)
        return path

    return run


@pytest.fixture
def pixels_of(run_leat, tmp_path):
    """pixels_of(path, "--resize", 64) -> array of what the command wrote."""

    def run(path, *args):
        out = tmp_path / "out.png"
        run_leat("image", path, "-o", out, *args, status=0)
        import numpy as np
        from PIL import Image

        return np.array(Image.open(out))

    return run
