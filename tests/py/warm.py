"""Programs in a Python that has imported torch already: importing it takes seconds of a core, and hundreds of tests start one.

    warm.py serve SOCKET            imports it, and forks for every program; ends with its standard input
    warm.py run SOCKET SCRIPT ARG…  runs `python SCRIPT ARG…` there, as this process: its files, folder, environment, network, exit
                                    status, signals. SCRIPT may be -c CODE or -m MODULE, as for Python.

What looks at how Python starts, or at which process is whose child, needs one of its own.
"""

import contextlib
import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import sys

HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(path, argv):
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)  # until there is whom to hand them to
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    order = json.dumps({"argv": argv, "env": dict(os.environ), "folder": os.getcwd()}).encode()
    network = os.open("/proc/self/ns/net", os.O_RDONLY)
    socket.send_fds(server, [len(order).to_bytes(8, "big")], [0, 1, 2, network])
    server.sendall(order)
    answers = server.makefile()
    pid = int(answers.readline())
    for number in HANDED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
    status = int(answers.readline() or -signal.SIGKILL)
    if status < 0:
        if -status in HANDED_ON:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def enter(network):
    """Goes into this network namespace, where it is another than ours."""
    if not os.path.samestat(os.fstat(network), os.stat("/proc/self/ns/net")):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(network, 0):
            raise OSError(ctypes.get_errno(), "setns")


class Server:
    def __init__(self, path):
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)  # who comes before torch is there waits
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(0, selectors.EVENT_READ, self.end)
        self.running = {}  # by process: its connection and the descriptor that tells its end

    def serve(self):
        """Returns in the processes that it forks, with what they are to run."""
        while True:
            for key, _ in self.selector.select():
                order = key.data()
                if order:
                    return order

    def accept(self):
        connection, _ = self.listener.accept()
        size, (*files, network), _, _ = socket.recv_fds(connection, 8, 4)
        with connection.makefile("rb") as reader:
            order = json.loads(reader.read(int.from_bytes(size, "big")))
        pid = os.fork()
        if pid == 0:
            self.selector.close()
            self.listener.close()
            connection.close()
            for other, end in self.running.values():
                other.close()
                os.close(end)
            os.setsid()
            enter(network)
            for number, file in enumerate(files):
                os.dup2(file, number)
        for file in (*files, network):
            os.close(file)
        if pid == 0:
            return order
        end = os.pidfd_open(pid)
        self.running[pid] = (connection, end)
        self.selector.register(end, selectors.EVENT_READ, lambda: self.ended(pid))
        self.selector.register(connection, selectors.EVENT_READ, lambda: self.left(pid))
        self.tell(connection, pid)
        return None

    def tell(self, connection, number):
        with contextlib.suppress(OSError):  # it is gone, and self.left() comes
            connection.sendall(f"{number}\n".encode())

    def ended(self, pid):
        connection, end = self.running.pop(pid)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.selector.unregister(end)
        os.close(end)
        if connection in self.selector.get_map():
            self.selector.unregister(connection)
        self.tell(connection, status)
        connection.close()

    def left(self, pid):
        """The process that runs it was killed: so is the program, with what it has forked."""
        if pid in self.running:  # else both ended at once
            self.selector.unregister(self.running[pid][0])
            self.kill(pid)

    def kill(self, pid):
        for kill in (os.killpg, os.kill):  # it may have no group yet
            with contextlib.suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)

    def end(self):
        for pid in self.running:
            self.kill(pid)
        os._exit(0)


def become(order):
    """Makes this process what a Python that was just started would be."""
    argv, env = order["argv"], order["env"]
    os.environ.clear()
    os.environ.update(env)
    sys.executable = env.get("WARM_EXECUTABLE", sys.executable)  # what a program starts to have another Python
    os.chdir(order["folder"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy

    numpy.random.seed()
    kind = argv[0] if argv[0] in ("-c", "-m") else ""
    first = "" if kind == "-c" else order["folder"] if kind == "-m" else os.path.dirname(os.path.abspath(argv[0]))
    sys.path[:1] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    sys.modules.pop("sitecustomize", None)  # Debian's Python has one of its own
    with contextlib.suppress(ModuleNotFoundError):
        import sitecustomize  # noqa: F401  # as a Python that starts does: `leat profile` follows programs from there
    sys.path.insert(0, first)
    return kind, argv


def main():
    path = sys.argv[2]
    if sys.argv[1] == "run":
        run(path, sys.argv[3:])
    server = Server(path)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import torch._dynamo  # optimizers import it
        import torch.distributed
        import torch.utils.data  # noqa: F401
    except ImportError:
        import numpy  # noqa: F401
    gc.freeze()  # what is collected would be copied in every process
    return become(server.serve())


if __name__ == "__main__":
    kind, argv = main()
    import atexit
    import runpy
    import threading
    import types

    # Not in a function: what a program raises ends this process as it would end its own.
    if kind == "-c":
        sys.argv = ["-c", *argv[2:]]
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(argv[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
    elif kind == "-m":
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")
    # As Python ends, but for taking torch apart again.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(0)
