"""The interpreter of a page. Blocks come in, one JSON object per line; "done" or "failed" goes out.

The output of a block and the traceback of a failure go to the files that the object names.
"""

import json
import os
import sys
import traceback


def run(orders, answers):
    """The blocks of a page, in one namespace."""
    names = {"__name__": "__main__"}
    print(os.getpid(), file=answers, flush=True)
    for line in orders:
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
        print(answer, file=answers, flush=True)


run(os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"))
