"""Ways to make a batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.core import Batch, Origin, PodiumError, Purpose, Rollout, Turn

# -- from rollouts ---------------------------------------------------------------------------------------------------


def test_rollouts_become_columns_of_their_levels() -> None:
    rows = [
        Rollout(
            "sum",
            [
                Turn(
                    [1, 2], context=[9], columns={"reward": 0.5, "state": "s0"}, tokens={"sampler.logp": [-0.1, -0.2]}
                ),
                Turn(
                    [3], context=[9, 1, 2, 8], columns={"reward": 0.0, "state": "s1"}, tokens={"sampler.logp": [-0.3]}
                ),
            ],
            columns={"reward": 1.0, "correct": True, "answer": "3"},
        ),
        Rollout("max", [], columns={"reward": 0.0, "correct": False, "answer": None}),
        Rollout(
            "sum",
            [Turn([], columns={"reward": 0.0, "state": "s0"}, tokens={"sampler.logp": []})],
            columns={"reward": 0.0, "correct": False, "answer": "4"},
        ),
    ]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    assert batch["group.task"] == ("sum", "max")
    assert batch.link("rollout", "group").tolist() == [0, 1, 0]
    assert batch["rollout.index"].tolist() == [0, 0, 1]
    assert batch["token.id"].tolist() == [1, 2, 3]
    assert batch.link("token", "turn").tolist() == [0, 0, 1]
    assert batch.link("turn", "rollout").tolist() == [0, 0, 2]
    assert batch["turn.state"] == ("s0", "s1", "s0")
    assert batch["turn.reward"].tolist() == [0.5, 0, 0]
    assert batch["rollout.answer"] == ("3", None, "4")
    assert batch["rollout.correct"].dtype == torch.bool
    assert batch["token.sampler.logp"].tolist() == [-0.1, -0.2, -0.3]
    assert batch["rollout.length"].tolist() == [3, 0, 0]
    assert "token.origin" not in batch


def test_a_turn_knows_the_context_it_was_sampled_under_and_the_one_it_is_trained_under() -> None:
    turns = [
        Turn([1], context=[7, 8], train_context=[7]),
        Turn([2], context=[7, 1]),
        Turn([3], context=[5], train_context=[]),
    ]
    batch = Batch.from_rollouts([Rollout(0, turns)])
    assert batch["turn.context"] == ((7, 8), (7, 1), (5,))
    assert batch["turn.train_context"] == ((7,), (7, 1), ())


def test_origins_name_who_wrote_a_token() -> None:
    batch = Batch.from_rollouts([Rollout(0, [Turn([1, 2], origin=["given", "policy"]), Turn([3])])])
    assert batch["token.origin"].tolist() == [Origin.given, Origin.policy, Origin.policy]
    assert batch.action.tolist() == [False, True, True]


def test_marks_stay_marks_and_whole_numbers_become_numbers_of_tokens() -> None:
    first = Turn((1, 2), tokens={"mark": (True, False), "place": (3, 4), "share": (1, 0.5)})
    second = Turn((3,), tokens={"mark": (True,), "place": (5,), "share": (True,)}, origin=[int(Origin.hint)])
    batch = Batch.from_rollouts([Rollout("a", [first]), Rollout("a", [second])])
    assert batch["token.mark"].tolist() == [True, False, True]
    assert batch["token.mark"].dtype == torch.bool
    assert batch["token.place"].tolist() == [3.0, 4.0, 5.0]
    assert batch["token.share"].tolist() == [1.0, 0.5, 1.0]
    assert batch["token.origin"].tolist() == [Origin.policy, Origin.policy, Origin.hint]


def test_instances_of_different_tasks_are_different_groups() -> None:
    rows = [Rollout(task, [], group=instance) for task, instance in (("a", 0), ("b", 0), ("a", 1), ("a", 0))]
    batch = Batch.from_rollouts(rows)
    assert batch.link("rollout", "group").tolist() == [0, 1, 2, 0]
    assert batch["group.task"] == ("a", "b", "a")


def test_columns_come_in_one_order_on_every_run() -> None:
    names = [f"c{i}" for i in range(30)]
    batch = Batch.from_rollouts([Rollout(0, [], columns=dict.fromkeys(names, 1.0))])
    assert [c for c in batch.columns if c.startswith("rollout.c")] == [f"rollout.{n}" for n in names]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "The batch is empty: it has no rollouts"),
        ([Rollout(0, [], columns={"x": 1.0}), Rollout(0, [])], "rollout 1 has no 'x', which other rollouts have"),
        ([Rollout(0, [Turn([1], columns={"x": 1.0}), Turn([1])])], "turn 1 has no 'x'"),
        (
            [Rollout(0, [Turn([1, 2], tokens={"logp": [0.0]})])],
            "Turn 0 must have one value of 'logp' for each of its 2",
        ),
        ([Rollout(0, [Turn([1]), Turn([1], tokens={"logp": [0.0]})])], "Turn 0 must have one value of 'logp'"),
        ([Rollout(0, [Turn([1, 2], origin=["policy"])])], "Turn 0 has 1 origins for its 2 tokens"),
        ([Rollout(0, [Turn([1], origin=["polcy"])])], "'token.origin' holds 'polcy'. Did you mean 'policy'"),
        ([Rollout(0, [], columns={"purpose": "trian"})], "'rollout.purpose' holds 'trian'. Did you mean 'train'"),
        ([Rollout(0, [], columns={"purpose": 17})], r"'rollout.purpose' holds something else than train \(0\), vote"),
        ([Rollout(0, [], columns={"reward": float("nan")})], "'rollout.reward' is nan at rollout 0"),
        ([Rollout(0, [], columns={"reward": 1})], "'rollout.reward' holds torch.int64; give floating-point numbers"),
        ([Rollout(0, [], columns={"reward": None})], "'rollout.reward' holds objects; give floating-point numbers"),
    ],
)
def test_rollouts_that_cannot_be_a_batch_are_refused(rows: list[Rollout], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Batch.from_rollouts(rows)


# -- from the padded tensors of neighbours ---------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10**6), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=60)
def test_padded_tensors_come_back_without_loss(rows: int, width: int, seed: int, given_: bool, turns: bool) -> None:
    torch.manual_seed(seed)
    mask = torch.rand(rows, width) < 0.6  # with holes
    x, y = torch.randn(rows, width), torch.randn(rows, width, 2, dtype=torch.float64)
    group = torch.randint(0, 3, (rows,)) * 7
    turn = torch.randint(0, 2, (rows, width)).cumsum(1) if turns else None
    batch = Batch.from_padded(mask, group, {"token.x": x, "token.y": y}, given=given_, turn=turn)
    there = torch.ones_like(mask) if given_ else mask
    assert torch.equal(batch.to_padded(batch["token.x"], fill=-5.0), x.where(there, -5.0))
    assert torch.equal(batch.to_padded(batch["token.y"]), y.where(there[..., None], 0.0))
    assert torch.equal(batch.to_padded(batch.action.long()), mask.long())
    assert torch.equal(batch["group.task"][batch.link("rollout", "group")], group)
    assert batch["rollout.length"].tolist() == mask.sum(1).tolist()
    if turn is not None:
        number = batch.to_padded(batch.link("token", "turn"), fill=-1)
        for row in range(rows):
            kept = turn[row][there[row]]
            same = kept[:, None] == kept[None, :]
            own = number[row][there[row]]
            assert torch.equal(own[:, None] == own[None, :], same)


def test_padded_rows_can_be_taken_in_another_order_and_padded_again() -> None:
    mask = torch.tensor([[1, 0, 1], [1, 1, 0], [0, 0, 0]])
    x = torch.arange(9.0).reshape(3, 3)
    batch = Batch.from_padded(mask, ["a", "b", "a"], {"token.x": x}).take("rollout", torch.tensor([1, 2, 0]))
    assert torch.equal(batch.to_padded(batch["token.x"]), (x * mask)[[1, 2, 0]])


def test_groups_may_be_named_by_text_by_arrays_and_by_tensors() -> None:
    mask = torch.ones(3, 1)
    for group, names in (
        (["q2", "q1", "q2"], ["q2", "q1"]),
        (np.array(["q2", "q1", "q2"], dtype=object), ["q2", "q1"]),
        (torch.tensor([30, 10, 30]), [10, 30]),
    ):
        batch = Batch.from_padded(mask, group)
        tasks = batch["group.task"]
        assert list(tasks if isinstance(tasks, tuple) else tasks.tolist()) == names
        index = batch.link("rollout", "group")
        assert index[0] == index[2] != index[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mask": torch.ones(3)}, r"The mask must be \[B, T\], not \(3,\)"),
        ({"group": [0]}, "1 group ids for 2 rows"),
        ({"columns": {"token.x": torch.ones(2, 4)}}, r"'token.x' must have the mask's shape \(2, 3\), not \(2, 4\)"),
        ({"columns": {"token.x": [1.0] * 6}}, r"'token.x' must have the mask's shape \(2, 3\)"),
        ({"columns": {"rollout.x": torch.ones(3)}}, "'rollout.x' has 3 values, but the batch has 2 rollouts"),
        ({"columns": {"token.x": torch.ones(2, 3, device="meta")}}, "'token.x' is on meta, the batch on cpu"),
        ({"columns": {"rollout.x": torch.ones(2, device="meta")}}, "'rollout.x' is on meta, the batch on cpu"),
        ({"columns": {"rolout.x": torch.ones(2)}}, "must be named level.name.*Did you mean 'rollout'"),
        ({"columns": {"token.old.logp": torch.full((2, 3), -torch.inf)}}, "'token.old.logp' is -inf at token 0"),
        ({"turn": torch.tensor([[0, 1, -1], [0, 0, 0]])}, "numbered by integers from 0 on"),
        ({"turn": torch.zeros(2, 3)}, "numbered by integers from 0 on"),
        ({"turn": torch.zeros(2, 2, dtype=torch.long)}, "'turn' must have the mask's shape"),
        ({"turn": torch.tensor([[1, 0, 0], [0, 0, 0]])}, "tokens must stand in the order of their turns"),
    ],
)
def test_padded_tensors_that_do_not_fit_are_refused(arguments: dict[str, object], message: str) -> None:
    fitting = {"mask": torch.ones(2, 3), "group": [0, 1]}
    with pytest.raises(PodiumError, match=message):
        Batch.from_padded(**(fitting | arguments))  # type: ignore[arg-type]


def test_an_empty_padded_batch_is_refused() -> None:
    with pytest.raises(PodiumError, match="The batch is empty"):
        Batch.from_padded(torch.ones(0, 3), [])


def test_padding_needs_the_places_of_the_tokens() -> None:
    batch = Batch.from_rollouts([Rollout(0, [Turn([1])])])
    with pytest.raises(PodiumError, match="not made from padded tensors"):
        batch.to_padded(torch.zeros(1))
    with pytest.raises(PodiumError, match="2 values for the 1 tokens"):
        Batch.from_padded(torch.ones(1, 1), [0]).to_padded(torch.zeros(2))


# -- from bare rewards -----------------------------------------------------------------------------------------------


def test_rewards_and_groups_are_enough_for_a_batch() -> None:
    batch = Batch.from_rewards([1.0, 0.0, 0.5], ["a", "b", "a"], {"rollout.purpose": ["train", Purpose.vote, 0]})
    assert batch.levels == ("rollout", "group", "batch")
    assert batch.by("rollout", "group").mean(batch["rollout.reward"]).tolist() == [0.75, 0.0, 0.75]
    assert batch["rollout.purpose"].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("rewards", "group", "message"),
    [
        ([], [], "The batch is empty"),
        ([1, 0], [0, 0], "'rollout.reward' holds torch.int64; give floating-point numbers"),
        (torch.tensor([True, False]), [0, 0], "'rollout.reward' holds torch.bool"),
        ([1.0, float("nan")], [0, 0], "'rollout.reward' is nan at rollout 1: NaN and infinite values are refused"),
        ([1.0, float("inf")], [0, 0], "'rollout.reward' is inf at rollout 1"),
        ([1.0, 0.0], [0], "1 group ids for 2 rewards"),
        (torch.ones(2, 2), [0, 0], "Rewards must be a vector"),
    ],
)
def test_rewards_that_cannot_be_a_batch_are_refused(rewards: object, group: list[int], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Batch.from_rewards(rewards, group)  # type: ignore[arg-type]


def test_huge_rewards_whose_sum_overflows_are_still_numbers() -> None:
    assert Batch.from_rewards(torch.full((4,), 3e38), [0] * 4)["rollout.reward"].isfinite().all()
