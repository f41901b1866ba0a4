"""The interpreters of pages: snippet_python.py SOCKET. Each connection is one page, in a process of its own.

Blocks come in, one JSON object per line; "done" or "failed" goes out. What a block prints, and the traceback of one that
fails, goes to the files that the object names. Pages are forked from here, so that torch is imported once for all of them.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import traceback


def run(conversation):
    """The blocks of one page, in one namespace."""
    names = {"__name__": "__main__"}
    print(os.getpid(), file=conversation, flush=True)
    for line in conversation:
        order = json.loads(line)
        for name, number in (("out", 1), ("err", 2)):
            out = os.open(order[name], os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(out, number)
            os.close(out)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["folder"])
        if sys.path[0] != order["folder"]:
            sys.path[:1] = [order["folder"], *order["env"]["PYTHONPATH"].split(os.pathsep)]
        try:
            # Tracebacks name the page and its line.
            exec(compile("\n" * (order["line"] - 1) + order["text"], order["page"], "exec"), names)
            answer = "done"
        except BaseException:
            traceback.print_exc()
            answer = "failed"
        sys.stdout.flush()
        print(answer, file=conversation, flush=True)


def main():
    with contextlib.suppress(ImportError):  # pages see numpy arrays then
        import torch  # noqa: F401
    import numpy  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            run(connection.makefile("rw"))
            return
        connection.close()


main()
