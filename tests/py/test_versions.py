"""Versions of a dataset: content ids, names, and ?id= and ?name= in addresses."""

import json
import shutil

import pytest
from format_reader import Dataset


@pytest.fixture
def place(tmp_path, run_leat):
    """A place with two versions; the first has the name 'old'. Returns it and their ids."""
    (tmp_path / "files").mkdir()
    for i in range(20):
        (tmp_path / "files" / f"{i}.bin").write_bytes(b"%d" % i * 100)
    run_leat("pack", "--chunk-size", "4KiB", tmp_path / "files", tmp_path / "ds", status=0)
    first = Dataset(tmp_path / "ds").id
    (tmp_path / "ds/leat/names").mkdir()
    shutil.copy(tmp_path / "ds/leat/current", tmp_path / "ds/leat/names/old")
    for i in range(20, 25):
        (tmp_path / "files" / f"{i}.bin").write_bytes(b"%d" % i * 100)
    run_leat("pack", "--replace", "--chunk-size", "4KiB", tmp_path / "files", tmp_path / "ds", status=0)
    second = Dataset(tmp_path / "ds").id
    return tmp_path / "ds", first, second


def samples(run_leat, url, **options):
    return json.loads(run_leat("info", "--json", url, status=0, **options).stdout)["samples"]


def test_a_replaced_dataset_stays_readable_by_its_id_and_its_name(place, run_leat):
    ds, first, second = place
    assert first != second
    assert samples(run_leat, ds) == 25
    for version in (f"?id={first}", f"?id={first[:8].upper()}", "?name=old"):
        assert samples(run_leat, f"{ds}{version}") == 20
        assert samples(run_leat, f"file://{ds}{version}") == 20
    assert samples(run_leat, f"{ds}/?id={second}") == 25
    assert len(list(Dataset(ds, id=first))) == 20
    assert len(list(Dataset(ds, name="old"))) == 20


def test_every_command_about_datasets_takes_a_version(place, tmp_path, run_leat):
    ds, _, _ = place
    old = f"{ds}?name=old"
    assert "20 samples" in run_leat("verify", old, status=0).stdout
    assert len(run_leat("order", old, status=0).stdout.splitlines()) == 20
    assert run_leat("cat", old, "7.bin", status=0).stdout == "7" * 100
    assert run_leat("cat", "-n", 3, old, text=False, status=0).stdout
    assert "no sample has the key '24.bin'" in run_leat("cat", old, "24.bin", status=3).stderr
    run_leat("unpack", old, tmp_path / "out", status=0)
    assert len(list((tmp_path / "out").iterdir())) == 20


def test_versions_in_a_bucket(place, serve, bucket_dir, run_leat):
    ds, first, _ = place
    shutil.copytree(ds, bucket_dir / "bucket/ds")
    server = serve(bucket_dir)
    for version, requests in ((f"?id={first}", 2), ("?name=old", 2), (f"?id={first[:12]}", 3)):
        before = server.stats()["requests"]
        assert samples(run_leat, f"s3://bucket/ds{version}", env=server.s3_env()) == 20
        assert server.stats()["requests"] - before == requests


@pytest.mark.parametrize(
    ("version", "status", "says"),
    [
        ("?name=new", 3, "has the name 'new'; there are: old"),
        ("?id=" + "0" * 64, 3, "has no version 000"),
        ("?id=00000000", 3, "has no version 00000000; 'leat info --versions"),
        ("?id=1234567", 2, "at least the first 8"),
        ("?id=12345678x", 2, "not the id of a version"),
        ("?id=12345678&name=old", 2, "not both"),
        ("?name=old&id=12345678", 2, "not both"),
        ("?id=12345678?name=old", 2, "once"),
        ("?name=", 2, "cannot be the name"),
        ("?name=../current", 2, "cannot be the name"),
        ("?name=" + "n" * 64, 2, "cannot be the name"),
    ],
)
def test_versions_that_are_not_there_are_said(place, run_leat, version, status, says):
    ds, _, _ = place
    assert says in run_leat("info", f"{ds}{version}", status=status).stderr


def test_half_an_id_that_fits_two_is_refused(place, run_leat):
    ds, first, _ = place
    twin = first[:10] + ("0" if first[10] != "0" else "1") + first[11:]
    shutil.copy(ds / "leat/versions" / first, ds / "leat/versions" / twin)
    assert "two versions" in run_leat("info", f"{ds}?id={first[:10]}", status=2).stderr
    assert samples(run_leat, f"{ds}?id={first[:11]}") == 20
    assert "pointer of another version" in run_leat("info", f"{ds}?id={twin}", status=6).stderr


def test_other_question_marks_belong_to_the_path(place, run_leat):
    ds, _, _ = place
    odd = ds.parent / "what?x=1&id=7"
    ds.rename(odd)
    assert samples(run_leat, odd) == 25
    assert samples(run_leat, f"{odd}?name=old") == 20
    assert "no other query" in run_leat("info", "http://127.0.0.1:1/ds?x=1", status=2).stderr
    assert "no other query" in run_leat("info", "http://127.0.0.1:1/ds?x=1?name=old", status=2).stderr


def test_a_version_is_not_a_place_to_write_to(place, tmp_path, run_leat):
    ds, first, _ = place
    for version in ("?name=old", f"?id={first}"):
        for command in (["pack", "--replace", tmp_path / "files", f"{ds}{version}"], ["rebuild", f"{ds}{version}"]):
            assert "not where to write" in run_leat(*command, status=2).stderr
        assert "not where to write" in run_leat("unpack", ds, f"{tmp_path}/out{version}", status=2).stderr


def test_without_a_dataset_a_version_is_not_looked_for(tmp_path, run_leat):
    for version in ("?name=old", "?id=12345678", "?id=" + "a" * 64):
        assert "nothing is there" in run_leat("info", f"{tmp_path}/ds{version}", status=3).stderr


def test_a_pointer_and_a_root_that_disagree_are_corrupt(place, run_leat):
    ds, first, second = place
    pointer = json.loads((ds / "leat/current").read_text())
    (ds / "leat/current").write_text(json.dumps({**pointer, "id": first}))
    assert "another content id" in run_leat("info", ds, status=6).stderr
    (ds / "leat/current").write_text(json.dumps({**pointer, "needs": ["gold"]}))
    assert "needs a newer Leat: it uses 'gold'" in run_leat("info", ds, status=1).stderr
    assert samples(run_leat, f"{ds}?id={second}") == 25


def versions(run_leat, ds, **options):
    return json.loads(run_leat("info", "--versions", "--json", ds, status=0, **options).stdout)


def test_versions_are_listed_with_their_names(place, run_leat):
    ds, first, second = place
    listed = {v["id"]: v for v in versions(run_leat, ds)}
    assert set(listed) == {first, second}
    assert listed[first]["names"] == ["old"]
    assert not listed[first]["current"]
    assert listed[second]["current"]
    assert [listed[i]["samples"] for i in (first, second)] == [20, 25]
    assert listed[second]["chunks"] == len(Dataset(ds).root.counts)
    assert listed[second]["bytes"] == Dataset(ds).root.bytes
    assert listed[first]["root"] == Dataset(ds, id=first).root_id
    assert listed[first]["written"].startswith("20")
    lines = run_leat("info", "--versions", ds, status=0).stdout.splitlines()
    assert len(lines) == 3
    assert any(line.startswith(first[:12]) and first in line and line.endswith("  old") for line in lines)
    assert any(line.startswith(second[:12]) and line.endswith("  current") for line in lines)
    assert "leave out ?name=" in run_leat("info", "--versions", f"{ds}?name=old", status=2).stderr
    assert "nothing is there" in run_leat("info", "--versions", ds.parent / "none", status=3).stderr


def test_a_version_that_cannot_be_read_is_listed_with_the_reason(place, run_leat):
    ds, first, second = place
    (ds / "leat/roots" / Dataset(ds, id=first).root_id).unlink()
    (ds / "leat/versions" / second).write_text("?")
    listed = {v["id"]: v for v in versions(run_leat, ds)}
    assert "error" in listed[first]
    assert "not the pointer" in listed[second]["error"]


def test_names_are_given_moved_and_taken_away(place, run_leat):
    ds, first, second = place
    assert run_leat("name", ds, "new", status=0).stdout == f"new {second}\n"
    assert samples(run_leat, f"{ds}?name=new") == 25
    assert "--replace" in run_leat("name", ds, "old", status=1).stderr
    assert Dataset(ds, name="old").id == first
    run_leat("name", f"{ds}?id={first[:9]}", "old", status=0)  # it has that name already
    run_leat("name", "--replace", ds, "old", status=0)
    assert Dataset(ds, name="old").id == second
    said = run_leat("name", "--current", f"{ds}?id={first}", status=1).stderr
    assert "--replace" in said and f"version {second[:16]}" in said and "is the current one" in said
    assert Dataset(ds).id == second
    run_leat("name", "--current", f"{ds}?id={second}", status=0)  # it is the current one already
    moved = run_leat("name", "--current", "--replace", f"{ds}?id={first}", status=0)
    assert moved.stdout == f"current {first}\n"
    assert Dataset(ds).id == first
    assert {v["id"]: v["names"] for v in versions(run_leat, ds)} == {first: [], second: ["new", "old"]}
    run_leat("name", "--delete", ds, "old", status=0)
    assert "no version" in run_leat("name", "--delete", ds, "old", status=3).stderr
    assert [v["names"] for v in versions(run_leat, ds) if v["id"] == second] == [["new"]]
    (ds / "leat/roots" / Dataset(ds, id=second).root_id).unlink()
    assert run_leat("name", f"{ds}?id={second}", "lost", status=3)
    assert not (ds / "leat/names/lost").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give the name"),
        (("x", "--current"), "not both"),
        (("x", "--delete", "--replace"), "cannot be combined"),
        (("a/b",), "cannot be the name"),
        ((".hidden",), "cannot be the name"),
        (("?name=old", "--delete", "x"), "not where to write"),
    ],
)
def test_wrong_uses_of_name_are_said(place, run_leat, arguments, says):
    ds, _, _ = place
    url = f"{ds}{arguments[0]}" if arguments and arguments[0].startswith("?") else ds
    rest = arguments[1:] if url != ds else arguments
    assert says in run_leat("name", url, *rest, status=2).stderr


def test_several_packings_become_one_dataset_in_the_order_given(place, tmp_path, run_leat):
    ds, _, _ = place
    (tmp_path / "more").mkdir()
    for i in range(7):
        (tmp_path / "more" / f"{i}.bin").write_bytes(b"more %d" % i)
    run_leat("pack", "--replace", "--chunk-size", "4KiB", tmp_path / "more", ds, status=0)
    packs = {v["samples"]: Dataset(ds, id=v["id"]).root.packings[0].hex() for v in versions(run_leat, ds)}
    ids = {}
    for order in ((20, 7), (7, 20), (7, 25, 20)):
        options = [word for n in order for word in ("--packing", packs[n])]
        run_leat("rebuild", *options, ds, status=0)
        dataset = Dataset(ds)
        ids[order] = dataset.id
        assert len(list(dataset)) == sum(order)
        assert [s.key for s in dataset] == dataset.keys()
        assert [s.row for s in dataset] == dataset.rows()
        run_leat("verify", ds, status=0)
        run_leat("rebuild", *options, ds, status=0)
        assert Dataset(ds).id == dataset.id
    assert len(set(ids.values())) == 3
    assert "named twice" in run_leat("rebuild", "--packing", packs[7], "--packing", packs[7], ds, status=2).stderr
    # a key of both: the first is found, and that there are more is said
    run_leat("rebuild", "--packing", packs[7], "--packing", packs[20], ds, status=0)
    done = run_leat("cat", ds, "3.bin", status=0)
    assert done.stdout == "more 3"
    assert "2 samples have the key '3.bin'" in done.stderr


def test_packings_of_other_fields_do_not_become_one(place, tmp_path, run_leat):
    ds, first, _ = place
    (tmp_path / "classes/cat").mkdir(parents=True)
    (tmp_path / "classes/dog").mkdir()
    (tmp_path / "classes/cat/1.bin").write_bytes(b"1")
    (tmp_path / "classes/dog/2.bin").write_bytes(b"2")
    run_leat("pack", "--replace", tmp_path / "classes", ds, status=0)
    before = Dataset(ds)
    options = ["--packing", before.root.packings[0].hex(), "--packing", Dataset(ds, id=first).root.packings[0].hex()]
    assert "other fields" in run_leat("rebuild", *options, ds, status=2).stderr
    assert Dataset(ds).id == before.id


def test_without_a_current_version_the_others_are_there(place, run_leat):
    ds, _, second = place
    (ds / "leat/current").unlink()
    assert "has no current version" in run_leat("info", ds, status=3).stderr
    assert samples(run_leat, f"{ds}?name=old") == 20
    assert "there are: old" in run_leat("info", f"{ds}?name=new", status=3).stderr
    assert [v["current"] for v in versions(run_leat, ds)] == [False, False]
    run_leat("name", "--current", f"{ds}?id={second}", status=0)
    assert samples(run_leat, ds) == 25
