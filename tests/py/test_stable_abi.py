"""The C extension is one file for every Python since 3.9: only what Python promises to keep may be used in it."""

import subprocess

import pytest


def test_extension_is_named_for_every_python(leat):
    assert leat._core.__file__.endswith("/_core.abi3.so")


def test_extension_uses_no_name_of_pythons_that_is_its_own(leat):
    """Names that begin with an underscore may go with any release, but for those that the stable ABI has."""
    stable = {"_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct", "_Py_Dealloc", "_PyObject_New"}
    names = subprocess.run(["nm", "-D", "--undefined-only", leat._core.__file__], capture_output=True, text=True)
    private = {name for name in names.stdout.split() if name.startswith("_Py") and not name.endswith("_SizeT")}
    assert "Py_BuildValue" in names.stdout or "_Py_BuildValue_SizeT" in names.stdout
    assert private <= stable


def test_objects_that_only_leat_makes_cannot_be_made_by_hand(leat):
    """A type of a spec inherits object's constructor; what it makes would have no batch."""
    with pytest.raises(TypeError, match="cannot create objects of"):
        leat._core.Ragged()
    with pytest.raises(TypeError, match="cannot create objects of"):
        leat.loader.Ragged()
