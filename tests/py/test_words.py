"""One table of a pipeline's words: what `leat image --words` prints, the Python methods and docs/prep.md agree."""

import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Settings whose methods have other names, or none.
SETTINGS = {
    "filter",
    "mode",
    "colour",
    "layout",
    "dtype",
    "mean",
    "std",
    "background",
    "fill",
    "follow",
    "alpha",
    "animation",
    "bits",
    "orientation",
    "damage",
}


@pytest.fixture
def words(run_leat):
    """[(name, form, default or None, values, help, [parameters, the same])]"""
    rows = []
    for line in run_leat("image", "--words", status=0).stdout.splitlines()[1:]:
        word, default, values, text = re.split(r"\s{2,}", line.strip(), maxsplit=3)
        name, _, form = word.partition("=")
        row = (name, form, None if default == "-" else default, values, text, [])
        (rows[-1][5] if line.startswith("  ") else rows).append(row)
    return rows


def numbers(value):
    """A default as numbers, whether it is the table's text or Python's."""
    if isinstance(value, (tuple, list)):
        return [float(v) for v in value]
    parts = []
    for part in str(value).split(":"):
        over, _, under = part.partition("/")
        try:
            parts.append(float(over) / float(under or 1))
        except ValueError:
            return [value]
    return parts


def test_every_step_and_augmentation_is_a_method_with_the_tables_defaults(words):
    fields = pytest.importorskip("leat.fields")
    seen = 0
    for name, form, default, _, _, parameters in words:
        if name in SETTINGS:
            continue
        own = list(inspect.signature(getattr(fields.Image, name)).parameters.values())[1:]
        main = {"B:C:S:H": 4, "WxH+X+Y": 4}.get(form, 1)
        assert [p.name for p in own[main:]] == [p[0] for p in parameters], name
        for mine, row in zip(own[main:], parameters):
            assert numbers(mine.default) == numbers(row[2]), (name, row[0])
        if default is None and main == 1:
            assert own[0].default is inspect.Parameter.empty, name
        elif main == 1:
            assert numbers(own[0].default) == numbers(default), name
        seen += 1
    assert seen > 30


def test_what_methods_write_is_taken(run_leat, tmp_path, words):
    fields = pytest.importorskip("leat.fields")
    Image = pytest.importorskip("PIL.Image")
    Image.new("RGB", (60, 50)).save(tmp_path / "a.png")
    values = {
        "crop": (1, 2, 30, 40),
        "color_jitter": (0.1, 0.2, 0.3, 0.1),
        "hue": (0.1,),
        "gaussian_blur": (5,),
        "random_crop": (9,),
    }
    for name, _, default, _, _, parameters in words:
        if name in SETTINGS:
            continue
        arguments = values.get(name, () if default else (2,))
        field = getattr(fields.image("png"), name)(*arguments)
        run_leat("image", tmp_path / "a.png", "-p", field._pipeline, status=0)
        assert f"{name}=" in field._pipeline
        if parameters and name not in ("resize", "random_crop"):
            assert all(f"{p[0]}=" in field._pipeline for p in parameters)


def test_the_document_lists_the_table(words):
    text = (ROOT / "docs" / "prep.md").read_text()
    for row in words:
        for name, form, default, values, meaning, _ in [row, *row[5]]:
            dot = "" if (name, form) == row[:2] else "· "
            line = f"| {dot}`{name}={form}` | {default or ''} | {values if values != '-' else ''} | {meaning} |"
            assert line in text, line
