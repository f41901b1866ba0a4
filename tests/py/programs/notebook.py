"""A notebook in a real Jupyter kernel, which keeps every output that it shows. notebook.py URL BEGUN

Shows the labels of ten batches one after the other, interrupts a loop that would go on for ever, and goes on after it. Prints
the outputs of the last lines of the cells, as JSON. The file BEGUN tells that the loop runs."""

import json
import os
import signal
import sys
import threading
import time

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

OPEN = """
import logging, sys
import leat
logging.basicConfig(stream=sys.stdout)
fields = {"x": leat.image("png").resize((96, 96)), "i": leat.index(), "k": leat.key()}
loader = leat.Loader(URL, batch_size=8, fields=fields)
batches = iter(loader)
"""
SHOW = ["x, i, k = next(batches)\ni", "_, _, k = next(batches)\nk"] * 5
FOREVER = "print('begun')\nopen(BEGUN, 'w').close()\nwhile True:\n    for batch in loader:\n        pass"
AFTER = ["loader.set_epoch(7)\nsorted(n for _, i, _ in loader for n in i.tolist())", "len(Out)"]


def interrupt(pid, begun):
    while not os.path.exists(begun):
        time.sleep(0.01)
    os.kill(pid, signal.SIGINT)


def main():
    url, begun = sys.argv[1:]
    loop = FOREVER.replace("BEGUN", repr(begun))
    cells = [OPEN.replace("URL", repr(url)), *SHOW, loop, *AFTER]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(notebook, timeout=200, kernel_name="python3")
    said = []
    with client.setup_kernel():
        for number, cell in enumerate(notebook.cells):
            if cell.source == loop:
                threading.Thread(target=interrupt, args=(client.km.provisioner.pid, begun)).start()
            try:
                client.execute_cell(cell, number)
            except CellExecutionError as error:
                said.append(error.ename)
            said += ["".join(o.get("text", o.get("data", {}).get("text/plain", ""))) for o in cell.outputs]
    print(json.dumps(said))


if __name__ == "__main__":
    main()
