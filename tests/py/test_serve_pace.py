"""`leat serve`: latency and bandwidth are what they are said to be."""

import http.client
import socket
import statistics
import threading
import time

import pytest

MB = 1_000_000


def fetch(server, path, out=None):
    """Seconds for one GET (bytes are thrown away as they come)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    began = time.monotonic()
    connection.request("GET", path)
    answer = connection.getresponse()
    first = time.monotonic() - began
    buffer = bytearray(1 << 18)
    got = 0
    while n := answer.readinto(buffer):
        got += n
    took = time.monotonic() - began
    connection.close()
    if out is not None:
        out.append((got, first, took))
    return took


def together(jobs):
    threads = [threading.Thread(target=job) for job in jobs]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began


@pytest.fixture
def folder(bucket_dir):
    for name, size in [("big", 40 * MB), ("middle", 10 * MB), ("tiny", 10)]:
        with open(bucket_dir / "bucket" / name, "wb") as f:
            f.truncate(size)
    return bucket_dir


def test_one_connection_gets_the_whole_bandwidth_and_no_more(serve, folder):
    server = serve(folder, "--bandwidth", "20MB/s")
    took = fetch(server, "/bucket/big")
    assert took == pytest.approx(2.0, rel=0.02)


def test_connections_share_the_bandwidth_evenly(serve, folder):
    server = serve(folder, "--bandwidth", "20MB/s")
    out = []
    took = together([lambda: fetch(server, "/bucket/middle", out) for _ in range(5)])
    assert sum(got for got, _, _ in out) == 50 * MB
    assert took == pytest.approx(2.5, rel=0.02)
    # all began together and had the same to fetch: they end together
    assert min(t for _, _, t in out) > 0.9 * took


def test_each_connection_has_its_own_limit(serve, folder):
    server = serve(folder, "--connection-bandwidth", "5MB/s")
    out = []
    took = together([lambda: fetch(server, "/bucket/middle", out) for _ in range(4)])
    assert took == pytest.approx(2.0, rel=0.03)
    assert min(t for _, _, t in out) == pytest.approx(2.0, rel=0.03)


def test_both_limits_hold(serve, folder):
    server = serve(folder, "--connection-bandwidth", "5MB/s", "--bandwidth", "8MB/s")
    took = together([lambda: fetch(server, "/bucket/middle") for _ in range(2)])
    assert took == pytest.approx(20 / 8, rel=0.03)


def test_uploads_are_paced_too(serve, folder):
    server = serve(folder, "--bandwidth", "10MB/s")

    def put():
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("PUT", "/bucket/up", body=b"x" * (20 * MB))
        assert connection.getresponse().status == 200
        connection.close()

    began = time.monotonic()
    put()
    assert time.monotonic() - began == pytest.approx(2.0, rel=0.05)


def test_an_idle_line_saves_nothing_up(serve, folder):
    server = serve(folder, "--bandwidth", "10MB/s")
    fetch(server, "/bucket/tiny")
    time.sleep(1)
    assert fetch(server, "/bucket/middle") == pytest.approx(1.0, rel=0.03)


def test_every_answer_waits_for_the_latency_once(serve, folder):
    server = serve(folder, "--latency", "100ms")
    times = []
    for path in ["/bucket/tiny", "/bucket/missing", "/bucket?list-type=2", "/", "/none/x"]:
        times.append(fetch(server, path))
    assert min(times) >= 0.1
    assert statistics.median(times) < 0.15
    # others wait at the same time, not one after the other
    assert together([lambda: fetch(server, "/bucket/tiny") for _ in range(30)]) < 1.0


def test_the_first_byte_waits_and_the_rest_is_paced(serve, folder):
    server = serve(folder, "--latency", "200ms", "--bandwidth", "10MB/s")
    out = []
    fetch(server, "/bucket/middle", out)
    _, first, took = out[0]
    assert 0.2 <= first < 0.4
    assert took == pytest.approx(1.2, rel=0.03)


def test_it_ends_at_once_while_answers_wait(serve, folder):
    server = serve(folder, "--latency", "60s", "--bandwidth", "1KB/s")
    sockets = []
    for _ in range(4):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        s.sendall(b"GET /bucket/big HTTP/1.1\r\nHost: x\r\n\r\n")
        sockets.append(s)
    time.sleep(0.3)
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 2
    for s in sockets:
        s.close()
