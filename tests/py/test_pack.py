"""What `leat pack` promises besides the bytes: ids that cover contents, classes from a list, limits said before anything is
read, chunks sorted by class noticed."""

import json
import os
import shutil
import subprocess

import pytest
from command_tools import can_unshare
from format_reader import Dataset


def write_files(folder, files):
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def contents(dataset):
    return {s.key.decode(): s.values["bin"] for s in dataset}


def labels(dataset):
    return {s.key.decode(): s.values["cls"] for s in dataset}


def pack(run_leat, *args, **more):
    return json.loads(run_leat("pack", "--json", "--chunk-size", "4KiB", *args, status=0, **more).stdout)


@pytest.fixture
def source(tmp_path):
    return write_files(
        tmp_path / "files", {f"{c}/{i}.bin": f"{c}{i:03}".encode() * 60 for c in "xyz" for i in range(20)}
    )


def lose_snapshot(ds):
    for name in ("current", "roots", "sections", "versions"):
        path = ds / "leat" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def packings(dataset):
    """Chunks by the packing id in their heads."""
    found = {}
    for path in (dataset / "leat/chunks").rglob("*"):
        if path.is_file():
            found.setdefault(path.read_bytes()[48:64].hex(), []).append(path.name)
    return found


def test_a_change_of_the_same_size_makes_another_packing_and_both_are_rebuilt(tmp_path, source, run_leat):
    ds, changed = tmp_path / "ds", source / "y/7.bin"
    first = pack(run_leat, source, ds)
    before = contents(Dataset(ds))
    stat = changed.stat()
    changed.write_bytes(b"Y" + changed.read_bytes()[1:])
    os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # nothing but the bytes tells them apart
    second = pack(run_leat, "--replace", source, ds)
    after = contents(Dataset(ds))
    assert first["id"] != second["id"] and before != after
    groups = packings(ds)
    assert len(groups) == 2 and all(len(chunks) == first["chunks"] for chunks in groups.values())
    lose_snapshot(ds)
    assert "several packings" in run_leat("rebuild", ds, status=2).stderr
    rebuilt = {}
    for packing in groups:
        run_leat("rebuild", "--packing", packing, ds, status=0)
        rebuilt[Dataset(ds).id] = contents(Dataset(ds))
    assert rebuilt == {first["id"]: before, second["id"]: after}


def test_the_same_files_make_the_same_objects_wherever_they_lie(tmp_path, source, serve, bucket_dir, run_leat):
    shutil.copytree(source, tmp_path / "copy")  # other inodes, other times
    server = serve(bucket_dir)
    env = server.s3_env()
    run_leat("cp", "-r", f"{source}/", "s3://bucket/put/", env=env, status=0)  # tagged with their MD5
    shutil.copytree(source, bucket_dir / "bucket/laid")  # tagged by the server with something else
    made = [
        pack(run_leat, source, tmp_path / "ds"),
        pack(run_leat, tmp_path / "copy", tmp_path / "ds2"),
        pack(run_leat, "s3://bucket/put", "s3://bucket/ds", env=env),
        pack(run_leat, "s3://bucket/laid", "s3://bucket/ds2", env=env),
    ]
    assert len({m["id"] for m in made}) == 1


def test_objects_whose_md5_is_listed_are_read_once(source, serve, bucket_dir, run_leat):
    server = serve(bucket_dir)
    run_leat("cp", "-r", f"{source}/", "s3://bucket/put/", env=server.s3_env(), status=0)
    before = server.stats()["requests"]
    pack(run_leat, "s3://bucket/put", "s3://bucket/ds", env=server.s3_env())
    chunks = len(list((bucket_dir / "bucket/ds/leat/chunks").rglob("*/*")))
    # each file once; a chunk is looked for before it is put, so that a packing that was interrupted goes on
    assert server.stats()["requests"] - before < 60 + 2 * chunks + 15


def test_the_schema_is_part_of_the_packing(tmp_path, source, run_leat):
    pack(run_leat, source, tmp_path / "ds")
    pack(run_leat, "--labels", "none", "--replace", source, tmp_path / "ds")
    assert len(packings(tmp_path / "ds")) == 2


def test_labels_have_the_numbers_of_a_list(tmp_path, source, run_leat):
    shutil.rmtree(source / "x")  # a validation set without the first class
    (tmp_path / "list.txt").write_text("x\r\nw\nz\ny\n")
    made = pack(run_leat, "--classes", tmp_path / "list.txt", source, tmp_path / "ds")
    assert made["labels"] == 4
    assert {key[0]: label for key, label in labels(Dataset(tmp_path / "ds")).items()} == {"y": 3, "z": 2}
    info = json.loads(run_leat("info", "--json", tmp_path / "ds", status=0).stdout)
    assert info["fields"][1]["about"]["names"] == ["x", "w", "z", "y"]
    pack(run_leat, "--classes", tmp_path / "ds", source, tmp_path / "again")  # a dataset is a list, too
    assert labels(Dataset(tmp_path / "again")) == labels(Dataset(tmp_path / "ds"))


def test_what_is_wrong_with_a_list_of_classes_is_said(tmp_path, source, run_leat):
    listed = tmp_path / "list.txt"

    def said(text, *options):
        listed.write_bytes(text)
        return run_leat("pack", "--classes", listed, *options, source, tmp_path / "ds", status=2).stderr

    assert "'z'" in said(b"x\ny\n") and "--classes" in said(b"x\ny\n")
    assert "twice" in said(b"x\ny\nx\n")
    assert "line 2" in said(b"x\n\ny\n")
    assert "empty" in said(b"")
    assert "UTF-8" in said(b"x\ny\nz\n\xff\n")
    assert "--labels none" in said(b"x\n", "--labels", "none")
    write_files(tmp_path / "flat", {"1.bin": b"1"})
    listed.write_text("x\n")
    assert "folder" in run_leat("pack", "--classes", listed, tmp_path / "flat", tmp_path / "ds", status=2).stderr
    assert "no dataset" in run_leat("pack", "--classes", tmp_path / "none", source, tmp_path / "ds", status=3).stderr
    pack(run_leat, tmp_path / "flat", tmp_path / "plain")
    assert "no field" in run_leat("pack", "--classes", tmp_path / "plain", source, tmp_path / "ds", status=2).stderr
    assert not (tmp_path / "ds").exists()


def test_files_that_cannot_be_samples_are_named_before_anything_is_read(tmp_path, source, run_leat):
    with open(source / "y/huge.bin", "wb") as f:
        f.truncate((4 << 30) - 100)
    said = run_leat("pack", source, tmp_path / "ds", status=7).stderr
    assert "'y/huge.bin'" in said and "4 GiB" in said
    assert not (tmp_path / "ds").exists()


def test_names_of_classes_that_do_not_fit_are_an_error(tmp_path, run_leat):
    folder = tmp_path / "files"
    for i in range(4500):
        write_files(folder, {f"{i:04}{'n' * 240}/1.bin": b"1"})
    said = run_leat("pack", folder, tmp_path / "ds", status=7).stderr
    assert "4500 classes" in said and "--labels none" in said
    pack(run_leat, "--labels", "none", folder, tmp_path / "ds")


def test_chunks_sorted_by_class_are_noticed(tmp_path, run_leat):
    files = {f"c{c}/{i:03}.bin": bytes([c]) * 100 for c in range(10) for i in range(60)}
    source = write_files(tmp_path / "files", files)
    for options, expected in ((["--keep-order"], True), ([], False), (["--labels", "none", "--keep-order"], False)):
        made = pack(run_leat, *options, "--replace", source, tmp_path / "ds")
        info = json.loads(run_leat("info", "--json", tmp_path / "ds", status=0).stdout)
        assert made["sorted_by_class"] is expected
        assert info["sorted_by_class"] is (None if "none" in options else expected)
        assert ("sorted   by class" in run_leat("info", tmp_path / "ds", status=0).stdout) is expected
    said = run_leat("pack", "--keep-order", "--replace", "--chunk-size", "24KiB", source, tmp_path / "ds", status=0)
    assert (
        "sorted by class" in said.stdout and "mixed as a whole" in said.stdout
    )  # a few chunks of several classes each
    one = json.loads(run_leat("pack", "--json", "--keep-order", source, tmp_path / "one", status=0).stdout)
    assert one["sorted_by_class"] is False  # a single chunk is always mixed as a whole


def test_a_file_that_vanishes_or_changes_while_it_is_packed_is_named(tmp_path, faulty, run_leat):
    server = faulty()
    server.objects = {f"bucket/raw/{i}.bin": b"x" * 3000 for i in range(5)}
    gone = server.fault(lambda e: e.error(404, "NoSuchKey"), key="bucket/raw/3.bin", method="GET")
    said = run_leat("pack", "s3://bucket/raw", tmp_path / "ds", env=server.env(), status=3).stderr
    assert "raw/3.bin" in said and not (tmp_path / "ds/leat/current").exists()
    server.faults.clear()

    def change(exchange):
        server.objects["bucket/raw/3.bin"] = b"y" * 3000  # as long as before
        server.proper(exchange)

    server.fault(change, key="bucket/raw/3.bin", method="GET")
    said = run_leat("pack", "s3://bucket/raw", tmp_path / "ds", env=server.env(), status=6).stderr
    assert "3.bin' changed" in said and not (tmp_path / "ds/leat/current").exists()
    assert gone is None


def test_tables_that_do_not_fit_into_memory_need_a_place(tmp_path, run_leat):
    """Nothing is spilled below 64 MiB: a bad TMPDIR does not matter to a small dataset."""
    source = write_files(tmp_path / "files", {f"{i}.bin": b"1" for i in range(50)})
    pack(run_leat, source, tmp_path / "ds", env={"TMPDIR": "/nonexistent"})


@pytest.mark.skipif(not can_unshare(), reason="needs a mount namespace")
def test_a_full_disk_is_said_and_no_dataset_is_left(tmp_path, leat_bin, clean_env):
    write_files(tmp_path / "files", {f"{i}.bin": os.urandom(100_000) for i in range(30)})
    (tmp_path / "small").mkdir()
    script = """
        mount -t tmpfs -o size=2m none "$1/small" || exit 99
        "$2" pack --chunk-size 256KiB "$1/files" "$1/small/ds"; status=$?
        ls "$1/small/ds/leat"
        exit $status
    """
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), str(leat_bin)]
    done = subprocess.run(command, env=clean_env, capture_output=True, text=True, check=False)
    assert done.returncode == 7 and "No space" in done.stderr, done.stderr
    assert done.stdout.split() == ["chunks"]
