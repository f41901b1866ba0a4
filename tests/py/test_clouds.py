"""The same commands and the same loader against every kind of bucket: S3 by `leat serve`, Google and Azure by servers that
answer as documented (clouds.py), and the official SDKs beside us on the same objects."""

import json
import time

import pytest
from clouds import AzureCloud, GoogleCloud, once
from command_tools import MIB, one_line, some_bytes
from loading import smallest_budget

CLOUDS = ["s3", "gs", "az"]


class Place:
    """url: where objects go. env: what a client needs. read(key), write(key, data): the other way there."""

    def __init__(self, url, env, read, write, cloud=None):
        self.url, self.env, self.read, self.write, self.cloud = url, env, read, write, cloud


def google_place(cloud):
    cloud.buckets["bucket"] = {}
    cloud.hmac["GOOG1EXAMPLE"] = "a-secret"
    held = cloud.buckets["bucket"]
    env = {
        "STORAGE_EMULATOR_HOST": cloud.url,
        "GS_ACCESS_KEY_ID": "GOOG1EXAMPLE",
        "GS_SECRET_ACCESS_KEY": "a-secret",
    }
    return Place("gs://bucket", env, lambda k: held[k].data, lambda k, d: held.__setitem__(k, cloud.object(d)), cloud)


def azure_place(cloud):
    cloud.buckets["box"] = {}
    held = cloud.buckets["box"]
    env = {"AZURE_STORAGE_ENDPOINT": cloud.endpoint, "AZURE_STORAGE_KEY": cloud.key}
    return Place("az://acct/box", env, lambda k: held[k].data, lambda k, d: held.__setitem__(k, cloud.object(d)), cloud)


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


@pytest.fixture(params=CLOUDS)
def place(request):
    if request.param == "s3":
        server, folder = request.getfixturevalue("serve"), request.getfixturevalue("tmp_path") / "served"
        (folder / "bucket").mkdir(parents=True)
        running = server(folder)

        def write(key, data):
            path = folder / "bucket" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

        return Place("s3://bucket", running.s3_env(), lambda k: (folder / "bucket" / k).read_bytes(), write)
    if request.param == "gs":
        return google_place(request.getfixturevalue("google"))
    return azure_place(request.getfixturevalue("azure"))


def test_objects_go_there_and_come_back(place, run_leat, tmp_path):
    data = some_bytes(100_000)
    (tmp_path / "a b+ü").write_bytes(data)
    run_leat("cp", tmp_path / "a b+ü", f"{place.url}/x/a b+ü", env=place.env, status=0)
    assert place.read("x/a b+ü") == data
    assert run_leat("cat", f"{place.url}/x/a b+ü", env=place.env, status=0, text=False).stdout == data
    part = run_leat("cat", "--offset", "1000", "--length", "10", f"{place.url}/x/a b+ü", env=place.env, text=False)
    assert part.stdout == data[1000:1010]
    run_leat("cp", f"{place.url}/x/a b+ü", tmp_path / "back", env=place.env, status=0)
    assert (tmp_path / "back").read_bytes() == data


def test_large_objects_go_in_parts(place, run_leat, tmp_path):
    data = some_bytes(13 * MIB)
    (tmp_path / "large").write_bytes(data)
    run_leat("cp", "--part-size", "5mib", tmp_path / "large", f"{place.url}/large", env=place.env, status=0)
    assert place.read("large") == data
    run_leat("cp", "--part-size", "5mib", f"{place.url}/large", tmp_path / "back", env=place.env, status=0)
    assert (tmp_path / "back").read_bytes() == data


def test_empty_objects(place, run_leat, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    run_leat("cp", tmp_path / "empty", f"{place.url}/empty", env=place.env, status=0)
    assert place.read("empty") == b""
    run_leat("cp", f"{place.url}/empty", tmp_path / "back", env=place.env, status=0)
    assert (tmp_path / "back").read_bytes() == b""


def test_lists_come_whole_and_in_order_over_pages(place, run_leat):
    if place.cloud:
        place.cloud.page = 7
    keys = [f"d/{i:03}" for i in range(30)] + ["e/f/g", "top &<>'\"%41"]
    for key in keys:
        place.write(key, key.encode())
    shown = run_leat("ls", "--recursive", "--json", place.url, env=place.env, status=0).stdout.splitlines()
    rows = [json.loads(line) for line in shown]
    assert [row["key"] for row in rows] == sorted(keys)
    assert all(row["size"] == len(row["key"]) for row in rows)
    folders = run_leat("ls", place.url + "/", env=place.env, status=0).stdout
    assert "d/" in folders and "e/" in folders and "d/001" not in folders


def test_what_is_deleted_is_gone(place, run_leat):
    for key in ("a", "d/1", "d/2"):
        place.write(key, b"x")
    run_leat("rm", f"{place.url}/a", env=place.env, status=0)
    run_leat("rm", "--recursive", f"{place.url}/d", env=place.env, status=0)
    assert run_leat("ls", "--recursive", place.url, env=place.env, status=0).stdout == ""


def test_what_is_not_there_is_one_line(place, run_leat):
    done = run_leat("cat", f"{place.url}/nothing", env=place.env)
    assert done.returncode != 0
    one_line(done, f"{place.url}/nothing", "no such")
    elsewhere = place.url.rsplit("/", 1)[0] + "/elsewhere"
    done = run_leat("ls", elsewhere, env=place.env)
    assert done.returncode != 0
    one_line(done, "no such")


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "samples"
    for i in range(40):
        path = folder / f"class{i % 4}" / f"{i:03}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(some_bytes(2000 + i, seed=i))
    return folder


def read_all(lt, url, epochs=1):
    options = {"batch_size": 8, "fields": {"k": lt.key(), "b": lt.bytes("bin")}}
    seen = {}
    with lt.Loader(url, **options) as loader:
        for _ in range(epochs):
            for keys, blobs in loader:
                seen.update(zip(keys, (bytes(b) for b in blobs)))
    return seen


def test_datasets_are_packed_and_read(place, pictures, run_leat, lt, runtime, monkeypatch):
    run_leat("pack", pictures, f"{place.url}/set", env=place.env, status=0)
    shown = json.loads(run_leat("info", "--json", f"{place.url}/set", env=place.env, status=0).stdout)
    assert shown["samples"] == 40
    run_leat("verify", f"{place.url}/set", env=place.env, status=0)
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    known = {str(p.relative_to(pictures)): p.read_bytes() for p in pictures.rglob("*.bin")}
    assert read_all(lt, f"{place.url}/set", epochs=2) == known


def test_pointers_are_written_on_a_condition(place, pictures, run_leat):
    """Packing asks for the impossible to see whether a store honours conditions: these do, to create and to replace."""
    for _ in range(2):
        done = run_leat("pack", "--json", "--replace", pictures, f"{place.url}/set", env=place.env, status=0)
        assert json.loads(done.stdout)["guarded"] is True, done.stdout
        (pictures / "one-more.bin").write_bytes(b"more")


def test_copies_between_kinds(google, azure, run_leat, tmp_path):
    a, b = google_place(google), azure_place(azure)
    data = some_bytes(6 * MIB)
    a.write("k", data)
    run_leat("cp", f"{a.url}/k", f"{b.url}/k", env={**a.env, **b.env}, status=0)
    assert b.read("k") == data
    run_leat("cp", "--part-size", "5mib", f"{b.url}/k", f"{a.url}/k2", env={**a.env, **b.env}, status=0)
    assert a.read("k2") == data


@pytest.mark.parametrize("kind", ["gs", "az"])
def test_faults_are_retried_and_versions_are_not_mixed(kind, request, run_leat, tmp_path):
    place = (
        google_place(request.getfixturevalue("google"))
        if kind == "gs"
        else azure_place(request.getfixturevalue("azure"))
    )
    data = some_bytes(300_000)
    place.write("k", data)
    place.cloud.fail.append(once((503, {}, b""), (500, {}, b""), (429, {"Retry-After": "0"}, b"")))
    assert run_leat("cat", f"{place.url}/k", env=place.env, status=0, text=False).stdout == data
    # Changed between looking and reading: an error, and nothing half-written.
    changed = []

    def change(r):
        if r.method == "GET" and "range" in r.headers and not changed:
            changed.append(True)
            place.write("k", some_bytes(300_000, seed=9))
        return None

    place.cloud.fail[:] = [change]
    done = run_leat("cp", f"{place.url}/k", tmp_path / "out", env=place.env)
    assert done.returncode != 0
    one_line(done, "changed")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["gs", "az"])
def test_a_lost_answer_to_the_end_of_an_upload(kind, request, run_leat, tmp_path):
    """The parts were put together, and nobody heard of it: the next attempt finds the object and not an error."""
    cloud = request.getfixturevalue("google" if kind == "gs" else "azure")
    place = google_place(cloud) if kind == "gs" else azure_place(cloud)
    lost = []

    def lose(r):
        ends = (r.method == "POST" and "uploadId" in r.query) or (
            r.method == "PUT" and r.query.get("comp") == "blocklist"
        )
        if not ends or lost:
            return None
        lost.append(cloud.serve(r))
        return 503, {}, b""

    cloud.fail.append(lose)
    data = some_bytes(11 * MIB)
    (tmp_path / "large").write_bytes(data)
    run_leat("cp", "--part-size", "5mib", tmp_path / "large", f"{place.url}/large", env=place.env, status=0)
    assert lost and place.read("large") == data


@pytest.mark.parametrize("kind", ["gs", "az"])
def test_interrupted_copies_go_on(kind, request, run_leat, tmp_path):
    """What has arrived is not sent again."""
    cloud = request.getfixturevalue("google" if kind == "gs" else "azure")
    place = google_place(cloud) if kind == "gs" else azure_place(cloud)
    is_part = lambda r: r.method == "PUT" and ("partNumber" in r.query or r.query.get("comp") == "block")  # noqa: E731
    sent = []

    def refuse_later(r):
        if is_part(r):
            sent.append(r)
            if len(sent) > 2:
                return 403, {}, b""
        return None

    cloud.fail.append(refuse_later)
    data = some_bytes(26 * MIB)
    (tmp_path / "large").write_bytes(data)
    command = ("cp", "--resume", "--part-size", "5mib", "--connections", "1", tmp_path / "large", f"{place.url}/large")
    assert run_leat(*command, env=place.env).returncode != 0
    cloud.fail.clear()
    count = len(cloud.requests)
    run_leat(*command, env=place.env, status=0)
    assert place.read("large") == data
    assert len([r for r in cloud.requests[count:] if is_part(r)]) == 4


@pytest.mark.parametrize("kind", ["gs", "az"])
def test_flipped_bits_are_noticed(kind, request, run_leat, tmp_path):
    place = (
        google_place(request.getfixturevalue("google"))
        if kind == "gs"
        else azure_place(request.getfixturevalue("azure"))
    )
    data = some_bytes(5000)
    place.write("k", data)
    held = place.cloud.buckets["bucket" if kind == "gs" else "box"]
    good = held["k"]

    class Flipped(type(good)):
        crc = good.crc

    bad = Flipped(data, good.number)
    bad.data = bytes([data[0] ^ 1]) + data[1:]
    held["k"] = bad
    done = run_leat("cat", f"{place.url}/k", env=place.env, text=False)
    assert done.returncode != 0
    assert b"checksum" in done.stderr, done.stderr


def test_a_job_outlives_its_tokens(google, pictures, run_leat, lt, runtime, monkeypatch):
    """Tokens of a few seconds: the rank gets others and gives them to the agent."""
    google.life = 3
    google.buckets["bucket"] = {}
    env = {"STORAGE_EMULATOR_HOST": google.url, "GCE_METADATA_HOST": google.host}
    run_leat("pack", pictures, "gs://bucket/set", env=env, status=0)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    options = {"batch_size": 8, "fields": {"k": lt.key(), "b": lt.bytes("bin")}}
    budget = smallest_budget(lt, "gs://bucket/set", **options)
    runtime.wait_gone()
    began = time.monotonic()
    with lt.Loader("gs://bucket/set", ram=budget, **options) as loader:
        while time.monotonic() - began < 10:
            seen = [key for keys, _ in loader for key in keys]
            assert len(set(seen)) == 40
            google.requests.append(None)  # an epoch's end
            time.sleep(0.2)
    asked = [r for r in google.requests if r and r.path.endswith("/token")]
    assert 3 <= len(asked) <= 40, "looked up when they end, and not all the time"


def test_objects_of_another_kind_than_the_home_are_refused_by_a_job(
    google, azure, pictures, run_leat, lt, runtime, monkeypatch
):
    a, b = google_place(google), azure_place(azure)
    env = {**a.env, **b.env}
    for path in pictures.rglob("*.bin"):
        a.write(f"raw/{path.relative_to(pictures)}", path.read_bytes())
    run_leat("index", f"{a.url}/raw", f"{b.url}/index", env=env, status=0)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Exception, match="another kind of store"):
        read_all(lt, f"{b.url}/index")


@pytest.mark.parametrize("home", ["beside", "folder"])
def test_an_index_is_read_from_beside_its_objects_and_from_a_folder(
    place, home, pictures, run_leat, lt, runtime, monkeypatch, tmp_path
):
    for path in pictures.rglob("*.bin"):
        place.write(f"raw/{path.relative_to(pictures)}", path.read_bytes())
    index = f"{place.url}/index" if home == "beside" else str(tmp_path / "index")
    run_leat("index", f"{place.url}/raw", index, env=place.env, status=0)
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    known = {str(p.relative_to(pictures)): p.read_bytes() for p in pictures.rglob("*.bin")}
    assert read_all(lt, index) == known
