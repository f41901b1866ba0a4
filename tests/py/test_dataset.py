"""Packing a folder and everything that reads it again: pack, info, verify, cat, unpack, rebuild, order."""

import json
import os
import random
import re
import shutil
import subprocess

import order_reference
import pytest
from conftest import ROOT
from faulty_server import black_hole
from format_reader import ABSENT, Chunk, Dataset, read_schema
from format_writer import Field, Place, chunk_bytes
from loading import wait_until

GOLDEN = ROOT / "tests" / "golden" / "dataset-1"


def make_files(folder, classes=("cat", "cat-b", "dog"), each=40, seed=1):
    """{path: bytes} of small files that are no images, written below the folder."""
    draw = random.Random(seed)
    files = {}
    for name in classes:
        for i in range(each):
            files[f"{name}/{i}.bin"] = draw.randbytes(draw.randint(0, 3000))
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return files


@pytest.fixture
def files(tmp_path):
    return make_files(tmp_path / "files")


@pytest.fixture
def packed(tmp_path, files, run_leat):
    run_leat("pack", "--chunk-size", "16KiB", tmp_path / "files", tmp_path / "ds", status=0)
    return tmp_path / "ds"


def test_packed_folder_holds_every_file_once_with_its_label(packed, files):
    dataset = Dataset(packed)
    found = {sample.key.decode(): sample for sample in dataset}
    assert {key: sample.values["bin"] for key, sample in found.items()} == files
    names = dataset.fields[1].about["names"]
    assert names == ["cat", "cat-b", "dog"]  # as ImageFolder sorts them
    assert all(names[s.values["cls"]] == key.split("/")[0] for key, s in found.items())
    assert len(dataset.root.counts) > 5
    assert all(size <= 16384 for size in dataset.root.sizes)


def test_sections_say_what_the_chunks_say(packed):
    dataset = Dataset(packed)
    samples = list(dataset)
    assert dataset.rows() == [s.row for s in samples]
    assert dataset.keys() == [s.key for s in samples]
    assert all(dataset.find(s.key) == s.number for s in samples[::17])
    assert dataset.find(b"no such key") is None


def test_packing_permutes_by_a_fixed_seed_unless_told_to_keep_the_order(tmp_path, files, run_leat, packed):
    run_leat("pack", "--chunk-size", "16KiB", "--jobs", 7, tmp_path / "files", tmp_path / "again", status=0)
    assert Dataset(tmp_path / "again").id == Dataset(packed).id  # whatever the number of threads
    run_leat("pack", "--seed", 5, tmp_path / "files", tmp_path / "other", status=0)
    run_leat("pack", "--keep-order", tmp_path / "files", tmp_path / "kept", status=0)
    order = [s.key.decode() for s in Dataset(packed)]
    assert order != sorted(files)
    assert [s.key.decode() for s in Dataset(tmp_path / "other")] != order
    assert [s.key.decode() for s in Dataset(tmp_path / "kept")] == sorted(files)


def test_info_verify_cat_and_unpack(tmp_path, files, packed, run_leat):
    info = json.loads(run_leat("info", "--json", packed, status=0).stdout)
    assert info["samples"] == len(files)
    assert info["id"] == Dataset(packed).id
    assert [f["name"] for f in info["fields"]] == ["bin", "cls"]
    assert str(len(files)) in run_leat("info", packed, status=0).stdout
    assert "all good" in run_leat("verify", packed, status=0).stdout
    sample = list(Dataset(packed))[33]
    assert run_leat("cat", packed, sample.key.decode(), text=False, status=0).stdout == sample.values["bin"]
    assert run_leat("cat", "-n", 33, packed, text=False, status=0).stdout == sample.values["bin"]
    assert run_leat("cat", "-n", 33, "--field", "cls", packed, status=0).stdout == f"{sample.values['cls']}\n"
    run_leat("unpack", packed, tmp_path / "out", status=0)
    out = {str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert out == files


def test_a_key_or_number_that_is_not_there_is_said(packed, run_leat):
    assert "no sample has the key 'x/y'" in run_leat("cat", packed, "x/y", status=3).stderr
    assert "has 120" in run_leat("cat", "-n", 120, packed, status=3).stderr
    assert "bin, cls" in run_leat("cat", "-n", 1, "--field", "jpg", packed, status=2).stderr


def test_lost_snapshot_is_rebuilt_to_the_same_id(packed, run_leat):
    before = Dataset(packed).id
    (packed / "leat/current").unlink()
    shutil.rmtree(packed / "leat/roots")
    shutil.rmtree(packed / "leat/sections")
    assert "leat rebuild" in run_leat("info", packed, status=3).stderr
    assert before in run_leat("rebuild", packed, status=0).stdout
    assert Dataset(packed).id == before
    run_leat("verify", packed, status=0)


def test_rebuild_with_a_missing_chunk_changes_nothing(packed, run_leat):
    dataset = Dataset(packed)
    name = dataset.root.names[2].hex()
    (packed / "leat/chunks" / name[:2] / name).unlink()
    (packed / "leat/current").unlink()
    assert "missing" in run_leat("rebuild", packed).stderr
    assert not (packed / "leat/current").exists()


def test_rebuild_among_several_packings_wants_to_be_told_which(tmp_path, files, packed, run_leat):
    first = Dataset(packed).id
    run_leat("pack", "--replace", "--seed", 9, "--chunk-size", "64KiB", tmp_path / "files", packed, status=0)
    second = Dataset(packed).id
    (packed / "leat/current").unlink()
    asked = run_leat("rebuild", packed, status=2).stderr
    assert "--packing" in asked
    names = re.findall(r"\b[0-9a-f]{32}\b", asked)
    assert len(names) == 2
    rebuilt = set()
    for name in names:
        run_leat("rebuild", "--packing", name, packed, status=0)
        rebuilt.add(Dataset(packed).id)
        run_leat("verify", packed, status=0)
    assert rebuilt == {first, second}
    assert "hexadecimal" in run_leat("rebuild", "--packing", "zz", packed, status=2).stderr
    assert run_leat("rebuild", "--packing", "0" * 32, packed).returncode != 0


@pytest.mark.parametrize("part", ["chunk", "section", "root"])
def test_verify_finds_a_flipped_bit_anywhere(packed, run_leat, part):
    dataset = Dataset(packed)
    path = {
        "chunk": packed / "leat/chunks" / dataset.root.names[1].hex()[:2] / dataset.root.names[1].hex(),
        "section": packed / "leat/sections" / dataset.root.sections[1][2].hex(),
        "root": packed / "leat/roots" / dataset.root_id,
    }[part]
    data = path.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 7)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        done = run_leat("verify", packed, status=6)
        assert part != "chunk" or "chunk 1 of" in done.stderr
    path.write_bytes(data)
    run_leat("verify", packed, status=0)


def test_verify_names_every_missing_chunk(packed, run_leat):
    dataset = Dataset(packed)
    for i in (1, 3):
        name = dataset.root.names[i].hex()
        (packed / "leat/chunks" / name[:2] / name).unlink()
    done = run_leat("verify", packed, status=3)
    assert "chunk 1 of" in done.stderr
    assert "chunk 3 of" in done.stderr
    assert "2 of" in done.stderr


def test_places_that_cannot_work_are_refused(tmp_path, files, packed, run_leat):
    assert "already; --replace" in run_leat("pack", tmp_path / "files", packed).stderr
    run_leat("pack", "--replace", tmp_path / "files", packed, status=0)
    (tmp_path / "link").symlink_to("files")
    for source in ("files", "files/", "files/.", "link", "link/../files"):
        for dest in ("files/x", "link/x/y", "files"):
            done = run_leat("pack", f"{tmp_path}/{source}", f"{tmp_path}/{dest}", status=2)
            assert "is inside" in done.stderr
    run_leat("pack", tmp_path / "files", tmp_path / "files-packed", status=0)
    assert "belongs to a dataset" in run_leat("pack", packed, tmp_path / "y", status=2).stderr
    (tmp_path / "empty").mkdir()
    assert "no objects" in run_leat("pack", tmp_path / "empty", tmp_path / "z", status=3).stderr
    assert "--labels" in run_leat("pack", "--labels", "x", tmp_path / "files", tmp_path / "z", status=2).stderr
    assert "field's name" in run_leat("pack", "--field", "a b", tmp_path / "files", tmp_path / "z", status=2).stderr
    assert not (tmp_path / "z").exists()
    done = run_leat("info", tmp_path / "files", status=3)
    assert "3 folders" in done.stderr
    assert "leat pack" in done.stderr


def test_flat_folders_have_no_labels_and_hidden_files_are_left_out(tmp_path, run_leat):
    (tmp_path / "flat/.git").mkdir(parents=True)
    (tmp_path / "flat/a.txt").write_text("hello")
    (tmp_path / "flat/b.txt").write_text("")
    (tmp_path / "flat/.x").write_text("no")
    (tmp_path / "flat/.git/c").write_text("no")
    done = run_leat("pack", "--json", tmp_path / "flat", tmp_path / "ds", status=0)
    assert json.loads(done.stdout)["hidden"] == 2
    dataset = Dataset(tmp_path / "ds")
    assert [(f.name, f.kind) for f in dataset.fields] == [("txt", 4)]
    assert {s.key: s.values["txt"] for s in dataset} == {b"a.txt": b"hello", b"b.txt": b""}
    assert "in no folder" in run_leat("pack", "--labels", "folder", tmp_path / "flat", tmp_path / "z", status=2).stderr


def test_image_dimensions_are_read_from_the_headers(tmp_path, run_leat):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "files/a").mkdir(parents=True)
    sizes = {"a/x.jpg": (31, 17), "a/y.png": (5, 9), "a/z.jpeg": (64, 48)}
    for path, size in sizes.items():
        image.new("RGB", size, (200, 10, 10)).save(tmp_path / "files" / path, progressive=path.endswith("jpeg"))
    (tmp_path / "files/a/broken.jpg").write_bytes(b"\xff\xd8 not really")
    done = run_leat("pack", "--json", tmp_path / "files", tmp_path / "ds", status=0)
    assert json.loads(done.stdout)["unreadable_images"] == 1
    for sample in Dataset(tmp_path / "ds"):
        data, info = sample.values["image"]
        assert data == (tmp_path / "files" / sample.key.decode()).read_bytes()
        if sample.key == b"a/broken.jpg":
            assert not any(info.values())
            continue
        size = sizes[sample.key.decode()]
        assert (info["width"], info["height"]) == size
        assert info["decoded"] == size[0] * size[1] * 3
        assert info["kind"] == (2 if sample.key.endswith(b"png") else 1)
        assert info["flags"] == sample.key.endswith(b"jpeg")


HOSTILE = [b"../up", b"a/../../up", b"/etc/x", b"nul\0byte", b"n" * 300]


@pytest.mark.parametrize(
    "key", [*HOSTILE, *(pytest.param(key, marks=pytest.mark.long) for key in (b"a//b", b".", b"x/"))]
)
def test_unpack_never_uses_a_key_as_a_path_unchecked(tmp_path, packed, run_leat, key):
    """A dataset whose keys are hostile: one chunk's key is replaced, and all that depends on it made again."""
    dataset = Dataset(packed)
    name = dataset.root.names[0].hex()
    path = packed / "leat/chunks" / name[:2] / name
    shutil.rmtree(packed / "leat/roots")
    rewrite_first_key(path, key)
    run_leat("rebuild", packed, status=0)
    done = run_leat("unpack", packed, tmp_path / "out/below", status=2)
    assert "cannot be a path" in done.stderr
    assert "1 samples were left out" in done.stderr
    assert not (tmp_path / "up").exists()
    assert not (tmp_path / "out/up").exists()


CLASHES = {  # keys and values of two fields, txt and js; where to; what is refused, else the files
    "two fields, one file": ([("a", "x", "y"), ("a.txt", "z", "w")], "file", "('a') and 'txt' of sample 1 ('a.txt')"),
    "… of another sample's other field": ([("a.js", "x", "y"), ("a", "z", "w")], "file", "the same file, 'a.js'"),
    "without the value that would be in the way": (
        [("a", ABSENT, "y"), ("a.txt", "z", "w")],
        "file",
        {"a.js": "y", "a.txt": "z", "a.txt.js": "w"},
    ),
    "a file and a folder": ([("d/a.txt", "x", "y"), ("d/a.txt/b.txt", "z", "w")], "file", "a folder in the same place"),
    "… in another chunk, deeper": (
        [("d/a.txt/b/c.txt", "x", "y"), ("k", "x", "y"), ("l", "x", "y"), ("d/a.txt", "z", "w")],
        "file",
        "a folder in the same place, 'd/a.txt'",
    ),
    "… in a bucket": (
        [("a.txt", "x", "y"), ("a.txt/b.txt", "z", "w")],
        "s3",
        {"a.txt": "x", "a.txt.js": "y", "a.txt/b.txt": "z", "a.txt/b.txt.js": "w"},
    ),
    "… in a bucket, one name": ([("a", "x", "y"), ("a.txt", "z", "w")], "s3", "the same file, 'a.txt'"),
}


@pytest.mark.parametrize("clash", CLASHES)
def test_unpack_writes_each_value_to_a_file_of_its_own_or_nothing(tmp_path, run_leat, faulty, clash):
    samples, store, expected = CLASHES[clash]
    fields = [Field("txt", 1, optional=True), Field("js", 1)]
    values = [(key.encode(), {"txt": a if a is ABSENT else a.encode(), "js": b.encode()}) for key, a, b in samples]
    Place(tmp_path / "ds").write(fields, [values[:2], values[2:]] if values[2:] else [values])
    server = faulty()
    env = server.env() if store == "s3" else {}
    to = "s3://bucket/out" if env else tmp_path / "out"
    done = run_leat("unpack", tmp_path / "ds", to, env=env, status=2 if isinstance(expected, str) else 0)
    out = tmp_path / "out"
    found = {str(p.relative_to(out)): p.read_text() for p in out.rglob("*") if p.is_file()}
    found.update({key.removeprefix("bucket/out/"): data.decode() for key, data in server.objects.items()})
    if isinstance(expected, str):
        assert expected in done.stderr and "nothing was written" in done.stderr
        assert found == {} and not out.exists()
    else:
        assert found == expected


def rewrite_first_key(path, key):
    old = Chunk(path.read_bytes())
    path.unlink()
    fields = [Field(f.name, f.kind, f.about) for f in read_schema(old.schema)[0]]
    samples = list(zip([key, *old.keys[1:]], old.values))
    chunk = chunk_bytes(fields, samples, old.packing, old.number, old.total, schema=old.schema)
    Place(path.parents[3]).put_chunk(chunk)


def test_order_prints_what_the_documents_specify(packed, run_leat):
    dataset = Dataset(packed)
    counts = list(dataset.root.counts)
    expected = order_reference.order(bytes.fromhex(dataset.id), counts, 7, 2, 5)
    units = order_reference.numbers(counts, expected)
    keys = [s.key.decode() for s in dataset]
    lines = run_leat("order", packed, "--seed", 7, "--epoch", 2, "--window", 5, "--keys", status=0).stdout.splitlines()
    assert lines == [f"{p}\t{u}\t{c}\t{keys[u]}" for p, (u, (c, _)) in enumerate(zip(units, expected))]
    part = run_leat("order", packed, "--seed", 7, "--epoch", 2, "--window", 5, "--from", 50, "--count", 9, "--keys")
    assert part.stdout.splitlines() == lines[50:59]
    plain = run_leat("order", packed, "--no-shuffle", status=0).stdout.splitlines()
    assert [line.split("\t")[1] for line in plain] == [str(i) for i in range(len(units))]


def test_order_of_a_step_is_the_same_set_in_every_world(packed, run_leat):
    whole = run_leat("order", packed, "--from", 48, "--count", 24, status=0).stdout.splitlines()
    expected = sorted(int(line.split("\t")[1]) for line in whole)
    for world, nodes in ((1, 1), (2, 2), (3, 1), (4, 2), (8, 4)):
        seen = []
        for rank in range(world):
            args = ["--global-batch", 24, "--world", world, "--nodes", nodes, "--step", 2, "--rank", rank]
            lines = [line.split("\t") for line in run_leat("order", packed, *args, status=0).stdout.splitlines()]
            assert len(lines) == 24 // world
            assert all(line[3:5] == ["2", str(rank)] for line in lines)
            assert [int(line[0]) for line in lines] == sorted(int(line[0]) for line in lines)
            seen += [int(line[1]) for line in lines]
        assert sorted(seen) == expected


def test_order_of_an_incomplete_last_batch(packed, run_leat):
    def count(last):
        lines = run_leat("order", packed, "--global-batch", 50, "--last", last, status=0).stdout.splitlines()
        return len(lines), sum(line.startswith("-") for line in lines)

    assert count("drop") == (100, 0)
    assert count("short") == (120, 0)
    assert count("pad") == (150, 30)
    assert "3 steps" in run_leat("order", packed, "--global-batch", 50, "--last", "pad", "--step", 3, status=2).stderr
    assert "not one of" in run_leat("order", packed, "--last", "x", status=2).stderr
    assert "--global-batch" in run_leat("order", packed, "--rank", 0, status=2).stderr
    args = ["--global-batch", 8, "--world", 4, "--rank", 4]
    assert "world of 4" in run_leat("order", packed, *args, status=2).stderr
    assert "not a multiple" in run_leat("order", packed, "--global-batch", 8, "--world", 3, status=2).stderr


def test_order_of_nodes_with_different_numbers_of_ranks(packed, run_leat):
    """Also the assignment itself, against the reference: which rank prints which sample."""
    dataset = Dataset(packed)
    chunks = len(dataset.root.counts)
    for nodes, args in (("4,2", []), ("1,1,3", ["--last", "short"]), ("2,2", ["--world", 4])):
        node_of_rank = order_reference.read_map(nodes)
        table = order_reference.place(min(1024, chunks), node_of_rank)
        batch = 6 * len(node_of_rank)
        text = run_leat("order", packed, "--global-batch", batch, "--nodes", nodes, *args, status=0).stdout
        lines = [list(map(int, line.split("\t"))) for line in text.splitlines()]
        assert len(lines) == (120 if "short" in args else 120 - 120 % batch)
        for at in range(0, len(lines), batch):
            part = lines[at : at + batch]
            slots = [order_reference.slot_of(chunk, chunks) for _, _, chunk, _, _ in part]
            assert [line[4] for line in part] == order_reference.assign(slots, table, node_of_rank), (nodes, at)


def test_order_says_which_option_cannot_be(packed, run_leat):
    for args, words in (
        (["--nodes", "4,2", "--world", 7], ("--nodes 4,2", "6 ranks", "--world")),
        (["--nodes", "4,0"], ("--nodes", "node 1", "no ranks")),
        (["--nodes", "4,"], ("--nodes",)),
        (["--nodes", "4,x"], ("--nodes",)),
        (["--nodes", "4,99999999"], ("--nodes", "1048576")),
        (["--nodes", "4,11111111111111111112"], ("--nodes",)),
        (["--nodes", 0], ("--nodes 0",)),
        (["--nodes", 4, "--world", 6], ("--nodes 4", "6", "4,2")),
        (["--world", 0], ("--world 0",)),
        (["--world", 2**20 + 1], ("--world", "1048576")),
        (["--world", "two"], ("--world", "two")),
        (["--global-batch", 0], ("--global-batch 0",)),
        (["--global-batch", 2**24 + 1], ("--global-batch", "16777216")),
        (["--window", 0], ("--window 0", "65536")),
        (["--window", 65537], ("--window 65537",)),
        (["--step", 1, "--from", 4], ("--step", "--from")),
        (["--step", 1, "--count", 4], ("--step", "--count")),
    ):
        batch = [] if "--global-batch" in args else ["--global-batch", 12]
        stderr = run_leat("order", packed, *batch, *args, status=2).stderr
        assert all(word in stderr for word in words), (args, stderr)
    for option in ("--world", "--nodes", "--rank", "--step"):
        assert "need --global-batch" in run_leat("order", packed, option, 1, status=2).stderr


def test_order_as_json_says_the_same(packed, run_leat):
    for args, names in (
        (["--count", 9], ["position", "sample", "chunk"]),
        (["--keys", "--global-batch", 50, "--last", "pad"], ["position", "sample", "chunk", "step", "rank", "key"]),
    ):
        text = [line.split("\t") for line in run_leat("order", packed, *args, status=0).stdout.splitlines()]
        lines = [json.loads(line) for line in run_leat("order", packed, "--json", *args, status=0).stdout.splitlines()]
        assert all(list(line) == names for line in lines)
        assert [["-" if v is None else str(v) for v in line.values()] for line in lines] == text


def test_golden_dataset_is_read_by_both_readers(tmp_path, run_leat):
    """Kept from when format 1 was made: every release must read it."""
    dataset = Dataset(GOLDEN)
    expected = json.loads((GOLDEN / "expected.json").read_text())
    assert dataset.id == expected["id"]
    found = {s.key.decode(): [s.values["cls"], s.values["image"][0].hex()] for s in dataset}
    assert found == expected["samples"]
    assert dataset.keys() == [s.key for s in dataset]
    assert dataset.rows() == [s.row for s in dataset]
    assert json.loads(run_leat("info", "--json", GOLDEN, status=0).stdout)["id"] == expected["id"]
    run_leat("verify", GOLDEN, status=0)
    for key, (label, data) in expected["samples"].items():
        assert run_leat("cat", GOLDEN, key, text=False, status=0).stdout.hex() == data
        number = str(dataset.find(key.encode()))
        assert run_leat("cat", GOLDEN, "--sample", number, "--field", "cls", status=0).stdout == f"{label}\n"


def test_packing_the_golden_files_gives_the_golden_dataset(tmp_path, run_leat):
    expected = json.loads((GOLDEN / "expected.json").read_text())
    for key, (_, data) in expected["samples"].items():
        (tmp_path / "files" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / key).write_bytes(bytes.fromhex(data))
    run_leat("pack", "--chunk-size", "4KiB", tmp_path / "files", tmp_path / "ds", status=0)
    assert Dataset(tmp_path / "ds").id == expected["id"]


def test_pack_from_bucket_to_bucket_is_described_in_three_requests(tmp_path, files, serve, bucket_dir, run_leat):
    shutil.copytree(tmp_path / "files", bucket_dir / "bucket/raw")
    server = serve(bucket_dir)
    env = server.s3_env()
    run_leat("pack", "--chunk-size", "16KiB", "s3://bucket/raw", "s3://bucket/ds", env=env, status=0)
    before = server.stats()["requests"]
    info = json.loads(run_leat("info", "--json", "s3://bucket/ds", env=env, status=0).stdout)
    after = server.stats()["requests"]
    assert after - before == 3  # the pointer, the root, and the labels of a few samples
    assert info["samples"] == len(files)
    run_leat("verify", "s3://bucket/ds", env=env, status=0)
    assert Dataset(bucket_dir / "bucket/ds").id == info["id"]


def test_interrupted_packing_publishes_nothing(tmp_path, files, faulty, leat_bin, clean_env):
    server = faulty()
    server.fault(black_hole, method="PUT", after=2)
    command = [leat_bin, "pack", "--chunk-size", "16KiB", tmp_path / "files", "s3://bucket/ds"]
    process = subprocess.Popen(command, env={**clean_env, **server.env()}, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: server.count("PUT") > 2, what="a chunk that is not taken")
    process.terminate()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert not any(key.endswith("leat/current") for key in server.objects)


def test_keys_that_are_not_text_survive(tmp_path, run_leat):
    folder = os.fsencode(tmp_path / "odd")
    os.mkdir(folder)
    names = [b"a\xff\xfe", b"line\nbreak", b"sp ace", "ünï".encode(), b"back\\slash"]
    for name in names:
        with open(os.path.join(folder, name), "wb") as f:
            f.write(name)
    run_leat("pack", tmp_path / "odd", tmp_path / "ds", status=0)
    assert {s.key: s.values["data"] for s in Dataset(tmp_path / "ds")} == {n: n for n in names}
    lines = run_leat("order", tmp_path / "ds", "--keys", text=False, status=0).stdout.splitlines()
    assert len(lines) == len(names)
    run_leat("unpack", tmp_path / "ds", tmp_path / "out", status=0)
    assert sorted(os.listdir(os.fsencode(tmp_path / "out"))) == sorted(names)
