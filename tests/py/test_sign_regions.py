"""Signatures for several regions (SigV4A): ours and those of AWS's own library, checked by a third implementation."""

import json
import random
from pathlib import Path

import pytest
import sigv4a
from test_sign import sign_with_leat, some_request

# Made with awscrt 0.31 (aws_sign_request, V4_ASYMMETRIC, region "*"), whose signatures differ each time.
GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden" / "sigv4a.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=[c["access_key"] for c in GOLDEN])
def test_awss_own_signatures_are_over_what_we_sign(case):
    (ours,) = sign_with_leat([{**case, "token": case["token"]}])
    keys = case["access_key"], case["secret_key"], ours["date"]
    assert sigv4a.holds(*keys, ours["canonical"], ours["authorization"])
    theirs, mine = (a.partition(", Signature=")[0] for a in (case["by_aws"], ours["authorization"]))
    assert theirs == mine
    if "  " not in json.dumps(case["headers"]):  # awscrt leaves runs of spaces in, against the description
        assert sigv4a.holds(*keys, ours["canonical"], case["by_aws"])
    assert not sigv4a.holds(*keys, ours["canonical"] + "x", ours["authorization"])


def test_the_published_key_is_derived():
    """AWS's own example of a derivation."""
    numbers = sigv4a.private_key("AKISORANDOMAASORANDOM", "q+jcrXGc+0zWN6uzclKVhvMmUsIfRPa4rlRandom").private_numbers()
    assert numbers.private_value == 0x7FD3BD010C0D9C292141C2B77BFBDE1042C92E6836FFF749D1269EC890FCA1BD
    assert numbers.public_numbers.x == 0x15D242CEEBF8D8169FD6A8B5A746C41140414C3B07579038DA06AF89190FFFCB
    assert numbers.public_numbers.y == 0x0515242CEDD82E94799482E4C0514B505AFCCF2C0C98D6A553BF539F424C5EC0


def test_signatures_hold_for_every_request():
    rng = random.Random(4)
    requests = [{**some_request(rng), "asymmetric": True, "region": "*"} for _ in range(300)]
    for n, request in enumerate(requests):  # other keys each time: some candidates are beyond the curve's order
        request["access_key"], request["secret_key"] = f"AKIA{n:016}", f"{rng.getrandbits(240):060x}"
    for request, ours in zip(requests, sign_with_leat(requests), strict=True):
        keys = request["access_key"], request["secret_key"], ours["date"]
        assert sigv4a.holds(*keys, ours["canonical"], ours["authorization"]), request
        assert "\nx-amz-region-set:*\n" in ours["canonical"]
