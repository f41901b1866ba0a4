"""The format as a promise: golden datasets are read by both readers, newer things are refused as newer, hostile ones as damaged."""

import importlib.util
import json
import struct

import pytest
from conftest import ROOT
from format_reader import ABSENT, Dataset, NeedsNewer
from format_writer import Field, Place, chunk_bytes, root_bytes, schema_bytes

GOLDEN = ROOT / "tests/golden"
KEPT = ["bare-1", "keys-1", "kinds-1", "later-1", "optional-1", "selection-1", "versions-1"]


def expected(name):
    return json.loads((GOLDEN / name / "expected.json").read_text())


def shown(value):
    if value is ABSENT:
        return None
    return value[0].hex() if isinstance(value, tuple) else value.hex() if isinstance(value, bytes) else value


@pytest.mark.parametrize("name", KEPT)
def test_golden_datasets_are_read_by_the_reader_in_python(name):
    for id, version in expected(name).items():
        for dataset in [Dataset(GOLDEN / name, id=id), *(Dataset(GOLDEN / name, name=n) for n in version["names"])]:
            assert dataset.id == id
            readable = [f.name for f in dataset.fields if f.readable]
            samples = [[s.key.hex(), {n: shown(s.values[n]) for n in readable}] for s in dataset]
            assert samples == version["samples"]
            if dataset.section(1) is not None:
                assert dataset.rows() == [s.row for s in dataset]
            if dataset.section(2) is not None:
                keys = [bytes.fromhex(key) for key, _ in version["samples"]]
                assert dataset.keys() == keys
                assert all(dataset.find(key) == keys.index(key) for key in keys if key)


def printed(out, value):
    """What the command wrote, as expected.json has it."""
    return type(value)(out) if isinstance(value, (int, float)) else out.hex()


def telling(samples):
    """The first sample, the last one, and each in which a field is there or absent for the first time. Each value is a
    process; the test above looks at all of them."""
    seen = set()
    for i, (_, values) in enumerate(samples):
        new = {(field, value is None) for field, value in values.items()} - seen
        seen |= new
        if new or i in (0, len(samples) - 1):
            yield i, values


@pytest.mark.parametrize("name", KEPT)
def test_golden_datasets_are_read_by_the_command(name, run_leat):
    for id, version in expected(name).items():
        urls = [f"{GOLDEN / name}?id={id}", *(f"{GOLDEN / name}?name={n}" for n in version["names"])]
        for url in urls:
            info = json.loads(run_leat("info", "--json", url, status=0).stdout)
            assert info["id"] == id
            assert info["samples"] == len(version["samples"])
            assert [f["name"] for f in info["fields"] if not f.get("needs_newer")] == list(version["samples"][0][1])
            run_leat("verify", "--quiet", url, status=0)
        for i, values in telling(version["samples"]):
            for field, value in values.items():
                done = run_leat("cat", "-n", i, "--field", field, urls[0], text=False)
                assert done.returncode == (3 if value is None else 0), done.stderr
                if value is None:
                    assert b"which is optional" in done.stderr
                else:
                    assert printed(done.stdout, value) == value


def test_golden_datasets_are_as_they_were_made(tmp_path):
    spec = importlib.util.spec_from_file_location("make_datasets", GOLDEN / "make_datasets.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make_all(tmp_path)
    for name in [*KEPT, "indexed-1"]:
        made = {p.relative_to(tmp_path): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        kept = {p.relative_to(GOLDEN): p.read_bytes() for p in (GOLDEN / name).rglob("*") if p.is_file()}
        assert made == kept


def test_rebuilding_a_golden_dataset_comes_to_the_same_version(tmp_path, run_leat):
    """What a later writer has put into chunks stays as it is."""
    import shutil

    shutil.copytree(GOLDEN / "later-1/leat/chunks", tmp_path / "ds/leat/chunks")
    run_leat("rebuild", tmp_path / "ds", status=0)
    assert list(expected("later-1")) == [Dataset(tmp_path / "ds").id]
    run_leat("verify", "--quiet", tmp_path / "ds", status=0)
    shutil.copytree(GOLDEN / "versions-1/leat/chunks", tmp_path / "two/leat/chunks")
    packings = [word for p in (b"first packing id", b"other packing id") for word in ("--packing", p.hex())]
    run_leat("rebuild", *packings, tmp_path / "two", status=0)
    assert Dataset(tmp_path / "two").id == Dataset(GOLDEN / "versions-1").id


def test_keys_that_repeat_are_found_and_counted(run_leat):
    done = run_leat("cat", "--field", "n", GOLDEN / "keys-1", "a", status=0)
    assert done.stdout == "0\n"
    assert "3 samples have the key 'a'; this is the first, number 0" in done.stderr
    done = run_leat("cat", "--field", "n", GOLDEN / "keys-1", "b", status=0)
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert "no sample has the key ''" in run_leat("cat", "--field", "n", GOLDEN / "keys-1", "", status=3).stderr
    assert "has no keys" in run_leat("cat", GOLDEN / "bare-1", "1", status=3).stderr


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("new-type", "does not know type 77"),
        ("new-encoding", "does not know encoding 3 of type image"),
        ("new-bit", "uses feature 5"),
    ],
)
def test_a_field_that_needs_a_newer_leat_is_refused_and_the_others_are_read(run_leat, field, says):
    done = run_leat("cat", "-n", 1, "--field", field, GOLDEN / "later-1", status=1)
    assert f"field '{field}' needs a newer Leat" in done.stderr
    assert says in done.stderr
    assert "newer" in run_leat("unpack", "--field", field, GOLDEN / "later-1", "/nowhere", status=1).stderr
    assert run_leat("cat", GOLDEN / "later-1", "key 1", status=0).stdout == "text 1"


# Datasets that are refused. Each is made by a function of a place, and refused with a status and words.

FIELDS = [Field("text", 4), Field("cls", 3)]
SAMPLES = [(b"k%d" % i, {"text": b"text %d" % i, "cls": i}) for i in range(6)]
PACK = b"p" * 16


def plain(place, **odd):
    place.write(FIELDS, [SAMPLES[:4], SAMPLES[4:]], **odd)


def with_root(place, chunks=None, sections=(), packings=((PACK, 1),), schema=None, **odd):
    """A dataset of one chunk whose root is made by hand."""
    chunks = chunks or [(6, chunk_bytes(FIELDS, SAMPLES, PACK, 0, 1))]
    for _, data in chunks:
        place.put_chunk(data)
    for _, data, _, _ in sections:
        place.put_section(data)
    place.publish(root_bytes(schema or schema_bytes(FIELDS), chunks, list(sections), list(packings), **odd))


def other_schema(place):
    """Whole, with the right checksum, and with labels of another meaning."""
    named = [FIELDS[0], Field("cls", 3, {"names": ["dog", "cat"]})]
    schema = schema_bytes([FIELDS[0], Field("cls", 3, {"names": ["cat", "dog"]})])
    with_root(place, [(6, chunk_bytes(named, SAMPLES, PACK, 0, 1))], schema=schema)


def other_fields(place):
    swapped = [Field("cls", 3), Field("text", 4)]
    with_root(place, [(6, chunk_bytes(swapped, SAMPLES, PACK, 0, 1))])


def other_count(place, count=5):
    with_root(place, [(count, chunk_bytes(FIELDS, SAMPLES, PACK, 0, 1))])


def bad_cell(place, cell):
    field = Field("raw", 77, cell_bytes=8)  # written as it is; the schema says that it is bytes
    schema = schema_bytes([Field("raw", 1)])
    data = chunk_bytes([field], [(b"k", {"raw": cell})], PACK, 0, 1, schema=schema)
    with_root(place, [(1, data)], schema=schema)


def bad_schema(place, *fields):
    schema = schema_bytes(fields)
    with_root(place, [(1, chunk_bytes([], [(b"k", {})], PACK, 0, 1, schema=schema))], schema=schema)


DAMAGED = {
    "labels mean something else": (other_schema, "chunk 0 has another schema"),
    "fields in another order": (other_fields, "chunk 0 has another schema"),
    "a sample more": (other_count, "chunk 0 has 6 samples, the snapshot says 5"),
    "a sample less": (lambda p: other_count(p, 7), "chunk 0 has 6 samples, the snapshot says 7"),
    "another content id": (lambda p: with_root(p, id=b"i" * 32), "its content id is not"),
    "too few packings": (lambda p: with_root(p, packings=[]), "its packings"),
    "too many chunks in packings": (lambda p: with_root(p, packings=[(PACK, 1), (PACK, 1)]), "its packings"),
    "keys listed twice": (lambda p: with_root(p, sections=[(2, b"k" * 200, 0, 0)] * 2), "listed twice"),
    "a short table of samples": (lambda p: with_root(p, sections=[(1, b"r" * 88, 0, 0)]), "sample table's length"),
    "short keys": (lambda p: with_root(p, sections=[(2, b"k" * 143, 0, 0)]), "keys' length"),
    "odd blocks": (lambda p: with_root(p, block=5000), "size of blocks"),
    "small blocks": (lambda p: with_root(p, block=2048), "size of blocks"),
    "a head that is not a multiple of 8": (lambda p: with_root(p, head=196), "a head of 196 bytes"),
    "entries of odd size": (lambda p: with_root(p, section_bytes=68), "sections"),
    "packings of odd size": (lambda p: with_root(p, packing_bytes=36), "packings"),
    "no value in a field that is not optional": (lambda p: bad_cell(p, bytes(8)), "lies outside the chunk"),
    "a value before the data": (lambda p: bad_cell(p, struct.pack("<II", 8, 8)), "lies outside the chunk"),
    "a value after the end": (lambda p: bad_cell(p, struct.pack("<II", 200, 2**32 - 1)), "lies outside the chunk"),
    "two fields of one name": (lambda p: bad_schema(p, Field("a", 3), Field("a", 3)), "two fields 'a'"),
    "a cell too small": (lambda p: bad_schema(p, Field("a", 2, cell_bytes=16)), "cells of 16 bytes"),
    "a cell of odd size": (lambda p: bad_schema(p, Field("a", 77, cell_bytes=12)), "cells of 12 bytes"),
    "a name that cannot be": (lambda p: bad_schema(p, Field("a b", 3)), "field 0 is damaged"),
}

NEWER = {
    "a bit of the root": (lambda p: plain(p, root={"needs": 1 << 40}), "the snapshot's root", "feature 40"),
    "a bit of a chunk": (lambda p: plain(p, chunk={"needs": 2}), "the chunk", "feature 1"),
    "a bit of the schema": (lambda p: plain(p, schema=schema_bytes(FIELDS, needs=4)), "the schema", "feature 2"),
    "a required section": (lambda p: plain(p, more_sections=[(31, b"pieces", 1, 0)]), "section of kind 31", ""),
    "a bit of a required section": (
        lambda p: plain(p, keys=False, more_sections=[(2, b"k" * 200, 9, 0)]),
        "section of kind 2",
        "feature 3",
    ),
    "a root of format 2": (lambda p: plain(p, root={"form": 2}), "root has format 2", ""),
    "a chunk of format 2": (lambda p: plain(p, chunk={"form": 2}), "chunk has format 2", ""),
    "a word in the pointer": (lambda p: plain(p, pointer={"needs": ["pieces 1"]}), "leat/current", "'pieces 1'"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_refused_as_damage(tmp_path, run_leat, name):
    make, says = DAMAGED[name]
    make(Place(tmp_path))
    done = run_leat("verify", "--quiet", tmp_path, status=6)
    assert says in done.stderr
    assert "newer" not in done.stderr
    assert run_leat("cat", "-n", 0, tmp_path, status=6).stdout == ""
    with pytest.raises(AssertionError):
        read_all(tmp_path)


def read_all(folder):
    dataset = Dataset(folder)
    list(dataset)
    assert not dataset.section(1) or dataset.rows()
    assert not dataset.section(2) or None not in map(dataset.find, dataset.keys())


@pytest.mark.parametrize("name", NEWER)
def test_what_is_newer_is_refused_as_newer(tmp_path, run_leat, name):
    make, what, which = NEWER[name]
    make(Place(tmp_path))
    done = run_leat("verify", "--quiet", tmp_path, status=1)
    assert "needs a newer Leat" in done.stderr
    assert what in done.stderr
    assert which in done.stderr
    with pytest.raises(NeedsNewer):
        read_all(tmp_path)


def test_a_section_that_needs_a_newer_leat_is_refused_only_where_it_is_needed(tmp_path, run_leat):
    plain(Place(tmp_path), keys=False, more_sections=[(2, b"compressed keys", 8, 0)])
    assert "only the digests" in run_leat("verify", tmp_path, status=0).stderr
    assert run_leat("cat", "-n", 2, tmp_path, status=0).stdout == "text 2"
    assert "kind 2 needs a newer Leat" in run_leat("cat", tmp_path, "k2", status=1).stderr
    assert "kind 2 needs a newer Leat" in run_leat("order", "--keys", tmp_path, status=1).stderr


@pytest.mark.parametrize("make", [other_schema, other_fields, other_count])
def test_a_loader_never_takes_a_chunk_that_is_another_than_the_root_says(lt, tmp_path, make):
    make(Place(tmp_path / "ds"))
    loader = lt.Loader(tmp_path / "ds", batch_size=2, fields={"y": lt.int("cls")}, last="short")
    with loader, pytest.raises(lt.errors.CorruptError, match="chunk 0 has "):
        list(loader)


def test_a_loader_refuses_what_is_newer_or_may_be_absent(lt, tmp_path):
    plain(Place(tmp_path / "ds"), chunk={"needs": 2})
    loader = lt.Loader(tmp_path / "ds", batch_size=2, fields={"y": lt.int("cls")})
    with loader, pytest.raises(lt.errors.VersionError, match="needs a newer Leat"):
        list(loader)
    with pytest.raises(lt.errors.VersionError, match="field 'new-bit' needs a newer Leat"):
        list(lt.Loader(GOLDEN / "later-1", batch_size=2, fields={"y": lt.int("new-bit")}))
    with pytest.raises(
        lt.errors.InvalidError, match=r"'cls' is optional: give it a default, or ask for has\('cls'\) as well"
    ):
        list(lt.Loader(GOLDEN / "optional-1", batch_size=2, fields={"y": lt.int("cls")}))
    with lt.Loader(GOLDEN / "later-1", batch_size=5, fields={"y": lt.int("wide")}, shuffle=False) as loader:
        assert [batch[0].tolist() for batch in loader] == [[0, -1, -2, -3, -4]]


def test_unpack_leaves_out_what_cannot_be_a_file_and_says_so(tmp_path, run_leat):
    fields = [Field("raw", 1, optional=True)]
    samples = [(b"a", b"1"), (b"b", ABSENT), (b"a", b"3"), (b"", b"4"), (b"c", b"")]
    Place(tmp_path / "ds").write(fields, [[(key, {"raw": value}) for key, value in samples]])
    done = run_leat("unpack", tmp_path / "ds", tmp_path / "out", status=2)
    assert "sample 2 has the key 'a', as sample 0 has: left out" in done.stderr
    assert "sample 3 has no key: left out" in done.stderr
    assert "sample 1 ('b') has no 'raw': left out" in done.stderr
    assert "3 samples were left out, 2 written" in done.stderr
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {"a": b"1", "c": b""}
    assert "has no keys" in run_leat("unpack", GOLDEN / "bare-1", tmp_path / "bare", status=3).stderr
