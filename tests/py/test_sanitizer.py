"""`make asan` would see a leak or an overflow in a child process: the net has no hole."""

import os
import subprocess

import pytest
from conftest import SANITIZE, SANITIZER_EXIT, assert_no_report

pytestmark = pytest.mark.skipif(SANITIZE != "address", reason="only in make asan")

PROGRAM = """
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    static char *volatile kept;
    char *p = malloc(4);
    if (argc > 1 && strcmp(argv[1], "overflow") == 0)
        p[atoi("4")] = 1;
    if (argc > 1 && strcmp(argv[1], "undefined") == 0)
        return 0x7fffffff + argc > 0;
    kept = argc > 1 && strcmp(argv[1], "leak") == 0 ? NULL : p;
    p = NULL;
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "x.c").write_text(PROGRAM)
    flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    subprocess.run(["gcc", *flags, folder / "x.c", "-o", folder / "x"], check=True)
    return folder / "x"


@pytest.mark.parametrize("fault", ["leak", "overflow", "undefined"])
def test_a_fault_in_a_child_is_seen(program, clean_env, fault):
    done = subprocess.run([program, fault], env=clean_env, capture_output=True, text=True, check=False)
    assert done.returncode == SANITIZER_EXIT, done.stderr
    with pytest.raises(pytest.fail.Exception):
        assert_no_report("x", done.returncode, done.stderr)


def test_a_good_child_is_left_alone(program, clean_env):
    done = subprocess.run([program], env=clean_env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_extension_is_the_sanitized_one(leat, run_python):
    code = "import leat; print('libasan' in open('/proc/self/maps').read(), leat.__version__)"
    assert run_python(code).stdout == f"True {leat.__version__}\n"


def test_the_interpreter_passes_no_preload_on():
    assert "LD_PRELOAD" not in os.environ
