"""What `leat index` promises of raw objects: samples as they lie, labels and values from wherever they come, and every
input that cannot be a dataset named before anything is published."""

import json
import os
import shutil
import signal
import subprocess
import time
from unittest.mock import ANY

import pytest
import s3 as s3_tools
from loading import import_leat, make_images, wait_until


def write_files(folder, files):
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def index(run_leat, *args, **more):
    return json.loads(run_leat("index", "--json", "--chunk-size", "4KiB", *args, status=0, **more).stdout)


def refused(run_leat, *args, status=2, dest, **more):
    """The error; nothing may have been published by then."""
    done = run_leat("index", *args, dest, status=status, **more)
    assert not (dest / "leat").exists(), "something was published"
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def samples(url, **options):
    """{key: sample}, in the order of the numbers."""
    return {sample.key: dict(sample) for sample in import_leat().open(str(url), **options)}


def use(monkeypatch, env):
    """The server's variables, for what is opened in this process."""
    for name, value in env.items():
        monkeypatch.setenv(name, str(value))


@pytest.fixture
def pairs(tmp_path):
    """Twenty samples of two files each."""
    files = {}
    for i in range(20):
        files[f"{i:04}.txt"] = f"caption {i}".encode()
        files[f"{i:04}.json"] = json.dumps({"n": i}).encode()
    return write_files(tmp_path / "pairs", files)


@pytest.fixture
def photos(tmp_path):
    """Thirty files in three folders."""
    return write_files(
        tmp_path / "photos",
        {f"{c}/{i:03}.bin": f"{c} {i}".encode() * 50 for c in ("ant", "bee", "cat") for i in range(10)},
    )


# What comes out


def test_every_object_is_a_sample_with_the_label_of_its_folder(tmp_path, photos, run_leat):
    made = index(run_leat, photos, tmp_path / "ds")
    assert (made["samples"], made["objects"], made["labels"]) == (30, 30, 3) and made["chunks"] > 1
    found = samples(tmp_path / "ds")
    assert {k: v["bin"] for k, v in found.items()} == {
        str(p.relative_to(photos)): p.read_bytes() for p in photos.rglob("*.bin")
    }
    assert {k: v["cls"] for k, v in found.items()} == {k: ["ant", "bee", "cat"].index(k.split("/")[0]) for k in found}


@pytest.mark.parametrize("command", ["index", "pack"])
def test_a_link_that_leads_nowhere_is_left_out_with_a_word(tmp_path, photos, run_leat, command):
    (photos / "lost.txt").symlink_to("nowhere")
    done = run_leat(command, "--quiet", "--json", photos, tmp_path / "to", status=0)
    assert json.loads(done.stdout)["samples"] == 30
    assert done.stderr.count("left out") == 1
    assert "lost.txt" in done.stderr


def test_an_index_numbers_samples_as_packing_does(tmp_path, photos, run_leat):
    run_leat("pack", "--chunk-size", "4KiB", photos, tmp_path / "packed", status=0)
    index(run_leat, photos, tmp_path / "indexed")
    packed, indexed = samples(tmp_path / "packed"), samples(tmp_path / "indexed")
    assert list(packed) == list(indexed)
    index(run_leat, "--keep-order", photos, tmp_path / "kept")
    assert list(packed) != sorted(packed) == list(samples(tmp_path / "kept"))


def test_the_same_objects_give_the_same_dataset_and_no_object_is_read(tmp_path, photos, serve, bucket_dir, run_leat):
    server = serve(bucket_dir)
    env = server.s3_env()
    run_leat("cp", "-r", f"{photos}/", "s3://bucket/photos/", env=env, status=0)
    before = server.stats()["calls"].get("GetObject", {})
    ids = {
        index(run_leat, "--threads", threads, "s3://bucket/photos", tmp_path / f"ds{threads}", env=env)["id"]
        for threads in (0, 1, 7)
    }
    assert len(ids) == 1
    assert server.stats()["calls"].get("GetObject", {}) == before
    assert index(run_leat, "--seed", "1", "s3://bucket/photos", tmp_path / "other", env=env)["id"] not in ids


def test_files_of_one_stem_are_one_sample(tmp_path, pairs, run_leat):
    made = index(run_leat, "--group", pairs, tmp_path / "ds")
    assert (made["samples"], made["objects"]) == (20, 40)
    assert samples(tmp_path / "ds") == {f"{i:04}": {"txt": f"caption {i}", "json": {"n": i}} for i in range(20)}


def test_stems_end_at_the_first_dot_of_the_name_and_folders_may_have_dots(tmp_path, run_leat):
    files = {
        "a.d/1.jpg.txt": b"A", "a.d/1.seg.txt": b"B", "a.d/2.seg.txt": b"D", "a.d/2.JPG.txt": b"C",
        "a.d.txt/3.jpg.txt": b"E", "a.d.txt/3.seg.txt": b"F",
    }  # fmt: skip
    index(run_leat, "--group", write_files(tmp_path / "f", files), tmp_path / "ds")
    assert samples(tmp_path / "ds") == {
        "a.d/1": {"jpg.txt": "A", "seg.txt": "B"},
        "a.d/2": {"jpg.txt": "C", "seg.txt": "D"},
        "a.d.txt/3": {"jpg.txt": "E", "seg.txt": "F"},
    }


def test_a_group_that_lacks_a_file_is_an_error_optional_or_left_out(tmp_path, pairs, run_leat):
    (pairs / "0007.txt").unlink()
    (pairs / "0009.json").unlink()
    said = refused(run_leat, "--group", pairs, dest=tmp_path / "none")
    assert "0007' has no .txt (2 of 20 samples lack a file)" in said and "--missing optional" in said
    made = index(run_leat, "--group", "--missing", "skip", pairs, tmp_path / "skip")
    assert (made["samples"], made["incomplete"]) == (18, 2)
    assert "0007" not in samples(tmp_path / "skip")
    index(run_leat, "--group", "--missing", "optional", pairs, tmp_path / "optional")
    found = samples(tmp_path / "optional")
    assert found["0007"] == {"txt": None, "json": {"n": 7}} and found["0009"] == {"txt": "caption 9", "json": None}


def test_types_of_fields_can_be_said(tmp_path, pairs, run_leat):
    index(run_leat, "--group", "--type", "json=bytes", "--type", "txt=bytes", pairs, tmp_path / "ds")
    assert samples(tmp_path / "ds")["0003"] == {"txt": b"caption 3", "json": b'{"n": 3}'}
    assert "no such field" in refused(run_leat, "--type", "jpg=image", pairs, dest=tmp_path / "a")
    said = refused(run_leat, "--group", "--type", "txt=int", pairs, dest=tmp_path / "a")
    assert "'txt' holds files as they are" in said and "manifest" in said
    assert "NAME=TYPE" in refused(run_leat, "--type", "txt=words", pairs, dest=tmp_path / "a")


def test_several_places_are_one_dataset_with_keys_below_what_they_share(
    tmp_path, run_leat, serve, bucket_dir, monkeypatch
):
    for part in "abc":
        write_files(bucket_dir / "bucket" / "train" / part, {f"x/{i}.bin": f"{part}{i}".encode() for i in range(5)})
    write_files(bucket_dir / "other" / "x", {"9.bin": b"other"})
    env = serve(bucket_dir).s3_env()
    index(run_leat, "s3://bucket/train/a", "s3://bucket/train/b", tmp_path / "two", env=env)
    use(monkeypatch, env)
    found = samples(tmp_path / "two")
    assert found["a/x/3.bin"] == {"bin": b"a3", "cls": 0} and len(found) == 10 and "b/x/0.bin" in found
    index(run_leat, "s3://bucket/train/a", "s3://other/x", "--labels", "none", tmp_path / "stores", env=env)
    found = samples(tmp_path / "stores")
    assert found["bucket/train/a/x/1.bin"] == {"bin": b"a1"} and found["other/x/9.bin"] == {"bin": b"other"}


# Labels and values


def test_labels_come_from_a_regular_expression(tmp_path, run_leat):
    source = write_files(tmp_path / "f", {f"x/class_{i % 4:02}/{i}.bin": b"%d" % i for i in range(12)})
    index(run_leat, "--label-regex", r"class_(\d+)/", source, tmp_path / "numbers")
    assert {v["cls"] for v in samples(tmp_path / "numbers").values()} == {0, 1, 2, 3}
    assert all(int(v["bin"]) % 4 == v["cls"] for v in samples(tmp_path / "numbers").values())
    index(run_leat, "--label-regex", r"(cl[as]+_[\d]*1|x)/", source, tmp_path / "names")
    assert import_leat().open(str(tmp_path / "names")).fields["cls"].about["names"] == ["x"]
    assert "finds no label in 'x/class_01/1.bin'" in refused(
        run_leat, "--label-regex", r"class_(00|02|03)/", source, dest=tmp_path / "no"
    )
    assert "no parentheses" in refused(run_leat, "--label-regex", "x", source, dest=tmp_path / "no")
    assert "--label-regex '('" in refused(run_leat, "--label-regex", "(", source, dest=tmp_path / "no")


def test_classes_number_the_labels_and_others_are_refused(tmp_path, photos, run_leat):
    (tmp_path / "classes.txt").write_text("cat\ndog\nbee\nant\n")
    made = index(run_leat, "--classes", tmp_path / "classes.txt", photos, tmp_path / "ds")
    assert made["labels"] == 4
    assert {k.split("/")[0]: v["cls"] for k, v in samples(tmp_path / "ds").items()} == {"cat": 0, "bee": 2, "ant": 3}
    (tmp_path / "classes.txt").write_text("cat\ndog\nbee\n")
    assert "'ant' is not in the list" in refused(
        run_leat, "--classes", tmp_path / "classes.txt", photos, dest=tmp_path / "no"
    )


def test_a_manifest_says_which_samples_there_are_and_their_values(tmp_path, photos, run_leat):
    (tmp_path / "m.csv").write_text(
        'path,width,score,code,text,gap\r\n'
        'bee/003.bin,640,0.5,007,"two\nlines, ""quoted""",1\r\n'
        'cat/001.bin,-3,2,12,plain,\r\n'
        '\r\n'
        './ant/009.bin,9007199254740993,1e3,1,ünïcode,3'
    )  # fmt: skip
    made = index(run_leat, "--manifest", tmp_path / "m.csv", "--keep-order", photos, tmp_path / "ds")
    assert (made["samples"], made["unnamed"], made["labels"]) == (3, 27, 0)
    found = samples(tmp_path / "ds")
    assert list(found) == ["bee/003.bin", "cat/001.bin", "ant/009.bin"]
    assert found["bee/003.bin"] == {
        "bin": (photos / "bee/003.bin").read_bytes(),
        "width": 640, "score": 0.5, "code": "007", "text": 'two\nlines, "quoted"', "gap": 1,
    }  # fmt: skip
    assert found["cat/001.bin"]["width"] == -3 and found["cat/001.bin"]["gap"] is None
    assert found["ant/009.bin"]["width"] == 9007199254740993 and found["ant/009.bin"]["score"] == 1000.0
    assert found["ant/009.bin"]["text"] == "ünïcode"


def test_a_manifest_of_json_lines_and_labels_from_a_column(tmp_path, photos, run_leat):
    rows = [
        {"key": str(p.relative_to(photos)), "kind": p.parent.name, "n": int(p.stem), "ok": p.stem == "001"}
        for p in sorted(photos.rglob("*.bin"))
    ]
    rows[4]["extra"] = {"a": [1, 2]}
    rows[5]["extra"] = None
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = index(run_leat, "--manifest", tmp_path / "m.jsonl", "--label-column", "kind", photos, tmp_path / "ds")
    assert (made["samples"], made["labels"]) == (30, 3)
    found = samples(tmp_path / "ds")
    assert {k: v["cls"] for k, v in found.items()} == {k: ["ant", "bee", "cat"].index(k.split("/")[0]) for k in found}
    assert all(v["n"] == int(k[4:7]) and v["ok"] == (v["n"] == 1) for k, v in found.items())
    assert {k: v["extra"] for k, v in found.items() if v["extra"] is not None} == {"ant/004.bin": '{"a":[1,2]}'}


def test_a_manifest_names_groups_by_stem_or_any_file(tmp_path, pairs, run_leat):
    (tmp_path / "m.tsv").write_text("file\tscore\n0003\t1.5\n0004.json\t2\n0005.txt\t3\n")
    index(run_leat, "--group", "--manifest", tmp_path / "m.tsv", pairs, tmp_path / "ds")
    assert samples(tmp_path / "ds") == {
        f"000{i}": {"txt": f"caption {i}", "json": {"n": i}, "score": s} for i, s in ((3, 1.5), (4, 2.0), (5, 3.0))
    }


def test_a_manifest_may_have_whole_keys_and_addresses(tmp_path, photos, run_leat):
    (tmp_path / "m.csv").write_text(f"path,n\n{photos}/bee/003.bin,1\nfile://{photos}/bee/004.bin,2\n")
    index(run_leat, "--manifest", tmp_path / "m.csv", photos, tmp_path / "ds")
    assert {k: v["n"] for k, v in samples(tmp_path / "ds").items()} == {"bee/003.bin": 1, "bee/004.bin": 2}
    made = index(run_leat, "--manifest", "m.csv", photos.relative_to(tmp_path), "near", cwd=tmp_path)
    assert (made["samples"], list(samples(tmp_path / "near"))) == (2, list(samples(tmp_path / "ds")))


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("path,n\nbee/003.bin,1\nbee/nix.bin,2\nbee/nada.bin,2\n", 3,
         ["m.csv, line 3: 'bee/nix.bin' is not in", "2 of 3 files are missing"]),
        ("path,n\nbee/003.bin,1\nbee/003.bin,2\n", 2, ["line 3: 'bee/003.bin' is named in line 2 already"]),
        ("path,n\nbee/003.bin,1,2\n", 2, ["line 2: there are 3 columns, and the head has 2"]),
        ("name,n\nbee/003.bin,1\n", 2, ["no column path, file", "--path-column"]),
        ('path,n\nbee/003.bin,"1\n', 2, ["line 2: the quotes of a cell do not end"]),
        ('path,n\nbee/003.bin,"1"2\n', 2, ["line 2: something follows the quotes"]),
        ("path,path\nbee/003.bin,1\n", 2, ["line 1: two columns are called 'path'"]),
        ("path,n\n,1\n", 2, ["line 2: there is no path"]),
        ("path,n\n", 2, ["names no files"]),
        ("path,bin\nbee/003.bin,1\n", 2, ["two fields are called 'bin'"]),
        ("path,a b\nbee/003.bin,1\n", 2, ["'a b' cannot be a field's name"]),
        ("path,n\nbee/003.bin,\0\n", 2, ["line 2: there is a zero byte"]),
    ],
)  # fmt: skip
def test_a_bad_manifest_is_named_with_its_line(tmp_path, photos, run_leat, text, status, words):
    (tmp_path / "m.csv").write_text(text)
    said = refused(run_leat, "--manifest", tmp_path / "m.csv", photos, dest=tmp_path / "ds", status=status)
    assert all(w in said for w in words), said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"path": "bee/003.bin"}\n{"path": \n', "line 2: "),
        ('{"path": "bee/003.bin"}\n\n[1]\n', "line 3: this is not an object"),
        ('{"path": "bee/003.bin", "path": "x"}\n', "line 1: duplicate"),
        ('{"path": "bee/003.bin", "n": 99999999999999999999}\n', "line 1: too big integer"),
    ],
)
def test_bad_json_lines_are_named_with_their_line(tmp_path, photos, run_leat, text, words):
    (tmp_path / "m.jsonl").write_text(text)
    assert words in refused(run_leat, "--manifest", tmp_path / "m.jsonl", photos, dest=tmp_path / "ds")


def test_types_of_columns_can_be_said(tmp_path, photos, run_leat):
    (tmp_path / "m.csv").write_text("path,a,b,c\nbee/003.bin,007,1,1\nbee/004.bin,8,2,2\n")
    args = ["--manifest", tmp_path / "m.csv", "--type", "a=int", "--type", "b=float", "--type", "c=string"]
    index(run_leat, *args, photos, tmp_path / "ds")
    found = samples(tmp_path / "ds")["bee/003.bin"]
    assert (found["a"], found["b"], found["c"]) == (7, 1.0, "1") and isinstance(found["b"], float)
    (tmp_path / "m.csv").write_text("path,a\nbee/003.bin,7\nbee/004.bin,x8\n")
    said = refused(run_leat, "--manifest", tmp_path / "m.csv", "--type", "a=int", photos, dest=tmp_path / "no")
    assert "line 3: 'x8' in column 'a' is not a whole number" in said


# Bad input


def test_an_empty_prefix_is_named(tmp_path, run_leat, serve, bucket_dir):
    env = serve(bucket_dir).s3_env()
    assert "no objects in s3://bucket/nothing" in refused(
        run_leat, "s3://bucket/nothing", dest=tmp_path / "ds", status=3, env=env
    )
    (tmp_path / "empty").mkdir()
    assert "no objects" in refused(run_leat, tmp_path / "empty", dest=tmp_path / "ds", status=3)
    write_files(tmp_path / "empty", {".git/x": b"1", ".y": b"2"})
    assert "but hidden ones" in refused(run_leat, tmp_path / "empty", dest=tmp_path / "ds", status=3)


def test_places_that_overlap_are_refused(tmp_path, photos, run_leat):
    assert "would be samples twice" in refused(run_leat, photos, photos / "bee", dest=tmp_path / "ds")
    assert "would be samples twice" in refused(run_leat, photos, f"{photos}/../photos", dest=tmp_path / "ds")


@pytest.mark.parametrize("names", [("0001.jpg", "0001.JPG"), ("0001.jpg", "0001.jpeg")])
def test_two_objects_with_one_stem_and_ending_are_named(tmp_path, run_leat, names):
    source = write_files(tmp_path / "f", dict.fromkeys(names, b"x"))
    said = refused(run_leat, "--group", source, dest=tmp_path / "ds")
    assert all(name in said for name in names) and "both the 'jpg' of one sample" in said


def test_a_file_without_an_ending_is_no_part_of_a_group(tmp_path, pairs, run_leat):
    write_files(pairs, {"README": b"x"})
    assert "README' has no ending" in refused(run_leat, "--group", pairs, dest=tmp_path / "ds")


def test_keys_with_newlines_and_bytes_that_are_no_utf8_are_samples(tmp_path, run_leat):
    names = [b"new\nline.bin", b"tab\there.bin", b"\xff\xfe\x80.bin", b"a b.bin", b"%41.bin"]
    source = tmp_path / "odd"
    source.mkdir()
    for i, name in enumerate(names):
        with open(os.fsencode(source) + b"/" + name, "wb") as f:
            f.write(b"value %d" % i)
    made = index(run_leat, source, tmp_path / "ds")
    assert made["samples"] == len(names)
    run_leat("unpack", tmp_path / "ds", tmp_path / "out", status=0)
    found = {name: open(os.fsencode(tmp_path / "out") + b"/" + name, "rb").read() for name in names}
    assert found == {name: b"value %d" % i for i, name in enumerate(names)}
    # They are no names of classes, and what they do to a terminal stays out of messages.
    write_files(source, {"x/1.bin": b""})
    (source / "x").rename(os.fsdecode(os.fsencode(source) + b"/\xff\n"))
    for name in names:
        os.unlink(os.fsencode(source) + b"/" + name)
    said = refused(run_leat, source, dest=tmp_path / "no")
    assert "not UTF-8" in said and len(said.splitlines()) == 1


def test_an_object_that_goes_or_changes_after_the_listing_is_an_error(tmp_path, photos, run_leat):
    leat = import_leat()
    index(run_leat, photos, tmp_path / "ds")
    (photos / "bee/005.bin").unlink()
    with pytest.raises(leat.Error, match="005"):
        samples(tmp_path / "ds")
    write_files(photos, {"bee/005.bin": b"of another length"})
    with pytest.raises(leat.Error, match="005"):
        samples(tmp_path / "ds")


def test_dest_may_lie_inside_and_its_own_objects_are_no_samples(tmp_path, photos, run_leat, serve, bucket_dir):
    first = index(run_leat, photos, photos)
    again = index(run_leat, "--replace", photos, photos)
    assert first["id"] == again["id"] and again["samples"] == 30
    server = serve(bucket_dir)
    env = server.s3_env()
    run_leat("cp", "-r", f"{photos}/bee/", "s3://bucket/p/bee/", env=env, status=0)
    assert index(run_leat, "s3://bucket/p", "s3://bucket/p/made", env=env)["samples"] == 10
    assert index(run_leat, "--replace", "s3://bucket/p", "s3://bucket/p/made", env=env)["samples"] == 10


def test_another_dataset_among_the_data_is_refused(tmp_path, photos, run_leat):
    run_leat("pack", photos / "bee", photos / "packed", status=0)
    said = refused(run_leat, photos, dest=tmp_path / "ds")
    assert "packed/leat/current' belongs to a dataset" in said


def test_what_cannot_be_honoured_is_said(tmp_path, photos, run_leat):
    dest = tmp_path / "ds"
    for args, words in (
        (["--labels", "none", "--label-regex", "(x)"], "--labels none means no labels"),
        (["--labels", "folder", "--label-regex", "(x)"], "one of --labels folder"),
        (["--labels", "sometimes"], "'sometimes' is not auto, folder or none"),
        (["--missing", "ignore"], "'ignore' is not error, optional or skip"),
        (["--format", "zip"], "'zip' is not auto"),
        (["--label-column", "x"], "manifest"),
        (["--path-column", "x"], "manifest"),
        (["--field", "a", "--group"], "--field names the only file"),
        (["--manifest", "x.parquet"], "does not end with .csv, .tsv or .jsonl"),
        (["--chunk-size", "1"], "between 4KiB and 1GiB"),
        (["--no-current"], "--no-current needs --name"),
        (["--missing", "skip"], "give --group"),
        (["--keep-order", "--seed", "1"], "the permutation that --keep-order leaves out"),
        (["--only-new"], "give --add-to"),
        (["--part", "1/2", "--group"], "give --group to --merge"),
        (["--part", "1/2", "--type", "bin=image"], "give --type to --merge"),
        (["--part", "1/2", "--name", "x"], "give --name to --merge"),
        (["--part", "1/2", "--fresh"], "--fresh is about a listing in one go"),
        (["--merge", "--save-every", "1s"], "--save-every is about a listing in one go"),
    ):
        assert words in refused(run_leat, *args, photos, dest=dest), args
    assert "lists of URLs are for --format tar" in refused(run_leat, f"@{tmp_path}/list", dest=dest)
    for name in ("a.tar", "b.bin"):  # what is said by names is said before they are looked at
        for args, words in (
            (["--part", "1/2"], "--part and --merge are for raw objects"),
            (["--seed", "1"], "keep their order"),
            (["--fresh"], "--fresh is for raw objects"),
            (["--save-every", "1s"], "--save-every is for raw objects"),
        ):
            assert words in refused(run_leat, *args, tmp_path / name, dest=dest), args


def test_what_a_manifest_does_not_name_does_not_say_what_the_field_is(tmp_path, run_leat):
    names = make_images(tmp_path / "files", 4)
    (tmp_path / "files/README.md").write_text("what these are")
    (tmp_path / "m.csv").write_text("path\n" + "\n".join(names) + "\n")
    made = index(run_leat, "--manifest", tmp_path / "m.csv", tmp_path / "files", tmp_path / "ds")
    assert (made["samples"], made["unnamed"]) == (4, 1)
    (info,) = import_leat().open(str(tmp_path / "ds")).fields.values()
    assert info.type == "image"


def test_a_label_of_a_manifest_that_is_no_class_is_named_with_its_line(tmp_path, photos, run_leat):
    (tmp_path / "m.csv").write_text("path,kind\nant/000.bin,a\nbee/000.bin,b\ncat/000.bin,c\n")
    (tmp_path / "classes").write_text("a\nc\n")
    args = ["--manifest", tmp_path / "m.csv", "--label-column", "kind", "--classes", tmp_path / "classes"]
    assert "m.csv, line 3: the label 'b'" in refused(run_leat, *args, photos, dest=tmp_path / "ds")


def test_a_dataset_that_is_there_is_not_replaced_unasked(tmp_path, photos, run_leat):
    first = index(run_leat, photos, tmp_path / "ds")
    write_files(photos, {"bee/999.bin": b"new"})
    run_leat("index", photos, tmp_path / "ds", status=1)
    assert import_leat().open(str(tmp_path / "ds")).version == first["id"]
    second = index(run_leat, "--name", "second", "--no-current", photos, tmp_path / "ds")
    assert second["id"] != first["id"] and len(import_leat().open(f"{tmp_path / 'ds'}?name=second")) == 31


def test_a_dry_run_says_what_it_costs_and_writes_nothing(tmp_path, photos, run_leat, serve, bucket_dir):
    server = serve(bucket_dir)
    env = server.s3_env()
    run_leat("cp", "-r", f"{photos}/", "s3://bucket/photos/", env=env, status=0)
    puts = server.stats()["calls"]["PutObject"]
    done = run_leat("index", "--dry-run", "--json", "s3://bucket/photos", tmp_path / "ds", env=env, status=0)
    said = json.loads(done.stdout)
    assert (said["objects"], said["samples"], said["epoch_requests"]) == (30, 30, 30)
    assert said["bytes"] == sum(p.stat().st_size for p in photos.rglob("*.bin"))
    assert said["list_requests"] == sum(server.stats()["calls"]["ListObjectsV2"].values())
    assert said["epoch_usd"] == pytest.approx(30 * 0.0004 / 1000) and said["epoch_minutes"] > 0
    args = ["--chunk-size", "4KiB", "--json", "s3://bucket/photos", "s3://bucket/ds"]
    said = json.loads(run_leat("index", "--dry-run", *args, env=env, status=0).stdout)
    assert said["epoch_requests"] == 30 + said["chunks"] > 31  # each chunk has a recipe, in a bucket here
    text = run_leat("index", "--dry-run", "s3://bucket/photos", "s3://bucket/ds", env=env, status=0).stdout
    assert "aws.amazon.com/s3/pricing" in text and "USD" in text and "minutes" in text
    assert server.stats()["calls"]["PutObject"] == puts


def test_listings_are_taken_apart_by_folders_and_put_together_in_order(
    tmp_path, run_leat, serve, bucket_dir, monkeypatch
):
    """Objects between folders, folders in folders, more of them than a page has."""
    files = {f"deep/down/{c}/{i}.bin": b"%d" % i for c in ("a", "a-b", "b.x", "z") for i in range(7)}
    files |= {f"deep/down/a.{i}.bin": b"top" for i in range(5)}
    write_files(bucket_dir / "bucket", files)
    many = {f"many/{i:05}/x.bin": b"" for i in range(2100)}  # too many folders: one list
    write_files(bucket_dir / "bucket", many)
    server = serve(bucket_dir)
    env = server.s3_env()
    index(run_leat, "--keep-order", "--labels", "none", "s3://bucket/deep", tmp_path / "ds", env=env)
    keys = s3_tools.all_keys(s3_tools.client(server), "bucket", Prefix="deep/")
    use(monkeypatch, env)
    assert list(samples(tmp_path / "ds")) == [k[len("deep/") :] for k in keys]
    made = index(run_leat, "s3://bucket/many", tmp_path / "many", env=env)
    assert (made["samples"], made["labels"]) == (2100, 2100) and made["list_requests"] < 12


# With the loader


def test_pixels_of_an_index_equal_those_of_a_packing(tmp_path, run_leat, serve, bucket_dir, lt, monkeypatch):
    make_images(tmp_path / "images", 60)
    run_leat("pack", "--chunk-size", "16KiB", tmp_path / "images", tmp_path / "packed", status=0)
    run_leat("index", "--chunk-size", "16KiB", tmp_path / "images", tmp_path / "folder", status=0)
    server = serve(bucket_dir)
    env = server.s3_env()
    run_leat("cp", "-r", f"{tmp_path}/images/", "s3://bucket/images/", env=env, status=0)
    run_leat("index", "--chunk-size", "16KiB", "s3://bucket/images", tmp_path / "local", env=env, status=0)
    run_leat("index", "--chunk-size", "16KiB", "s3://bucket/images", "s3://bucket/made", env=env, status=0)
    use(monkeypatch, env)

    def pixels(url):
        fields = {"k": lt.key(), "x": lt.image("png").resize((16, 16)), "y": lt.int("cls")}
        with lt.Loader(str(url), fields=fields, batch_size=7, last="short") as loader:
            return {key: (x.tobytes(), int(y)) for k, xs, ys in loader for key, x, y in zip(k, xs.numpy(), ys)}

    wanted = pixels(tmp_path / "packed")
    assert len(wanted) == 60
    for url in (tmp_path / "folder", tmp_path / "local", "s3://bucket/made"):
        assert pixels(url) == wanted


# Interrupted, and in parts


def partial(folder):
    """What is saved of a listing beside a dataset."""
    return sorted(p.name for p in (folder / "leat/partial").glob("*")) if (folder / "leat/partial").exists() else []


def folders(bucket_dir, n=12, each=4):
    files = {f"train/f{i:02}/{k}.bin": f"{i} {k}".encode() for i in range(n) for k in range(each)}
    return write_files(bucket_dir / "bucket", files | {"train/f05.bin": b"between", "train/.hidden/x": b"1"})


@pytest.fixture
def killed_midway(leat_bin, clean_env, serve, bucket_dir):
    """killed_midway(args, saved): indexes into the folder at the end of args, from a server that takes its time and never gives
    its tenth answer, and kills it when this many parts of the listing are saved."""

    def run(args, saved):
        stalling = serve(bucket_dir, "--latency", "150ms", "--fault", "stall=1", "--fault-after", "9")
        process = subprocess.Popen([leat_bin, "index", *args], env={**clean_env, **stalling.s3_env()})
        wait_until(lambda: len(partial(args[-1])) >= saved, timeout=60, what="a listing that is half saved")
        process.kill()
        process.wait()
        assert not (args[-1] / "leat/current").exists()

    return run


def test_a_killed_indexing_goes_on_with_what_it_has_listed(tmp_path, run_leat, killed_midway, serve, bucket_dir):
    folders(bucket_dir)
    env = serve(bucket_dir).s3_env()
    dest, plain = tmp_path / "ds", tmp_path / "plain"
    args = ["--threads", "1", "--save-every", "1ms", "s3://bucket/train"]
    wanted = index(run_leat, *args, plain, env=env)
    assert partial(plain) == [], "saved parts are gone when the dataset is there"
    killed_midway([*args, dest], 2)
    saved = len(partial(dest))
    done = run_leat("index", "--json", "--chunk-size", "4KiB", *args, dest, env=env, status=0)
    assert "continuing with" in done.stderr and "--fresh" in done.stderr
    made = json.loads(done.stdout)
    assert made == wanted | {"list_requests": ANY, "list_s": ANY}
    assert made["list_requests"] <= wanted["list_requests"] - saved + 1
    assert partial(dest) == []


def test_one_long_list_goes_on_in_its_middle(tmp_path, run_leat, killed_midway, serve, bucket_dir):
    write_files(bucket_dir / "bucket/flat", {f"{i:05}.bin": b"" for i in range(9000)})
    env = serve(bucket_dir).s3_env()
    dest = tmp_path / "ds"
    args = ["--save-every", "1ms", "s3://bucket/flat"]
    killed_midway([*args, dest], 4)
    done = run_leat("index", "--json", "--chunk-size", "4KiB", *args, dest, env=env, status=0)
    assert "continuing with" in done.stderr
    made = json.loads(done.stdout)
    wanted = index(run_leat, *args, tmp_path / "whole", env=env)
    assert made == wanted | {"list_requests": ANY, "list_s": ANY}
    assert made["samples"] == 9000 and made["list_requests"] <= wanted["list_requests"] - 4


def test_saved_listings_that_cannot_be_used_are_not(tmp_path, run_leat, killed_midway, serve, bucket_dir):
    folders(bucket_dir)
    env = serve(bucket_dir).s3_env()
    dest = tmp_path / "ds"
    args = ["--threads", "1", "--save-every", "1ms", "s3://bucket/train", dest]

    wanted = index(run_leat, "s3://bucket/train", tmp_path / "plain", env=env)["id"]
    for spoil, words in (
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "damaged"),
        (lambda path: path.write_bytes(b"leat-lst" + b"\xff" * 60), "needs another Leat"),
        (lambda path: [os.utime(p, (1e9, 1e9)) for p in path.parent.iterdir()], "older than a day"),
        (lambda path: (path.parent / partial(dest)[0]).unlink(), "-saved-00000000 is not there"),
        (None, "--fresh"),
    ):
        killed_midway(args, 2)
        if spoil:
            spoil(dest / "leat/partial" / partial(dest)[1])
        more = [] if spoil else ["--fresh"]
        done = run_leat("index", "--json", "--chunk-size", "4KiB", *more, *args, env=env, status=0)
        assert words in done.stderr and "is not used" in done.stderr, words
        assert json.loads(done.stdout)["id"] == wanted and partial(dest) == []
        shutil.rmtree(dest)


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_listed_apart_make_the_same_dataset(tmp_path, run_leat, serve, bucket_dir, parts):
    folders(bucket_dir)
    write_files(bucket_dir / "bucket/more", {f"{i}.bin": b"%d" % i for i in range(20)})
    env = serve(bucket_dir).s3_env()
    urls = ["s3://bucket/train", "s3://bucket/more"]
    options = ["--labels", "none", "--field", "x"]
    wanted = index(run_leat, *options, *urls, tmp_path / "whole", env=env)
    dest = tmp_path / "ds"
    said = run_leat("index", "--merge", dest, env=env, status=3).stderr
    assert "no parts of a listing" in said and "--part 1/8" in said
    counts = []
    for i in reversed(range(parts)):
        if i == 0 and parts > 1:
            assert (
                "part 1 of 3 is not there yet (1 are not)"
                in run_leat("index", "--merge", dest, env=env, status=3).stderr
            )
        done = run_leat("index", "--json", "--part", f"{i + 1}/{parts}", *urls, dest, env=env, status=0)
        counts.append(json.loads(done.stdout)["objects"])
    assert sum(counts) == wanted["objects"] and (parts == 1 or max(counts) < wanted["objects"])
    assert not (dest / "leat/current").exists()
    merged = index(run_leat, "--merge", *options, dest, env=env)
    assert merged == wanted | {"list_requests": 0, "list_s": ANY}
    assert partial(dest) == []


def test_parts_of_several_lists_are_told_apart(tmp_path, run_leat, photos):
    dest = tmp_path / "ds"
    for folder in ("ant", "bee"):
        run_leat("index", "--part", "1/1", photos / folder, dest, status=0)
    assert "several places" in run_leat("index", "--merge", dest, status=2).stderr
    assert index(run_leat, "--merge", photos / "bee", dest)["samples"] == 10
    assert all(key.endswith(".bin") for key in samples(dest)) and len(partial(dest)) == 1


@pytest.mark.parametrize("part", ["0/3", "4/3", "1", "a/b", "1/5000", "-1/3", "1/0"])
def test_parts_that_cannot_be_are_refused(tmp_path, photos, run_leat, part):
    assert "--part" in refused(run_leat, "--part", part, photos, dest=tmp_path / "ds")


def test_parts_of_several_attempts_are_not_mixed(tmp_path, photos, run_leat):
    dest = tmp_path / "ds"
    run_leat("index", "--part", "1/2", photos, dest, status=0)
    run_leat("index", "--part", "2/3", photos, dest, status=0)
    error = run_leat("index", "--merge", dest, status=2).stderr
    assert "it is one of 3 parts, and another is one of 2" in error
    (other,) = (dest / "leat/partial").glob("*-of-0003")
    other.unlink()
    run_leat("index", "--part", "2/2", photos, dest, status=0)
    (old,) = (dest / "leat/partial").glob("*-0001-of-0002")
    os.utime(old, (time.time() - 30 * 3600,) * 2)
    error = run_leat("index", "--merge", dest, status=2).stderr
    assert "part 1 of 2 was listed" in error
    assert "list it again (--part 1/2)" in error
    assert not (dest / "leat/current").exists()
    run_leat("index", "--part", "1/2", photos, dest, status=0)
    assert "30 samples" in run_leat("index", "--merge", dest, status=0).stdout


def test_an_index_grows_by_what_is_new(tmp_path, photos, run_leat, serve, bucket_dir, monkeypatch):
    shutil.copytree(photos, bucket_dir / "bucket/old")
    write_files(bucket_dir / "bucket/new", {f"bee/{i}.bin": b"new %d" % i for i in range(5)})
    env = serve(bucket_dir).s3_env()
    use(monkeypatch, env)
    first = index(run_leat, "s3://bucket/old", "s3://bucket/ds", env=env)
    index(run_leat, "--add-to", "s3://bucket/new", "s3://bucket/ds", env=env)
    found = samples("s3://bucket/ds")
    assert list(found)[:30] == list(samples("s3://bucket/ds", version=first["id"]))
    assert len(found) == 35
    assert all(found[f"bee/{i}.bin"] == {"bin": b"new %d" % i, "cls": 1} for i in range(5))
    assert "35 samples" in run_leat("verify", "s3://bucket/ds", env=env, status=0).stdout
    (bucket_dir / "bucket/new/bee/9.bin").write_bytes(b"the only new one")
    error = run_leat("index", "--add-to", "s3://bucket/new", "s3://bucket/ds", env=env, status=1).stderr
    assert "5 of these keys already, such as 'bee/" in error
    made = index(run_leat, "--add-to", "--only-new", "s3://bucket/new", "s3://bucket/ds", env=env)
    assert (made["samples"], made["known"]) == (1, 5)
    found = samples("s3://bucket/ds")
    assert list(found)[35:] == ["bee/9.bin"]
    assert found["bee/9.bin"] == {"bin": b"the only new one", "cls": 1}
    options = ["--add-to", "--only-new", "s3://bucket/new", "s3://bucket/ds"]
    assert "nothing is new: all 6" in run_leat("index", *options, env=env, status=1).stderr
    write_files(bucket_dir / "bucket/eels", {"eel/1.bin": b"x"})
    error = run_leat("index", "--add-to", "s3://bucket/eels", "s3://bucket/ds", env=env, status=2).stderr
    assert "'eel' is not in the list of 3 classes" in error
    assert len(samples("s3://bucket/ds")) == 36
    assert "36 samples" in run_leat("verify", "s3://bucket/ds", env=env, status=0).stdout


def test_ctrl_c_ends_a_listing(tmp_path, leat_bin, clean_env, serve, bucket_dir):
    folders(bucket_dir)
    server = serve(bucket_dir, "--latency", "600s")
    command = [leat_bin, "index", "s3://bucket/train", tmp_path / "ds"]
    process = subprocess.Popen(command, env={**clean_env, **server.s3_env()})
    wait_until(lambda: server.stats()["connections"]["open"] > 1, what="the listing to begin")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert not (tmp_path / "ds/leat").exists()
