"""Copies that the server makes by itself, and what goes with an object besides its bytes; boto3 looks at them."""

import base64
import json
import os

import pytest
from lacks import ADDED

RICH = {"ContentType": "text/x-odd; a=b", "CacheControl": "max-age=7", "Metadata": {"who": "ann", "more-of": "1 = one"}}


def about(s3, bucket, key):
    """Names of metadata go as names of headers, which servers may write as they like."""
    added = ADDED.get(os.environ.get("TESTED_SERVER"), ())
    head = s3.head_object(Bucket=bucket, Key=key)
    given = {name.lower(): value for name, value in head["Metadata"].items()}
    head["Metadata"] = {name: value for name, value in given.items() if name not in added}
    return {name: head.get(name) for name in ("ContentType", "CacheControl", "Metadata")}


def test_a_copy_within_a_server_moves_no_bytes_and_keeps_all(leat, s3, bucket, other, tmp_path):
    s3.put_object(Bucket=bucket, Key="a b/ü+", Body=b"x" * 100000, **RICH)
    traced = leat("cp", "--json", f"s3://{bucket}/a b/ü+", f"s3://{other}/to", status=0)
    assert json.loads(traced.stdout) == {"objects": 1, "skipped": 0, "bytes": 100000}
    assert s3.get_object(Bucket=other, Key="to")["Body"].read() == b"x" * 100000
    assert about(s3, other, "to") == {**RICH}


def test_folders_are_copied_within_a_server(leat, s3, bucket, other):
    for i in range(5):
        s3.put_object(Bucket=bucket, Key=f"in/{i}", Body=bytes(i), **RICH)
    leat("cp", "--recursive", f"s3://{bucket}/in", f"s3://{other}/out", status=0)
    found = s3.list_objects_v2(Bucket=other)["Contents"]
    assert {(e["Key"], e["Size"]) for e in found} == {(f"out/{i}", i) for i in range(5)}
    assert about(s3, other, "out/4") == RICH


@pytest.mark.parametrize("through", [[], ["--through"]])
def test_attributes_can_be_set(leat, s3, bucket, other, tmp_path, through):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", **RICH)
    args = ["--content-type", "image/x", "--metadata", "who=eve", "--metadata", "more=1 = one"]
    leat("cp", *through, *args, f"s3://{bucket}/a", f"s3://{other}/a", status=0)
    assert about(s3, other, "a") == {
        "ContentType": "image/x",
        "CacheControl": "max-age=7",
        "Metadata": {**RICH["Metadata"], "who": "eve", "more": "1 = one"},
    }


@pytest.mark.needs("empty metadata")
@pytest.mark.parametrize("through", [[], ["--through"]])
def test_metadata_without_a_value_is_kept(leat, s3, bucket, other, through):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", Metadata={"empty": "", "who": "ann"})
    leat("cp", *through, f"s3://{bucket}/a", f"s3://{other}/a", status=0)
    assert about(s3, other, "a")["Metadata"] == {"empty": "", "who": "ann"}


@pytest.mark.parametrize("size", [1000, 12 << 20])
def test_attributes_go_with_the_bytes_through_here(leat, s3, bucket, other, size):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x" * size, **RICH)
    leat("cp", "--through", "--part-size", "5MiB", f"s3://{bucket}/a", f"s3://{other}/a", status=0)
    assert s3.head_object(Bucket=other, Key="a")["ContentLength"] == size
    assert about(s3, other, "a") == RICH


@pytest.mark.parametrize(
    ("name", "size", "kind"),
    [("a.jpg", 10, "image/jpeg"), ("a.json", 0, "application/json"), ("big.png", 12 << 20, "image/png")],
)
def test_a_files_name_says_its_type(leat, s3, bucket, tmp_path, name, size, kind):
    (tmp_path / name).write_bytes(b"x" * size)
    leat("cp", tmp_path / name, f"s3://{bucket}/", status=0)
    assert s3.head_object(Bucket=bucket, Key=name)["ContentType"] == kind
    leat("cp", "--content-type", "text/plain", tmp_path / name, f"s3://{bucket}/other", status=0)
    assert s3.head_object(Bucket=bucket, Key="other")["ContentType"] == "text/plain"


def test_a_source_that_changes_is_noticed_by_the_server(leat, s3, bucket, other):
    s3.put_object(Bucket=bucket, Key="gone", Body=b"1")
    s3.delete_object(Bucket=bucket, Key="gone")
    assert leat("cp", f"s3://{bucket}/gone", f"s3://{other}/x").returncode == 3
    assert "Contents" not in s3.list_objects_v2(Bucket=other)


@pytest.mark.needs("own encryption")
def test_encryption_with_a_key_of_ones_own(leat, s3, bucket, tmp_path):
    key = bytes(range(32))
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "data").write_bytes(b"y" * (11 << 20))
    own = ["--sse-c-key-file", tmp_path / "key"]
    done = leat("cp", *own, "--part-size", "5MiB", tmp_path / "data", f"s3://{bucket}/secret")
    assert done.returncode == 0, done.stderr
    assert leat("cat", f"s3://{bucket}/secret").returncode != 0
    leat("cp", *own, f"s3://{bucket}/secret", tmp_path / "back", status=0)
    assert (tmp_path / "back").read_bytes() == b"y" * (11 << 20)
    env = {"LEAT_SSE_C_KEY": base64.b64encode(key).decode()}
    leat("cp", f"s3://{bucket}/secret", f"s3://{bucket}/again", env=env, status=0)
    got = s3.get_object(Bucket=bucket, Key="again", SSECustomerAlgorithm="AES256", SSECustomerKey=key)
    assert got["Body"].read() == b"y" * (11 << 20)
