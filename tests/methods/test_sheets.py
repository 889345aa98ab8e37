"""The methods that train where a table decides, in phrasings and on several domains: short runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from podium import methods, worlds
from podium.core.errors import PodiumError
from podium.labs.transfer import MIX, TransferSize, transfer
from podium.method import Phases
from podium.protocols.context import History
from podium.protocols.format import Demonstrated
from podium.protocols.tagged import ChoiceTags
from podium.sessions.train import resume
from podium.store.run_directory import RunDirectory
from podium.worlds import Cases
from tests.methods.catalogue import lines
from tests.methods.support import short_run


def test_choice_tags_hand_reasoning_and_letter_to_the_world() -> None:
    world, form = Cases(), ChoiceTags()
    task = world.task(0)
    text = form.write(Demonstrated((world.solve(task),), 0, History(task.prompt)))
    assert text.startswith("<think>so ")
    assert text.endswith("}</answer>")
    read = form.read(text)
    assert read.well_formed
    info = world.grade(task, read.action).info
    assert (info["correct"], info["faithful"], info["complete"]) == (True, 1, 1)
    assert not form.read("so \\boxed{A}").well_formed
    assert world.grade(task, form.read(f"\\boxed{{{task.data['answer']}}}").action).info["correct"]
    assert form.read("no box").action == "no box"


def test_the_release_reads_no_statements() -> None:
    method = methods.get("clinical-r1@release")
    assert not [
        f for f in method.check(("rollout.correct", "rollout.reference_answer", "task.solution")) if f.kind == "error"
    ]
    with_terms = methods.get("clinical-r1").check(("rollout.correct", "rollout.reference_answer", "task.solution"))
    assert any("rollout.faithful" in finding.message for finding in with_terms)


def test_a_group_over_phrasings_is_trained_after_its_own_prompts() -> None:
    method = methods.info_consistent_grpo(pairs=2, imitate=0, kl=0.0)
    (line,) = lines(method, worlds.get("shop"))
    assert line["rollouts"] == 8  # two tasks, four phrasings each
    assert line["grad_norm.policy"] > 0


def test_a_world_of_one_wording_is_refused_with_what_to_do() -> None:
    with pytest.raises(PodiumError, match="take the world shop"):
        lines(methods.info_consistent_grpo(imitate=0, kl=0.0), worlds.get("sums"))


def test_fleming_measures_before_each_round_and_samples_more() -> None:
    method = methods.fleming_r1(n=2, imitate=0, first=1, rounds=(1, 1))
    assert isinstance(method, Phases)
    found = lines(method, worlds.get("cases"), iterations=5, pool=4)
    assert [line["rollouts"] for line in found] == [4, 8, 8, 8, 8]
    # After stage 1: two iterations measure the four tasks, one trains, and the next round measures again.
    assert [line["phase"] for line in found] == [0, 1, 1, 1, 1]
    assert [line.get("updates", 0) > 0 for line in found][1:3] == [False, False]


def test_a_resumed_run_remembers_what_the_weak_model_solved(tmp_path: Path) -> None:
    settings = {"world": "mix:sums,rules", "pool": 4, "iterations": 4, "checkpoint_every": 1, "keep_checkpoints": 9}
    method = methods.guru(n=4, measure=1, high=0.5)
    short_run(method, tmp_path / "whole", **settings)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for checkpoint in RunDirectory(tmp_path / "cut").checkpoints()[2:]:
        shutil.rmtree(checkpoint)
    resume(tmp_path / "cut")
    last = [RunDirectory(tmp_path / name).checkpoints()[-1] / "policy" for name in ("whole", "cut")]
    from podium.policy import load

    whole, cut = (list(load(str(place)).parameters()) for place in last)
    assert all(torch.equal(a, b) for a, b in zip(whole, cut, strict=True))


def test_transfer_reads_the_gain_of_every_domain() -> None:
    trial = transfer(("echo", "sums"), "echo")
    assert list(trial.arms) == ["echo", "sums", MIX]
    assert [claim.less for claim in trial.claims] == ["sums"]
    size = TransferSize(seeds=1, iterations=1, tasks=2, n=2, eval_tasks=3, samples=2)
    found = trial.arms[MIX](0, size)
    assert {name: len(found[name]) for name in found} == {"gain.echo": 3, "gain.sums": 3}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("domains", "least", "message"),
    [(("sums",), "", "two domains"), (("sums", "sums"), "", "each once"), (("sums", "echo"), "rules", "not one of")],
)
def test_transfer_refuses_what_cannot_be_compared(domains: tuple[str, ...], least: str, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        transfer(domains, least)
