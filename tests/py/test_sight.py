"""Looking on: `leat top`, metrics, traces. What is shown is what happened, and looking changes nothing."""

import collections
import contextlib
import fcntl
import json
import logging
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from loading import SLOW, wait_until
from wire import CURRENT, DESCRIBE, HELLO, PID, PROTOCOL, VERSION, WELCOME, message, parse

SEQPACKET = socket.AF_UNIX, socket.SOCK_SEQPACKET
ROOT = Path(__file__).resolve().parents[2]
CAUSES = {"fetch", "prep", "slots", "agent", "open", "ranks", "other"}


@pytest.fixture
def leat(run_leat, runtime):
    """run_leat with the runtime folder of this test."""

    def run(*args, **more):
        return run_leat(*args, env={"LEAT_RUNTIME_DIR": runtime.folder, **more.pop("env", {})}, **more)

    return run


@pytest.fixture
def bucket(serve, images, bucket_dir, monkeypatch):
    """The images in a bucket of the given manners; its address, and the server."""

    def start(*options):
        shutil.copytree(images.path, bucket_dir / "bucket" / "train")
        server = serve(bucket_dir, *options)
        for name, value in server.s3_env().items():
            monkeypatch.setenv(name, value)
        return "s3://bucket/train", server

    return start


def fields(lt):
    return {"x": lt.image("png").resize((16, 16)), "i": lt.index()}


def about(leat):
    return [json.loads(line) for line in leat("agent", "ls", "--json", status=0).stdout.splitlines()]


SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')


def scrape(url):
    """{name: {labels: value}}, after a look at what Prometheus insists on."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    found, types, current = collections.defaultdict(dict), {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert current not in types, f"{current} is described twice"
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == current
            assert kind == ("counter" if name.endswith("_total") else "gauge")
            types[name] = kind
        else:
            name, labels, value = SAMPLE.match(line).groups()
            assert name == current, f"{name} stands among {current}"
            pairs = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', labels or ""))
            key = tuple(sorted(pairs.items()))
            assert key not in found[name], f"{line} twice"
            assert float(value) >= 0
            found[name][key] = float(value)
    assert set(types) == set(found)
    for name in found:
        assert not re.search(r"_(ns|ms|s|kb|mb)(_total)?$", name), f"{name}: base units"
    return found


def only(series, **labels):
    """The one number with these labels."""
    (value,) = [v for key, v in series.items() if labels.items() <= dict(key).items()]
    return value


def test_looking_while_loaders_open_disturbs_neither(lt, runtime, images):
    """An agent's statistics leave out what another thread is still computing for an opening (a race, for ThreadSanitizer)."""
    over = threading.Event()
    looks = []

    def look(connection):
        while not over.is_set():
            connection.send(message(DESCRIBE))
            looks.append(parse(connection.recv(1 << 20))[0])

    options = {"batch_size": 8, "fields": {"i": lt.index()}, "as_numpy": True}
    with lt.Loader(images.url, **options), contextlib.closing(socket.socket(*SEQPACKET)) as connection:
        (path,) = Path(runtime.folder).glob("*.sock")
        connection.connect(str(path))
        connection.settimeout(60)
        connection.send(message(HELLO, {PROTOCOL: CURRENT, VERSION: lt.__version__, PID: os.getpid()}))
        assert parse(connection.recv(1 << 20))[0] == WELCOME
        thread = threading.Thread(target=look, args=(connection,))
        thread.start()
        try:
            for seed in range(10):
                with lt.Loader(images.url, seed=seed, **options) as loader:
                    assert len(next(iter(loader))[0]) == 8
        finally:
            over.set()
            thread.join()
    assert set(looks) == {DESCRIBE}


def test_metrics_are_the_numbers_that_loaders_and_agents_have(lt, leat, bucket, images, tmp_path):
    url, _ = bucket()
    loader = lt.Loader(url, batch_size=8, fields=fields(lt), metrics="127.0.0.1:0", name='tr"ain', as_numpy=True)
    other = lt.Loader(str(images.path), batch_size=8, fields=fields(lt), rank=0, world_size=1, as_numpy=True)
    seen = sum(len(batch[1]) for batch in loader)
    assert sum(1 for _ in other) > 0
    (agent,) = about(leat)
    stats = loader.stats()
    now = scrape(agent["metrics"])
    assert only(now["leat_samples_total"], loader=r"tr\"ain", rank="0", pid=str(os.getpid())) == seen
    assert only(now["leat_batches_total"], loader=images.path.name) == other.stats()["batches"]
    assert {dict(key)["cause"] for key in now["leat_wait_seconds_total"]} == CAUSES
    for cause, seconds in stats["wait_by_cause_s"].items():
        assert only(now["leat_wait_seconds_total"], loader=r"tr\"ain", cause=cause) == pytest.approx(
            seconds, abs=2e-3 * SLOW
        )
    assert only(now["leat_bytes_total"], dataset=url, source="bucket") == stats["bytes_by_source"]["bucket"] > 0
    assert only(now["leat_requests_total"], dataset=url) == stats["requests"]
    assert only(now["leat_cache_budget_bytes"]) == agent["cache_budget"]
    assert only(now["leat_threads"]) == agent["threads"] >= only(now["leat_threads_busy"])
    assert only(now["leat_threads_busy_seconds_total"]) > 0
    assert only(now["leat_build_info"]) == 1
    again = scrape(agent["metrics"])
    for name, series in now.items():
        if name.endswith("_total"):
            assert all(again[name][key] >= value for key, value in series.items()), name
    if promtool := shutil.which("promtool"):
        text = urllib.request.urlopen(agent["metrics"]).read()
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(agent["metrics"].replace("/metrics", "/secrets"))
    assert error.value.code == 404
    loader.close()
    assert not any(dict(key).get("loader") == r"tr\"ain" for key in scrape(agent["metrics"])["leat_samples_total"])
    other.close()


def test_a_wait_is_seen_before_it_ends_and_a_jump_is_the_same_loader(lt, leat, held, images):
    server = held(images)
    loader = lt.Loader("s3://bucket/ds", batch_size=8, fields=fields(lt), metrics="0", as_numpy=True)
    reading = threading.Thread(target=lambda: next(iter(loader)))
    reading.start()

    def fetch():
        loaders = about(leat)[0]["loaders"]
        return loaders[0].get("wait_by_cause_s", {}).get("fetch", 0) if loaders else 0

    try:
        wait_until(lambda: fetch() > 0.3, 60, "a wait that goes on")
        (agent,) = about(leat)
        seconds = only(scrape(agent["metrics"])["leat_wait_seconds_total"], cause="fetch")
        assert seconds > 0.3
        assert agent["loaders"][0]["waiting_s"] > 0.3
    finally:
        server.go.set()
        reading.join()
    first = about(leat)[0]["loaders"][0]
    loader.set_epoch(5)
    next(iter(loader))
    (second,) = about(leat)[0]["loaders"]
    assert second["id"] == first["id"]
    assert second["samples"] == first["samples"] + 8
    assert second["wait_by_cause_s"]["fetch"] >= first["wait_by_cause_s"]["fetch"]
    loader.close()


def test_port_that_is_taken_is_said_and_stops_nobody(lt, runtime, leat, images, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with caplog.at_level(logging.WARNING, logger="leat"):
            loader = lt.Loader(str(images.path), batch_size=8, fields=fields(lt), metrics=address, as_numpy=True)
            assert sum(1 for _ in loader) == images.samples // 8
        (line,) = [r.getMessage() for r in caplog.records if "metrics" in r.getMessage()]
        assert address in line
        assert "cannot be served" in line
        assert address in runtime.log()
        (agent,) = about(leat)
        assert agent["metrics"] is None
        assert address in agent["metrics_problem"]
    wait_until(lambda: about(leat)[0]["metrics"], 40, "another attempt")
    assert about(leat)[0]["metrics_problem"] is None
    assert scrape(about(leat)[0]["metrics"])["leat_samples_total"]
    with pytest.raises(lt.Error, match=r"metrics=.* and the loader asks for 127.0.0.1:1\b"):
        lt.Loader(str(images.path), batch_size=8, fields=fields(lt), metrics="127.0.0.1:1")
    loader.close()


@pytest.mark.parametrize("address", ["localhost:9100", "127.0.0.1:", "127.0.0.1:70000", "::1:9100", "", "1.2.3.4.5:1"])
def test_address_that_is_none_is_an_error_at_once(lt, leat, images, address):
    with pytest.raises(lt.Error, match=r"metrics.*is not an address and a port"):
        lt.Loader(str(images.path), batch_size=8, fields=fields(lt), metrics=address)
    if address:
        done = leat("agent", "run", "--metrics", address, status=2)
        assert done.stderr.count("\n") <= 2
        assert "is not an address and a port" in done.stderr


def test_top_once_tells_rates(lt, leat, images):
    loader = lt.Loader(str(images.path), batch_size=8, fields=fields(lt), name="train", as_numpy=True)
    top = subprocess.Popen(
        [os.environ["LEAT_AGENT"], "top", "--once", "--json", "--every", "500ms"], stdout=subprocess.PIPE, text=True
    )
    taken = 0
    while top.poll() is None:
        taken += sum(len(batch[1]) for batch in loader)
    agent = json.loads(top.stdout.read())
    (one,) = agent["loaders"]
    assert agent["seconds"] > 0.49
    between = one["per_second"]["samples"] * agent["seconds"]
    assert 0 < between <= taken
    assert between / 8 == pytest.approx(round(between / 8), abs=0.05)  # whole batches
    assert set(one["per_second"]["wait_by_cause_s"]) == CAUSES
    assert 0 < agent["per_second"]["threads_busy_s"] <= agent["threads"]
    lines = leat("top", "--once", "--every", "100ms", status=0).stdout.splitlines()
    assert re.match(r"\S+Z agent \d+ scope default: memory .* of .* threads .* hits \d+ %", lines[0])
    assert re.match(r"\S+Z loader train rank 0: .* samples/s, .* batches/s, \d+ ready, waiting .* %", lines[1])
    loader.close()


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command, rows=30, columns=140):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        env = {**os.environ, "TERM": "xterm"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        os.close(slave)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, until, timeout=60):
        """Until a text comes; what came since the last call."""
        deadline, fresh = time.monotonic() + timeout * SLOW, ""
        while not until(fresh):
            assert time.monotonic() < deadline, fresh[-3000:]
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    fresh += os.read(self.master, 65536).decode()
                except OSError:  # the other side is closed
                    break
        self.text += fresh
        return fresh


def test_top_on_a_terminal_draws_over_itself_and_leaves_it_as_it_was(lt, leat_bin, images):
    loader = lt.Loader(str(images.path), batch_size=8, fields=fields(lt), name="train", as_numpy=True)
    next(iter(loader))
    top = Terminal([leat_bin, "top", "--every", "100ms"])
    screen = top.read(lambda text: text.count("\033[J") >= 2)
    assert screen.startswith("\033[?1049h\033[?25l\033[H")
    for word in ("agent ", "memory ", "sources ", "requests ", "LOADER", "SAMPLES/S", "fetch", "train", "0/1"):
        assert word in screen, word
    top.resize(7, 40)
    small = top.read(lambda text: text.count("\033[J") >= 4).split("\033[H")[-2]
    lines = re.sub(r"\033\[[0-9]*[KJ]", "", small).split("\r\n")
    assert len(lines) <= 7
    assert max(map(len, lines)) <= 40
    assert "lines more" in lines[-1]
    top.process.send_signal(signal.SIGINT)
    assert top.read(lambda text: text.endswith("\033[?25h\033[?1049l")).endswith("\033[?25h\033[?1049l")
    assert top.process.wait(60 * SLOW) == 0
    os.close(top.master)
    loader.close()


def test_no_agent_and_an_agent_that_ends_are_a_line_each(lt, leat, leat_bin, runtime, images, tmp_path):
    for command in (
        ["top"],
        ["top", "--once", "--json"],
        ["trace", "-o", tmp_path / "t.json"],
        ["top", "--scope", "x"],
    ):
        done = leat(*command, status=3)
        assert re.fullmatch(r"leat: no agent of this user is running(?: in scope x)?: .*\n", done.stderr)
        assert not done.stdout
    assert not (tmp_path / "t.json").exists()
    loader = lt.Loader(str(images.path), batch_size=8, fields=fields(lt), as_numpy=True)
    next(iter(loader))
    top = subprocess.Popen(
        [leat_bin, "top", "--every", "100ms"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    top.stdout.readline()
    loader.close()
    # it ends though somebody looks on ten times a second
    out, stderr = top.communicate(timeout=30 * SLOW)
    assert (top.returncode, stderr) == (0, "leat: the agent has ended\n"), out
    runtime.wait_gone()


def test_agent_of_another_protocol_is_a_line(lt, leat, runtime, images):
    path = Path(runtime.folder) / "p9-0123456789abcdef.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as old:
        old.bind(str(path))
        old.listen()
        for command in (["top", "--once", "--every", "100ms"], ["trace", "-o", "-"]):
            process = subprocess.Popen(
                [os.environ["LEAT_AGENT"], *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(2 if command[0] == "top" else 1):
                with old.accept()[0] as rank:
                    kind, said = parse(rank.recv(65536))
                    assert kind == HELLO
                    assert said[PROTOCOL] == 2
                    rank.send(message(2, {PROTOCOL: 9, VERSION: "9.0", PID: 1}))
            out, stderr = process.communicate(timeout=30 * SLOW)
            (line,) = (out + stderr).splitlines()
            assert "speaks another protocol" in line
            assert "p9-0123456789abcdef.sock" in line
            assert process.returncode == (0 if command[0] == "top" else 1)
    path.unlink()


def check_trace(trace):
    """The rules of the trace event format, and ours: sorted, and in each row one after the other, all rows named."""
    assert trace["displayTimeUnit"] in ("ms", "ns")
    names, rows, last = {}, {}, 0.0
    for event in trace["traceEvents"]:
        assert event["ph"] in "XM"
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        row = event["pid"], event["tid"]
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "process_labels")
            names.setdefault(event["name"], {})[row] = event["args"]
            continue
        assert event["ts"] >= last
        assert event["dur"] >= 0
        last = event["ts"]
        assert event["ts"] > rows.get(row, 0) - 0.0011, "two things at once in a row"
        rows[row] = event["ts"] + event["dur"]
    assert set(rows) <= set(names["thread_name"])
    assert {pid for pid, _ in rows} <= {pid for pid, _ in names["process_name"]}
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_trace_tells_what_was_done_once_each(lt, leat, bucket, images, tmp_path):
    url, _ = bucket("--latency", "30ms")
    loader = lt.Loader(url, batch_size=8, fields=fields(lt), name="train", threads=2, as_numpy=True)
    batches = sum(1 for _ in loader)
    stats = loader.stats()
    done = leat("trace", "-o", tmp_path / "t.json", status=0)
    events = check_trace(json.loads((tmp_path / "t.json").read_text()))
    assert re.search(rf"t.json: {len(events)} events of the last \S+ \S+; open it at ", done.stdout)
    kinds = collections.Counter(event["cat"] for event in events)
    agent = stats["agent_pid"]
    fetched = [event for event in events if event["cat"] == "fetch"]
    assert len(fetched) == stats["chunks_fetched"] == len({event["args"]["chunk"] for event in fetched})
    assert sum(event["args"]["bytes"] for event in fetched) == stats["bytes_by_source"]["bucket"]
    assert all(
        event["name"] == "bucket" and event["args"]["dataset"] == url and event["dur"] > 29000 for event in fetched
    )
    made = [event for event in events if event["cat"] == "batch"]
    ready = [event for event in made if event["args"]["batch"] < batches]
    assert len(ready) == batches
    assert all(event["pid"] == os.getpid() and event["args"]["samples"] == 8 for event in ready)
    prepared = [event for event in events if event["cat"] == "prepare"]
    assert {event["tid"] for event in prepared} <= {1, 2}
    assert all(event["pid"] == agent for event in prepared + fetched)
    assert sum(event["args"]["samples"] for event in prepared if event["args"]["batch"] < batches) == 8 * batches
    waits = collections.Counter()
    for event in events:
        if event["cat"] == "wait":
            waits[event["name"].split()[-1]] += event["dur"] / 1e6
    for cause in ("fetch", "prep"):
        assert waits[cause] == pytest.approx(stats["wait_by_cause_s"][cause], rel=0.1, abs=0.05 * SLOW)
    assert kinds["check"] >= len(fetched)
    time.sleep(0.3)
    leat("trace", "--last", "100ms", "-o", tmp_path / "t.json", status=0)
    assert len(check_trace(json.loads((tmp_path / "t.json").read_text()))) < len(events)
    loader.close()


def test_trace_beside_a_training_and_of_two_agents(lt, leat, images, tmp_path):
    loader = lt.Loader(str(images.path), batch_size=8, fields=fields(lt), scope="a", as_numpy=True)
    for _ in range(3):
        for i, _batch in enumerate(loader):
            if i % 20 == 0:
                out = leat("trace", "-o", "-", "--scope", "a", status=0).stdout
                check_trace(json.loads(out))
    other = lt.Loader(str(images.path), batch_size=8, fields=fields(lt), scope="b", as_numpy=True)
    next(iter(other))
    done = leat("trace", "-o", tmp_path / "t.json", status=2)
    assert re.search(r"leat: 2 agents are running: say which with --scope \((a, b|b, a)\)\n", done.stderr)
    loader.close()
    other.close()


def test_dashboard_asks_for_metrics_that_exist(lt, leat, images):
    loader = lt.Loader(str(images.path), batch_size=8, fields=fields(lt), metrics="0", as_numpy=True)
    for _ in loader:
        pass
    known = scrape(about(leat)[0]["metrics"])
    dashboard = json.loads((ROOT / "examples" / "grafana" / "leat.json").read_text())
    asked = collections.Counter()
    for panel in dashboard["panels"]:
        assert panel["title"]
        for target in panel.get("targets", []):
            for name, labels in re.findall(r"(leat_[a-z_]+)(?:\{([^}]*)\})?", target["expr"]):
                assert name in known, f"{panel['title']} asks for {name}"
                asked[name] += 1
                have = {label for key in known[name] for label, _ in key}
                for label in re.findall(r"([a-z_]+)(?:=~|=|!=)", labels or ""):
                    assert label in have | {"job", "instance"}, f"{panel['title']}: {name} has no label {label}"
            for group in re.findall(r"by \(([^)]*)\)", target["expr"]):
                names = re.findall(r"leat_[a-z_]+", target["expr"])
                have = {label for name in names for key in known[name] for label, _ in key} | {"instance", "le"}
                assert {word.strip() for word in group.split(",")} <= have, target["expr"]
    for variable in dashboard["templating"]["list"]:
        for name in re.findall(r"leat_[a-z_]+", json.dumps(variable.get("query", ""))):
            assert name in known
    assert len(asked) >= 15
    loader.close()
