"""Comparing groups in words: rules, models that answer well or badly, and runs without a gradient."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.memories.instructions import Instruction
from podium.memories.text_edits import Edit, Experience, numbered, read_edits
from podium.protocols.sampling import Sampling
from podium.protocols.scaffold import Scaffold
from podium.protocols.world import Task
from podium.report.run_page import write_report
from podium.sessions.evaluate import evaluate
from podium.sessions.train import configure, train
from podium.store.run_directory import RunDirectory
from podium.strategies import AdviceMutator, Experienced, ModelProposer, ModelWriter, RuleMiner
from podium.strategies.advice.experienced import group_is_used
from podium.strategies.advice.writers import Compared
from podium.strategies.ask import Ask, Reply
from podium.strategies.requests import TaskRequest
from podium.training.build import build_run
from podium.training.loop import iterate

SMALL: dict[str, Any] = {
    "world": "echo",
    "level": 2,
    "tasks": 4,
    "iterations": 2,
    "eval_tasks": 4,
    "model": "podium/tiny2",
}


def _done(plan: Any, reply: Callable[[str], str] = lambda prompt: "") -> Any:
    """What a plan returns if `reply` answers its questions."""
    try:
        wave = next(plan)
        while True:
            assert all(isinstance(request, Ask) for request in wave)
            wave = plan.send([[Reply(reply(request.prompt))] for request in wave])
    except StopIteration as end:
        return end.value


def test_a_group_says_something_where_rewards_differ() -> None:
    assert group_is_used([0.0, 1.0])
    assert not group_is_used([1.0, 1.0])
    assert not group_is_used([0.0])
    assert group_is_used([0.0], known=False)


def test_the_miner_keeps_the_line_that_went_with_good_answers() -> None:
    miner = RuleMiner(lines=("a", "b"), least=1.0)
    group = Compared("q", ("", "", ""), (0.0, 1.0, 0.0), shown=((), ("a",), ("b",)))
    # a: 1 − mean(0, 0) = 1 per group; b: 0 − mean(0, 1) = −0.5
    assert _done(miner.revise({}, [group, group], (0,))) == [Edit("ADD", "a", votes=2.0)]
    assert _done(miner.revise({}, [], (0,))) == []
    library = numbered([Experience("b", 1.5)])
    rival = Compared("q", ("", "", ""), (0.0, 1.0, 0.0), shown=(("b",), ("a",), ()))
    assert _done(miner.revise(library, [rival, rival], (0,))) == [Edit("UPDATE", "a", "G0", 2.0)]
    assert _done(miner.revise(library, [rival], (0,))) == []  # fewer votes than b has won with
    without = Compared("q", ("", "", ""), (0.0, 0.0, 1.0), shown=(("b",), ("a",), ()))
    assert _done(miner.revise(library, [without, without], (0,))) == [Edit("DELETE", "b", "G0")]


def test_a_model_summarises_compares_edits_and_merges() -> None:
    def reply(prompt: str) -> str:
        if "step by step" in prompt:
            return "it adds"
        if "<Experiences>" in prompt:
            assert "1: it adds" in prompt
            return "<Experiences>\n1. check signs\n2. third\n3. more\n</Experiences>"
        if "New advice" in prompt:
            assert "more" not in prompt
            return '[{"operation": "ADD", "content": "check signs"}]'
        return 'The plan: [{"operation": "UPDATE", "id": "G0", "content": "check signs"}]'

    group = Compared("q", ("x", "y"), (0.0, 1.0), "5", ((), ()))
    library = numbered([Experience("check")])
    assert _done(ModelWriter().revise(library, [group], (0,)), reply) == [Edit("UPDATE", "check signs", "G0")]


@pytest.mark.parametrize("said", ["", "nothing to say", "<Experiences>a</Experiences>", "[{]"])
def test_a_model_that_cannot_be_read_changes_nothing(said: str) -> None:
    group = Compared("q", ("x", "y"), (0.0, 1.0), "5", ((), ()))
    assert _done(ModelWriter().revise({}, [group], (0,)), lambda prompt: said) == []


def test_prompts_without_a_place_are_refused() -> None:
    with pytest.raises(PodiumError, match=r"where \{new\} is to stand"):
        ModelWriter(merge="{library}")
    with pytest.raises(PodiumError, match="none empty"):
        RuleMiner(lines=("a", " "))
    with pytest.raises(PodiumError, match=r"\{failures\}"):
        ModelProposer(ask="{instruction}")
    with pytest.raises(PodiumError, match="none of them empty"):
        AdviceMutator(lines=())


def test_weights_stay_and_texts_are_shown_in_evaluation(tmp_path: Path) -> None:
    method = methods.get("training-free-grpo", start=("be careful",))
    result = train(method, out=tmp_path / "run", **SMALL)
    assert all(line["weights_unchanged"] for line in result.metrics[1:])
    checkpoint = sorted((tmp_path / "run/checkpoints").iterdir())[-1]
    assert json.loads((checkpoint / "shown.json").read_text()) == ["", "experiences:\n[G0]. be careful"]
    assert "pass@1" in evaluate(tmp_path / "run", ks=(1,), tasks=4)
    assert "Weights unchanged" in _report(tmp_path / "run")


def _report(path: Path) -> str:
    return write_report(path).read_text("utf-8")


@pytest.mark.parametrize("slug", ["training-free-grpo", "inspo"])
def test_a_resumed_run_goes_on_exactly(slug: str, tmp_path: Path) -> None:
    settings = {"every": 1.0} if slug == "inspo" else {"critic": RuleMiner(least=0.1)}
    config = configure(methods.get(slug, n=4, **settings), **SMALL | {"iterations": 4, "checkpoint_every": 2})
    whole, directory = build_run(config), RunDirectory(tmp_path / "run")
    texts = []
    for number in range(4):
        iterate(whole)
        texts.append(dict(whole.memories.states))
        if number == 1:
            directory.write_checkpoint(2, whole.save, 1)
    again = build_run(config)
    again.restore(directory.checkpoints()[-1])
    for _ in range(2):
        iterate(again)
    assert again.memories.states == whole.memories.states != texts[0]
    for one, other in zip(again.policy.parameters(), whole.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    if slug == "training-free-grpo":
        fresh = build_run(config)
        for one, other in zip(fresh.policy.parameters(), whole.policy.parameters(), strict=True):
            assert torch.equal(one, other)


def test_the_mutator_changes_one_line() -> None:
    mutator = AdviceMutator(lines=("a", "b", "c"), longest=2)
    found = _done(mutator.propose(Instruction(("a",)), [], 9, (0, 1)))
    assert set(found) == {("b",), ("c",), ("a", "b"), ("a", "c")}


def test_a_proposal_without_the_mark_is_dropped() -> None:
    replies = iter(["I think. instruction: look twice", "no idea", "instruction: "])
    proposer = ModelProposer()
    found = _done(proposer.propose(Instruction(("a",)), ["wrong"], 3, (0,)), lambda prompt: next(replies))
    assert found == [("look twice",)]


def test_a_plan_shows_variants_and_writes_one_plan_of_edits() -> None:
    miner = RuleMiner(lines=("a",), least=1.0)
    strategy = Experienced(n=2, writer_of=miner)
    recalled = {"group.experiences": ()}
    tasks = [TaskRequest(Task(f"t{g}", "q"), g, Sampling(), (0, 0, g), recalled) for g in range(2)]
    (plan,) = strategy.plans(tasks)
    wave = next(plan)
    assert [play.context for play in wave] == [None, Scaffold(below="experiences:\n[G0]. a")] * 2
    answers = [
        [Rollout(task=f"t{play.request.group}", group=play.request.group, turns=(), columns=columns)]
        for play, reward in zip(wave, (0.0, 1.0, 0.0, 1.0), strict=True)
        for columns in [{"reward": reward, "text": "said", "index": play.first}]
    ]
    with pytest.raises(StopIteration) as end:
        plan.send(answers)
    edits = {rollout.columns["edits"] for rollout in end.value.value}
    assert [read_edits(text) for text in edits] == [[Edit("ADD", "a", votes=2.0)]]
    assert next(strategy.plan(tasks[1])) == wave[2:]
