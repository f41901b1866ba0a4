"""Keys that are rotated rather than expired, at the moments when nobody can be asked: see also test_loader_keys.py."""

import pytest
from faulty_server import status
from loading import SLOW, point_to, smallest_budget, upload, values_of

EXPIRED = status(400, "ExpiredToken", "The provided token has expired.")
DELETED = status(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")


class Bucket:
    """A server that takes one access key at a time, and a dataset that does not fit into the smallest budget."""

    def __init__(self, server, packed, refuse):
        self.server = server
        self.packed = packed
        self.valid = {"first"}
        upload(server, packed.path)
        server.fault(refuse, match=lambda request: self.key_of(request) not in self.valid)

    @staticmethod
    def key_of(request):
        return request.headers.get("authorization", "").partition("Credential=")[2].split("/")[0]

    def used(self):
        return {self.key_of(request) for request in self.server.of("GET")}


@pytest.fixture
def bucket(faulty, large, monkeypatch):
    def make(refuse=EXPIRED):
        it = Bucket(faulty(), large, refuse)
        point_to(it.server, monkeypatch)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        return it

    return make


@pytest.fixture
def write(monkeypatch):
    """Changes the keys in the environment of the rank, as a program may."""

    def change(key):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "t")

    return change


def options(lt, **more):
    return {"batch_size": 8, "fields": {"k": lt.key(), "b": lt.bytes("bin")}, **more}


def test_keys_that_were_deleted_do_not_end_a_job_when_there_are_others(lt, runtime, bucket, large, write):
    server = bucket(DELETED)
    write("first")
    budget = smallest_budget(lt, "s3://bucket/ds", **options(lt))
    runtime.wait_gone()
    assert budget < 8 << 20, "less than the dataset, so that chunks are fetched again"
    with lt.Loader("s3://bucket/ds", ram=budget, timeout=20 * SLOW, **options(lt)) as loader:
        assert values_of(loader) == large.known
        for key in ("second", "third"):
            write(key)
            server.valid = {key}
            assert values_of(loader) == large.known, "the next epoch comes with the new keys"
    assert {"first", "second", "third"} <= server.used()


def test_new_agent_is_given_the_keys_of_now(lt, runtime, bucket, large, write):
    server = bucket()
    write("first")
    with lt.Loader("s3://bucket/ds", timeout=20 * SLOW, **options(lt)) as loader:
        iterator = iter(loader)
        seen = values_of([next(iterator)])
        write("second")
        server.valid = {"second"}
        runtime.kill_agents()
        seen.update(values_of(iterator))
        assert seen == large.known


def test_keys_that_nobody_renews_are_an_error_and_the_loader_goes_on_when_they_are(lt, runtime, bucket, large, write):
    server = bucket()
    write("first")
    with lt.Loader("s3://bucket/ds", timeout=5 * SLOW, **options(lt)) as loader:
        iterator = iter(loader)
        seen = values_of([next(iterator)])
        server.valid = {"second"}
        runtime.kill_agents()
        with pytest.raises(lt.Error, match=r"ExpiredToken|expired|keys|credentials") as caught:
            while True:
                seen.update(values_of([next(iterator)]))
        assert "lost" not in str(caught.value), str(caught.value)
        asked = len(server.server.of("GET"))
        assert asked < 200, "asked once or twice, not without end"
        write("second")
        seen.update(values_of(iterator))
        assert seen == large.known
