"""Machines of a job for tests: each has a runtime folder, and so an agent, of its own, on the loopback or in a network
namespace. Also the dataset that they read, and checks of what they got."""

import contextlib
import http.server
import json
import os
import select
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from conftest import assert_no_report
from loading import PRELOAD, PYTHON_BUILD, SLOW, Runtime, free_port, make_blobs, pack, rank_env, warm_python

PROGRAM = Path(__file__).parent / "programs" / "machine_rank.py"


@pytest.fixture(scope="session")
def job_data(leat_bin, tmp_path_factory):
    """240 samples in about 60 chunks, in a folder to be served; nobody changes it. `bytes` is its size in the bucket."""
    folder = tmp_path_factory.mktemp("job")
    known = make_blobs(folder / "files", 240, sizes=(15000, 17000))
    (folder / "served" / "bucket").mkdir(parents=True)
    data = pack(leat_bin, folder / "files", folder / "served" / "bucket" / "ds", "--chunk-size", "64KiB", known=known)
    data.bytes = sum(p.stat().st_size for p in data.path.rglob("*") if p.is_file())
    data.served = folder / "served"
    return data


@pytest.fixture
def bucket(job_data, serve):
    """bucket(*options): the dataset behind a server that counts; (url, environment, server, dataset)."""

    def start(*options):
        server = serve(job_data.served, *options)
        return "s3://bucket/ds", server.s3_env(), server, job_data

    return start


def keys_of(lines, epoch=None):
    return [k for line in lines if "keys" in line and epoch in (None, line["epoch"]) for k in line["keys"]]


def check_lengths(lines, packed):
    for line in lines:
        assert all(n == len(packed.known[k]) for k, n in zip(line.get("keys", ()), line.get("sums", ())))


def check_epochs(lines, packed, epochs=1):
    """By machines that read together: every sample of every epoch once, and as long as it was."""
    for epoch in range(epochs):
        assert sorted(k for each in lines for k in keys_of(each, epoch)) == sorted(packed.known), f"epoch {epoch}"
    for each in lines:
        check_lengths(each, packed)


def jobs_of(run_leat, runtime):
    """What `leat job` says of a machine."""
    done = run_leat("job", "--json", env={"LEAT_RUNTIME_DIR": runtime.folder}, status=0)
    return [json.loads(line) for line in done.stdout.splitlines()]


def launched(runtime):
    """The environment of a machine's ranks, on the loopback."""
    env = {
        **runtime.env,
        "PYTHONPATH": str(PYTHON_BUILD / "python"),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    if PRELOAD:
        env["LD_PRELOAD"] = PRELOAD
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "").replace("detect_leaks=1", "detect_leaks=0")
    return env


class Machines:
    """Several machines of one job, with a rank on each."""

    def __init__(self, base, n, netns=None):
        self.runtimes = []
        self.netns = netns
        for _ in range(n):
            folder = tempfile.mkdtemp(prefix="leat-m-", dir="/tmp")
            self.runtimes.append(Runtime(folder, {**base.env, "LEAT_RUNTIME_DIR": folder, "LEAT_LINGER": "20s"}))

    def inside(self, i):
        """What puts a program of programs/ into the machine's namespace (programs/namespace.py)."""
        return {"NETNS": self.netns[i]} if self.netns else {}

    def start(self, job, env=None, master="127.0.0.1", more=None):
        """A rank on each machine; their processes."""
        port = free_port()
        world = len(self.runtimes)
        ranks = []
        for r, runtime in enumerate(self.runtimes):
            full = {**launched(runtime), **rank_env(r, world, 0, 1, port), "MASTER_ADDR": master, **self.inside(r)}
            full |= {**(env or {}), **(more[r] if more else {})}
            command = warm_python(PROGRAM, json.dumps(job))
            ranks.append(subprocess.Popen(command, env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return ranks

    def torchrun(self, job, env, folder, ranks=2):
        """Real torchrun on each machine, with this many ranks; what all of them printed."""
        folder = tempfile.mkdtemp(dir=folder)
        port = free_port()
        started = []
        for node, runtime in enumerate(self.runtimes):
            command = warm_python(
                *("-m", "torch.distributed.run", f"--nnodes={len(self.runtimes)}", f"--node-rank={node}"),
                *(f"--nproc-per-node={ranks}", "--master-addr=127.0.0.1", f"--master-port={port}", "--redirects=1"),
                *(f"--log-dir={folder}/{node}", "--no-python", *warm_python(PROGRAM, json.dumps(job))),
            )
            full = {**launched(runtime), **env}
            started.append(
                subprocess.Popen(command, env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
        try:
            printed = [p.communicate(timeout=120 * SLOW) for p in started]
        finally:
            for p in started:
                p.kill()
        assert [p.returncode for p in started] == [0] * len(started), printed
        texts = [p.read_text() for p in sorted(Path(folder).rglob("stdout.log"))]
        return [[json.loads(line) for line in text.splitlines()] for text in texts]

    def close(self):
        for runtime in self.runtimes:
            runtime.kill_agents(signal.SIGTERM)
        for runtime in self.runtimes:
            runtime.wait_gone()
            log = runtime.log()
            shutil.rmtree(runtime.folder, ignore_errors=True)
            assert_no_report("the agent", 0, log)


def finish(process, timeout=90, status=0):
    """What a rank printed."""
    try:
        out, stderr = process.communicate(timeout=timeout * SLOW)
    except subprocess.TimeoutExpired:
        process.kill()
        out, stderr = process.communicate()
        pytest.fail(f"a rank hangs; it printed\n{out[-2000:]}\n{stderr[-2000:]}")
    assert_no_report("a rank", process.returncode, stderr)
    assert process.returncode == status, f"exit status {process.returncode}\n{out[-1000:]}\n{stderr[-3000:]}"
    return [json.loads(line) for line in out.splitlines()], stderr


@pytest.fixture
def machines(runtime):
    """machines(3) -> Machines on the loopback."""
    made = []

    def make(n, **more):
        made.append(Machines(runtime, n, **more))
        return made[-1]

    yield make
    with contextlib.ExitStack() as stack:
        for one in made:
            stack.callback(one.close)


class FakePeer:
    """A machine of the job that misbehaves: answers(path) -> (status, bytes), None for silence."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                fake.asked.append((self.path, self.headers.get("Authorization", "")))
                answer = fake.answers(self.path)
                if answer is None:
                    fake.end.wait(30)
                    self.close_connection = True
                    return
                code, body = answer
                if isinstance(code, bytes):  # no HTTP at all
                    self.wfile.write(code)
                    self.close_connection = True
                    return
                wanted = self.headers.get("Range", "")
                if code == 200 and wanted:
                    first, last = (int(n) for n in wanted.removeprefix("bytes=").split("-"))
                    self.send_response(206)
                    self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
                    body = body[first : last + 1]
                else:
                    self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.end = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def begin(self, folder, cert, key):
        (folder / "cert.pem").write_text(cert)
        (folder / "key.pem").write_text(key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        # handshakes on the connection's own thread: one that fails must not end the server
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.end.set()
        self.server.shutdown()
        self.server.server_close()


def wait_for_lines(process, n, timeout=60):
    """Reads n lines of a running rank, and not a byte more: communicate() knows nothing of what a buffer holds, and would lose it
    whenever the rank was ahead."""
    fd = process.stdout.fileno()
    lines = []
    line = b""
    deadline = time.monotonic() + timeout * SLOW
    while len(lines) < n and time.monotonic() < deadline:
        if not select.select([fd], [], [], max(0, deadline - time.monotonic()))[0]:
            continue
        byte = os.read(fd, 1)
        if not byte:
            break
        line += byte
        if byte == b"\n":
            lines.append(json.loads(line))
            line = b""
    return lines


class NoNetwork(Exception):
    """Why this machine has no network namespaces for us."""


class Network:
    """n namespaces on one bridge, 10.123.K.1 … n, and the host at .254. Names hold the process's id: others test too."""

    def __init__(self, n):
        self.names = []
        self.tag = f"{os.getpid() % 100000:x}"
        self.net = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self.bridge = f"lb{self.tag}"
        self.host = f"{self.net}.254"
        try:
            self.set_up(n)
        except NoNetwork:
            with contextlib.suppress(FileNotFoundError):
                self.close()
            raise

    def set_up(self, n):
        self.run("link", "add", self.bridge, "type", "bridge")
        self.run("addr", "add", f"{self.host}/24", "dev", self.bridge)
        self.run("link", "set", self.bridge, "up")
        for i in range(n):
            name = f"leat{self.tag}-{i}"
            self.run("netns", "add", name)
            self.names.append(name)
            self.run("link", "add", self.outer(i), "type", "veth", "peer", "name", "eth0", "netns", name)
            self.run("link", "set", self.outer(i), "master", self.bridge, "up")
            self.inside(i, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            self.inside(i, "link", "set", "eth0", "up")
            self.inside(i, "link", "set", "lo", "up")

    def run(self, *args, before=()):
        try:
            subprocess.run([*before, "ip", *args], check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise NoNetwork("ip is not installed (Debian's iproute2)") from None
        except subprocess.CalledProcessError as error:
            raise NoNetwork(f"ip {' '.join(args)}: {error.stderr.strip()}") from None

    def entered(self, i):
        """What runs a command there. `ip netns exec` needs mounts of its own, too."""
        return ["nsenter", f"--net=/run/netns/{self.names[i]}"]

    def inside(self, i, *args):
        self.run(*args, before=self.entered(i))

    def outer(self, i):
        return f"lv{self.tag}{i}"

    def address(self, i):
        return f"{self.net}.{i + 1}"

    def part(self, i, other):
        """The two no longer reach each other; both still reach the host."""
        for a, b in ((i, other), (other, i)):
            self.inside(a, "route", "add", "blackhole", f"{self.address(b)}/32")

    def drop(self, i, what, hook="output"):
        """Machine i no longer sends, or lets in, packets that `what` describes to nftables."""
        chain = f"add table ip box; add chain ip box c {{ type filter hook {hook} priority 0; }}"
        self.filter(i, f"{chain}; add rule ip box c {what} drop")

    def drop_nothing(self, i):
        self.filter(i, "delete table ip box")

    def filter(self, i, rules):
        done = subprocess.run([*self.entered(i), "nft", rules], check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"nftables do not work here: {done.stderr.strip()}")

    def heal(self, i, other):
        for a, b in ((i, other), (other, i)):
            self.inside(a, "route", "del", "blackhole", f"{self.address(b)}/32")

    def close(self):
        for i, name in enumerate(self.names):
            subprocess.run(["ip", "link", "del", self.outer(i)], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], check=False, capture_output=True)


@pytest.fixture
def network():
    """network(2) -> Network; skipped where the machine does not allow one."""
    made = []

    def make(n):
        try:
            made.append(Network(n))
        except NoNetwork as why:
            pytest.skip(f"no network namespaces here: {why}")
        return made[-1]

    yield make
    for one in made:
        one.close()
