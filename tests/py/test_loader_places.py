"""Datasets whose data lie in other kinds of stores than themselves: a job has keys for each, and renews each."""

import os
import re
from types import SimpleNamespace

import pytest
from clouds import AzureCloud, GoogleCloud
from hub import Hub
from loading import make_blobs
from test_loader_keys import Guard

SECRETS = ["a-secret", "test-secret", "hf_hush", "ya29.", "token-0", "token-1"]


def google_place(cloud):
    held = cloud.buckets["bucket"] = {}
    cloud.hmac["GOOG1EXAMPLE"] = "a-secret"
    env = {
        "STORAGE_EMULATOR_HOST": cloud.url,
        "GS_ACCESS_KEY_ID": "GOOG1EXAMPLE",
        "GS_SECRET_ACCESS_KEY": "a-secret",
    }
    return SimpleNamespace(url="gs://bucket", env=env, write=lambda k, d: held.__setitem__(k, cloud.object(d)))


def azure_place(cloud):
    held = cloud.buckets["box"] = {}
    env = {"AZURE_STORAGE_ENDPOINT": cloud.endpoint, "AZURE_STORAGE_KEY": cloud.key}
    return SimpleNamespace(url="az://acct/box", env=env, write=lambda k, d: held.__setitem__(k, cloud.object(d)))


@pytest.fixture(autouse=True)
def hedging(runtime, monkeypatch):
    """Nothing here counts requests: they are made as they are by default, some of them twice."""
    monkeypatch.delenv("LEAT_HEDGE")


@pytest.fixture
def google():
    cloud = GoogleCloud()
    yield cloud
    cloud.stop()


@pytest.fixture
def azure():
    cloud = AzureCloud()
    yield cloud
    cloud.stop()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("places") / "files"
    return folder, make_blobs(folder, 300, sizes=(15_000, 30_000))


@pytest.fixture
def environment(monkeypatch):
    def add(env):
        for name, value in env.items():
            monkeypatch.setenv(name, value)

    return add


def spread(files, *writes):
    """Each file goes to one of the places in turn."""
    folder, _ = files
    for i, path in enumerate(sorted(folder.rglob("*.bin"))):
        writes[i % len(writes)](f"raw/{path.relative_to(folder)}", path.read_bytes())


def load(lt, url, **options):
    fields = {"k": lt.key(), "b": lt.bytes("bin")}
    return lt.Loader(url, batch_size=8, last="short", fields=fields, as_numpy=True, **options)


def read(batches, known):
    seen = {}
    for keys, values in batches:
        seen.update(zip((k.rsplit("/", 1)[-1] for k in keys), values.tolist()))  # of several sources: with their names
    assert all(known[k] == v for k, v in seen.items())
    return len(seen)


def index(run_leat, env, sources, home):
    run_leat("index", "--chunk-size", "64KiB", *sources, home, env=env, status=0)


def said():
    return {k: v for k, v in os.environ.items() if k.startswith(("AWS_", "GS_", "STORAGE_"))}


def s3_place(server):
    return lambda key, data: server.objects.__setitem__(f"bucket/{key}", data)


@pytest.fixture
def two(faulty, google, files, run_leat, environment):
    """An index in s3://bucket over objects in gs://bucket and s3://bucket."""
    server = faulty()
    a = google_place(google)
    env = {**server.env(), **a.env}
    spread(files, a.write, s3_place(server))
    index(run_leat, env, [f"{a.url}/raw", "s3://bucket/raw"], "s3://bucket/index")
    environment(env)
    return server, google


def test_an_index_in_one_kind_of_bucket_over_objects_in_others(
    lt, faulty, google, azure, files, run_leat, runtime, environment
):
    """Home in S3; objects in Google's, Azure's and the Hub's."""
    server, hub = faulty(), Hub()
    a, b = google_place(google), azure_place(azure)
    try:
        pushed = {}
        spread(files, a.write, b.write, pushed.__setitem__)
        repo = hub.add("datasets/o/n")
        repo.commit(pushed)
        repo.private = True
        hub.users["hf_hush"] = {"datasets/o/n"}
        env = {**server.env(), **a.env, **b.env, "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_hush"}
        sources = [f"{a.url}/raw", f"{b.url}/raw", "hf://datasets/o/n/raw"]
        index(run_leat, env, sources, "s3://bucket/index")
        environment(env)
        with load(lt, "s3://bucket/index") as loader:
            batches = list(loader)
            assert read(batches, files[1]) == len(files[1])
        for key in [k for keys, _ in batches for k in keys if k.endswith(("0000.bin", "0001.bin", "0002.bin"))]:
            done = run_leat("cat", "s3://bucket/index", key, env=env, status=0, text=False)
            assert done.stdout == files[1][key.rsplit("/", 1)[-1]], "the commands know the same"
    finally:
        hub.stop()
    log = runtime.log()
    assert not any(secret in log for secret in SECRETS)


def test_keys_of_two_kinds_are_renewed_in_mid_epoch(lt, two, files, runtime, monkeypatch):
    server, google = two
    for name in ("GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("GCE_METADATA_HOST", google.host)
    guard = Guard(server, ["token-0"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-0")
    with load(lt, "s3://bucket/index", ram="2mib", window=4) as loader:  # so little that chunks are fetched throughout
        for turn in range(1, 4):
            it = iter(loader)
            first = len(next(it)[0])
            with google.lock:
                before = set(google.tokens)
                google.tokens.clear()  # what Google has given is no good any more …
            guard.valid = {f"token-{turn}"}  # … nor is what AWS has
            monkeypatch.setenv("AWS_SESSION_TOKEN", f"token-{turn}")
            assert first + read(it, files[1]) == len(files[1])
            assert set(google.tokens) - before, "a new token was asked for"
    assert {"token-0", "token-1"} <= set(guard.refused)
    asked = [r for r in google.requests if r.path.endswith("/token")]
    assert len(asked) < 60, "looked up when they end, and not all the time"


def test_keys_that_are_missing_for_one_of_two_kinds_are_named(lt, two, runtime, monkeypatch):
    """Which place, and where keys were looked for; nothing of the keys that there are."""
    monkeypatch.delenv("GS_SECRET_ACCESS_KEY")
    with pytest.raises(lt.Error, match=r"in gs://bucket.*GS_SECRET_ACCESS_KEY") as raised:
        load(lt, "s3://bucket/index")
    assert not any(secret in str(raised.value) for secret in SECRETS)
    monkeypatch.delenv("GS_ACCESS_KEY_ID")  # none at all: anonymous, which this bucket refuses
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with load(lt, "s3://bucket/index") as loader, pytest.raises(PermissionError, match=r"gs://bucket/raw.*anonymous"):
        list(loader)


def test_keys_that_cannot_be_renewed_for_one_kind_are_named_and_waited_for(lt, two, files, runtime, monkeypatch):
    _server, google = two
    monkeypatch.delenv("GS_ACCESS_KEY_ID")
    monkeypatch.delenv("GS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("GCE_METADATA_HOST", google.host)
    down = lambda r: (403, {}, b"") if r.path.endswith("/token") else None  # noqa: E731
    with load(lt, "s3://bucket/index", ram="2mib", window=4, timeout=10) as loader:
        it = iter(loader)
        seen = len(next(it)[0])
        with google.lock:
            google.tokens.clear()
            google.fail.append(down)
        with pytest.raises(TimeoutError, match=r"new keys for gs://"):
            for keys, _ in it:
                seen += len(keys)
        google.fail.clear()
        assert seen + read(it, files[1]) == len(files[1])
    assert re.search(r"no new keys for gs://: .*metadata server", runtime.log())
    assert not any(secret in runtime.log() for secret in SECRETS)


def test_what_is_said_of_the_endpoint_is_for_the_kind_of_the_address(lt, two, files, run_leat, runtime, monkeypatch):
    server, _ = two
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    with load(lt, "s3://bucket/index", endpoint_url=server.url) as loader:
        assert read(loader, files[1]) == len(files[1])
    google_key = "bucket/raw/0000.bin"
    command = ("cat", "--endpoint-url", server.url, "s3://bucket/index", google_key)
    assert run_leat(*command, env=said(), status=0, text=False).stdout == files[1]["0000.bin"]


def test_an_endpoint_for_two_kinds_at_once_is_refused(lt, two, run_leat, runtime, tmp_path):
    """A local index over both: nobody knows which of them is meant."""
    server, _google = two
    env = said()
    index(run_leat, env, ["gs://bucket/raw", "s3://bucket/raw"], tmp_path / "index")
    with load(lt, str(tmp_path / "index")):
        pass
    with pytest.raises(ValueError, match=r"gs:// and s3://|s3:// and gs://"):
        load(lt, str(tmp_path / "index"), endpoint_url=server.url)
    done = run_leat("info", "--endpoint-url", server.url, tmp_path / "index", env=env)
    assert done.returncode != 0 and "alike" in done.stderr, done.stderr


def test_mixtures_of_streams_in_different_kinds_of_buckets(lt, faulty, google, files, run_leat, runtime, environment):
    server = faulty()
    a = google_place(google)
    env = {**server.env(), **a.env}
    folder, known = files
    run_leat("pack", folder, "gs://bucket/set", env=env, status=0)
    spread(files, s3_place(server))
    index(run_leat, env, ["s3://bucket/raw"], "s3://bucket/index")
    environment(env)
    mix = lt.Mix({"a": 0.5, "b": 0.5}, {"a": "gs://bucket/set", "b": "s3://bucket/index"})
    with load(lt, mix, epoch_size=100) as loader:
        assert read(loader, known) >= 50
