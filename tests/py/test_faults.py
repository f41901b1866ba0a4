"""What a bucket and a network can do wrong, and what is promised for it: real sockets, the real command."""

import random
import resource
import signal
import subprocess
import time

import pytest
from conftest import SANITIZE, assert_no_report
from faulty_server import (
    black_hole,
    changed,
    dripping,
    garbage,
    reset,
    reset_after,
    stalled,
    status,
    truncated,
)
from loading import wait_until

MIB = 1 << 20


def some_bytes(n, seed=1):
    return random.Random(seed).randbytes(n)


@pytest.fixture
def server(faulty):
    """A faulty server with one object."""
    s = faulty()
    s.objects["bucket/key"] = some_bytes(200_000)
    return s


@pytest.fixture
def cat(run_leat, server):
    """cat("--attempts", "3") -> CompletedProcess of `leat cat s3://bucket/key`, with bytes in stdout."""

    def run(*options, url="s3://bucket/key", env=None, **more):
        return run_leat("cat", *options, url, env={**server.env(), **(env or {})}, text=False, **more)

    return run


def assert_one_line(done, *words):
    """The error is one line that begins with "leat: " and holds the words."""
    text = done.stderr.decode(errors="replace") if isinstance(done.stderr, bytes) else done.stderr
    lines = text.splitlines()
    assert len(lines) == 1, text
    assert lines[0].startswith("leat: "), text
    for word in words:
        assert word in lines[0], text


def test_a_healthy_server_gets_one_request_for_what_is_asked(server, cat):
    done = cat(status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert (server.count("HEAD"), server.count("GET")) == (1, 1)
    assert server.of("GET")[0].headers["if-match"] == server.etag("bucket/key")


@pytest.mark.parametrize(("code", "name"), [(503, "SlowDown"), (500, "InternalError"), (502, ""), (429, "")])
def test_passing_server_errors_are_retried_and_not_seen(server, cat, code, name):
    server.fault(status(code, name), times=3, method="GET")
    done = cat(status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert done.stderr == b""
    assert server.count("GET") == 4


def test_an_answer_without_a_body_is_explained_all_the_same(server, cat):
    server.fault(status(503), method="HEAD")
    assert_one_line(
        cat("--attempts", 2, status=5), "s3://bucket/key", "the server asks to slow down (503) (2 attempts)"
    )


@pytest.mark.parametrize(("code", "name"), [(503, "SlowDown"), (500, "InternalError")])
def test_lasting_server_errors_end_after_the_attempts_allowed(server, cat, code, name):
    server.fault(status(code, name), method="GET")
    done = cat("--attempts", 4, status=5)
    assert done.stdout == b""
    assert server.count("GET") == 4
    assert_one_line(done, "s3://bucket/key", "4 attempts", str(code))


def test_a_server_that_asks_for_a_pause_gets_it(server, cat):
    server.fault(status(503, "SlowDown", headers={"Retry-After": "1"}), times=1, method="GET")
    cat(status=0)
    first, second = server.of("GET")
    assert second.at - first.at >= 0.95


def test_an_error_document_under_200_is_never_taken_for_the_object(server, cat):
    server.fault(status(200, "InternalError"), times=2, method="GET")
    done = cat(status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert server.count("GET") == 3
    server.fault(status(200, "InternalError"), method="GET")
    done = cat("--attempts", 2, status=5)
    assert done.stdout == b""


def test_an_error_document_under_200_for_a_list_is_asked_for_again(run_leat, server):
    server.fault(status(200, "InternalError", "We had a hiccup"), times=2, match=lambda r: "list-type" in r.query)
    done = run_leat("ls", "--json", "-r", "s3://bucket", env=server.env(), status=0)
    assert '"key":"key"' in done.stdout
    server.fault(status(200, "AccessDenied", "Not yours"), match=lambda r: "list-type" in r.query)
    before = server.count("GET")
    done = run_leat("ls", "-r", "s3://bucket", env=server.env(), status=4)
    assert_one_line(done, "Not yours")
    assert server.count("GET") == before + 1


def test_a_truncated_body_is_resumed_and_only_the_rest_is_asked_for(server, cat):
    size = len(server.objects["bucket/key"])
    server.fault(truncated(50_000), times=1, method="GET")
    server.fault(reset_after(70_000), times=1, method="GET")
    done = cat(status=0)
    assert done.stdout == server.objects["bucket/key"]
    ranges = [r.range for r in server.of("GET")]
    assert len(ranges) == 3
    assert ranges[0] == (0, size - 1)
    assert ranges[1] == (50_000, size - 1)
    # After a reset the kernel may have thrown away what was not read yet, but nothing is asked for twice.
    assert 50_000 <= ranges[2][0] <= 120_000
    assert all(last == size - 1 for _, last in ranges)


def test_a_truncated_answer_without_a_length_is_noticed(server, cat):
    def close_delimited(exchange):
        code, headers, body = exchange.object_part()
        exchange.head(code, headers)
        exchange.send(body[:1000])
        exchange.close()

    server.fault(close_delimited, times=1, method="GET")
    done = cat(status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert server.of("GET")[1].range[0] == 1000


@pytest.mark.parametrize(("before", "after"), [(b"zz\r\n", b""), (b"10\r\n", b""), (b"5\r\n", b"XX3\r\n")])
def test_a_broken_chunked_answer_is_tried_again(server, cat, before, after):
    def broken(exchange):
        code, headers, body = exchange.object_part()
        exchange.head(code, {**headers, "Transfer-Encoding": "chunked"})
        exchange.send(before + body[:5] + after)
        exchange.close()

    server.fault(broken, times=2, method="GET")
    assert cat(status=0).stdout == server.objects["bucket/key"]


def other_range(code, headers, body):
    return code, {**headers, "Content-Range": "bytes 1-200000/200001"}, body


def no_range(code, headers, body):
    del headers["Content-Range"]
    return code, headers, body


def odd_range(code, headers, body):
    return code, {**headers, "Content-Range": "bytes zero-most/all"}, body


def less(code, headers, body):
    return code, {**headers, "Content-Range": f"bytes 0-99/{len(body)}"}, body[:100]


def more_than_said(code, headers, body):
    return code, {**headers, "Content-Range": f"bytes 0-99/{len(body)}"}, body


@pytest.mark.parametrize("edit", [other_range, no_range, odd_range, less, more_than_said])
def test_a_wrong_or_missing_content_range_is_refused_and_tried_again(server, cat, edit):
    server.fault(changed(edit), times=2, method="GET")
    done = cat(status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert done.stderr == b""
    server.fault(changed(edit), method="GET")
    done = cat("--attempts", 3, status=5)
    assert done.stdout == b""
    assert_one_line(done, "s3://bucket/key")


def test_a_length_that_lies_about_the_range_is_refused(server, cat):
    def longer(exchange):
        code, headers, body = exchange.object_part()
        exchange.head(code, {**headers, "Content-Length": len(body) + 10})
        exchange.send(body + b"0123456789")

    server.fault(longer, times=1, method="GET")
    assert cat(status=0).stdout == server.objects["bucket/key"]


def whole(exchange):
    exchange.request.headers.pop("range", None)
    exchange.server.proper(exchange)


def test_the_whole_object_in_answer_to_a_range_is_sliced_with_a_warning(server, cat):
    server.fault(whole, method="GET")
    done = cat("--offset", 1000, "--length", 500, status=0)
    assert done.stdout == server.objects["bucket/key"][1000:1500]
    assert_one_line(done, "warning", "whole")


def test_a_server_without_ranges_is_warned_about_once(server, cat):
    server.objects["bucket/key"] = some_bytes(40 * MIB)
    server.fault(whole, method="GET")
    done = cat("--offset", MIB, status=0)
    assert done.stdout == server.objects["bucket/key"][MIB:]
    assert_one_line(done, "warning", "whole")


def test_a_part_far_into_an_object_is_refused_when_the_server_has_no_ranges(server, cat):
    def huge(exchange):
        exchange.head(200, {"ETag": '"x"', "Content-Length": 1 << 40})
        if exchange.request.method == "GET":
            exchange.wait_gone()

    server.fault(huge)
    done = cat("--offset", "1TB", "--length", "10", status=2)
    assert done.stdout == b""
    assert server.count("GET") == 1
    assert_one_line(done, "ranges")


@pytest.mark.skipif(SANITIZE != "", reason="sanitizers need memory of their own")
def test_memory_stays_bounded_when_the_whole_object_comes_instead_of_a_range(server, cat):
    total = 200 * MIB

    def flood(exchange):
        exchange.head(200, {"ETag": '"x"', "Content-Length": total})
        if exchange.request.method == "GET":
            piece = bytes(MIB)
            for _ in range(total // MIB):
                exchange.send(piece)

    server.fault(flood)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = cat("--offset", 190 * MIB, "--length", 1000, status=0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert done.stdout == bytes(1000)
    assert after <= max(before, 60 * 1024), "kilobytes"


def careless(exchange):
    exchange.request.headers.pop("if-match", None)
    exchange.server.proper(exchange)


@pytest.mark.parametrize("ignores_if_match", [False, True])
@pytest.mark.parametrize("other", [some_bytes(200_000, seed=2), b"short"], ids=["same length", "shorter"])
def test_an_object_that_changed_is_an_error_and_versions_are_not_mixed(server, cat, other, ignores_if_match):
    def replace(exchange):
        truncated(50_000)(exchange)
        exchange.server.objects["bucket/key"] = other

    server.fault(replace, times=1, method="GET")
    if ignores_if_match:
        server.fault(careless, method="GET")
    done = cat(status=6)
    assert done.stdout == b""
    assert server.count("GET") == 2  # neither the 412 nor another length is tried again
    assert_one_line(done, "s3://bucket/key", "changed")


def test_a_missing_object_is_said_after_one_request(server, cat):
    done = cat(url="s3://bucket/none", status=3)
    assert len(server.requests) == 1
    assert_one_line(done, "s3://bucket/none", "no such object")


def test_an_object_that_vanishes_is_said_by_name(server, cat):
    server.fault(status(404, "NoSuchKey"), method="GET")
    done = cat(status=3)
    assert server.count("GET") == 1
    assert_one_line(done, "s3://bucket/key", "no such object")


def test_no_such_bucket_is_said_as_such(run_leat, server):
    server.fault(status(404, "NoSuchBucket"))
    done = run_leat("ls", "s3://nowhere", env=server.env(), status=3)
    assert_one_line(done, "nowhere", "no such bucket")


def test_a_reset_connection_is_retried(server, cat):
    server.fault(reset, times=2)
    done = cat(status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert done.stderr == b""


@pytest.mark.parametrize("fault", [black_hole, stalled(1000), dripping])
def test_silence_is_ended_by_the_inactivity_limit_and_tried_again(server, cat, fault):
    server.fault(fault, times=1, method="GET")
    done = cat("--inactivity", "1s", status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert done.stderr == b""
    assert server.count("GET") == 2
    first, second = server.of("GET")
    assert first.connection != second.connection


def test_a_lasting_black_hole_ends_with_a_timeout_error(server, cat):
    server.fault(black_hole)
    done = cat("--inactivity", "1s", "--attempts", 2, status=5)
    assert server.count("HEAD") == 2
    assert_one_line(done, "s3://bucket/key", "2 attempts")


def test_the_deadline_of_an_operation_holds_over_all_attempts(server, cat):
    server.fault(black_hole)
    done = cat("--timeout", "1500ms", status=5)
    assert_one_line(done, "s3://bucket/key")
    assert server.count() == 1, "the limit of 20 s for silence, after which another attempt begins, played no part"


def test_a_refused_connection_is_said_by_name(run_leat):
    done = run_leat("cat", "s3://bucket/key", env={"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, status=5)
    assert_one_line(done, "s3://bucket/key", "3 attempts", "refused", "127.0.0.1", "from AWS_ENDPOINT_URL")
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "LEAT_ENDPOINT_URL": "http://127.0.0.1:2"}
    assert_one_line(run_leat("cat", "s3://bucket/key", env=env, status=5), "port 2", "from --endpoint-url")


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"\0" * 100,
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: minus one\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 400_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Many: x\r\n" * 100_000 + b"\r\n",
    ],
    ids=["ssh", "no-code", "zeros", "nothing", "length", "long-header", "many-headers"],
)
def test_an_answer_that_is_not_http_is_a_server_or_network_error(server, cat, data):
    server.fault(garbage(data))
    done = cat("--attempts", 2)
    # Libraries before curl 8.6 call a head without end "out of memory".
    assert done.returncode in ((5, 7) if len(data) > 100_000 else (5,)), done.stderr
    assert done.stdout == b""
    assert_one_line(done, "s3://bucket/key")


def test_access_denied_is_one_request_and_says_where_the_keys_are_from(server, cat):
    server.fault(status(403, "AccessDenied", "Access Denied"), method="GET")
    done = cat(status=4)
    assert server.count("GET") == 1
    assert_one_line(done, "s3://bucket/key", "AWS_ACCESS_KEY_ID")
    assert b"test-secret" not in done.stderr


def test_access_denied_without_keys_says_that_there_were_none(run_leat, server):
    server.fault(status(403, "AccessDenied", "Access Denied."))
    done = run_leat("cat", "s3://bucket/key", env={"AWS_ENDPOINT_URL": server.url}, status=4)
    assert len(server.requests) == 1
    assert "authorization" not in server.requests[0].headers
    assert_one_line(done, "no keys were found")
    done = run_leat("ls", "--no-sign-request", "s3://bucket/key", env=server.env(), status=4)
    assert_one_line(done, "Access Denied; the request was anonymous, as --no-sign-request asks")


def skewed_beyond(limit_s):
    """Refuses what is signed more than so far from the server's clock, as S3 does."""

    def too_skewed(request):
        stamp = request.headers.get("x-amz-date")
        import calendar

        at = calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ"))
        return abs(at - too_skewed.server.now()) > limit_s

    return too_skewed


@pytest.mark.parametrize("offset_s", [-3600 * 5, 3600 * 5, 3600 * 24 * 400])
def test_a_skewed_clock_is_corrected_from_the_answer_and_signed_again(faulty, run_leat, offset_s):
    server = faulty(clock_offset=offset_s)
    server.objects["bucket/key"] = some_bytes(1000)
    match = skewed_beyond(900)
    match.server = server
    server.fault(status(403, "RequestTimeTooSkewed", "The difference is too large"), match=match)
    done = run_leat("cat", "s3://bucket/key", env=server.env(), text=False, status=0)
    assert done.stdout == server.objects["bucket/key"]
    # The first answer is to a HEAD and has no body that says why; its Date does.
    assert (server.count("HEAD"), server.count("GET")) == (2, 1)
    assert_one_line(done, "warning", "clock")
    done = run_leat("ls", "-r", "s3://bucket", env=server.env(), status=0)
    assert_one_line(done, "warning", "clock")


def test_a_server_that_calls_every_time_skewed_gets_two_requests(server, run_leat):
    server.clock_offset = 7200
    server.fault(status(403, "RequestTimeTooSkewed", "No"))
    done = run_leat("ls", "-r", "s3://bucket", env=server.env(), status=4)
    assert len(server.requests) == 2
    assert "leat: warning: " in done.stderr


def in_region(region):
    return lambda request: request.region not in (None, region)


@pytest.mark.parametrize(
    ("code", "name", "headers", "more"),
    [
        (301, "PermanentRedirect", {"x-amz-bucket-region": "eu-central-1"}, ""),
        (307, "TemporaryRedirect", {"x-amz-bucket-region": "eu-central-1"}, ""),
        (400, "AuthorizationHeaderMalformed", {"x-amz-bucket-region": "eu-central-1"}, ""),
        (400, "AuthorizationHeaderMalformed", {}, "<Region>eu-central-1</Region>"),
    ],
)
def test_a_bucket_in_another_region_is_signed_for_there_with_one_warning(server, run_leat, code, name, headers, more):
    for n in range(50):
        server.objects[f"bucket/many/{n:03}"] = b"x" * n
    headers = {**headers, "Location": "http://evil.invalid/steal"}
    server.fault(status(code, name, "elsewhere", headers, more), match=in_region("eu-central-1"))
    done = run_leat("ls", "-r", "s3://bucket", env=server.env(region="us-west-2"), status=0)
    assert [r.region for r in server.requests] == ["us-west-2", "eu-central-1"]
    assert "$0.02 per GB" in done.stderr
    assert_one_line(done, "warning", "eu-central-1", "us-west-2")
    assert "evil" not in done.stderr


def test_many_requests_at_once_learn_of_the_region_with_one_warning(server, run_leat, tmp_path):
    for n in range(60):
        server.objects[f"bucket/many/{n:03}"] = b"x" * (n + 1)
    server.fault(
        status(301, "PermanentRedirect", headers={"x-amz-bucket-region": "eu-central-1"}),
        match=lambda r: "list-type" not in r.query and r.region != "eu-central-1",
    )
    done = run_leat(
        "cp", "-r", "-q", "s3://bucket/many", tmp_path / "out", env=server.env(region="us-west-2"), status=0
    )
    assert len(list((tmp_path / "out").iterdir())) == 60
    assert_one_line(done, "warning", "eu-central-1")


def test_a_redirect_goes_to_no_host_that_the_answer_names(server, faulty, run_leat):
    thief = faulty()
    thief.objects = server.objects
    server.fault(status(307, "TemporaryRedirect", headers={"Location": thief.url + "/bucket/key"}))
    done = run_leat("cat", "s3://bucket/key", env=server.env(), status=2)
    assert thief.requests == []
    assert len(server.requests) == 1
    assert_one_line(done, "region")


@pytest.mark.parametrize("region", ["a.evil.example/x?", "eu west", "../up", "a.b", "x@y"])
def test_a_region_that_cannot_be_one_is_not_taken_from_an_answer(server, run_leat, region):
    server.fault(status(301, "PermanentRedirect", headers={"x-amz-bucket-region": region}))
    done = run_leat("cat", "s3://bucket/key", env=server.env(), status=2)
    assert len(server.requests) == 1
    assert_one_line(done, "s3://bucket/key")


def test_a_web_server_that_redirects_is_not_followed_and_is_quoted(server, faulty, run_leat):
    other = faulty()
    server.fault(status(302, headers={"Location": other.url + "/there"}))
    done = run_leat("cat", server.url + "/bucket/key", status=2)
    assert other.requests == []
    assert_one_line(done, other.url + "/there")


@pytest.mark.parametrize(
    "command", [["cat", "s3://bucket/key"], ["ls", "s3://bucket/x/"], ["cp", "s3://bucket/key", "/tmp/never"]]
)
def test_ctrl_c_ends_a_wait_for_a_black_hole(server, leat_bin, clean_env, command):
    server.fault(black_hole)
    env = {**clean_env, **server.env()}
    process = subprocess.Popen([leat_bin, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: server.requests, what="a request")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert_no_report(command[0], process.returncode, stderr)
    assert process.returncode == 130, stderr
    assert len(stderr.splitlines()) == 1
    assert server.count() == 1, "it ended in its first wait"
