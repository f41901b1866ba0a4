"""An etcd for tests: Debian's own server in a folder of its own, which can be killed, started again and robbed of its data.
Also trainings that share through it, and a way to it that can be closed."""

import contextlib
import copy
import itertools
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from base64 import b64decode, b64encode

import pytest
from loading import SLOW, free_port, wait_until
from machines import PROGRAM, check_lengths, launched, warm_python

POOL = PROGRAM.with_name("pool_rank.py")


def coded(text):
    return b64encode(text.encode()).decode()


def _read(value):
    try:
        return json.loads(value)
    except ValueError:
        return value  # not one of Leat's


class Etcd:
    """A server, or one test's view of a server that tests share: its jobs have names of their own."""

    def __init__(self, host="127.0.0.1", tls=None, client=False, options=()):
        self.folder = tempfile.mkdtemp(prefix="leat-etcd-", dir="/tmp")
        self.host, self.port, self.tls, self.client = host, free_port(), tls, client
        self.options = list(options)
        self.process = None
        self.token = ""
        self.prefix = ""

    def view(self, prefix):
        other = copy.copy(self)
        other.prefix = prefix
        return other

    def url(self, name, user="", hosts=None):
        scheme = "etcds" if self.tls else "etcd"
        return f"{scheme}://{user + '@' if user else ''}{hosts or f'{self.host}:{self.port}'}/{self.prefix}{name}"

    def key(self, name, end):
        return coded(f"/leat/{self.prefix}{name}{end}")

    def start(self):
        scheme = "https" if self.tls else "http"
        client = f"{scheme}://{self.host}:{self.port}"
        command = ["etcd", "--data-dir", f"{self.folder}/data", "--listen-client-urls", client, "--advertise-client-urls", client,
                   "--listen-peer-urls", f"http://127.0.0.1:{free_port()}", "--logger", "zap", "--log-level", "error"]  # fmt: skip
        if self.tls:
            command += ["--cert-file", str(self.tls / "cert.pem"), "--key-file", str(self.tls / "key.pem")]
        if self.client:
            command += ["--client-cert-auth", "--trusted-ca-file", str(self.tls / "cert.pem")]
        command += self.options
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self.answers, 30 * SLOW, "etcd to serve")
        return self

    def answers(self):
        if self.process.poll() is not None:
            pytest.fail("etcd ended: " + open(f"{self.folder}/log").read()[-1000:])
        try:
            self.ask("kv/range", key=coded("/"), keys_only=True)
        except (urllib.error.HTTPError, ConnectionResetError):
            return True  # it wants to know who asks
        except OSError:
            return False
        return True

    def ask(self, path, **body):
        request = urllib.request.Request(
            f"http{'s' if self.tls else ''}://{self.host}:{self.port}/v3/{path}",
            json.dumps(body).encode(),
            {"Authorization": self.token} if self.token else {},
        )
        anybody = ssl._create_unverified_context() if self.tls else None
        if self.client:
            anybody.load_cert_chain(self.tls / "cert.pem", self.tls / "key.pem")
        with urllib.request.urlopen(request, timeout=10 * SLOW, context=anybody) as answer:
            return json.load(answer)

    def log_in(self, name, password):
        self.token = ""
        self.token = self.ask("auth/authenticate", name=name, password=password)["token"]

    def keys(self, name):
        """What a job has in it, by the ends of its keys."""
        found = self.ask("kv/range", key=self.key(name, "/"), range_end=self.key(name, "0")).get("kvs", [])
        start = len(b64decode(self.key(name, "")))
        return {b64decode(kv["key"]).decode()[start:]: _read(b64decode(kv["value"])) for kv in found}

    def put(self, name, end, value):
        self.ask("kv/put", key=self.key(name, end), value=coded(value))

    def put_members(self, name, members):
        self.put(name, "/members", json.dumps(members))

    def left(self, name, address):
        """(lease, seconds) for which a machine is still known without another word from it; None: it is not known."""
        found = self.ask("kv/range", key=self.key(name, f"/alive/{address}")).get("kvs", [])
        return found and (found[0]["lease"], int(self.ask("lease/timetolive", ID=found[0]["lease"]).get("TTL", -1)))

    def alive(self, name):
        return [key.removeprefix("/alive/") for key in self.keys(name) if key.startswith("/alive/")]

    def members(self, name):
        return self.keys(name).get("/members")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def lose_data(self):
        shutil.rmtree(f"{self.folder}/data")

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_etcd():
    """A server for all tests that do it no harm, and the numbers of their views."""
    if not shutil.which("etcd"):
        pytest.skip("etcd is not installed (Debian's etcd-server)")
    with contextlib.closing(Etcd()) as server:
        yield server.start(), itertools.count()


@pytest.fixture
def etcd(shared_etcd):
    """etcd() -> a view of a server that other tests use too. etcd(own=True), or with options: one of this test's own."""
    made = []

    def make(own=False, **more):
        if not own and not more:
            server, number = shared_etcd
            return server.view(f"t{next(number)}-")
        made.append(Etcd(**more))
        return made[-1].start()

    yield make
    with contextlib.ExitStack() as stack:
        for one in made:
            stack.callback(one.close)


class Way:
    """A port that leads to another one. It notes what etcd is asked by it and how often it was taken, and can be closed. Once it
    `falls`, it is silent from the next look on, as a machine is that has lost its network."""

    def __init__(self, port):
        self.to, self.taken, self.asked, self.silent, self.falls = port, 0, [], False, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = [self.listener]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                here = self.listener.accept()[0]
                there = socket.create_connection(("127.0.0.1", self.to))
                self.open += [here, there]
                self.taken += 1
                threading.Thread(target=self.carry, args=(here, there, True), daemon=True).start()
                threading.Thread(target=self.carry, args=(there, here, False), daemon=True).start()

    def carry(self, source, to, questions):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                found = re.findall(rb"POST /v3/(\S+)", data) if questions else []
                self.asked += [path.decode() for path in found]
                self.silent = self.silent or (self.falls and b"kv/range" in found)
                if not self.silent:
                    to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def close(self):
        for one in list(self.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def start_alone(group, i, job, env):
    """A training of its own on machine i: a world of one."""
    full = {**launched(group.runtimes[i]), **group.inside(i), **env}
    # A library that is preloaded has to come before the interpreter.
    command = [sys.executable, str(POOL)] if "LD_PRELOAD" in env else warm_python(POOL)
    return subprocess.Popen(
        [*command, json.dumps(job)], env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end_machine(rank, runtime, number=signal.SIGKILL):
    """Kills a rank; when it is gone, and starts no other agent, `number` goes to the agent."""
    rank.kill()
    rank.communicate()
    runtime.kill_agents(number)


class Training:
    """Reads on and on in the background, as often as its machine is killed: each time it resumes where it was."""

    def __init__(self, group, i, job, env):
        self.group, self.i, self.job, self.env = group, i, job, env
        self.lines = []
        self.begin()

    def begin(self):
        last = self.lines[-1] if self.lines else {}
        self.process = start_alone(self.group, self.i, {**self.job, "state": last.get("state")}, self.env)
        self.thread = threading.Thread(target=self.read, args=(self.process,))
        self.thread.start()

    def read(self, process):
        for line in process.stdout:
            if line.endswith("}\n"):
                self.lines.append(json.loads(line))

    def kill(self):
        """The whole machine: its rank and its agent."""
        self.process.kill()
        self.thread.join()
        self.group.runtimes[self.i].kill_agents(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def wait_for_more(self, n):
        least = len(self.lines) + n
        wait_until(
            lambda: len(self.lines) >= least or self.process.poll() is not None, 120, f"machine {self.i} to read on"
        )
        assert len(self.lines) >= least, self.process.stderr.read()[-2000:]

    def check(self, packed):
        """It has read whole epochs of right samples, each once."""
        check_lengths(self.lines, packed)
        keys = {}
        for line in self.lines:
            if "keys" in line:
                keys.setdefault(line["epoch"], []).extend(line["keys"])
        assert sorted(keys) == list(range(len(keys)))
        for epoch, got in keys.items():
            assert len(set(got)) == len(got), f"machine {self.i}, epoch {epoch}: twice"
            assert epoch == max(keys) or len(got) == len(packed.known), f"machine {self.i}, epoch {epoch}: {len(got)}"


@contextlib.contextmanager
def trainings(group, job, env, more=None):
    """One training on each machine of a group, each with a seed of its own; all of them are killed in the end."""
    running = [
        Training(group, i, {**job, "seed": i}, {**env, **(more[i] if more else {})}) for i in range(len(group.runtimes))
    ]
    try:
        yield running
    finally:
        for each in running:
            each.kill()
