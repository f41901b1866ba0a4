"""Keys renew: a job outlives its first keys, and the cache belongs to those whose own keys read the dataset."""

import time
import zlib

import pytest
from faulty_server import status
from loading import SLOW, make_blobs, pack, smallest_budget

REFUSALS = [status(400, "ExpiredToken", "The provided token has expired."), status(403, "InvalidAccessKeyId", "gone")]


class Bucket:
    """A server that takes one access key at a time, and a dataset that does not fit into the smallest budget."""

    def __init__(self, server, packed, refuse):
        self.server = server
        self.packed = packed
        self.valid = {"first"}
        for path in packed.path.rglob("*"):
            if path.is_file():
                server.objects[f"bucket/ds/{path.relative_to(packed.path)}"] = path.read_bytes()
        server.fault(refuse, match=lambda request: self.key_of(request) not in self.valid)

    @staticmethod
    def key_of(request):
        return request.headers.get("authorization", "").partition("Credential=")[2].split("/")[0]

    def used(self):
        return {self.key_of(request) for request in self.server.of("GET")}


@pytest.fixture(scope="module")
def large(leat_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    known = make_blobs(folder / "files", 160, sizes=(100_000, 200_000))
    known = {key: zlib.crc32(data) for key, data in known.items()}
    return pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "512KiB", known=known)


@pytest.fixture
def bucket(faulty, large, monkeypatch, tmp_path):
    def make(refuse=REFUSALS[0]):
        it = Bucket(faulty(), large, refuse)
        for name, value in it.server.env().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        return it

    return make


def in_file(monkeypatch, tmp_path):
    """Keys in the file of credentials: a function that writes others."""
    path = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))

    def write(key):
        path.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\naws_session_token = t\n")

    return write


def in_environment(monkeypatch, tmp_path):
    """Keys in the environment of the rank, which a program may change."""

    def write(key):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "t")

    return write


def options(lt, **more):
    return {"batch_size": 8, "fields": {"k": lt.key(), "b": lt.bytes("bin")}, **more}


def read(batches):
    return {key: zlib.crc32(data) for k, b in batches for key, data in zip(k, b)}


@pytest.mark.parametrize("refuse", REFUSALS, ids=["expired", "gone"])
@pytest.mark.parametrize("place", [in_file, in_environment])
def test_rotated_keys_do_not_end_a_job(lt, runtime, bucket, large, monkeypatch, tmp_path, place, refuse):
    server = bucket(refuse)
    write = place(monkeypatch, tmp_path)
    write("first")
    budget = smallest_budget(lt, "s3://bucket/ds", **options(lt))
    runtime.wait_gone()
    assert budget < 15 << 20, "less than the dataset, so that chunks are fetched again"
    with lt.Loader("s3://bucket/ds", ram=budget, timeout=20 * SLOW, **options(lt)) as loader:
        assert read(loader) == large.known
        for key in ("second", "third"):
            write(key)
            server.valid = {key}
            assert read(loader) == large.known, "the next epoch comes with the new keys"
    assert {"first", "second", "third"} <= server.used()


def test_new_agent_is_given_the_keys_of_now(lt, runtime, bucket, large, monkeypatch, tmp_path):
    server = bucket()
    write = in_file(monkeypatch, tmp_path)
    write("first")
    with lt.Loader("s3://bucket/ds", timeout=20 * SLOW, **options(lt)) as loader:
        iterator = iter(loader)
        seen = read([next(iterator)])
        write("second")
        server.valid = {"second"}
        runtime.kill_agents()
        seen.update(read(iterator))
        assert seen == large.known


def test_keys_that_nobody_renews_are_an_error_and_the_loader_goes_on_when_they_are(
    lt, runtime, bucket, large, monkeypatch, tmp_path
):
    server = bucket()
    write = in_environment(monkeypatch, tmp_path)
    write("first")
    with lt.Loader("s3://bucket/ds", timeout=8 * SLOW, **options(lt)) as loader:
        iterator = iter(loader)
        seen = read([next(iterator)])
        server.valid = {"second"}
        runtime.kill_agents()
        began = time.monotonic()
        with pytest.raises(lt.Error, match=r"ExpiredToken|expired|keys|credentials") as caught:
            while True:
                seen.update(read([next(iterator)]))
        assert time.monotonic() - began < 16 * SLOW
        assert "lost" not in str(caught.value), str(caught.value)
        asked = len(server.server.of("GET"))
        assert asked < 200, "asked once or twice, not without end"
        write("second")
        seen.update(read(iterator))
        assert seen == large.known


def test_cache_is_shared_by_content_between_keys_that_read_the_dataset(lt, bucket, large, monkeypatch, tmp_path):
    server = bucket()
    write = in_environment(monkeypatch, tmp_path)
    write("first")
    server.valid = {"first", "second"}
    with lt.Loader("s3://bucket/ds", **options(lt)) as one:
        assert read(one) == large.known
        chunks = sum("/chunks/" in request.key for request in server.server.of("GET"))
        assert chunks == large.chunks
        write("second")
        with lt.Loader("s3://bucket/ds", **options(lt)) as two:
            assert read(two) == large.known
        assert "second" in server.used(), "they have proved themselves"
        assert sum("/chunks/" in request.key for request in server.server.of("GET")) == chunks
        write("nobody's")
        with pytest.raises(lt.Error), lt.Loader("s3://bucket/ds", timeout=8 * SLOW, **options(lt)) as three:
            next(iter(three))
