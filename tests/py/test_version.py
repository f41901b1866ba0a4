"""One version number: the file VERSION is the only place that says it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()


def test_command_and_file_agree(run_leat):
    assert run_leat("--version", status=0).stdout == f"leat {VERSION}\n"


def test_package_and_file_agree(leat):
    assert leat.__version__ == VERSION
