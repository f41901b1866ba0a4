"""The commands ls, cat, cp and rm as a person or a script meets them: exit statuses, messages, what is left behind."""

import contextlib
import errno
import fcntl
import json
import os
import pty
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import termios
import time
from pathlib import Path

import pytest
from conftest import SANITIZE, assert_no_report
from faulty_server import black_hole, status

MIB = 1 << 20
ODD_KEYS = [
    "plain",
    "with space",
    "a=b&c=d",
    "plus+plus",
    "percent%20",
    "ünïcödé/日本/🎈",
    "dots/../..",
    "tab\there",
    "line\nbreak",
    "quote'\"<>&",
    "trailing/",
    "a//b",
    "?query#fragment",
]


def some_bytes(n, seed=1):
    return random.Random(seed).randbytes(n)


@pytest.fixture
def server(faulty):
    return faulty()


@pytest.fixture
def shm_path():
    """A folder in memory, where fsync costs nothing, and open to others."""
    path = Path(tempfile.mkdtemp(prefix="leat-test-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    path.chmod(0o755)
    yield path
    subprocess.run(["chmod", "-R", "u+rwx", str(path)], check=False)
    shutil.rmtree(path)


def leftovers(folder):
    """Temporary files of writes that did not end."""
    return list(folder.rglob(".leat-part-*"))


def one_line(done, *words):
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("leat: "), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@contextlib.contextmanager
def started(leat_bin, env, *args, **more):
    """A running command; killed at the end if it still runs."""
    more.setdefault("stderr", subprocess.PIPE)
    process = subprocess.Popen([str(leat_bin), *map(str, args)], env=env, **more)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until(condition, what, timeout=60):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}"
        time.sleep(0.01)


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to become somebody without rights")


def can_unshare():
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


# ls


def test_ls_shows_size_time_and_key_sorted_by_bytes(run_leat, tmp_path):
    for name in ("b", "a.txt", "a/inside", "ä", "Z"):
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).write_bytes(b"12345")
    done = run_leat("ls", "-r", "--json", tmp_path / "x", status=0)
    keys = [json.loads(line)["key"] for line in done.stdout.splitlines()]
    assert keys == [f"{tmp_path}/x/{name}" for name in ("Z", "a.txt", "a/inside", "b", "ä")]
    done = run_leat("ls", tmp_path / "x", status=0)
    assert [line.split()[-1].removeprefix(f"{tmp_path}/x/") for line in done.stdout.splitlines()] == [
        "Z",
        "a.txt",
        "a/",
        "b",
        "ä",
    ]
    assert done.stdout.splitlines()[0].split()[0] == "5"


def test_ls_of_a_bucket_turns_pages(run_leat, server):
    names = [f"n{n:04}" for n in range(25)]
    for name in names:
        server.objects[f"bucket/{name}"] = b""
    server.page_keys = 4
    done = run_leat("ls", "-r", "--json", "s3://bucket", env=server.env(), status=0)
    assert [json.loads(line)["key"] for line in done.stdout.splitlines()] == names
    assert len(server.requests) == 7


def test_ls_shows_a_level_at_a_time(run_leat, server):
    for name in ("train/a", "train/b/c", "train2/x", "train.txt"):
        server.objects[f"bucket/{name}"] = b"x"
    done = run_leat("ls", "--json", "s3://bucket", env=server.env(), status=0)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [x.get("key") or x["prefix"] for x in lines] == ["train.txt", "train/", "train2/"]
    done = run_leat("ls", "--json", "s3://bucket/train", env=server.env(), status=0)
    assert [json.loads(x).get("key") or json.loads(x)["prefix"] for x in done.stdout.splitlines()] == [
        "train/a",
        "train/b/",
    ]


def test_odd_keys_come_through_list_put_get_and_delete_unchanged(run_leat, server, tmp_path):
    data = tmp_path / "data"
    for n, key in enumerate(ODD_KEYS):
        data.write_bytes(b"%d" % n)
        run_leat("cp", "-q", data, f"s3://bucket/odd/{key}" + ("data" if key.endswith("/") else ""), env=server.env())
    stored = {k.removeprefix("bucket/odd/") for k in server.objects}
    assert stored == {key + ("data" if key.endswith("/") else "") for key in ODD_KEYS}
    done = run_leat("ls", "-r", "--json", "s3://bucket/odd/", env=server.env(), status=0)
    listed = [json.loads(line)["key"].removeprefix("odd/") for line in done.stdout.splitlines()]
    assert sorted(listed) == sorted(stored)
    for key in stored:
        done = run_leat("cat", f"s3://bucket/odd/{key}", env=server.env(), status=0)
        assert done.stdout.encode() == server.objects[f"bucket/odd/{key}"]
    run_leat("rm", "-r", "s3://bucket/odd", env=server.env(), status=0)
    assert server.objects == {}


def test_ls_total_counts_objects_and_bytes(run_leat, tmp_path):
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "a").write_bytes(b"123")
    (tmp_path / "x" / "y" / "b").write_bytes(b"45")
    done = run_leat("ls", "-r", "--total", "--json", tmp_path / "x", status=0)
    assert json.loads(done.stdout) == {"objects": 2, "bytes": 5, "prefixes": 0}
    assert "2 objects, 5 bytes" in run_leat("ls", "-rt", tmp_path / "x", status=0).stdout


def test_ls_of_nothing_is_not_found(run_leat, server, tmp_path):
    server.objects["bucket/x"] = b""
    one_line(run_leat("ls", tmp_path / "none", status=3), str(tmp_path / "none"))
    one_line(run_leat("ls", "s3://bucket/none", env=server.env(), status=3), "s3://bucket/none")


def test_a_big_folder_is_listed_whole(run_leat, shm_path):
    folder = shm_path / "big"
    folder.mkdir()
    for n in range(20_000):
        (folder / f"{n:05}").touch()
    done = run_leat("ls", folder, status=0)
    assert len(done.stdout.splitlines()) == 20_000


def test_a_reader_that_leaves_needs_no_message(leat_bin, clean_env, tmp_path):
    folder = tmp_path / "big"
    folder.mkdir()
    for n in range(5_000):
        (folder / f"{n:05}").touch()
    (tmp_path / "file").write_bytes(some_bytes(20 * MIB))
    for command in (["ls", "-r", folder], ["ls", "--json", folder], ["cat", tmp_path / "file"]):
        with started(leat_bin, clean_env, *command, stdout=subprocess.PIPE) as process:
            process.stdout.read(10)
            process.stdout.close()
            stderr = process.stderr.read()
            process.wait(60)
        assert_no_report(command[0], process.returncode, stderr)
        assert process.returncode == 1
        assert stderr == b""


def test_a_full_disk_behind_standard_output_is_a_failure(leat_bin, clean_env, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(3_000):
        (folder / f"{n:05}").touch()
    (tmp_path / "file").write_bytes(some_bytes(1000))
    for command in (["ls", folder], ["cat", tmp_path / "file"], ["help"], ["--version"]):
        with open("/dev/full", "wb") as full, started(leat_bin, clean_env, *command, stdout=full) as process:
            stderr = process.stderr.read().decode()
            process.wait(60)
        assert process.returncode == 7, (command, stderr)
        assert "standard output" in stderr
        assert stderr.count("\n") == 1


def test_names_that_are_not_utf8_are_listed_in_hexadecimal(run_leat, tmp_path):
    folder = os.fsencode(tmp_path / "x")
    os.mkdir(folder)
    with open(folder + b"/bad\xff\xfename", "wb") as f:
        f.write(b"1")
    done = run_leat("ls", "--json", tmp_path / "x", status=0)
    assert bytes.fromhex(json.loads(done.stdout)["key_hex"]).endswith(b"/bad\xff\xfename")
    done = run_leat("ls", tmp_path / "x", text=False, status=0)
    assert b"/bad\xff\xfename\n" in done.stdout
    run_leat("cp", "-rq", tmp_path / "x", tmp_path / "y", status=0)
    assert os.listdir(os.fsencode(tmp_path / "y")) == [b"bad\xff\xfename"]


def test_a_loop_of_links_is_an_error_and_no_endless_list(run_leat, tmp_path):
    folder = tmp_path / "x"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "up").symlink_to("..")
    one_line(run_leat("ls", "-r", folder, status=2), "link back")
    (folder / "sub" / "up").unlink()
    (folder / "self").symlink_to("self")
    (folder / "gone").symlink_to("nowhere")
    (folder / "file").write_bytes(b"")
    os.mkfifo(folder / "pipe")
    done = run_leat("ls", "-r", "--json", folder, status=0)
    assert [json.loads(x)["key"] for x in done.stdout.splitlines()] == [f"{folder}/file"]


@needs_root
def test_what_may_not_be_looked_at_is_an_error_not_left_out(leat_bin, clean_env, shm_path):
    folder = shm_path / "x"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed" / "a").touch()
    for mode in (0o000, 0o744):
        os.chmod(folder / "closed", mode)
        done = subprocess.run(
            [leat_bin, "ls", "-r", folder],
            env={**clean_env, "HOME": str(shm_path)},
            capture_output=True,
            text=True,
            preexec_fn=as_nobody,
            check=False,
        )
        assert done.returncode == 4, done.stderr
        assert "closed" in done.stderr


def test_a_server_whose_list_goes_in_a_circle_is_an_error(run_leat, server):
    text = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        b"<Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>"
    )
    server.fault(lambda exchange: exchange.answer(200, text))
    done = run_leat("ls", "-r", "s3://bucket", env=server.env(), status=5)
    assert "circle" in done.stderr
    assert len(server.requests) <= 3


# cat


def test_cat_goes_on_after_a_failure_and_ends_with_its_status(run_leat, tmp_path):
    (tmp_path / "a").write_text("A")
    (tmp_path / "b").write_text("B")
    done = run_leat("cat", tmp_path / "a", tmp_path / "none", tmp_path / "b", status=3)
    assert done.stdout == "AB"
    one_line(done, "none")


def test_cat_of_a_part(run_leat, tmp_path):
    data = some_bytes(20 * MIB)
    (tmp_path / "a").write_bytes(data)
    done = run_leat("cat", "--offset", "3MiB", "--length", 100, tmp_path / "a", text=False, status=0)
    assert done.stdout == data[3 * MIB : 3 * MIB + 100]
    assert run_leat("cat", "--offset", "1GiB", tmp_path / "a", status=0).stdout == ""
    assert run_leat("cat", "--length", "0", tmp_path / "a", status=0).stdout == ""
    assert run_leat("cat", tmp_path / "a", text=False, status=0).stdout == data


def test_cat_says_what_is_no_object(run_leat, server, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    one_line(run_leat("cat", tmp_path, status=3), "folder")
    one_line(run_leat("cat", tmp_path / "pipe", status=2), "not a regular file")
    one_line(run_leat("cat", "/dev/null", status=2), "not a regular file")
    one_line(run_leat("cat", "s3://bucket", env=server.env(), status=2), "bucket")
    assert server.requests == []


def test_ctrl_c_ends_a_write_that_nobody_reads(leat_bin, clean_env, tmp_path):
    (tmp_path / "file").write_bytes(some_bytes(20 * MIB))
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(3_000):
        (folder / f"{n:05}").touch()
    for command in (["cat", tmp_path / "file"], ["ls", folder]):
        with started(leat_bin, clean_env, *command, stdout=subprocess.PIPE) as process:
            pipe = process.stdout.fileno()
            waiting = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
            if command[0] == "ls":
                waiting //= 2

            def filled(fd=pipe, n=waiting):
                got = fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0")
                return int.from_bytes(got, "little") >= n

            wait_until(filled, "the pipe to fill")
            process.send_signal(signal.SIGINT)
            process.wait(60)
            stderr = process.stderr.read()
        assert_no_report(command[0], process.returncode, stderr)
        assert process.returncode == 130
        assert stderr == b"leat: interrupted\n"


# cp


def test_cp_of_a_file_to_a_file_a_folder_and_a_bucket(run_leat, server, tmp_path):
    (tmp_path / "a").write_text("A")
    (tmp_path / "folder").mkdir()
    run_leat("cp", tmp_path / "a", tmp_path / "b", status=0)
    run_leat("cp", tmp_path / "a", tmp_path / "folder", status=0)
    run_leat("cp", tmp_path / "a", tmp_path / "new" / "deep" / "c", status=0)
    run_leat("cp", tmp_path / "a", "s3://bucket/x", env=server.env(), status=0)
    run_leat("cp", tmp_path / "a", "s3://bucket", env=server.env(), status=0)
    run_leat("cp", tmp_path / "a", "s3://bucket/p/", env=server.env(), status=0)
    done = run_leat("cp", "--json", "s3://bucket/x", tmp_path / "back", env=server.env(), status=0)
    assert json.loads(done.stdout) == {"objects": 1, "skipped": 0, "bytes": 1}
    for path in ("b", "folder/a", "new/deep/c", "back"):
        assert (tmp_path / path).read_text() == "A"
    assert sorted(server.objects) == ["bucket/a", "bucket/p/a", "bucket/x"]


def test_cp_between_buckets_and_folders_keeps_every_byte(run_leat, server, tmp_path):
    sizes = [0, 1, 1000, MIB, 8 * MIB, 8 * MIB + 1, 20 * MIB]
    for n, size in enumerate(sizes):
        path = tmp_path / "from" / f"{n % 2}" / f"{n}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(some_bytes(size, n))
    run_leat("cp", "-r", tmp_path / "from", "s3://bucket/one", env=server.env(), status=0)
    run_leat("cp", "-r", "s3://bucket/one", "s3://other/two/", env=server.env(), status=0)
    run_leat("cp", "-r", "s3://other/two", tmp_path / "to", env=server.env(), status=0)
    assert tree(tmp_path / "to") == tree(tmp_path / "from")
    assert server.uploads == {}
    assert leftovers(tmp_path) == []


def test_cp_from_a_web_server(run_leat, server, tmp_path):
    server.objects["files/a b"] = some_bytes(30_000)
    run_leat("cp", f"{server.url}/files/a%20b", tmp_path / "a", status=0)
    assert (tmp_path / "a").read_bytes() == server.objects["files/a b"]
    one_line(run_leat("cp", tmp_path / "a", f"{server.url}/b", status=2), "only be read")
    one_line(run_leat("cp", "-r", f"{server.url}/files", tmp_path / "c", status=2), "web server")
    one_line(run_leat("ls", f"{server.url}/files", status=2), "web server")


def test_a_weak_tag_of_a_web_server_is_no_reason_to_fail(run_leat, server):
    server.objects["files/a"] = some_bytes(30 * MIB)
    server.tags["files/a"] = 'W/"weak"'
    server.fault(status(412), match=lambda r: r.headers.get("if-match", "").startswith("W/"))
    done = run_leat("cat", f"{server.url}/files/a", text=False, status=0)
    assert done.stdout == server.objects["files/a"]


def test_cp_onto_itself_is_refused_and_harmless(run_leat, server, tmp_path):
    (tmp_path / "a").write_text("A")
    (tmp_path / "link").symlink_to("a")
    os.link(tmp_path / "a", tmp_path / "hard")
    server.objects["bucket/a"] = b"A"
    for to in ("a", "link", "hard", "", "./../" + tmp_path.name + "/a"):
        one_line(run_leat("cp", tmp_path / "a", f"{tmp_path}/{to}", status=2), "same object")
    one_line(run_leat("cp", "s3://bucket/a", "s3://bucket/a", env=server.env(), status=2), "same object")
    one_line(run_leat("cp", "s3://bucket/a", "s3://bucket", env=server.env(), status=2), "same object")
    assert (tmp_path / "a").read_text() == "A"
    assert server.objects == {"bucket/a": b"A"}


def test_cp_of_a_folder_into_itself_is_refused(run_leat, server, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("x")
    (tmp_path / "link").symlink_to("a")
    server.objects["bucket/a/x"] = b"x"
    for to in ("a", "a/", "a/b", "a/b/c", "link/deeper"):
        one_line(run_leat("cp", "-r", tmp_path / "a", tmp_path / to, status=2), "into itself")
    run_leat("cp", "-r", ".", "sub", cwd=tmp_path / "a", status=2)
    for to in ("a", "a/", "a/b"):
        one_line(run_leat("cp", "-r", "s3://bucket/a", f"s3://bucket/{to}", env=server.env(), status=2), "into itself")
    one_line(run_leat("cp", "-r", "s3://bucket", "s3://bucket/b", env=server.env(), status=2), "into itself")
    assert tree(tmp_path / "a") == {"x": b"x"}
    run_leat("cp", "-rq", tmp_path / "a", tmp_path / "ab", status=0)
    run_leat("cp", "-rq", "s3://bucket/a", "s3://bucket/ab", env=server.env(), status=0)


@pytest.mark.parametrize("key", ["../escape", "a/../../escape", "/abs", "a//b", "./x", "..", "a/..", "a/./b"])
def test_keys_that_lead_out_of_the_folder_are_refused(run_leat, server, tmp_path, key):
    server.objects[f"bucket/p/{key}"] = b"evil"
    done = run_leat("cp", "-r", "s3://bucket/p", tmp_path / "deep" / "to", env=server.env(), status=2)
    one_line(done, "cannot be a path")
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_the_markers_of_empty_folders_are_left_out(run_leat, server, tmp_path):
    server.objects["bucket/p/"] = b""
    server.objects["bucket/p/sub/"] = b""
    server.objects["bucket/p/sub/a"] = b"A"
    run_leat("cp", "-r", "s3://bucket/p", tmp_path / "to", env=server.env(), status=0)
    assert tree(tmp_path / "to") == {"sub/a": b"A"}


def test_cp_says_what_is_wrong_with_its_source(run_leat, server, tmp_path):
    (tmp_path / "folder" / "x").mkdir(parents=True)
    server.objects["bucket/folder/x"] = b""
    one_line(run_leat("cp", tmp_path / "none", tmp_path / "to", status=3), "none")
    one_line(run_leat("cp", tmp_path / "folder", tmp_path / "to", status=2), "--recursive")
    one_line(run_leat("cp", f"{tmp_path}/folder/", tmp_path / "to", status=2), "--recursive")
    one_line(run_leat("cp", "s3://bucket/folder", tmp_path / "to", env=server.env(), status=2), "--recursive")
    one_line(run_leat("cp", "s3://bucket", tmp_path / "to", env=server.env(), status=2), "--recursive")
    one_line(run_leat("cp", "-r", tmp_path / "none", tmp_path / "to", status=3), "none")
    one_line(run_leat("cp", "-r", "s3://bucket/none", tmp_path / "to", env=server.env(), status=3), "none")
    one_line(run_leat("cp", "-r", tmp_path / "folder", tmp_path / "to", status=3), "nothing in")
    assert not (tmp_path / "to").exists()


def test_a_failed_write_leaves_nothing_under_the_final_name(run_leat, server, tmp_path):
    (tmp_path / "big").write_bytes(some_bytes(20 * MIB))
    server.fault(status(500, "InternalError"), method="PUT", after=1)
    done = run_leat("cp", "--attempts", 2, tmp_path / "big", "s3://bucket/big", env=server.env(), status=5)
    one_line(done, "s3://bucket/big")
    assert server.objects == {}


def test_a_source_that_breaks_leaves_nothing_under_the_final_name(run_leat, server, tmp_path):
    server.objects["bucket/big"] = some_bytes(20 * MIB)
    server.objects["bucket/small"] = some_bytes(1000)
    server.fault(status(500, "InternalError"), method="GET", match=lambda r: r.range and r.range[0] != 8 * MIB)
    for key in ("big", "small"):
        env = {**server.env(), "HOME": ""}  # no journal
        run_leat("cp", "--attempts", 2, f"s3://bucket/{key}", tmp_path / key, env=env, status=5)
        assert not (tmp_path / key).exists()
    assert leftovers(tmp_path) == []


@pytest.mark.skipif(not can_unshare(), reason="needs a mount namespace")
def test_a_full_disk_is_said_and_nothing_is_left(leat_bin, clean_env, tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "data").write_bytes(some_bytes(MIB))
    (tmp_path / "big").write_bytes(some_bytes(20 * MIB))
    for source, size in (("data", "512k"), ("big", "12m")):
        script = f"""
            mount -t tmpfs -o size={size} none "$1/small" || exit 99
            HOME= "$2" cp "$1/{source}" "$1/small/x"; status=$?
            ls -A "$1/small"
            exit $status
        """
        command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), str(leat_bin)]
        done = subprocess.run(command, env=clean_env, capture_output=True, text=True, check=False)
        assert_no_report("cp", done.returncode, done.stderr)
        assert done.returncode == 7, done.stderr
        one_line(done, "small/x", "No space")
        assert done.stdout == ""


@pytest.mark.skipif(not can_unshare(), reason="needs a mount namespace")
def test_a_read_only_file_system_is_said(leat_bin, clean_env, tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "data").write_bytes(b"x")
    script = 'mount -t tmpfs -o ro none "$1/small" && "$2" cp "$1/data" "$1/small/x"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), str(leat_bin)]
    done = subprocess.run(command, env=clean_env, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    one_line(done, "small/x", "Read-only")


@needs_root
def test_an_unwritable_folder_is_said(leat_bin, clean_env, shm_path):
    (shm_path / "data").write_bytes(b"x")
    (shm_path / "closed").mkdir(mode=0o755)
    done = subprocess.run(
        [leat_bin, "cp", shm_path / "data", shm_path / "closed" / "x"],
        env={**clean_env, "HOME": str(shm_path)},
        capture_output=True,
        text=True,
        preexec_fn=as_nobody,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    one_line(done, "closed/x", "Permission denied")
    assert list((shm_path / "closed").iterdir()) == []


def test_names_and_paths_that_are_too_long_are_said(run_leat, tmp_path):
    (tmp_path / "data").write_bytes(b"x")
    one_line(run_leat("cp", tmp_path / "data", tmp_path / ("n" * 256), status=2), "too long")
    one_line(run_leat("cp", tmp_path / "data", f"{tmp_path}/{'d/' * 2500}x", status=2), "too long")
    one_line(run_leat("cp", tmp_path / "data", "s3://bucket/" + "k" * 1025, status=2), "1024")
    run_leat("cp", "-q", tmp_path / "data", tmp_path / ("n" * 255), status=0)
    assert leftovers(tmp_path) == []


def test_a_file_in_the_way_of_a_folder_is_said(run_leat, tmp_path):
    (tmp_path / "data").write_bytes(b"x")
    (tmp_path / "file").write_bytes(b"y")
    done = run_leat("cp", tmp_path / "data", tmp_path / "file" / "below")
    assert done.returncode in (2, 3)
    one_line(done, "file/below", "Not a directory")


def test_few_descriptors_are_a_clear_error_and_no_busy_loop(run_leat, server, tmp_path):
    for n in range(100):
        server.objects[f"bucket/p/{n}"] = some_bytes(1000, n)

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))

    began = time.monotonic()
    done = run_leat("cp", "-r", "s3://bucket/p", tmp_path / "to", env=server.env(), preexec_fn=few)
    assert time.monotonic() - began < 60
    assert done.returncode in (0, 5, 7), done.stderr
    if done.returncode == 0:
        assert len(tree(tmp_path / "to")) == 100
    else:
        one_line(done)
    assert leftovers(tmp_path) == []


# cp, interrupted


PART = 5 * MIB  # the smallest there is


def big_copy(server, shm_path, direction):
    """Source and destination of a large copy, and what tells whether it has arrived."""
    data = some_bytes(6 * PART - 1234)
    if direction == "up":
        (shm_path / "big").write_bytes(data)
        return shm_path / "big", "s3://bucket/big", lambda: server.objects.get("bucket/big") == data
    server.objects["bucket/big"] = data
    to = shm_path / "to" / "big"
    return "s3://bucket/big", to, lambda: to.exists() and to.read_bytes() == data


def moves_data(request):
    return request.method == "PUT" or (request.method == "GET" and request.range is not None)


def kill_midway(leat_bin, env, server, source, to, parts, how):
    """Starts the copy, lets so many parts arrive and stops it there."""
    server.fault(black_hole, match=moves_data, after=parts)
    with started(
        leat_bin, env, "cp", "--part-size", PART, "--connections", 2, source, to, stdout=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: len([r for r in server.requests if moves_data(r)]) > parts + 1, "the parts to arrive")
        process.send_signal(how)
        process.wait(60)
        stderr = process.stderr.read().decode()
    assert_no_report("cp", process.returncode, stderr)
    server.faults.clear()
    server.requests.clear()
    return process.returncode, stderr


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_copy_is_taken_up_where_it_stopped(
    run_leat, leat_bin, clean_env, server, shm_path, direction, how
):
    source, to, arrived = big_copy(server, shm_path, direction)
    env = {**clean_env, **server.env()}
    code, stderr = kill_midway(leat_bin, env, server, source, to, 3, how)
    assert not arrived()
    if how == signal.SIGINT:
        assert code == 130
        assert "--resume" in stderr
    done = run_leat("cp", "--part-size", PART, "--resume", "--json", source, to, env=server.env(), status=0)
    assert arrived()
    assert json.loads(done.stdout)["objects"] == 1
    moved = len([r for r in server.requests if moves_data(r)])
    assert moved <= 4, "parts that had arrived were moved again"
    assert leftovers(shm_path) == []
    assert server.uploads == {}
    assert not list((Path(clean_env["HOME"]) / ".local" / "state" / "leat").iterdir()), (
        "the journal is gone with the copy"
    )
    server.requests.clear()
    done = run_leat("cp", "--part-size", PART, "--resume", "--json", source, to, env=server.env(), status=0)
    assert json.loads(done.stdout) == {"objects": 0, "skipped": 1, "bytes": 0}


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_copy_begins_anew_when_the_upload_has_vanished(run_leat, leat_bin, clean_env, server, shm_path, direction):
    source, to, arrived = big_copy(server, shm_path, direction)
    kill_midway(leat_bin, {**clean_env, **server.env()}, server, source, to, 3, signal.SIGKILL)
    server.uploads.clear()
    for path in leftovers(shm_path):
        path.unlink()
    run_leat("cp", "--part-size", PART, "--resume", source, to, env=server.env(), status=0)
    assert arrived()
    assert server.uploads == {}
    assert leftovers(shm_path) == []


def test_a_server_that_cannot_tell_of_uploads_costs_one_failed_resume(run_leat, leat_bin, clean_env, server, shm_path):
    source, to, arrived = big_copy(server, shm_path, "up")
    kill_midway(leat_bin, {**clean_env, **server.env()}, server, source, to, 3, signal.SIGKILL)
    server.fault(status(501, "NotImplemented"), match=lambda r: r.method == "GET" and "uploadId" in r.query)
    server.uploads.clear()
    one_line(run_leat("cp", "--part-size", PART, "--resume", source, to, env=server.env(), status=3), "no longer known")
    run_leat("cp", "--part-size", PART, "--resume", source, to, env=server.env(), status=0)
    assert arrived()


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_changed_source_is_copied_anew_and_the_old_parts_are_dropped(
    run_leat, leat_bin, clean_env, server, shm_path, direction
):
    source, to, arrived = big_copy(server, shm_path, direction)
    kill_midway(leat_bin, {**clean_env, **server.env()}, server, source, to, 3, signal.SIGKILL)
    data = some_bytes(20 * MIB, 99)
    if direction == "up":
        source.write_bytes(data)
    else:
        server.objects["bucket/big"] = data
    run_leat("cp", "--part-size", PART, "--resume", source, to, env=server.env(), status=0)
    assert not arrived()
    assert (server.objects["bucket/big"] if direction == "up" else to.read_bytes()) == data
    assert server.uploads == {}
    assert leftovers(shm_path) == []


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_copy_begun_anew_drops_what_the_interrupted_one_had_sent(
    run_leat, leat_bin, clean_env, server, shm_path, direction
):
    source, to, arrived = big_copy(server, shm_path, direction)
    kill_midway(leat_bin, {**clean_env, **server.env()}, server, source, to, 3, signal.SIGKILL)
    run_leat("cp", "--part-size", PART, source, to, env=server.env(), status=0)
    assert arrived()
    assert server.uploads == {}
    assert leftovers(shm_path) == []


@pytest.mark.parametrize("direction", ["up", "down"])
def test_without_a_journal_an_interrupted_copy_leaves_nothing(leat_bin, clean_env, server, shm_path, direction):
    source, to, arrived = big_copy(server, shm_path, direction)
    env = {**clean_env, **server.env()}
    del env["HOME"]
    kill_midway(leat_bin, env, server, source, to, 3, signal.SIGTERM)
    assert not arrived()
    assert server.uploads == {}
    assert leftovers(shm_path) == []


def test_two_copies_of_the_same_object_do_not_take_each_others_upload(run_leat, leat_bin, clean_env, server, shm_path):
    source, to, arrived = big_copy(server, shm_path, "up")
    server.fault(black_hole, match=moves_data, after=3)
    with started(
        leat_bin, {**clean_env, **server.env()}, "cp", "--part-size", PART, source, to, stdout=subprocess.DEVNULL
    ):
        wait_until(lambda: len([r for r in server.requests if moves_data(r)]) > 4, "the parts to arrive")
        before = dict(server.uploads)
        server.faults.clear()
        one_line(
            run_leat("cp", "--part-size", PART, "--resume", source, to, env=server.env(), status=5), "another copy"
        )
        run_leat("cp", "--part-size", PART, source, to, env=server.env(), status=0)
        assert arrived()
        assert server.uploads.keys() == before.keys()


def test_ctrl_c_ends_a_copy_of_many_small_objects(leat_bin, clean_env, server, shm_path):
    for n in range(300):
        server.objects[f"bucket/p/{n:04}"] = some_bytes(100, n)
    server.fault(black_hole, match=moves_data, after=50)
    with started(
        leat_bin, {**clean_env, **server.env()}, "cp", "-r", "s3://bucket/p", shm_path / "to", stdout=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: len([r for r in server.requests if moves_data(r)]) > 55, "some objects to arrive")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(60)
        took = time.monotonic() - began
        stderr = process.stderr.read().decode()
    assert_no_report("cp", process.returncode, stderr)
    assert process.returncode == 130
    assert "--resume" in stderr
    assert took < (1 if not SANITIZE and os.getloadavg()[0] < 4 else 10)
    assert leftovers(shm_path) == []
    for path in (shm_path / "to").iterdir():
        assert path.read_bytes() == server.objects[f"bucket/p/{path.name}"]


def test_a_reader_never_sees_half_a_file(leat_bin, clean_env, shm_path):
    """One process replaces a file again and again; whoever reads it sees one version or the other, whole."""
    versions = [some_bytes(9 * MIB, n) for n in (1, 2)]
    for n, data in enumerate(versions):
        (shm_path / f"v{n}").write_bytes(data)
    target = shm_path / "target"
    target.write_bytes(versions[0])
    seen = set()
    for n in range(6):
        with started(leat_bin, clean_env, "cp", "-q", shm_path / f"v{(n + 1) % 2}", target) as process:
            while process.poll() is None:
                data = target.read_bytes()
                assert data in versions
                seen.add(versions.index(data))
            assert process.returncode == 0
    assert seen == {0, 1}


# rm


def test_rm_deletes_what_is_named_and_nothing_else(run_leat, server, tmp_path):
    for name in ("train/a", "train/b/c", "train2/x", "train", "trai"):
        server.objects[f"bucket/{name}"] = b""
    done = run_leat("rm", "-r", "--dry-run", "s3://bucket/train", env=server.env(), status=0)
    assert done.stdout.splitlines() == ["would delete train/a", "would delete train/b/c"]
    assert len(server.objects) == 5
    done = run_leat("rm", "-r", "--json", "s3://bucket/train", env=server.env(), status=0)
    assert json.loads(done.stdout) == {"deleted": 2}
    assert sorted(server.objects) == ["bucket/trai", "bucket/train", "bucket/train2/x"]
    run_leat("rm", "s3://bucket/train", env=server.env(), status=0)
    assert sorted(server.objects) == ["bucket/trai", "bucket/train2/x"]


def test_rm_of_folders_of_files(run_leat, tmp_path):
    for name in ("train/a", "train/b/c", "train2/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "train" / ".leat-part-1-2").touch()
    os.mkfifo(tmp_path / "train" / "pipe")
    done = run_leat("rm", "-r", "-n", tmp_path / "train", status=0)
    assert f"would delete {tmp_path}/train/a\n" in done.stdout
    assert (tmp_path / "train" / "a").exists()
    done = run_leat("rm", "-r", "-n", "--json", tmp_path / "train", status=0)
    assert [json.loads(x) for x in done.stdout.splitlines()][1:] == [
        {"would_delete": f"{tmp_path}/train/a"},
        {"would_delete": f"{tmp_path}/train/b/c"},
        {"would_delete": f"{tmp_path}/train/pipe"},
        {"deleted": 0},
    ]
    run_leat("rm", "-r", f"{tmp_path}/train/", status=0)
    assert not (tmp_path / "train").exists()
    assert (tmp_path / "train2" / "x").exists()


def test_rm_deletes_links_and_not_what_they_lead_to(run_leat, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("keep")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "folder").symlink_to(tmp_path / "precious")
    (tmp_path / "x" / "file").symlink_to(tmp_path / "precious" / "file")
    (tmp_path / "x" / "broken").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("precious")
    one_line(run_leat("rm", "-r", tmp_path / "link", status=2), "is a link")
    one_line(run_leat("rm", "-r", f"{tmp_path}/link/", status=2), "is a link")
    run_leat("rm", "-r", tmp_path / "x", status=0)
    assert not (tmp_path / "x").exists()
    run_leat("rm", tmp_path / "link", status=0)
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "precious" / "file").read_text() == "keep"


def test_rm_refuses_the_root_and_the_folder_one_is_in(run_leat, tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "keep").touch()
    for path in ("/", "//", "/usr/..", ".", "..", "./", "../..", tmp_path, tmp_path / "a", f"{tmp_path}/a/b/.."):
        one_line(run_leat("rm", "-r", "--dry-run", path, cwd=tmp_path / "a" / "b", status=2), "folder you are in")
    assert (tmp_path / "a" / "keep").exists()


def test_rm_never_deletes_a_bucket(run_leat, server):
    server.objects["bucket/x"] = b""
    one_line(run_leat("rm", "s3://bucket", env=server.env(), status=2), "bucket")
    one_line(run_leat("rm", "s3://bucket/", env=server.env(), status=2), "bucket")
    assert not [r for r in server.requests if r.method == "DELETE"]


def test_rm_says_what_is_not_there_and_goes_on(run_leat, server, tmp_path):
    server.objects["bucket/f/x"] = b""
    (tmp_path / "a").touch()
    (tmp_path / "folder").mkdir()
    one_line(run_leat("rm", "s3://bucket/none", env=server.env(), status=3), "s3://bucket/none")
    one_line(run_leat("rm", "-r", "s3://bucket/none", env=server.env(), status=3), "none")
    one_line(run_leat("rm", "s3://bucket/f", env=server.env(), status=2), "--recursive")
    one_line(run_leat("rm", tmp_path / "folder", status=2), "--recursive")
    one_line(run_leat("rm", tmp_path / "none", tmp_path / "a", status=3), "none")
    assert not (tmp_path / "a").exists()
    done = run_leat("rm", "--json", tmp_path / "none", status=3)
    assert json.loads(done.stdout) == {"deleted": 0}


def test_rm_of_many_objects_stops_at_a_refusal(run_leat, server):
    for n in range(300):
        server.objects[f"bucket/p/{n:04}"] = b""
    server.fault(status(403, "AccessDenied", "Access Denied"), method="DELETE", after=100)
    done = run_leat("rm", "-r", "s3://bucket/p", env=server.env(), status=4)
    one_line(done, "s3://bucket/p/")
    assert len(server.objects) == 200


# What all commands share.


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
    one_line(run_leat("lss", status=2), "lss", "leat help")


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


def test_ctrl_c_on_a_terminal_leaves_a_clean_line(leat_bin, clean_env, server, tmp_path):
    server.objects["bucket/a"] = some_bytes(3 * MIB)
    server.fault(black_hole, method="GET")
    env = {**clean_env, **server.env()}
    text, code = run_on_terminal(leat_bin, env, "cp", "s3://bucket/a", tmp_path / "a", stop_at=b"objects")
    assert code == 130
    assert shown(text) == ["leat: interrupted after 0 objects; run it again with --resume to go on"]


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
