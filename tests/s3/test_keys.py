"""Keys are opaque bytes: whatever a bucket takes as a key, leat and boto3 mean the same object by it."""

import json

import pytest

needs = pytest.mark.needs
DOTS = ["..", "../up", "a/../b", "./a/./b", "a/.."]
EMPTY = ["a//b", "//a", "/leading", "a///"]
LONG = ["x" * 1024, "ü" * 512, "%" * 1024]
PLAIN = [
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
    "a;b,c:d@e!f$g*h(i)j[k]l{m}n|o^p~q",
    "\x01\x1f\x7f",
]
ODD_KEYS = [
    pytest.param(PLAIN, id="characters"),
    pytest.param(["a\\b"], marks=needs("keys with backslashes"), id="backslash"),
    pytest.param(["tab\tand\nnewline"], marks=needs("keys with newlines"), id="newline"),
    pytest.param(DOTS, marks=needs("keys with dots"), id="dots"),
    pytest.param(EMPTY, marks=needs("keys with empty names"), id="empty names"),
    pytest.param(["trailing/"], marks=needs("keys that end in a slash"), id="slash at the end"),
    pytest.param(LONG, marks=needs("long keys"), id="long"),
]


@pytest.mark.parametrize("keys", ODD_KEYS)
def test_object_put_by_leat_is_the_one_boto3_gets(keys, leat, s3, bucket, keys_of, tmp_path):
    (tmp_path / "data").write_text("from leat")
    for key in keys:
        leat("cp", tmp_path / "data", f"s3://{bucket}/{key}", status=0)
    # cp takes a key with a slash at its end for a folder and puts the file's name after it.
    keys = [key + "data" if key.endswith("/") else key for key in keys]
    assert sorted(keys_of(bucket)) == sorted(keys)
    for key in keys:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"from leat", key


@pytest.mark.parametrize("keys", ODD_KEYS)
def test_object_put_by_boto3_is_the_one_leat_reads_lists_and_deletes(keys, leat, s3, bucket, keys_of):
    for key in [*keys, "zz another"]:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    lines = leat("ls", "-r", "--json", f"s3://{bucket}", status=0).stdout.splitlines()
    assert sorted(json.loads(line)["key"] for line in lines) == sorted([*keys, "zz another"])
    left = {*keys, "zz another"}
    for key in keys:
        assert leat("cat", f"s3://{bucket}/{key}", status=0, text=False).stdout == key.encode()
        leat("rm", f"s3://{bucket}/{key}", status=0)
        left.remove(key)
        assert set(keys_of(bucket)) == left


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
