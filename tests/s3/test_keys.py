"""Keys are opaque bytes: whatever a bucket takes as a key, leat and boto3 mean the same object by it."""

import json

import pytest

needs = pytest.mark.needs
DOTS = ["..", "../up", "a/../b", "./a/./b", "a/.."]
EMPTY = ["a//b", "//a", "/leading", "a///"]
LONG = ["x" * 1024, "ü" * 512, "%" * 1024]
ODD_KEYS = [
    "plain",
    "a=b",
    "a=b&c=d",
    "a+b",
    "a b",
    " leading and trailing ",
    "a  two spaces",
    "käse/日本語/🚰",
    "e\u0301 is not \u00e9",
    "100%",
    "%41",
    "%2F%2f",
    "%",
    "what?",
    "?uploads",
    "a?list-type=2",
    "hash#tag",
    "'single' \"double\" `back`",
    "<xml>&amp;</xml>",
    pytest.param("a\\b", marks=needs("keys with backslashes")),
    "a;b,c:d@e!f$g*h(i)j[k]l{m}n|o^p~q",
    pytest.param("tab\tand\nnewline", marks=needs("keys with newlines")),
    "\x01\x1f\x7f",
    *(pytest.param(key, marks=needs("keys with dots")) for key in DOTS),
    *(pytest.param(key, marks=needs("keys with empty names")) for key in EMPTY),
    pytest.param("trailing/", marks=needs("keys that end in a slash")),
    *(pytest.param(key, marks=needs("long keys")) for key in LONG),
]


def shown(key):
    return key if len(key) < 40 else f"{len(key)} times {key[0]}"


@pytest.mark.parametrize("key", ODD_KEYS, ids=shown)
def test_object_put_by_leat_is_the_one_boto3_gets(key, leat, s3, bucket, keys_of, tmp_path):
    (tmp_path / "data").write_bytes(b"from leat")
    url = f"s3://{bucket}/{key}"
    if key.endswith("/"):  # cp takes it for a folder and puts the file's name after it
        leat("cp", tmp_path / "data", url, status=0)
        key += "data"
    else:
        leat("cp", tmp_path / "data", url, status=0)
    assert keys_of(bucket) == [key]
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"from leat"


@pytest.mark.parametrize("key", ODD_KEYS, ids=shown)
def test_object_put_by_boto3_is_the_one_leat_reads_lists_and_deletes(key, leat, s3, bucket, keys_of):
    s3.put_object(Bucket=bucket, Key=key, Body=b"from boto3")
    s3.put_object(Bucket=bucket, Key="zz another", Body=b"")
    url = f"s3://{bucket}/{key}"
    assert leat("cat", url, status=0).stdout == "from boto3"
    lines = leat("ls", "-r", "--json", f"s3://{bucket}", status=0).stdout.splitlines()
    assert sorted(json.loads(line)["key"] for line in lines) == sorted([key, "zz another"])
    leat("rm", url, status=0)
    assert keys_of(bucket) == ["zz another"]


def test_key_of_1025_bytes_is_refused_before_anything_is_sent(leat, bucket, tmp_path):
    (tmp_path / "data").write_bytes(b"x")
    done = leat("cp", tmp_path / "data", f"s3://{bucket}/{'k' * 1025}", status=2)
    assert "longer than 1024 bytes" in done.stderr


@pytest.mark.parametrize(
    "more",
    [
        [],
        pytest.param(["a"], marks=needs("a key below a key")),
        pytest.param(["a/"], marks=needs("keys that end in a slash")),
        pytest.param(["a//b"], marks=needs("keys with empty names")),
    ],
)
def test_keys_that_begin_alike_are_not_mixed_up(more, leat, s3, bucket, keys_of):
    keys = [*more, "a/b", "a b", "a%2Fb", "a+b", "a%20b", "ab"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in keys:
        assert leat("cat", f"s3://{bucket}/{key}", status=0).stdout == key
    leat("rm", f"s3://{bucket}/a b", status=0)
    leat("rm", f"s3://{bucket}/a/b", status=0)
    assert keys_of(bucket) == sorted(set(keys) - {"a b", "a/b"})
