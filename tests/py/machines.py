"""Machines of a job for tests: each has a runtime folder, and so an agent, of its own, on the loopback or in a network
namespace."""

import contextlib
import http.server
import json
import os
import select
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from conftest import assert_no_report
from loading import PRELOAD, PYTHON_BUILD, SLOW, Runtime, free_port, rank_env, warm_python

PROGRAM = Path(__file__).parent / "programs" / "machine_rank.py"


def launched(runtime):
    """The environment of a machine's torchrun, on the loopback."""
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

    def start(self, job, env=None, master="127.0.0.1", more=None):
        """A rank on each machine; their processes."""
        port = free_port()
        world = len(self.runtimes)
        ranks = []
        for r, runtime in enumerate(self.runtimes):
            full = {
                **runtime.env,
                **rank_env(r, world, 0, 1, port),
                "MASTER_ADDR": master,
                "PYTHONPATH": str(PYTHON_BUILD / "python"),
                **(env or {}),
                **(more[r] if more else {}),
            }
            if PRELOAD:
                full["LD_PRELOAD"] = PRELOAD
                full["ASAN_OPTIONS"] = full.get("ASAN_OPTIONS", "").replace("detect_leaks=1", "detect_leaks=0")
            command = [PROGRAM, json.dumps(job)]
            if self.netns:
                command = ["ip", "netns", "exec", self.netns[r], sys.executable, *command]
            else:
                command = warm_python(*command)
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


def keys_of(lines, epoch=None):
    return [k for line in lines if "keys" in line and epoch in (None, line["epoch"]) for k in line["keys"]]


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


def netns_possible():
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    name = f"leat-try-{os.getpid()}"
    ok = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if ok:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return ok


class Network:
    """n namespaces on one bridge, 10.123.K.1 … n, and the host at .254. Names hold the process's id: others test too."""

    def __init__(self, n):
        self.names = []
        self.tag = f"{os.getpid() % 100000:x}"
        self.net = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self.bridge = f"lb{self.tag}"
        self.host = f"{self.net}.254"
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

    def run(self, *args):
        subprocess.run(["ip", *args], check=True, capture_output=True)

    def inside(self, i, *args):
        self.run("-n", self.names[i], *args)

    def outer(self, i):
        return f"lv{self.tag}{i}"

    def address(self, i):
        return f"{self.net}.{i + 1}"

    def part(self, i, other):
        """The two no longer reach each other; both still reach the host."""
        for a, b in ((i, other), (other, i)):
            self.inside(a, "route", "add", "blackhole", f"{self.address(b)}/32")

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
    """network(2) -> Network; skipped where namespaces are not permitted."""
    if not netns_possible():
        pytest.skip("network namespaces need root and a kernel that lets it make them")
    made = []

    def make(n):
        made.append(Network(n))
        return made[-1]

    yield make
    for one in made:
        one.close()
