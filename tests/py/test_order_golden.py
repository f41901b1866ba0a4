"""The order's golden values: made by the reference from the documents, reproduced by every compiler."""

import shutil
import subprocess

import order_reference
import pytest
from conftest import ROOT

GOLDEN = ROOT / "tests" / "golden" / "order-1.txt"
SOURCES = [
    "tests/unit/test_order_order.c",
    *(f"src/order/{name}.c" for name in ("list", "order", "policy", "reader")),
    *(f"src/base/{name}.c" for name in ("bytes", "error", "hash", "prefix", "random")),
]


def test_reference_written_from_the_documents_gives_the_golden_values():
    kept = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    assert kept == [order_reference.golden_line(*case) for case in order_reference.GOLDEN]


@pytest.mark.parametrize("level", ["-O0", "-O3"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_compiler_gives_the_golden_values(compiler, level, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    program = tmp_path / "test_order"
    flags = ["-std=gnu11", level, "-D_GNU_SOURCE", f"-I{ROOT}/src", f"-I{ROOT}/include"]
    libraries = ["-lcmocka", "-lcrypto", "-lxxhash", "-lm"]
    subprocess.run([compiler, *flags, "-o", program, *(ROOT / s for s in SOURCES), *libraries], check=True)
    done = subprocess.run([program], env={"LEAT_SOURCE_ROOT": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "golden_orders_are_reproduced" in done.stdout + done.stderr
