"""Long commands say how far they are: on a terminal one line that goes away, in a log only where it is asked for."""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios

import pytest
from conftest import assert_no_report
from loading import make_blobs

FILLED = re.compile(r"\[#*\.*\] +\d+ %  [^\[]* of [^\[]*/s[^\[]*")
LINE = re.compile(r"leat: (\d+ %  .* of .*/s.*|[\d.]+ .*/s.*)")


@pytest.fixture
def place(serve, bucket_dir, images):
    """A slow bucket with a dataset and a folder in it: what is done there takes a second."""
    shutil.copytree(images.path, bucket_dir / "bucket" / "set")
    make_blobs(bucket_dir / "bucket" / "files", 60, sizes=(8000, 12000))
    size = sum(p.stat().st_size for p in images.path.rglob("*") if p.is_file())
    server = serve(bucket_dir, "--bandwidth", f"{size}B/s", "--latency", "30ms")
    return {"AWS_ENDPOINT_URL": server.url}


def on_terminal(command, env, columns=100):
    """(exit status, all that a terminal of this width would have been sent)."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**env, "TERM": "xterm"})
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the last one has closed it
            break
        seen += data
    os.close(ours)
    return process.wait(), seen.decode()


def commands(tmp_path):
    make_blobs(tmp_path / "here", 60, sizes=(8000, 12000))
    return {
        "pack": ["pack", tmp_path / "here", "s3://bucket/new", "--chunk-size", "16KiB"],
        "cp": ["cp", "-r", "s3://bucket/files", tmp_path / "copy"],
        "verify": ["verify", "s3://bucket/set"],
        "unpack": ["unpack", "s3://bucket/set", tmp_path / "out"],
        "rebuild": ["rebuild", "s3://bucket/set"],
    }


@pytest.mark.parametrize("name", ["pack", "cp", "verify", "unpack", "rebuild"])
def test_a_terminal_shows_rate_and_time_left(name, leat_bin, clean_env, place, tmp_path):
    command = [str(leat_bin), *map(str, commands(tmp_path)[name])]
    status, seen = on_terminal(command, {**clean_env, **place})
    assert_no_report(name, status, seen)
    assert status == 0, seen
    frames = FILLED.findall(seen)
    assert frames and any(" left" in frame for frame in frames), seen
    assert "\r\x1b[K" in seen  # and it goes away
    assert "%" not in seen.rpartition("\r\x1b[K")[2]


def test_what_has_no_end_that_is_known_is_counted(leat_bin, clean_env, place):
    env = {**clean_env, **place}
    status, seen = on_terminal([leat_bin, "rm", "-r", "s3://bucket/files"], env)
    assert status == 0 and re.search(r"\d+ objects deleted  \d+/s", seen), seen
    status, seen = on_terminal([leat_bin, "gc", "s3://bucket/set", "--older-than", "0s"], env)
    assert status == 0 and re.search(r"\d+ objects looked at  \d+/s", seen), seen


def test_a_narrow_terminal_is_not_wrapped(leat_bin, clean_env, place):
    status, seen = on_terminal([leat_bin, "verify", "s3://bucket/set"], {**clean_env, **place}, columns=40)
    frames = [f.partition("\x1b[K")[0] for f in seen.split("\r") if "/s" in f]
    assert status == 0 and frames and all(len(f) < 40 and "%" in f and "[" not in f for f in frames), frames


def test_a_log_gets_lines_only_where_they_are_asked_for(run_leat, place):
    assert run_leat("verify", "s3://bucket/set", env=place, status=0).stderr == ""
    for args, env in ((("--progress", "100ms"), {}), ((), {"LEAT_PROGRESS": "100ms"})):
        lines = run_leat("verify", "s3://bucket/set", *args, env={**place, **env}, status=0).stderr.splitlines()
        assert len(lines) >= 3 and all(LINE.fullmatch(line) for line in lines), lines
        assert any(line.endswith(" left") for line in lines)
    done = run_leat("verify", "s3://bucket/set", "--quiet", env={**place, "LEAT_PROGRESS": "100ms"}, status=0)
    assert done.stderr == ""


def test_every_long_command_has_the_two_options(run_leat):
    for name in [
        "pack",
        "index",
        "cp",
        "rm",
        "verify",
        "unpack",
        "rebuild",
        "gc",
        "warm",
        "read",
        "select",
        "diff",
        "simulate",
    ]:
        text = run_leat(name, "--help", status=0).stdout
        assert "--quiet" in text and "--progress TIME" in text, name
