"""Somebody else's run: reading it executes nothing; what would execute its code asks for --trust first."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import podium
from podium.cli import main
from podium.core.errors import PodiumError
from podium.core.yaml_text import dump, from_yaml
from podium.report.run_page import write_report
from podium.sessions.train import train
from tests.sessions.test_train import small
from tests.store.consistent import replace_config

Capture = pytest.CaptureFixture[str]
FEW = ["--tasks", "2", "--k", "1"]
CODE = """
from pathlib import Path
(Path(__file__).parent / "executed").touch()
from podium.parts.advantage.normalize import Normalize
from podium.worlds.echo import Echo

class Thing(Echo):
    name = "thing"

class Part(Normalize):
    pass
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "theirs"
    train(small(iterations=1), out=out)
    return out


class Theirs:
    """A copy of a run whose configuration names code beside it."""

    def __init__(self, folder: Path, finished: Path) -> None:
        self.helper, self.run = folder / "helper.py", folder / "run"
        self.helper.write_text(CODE)
        shutil.copytree(finished, self.run)

    def names(self, kind: str) -> None:
        file = self.run / "config.yaml"
        config: dict[str, Any] = from_yaml(file.read_text())
        if kind == "world":
            config["world"] = f"{self.helper}:Thing"
        elif kind == "world with settings":
            config["world"], config["world_settings"] = {f"{self.helper}:Thing": {}}, None
        else:
            config["method"]["Method"]["advantage"] = {f"{self.helper}:Part": {}}
        replace_config(self.run, dump(config))

    @property
    def executed(self) -> bool:
        return (self.helper.parent / "executed").exists()


@pytest.fixture
def theirs(tmp_path: Path, finished: Path) -> Theirs:
    return Theirs(tmp_path, finished)


KINDS = ("world", "world with settings", "part")


@pytest.mark.parametrize("kind", KINDS)
def test_reading_a_run_executes_nothing(theirs: Theirs, capsys: Capture, kind: str) -> None:
    theirs.names(kind)
    assert main(["rollouts", str(theirs.run)]) == 0
    page = write_report(theirs.run).read_text()
    assert "helper.py:" in page
    assert "Held-out pass@1" in page
    assert main(["values", str(theirs.run), "--out", str(theirs.run / "value")]) == 2
    assert "too short to learn from" in capsys.readouterr().err
    assert main(["eval", str(theirs.run), "--world", "echo", *FEW]) == 0  # another world, and never the method
    assert not theirs.executed


@pytest.mark.parametrize("kind", KINDS)
def test_continuing_a_run_asks_for_trust_and_names_the_file(theirs: Theirs, capsys: Capture, kind: str) -> None:
    theirs.names(kind)
    new = ["--out", str(theirs.run.parent / "new")]
    for words in (["train", "--resume", str(theirs.run)], ["train", "--config", str(theirs.run / "config.yaml"), *new]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert f"{theirs.helper}, which is outside this project" in said
        assert "add --trust (in Python: trust=True)" in said
        assert str(theirs.run / "config.yaml") in said
        assert len(said.splitlines()) == 1
    with pytest.raises(PodiumError, match=r"helper\.py"):
        podium.resume(theirs.run)
    assert not theirs.executed
    assert main(["train", "--resume", str(theirs.run), "--trust", "--quiet"]) == 0
    assert theirs.executed


@pytest.mark.parametrize("kind", KINDS[:2])
def test_measuring_a_run_in_its_world_asks_for_trust(theirs: Theirs, capsys: Capture, kind: str) -> None:
    theirs.names(kind)
    run = str(theirs.run)
    for words in ([run], [run, "--compare"], [run, "--thinking", "0"], ["podium/tiny", "--compare", run]):
        assert main(["eval", *words, "--tasks", "2"]) == 2
        assert f"{theirs.helper}, which is outside this project" in capsys.readouterr().err
    with pytest.raises(PodiumError, match=r"helper\.py"):
        podium.evaluate(run, tasks=2, ks=(1,))
    assert not theirs.executed
    assert main(["eval", run, *FEW, "--trust"]) == 0
    assert theirs.executed


def test_measuring_a_run_never_executes_its_method(theirs: Theirs) -> None:
    theirs.names("part")
    assert main(["eval", str(theirs.run), *FEW]) == 0
    assert not theirs.executed


def test_code_inside_the_run_does_not_belong_to_the_project(
    theirs: Theirs, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs.helper = Path(shutil.move(theirs.helper, theirs.run / "helper.py"))
    theirs.names("world")
    monkeypatch.chdir(theirs.run.parent)
    copy = str(next(Path("run/checkpoints").iterdir()) / "config.yaml")
    shutil.copy("run/config.yaml", copy)
    configs = (["train", "--config", file] for file in ("run/config.yaml", copy))
    for words in (["eval", "run"], ["train", "--resume", "run"], *configs):
        assert main(words) == 2
        assert "which came with the run" in capsys.readouterr().err
    monkeypatch.chdir(theirs.run)
    assert main(["eval", "."]) == 2
    assert not theirs.executed


def test_a_run_with_code_of_the_project_needs_no_trust(theirs: Theirs, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs.names("world")
    monkeypatch.chdir(theirs.helper.parent)
    assert main(["eval", "run", *FEW]) == 0
    assert theirs.executed


def test_a_world_that_is_typed_is_trusted(theirs: Theirs) -> None:
    assert main(["eval", "podium/tiny", "--world", f"{theirs.helper}:Thing", *FEW]) == 0
    assert theirs.executed


@pytest.mark.parametrize(
    "command",
    [
        *("methods show {}", "methods show {} --yaml", "methods check {}", "methods compare {} grpo"),
        *("methods matrix {} grpo", "train {} --iterations 1", "compare grpo {} --seeds 1", "bench credit {}"),
    ],
)
def test_a_method_from_a_file_asks_for_trust(theirs: Theirs, capsys: Capture, command: str) -> None:
    file = theirs.helper.parent / "method.yaml"
    file.write_text(dump({"name": "mine", "advantage": {f"{theirs.helper}:Part": {}}}))
    out = [] if command.startswith(("methods", "bench")) else ["--out", str(theirs.helper.parent / "out")]
    assert main([*command.format(file).split(), *out]) == 2
    assert f"{file}: Code is named here that was not run: {theirs.helper}" in capsys.readouterr().err
    assert not theirs.executed


def test_a_method_from_a_file_is_shown_when_it_is_trusted(theirs: Theirs, capsys: Capture) -> None:
    file = theirs.helper.parent / "method.yaml"
    file.write_text(dump({"name": "mine", "advantage": {f"{theirs.helper}:Part": {}}}))
    assert main(["methods", "show", str(file), "--trust"]) == 0
    assert "advantage: Part" in capsys.readouterr().out
    assert theirs.executed
