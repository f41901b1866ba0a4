"""Copying: what goes where, what is refused, and that nothing half-written is left."""

import json
import os
import resource
import subprocess

import pytest
from command_tools import MIB, as_nobody, can_unshare, leftovers, needs_root, one_line, some_bytes, tree
from conftest import SANITIZE, assert_no_report
from faulty_server import lost_answer, status


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


@pytest.mark.parametrize("size", [10, 9 * MIB])
def test_a_file_that_is_replaced_keeps_its_mode(run_leat, tmp_path, size):
    (tmp_path / "from").write_bytes(some_bytes(size))
    for mode in (0o600, 0o755, 0o666, 0o444):
        to = tmp_path / f"{mode:o}"
        to.write_bytes(b"old")
        to.chmod(mode)
        run_leat("cp", "-q", tmp_path / "from", to, status=0)
        assert to.read_bytes() == (tmp_path / "from").read_bytes()
        assert to.stat().st_mode & 0o777 == mode


def test_cp_between_buckets_and_folders_keeps_every_byte(run_leat, server, tmp_path):
    sizes = [0, 1, 1000, 8 * MIB, 8 * MIB + 1]
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
    (tmp_path / "folder").mkdir()
    run_leat("cp", f"{server.url}/files/a%20b?key=a/b&signature={300 * 'x'}", tmp_path / "folder", status=0)
    assert tree(tmp_path / "folder") == {"a%20b": server.objects["files/a b"]}
    one_line(run_leat("cp", tmp_path / "a", f"{server.url}/b", status=2), "only be read")
    one_line(run_leat("cp", "-r", f"{server.url}/files", tmp_path / "c", status=2), "web server")
    one_line(run_leat("ls", f"{server.url}/files", status=2), "web server")


@pytest.mark.parametrize("size", [0, 1, 9 * MIB])
@pytest.mark.parametrize("code", [403, 405, 501])
def test_a_web_server_that_refuses_head_is_read_all_the_same(run_leat, server, code, size):
    server.objects["files/a"] = some_bytes(size)
    server.fault(status(code), method="HEAD")
    done = run_leat("cat", f"{server.url}/files/a", text=False, status=0)
    assert done.stdout == server.objects["files/a"]
    assert len([r for r in server.requests if r.method == "HEAD"]) == 1


def test_a_link_that_is_refused_is_named_without_its_query(run_leat, server):
    server.objects["files/a"] = b"A"
    server.fault(status(403))
    done = run_leat("cat", f"{server.url}/files/a?X-Amz-Signature=abc", status=4)
    one_line(done, "/files/a'")
    assert "abc" not in done.stderr


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
    one_line(run_leat("cp", "s3://bucket/a", "s3://bucket/a", env=server.env(), status=2), "'s3://bucket/a' and")
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
    done = run_leat("cp", "-r", "s3://bucket", "s3://bucket/b", env=server.env(), status=2)
    one_line(done, "'s3://bucket/b' is inside 's3://bucket'", "into itself")
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
    for source in ("s3://bucket/folder", "s3://bucket/folder/", "s3://bucket"):
        done = run_leat("cp", source, tmp_path / "to", env=server.env(), status=2)
        one_line(done, f"'{source}'", "--recursive")
    one_line(run_leat("cp", "-r", tmp_path / "none", tmp_path / "to", status=3), "none")
    done = run_leat("cp", "-r", "s3://bucket/none", tmp_path / "to", env=server.env(), status=3)
    one_line(done, "'s3://bucket/none'")
    one_line(
        run_leat("cp", f"{server.url}/folder/?s=hush", tmp_path, status=2), f"'{server.url}/folder/'", "not a file"
    )
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
    for source, size, home in (("data", "512k", ""), ("big", "12m", ""), ("big", "12m", tmp_path)):
        script = f"""
            mount -t tmpfs -o size={size} none "$1/small" || exit 99
            HOME={home} "$2" cp "$1/{source}" "$1/small/x"; status=$?
            ls -A "$1/small"
            exit $status
        """
        command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), str(leat_bin)]
        done = subprocess.run(command, env=clean_env, capture_output=True, text=True, check=False)
        assert_no_report("cp", done.returncode, done.stderr)
        assert done.returncode == 7, done.stderr
        one_line(done, "small/x", "No space")
        assert done.stdout == ""
        assert not list(tmp_path.rglob("copy-*")), "a journal of nothing is of no use"


@pytest.mark.skipif(bool(SANITIZE), reason="sanitizers need /proc")
@pytest.mark.skipif(not can_unshare(), reason="needs a mount namespace")
def test_files_are_written_where_they_cannot_be_nameless(leat_bin, clean_env, tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    for name in ("a", "b"):
        (tmp_path / "from" / name).write_text(f"new {name}")
    (tmp_path / "to" / "b").write_text("old")
    (tmp_path / "to" / "b").chmod(0o600)
    # A file without a name gets one through /proc.
    script = 'mount -t tmpfs none /proc && "$2" cp -rq "$1/from" "$1/to"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), str(leat_bin)]
    done = subprocess.run(command, env=clean_env, capture_output=True, text=True, check=False)
    assert_no_report("cp", done.returncode, done.stderr)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "to") == {"a": b"new a", "b": b"new b"}
    assert (tmp_path / "to" / "b").stat().st_mode & 0o777 == 0o600
    assert leftovers(tmp_path) == []


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
def test_an_unwritable_folder_is_said(shared_bin, clean_env, shm_path):
    (shm_path / "data").write_bytes(b"x")
    (shm_path / "closed").mkdir(mode=0o755)
    done = subprocess.run(
        [shared_bin, "cp", shm_path / "data", shm_path / "closed" / "x"],
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

    done = run_leat("cp", "-r", "s3://bucket/p", tmp_path / "to", env=server.env(), preexec_fn=few)
    assert len(server.requests) < 1000, "asked over and over"
    assert done.returncode in (0, 5, 7), done.stderr
    if done.returncode == 0:
        assert len(tree(tmp_path / "to")) == 100
    else:
        one_line(done)
    assert leftovers(tmp_path) == []


def test_an_upload_whose_last_answer_was_lost_is_recognised(run_leat, server, tmp_path):
    data = some_bytes(20 * MIB)
    (tmp_path / "big").write_bytes(data)

    server.fault(lost_answer, times=1, method="POST", match=lambda r: "uploadId" in r.query)
    run_leat("cp", tmp_path / "big", "s3://bucket/big", env=server.env(), status=0)
    assert server.objects["bucket/big"] == data
    assert [r.method for r in server.requests if "uploadId" in r.query and r.method == "POST"] == ["POST", "POST"]


def test_an_older_object_is_not_taken_for_the_upload_whose_answer_was_lost(run_leat, server, tmp_path):
    (tmp_path / "big").write_bytes(some_bytes(20 * MIB, 1))
    (tmp_path / "new").write_bytes(some_bytes(20 * MIB, 2))
    run_leat("cp", tmp_path / "big", "s3://bucket/big", env=server.env(), status=0)

    def forget_and_reset(exchange):
        exchange.server.uploads.clear()
        exchange.reset()

    server.fault(forget_and_reset, times=1, method="POST", match=lambda r: "uploadId" in r.query)
    done = run_leat("cp", tmp_path / "new", "s3://bucket/big", env=server.env(), status=3)
    one_line(done, "s3://bucket/big", "no longer known")
