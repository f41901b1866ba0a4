"""An etcd for tests: Debian's own server in a folder of its own, which can be killed, started again and robbed of its data."""

import json
import shutil
import signal
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from base64 import b64decode, b64encode

import pytest
from loading import SLOW, free_port, wait_until

__all__ = ["coded", "etcd"]


def coded(text):
    return b64encode(text.encode()).decode()


def _read(value):
    try:
        return json.loads(value)
    except ValueError:
        return value  # not one of Leat's


class Etcd:
    def __init__(self, host="127.0.0.1", tls=None, options=()):
        self.folder = tempfile.mkdtemp(prefix="leat-etcd-", dir="/tmp")
        self.host, self.port, self.tls = host, free_port(), tls
        self.options = list(options)
        self.process = None
        self.token = ""

    def url(self, name, user=""):
        return f"etcd{'s' if self.tls else ''}://{user + '@' if user else ''}{self.host}:{self.port}/{name}"

    def start(self):
        scheme = "https" if self.tls else "http"
        client = f"{scheme}://{self.host}:{self.port}"
        command = ["etcd", "--data-dir", f"{self.folder}/data", "--listen-client-urls", client, "--advertise-client-urls", client,
                   "--listen-peer-urls", f"http://127.0.0.1:{free_port()}", "--logger", "zap", "--log-level", "error"]  # fmt: skip
        if self.tls:
            command += ["--cert-file", str(self.tls / "cert.pem"), "--key-file", str(self.tls / "key.pem")]
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
        with urllib.request.urlopen(request, timeout=10 * SLOW, context=anybody) as answer:
            return json.load(answer)

    def log_in(self, name, password):
        self.token = ""
        self.token = self.ask("auth/authenticate", name=name, password=password)["token"]

    def keys(self, name):
        """What a job has in it, by the ends of its keys."""
        prefix = f"/leat/{name}"
        found = self.ask("kv/range", key=coded(prefix + "/"), range_end=coded(prefix + "0")).get("kvs", [])
        return {b64decode(kv["key"]).decode()[len(prefix) :]: _read(b64decode(kv["value"])) for kv in found}

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


@pytest.fixture
def etcd():
    """etcd() -> a server that is up; skipped where there is none."""
    if not shutil.which("etcd"):
        pytest.skip("etcd is not installed (Debian's etcd-server)")
    made = []

    def make(**more):
        made.append(Etcd(**more))
        return made[-1].start()

    yield make
    for one in made:
        one.close()
