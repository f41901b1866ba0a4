"""Servers that the tests of this folder run against beside radosgw: other people's, out of tests/s3/requirements.txt."""

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from radosgw import ACCESS_KEY, SECRET_KEY, Failed, Radosgw, die_with_parent, free_port

MOTO_USER = """
import json, sys, boto3
iam = boto3.client("iam", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
iam.create_user(UserName="leat")
every = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
iam.put_user_policy(UserName="leat", PolicyName="all", PolicyDocument=json.dumps(every))
key = iam.create_access_key(UserName="leat")["AccessKey"]
print(key["AccessKeyId"], key["SecretAccessKey"])
"""
PROGRAMS = Path(__file__).resolve().parents[2] / "build" / "servers" / "bin"


class Program:
    """One program, one port, one folder; ends with the block."""

    access_key, secret_key = ACCESS_KEY, SECRET_KEY

    def __init__(self, folder):
        self.folder, self.port, self.child = Path(folder), free_port(), None
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        (self.folder / "data").mkdir()
        with open(self.folder / "server.log", "wb") as log:
            self.child = subprocess.Popen(
                [str(word) for word in self.command()],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 (there are no threads yet)
            )
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def wait(self, timeout=120):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + timeout
        while True:
            try:
                opener.open(self.url, timeout=5).close()
                return
            except urllib.error.HTTPError:
                return  # it answers
            except OSError:
                pass
            if self.child.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "server.log").read_text(errors="replace")[-2000:]
                raise Failed(f"{self.command()[0]} does not answer at {self.url}\n{log}")
            time.sleep(0.1)

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def __exit__(self, *exc):
        self.stop()


class Moto(Program):
    def command(self):
        return [PROGRAMS / "moto_server", "-H", "127.0.0.1", "-p", self.port]


class MotoKeys(Moto):
    """moto with a user whose keys count: by itself it lets everybody in."""

    def __enter__(self):
        super().__enter__()
        try:
            done = subprocess.run(
                [PROGRAMS / "python", "-c", MOTO_USER, self.url],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            if done.returncode:
                raise Failed(f"no user could be made: {done.stderr[-2000:]}")
            self.access_key, self.secret_key = done.stdout.split()
            kind = {"Content-Type": "text/plain"}
            begin = urllib.request.Request(self.url + "/moto-api/reset-auth", data=b"0", headers=kind)
            urllib.request.urlopen(begin, timeout=20).close()
        except BaseException:
            self.stop()
            raise
        return self


class Rclone(Program):
    def command(self):
        keys = f"{self.access_key},{self.secret_key}"
        address = ("--addr", f"127.0.0.1:{self.port}")
        return [PROGRAMS / "rclone", "serve", "s3", *address, "--auth-key", keys, self.folder / "data"]


class SeaweedFS(Program):
    def command(self):
        grants = '{{"name": "leat", "credentials": [{{"accessKey": "{}", "secretKey": "{}"}}], "actions": ["Admin"]}}'
        config = self.folder / "s3.json"
        config.write_text('{"identities": [' + grants.format(self.access_key, self.secret_key) + "]}")
        ports = [word for name in ("master", "volume", "filer") for word in (f"-{name}.port={free_port_pair()}",)]
        folder = f"-dir={self.folder / 'data'}"
        s3 = ("-s3", f"-s3.port={self.port}", f"-s3.config={config}", f"-s3.port.grpc={free_port()}")
        s3 += ("-s3.domainName=localhost", "-s3.iam.readOnly=false")
        others = ("-s3.port.iceberg=0", "-s3.port.lance=0")  # which have numbers of their own
        # Every bucket takes volumes for itself, seven by default, and the tests make a bucket each.
        (self.folder / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")
        return [PROGRAMS / "weed", "server", "-ip=127.0.0.1", folder, *ports, *s3, *others, "-volume.max=1000"]


def free_port_pair():
    """Below 55536: the gRPC port is 10000 above it."""
    while (port := free_port()) > 55535:
        pass
    return port


SERVERS = {"radosgw": Radosgw, "moto": Moto, "moto-keys": MotoKeys, "rclone": Rclone, "seaweedfs": SeaweedFS}
