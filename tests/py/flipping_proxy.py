"""A proxy that damages what passes: one bit of a body, on the way up or on the way down, under heads that stay right.

with FlippingProxy("127.0.0.1:9000") as proxy:
    proxy.up = 1  # how many of the next requests' bodies, or `always`
"""

import socket
import threading

always = 1 << 30


def read_message(connection, data, bodiless=False):
    """(head, body, what came after it) of one message, or None at the end."""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(1 << 16)
        if not piece:
            return None
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    length, chunked = 0, False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and not bodiless:
            length = int(value)
        chunked |= name.strip().lower() == b"transfer-encoding" and not bodiless
    body = bytearray(rest)
    while len(body) < length or (chunked and not body.endswith(b"0\r\n\r\n")):
        piece = connection.recv(1 << 20)
        if not piece:
            return None
        body += piece
    length = len(body) if chunked else length  # chunks pass as they are
    return head, bytes(body[:length]), bytes(body[length:])


class FlippingProxy:
    def __init__(self, upstream, method_up=b"PUT", method_down=b"GET", at_least=1000):
        host, _, port = upstream.partition(":")
        self.upstream = host, int(port)
        self.up = self.down = 0
        self.flipped_up = self.flipped_down = 0
        self.method_up, self.method_down, self.at_least = method_up, method_down, at_least
        self.lock = threading.Lock()
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.url = f"http://{self.host}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.listener.close()
        with self.lock:
            left = list(self.connections)
        for connection in left:
            connection.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def before(self, head):
        """Called before a request is forwarded to the server."""

    def _flip(self, which, body):
        """Objects only: lists and the small documents beside them have no checksum of their own."""
        with self.lock:
            left = getattr(self, which)
            if not left or len(body) < self.at_least or body.startswith(b"<"):
                return body
            setattr(self, which, left - 1)
            setattr(self, "flipped_" + which, getattr(self, "flipped_" + which) + 1)
        middle = len(body) // 2
        return body[:middle] + bytes([body[middle] ^ 4]) + body[middle + 1 :]

    def _serve(self, client):
        server = socket.create_connection(self.upstream)
        with self.lock:
            self.connections += [client, server]
        asked, answered = b"", b""
        try:
            while message := read_message(client, asked):
                head, body, asked = message
                method = head.split(b" ", 1)[0]
                self.before(head)
                if method == self.method_up:
                    body = self._flip("up", body)
                server.sendall(head + b"\r\n\r\n" + body)
                message = read_message(server, answered, bodiless=method == b"HEAD")
                if not message:
                    break
                head, body, answered = message
                if method == self.method_down:
                    body = self._flip("down", body)
                client.sendall(head + b"\r\n\r\n" + body)
        except OSError:
            pass  # one of them has hung up
        finally:
            client.close()
            server.close()
