"""`leat serve`: objects as boto3 sees them."""

import hashlib
import io
import os
import resource
from datetime import datetime, timezone

import pytest
from command_tools import wait_until
from s3 import all_keys, client, error_of

MIB = 1 << 20

# Keys that are no paths, that want the place of another, or that clients and servers like to escape differently.
ODD_KEYS = [
    "plain",
    "folder/file",
    "a",
    "a/b",
    "a/b/c",
    "a/",
    "a//b",
    "//",
    "/leading",
    "trailing/",
    ".",
    "..",
    "../up",
    "a/../b",
    "./here",
    ".leat-serve",
    ".leat-serve/keys/x",
    "space and+plus=equals&amp",
    "%41%2F",
    "percent%",
    "ünï/cödé/日本/🎈",
    "quote'\"<>\\",
    "tab\tand\nnewline",
    "nul\0inside",
    "x" * 255,
    "x" * 256,
    "y" * 1024,
    "z/" * 511 + "zz",
    "?query=1#fragment",
    "+",
    "~tilde",
    "C:\\windows",
]


@pytest.fixture
def server(serve, bucket_dir):
    return serve(bucket_dir)


@pytest.fixture
def s3(server):
    return client(server)


def test_every_key_comes_back_with_its_own_content(serve, bucket_dir):
    keys = ODD_KEYS
    s3 = client(serve(bucket_dir, "--access-key", "AK", "--secret-key", "SK/secret+"))
    for key in keys:
        s3.put_object(Bucket="bucket", Key=key, Body=b"content of " + key.encode())
    for key in keys:
        assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == b"content of " + key.encode(), key
    assert all_keys(s3, "bucket") == sorted(keys, key=str.encode)
    for i, key in enumerate(keys):
        s3.delete_object(Bucket="bucket", Key=key)
        if i % 8 == 0 or i > len(keys) - 4:
            assert all_keys(s3, "bucket") == sorted(keys[i + 1 :], key=str.encode), key
    assert os.listdir(bucket_dir) == ["bucket"]


def test_nothing_is_left_behind_when_everything_is_deleted(serve, bucket_dir):
    server = serve(bucket_dir)
    s3 = client(server)
    for key in ODD_KEYS:
        s3.put_object(Bucket="bucket", Key=key, Body=b"x")
    for key in ODD_KEYS:
        s3.delete_object(Bucket="bucket", Key=key)
    assert server.stop() == 0
    assert [path.name for path in bucket_dir.rglob("*")] == ["bucket"]


def test_ordinary_keys_are_ordinary_files(s3, bucket_dir):
    s3.put_object(Bucket="bucket", Key="train/cats/1.jpg", Body=b"meow")
    assert (bucket_dir / "bucket" / "train" / "cats" / "1.jpg").read_bytes() == b"meow"
    (bucket_dir / "bucket" / "dropped").write_bytes(b"in")
    assert s3.get_object(Bucket="bucket", Key="dropped")["Body"].read() == b"in"


def test_a_key_below_another_key_can_be_put_in_either_order(s3):
    for first, second in [("f", "f/g"), ("h/i", "h"), ("j/k/l", "j/k"), ("m", "m/n/o")]:
        s3.put_object(Bucket="bucket", Key=first, Body=b"1" + first.encode())
        s3.put_object(Bucket="bucket", Key=second, Body=b"2" + second.encode())
        assert s3.get_object(Bucket="bucket", Key=first)["Body"].read() == b"1" + first.encode()
        assert s3.get_object(Bucket="bucket", Key=second)["Body"].read() == b"2" + second.encode()
        s3.put_object(Bucket="bucket", Key=second, Body=b"3" + second.encode())
        s3.delete_object(Bucket="bucket", Key=first)
        s3.put_object(Bucket="bucket", Key=second, Body=b"4" + second.encode())
        assert s3.get_object(Bucket="bucket", Key=second)["Body"].read() == b"4" + second.encode()
        s3.delete_object(Bucket="bucket", Key=second)
        assert all_keys(s3, "bucket") == []


def test_symbolic_links_are_neither_followed_nor_listed(s3, bucket_dir, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(b"outside")
    (bucket_dir / "bucket" / "link").symlink_to(secret / "file")
    (bucket_dir / "bucket" / "folder").symlink_to(secret)
    (bucket_dir / "bucket" / "loop").symlink_to(".")
    assert all_keys(s3, "bucket") == []
    for key in ["link", "folder/file", "loop/loop/x"]:
        assert error_of(s3.get_object, Bucket="bucket", Key=key) == ("NoSuchKey", 404)
    s3.put_object(Bucket="bucket", Key="folder/new", Body=b"x")
    assert s3.get_object(Bucket="bucket", Key="folder/new")["Body"].read() == b"x"
    s3.put_object(Bucket="bucket", Key="link", Body=b"replaced")
    assert s3.get_object(Bucket="bucket", Key="link")["Body"].read() == b"replaced"
    assert sorted(os.listdir(secret)) == ["file"]
    assert (secret / "file").read_bytes() == b"outside"


def test_a_named_pipe_in_the_folder_does_not_hang_anybody(s3, bucket_dir):
    os.mkfifo(bucket_dir / "bucket" / "pipe")
    assert error_of(s3.get_object, Bucket="bucket", Key="pipe") == ("NoSuchKey", 404)
    assert all_keys(s3, "bucket") == []


@pytest.mark.parametrize(
    ("asked", "status", "expected", "content_range"),
    [
        ("bytes=0-9", 206, slice(0, 10), "bytes 0-9/1000"),
        ("bytes=990-", 206, slice(990, 1000), "bytes 990-999/1000"),
        ("bytes=-10", 206, slice(990, 1000), "bytes 990-999/1000"),
        ("bytes=-5000", 206, slice(0, 1000), "bytes 0-999/1000"),
        ("bytes=999-99999", 206, slice(999, 1000), "bytes 999-999/1000"),
        ("bytes=0-99999999999999999999999", 206, slice(0, 1000), "bytes 0-999/1000"),
        ("bytes=5-4", 200, slice(0, 1000), None),
        ("bytes=0-1,5-6", 200, slice(0, 1000), None),
        ("lines=0-1", 200, slice(0, 1000), None),
        ("bytes=", 200, slice(0, 1000), None),
    ],
)
def test_ranges(s3, asked, status, expected, content_range):
    body = bytes(i % 251 for i in range(1000))
    s3.put_object(Bucket="bucket", Key="k", Body=body)
    answer = s3.get_object(Bucket="bucket", Key="k", Range=asked)
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == status
    assert answer["Body"].read() == body[expected]
    assert answer.get("ContentRange") == content_range
    head = s3.head_object(Bucket="bucket", Key="k", Range=asked)
    assert head["ContentLength"] == len(body[expected])


@pytest.mark.parametrize("asked", ["bytes=1000-", "bytes=5000-6000", "bytes=-0"])
def test_ranges_outside_the_object_are_refused(s3, asked):
    s3.put_object(Bucket="bucket", Key="k", Body=b"x" * 1000)
    assert error_of(s3.get_object, Bucket="bucket", Key="k", Range=asked) == ("InvalidRange", 416)


def test_an_empty_object_has_no_range(s3):
    s3.put_object(Bucket="bucket", Key="k", Body=b"")
    answer = s3.get_object(Bucket="bucket", Key="k")
    assert (answer["ContentLength"], answer["Body"].read()) == (0, b"")
    assert error_of(s3.get_object, Bucket="bucket", Key="k", Range="bytes=0-0") == ("InvalidRange", 416)


def test_conditions_on_reading(s3):
    tag = s3.put_object(Bucket="bucket", Key="k", Body=b"x")["ETag"]
    get = {"Bucket": "bucket", "Key": "k"}
    assert s3.get_object(**get, IfMatch=tag)["Body"].read() == b"x"
    assert s3.get_object(**get, IfMatch="*")["Body"].read() == b"x"
    assert error_of(s3.get_object, **get, IfMatch='"other"') == ("PreconditionFailed", 412)
    # What it does not do is not ignored.
    assert error_of(s3.get_object, **get, IfNoneMatch=tag) == ("NotImplemented", 501)
    assert error_of(s3.get_object, **get, IfModifiedSince=datetime.now(timezone.utc)) == ("NotImplemented", 501)


def test_put_can_be_told_to_create_only_or_to_replace_one_version(s3):
    put = {"Bucket": "bucket", "Key": "k"}
    first = s3.put_object(**put, Body=b"1", IfNoneMatch="*")["ETag"]
    assert error_of(s3.put_object, **put, Body=b"2", IfNoneMatch="*") == ("PreconditionFailed", 412)
    second = s3.put_object(**put, Body=b"3", IfMatch=first)["ETag"]
    assert error_of(s3.put_object, **put, Body=b"4", IfMatch=first) == ("PreconditionFailed", 412)
    assert s3.get_object(**put)["ETag"] == second
    assert error_of(s3.put_object, Bucket="bucket", Key="none", Body=b"4", IfMatch=first) == ("NoSuchKey", 404)


def test_etags_are_md5s_of_puts_and_change_with_the_file(s3, bucket_dir):
    tag = s3.put_object(Bucket="bucket", Key="k", Body=b"hello")["ETag"]
    assert tag == f'"{hashlib.md5(b"hello").hexdigest()}"'
    path = bucket_dir / "bucket" / "k"
    with open(path, "r+b") as f:
        f.write(b"HELLO")
    changed = s3.head_object(Bucket="bucket", Key="k")["ETag"]
    assert changed != tag
    assert "-" in changed  # nothing takes it for an MD5
    assert s3.list_objects_v2(Bucket="bucket")["Contents"][0]["ETag"] == changed
    os.utime(path, ns=(1, 1))
    assert s3.head_object(Bucket="bucket", Key="k")["ETag"] not in (tag, changed)


def test_headers_and_metadata_come_back(s3):
    s3.put_object(
        Bucket="bucket",
        Key="k",
        Body=b"x",
        ContentType="text/plain; charset=utf-8",
        CacheControl="no-cache",
        ContentDisposition="attachment",
        ContentEncoding="gzip",
        Metadata={"colour": "blue", "n": "1"},
    )
    head = s3.head_object(Bucket="bucket", Key="k")
    assert head["ContentType"] == "text/plain; charset=utf-8"
    assert (head["CacheControl"], head["ContentDisposition"], head["ContentEncoding"]) == (
        "no-cache",
        "attachment",
        "gzip",
    )
    assert head["Metadata"] == {"colour": "blue", "n": "1"}
    assert error_of(s3.put_object, Bucket="bucket", Key="k", Body=b"", Metadata={"m": "x" * 4000})[1] == 400


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_are_compared_and_kept(s3, server, algorithm):
    put = s3.put_object(Bucket="bucket", Key="k", Body=b"hello", ChecksumAlgorithm=algorithm)
    name = f"Checksum{algorithm}"
    answer = s3.get_object(Bucket="bucket", Key="k", ChecksumMode="ENABLED")
    assert answer["Body"].read() == b"hello"
    assert answer[name]
    assert name not in s3.get_object(Bucket="bucket", Key="k", ChecksumMode="ENABLED", Range="bytes=0-1")
    assert error_of(s3.put_object, Bucket="bucket", Key="wrong", Body=b"jello", **{name: answer[name]}) == (
        "BadDigest",
        400,
    )
    assert error_of(s3.head_object, Bucket="bucket", Key="wrong")[1] == 404
    assert put["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_content_md5_is_compared(s3):
    put = {"Bucket": "bucket", "Key": "k", "Body": b"hello"}
    s3.put_object(**put, ContentMD5="XUFAKrxLKna5cZ2REBfFkg==")
    assert error_of(s3.put_object, **put, ContentMD5="AAAAKrxLKna5cZ2REBfFkg==") == ("BadDigest", 400)
    for bad in ["XUFAKrxLKna5cZ2REBfFkg", "short", "====", "XUFAKrxLKna5cZ2REBfFkg==" * 2]:
        assert error_of(s3.put_object, **put, ContentMD5=bad) == ("InvalidDigest", 400)


def test_a_failed_put_leaves_the_old_object(s3):
    s3.put_object(Bucket="bucket", Key="k", Body=b"old")
    error_of(s3.put_object, Bucket="bucket", Key="k", Body=b"new", ContentMD5="AAAAKrxLKna5cZ2REBfFkg==")
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"old"


def test_objects_copy(s3, bucket_dir):
    (bucket_dir / "other").mkdir()
    s3.put_object(Bucket="bucket", Key="from/ü +", Body=b"x" * 300000, Metadata={"m": "1"})
    source = {"Bucket": "bucket", "Key": "from/ü +"}
    s3.copy_object(Bucket="other", Key="to", CopySource=source)
    answer = s3.get_object(Bucket="other", Key="to")
    assert (answer["Body"].read(), answer["Metadata"]) == (b"x" * 300000, {"m": "1"})
    s3.copy_object(Bucket="other", Key="to", CopySource=source, MetadataDirective="REPLACE", Metadata={"m": "2"})
    assert s3.head_object(Bucket="other", Key="to")["Metadata"] == {"m": "2"}
    missing = {"Bucket": "bucket", "Key": "missing"}
    assert error_of(s3.copy_object, Bucket="other", Key="to", CopySource=missing) == ("NoSuchKey", 404)
    wrong = {"CopySource": source, "CopySourceIfMatch": '"wrong"'}
    assert error_of(s3.copy_object, Bucket="other", Key="to", **wrong) == ("PreconditionFailed", 412)


def test_a_bucket_replaced_behind_the_servers_back_is_noticed(s3, bucket_dir):
    s3.put_object(Bucket="bucket", Key="old", Body=b"x")
    (bucket_dir / "bucket").rename(bucket_dir / "moved")
    assert error_of(s3.list_objects_v2, Bucket="bucket") == ("NoSuchBucket", 404)
    assert all_keys(s3, "moved") == ["old"]
    (bucket_dir / "bucket").mkdir()
    assert all_keys(s3, "bucket") == []


def test_multipart_uploads(s3, server):
    parts = [os.urandom(5 * MIB), os.urandom(5 * MIB + 1), b"tail"]
    at = {"Bucket": "bucket", "Key": "big/ü"}
    upload = s3.create_multipart_upload(**at, ContentType="text/x", Metadata={"m": "1"})["UploadId"]
    s3.upload_part(**at, UploadId=upload, PartNumber=2, Body=b"to be replaced")
    tags = [s3.upload_part(**at, UploadId=upload, PartNumber=i + 1, Body=part)["ETag"] for i, part in enumerate(parts)]
    listed = s3.list_parts(**at, UploadId=upload)["Parts"]
    assert [(p["PartNumber"], p["ETag"], p["Size"]) for p in listed] == [
        (i + 1, tag, len(part)) for i, (tag, part) in enumerate(zip(tags, parts))
    ]
    page = s3.list_parts(**at, UploadId=upload, MaxParts=2)
    assert (page["IsTruncated"], page["NextPartNumberMarker"], len(page["Parts"])) == (True, 2, 2)
    assert all_keys(s3, "bucket") == []
    done = s3.complete_multipart_upload(
        **at, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": i + 1, "ETag": t} for i, t in enumerate(tags)]}
    )
    digest = hashlib.md5(b"".join(hashlib.md5(p).digest() for p in parts)).hexdigest()
    assert done["ETag"] == f'"{digest}-3"'
    answer = s3.get_object(**at)
    assert answer["Body"].read() == b"".join(parts)
    assert (answer["ETag"], answer["ContentType"], answer["Metadata"]) == (done["ETag"], "text/x", {"m": "1"})
    assert error_of(s3.list_parts, **at, UploadId=upload) == ("NoSuchUpload", 404)


def test_multipart_uploads_that_cannot_be_completed(s3):
    at = {"Bucket": "bucket", "Key": "k"}
    upload = s3.create_multipart_upload(**at)["UploadId"]
    one = s3.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"small")["ETag"]
    two = s3.upload_part(**at, UploadId=upload, PartNumber=2, Body=b"small too")["ETag"]

    def complete(*parts, **other):
        listed = [{"PartNumber": n, "ETag": t} for n, t in parts]
        return error_of(
            s3.complete_multipart_upload, **{**at, "UploadId": upload, **other}, MultipartUpload={"Parts": listed}
        )

    assert complete((1, one), (2, two)) == ("EntityTooSmall", 400)
    assert complete((2, two), (1, one)) == ("InvalidPartOrder", 400)
    assert complete((1, two)) == ("InvalidPart", 400)
    assert complete((1, '"nonsense"')) == ("InvalidPart", 400)
    assert complete((3, one)) == ("InvalidPart", 400)
    assert complete((1, one), Key="other") == ("NoSuchUpload", 404)
    assert complete((1, one), UploadId="0" * 32) == ("NoSuchUpload", 404)
    assert complete((1, one), UploadId="../../../bucket") == ("NoSuchUpload", 404)
    assert error_of(s3.complete_multipart_upload, **at, UploadId=upload)[0] == "MalformedXML"
    assert error_of(s3.upload_part, **at, UploadId=upload, PartNumber=10001, Body=b"") == ("InvalidArgument", 400)
    assert error_of(s3.upload_part, **at, UploadId=upload, PartNumber=0, Body=b"") == ("InvalidArgument", 400)
    assert all_keys(s3, "bucket") == []
    s3.abort_multipart_upload(**at, UploadId=upload)
    assert error_of(s3.abort_multipart_upload, **at, UploadId=upload) == ("NoSuchUpload", 404)
    assert error_of(s3.upload_part, **at, UploadId=upload, PartNumber=1, Body=b"x") == ("NoSuchUpload", 404)


def test_parts_can_be_copied(s3):
    body = os.urandom(6 * MIB)
    s3.put_object(Bucket="bucket", Key="source", Body=body)
    at = {"Bucket": "bucket", "Key": "k"}
    source = {"Bucket": "bucket", "Key": "source"}
    upload = s3.create_multipart_upload(**at)["UploadId"]
    parts = []
    for number, bytes_range in [(1, None), (2, "bytes=100-299")]:
        more = {"CopySourceRange": bytes_range} if bytes_range else {}
        copied = s3.upload_part_copy(**at, UploadId=upload, PartNumber=number, CopySource=source, **more)
        parts.append({"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]})
    wrong = {**at, "UploadId": upload, "PartNumber": 3, "CopySource": source}
    assert error_of(s3.upload_part_copy, **wrong, CopySourceRange=f"bytes={6 * MIB}-") == ("InvalidRequest", 400)
    assert error_of(s3.upload_part_copy, **wrong, CopySourceIfMatch='"x"') == ("PreconditionFailed", 412)
    s3.complete_multipart_upload(**at, UploadId=upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(**at)["Body"].read() == body + body[100:300]


def test_an_upload_or_object_that_cannot_be_written_leaves_nothing(serve, bucket_dir):
    server = serve(bucket_dir)
    s3 = client(server)
    # Files can have no bytes from here on, as on a full disk.
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    for call, more in ((s3.create_multipart_upload, {}), (s3.put_object, {"Body": b"x"})):
        assert error_of(call, Bucket="bucket", Key="k", **more)
    assert not list(bucket_dir.rglob("uploads/*"))
    wait_until(lambda: not any(p.is_file() for p in bucket_dir.rglob("*")), "the temporary file to go", 30)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    s3.put_object(Bucket="bucket", Key="k", Body=b"x")


def test_multipart_uploads_survive_a_restart(serve, bucket_dir):
    first = serve(bucket_dir)
    at = {"Bucket": "bucket", "Key": "k"}
    upload = client(first).create_multipart_upload(**at, Metadata={"m": "1"})["UploadId"]
    tag = client(first).upload_part(**at, UploadId=upload, PartNumber=7, Body=b"seven")["ETag"]
    first.stop()
    s3 = client(serve(bucket_dir))
    s3.complete_multipart_upload(**at, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 7, "ETag": tag}]})
    answer = s3.get_object(**at)
    assert (answer["Body"].read(), answer["Metadata"]) == (b"seven", {"m": "1"})


def test_boto3s_transfer_manager_round_trips(s3, tmp_path):
    body = os.urandom(20 * MIB + 7)
    s3.upload_fileobj(io.BytesIO(body), "bucket", "managed")
    out = io.BytesIO()
    s3.download_fileobj("bucket", "managed", out)
    assert out.getvalue() == body


def test_times_are_those_of_the_file(s3, bucket_dir):
    s3.put_object(Bucket="bucket", Key="k", Body=b"x")
    os.utime(bucket_dir / "bucket" / "k", (1_000_000_000, 1_000_000_000))
    expected = datetime.fromtimestamp(1_000_000_000, timezone.utc)
    assert s3.head_object(Bucket="bucket", Key="k")["LastModified"] == expected
    assert s3.list_objects_v2(Bucket="bucket")["Contents"][0]["LastModified"] == expected


def test_what_is_not_implemented_says_so(s3):
    s3.put_object(Bucket="bucket", Key="k", Body=b"x")
    for call, more in [
        (s3.get_bucket_acl, {}),
        (s3.get_bucket_versioning, {}),
        (s3.list_object_versions, {}),
        (s3.get_object_tagging, {"Key": "k"}),
        (s3.get_object, {"Key": "k", "ResponseContentType": "image/png"}),
        (s3.get_bucket_location, {}),
        (s3.delete_objects, {"Delete": {"Objects": [{"Key": "k"}]}}),
    ]:
        assert error_of(call, Bucket="bucket", **more) == ("NotImplemented", 501)
    for call in (s3.list_objects, s3.create_bucket, s3.delete_bucket, s3.list_multipart_uploads):
        assert error_of(call, Bucket="bucket") == ("MethodNotAllowed", 405)
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"x"


def test_a_read_only_server_refuses_writes(serve, bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(b"x")
    s3 = client(serve(bucket_dir, "--read-only"))
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"x"
    denied = ("AccessDenied", 403)
    assert error_of(s3.put_object, Bucket="bucket", Key="n", Body=b"x") == denied
    assert error_of(s3.delete_object, Bucket="bucket", Key="k") == denied
    assert error_of(s3.create_multipart_upload, Bucket="bucket", Key="n") == denied
    assert all_keys(s3, "bucket") == ["k"]
    assert os.listdir(bucket_dir / "bucket") == ["k"]
