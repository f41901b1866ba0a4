"""Versions of objects: listed, read, copied and removed by their ids."""

import json

import pytest


@pytest.fixture
def kept(s3, bucket):
    """(bucket, ids): a bucket that keeps versions, with three of 'dir/key' and a deleted 'gone'."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket=bucket, Key="dir/key", Body=f"number {i}".encode())["VersionId"] for i in range(3)]
    s3.put_object(Bucket=bucket, Key="gone", Body=b"was here")
    s3.delete_object(Bucket=bucket, Key="gone")
    yield bucket, ids
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for entry in page.get("Versions", []) + page.get("DeleteMarkers", []):
            s3.delete_object(Bucket=bucket, Key=entry["Key"], VersionId=entry["VersionId"])


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.needs("versions")
def test_versions_are_listed_as_boto3_lists_them(leat, s3, kept):
    bucket, ids = kept
    found = lines(leat("ls", "--versions", "--recursive", "--json", f"s3://{bucket}/", status=0))
    said = s3.list_object_versions(Bucket=bucket)
    theirs = {(e["Key"], e["VersionId"], e["IsLatest"], False) for e in said["Versions"]}
    theirs |= {(e["Key"], e["VersionId"], e["IsLatest"], True) for e in said["DeleteMarkers"]}
    assert {(e["key"], e["version"], e["latest"], e["deleted"]) for e in found} == theirs
    assert [e["version"] for e in found if e["key"] == "dir/key"] == ids[::-1]  # the newest first
    assert len(leat("ls", "--versions", f"s3://{bucket}/gone", status=0).stdout.splitlines()) == 2
    top = leat("ls", "--versions", f"s3://{bucket}/", status=0).stdout
    assert "dir/\n" in top
    assert "dir/key" not in top


@pytest.mark.needs("versions")
@pytest.mark.needs("versions in order")
def test_a_marker_of_deletion_comes_before_what_it_hides(leat, kept):
    text = leat("ls", "--versions", f"s3://{kept[0]}/gone", status=0).stdout.splitlines()
    assert "deleted" in text[0]


@pytest.mark.needs("versions")
@pytest.mark.parametrize("end", [" %", pytest.param(" \n%", marks=pytest.mark.needs("keys with newlines"))])
def test_lists_of_versions_go_on_over_pages(leat, s3, kept, list_page, end):
    bucket, _ = kept
    versions = list_page * 11 // 10
    for i in range(versions):
        s3.put_object(Bucket=bucket, Key=f"many/{i % 3}{end}", Body=b"")
    found = lines(leat("ls", "--versions", "--recursive", "--json", f"s3://{bucket}/many/", status=0))
    assert len(found) == versions
    assert len({e["version"] for e in found}) == versions
    assert sorted(e["key"] for e in found) == [e["key"] for e in found]


@pytest.mark.needs("versions")
def test_a_version_is_read_and_copied_by_its_id(leat, kept, tmp_path):
    bucket, ids = kept
    for i, name in enumerate(ids):
        assert leat("cat", f"s3://{bucket}/dir/key?versionId={name}", status=0).stdout == f"number {i}"
    leat("cp", f"s3://{bucket}/dir/key?versionId={ids[0]}", tmp_path / "file", status=0)
    assert (tmp_path / "file").read_text() == "number 0"
    leat("cp", f"s3://{bucket}/dir/key?versionId={ids[1]}", f"{tmp_path}/", status=0)
    assert (tmp_path / "key").read_text() == "number 1"
    leat("cp", f"s3://{bucket}/dir/key?versionId={ids[1]}", f"s3://{bucket}/dir/key", status=0)  # brings it back
    assert leat("cat", f"s3://{bucket}/dir/key", status=0).stdout == "number 1"


@pytest.mark.needs("versions")
def test_a_version_is_removed_by_its_id_and_others_stay(leat, s3, kept):
    bucket, ids = kept
    leat("rm", f"s3://{bucket}/dir/key?versionId={ids[2]}", status=0)
    assert leat("cat", f"s3://{bucket}/dir/key", status=0).stdout == "number 1"
    left = s3.list_object_versions(Bucket=bucket, Prefix="dir/")["Versions"]
    assert [e["VersionId"] for e in left] == [ids[1], ids[0]]
    marker = s3.list_object_versions(Bucket=bucket, Prefix="gone")["DeleteMarkers"][0]["VersionId"]
    leat("rm", f"s3://{bucket}/gone?versionId={marker}", status=0)
    assert leat("cat", f"s3://{bucket}/gone", status=0).stdout == "was here"


@pytest.mark.needs("versions")
@pytest.mark.parametrize("version", ["nosuchversion", "0000"])
def test_a_version_that_is_not_there_is_an_error_and_nothing_is_lost(leat, s3, kept, tmp_path, version):
    bucket, _ = kept
    url = f"s3://{bucket}/dir/key?versionId={version}"
    assert leat("cat", url).returncode not in (0, 1)
    assert leat("cp", url, tmp_path / "file").returncode not in (0, 1)
    assert not (tmp_path / "file").exists()
    assert leat("rm", url).returncode not in (0, 1)
    assert len(s3.list_object_versions(Bucket=bucket, Prefix="dir/")["Versions"]) == 3


@pytest.mark.needs("version null")
def test_a_key_that_looks_like_a_version_is_still_reached(leat, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a?versionId=7", Body=b"odd")
    s3.put_object(Bucket=bucket, Key="a", Body=b"plain")
    assert leat("cat", f"s3://{bucket}/a?versionId=7?versionId=null", status=0).stdout == "odd"


def test_keys_that_look_like_versions_are_removed_with_the_others(leat, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a?versionId=7", Body=b"odd")
    s3.put_object(Bucket=bucket, Key="a", Body=b"plain")
    leat("rm", "--recursive", f"s3://{bucket}/", status=0)  # keys from lists are bytes
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
