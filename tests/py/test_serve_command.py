"""`leat serve` as a command: what it prints, what it refuses, what it counts."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request

import pytest
from s3 import all_keys, client


def test_it_prints_its_url_and_ends_cleanly_on_both_signals(serve, bucket_dir):
    for number in [signal.SIGINT, signal.SIGTERM]:
        server = serve(bucket_dir)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+\n", server.line)
        server.process.send_signal(number)
        assert server.process.wait(60) == 0
        assert server.stderr == ""


def test_json_and_certificates_are_announced(serve, bucket_dir):
    server = serve(bucket_dir, "--json", "--tls-self-signed")
    said = json.loads(server.line)
    assert (said["url"], said["pid"]) == (server.url, server.process.pid)
    assert server.url.startswith("https://127.0.0.1:")
    certificate = said["certificate"]
    assert all_keys(client(server, verify=certificate), "bucket") == []
    assert server.stop() == 0
    assert not os.path.exists(os.path.dirname(certificate))


def test_a_given_certificate_is_used(serve, bucket_dir, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    make += ["-keyout", key, "-out", cert, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(make, check=True, capture_output=True)
    server = serve(bucket_dir, "--tls-cert", cert, "--tls-key", key)
    assert all_keys(client(server, verify=str(cert)), "bucket") == []


def test_curl_checks_the_self_signed_certificate(serve, bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(b"x" * 1_000_000)
    server = serve(bucket_dir, "--json", "--tls-self-signed")
    certificate = json.loads(server.line)["certificate"]
    good = subprocess.run(
        ["curl", "-sS", "--cacert", certificate, server.url + "/bucket/k"], capture_output=True, check=True
    )
    assert good.stdout == b"x" * 1_000_000
    by_name = ["curl", "-sS", "--cacert", certificate, f"https://localhost:{server.port}/bucket/k", "-o", "/dev/null"]
    subprocess.run(by_name, check=True)
    bad = subprocess.run(["curl", "-sS", server.url + "/bucket/k"], capture_output=True, check=False)
    assert bad.returncode == 60


def test_ipv6(serve, bucket_dir):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 on this machine")
    server = serve(bucket_dir, "--bind", "::1")
    assert re.fullmatch(r"http://\[::1\]:\d+", server.url)
    assert all_keys(client(server), "bucket") == []


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (["/does/not/exist"], 3, "/does/not/exist"),
        (["/etc/passwd"], 3, "/etc/passwd"),
        ([], 2, "too few arguments"),
        (["DIR", "DIR"], 2, "unexpected argument"),
        (["DIR", "--fault", "503"], 2, "'503' is not KIND=CHANCE"),
        (["DIR", "--fault", "503=2"], 2, "not a chance"),
        (["DIR", "--fault", "503=x"], 2, "not a number"),
        (["DIR", "--fault", "boom=0.1"], 2, "'boom' is not one of"),
        (["DIR", "--fault", "200=0.1"], 2, "'200' is not one of"),
        (["DIR", "--fault", "503=0.6,500=0.6"], 2, "add up"),
        (["DIR", "--fault", "503=0.6,"], 2, "comma"),
        (["DIR", "--port", "65536"], 2, "65536"),
        (["DIR", "--port", "http"], 2, "--port"),
        (["DIR", "--bind", "localhost"], 2, "localhost"),
        (["DIR", "--bind", "0.0.0.0"], 2, "--access-key"),
        (["DIR", "--bind", "192.0.2.1", "--anonymous"], 5, "192.0.2.1"),
        (["DIR", "--access-key", "x"], 2, "go together"),
        (["DIR", "--access-key", "", "--secret-key", ""], 2, "empty"),
        (["DIR", "--tls-cert", "x"], 2, "go together"),
        (["DIR", "--tls-cert", "/nope", "--tls-key", "/nope"], 3, "/nope"),
        (["DIR", "--tls-cert", "/etc/passwd", "--tls-key", "/etc/passwd"], 4, "certificate"),
        (["DIR", "--tls-self-signed", "--tls-cert", "x", "--tls-key", "y"], 2, "--tls-self-signed"),
        (["DIR", "--latency", "soon"], 2, "--latency"),
        (["DIR", "--bandwidth", "fast"], 2, "--bandwidth"),
        (["DIR", "--clock-skew", "x"], 2, "--clock-skew"),
        (["DIR", "--connections", "0"], 2, "--connections"),
        (["DIR", "--idle-timeout", "0s"], 2, "--idle-timeout"),
        (["DIR", "--log-size", "0"], 2, "--log-size"),
        (["DIR", "--latencey", "1s"], 2, "did you mean --latency"),
        (["DIR", "--protocol", "s4"], 2, "s3, gcs or azure"),
        (["DIR", "--protocol", "gcs", "--region", "x"], 2, "s3 only"),
        (["DIR", "--protocol", "azure", "--access-key", "acct", "--secret-key", "not base64"], 2, "base64"),
    ],
)
def test_bad_input_is_one_clear_line(run_leat, bucket_dir, options, status, says):
    given = [str(bucket_dir) if option == "DIR" else option for option in options]
    done = run_leat("serve", *given, status=status, timeout=20)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert says in lines[0]
    assert lines[0].startswith("leat: ")
    assert len(lines) == 1 or (status == 2 and lines[1:] == ["Try 'leat serve --help'."])
    assert os.listdir(bucket_dir) == ["bucket"]


def test_a_port_in_use_is_said_to_be(serve, run_leat, bucket_dir):
    server = serve(bucket_dir)
    done = run_leat("serve", bucket_dir, "--port", server.port, status=5)
    assert re.search(rf"port {server.port}: Address already in use", done.stderr)


def test_an_unwritable_folder_is_refused_unless_read_only(shared_bin, clean_env):
    nobody = 65534
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        # Root may write everywhere, so it is somebody else who tries.
        other = {"user": nobody, "group": nobody, "extra_groups": []} if os.geteuid() == 0 else {}
        command = [shared_bin, "serve", folder]
        env = {**clean_env, "HOME": folder}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60, **other)
        assert done.returncode == 4, done.stderr
        assert done.stderr == f"leat: cannot write to '{folder}', so serve it with --read-only: Permission denied\n"
        os.chmod(folder, 0o755)


def test_a_closed_standard_output_ends_it(leat_bin, clean_env, bucket_dir):
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen([leat_bin, "serve", bucket_dir], env=clean_env, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert process.wait(10) == 1
    process.stderr.close()


def test_statistics_say_exactly_what_was_read(serve, bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(b"x" * 1000)
    server = serve(bucket_dir)
    s3 = client(server)
    for _ in range(3):
        s3.get_object(Bucket="bucket", Key="k")["Body"].read()
    s3.get_object(Bucket="bucket", Key="k", Range="bytes=0-99")["Body"].read()
    s3.head_object(Bucket="bucket", Key="k")
    s3.put_object(Bucket="bucket", Key="new", Body=b"y" * 500)
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket="bucket", Key="missing")
    stats = server.stats()
    assert stats["calls"] == {
        "GetObject": {"200": 3, "206": 1, "404": 1},
        "HeadObject": {"200": 1},
        "PutObject": {"200": 1},
    }
    assert stats["methods"] == {"GET": 5, "HEAD": 1, "PUT": 1}
    assert stats["requests"] == 7
    assert stats["faults"] == {}
    assert stats["bytes_received"] >= 500
    assert 3100 < stats["bytes_sent"] < 3100 + 1000  # and the error document
    assert stats["connections"]["open"] >= 1
    assert stats["uptime_s"] > 0
    log = server.log()
    assert [(e["call"], e.get("key"), e["status"]) for e in log] == [
        ("GetObject", "k", 200),
        ("GetObject", "k", 200),
        ("GetObject", "k", 200),
        ("GetObject", "k", 206),
        ("HeadObject", "k", 200),
        ("PutObject", "new", 200),
        ("GetObject", "missing", 404),
    ]
    assert [e["sent"] for e in log[:6]] == [1000, 1000, 1000, 100, 0, 0]
    assert (log[3]["range"], log[3]["bucket"]) == ("bytes=0-99", "bucket")
    assert server.log(after=log[5]["number"]) == log[6:]
    with urllib.request.urlopen(server.url + "/-/stats?reset", timeout=10) as answer:
        assert json.load(answer)["requests"] == 7
    after = server.stats()
    assert (after["requests"], after["bytes_sent"], after["calls"]) == (0, 0, {})
    assert server.log() == []
    assert after["last_number"] == 7


def test_the_log_keeps_the_last_requests(serve, bucket_dir):
    server = serve(bucket_dir, "--log-size", "10")
    s3 = client(server)
    for i in range(25):
        s3.put_object(Bucket="bucket", Key=f"k{i}", Body=b"")
    assert [e["key"] for e in server.log()] == [f"k{i}" for i in range(15, 25)]
    assert server.stats()["last_number"] == 25


def test_an_answer_is_counted_before_the_client_has_it(serve, bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(b"x" * 100_000)
    server = serve(bucket_dir)
    for n in range(1, 50):
        with urllib.request.urlopen(server.url + "/bucket/k", timeout=10) as answer:
            answer.read()
        assert (server.stats()["requests"], server.stats()["bytes_sent"]) == (n, n * 100_000)


def test_keys_that_are_no_text_are_logged(serve, bucket_dir):
    server = serve(bucket_dir)
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(server.url + "/bucket/%FF%00%C3%BC", timeout=10)
    assert server.log()[0]["key_encoded"] == "%FF%00%C3%BC"


def test_help_names_every_option(run_leat):
    text = run_leat("serve", "--help", status=0).stdout
    for option in ["--latency", "--fault", "--access-key", "--tls-self-signed", "--region", "--seed", "/-/stats"]:
        assert option in text
