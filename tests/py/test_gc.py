"""leat gc: what no version needs, and what must never be deleted."""

import json
import os
import shutil
import time

import pytest
from format_reader import Dataset


@pytest.fixture
def place(tmp_path, run_leat):
    """Three versions of three sizes, packed again each time; the last is the current one. All of it is 30 days old."""
    ids = []
    for n in (30, 40, 50):
        for i in range(n):
            path = tmp_path / "files" / f"{i}.bin"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"%d " % i * 300)
        run_leat("pack", "--replace", "--chunk-size", "4KiB", tmp_path / "files", tmp_path / "ds", status=0)
        ids.append(Dataset(tmp_path / "ds").id)
    ds = tmp_path / "ds"
    for path in ds.rglob("*"):
        age(path, 30)
    for k, id in enumerate(ids):
        age(ds / "leat/versions" / id, 20 - k)
    return ds, ids


def age(path, days):
    when = time.time() - days * 86400
    os.utime(path, (when, when))


def objects(ds):
    return {str(p.relative_to(ds)) for p in ds.rglob("*") if p.is_file()}


def gc(run_leat, ds, *options, status=0, env=None):
    result = run_leat("gc", "--json", "--list", *options, ds, status=status, env=env)
    return json.loads(result.stdout) if status == 0 else result.stderr


def readable(run_leat, ds, ids):
    for id in ids:
        assert "all good" in run_leat("verify", f"{ds}?id={id}", status=0).stdout


def test_nothing_that_a_version_refers_to_is_deleted(place, run_leat):
    ds, ids = place
    run_leat("select", ds, "--fraction", "0.5", "--name", "half", status=0)
    before = objects(ds)
    found = gc(run_leat, ds, "--yes", "--older-than", "0s")
    assert found["objects"] == []
    assert objects(ds) == before
    assert found["used"]["versions"]["objects"] == 4
    readable(run_leat, ds, [*ids, Dataset(ds, name="half").id])


def test_leftovers_are_found_and_only_deleted_when_asked(place, run_leat):
    ds, ids = place
    chunk = ds / "leat/chunks/aa" / ("aa" * 32)
    chunk.parent.mkdir(exist_ok=True)
    chunk.write_bytes(b"x" * 5000)
    root = ds / "leat/roots" / ("bb" * 32)
    root.write_bytes(b"y" * 100)
    foreign = ds / "leat/chunks/aa/README"
    foreign.write_text("not ours")
    for path in (chunk, root, foreign):
        age(path, 10)
    before = objects(ds)
    found = gc(run_leat, ds)
    assert sorted(found["objects"]) == [f"leat/chunks/aa/{'aa' * 32}", f"leat/roots/{'bb' * 32}"]
    assert found["garbage"]["chunks"] == {"objects": 1, "bytes": 5000}
    assert objects(ds) == before
    text = run_leat("gc", ds, status=0).stdout
    assert "would delete 2 objects" in text
    assert "--yes deletes it" in text
    assert "give --yes or --dry-run" in gc(run_leat, ds, "--yes", "--dry-run", status=2)
    gc(run_leat, ds, "--yes")
    assert before - objects(ds) == set(found["objects"])
    readable(run_leat, ds, ids)


def test_what_is_young_stays(place, run_leat):
    ds, _ = place
    chunk = ds / "leat/chunks/aa" / ("aa" * 32)
    chunk.parent.mkdir(exist_ok=True)
    chunk.write_bytes(b"x" * 5000)
    age(chunk, 6)
    found = gc(run_leat, ds, "--yes")
    assert found["objects"] == []
    assert found["young"]["chunks"] == {"objects": 1, "bytes": 5000}
    assert chunk.exists()
    assert len(gc(run_leat, ds, "--older-than", "5d")["objects"]) == 1


def test_versions_are_given_up_by_id_and_by_age_and_names_protect(place, run_leat):
    ds, ids = place
    assert "is protected" in gc(run_leat, ds, "--drop", ids[2], status=1)
    run_leat("name", f"{ds}?id={ids[0]}", "first", status=0)
    assert "is protected" in gc(run_leat, ds, "--drop", ids[0][:10], status=1)
    assert "has no version" in gc(run_leat, ds, "--drop", "0" * 10, status=3)
    assert "has no version" in gc(run_leat, ds, "--drop", ids[1][:7], status=3)
    own = {n.hex() for n in Dataset(ds, id=ids[1]).root.names}
    shared = {n.hex() for id in (ids[0], ids[2]) for n in Dataset(ds, id=id).root.names}
    found = gc(run_leat, ds, "--keep-last", 1, "--yes")
    assert {name.split("/")[-1] for name in found["objects"] if "chunks" in name} == own - shared
    assert f"leat/versions/{ids[1]}" in found["objects"]
    assert "has no version" in run_leat("info", f"{ds}?id={ids[1]}", status=3).stderr
    readable(run_leat, ds, [ids[0], ids[2]])
    assert gc(run_leat, ds)["objects"] == []
    run_leat("name", "--delete", ds, "first", status=0)
    gc(run_leat, ds, "--drop", ids[0][:8], "--yes")
    assert objects(ds) == {
        "leat/current",
        f"leat/versions/{ids[2]}",
        f"leat/roots/{Dataset(ds).root_id}",
        *(f"leat/sections/{name.hex()}" for _, _, name, _ in Dataset(ds).root.sections),
        *(f"leat/chunks/{n.hex()[:2]}/{n.hex()}" for n in Dataset(ds).root.names),
    }


def test_keeping_none_of_the_newest_keeps_what_is_protected(place, run_leat):
    ds, ids = place
    run_leat("name", f"{ds}?id={ids[0]}", "first", status=0)
    assert "--keep-last" in gc(run_leat, ds, "--keep-last", "none", status=2)
    gc(run_leat, ds, "--keep-last", 0, "--yes")
    readable(run_leat, ds, [ids[0], ids[2]])
    assert "has no version" in run_leat("info", f"{ds}?id={ids[1]}", status=3).stderr
    (ds / "leat/current").unlink()
    run_leat("name", "--delete", f"{ds}", "first", status=0)
    before = objects(ds)
    assert "no version of" in gc(run_leat, ds, "--keep-last", 0, "--yes", status=2)
    assert objects(ds) == before


def test_where_something_cannot_be_read_nothing_is_deleted(place, run_leat):
    ds, ids = place
    root = ds / "leat/roots" / Dataset(ds, id=ids[1]).root_id
    data = root.read_bytes()
    before = objects(ds)
    root.write_bytes(data[:-8])
    assert "nothing is deleted" in gc(run_leat, ds, "--yes", "--keep-last", 2, status=6)
    root.unlink()
    assert f"leat/versions/{ids[1]} refers to is unknown" in gc(run_leat, ds, "--yes", status=6)
    root.write_bytes(data)
    assert objects(ds) == before
    (ds / "leat/names").mkdir()
    (ds / "leat/names/odd").write_text("{}")
    assert "leat/names/odd refers to is unknown" in gc(run_leat, ds, "--yes", status=6)
    (ds / "leat/names/odd").unlink()
    root.unlink()
    gc(run_leat, ds, "--yes", "--drop", ids[1])
    readable(run_leat, ds, [ids[0], ids[2]])


@pytest.mark.parametrize("lost", ["the root of a name", "the root of the current version"])
def test_a_pointer_without_its_root_keeps_everything(place, run_leat, lost):
    """As after a copy that stopped in the middle. The names after the broken one must protect their versions, too."""
    ds, ids = place
    run_leat("name", f"{ds}?id={ids[1]}", "a-first", status=0)
    run_leat("name", f"{ds}?id={ids[0]}", "prod", status=0)
    broken = ids[1] if "name" in lost else ids[2]
    (ds / "leat/roots" / Dataset(ds, id=broken).root_id).unlink()
    (ds / "leat/versions" / broken).unlink()
    before = objects(ds)
    said = gc(run_leat, ds, "--keep-last", 1, "--older-than", "0s", "--yes", status=6)
    pointer = "leat/names/a-first" if "name" in lost else "leat/current"
    assert f"what {pointer} refers to is unknown, so nothing is deleted" in said and "is missing" in said
    assert objects(ds) == before


def test_a_listing_of_names_that_ends_early_keeps_everything(place, faulty, run_leat):
    """A server whose answer to the second page is 404: the names on it are not known."""
    ds, ids = place
    server = faulty()
    server.objects.update({f"bucket/ds/{path}": (ds / path).read_bytes() for path in objects(ds)})
    for name, id in (("first", ids[2]), ("prod", ids[1])):
        server.objects[f"bucket/ds/leat/names/{name}"] = server.objects[f"bucket/ds/leat/versions/{id}"]
    server.page_keys = 1
    server.fault(
        lambda exchange: exchange.error(404, "NoSuchBucket"),
        match=lambda r: "continuation-token" in r.query and r.query["prefix"].endswith("leat/names/"),
    )
    before = set(server.objects)
    gc(run_leat, "s3://bucket/ds", "--drop", ids[1], "--yes", status=3, env=server.env())
    assert set(server.objects) == before


def test_a_lost_snapshot_is_not_taken_for_garbage(place, run_leat, tmp_path):
    ds, _ = place
    shutil.rmtree(ds / "leat/versions")
    (ds / "leat/current").unlink()
    before = objects(ds)
    assert "leat rebuild" in gc(run_leat, ds, "--yes", "--older-than", "0s", status=3)
    assert objects(ds) == before
    assert "no dataset at" in gc(run_leat, tmp_path / "files", "--yes", status=3)
    assert "nothing is there" in gc(run_leat, tmp_path / "nowhere", "--yes", status=3)


def test_a_bucket(place, serve, bucket_dir, run_leat):
    ds, ids = place
    shutil.copytree(ds, bucket_dir / "bucket/ds")
    server = serve(bucket_dir)
    env = server.s3_env()
    found = gc(run_leat, "s3://bucket/ds", "--keep-last", 1, "--older-than", "1d", "--yes", env=env)
    assert found["garbage"]["versions"]["objects"] == 2
    assert objects(bucket_dir / "bucket/ds") == objects(ds) - set(found["objects"])
    assert "all good" in run_leat("verify", f"s3://bucket/ds?id={ids[2]}", env=env, status=0).stdout
