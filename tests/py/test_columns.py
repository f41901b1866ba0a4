"""Columns of every type and shape that the C interface knows, as arrays and as tensors."""

import gc
import math
import sys

import pytest
from loading import PYTHON_BUILD

# name in leat/loader.h: (its number, numpy's type, torch's)
TYPES = {
    "LEAT_U8": (1, "uint8", "uint8"),
    "LEAT_I64": (2, "int64", "int64"),
    "LEAT_F32": (3, "float32", "float32"),
    "LEAT_F16": (4, "float16", "float16"),
    "LEAT_BF16": (5, "uint16", "bfloat16"),  # which numpy does not have
    "LEAT_I8": (6, "int8", "int8"),
    "LEAT_I16": (7, "int16", "int16"),
    "LEAT_U16": (8, "uint16", "uint16"),
    "LEAT_I32": (9, "int32", "int32"),
    "LEAT_U32": (10, "uint32", "uint32"),
    "LEAT_U64": (11, "uint64", "uint64"),
    "LEAT_F64": (12, "float64", "float64"),
    "LEAT_BOOL": (13, "bool", "bool"),
}
SHAPES = [(5,), (3, 4), (2, 3, 2, 1, 2, 1, 2, 1, 3), (0, 4)]  # samples first; the longest has eight dimensions a sample
NUMBER = 2  # LEAT_OUTPUT_INT


@pytest.fixture(scope="module")
def columns():
    folder = str(PYTHON_BUILD / "tests" / "unit")
    sys.path.insert(0, folder)
    import module_columns

    gc.freeze()  # what the collections here need not look at: torch and all that was imported
    yield module_columns
    gc.unfreeze()
    sys.path.remove(folder)


def random_values(dtype, shape):
    import numpy

    draw = numpy.random.default_rng(5)
    if dtype == "bool":
        return draw.integers(0, 2, size=shape).astype(bool)
    if dtype.startswith("float"):
        return draw.normal(size=shape).astype(dtype)
    limits = numpy.iinfo(dtype)
    return draw.integers(limits.min, limits.max, size=shape, dtype=dtype, endpoint=True)


def test_the_table_here_is_the_headers(lt):
    from conftest import ROOT

    header = (ROOT / "include" / "leat" / "loader.h").read_text()
    body = header.split("enum leat_dtype_code {")[1].split("}")[0]
    numbers = dict(line.split("/*")[0].strip().rstrip(",").split(" = ") for line in body.strip().splitlines())
    assert {name: int(value) for name, value in numbers.items()} == {name: row[0] for name, row in TYPES.items()}
    assert set(lt.loader._NUMPY) == {row[0] for row in TYPES.values()}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TYPES)
def test_arrays_have_type_shape_and_values(lt, columns, name, shape):
    import numpy

    code, dtype, _ = TYPES[name]
    wanted = random_values(dtype, shape)
    before = columns.released()
    got = columns.deliver(wanted.tobytes(), NUMBER, code, shape, lt.loader._plan_numpy)
    assert got.dtype == numpy.dtype(dtype) and got.shape == shape
    assert numpy.array_equal(got, wanted)
    assert columns.released() == before
    del got
    gc.collect()
    assert columns.released() == before + 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TYPES)
def test_tensors_have_type_shape_and_values(lt, columns, name, shape):
    torch = pytest.importorskip("torch")
    code, stored, dtype = TYPES[name]
    wanted = random_values(stored, shape)
    got = columns.deliver(wanted.tobytes(), NUMBER, code, shape, lt.loader._plan_torch)
    assert got.dtype == getattr(torch, dtype) and tuple(got.shape) == shape
    if math.prod(shape):
        assert bytes(got.contiguous().view(torch.uint8).flatten().tolist()) == wanted.tobytes()


@pytest.mark.parametrize("code", [0, 14, 99, 2**32 - 1])
def test_types_that_are_not_known_are_an_error(lt, columns, code):
    before = columns.released()
    with pytest.raises(RuntimeError, match=str(code)):
        columns.deliver(b"12345678", NUMBER, code, (1,), lt.loader._plan_numpy)
    assert columns.released() == before + 1


def test_nine_dimensions_are_an_error(lt, columns):
    with pytest.raises(RuntimeError, match="9 dimensions"):
        columns.deliver(b"1", NUMBER, 1, (1,) * 10, lt.loader._plan_numpy)
