"""Bytes of single objects: ranges, empty and large ones, uploads in parts, and objects that change under a reader."""

import hashlib
import json
import random
import subprocess
import time

import pytest

MIB = 1 << 20


def data_of(n, seed=1):
    return random.Random(seed).randbytes(n)


@pytest.fixture(scope="module")
def large():
    return data_of(40 * MIB + 12345)


@pytest.mark.parametrize("size", [0, 1, 5 * MIB, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1])
def test_object_of_any_size_goes_up_and_comes_back(size, leat, s3, bucket, tmp_path):
    data = data_of(size)
    (tmp_path / "up").write_bytes(data)
    leat("cp", tmp_path / "up", f"s3://{bucket}/o", status=0)
    assert s3.get_object(Bucket=bucket, Key="o")["Body"].read() == data
    leat("cp", f"s3://{bucket}/o", tmp_path / "down", status=0)
    assert (tmp_path / "down").read_bytes() == data
    assert leat("cat", f"s3://{bucket}/o", status=0, text=False).stdout == data


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 1), (1, 10), (8 * MIB - 5, 10), (3, 20 * MIB), (99, None), (40 * MIB + 12344, 50)]
)
def test_range_is_the_same_bytes(offset, length, leat, s3, bucket, large):
    s3.put_object(Bucket=bucket, Key="o", Body=large)
    more = [] if length is None else ["--length", length]
    done = leat("cat", "--offset", offset, *more, f"s3://{bucket}/o", status=0, text=False)
    assert done.stdout == large[offset:][:length]


def test_range_behind_the_end_is_empty(leat, s3, bucket):
    s3.put_object(Bucket=bucket, Key="o", Body=b"12345")
    assert leat("cat", "--offset", 5, f"s3://{bucket}/o", status=0).stdout == ""
    assert leat("cat", "--offset", 500, "--length", 5, f"s3://{bucket}/o", status=0).stdout == ""


@pytest.mark.needs("ETags of parts")
def test_large_object_goes_up_in_parts(leat, s3, bucket, large, tmp_path):
    (tmp_path / "up").write_bytes(large)
    leat("cp", "--part-size", "5MiB", tmp_path / "up", f"s3://{bucket}/o", status=0)
    assert s3.head_object(Bucket=bucket, Key="o")["ETag"].strip('"').endswith("-9"), "nine parts"


def test_large_object_that_went_up_is_read_by_boto3(leat, s3, bucket, large, tmp_path):
    (tmp_path / "up").write_bytes(large)
    leat("cp", "--part-size", "5MiB", tmp_path / "up", f"s3://{bucket}/o with =+%", status=0)
    assert s3.get_object(Bucket=bucket, Key="o with =+%")["Body"].read() == large


def test_object_uploaded_in_parts_by_boto3_is_read_whole(leat, s3, bucket, large, tmp_path):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="o")["UploadId"]
    parts = []
    for number in range(1, 8):
        piece = large[(number - 1) * 6 * MIB : number * 6 * MIB]
        answer = s3.upload_part(Bucket=bucket, Key="o", UploadId=upload, PartNumber=number, Body=piece)
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    s3.complete_multipart_upload(Bucket=bucket, Key="o", UploadId=upload, MultipartUpload={"Parts": parts})
    leat("cp", f"s3://{bucket}/o", tmp_path / "down", status=0)
    assert (tmp_path / "down").read_bytes() == large


def test_several_hundred_megabytes_survive_up_across_and_down(leat, s3, bucket, tmp_path):
    block = data_of(MIB)
    digest = hashlib.sha256()
    with open(tmp_path / "up", "wb") as f:
        for i in range(300):
            piece = i.to_bytes(8, "big") + block[8:]
            f.write(piece)
            digest.update(piece)
    leat("cp", tmp_path / "up", f"s3://{bucket}/a", status=0)
    leat("cp", f"s3://{bucket}/a", f"s3://{bucket}/b", status=0)
    leat("cp", "--memory", "64MiB", f"s3://{bucket}/b", tmp_path / "down", status=0)
    with open(tmp_path / "down", "rb") as f:
        assert hashlib.sha256(f.read()).digest() == digest.digest()


@pytest.fixture
def killed_upload(leat_bin, clean_env, s3_env, s3, bucket, large, tmp_path):
    """cp of tmp_path/"up" to the key "o", killed after some parts have arrived; returns the upload's id."""
    (tmp_path / "up").write_bytes(large * 3)
    command = [leat_bin, "cp", "--connections", "1", "--part-size", "5MiB", tmp_path / "up", f"s3://{bucket}/o"]
    journal = tmp_path / "home" / ".local" / "state" / "leat"
    with subprocess.Popen([*map(str, command)], env={**clean_env, **s3_env}) as process:
        while process.poll() is None:
            notes = [path.read_text().count("\n") for path in journal.glob("*")] if journal.exists() else []
            if any(n > 4 for n in notes):
                break
            time.sleep(0.001)
        assert process.poll() is None, "it was too quick to be killed"
        process.kill()
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket), "half an object became visible"
    (upload,) = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert parts_when_settled(s3, bucket, upload["UploadId"]) >= 3
    return upload["UploadId"]


def parts_when_settled(s3, bucket, upload):
    """How many parts there are once the one that was on its way is there or given up."""
    count = -1
    for _ in range(60):
        before = count
        count = len(s3.list_parts(Bucket=bucket, Key="o", UploadId=upload)["Parts"])
        if count == before:
            break
        time.sleep(1)
    return count


def test_killed_upload_is_resumed(leat, s3, bucket, killed_upload, large, tmp_path):
    done = leat("cp", "--resume", "--part-size", "5MiB", "--json", tmp_path / "up", f"s3://{bucket}/o", status=0)
    assert json.loads(done.stdout)["bytes"] == 3 * len(large)
    assert s3.get_object(Bucket=bucket, Key="o")["Body"].read() == large * 3
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_killed_upload_that_the_server_has_dropped_is_begun_anew(leat, s3, bucket, killed_upload, large, tmp_path):
    s3.abort_multipart_upload(Bucket=bucket, Key="o", UploadId=killed_upload)
    leat("cp", "--resume", "--part-size", "5MiB", tmp_path / "up", f"s3://{bucket}/o", status=0)
    assert s3.get_object(Bucket=bucket, Key="o")["Body"].read() == large * 3


@pytest.fixture
def cat_begun(leat_bin, clean_env, s3_env, s3, bucket):
    """A `leat cat` of the object "o" that waits for its reader after the first bytes. The object is larger than what a
    stream fetches ahead (128 MiB), so that parts are asked for after the test has done something to it."""
    s3.put_object(Bucket=bucket, Key="o", Body=b"o" * (160 * MIB))
    with subprocess.Popen(
        [str(leat_bin), "cat", f"s3://{bucket}/o"],
        env={**clean_env, **s3_env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.read(MIB) == b"o" * MIB
        yield process
        process.kill()


def read_to_the_end(process):
    pieces = []
    while piece := process.stdout.read(MIB):
        pieces.append(piece)
    stderr = process.stderr.read().decode()
    process.wait(60)
    assert len(stderr.splitlines()) == 1, stderr
    return b"".join(pieces), stderr


def test_object_replaced_during_a_read_is_noticed(cat_begun, s3, bucket):
    s3.put_object(Bucket=bucket, Key="o", Body=b"n" * (160 * MIB))
    data, stderr = read_to_the_end(cat_begun)
    assert cat_begun.returncode == 6
    assert "changed" in stderr
    assert b"n" not in data, "bytes of two versions were mixed"


def test_object_deleted_during_a_read_is_an_error(cat_begun, s3, bucket):
    s3.delete_object(Bucket=bucket, Key="o")
    _, stderr = read_to_the_end(cat_begun)
    assert cat_begun.returncode == 3
    assert "no such object" in stderr


def test_overwriting_replaces_the_whole_object(leat, s3, bucket, tmp_path):
    s3.put_object(Bucket=bucket, Key="o", Body=b"a long old object")
    (tmp_path / "new").write_bytes(b"new")
    leat("cp", tmp_path / "new", f"s3://{bucket}/o", status=0)
    assert leat("cat", f"s3://{bucket}/o", status=0).stdout == "new"
