"""boto3 clients for the tests of `leat serve`: no retries, so that every answer is seen."""

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError


def client(server, access_key="AK", secret_key="SK/secret+", region="us-east-1", verify=None, **config):
    options = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}, "read_timeout": 30}
    return boto3.client(
        "s3",
        endpoint_url=server.url,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name=region,
        verify=verify,
        config=Config(**{**options, **config}),
    )


def error_of(call, **arguments):
    """(code, status) of the error that the call ends with."""
    try:
        call(**arguments)
    except ClientError as e:
        return e.response["Error"]["Code"], e.response["ResponseMetadata"]["HTTPStatusCode"]
    raise AssertionError("the call did not fail")


def keys_of(page):
    return [entry["Key"] for entry in page.get("Contents", [])]


def all_keys(s3, bucket, **arguments):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **arguments)
    return [key for page in pages for key in keys_of(page)]
