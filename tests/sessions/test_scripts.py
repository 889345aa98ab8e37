"""Runs that a script or a notebook starts, with a world, a part and a reward of its own: they can be used later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from podium.cli.app import main
from podium.core.errors import PodiumError
from podium.core.script_code import definitions
from podium.store.run_directory import RunDirectory

SCRIPT = '''
from __future__ import annotations

import re
import podium
from podium.worlds import Answer, Feedback, Task

WORDS = ("even", "odd")
PATTERN = re.compile("|".join(WORDS))
BIG = [print("not copied")]


class Parity(Answer):
    name = "parity"
    max_tokens = 4

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"parity/{split}/{index}", f"Is {7 * index + (split == 'test')} even or odd?")

    def grade(self, task: Task, text: str) -> Feedback:
        right = WORDS[int(task.prompt.split()[1]) % 2]
        return Feedback(float(right in text), info={"correct": right in text, "answer": text})


def brief(prompt, completion):
    """No guard below: running this file again would train again."""
    return 1 / (1 + len(completion) + bool(PATTERN.search(completion)))


small = {"iterations": 1, "tasks": 2, "eval_tasks": 2, "eval_samples": 1}
podium.train("grpo", world=Parity(), out="runs/world", **small)
result = podium.train("grpo", world="sums", reward=brief, out="runs/reward", progress=False, **small)
print("evaluated", podium.evaluate(result.path, tasks=2)["reward"].mean > 0)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scripts")
    (path / "train_it.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "train_it.py"], cwd=path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "evaluated True" in done.stdout
    assert done.stdout.count("not copied") == 1  # the script ran once
    assert "held-out pass@1" in done.stderr  # progress, of the first run alone
    assert "sums" not in done.stderr
    return path


@pytest.mark.parametrize(("run", "code"), [("world", "Parity"), ("reward", "brief")])
def test_a_script_s_run_is_evaluated_resumed_and_run_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: str, code: str
) -> None:
    monkeypatch.chdir(folder)
    saved = (folder / "runs" / f"{run}.code" / "train_it.py").read_text()
    assert code in saved
    assert "podium.train" not in saved
    assert "not copied" not in saved
    assert f"runs/{run}.code/train_it.py:{code}" in (folder / "runs" / run / "config.yaml").read_text()
    assert main(["eval", f"runs/{run}", "--tasks", "2", "--k", "1"]) == 0
    assert main(["train", "--resume", f"runs/{run}", "--iterations", "2", "--quiet"]) == 0
    assert RunDirectory(folder / "runs" / run).metrics()[-1]["iteration"] == 2
    assert main(["train", "--config", f"runs/{run}/config.yaml", "--out", f"runs/{run}-again", "--quiet"]) == 0
    assert "not copied" not in capsys.readouterr().out


def test_only_what_is_needed_is_copied() -> None:
    source = "import a, b\nX = 1\nY = X + 1\ndef f():\n    return a.g(Y)\ndef h():\n    return b\nf()\n"
    assert definitions(source, ["f"]) == "import a, b\n\n\nX = 1\n\n\nY = X + 1\n\n\ndef f():\n    return a.g(Y)\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("if True:\n    def f(): ...\n", "f cannot be saved with the run: it is not defined at the top level"),
        (
            "with open('x') as y:\n    Z = y\ndef f():\n    return Z\n",
            "it uses Z, which is set inside another statement",
        ),
    ],
)
def test_what_could_not_be_found_again_is_refused(source: str, reason: str) -> None:
    with pytest.raises(PodiumError, match=reason):
        definitions(source, ["f"])


def test_a_function_without_a_source_is_refused_at_the_start(tmp_path: Path) -> None:
    code = "import podium\ndef f(prompt, completion): return 1.0\npodium.train(reward=f, iterations=1, out='run')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "f is defined where no other process can find it" in done.stderr
    assert not (tmp_path / "run").exists()
