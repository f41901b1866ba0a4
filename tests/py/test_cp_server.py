"""Copies that a server makes by itself, seen from the server."""

import json

import pytest
from command_tools import one_line
from faulty_server import status

GIB = 1 << 30


@pytest.fixture
def server(faulty):
    s = faulty()
    s.objects["bucket/key"] = b"hello"
    s.objects["other/place"] = b""
    return s


def copied(server):
    return [r for r in server.requests if "x-amz-copy-source" in r.headers]


def answer_copy(exchange):
    exchange.answer(200, b'<CopyObjectResult><ETag>"5d41402abc4b2a76b9719d911017c592"</ETag></CopyObjectResult>')


def by_copy(request):
    return request.method == "PUT" and "x-amz-copy-source" in request.headers


def test_the_server_is_asked_and_the_source_held_to_its_etag(run_leat, server):
    server.fault(answer_copy, match=by_copy)
    run_leat("cp", "s3://bucket/key", "s3://other/new", env=server.env(), status=0)
    (request,) = copied(server)
    assert request.headers["x-amz-copy-source"] == "/bucket/key"
    assert request.headers["x-amz-copy-source-if-match"] == server.etag("bucket/key")
    assert "content-type" not in request.headers  # some servers would take it instead of the source's
    assert server.count("GET", "bucket/key") == 0


def test_a_copy_of_other_bytes_is_noticed(run_leat, server):
    wrong = b'<CopyObjectResult><ETag>"00000000000000000000000000000000"</ETag></CopyObjectResult>'
    server.fault(lambda exchange: exchange.answer(200, wrong), match=by_copy)
    one_line(run_leat("cp", "s3://bucket/key", "s3://other/new", env=server.env(), status=6), "not of the same bytes")


def test_an_error_under_200_is_one(run_leat, server):
    error = b"<Error><Code>InternalError</Code><Message>We had one</Message></Error>"
    server.fault(lambda exchange: exchange.answer(200, error), times=2, match=by_copy)
    server.fault(answer_copy, match=by_copy)
    run_leat("cp", "s3://bucket/key", "s3://other/new", env=server.env(), status=0)
    assert len(copied(server)) == 3


def test_a_source_that_changed_is_an_error(run_leat, server):
    server.fault(status(412, "PreconditionFailed"), match=by_copy)
    one_line(run_leat("cp", "s3://bucket/key", "s3://other/new", env=server.env(), status=6), "changed")


@pytest.mark.parametrize("through", [False, True])
def test_a_server_that_cannot_copy_gets_the_bytes_from_here(run_leat, server, through):
    server.fault(status(501, "NotImplemented"), match=by_copy)
    more = ["--through"] if through else []
    run_leat("cp", *more, "s3://bucket/key", "s3://other/new", env=server.env(), status=0)
    assert server.objects["other/new"] == b"hello"
    assert len(copied(server)) == (0 if through else 1)


def test_a_server_that_does_not_know_the_header_is_noticed(run_leat, server):
    # It takes the request for the put of an empty object.
    run_leat("cp", "s3://bucket/key", "s3://other/new", env=server.env(), status=0)
    assert server.objects["other/new"] == b"hello"
    assert len(copied(server)) == 1


def test_large_objects_are_copied_in_parts(run_leat, server):
    size = 6 * GIB + 5

    def head(exchange):
        exchange.head(200, {"ETag": '"abc"', "Content-Length": size, "x-amz-meta-who": "ann", "Content-Type": "a/b"})

    def part(exchange):
        number = exchange.request.query["partNumber"]
        exchange.answer(200, f'<CopyPartResult><ETag>"part{number}"</ETag></CopyPartResult>'.encode())

    def finish(exchange):
        exchange.answer(200, b'<CompleteMultipartUploadResult><ETag>"abc-13"</ETag></CompleteMultipartUploadResult>')

    server.fault(head, method="HEAD", key="bucket/key")
    server.fault(part, match=by_copy)
    server.fault(finish, method="POST", match=lambda r: "uploadId" in r.query)
    done = run_leat("cp", "--json", "s3://bucket/key", "s3://other/new", env=server.env(), status=0)
    assert json.loads(done.stdout)["bytes"] == size
    begun = next(r for r in server.requests if "uploads" in r.query)
    assert begun.headers["x-amz-meta-who"] == "ann"
    assert begun.headers["content-type"] == "a/b"
    ranges = []
    for request in copied(server):
        first, last = map(int, request.headers["x-amz-copy-source-range"][6:].split("-"))
        ranges.append((int(request.query["partNumber"]), first, last))
    ranges.sort()
    assert [r[0] for r in ranges] == list(range(1, len(ranges) + 1))
    assert ranges[0][1] == 0
    assert ranges[-1][2] == size - 1
    assert all(a[2] + 1 == b[1] for a, b in zip(ranges, ranges[1:], strict=False))
    assert server.count("GET", "bucket/key") == 0


@pytest.mark.parametrize("size", [5, 6 * GIB + 5])
def test_a_copy_whose_answer_was_lost_is_asked_for_again(run_leat, server, size):
    """Whole and in parts: to do it twice does no harm, so nothing has to be found out."""

    def head(exchange):
        exchange.head(200, {"ETag": '"abc"', "Content-Length": size})

    def copy(exchange):
        exchange.answer(200, b'<CopyResult><ETag>"abc"</ETag></CopyResult>')

    def finish(exchange):
        exchange.answer(200, b'<CompleteMultipartUploadResult><ETag>"abc-13"</ETag></CompleteMultipartUploadResult>')

    server.fault(head, method="HEAD", key="bucket/key")
    server.fault(lambda exchange: exchange.reset(), times=2, match=by_copy)
    server.fault(copy, match=by_copy)
    server.fault(finish, method="POST", match=lambda r: "uploadId" in r.query)
    run_leat("cp", "s3://bucket/key", "s3://other/new", env=server.env(), status=0)
    asked = [r.query.get("partNumber") for r in copied(server)]
    assert len(asked) == len(set(asked)) + 2
