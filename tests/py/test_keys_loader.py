"""A job that outlives its keys: they live for seconds, and training does not notice."""

import time
import zlib

import pytest
from faulty_server import status
from keys_box import KeysBox
from loading import SLOW, make_blobs, pack, smallest_budget

EXPIRED = status(400, "ExpiredToken", "The provided token has expired.")


@pytest.fixture
def box():
    b = KeysBox(life=8)
    yield b
    b.stop()


@pytest.fixture(scope="module")
def large(leat_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    known = make_blobs(folder / "files", 120, sizes=(60_000, 100_000))
    known = {key: zlib.crc32(data) for key, data in known.items()}
    return pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "512KiB", known=known)


def key_of(request):
    return request.headers.get("authorization", "").partition("Credential=")[2].split("/")[0]


PLACES = {
    "container": lambda box, folder: {"AWS_CONTAINER_CREDENTIALS_FULL_URI": box.url + "/keys"},
    "instance": lambda box, folder: {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": box.url,
        "AWS_EC2_METADATA_DISABLED": "false",
    },
    "web-identity": lambda box, folder: {
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"),
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/x",
        "AWS_ENDPOINT_URL_STS": box.url,
    },
}


# half a minute each
@pytest.mark.parametrize("place", [pytest.param(p, marks=() if p == "container" else pytest.mark.long) for p in PLACES])
def test_a_loader_goes_on_over_renewals(lt, runtime, faulty, large, box, tmp_path, monkeypatch, place):
    server = faulty()
    for path in large.path.rglob("*"):
        if path.is_file():
            server.objects[f"bucket/ds/{path.relative_to(large.path)}"] = path.read_bytes()
    late = []

    def guard(exchange):
        if box.given.get(key_of(exchange.request), 0) < time.time():
            late.append(key_of(exchange.request))
            EXPIRED(exchange)
        else:
            exchange.server.proper(exchange)

    server.fault(guard)
    (tmp_path / "token").write_text("a-web-token")
    (tmp_path / ".aws").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in {"AWS_ENDPOINT_URL_S3": server.url, "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in PLACES[place](box, tmp_path).items():
        monkeypatch.setenv(name, value)
    options = {"batch_size": 8, "fields": {"k": lt.key(), "b": lt.bytes("bin")}}
    budget = smallest_budget(lt, "s3://bucket/ds", **options)
    runtime.wait_gone()
    began = time.monotonic()
    with lt.Loader("s3://bucket/ds", ram=budget, timeout=30 * SLOW, **options) as loader:
        while time.monotonic() - began < 30:
            seen = {}
            for k, b in loader:
                seen.update({key: zlib.crc32(data) for key, data in zip(k, b)})
                time.sleep(0.05)
            assert seen == large.known
    used = {key_of(r) for r in server.of("GET")}
    assert len(used) >= 4, "keys of 8 s in a job of 30"
    assert len(late) <= 2 * len(used), "a stale signature is answered by one retry"
    assert len(box.given) <= 30, "asked once a renewal, not all the time"
