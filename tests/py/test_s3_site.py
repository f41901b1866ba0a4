"""Where a bucket is, by Leat's rules and by botocore's own: every kind of name, region and endpoint."""

import itertools
import json
import os
import subprocess
from pathlib import Path

import botocore.session
import pytest
from botocore.endpoint_provider import EndpointProvider
from botocore.exceptions import BotoCoreError

BUILD = Path(os.environ.get("LEAT_BUILD", Path(__file__).resolve().parents[2] / "build" / "release"))
TOOL = BUILD / "tests" / "unit" / "tool_site"

BUCKETS = [
    "bucket",
    "a-bucket-0",
    "with.dots",
    "Upper",
    "under_score",
    "n" * 63,
    "n" * 64,
    "point-x7s3alias-s3alias",
    "arn:aws:s3:us-west-2:123456789012:accesspoint/a-point",
    "arn:aws:s3:us-west-2:123456789012:accesspoint:a-point",
    "arn:aws:s3:eu-central-1:123456789012:accesspoint/point",
    "arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/point",
    "arn:aws-us-gov:s3:us-gov-west-1:123456789012:accesspoint/point",
    "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap",
    "data--usw2-az1--x-s3",
    "data--use1-az4--x-s3",
    "a--b--apne1-az4--x-s3",
    "point--usw2-az1--xa-s3",
    "no-zone--x-s3x",
]
REGIONS = [
    "us-east-1",
    "us-west-2",
    "ap-northeast-1",
    "cn-north-1",
    "us-gov-west-1",
    "us-iso-east-1",
    "us-isob-east-1",
    "us-isof-south-1",
    "eu-isoe-west-1",
    "eusc-de-east-1",
]
BROKEN = [
    "arn:aws:s3:us-west-2:123456789012:accesspoint/",
    "arn:aws:s3:us-west-2:123456789012:bucket/x",
    "arn:aws:s3:us-west-2:1234:accesspoint/point/more",
    "arn:aws:s3:us-west-2::accesspoint/point",
    "arn:aws:s3:us_west:123456789012:accesspoint/point",
    "arn:aws:s3:us-west-2:123456789012:accesspoint/po.int",
    "arn:aws",
]


@pytest.fixture(scope="module")
def rules():
    loader = botocore.session.get_session().get_component("data_loader")
    return EndpointProvider(loader.load_service_model("s3", "endpoint-rule-set-1"), loader.load_data("partitions"))


def ask(requests):
    text = "".join(json.dumps(r) + "\n" for r in requests)
    done = subprocess.run([TOOL], input=text, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_botocore(rules, request):
    try:
        found = rules.resolve_endpoint(
            Bucket=request["bucket"],
            Region=request["region"],
            UseFIPS=request["fips"],
            UseDualStack=request["dual_stack"],
            UseArnRegion=True,
        )
    except BotoCoreError as e:
        return {"error": str(e)}
    scheme = found.properties["authSchemes"][0]
    return {
        "url": found.url,
        "region": scheme.get("signingRegion") or "".join(scheme["signingRegionSet"]),
        "service": scheme["signingName"],
        "directory": found.properties.get("backend") == "S3Express",
    }


def test_places_are_botocores(rules):
    requests = [
        {"bucket": bucket, "region": region, "fips": fips, "dual_stack": dual}
        for bucket, region, fips, dual in itertools.product(BUCKETS, REGIONS, (False, True), (False, True))
    ]
    different = []
    refused = 0
    for request, ours in zip(requests, ask(requests), strict=True):
        theirs = by_botocore(rules, request)
        refused += "error" in theirs
        if "error" in theirs and "error" in ours:
            continue
        if ours != theirs:
            different.append((request, ours, theirs))
    assert not different, different[:5]
    assert 0 < refused < len(requests) / 2


@pytest.mark.parametrize("bucket", BROKEN)
def test_broken_names_are_refused_by_both(rules, bucket):
    request = {"bucket": bucket, "region": "us-west-2", "fips": False, "dual_stack": False}
    (ours,) = ask([request])
    assert "error" in by_botocore(rules, request)
    assert bucket in ours["error"]


def test_a_name_may_stand_before_an_endpoint_of_ones_own():
    (point, directory) = ask(
        [
            {"bucket": BUCKETS[8], "endpoint": "accesspoint.vpce-1-2.s3.us-west-2.vpce.amazonaws.com"},
            {"bucket": "data--usw2-az1--x-s3", "endpoint": "127.0.0.1:9000"},
        ]
    )
    assert point["url"] == "https://a-point-123456789012.accesspoint.vpce-1-2.s3.us-west-2.vpce.amazonaws.com"
    assert point["region"] == "us-west-2"
    assert directory == {
        "url": "https://127.0.0.1:9000/data--usw2-az1--x-s3",
        "region": "us-east-1",
        "service": "s3express",
        "directory": True,
    }


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://arn:aws:s3-object-lambda:eu-west-1:123456789012:accesspoint/x/key", ["s3-object-lambda"]),
        ("s3://arn:aws:s3-outposts:eu-west-1:123456789012:outpost/op-1/accesspoint/x/key", ["s3-outposts"]),
        ("s3://arn:aws-cn:s3:eu-west-1:123456789012:accesspoint/point/key", ["accesspoint/point"]),
    ],
)
def test_what_cannot_be_reached_is_refused_by_name(run_leat, url, words):
    done = run_leat("cat", url)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
