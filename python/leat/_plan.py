"""Which machines to train on: the same arithmetic and the same records as `leat plan --json`."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from leat import _arguments, _core, errors

if TYPE_CHECKING:
    from leat._types import Address, Real, Whole

    _Paths = Union[Address, Iterable[Address], None]


def _text(path: Address) -> str:
    """A file as text; what is not UTF-8 in it harms no more than on the command line."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        kinds = {FileNotFoundError: errors.NotFoundError, PermissionError: errors.DeniedError}
        raise kinds.get(type(error), errors.DiskError)(f"{path}: {error.strerror}") from None
    if "\0" in text:
        raise errors.InvalidError(f"{path} holds a NUL byte: not a text file")
    return text


def _json(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise errors.WrongTypeError(f"plan(): {error}") from None


def _file(path: Address | Mapping[str, Any] | None, name: str = "job") -> dict[str, Any] | None:
    """A path becomes its name and content; a mapping becomes JSON; None stays."""
    if path is None:
        return None
    if isinstance(path, Mapping):
        return {"name": name, "text": _json(dict(path))}
    path = _arguments.path(name, path)
    return {"name": path, "text": _text(path)}


def _paths(value: _Paths) -> list[Address]:
    """None, one path or several: a list of paths."""
    if value is None:
        return []
    return [value] if isinstance(value, (str, os.PathLike)) else list(value)


def _changed(path: Address) -> str:
    """The day a file was last changed: how old its prices are at most."""
    seconds = os.stat(path).st_mtime
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).date().isoformat()


def _said(name: str, value: str | Real | None) -> str | float | None:
    """A text or a number."""
    return value if value is None or isinstance(value, str) else _arguments.real(name, value)


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    status, text = _core.plan(_json(request))
    if status:
        raise errors.make(status, text)
    answer: dict[str, Any] = json.loads(text)
    return answer


def _traces(index: Address | None) -> dict[str, Any]:
    """A table of availability traces, and the files that it names, relative to it."""
    if index is None:
        return {}
    table = _file(index)
    folder = os.path.dirname(os.fspath(index))
    names = _ask({"traces": table, "ask": "files"})["files"]
    return {"traces": table, "trace_files": [_file(os.path.join(folder, name)) for name in names]}


def plan(
    job: Address | Mapping[str, Any] | None = None,
    *,
    catalog: _Paths,
    hardware: _Paths = None,
    measurements: _Paths = None,
    report: _Paths = None,
    revocations: _Paths = None,
    egress: _Paths = None,
    traces: Address | None = None,
    resume: Address | Mapping[str, Any] | None = None,
    compare: Address | Mapping[str, Any] | None = None,
    deadline: str | Real | None = None,
    budget: str | Real | None = None,
    min_accuracy: str | Real | None = None,
    risk: str = "p90",
    max_nodes: Whole = 8,
    region: str | Iterable[str] | None = None,
    seed: Whole = 1,
    draws: Whole = 400,
    all: bool = False,
    explain: str | None = None,
    launch: str | None = None,
    config: str | None = None,
    script: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Predicts time and money of a training over clusters and picks one.

    `job` is the path of a job file or a dict of the same shape; the other files are paths, or lists of paths where
    several make sense, described in docs/plan.md. `deadline` is "24h" or seconds, `budget` "500usd" or dollars, `region`
    a name, several separated by commas, or a list. `settings` holds single values that win over the job's, such as {"job.batch": 128}.

    Returns what `leat plan --json` prints, as a dict: "records" has the chosen configuration first, then those that
    nothing else beats in both time and money (every one with `all=True`). With `explain="CONFIG"` it returns the
    record and the lines of its calculation; with `launch="skypilot"` (or "sbatch", "torchrun") a dict whose "text"
    starts the chosen configuration, or `config`, with `script` for what torchrun runs. `resume="run.json"` plans the rest
    of a run, `compare="run.json"` puts a finished one beside its prediction; both may be dicts. Raises leat.errors.InvalidError, a ValueError, for input that cannot
    work, with file and line.
    """
    request = {
        "job": _file(job),
        "catalog": [{**(_file(path) or {}), "date": _changed(path)} for path in _paths(catalog)],
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
            "deadline": _said("deadline", deadline),
            "budget": _said("budget", budget),
            "min_accuracy": _said("min_accuracy", min_accuracy),
            "risk": risk,
            "max_nodes": _arguments.whole("max_nodes", max_nodes),
            "region": region if region is None or isinstance(region, str) else list(region),
            "seed": _arguments.whole("seed", seed),
            "draws": _arguments.whole("draws", draws),
            "all": _arguments.flag("all", all),
            "explain": explain,
            "launch": launch,
            "config": config,
            "script": script,
            "today": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        },
    }
    return _ask(request)
