"""The checks of `make check` find what they are for, and the counting of test results counts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.python_only

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS))

import check_banned  # noqa: E402
import check_sizes  # noqa: E402
import check_words  # noqa: E402
from tree import code_only  # noqa: E402


@pytest.fixture
def tree(tmp_path):
    """A small tree with the real table of modules; write(path, text) adds a file."""

    def write(path, text=""):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "architecture.md", tmp_path / "docs")
    for folder in ("src", "include", "python"):
        (tmp_path / folder).mkdir()
    write("include/leat/error.h")
    write.root = tmp_path
    return write


def check_includes(root):
    done = subprocess.run(
        [sys.executable, TOOLS / "check_includes.py", "--root", root], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/x.c", '"base/y.h"'),
        ("src/base/x.c", '"leat/error.h"'),
        ("src/store/x.c", '"net/y.h"'),
        ("src/feed/x.h", '"cache/y.h"'),
        ("src/agent/x.c", '"ring/y.h"'),
        ("src/cli/x.c", '"sim/y.h"'),
        ("src/order/x.c", "<string.h>"),
        ("src/net/x.c", "<curl/curl.h>"),
        ("python/leat/x.c", '"leat/error.h"'),
        ("python/leat/x.c", '"y.h"'),
    ],
)
def test_an_allowed_include_passes(tree, path, include):
    tree("python/leat/y.h")
    tree(path, f"#include {include}\n")
    assert check_includes(tree.root) == (0, "")


@pytest.mark.parametrize(
    ("path", "include", "says"),
    [
        ("src/base/x.c", '"net/y.h"', "base may not include net"),
        ("src/net/x.c", '"store/y.h"', "net may not include store"),
        ("src/net/x.h", ' "serve/y.h"', "net may not include serve"),
        ("src/order/x.c", '"store/y.h"', "order may not include store"),
        ("src/prep/x.c", '"order/y.h"', "prep may not include order"),
        ("src/agent/x.c", '"client/y.h"', "agent may not include client"),
        ("src/client/x.c", '"agent/y.h"', "client may not include agent"),
        ("src/dataset/x.c", '"cli/y.h"', "dataset may not include cli"),
        ("src/order/x.c", "<time.h>", "reads no clock"),
        ("src/plan/x.c", '"base/thread.h"', "starts no thread"),
        ("src/order/x.c", "<sys/stat.h>", "does no I/O"),
        ("src/base/x.c", '"y.h"', "its module's name"),
        ("src/base/x.c", '"../net/y.h"', "its module's name"),
        ("src/base/x.c", '"leat/none.h"', "there is no include/leat/none.h"),
        ("src/cli/x.c", "<base/y.h>", "not <base/y.h>"),
        ("include/leat/x.h", '"base/y.h"', "may not include base"),
        ("python/leat/x.c", '"base/y.h"', "may not include base"),
        ("src/utils/x.c", '"base/y.h"', "src/utils/ is not in the table"),
    ],
)
def test_a_forbidden_include_fails_by_file_and_line(tree, path, include, says):
    tree(path, f"/* first line */\n#include {include}\n")
    status, output = check_includes(tree.root)
    assert status == 1
    assert says in output
    assert "utils" in output or f"{path}:2: " in output


def test_the_table_is_that_of_the_design():
    sys.path.insert(0, str(TOOLS))
    from check_includes import read_table

    table = read_table(ROOT / "docs" / "architecture.md")
    below = ["base", "net", "store", "serve", "dataset", "order", "sched", "cache", "feed", "prep", "ring", "job"]
    assert list(table) == [*below, "agent", "client", "plan", "sim", "profile", "mount", "cli"]
    assert table["agent"] == set(below)
    assert table["base"] == set()
    assert table["serve"] == {"store", "net", "base"}
    assert table["mount"] == {"cache", "dataset", "store", "base"}
    assert table["client"] == {"ring", "order", "prep", "dataset", "store", "base"}


def banned(tmp_path, monkeypatch, path, code):
    monkeypatch.setattr(check_banned, "ROOT", tmp_path)
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(code)
    return [(line, why) for _, line, why in check_banned.problems_of(file)]


@pytest.mark.parametrize("name", ["strcpy", "strcat", "sprintf", "vsprintf", "gets", "atoi", "atol", "atof", "strtok"])
def test_banned_functions_are_found(tmp_path, monkeypatch, name):
    found = banned(tmp_path, monkeypatch, "src/cli/x.c", f"void f(void)\n{{\n    {name} (a);\n}}\n")
    assert [line for line, _ in found] == [3]


def test_a_library_does_not_print_or_exit(tmp_path, monkeypatch):
    code = 'printf("x");\nfprintf(stderr, "x");\nfprintf(out, "x");\nexit(1);\nsnprintf(a, b, "x");\nputs("x");\n'
    assert [line for line, _ in banned(tmp_path, monkeypatch, "src/net/x.c", code)] == [1, 2, 6, 4]


def test_the_command_line_may_print_and_words_in_texts_are_no_calls(tmp_path, monkeypatch):
    code = 'printf("strcpy(x)"); /* strcpy(x) */ // gets(x)\nx->system(y);\nleat_exit(1);\n'
    assert banned(tmp_path, monkeypatch, "src/cli/x.c", code) == []


def test_comments_and_strings_are_blanked_in_place():
    assert code_only('a /* b\nc */ "d\\"e" \'f\' // g') == "a     \n     \"    \" ' '     "


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("x.c", "/* a\n * copy made ane" + 'w */\nsay("so ma" "ny bytes");\n', [2, 3]),
        (
            "x.c",
            "/* one li" + "ne a\n * chunk */ int ane" + "w; /* so many that it ends, 8 bytes a sa" + "mple */\n",
            [1, 2],
        ),
        ("x.c", "/* who" + "ever; words: fine */\n/* left behind; the NUL beh" + "ind it */\n", [2]),
        (
            "x.py",
            '"""Doc.\n\nwho' + 'ever"""\nx = "unless to' + 'ld"  # unless told otherwise\nane' + "w = 1\n",
            [3, 4],
        ),
        ("x.md", "as long as\nit can be\nha" + "d\n", [2]),
    ],
)
def test_words_are_found_in_texts_and_not_in_code(tmp_path, name, text, lines):
    (tmp_path / name).write_text(text)
    assert sorted(line for _, line, _ in check_words.problems_of(tmp_path / name)) == lines


def test_long_functions_are_found():
    lines = ["int f(void)", "{", *["    x();"] * 91, "}", "int g(void)", "{", "    y();", "}"]
    assert list(check_sizes.c_functions(lines)) == [(2, 91), (96, 1)]
    assert list(check_sizes.python_functions("def f():\n" + "    x()\n" * 95)) == [(1, 95)]


JUNIT = """<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>
<testcase name="c"><skipped/></testcase><testcase name="d"><error/></testcase></testsuite></testsuites>"""


def test_results_are_summed_up(tmp_path):
    (tmp_path / "one.junit.xml").write_text(JUNIT)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "two.junit.xml").write_text(JUNIT)
    (tmp_path / "three.junit.xml").write_text("<testsuite><testcase")
    done = subprocess.run([sys.executable, TOOLS / "tally", tmp_path], capture_output=True, text=True, check=True)
    counts, *names = done.stdout.splitlines()
    assert counts == "2 5 2"
    assert len(names) == 5 and sum("three.junit.xml: not complete" in name for name in names) == 1


def fake_make(tmp_path, script):
    """A folder with a `make` that runs this instead."""
    folder = tmp_path / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "make").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "make").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


GOOD = '<testsuite><testcase name="a"/><testcase name="b"/></testsuite>'
BAD = "<testsuite><testcase><failure/></testcase></testsuite>"
WELL = (
    f"for folder in check release s3 asan; do mkdir -p build/$folder; echo '{GOOD}' > build/$folder/x.junit.xml; done"
)


@pytest.fixture
def ci(tmp_path):
    """ci(script) runs .ci/run in a tree of its own, where `make` is this script; what it printed, and its exit status."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / ".ci", copy / ".ci")
    (copy / "tools").mkdir()
    for name in ("tally", "step", "times", "times.tsv"):
        shutil.copy(TOOLS / name, copy / "tools")

    def run(script, budget=60):
        steps = ("build", "check", "test", "s3", "asan-build", "asan")
        (copy / "tools" / "budget.tsv").write_text("step\tcost_s\n" + "".join(f"{name}\t{budget}\n" for name in steps))
        env = fake_make(tmp_path / "bin", script)
        done = subprocess.run([copy / ".ci" / "run"], env=env, capture_output=True, text=True, check=False)
        return done.stdout.splitlines(), done.returncode

    run.tree = copy
    return run


def test_ci_goes_on_after_a_failure_and_ends_with_the_counts(ci):
    lines, status = ci(
        f"""case $1 in
check) exit 1 ;;
test) mkdir -p build/release; echo '{GOOD}' > build/release/x.junit.xml ;;
test-s3) mkdir -p build/s3; echo '{BAD}' > build/s3/x.junit.xml; exit 2 ;;
asan) exit 0 ;;
esac"""
    )
    assert lines[-4:] == [
        "failed: asan: make asan has no results",
        "failed: check: make check (exit 1)",
        "failed: s3: ",
        "2 passed, 3 failed",
    ]
    assert status == 1
    lines, status = ci(WELL)
    assert lines[-1] == "8 passed, 0 failed"
    assert status == 0


def test_a_step_that_does_not_run_to_its_end_is_a_failure(ci):
    lines, status = ci(f"[ $1 != check ] || kill -9 $(ps -o ppid= $PPID); {WELL}")
    assert "failed: check did not run to its end" in lines
    assert "failed: asan-build did not run to its end" in lines
    assert lines[-1] == "6 passed, 2 failed"
    assert status == 1


def test_a_step_far_beyond_its_budget_fails_and_is_named(ci):
    compute = "[ $1 != test ] || i=0; while [ ${i:-300000} -lt 300000 ]; do i=$((i+1)); done"
    lines, status = ci(f"{compute}; {WELL}", budget=0.01)
    assert any(line.startswith("OVER BUDGET: test costs") for line in lines)
    assert lines[-1] == "8 passed, 1 failed"
    assert status == 1


def test_a_step_counts_what_outlives_it(tmp_path):
    """An agent detaches itself from the test that needs it."""
    shutil.copytree(TOOLS, tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    script = f"setsid {sys.executable} -c '{busy}' & exit 3"
    done = subprocess.run([tmp_path / "tools" / "step", "some", "sh", "-c", script], check=False)
    assert done.returncode == 3
    figures = json.loads((tmp_path / "build" / "steps" / "some.json").read_text())
    assert figures["processor_s"] >= 0.5
    assert figures["cost_s"] == pytest.approx(figures["processor_s"] / figures["slowness"], rel=0.1)


def test_the_growth_of_ci_is_a_table_and_a_run_is_added_to_it(ci):
    ci("true")
    table = ci.tree / "tools" / "times.tsv"
    rows = len(table.read_text().splitlines())
    done = subprocess.run([ci.tree / "tools" / "times", "--add"], capture_output=True, text=True, check=True)
    assert len(table.read_text().splitlines()) == rows + 1
    assert done.stdout.splitlines()[0].split() == [
        "date",
        "commit",
        "wall_s",
        "build",
        "check",
        "test",
        "s3",
        "asan-build",
        "asan",
    ]
    assert "4308" in done.stdout


def run_deps(tmp_path, *sections, installed="", user=0, dpkg=True):
    """tools/deps with commands of our own: only these packages are installed, apt-get notes what it is asked for."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    log = tmp_path / "apt.log"
    commands = {
        "id": f"echo {user}",
        "apt-get": f'echo "$*" >> {log}',
        "dpkg-query": f'for p; do :; done; case " {installed} " in *" $p "*) echo installed;; *) exit 1;; esac',
    }
    for name, body in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    for name in ("sh", "sed", "dirname", "env", "cat"):
        if not (folder / name).exists():
            (folder / name).symlink_to(shutil.which(name))
    if not dpkg:
        (folder / "dpkg-query").unlink()
    done = subprocess.run(
        [TOOLS / "deps", *sections], env={"PATH": str(folder)}, capture_output=True, text=True, check=False
    )
    return done, log.read_text() if log.exists() else ""


def test_deps_is_silent_when_nothing_is_missing(tmp_path):
    done, apt = run_deps(tmp_path, "fuzz", installed="clang libclang-rt-dev")
    assert (done.returncode, done.stdout, done.stderr, apt) == (0, "", "", "")


def test_deps_as_root_installs_only_what_is_missing(tmp_path):
    done, apt = run_deps(tmp_path, "fuzz", "check", installed="abigail-tools clang cppcheck g++")
    assert done.returncode == 0
    assert "--no-install-recommends libclang-rt-dev clang-tidy shellcheck " in apt
    assert " clang " not in apt


def test_deps_without_root_lists_them_and_fails(tmp_path):
    done, apt = run_deps(tmp_path, "fuzz", installed="clang", user=1000)
    assert done.returncode == 1
    assert "missing: libclang-rt-dev" in done.stderr
    assert "sudo apt-get install -y --no-install-recommends libclang-rt-dev\n" in done.stderr
    assert apt == ""


def test_deps_elsewhere_says_what_to_do(tmp_path):
    done, _ = run_deps(tmp_path, "fuzz", dpkg=False)
    assert done.returncode == 1
    assert "neither Debian nor Ubuntu" in done.stderr
    assert "clang libclang-rt-dev" in done.stderr


def test_deps_knows_its_sections(tmp_path):
    done, _ = run_deps(tmp_path, "nonsense")
    assert done.returncode == 2
