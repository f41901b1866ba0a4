"""Which machines to train on: the same arithmetic and the same records as `leat plan --json`."""

import datetime
import json
import os

from leat import _core, errors


def _text(path):
    """A file as text; what is not UTF-8 in it harms no more than on the command line."""
    with open(path, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    if "\0" in text:
        raise errors.InvalidError(f"{path} holds a NUL byte: not a text file")
    return text


def _file(path, name="job"):
    """A path becomes its name and content; a mapping becomes JSON; None stays."""
    if path is None:
        return None
    if isinstance(path, dict):
        return {"name": name, "text": json.dumps(path)}
    return {"name": os.fspath(path), "text": _text(path)}


def _paths(value):
    """None, one path or several: a list of paths."""
    if value is None:
        return []
    return [value] if isinstance(value, (str, os.PathLike)) else list(value)


def _changed(path):
    """The day a file was last changed: how old its prices are at most."""
    seconds = os.stat(path).st_mtime
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).date().isoformat()


def _ask(request):
    status, text = _core.plan(json.dumps(request))
    if status:
        raise errors.make(status, text)
    return json.loads(text)


def _traces(index):
    """A table of availability traces, and the files that it names, relative to it."""
    if index is None:
        return {}
    table = _file(index)
    folder = os.path.dirname(os.fspath(index))
    names = _ask({"traces": table, "ask": "files"})["files"]
    return {"traces": table, "trace_files": [_file(os.path.join(folder, name)) for name in names]}


def plan(
    job=None,
    *,
    catalog,
    hardware=None,
    measurements=None,
    report=None,
    revocations=None,
    egress=None,
    traces=None,
    resume=None,
    compare=None,
    deadline=None,
    budget=None,
    min_accuracy=None,
    risk="p90",
    max_nodes=8,
    region=None,
    seed=1,
    draws=400,
    all=False,
    explain=None,
    launch=None,
    config=None,
    script=None,
    settings=None,
):
    """Predicts time and money of a training over clusters and picks one.

    `job` is the path of a job file or a dict of the same shape; the other files are paths, or lists of paths where
    several make sense, described in docs/plan.md. `deadline` is "24h" or seconds, `budget` "500usd" or dollars, `region`
    a name, several separated by commas, or a list. `settings` holds single values that win over the job's, such as {"job.batch": 128}.

    Returns what `leat plan --json` prints, as a dict: "records" has the chosen configuration first, then those that
    nothing else beats in both time and money (every one with `all=True`). With `explain="CONFIG"` it returns the
    record and the lines of the sum behind it; with `launch="skypilot"` (or "sbatch", "torchrun") a dict whose "text"
    starts the chosen configuration, or `config`, with `script` for what torchrun runs. `resume="run.json"` plans the rest
    of a run, `compare="run.json"` puts a finished one beside its prediction; both may be dicts. Raises leat.errors.InvalidError, a ValueError, for input that cannot
    work, with file and line.
    """
    request = {
        "job": _file(job),
        "catalog": [{**_file(path), "date": _changed(path)} for path in _paths(catalog)],
        "hardware": [_file(path) for path in _paths(hardware)],
        "measurements": [_file(path) for path in _paths(measurements)],
        "report": [_file(path) for path in _paths(report)],
        "revocations": [_file(path) for path in _paths(revocations)],
        "egress": [_file(path) for path in _paths(egress)],
        "resume": _file(resume, "run"),
        "compare": _file(compare, "run"),
        **_traces(traces),
        "settings": {key: str(value) for key, value in (settings or {}).items()},
        "options": {
            "deadline": deadline,
            "budget": budget,
            "min_accuracy": min_accuracy,
            "risk": risk,
            "max_nodes": max_nodes,
            "region": region if region is None or isinstance(region, str) else list(region),
            "seed": seed,
            "draws": draws,
            "all": bool(all),
            "explain": explain,
            "launch": launch,
            "config": config,
            "script": script,
            "today": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        },
    }
    return _ask(request)
