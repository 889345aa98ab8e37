"""Code that a name refers to, `my_file.py:MyPart` or `package.module:MyPart`: finding, checking and loading it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pkgutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from podium.core.errors import PodiumError

__all__ = ["UntrustedCode", "check_code", "load_source", "project_root", "would_execute"]

PROJECT_MARKS = (".git", "pyproject.toml")
INSTALLED = ("site-packages", "dist-packages")


class UntrustedCode(PodiumError):
    """Code that a file names and that was not run, because the user has not said that it can be trusted."""


def check_code(names: Iterable[str], run: Path | None = None) -> None:
    """Refuse code that a file names, unless it is in the current project, is Podium's, or has been loaded already.

    Nothing is executed to find out. Code in the directory of the `run` that names it came with the run, so it does not
    count as the project's; nor do installed packages, since importing one may do anything. Symbolic links are followed
    first.
    """
    root, run_directory = project_root(), None if run is None else run.resolve()
    for name in names:
        source = name.rpartition(":")[0]
        for file in _files(source):
            if file is None:
                raise _refusal(f"{source}, which is no file of this project")
            place = file.resolve()
            if run_directory is not None and place.is_relative_to(run_directory):
                raise _refusal(f"{file}, which came with the run {run}")
            if not place.is_relative_to(root):
                where = "" if place == file.absolute() else f" ({place})"
                raise _refusal(f"{file}{where}, which is outside this project ({root})")
            if _is_installed(place):
                raise _refusal(f"{file}, which is an installed package and no part of this project ({root})")


def would_execute(name: str) -> bool:
    """Whether loading the code of this name would execute something: not if it is Podium's or has been loaded."""
    try:
        return any(True for _ in _files(name.rpartition(":")[0]))
    except PodiumError:  # it is not there
        return True


def _refusal(what: str) -> UntrustedCode:
    return UntrustedCode(
        f"Code is named here that was not run: {what}. Read it first; if you trust it, add --trust (in Python: "
        "trust=True)."
    )


def project_root() -> Path:
    """The nearest folder from the working directory up that holds .git or pyproject.toml; without one, the working
    directory. The home directory and folders of other users end the search."""
    here = Path.cwd().resolve()
    for place in (here, *here.parents):
        if place == Path.home() or not _is_mine(place):
            break
        if any((place / mark).exists() for mark in PROJECT_MARKS):
            return place
    return here


def _is_mine(place: Path) -> bool:
    """Whether a folder belongs to the user of this process."""
    return not hasattr(os, "getuid") or place.stat().st_uid == os.getuid()


def _is_installed(file: Path) -> bool:
    """Whether a file belongs to the installed packages, which may stand in a virtual environment of the project."""
    library = Path(sysconfig.get_paths()["stdlib"]).resolve()
    return file.is_relative_to(library) or any(part in INSTALLED for part in file.parts)


def _files(source: str) -> Iterator[Path | None]:
    """The files that loading a source would execute, without those that have been executed; None: not a file."""
    if source.endswith(".py"):
        path = _existing(source)
        if _loaded(path) is None:
            yield path
        return
    places: Iterable[str] | None = None
    name = ""
    for part in _module_parts(source):
        name = f"{name}.{part}" if name else part
        if name in sys.modules:
            places = getattr(sys.modules[name], "__path__", [])
            continue
        if name.startswith("podium."):
            return  # of Podium itself
        spec = _find(name, places)
        if spec is None:
            raise PodiumError(f"Cannot import {source!r}: there is no module {name!r}.")
        if spec.origin is not None and spec.has_location:
            yield Path(spec.origin)
        elif spec.submodule_search_locations is None:  # built into the interpreter
            yield None
        places = list(spec.submodule_search_locations or [])


def _find(name: str, places: Iterable[str] | None) -> ModuleSpec | None:
    """A module's specification, found in the places of its parent. `importlib.util.find_spec` would import that."""
    if places is None:
        specs = (finder.find_spec(name, None) for finder in sys.meta_path)
        return next((spec for spec in specs if spec is not None), None)
    portions: list[str] = []  # of a package without an __init__.py
    for place in places:
        finder = pkgutil.get_importer(place)
        spec = None if finder is None else finder.find_spec(name)
        if spec is not None and spec.loader is not None:
            return spec
        portions += [] if spec is None else spec.submodule_search_locations or []
    if not portions:
        return None
    package = ModuleSpec(name, None, is_package=True)
    package.submodule_search_locations = portions
    return package


def load_source(source: str) -> ModuleType:
    """The module of a source. This executes it: what a file names is checked first, by `check_code`."""
    if source.endswith(".py"):
        return _load_file(source)
    try:
        return importlib.import_module(".".join(_module_parts(source)))
    except ImportError as error:
        raise PodiumError(f"Cannot import {source!r}: {error}.") from error


def _module_parts(source: str) -> list[str]:
    parts = source.split(".")
    if not all(part.isidentifier() for part in parts):
        raise PodiumError(f"Cannot import {source!r}: it is neither a file (*.py) nor the name of a module.")
    return parts


def _existing(source: str) -> Path:
    path = Path(source)
    if not os.path.isfile(path):  # also False for what cannot be the name of a file
        raise PodiumError(f"There is no file {source!r} (looked in {Path.cwd()}).")
    return path


def _module_name(path: Path) -> str:
    return f"podium_user_{hashlib.blake2b(str(path.resolve()).encode(), digest_size=6).hexdigest()}"


def _loaded(path: Path) -> ModuleType | None:
    """The module of a file that has been executed: loaded before, or the script that is being run."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is not None and path.resolve() == Path(script).resolve():
        return sys.modules["__main__"]
    return sys.modules.get(_module_name(path))


def _load_file(source: str) -> ModuleType:
    path = _existing(source)
    loaded = _loaded(path)
    if loaded is not None:
        return loaded
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__podium_file__ = source  # type: ignore[attr-defined]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise PodiumError(f"{source} could not be loaded: {type(error).__name__}: {error}.") from error
    return module
