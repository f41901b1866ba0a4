"""Promises of the C interface, kept for a program that knows its headers and its shared library only."""

import subprocess

import pytest
from conftest import assert_no_report
from loading import SLOW

PROMISES = ["options", "outputs", "columns", "callback", "descriptor", "timeout", "close", "threads", "fork", "state"]


@pytest.mark.parametrize("promise", PROMISES)
def test_c_programs_are_kept_their_promise(leat_build, runtime, images, promise):
    tool = leat_build / "tests" / "unit" / "tool_batches"
    done = subprocess.run(
        [tool, promise, images.url], env=runtime.env, capture_output=True, text=True, check=False, timeout=60 * SLOW
    )
    assert_no_report(tool, done.returncode, done.stderr)
    assert done.returncode == 0, done.stderr
