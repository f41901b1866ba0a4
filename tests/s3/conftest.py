"""What the tests against radosgw share: the gateway that tests/s3/run started, a bucket a test, and the commands of
tests/py/conftest.py pointed at it."""

import contextlib
import importlib.util
import os
import secrets
import sys
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from lacks import LACKS
from radosgw import LIST_PAGE

sys.path.append(str(Path(__file__).resolve().parents[1] / "py"))
spec = importlib.util.spec_from_file_location("shared", Path(__file__).resolve().parents[1] / "py" / "conftest.py")
shared = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shared)
leat_build = shared.leat_build
leat_bin = shared.leat_bin
clean_env = shared.clean_env
run_leat = shared.run_leat
run_python = shared.run_python

VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(feature): skipped on a server that lacks it, by the table in lacks.py")


def pytest_collection_modifyitems(items):
    server = os.environ.get("TESTED_SERVER", "radosgw")
    lacks = {} if os.environ.get("TESTED_ANYWAY") else LACKS.get(server, {})
    for item in items:
        for feature in (mark.args[0] for mark in item.iter_markers("needs")):
            if feature in lacks:
                item.add_marker(pytest.mark.skip(reason=f"{server}: {feature}: {lacks[feature]}"))


@pytest.fixture(scope="session")
def s3_env():
    """The variables that point an S3 client at the gateway."""
    if "AWS_ENDPOINT_URL" not in os.environ:
        pytest.exit("start these tests with tests/s3/run, which starts the gateway they need", returncode=2)
    return {name: os.environ[name] for name in VARIABLES}


@pytest.fixture(scope="session")
def boto(s3_env):
    """boto(service, access_key=..., secret_key=..., token=...) -> a client of the gateway."""

    def connect(service="s3", **keys):
        return boto3.client(
            service,
            endpoint_url=s3_env["AWS_ENDPOINT_URL"],
            aws_access_key_id=keys.get("access_key", s3_env["AWS_ACCESS_KEY_ID"]),
            aws_secret_access_key=keys.get("secret_key", s3_env["AWS_SECRET_ACCESS_KEY"]),
            aws_session_token=keys.get("token"),
            region_name=s3_env["AWS_REGION"],
            config=Config(
                signature_version="s3v4" if service == "s3" else None,
                s3={"addressing_style": "path"},
                connect_timeout=10,
                read_timeout=60,
                max_pool_connections=32,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    return connect


@pytest.fixture(scope="session")
def s3(boto):
    """boto3's client of the gateway: the second opinion on everything."""
    return boto()


@contextlib.contextmanager
def new_bucket(s3):
    name = f"leat-{secrets.token_hex(6)}"
    s3.create_bucket(Bucket=name)
    yield name
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        for entry in page.get("Contents", []):
            s3.delete_object(Bucket=name, Key=entry["Key"])


@pytest.fixture
def bucket(s3):
    """The name of a new, empty bucket. What is in it afterwards is deleted, since the gateway's disk is memory."""
    with new_bucket(s3) as name:
        yield name


@pytest.fixture(scope="module")
def module_bucket(s3):
    """One for all tests of a file, each with keys of its own."""
    with new_bucket(s3) as name:
        yield name


@pytest.fixture
def other(s3):
    """Another new, empty bucket."""
    with new_bucket(s3) as name:
        yield name


@pytest.fixture(scope="session")
def list_page():
    """How many entries a list of the server has at most."""
    return LIST_PAGE if os.environ.get("TESTED_SERVER") == "radosgw" else 1000


@pytest.fixture
def leat(run_leat, s3_env):
    """run_leat with the gateway's address and keys; env={...} adds to them."""

    def run(*args, env=None, **more):
        return run_leat(*args, env={**s3_env, **(env or {})}, **more)

    return run


@pytest.fixture(scope="session")
def keys_of(s3):
    """keys_of(bucket, prefix="") -> the keys there, by boto3."""

    def keys(bucket, prefix=""):
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    return keys
