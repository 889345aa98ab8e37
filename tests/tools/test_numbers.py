"""Entry points, what runs them, and mutants of them."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from podium.core.memory import Table
from podium.parts.advantage import Normalize
from podium.parts.reward import BrevityBonus
from tests.batches import sampled
from tools.numbers.__main__ import LISTED, REASONS, _Bend
from tools.numbers.entry_points import NAMES, Subject, entry_points
from tools.numbers.mutants import BENT, bent, mutants

ROOT = Path(__file__).parents[2]


def test_entry_points_are_what_a_run_calls() -> None:
    found = {str(subject) for subject in entry_points()}
    assert "parts/advantage/normalize.py::Normalize.__call__" in found
    assert "memories/hint_levels.py::HintLevels.observe" in found
    assert "strategies/sample/sample.py::Sample.plan" in found
    assert all(name.rpartition(".")[2] in NAMES for name in found)
    assert len(found) > 250


def test_listed_tests_exist() -> None:
    listed = json.loads(LISTED.read_text("utf-8"))
    known = {str(subject) for subject in entry_points()}
    for subject, test in listed.items():
        assert subject in known, subject
        file, _, name = test.partition("::")
        names = {
            node.name
            for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
            if isinstance(node, ast.FunctionDef)
        }
        assert name.partition("[")[0] in names, test


def test_every_entry_point_is_run_by_a_vector_or_by_the_test_that_is_listed_for_it() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = (sys.executable, "-m", "tools.numbers", "check")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def brevity() -> Subject:
    (subject,) = (s for s in entry_points() if s.name == "BrevityBonus.__call__")
    return subject


def test_a_mutant_changes_one_thing() -> None:
    changes = [mutant.change for mutant in mutants(brevity())]
    assert "operator of batch['rollout.reward'] + bonus" in changes
    assert "right side of batch['rollout.reward'] + bonus dropped" in changes
    assert "result bent" in changes
    (sign,) = (m for m in mutants(brevity()) if m.change == "operator of batch['rollout.reward'] + bonus")
    batch = sampled([1.0], [0], "a", length=torch.tensor([25.0], dtype=torch.float64))
    function, own = brevity().function, brevity().function.__code__
    assert BrevityBonus(100)(batch)["rollout.reward"].tolist() == [1.75]
    function.__globals__[BENT] = bent
    function.__code__ = sign.code
    try:
        assert BrevityBonus(100)(batch)["rollout.reward"].tolist() == [0.25]
    finally:
        function.__code__ = own
        del function.__globals__[BENT]
    assert BrevityBonus(100)(batch)["rollout.reward"].tolist() == [1.75]


def test_messages_and_streams_of_random_numbers_are_left_alone() -> None:
    (subject,) = (s for s in entry_points() if s.name == "NextTurn.plan")
    assert not any("key(" in mutant.change and "off by one" in mutant.change for mutant in mutants(subject))
    assert "key(" in inspect.getsource(subject.function)


def test_what_is_bent_is_another_value() -> None:
    assert bent(2.0) == 2.5
    assert bent({"x": torch.tensor([4.0])})["x"].tolist() == [5.0]
    assert bent(torch.tensor([True, False])).tolist() == [False, True]
    assert bent([object()]) == []
    assert bent((1.0, "x")) == (1.25, "")
    assert bent(Table({"a": (2.0,)}, (0.0,))).rows == {"a": (2.5,)}


def test_reasons_are_of_mutants_that_exist() -> None:
    known = {str(subject): subject for subject in entry_points()}
    for row in json.loads(REASONS.read_text("utf-8")):
        assert row["reason"], row
        assert row["subject"] in known, row["subject"]
        found = {(mutant.at, mutant.change) for mutant in mutants(known[row["subject"]])}
        assert (row["at"], row["change"]) in found, row


def test_a_result_that_cannot_be_bent_is_no_mutant() -> None:
    bend = _Bend()
    plan = (x for x in ())
    assert bend(plan) is plan
    assert (bend.met, bend.changed) == (True, False)
    bend(1.0)
    assert bend.changed


def test_normalize_is_an_entry_point_with_mutants() -> None:
    (subject,) = (s for s in entry_points() if s.function is Normalize.__call__)
    assert len(list(mutants(subject))) >= 2
