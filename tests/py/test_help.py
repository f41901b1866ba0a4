"""`leat help`, manual pages, exit statuses: what is printed, listed and documented is the same everywhere."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def commands(run_leat):
    """The commands that `leat help` lists."""
    text = run_leat("help", status=0).stdout
    listed = re.search(r"\ncommands:\n(.*?)\n\n", text, flags=re.S).group(1)
    return [line.split()[0] for line in listed.splitlines()]


def test_help_is_the_same_by_every_name(run_leat):
    text = run_leat("help", status=0).stdout
    assert run_leat("--help", status=0).stdout == text
    assert run_leat("-h", status=0).stdout == text
    assert run_leat(status=2).stdout == text  # nothing to do is a usage error


def test_every_command_explains_itself(run_leat, commands):
    assert "help" in commands
    for command in commands:
        text = run_leat(command, "--help", status=0).stdout
        assert text.startswith(f"leat {command}: ")
        assert f"\nusage: leat {command} [options]" in text
        assert run_leat("help", command, status=0).stdout == text
        assert run_leat(command, "-h", status=0).stdout == text
        for line in text.splitlines():
            assert len(line) <= 80, line
            assert line == line.rstrip(), line


def test_every_command_has_a_manual_page_and_the_other_way_round(leat_build, commands):
    pages = {path.name for path in (leat_build / "man").glob("*.1")}
    assert pages == {"leat.1"} | {f"leat-{command}.1" for command in commands}


def test_manual_pages_are_well_formed(leat_build):
    groff = shutil.which("groff")
    assert groff, "groff is missing: tools/deps test installs it"
    for page in sorted((leat_build / "man").glob("*.1")):
        done = subprocess.run(
            [groff, "-man", "-Tutf8", "-ww", "-z", "-K", "utf8", str(page)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0
        assert done.stderr == "", f"{page.name}: {done.stderr}"
        title = page.read_text().splitlines()[0].split()[1]
        assert title == page.stem.upper().replace("-", "\\-")


def test_an_unknown_command_or_option_is_a_usage_error(run_leat):
    done = run_leat("fly", status=2)
    assert done.stderr == "leat: 'fly' is not a command; 'leat help' lists them\n"
    done = run_leat("help", "--fast", status=2)
    assert done.stderr.startswith("leat: unknown option '--fast'\n")
    assert "Try 'leat help --help'." in done.stderr
    assert run_leat("help", "fly", status=2).stdout == ""
    assert "log level 'loud'" in run_leat("--log", "loud", "help", status=2).stderr
    assert "log level 'loud'" in run_leat("help", env={"LEAT_LOG": "loud"}, status=2).stderr


def test_a_config_file_that_was_asked_for_must_be_there(run_leat, tmp_path):
    missing = tmp_path / "none"
    done = run_leat("help", env={"LEAT_CONFIG": missing}, status=3)
    assert str(missing) in done.stderr
    missing.write_text("[help]\nnonsense = 1\n")
    done = run_leat("help", env={"LEAT_CONFIG": missing}, status=2)
    assert "line 2: nonsense is not a setting of 'leat help'" in done.stderr


def test_a_config_file_for_nobody_is_a_mistake(run_leat, tmp_path):
    config = tmp_path / "config"
    config.write_text("part-size = 16MiB\nconnection = 5\n[cp]\nquick = yes\n[copy]\npart-size = 1MiB\n")
    done = run_leat("ls", tmp_path, env={"LEAT_CONFIG": config}, status=2)
    first = done.stderr.splitlines()[0]
    assert "line 2: connection is not a setting of any command" in first
    assert "line 6: 'copy' is not a command of leat" in first
    assert "part-size" not in first
    assert "quick" not in first
    config.write_text("part-size = 16MiB\n[cp]\npart-size = 8MiB\n")
    run_leat("ls", tmp_path, env={"LEAT_CONFIG": config}, status=0)


def test_a_full_disk_behind_standard_output_is_a_failure(run_leat):
    with open("/dev/full", "w") as full:
        done = run_leat("help", stdout=full, stderr=subprocess.PIPE, status=7)
    assert "cannot write to standard output: No space left on device" in done.stderr


def test_a_reader_that_left_needs_no_message(leat_bin, clean_env):
    done = subprocess.run(
        ["bash", "-c", f"{leat_bin} help | true; echo ${{PIPESTATUS[0]}}"],
        env=clean_env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout in ("0\n", "1\n")  # 0: all of it fitted into the pipe before the reader left
    assert done.stderr == ""


def test_documents_say_the_exit_statuses_that_help_says(run_leat):
    text = run_leat("help", status=0).stdout
    printed = re.findall(r"^  (\d+) +(.*)$", text.split("exit status:\n")[1], flags=re.M)
    section = (ROOT / "docs" / "errors.md").read_text().split("## Exit statuses")[1].split("\n## ")[0]
    assert re.findall(r"^\| (\d+) \| (.*) \|$", section, flags=re.M) == printed


def test_documents_list_every_status():
    header = (ROOT / "include" / "leat" / "error.h").read_text()
    names = [name for name in re.findall(r"^    (LEAT_[A-Z_]+)\b", header, flags=re.M) if name != "LEAT_STATUS_COUNT"]
    section = (ROOT / "docs" / "errors.md").read_text().split("## Statuses")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(LEAT_\w+)` \|", section, flags=re.M) == names
