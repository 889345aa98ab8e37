"""SRPO: reinforce what is right, distil what is wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium import policy as policies
from podium.collect.annotations import registry as annotate
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.method import Method, Role
from podium.parts.objective import ValueLoss
from podium.policy.head.functionals import HeadRows, entropy, logp_of, top
from podium.protocols.world import Task
from podium.sessions.train import configure, resume, train
from podium.training.build import build_run
from podium.training.loop import iterate
from tests.methods.support import short_run


def scored(
    method: Method, reward: list[float], sibling: list[bool], teacher: torch.Tensor, student: torch.Tensor
) -> Batch:
    """One group of rollouts of two tokens with the signals of these logits [rollout, token, vocabulary]."""
    n = len(reward)
    logp = torch.full((n, 2), -0.5, dtype=torch.float64)
    columns = {
        "token.now.logp": logp,
        "token.old.logp": logp,
        "rollout.reward": torch.tensor(reward, dtype=torch.float64),
        "rollout.correct": torch.tensor(reward) == 1,
        "rollout.sibling": torch.tensor(sibling),
    }
    batch = Batch.from_padded(torch.ones(n, 2), [0] * n, columns)
    distil, certainty = method.objective[1], method.shape[0]

    def rows(logits: torch.Tensor) -> HeadRows:
        flat = logits.flatten(0, 1)
        return HeadRows(flat, torch.zeros(len(flat), dtype=torch.long), lambda known: known)

    best = top(rows(teacher), 2)
    own = logp_of(rows(student), best)
    batch = batch.with_columns(
        {distil.needs[0]: best, distil.needs[1]: own, certainty.needs[1]: entropy(rows(teacher))}
    )
    for part in (*method.keep, method.advantage, certainty):
        batch = batch.with_columns(part(batch))
    return batch


def loss(method: Method, batch: Batch) -> float:
    return sum(float(term(batch)) for term in method.objective)


TEACHER = torch.tensor([[[0, 0], [0, 0]], [[2, 0], [0.5, 0]]], dtype=torch.float64)
STUDENT = torch.zeros(2, 2, 2, dtype=torch.float64)


def test_worked_example() -> None:
    method = methods.srpo(std=True, k=2)
    batch = scored(method, [1, 0], [False, True], TEACHER, STUDENT)
    assert batch["token.weight.certainty"].tolist() == pytest.approx([1, 1, 1.1476691, 0.8523309], abs=1e-6)
    assert loss(method, batch) == pytest.approx(-0.3262356, abs=1e-6)


@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0])
def test_the_mean_weight_of_distilled_tokens_is_one_for_every_beta(beta: float) -> None:
    weight = scored(methods.srpo(beta=beta, k=2), [1, 0], [False, True], TEACHER, STUDENT)["token.weight.certainty"]
    assert float(weight[2:].mean()) == pytest.approx(1)
    assert bool((weight == 1).all()) == (beta == 0)


def test_without_a_teacher_anywhere_it_is_grpo_with_a_token_mean() -> None:
    method = methods.srpo(std=True, k=2)
    batch = scored(method, [1, 0], [False, False], TEACHER, STUDENT)
    grpo = method.objective[0].replace(where=None, over="where")
    assert loss(method, batch) == pytest.approx(float(grpo(batch)))


def test_a_policy_that_agrees_with_its_teacher_is_not_moved() -> None:
    method = methods.srpo(k=2)
    batch = scored(method, [1, 0], [False, True], TEACHER, TEACHER)
    assert method.objective[1].loss(batch).abs().max() < 1e-15


def test_what_the_teacher_says_of_a_right_rollout_changes_nothing() -> None:
    method = methods.srpo(k=2)
    other = TEACHER.clone()
    other[0] += torch.tensor([5.0, -5.0])
    before, after = (loss(method, scored(method, [1, 0], [True, True], t, STUDENT)) for t in (TEACHER, other))
    assert before == pytest.approx(after)


def test_tokens_beyond_the_teachers_most_likely_ones_count_as_one() -> None:
    """With k = 1 of two equally likely tokens, the tail is the other one."""
    whole, cut = (methods.srpo(k=k) for k in (2, 1))
    teacher = TEACHER.clone()
    found = [scored(whole, [1, 0], [False, True], teacher, STUDENT)]
    best = found[0][whole.objective[1].needs[0]][:, :1]
    own = found[0][whole.objective[1].needs[1]][:, :1]
    batch = found[0].with_columns({cut.objective[1].needs[0]: best, cut.objective[1].needs[1]: own})
    assert_close(cut.objective[1].loss(batch), whole.objective[1].loss(found[0]))


# -- the teacher's view ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny() -> Any:
    return policies.load("podium/tiny")


def test_the_help_is_another_ones_right_solution_never_its_own(tiny: Any) -> None:
    task = Task("t", "sum: 1+2")
    prompt = tiny.encode([{"role": "user", "content": task.prompt}])

    def rollout(text: str, correct: bool) -> Rollout:
        columns = {"correct": correct, "purpose": 0, "text": text}
        return Rollout("t", [Turn(tiny.written(text), prompt)], columns=columns)

    rows = [rollout("answer: 4", False), rollout("answer: 3", True), rollout("answer: 5", False)]
    context = annotate.AnnotationContext(tiny, None)  # type: ignore[arg-type]
    found = annotate.sibling_contexts(context, task, rows)
    assert [r.columns["sibling"] for r in found] == [True, False, True]
    shown = [tiny.text(r.turns[0].columns["sibling.context"]) for r in found]
    assert "answer: 3" in shown[0]
    assert shown[1] == tiny.text(prompt)
    assert [r.columns["sibling"] for r in annotate.sibling_contexts(context, task, rows[:1] + rows[2:])] == [
        False,
        False,
    ]


def test_the_teacher_is_a_moving_average_of_the_policy(tmp_path: Path) -> None:
    run = build_run(configure(methods.srpo(n=4, rate=0.25), world="echo", tasks=2))

    def weights(model: Any) -> torch.Tensor:
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).clone()

    first = weights(run.policy)
    assert torch.equal(weights(run.trainer.roles["teacher"]), first)
    iterate(run)
    now = weights(run.policy)
    assert not torch.equal(now, first)
    assert_close(weights(run.trainer.roles["teacher"]), 0.75 * first + 0.25 * now)


def test_a_role_can_be_the_policy_itself_under_other_contexts() -> None:
    method = methods.srpo(n=4).with_(roles=Role("teacher", source="policy", context="turn.sibling.context"))
    run = build_run(configure(method, world="echo", tasks=2))
    assert run.trainer.roles["teacher"] is run.policy
    batch, line = iterate(run)
    assert line["grad_norm.policy"] > 0
    helped = batch["rollout.sibling"]
    own = run.trainer.provide(batch, [Signal("entropy", of="now")])
    seen = run.trainer.provide(batch.without([Signal("entropy", of="teacher")]), [Signal("entropy", of="teacher")])
    gap = (own["token.now.entropy"] - seen["token.teacher.entropy"]).abs()
    alike = batch.reduce(gap, "token", "rollout", "max") < 1e-4
    assert helped.any()
    assert torch.equal(alike, ~helped)  # only who has help sees another prompt


def test_roles_that_make_no_sense_are_refused() -> None:
    with pytest.raises(PodiumError, match=r"moving average .* so its source cannot be 'other/model'"):
        Role("teacher", source="other/model", decay=0.9)
    trained = methods.srpo() | ValueLoss(None, trains="teacher")
    assert any("a term trains it as well" in f.message for f in trained.check())
    blind = methods.srpo().with_(roles=Role("teacher", context="turn.nothing"))
    assert any("'turn.nothing', which nothing writes" in f.message for f in blind.check())


def test_a_resumed_run_has_the_teacher_that_it_left(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"world": "echo", "tasks": 2, "eval_tasks": 2, "eval_samples": 1, "eval_every": 0}
    method = methods.srpo(n=4, rate=0.5)
    whole = train(method, out=tmp_path / "whole", iterations=4, checkpoint_every=2, **settings)
    kept = sorted((tmp_path / "whole" / "checkpoints").iterdir())
    for later in kept[1:]:
        for file in sorted(later.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        later.rmdir()
    again = resume(tmp_path / "whole")
    assert [m["loss"] for m in again.metrics[1:]] == [m["loss"] for m in whole.metrics[1:]]


def test_it_trains_and_reports_how_much_was_distilled(tmp_path: Path) -> None:
    line = short_run(methods.srpo(n=4), tmp_path / "run").metrics[-1]
    assert line["grad_norm.policy"] > 0
    assert 0 < line["watched.distilled"] < 1
    assert 0 < line["divergence"] < math.log(2)
