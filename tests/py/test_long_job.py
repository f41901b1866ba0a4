"""A job that outlives its keys, from every place that has any, and training does not notice. In the quick form a bucket takes
each key for some requests only; the long one is a job of twelve hours in two minutes: keys of 10 s, which are renewed more
than twelve times, most of them before a bucket has refused any."""

import os
import sys
import threading
import time
from collections import Counter

import pytest
from clouds import AzureCloud, GoogleCloud
from faulty_server import status
from keys_box import KeysBox, stamp
from loading import SLOW, smallest_budget, values_of
from test_cloud_keys import external, google_env, rsa_key, service_account, user  # noqa: F401 (a fixture)
from test_keys import ROLE, STATIC, key_of, program, set_sso

EXPIRED = status(400, "ExpiredToken", "The provided token has expired.")


class Stale:
    """Counts requests with expired keys, and how often the same request came with the same expired key in a row. (With another
    one it may: a machine that stands still for the life of a key renews it in vain.) A key is good for `limit` requests at
    most (None: as long as it lives); then it is handed to `expire`."""

    def __init__(self, limit, expire):
        self.limit, self.expire = limit, expire
        self.lock = threading.Lock()
        self.used = Counter()
        self.in_a_row = {}  # request -> (expired key, times)
        self.most = self.all = self.asked = 0

    def see(self, what, key, good):
        self.asked += 1
        with self.lock:
            self.used[key] += 1
            if self.limit and self.used[key] == self.limit:
                self.expire(key)
        last, times = self.in_a_row.get(what, (None, 0))
        self.in_a_row[what] = (None, 0) if good else (key, times + 1 if key == last else 1)
        self.all += not good
        self.most = max(self.most, self.in_a_row[what][1])


class Aws:
    url = "s3://bucket/ds"

    def __init__(self, provider, life, limit, home, files, request):
        self.box = KeysBox(life=life)
        self.server = request.getfixturevalue("faulty")()
        self.home, self.stale, self.written = home, Stale(limit, self.expire), 0
        self.again = getattr(self, provider + "_again", lambda: None)
        for name, data in files.items():
            self.server.objects[f"bucket/ds/{name}"] = data
        self.server.fault(self.guard)
        (home / ".aws").mkdir()
        (home / "token").write_text("a-web-token")
        self.env = {
            "HOME": str(home),
            "AWS_ENDPOINT_URL_S3": self.server.url,
            "AWS_ENDPOINT_URL_STS": self.box.url,
            "AWS_ENDPOINT_URL_SSO": self.box.url,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        } | getattr(self, provider)()

    def guard(self, exchange):
        r, key = exchange.request, key_of(exchange.request)
        good = self.box.given.get(key, 0) > time.time()
        self.stale.see((r.method, r.key, r.headers.get("range")), key, good)
        exchange.server.proper(exchange) if good else EXPIRED(exchange)

    def due(self):
        """Whether it is time to write other keys."""
        return time.time() - self.written >= 0.6 * self.box.life

    def expire(self, key):
        self.box.given.pop(key, None)
        self.again()

    def environment(self):
        self.written = time.time()
        key, secret, token, expires = self.box.fresh("ENV")
        names = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": token}
        return names | {"AWS_CREDENTIAL_EXPIRATION": stamp(expires)}

    def environment_again(self):
        os.environ.update(self.environment())

    def file(self):
        self.written = time.time()
        key, secret, token, _ = self.box.fresh("FILE")
        path = self.home / ".aws" / "credentials"
        lines = [f"aws_access_key_id = {key}", f"aws_secret_access_key = {secret}", f"aws_session_token = {token}"]
        path.with_suffix(".new").write_text("\n".join(["[default]", *lines, ""]))
        path.with_suffix(".new").rename(path)
        return {}

    file_again = file

    def role(self):
        (self.home / ".aws" / "credentials").write_text(STATIC)
        (self.home / ".aws" / "config").write_text(f"[profile p]\n{ROLE}source_profile = base\n")
        return {"AWS_PROFILE": "p"}

    def sso(self):
        return set_sso(self.home, self.box)

    def process(self):
        text = (
            "import json, urllib.request\n"
            f"keys = json.load(urllib.request.urlopen('{self.box.url}/keys'))\n"
            "print(json.dumps({'Version': 1, 'SessionToken': keys.pop('Token'), **keys}))"
        )
        path = program(self.home, text)
        path.write_text(path.read_text().replace(sys.executable, f"{sys.executable} -SE", 1))
        (self.home / ".aws" / "config").write_text(f"[profile p]\ncredential_process = {path}\n")
        return {"AWS_PROFILE": "p"}

    def web_identity(self):
        return {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.home / "token"),
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/x",
        }

    def container(self):
        return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": self.box.url + "/keys"}

    def instance(self):
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.box.url, "AWS_EC2_METADATA_DISABLED": "false"}

    def given(self):
        return len(self.box.given)

    def stop(self):
        self.box.stop()


class Cloud:
    """What is the same for Google and Azure."""

    def __init__(self, provider, life, limit, home, files, request):
        self.cloud = self.make()
        self.cloud.life = life
        self.home, self.stale, self.request, self.handed = home, Stale(limit, self.expire), request, 0
        self.written = 0
        self.cloud.buckets[self.bucket] = {f"ds/{k}": self.cloud.object(v) for k, v in files.items()}
        self.cloud.fail.append(self.watch)
        self.again = getattr(self, provider + "_again", lambda: None)
        (home / "token").write_text(self.subject)
        self.env = {"HOME": str(home)} | {k: str(v) for k, v in getattr(self, provider)().items()}

    def watch(self, r):
        if "/ds/" in r.path:
            key = r.headers.get("authorization") or r.query.get("sig")
            self.stale.see((r.method, r.path, r.headers.get("range")), key, self.takes(r))
        return None

    def due(self):
        return time.time() - self.written > 0.6 * self.cloud.life

    def expire(self, key):
        self.cloud.tokens.pop(key.partition(" ")[2], None)
        self.again()

    def takes(self, r):
        return self.cloud.bearer_is_good(r)

    def given(self):
        return len(self.cloud.tokens) + self.handed

    def stop(self):
        self.cloud.stop()


class Google(Cloud):
    make, bucket, url, subject = GoogleCloud, "bucket", "gs://bucket/ds", "subject-token"

    def service(self):
        return google_env(self.cloud, self.home, service_account(self.cloud, self.request.getfixturevalue("rsa_key")))

    def user(self):
        return google_env(self.cloud, self.home, user(self.cloud))

    def external(self):
        return google_env(self.cloud, self.home, external(self.cloud, {"file": str(self.home / "token")}))

    def metadata(self):
        return {"STORAGE_EMULATOR_HOST": self.cloud.url, "GCE_METADATA_HOST": self.cloud.host}


class Azure(Cloud):
    make, bucket, url, subject = AzureCloud, "box", "az://acct/box/ds", "federated-token\n"

    def workload(self):
        return {
            "AZURE_STORAGE_ENDPOINT": self.cloud.endpoint,
            "AZURE_TENANT_ID": "tenant",
            "AZURE_CLIENT_ID": "client",
            "AZURE_FEDERATED_TOKEN_FILE": self.home / "token",
            "AZURE_AUTHORITY_HOST": self.cloud.url,
        }

    def machine(self):
        return {
            "AZURE_STORAGE_ENDPOINT": self.cloud.endpoint,
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": self.cloud.url,
        }

    def sas(self):
        """Put into the environment again; the one before is good for a moment longer, as real ones are."""
        self.handed += 1
        self.written = time.time()
        self.cloud.sas = f"sig=signature{self.handed}"
        return {
            "AZURE_STORAGE_ENDPOINT": self.cloud.endpoint,
            "AZURE_STORAGE_SAS_TOKEN": f"sv=2021-12-02&sp=r&{self.cloud.sas}",
        }

    def sas_again(self):
        os.environ.update(self.sas())

    def takes(self, r):
        return bool(self.cloud.sas and self.cloud.sas in r.query_text) or self.cloud.bearer_is_good(r)


PLACES = {
    Aws: ["environment", "file", "role", "sso", "process", "web_identity", "container", "instance"],
    Google: ["service", "user", "external", "metadata"],
    Azure: ["workload", "machine", "sas"],
}
# Life of keys in seconds, requests that one is good for, seconds of the job at least, renewals at least.
FORMS = {"quick": (3600, 40, 0, 3), "twelve-hours": (10, None, 120, 12)}


QUICK = [
    "file",
    "role",
    "web_identity",
    "instance",
    "service",
    "metadata",
    "machine",
    "sas",
]  # each kind of renewal once


def cases():
    for kind, names in PLACES.items():
        for name in names:
            yield pytest.param(kind, name, "quick", marks=[] if name in QUICK else [pytest.mark.long])
            yield pytest.param(kind, name, "twelve-hours", marks=pytest.mark.long)


@pytest.mark.parametrize(("kind", "provider", "form"), list(cases()))
def test_a_loader_goes_on_over_renewals(request, lt, runtime, large, tmp_path, monkeypatch, kind, provider, form):
    life, limit, seconds, renewals = FORMS[form]
    files = {str(p.relative_to(large.path)): p.read_bytes() for p in large.path.rglob("*") if p.is_file()}
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "GCE_", "GS_", "AZURE_")):
            monkeypatch.delenv(name)
    options = {"batch_size": 8, "fields": {"k": lt.key(), "b": lt.bytes("bin")}}
    budget = smallest_budget(lt, str(large.path), **options)
    runtime.wait_gone()
    place = kind(provider, life * SLOW, limit, tmp_path, files, request)
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    began = time.monotonic()
    try:
        with lt.Loader(place.url, ram=budget, timeout=60 * SLOW, **options) as loader:
            while time.monotonic() - began < seconds * SLOW or len(place.stale.used) <= renewals:
                seen = {}
                for batch in loader:
                    if not limit and place.due():
                        place.again()
                    seen |= values_of([batch])
                    time.sleep(0.02 if seconds else 0)
                assert seen == large.known
    finally:
        place.stop()
    stale = place.stale
    if form == "quick":
        assert stale.all <= 64 * renewals, "what was in flight, and a few that asked again until the keys came"
        assert place.given() <= 4 * len(stale.used), "asked once a renewal, not all the time"
        return
    assert stale.most <= 1, f"an expired key was sent again: {stale.in_a_row}"
    assert stale.all <= stale.asked / 4
    assert place.given() <= 10 + 6 * seconds / life, "asked once a renewal, not all the time"
