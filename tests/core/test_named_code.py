"""Code that a file names runs only if it stands in the current project; nothing is executed to find out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from podium.core.errors import PodiumError
from podium.core.named_code import check_code, project_root, would_execute
from podium.core.serial import load_class
from podium.method import Method

CODE = """
from pathlib import Path
Path({mark!r}).touch()
from podium.core.part import Advantage
class Thing(Advantage):
    needs = ()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "deep").mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    monkeypatch.chdir(folder / "deep")
    return folder


def planted(file: Path) -> Path:
    """Writes code to a file; returns the file that executing it creates."""
    file.parent.mkdir(parents=True, exist_ok=True)
    mark = file.with_suffix(".executed")
    file.write_text(CODE.format(mark=str(mark)))
    return mark


def yaml_naming(code: str) -> str:
    return f"{{name: mine, advantage: {{{code!r}: {{}}}}}}"


def test_a_file_of_the_project_is_executed(project: Path) -> None:
    mark = planted(project / "parts.py")
    assert type(Method.from_yaml(yaml_naming("../parts.py:Thing")).advantage).__name__ == "Thing"
    assert mark.exists()


def test_a_file_elsewhere_is_named_and_not_executed_unless_it_is_trusted(project: Path) -> None:
    file = project.parent / "elsewhere" / "parts.py"
    mark = planted(file)
    for name in (str(file), "../../elsewhere/parts.py"):
        with pytest.raises(PodiumError, match=r"parts\.py.* outside this project .*--trust \(in Python: trust=True\)"):
            Method.from_yaml(yaml_naming(f"{name}:Thing"))
    assert not mark.exists()
    Method.from_yaml(yaml_naming(f"{file}:Thing"), trust=True)
    assert mark.exists()
    Method.from_yaml(yaml_naming(f"{file}:Thing"))  # it has been executed: nothing more happens


def test_code_named_in_python_needs_no_trust(project: Path) -> None:
    mark = planted(project.parent / "typed.py")
    load_class(f"{project.parent / 'typed.py'}:Thing")
    assert mark.exists()


def test_a_link_counts_as_where_it_points(project: Path) -> None:
    outside = project.parent / "outside.py"
    planted(outside)
    (project / "link.py").symlink_to(outside)
    with pytest.raises(PodiumError, match=r"link\.py \(.*outside\.py\), which is outside"):
        check_code([f"{project / 'link.py'}:Thing"])
    planted(project / "inside.py")
    (project.parent / "back.py").symlink_to(project / "inside.py")
    check_code([f"{project.parent / 'back.py'}:Thing"])


def test_files_that_came_with_a_run_do_not_belong_to_the_project(project: Path) -> None:
    planted(project / "runs/theirs/helper.py")
    names = [f"{project / 'runs/theirs/helper.py'}:Thing"]
    check_code(names)
    with pytest.raises(PodiumError, match="which came with the run"):
        check_code(names, run=project / "runs/theirs")


def test_a_package_is_found_without_importing_its_parents(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = project.parent / "library"
    marks = [planted(outside / "foreign_package" / name) for name in ("__init__.py", "inner.py")]
    monkeypatch.syspath_prepend(str(outside))
    for name in ("foreign_package.inner:Thing", "foreign_package:Thing"):
        with pytest.raises(PodiumError, match=r"foreign_package/__init__\.py, which is outside this project"):
            check_code([name])
    assert not any(mark.exists() for mark in marks)
    assert "foreign_package" not in sys.modules


def test_packages_of_the_project_are_its_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = [planted(project / name) for name in ("own_spaces/inner/parts.py", "own_package/__init__.py")]
    monkeypatch.syspath_prepend(str(project))
    check_code(["own_spaces.inner.parts:Thing", "own_package:Thing"])  # the first has no __init__.py at all
    assert not any(mark.exists() for mark in marks)
    with pytest.raises(PodiumError, match=r"Cannot import 'own_package.none': there is no module 'own_package.none'"):
        check_code(["own_package.none:Thing"])


def test_installed_packages_do_not_belong_to_the_project_even_in_an_environment_inside_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = project / ".venv/lib/site-packages"
    planted(place / "installed_thing.py")
    monkeypatch.syspath_prepend(str(place))
    with pytest.raises(PodiumError, match="an installed package and no part of this project"):
        check_code(["installed_thing:Thing"])


@pytest.mark.parametrize("name", ["antigravity:X", "this:X", "turtledemo.clock:X"])
def test_modules_of_python_are_not_imported(project: Path, name: str) -> None:
    with pytest.raises(PodiumError, match="which is outside this project"):
        check_code([name])
    assert name.partition(":")[0] not in sys.modules


def test_a_module_that_is_built_in_is_refused_too(project: Path) -> None:
    builtin = next(name for name in sorted(sys.builtin_module_names) if name not in sys.modules)
    with pytest.raises(PodiumError, match="no file of this project"):
        check_code([f"{builtin}:X"])


@pytest.mark.parametrize(
    "name", [":X", ".:X", "a..b:X", "../x:X", "a b:X", "\x00.py:X", f"{'a' * 5000}.py:X", "'\n':X"]
)
def test_names_that_cannot_be_code_give_one_sentence(project: Path, name: str) -> None:
    for read in (lambda: check_code([name]), lambda: load_class(name)):
        with pytest.raises(PodiumError, match=r"Cannot import|There is no file"):
            read()


def test_modules_of_podium_and_loaded_ones_execute_nothing(project: Path) -> None:
    check_code(["podium.parts.advantage.normalize:Normalize", "podium.worlds.sums:Sums", f"{__name__}:X"])
    assert not would_execute("podium.worlds.sums:Sums")
    assert would_execute("no_such_module_at_all:X")


def test_settings_are_checked_before_anything_is_executed(project: Path) -> None:
    mark = planted(project / "parts.py")
    text = "{name: mine, advantage: {'../parts.py:Thing': {}}, updates: {Updates: {epochz: 2}}}"
    with pytest.raises(PodiumError, match="Updates has no setting 'epochz'"):
        Method.from_yaml(text)
    assert not mark.exists()


def test_the_project_ends_below_the_home_directory_and_where_the_owner_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "home/work/inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "home/work/inner")
    assert project_root() == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert project_root() == tmp_path / "home/work/inner"
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert project_root() == tmp_path / "home/work/inner"
