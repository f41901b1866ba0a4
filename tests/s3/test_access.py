"""Ways to be let in: anonymous, profiles, session tokens; and ways to address a bucket."""

import json
import os
from pathlib import Path

import pytest


@pytest.fixture
def public(s3, bucket):
    """A bucket that anybody may list and read."""
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    s3.put_object(Bucket=bucket, Key="a b/c=d", Body=b"public", ACL="public-read")
    s3.put_object(Bucket=bucket, Key="private", Body=b"private")
    return bucket


NO_KEYS = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}


@pytest.mark.needs("public objects")
@pytest.mark.parametrize("how", [[], ["--no-sign-request"]], ids=["no keys", "--no-sign-request"])
def test_public_bucket_is_read_anonymously(how, leat, public):
    env = {} if how else NO_KEYS
    assert leat("cat", *how, f"s3://{public}/a b/c=d", env=env, status=0).stdout == "public"
    done = leat("ls", *how, "-r", f"s3://{public}", env=env, status=0)
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.needs("rights of objects")
def test_private_object_of_a_public_bucket_is_denied(leat, public):
    leat("cat", f"s3://{public}/private", env=NO_KEYS, status=4)
    leat("cat", "--no-sign-request", f"s3://{public}/private", status=4)


@pytest.mark.needs("public objects")
def test_public_object_is_read_as_a_web_page(leat, public, s3_env, tmp_path):
    url = f"{s3_env['AWS_ENDPOINT_URL']}/{public}/a%20b/c%3Dd"
    assert leat("cat", url, env=NO_KEYS, status=0).stdout == "public"
    leat("cp", url, tmp_path / "x", env=NO_KEYS, status=0)
    assert (tmp_path / "x").read_bytes() == b"public"


@pytest.fixture(params=[b"by link", b"x" * (20 << 20)], ids=["small", "large"])
def link(request, boto, bucket):
    """(a link that is signed for GET alone, what it leads to)"""
    client = boto()
    client.put_object(Bucket=bucket, Key="a b=c+d", Body=request.param)
    where = {"Bucket": bucket, "Key": "a b=c+d"}
    return client.generate_presigned_url("get_object", Params=where, ExpiresIn=300), request.param


@pytest.mark.needs("signed links")
def test_signed_link_is_read_as_a_web_page(leat, link, tmp_path):
    url, data = link
    assert leat("cat", url, env=NO_KEYS, status=0, text=False).stdout == data
    leat("cp", url, tmp_path / "x", env=NO_KEYS, status=0)
    assert (tmp_path / "x").read_bytes() == data


@pytest.mark.needs("signed links")
@pytest.mark.needs("keys that count")
def test_refused_link_is_named_without_its_signature(leat, link):
    url = link[0].replace("a%20b", "another")
    done = leat("cat", url, env=NO_KEYS, status=4)
    assert "another%3Dc%2Bd'" in done.stderr
    assert "Signature" not in done.stderr
    logged = leat("--log", "debug", "cat", url, env=NO_KEYS, status=4)
    assert "Signature" not in logged.stderr


@pytest.fixture
def profiles(clean_env, s3_env):
    """A home folder with good keys as 'mine' and wrong ones as the default."""
    aws = Path(clean_env["HOME"]) / ".aws"
    aws.mkdir()
    (aws / "credentials").write_text(
        "[default]\naws_access_key_id = WRONG\naws_secret_access_key = WRONG\n"
        f"[mine]\naws_access_key_id = {s3_env['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {s3_env['AWS_SECRET_ACCESS_KEY']}\n"
    )
    (aws / "config").write_text(f"[profile mine]\nregion = us-east-1\nendpoint_url = {s3_env['AWS_ENDPOINT_URL']}\n")


def test_profile_is_read_from_the_home_folder(leat, s3, s3_env, bucket, profiles):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    nothing = dict.fromkeys(s3_env)
    assert leat("cat", "--profile", "mine", f"s3://{bucket}/k", env=nothing, status=0).stdout == "x"


@pytest.mark.needs("keys that count")
def test_refused_profile_is_named(leat, s3, s3_env, bucket, profiles):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    env = {**dict.fromkeys(s3_env), "AWS_ENDPOINT_URL": s3_env["AWS_ENDPOINT_URL"]}
    assert "profile 'default'" in leat("cat", f"s3://{bucket}/k", env=env, status=4).stderr


@pytest.fixture
def session(boto):
    """Keys with a session token, from the gateway's own token service."""
    allowed = {"Effect": "Allow", "Action": ["s3:*", "sts:*"], "Resource": ["*"]}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    if os.environ.get("TESTED_SERVER") == "moto":  # the others have the user
        boto("iam").create_user(UserName="leat")
    boto("iam").put_user_policy(UserName="leat", PolicyName="tokens", PolicyDocument=policy)
    answer = boto("sts").get_session_token(DurationSeconds=900)["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": answer["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": answer["SecretAccessKey"],
        "AWS_SESSION_TOKEN": answer["SessionToken"],
    }


@pytest.mark.needs("session tokens")
def test_session_token_is_sent_and_signed(leat, s3, bucket, session, tmp_path):
    (tmp_path / "data").write_bytes(b"with a token")
    leat("cp", tmp_path / "data", f"s3://{bucket}/o =+", env=session, status=0)
    assert s3.get_object(Bucket=bucket, Key="o =+")["Body"].read() == b"with a token"
    assert leat("cat", f"s3://{bucket}/o =+", env=session, status=0).stdout == "with a token"
    assert json.loads(leat("ls", "--json", f"s3://{bucket}/", env=session, status=0).stdout)["key"] == "o =+"


@pytest.mark.needs("keys that count")
@pytest.mark.needs("session tokens")
def test_damaged_session_token_is_denied(leat, bucket, session):
    session["AWS_SESSION_TOKEN"] = session["AWS_SESSION_TOKEN"][:-9] + "AAAAAAAA="
    done = leat("ls", f"s3://{bucket}", env=session, status=4)
    assert session["AWS_SESSION_TOKEN"] not in done.stderr


@pytest.mark.parametrize("key", ["käse =+%", pytest.param("a b/..", marks=pytest.mark.needs("keys with dots"))])
@pytest.mark.parametrize("style", ["path", pytest.param("virtual", marks=pytest.mark.needs("buckets in the host"))])
def test_bucket_is_found_in_path_and_in_host(style, key, leat, keys_of, bucket, s3_env, tmp_path):
    env = {"AWS_ENDPOINT_URL": s3_env["AWS_ENDPOINT_URL"].replace("127.0.0.1", "localhost")}
    data = b"x" * (9 << 20)  # two parts
    (tmp_path / "data").write_bytes(data)
    leat("cp", "--addressing", style, tmp_path / "data", f"s3://{bucket}/{key}", env=env, status=0)
    assert leat("cat", "--addressing", style, f"s3://{bucket}/{key}", env=env, status=0, text=False).stdout == data
    listed = leat("ls", "--addressing", style, "-r", "--json", f"s3://{bucket}", env=env, status=0)
    assert [json.loads(line)["key"] for line in listed.stdout.splitlines()] == keys_of(bucket)
