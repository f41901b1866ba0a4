"""Deleting: what was named and nothing else."""

import json
import os
import subprocess

from command_tools import one_line
from faulty_server import status


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


def test_deletes_take_as_many_connections_as_help(run_leat, serve, bucket_dir):
    for i in range(300):
        (bucket_dir / "bucket" / f"{i}").touch()
    server = serve(bucket_dir, "--latency", "200ms")
    run_leat("rm", "-r", "s3://bucket", env=server.s3_env(), status=0)
    assert server.stats()["connections"]["peak"] > 8, "eight are the beginning"


def test_a_dry_run_that_nobody_reads_ends(leat_bin, clean_env, server):
    for i in range(20_000):
        server.objects[f"bucket/{i:05}-{60 * 'x'}"] = b""
    command = f"{leat_bin} rm -rn s3://bucket | head -n 1"
    subprocess.run(["sh", "-c", command], env={**clean_env, **server.env()}, capture_output=True, check=True)
    assert server.count("GET") < 20  # pages of a thousand keys


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
        one_line(
            run_leat("rm", "-r", "--dry-run", path, cwd=tmp_path / "a" / "b", status=2), "contains the current folder"
        )
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
    one_line(run_leat("rm", "-r", "s3://bucket/none", env=server.env(), status=3), "'s3://bucket/none'")
    one_line(run_leat("rm", "s3://bucket/f", env=server.env(), status=2), "'s3://bucket/f'", "--recursive")
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
