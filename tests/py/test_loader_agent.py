"""Where an agent lives and whom it talks to: users, folders, scopes, versions, descriptors, messages without sense."""

import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import wire
from conftest import SANITIZE
from loading import PYTHON_BUILD, SLOW, is_idle, numbers, start_python, wait_until

G = 24


def talk(runtime, *messages):
    """Speaks to the agent as a rank would; its answers as (kind, fields), None where it hung up."""
    path = next(Path(runtime.folder).glob("*.sock"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(30 * SLOW)
        s.connect(str(path))
        answers = []
        for message in messages:
            with contextlib.suppress(BrokenPipeError):
                s.send(message)
            try:
                answer = s.recv(1 << 16)
            except ConnectionResetError:
                answer = b""
            answers.append(wire.parse(answer) if answer else None)
        return answers


def test_other_protocol_of_client_and_agent_is_told(lt, runtime, images):
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}):
        hello = {wire.PROTOCOL: 99, wire.VERSION: "9.9", wire.PID: 1}
        ((kind, answer),) = talk(runtime, wire.message(wire.HELLO, hello))
        assert kind == wire.ERROR
        assert answer[wire.STATUS] == 18
        assert "9.9" in answer[wire.TEXT]


def test_message_that_needs_a_newer_agent_is_refused_and_one_that_only_says_more_is_not(lt, runtime, images):
    hello = wire.message(wire.HELLO, {wire.PROTOCOL: wire.CURRENT, wire.VERSION: "9.9", wire.PID: 1})
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}):
        ((kind, _),) = talk(runtime, hello + wire.field(300, 7, needed=False) + wire.field(3, b"new", needed=False))
        assert kind == wire.WELCOME
        for more in (wire.field(300, 7), wire.field(300, {1: 2}), wire.field(99, b"another type")):
            ((kind, answer),) = talk(runtime, hello + more)
            assert kind == wire.ERROR
            assert answer[wire.STATUS] == 18, "needs a newer one"


def fake_agent(runtime, lt, images, answer):
    """A socket in the agent's place that gives one answer."""
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}) as loader:
        path = loader.stats()["socket"]
    runtime.wait_gone()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(path)
    server.listen(8)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                s, _ = server.accept()
                with s:
                    s.recv(1 << 16)
                    s.send(answer)
                    s.recv(1 << 16)  # until the other has read it and gone

    threading.Thread(target=serve, daemon=True).start()
    return server


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (wire.message(wire.ERROR, {wire.STATUS: 18, wire.TEXT: "this agent is leat 9.9"}), "9.9"),
        (wire.message(wire.WELCOME, {wire.PROTOCOL: wire.CURRENT + 1, wire.PID: 1}), "another protocol"),
        (wire.message(wire.WELCOME, {wire.PROTOCOL: wire.CURRENT, 250: 1}), "does not know"),
        (wire.message(wire.STATS), "another protocol"),
        (b"{}", "message"),
        (b"not a message at all", "message"),
    ],
)
def test_agent_of_another_version_is_a_version_error(lt, runtime, images, answer, match):
    from leat.errors import VersionError

    server = fake_agent(runtime, lt, images, answer)
    try:
        with pytest.raises(VersionError, match=match):
            lt.Loader(images.url, batch_size=8, fields={"i": lt.index()})
    finally:
        server.close()


def test_agent_survives_messages_that_make_no_sense(lt, runtime, images):
    hello = wire.message(wire.HELLO, {wire.PROTOCOL: wire.CURRENT, wire.VERSION: "x", wire.PID: 1})
    output = {wire.NAME: "i", wire.KIND: 6}
    names = wire.SETTINGS
    good = {wire.URL: images.url, names["batch_size"]: 8, names["world_size"]: 1, wire.OUTPUT: output}
    image = {wire.NAME: "x", wire.KIND: 1, wire.FIELD: "png"}
    whole = wire.message(wire.OPEN, good)
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}) as loader:
        pid = runtime.agent()
        for first in (b"", b"\1", b"{}[]", b"\xff" * 100, wire.message(wire.OPEN), b"x" * 65536):
            assert talk(runtime, first) == [None]
        assert talk(runtime, hello, whole)[1][0] == wire.OPENED
        for n in (*range(4, 60), len(whole) - 1):  # cut anywhere
            _, answer = talk(runtime, hello, whole[:n])
            assert answer is None or answer[0] == wire.ERROR, n
        for kind in (0, wire.OPENED, 77, 2**32 - 1):
            assert talk(runtime, hello, wire.message(kind)) != []
        for key, value in (
            ("slots", 1), ("slots", 65), ("slots", -1), ("slots", "many"), ("batch_size", 0), ("batch_size", 2**31),
            ("world_size", 0), ("world_size", -1), ("rank", 1), ("rank", -1), ("global_batch_size", 7), ("last", 9),
            (wire.OUTPUT, {}), (wire.OUTPUT, {wire.NAME: "i"}), (wire.OUTPUT, {wire.NAME: "n" * 60, wire.KIND: 6}),
            (wire.OUTPUT, {**image, wire.PIPELINE: "resize=0"}), (wire.OUTPUT, {**image, wire.PIPELINE: "explode=1"}),
            (wire.OUTPUT, {**image, wire.PIPELINE: "resize=8x8", wire.VIEW: 256}), (wire.OUTPUT, "text"),
            (wire.URL, 7), (wire.URL, ""), (wire.URL, "/nowhere"), (wire.URL, "ftp://x/y"), ("window", 2**40),
            ("epoch", 2**63), (wire.STATE, "{}"), (wire.STATE, "["), ("ram", 5), ("threads", 5000),
            (wire.ID, "abc"), (wire.ID, "x" * 64), (wire.ID, "0" * 64), (wire.NODES, [0]), (wire.NODES, [0, 2]),
            (wire.NODES, [7, 1]), (wire.NODES, [0, 2**32 - 1]), (wire.ACCESS, "x"), (wire.ACCESS, wire.Bytes(b"")),
            (wire.ACCESS, wire.Bytes(b"x")), (wire.ACCESS, wire.Bytes(bytes((200, 1, 0, 0, 0, 0)))),
        ):  # fmt: skip
            request = {**good, names.get(key, key): value}
            try:
                _, answer = talk(runtime, hello, wire.message(wire.OPEN, request))
            except TimeoutError:
                pytest.fail(f"no answer to {key}={value!r}")
            fits = (key, value) in (("world_size", 0), (wire.ACCESS, "x"), (wire.ACCESS, b""))
            assert answer is None or answer[0] == (wire.OPENED if fits else wire.ERROR), (key, value, answer)
        many = wire.message(wire.OPEN, (*good.items(), *((wire.OUTPUT, output),) * 40))
        assert talk(runtime, hello, many)[1][0] == wire.ERROR
        assert runtime.agent() == pid, "the same agent as before"
        assert next(iter(loader))[0].shape == (8,)


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


def about_agent(leat_bin):
    (line,) = subprocess.run(
        [leat_bin, "agent", "ls", "--json"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return json.loads(line)


@pytest.mark.parametrize(
    ("said", "env", "folder", "size"),
    [
        ({}, {}, None, 0),
        ({"cache_dir": "HERE/a", "cache": "3gib"}, {}, "HERE/a", 3 << 30),
        ({"cache_dir": Path("sub/b")}, {}, "HERE/sub/b", 0),
        ({"cache": 5 << 20}, {}, "HERE/home/.cache/leat", 5 << 20),
        ({"cache": "5mib"}, {"XDG_CACHE_HOME": "HERE/xdg"}, "HERE/xdg/leat", 5 << 20),
        ({"cache": "5mib"}, {"LEAT_CACHE_DIR": "HERE/e", "LEAT_CACHE": "1mib"}, "HERE/e", 5 << 20),
        ({}, {"LEAT_CACHE": "7mib"}, "HERE/home/.cache/leat", 7 << 20),
        ({"cache_dir": "HERE/c"}, {"LEAT_CACHE_DIR": "HERE/e"}, "HERE/c", 0),
    ],
)
def test_cache_on_disk_is_where_loader_or_environment_say(
    lt, runtime, images, leat_bin, tmp_path, monkeypatch, said, env, folder, size
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def here(value):
        return value.replace("HERE", str(tmp_path)) if isinstance(value, str) else value

    for name, value in env.items():
        monkeypatch.setenv(name, here(value))
    said = {name: here(value) for name, value in said.items()}
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}, **said) as loader:
        about = about_agent(leat_bin)
        assert (about["cache_dir"], about["cache"]) == (here(folder), size)
        runtime.kill_agents()  # its successor is started with the same, whatever the environment says by then
        if folder:
            monkeypatch.setenv("LEAT_CACHE_DIR", "/elsewhere")
        loader.set_epoch(5)
        about = about_agent(leat_bin)
        assert (about["cache_dir"], about["cache"]) == (here(folder), size)


def test_cache_on_disk_other_than_the_agents_is_refused(lt, runtime, images, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    options = {"batch_size": 8, "fields": {"i": lt.index()}}
    with lt.Loader(images.url, cache_dir=tmp_path / "a", cache="1gib", **options):
        for more, word in (({"cache": "2gib"}, "cache=1"), ({"cache_dir": tmp_path / "b"}, r"cache_dir=.*/a and")):
            with pytest.raises(lt.errors.InvalidError, match=word) as caught:
                lt.Loader(images.url, **options, **more)
            assert "scope" in str(caught.value)
        for more in ({}, {"cache": 1 << 30}, {"cache_dir": f"{tmp_path}/a/"}, {"cache_dir": tmp_path / "link"}):
            lt.Loader(images.url, **options, **more).close()
    runtime.wait_gone()
    with lt.Loader(images.url, **options):
        for more in ({"cache": "1gib"}, {"cache_dir": tmp_path / "a"}):
            with pytest.raises(lt.errors.InvalidError, match=r"without a cache on disk.*leat agent stop"):
                lt.Loader(images.url, **options, **more)


@pytest.mark.parametrize(
    ("said", "env", "match"),
    [
        ({"cache_dir": ""}, {}, "cache_dir"),
        ({"cache_dir": "~/cache"}, {}, "only shells expand"),
        ({"cache_dir": "/" + "x" * 5000}, {}, "cache_dir"),
        ({"cache": 0}, {}, "cache="),
        ({"cache": "much"}, {}, "cache"),
        ({}, {"LEAT_CACHE_DIR": "relative"}, "'relative' is not an absolute path"),
        ({"cache": "1mib"}, {"HOME": ""}, "cache_dir="),
    ],
)
def test_cache_on_disk_that_cannot_be_is_refused(lt, images, monkeypatch, said, env, match):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(lt.Error, match=match):
        lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}, **said)


@pytest.mark.parametrize("scope", ["a", "s" * 64, "s" * 199, "with / and .. and \n"])
def test_every_scope_has_an_agent_of_its_own(lt, runtime, images, scope, leat_bin):
    with (
        lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}) as one,
        lt.Loader(images.url, batch_size=8, scope=scope, fields={"i": lt.index()}) as two,
    ):
        assert one.stats()["agent_pid"] != two.stats()["agent_pid"]
        said = subprocess.run([leat_bin, "agent", "ls", "--json"], capture_output=True, text=True, check=True).stdout
        assert sorted(json.loads(line)["pid"] for line in said.splitlines()) == sorted(runtime.agents())
        subprocess.run([leat_bin, "agent", "stop", "--scope", scope], check=True, capture_output=True)
        mine = [one.stats()["agent_pid"]]
        wait_until(lambda: runtime.agents() == mine, what="the end of the other agent's process")
        assert next(iter(two))[0].shape == (8,), "a stopped agent is started again"


NEW_USER = """
import leat, sys, os
with leat.Loader(sys.argv[1], batch_size=8, fields={"i": leat.index()}, as_numpy=True) as loader:
    seen = sorted(j for i, in loader for j in i.tolist())
    print(len(seen), os.path.dirname(loader.stats()["socket"]), flush=True)
"""


@pytest.fixture(scope="module")
def open_tree(images, leat_bin):
    """The build, numpy and a copy of the images where any user may read them: the checkout may lie in root's home."""
    folder = Path(tempfile.mkdtemp(prefix="leat-u-", dir="/tmp"))
    folder.chmod(0o755)
    shutil.copytree(images.path, folder / "ds")
    shutil.copytree(PYTHON_BUILD / "python" / "leat", folder / "python" / "leat")
    site = Path(next(p for p in sys.path if p.endswith("site-packages")))
    for part in site.glob("numpy*"):
        if part.is_dir() and "tests" not in part.name:
            shutil.copytree(part, folder / "python" / part.name, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    shutil.copy2(leat_bin, folder / "leat")
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")


@needs_root
@pytest.mark.skipif(bool(SANITIZE), reason="the sanitizers' runtimes need their own environment")
def test_users_without_home_or_runtime_folder_have_agents_of_their_own(lt, runtime, images, open_tree):
    """Two users, one of them with a number nobody knows, no HOME, no XDG_RUNTIME_DIR, at once."""
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{open_tree}/python",
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
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{open_tree}/python",
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
    if "writable" in done.stdout or "mount" in done.stderr or done.stderr.startswith("unshare:"):
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
    monkeypatch.setenv("LEAT_AGENT", "./leat")
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


@contextlib.contextmanager
def no_more_descriptors(pid):
    """The process can open nothing while this lasts: the first three are its standard streams."""

    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_agent_out_of_descriptors_lets_new_ranks_wait_and_serves_the_others(lt, runtime, images):
    with lt.Loader(images.url, batch_size=8, fields={"i": lt.index()}) as loader:
        it = iter(loader)
        next(it)

        def all_there():
            now = loader.stats()
            return now["chunks_fetched"] == images.chunks and not now["fetches_in_flight"]

        wait_until(all_there, what="having read every chunk")
        pid = runtime.agent()
        result = []
        path = loader.stats()["socket"]

        def connections():
            return Path("/proc/net/unix").read_text().count(f" {path}\n")

        thread = threading.Thread(target=lambda: result.append(numbers(lt, images.url)))
        before = connections()
        with no_more_descriptors(pid):
            thread.start()
            wait_until(lambda: connections() > before, what="a connection that nobody accepts")
            for _ in range(15):
                next(it)
            wait_until(lambda: is_idle(pid), what="an agent that sleeps: no busy loop")
            assert not result
        thread.join(60 * SLOW)
        assert len(result[0]) == images.samples // G


def test_agent_out_of_descriptors_reads_on_when_there_are_some_again(lt, runtime, images):
    whole = numbers(lt, images.url, window=4)
    runtime.wait_gone()
    # so little memory, and so few batches ahead, that chunks are read as the epoch goes
    with lt.Loader(images.url, batch_size=G, fields={"i": lt.index()}, window=4, ram="200kb", slots=2) as loader:
        seen = []
        it = iter(loader)
        seen.append(next(it)[0].tolist())
        pid = runtime.agent()
        with no_more_descriptors(pid):
            thread = threading.Thread(target=lambda: seen.extend(i.tolist() for (i,) in it))
            thread.start()
            wait_until(lambda: "chunk" in loader.stats()["waiting_for"], what="a batch that waits for a chunk")
            wait_until(lambda: is_idle(pid), what="an agent that sleeps: no busy loop")
            assert len(seen) < len(whole), "chunks were still to be read"
        thread.join(60)
        assert seen == whole


BOUND = """
import os, resource, sys, leat
cpu = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cpu})
os.nice(5)
os.umask(0)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
with leat.Loader(sys.argv[1], batch_size=8, fields={"i": leat.index()}, as_numpy=True) as loader:
    next(iter(loader))
    print(loader.stats()["agent_pid"], flush=True)
    sys.stdin.readline()
"""


def test_agent_does_not_keep_what_is_its_first_ranks_own(runtime, images, leat_bin):
    process = start_python(runtime, BOUND, images.url)
    pid = int(process.stdout.readline() or pytest.fail(process.stderr.read()))
    try:
        cpus = os.sched_getaffinity(0)
        assert os.sched_getaffinity(pid) == cpus
        for thread in os.listdir(f"/proc/{pid}/task"):
            assert os.sched_getaffinity(int(thread)) == cpus
        assert about_agent(leat_bin)["threads"] >= min(2, len(cpus))
        for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
            soft, hard = resource.prlimit(pid, limit)
            assert soft == hard
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert status["Umask"] == "0077"
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        if os.geteuid() == 0:  # others may not make it smaller again
            assert os.getpriority(os.PRIO_PROCESS, pid) == 0
    finally:
        process.communicate("\n", timeout=30)


def test_agent_that_a_person_starts_keeps_what_it_was_given(runtime, leat_bin):
    cpu = min(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(cpu), leat_bin, "agent", "run", "--linger", "0s"]
    process = subprocess.Popen(command, env=runtime.env, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: list(Path(runtime.folder).glob("*.sock")), what="its socket")
        assert os.sched_getaffinity(process.pid) == {cpu}
        assert about_agent(leat_bin)["threads"] == 1
    finally:
        process.terminate()
        process.wait(20)
