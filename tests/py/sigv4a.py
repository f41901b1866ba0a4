"""SigV4A from its description, to check signatures with: the private key by NIST SP 800-108, ECDSA by `cryptography`."""

import hashlib
import hmac

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ALGORITHM = "AWS4-ECDSA-P256-SHA256"


def private_key(access_key, secret_key):
    for counter in range(1, 255):
        text = b"\0\0\0\1" + ALGORITHM.encode() + b"\0" + access_key.encode() + bytes([counter]) + b"\0\0\1\0"
        candidate = int.from_bytes(hmac.new(b"AWS4A" + secret_key.encode(), text, hashlib.sha256).digest(), "big")
        if candidate <= ORDER - 2:
            return ec.derive_private_key(candidate + 1, ec.SECP256R1())
    raise ValueError("no key")


def holds(access_key, secret_key, date, canonical, authorization):
    """Whether the signature is one over this canonical request, good in every region."""
    algorithm, _, rest = authorization.partition(" ")
    fields = dict(part.split("=", 1) for part in rest.split(", "))
    scope = fields["Credential"].partition("/")[2]
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join([ALGORITHM, date, f"{date[:8]}/s3/aws4_request", digest])
    if algorithm != ALGORITHM or scope != f"{date[:8]}/s3/aws4_request":
        return False
    if "x-amz-region-set" not in fields["SignedHeaders"].split(";"):
        return False
    public = private_key(access_key, secret_key).public_key()
    try:
        public.verify(bytes.fromhex(fields["Signature"]), text.encode(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def canonical_of(request, host):
    """The canonical request of one that a server received (faulty_server.Request)."""
    from urllib.parse import quote

    names = request.headers["authorization"].split("SignedHeaders=")[1].split(",")[0]
    path, _, query = request.target.partition("?")
    lines = [request.method, path, "&".join(sorted(query.split("&")))]
    lines += [f"{n}:{' '.join(request.headers[n].split())}" for n in names.split(";")]
    assert request.headers["host"] == host
    assert quote(request.key, safe="/") == path.lstrip("/")
    return "\n".join([*lines, "", names, request.headers["x-amz-content-sha256"]])
