"""What other people's servers lack of what the tests of this folder ask for, as seen with the versions that are pinned in
requirements.txt: each by asking the server with boto3 or curl, without Leat. A test that is marked with needs("FEATURE")
is skipped, with the reason, on a server that lacks it. With TESTED_ANYWAY=1 nothing is skipped."""

MOTO = {
    "keys with newlines": "answers 404 to PutObject",
    "lost uploads": "answers 500, not 404, to a part of an upload that is gone",
    "own encryption": "ignores the key of SSE-C and gives the object to everybody",
    "version null": "answers 400 to HeadObject with versionId=null in a bucket without versions, not to GetObject",
    "versions in order": "lists markers of deletion after all versions",
}

LACKS = {
    "moto": {
        **MOTO,
        "keys that count": "lets everybody in, whatever the keys (moto-keys does not)",
        "rights of objects": "gives all of a public bucket to everybody, whatever the object's ACL",
    },
    "moto-keys": {
        **MOTO,
        "anonymous refusals": "answers 500 to a request without a signature in its head",
        "public objects": "answers 500 to a request without a signature in its head",
        "rights of objects": "answers 500 to a request without a signature in its head",
        "session tokens": "does not know the keys that its GetSessionToken gives",
        "signed links": "answers 500 to a request without a signature in its head",
    },
    "rclone": {
        "ETags of parts": "says one ETag at the end of the upload (of parts) and another later (the MD5 of all)",
        "a key below a key": "keeps keys as files: answers 500 to a/b where there is a",
        "anonymous refusals": "answers 400 UnsupportedAlgorithm to a request without a signature",
        "buckets in the host": "knows either the path or the host (--force-path-style): answers NoSuchBucket",
        "conditions": "ignores If-Match and If-None-Match, of GetObject too",
        "keys that end in a slash": "drops the slash",
        "keys with dots": "answers 400 to the names . and ..",
        "keys with empty names": "answers 400 to two slashes and to a first one, and drops those at the end",
        "long keys": "keeps keys as files: answers 500 to names of more than 255 bytes",
        "own encryption": "ignores the key of SSE-C and gives the object to everybody",
        "public objects": "has no ACLs: answers BucketAlreadyExists to PutBucketAcl",
        "rights of objects": "has no ACLs: answers BucketAlreadyExists to PutBucketAcl",
        "session tokens": "has no IAM and no STS: answers 400",
        "versions": "answers 501 to PutBucketVersioning",
    },
    "seaweedfs": {
        "empty metadata": "drops metadata without a value",
        "keys that end in a slash": "keeps them as folders: what is in them is lost",
        "keys with backslashes": "takes them for slashes",
        "keys with dots": "answers 400 to the names . and ..",
        "keys with empty names": "makes one slash of several and drops the first",
        "lists in order": "lists train/x before train.0",
        "long keys": "answers KeyTooLongError to names of more than 255 bytes",
        "missing buckets": "makes the bucket that is written to",
        "rights of objects": "gives all of a public bucket to everybody, whatever the object's ACL",
        "session tokens": "answers 501 to GetSessionToken",
    },
}

# What they add by themselves to an object's metadata.
ADDED = {"rclone": {"mtime"}}
