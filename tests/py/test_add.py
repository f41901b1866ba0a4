"""leat pack --add-to: versions that grow and share their old chunks."""

import json

import pytest
from format_reader import Dataset


def files(folder, numbers, size=1000):
    for i in numbers:
        path = folder / ("cat" if i % 2 else "dog") / f"{i:03}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d " % i * (size // 4))
    return folder


@pytest.fixture
def grown(tmp_path, run_leat):
    """A dataset packed in three goes. Returns it and the ids of its versions."""
    ds, ids = tmp_path / "ds", []
    for go, numbers in enumerate((range(20), range(20, 35), range(35, 90))):
        more = ["--add-to"] if go else []
        folder = files(tmp_path / f"go{go}", numbers)
        result = run_leat("pack", "--json", "--chunk-size", "4KiB", *more, folder, ds, status=0)
        ids.append(json.loads(result.stdout)["id"])
    return ds, ids


def test_what_is_added_comes_after_what_was_there_and_chunks_are_shared(grown, run_leat):
    ds, ids = grown
    versions = [Dataset(ds, id=id) for id in ids]
    assert [len(v) for v in versions] == [20, 35, 90]
    assert Dataset(ds).id == ids[2]
    samples = [[(s.key, s.row, s.values["bin"]) for s in v] for v in versions]
    assert samples[1][:20] == samples[0]
    assert samples[2][:35] == samples[1]
    assert len({key for key, _, _ in samples[2]}) == 90
    for old, new in zip(versions, versions[1:]):
        assert new.root.names[: len(old.root.names)] == old.root.names
    stored = [p for p in (ds / "leat/chunks").rglob("*") if p.is_file()]
    assert len(stored) == len(versions[2].root.names)
    for version in versions:
        assert version.rows() == [s.row for s in version]
        assert version.keys() == [s.key for s in version]
        assert all(version.find(s.key) == s.number for s in version)
        assert "all good" in run_leat("verify", f"{ds}?id={version.id}", status=0).stdout


def test_rebuilding_from_the_chunks_gives_the_ids_of_adding(grown, run_leat):
    ds, ids = grown
    packings = []
    for pack in Dataset(ds).root.packings:
        if pack.hex() not in packings:
            packings.append(pack.hex())
    assert len(packings) == 3
    roots = {p.name for p in (ds / "leat/roots").iterdir()}
    for n in (1, 2, 3):
        options = [o for pack in packings[:n] for o in ("--packing", pack)]
        run_leat("rebuild", *options, ds, status=0)
        assert Dataset(ds).id == ids[n - 1]
        assert Dataset(ds).root_id in roots  # byte for byte what adding wrote


def test_adding_reads_no_chunk_and_works_in_a_bucket(grown, serve, bucket_dir, run_leat, tmp_path):
    ds, _ = grown
    folder = files(tmp_path / "more", range(90, 95))
    ds.rename(bucket_dir / "bucket/ds")
    server = serve(bucket_dir)
    env = server.s3_env()
    before = len(server.log())
    run_leat("pack", "--add-to", folder, "s3://bucket/ds", env=env, status=0)

    def chunks_read(lines):
        return [line for line in map(json.dumps, lines) if "GET" in line and "leat/chunks/" in line]

    assert not chunks_read(server.log(before))
    assert len(Dataset(bucket_dir / "bucket/ds")) == 95
    assert "95 samples" in run_leat("verify", "s3://bucket/ds", env=env, status=0).stdout
    assert chunks_read(server.log(before))


def test_what_cannot_be_added_is_refused_with_words(grown, run_leat, tmp_path):
    ds, ids = grown
    before = sorted(ds.rglob("*"))

    def refused(folder, *options, status=2):
        result = run_leat("pack", "--add-to", *options, folder, ds, status=status)
        assert sorted(ds.rglob("*")) == before
        return result.stderr

    (tmp_path / "new/eel").mkdir(parents=True)
    (tmp_path / "new/eel/1.bin").write_bytes(b"x")
    assert "eel" in refused(tmp_path / "new")
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat/1.bin").write_bytes(b"x")
    assert "fields" in refused(tmp_path / "flat", "--labels", "none")
    assert "--field" in refused(files(tmp_path / "again", [200]), "--field", "data")
    (tmp_path / "classes").write_text("dog\ncat\n")
    assert "--classes" in refused(tmp_path / "again", "--classes", tmp_path / "classes")
    same = tmp_path / "go1"
    result = run_leat("pack", "--add-to", "--chunk-size", "4KiB", same, ds, status=1)
    assert "15 of these keys already" in result.stderr
    mixed = files(files(tmp_path / "mixed", [3, 4]), [400])  # two old ones and a new one
    result = run_leat("pack", "--add-to", mixed, ds, status=1)
    assert "2 of these keys already, such as '" in result.stderr
    assert Dataset(ds).id == ids[2]
    result = run_leat("pack", "--add-to", same, tmp_path / "nothing", status=3)
    assert "no dataset at" in result.stderr
    run_leat("select", ds, "--numbers", "0:5", "--name", "five", status=0)
    run_leat("name", "--current", "--replace", f"{ds}?name=five", status=0)
    assert "is a selection" in run_leat("pack", "--add-to", files(tmp_path / "x", [300]), ds, status=2).stderr


def test_a_folder_that_grew_is_added_without_what_was_there(tmp_path, run_leat):
    folder = tmp_path / "files"

    def grow(numbers):
        for i in numbers:
            for ending in ("txt", "bin"):
                path = folder / f"{i:03}.{ending}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(f"{i} {ending} ".encode() * 50)

    grow(range(10))
    ds = tmp_path / "ds"
    run_leat("pack", "--group", folder, ds, status=0)
    before = [s.key for s in Dataset(ds)]
    grow(range(10, 13))
    done = run_leat("pack", "--group", "--add-to", "--only-new", folder, ds, status=0)
    assert "left out: 10 samples that were there already" in done.stdout
    after = list(Dataset(ds))
    assert [s.key for s in after[:10]] == before
    assert sorted(s.key for s in after[10:]) == [b"010", b"011", b"012"]
    assert all(s.values["txt"] == f"{int(s.key)} txt ".encode() * 50 for s in after)
    assert "nothing is new" in run_leat("pack", "--group", "--add-to", "--only-new", folder, ds, status=1).stderr
    (tmp_path / "m.csv").write_text("path,n\n001,1\n")
    options = ["--group", "--manifest", tmp_path / "m.csv", "--add-to", "--only-new"]
    assert "does not go with --manifest" in run_leat("pack", *options, folder, ds, status=2).stderr


def test_what_is_added_to_is_the_current_version(grown, run_leat, tmp_path):
    ds, ids = grown
    run_leat("name", f"{ds}?id={ids[0]}", "first", status=0)
    folder = files(tmp_path / "more", range(90, 95))
    result = run_leat("pack", "--add-to", folder, f"{ds}?name=first", status=2)
    assert "which version to read, not where to write" in result.stderr
