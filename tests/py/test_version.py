"""One version number: the file VERSION is the only place that says it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()


def test_command_and_file_agree(run_leat):
    assert run_leat("--version", status=0).stdout == f"leat {VERSION}\n"


def test_package_and_file_agree(leat):
    assert leat.__version__ == VERSION


def test_the_package_runs_the_command_that_lies_beside_it(run_python):
    code = "import runpy, sys; sys.argv = ['leat', '--version']; runpy.run_module('leat', run_name='__main__')"
    assert run_python(code, env={"PATH": "/nowhere"}).stdout == f"leat {VERSION}\n"


def test_a_package_without_a_command_says_so_in_one_line(run_python):
    code = "from leat import __main__; __main__._BESIDE = (); __main__.main()"
    done = run_python(code, env={"PATH": "/nowhere"})
    assert done.returncode == 1 and done.stderr.startswith("leat: the command was not found")
    assert done.stderr.count("\n") == 1
