"""What all commands share: messages, settings, help, the terminal."""

import errno
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from command_tools import MIB, as_nobody, needs_root, one_line, some_bytes
from conftest import assert_no_report
from faulty_server import black_hole, status


@pytest.fixture
def server(faulty):
    return faulty()


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["ls", "ftp://host/x"], 2, ["ftp://", "s3://"]),
        (["ls", "s3://"], 2, ["bucket"]),
        (["ls", "s3:///key"], 2, ["bucket"]),
        (["cat", ""], 2, ["empty"]),
        (["ls", "s3://bucket", "--endpoint-url", "nonsense"], 2, ["endpoint", "nonsense"]),
        (["ls", "s3://bucket", "--endpoint-url", "http://"], 2, ["endpoint"]),
        (["ls", "s3://bucket", "--endpoint-url", "s3://x"], 2, ["endpoint", "s3://x"]),
        (["ls", "s3://bucket", "--endpoint-url", "http://u:secret@h"], 2, ["endpoint"]),
        (["ls", "s3://bucket", "--region", "not a region"], 2, ["region"]),
        (["ls", "s3://bucket", "--profile", "none"], 2, ["none", "~/.aws"]),
        (["ls", "s3://bucket", "--ca-bundle", "/none"], 3, ["/none"]),
        (["ls", "s3://bucket", "--addressing", "odd"], 2, ["--addressing", "odd"]),
        (["ls", "s3://bucket", "--attempts", "0"], 2, ["--attempts"]),
        (["read", "/none", "--epochs", "0"], 2, ["--epochs"]),
        (["mount", "/none", "/none", "--cache-dir", "/none", "--cache", "0"], 2, ["--cache 0"]),
        (["bench", "--shape", "resnet50", "--workers", "0"], 2, ["--workers from 1"]),
        (["ls", "s3://bucket", "--connections", "100000"], 2, ["--connections"]),
        (["ls", "s3://bucket", "--timeout", "0s"], 2, ["--timeout"]),
        (["cp", "a", "b", "--part-size", "1MiB"], 2, ["--part-size"]),
    ],
)
def test_a_wrong_argument_is_one_line_that_says_what_to_do(run_leat, args, code, words):
    done = run_leat(*args, status=code)
    one_line(done, *words)
    assert "secret" not in done.stderr


@pytest.mark.parametrize("args", [["ls", "--no-such"], ["cp", "a"], ["cat"], ["rm", "--timeout", "long", "x"]])
def test_a_wrong_option_points_to_the_help(run_leat, args):
    done = run_leat(*args, status=2)
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert lines[1] == f"Try 'leat {args[0]} --help'."


def test_an_unknown_command_is_said(run_leat):
    one_line(run_leat("frobnicate", status=2), "frobnicate", "leat help")


def test_a_typo_in_a_command_or_an_option_suggests_the_right_one(run_leat, tmp_path):
    one_line(run_leat("pakc", status=2), "'pakc'", "did you mean 'leat pack'?")
    one_line(run_leat("help", "raed", status=2), "did you mean 'leat read'?")
    assert "did you mean --batch?" in run_leat("read", "--bach-size", "8", "x", status=2).stderr
    assert "did you mean --recursive?" in run_leat("ls", "--recurcive", "x", status=2).stderr
    config = tmp_path / "config"
    config.write_text("[raed]\nram = 1gb\n[ls]\nconnectoins = 3\n")
    said = run_leat("ls", "x", env={"LEAT_CONFIG": config}, status=2).stderr
    assert "did you mean 'read'?" in said and "did you mean 'connections'?" in said


@pytest.mark.parametrize("command", ["ls", "cat", "cp", "rm", "help"])
def test_help_tells_of_every_option(run_leat, command):
    done = run_leat(command, "--help", status=0)
    assert f"leat {command}" in done.stdout
    assert done.stderr == ""
    assert run_leat("help", command, status=0).stdout == done.stdout
    assert all(len(line) <= 120 for line in done.stdout.splitlines())


def test_wrong_keys_are_said_without_the_secret(run_leat, server):
    server.fault(status(403, "SignatureDoesNotMatch", "The request signature we calculated does not match"))
    done = run_leat("ls", "s3://bucket", env=server.env(), status=4)
    one_line(done, "secret key")
    assert "test-secret" not in done.stderr
    assert len(server.requests) == 1


def test_half_a_key_pair_is_said_before_anything_is_sent(run_leat, server):
    done = run_leat("ls", "s3://bucket", env={**server.env(), "AWS_SECRET_ACCESS_KEY": None}, status=2)
    one_line(done, "AWS_SECRET_ACCESS_KEY")
    assert server.requests == []
    server.objects["bucket/x"] = b""
    run_leat("ls", "--no-sign-request", "s3://bucket", env={**server.env(), "AWS_SECRET_ACCESS_KEY": None}, status=0)


def test_closed_streams_are_no_place_to_write_to(leat_bin, clean_env, server, tmp_path):
    server.objects["bucket/x"] = some_bytes(MIB)

    def run(command, **env):
        env = {**clean_env, **server.env(), **env}
        done = subprocess.run(["sh", "-c", f"{leat_bin} {command}"], env=env, capture_output=True, check=False)
        assert_no_report(command, done.returncode, done.stderr)
        return done

    done = run("cat s3://bucket/x >&-")
    assert done.returncode == 1
    assert done.stderr == b"leat: cannot write to standard output: Bad file descriptor\n"
    server.fault(status(500, "InternalError"), times=1)
    assert run(f"cp --quiet s3://bucket/x {tmp_path}/x <&- >&- 2>&-", LEAT_LOG="debug").returncode == 0
    assert (tmp_path / "x").read_bytes() == server.objects["bucket/x"]


def test_settings_come_from_options_then_environment_then_file(run_leat, server, tmp_path):
    server.fault(status(500, "InternalError"))
    config = tmp_path / "config"
    config.write_text("attempts = 2\n[cat]\nattempts = 3\n")

    def attempts(*args, env=None):
        server.requests.clear()
        run_leat(*args, env={**server.env(), "LEAT_CONFIG": config, **(env or {})}, status=5)
        return len(server.requests)

    assert attempts("ls", "s3://bucket/x/") == 2
    assert attempts("cat", "s3://bucket/x") == 3
    assert attempts("cat", "s3://bucket/x", env={"LEAT_ATTEMPTS": "4"}) == 4
    assert attempts("cat", "--attempts", "1", "s3://bucket/x", env={"LEAT_ATTEMPTS": "4"}) == 1
    done = run_leat("ls", env={"LEAT_CONFIG": tmp_path / "none"}, status=3)
    assert "none" in done.stderr
    done = run_leat("ls", env={"LEAT_TIMEOUT": "soon"}, status=2)
    assert "LEAT_TIMEOUT" in done.stderr


@needs_root
def test_settings_in_a_home_of_somebody_else_are_left_alone(shared_bin, clean_env, server, shm_path):
    home = shm_path / "home"
    (home / ".config" / "leat").mkdir(parents=True)
    (home / ".aws").mkdir()
    server.objects["bucket/x"] = b"content"
    env = {**clean_env, "AWS_ENDPOINT_URL": server.url, "HOME": str(home)}

    def cat():
        command = [shared_bin, "cat", "s3://bucket/x"]
        return subprocess.run(command, env=env, preexec_fn=as_nobody, capture_output=True, text=True, check=False)

    home.chmod(0o700)
    assert cat().stdout == "content"
    home.chmod(0o755)
    for path in (home / ".config" / "leat" / "config", home / ".aws" / "credentials"):
        path.touch(0o600)
        done = cat()
        assert done.returncode == 4
        one_line(done, str(path), "Permission denied")
        path.unlink()


def run_on_terminal(leat_bin, env, *args, stop_at=None):
    """Runs a command on a pty of its own; what it wrote there and its exit status."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [str(leat_bin), *map(str, args)], env={**env, "TERM": "xterm"}, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    text = b""
    stopped = False
    while True:
        ready, _, _ = select.select([master], [], [], 60)
        assert ready, text
        try:
            piece = os.read(master, 65536)
        except OSError as e:  # the other end is closed
            if e.errno != errno.EIO:
                raise
            break
        text += piece
        if stop_at and stop_at in text and not stopped:
            process.send_signal(signal.SIGINT)
            stopped = True
    os.close(master)
    code = process.wait(60)
    assert_no_report("on a terminal", code, text)
    return text.decode(), code


def shown(text):
    """The lines that remain on the screen."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        visible, at = "", 0
        for piece in re.split("(\r|\033\\[K)", line):
            if piece == "\r":
                at = 0
            elif piece == "\033[K":
                visible = visible[:at]
            else:
                visible = visible[:at] + piece + visible[at + len(piece) :]
                at += len(piece)
        lines.append(visible)
    return [line for line in lines if line]


def test_progress_is_drawn_on_a_terminal_and_leaves_a_clean_line(leat_bin, clean_env, server, tmp_path):
    server.objects["bucket/a"] = some_bytes(3 * MIB)

    def slowly(exchange):
        code, headers, body = exchange.object_part()
        exchange.head(code, {**headers, "Content-Length": len(body)})
        for at in range(0, len(body), len(body) // 8 + 1):
            exchange.send(body[at : at + len(body) // 8 + 1])
            time.sleep(0.1)

    server.fault(slowly, method="GET")
    text, code = run_on_terminal(leat_bin, {**clean_env, **server.env()}, "cp", "s3://bucket/a", tmp_path / "a")
    assert code == 0
    assert "objects" in text
    assert "MiB" in text
    assert shown(text) == ["copied 1 object, 3 MiB"]
    text, code = run_on_terminal(leat_bin, {**clean_env, **server.env()}, "cp", "-q", "s3://bucket/a", tmp_path / "b")
    assert (text, code) == ("", 0)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_progress_shows_what_a_part_has_moved_before_it_is_whole(leat_bin, clean_env, serve, tmp_path, direction):
    (tmp_path / "box" / "bucket").mkdir(parents=True)
    source = tmp_path / "box" / "bucket" / "a" if direction == "down" else tmp_path / "a"
    source.write_bytes(some_bytes(8 * MIB))
    args = ["s3://bucket/a", tmp_path / "b"] if direction == "down" else [tmp_path / "a", "s3://bucket/b"]
    for rate in ("4MB/s", "400kB/s"):  # the second for a machine that draws less than twice in two seconds
        server = serve(tmp_path / "box", "--bandwidth", rate)
        text, code = run_on_terminal(leat_bin, {**clean_env, **server.s3_env()}, "cp", *args)
        assert code == 0
        percents = {int(n) for n in re.findall(r"(\d+) %", text)}
        if len(percents - {0, 100}) >= 2:
            break
    assert len(percents - {0, 100}) >= 2, text
    assert " ns left" not in text


def test_ctrl_c_on_a_terminal_leaves_a_clean_line(leat_bin, clean_env, server, tmp_path):
    server.objects["bucket/a"] = some_bytes(3 * MIB)
    server.fault(black_hole, method="GET")
    env = {**clean_env, **server.env()}
    text, code = run_on_terminal(leat_bin, env, "cp", "s3://bucket/a", tmp_path / "a", stop_at=b"objects")
    assert code == 130
    assert shown(text) == ["leat: interrupted after 0 objects; run it again with --resume to continue"]


def test_names_cannot_play_with_the_terminal(leat_bin, clean_env, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "evil\033[2Jname\r").touch()
    text, code = run_on_terminal(leat_bin, clean_env, "ls", tmp_path / "x")
    assert code == 0
    assert "\033" not in text
    text, code = run_on_terminal(leat_bin, clean_env, "cat", tmp_path / "x" / "none\033[2J")
    assert code == 3
    assert "\033" not in text


def test_nothing_is_drawn_where_nobody_looks(run_leat, tmp_path):
    (tmp_path / "a").write_bytes(some_bytes(MIB))
    done = run_leat("cp", tmp_path / "a", tmp_path / "b", env={"TERM": "xterm"}, status=0)
    assert done.stderr == ""
    assert done.stdout == "copied 1 object, 1 MiB\n"
