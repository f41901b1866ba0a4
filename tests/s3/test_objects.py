"""Bytes of single objects: ranges, empty and large ones, uploads in parts, and objects that change under a reader."""

import json
import random
import subprocess
import threading
import time

import pytest
from flipping_proxy import FlippingProxy

MIB = 1 << 20


def data_of(n, seed=1):
    return random.Random(seed).randbytes(n)


@pytest.fixture(scope="module")
def large():
    return data_of(17 * MIB + 12345)


@pytest.mark.parametrize("size", [0, 1, 5 * MIB, 8 * MIB + 1])
def test_object_of_any_size_goes_up_and_comes_back(size, leat, s3, bucket, tmp_path):
    data = data_of(size)
    (tmp_path / "up").write_bytes(data)
    leat("cp", tmp_path / "up", f"s3://{bucket}/o", status=0)
    assert s3.get_object(Bucket=bucket, Key="o")["Body"].read() == data
    leat("cp", f"s3://{bucket}/o", tmp_path / "down", status=0)
    assert (tmp_path / "down").read_bytes() == data
    assert leat("cat", f"s3://{bucket}/o", status=0, text=False).stdout == data


def test_range_is_the_same_bytes(leat, s3, bucket, large):
    s3.put_object(Bucket=bucket, Key="o", Body=large)
    for offset, length in [(0, 1), (8 * MIB - 5, 10), (3, 10 * MIB), (99, None), (len(large) - 1, 50), (len(large), 5)]:
        more = [] if length is None else ["--length", length]
        done = leat("cat", "--offset", offset, *more, f"s3://{bucket}/o", status=0, text=False)
        assert done.stdout == large[offset:][:length], (offset, length)


@pytest.mark.needs("ETags of parts")
def test_large_object_goes_up_in_parts_and_survives_across_and_down(leat, s3, bucket, large, tmp_path):
    (tmp_path / "up").write_bytes(large)
    leat("cp", "--part-size", "5MiB", tmp_path / "up", f"s3://{bucket}/o with =+%", status=0)
    answer = s3.get_object(Bucket=bucket, Key="o with =+%")
    assert answer["Body"].read() == large
    assert answer["ETag"].strip('"').endswith("-4"), "four parts"
    leat("cp", f"s3://{bucket}/o with =+%", f"s3://{bucket}/copy", status=0)
    leat("cp", f"s3://{bucket}/copy", tmp_path / "down", status=0)
    assert (tmp_path / "down").read_bytes() == large


def test_object_uploaded_in_parts_by_boto3_is_read_whole(leat, s3, bucket, large, tmp_path):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="o")["UploadId"]
    parts = []
    for number in range(1, 4):
        piece = large[(number - 1) * 6 * MIB : number * 6 * MIB]
        answer = s3.upload_part(Bucket=bucket, Key="o", UploadId=upload, PartNumber=number, Body=piece)
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    s3.complete_multipart_upload(Bucket=bucket, Key="o", UploadId=upload, MultipartUpload={"Parts": parts})
    leat("cp", f"s3://{bucket}/o", tmp_path / "down", status=0)
    assert (tmp_path / "down").read_bytes() == large


class Gate(FlippingProxy):
    """Counts the bodies that go up, lets this many through to the server and keeps the next until `open` is set."""

    def __init__(self, upstream, lets):
        self.lets, self.seen, self.waits, self.open = lets, 0, threading.Event(), threading.Event()
        super().__init__(upstream)

    def _flip(self, which, body):
        if which == "up":
            self.seen += 1
            if self.seen > self.lets:
                self.waits.set()
                self.open.wait()
        return body


def test_killed_upload_is_resumed(leat, leat_bin, clean_env, s3_env, s3, bucket, large, tmp_path):
    (tmp_path / "up").write_bytes(large)
    command = ["cp", "--connections", "1", "--part-size", "5MiB", tmp_path / "up", f"s3://{bucket}/o"]
    journal = tmp_path / "home" / ".local" / "state" / "leat"
    with Gate(s3_env["AWS_ENDPOINT_URL"].removeprefix("http://"), lets=2) as gate:
        env = {**s3_env, "AWS_ENDPOINT_URL": gate.url}
        with subprocess.Popen([*map(str, [leat_bin, *command])], env={**clean_env, **env}) as process:
            assert gate.waits.wait(60)
            deadline = time.monotonic() + 60
            while not any(path.read_bytes().count(b"\n") > 2 for path in journal.glob("*")):
                assert time.monotonic() < deadline, "the journal does not name the parts that arrived"
                time.sleep(0.01)
            process.kill()
        assert "Contents" not in s3.list_objects_v2(Bucket=bucket), "half an object became visible"
        (upload,) = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
        arrived = s3.list_parts(Bucket=bucket, Key="o", UploadId=upload["UploadId"])["Parts"]
        assert len(arrived) == 2
        gate.open.set()
        gate.seen = 0
        done = leat(*command, "--resume", "--json", env=env, status=0)
        assert gate.seen == 2, "parts that had arrived were moved again"
    assert json.loads(done.stdout)["bytes"] == len(large)
    answer = s3.get_object(Bucket=bucket, Key="o")
    assert answer["Body"].read() == large
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_overwriting_replaces_the_whole_object(leat, s3, bucket, tmp_path):
    s3.put_object(Bucket=bucket, Key="o", Body=b"a long old object")
    (tmp_path / "new").write_bytes(b"new")
    leat("cp", tmp_path / "new", f"s3://{bucket}/o", status=0)
    assert leat("cat", f"s3://{bucket}/o", status=0).stdout == "new"
