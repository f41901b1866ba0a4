"""The order's golden values: made by the reference from the documents, reproduced by every compiler."""

import shutil
import subprocess

import order_reference
import pytest
from conftest import ROOT

pytestmark = pytest.mark.python_only

GOLDEN = ROOT / "tests" / "golden"
SOURCES = [
    *(f"src/order/{name}.c" for name in ("assign", "batch", "list", "order", "place", "policy", "reader")),
    *(f"src/base/{name}.c" for name in ("bytes", "error", "hash", "prefix", "random", "xxh3_avx2")),
]


def kept(name):
    return [line for line in (GOLDEN / name).read_text().splitlines() if not line.startswith("#")]


def test_reference_written_from_the_documents_gives_the_golden_values():
    assert kept("order-1.txt") == [order_reference.golden_line(*case) for case in order_reference.GOLDEN]
    assert kept("assignment-1.txt") == [order_reference.assignment_line(*case) for case in order_reference.ASSIGNMENTS]


@pytest.mark.parametrize(
    ("compiler", "level"),
    [
        ("clang", "-O3"),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("gcc", "-O0"), ("gcc", "-O3"), ("clang", "-O0"))),
    ],
)
def test_every_compiler_gives_the_golden_values(compiler, level, tmp_path):
    """The build's own compiler and level are those of the unit tests."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    flags = [compiler, "-std=gnu11", level, "-D_GNU_SOURCE", f"-I{ROOT}/src", f"-I{ROOT}/include"]
    subprocess.run([*flags, "-c", *(ROOT / s for s in [*SOURCES, "tests/unit/unit.c"])], cwd=tmp_path, check=True)
    for what in ("order", "assign"):
        program = tmp_path / f"test_order_{what}"
        test = ROOT / f"tests/unit/test_order_{what}.c"
        libraries = ["-lcmocka", "-lcrypto", "-lxxhash", "-lm"]
        subprocess.run([*flags, "-o", program, test, *tmp_path.glob("*.o"), *libraries], check=True)
        done = subprocess.run(
            [program, f"order_{what}"], env={"LEAT_SOURCE_ROOT": str(ROOT)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert f"golden_{what}" in done.stdout + done.stderr
