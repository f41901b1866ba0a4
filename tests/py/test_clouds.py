"""The same commands, the same loader and the same faults against every kind of bucket: S3, Google and Azure by `leat
serve`, from one table."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from clouds import AzureCloud, GoogleCloud
from command_tools import MIB, leftovers, one_line, some_bytes, started, wait_until
from keys_box import KeysBox
from places import ACCOUNT, BUCKET, CLOUDS, FINISH, GET, PART, SECRET, Place

pytestmark = pytest.mark.every_case


@pytest.fixture(params=CLOUDS)
def kind(request):
    return request.param


@pytest.fixture
def at(kind, serve, tmp_path):
    """at("--fault", "503=1") -> the bucket, served so."""
    return lambda *options, **more: Place(kind, tmp_path / "served", serve, *options, **more)


@pytest.fixture
def place(at):
    return at()


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
    assert place.calls().count(PART[place.kind]) == 3
    run_leat("cp", "--part-size", "5mib", f"{place.url}/large", tmp_path / "back", env=place.env, status=0)
    assert (tmp_path / "back").read_bytes() == data


def test_empty_objects(place, run_leat, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    run_leat("cp", tmp_path / "empty", f"{place.url}/empty", env=place.env, status=0)
    assert place.read("empty") == b""
    run_leat("cp", f"{place.url}/empty", tmp_path / "back", env=place.env, status=0)
    assert (tmp_path / "back").read_bytes() == b""


def test_lists_come_whole_and_in_order_over_pages(place, run_leat):
    page = 5000 if place.kind == "az" else 1000
    keys = [f"d/{i:05}" for i in range(page + 1)] + ["e/f/g", "top &<>'\"%41"]
    (place.folder / "d").mkdir()
    (place.folder / "e" / "f").mkdir(parents=True)
    for key in keys:
        (place.folder / key).write_bytes(key.encode())
    shown = run_leat("ls", "--recursive", "--json", place.url, env=place.env, status=0).stdout.splitlines()
    rows = [json.loads(line) for line in shown]
    assert [row["key"] for row in rows] == sorted(keys)
    assert all(row["size"] == len(row["key"]) for row in rows)
    folders = run_leat("ls", place.url + "/", env=place.env, status=0).stdout
    assert "d/" in folders and "e/" in folders and "d/00001" not in folders


def test_what_is_deleted_is_gone(place, run_leat):
    for key in ("a", "d/1", "d/2"):
        place.write(key, b"x")
    run_leat("rm", f"{place.url}/a", env=place.env, status=0)
    run_leat("rm", "--recursive", f"{place.url}/d", env=place.env, status=0)
    assert run_leat("ls", "--recursive", place.url, env=place.env, status=0).stdout == ""


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


def known(pictures):
    return {str(p.relative_to(pictures)): p.read_bytes() for p in pictures.rglob("*.bin")}


def use(monkeypatch, env):
    for name, value in env.items():
        monkeypatch.setenv(name, value)


def test_datasets_are_packed_and_read(place, pictures, run_leat, lt, runtime, monkeypatch):
    run_leat("pack", pictures, f"{place.url}/set", env=place.env, status=0)
    shown = json.loads(run_leat("info", "--json", f"{place.url}/set", env=place.env, status=0).stdout)
    assert shown["samples"] == 40
    run_leat("verify", f"{place.url}/set", env=place.env, status=0)
    use(monkeypatch, place.env)
    assert read_all(lt, f"{place.url}/set", epochs=2) == known(pictures)


def test_pointers_are_written_on_a_condition(place, pictures, run_leat):
    """Packing asks for the impossible to see whether a store honours conditions: these do, to create and to replace."""
    for _ in range(2):
        done = run_leat("pack", "--json", "--replace", pictures, f"{place.url}/set", env=place.env, status=0)
        assert json.loads(done.stdout)["guarded"] is True, done.stdout
        (pictures / "one-more.bin").write_bytes(b"more")


@pytest.mark.parametrize("home", ["beside", "folder"])
def test_an_index_is_read_from_beside_its_objects_and_from_a_folder(
    place, home, pictures, run_leat, lt, runtime, monkeypatch, tmp_path
):
    for path in pictures.rglob("*.bin"):
        place.write(f"raw/{path.relative_to(pictures)}", path.read_bytes())
    index = f"{place.url}/index" if home == "beside" else str(tmp_path / "index")
    run_leat("index", f"{place.url}/raw", index, env=place.env, status=0)
    use(monkeypatch, place.env)
    assert read_all(lt, index) == known(pictures)


def two(serve, tmp_path):
    a, b = (Place(kind, tmp_path / kind, serve) for kind in ("gs", "az"))
    return a, b, {**a.env, **b.env}


def test_copies_between_kinds(serve, run_leat, tmp_path):
    a, b, env = two(serve, tmp_path)
    data = some_bytes(6 * MIB)
    a.write("k", data)
    run_leat("cp", f"{a.url}/k", f"{b.url}/k", env=env, status=0)
    assert b.read("k") == data
    run_leat("cp", "--part-size", "5mib", f"{b.url}/k", f"{a.url}/k2", env=env, status=0)
    assert a.read("k2") == data


def test_a_job_reads_an_index_of_one_kind_and_objects_of_another(
    serve, pictures, run_leat, lt, runtime, monkeypatch, tmp_path
):
    a, b, env = two(serve, tmp_path)
    for path in pictures.rglob("*.bin"):
        a.write(f"raw/{path.relative_to(pictures)}", path.read_bytes())
    run_leat("index", f"{a.url}/raw", f"{b.url}/index", env=env, status=0)
    use(monkeypatch, env)
    assert read_all(lt, f"{b.url}/index") == known(pictures)


# Faults that pass: the command ends well, with every byte right.
PASSING = {
    "throttling": "503=0.2,429=0.1",
    "errors": "500=0.2",
    "truncated": "truncate=0.3",
    "reset": "reset=0.3",
    "ranges": "wrong-range=0.1,lost-range=0.1,ignore-range=0.1",
}


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        # What an answer's code means differs between kinds; bodies that break do not.
        pytest.param(kind, fault, marks=() if kind == "s3" or fault in ("throttling", "errors") else pytest.mark.long)
        for kind in CLOUDS
        for fault in PASSING
    ],
    indirect=["kind"],
)
def test_faults_that_pass_are_outlasted(at, run_leat, tmp_path, kind, fault):
    place = at("--fault", PASSING[fault], "--fault-count", 30, "--seed", 2)
    files = {f"{i:02}": some_bytes(20_000 + i, seed=i) for i in range(12)} | {"big": some_bytes(11 * MIB)}
    for name, data in files.items():
        (tmp_path / "from" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "from" / name).write_bytes(data)
    parts = ("--part-size", "5mib")
    run_leat("cp", "-r", *parts, tmp_path / "from", f"{place.url}/d", env=place.env, status=0)
    assert {name: place.read(f"d/{name}") for name in files} == files
    run_leat("cp", "-r", *parts, f"{place.url}/d", tmp_path / "back", env=place.env, status=0)
    assert {name: (tmp_path / "back" / name).read_bytes() for name in files} == files
    assert sum(place.server.stats()["faults"].values()) > 2


def test_a_loader_goes_on_over_faults(place, pictures, run_leat, lt, runtime, monkeypatch):
    run_leat("pack", "--chunk-size", "8KiB", pictures, f"{place.url}/set", env=place.env, status=0)
    faults = "503=0.3,500=0.1,reset=0.2,truncate=0.2"
    bad = place.again("--fault", faults, "--fault-only", "chunks/", "--fault-count", 6, "--seed", 4)
    use(monkeypatch, bad.env)
    assert read_all(lt, f"{bad.url}/set", epochs=2) == known(pictures)
    assert sum(bad.server.stats()["faults"].values()) > 3


# Faults that do not: (options of the server, what the client has, words of the error).
NO_KEYS = {
    "wrong secret": {"secret": "d3Jvbmcga2V5"},
    "wrong account": {"account": "elsewhere"},
}


@pytest.mark.parametrize("what", NO_KEYS)
def test_wrong_keys_are_one_line_without_a_secret(place, run_leat, tmp_path, what):
    place.write("k", b"content")
    env = place.environment(**NO_KEYS[what])
    url = place.url.replace(ACCOUNT, "elsewhere") if what == "wrong account" else place.url
    (tmp_path / "file").write_bytes(b"x")
    for args in (
        ("cat", f"{url}/k"),
        ("ls", url),
        ("rm", f"{url}/k"),
        ("cp", f"{url}/k", tmp_path / "out"),
        ("cp", tmp_path / "file", f"{url}/new"),
    ):
        done = run_leat(*args, env=env, status=4)
        one_line(done)
        assert NO_KEYS[what].get("secret", SECRET) not in done.stderr
    assert not (tmp_path / "out").exists()
    assert sorted(p.name for p in place.folder.iterdir()) == ["k"]


def test_what_is_not_there_is_one_line(place, run_leat):
    done = run_leat("cat", f"{place.url}/nothing", env=place.env, status=3)
    one_line(done, f"{place.url}/nothing", "no such")
    elsewhere = place.url.rsplit("/", 1)[0] + "/elsewhere"
    one_line(run_leat("ls", elsewhere, env=place.env, status=3), "no such")
    one_line(run_leat("cat", f"{elsewhere}/k", env=place.env, status=3), "no such")


def test_a_key_without_the_right_to_write_is_told_so(at, run_leat, tmp_path):
    place = at("--read-only")
    place.write("k", b"content")
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "large").write_bytes(some_bytes(6 * MIB))
    assert run_leat("cat", f"{place.url}/k", env=place.env, status=0).stdout == "content"
    one_line(run_leat("cp", tmp_path / "file", f"{place.url}/new", env=place.env, status=4))
    one_line(run_leat("cp", "--part-size", "5mib", tmp_path / "large", f"{place.url}/new", env=place.env, status=4))
    one_line(run_leat("rm", f"{place.url}/k", env=place.env, status=4))
    assert [p.name for p in place.folder.iterdir()] == ["k"]


def sas(permission, ends=timedelta(hours=1)):
    from azure.storage.blob import generate_container_sas

    return generate_container_sas(
        ACCOUNT, BUCKET, account_key=SECRET, permission=permission, expiry=datetime.now(timezone.utc) + ends
    )


@pytest.mark.parametrize(
    ("token", "works"),
    [  # made in the test: the library takes a second to be imported
        (lambda: sas("r"), {"cat"}),
        (lambda: sas("rl"), {"cat", "ls"}),
        (lambda: sas("rlwcd"), {"cat", "ls", "put", "rm"}),
        (lambda: sas("rlwcd", timedelta(minutes=-1)), set()),
        (lambda: sas("rlwcd").replace("sig=", "sig=A"), set()),
    ],
    ids=["read", "read-list", "all", "over", "forged"],
)
def test_a_shared_access_signature_gives_its_rights_and_no_others(serve, run_leat, tmp_path, token, works):
    place, token = Place("az", tmp_path / "served", serve), token()
    place.write("k", b"content")
    (tmp_path / "file").write_bytes(b"x")
    env = {"AZURE_STORAGE_ENDPOINT": f"{place.server.url}/{ACCOUNT}", "AZURE_STORAGE_SAS_TOKEN": token}
    for name, args in {
        "cat": ("cat", f"{place.url}/k"),
        "ls": ("ls", place.url),
        "put": ("cp", tmp_path / "file", f"{place.url}/new"),
        "rm": ("rm", f"{place.url}/k"),
    }.items():
        done = run_leat(*args, env=env, status=0 if name in works else 4)
        if name not in works:
            one_line(done)
            assert token.split("sig=")[1] not in done.stderr
    assert (place.folder / "new").exists() == ("put" in works)
    assert (place.folder / "k").exists() == ("rm" not in works)


def test_a_redirect_to_another_host_is_not_followed_and_shows_no_secret(at, run_leat, tmp_path):
    place = at("--fault", "redirect=1")
    place.write("k", b"content")
    (tmp_path / "file").write_bytes(b"x")
    for args in (("cat", f"{place.url}/k"), ("cp", f"{place.url}/k", tmp_path / "out"), ("ls", place.url)):
        done = run_leat(*args, env=place.env)
        assert done.returncode != 0
        one_line(done)
        assert "signature" not in done.stderr
        assert SECRET not in done.stderr
    assert run_leat("cp", tmp_path / "file", f"{place.url}/new", env=place.env).returncode != 0
    assert not (tmp_path / "out").exists()
    assert not leftovers(tmp_path)
    assert [p.name for p in place.folder.iterdir()] == ["k"]


@pytest.mark.parametrize("answer", ["400", "301"])
def test_another_region_is_found_and_said_once(serve, run_leat, tmp_path, answer):
    """Of the three only S3 has signatures that name a region."""
    more = ("--region-redirect",) if answer == "301" else ()
    place = Place("s3", tmp_path / "served", serve, "--region", "eu-north-1", *more)
    place.write("k", b"content")
    done = run_leat("cat", f"{place.url}/k", env=place.env, status=0)
    assert done.stdout == "content"
    one_line(done, "eu-north-1")


def test_an_object_that_changes_is_an_error_and_nothing_is_left(at, leat_bin, clean_env, tmp_path):
    place = at("--connection-bandwidth", "4MB/s")
    place.write("k", some_bytes(12 * MIB))
    args = ("cp", "--part-size", "5mib", "--connections", 1, f"{place.url}/k", tmp_path / "out")
    with started(leat_bin, {**clean_env, **place.env}, *args) as process:
        wait_until(lambda: GET[place.kind] in place.calls(), "the copy to begin")
        place.write("k", some_bytes(12 * MIB, seed=9))
        assert process.wait(120) != 0
        assert b"changed" in process.stderr.read()
    assert not (tmp_path / "out").exists()
    assert not leftovers(tmp_path)


def renewing(kind, life=3600):
    """(where keys come from that can be renewed, variables that lead there)."""
    if kind == "s3":
        box = KeysBox(life=life)
        return box, lambda url: {
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": "us-east-1",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": box.url + "/keys",
        }
    cloud = GoogleCloud() if kind == "gs" else AzureCloud()
    if kind == "gs":
        return cloud, lambda url: {"STORAGE_EMULATOR_HOST": url, "GCE_METADATA_HOST": cloud.host}
    return cloud, lambda url: {
        "AZURE_STORAGE_ENDPOINT": f"{url}/{ACCOUNT}",
        "AZURE_POD_IDENTITY_AUTHORITY_HOST": cloud.url,
    }


def test_expired_keys_are_renewed_once_and_the_command_goes_on(at, run_leat, tmp_path):
    place = at("--fault", "expired=1", "--fault-after", 1, "--fault-count", 1, keys=False)
    data = some_bytes(100_000)
    place.write("d/k", data)
    box, variables = renewing(place.kind)
    try:
        run_leat("cp", "-r", f"{place.url}/d", tmp_path / "out", env=variables(place.server.url), status=0)
    finally:
        box.stop()
    assert (tmp_path / "out" / "k").read_bytes() == data
    assert place.server.stats()["faults"] == {"expired": 1}
    assert len([r for r in box.requests if r]) >= 2, "looked up at first and once more"


def test_expired_keys_that_nobody_renews_are_one_line(at, run_leat, tmp_path):
    place = at("--fault", "expired=1")
    place.write("k", b"content")
    one_line(run_leat("cp", "-r", f"{place.url}/k", tmp_path / "out", env=place.env, status=4))
    assert not (tmp_path / "out").exists()
    assert sum(place.server.stats()["faults"].values()) <= 3, "asked again once, not for ever"


def requests_until(place, run_leat, command, call):
    """How many requests come before the first of this call, when nothing fails."""
    run_leat(*command, env=place.env, status=0)
    return place.calls().index(call)


def test_a_lost_answer_to_the_end_of_an_upload(place, run_leat, tmp_path):
    """The parts were put together, and nobody heard of it: the next attempt finds the object and not an error."""
    data = some_bytes(11 * MIB)
    (tmp_path / "large").write_bytes(data)
    command = ("cp", "--part-size", "5mib", "--connections", "1", tmp_path / "large", f"{place.url}/large")
    before = requests_until(place, run_leat, command, FINISH[place.kind])
    (place.folder / "large").unlink()
    bad = place.again("--fault", "reset=1", "--fault-after", before, "--fault-count", 1)
    run_leat(*command, env=bad.env, status=0)
    assert bad.read("large") == data
    assert [e["call"] for e in bad.server.log() if e.get("fault")] == [FINISH[place.kind]]


def test_interrupted_copies_go_on(place, run_leat, tmp_path):
    """What has arrived is not sent again."""
    data = some_bytes(21 * MIB)
    (tmp_path / "large").write_bytes(data)
    command = ("cp", "--resume", "--part-size", "5mib", "--connections", "1", tmp_path / "large", f"{place.url}/large")
    before = requests_until(place, run_leat, command, PART[place.kind])
    (place.folder / "large").unlink()
    bad = place.again("--fault", "403=1", "--fault-after", before + 2)
    run_leat(*command, env=bad.env, status=4)
    bad.server.stop()
    good = place.again("--port", bad.server.port)
    run_leat(*command, env=good.env, status=0)
    assert good.read("large") == data
    assert good.calls().count(PART[place.kind]) == 3


def test_flipped_bits_are_noticed(place, run_leat, tmp_path):
    (tmp_path / "file").write_bytes(some_bytes(5000))
    run_leat("cp", tmp_path / "file", f"{place.url}/k", env=place.env, status=0)
    bad = place.again("--fault", "corrupt=1")
    done = run_leat("cat", f"{bad.url}/k", env=bad.env, text=False)
    assert done.returncode != 0
    assert b"checksum" in done.stderr, done.stderr
