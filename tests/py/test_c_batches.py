"""Promises of the C interface, kept for a program that knows its headers and its shared library only."""

import subprocess

import pytest
from conftest import ROOT, SANITIZE, assert_no_report
from loading import SLOW

PROMISES = [
    "options",
    "outputs",
    "columns",
    "settings",
    "copy",
    "callback",
    "descriptor",
    "timeout",
    "close",
    "threads",
    "fork",
    "state",
    "peek",
]


@pytest.mark.parametrize("promise", PROMISES)
def test_c_programs_are_kept_their_promise(leat_build, runtime, images, promise):
    tool = leat_build / "tests" / "unit" / "tool_batches"
    done = subprocess.run(
        [tool, promise, images.url], env=runtime.env, capture_output=True, text=True, check=False, timeout=60 * SLOW
    )
    assert_no_report(tool, done.returncode, done.stderr)
    assert done.returncode == 0, done.stderr


CPP = """
#include <cstdio>
#include <leat/error.h>
#include <leat/leat.h>
#include <leat/loader.h>
#include <leat/plan.h>

int main(int, char **argv)
{
    leat_output output{};
    output.size = sizeof output;
    output.name = "index";
    output.kind = LEAT_OUTPUT_INDEX;
    leat_loader_opts opts{};
    opts.size = sizeof opts;
    opts.url = argv[1];
    opts.outputs = &output;
    opts.outputs_n = 1;
    opts.global_batch = 7;
    opts.world = 1;
    opts.last = LEAT_LAST_SHORT;
    leat_loader *loader = nullptr;
    leat_batch *batch = nullptr;
    leat_error err;
    leat_status status = leat_loader_open(&opts, &loader, &err);
    unsigned long samples = 0;
    while (status == LEAT_OK && (status = leat_loader_next(loader, &batch, &err)) == LEAT_OK && batch) {
        leat_column column{};
        column.size = sizeof column;
        status = leat_batch_column(batch, 0, &column, &err);
        samples += column.bytes / column.stride;
        leat_batch_release_after(batch, [](void *) { return true; }, nullptr, nullptr);
    }
    leat_loader_close(loader);
    std::printf("%s %lu\\n", status == LEAT_OK ? "ok" : err.text, samples);
    return 0;
}
"""


def test_a_cpp_program_builds_without_a_warning_and_runs(leat_build, runtime, images, tmp_path):
    (tmp_path / "x.cpp").write_text(CPP)
    build = ["g++", "-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{ROOT}/include"]
    if SANITIZE:  # its library wants a program with the sanitizer
        subprocess.run([*build, "-fsyntax-only", tmp_path / "x.cpp"], check=True)
        return
    library = leat_build / "src"
    subprocess.run([*build, tmp_path / "x.cpp", f"-L{library}", "-lleat", "-o", tmp_path / "x"], check=True)
    env = {**runtime.env, "LD_LIBRARY_PATH": str(library), "LEAT_AGENT": str(library / "cli" / "leat")}
    done = subprocess.run([tmp_path / "x", images.url], env=env, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"ok {images.samples}\n"
