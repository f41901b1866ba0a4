"""leat doctor: what is wrong is said in one line with what to do, within a deadline, and without a secret."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from command_tools import can_unshare
from conftest import assert_no_report
from loading import make_blobs, make_images, pack, wait_until

KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
KEYS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
SERVED = {"LEAT_SERVE_ACCESS_KEY": KEY, "LEAT_SERVE_SECRET_KEY": SECRET}
QUICK = ("--time", "200ms", "--bytes", "4MiB", "--timeout", "2s")

needs_unshare = pytest.mark.skipif(not can_unshare(), reason="no namespaces here")


def doctor_in(leat_bin, namespaces, env, *more, before=()):
    """The report of doctor in namespaces of its own."""
    command = ["unshare", namespaces, *before, leat_bin, "doctor", "--json", *QUICK, *more]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert_no_report("doctor", done.returncode, done.stderr)
    if "m" in namespaces and done.returncode in (1, 32) and not done.stdout and "mount" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    return Report(done)


def silent(exchange):
    exchange.wait_gone()


class Report:
    """What doctor said, by the name of the check."""

    def __init__(self, done):
        self.status = done.returncode
        self.text = done.stdout
        said = json.loads(done.stdout)
        self.well = said["well"]
        self.findings = {f["name"]: f for f in said["findings"]}
        assert len(self.findings) == len(said["findings"])
        assert self.well == (not self.of("bad")) == (self.status == 0), done.stdout + done.stderr
        for one in said["findings"]:
            assert "\n" not in one["found"]
            assert one["state"] in ("ok", "skipped") or one["advice"], one

    def of(self, state):
        return [name for name, f in self.findings.items() if f["state"] == state]

    def __getitem__(self, name):
        return self.findings[name]


@pytest.fixture
def agents():
    """A folder for agents that is not there yet, with a name that a socket's has room for."""
    with tempfile.TemporaryDirectory(prefix="leat-t-", dir="/tmp") as folder:
        yield Path(folder) / "agents"


@pytest.fixture
def doctor(run_leat, tmp_path, agents):
    """doctor(url, …) -> Report. No secret may be in it, and nothing may stay."""

    def run(*args, env=None, **more):
        before = sorted([*tmp_path.rglob("*"), *agents.parent.rglob("*")])
        full = {"LEAT_RUNTIME_DIR": str(agents), **(env or {})}
        done = run_leat("doctor", "--json", *QUICK, *args, env=full, **more)
        assert SECRET not in done.stdout + done.stderr
        assert done.stderr == ""
        assert sorted([*tmp_path.rglob("*"), *agents.parent.rglob("*")]) == before
        return Report(done)

    return run


@pytest.fixture
def dataset(leat_bin, bucket_dir, images):
    """The bucket with a dataset of pictures in it."""
    shutil.copytree(images.path, bucket_dir / "bucket" / "set")
    return bucket_dir


def test_the_machine_is_looked_at_without_a_url(doctor, run_leat):
    r = doctor()
    assert r.well, r.text
    wanted = {"version", "cores", "memory", "shared memory", "limits", "io_uring", "gpu", "agent", "cache", "proxy"}
    assert wanted <= set(r.findings)
    assert r["memory"]["limit_bytes"] >= r["memory"]["free_bytes"] > 0
    assert r["cores"]["cores"] == len(os.sched_getaffinity(0))
    assert r["cache"]["write_bytes_per_s"] > 0 and r["cache"]["read_bytes_per_s"] > 0
    done = run_leat("doctor", "--time", "100ms", status=0)
    lines = done.stdout.splitlines()
    assert lines[-1] == "All is well."
    assert {line.split()[0] for line in lines[:-2]} <= {"ok", "note"}


def test_a_bucket_that_is_well(doctor, serve, dataset):
    server = serve(dataset, "--latency", "30ms", "--connection-bandwidth", "300kB/s", env=SERVED)
    r = doctor("s3://bucket/set", "--needs", 1, env={**KEYS, "AWS_ENDPOINT_URL": server.url})
    assert r.well, r.text
    assert "AKIA…MPLE, from AWS_ACCESS_KEY_ID" in r["keys"]["found"] and KEY not in r.text
    assert r["clock"]["state"] == "ok"
    assert r["region"]["found"] == "us-east-1"
    assert 0.03 <= r["latency"]["least_s"] <= r["latency"]["median_s"] <= r["latency"]["most_s"]
    assert r["first byte"]["median_s"] >= 0.03
    assert "203 samples" in r["dataset"]["found"] and "packed" in r["dataset"]["found"]
    assert 0 < r["line"]["one_bytes_per_s"] < 400e3
    assert r["line"]["many_bytes_per_s"] > 0 and "with 32" in r["line"]["found"]
    assert server.stats()["connections"]["peak"] > 1  # a busy machine begins fewer than 32 within the second
    assert "enough" in r["supply"]["found"]
    assert r["decode"]["pictures_per_s"] > 0 and r["decode"]["failed"] == 0


def test_what_does_not_reach_the_need_is_to_mend(doctor, serve, dataset):
    server = serve(dataset)
    r = doctor("s3://bucket/set", "--needs", 10**9, env={"AWS_ENDPOINT_URL": server.url})
    assert r.of("bad") == ["supply", "decode"]
    assert "fewer than needed" in r["decode"]["found"]


@pytest.mark.parametrize(
    ("options", "env", "url", "bad", "words"),
    [
        ((), {"AWS_SECRET_ACCESS_KEY": "wrong"}, "bucket/set", "access", "SignatureDoesNotMatch"),
        ((), {"AWS_ACCESS_KEY_ID": "AKIAXXXXXXXXXXXXXXXX"}, "bucket/set", "access", "InvalidAccessKeyId"),
        ((), {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, "bucket/set", "access", "anonymous"),
        ((), {}, "backet/set", "bucket", "NoSuchBucket"),
        ((), {}, "bucket/sat", "dataset", "s3://bucket/sat"),
        (("--region", "eu-west-3"), {}, "bucket/set", "region", "is in eu-west-3, the settings say us-east-1"),
        (("--clock-skew", "20m"), {}, "bucket/set", "clock", "20 min"),
        (("--clock-skew", "-8m"), {}, "bucket/set", "clock", "ahead of the server's"),
        ((), {"AWS_PROFILE": "nix"}, "bucket/set", "keys", "'nix'"),
        ((), {"AWS_CREDENTIAL_EXPIRATION": "2020-01-01T00:00:00Z"}, "bucket/set", "keys", "expired at 2020-01-01"),
        (("--tls-self-signed",), {}, "bucket/set", "certificates", "self-signed"),
        (("--fault", "503=1"), {}, "bucket/set", "endpoint", "SlowDown"),
    ],
)
def test_one_line_each_for_what_is_wrong(doctor, serve, dataset, options, env, url, bad, words):
    server = serve(dataset, *options, env=SERVED)
    r = doctor(f"s3://{url}", env={**KEYS, "AWS_ENDPOINT_URL": server.url, **env})
    assert r.of("bad") == [bad], r.text
    assert words in r[bad]["found"]


def test_clocks_a_minute_apart_are_a_note(doctor, faulty):
    server = faulty(clock_offset=60)
    server.objects["bucket/x"] = b"1"
    r = doctor("s3://bucket/", env=server.env())
    assert r["clock"]["state"] == "note" and -62 < r["clock"]["ahead_s"] < 0  # the answer may be slow


def test_objects_that_are_no_dataset_are_measured_too(doctor, serve, bucket_dir):
    (bucket_dir / "bucket" / "raw").write_bytes(os.urandom(3 << 20))
    r = doctor("s3://bucket/", env={"AWS_ENDPOINT_URL": serve(bucket_dir).url})
    assert r.well and r["dataset"]["state"] == "note" and "3 MiB" in r["dataset"]["found"]
    assert r["line"]["many_bytes_per_s"] > 0 and "latency" in r.findings


def test_a_folder_needs_no_keys(doctor, images):
    r = doctor(images.url)
    assert r.well and not {"keys", "endpoint", "latency", "region"} & set(r.findings)
    assert r["decode"]["pictures_per_s"] > 0


def test_a_web_server_has_no_keys(doctor, serve, dataset):
    r = doctor(serve(dataset).url + "/bucket/set")
    assert r.well and "keys" not in r.findings and r["latency"]["median_s"] > 0


def test_an_indexed_dataset_is_timed_where_its_data_lie(doctor, run_leat, serve, bucket_dir):
    make_images(bucket_dir / "bucket" / "raw", 40)
    env = {"AWS_ENDPOINT_URL": serve(bucket_dir).url}
    run_leat("index", "--quiet", "s3://bucket/raw", "s3://bucket/set", env=env, status=0)
    r = doctor("s3://bucket/set", env=env)
    assert r.well and "indexed" in r["dataset"]["found"]
    assert r["first byte"]["median_s"] > 0 and r["decode"]["failed"] == 0


def test_data_without_pictures_are_not_decoded(doctor, leat_bin, tmp_path):
    make_blobs(tmp_path / "files", 20)
    pack(leat_bin, tmp_path / "files", tmp_path / "ds")
    assert doctor(str(tmp_path / "ds"))["decode"]["state"] == "skipped"


def test_damaged_chunks_are_found(doctor, serve, dataset):
    for path in (dataset / "bucket" / "set" / "leat" / "chunks").rglob("*"):
        if path.is_file():
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)
    r = doctor("s3://bucket/set", env={"AWS_ENDPOINT_URL": serve(dataset).url})
    assert r.of("bad") == ["line"] and "leat verify" in r["line"]["advice"]


def test_a_server_without_ranges_is_noted(doctor, serve, dataset):
    server = serve(dataset, "--fault", "ignore-range=1")
    r = doctor("s3://bucket/set", env={"AWS_ENDPOINT_URL": server.url})
    assert r["ranges"]["state"] == "note"


def test_a_password_of_a_proxy_is_not_shown(doctor):
    r = doctor(env={"http_proxy": "http://user:geheim@127.0.0.1:1"})
    assert "127.0.0.1:1" in r["proxy"]["found"] and r["proxy"]["state"] == "note"
    assert "geheim" not in r.text and "user" not in r["proxy"]["found"]


def test_a_cache_folder_that_others_can_reach_is_bad(doctor, tmp_path):
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    r = doctor("--cache-dir", folder)
    assert r.of("bad") == ["cache"] and "chmod 700" in r["cache"]["found"]
    assert doctor("--cache-dir", "/proc/nothing")["cache"]["state"] != "ok"


def test_wrong_options_are_refused_before_anything_is_looked_at(run_leat):
    for args in (("--time", "2h"), ("--bytes", "1"), ("s3://",), ("--addressing", "odd")):
        done = run_leat("doctor", *args, status=2)
        assert done.stdout == "" and len(done.stderr.splitlines()) <= 2


def test_an_agent_is_found_and_one_that_hangs_is_bad(run_leat, leat_bin, clean_env, agents, doctor):
    agents.mkdir(mode=0o700)
    env = {**clean_env, "LEAT_RUNTIME_DIR": str(agents)}
    agent = subprocess.Popen([leat_bin, "agent", "run", "--linger", "60s"], env=env, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: any(p.suffix == ".sock" for p in agents.iterdir()), 60, "the agent to listen")
        assert f"process {agent.pid}, 0 loaders" in doctor()["agent"]["found"]
        agent.send_signal(signal.SIGSTOP)
        assert doctor().of("bad") == ["agent"]
    finally:
        agent.send_signal(signal.SIGCONT)
        agent.terminate()
        _, stderr = agent.communicate(timeout=20)
        assert_no_report("agent", agent.returncode, stderr)


def test_ctrl_c_ends_it_within_seconds(leat_bin, clean_env, faulty):
    server = faulty()
    server.fault(silent)
    env = {**clean_env, **server.env()}
    process = subprocess.Popen(  # which would wait for longer than communicate() does
        [leat_bin, "doctor", "--timeout", "1h", "s3://bucket/set"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: server.requests, 60, "a request")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=100)
    assert process.returncode == 130 and stderr.strip() == "leat: interrupted"


def test_a_server_that_says_nothing_is_given_up(doctor, faulty):
    server = faulty()
    server.fault(silent)
    r = doctor("s3://bucket/set", env=server.env())
    assert r.of("bad") == ["endpoint"]


@needs_unshare
def test_without_a_network_it_says_so(leat_bin, clean_env):
    def run(**env):
        return doctor_in(leat_bin, "-rn", {**clean_env, **KEYS, **env}, "s3://bucket/set")

    r = run(AWS_ENDPOINT_URL="http://10.1.2.3:80")
    assert r.of("bad") == ["endpoint"] and "unreachable" in r["endpoint"]["found"]
    # AWS's own endpoint: its name cannot be resolved, and the key says whose account it is.
    r = run(AWS_ACCESS_KEY_ID="ASIAQNZGKIQY56JQ7WML")
    assert r.of("bad") == ["name"] and "bucket.s3.us-east-1.amazonaws.com" in r["name"]["found"]
    assert "of account 029608264753" in r["keys"]["found"]


SILENT_NAMES = """
import os, socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.1", 53))
for path, text in (("/etc/resolv.conf", "nameserver 127.0.0.1\\noptions timeout:30 attempts:5\\n"),
                   ("/etc/nsswitch.conf", "hosts: files dns\\n")):
    source = os.path.join(sys.argv[1], os.path.basename(path))
    open(source, "w").write(text)
    subprocess.run(["mount", "--bind", source, path], check=True)
sys.exit(subprocess.run(sys.argv[2:]).returncode)
"""


@needs_unshare
def test_a_check_that_hangs_is_left_behind(leat_bin, clean_env, tmp_path):
    """getaddrinfo() cannot be told to stop: the name server here is silent for longer than run() waits."""
    before = [sys.executable, "-c", SILENT_NAMES, tmp_path]
    where = ["--endpoint-url", "http://bucket.test", "s3://bucket/set"]
    r = doctor_in(leat_bin, "-rmn", clean_env, *where, before=before)
    assert r.of("bad") == ["name"] and "no answer within" in r["name"]["found"]
    assert "resolv.conf" in r["name"]["advice"]


GPU = "mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0000:01:00.0 && "
GPU += "printf 'Model: \\t\\t NVIDIA H200\\nIRQ: 1\\n' > /proc/driver/nvidia/gpus/0000:01:00.0/information && "
GPU += "printf 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Tue\\n' {} > /proc/driver/nvidia/version && "
GPU += 'exec "$0" "$@"'


@needs_unshare
def test_gpus_are_seen_without_cuda(leat_bin, clean_env):
    gpu = doctor_in(leat_bin, "-rm", clean_env, before=["sh", "-c", GPU.format("550.54.15")])["gpu"]
    assert "1 × NVIDIA H200, driver 550.54.15" in gpu["found"]
    devices = [f"/dev/nvidia{i}" for i in range(8)]
    if not any(os.path.exists(path) for path in devices):
        assert gpu["state"] == "bad" and "--gpus all" in gpu["advice"]


def test_a_lonely_port_refuses(doctor):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets it
        port = taken.getsockname()[1]
        r = doctor("s3://bucket/set", env={**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
    assert r.of("bad") == ["endpoint"] and str(port) in r["endpoint"]["advice"]
