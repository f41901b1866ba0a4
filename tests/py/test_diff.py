"""leat diff: samples added, removed and changed, by key."""

import json
import random

import pytest
from format_reader import ABSENT
from format_writer import Field, Place

FIELDS = [Field("data", 1), Field("cls", 3, about={"names": ["a", "b"]}), Field("score", 3, optional=True)]


def sample(i, data=None, cls=None, score=ABSENT):
    return b"key/%d" % i, {"data": data or b"value %d" % i, "cls": i % 2 if cls is None else cls, "score": score}


def write(folder, samples, fields=FIELDS, each=10, **odd):
    Place(folder).write(fields, [samples[i : i + each] for i in range(0, len(samples), each)], **odd)
    return folder


def diff(run_leat, a, b, *options, status=1):
    result = json.loads(run_leat("diff", "--json", "--all", *options, a, b, status=status).stdout)
    named = {}
    for line in result["named"]:
        named.setdefault(line["what"], set()).add(line["key"])
    return result, named


def test_added_removed_and_changed_samples_are_named(tmp_path, run_leat):
    a = write(tmp_path / "a", [sample(i) for i in range(100)])
    changed = {3: {"cls": 0}, 40: {"data": b"longer than before"}, 77: {"score": 5}}
    more = [sample(i, **changed.get(i, {})) for i in range(10, 120) if i != 50] + [sample(3, cls=0)]
    random.Random(3).shuffle(more)
    b = write(tmp_path / "b", more, each=7)
    result, named = diff(run_leat, a, b)
    assert named == {
        "added": {f"key/{i}" for i in range(100, 120)},
        "removed": {f"key/{i}" for i in (0, 1, 2, *range(4, 10), 50)},
        "changed": {"key/3", "key/40", "key/77"},
    }
    assert (result["added"], result["removed"], result["changed"]) == (20, 10, 3)
    assert result["same"] == 100 - 10 - 3
    assert result["samples"] == [100, 110]
    text = run_leat("diff", a, b, status=1).stdout.splitlines()
    assert sum(line.startswith("+ key/") for line in text) == 10
    assert "20 added, 10 removed, 3 changed, 87 the same" in text[-2]
    assert run_leat("diff", "-q", a, b, status=1).stdout == ""
    assert "key/" not in run_leat("diff", "--brief", a, b, status=1).stdout


def test_the_same_samples_in_another_order_are_the_same(tmp_path, run_leat):
    samples = [sample(i) for i in range(100)]
    a = write(tmp_path / "a", samples)
    random.Random(1).shuffle(samples)
    b = write(tmp_path / "b", samples, each=13)
    result, _ = diff(run_leat, a, b, status=0)
    assert (result["same"], result["unread"]) == (100, 100)
    result, _ = diff(run_leat, a, b, "--bytes", status=0)
    assert (result["same"], result["unread"]) == (100, 0)
    assert diff(run_leat, a, a, status=0)[0]["unread"] == 0


def test_bytes_of_the_same_length_are_only_seen_with_bytes(tmp_path, run_leat):
    a = write(tmp_path / "a", [sample(i) for i in range(20)])
    b = write(tmp_path / "b", [sample(i, data=b"volue 7" if i == 7 else None) for i in range(20)])
    assert diff(run_leat, a, b, status=0)[0]["unread"] == 10
    assert diff(run_leat, a, b, "--bytes")[1] == {"changed": {"key/7"}}


def test_versions_that_share_chunks_need_none_of_them(tmp_path, run_leat):
    ds = write(tmp_path / "ds", [sample(i) for i in range(100)])
    run_leat("select", ds, "--where", "cls == 1", "--name", "ones", status=0)
    chunk = ds / "leat/chunks"
    chunk.rename(ds / "leat/elsewhere")
    result, named = diff(run_leat, f"{ds}?name=ones", ds, "--bytes")
    assert (result["same"], result["unread"], result["removed"]) == (50, 0, 0)
    assert named == {"added": {f"key/{i}" for i in range(0, 100, 2)}}
    assert all(line["sample"] == int(line["key"][4:]) for line in result["named"])
    result, named = diff(run_leat, ds, f"{ds}?name=ones")
    assert result["removed"] == 50


def test_repeated_and_missing_keys(tmp_path, run_leat):
    a = [sample(1, data=b"first"), sample(1, data=b"second!"), sample(2), *((b"", sample(i)[1]) for i in range(5))]
    b = [sample(1, data=b"first"), sample(1, data=b"other"), sample(1, data=b"third"), (b"", sample(9)[1])]
    write(tmp_path / "a", a)
    write(tmp_path / "b", b)
    result, named = diff(run_leat, tmp_path / "a", tmp_path / "b")
    assert named == {"added": {"key/1"}, "removed": {"key/2"}, "changed": {"key/1"}}
    assert result["without_key"] == [5, 1]
    assert "5 and 1 samples without a key" in run_leat("diff", tmp_path / "a", tmp_path / "b", status=1).stdout


def test_fields_that_are_different_are_said_and_the_others_compared(tmp_path, run_leat):
    a = write(tmp_path / "a", [sample(i) for i in range(10)])
    fields = [Field("cls", 3, about={"names": ["a", "c"]}), Field("data", 4), Field("new", 3)]
    samples = [(k, {"cls": v["cls"], "data": v["data"], "new": 1}) for k, v in (sample(i) for i in range(10))]
    samples[4][1]["cls"] = 1
    b = write(tmp_path / "b", samples, fields)
    result, named = diff(run_leat, a, b)
    assert result["fields"].splitlines() == [
        "~ field data: bytes, then string",
        "~ field cls: another description, such as names of labels",
        "- field score: int",
        "+ field new: int",
    ]
    assert named == {"changed": {"key/4"}}


def test_trouble_is_two_or_more(tmp_path, run_leat):
    a = write(tmp_path / "a", [sample(i) for i in range(10)])
    b = write(tmp_path / "b", [sample(i) for i in range(10)], keys=False)
    assert "has no keys, so its samples cannot be compared" in run_leat("diff", a, b, status=3).stderr
    assert run_leat("diff", a, tmp_path / "nothing", status=3).stderr
    run_leat("diff", a, status=2)
    for path in (a / "leat/sections").iterdir():
        path.write_bytes(b"?" + path.read_bytes()[1:])
    assert "does not match its digest" in run_leat("diff", a, a, status=6).stderr


@pytest.mark.parametrize("n", [5000])
def test_many_samples_against_a_plain_comparison(tmp_path, run_leat, n):
    rng = random.Random(7)
    a = {i: rng.randrange(3) for i in range(n) if rng.random() < 0.9}
    b = {i: a.get(i, 1) if rng.random() < 0.95 else rng.randrange(3) for i in range(n) if rng.random() < 0.9}
    write(tmp_path / "a", [sample(i, cls=c) for i, c in a.items()], each=64)
    order = list(b.items())
    rng.shuffle(order)
    write(tmp_path / "b", [sample(i, cls=c) for i, c in order], each=100)
    result, named = diff(run_leat, tmp_path / "a", tmp_path / "b")
    assert named["added"] == {f"key/{i}" for i in b.keys() - a.keys()}
    assert named["removed"] == {f"key/{i}" for i in a.keys() - b.keys()}
    assert named["changed"] == {f"key/{i}" for i in a.keys() & b.keys() if a[i] != b[i]}
    assert result["same"] == sum(a[i] == b[i] for i in a.keys() & b.keys())
