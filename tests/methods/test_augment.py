"""Prompts by difficulty (Reg-GRPO), halves that are asked differently (GCPO), soft routes (HPT), wins (GRAO)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.memories import RightTexts, TaskDifficulty
from podium.parts.keep import RouteSoftly
from podium.parts.metric.wins import ReferenceWins, win_rate_gain
from podium.protocols.context import History
from podium.strategies.hints.augment import Blurred
from podium.strategies.hints.guided import Contrasted
from podium.strategies.requests import Play, Recite, Request
from podium.worlds import Sums
from tests.conformance.helpers import differentiate
from tests.conformance.plans import collected, made
from tests.methods.catalogue import finite, lines, small
from tests.methods.support import rewards

# -- Reg-GRPO ----------------------------------------------------------------------------------------------------------


def asked(difficulty: float, hints: str = "rollout") -> Play:
    """What is sampled for a task of this difficulty, whose solution has four lines."""
    plays: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite):
            return made(request, [1.0], text=["a\nb\nc\nd\nanswer: 1"])
        plays.append(request)
        return made(request, [0.0] * request.n)

    recalled = {"group.difficulty": torch.tensor(difficulty), "group.right_text": "a\nb\nc\nd\nanswer: 1"}
    collected(methods.reg_grpo(n=2, hints=hints).rollout, answers, recalled=recalled)
    (play,) = plays
    return play


def test_a_task_that_goes_worse_than_usual_gets_as_much_of_a_solution() -> None:
    for source in ("rollout", "solution"):
        assert [asked(d, source).context.hint for d in (0.25, 0.5, 1.0)] == ["a", "a\nb", "a\nb\nc\nd"]
    assert asked(0.0).context is None


def test_a_task_that_goes_better_gets_a_question_with_masked_words() -> None:
    words = ["what", "is", "the", "sum", "of", "these", "numbers"]
    shown = [Blurred(rate, seed=1)(History(" ".join(words)))[0] for rate in (0.0, 0.4, 1.0)]
    hidden = [str(text).split().count("_") for text in shown]
    assert hidden[0] == 0 < hidden[1] < hidden[2] == len(words)
    assert isinstance(asked(-0.5).context.base, Blurred)
    assert asked(-0.5).context.base.rate == 0.5


def test_difficulty_is_what_a_task_lacks_beside_the_last_iterations() -> None:
    memory = TaskDifficulty(window=2)
    state = memory.initial()
    for values in ([0, 0], [1, 1]), ([0, 1], [1, 1]), ([1, 1], [1, 1]):
        state = memory.observe(state, rewards(*values))
    found = memory.recall(state, [0, 1, 2])["group.difficulty"]
    assert_close(found, torch.tensor([0.875 - 1, 0.875 - 1, 0.0], dtype=torch.float64))


def test_the_last_right_answer_without_help_is_remembered() -> None:
    memory = RightTexts()

    def seen(right: list[bool], guided: list[bool], texts: list[str]) -> Batch:
        columns = {"rollout__correct": right, "rollout__guided": guided, "rollout__text": tuple(texts)}
        return rewards([float(r) for r in right[:2]], [float(r) for r in right[2:]], **columns)

    state = memory.observe(memory.initial(), seen([True, True, False, True], [False] * 4, ["bb", "a", "c", "d"]))
    assert memory.recall(state, [0, 1, 2])["group.right_text"] == ("a", "d", "")
    state = memory.observe(state, seen([False, False, True, True], [False, False, True, False], ["x", "y", "z", "w"]))
    assert memory.recall(state, [0, 1])["group.right_text"] == ("a", "w")


class Few(Sums):
    def size(self, split: str = "train") -> int | None:
        return 2 if split == "train" else None


def test_reg_grpo_helps_and_hinders_when_tasks_come_again() -> None:
    found = lines(small("reg-grpo"), Few(level=3), iterations=3, tasks=2, seed=1)
    assert finite(found)
    assert any(line["difficulty"] != 0 for line in found[1:])
    assert not methods.get("reg-grpo@plain").memories


# -- GCPO --------------------------------------------------------------------------------------------------------------


def test_each_half_of_a_group_is_asked_and_trained_in_its_own_way() -> None:
    plays: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        plays.append(request)
        return made(request, [0.0] * request.n)

    collected(methods.gcpo_geometryzero(n=5, imitate=0).rollout, answers)
    assert [play.n for play in plays] == [3, 2]
    assert [play.context.below for play in plays] == list(methods.gcpo_geometryzero(imitate=0).rollout.asks)
    assert all(play.train_context is None for play in plays)
    assert type(methods.gcpo_geometryzero(imitate=0, asks=None).rollout).__name__ == "Sample"
    with pytest.raises(PodiumError, match="two texts"):
        Contrasted(asks=("one",))  # type: ignore[arg-type]


# -- HPT, soft ---------------------------------------------------------------------------------------------------------


def beside(solved: int, n: int = 8) -> Batch:
    values = [1.0] * solved + [0.0] * (n - solved) + [1.0]
    given = [False] * n + [True]
    purposes = [int(Purpose.train)] * n + [int(Purpose.demo)]
    return rewards(values, rollout__demonstration=given, rollout__purpose=purposes)


def test_the_more_is_solved_the_more_is_reinforced_and_the_less_imitated() -> None:
    found = [RouteSoftly()(beside(solved)) for solved in range(9)]
    own = [float(x["rollout.weight.route"][0]) for x in found]
    given = [float(x["rollout.imitation"][-1]) for x in found]
    assert own == [0, 0, 0.125, 0.25, 0.5, 1, 1, 1, 1]
    assert given == [1, 1, 0.5, 0.25, 0.125, 0, 0, 0, 0]
    assert all(float(x["rollout.weight.route"][-1]) == 1 for x in found)
    assert all(not bool(x["rollout.imitation"][:-1].any()) for x in found)


def test_soft_hpt_learns_from_the_demonstration_where_nothing_is_solved() -> None:
    method = methods.get("hpt@soft", entropy=0.0, max_length=8192)
    batch = beside(0)
    logp = torch.full((9, 2), -0.5, dtype=torch.float64)
    rows = Batch.from_padded(
        torch.ones(9, 2),
        [0] * 9,
        {
            "token.now.logp": logp,
            "token.old.logp": logp,
            **{name: batch[name] for name in ("rollout.reward", "rollout.demonstration", "rollout.purpose")},
            "rollout.sampled": ~batch["rollout.demonstration"],
        },
    )
    for part in (*method.keep, method.advantage):
        rows = rows.with_columns(part(rows))
    slope = rows.to_padded(differentiate(method.objective, rows).grad_logp)
    assert not bool(slope[:-1].any())
    assert bool((slope[-1] < 0).all())


# -- GRAO's measures ---------------------------------------------------------------------------------------------------


def test_wins_are_the_share_of_rollouts_that_beat_the_reference_answer() -> None:
    marks = {"rollout__demonstration": [False, False, True, False, True, False]}
    found = ReferenceWins()(rewards([3, 1, 2], [0, 5], [1], **marks))["batch.wins"]
    assert found.tolist() == [pytest.approx(1 / 3)]  # one of three beats its reference, the fourth has none


def test_gain_counts_the_tasks_that_training_has_improved() -> None:
    def measured(values: Sequence[float]) -> list[list[Rollout]]:
        return [[Rollout(f"t{i}", [], columns={"reward": x})] for i, x in enumerate(values)]

    assert win_rate_gain(measured([1, 0, 1]), measured([0, 0, 1])) == pytest.approx(1 / 3)
    assert win_rate_gain([], []) != win_rate_gain([], [])  # not a number


def test_right_answers_that_do_not_count_are_not_remembered() -> None:
    memory = RightTexts()
    columns = {
        "rollout__correct": [True, True],
        "rollout__guided": [False, False],
        "rollout__text": ("counts", "a"),
        "rollout__purpose": [Purpose.train, Purpose.probe],
    }
    state = memory.observe(memory.initial(), rewards([1.0, 1.0], **columns))
    assert memory.recall(state, [0])["group.right_text"] == ("counts",)
