"""A Ceph cluster of one monitor, one OSD in memory and one radosgw, on loopback and in one folder.

    with Radosgw(folder) as gateway:
        gateway.url, gateway.access_key, gateway.secret_key

No systemd, no configuration outside the folder, nothing left behind: the daemons stay in the foreground as children
of this process and die with it, whatever ends it. The keys of cephx are real ones, since radosgw does not start
without.
"""

import ctypes
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

CONF = """
[global]
fsid = {fsid}
mon initial members = a
mon host = 127.0.0.1:{mon_port}
public network = 127.0.0.0/8
ms bind ipv6 = false
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
keyring = {folder}/keyring
run dir = {folder}
admin socket =
log to stderr = false
log file = {folder}/$name.log
mon cluster log file = {folder}/cluster.log
# One copy of everything, a handful of placement groups.
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon data = {folder}/mon
mon data avail warn = 0
mon data avail crit = 0
# A monitor by itself has nobody to wait for: each of the gateway's pools is a change of its maps.
paxos propose interval = 0.01
paxos min wait = 0.001
mon tick interval = 1
objecter tick interval = 0.5
osd objectstore = memstore
osd data = {folder}/osd
memstore device bytes = 4294967296
# Nobody reads what daemons would keep for a crash.
debug mon = 1/1
debug osd = 1/1
debug rgw = 1/1
debug paxos = 0/0
debug auth = 0/0
debug monc = 0/0
debug objecter = 0/0
debug rocksdb = 0/0

[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{rgw_port}
rgw dns name = localhost
rgw sts key = 0123456789abcdef
rgw s3 auth use sts = true
rgw crypt require ssl = false
# In the other order, wrong keys are answered with AccessDenied rather than with what is wrong about them.
rgw s3 auth order = local, sts
# Lists of several pages out of few objects.
rgw max listing results = {page}
# One object for each index, log and list that would be spread over many. Every one is made at the start or asked for in turn.
rgw override bucket index max shards = 1
rgw data log num shards = 1
rgw md log max shards = 1
rgw objexp hints num shards = 1
rgw lc max objs = 1
rgw gc max objs = 1
rgw usage max shards = 1
rgw num control oids = 1
rgw reshard num logs = 1
rgw thread pool size = 32
rgw dynamic resharding = false
rgw enable lc threads = false
rgw enable quota threads = false
rgw run sync thread = false
# What tests delete is memory: give it back soon.
rgw gc obj min wait = 5
rgw gc processor max time = 60
rgw gc processor period = 5
"""

LIST_PAGE = 50  # entries that radosgw gives at once
ACCESS_KEY = "LEATTESTACCESSKEY"
SECRET_KEY = "leat/test+secret=key"  # with the characters that careless encoders break


class Failed(Exception):
    """The gateway did not start; the message says what it was waiting for, and what the logs say."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def die_with_parent():
    """In the child before exec: SIGTERM to it when its parent is gone, also by kill -9."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Radosgw:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.children = []
        self.access_key = ACCESS_KEY
        self.secret_key = SECRET_KEY
        self.port = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc):
        self.stop()

    def logs(self):
        """The ends of all logs, for a failure's message."""
        text = ""
        for path in sorted(self.folder.glob("*.log")):
            tail = path.read_text(errors="replace").splitlines()[-15:]
            text += f"--- {path.name}\n" + "\n".join(tail) + "\n"
        return text

    def command(self, *args, timeout=60):
        """Runs one of Ceph's programs to its end and returns what it printed."""
        command = [args[0], "--conf", str(self.folder / "ceph.conf"), *map(str, args[1:])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(command)}: not finished after {timeout} s\n{self.logs()}") from None
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}\n{self.logs()}")
        return done.stdout

    def daemon(self, *args):
        command = [args[0], "--conf", str(self.folder / "ceph.conf"), "--foreground", *map(str, args[1:])]
        with open(self.folder / f"{args[0]}.log", "ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 (there are no threads yet)
            )
        self.children.append(child)
        return child

    def start(self):
        self.port = free_port()
        mon_port = free_port()
        fsid = uuid.uuid4()
        conf = CONF.format(folder=self.folder, fsid=fsid, mon_port=mon_port, rgw_port=self.port, page=LIST_PAGE)
        (self.folder / "ceph.conf").write_text(conf)
        (self.folder / "osd").mkdir()
        self.make_keys()
        monmap = self.folder / "monmap"
        self.command("monmaptool", "--create", "--add", "a", f"127.0.0.1:{mon_port}", "--fsid", fsid, monmap)
        self.command("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", self.folder / "keyring")
        self.daemon("ceph-mon", "-i", "a")
        self.start_osd()
        gateway = self.daemon("radosgw", "-n", "client.rgw")
        self.make_user()
        self.await_gateway(gateway)

    def make_keys(self):
        keyring = self.folder / "keyring"
        grants = {
            "mon.": {"mon": "allow *"},
            "client.admin": {"mon": "allow *", "osd": "allow *", "mgr": "allow *"},
            "client.rgw": {"mon": "allow rwx", "osd": "allow rwx"},
            "osd.0": {"mon": "allow profile osd", "osd": "allow *"},
        }
        for create, (name, caps) in zip([["--create-keyring"], [], [], []], grants.items(), strict=True):
            flags = [word for service, cap in caps.items() for word in ("--cap", service, cap)]
            self.command("ceph-authtool", *create, keyring, "--gen-key", "-n", name, *flags)

    def start_osd(self):
        identity = uuid.uuid4()
        self.command("ceph", "--connect-timeout", "30", "osd", "new", identity)
        self.command("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", identity)
        self.daemon("ceph-osd", "-i", "0")

    def make_user(self):
        self.command(
            *("radosgw-admin", "-n", "client.rgw", "user", "create", "--uid", "leat", "--display-name", "leat"),
            *("--access-key", self.access_key, "--secret-key", self.secret_key, "--caps", "user-policy=*"),
            timeout=120,
        )

    def await_gateway(self, gateway, timeout=120):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + timeout
        while True:
            if gateway.poll() is not None:
                raise Failed(f"radosgw ended with status {gateway.returncode}\n{self.logs()}")
            try:
                opener.open(self.url, timeout=5).close()
                return
            except (OSError, urllib.error.URLError):
                pass
            if time.monotonic() > deadline:
                raise Failed(f"radosgw does not answer at {self.url} after {timeout} s\n{self.logs()}")
            time.sleep(0.1)

    def stop(self):
        """What they hold is in memory and in a folder that goes with them: there is nothing to be saved."""
        for child in reversed(self.children):
            child.kill()
            child.wait()
        self.children.clear()
