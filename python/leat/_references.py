"""What a function can reach: its closure and defaults, the globals that its code names, and whatever these hold."""

from __future__ import annotations

import collections
import dis
import functools
import gc
import sys
import types

import numpy

_MOST = 50_000  # objects
_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, bytearray, memoryview, range, slice, types.CodeType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType),
    *(numpy.ndarray, numpy.generic, numpy.dtype),
)
_COMPLETE = (
    types.FunctionType,
    types.MethodType,
    types.ModuleType,
    staticmethod,
    classmethod,
    property,
    type,
    set,
    frozenset,
)
# Their code is not followed: it draws from generators of the process, from new ones, or from those that it is given.
_KNOWN = {
    *getattr(sys, "stdlib_module_names", ()),
    *("builtins", "numpy", "torch", "leat", "pydantic", "typing_extensions"),
    *("scipy", "sklearn", "skimage", "pandas", "librosa", "PIL", "cv2", "numba", "llvmlite"),
}
_CLOSED = {"numba", "llvmlite"}  # nor are their objects, which are many


class Reached:
    """An object that was looked for, and where it was found. `inside`: only the code of an installed library leads there."""

    def __init__(self, place, value, library, inside):
        self.place = place
        self.value = value
        self.library = library  # whose object or function holds it
        self.inside = inside


def follow(roots, wanted, libraries):
    """([Reached], whether that is all) of the objects whose class is wanted(class), as far as `roots`, {place: object}, lead to
    them; with `libraries` also through the code of installed libraries, which takes longer. The nearest come first, so that the
    same program finds the same places."""
    queue = collections.deque((place, value, "", False) for place, value in roots.items())
    seen = {}  # by id; holds the objects, so that ids stay theirs
    kinds = {}
    found = []
    namespaces = {id(vars(module)) for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)}
    while queue:
        if len(seen) > _MOST:
            return found, False
        place, value, library, inside = queue.popleft()
        cls = type(value)
        if issubclass(cls, _PLAIN) or id(value) in seen or id(value) in namespaces:
            continue
        seen[id(value)] = value
        if cls not in kinds:
            kinds[cls] = wanted(cls)
        if kinds[cls]:
            found.append(Reached(place, value, library, inside))
            continue
        by = _package(getattr(value if issubclass(cls, (types.FunctionType, type)) else cls, "__module__", "builtins"))
        if by in _CLOSED:
            continue
        library = library if by in _KNOWN else by
        if issubclass(cls, (types.FunctionType, type)) and _is_installed(by):
            if not libraries:
                continue
            inside = True
        for name, part in _parts(value, cls):
            if type(part) not in _PLAIN:
                queue.append((place + name, part, library, inside))
    return found, True


def _is_installed(package):
    path = getattr(sys.modules.get(package), "__file__", None) or ""
    return "site-packages" in path or "dist-packages" in path


def _parts(value, cls):
    """(name, object) of all that an object refers to by itself."""
    if issubclass(cls, types.FunctionType):
        yield from _of_function(value)
    elif issubclass(cls, types.MethodType):
        yield ".self", value.__self__
        yield "()", value.__func__
    elif issubclass(cls, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    elif issubclass(cls, (staticmethod, classmethod)):
        yield "", value.__func__
    elif issubclass(cls, property):
        yield ".fget", value.fget
    elif issubclass(cls, type):
        yield from _of_class(value)
    elif issubclass(cls, dict):
        for n, (key, part) in enumerate(list(dict.items(value))):
            yield f"[{key!r}]" if type(key) in (str, int) else f"[#{n}]", part
    elif issubclass(cls, (list, tuple, collections.deque)):
        for n, part in enumerate(cls.__iter__(value)):
            yield f"[{n}]", part
    if not issubclass(cls, _COMPLETE):
        yield from _of_instance(value, cls)


def _of_instance(value, cls):
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except Exception:
        attributes = {}
    for name, part in list(attributes.items()) if isinstance(attributes, dict) else ():
        yield f".{name}", part
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            slot = vars(base).get(name)
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    yield f".{name}", slot.__get__(value)
                except AttributeError:
                    continue
    yield ".class", cls
    # Of a class in C: iterators, caches, methods that are bound to an object
    for n, part in enumerate(gc.get_referents(value)):
        if not isinstance(part, (type, types.ModuleType, types.FrameType)):
            yield f"<{n}>", part


def _package(module):
    return str(module).partition(".")[0]


def _of_class(cls):
    for n, base in enumerate(cls.__mro__):
        if _package(getattr(base, "__module__", "builtins")) in _KNOWN:
            continue
        for name, part in list(vars(base).items()):
            if not isinstance(part, type) and (not name.startswith("__") or isinstance(part, types.FunctionType)):
                yield f".base{n}.{name}", part


def _of_function(function):
    for n, part in enumerate(function.__defaults__ or ()):
        yield f".default{n}", part
    for name, part in (function.__kwdefaults__ or {}).items():
        yield f".{name}", part
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:  # not filled yet
            continue
    for name, part in vars(function).items():
        yield f".{name}", part
    names = _names(function.__code__)
    if _package(function.__module__) in _KNOWN:
        return
    for name in names:
        if name in function.__globals__:
            yield from _named(f".{name}", function.__globals__[name], names, ())
        elif name in sys.modules and name in _imported(function.__code__):
            yield from _named(f".{name}", sys.modules[name], names, ())


def _named(place, value, names, inside):
    """An object that code names; of a module, what the code names of it."""
    if not isinstance(value, types.ModuleType):
        yield place, value
        return
    if value in inside or _package(value.__name__) in _KNOWN:
        return
    for name in names:
        if name in vars(value):
            yield from _named(f"{place}.{name}", vars(value)[name], names, (*inside, value))


def _imported(code):
    """Modules that a function imports."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME"}
    return names.union(*(_imported(part) for part in code.co_consts if isinstance(part, types.CodeType)))


def _names(code):
    """What a function's code, and that of functions in it, calls by name."""
    names = dict.fromkeys(code.co_names)
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            names.update(dict.fromkeys(_names(part)))
    return list(names)
