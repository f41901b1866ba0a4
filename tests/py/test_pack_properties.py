"""Whatever is packed comes back, byte for byte: random fields, values, keys and sizes of chunks."""

import json
import math
import shutil
import tempfile
from pathlib import Path

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SETTINGS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
DTYPES = [
    "uint8",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
trees = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def arrays(dtype, shape):
    """Arrays of random bytes, so that NaNs of every kind are among them."""

    def make(seed, dims):
        full = [n if n is not None else dims[i] for i, n in enumerate(shape)]
        raw = numpy.random.default_rng(seed).bytes(math.prod(full) * numpy.dtype(dtype).itemsize)
        made = numpy.frombuffer(raw, "uint8").copy() & 1 if dtype == "bool" else numpy.frombuffer(raw, dtype)
        return made.astype(dtype).reshape(full) if dtype == "bool" else made.reshape(full)

    return st.builds(make, st.integers(0, 2**32), st.lists(st.integers(0, 5), min_size=8, max_size=8))


@st.composite
def kinds(draw, leat):
    """A field's type, and what makes values of it."""
    kind = draw(st.sampled_from(["bytes", "int", "float", "string", "json", "array", "tokens", "label"]))
    if kind == "array":
        dtype = draw(st.sampled_from(DTYPES))
        shape = draw(st.lists(st.none() | st.integers(1, 4), min_size=0, max_size=4))
        return leat.Array(dtype, shape), arrays(dtype, shape)
    if kind == "tokens":
        dtype = draw(st.sampled_from(["uint16", "uint32", "int32"]))
        return leat.Tokens(dtype), arrays(dtype, [None])
    if kind == "label":
        names = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5, unique=True))
        names = [n for n in names if n.isprintable()] or ["x"]
        return leat.Label(names), st.integers(0, len(names) - 1)
    values = {
        "bytes": st.binary(max_size=200) | st.builds(lambda n: b"ab" * n, st.integers(0, 9000)),
        "int": st.integers(-(2**63) + 1, 2**63 - 1),
        "float": st.floats(),
        "string": texts,
        "json": trees,
    }
    return kind, values[kind]


@st.composite
def datasets(draw, leat):
    fields, makers = {}, {}
    for i in range(draw(st.integers(1, 5))):
        spec, values = draw(kinds(leat))
        if draw(st.booleans()):
            spec, values = leat.Optional(spec), values | st.none()
        fields[f"f{i}"], makers[f"f{i}"] = spec, values
    sample = st.fixed_dictionaries(makers)
    key = st.none() | st.binary(min_size=1, max_size=40)
    samples = draw(st.lists(st.tuples(key, sample), min_size=1, max_size=30))
    return fields, samples, draw(st.sampled_from([4096, 65536])), draw(st.booleans())


def same(a, b):
    if a is None or b is None:
        return a is b
    if isinstance(b, numpy.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and a == b


@pytest.fixture
def folder():
    made = Path(tempfile.mkdtemp(prefix="leat-property-"))
    yield made
    shutil.rmtree(made)


def test_what_is_written_is_what_is_read(leat, folder):
    @SETTINGS
    @given(datasets(leat))
    def check(made):
        fields, samples, chunk_size, compress = made
        shutil.rmtree(folder / "ds", ignore_errors=True)
        with leat.Writer(folder / "ds", fields, chunk_size=chunk_size, compress=compress) as w:
            for key, sample in samples:
                w.write(sample, key=key)
        with leat.open(folder / "ds") as ds:
            assert len(ds) == len(samples)
            for read, (key, sample) in zip(ds, samples, strict=True):
                assert read.key.encode("utf-8", "surrogateescape") == (key or b"")
                assert set(read) == set(sample)
                for name, value in sample.items():
                    assert same(read[name], value), (name, read[name], value)

    check()


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=12).filter(
    lambda n: n[0] != "." and len(n.encode()) < 200
)


def test_what_is_packed_is_what_is_unpacked(leat, folder, run_leat):
    @settings(SETTINGS, max_examples=10)
    @given(
        st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=3000), min_size=1),
        st.sampled_from(["4KiB", "8MiB"]),
        st.booleans(),
    )
    def check(files, chunk_size, keep):
        for name in ("in", "ds", "out"):
            shutil.rmtree(folder / name, ignore_errors=True)
        written = {}
        for path, data in files.items():
            if any(path.startswith(other + "/") or other.startswith(path + "/") for other in written):
                continue  # it would be a file and a folder
            (folder / "in" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "in" / path).write_bytes(data)
            written[path] = data
        order = ["--keep-order"] if keep else []
        made = run_leat("pack", "--json", "--chunk-size", chunk_size, *order, folder / "in", folder / "ds", status=0)
        assert json.loads(made.stdout)["samples"] == len(written)
        run_leat("unpack", folder / "ds", folder / "out", status=0)
        out = {str(p.relative_to(folder / "out")): p.read_bytes() for p in (folder / "out").rglob("*") if p.is_file()}
        assert out == written

    check()
