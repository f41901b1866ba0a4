"""Datasets whose data stay where and as they are: written by the writer in Python, read by loaders and commands.

The objects lie in files or in a bucket; the snapshot lies beside them, in another bucket, or on disk over a bucket.
"""

import hashlib
import json
import os
import random
import urllib.request

import pytest
from conftest import ROOT
from format_reader import Dataset
from format_writer import Elsewhere, Field, Place
from loading import point_to, upload
from test_format import shown
from test_loader_keys import Guard

FIELDS = [Field("bin", 1), Field("cls", 3), Field("note", 4)]
SAMPLES = 60
PER = 7  # in a chunk


def head(server, bucket, key):
    """The ETag that the server gives an object."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(f"{server.url}/{bucket}/{key}", method="HEAD"), timeout=30) as answer:
        return answer.headers["ETag"].encode()


def make_objects(folder, most=3000):
    """{name: bytes}; one is empty."""
    draw = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"{i:03d}.bin": draw.randbytes(draw.randint(1, most) if i != 11 else 0) for i in range(SAMPLES)}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return files


def samples_of(files, key_of, pin_of):
    out = []
    for i, (name, data) in enumerate(files.items()):
        far = Elsewhere(key_of(name).encode(), data, pin=pin_of(name, data))
        out.append((name.encode(), {"bin": far, "cls": i % 3, "note": f"note {i}".encode()}))
    return out


def index(folder, files, source, key_of, pin_of=lambda name, data: b"", **odd):
    """An indexed dataset in `folder`; its last chunk is stored, as one that was added by packing would be."""
    samples = samples_of(files, key_of, pin_of)
    if "note" in odd:
        samples = [(key, values | {"note": odd["note"]}) for key, values in samples]
    cut = len(samples) - 4
    chunks = [(0, samples[i : min(i + PER, cut)]) for i in range(0, cut, PER)]
    stored = [(key, values | {"bin": values["bin"].data}) for key, values in samples[cut:]]
    return Place(folder).index(FIELDS, [*chunks, (None, stored)], [source], **odd)


@pytest.fixture
def on_disk(tmp_path):
    """Files and their index, on disk: (dataset, folder of the files, {name: bytes})."""
    files = make_objects(tmp_path / "files")
    index(tmp_path / "ds", files, "file:///", lambda name: str(tmp_path / "files" / name))
    return tmp_path / "ds", tmp_path / "files", files


@pytest.fixture
def in_bucket(bucket_dir, serve):
    """The same in a bucket: (server, {name: bytes}); the datasets s3://bucket/ds, s3://other/ds and a folder over it."""
    files = make_objects(bucket_dir / "bucket/train")
    (bucket_dir / "other").mkdir()
    server = serve(bucket_dir)
    pins = {name: head(server, "bucket", f"train/{name}") for name in files}
    for place in (bucket_dir / "bucket/ds", bucket_dir / "other/ds", bucket_dir.parent / "ds"):
        index(place, files, "s3://bucket", lambda name: f"train/{name}", lambda name, _: pins[name])
    return server, files


def epoch(loader):
    """{key: (bytes, label, note)} of an epoch."""
    seen = {}
    for batch in loader:
        for key, data, label, note in zip(*batch):
            assert key not in seen
            seen[key] = (bytes(data), int(label), note)
    return seen


def expected(files):
    return {name: (data, i % 3, f"note {i}") for i, (name, data) in enumerate(files.items())}


def open_loader(lt, url, **more):
    fields = {"key": lt.key(), "bin": lt.bytes("bin"), "cls": lt.int("cls"), "note": lt.string("note")}
    return lt.Loader(str(url), batch_size=8, fields=fields, last="short", **more)


def test_the_reader_in_python_reads_an_index(on_disk):
    ds, _, files = on_disk
    found = {s.key.decode(): s.values["bin"] for s in Dataset(ds, stores={"file:///": "/"})}
    assert found == files


@pytest.mark.parametrize("name", [None, "summed"])
def test_a_golden_index_is_read_by_both_readers(name, bucket_dir, serve, run_leat):
    golden = ROOT / "tests/golden/indexed-1"
    ((id, version),) = json.loads((golden / "expected.json").read_text()).items()
    stores = {f"s3://{bucket}": golden / "buckets" / bucket for bucket in ("pictures", "shards")}
    dataset = Dataset(golden, name=name, stores=stores)
    assert dataset.id == id
    assert [[s.key.hex(), {n: shown(v) for n, v in s.values.items()}] for s in dataset] == version["samples"]
    assert dataset.rows() == [s.row for s in dataset]
    server = serve(bucket_dir)  # which makes ETags of contents for what is uploaded
    there = {"AWS_ENDPOINT_URL": server.url}
    for bucket in ("pictures", "shards"):
        (bucket_dir / bucket).mkdir()
        run_leat("cp", "--recursive", golden / "buckets" / bucket, f"s3://{bucket}", env=there, status=0)
    url = f"{golden}?name={name}" if name else golden
    info = json.loads(run_leat("info", "--json", url, status=0).stdout)
    assert (info["id"], info["checksums_known"]) == (id, 4 if name else 1)
    run_leat("verify", "--quiet", url, env=there, status=0)
    for i, (_, values) in enumerate(version["samples"]):
        for field, value in values.items():
            done = run_leat("cat", "-n", i, "--field", field, url, env=there, text=False)
            assert done.returncode == (3 if value is None else 0), done.stderr
            if value is not None:
                assert done.stdout == (b"%d\n" % value if isinstance(value, int) else bytes.fromhex(value))


def test_a_loader_delivers_files_that_were_indexed(lt, on_disk):
    ds, _, files = on_disk
    with open_loader(lt, ds) as loader:
        for _ in range(2):
            assert epoch(loader) == expected(files)


@pytest.mark.parametrize("place", ["s3://bucket/ds", "s3://other/ds", "disk", "http"])
def test_a_loader_delivers_objects_that_were_indexed(lt, in_bucket, bucket_dir, place):
    """Beside the data, in another bucket, on disk over a bucket, and from a web server over a bucket."""
    server, files = in_bucket
    url = {"disk": bucket_dir.parent / "ds", "http": f"{server.url}/other/ds"}.get(place, place)
    with open_loader(lt, url, endpoint_url=server.url) as loader:
        for _ in range(2):
            assert epoch(loader) == expected(files)
        assert loader.stats()["requests"] >= SAMPLES - 5, "those to the bucket of the data count too"


def test_commands_read_an_index(on_disk, run_leat, tmp_path):
    ds, _, files = on_disk
    info = json.loads(run_leat("info", "--json", ds, status=0).stdout)
    chunks = -(-(SAMPLES - 4) // PER) + 1
    assert (info["samples"], info["chunks"], info["checksums"]) == (SAMPLES, chunks, "indexed")
    assert (info["checksums_known"], info["sources"]) == (1, ["file:///"])
    assert {"samples", "keys", "recipes", "sources"} < info["snapshot"].keys()
    text = run_leat("info", ds, status=0).stdout
    assert "1 of them with a checksum" in text
    assert "data in file:///" in text
    assert "compared by length and ETag only" in run_leat("verify", ds, status=0).stdout
    for name in ("007.bin", "011.bin", "059.bin"):
        assert run_leat("cat", "--field", "bin", ds, name, status=0, text=False).stdout == files[name]
    run_leat("unpack", "--field", "bin", ds, tmp_path / "out", status=0)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").rglob("*.bin")} == files
    done = run_leat("rebuild", ds, status=2)
    assert "index it again" in done.stderr


def test_an_index_with_checksums_says_so(tmp_path, run_leat):
    files = make_objects(tmp_path / "files")
    index(tmp_path / "ds", files, "file:///", lambda name: str(tmp_path / "files" / name), summed=True)
    assert "every one with a checksum" in run_leat("info", tmp_path / "ds", status=0).stdout
    assert run_leat("verify", tmp_path / "ds", status=0).stdout.rstrip().endswith("all good")


def change(path, data):
    """Another object, of other bytes."""
    path.with_suffix(".new").write_bytes(data)
    os.replace(path.with_suffix(".new"), path)


OTHER = {
    "the same length": lambda data: bytes(b ^ 1 for b in data),
    "longer": lambda data: data + b"!",
    "shorter": lambda data: data[:-1],
}


@pytest.mark.parametrize(
    ("how", "pinned"),
    [
        ("the same length", True),
        ("the same length", False),
        ("longer", True),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (("longer", False), ("shorter", True), ("shorter", False))
        ),
    ],
)
def test_an_object_that_changed_between_two_epochs_is_an_error(lt, bucket_dir, serve, how, pinned):
    """With ETags, and without them: what came first is what must come again. Memory holds a part of the dataset."""
    files = make_objects(bucket_dir / "bucket/train", most=60_000)
    server = serve(bucket_dir)
    index(
        bucket_dir / "bucket/ds",
        files,
        "s3://bucket",
        lambda name: f"train/{name}",
        lambda name, _: head(server, "bucket", f"train/{name}") if pinned else b"",
    )
    with open_loader(lt, "s3://bucket/ds", endpoint_url=server.url, ram="1MiB", window=1, slots=2) as loader:
        assert epoch(loader) == expected(files)
        change(bucket_dir / "bucket/train/020.bin", OTHER[how](files["020.bin"]))
        with pytest.raises(lt.DatasetChanged, match="index it again") as raised:
            for _ in range(4):
                for batch in loader:
                    for key, data, _, _ in zip(*batch):
                        assert bytes(data) == files[key]
        if pinned or how != "the same length":
            assert "020.bin" in str(raised.value)
    assert issubclass(lt.DatasetChanged, lt.errors.ChangedError)


def test_an_object_that_is_gone_is_named(lt, in_bucket, bucket_dir):
    server, _ = in_bucket
    (bucket_dir / "bucket/train/033.bin").unlink()
    loader = open_loader(lt, "s3://bucket/ds", endpoint_url=server.url)
    with loader, pytest.raises(lt.errors.NotFoundError, match=r"033\.bin.*index it again"):
        epoch(loader)


def test_a_damaged_recipe_is_fetched_again_and_then_refused(lt, tmp_path, run_leat):
    """In a section so large that opening has not read all of it."""
    files = make_objects(tmp_path / "files")
    ds = tmp_path / "ds"
    index(ds, files, "file:///", lambda name: str(tmp_path / "files" / name), note=b"x" * 40_000)
    data = Dataset(ds, stores={"file:///": "/"}).section(3)
    path = ds / "leat/sections" / hashlib.sha256(data).hexdigest()
    path.write_bytes(data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])
    assert "section 3 does not match its digest" in run_leat("verify", ds, status=6).stderr
    assert "recipe of chunk" in run_leat("unpack", "--field", "bin", ds, tmp_path / "out", status=6).stderr
    with open_loader(lt, ds) as loader, pytest.raises(lt.errors.CorruptError, match="recipe of chunk"):
        epoch(loader)


def test_a_source_that_cannot_be_is_refused_with_its_address(lt, tmp_path, run_leat):
    files = make_objects(tmp_path / "files")
    index(tmp_path / "ds", files, "ftp://host", lambda name: name)
    assert (
        "source 'ftp://host'" in run_leat("unpack", "--field", "bin", tmp_path / "ds", tmp_path / "x", status=2).stderr
    )
    with pytest.raises(lt.errors.InvalidError, match="source 'ftp://host'"):
        open_loader(lt, tmp_path / "ds")


def test_an_index_on_disk_reads_a_bucket_with_the_keys_of_the_rank(lt, bucket_dir, serve, monkeypatch):
    files = make_objects(bucket_dir / "bucket/train")
    index(bucket_dir.parent / "ds", files, "s3://bucket", lambda name: f"train/{name}")
    server = serve(bucket_dir, "--access-key", "AKID", "--secret-key", "secret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with open_loader(lt, bucket_dir.parent / "ds", endpoint_url=server.url) as loader:
        assert epoch(loader) == expected(files)


def test_wrong_keys_do_not_matter_to_a_dataset_on_disk(lt, on_disk, monkeypatch):
    ds, _, files = on_disk
    monkeypatch.setenv("AWS_PROFILE", "there is none of this name")
    with open_loader(lt, ds) as loader:
        assert epoch(loader) == expected(files)


@pytest.mark.parametrize("place", ["disk", "another bucket"])
def test_rotated_keys_reach_the_stores_that_data_come_from(lt, faulty, tmp_path, monkeypatch, place):
    files = make_objects(tmp_path / "files", most=60_000)
    index(tmp_path / "ds", files, "s3://data", lambda name: f"train/{name}")
    server = faulty()
    for name, data in files.items():
        server.objects[f"data/train/{name}"] = data
    upload(server, tmp_path / "ds")
    point_to(server, monkeypatch)
    guard = Guard(server, ["token-0"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-0")
    url = tmp_path / "ds" if place == "disk" else "s3://bucket/ds"
    with open_loader(lt, url, ram="1MiB", window=1, slots=2) as loader:
        for turn in range(1, 4):
            it = iter(loader)
            seen = len(next(it)[0])
            guard.valid = {f"token-{turn}"}  # the old ones are refused from here on
            monkeypatch.setenv("AWS_SESSION_TOKEN", f"token-{turn}")
            for keys, values, _, _ in it:
                seen += len(keys)
                assert all(bytes(v) == files[k] for k, v in zip(keys, values))
            assert seen == SAMPLES
    assert "token-0" in guard.refused, "they had really expired"
    assert guard.token(server.requests[-1]) == "token-3"


def test_the_reader_in_python_reads_what_the_command_indexes(bucket_dir, serve, run_leat, tmp_path):
    files = make_objects(bucket_dir / "bucket/train")
    server = serve(bucket_dir)
    run_leat("index", "s3://bucket/train", tmp_path / "ds", env={"AWS_ENDPOINT_URL": server.url}, status=0)
    dataset = Dataset(tmp_path / "ds", stores={"s3://bucket": bucket_dir / "bucket"})
    assert {s.key.decode(): s.values["bin"] for s in dataset} == files
    assert dataset.sources == ["s3://bucket"]
    assert dataset.rows() == [s.row for s in dataset]
    pins = {pin for i in range(len(dataset.root.names)) for *_, pin in dataset.recipe(i).pieces}
    assert pins == {head(server, "bucket", f"train/{name}") for name, data in files.items() if data}


def test_checksums_that_were_learned_are_kept_with_the_same_version(on_disk, run_leat):
    ds, folder, files = on_disk
    id = Dataset(ds).id
    run_leat("name", ds, "first", status=0)
    before = Dataset(ds).root_id
    done = run_leat("verify", "--learn", ds, status=0)
    assert "8 checksums learned" in done.stdout
    for dataset in (Dataset(ds), Dataset(ds, id=id), Dataset(ds, name="first")):
        assert dataset.id == id
        assert dataset.root_id != before
        assert 0 not in dataset.root.sums
    assert {s.key.decode(): s.values["bin"] for s in Dataset(ds, stores={"file:///": "/"})} == files
    assert "every one with a checksum" in run_leat("info", ds, status=0).stdout
    assert "0 checksums learned" in run_leat("verify", "--learn", ds, status=0).stdout
    change(folder / "020.bin", OTHER["the same length"](files["020.bin"]))
    done = run_leat("verify", ds, status=6)
    assert "index it again" in done.stderr


def test_nothing_is_learned_of_data_that_are_not_good(on_disk, run_leat):
    ds, folder, _ = on_disk
    before = Dataset(ds).root_id
    (folder / "020.bin").unlink()
    run_leat("verify", "--learn", ds, status=3)
    assert Dataset(ds).root_id == before


def test_a_version_that_is_no_longer_the_current_one_stays_so(on_disk, run_leat, tmp_path):
    ds, folder, files = on_disk
    old = Dataset(ds).id
    few = dict(list(files.items())[:20])
    new = index(ds, few, "file:///", lambda name: str(folder / name))
    assert Dataset(ds).id == new != old
    run_leat("verify", "--learn", f"{ds}?id={old}", status=0)
    assert Dataset(ds).id == new
    assert 0 not in Dataset(ds, id=old).root.sums


def test_a_packed_dataset_has_nothing_to_learn(run_leat):
    done = run_leat("verify", "--learn", ROOT / "tests/golden/keys-1", status=2)
    assert "has all checksums already" in done.stderr
