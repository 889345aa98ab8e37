"""Introspection: tasks that are written, votes on them, what joins the examples, and runs that go on exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.core.memory import decode_state, encode_state
from podium.core.text_similarity import rouge_l
from podium.memories import SeedTasks
from podium.memories.seed_tasks import SeedPool
from podium.parts.metric import SelfKnowledge
from podium.parts.reward import SelfAgreement
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task
from podium.sessions.train import configure
from podium.store.run_directory import RunDirectory
from podium.strategies import Introspect
from podium.strategies.advice.introspect import VoteCount
from podium.strategies.ask import Ask, Reply
from podium.strategies.requests import Play, TaskRequest
from podium.training.build import build_run
from podium.training.loop import iterate

SEEDS = SeedPool(("sum: 1+2", "sum: 3+4"), ("sum: 1+2+3+4+5",))
SMALL: dict[str, Any] = {"world": "sums", "level": 1, "tasks": 2, "eval_tasks": 4, "model": "podium/tiny2"}


def _batch(**columns: list[Any]) -> Batch:
    count = len(columns["declared"])
    default = {"written": [True] * count, "fresh": [True] * count}
    values = {f"rollout.{name}": _column(column) for name, column in {**default, **columns}.items()}
    return Batch.from_rewards(torch.zeros(count), list(range(count)), values)


def _column(values: list[Any]) -> Any:
    return tuple(values) if isinstance(values[0], str) else torch.tensor(values)


def _votes(feasible: list[float], infeasible: list[float], asked: list[float]) -> dict[str, list[Any]]:
    return {"votes.feasible": feasible, "votes.infeasible": infeasible, "votes.total": asked}


def test_six_of_eight_votes() -> None:
    votes = _votes([6.0, 6.0], [2.0, 2.0], [8.0, 8.0])
    found = SelfAgreement()(_batch(declared=[True, False], **votes))
    assert found["rollout.consensus"].tolist() == [0.75, 0.75]
    assert found["rollout.agreement"].tolist() == found["rollout.reward"].tolist() == [0.75, 0.25]
    assert found["rollout.majority"].tolist() == [True, True]
    each = _batch(declared=[True] * 8, vote=[1.0] * 6 + [0.0] * 2, **_votes([6.0] * 8, [2.0] * 8, [8.0] * 8))
    rewards = SelfAgreement(of="vote")(each)["rollout.reward"]
    assert rewards.tolist() == [1.0] * 6 + [0.0] * 2
    assert rewards.mean() == found["rollout.consensus"][0]  # the mean vote reward of a task is its consensus


def test_labels_may_be_swapped_but_for_ties_and_unread_votes_agree_with_nothing() -> None:
    declared, feasible, infeasible, asked = [True, False, True], [5.0, 1.0, 0.0], [2.0, 6.0, 0.0], [8.0] * 3
    one = SelfAgreement()(_batch(declared=declared, **_votes(feasible, infeasible, asked)))
    swapped = SelfAgreement()(_batch(declared=[not d for d in declared], **_votes(infeasible, feasible, asked)))
    assert one["rollout.reward"].tolist() == swapped["rollout.reward"].tolist() == [0.625, 0.75, 0.0]
    tie = SelfAgreement(of="vote")(
        _batch(declared=[True] * 3, vote=[1.0, 0.0, -1.0], **_votes([2.0] * 3, [2.0] * 3, [5.0] * 3))
    )
    assert tie["rollout.reward"].tolist() == [1.0, 0.0, 0.0]


def test_a_vote_is_the_first_word_of_the_last_line() -> None:
    read = Introspect().read
    assert [read(text) for text in ("yes", " No.", "I think\nyes, surely", "perhaps", "", "yesterday")] == [
        *(True, False, True),
        *(None, None, None),
    ]
    assert VoteCount.of([True, None, False, True]) == VoteCount(2.0, 1.0, 4.0)


def test_a_prompt_shows_both_labels_and_asks_for_one() -> None:
    lines = Introspect().prompt(SEEDS, False, (0, 1)).splitlines()
    assert sorted(lines[:-1]) == ["can: sum: 1+2", "can: sum: 3+4", "cannot: sum: 1+2+3+4+5"]
    assert lines[-1] == "write a task: cannot"


def _plan(trained: str, texts: list[list[str]]) -> tuple[list[Any], list[Rollout]]:
    """The second wave of a plan in which these texts were written, and its rollouts if every vote is `yes`."""
    strategy = Introspect(n=2, k=3, trained=trained, trials=0)
    tasks = [
        TaskRequest(Task(f"t{g}", "q"), g, Sampling(), (0, 0, g), {"group.seeds": SEEDS}) for g in range(len(texts))
    ]
    (plan,) = strategy.plans(tasks) if len(tasks) > 1 else [strategy.plan(tasks[0])]
    wave = next(plan)
    written = [[_said(play, text, i) for i, text in enumerate(own)] for play, own in zip(wave, texts, strict=True)]
    try:
        second = plan.send(written)
    except StopIteration as end:
        return [], end.value
    said = [[Reply("yes")] if isinstance(r, Ask) else [_said(r, "yes", i) for i in range(r.n)] for r in second]
    with pytest.raises(StopIteration) as end:
        plan.send(said)
    return second, end.value.value


def _said(play: Play, text: str, index: int) -> Rollout:
    columns = {"reward": 0.0, "text": text, "index": play.first + index}
    return Rollout(task=play.request.task.key, group=play.request.group, turns=(), columns=columns)


def test_copies_and_empty_texts_are_dropped_and_the_rest_is_asked_about_without_its_label() -> None:
    asked, rollouts = _plan("tasks", [["sum: 5+6", "sum: 1+2"], ["", "sum: 5+6"]])
    assert [request.prompt for request in asked] == ["can you: sum: 5+6"] * 3
    assert [r.columns["purpose"] for r in rollouts] == [Purpose.train, *[Purpose.replaced] * 3]
    assert [r.columns["declared"] for r in rollouts] == [True, True, False, False]
    assert [r.columns["votes.feasible"] for r in rollouts] == [3.0, 0.0, 0.0, 0.0]
    assert _plan("tasks", [["", "sum: 3+4"]])[0] == []  # nothing new: nobody is asked


def test_votes_that_are_trained_form_groups_of_their_own() -> None:
    asked, rollouts = _plan("votes", [["sum: 5+6", "sum: 7+8"]])
    assert [request.n for request in asked] == [3, 3]
    assert len({index for r in asked for index in range(r.first, r.first + r.n)}) == 6
    trained = [r for r in rollouts if r.columns["purpose"] == Purpose.train]
    assert [r.group for r in trained] == ["0, votes on 0"] * 3 + ["0, votes on 1"] * 3
    assert {r.columns["vote"] for r in trained} == {1.0}


def test_rouge_l_by_hand() -> None:
    assert rouge_l("a b c d", "a c e d") == 2 * 3 / 8
    assert (rouge_l("a", "a"), rouge_l("a", "b"), rouge_l("", "")) == (1.0, 0.0, 1.0)


def test_new_tasks_of_high_consensus_come_first_and_the_oldest_leave() -> None:
    memory = SeedTasks(feasible=("sum: 1+2", "sum: 3+4"), infeasible=("sum: 5+6+7",))
    batch = _batch(
        text=["sum: 8+9", "sum: 1+2", "sum: 2+2", "sum: 9+9+9", "sum: 6+6"],
        declared=[True, True, True, False, True],
        consensus=[0.875, 1.0, 0.75, 1.0, 1.0],
        majority=[True, True, True, False, False],
    )
    assert memory.joins(batch) == [True, True, False, True, False]
    state = memory.observe(memory.initial(), batch)
    assert state == {"feasible": ["sum: 8+9", "sum: 1+2"], "infeasible": ["sum: 9+9+9"]}
    recalled = memory.recall(state, ["t"])
    assert recalled["group.seeds"] == (SeedPool(("sum: 8+9", "sum: 1+2"), ("sum: 9+9+9",)),)
    assert recalled["batch.seeds.new"].tolist() == pytest.approx([2 / 3])
    tensors: dict[str, torch.Tensor] = {}
    assert decode_state(encode_state(state, tensors), tensors) == state


def test_claims_against_pass_rates_by_hand() -> None:
    batch = _batch(
        declared=[True, True, False],
        majority=[True, False, False],
        consensus=[1.0, 0.25, 0.25],
        distinct=[0.75] * 3,
        **_votes([8.0, 2.0, 0.0], [0.0] * 3, [8.0] * 3),
        **{"able.claim": [0.75, 0.5, 0.5], "able.rate": [1.0, 0.5, 0.0]},
    )
    found = {name.removeprefix("batch.self."): value.item() for name, value in SelfKnowledge()(batch).items()}
    # Claims of the two that can be done against the one that cannot: ahead, tied. Claimed: all three.
    own = {"intrinsic": 2 / 3, "consensus": 0.5, "distinct": 0.75, "feasible": 10 / 24}
    assert found == pytest.approx({**own, "auc": 0.75, "f1": 0.8})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Introspect(question="can you?"), r"where \{task\} is to stand"),
        (lambda: Introspect(replies=("yes", "Yes")), "two different words"),
        (lambda: Introspect(trained="all"), "trained"),
        (lambda: SeedTasks(feasible=()), "at least one task"),
        (lambda: SeedTasks(feasible=("a",), infeasible=("a",)), "'a' twice"),
        (lambda: SeedTasks(threshold=0.4), "threshold"),
        (lambda: SelfAgreement(of="hope"), "of"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        make()


@pytest.mark.parametrize("slug", ["knowrl", "knowrl@votes"])
def test_a_resumed_run_goes_on_exactly(slug: str, tmp_path: Path) -> None:
    method = methods.get(slug, n=2, k=2, trials=1, threshold=0.5)
    config = configure(method, **SMALL, iterations=2, checkpoint_every=1)
    whole, directory = build_run(config), RunDirectory(tmp_path / "run")
    first = dict(whole.memories.states)
    iterate(whole)
    directory.write_checkpoint(1, whole.save, 1)
    iterate(whole)
    again = build_run(config)
    again.restore(directory.checkpoints()[-1])
    iterate(again)
    assert again.memories.states == whole.memories.states != first
    for one, other in zip(again.policy.parameters(), whole.policy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_votes_of_every_task_of_a_batch_are_trained() -> None:
    method = methods.get("knowrl@votes", n=2, k=4, trials=1, mini_batches=1)
    run = build_run(configure(method, **SMALL, iterations=1))
    before = [parameter.clone() for parameter in run.policy.parameters()]
    batch, line = iterate(run)
    votes = batch["rollout.purpose"] == Purpose.train
    assert votes.sum() == 4 * int(batch["rollout.fresh"].sum()) > 0  # k for each new task
    assert 0 < line["self.consensus"] <= 1
    assert line["updates"] == 1
    assert any(not torch.equal(one, other) for one, other in zip(before, run.policy.parameters(), strict=True))
