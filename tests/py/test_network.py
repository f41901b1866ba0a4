"""Names, certificates, proxies and clocks: what lies between Leat and a bucket."""

import base64
import json
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sigv4a
from command_tools import one_line, some_bytes, wait_until
from conftest import SANITIZE, assert_no_report
from faulty_server import garbage, stalled, status

HERE = Path(__file__).parent

CA_CONFIG = """
[ca]
default_ca = it
[it]
new_certs_dir = .
database = index
serial = serial
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[names]
subjectAltName = $ENV::NAMES
"""


class Certificates:
    """A certificate authority in a folder, and what it has signed."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "config").write_text(CA_CONFIG)
        (folder / "index").touch()
        (folder / "serial").write_text("01")
        self.ca = folder / "ca.pem"
        self.key = folder / "key.pem"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650")
        self.good = self.sign("good", "IP:127.0.0.1,DNS:localhost")
        self.wrong_host = self.sign("wrong", "DNS:elsewhere.example")
        self.expired = self.sign("expired", "IP:127.0.0.1", end="20200101000000Z")
        self.self_signed = self.ca

    def openssl(self, *args, names="DNS:x"):
        args = list(args)
        if args[0] == "req" and "-x509" in args:
            args += ["-keyout", "key.pem", "-out", "ca.pem", "-subj", "/CN=Leat test CA"]
        env = {**os.environ, "NAMES": names}
        subprocess.run(["openssl", *args], cwd=self.folder, env=env, check=True, capture_output=True)

    def sign(self, name, names, end="20991231000000Z"):
        self.openssl("req", "-new", "-key", "key.pem", "-subj", f"/CN={name}", "-out", f"{name}.csr")
        self.openssl(
            *["ca", "-batch", "-config", "config", "-cert", "ca.pem", "-keyfile", "key.pem", "-in", f"{name}.csr"],
            *["-out", f"{name}.pem", "-notext", "-extensions", "names"],
            *["-startdate", "20190101000000Z", "-enddate", end],
            names=names,
        )
        return self.folder / f"{name}.pem"

    def context(self, certificate):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, self.key)
        return context


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def secure(faulty, certificates):
    """secure("good") -> a server over TLS with one object."""

    def start(which):
        server = faulty(tls=certificates.context(getattr(certificates, which)))
        server.objects["bucket/key"] = some_bytes(100_000)
        return server

    return start


@pytest.mark.parametrize(
    "how", ["option", "folder", "LEAT_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"]
)
def test_a_certificate_of_a_named_authority_is_trusted(run_leat, secure, certificates, tmp_path, how):
    server = secure("good")
    options, env = [], server.env()
    if how == "option":
        options = ["--ca-bundle", certificates.ca]
    elif how in ("folder", "SSL_CERT_DIR"):
        (tmp_path / "certs").mkdir()
        (tmp_path / "certs" / "ca.pem").write_bytes(certificates.ca.read_bytes())
        subprocess.run(["openssl", "rehash", tmp_path / "certs"], check=True, capture_output=True)
        if how == "folder":
            options = ["--ca-bundle", tmp_path / "certs"]
        else:
            env.update({"SSL_CERT_FILE": None, how: tmp_path / "certs"})
    else:
        env[how] = certificates.ca
    done = run_leat("cat", *options, "s3://bucket/key", env=env, text=False, status=0)
    assert done.stdout == server.objects["bucket/key"]


@pytest.mark.parametrize(
    ("which", "trusted", "word"),
    [
        ("good", False, "certificate"),
        ("self_signed", False, "self"),
        ("wrong_host", True, "match"),
        ("expired", True, "expired"),
    ],
)
def test_a_wrong_certificate_ends_it_with_nothing_sent(run_leat, secure, certificates, which, trusted, word):
    server = secure(which)
    options = ["--ca-bundle", certificates.ca] if trusted else []
    done = run_leat("cat", *options, "s3://bucket/key", env=server.env(), status=4)
    one_line(done, "s3://bucket/key", "certificate", word)
    assert server.requests == [], "no fallback, no retry without the check"
    assert server.connections == 1
    done = run_leat("cat", *options, f"{server.url}/bucket/key", status=4)
    assert server.requests == []


def test_a_server_without_tls_where_tls_was_meant_is_refused(run_leat, faulty):
    server = faulty()
    server.objects["bucket/key"] = b"x"
    env = {**server.env(), "AWS_ENDPOINT_URL": server.url.replace("http:", "https:")}
    done = run_leat("cat", "s3://bucket/key", env=env, status=4)
    one_line(done, "s3://bucket/key", "does not speak TLS", "AWS_ENDPOINT_URL")
    assert server.requests == []


def test_a_tls_connection_that_breaks_is_tried_again(run_leat, secure, certificates):
    server = secure("good")
    server.fault(garbage(b""), times=2)
    done = run_leat("cat", "--ca-bundle", certificates.ca, "s3://bucket/key", env=server.env(), text=False, status=0)
    assert done.stdout == server.objects["bucket/key"]


def test_a_missing_or_broken_bundle_is_said(run_leat, secure, tmp_path):
    server = secure("good")
    (tmp_path / "junk").write_text("not a certificate")
    one_line(run_leat("cat", "--ca-bundle", "/none", "s3://bucket/key", env=server.env(), status=3), "/none")
    one_line(run_leat("cat", "--ca-bundle", tmp_path / "junk", "s3://bucket/key", env=server.env(), status=4), "junk")
    assert server.requests == []


# Proxies


def tunnel(exchange):
    """CONNECT: passes bytes on in both directions."""
    host, port = exchange.request.target.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as there:
        exchange.send(b"HTTP/1.1 200 Connected\r\nX-Proxy: yes\r\nETag: proxy\r\n\r\n")
        here = exchange.connection
        while not exchange.server.stopping:
            ready, _, _ = select.select([here, there], [], [], 0.1)
            for side in ready:
                data = side.recv(65536)
                if not data:
                    exchange.keep = False
                    return
                (there if side is here else here).sendall(data)
    exchange.keep = False


def test_requests_go_through_the_proxy_named(run_leat, faulty):
    proxy = faulty()
    proxy.objects["bucket/key"] = some_bytes(1000)
    env = {**proxy.env(), "AWS_ENDPOINT_URL": "http://storage.invalid:9000", "http_proxy": proxy.url}
    done = run_leat("cat", "s3://bucket/key", env=env, text=False, status=0)
    assert done.stdout == proxy.objects["bucket/key"]
    assert {r.target for r in proxy.requests} == {"http://storage.invalid:9000/bucket/key"}
    assert {r.headers["host"] for r in proxy.requests} == {"storage.invalid:9000"}


def test_what_no_proxy_names_is_asked_directly(run_leat, faulty):
    proxy, server = faulty(), faulty()
    server.objects["bucket/key"] = b"direct"
    env = {**server.env(), "http_proxy": proxy.url, "no_proxy": "example.com,127.0.0.1"}
    assert run_leat("cat", "s3://bucket/key", env=env, status=0).stdout == "direct"
    assert proxy.requests == []


def test_tls_goes_through_a_tunnel_and_the_proxy_sees_no_keys(run_leat, faulty, secure, certificates):
    proxy, server = faulty(), secure("good")
    proxy.fault(tunnel, method="CONNECT")
    env = {**server.env(), "https_proxy": proxy.url, "AWS_CA_BUNDLE": certificates.ca}
    done = run_leat("cat", "s3://bucket/key", env=env, text=False, status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert [r.method for r in proxy.requests] == ["CONNECT"]
    assert "authorization" not in proxy.requests[0].headers
    assert "authorization" in server.requests[0].headers


def test_a_multi_region_access_point_is_asked_with_signatures_for_all_regions(run_leat, faulty, certificates):
    """It has no other address than AWS's own, so the tunnel leads elsewhere than it says."""
    host = "mfzwi23gnjvgw.mrap.accesspoint.s3-global.amazonaws.com"
    proxy = faulty()
    server = faulty(tls=certificates.context(certificates.sign("mrap", f"DNS:{host}")))
    server.objects["a/key ü"] = some_bytes(1000)

    def lead(exchange):
        assert exchange.request.target == f"{host}:443"
        exchange.request.target = f"127.0.0.1:{server.port}"
        tunnel(exchange)

    proxy.fault(lead, method="CONNECT")
    env = {
        "https_proxy": proxy.url,
        "AWS_CA_BUNDLE": certificates.ca,
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "a-secret-key",
        "AWS_SESSION_TOKEN": "a-token",
    }
    url = "s3://arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap/a/key ü"
    assert run_leat("cat", url, env=env, text=False, status=0).stdout == server.objects["a/key ü"]
    for r in server.requests:
        canonical = sigv4a.canonical_of(r, host)
        assert r.headers["x-amz-region-set"] == "*"
        assert sigv4a.holds(
            "AKIAEXAMPLE", "a-secret-key", r.headers["x-amz-date"], canonical, r.headers["authorization"]
        )
    assert [r.method for r in server.requests] == ["HEAD", "GET"]


def test_a_proxy_that_is_not_there_is_named(run_leat, faulty):
    server = faulty()
    server.objects["bucket/key"] = b"x"
    env = {**server.env(), "http_proxy": "http://127.0.0.1:1"}
    one_line(run_leat("cat", "s3://bucket/key", env=env, status=5), "port 1 ", "a proxy is set by http_proxy")
    one_line(run_leat("cat", f"{server.url}/bucket/key", env=env, status=5), "a proxy is set by http_proxy")
    env = {**server.env(), "AWS_ENDPOINT_URL": "https://127.0.0.1:2", "http_proxy": "http://127.0.0.1:1"}
    done = run_leat("cat", "s3://bucket/key", env=env, status=5)
    assert "a proxy is set" not in done.stderr, "it is none for https"


def test_a_proxy_that_refuses_is_an_error(run_leat, faulty, secure, certificates):
    proxy, server = faulty(), secure("good")
    proxy.fault(status(403, headers={"Proxy-Nope": "1"}), method="CONNECT")
    env = {**server.env(), "https_proxy": proxy.url, "AWS_CA_BUNDLE": certificates.ca}
    done = run_leat("cat", "s3://bucket/key", env=env, status=5)
    one_line(done, "s3://bucket/key", "403")
    assert server.connections == 0


def guarded(exchange):
    """A proxy for those who know the password."""
    if exchange.request.headers.get("proxy-authorization") != "Basic " + base64.b64encode(b"ann:s3same@%").decode():
        status(407, headers={"Proxy-Authenticate": 'Basic realm="x"'})(exchange)
    elif exchange.request.method == "CONNECT":
        tunnel(exchange)
    else:
        exchange.server.proper(exchange)


KNOWN = "ann:s3same%40%25@"


def test_a_proxy_is_told_who_asks(run_leat, faulty, secure, certificates):
    proxy, server = faulty(), secure("good")
    proxy.objects["bucket/key"] = server.objects["bucket/key"] = b"hello"
    proxy.fault(guarded)
    named = proxy.url.replace("//", "//" + KNOWN)
    plain = {**proxy.env(), "AWS_ENDPOINT_URL": "http://storage.invalid:9000", "http_proxy": named}
    assert run_leat("cat", "s3://bucket/key", env=plain).stdout == "hello"
    secret = {**server.env(), "https_proxy": named, "AWS_CA_BUNDLE": certificates.ca}
    assert run_leat("cat", "s3://bucket/key", env=secret).stdout == "hello"
    assert "proxy-authorization" not in server.requests[0].headers
    assert run_leat("cat", "s3://bucket/key", env={**server.env(), **secret, "NO_PROXY": "127.0.0.1"}).stdout == "hello"
    assert [r.method for r in proxy.requests].count("CONNECT") == 1


@pytest.mark.parametrize("who", ["", "ann:wr0ng@", "eve@"])
def test_a_proxy_that_wants_a_password_says_so_at_once(run_leat, faulty, secure, certificates, who):
    proxy, server = faulty(), secure("good")
    proxy.objects["bucket/key"] = b"hello"
    proxy.fault(guarded)
    named = proxy.url.replace("//", "//" + who)
    plain = {**proxy.env(), "AWS_ENDPOINT_URL": "http://storage.invalid:9000", "http_proxy": named}
    secret = {**server.env(), "https_proxy": named, "AWS_CA_BUNDLE": certificates.ca}
    for env, variable in ((plain, "http_proxy"), (secret, "https_proxy")):
        before = len(proxy.requests)
        done = run_leat("cat", "s3://bucket/key", env=env, status=4)
        one_line(done, variable, "407", "USER:PASSWORD")
        assert "wr0ng" not in done.stderr
        assert len(proxy.requests) == before + 1


@pytest.mark.parametrize(
    "proxy", ["gopher://ann:s3same@127.0.0.1:1", "http://ann:s3same@127.0.0.1:x", "http://ann:s3same@"]
)
def test_a_password_in_a_proxys_broken_address_is_not_shown(run_leat, faulty, proxy):
    env = {**faulty().env(), "http_proxy": proxy}
    done = run_leat("cat", "s3://bucket/key", env=env)
    assert done.returncode != 0
    assert "http_proxy" in done.stderr
    assert "s3same" not in done.stderr


# Names


def can_box():
    command = ["unshare", "-rmn", "sh", "-c", "ip link set lo up && mount --bind /etc/hosts /etc/resolv.conf"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


boxed = pytest.mark.skipif(not can_box(), reason="no namespaces here in which files of /etc can be replaced")


def in_box(scenario, leat_bin, tmp_path):
    command = ["unshare", "-rmn", sys.executable, str(HERE / "dns_box.py"), scenario, str(leat_bin), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert_no_report(scenario, result["status"], result["stderr"])
    return result


@boxed
def test_a_name_server_that_fails_for_a_while_is_not_noticed(leat_bin, tmp_path):
    result = in_box("recovers", leat_bin, tmp_path)
    assert result["status"] == 0, result
    assert result["right"]
    assert result["stderr"] == ""


@boxed
def test_a_host_that_comes_back_under_another_address_is_found(leat_bin, tmp_path):
    result = in_box("moved", leat_bin, tmp_path)
    assert result["status"] == 0, result
    assert result["right"]
    assert result["first"] == ["HEAD", "GET"]
    assert result["second"] == [["GET", [1000, 102399]]]


@boxed
def test_ctrl_c_does_not_wait_for_a_silent_name_server(leat_bin, tmp_path):
    result = in_box("silent", leat_bin, tmp_path)
    assert result["status"] == 130, result


@boxed
def test_an_unknown_host_is_said_by_name(leat_bin, tmp_path):
    result = in_box("unknown", leat_bin, tmp_path)
    assert result["status"] == 5, result
    assert "bucket.test" in result["stderr"]


# Clocks


@pytest.mark.skipif(SANITIZE != "", reason="the sanitizer's runtime must be loaded first")
@pytest.mark.parametrize("step_s", [-86400 * 3650, 86400 * 3650])
def test_a_wall_clock_that_steps_reaches_no_deadline(leat_bin, leat_build, clean_env, faulty, tmp_path, step_s):
    """The clock jumps by ten years in the middle of a transfer: nothing times out, and nothing waits for ten years."""
    server = faulty()
    server.objects["bucket/key"] = some_bytes(300_000)
    (tmp_path / "clock").write_text("0")
    arrived = threading.Event()
    go_on = threading.Event()

    def pausing(exchange):
        code, headers, body = exchange.object_part()
        exchange.head(code, {**headers, "Content-Length": len(body)})
        exchange.send(body[:100_000])
        arrived.set()
        go_on.wait(60)
        for at in range(100_000, len(body), 10_000):  # long enough for a timer to look at the clock again
            exchange.send(body[at : at + 10_000])
            time.sleep(0.02)

    server.fault(pausing, times=1, method="GET")
    server.fault(stalled(1000), times=1, method="GET", after=1)
    env = {
        **clean_env,
        **server.env(),
        "LD_PRELOAD": str(leat_build / "tests" / "unit" / "libstep_clock.so"),
        "STEP_CLOCK": str(tmp_path / "clock"),
    }
    command = [str(leat_bin), "cat", "--timeout", "60s", "--inactivity", "30s", "s3://bucket/key"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert arrived.wait(60)
        (tmp_path / "clock").write_text(str(step_s))
        go_on.set()
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert stdout == server.objects["bucket/key"]
    assert server.count("GET") == 1, "nothing was tried again"


@pytest.mark.skipif(SANITIZE != "", reason="the sanitizer's runtime must be loaded first")
def test_the_clock_is_corrected_again_when_it_steps_during_the_run(leat_bin, leat_build, clean_env, faulty, tmp_path):
    server = faulty()
    for n in range(3):
        server.objects[f"bucket/{n}"] = some_bytes(1000, n)
    (tmp_path / "clock").write_text("0")

    def skewed(request):
        stamp = time.strptime(request.headers["x-amz-date"] + " UTC", "%Y%m%dT%H%M%SZ %Z")
        return abs(time.mktime(stamp) - time.timezone - time.time()) > 900

    def step(exchange):
        (tmp_path / "clock").write_text("-7200")
        exchange.server.proper(exchange)

    server.fault(status(403, "RequestTimeTooSkewed"), match=skewed)
    server.fault(step, key="bucket/1", method="GET", times=1)
    env = {
        **clean_env,
        **server.env(),
        "LD_PRELOAD": str(leat_build / "tests" / "unit" / "libstep_clock.so"),
        "STEP_CLOCK": str(tmp_path / "clock"),
    }
    command = [str(leat_bin), "cat", "s3://bucket/0", "s3://bucket/1", "s3://bucket/2"]
    done = subprocess.run(command, env=env, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"".join(server.objects[f"bucket/{n}"] for n in range(3))
    assert done.stderr.count(b"clock") == 1
    wait_until(lambda: server.count() >= 7, "the requests")
