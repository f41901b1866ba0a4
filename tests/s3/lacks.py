"""What other people's servers lack of what the tests of this folder ask for, as seen with the versions that are pinned in
requirements.txt. A test that is marked with needs("FEATURE") is skipped, with the reason, on a server that lacks it."""

LACKS = {
    "moto": {
        "keys that count": "lets everybody in, whatever the keys",
        "keys with newlines": "answers 404 to boto3 too",
        "lost uploads": "answers 500, not 404, to a part of an upload that is gone",
        "own encryption": "ignores the key of SSE-C and gives the object to everybody",
        "session tokens": "has no user of that name to give them to",
        "version null": "answers 400 to versionId=null in a bucket without versions",
        "versions in order": "lists markers of deletion after all versions",
    },
    "rclone": {
        "ETags of parts": "makes one MD5 of an object that came in parts",
        "a key below a key": "keeps keys as files: no key can be a file and a folder",
        "anonymous refusals": "answers 400 UnsupportedAlgorithm to a request without a signature",
        "buckets in the host": "answers NoSuchBucket",
        "conditions": "ignores If-Match and If-None-Match",
        "keys that are no paths": "refuses them or takes them for another key",
        "long keys": "keeps keys as files: 255 bytes a name, else 500",
        "metadata as given": "changes the case of names and drops empty values",
        "public objects": "has no ACLs: answers BucketAlreadyExists",
        "rights of objects": "has no ACLs: answers BucketAlreadyExists",
        "session tokens": "does not let policies be written",
        "true ranges": "answers a range with 200, as if it were the whole object, which is refused",
        "versions": "answers 501 to PutBucketVersioning",
    },
    "seaweedfs": {
        "buckets in the host": "answers 405",
        "keys that are no paths": "refuses them, or makes one slash of several",
        "keys with backslashes": "takes them for slashes",
        "lists in order": "lists train/x before train.0",
        "long keys": "refuses names of more than 255 bytes",
        "metadata as given": "drops empty values",
        "missing buckets": "makes the bucket that is written to",
        "rights of objects": "gives all of a public bucket to everybody, whatever the object's ACL",
        "session tokens": "does not let policies be written",
    },
}
