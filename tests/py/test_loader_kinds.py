"""Every kind of field through a real loader: what was stored is what a batch holds, as arrays and as tensors."""

import ctypes
import json
import struct
from pathlib import Path

import numpy
import pytest
from format_reader import ABSENT
from format_writer import Field, Place
from loading import SLOW, wait_until

pytestmark = pytest.mark.every_case

SAMPLES = 60
SHAPED = {"dtype": "float32", "shape": [None, 3]}
BOTH = {"dtype": "int16", "shape": [None, 2, None]}


def known(i):
    """Sample i as Python sees it."""
    draw = numpy.random.default_rng(i)
    return {
        "w": float(draw.normal()),
        "n": i * 1000 - 7,
        "meta": {"i": i, "name": "é" * (i % 5), "list": [None, True, 1.5] * (i % 3)},
        "rows": draw.normal(size=(i % 7, 3)).astype("float32"),
        "last": draw.integers(0, 255, size=(2, i % 5)).astype("uint8"),
        "map": draw.integers(-999, 999, size=(i % 4, 2, i % 6)).astype("int16"),
        "fixed": draw.normal(size=(2, 3)),
        "flags": draw.integers(0, 2, size=4).astype(bool),
        "half": draw.normal(size=3).astype("float16"),
        "scalar": numpy.uint64(2**63 + i),
        "text": numpy.arange(i, i + i % 9).astype("uint16"),
        "zeros": numpy.full(40 * (i % 3), 7, dtype="int32"),
        "raw": bytes([i % 256]) * (50 * (i % 3)),
        "caption": "ab" * (i % 20),
    }


FIELDS = [
    Field("w", 5),
    Field("n", 3),
    Field("meta", 6, encoding=1),
    Field("rows", 7, SHAPED),
    Field("last", 7, {"dtype": "uint8", "shape": [2, None]}),
    Field("map", 7, BOTH, encoding=1),
    Field("fixed", 7, {"dtype": "float64", "shape": [2, 3]}),
    Field("flags", 7, {"dtype": "bool", "shape": [4]}),
    Field("half", 7, {"dtype": "float16", "shape": [3]}),
    Field("scalar", 7, {"dtype": "uint64", "shape": []}),
    Field("text", 8, {"dtype": "uint16"}),
    Field("zeros", 8, {"dtype": "int32"}, encoding=1),
    Field("raw", 1, encoding=1),
    Field("caption", 4, encoding=1),
]


def stored(field, value):
    if value is ABSENT or field.kind in (3, 5):
        return value
    if field.kind == 6:
        return json.dumps(value, ensure_ascii=False).encode()
    if field.kind == 7:
        return numpy.asarray(value).tobytes(), numpy.asarray(value).shape
    if field.kind == 8:
        return value.tobytes()
    return value if isinstance(value, bytes) else value.encode()


def write(folder, fields, samples, each=7):
    """A dataset of chunks of `each` samples."""
    rows = [(b"k%d" % i, {f.name: stored(f, values[f.name]) for f in fields}) for i, values in enumerate(samples)]
    Place(folder).write(fields, [rows[i : i + each] for i in range(0, len(rows), each)])
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("kinds"), FIELDS, [known(i) for i in range(SAMPLES)])


def load(lt, url, fields, **more):
    more = {"batch_size": 16, "timeout": 60 * SLOW, "last": "short", "as_dict": True, **more}
    return lt.Loader(url, fields={"i": lt.index(), **fields}, **more)


def drain(loader):
    for _ in loader:
        pass


def empty(value):
    """Nothing, of whatever kind: no values, or zeros."""
    if value is None or isinstance(value, str):
        return not value
    value = numpy.asarray(value)
    return value.size == 0 or not value.any()


def plain(column):
    """A tensor as an array."""
    return column if isinstance(column, numpy.ndarray) else column.numpy()


FIXED = ["w", "n", "fixed", "flags", "half", "scalar"]
RAGGED = ["rows", "last", "map", "text", "zeros"]


def every_output(lt):
    own = {name: lt.array(name) for name in ("rows", "last", "map", "fixed", "flags", "half", "scalar")}
    own |= {name: lt.tokens(name) for name in ("text", "zeros")}
    own |= {"w": lt.float("w", dtype="float64"), "n": lt.int("n"), "meta": lt.json("meta")}
    return own | {"raw": lt.bytes("raw"), "caption": lt.string("caption")}


def check_batch(batch, samples=None):
    for place, i in enumerate(batch["i"].tolist()):
        wanted = known(i) if samples is None else samples[i]
        for name in FIXED:
            got = plain(batch[name])[place]
            assert got.dtype == numpy.asarray(wanted[name]).dtype
            assert numpy.array_equal(got, wanted[name])
        for name in RAGGED:
            got = plain(batch[name][place])
            assert got.dtype == wanted[name].dtype
            assert got.shape == wanted[name].shape
            assert numpy.array_equal(got, wanted[name])
        assert batch["meta"][place] == wanted["meta"]
        assert bytes(batch["raw"][place]) == wanted["raw"]
        assert batch["caption"][place] == wanted["caption"]


def test_every_kind_comes_as_it_was_stored(lt, folder, as_numpy):
    with load(lt, folder, every_output(lt), as_numpy=as_numpy) as loader:
        seen = []
        for batch in loader:
            check_batch(batch)
            seen += batch["i"].tolist()
        assert sorted(seen) == list(range(SAMPLES))
        assert type(batch["meta"]) is list


def test_values_and_offsets_are_those_of_the_items(lt, folder, as_numpy):
    names = [*RAGGED, "raw", "caption"]
    fields = {name: every_output(lt)[name] for name in names}
    tuples = {f"{name} tuple": field.ragged() for name, field in fields.items()}
    with load(lt, folder, {**fields, **tuples}, as_numpy=as_numpy) as loader:
        for batch in loader:
            for name in names:
                column, both = batch[name], batch[f"{name} tuple"]
                values, offsets = plain(column.values), plain(column.offsets)
                assert len(both) == (3 if name == "map" else 2)
                assert type(both) is tuple
                assert numpy.array_equal(plain(both[0]), values)
                assert numpy.array_equal(plain(both[1]), offsets)
                assert offsets.dtype == numpy.int64
                assert len(offsets) == len(column) + 1
                assert offsets[0] == 0
                assert offsets[-1] == len(values)
                for place, i in enumerate(batch["i"].tolist()):
                    wanted = known(i)[name]
                    piece = values[offsets[place] : offsets[place + 1]]
                    if name in ("raw", "caption"):
                        assert piece.tobytes() == (wanted if name == "raw" else wanted.encode())
                        continue
                    assert tuple(column.shapes[place].tolist()) == wanted.shape
                    if name == "rows":
                        assert piece.shape == wanted.shape
                    assert numpy.array_equal(piece.reshape(wanted.shape), wanted)
                if name == "map":
                    assert plain(both[2]).tolist() == plain(column.shapes).tolist()


def test_ragged_arrays_move_as_tensors_and_text_stays(lt, folder):
    torch = pytest.importorskip("torch")
    with load(lt, folder, every_output(lt), as_numpy=False) as loader:
        batch = next(iter(loader))
        moved = batch["map"].to(torch.device("cpu"), copy=True)
        assert [t.tolist() for t in moved] == [t.tolist() for t in batch["map"]]
        assert moved.values.data_ptr() != batch["map"].values.data_ptr()
        assert [t.tolist() for t in moved[1:5]] == [t.tolist() for t in batch["map"][1:5]]
        assert moved[-1].tolist() == batch["map"][-1].tolist()
        assert batch["caption"].to("cuda") is batch["caption"]
        assert [t.tolist() for t in batch["rows"].tolist()] == [t.tolist() for t in batch["rows"]]
        with pytest.raises(AttributeError, match="offsets"):
            batch["caption"].shapes  # noqa: B018
        assert lt.state_of(batch["rows"].values) == lt.state_of(batch["i"])


def padded(value, shape, fill):
    out = numpy.full(shape, fill, dtype=value.dtype)
    out[tuple(slice(0, n) for n in value.shape)] = value
    return out


def test_padding_fills_up_to_one_shape_and_lengths_say_how_far(lt, folder, as_numpy):
    fields = {
        "rows": lt.array("rows").pad(6, value=-1.5),
        "last": lt.array("last").pad((2, 9), value=255),
        "map": lt.array("map").pad((4, 2, 8), value=-3),
        "text": lt.tokens("text").pad(10, value=65535),
        "wide": lt.tokens("text", dtype="int64").pad(8),
        "zeros": lt.tokens("zeros", dtype="int64").pad(100, value=-100),
        **{f"{name} n": lt.length(name) for name in ("rows", "last", "map", "text", "zeros", "raw", "meta")},
    }
    with load(lt, folder, fields, as_numpy=as_numpy) as loader:
        for batch in loader:
            for place, i in enumerate(batch["i"].tolist()):
                wanted = known(i)
                for name, shape, fill in (
                    ("rows", (6, 3), -1.5),
                    ("last", (2, 9), 255),
                    ("map", (4, 2, 8), -3),
                    ("text", (10,), 65535),
                ):
                    got = plain(batch[name])[place]
                    assert got.dtype == wanted[name].dtype
                    assert numpy.array_equal(got, padded(wanted[name], shape, fill))
                assert numpy.array_equal(plain(batch["wide"])[place], padded(wanted["text"].astype("int64"), 8, 0))
                wide = plain(batch["zeros"])[place]
                assert wide.dtype == numpy.int64
                assert numpy.array_equal(wide, padded(wanted["zeros"].astype("int64"), 100, -100))
                assert batch["rows n"][place] == len(wanted["rows"])
                assert batch["last n"][place] == wanted["last"].shape[1]
                assert batch["map n"][place].tolist() == [wanted["map"].shape[0], wanted["map"].shape[2]]
                assert batch["text n"][place] == len(wanted["text"])
                assert batch["zeros n"][place] == len(wanted["zeros"])
                assert batch["raw n"][place] == len(wanted["raw"])
                assert batch["meta n"][place] == len(json.dumps(wanted["meta"], ensure_ascii=False).encode())


def test_what_is_longer_than_its_padding_is_an_error_or_cut(lt, folder):
    with (
        load(lt, folder, {"rows": lt.array("rows").pad(3)}) as loader,
        pytest.raises(
            lt.Error, match=r"sample \d+ \('k\d+'\): field 'rows': dimension 0 has [456] values, more than pad=3"
        ),
    ):
        list(loader)
    fields = {"rows": lt.array("rows").pad(3, cut=True), "map": lt.array("map").pad((2, 2, 3), value=9, cut=True)}
    with load(lt, folder, {**fields, "text": lt.tokens("text").pad(4, cut=True)}, as_numpy=True) as loader:
        for batch in loader:
            for place, i in enumerate(batch["i"].tolist()):
                wanted = known(i)
                assert numpy.array_equal(batch["rows"][place], padded(wanted["rows"][:3], (3, 3), 0))
                assert numpy.array_equal(batch["map"][place], padded(wanted["map"][:2, :, :3], (2, 2, 3), 9))
                assert numpy.array_equal(batch["text"][place], padded(wanted["text"][:4], 4, 0))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda lt: lt.array("n"), "field 'n' is of type int, not array"),
        (lambda lt: lt.int("w"), "field 'w' is of type float, not int"),
        (lambda lt: lt.json("raw"), "field 'raw' is of type bytes, not json"),
        (lambda lt: lt.bytes("w"), "field 'w' is of type float, not bytes"),
        (lambda lt: lt.length("n"), "field 'n' is of type int, not"),
        (lambda lt: lt.length("fixed"), "its length does not vary"),
        (lambda lt: lt.int("n", dtype="float32"), "cannot be converted to float32"),
        (lambda lt: lt.float("w", dtype="int64"), "cannot be converted to int64"),
        (lambda lt: lt.int("n", dtype="int17"), "'dtype=int17' is not valid"),
        (lambda lt: lt.int("n", dtype="uint8", default=256), "'256' is not a number of type uint8"),
        (lambda lt: lt.tokens("text", dtype="uint8"), "holds uint16, which does not always fit into uint8"),
        (lambda lt: lt.tokens("zeros", dtype="uint32"), "holds int32, which does not always fit into uint32"),
        (lambda lt: lt.array("fixed").pad(3), "nothing to pad"),
        (lambda lt: lt.array("map").pad(3), "3 dimensions and 2 of them vary"),
        (lambda lt: lt.array("map").pad((3, 3, 3)), "dimension 1 of field 'map' is 2"),
        (lambda lt: lt.array("rows").pad(0), "'pad=0' is not valid"),
        (lambda lt: lt.array("rows").pad(4, value=1e400), None),
        (lambda lt: lt.tokens("text").pad(4, value=-1), "'-1' is not a number of type uint16"),
        (lambda lt: lt.tokens("text").pad(4, value=0.5), "'0.5' is not a number of type uint16"),
        (lambda lt: lt.array("rows", default=1), "values that vary in length have no default"),
    ],
)
def test_outputs_that_cannot_be_are_refused_with_a_reason(lt, folder, make, says):
    if says is None:
        load(lt, folder, {"x": make(lt)}).close()
        return
    with pytest.raises(lt.errors.InvalidError) as error:
        load(lt, folder, {"x": make(lt)})
    assert f"output 'x': {says}" in str(error.value) or says in str(error.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda lt: lt.int("n", default="x"),
        lambda lt: lt.array("rows").pad("long"),
        lambda lt: lt.array("rows").pad(3, value="x"),
        lambda lt: lt.string("s", default=b"x"),
        lambda lt: lt.string("s", default="a\0b"),
        lambda lt: lt.json("s", default={1, 2}),
        lambda lt: lt.json("s", default=float("nan")),
    ],
)
def test_what_is_no_number_or_text_is_refused_where_it_is_said(lt, make):
    with pytest.raises(lt.errors.InvalidError):
        make(lt)


def test_ints_come_in_other_types_and_say_what_does_not_fit(lt, folder):
    fields = {t: lt.int("n", dtype=t) for t in ("int32", "int64")} | {"w": lt.float("w")}
    with load(lt, folder, fields, as_numpy=True) as loader:
        for batch in loader:
            assert batch["int32"].dtype == numpy.int32
            assert batch["w"].dtype == numpy.float32
            assert numpy.array_equal(batch["int32"], batch["int64"])
            assert numpy.array_equal(
                batch["w"], numpy.array([known(i)["w"] for i in batch["i"].tolist()], dtype="float32")
            )
    loader = load(lt, folder, {"n": lt.int("n", dtype="uint8")})
    with loader, pytest.raises(lt.Error, match=r"field 'n': -?\d+ does not fit into uint8"):
        drain(loader)


# Optional fields


OPTIONAL = [
    f for f in FIELDS if f.name in ("w", "n", "meta", "rows", "map", "fixed", "text", "zeros", "raw", "caption")
]


def lacking(i):
    """Sample i, of which each field is missing in another third of the samples."""
    values = known(i)
    return {f.name: ABSENT if (i + k) % 3 == 0 else values[f.name] for k, f in enumerate(OPTIONAL)}


@pytest.fixture(scope="module")
def optional(tmp_path_factory):
    fields = [Field(f.name, f.kind, f.about, optional=True, encoding=f.encoding) for f in OPTIONAL]
    return write(tmp_path_factory.mktemp("optional"), fields, [lacking(i) for i in range(SAMPLES)])


def test_an_optional_field_needs_a_default_or_has(lt, optional):
    for field in (
        lt.int("n"),
        lt.float("w"),
        lt.json("meta"),
        lt.array("rows"),
        lt.tokens("text"),
        lt.string("caption"),
    ):
        name = field._source
        with pytest.raises(
            lt.errors.InvalidError, match=rf"'{name}' is optional: give it a default, or ask for has\('{name}'\)"
        ):
            load(lt, optional, {"x": field})
    with pytest.raises(lt.errors.InvalidError, match=r"'raw' is optional: ask for has\('raw'\) as well"):
        load(lt, optional, {"x": lt.length("raw"), "y": lt.has("n")})


def test_defaults_stand_where_a_sample_lacks_the_field(lt, optional, as_numpy):
    fields = {
        "n": lt.int("n", default=-1),
        "w": lt.float("w", default=float("nan")),
        "meta": lt.json("meta", default={"a": [1, "é b"]}),
        "fixed": lt.array("fixed", default=2.5),
        "rows": lt.array("rows", default=-7).pad(6, value=3),
        "text": lt.tokens("text", default=9).pad(8, value=1),
        "raw": lt.bytes("raw", default=b"\0\xff"),
        "caption": lt.string("caption", default=" no caption "),
    }
    with load(lt, optional, fields, as_numpy=as_numpy) as loader:
        for batch in loader:
            for place, i in enumerate(batch["i"].tolist()):
                there = lacking(i)
                row = {name: batch[name][place] for name in fields}
                assert row["n"] == (-1 if there["n"] is ABSENT else there["n"])
                assert numpy.isnan(float(row["w"])) if there["w"] is ABSENT else row["w"] == numpy.float32(there["w"])
                assert row["meta"] == ({"a": [1, "é b"]} if there["meta"] is ABSENT else there["meta"])
                fixed = numpy.full((2, 3), 2.5) if there["fixed"] is ABSENT else there["fixed"]
                assert numpy.array_equal(plain(row["fixed"]), fixed)
                rows = numpy.full((6, 3), -7) if there["rows"] is ABSENT else padded(there["rows"], (6, 3), 3)
                assert numpy.array_equal(plain(row["rows"]), rows)
                text = numpy.full(8, 9) if there["text"] is ABSENT else padded(there["text"], 8, 1)
                assert numpy.array_equal(plain(row["text"]), text)
                assert bytes(row["raw"]) == (b"\0\xff" if there["raw"] is ABSENT else there["raw"])
                assert row["caption"] == (" no caption " if there["caption"] is ABSENT else there["caption"])


def test_has_says_which_samples_have_a_value_and_the_rest_is_empty(lt, optional, as_numpy):
    outputs = {name: field for name, field in every_output(lt).items() if name in {f.name for f in OPTIONAL}}
    outputs |= {"pad": lt.array("rows").pad(6, value=4), "n rows": lt.length("rows")}
    fields = {**outputs, **{f"has {f.name}": lt.has(f.name) for f in OPTIONAL}}
    with load(lt, optional, fields, as_numpy=as_numpy) as loader:
        for batch in loader:
            for place, i in enumerate(batch["i"].tolist()):
                for name, value in lacking(i).items():
                    there, got = batch[f"has {name}"][place], batch[name][place]
                    assert bool(there) == (value is not ABSENT)
                    if value is ABSENT:
                        assert empty(got)
                    elif name in RAGGED or name == "fixed":
                        assert numpy.array_equal(plain(got), value)
                    elif name == "raw":
                        assert bytes(got) == value
                    else:
                        assert got == value
                rows = lacking(i)["rows"]
                wanted = numpy.full((6, 3), 4) if rows is ABSENT else padded(rows, (6, 3), 4)
                assert numpy.array_equal(plain(batch["pad"])[place], wanted)
                assert batch["n rows"][place] == (0 if rows is ABSENT else len(rows))
        assert plain(batch["has n"]).dtype == bool


def test_pictures_that_are_not_there_are_zeros(lt, tmp_path, as_numpy):
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(numpy.full((9, 9, 3), 200, dtype="uint8")).save(out, "PNG")
    picture = (out.getvalue(), (9, 9, 243, 2, 3, 0, 0))
    samples = [(b"%d" % i, {"png": ABSENT if i % 2 else picture}) for i in range(10)]
    Place(tmp_path).write([Field("png", 2, optional=True)], [samples])
    image = lt.image("png").resize((4, 4))
    with pytest.raises(lt.errors.InvalidError, match=r"'png' is optional: ask for has\('png'\) as well"):
        load(lt, tmp_path, {"x": image})
    with load(lt, tmp_path, {"x": image, "d": image.drawn(), "there": lt.has("png")}, as_numpy=as_numpy) as loader:
        batch = next(iter(loader))
        for place, i in enumerate(batch["i"].tolist()):
            assert bool(batch["there"][place]) == (i % 2 == 0)
            assert plain(batch["x"])[place].tolist() == numpy.full((4, 4, 3), 0 if i % 2 else 200).tolist()
            assert bool(numpy.any(plain(batch["d"])[place])) == (i % 2 == 0)


# Unusual batches


def test_padding_of_the_last_batch_repeats_samples_of_every_kind(lt, folder):
    fields = {**every_output(lt), "v": lt.valid()}
    with load(lt, folder, fields, batch_size=16, last="pad", as_numpy=True, shuffle=False) as loader:
        valid = []
        for batch in loader:
            check_batch(batch)
            valid.append(batch["v"].tolist())
    assert valid == [[True] * 16] * 3 + [[True] * 12 + [False] * 4]


def damage(folder, fields, samples, broken):
    """A dataset in which some values are not what their field says: `broken` maps a sample to {field: what is stored}."""
    rows = []
    for i, values in enumerate(samples):
        rows.append((b"k%d" % i, {f.name: stored(f, values[f.name]) for f in fields} | broken.get(i, {})))
    Place(folder).write(fields, [rows[i : i + 5] for i in range(0, len(rows), 5)])
    return folder


def test_samples_that_cannot_be_read_are_skipped_whatever_their_kind(lt, tmp_path, runtime, monkeypatch):
    import format_writer

    real = format_writer.zstd
    bad = struct.pack("<IBI", 0xFD2FB528, 0xA0, 120) + (5 << 3 | 1).to_bytes(3, "little") + b"short"
    monkeypatch.setattr(format_writer, "zstd", lambda data: bad if data.startswith(b"damage") else real(data))
    fields = [Field("meta", 6), Field("x", 8, {"dtype": "uint16"}, encoding=1), Field("n", 3), Field("y", 7, SHAPED)]
    samples = [known(i) | {"x": numpy.full(60, i, dtype="uint16"), "y": known(i)["rows"]} for i in range(40)]
    broken = {3: {"meta": b'{"a": nul}'}, 11: {"x": b"damage" * 20}, 17: {"n": 70000}, 18: {"meta": b"\xff"}}
    damage(tmp_path, fields, samples, broken)
    outputs = {
        "meta": lt.json("meta"),
        "x": lt.tokens("x"),
        "flat": lt.tokens("x").pad(64),
        "flat n": lt.length("y"),
        "n": lt.int("n", dtype="uint16"),
        "y": lt.array("y"),
        "v": lt.valid(),
        "k": lt.key(),
    }
    for i, says in ((3, "not JSON"), (11, "compressed bytes"), (17, "does not fit into uint16")):
        (one,) = broken[i]
        with load(lt, tmp_path, {one: outputs[one]}, batch_size=4) as loader:
            with pytest.raises(lt.Error, match=says) as error:
                drain(loader)
            assert f"field '{one}'" in str(error.value)
    with load(lt, tmp_path, outputs, batch_size=8, on_error="skip", as_numpy=True, last="drop") as loader:
        for batch in loader:
            for place, i in enumerate(batch["i"].tolist()):
                bad_one = i in broken or samples[i]["n"] < 0
                assert batch["v"][place] == (not bad_one)
                assert batch["k"][place] == f"k{i}"
                assert batch["y"][place].tolist() == samples[i]["y"].tolist()  # ragged ones are the sample's own
                assert batch["flat n"][place] == len(samples[i]["y"])
                assert batch["meta"][place] == (None if i in (3, 18) else samples[i]["meta"])
                if not bad_one:
                    assert batch["x"][place].tolist() == [i] * 60
                    assert batch["flat"][place].tolist() == [i] * 60 + [0] * 4
                    assert batch["n"][place] == samples[i]["n"]
                else:  # what has one shape is another sample's of the batch, all of it the same one's
                    other = int(batch["flat"][place][0])
                    assert other in [k for k in batch["i"].tolist() if k not in broken and samples[k]["n"] >= 0]
                    assert batch["n"][place] == samples[other]["n"]
                if i == 11:
                    assert batch["x"][place].tolist() == [0] * 60
        wait_until(lambda: loader.stats()["samples_skipped"] >= 5, what="the count of skipped samples")


def test_batches_made_in_several_steps_have_every_kind(lt, tmp_path, runtime):
    """Chunks of one sample beside one of many, and room for few of them: ragged values wait beside the slot."""
    fields = [*FIELDS, Field("ballast", 1)]
    rows = []
    for i in range(450):
        ballast = {"ballast": bytes(200_000) if i % 450 < 25 or i >= 425 else b""}
        rows.append((b"k%d" % i, {f.name: stored(f, known(i)[f.name]) for f in FIELDS} | ballast))
    alone = [rows[i : i + 1] for i in range(25)], [rows[i : i + 1] for i in range(425, 450)]
    Place(tmp_path).write(fields, [*alone[0], rows[25:425], *alone[1]])
    options = {"batch_size": 40, "window": 1, "seed": 3, "as_numpy": True}
    with pytest.raises(lt.errors.LimitError) as error:
        load(lt, tmp_path, every_output(lt), ram="1mib", **options)
    least = str(error.value).split('ram="')[1].split('"')[0]
    runtime.wait_gone()
    with load(lt, tmp_path, every_output(lt), ram=least, **options) as loader:
        for _ in range(3):
            for batch in loader:
                check_batch(batch)
        assert loader.stats()["batches_split"] > 0


def test_a_batch_larger_than_its_slot_has_every_kind(lt, tmp_path):
    """One sample a thousand times the size of the others: its columns come in memory of their own."""
    samples = [known(i) for i in range(300)]
    samples[7]["rows"] = numpy.arange(3 * 100_000, dtype="float32").reshape(-1, 3)
    samples[7]["map"] = numpy.arange(500 * 2 * 300, dtype="int16").reshape(500, 2, 300)
    samples[9]["zeros"] = numpy.full(30000, 7, dtype="int32")
    write(tmp_path, FIELDS, samples, each=50)
    with load(lt, tmp_path, every_output(lt), as_numpy=True, batch_size=10) as loader:
        for batch in loader:
            check_batch(batch, samples)


# Memory that the program itself has written to


class Ring:
    """The ring of this process's only loader: docs/ring.md."""

    def __init__(self):
        for line in Path("/proc/self/maps").read_text().splitlines():
            if "leat-ring" in line:
                self.at = int(line.split("-")[0], 16)
        self.slots = self.number(12, ctypes.c_uint32)
        self.slot_bytes = self.number(40)

    def number(self, at, kind=ctypes.c_uint64):
        return kind.from_address(self.at + at).value

    def column(self, i):
        """Where a column's ends and its values are in a slot."""
        return self.number(640 + 160 * i + 136), self.number(640 + 160 * i + 144)

    def put(self, slot, at, value):
        ctypes.c_uint64.from_address(self.at + 8192 + slot * self.slot_bytes + at).value = value


@pytest.mark.parametrize("what", ["ends", "sizes"])
def test_sizes_that_cannot_be_are_an_error_and_no_array_outside_the_batch(lt, tmp_path, what):
    large = numpy.ones((100, 2, 60), dtype="int16")  # eight of them are too much to be copied at delivery
    write(tmp_path, FIELDS, [known(i) | {"map": large} for i in range(32)])
    with load(lt, tmp_path, {"map": lt.array("map")}, as_numpy=True, batch_size=8, slots=2, last="drop") as loader:
        batches = iter(loader)
        batch = next(batches)
        ring = Ring()
        at = ring.column(1)[0] + (0 if what == "ends" else 8 * 8)
        wait_until(lambda: ring.number(128, ctypes.c_uint32) >= 2, what="the batch after it")
        for slot in range(2):
            ring.put(slot, at, 10**6 if what == "ends" else 2**33)
        with pytest.raises(lt.errors.CorruptError, match="something wrote to the batch"):
            batch["map"][0]
        with pytest.raises(lt.errors.CorruptError, match="something wrote to the batch"):
            batch["map"].shapes  # noqa: B018
        assert len(batch["map"][5:]) == 3  # the others are as they were
        with pytest.raises(lt.errors.CorruptError, match="values that end where they cannot"):
            next(batches)


# The table


def test_the_page_has_the_librarys_table(lt):
    from conftest import ROOT

    text = (ROOT / "docs" / "loader.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `leat.") and line.count("|") == 6]
    made = []
    for name, (_, fields, words, dtype, shape) in lt.fields._KINDS.items():
        said = "pipeline" if words == "…" else " ".join(f"`{w}`" for w in words.split())
        called = f"image(…).{name}" if name in ("drawn", "boxes") else name
        made.append(f"| `leat.{called}` | {fields or '–'} | {dtype} | {shape} | {said} |")
    assert rows == made


def test_every_kind_has_a_function_that_makes_it(lt):
    for name in lt.fields._KINDS:
        if name in ("drawn", "boxes"):
            field = lt.image("x").drawn() if name == "drawn" else lt.image("x").boxes("y")
        else:
            make = getattr(lt, name)
            field = make() if name in ("key", "index", "valid", "stream") else make("x")
        assert field._kind == name
        assert name in repr(field)


# What leat.Writer wrote


SPECS = {
    "w": "float",
    "n": "int",
    "meta": "json",
    "rows": ("float32", [None, 3]),
    "last": ("uint8", [2, None]),
    "map": ("int16", [None, 2, None]),
    "fixed": ("float64", [2, 3]),
    "flags": ("bool", [4]),
    "half": ("float16", [3]),
    "scalar": ("uint64", []),
    "text": "uint16",
    "zeros": "int32",
    "raw": "bytes",
    "caption": "string",
}


@pytest.mark.parametrize("compress", [False, True])
def test_what_the_writer_wrote_is_what_the_loader_gives(lt, tmp_path, compress):
    """The library's own compression, of values that gain by it and of others."""

    def spec(given):
        if isinstance(given, tuple):
            return lt.Array(*given)
        return lt.Tokens(given) if given in ("uint16", "int32") else given

    samples = [known(i) for i in range(90)]
    for i in range(0, 90, 2):  # numbers that repeat
        samples[i]["rows"] = numpy.tile(samples[i]["rows"][:1], (40 * (i % 7 > 0), 1))
        samples[i]["text"] = numpy.arange(i * 30, dtype="uint16") % 17
        samples[i]["meta"] = {"list": ["the same"] * i}
    with lt.Writer(tmp_path / "ds", fields={k: spec(v) for k, v in SPECS.items()}, compress=compress) as writer:
        for i, values in enumerate(samples):
            writer.write(values, key=f"k{i}")
    with load(lt, tmp_path / "ds", {**every_output(lt), "k": lt.key()}, as_numpy=True) as loader:
        seen = 0
        for batch in loader:
            check_batch({**batch, "i": numpy.array([int(k[1:]) for k in batch["k"]])}, samples)
            seen += len(batch["i"])
        assert seen == 90
