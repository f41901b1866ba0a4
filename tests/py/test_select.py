"""leat select: versions with some of the samples of a dataset, which share its chunks."""

import json
import random
import shutil

import order_reference
import pytest
from format_reader import ABSENT, Dataset
from format_writer import Field, Place
from loading import make_images

FIELDS = [
    Field("jpg", 2),
    Field("cls", 3, about={"names": ["cat", "dog", "eel", "fox"]}),
    Field("text", 4),
    Field("score", 3, optional=True),
]


def sample(i):
    image = (100 + i, 50, 0, 0, 3, 0, 0)  # width, height, decoded bytes, kind, channels, orientation, flags
    score = ABSENT if i % 7 == 0 else i - 50
    values = {"jpg": (b"picture %d" % i, image), "cls": i % 4, "text": b"word%d" % (i % 10), "score": score}
    folder = "train" if i % 3 else "val"
    return f"{folder}/{i:03}.jpg".encode(), values


@pytest.fixture
def ds(tmp_path):
    """200 samples in 7 chunks of different sizes."""
    samples = [sample(i) for i in range(200)]
    cuts = [0, 1, 20, 84, 150, 151, 190, 200]
    Place(tmp_path / "ds").write(FIELDS, [samples[a:b] for a, b in zip(cuts, cuts[1:])])
    return tmp_path / "ds"


def numbers(ds, name):
    """Which of the samples a version has, by its keys."""
    return [int(s.key[-7:-4]) for s in Dataset(ds, name=name)]


def select(run_leat, ds, *options, name="some", status=0):
    result = run_leat("select", ds, *options, "--name", name, status=status)
    return numbers(ds, name) if status == 0 else result.stderr


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("cls == 3", lambda i: i % 4 == 3),
        ("cls == 3 and width >= 256", lambda i: i % 4 == 3 and i >= 156),
        ("cls in (0, 2) or width < 110", lambda i: i % 4 in (0, 2) or i < 10),
        ("not (cls in [0, 2] or jpg.width < 110)", lambda i: not (i % 4 in (0, 2) or i < 10)),
        ("cls not in (0,2)", lambda i: i % 4 in (1, 3)),
        ("cls == 'eel'", lambda i: i % 4 == 2),
        ("cls in ('cat', \"fox\")", lambda i: i % 4 in (0, 3)),
        ("text == 'word3'", lambda i: i % 10 == 3),
        ("text >= 'word8' and cls != 0", lambda i: i % 10 >= 8 and i % 4),
        ("key < 'train/100' and key != 'train/001.jpg'", lambda i: i % 3 and i < 100 and i != 1),
        ("score == none", lambda i: i % 7 == 0),
        ("score != none and score < -40", lambda i: i % 7 and i < 10),
        ("score > -1e1 and score <= 3.5", lambda i: i % 7 and 40 < i <= 53),
        ("score >= -49", lambda i: i % 7),
        ("jpg.size == 11 and channels == 3 and jpg.height <= 50", lambda i: i >= 100),
        ("cls == 1 or cls == 2 and width < 120", lambda i: i % 4 == 1 or (i % 4 == 2 and i < 20)),
    ],
)
def test_conditions_choose_what_they_say(ds, run_leat, where, holds):
    assert select(run_leat, ds, "--where", where) == [i for i in range(200) if holds(i)]


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("'0' == 3", lambda i: i == 3),
        ('"not" < 3 and not "not" == 1', lambda i: i in (0, 2)),
        ("not 'not' < 7", lambda i: i >= 7),
        ("'-9e' in (1, 2) or '2.jpg.width' == 105", lambda i: i in (1, 2, 5)),
        ("'2.jpg'.width == 105", None),
        ("and == 4 and (in == 4 or none == 4)", lambda i: i == 4),
    ],
)
def test_fields_of_any_name_can_be_meant(tmp_path, run_leat, where, holds):
    names = ["0", "not", "-9e", "and", "in", "none"]
    fields = [*(Field(name, 3) for name in names), Field("2.jpg", 2)]
    image = [(b"x", (100 + i, 50, 0, 0, 3, 0, 0)) for i in range(10)]
    samples = [(b"%03d.jpg" % i, {"2.jpg": image[i], **dict.fromkeys(names, i)}) for i in range(10)]
    Place(tmp_path / "ds").write(fields, [samples])
    if holds:
        assert select(run_leat, tmp_path / "ds", "--where", where) == [i for i in range(10) if holds(i)]
    else:
        assert "a comparison is expected" in select(run_leat, tmp_path / "ds", "--where", where, status=2)


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("0 == 3", "(one that begins with a digit or sign needs quotes), at column 1"),
        ("cls = 3", "a single '='; equal is '==', at column 5"),
        ("cls == 3 and", "the name of a field is expected, at column 13"),
        ("cls == 3 width > 1", "'and', 'or' or the end is expected, at column 10"),
        ("(cls == 3", "this parenthesis is not closed, at column 1"),
        ("klass == 3", "there is no field 'klass' (column 1); the dataset has: jpg, cls, text, score, key"),
        ("cls == 'cow'", "no value of the field has this name, at column 9"),
        ("score == 'cow'", "a number whose values have no names, at column 11"),
        ("text == 3", "a number is compared with a text: texts need quotes, at column 9"),
        ("text == 'abc", "a text without its closing quote, at column 9"),
        ("cls.width == 3", "the field is not an image, at column 1"),
        ("cls.size == 3", "the field has no size, at column 1"),
        ("cls in 3", "a list such as (1, 2, 3) is expected, at column 8"),
        ("cls in (3", "the list is not closed"),
        ("cls == 3..4", "not a number, at column 8"),
        ("score < none", "none cannot be compared by greater or smaller"),
        ("cls", "a comparison is expected"),
        ("cls == 3 & cls == 4", "a character that means nothing here, at column 10"),
        ("(" * 200 + "cls == 3", "too many levels"),
        ("", "the name of a field is expected, at column 1"),
    ],
)
def test_conditions_that_are_none_point_at_the_column(ds, run_leat, where, says):
    assert says in select(run_leat, ds, "--where", where, status=2)
    assert not (ds / "leat/names").exists()


def test_keys_numbers_lists_and_fractions_compose(ds, run_leat, tmp_path):
    assert select(run_leat, ds, "--key", "val/*", name="a") == [i for i in range(200) if i % 3 == 0]
    assert select(run_leat, ds, "--key", "val/0?[1-3]*", "--key", "train/199.jpg", name="b") == [
        i for i in range(200) if (i % 3 == 0 and i < 100 and i % 10 in (1, 2, 3)) or i == 199
    ]
    assert select(run_leat, ds, "--numbers", "3,10:20,180:", name="c") == [3, *range(10, 20), *range(180, 200)]
    (tmp_path / "list").write_text("train/001.jpg\r\nval/099.jpg\n\ntrain/199.jpg\n")
    assert select(run_leat, ds, "--keys", tmp_path / "list", name="d") == [1, 99, 199]
    (tmp_path / "list").write_bytes(b"train/001.jpg\0val/099.jpg\0")
    assert select(run_leat, ds, "--keys", tmp_path / "list", "--numbers", "50:", name="e") == [99]
    (tmp_path / "list").write_text("train/001.jpg\nnobody\n")
    says = select(run_leat, ds, "--keys", tmp_path / "list", name="f", status=3)
    assert "not in the dataset: 1," in says
    assert "the first 'nobody'" in says
    assert select(run_leat, ds, "--keys", tmp_path / "list", "--ignore-missing", name="f") == [1]
    tenth = select(run_leat, ds, "--fraction", "0.1", name="g")
    third = select(run_leat, ds, "--fraction", "0.3", name="h")
    assert set(tenth) < set(third)
    assert 5 <= len(tenth) <= 40
    assert select(run_leat, ds, "--fraction", "0.3", "--seed", 5, name="i") != third
    both = select(run_leat, ds, "--fraction", "0.3", "--key", "val/*", name="j")
    assert both == [i for i in third if i % 3 == 0]


def draw(purpose, seed, key):
    """As docs/versions.md specifies it."""
    low, high = order_reference.philox(order_reference.key(purpose, seed, 0, key), 0, 0)[:2]
    return ((high << 32 | low) >> 11) / 2**53


def test_draws_are_the_documented_ones_and_a_selection_has_its_own(ds, run_leat):
    keys = [sample(i)[0] for i in range(200)]
    version = ds
    chosen = range(200)
    for depth in range(3):  # half of a half of a half
        seed = 0
        if depth:
            seed = order_reference.key("select-from", 0, 0, bytes.fromhex(Dataset(ds, name=f"half{depth - 1}").id))
        expected = [i for i in chosen if draw("select-fraction", seed, keys[i]) < 0.5]
        run_leat("select", version, "--fraction", "0.5", "--name", f"half{depth}", status=0)
        assert numbers(ds, f"half{depth}") == expected
        assert 0.3 * len(chosen) < len(expected) < 0.7 * len(chosen)
        chosen, version = expected, f"{ds}?name=half{depth}"
    half = numbers(ds, "half0")
    seed = order_reference.key("select-from", 5, 0, bytes.fromhex(Dataset(ds, name="half0").id))
    run_leat("select", f"{ds}?name=half0", "--seed", 5, "--split", "a=0.5,b=0.5", status=0)
    draws = {i: draw("select-split", seed, keys[i]) for i in half}
    assert numbers(ds, "a") == [i for i in half if draws[i] < 0.5]
    assert numbers(ds, "b") == [i for i in half if draws[i] >= 0.5]
    run_leat("select", ds, "--seed", 5, "--split", "a=0.5", "--replace", status=0)
    assert numbers(ds, "a") == [i for i in range(200) if draw("select-split", 5, keys[i]) < 0.5]


def test_split_is_whole_disjoint_and_stable_when_the_dataset_grows(ds, run_leat, tmp_path):
    run_leat("select", ds, "--split", "train=0.8,val=0.1,test=0.1", status=0)
    parts = {name: numbers(ds, name) for name in ("train", "val", "test")}
    assert sorted(i for part in parts.values() for i in part) == list(range(200))
    assert 140 <= len(parts["train"]) <= 180
    more = [sample(i) for i in range(300)]
    random.Random(1).shuffle(more)
    Place(tmp_path / "more").write(FIELDS, [more[:100], more[100:]])
    run_leat("select", tmp_path / "more", "--split", "train=0.8,val=0.1,test=0.1", "--name", "x", status=0)
    for name, old in parts.items():
        assert set(old) == {i for i in numbers(tmp_path / "more", f"x-{name}") if i < 200}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--split", "train=0.9,val=0.2"], "add up to more than 1"),
        (["--split", "train"], "a part has no share"),
        (["--split", "a=0.5,a=0.5"], "two parts have the same name"),
        (["--split", "a=0"], "above 0 and at most 1"),
        (["--split", "../x=0.5"], "name"),
        (["--fraction", "0", "--name", "x"], "not above 0"),
        (["--numbers", "5:3", "--name", "x"], "there is nothing from 5"),
        (["--numbers", "a", "--name", "x"], "is not a list such as"),
        (["--name", "x"], "say what to select"),
        (["--key", "*"], "give the new version a name"),
        (["--key", "nothing*", "--name", "x"], "no sample is selected"),
        (["--key", "nothing*", "--split", "a=0.5,b=0.5"], "no sample is selected for a"),
    ],
)
def test_selections_that_cannot_be_are_refused_and_nothing_is_stored(ds, run_leat, options, says):
    before = sorted(ds.rglob("*"))
    assert says in run_leat("select", ds, *options, status=2).stderr
    assert sorted(ds.rglob("*")) == before


def test_a_selection_shares_the_chunks_and_leaves_the_current_version(ds, run_leat, tmp_path):
    before = {p for p in ds.rglob("*") if p.is_file()}
    id = Dataset(ds).id
    select(run_leat, ds, "--numbers", "0:30")
    new = {p.relative_to(ds).parts[1] for p in ds.rglob("*") if p.is_file() and p not in before}
    assert new == {"names", "roots", "sections", "versions"}
    assert Dataset(ds).id == id
    assert "--replace (replace=True) gives its name" in select(run_leat, ds, "--numbers", "0:31", status=1)
    assert select(run_leat, ds, "--numbers", "0:31", "--replace") == list(range(31))
    says = run_leat("select", ds, tmp_path / "elsewhere", "--numbers", "0:2", "--name", "y", status=2).stderr
    assert "shares the chunks of its dataset" in says
    assert not (tmp_path / "elsewhere").exists()
    run_leat("select", ds, f"{ds}/", "--numbers", "0:2", "--name", "y", status=0)
    out = run_leat("select", ds, "--numbers", "0:2", "--dry-run", status=0).stdout
    assert "2 samples of 200, in 2 of 7 chunks" in out


def test_every_command_counts_the_samples_of_a_selection_only(ds, run_leat, tmp_path):
    chosen = select(run_leat, ds, "--where", "cls == 2 and width > 125")
    some = f"{ds}?name=some"
    info = json.loads(run_leat("info", "--json", some, status=0).stdout)
    assert info["samples"] == len(chosen)
    assert info["selected_from"]["samples"] == 200
    assert info["chunks"] == sum(1 for places in Dataset(ds, name="some").places if places)
    assert f"samples  {len(chosen)}, selected from 200" in run_leat("info", some, status=0).stdout
    versions = json.loads(run_leat("info", "--versions", "--json", ds, status=0).stdout)
    assert {v["samples"] for v in versions} == {200, len(chosen)}
    for n in (0, 7, len(chosen) - 1):
        assert run_leat("cat", "-n", n, some, status=0).stdout == f"picture {chosen[n]}"
    assert "there is no sample" in run_leat("cat", "-n", len(chosen), some, status=3).stderr
    key = sample(chosen[5])[0].decode()
    assert run_leat("cat", some, key, status=0).stdout == f"picture {chosen[5]}"
    assert "no sample has the key" in run_leat("cat", some, sample(0)[0].decode(), status=3).stderr
    assert f"{len(chosen)} samples in {info['chunks']} chunks" in run_leat("verify", some, status=0).stdout
    run_leat("unpack", some, tmp_path / "out", status=0)
    files = sorted(p.name for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert files == sorted(f"{i:03}.jpg{field}" for i in chosen for field in ("", ".text"))
    order = run_leat("order", "--keys", some, status=0).stdout.splitlines()
    assert sorted(int(line.split()[-1][-7:-4]) for line in order) == chosen


def test_a_selection_of_a_selection_counts_within_it(ds, run_leat):
    chosen = select(run_leat, ds, "--where", "cls == 1", name="ones")
    run_leat("select", f"{ds}?name=ones", "--numbers", "10:20", "--name", "ten", status=0)
    assert numbers(ds, "ten") == chosen[10:20]
    run_leat("select", ds, "--where", "cls == 1", "--numbers", "0:200", "--name", "same", status=0)
    assert Dataset(ds, name="same").id == Dataset(ds, name="ones").id


def test_chunks_without_selected_samples_are_never_fetched(ds, run_leat):
    select(run_leat, ds, "--numbers", "20:84")
    keep = {Dataset(ds, name="some").root.names[2].hex()}
    for path in (ds / "leat/chunks").rglob("*"):
        if path.is_file() and path.name not in keep:
            path.unlink()
    assert "64 samples in 1 chunks" in run_leat("verify", f"{ds}?name=some", status=0).stdout


def test_conditions_on_rows_need_no_chunk_and_no_section_needs_the_chunks(ds, run_leat, tmp_path):
    shutil.copytree(ds, tmp_path / "bare")
    shutil.rmtree(tmp_path / "bare/leat/chunks")
    run_leat("select", tmp_path / "bare", "-w", "cls == 3 and width > 120 and key > 'a'", "--name", "some", status=0)
    assert len(Dataset(tmp_path / "bare", name="some")) == 45
    assert "leat/chunks" in select(run_leat, tmp_path / "bare", "--where", "text == 'word3'", name="none", status=3)
    samples = [sample(i) for i in range(200)]
    Place(tmp_path / "plain").write(FIELDS, [samples[:90], samples[90:]], rows=False, keys=False)
    wanted = select(run_leat, tmp_path / "plain", "--where", "cls == 3", "--key", "val/*")
    assert wanted == [i for i in range(200) if i % 4 == 3 and i % 3 == 0]


def test_a_selection_in_a_bucket(ds, serve, bucket_dir, run_leat):
    shutil.copytree(ds, bucket_dir / "bucket/ds")
    server = serve(bucket_dir)
    env = server.s3_env()
    run_leat("select", "s3://bucket/ds", "--where", "cls == 3", "--name", "three", env=env, status=0)
    assert "50 samples" in run_leat("verify", "s3://bucket/ds?name=three", env=env, status=0).stdout
    assert numbers(bucket_dir / "bucket/ds", "three") == list(range(3, 200, 4))


def test_damage_to_a_selection_is_an_error(ds, run_leat):
    select(run_leat, ds, "--where", "cls == 3")
    section = next(name for kind, _, name, _ in Dataset(ds, name="some").root.sections if kind == 5)
    path = ds / "leat/sections" / section.hex()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert "does not match its digest" in run_leat("info", f"{ds}?name=some", status=6).stderr
    path.unlink()
    assert section.hex() in run_leat("info", f"{ds}?name=some", status=3).stderr


def test_an_indexed_dataset_is_selected_from_compared_and_added_to(tmp_path, run_leat):
    for i in range(40):
        path = tmp_path / "files" / ("cat" if i % 2 else "dog") / f"{i}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d " % i * 300)
    ds = tmp_path / "ds"
    run_leat("index", tmp_path / "files", ds, status=0)
    run_leat("select", ds, "--where", "cls == 'cat'", "--key", "cat/[1-3]*", "--name", "cats", status=0)
    keys = run_leat("ls", "--samples", f"{ds}?name=cats", status=0).stdout.splitlines()
    chosen = {f"cat/{i}.bin" for i in range(40) if i % 2 and str(i)[0] in "123"}
    assert {key.split("\t")[1] for key in keys} == chosen
    assert f"{len(chosen)} samples" in run_leat("verify", f"{ds}?name=cats", status=0).stdout
    assert run_leat("cat", f"{ds}?name=cats", "cat/13.bin", status=0).stdout == "13 " * 300
    assert "no sample has the key" in run_leat("cat", f"{ds}?name=cats", "cat/5.bin", status=3).stderr
    found = json.loads(run_leat("diff", "--json", "--bytes", f"{ds}?name=cats", ds, status=1).stdout)
    assert (found["same"], found["added"], found["unread"]) == (len(chosen), 40 - len(chosen), 0)
    (tmp_path / "more/dog").mkdir(parents=True)
    (tmp_path / "more/dog/new.bin").write_bytes(b"new")
    run_leat("pack", "--add-to", tmp_path / "more", ds, status=0)
    assert "41 samples" in run_leat("verify", ds, status=0).stdout
    assert run_leat("cat", ds, "dog/new.bin", status=0).stdout == "new"
    assert run_leat("cat", ds, "dog/38.bin", status=0).stdout == "38 " * 300
    garbage = json.loads(run_leat("gc", "--json", "--older-than", "0s", ds, status=0).stdout)["garbage"]
    assert all(kind["objects"] == 0 for kind in garbage.values())


def test_sizes_of_pictures_that_nobody_has_read_are_not_guessed(tmp_path, run_leat):
    make_images(tmp_path / "files", 6)
    run_leat("index", tmp_path / "files", tmp_path / "ds", status=0)
    for where in ("width < 100000", "width >= 1", "not height > 5", "png.channels == 3 or key == 'x'"):
        result = run_leat("select", tmp_path / "ds", "--where", where, "--dry-run", status=2)
        assert "are not known: 'leat index' does not read single objects" in result.stderr
    run_leat("select", tmp_path / "ds", "--where", "png.size > 0", "--dry-run", status=0)
    (tmp_path / "files/c0/bad.png").write_bytes(b"no picture")
    run_leat("pack", tmp_path / "files", tmp_path / "packed", status=0)
    result = run_leat("select", tmp_path / "packed", "--where", "width < 100000", "--dry-run", status=0)
    assert "6 samples of 7" in result.stdout
    result = run_leat("select", tmp_path / "packed", "--where", "width == none", "--dry-run", status=0)
    assert "1 samples of 7" in result.stdout


def test_options_without_what_they_are_about_are_refused(ds, run_leat):
    for option, words in ((["--seed", "4"], "--fraction and --split"), (["--ignore-missing"], "--keys")):
        assert words in run_leat("select", ds, "--numbers", "0:3", *option, "--name", "x", status=2).stderr
