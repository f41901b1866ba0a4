"""The order's golden values: made by the reference from the documents, reproduced by every compiler."""

import shutil
import subprocess

import order_reference
import pytest
from conftest import ROOT, SANITIZE

pytestmark = pytest.mark.skipif(bool(SANITIZE), reason="what is compiled here is compiled without it")

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


@pytest.mark.parametrize("level", ["-O0", "-O3"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("what", ["order", "assign"])
def test_every_compiler_gives_the_golden_values(what, compiler, level, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    program = tmp_path / "test_order"
    flags = ["-std=gnu11", level, "-D_GNU_SOURCE", f"-I{ROOT}/src", f"-I{ROOT}/include"]
    libraries = ["-lcmocka", "-lcrypto", "-lxxhash", "-lm"]
    tests = [f"tests/unit/test_order_{what}.c", "tests/unit/unit.c"]
    build = [compiler, *flags, "-o", program, *(ROOT / s for s in [*tests, *SOURCES])]
    subprocess.run([*build, *libraries], check=True)
    done = subprocess.run(
        [program, f"order_{what}"], env={"LEAT_SOURCE_ROOT": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"golden_{what}" in done.stdout + done.stderr
