"""Loaders on machines as they are: other users, odd folders, no descriptors, other settings."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from conftest import SANITIZE
from loading import PYTHON_BUILD, SLOW, wait_until
from test_loader_process import G, numbers, start_python


def test_second_loader_with_another_budget_is_refused(lt, images):
    fields = {"i": lt.index()}
    with lt.Loader(images.url, batch_size=8, ram="100mib", threads=2, fields=fields):
        for more, word in (({"ram": "200mib"}, "ram=100"), ({"threads": 1}, "threads=2")):
            with pytest.raises(lt.Error, match=word) as caught:
                lt.Loader(images.url, batch_size=8, fields=fields, **more)
            assert "scope" in str(caught.value)
        lt.Loader(images.url, batch_size=8, ram=100 << 20, fields=fields).close()
        lt.Loader(images.url, batch_size=8, fields=fields).close()
        lt.Loader(images.url, batch_size=8, ram="200mib", scope="other", fields=fields).close()


@pytest.mark.parametrize("scope", ["a", "s" * 63, "s" * 64, "s" * 199, "with / and .. and \n"])
def test_every_scope_has_an_agent_of_its_own(lt, runtime, images, scope, leat_bin):
    with (
        lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}) as one,
        lt.Loader(images.url, batch_size=8, scope=scope, fields={"i": lt.index()}) as two,
    ):
        assert one.stats()["agent_pid"] != two.stats()["agent_pid"]
        said = subprocess.run([leat_bin, "agent", "ls", "--json"], capture_output=True, text=True, check=True).stdout
        assert sorted(json.loads(line)["pid"] for line in said.splitlines()) == sorted(runtime.agents())
        subprocess.run([leat_bin, "agent", "stop", "--scope", scope], check=True, capture_output=True)
        assert runtime.agent() == one.stats()["agent_pid"]
        assert next(iter(two))[0].shape == (8,), "a stopped agent is started again"


NEW_USER = """
import leat, sys, os
with leat.Loader(sys.argv[1], batch_size=8, fields={"i": leat.index()}, as_numpy=True) as loader:
    seen = sorted(j for i, in loader for j in i.tolist())
    print(len(seen), os.path.dirname(loader.stats()["socket"]), flush=True)
"""


@pytest.fixture
def open_tree(images, leat_bin):
    """The build and a copy of the images where any user may read them."""
    folder = Path(tempfile.mkdtemp(prefix="leat-u-", dir="/tmp"))
    folder.chmod(0o755)
    shutil.copytree(images.path, folder / "ds")
    shutil.copytree(PYTHON_BUILD / "python" / "leat", folder / "python" / "leat")
    shutil.copy2(leat_bin, folder / "leat")
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")


@needs_root
@pytest.mark.skipif(bool(SANITIZE), reason="the sanitizers' runtimes need their own environment")
def test_users_without_home_or_runtime_folder_have_agents_of_their_own(lt, runtime, images, open_tree):
    """Two users, one of them with a number nobody knows, no HOME, no XDG_RUNTIME_DIR, at once."""
    site = next(p for p in sys.path if p.endswith("site-packages"))
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{open_tree}/python:{site}",
        "LEAT_AGENT": str(open_tree / "leat"),
        "LEAT_LINGER": "300ms",
    }
    users = [65534, 41234]
    rank = [os.path.realpath(sys.executable), "-c", NEW_USER, str(open_tree / "ds")]
    children = []
    for uid in users:
        shutil.rmtree(f"/tmp/leat-{uid}", ignore_errors=True)
        children.append(
            subprocess.Popen(
                ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", *rank],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    mine = numbers(lt, images.url, batch_size=8)
    for uid, child in zip(users, children):
        out, stderr = child.communicate(timeout=60)
        assert child.returncode == 0, stderr
        assert out.split() == [str(len(mine) * 8), f"/tmp/leat-{uid}"]
        folder = Path(f"/tmp/leat-{uid}")
        assert folder.stat().st_mode & 0o777 == 0o700
        wait_until(lambda folder=folder: not list(folder.iterdir()), what="the end of the user's agent")
        shutil.rmtree(folder)


@needs_root
@pytest.mark.skipif(bool(SANITIZE), reason="the sanitizers' runtimes need their own environment")
def test_read_only_root_works(runtime, images, open_tree):
    site = next(p for p in sys.path if p.endswith("site-packages"))
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{open_tree}/python:{site}",
        "LEAT_AGENT": str(open_tree / "leat"),
        "LEAT_LINGER": "0s",
    }
    uid = 41235
    script = (
        "{ mount -o remount,ro,bind / 2>/dev/null || { mount --bind / / && mount -o remount,ro,bind /; }; };"
        ' touch /tmp/leat-ro-probe 2>/dev/null && echo writable; exec "$@"'
    )
    become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    rank = [os.path.realpath(sys.executable), "-c", NEW_USER, str(open_tree / "ds")]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *become, *rank],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    with contextlib.suppress(OSError):
        os.unlink("/tmp/leat-ro-probe")
    if "writable" in done.stdout or "mount" in done.stderr:
        pytest.skip("the root cannot be made read-only here")
    assert done.returncode == 0, done.stderr
    folder = done.stdout.split()[1]
    assert folder == f"/dev/shm/leat-{uid}"
    wait_until(lambda: not list(Path(folder).iterdir()), what="the end of the agent")
    shutil.rmtree(folder)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_runtime_folder_that_others_can_write_to_is_refused_and_left_alone(lt, runtime, images, monkeypatch, mode):
    folder = Path(runtime.folder) / "open"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("LEAT_RUNTIME_DIR", str(folder))
    with pytest.raises(lt.Error, match="LEAT_RUNTIME_DIR"):
        lt.Loader(images.url, batch_size=8, fields={"i": lt.index()})
    assert folder.stat().st_mode & 0o7777 == mode, "a folder that is not ours to change"
    assert list(folder.iterdir()) == []


def test_relative_paths_to_agent_and_folder(lt, runtime, images, monkeypatch, leat_bin):
    monkeypatch.chdir(leat_bin.parent)
    monkeypatch.setenv("LEAT_AGENT", "./leat")
    assert numbers(lt, images.url)
    runtime.wait_gone()
    monkeypatch.setenv("LEAT_AGENT", "./nothing")
    with pytest.raises(lt.Error, match="LEAT_AGENT"):
        numbers(lt, images.url)
    monkeypatch.setenv("LEAT_RUNTIME_DIR", "here")
    with pytest.raises(lt.Error, match="absolute"):
        numbers(lt, images.url)


def test_rank_without_standard_streams_gets_its_agent(runtime, images):
    code = (
        "import os, sys\n"
        "for fd in (0, 1, 2): os.close(fd)\n"
        "import leat\n"
        f"with leat.Loader({images.url!r}, batch_size=8, fields={{'i': leat.index()}}, as_numpy=True) as loader:\n"
        "    n = sum(len(i) for i, in loader)\n"
        "os._exit(0 if n == 200 else 1)\n"
    )
    process = start_python(runtime, code)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_rank_out_of_descriptors_gets_an_error_and_can_go_on(lt, runtime, images):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    numbers(lt, images.url)
    used = len(os.listdir("/proc/self/fd"))
    refusals = []
    try:
        for spare in range(0, 12):
            # descriptors are given out lowest first, so the limit has to count from the highest in use
            highest = max(int(n) for n in os.listdir("/proc/self/fd"))
            holes = [os.dup(0) for _ in range(highest + 1 - used + 4)]
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(n) for n in os.listdir("/proc/self/fd")) + spare, hard))
            try:
                assert numbers(lt, images.url)
            except (lt.Error, OSError) as error:
                refusals.append(str(error))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for fd in holes:
                    os.close(fd)
        assert refusals
        assert all("descriptor" in text or "open files" in text for text in refusals), refusals
        assert numbers(lt, images.url)
        assert len(os.listdir("/proc/self/fd")) == used
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_agent_out_of_descriptors_lets_new_ranks_wait_and_serves_the_others(lt, runtime, images):
    import resource

    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}) as loader:
        it = iter(loader)
        next(it)
        pid = runtime.agent()
        highest = max(int(n) for n in os.listdir(f"/proc/{pid}/fd"))
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, hard))
        result = []

        def open_another():
            result.append(numbers(lt, images.url))

        thread = threading.Thread(target=open_another)
        thread.start()
        time.sleep(0.3)
        cpu = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        began = time.monotonic()
        for _ in range(15):
            next(it)
        assert time.monotonic() - began < 1.0 * SLOW, "those already connected are not slowed down"
        time.sleep(1.0)
        cpu = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) - cpu
        assert cpu < 50 * SLOW, "no busy loop"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard if hard > 0 else 1024, hard))
        thread.join(30)
        assert result
        assert len(result[0]) == images.samples // G


def test_dataset_that_was_packed_anew_is_seen_by_the_next_loader_and_mixed_into_none(lt, runtime, leat_bin, tmp_path):
    from loading import make_blobs, pack

    def loader():
        return lt.Loader(url, batch_size=5, fields={"k": lt.key(), "b": lt.bytes("bin")}, as_numpy=True)

    known = make_blobs(tmp_path / "files", 60)
    url = pack(leat_bin, tmp_path / "files", tmp_path / "ds").url
    with loader() as old:
        it = iter(old)
        next(it)
        more = make_blobs(tmp_path / "files", 90, seed=2)
        pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--replace")
        with loader() as new:
            assert dict(pair for k, b in new for pair in zip(k, b.tolist())) == more
        assert len(old.state_dict()["dataset"]) > 8
        for keys, values in it:
            assert all(known[k] == v for k, v in zip(keys, values.tolist()))
        runtime.kill_agents()
        with pytest.raises(lt.Error, match="dataset"):
            for _ in old:
                pass
