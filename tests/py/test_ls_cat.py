"""Listing and reading: sorted, whole, or a clear error."""

import fcntl
import json
import os
import signal
import subprocess
import termios

from command_tools import MIB, as_nobody, needs_root, one_line, some_bytes, started, wait_until
from conftest import assert_no_report

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
    (tmp_path / "x" / "Z").write_bytes(bytes(1536))
    assert "1.50 KiB" in run_leat("ls", "--human", tmp_path / "x", status=0).stdout.splitlines()[0]


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
    for options in ((), ("--total",), ("-r", "--json", "--total")):
        done = run_leat("ls", *options, "s3://bucket/none", env=server.env(), status=3)
        one_line(done, "s3://bucket/none")
        assert done.stdout == ""


def test_ls_of_an_empty_bucket_or_folder_is_an_empty_list(run_leat, serve, bucket_dir, tmp_path):
    server = serve(bucket_dir)
    (tmp_path / "empty").mkdir()
    for url in ("s3://bucket", "s3://bucket/", tmp_path / "empty", f"{tmp_path}/empty/", f"file://{tmp_path}/empty"):
        assert run_leat("ls", url, env=server.s3_env(), status=0).stdout == ""
    assert (
        run_leat("ls", "--total", "s3://bucket", env=server.s3_env(), status=0).stdout == "0 objects, 0 bytes (0 B)\n"
    )
    assert run_leat("ls", cwd=tmp_path / "empty", status=0).stdout == ""
    one_line(run_leat("ls", "s3://other", env=server.s3_env(), status=3), "s3://other")


def test_a_big_folder_is_listed_whole(run_leat, shm_path):
    folder = shm_path / "big"
    folder.mkdir()
    for n in range(20_000):
        (folder / f"{n:05}").touch()
    done = run_leat("ls", folder, status=0)
    assert len(done.stdout.splitlines()) == 20_000


def test_a_reader_that_leaves_needs_no_message(leat_bin, clean_env, shm_path):
    folder = shm_path / "big"
    folder.mkdir()
    for n in range(5_000):
        (folder / f"{n:05}").touch()
    (shm_path / "file").write_bytes(some_bytes(20 * MIB))
    for command in (["ls", "-r", folder], ["ls", "--json", folder], ["cat", shm_path / "file"]):
        with started(leat_bin, clean_env, *command, stdout=subprocess.PIPE) as process:
            process.stdout.read(10)
            process.stdout.close()
            stderr = process.stderr.read()
            process.wait(60)
        assert_no_report(command[0], process.returncode, stderr)
        assert process.returncode == 1
        assert stderr == b""


def test_a_full_disk_behind_standard_output_is_a_failure(leat_bin, clean_env, shm_path):
    folder = shm_path / "many"
    folder.mkdir()
    for n in range(3_000):
        (folder / f"{n:05}").touch()
    (shm_path / "file").write_bytes(some_bytes(1000))
    for command in (["ls", folder], ["cat", shm_path / "file"], ["help"], ["--version"]):
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
    one_line(done, f"'{folder}/gone' and 2 more are left out")


@needs_root
def test_what_may_not_be_looked_at_is_an_error_not_left_out(shared_bin, clean_env, shm_path):
    folder = shm_path / "x"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed" / "a").touch()
    for mode in (0o000, 0o744):
        os.chmod(folder / "closed", mode)
        done = subprocess.run(
            [shared_bin, "ls", "-r", folder],
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
    assert "repeats itself" in done.stderr
    assert len(server.requests) <= 3


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


def test_ctrl_c_ends_a_write_that_nobody_reads(leat_bin, clean_env, shm_path):
    (shm_path / "file").write_bytes(some_bytes(20 * MIB))
    folder = shm_path / "many"
    folder.mkdir()
    for n in range(3_000):
        (folder / f"{n:05}").touch()
    for command in (["cat", shm_path / "file"], ["ls", folder]):
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


def test_an_error_about_a_long_key_keeps_its_cause(run_leat, serve, tmp_path):
    (tmp_path / "bucket").mkdir()
    server = serve(tmp_path)
    env = {"AWS_ENDPOINT_URL": server.url}
    for length in (190, 201, 600, 1000):
        key = "k" * length if length < 240 else "/".join(["k" * 99] * (length // 100))
        done = run_leat("cat", f"s3://bucket/{key}", env=env, status=3)
        one_line(done, "there is no such object")
        assert done.stderr.count("…'") == (len(key) > 200)
