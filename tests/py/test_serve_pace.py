"""`leat serve`: latency and bandwidth are what they are said to be."""

import http.client
import os
import socket
import threading
import time

import pytest

MB = 1_000_000
pytestmark = pytest.mark.alone  # a server's pace is compared with the clock


SANITIZED = bool(os.environ.get("LEAT_SANITIZE"))


def holds(measure, seconds, rel=0.02):
    """Never faster than allowed; and no slower, in the best of a few tries, since other work may hold this one up."""
    best = float("inf")
    for _ in range(5):
        took = measure()
        assert took >= seconds * (1 - rel), f"{took} s instead of {seconds} s"
        best = min(best, took)
        if best <= seconds * (1 + rel):
            return
    assert best <= seconds * (3 if SANITIZED else 1 + rel), f"{best} s instead of {seconds} s"


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
    holds(lambda: fetch(server, "/bucket/big"), 2.0)


def test_connections_share_the_bandwidth_evenly(serve, folder):
    server = serve(folder, "--bandwidth", "20MB/s")
    ends = []

    def share():
        out = []
        took = together([lambda: fetch(server, "/bucket/middle", out) for _ in range(5)])
        assert sum(got for got, _, _ in out) == 50 * MB
        ends.append(min(t for _, _, t in out) / took)
        return took

    holds(share, 2.5)
    # all began together and had the same to fetch: they end together
    assert max(ends) > (0.5 if SANITIZED else 0.9)


def test_each_connection_has_its_own_limit(serve, folder):
    server = serve(folder, "--connection-bandwidth", "5MB/s")
    holds(lambda: together([lambda: fetch(server, "/bucket/middle") for _ in range(4)]), 2.0)


def test_both_limits_hold(serve, folder):
    server = serve(folder, "--connection-bandwidth", "5MB/s", "--bandwidth", "8MB/s")
    holds(lambda: together([lambda: fetch(server, "/bucket/middle") for _ in range(2)]), 20 / 8)


def test_uploads_are_paced_too(serve, folder):
    server = serve(folder, "--bandwidth", "10MB/s")

    def put():
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        began = time.monotonic()
        connection.request("PUT", "/bucket/up", body=b"x" * (20 * MB))
        assert connection.getresponse().status == 200
        connection.close()
        return time.monotonic() - began

    holds(put, 2.0, 0.03)


def test_an_idle_line_saves_nothing_up(serve, folder):
    server = serve(folder, "--bandwidth", "10MB/s")

    def after_a_pause():
        fetch(server, "/bucket/tiny")
        time.sleep(1)
        return fetch(server, "/bucket/middle")

    holds(after_a_pause, 1.0, 0.03)


def test_every_answer_waits_for_the_latency_once(serve, folder):
    server = serve(folder, "--latency", "100ms")
    for path in ["/bucket/tiny", "/bucket/missing", "/bucket?list-type=2", "/", "/none/x"]:
        times = [fetch(server, path) for _ in range(3)]
        assert min(times) >= 0.1
        assert min(times) < 0.19
    # others wait at the same time, not one after the other
    assert together([lambda: fetch(server, "/bucket/tiny") for _ in range(30)]) < 2.0


def test_the_first_byte_waits_and_the_rest_is_paced(serve, folder):
    server = serve(folder, "--latency", "200ms", "--bandwidth", "10MB/s")
    out = []
    holds(lambda: fetch(server, "/bucket/middle", out), 1.2, 0.03)
    assert min(first for _, first, _ in out) >= 0.2


def test_it_ends_at_once_while_answers_wait(serve, folder):
    server = serve(folder, "--latency", "60s", "--bandwidth", "1KB/s")
    sockets = []
    for _ in range(4):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        s.sendall(b"GET /bucket/big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sockets.append(s)
    time.sleep(0.3)
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 2
    for s in sockets:
        s.close()
