"""Keys that change while a job runs, and loaders with different keys on one agent."""

import threading
import time

import pytest
from loading import make_blobs, pack, point_to, upload, wait_until


@pytest.fixture(scope="module")
def blobs(leat_bin, tmp_path_factory):
    """Several times as much as the 2 MiB that the loaders below are given."""
    folder = tmp_path_factory.mktemp("keys")
    known = make_blobs(folder / "files", 400, sizes=(10_000, 30_000))
    return pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "64KiB", known=known)


class Guard:
    """Lets requests through whose session token is among the valid ones, and counts the others."""

    def __init__(self, server, valid):
        self.valid = set(valid)
        self.refused = []
        self.code = "ExpiredToken"
        server.fault(self.refuse, match=lambda request: self.token(request) not in self.valid)

    @staticmethod
    def token(request):
        return request.headers.get("x-amz-security-token", "")

    def refuse(self, exchange):
        self.refused.append(self.token(exchange.request))
        exchange.error(403, self.code, "no")


@pytest.fixture
def bucket(lt, faulty, blobs, monkeypatch):
    """A server with the blobs as s3://bucket/ds, and the environment of a client."""
    server = faulty()
    upload(server, blobs.path)
    point_to(server, monkeypatch)
    return server


def load(lt, **options):
    fields = {"k": lt.key(), "b": lt.bytes("bin")}
    return lt.Loader("s3://bucket/ds", batch_size=10, last="short", fields=fields, as_numpy=True, **options)


def read(batches, known):
    seen = 0
    for keys, values in batches:
        seen += len(keys)
        assert all(known[k] == v for k, v in zip(keys, values.tolist()))
    return seen


def test_rotated_keys_are_looked_up_again_and_nothing_is_lost(lt, bucket, blobs, monkeypatch):
    guard = Guard(bucket, ["token-0"])
    monkeypatch.delenv("LEAT_HEDGE")  # the default: second requests have keys that expire, too
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-0")
    with load(lt, ram="2mib", window=4) as loader:  # so little that chunks are fetched throughout
        for turn in range(1, 7):
            it = iter(loader)
            next(it)
            guard.valid = {f"token-{turn}"}  # the old ones are refused from here on
            monkeypatch.setenv("AWS_SESSION_TOKEN", f"token-{turn}")
            assert read(it, blobs.known) == blobs.samples - 10
    assert "token-0" in guard.refused, "they had really expired"
    last = [guard.token(r) for r in bucket.requests][-1]
    assert last == "token-6"


def test_token_that_expires_is_looked_up_once_for_all_loaders_and_no_storm_of_requests_follows(
    lt, bucket, blobs, monkeypatch
):
    guard = Guard(bucket, ["old"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", "old")
    with load(lt, ram="4mib", window=4) as one, load(lt, seed=1, window=4) as two:
        batches = [iter(one), iter(two)]
        seen = [len(next(it)[0]) for it in batches]
        guard.valid = {"new"}
        monkeypatch.setenv("AWS_SESSION_TOKEN", "new")
        threads = []
        for n, it in enumerate(batches):
            thread = threading.Thread(target=lambda n=n, it=it: seen.__setitem__(n, seen[n] + read(it, blobs.known)))
            threads.append(thread)
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [blobs.samples, blobs.samples]
    assert set(guard.refused) == {"old"}
    assert len(guard.refused) <= 64, "what was in flight, and a few that asked again until the keys came"
    assert guard.token(bucket.requests[-1]) == "new"


def test_keys_that_come_late_are_waited_for(lt, bucket, blobs, monkeypatch):
    guard = Guard(bucket, ["old"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", "old")
    with load(lt, ram="2mib", window=4, timeout=4) as loader:
        it = iter(loader)
        next(it)
        guard.valid = {"new"}
        with pytest.raises(TimeoutError):
            read(it, blobs.known)
        monkeypatch.setenv("AWS_SESSION_TOKEN", "new")
        assert read(it, blobs.known) > 0


def test_keys_are_renewed_before_they_expire(lt, bucket, blobs, monkeypatch):
    guard = Guard(bucket, ["old", "new"])
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 200))
    monkeypatch.setenv("AWS_SESSION_TOKEN", "old")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", soon)
    with load(lt, ram="2mib", window=4) as loader:
        next(iter(loader))
        monkeypatch.setenv("AWS_SESSION_TOKEN", "new")

        def renewed():
            next(iter(loader))
            return any(guard.token(r) == "new" for r in bucket.requests)

        wait_until(renewed, what="a request with the new keys")
    assert guard.refused == [], "nobody had to be refused first"


def test_files_with_keys_are_read_again(lt, bucket, blobs, monkeypatch, tmp_path):
    def write(token):
        keys = f"aws_access_key_id = test\naws_secret_access_key = test-secret\naws_session_token = {token}\n"
        (tmp_path / "credentials").write_text("[default]\n" + keys)

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    write("one")
    guard = Guard(bucket, ["one"])
    with load(lt, ram="2mib", window=4) as loader:
        it = iter(loader)
        next(it)
        guard.valid = {"two"}
        write("two")
        assert read(it, blobs.known) == blobs.samples - 10
    assert "one" in guard.refused


def test_loaders_with_different_keys_share_what_was_fetched_after_each_has_proved_its_own(
    lt, bucket, blobs, monkeypatch
):
    guard = Guard(bucket, ["first", "second"])
    guard.code = "AccessDenied"
    monkeypatch.setenv("AWS_SESSION_TOKEN", "first")
    with load(lt) as one:
        assert read(one, blobs.known) == blobs.samples
        fetched = one.stats()["chunks_fetched"]
        monkeypatch.setenv("AWS_SESSION_TOKEN", "second")
        before = len(bucket.requests)
        with load(lt) as two:
            assert read(two, blobs.known) == blobs.samples
            assert two.stats()["chunks_fetched"] == fetched
            assert two.stats()["agent_pid"] == one.stats()["agent_pid"]
        own = {guard.token(r) for r in bucket.requests[before:]}
        assert "second" in own, "its own keys were tried"
        assert not any("chunks/" in r.key for r in bucket.requests[before:])
        monkeypatch.setenv("AWS_SESSION_TOKEN", "stolen")
        with pytest.raises(PermissionError):
            load(lt)
        monkeypatch.setenv("AWS_SESSION_TOKEN", "second")
        assert read(one, blobs.known) == blobs.samples


def test_a_loader_whose_keys_are_refused_does_not_spoil_the_keys_of_others(lt, bucket, blobs, monkeypatch):
    guard = Guard(bucket, ["good"])
    guard.code = "AccessDenied"
    monkeypatch.setenv("AWS_SESSION_TOKEN", "good")
    with load(lt, ram="2mib", window=4) as one:
        it = iter(one)
        next(it)
        monkeypatch.setenv("AWS_SESSION_TOKEN", "bad")
        with pytest.raises(PermissionError):
            load(lt)
        assert read(it, blobs.known) == blobs.samples - 10
    assert set(guard.refused) == {"bad"}
