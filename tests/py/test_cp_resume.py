"""Copies that are interrupted: what is left behind, and what it takes to go on."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
from command_tools import MIB, leftovers, one_line, some_bytes, started, wait_until
from conftest import assert_no_report
from faulty_server import black_hole, status

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


def journal_lines(env):
    """How many lines the journals have: one for each copy and each part that arrived."""
    folder = Path(env["HOME"]) / ".local" / "state" / "leat"
    return sum(len(path.read_bytes().splitlines()) for path in folder.iterdir()) if folder.exists() else 0


def kill_midway(leat_bin, env, server, source, to, parts, how):
    """Starts the copy, lets this many parts arrive and stops it there."""
    server.fault(black_hole, match=moves_data, after=parts)
    with started(
        leat_bin, env, "cp", "--part-size", PART, "--connections", 2, source, to, stdout=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: len([r for r in server.requests if moves_data(r)]) > parts + 1, "the parts to be asked for")
        if "HOME" in env:
            wait_until(lambda: journal_lines(env) > parts, "the parts to arrive")
        process.send_signal(how)
        process.wait(60)
        stderr = process.stderr.read().decode()
    assert_no_report("cp", process.returncode, stderr)
    server.faults.clear()
    server.requests.clear()
    return process.returncode, stderr


@pytest.mark.parametrize(
    ("how", "direction"),
    [
        (signal.SIGKILL, "up"),
        (signal.SIGINT, "down"),
        pytest.param(signal.SIGKILL, "down", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, "up", marks=pytest.mark.long),
    ],
)
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
    assert moved == 3, "parts that had arrived were moved again"
    assert leftovers(shm_path) == []
    assert server.uploads == {}
    assert not list((Path(clean_env["HOME"]) / ".local" / "state" / "leat").iterdir()), (
        "the journal is gone with the copy"
    )
    server.requests.clear()
    done = run_leat("cp", "--part-size", PART, "--resume", "--json", source, to, env=server.env(), status=0)
    assert json.loads(done.stdout) == {"objects": 0, "skipped": 1, "bytes": 0}


def test_a_resume_looks_at_many_objects_at_a_time(run_leat, serve, bucket_dir, shm_path):
    for i in range(300):
        (shm_path / f"{i:03}").write_text(f"{i}")
    server = serve(bucket_dir, "--latency", "50ms")
    run_leat("cp", "-rq", shm_path, "s3://bucket/to", env=server.s3_env(), status=0)
    (bucket_dir / "bucket" / "to" / "017").write_text("longer")
    (bucket_dir / "bucket" / "to" / "018").unlink()
    with urllib.request.urlopen(server.url + "/-/stats?reset"):
        pass
    done = run_leat("cp", "-r", "--resume", "--json", shm_path, "s3://bucket/to", env=server.s3_env(), status=0)
    assert json.loads(done.stdout) == {"objects": 2, "skipped": 298, "bytes": 4}
    assert server.stats()["calls"]["PutObject"] == {"200": 2}
    assert (bucket_dir / "bucket" / "to" / "017").read_text() == "17"
    assert server.stats()["connections"]["peak"] >= 8


def test_a_copy_that_failed_midway_says_how_to_go_on(run_leat, clean_env, server, shm_path):
    source, to, arrived = big_copy(server, shm_path, "up")
    server.fault(status(403, "AccessDenied"), match=moves_data, after=3)
    done = run_leat("cp", "--part-size", PART, source, to, env=server.env(), status=4)
    one_line(done, "--resume")
    assert journal_lines(clean_env) >= 1
    server.faults.clear()
    run_leat("cp", "--part-size", PART, "--resume", source, to, env=server.env(), status=0)
    assert arrived()
    server.fault(status(403, "AccessDenied"), method="POST")
    done = run_leat("cp", "--part-size", PART, source, "s3://bucket/other", env=server.env(), status=4)
    one_line(done)
    assert "--resume" not in done.stderr, "nothing was begun"


def test_a_copy_that_can_never_work_is_not_to_be_gone_on_with(run_leat, server, shm_path):
    for i in range(1500):  # more than are on their way at a time, so that some have arrived
        server.objects[f"bucket/from/{i:04}"] = b""
    server.objects["bucket/from/last/../x"] = b""
    done = run_leat("cp", "-r", "s3://bucket/from", shm_path / "to", env=server.env(), status=2)
    one_line(done, "cannot be a path")
    assert "--resume" not in done.stderr


def test_no_folders_are_made_for_journals_that_are_not_needed(run_leat, clean_env, server, shm_path):
    (shm_path / "small").write_bytes(b"x")
    run_leat("cp", shm_path / "small", "s3://bucket/small", env=server.env(), status=0)
    assert os.listdir(clean_env["HOME"]) == []
    source, to, arrived = big_copy(server, shm_path, "up")
    run_leat("cp", source, to, env={**server.env(), "HOME": shm_path / "nobody"}, status=0)
    assert arrived()
    assert not (shm_path / "nobody").exists()


def test_a_journal_keeps_no_signature(leat_bin, clean_env, server, shm_path):
    _, to, _ = big_copy(server, shm_path, "down")
    source = f"{server.url}/bucket/big?X-Amz-Signature=hush"
    kill_midway(leat_bin, {**clean_env, **server.env()}, server, source, to, 3, signal.SIGKILL)
    (journal,) = (Path(clean_env["HOME"]) / ".local" / "state" / "leat").iterdir()
    assert "hush" not in journal.read_text()


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


def change_and_hide(path, data):
    """Other bytes in the same file, of the same length and with the same date."""
    before = path.stat()
    with open(path, "r+b") as f:
        f.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


def test_a_source_that_hides_its_change_is_copied_anew(run_leat, leat_bin, clean_env, server, shm_path):
    source, to, _ = big_copy(server, shm_path, "up")
    kill_midway(leat_bin, {**clean_env, **server.env()}, server, source, to, 3, signal.SIGKILL)
    data = some_bytes(source.stat().st_size, 99)
    change_and_hide(source, data)
    run_leat("cp", "--part-size", PART, "--resume", source, to, env=server.env(), status=0)
    assert server.objects["bucket/big"] == data
    assert server.uploads == {}


@pytest.mark.parametrize("recursive", [False, True])
def test_a_source_that_changes_while_it_is_copied_is_an_error(run_leat, server, shm_path, recursive):
    source, to, _ = big_copy(server, shm_path, "up")
    changed = []

    def change(exchange):
        if not changed:
            changed.append(True)
            change_and_hide(source, some_bytes(source.stat().st_size, 99))
        exchange.server.proper(exchange)

    server.fault(change, method="PUT")
    args = ["-r", shm_path, "s3://bucket/"] if recursive else [source, to]
    done = run_leat("cp", "--part-size", PART, "--memory", "10MiB", *args, env=server.env())
    assert done.returncode != 0
    assert "changed" in done.stderr
    assert "bucket/big" not in server.objects
    assert server.uploads == {}


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


def test_a_copy_of_small_files_that_is_killed_leaves_no_half_ones(leat_bin, clean_env, tmp_path):
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("the file system knows no files without a name")
    (tmp_path / "from" / "deeper").mkdir(parents=True)
    for i in range(3000):
        (tmp_path / "from" / ("deeper" if i % 2 else ".") / f"{i}").write_bytes(bytes(20_000))
    for _ in range(3):
        with started(leat_bin, clean_env, "cp", "-rq", tmp_path / "from", tmp_path / "to") as process:
            wait_until(lambda: (tmp_path / "to").exists() and len(os.listdir(tmp_path / "to")) > 20, "some of them")
            process.kill()
        assert leftovers(tmp_path) == []
        assert all(p.stat().st_size == 20_000 for p in tmp_path.glob("to/**/*") if p.is_file())
        shutil.rmtree(tmp_path / "to")


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
    # Nothing but the signal ends what waits for the black hole.
    patient = ["cp", "-r", "--inactivity", "600s", "--timeout", "600s"]
    with started(
        *(leat_bin, {**clean_env, **server.env()}, *patient, "s3://bucket/p", shm_path / "to"),
        stdout=subprocess.DEVNULL,
    ) as process:
        wait_until(lambda: len([r for r in server.requests if moves_data(r)]) > 55, "some objects to arrive")
        process.send_signal(signal.SIGINT)
        process.wait(60)
        stderr = process.stderr.read().decode()
    assert_no_report("cp", process.returncode, stderr)
    assert process.returncode == 130
    assert "--resume" in stderr
    assert leftovers(shm_path) == []
    for path in (shm_path / "to").iterdir():
        assert path.read_bytes() == server.objects[f"bucket/p/{path.name}"]


def test_a_reader_never_sees_half_a_file(leat_bin, clean_env, shm_path):
    """One process replaces a file again and again; the one that reads it sees one version or the other, whole."""
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
