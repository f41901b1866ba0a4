"""One folder as a bucket of each cloud, by `leat serve`: the same tests against S3, Google and Azure.

place = Place("az", folder, serve, "--fault", "503=0.1")
run_leat("ls", place.url, env=place.env)
"""

CLOUDS = ["s3", "gs", "az"]
PROTOCOLS = {"s3": "s3", "gs": "gcs", "az": "azure"}
BUCKET = "bucket"
ACCOUNT = "acct"  # Azure's; the others take any name of a key
SECRET = "YW4gYWNjb3VudCdzIGtleSBvZiBzb21lIGxlbmd0aA=="  # Azure's are base64, the others' anything


class Place:
    """url: where objects go. env: what a client needs. server: what serves it. read(key), write(key, data): the other
    way there, by the file system."""

    def __init__(self, kind, folder, serve, *options, keys=True):
        self.kind, self.folder, self.serve = kind, folder / BUCKET, serve
        self.folder.mkdir(parents=True, exist_ok=True)
        given = ("--access-key", ACCOUNT, "--secret-key", SECRET) if keys else ()
        self.server = serve(folder, "--protocol", PROTOCOLS[kind], *given, *options)
        self.url = f"az://{ACCOUNT}/{BUCKET}" if kind == "az" else f"{kind}://{BUCKET}"
        self.env = self.environment()

    def environment(self, account=ACCOUNT, secret=SECRET):
        if self.kind == "s3":
            return self.server.s3_env(account, secret)
        if self.kind == "gs":
            return {
                "STORAGE_EMULATOR_HOST": self.server.url,
                "GS_ACCESS_KEY_ID": account,
                "GS_SECRET_ACCESS_KEY": secret,
            }
        return {"AZURE_STORAGE_ENDPOINT": f"{self.server.url}/{account}", "AZURE_STORAGE_KEY": secret}

    def again(self, *options, keys=True):
        """Another server of the same bucket."""
        return Place(self.kind, self.folder.parent, self.serve, *options, keys=keys)

    def read(self, key):
        return (self.folder / key).read_bytes()

    def write(self, key, data):
        """At once, as a store does it."""
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(path.name + ".new").write_bytes(data)
        path.with_name(path.name + ".new").rename(path)

    def calls(self):
        """What was asked of it, in order."""
        return [entry["call"] for entry in self.server.log()]


# What each calls the calls that tests look for.
PART = {"s3": "UploadPart", "gs": "UploadPart", "az": "PutBlock"}
FINISH = {"s3": "CompleteMultipartUpload", "gs": "CompleteUpload", "az": "PutBlockList"}
GET = {"s3": "GetObject", "gs": "GetObject", "az": "GetBlob"}
