"""The services that hand out keys, as AWS documents them: STS, single sign-on's portal, the container's endpoint, the
instance's metadata. Every answer has other keys; `requests` holds what was asked."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class KeysBox:
    """box.life: seconds that keys live. box.skew: how far its clock is ahead. box.dateless: it does not say. box.fail[name] = (code, body): what a service says instead."""

    def __init__(self, life=3600):
        self.life = life
        self.fail = {}
        self.delay = 0
        self.skew = 0
        self.dateless = False
        self.number = 0
        self.arrived = 0
        self.given = {}  # access key -> when it expires
        self.requests = []
        self.lock = threading.Lock()
        box = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                n = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(n).decode()
                with box.lock:
                    box.arrived += 1
                time.sleep(box.delay)
                code, text = box.respond(self.command, self.path, self.headers, body)
                data = text.encode()
                if box.dateless:
                    self.send_response_only(code)
                else:
                    self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                if self.path == "/latest/api/token":
                    self.send_header("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = answer

            def date_time_string(self, timestamp=None):
                return super().date_time_string(time.time() + box.skew)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()

    def fresh(self, who):
        with self.lock:
            self.number += 1
            expires = time.time() + self.life
            key = f"ASIA{who}{self.number}"
            self.given[key] = expires
            return key, f"secret-{self.number}", f"token-{self.number}", expires + self.skew

    def names(self):
        return [name for name, *_ in self.requests]

    def respond(self, method, path, headers, body):
        parts = urlsplit(path)
        if method == "POST":
            name = "sts"
        elif parts.path == "/federation/credentials":
            name = "sso"
        elif parts.path.startswith("/latest/"):
            name = "imds"
        else:
            name = "container"
        with self.lock:
            self.requests.append((name, method, path, dict(headers), body))
        if name in self.fail:
            return self.fail[name]
        return getattr(self, name)(method, parts, headers, body)

    def sts(self, method, parts, headers, body):
        form = {k: v[0] for k, v in parse_qs(body).items()}
        action = form["Action"]
        if action == "AssumeRole" and "Authorization" not in headers:
            return 403, self.sts_error("MissingAuthenticationToken", "Request is missing Authentication Token")
        if action == "AssumeRoleWithWebIdentity" and form["WebIdentityToken"] != "a-web-token":
            return 400, self.sts_error("InvalidIdentityToken", "The token is not valid")
        key, secret, token, expires = self.fresh("STS")
        keys = (
            f"<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>"
            f"<SessionToken>{token}</SessionToken><Expiration>{stamp(expires)}</Expiration></Credentials>"
        )
        user = "<AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/x/y</Arn>"
        user += "<AssumedRoleId>AROA:y</AssumedRoleId></AssumedRoleUser>"
        text = f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>{keys}{user}'
        return 200, text + f"</{action}Result></{action}Response>"

    @staticmethod
    def sts_error(code, message):
        return (
            '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
            f"<Code>{code}</Code><Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"
        )

    def sso(self, method, parts, headers, body):
        if headers.get("x-amz-sso_bearer_token") != "an-sso-token":
            return 401, '{"message": "Session token not found or invalid"}'
        key, secret, token, expires = self.fresh("SSO")
        keys = {"accessKeyId": key, "secretAccessKey": secret, "sessionToken": token, "expiration": int(expires * 1000)}
        return 200, json.dumps({"roleCredentials": keys})

    def keys_json(self, who, **more):
        key, secret, token, expires = self.fresh(who)
        return json.dumps(
            {"AccessKeyId": key, "SecretAccessKey": secret, "Token": token, "Expiration": stamp(expires), **more}
        )

    def container(self, method, parts, headers, body):
        return 200, self.keys_json("ECS")

    def imds(self, method, parts, headers, body):
        if parts.path == "/latest/api/token":
            return (200, "an-imds-token") if method == "PUT" else (405, "")
        if headers.get("X-aws-ec2-metadata-token") != "an-imds-token":
            return 401, ""
        if parts.path == "/latest/meta-data/iam/security-credentials/":
            return 200, "the-role"
        return 200, self.keys_json("IMDS", Code="Success", Type="AWS-HMAC", LastUpdated=stamp(time.time()))
