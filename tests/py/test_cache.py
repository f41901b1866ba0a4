"""`leat cache`: what is in the cache folder, whose it is, and away with it."""

import contextlib
import json
import os
import subprocess

import pytest


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def storing(leat_build, clean_env):
    """Stores chunks as an agent does; inside, the agent lives."""

    @contextlib.contextmanager
    def store(folder, n):
        tool = leat_build / "tests" / "unit" / "tool_disk"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([tool, folder, str(n)], env=clean_env, text=True, **pipes) as agent:
            assert agent.stdout.readline() == "ready\n"
            yield agent.pid
            agent.stdin.close()
            assert agent.wait(timeout=30) == 0

    return store


def listed(run_leat, folder):
    return json.loads(run_leat("cache", "ls", "--json", "--cache-dir", folder, status=0).stdout)


def test_ls_says_what_is_there_and_who_uses_it(run_leat, storing, cache):
    with storing(cache, 5) as pid:
        found = listed(run_leat, cache)
        assert found["agents"] == [pid]
        text = run_leat("cache", "ls", env={"LEAT_CACHE_DIR": cache}, status=0).stdout
        assert f"used by 1 agent (process id {pid})" in text
    found = listed(run_leat, cache)
    assert found.pop("made_s") <= found.pop("changed_s")
    assert 5 * 100_000 <= found.pop("disk_bytes") < 600_000
    assert found == {
        "folder": str(cache),
        "bytes": 500_000,
        "chunks": 5,
        "segments": 1,
        "damaged": 0,
        "agents": [],
    }
    text = run_leat("cache", "ls", "--cache-dir", cache, status=0).stdout
    assert text.count("\n") == 1
    assert "488 KiB in 5 chunks, 1 segments" in text
    assert "used by 0 agents" in text


def test_looking_takes_nothing_over(run_leat, storing, cache):
    with storing(cache, 3):
        before = {path.name for path in cache.iterdir()}
        listed(run_leat, cache)
        assert {path.name for path in cache.iterdir()} == before
    with storing(cache, 5):  # finds the three again, in the same segment
        found = listed(run_leat, cache)
        assert (found["chunks"], found["segments"]) == (5, 1)


def test_clear_removes_what_nobody_uses(run_leat, storing, cache):
    other = cache / "notes.txt"
    other.touch()
    (cache / "0123456789abcdef.new").touch(mode=0o600)
    with storing(cache, 3):
        done = run_leat("cache", "clear", "--cache-dir", cache, status=0)
        assert "kept 1 segments" in done.stdout
        assert "--force" in done.stdout
        assert listed(run_leat, cache)["chunks"] == 3
    done = json.loads(run_leat("cache", "clear", "--json", "--cache-dir", cache, status=0).stdout)
    assert (done["removed"], done["kept"]) == (1, 0)
    assert [path.name for path in cache.iterdir()] == [other.name]


def test_clear_by_force_removes_what_is_used_too(run_leat, storing, cache):
    with storing(cache, 3):
        done = run_leat("cache", "clear", "--force", "--cache-dir", cache, status=0)
        assert done.stdout.startswith("removed 1 segments")
        assert not list(cache.glob("*.seg"))


def test_damaged_segments_are_counted(run_leat, storing, cache):
    with storing(cache, 3):
        pass
    (segment,) = cache.glob("*.seg")
    with segment.open("r+b") as file:
        file.write(b"x")
    found = listed(run_leat, cache)
    assert (found["damaged"], found["chunks"]) == (1, 0)
    run_leat("cache", "clear", "--cache-dir", cache, status=0)
    assert not list(cache.iterdir())


def test_path_follows_the_settings(run_leat, tmp_path):
    env = {"HOME": "/home/u", "XDG_CACHE_HOME": None, "LEAT_CACHE_DIR": None}
    assert run_leat("cache", "path", env=env, status=0).stdout == "/home/u/.cache/leat\n"
    env["XDG_CACHE_HOME"] = "/xdg"
    assert run_leat("cache", "path", env=env, status=0).stdout == "/xdg/leat\n"
    env["LEAT_CACHE_DIR"] = "/x y"
    assert run_leat("cache", "path", env=env, status=0).stdout == "/x y\n"
    assert run_leat("cache", "path", "--cache-dir", "/z", env=env, status=0).stdout == "/z\n"


def test_folders_that_cannot_be_used_are_named(run_leat, cache, tmp_path):
    missing = tmp_path / "missing"
    for what in ("ls", "clear"):
        assert str(missing) in run_leat("cache", what, "--cache-dir", missing, status=3).stderr
        assert not missing.exists()
    os.chmod(cache, 0o755)
    assert "chmod 700" in run_leat("cache", "clear", "--cache-dir", cache, status=4).stderr
    assert "ls, clear, path" in run_leat("cache", "burn", status=2).stderr
