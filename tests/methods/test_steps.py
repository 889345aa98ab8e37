"""Comparisons of steps: what each key compares, and which settings make one method another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.method import Method
from podium.parts.advantage import GroupInGroup, Mixture, MixtureComponent
from podium.parts.annotate import RandomBlocks, ReadTags
from podium.parts.reward import MatchCalls, MetaReasoning
from podium.parts.reward.calls import assign_best, assign_greedily, call_similarity, token_f1
from podium.parts.shape import WholeShares
from podium.protocols.context import Exchange, History, Wrote
from tests.conformance.helpers import by_rollout, credited
from tests.methods.catalogue import Laps, errors, finite, has_signal, lines, small
from tests.methods.support import rewards, short_run


def walks(*groups: list[list[float]], outcome: list[float] | None = None, **columns: list[list[Any]]) -> Batch:
    """Groups of rollouts, each a list of the rewards of its turns; further columns of turns one list a rollout."""
    rollouts = []
    for g, group in enumerate(groups):
        for own in group:
            place = len(rollouts)
            turns = []
            for t, r in enumerate(own):
                extra = {name: values[place][t] for name, values in columns.items()}
                turns.append(Turn((1,), columns={"reward": float(r), **extra}))
            total = float(sum(own)) if outcome is None else float(outcome[place])
            rollouts.append(Rollout(g, turns, columns={"reward": total}))
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def steps(method: Method, batch: Batch) -> list[list[float]]:
    """The advantage of each step, a list a rollout."""
    assert method.advantage is not None
    return by_rollout(batch, method.advantage(batch)["step.advantage"])


def paid(batch: Batch, meta: list[float]) -> Batch:
    """The batch with the meta-reasoning reward of each step, and the outcome at each."""
    outcome = batch.spread(batch["rollout.reward"], "rollout", "turn")
    return batch.with_columns({"turn.reward.meta": torch.tensor(meta).double(), "turn.reward.outcome": outcome})


def grpo_of(outcomes: list[float], **settings: Any) -> list[float]:
    advantage = methods.grpo().advantage
    assert advantage is not None
    found: list[float] = advantage.replace(**settings)(rewards(outcomes))["rollout.advantage"].tolist()
    return found


# -- the mixture -------------------------------------------------------------------------------------------------------


def test_a_comparison_that_counts_rollouts_once_takes_outcomes_alone() -> None:
    with pytest.raises(PodiumError, match="column of rollouts"):
        MixtureComponent(rows="rollout")
    with pytest.raises(PodiumError, match="at least one"):
        Mixture(())


def test_shares_of_comparisons_add_up() -> None:
    batch = walks([[1, 0], [0, 0], [1, 1]])
    half = Mixture((MixtureComponent(share=0.5), MixtureComponent(share=0.5)))(batch)["step.advantage"]
    assert_close(half, Mixture((MixtureComponent(),))(batch)["step.advantage"])


def test_a_step_without_company_is_reported() -> None:
    found = Mixture((MixtureComponent(key=("group", "step.index")),))(walks([[1, 0], [0]]))
    assert found["rollout.alone"].tolist() == [0.5, 0.0]


def test_a_mixture_makes_gigpo() -> None:
    states = [["a", "b"], ["a", "c", "b"]]
    batch = walks([[0, 10], [0, 0, 0]], state=states)
    mixed = Mixture(
        (
            MixtureComponent(of="rollout.reward", scale="none"),
            MixtureComponent(gamma=0.95, key=("group", "step.state"), scale="none", singleton="zero"),
        )
    )
    assert_close(mixed(batch)["step.advantage"], GroupInGroup()(batch)["step.advantage"])


# -- gigpo -------------------------------------------------------------------------------------------------------------


def test_gigpo_compares_steps_from_states_that_are_nearly_the_same() -> None:
    first, second = "room 1. doors: north, south. items: key.", "room 1. doors: north, south. items: keys."
    batch = walks([[0, 1], [0, 0]], state=[[first, "end"], [second, "other"]])
    apart, together = (GroupInGroup(similarity=s)(batch)["step.advantage"] for s in (None, 0.95))
    episode = GroupInGroup().episode(batch)
    assert_close(apart, episode)  # no state is shared
    assert_close((together - episode).tolist(), [0.475, 0.0, -0.475, 0.0])
    assert_close(GroupInGroup(similarity=1.0)(batch)["step.advantage"], apart)


@pytest.mark.parametrize("slug", ["gigpo", "hgpo", "salt"])
def test_methods_of_states_run_in_a_world_of_many_turns(slug: str) -> None:
    world = worlds.get("keydoor")
    assert not errors(methods.get(slug), world)
    found = lines(small(slug), world, tasks=1)
    assert finite(found)
    assert found[0]["turns"] > 1


# -- mapo --------------------------------------------------------------------------------------------------------------


def test_mapo_worked_example() -> None:
    found = steps(methods.mapo(gamma=1.0), walks([[1, 0.5], [-0.5, 0]]))
    assert_close(found, [[1.170820, 0.723607], [-1.170820, -0.723607]], atol=1e-6, rtol=0)


def test_mapo_of_single_turns_is_grpo_with_the_population_std() -> None:
    outcomes = [1.0, 0.0, 0.0, 0.5]
    found = steps(methods.mapo(alpha=1.0, beta=0.0), walks([[r] for r in outcomes]))
    assert_close([row[0] for row in found], grpo_of(outcomes, unbiased=False, epsilon=1e-8))


def test_mapo_ignores_a_constant_added_to_all_rewards_of_equally_long_rollouts() -> None:
    plain = steps(methods.mapo(gamma=1.0), walks([[1, 0], [0, 0.5], [0, 0]]))
    assert_close(steps(methods.mapo(gamma=1.0), walks([[3, 2], [2, 2.5], [2, 2]])), plain, atol=1e-6, rtol=0)


def test_mapo_sees_a_good_turn_with_bad_consequences() -> None:
    batch = walks([[1, -2], [0, 0], [0, 0.5]])
    turn, now = methods.mapo().advantage.comparisons  # type: ignore[union-attr]
    assert now.compared(batch)[0] > 0 > turn.compared(batch)[0]


def test_mapo_refuses_a_scope_that_it_does_not_know() -> None:
    with pytest.raises(PodiumError, match="batch, group"):
        methods.mapo(immediate="rollout")


# -- matchtir ----------------------------------------------------------------------------------------------------------


def test_matchtir_worked_example() -> None:
    found = steps(methods.matchtir(), walks([[1, 1], [0.5, 0], [1]]))
    expected = [[1.085860, 0.899097], [-0.882784, -0.789988], [-0.203077]]
    assert_close(found, expected, atol=1e-6, rtol=0)


def test_matchtir_of_single_turns_is_grpo() -> None:
    outcomes = [1.0, 0.25, 0.0, 0.5]
    assert_close([row[0] for row in steps(methods.matchtir(), walks([[r] for r in outcomes]))], grpo_of(outcomes))


def test_the_release_matches_greedily_where_the_paper_assigns_for_the_largest_total() -> None:
    similarity = torch.tensor([[0.9, 0.8], [0.85, 0.1]], dtype=torch.float64)
    assert (assign_greedily(similarity), assign_best(similarity)) == ([0, 1], [1, 0])
    paper, release = (methods.get(name).reward[0] for name in ("matchtir", "matchtir@release"))
    assert isinstance(paper, MatchCalls)
    assert isinstance(release, MatchCalls)
    assert paper.rewards(similarity).sum() > release.rewards(similarity).sum()


def calling(*turns: list[dict[str, Any]], reference: list[dict[str, Any]], answer: str = "") -> Batch:
    said = [*[""] * (len(turns) - 1), answer]
    rows = [Turn((1,), columns={"calls": c, "answer": a}) for c, a in zip(turns, said, strict=True)]
    columns = {"reward": 0.0, "reference_calls": reference, "reference_answer": "42"}
    return Batch.from_rollouts([Rollout(0, rows, columns=columns)], dtype=torch.float64)


LOOK, ADD = {"name": "look", "arguments": {"row": "a"}}, {"name": "add", "arguments": {"x": 1, "y": 2}}


def test_a_redundant_call_earns_nothing_under_hard_matching() -> None:
    found = MatchCalls()(calling([LOOK], [LOOK], [ADD], reference=[LOOK, ADD]))["step.reward"]
    assert found.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("matching", ["best", "greedy", "transport"])
def test_the_order_of_calls_does_not_matter(matching: str) -> None:
    part = MatchCalls(matching)
    forth = part(calling([LOOK], [ADD], reference=[LOOK, ADD]))["step.reward"]
    back = part(calling([ADD], [LOOK], reference=[LOOK, ADD]))["step.reward"]
    assert_close(forth, back.flip(0))


def test_the_turn_that_answers_gets_the_f1_of_its_words() -> None:
    found = MatchCalls()(calling([LOOK], [], reference=[LOOK], answer="It is 42!"))["step.reward"]
    assert found.tolist() == [1.0, 0.5]
    assert token_f1("forty-two", "42") == 0


def test_calls_are_alike_in_name_keys_and_values() -> None:
    wanted = {"name": "Add", "arguments": {"x": 1, "y": 3}}
    assert call_similarity(ADD, wanted) == 0.75
    assert call_similarity({"name": "now"}, {"name": "now"}) == 1.0
    assert call_similarity({"name": "now"}, {"name": "now", "arguments": {"x": 1}}) == pytest.approx(1 / 3)


def test_matchtir_trains_where_tools_are_called() -> None:
    found = lines(small("matchtir"), worlds.get("tools"), tasks=2)
    assert finite(found)
    assert "match" in found[0]


# -- srgpo -------------------------------------------------------------------------------------------------------------


GIVEN: dict[str, Any] = {"progress": False, "invalid": 0.0, "overlong": 0.0}  # the rewards of steps are given


def test_srgpo_pays_for_progress_and_charges_for_invalid_and_overlong_turns_in_both_parts() -> None:
    batch = walks(
        *([[0, 1], [0, 0]],),
        outcome=[1, 0],
        progress=[[0.5, 0.5], [-0.5, 0.25]],
        valid=[[True, True], [False, True]],
        truncated=[[False, False], [False, True]],
    )
    method = methods.srgpo(scale="none")
    for part in method.reward:
        batch = batch.with_columns(part(batch))
    assert batch["turn.reward"].tolist() == [1, 1, 0, 1]
    assert batch["turn.reward.penalty"].tolist() == pytest.approx([0, 0, 0.1, 0.1])
    batch = batch.with_columns({"turn.block": torch.zeros(4, dtype=torch.long)})
    # Outcomes 1, 1, −0.1, −0.1 with mean 0.45; step rewards 1, 1, −0.1, 0.9 with mean 0.7, which weigh one half.
    assert_close(steps(method, batch), [[0.55 + 0.15, 0.55 + 0.15], [-0.55 - 0.4, -0.55 + 0.1]])


@pytest.mark.parametrize("rows", ["step", "rollout"])
def test_gigpo_charges_an_invalid_action_to_its_own_step_alone(rows: str) -> None:
    batch = walks([[0, 1], [0, 0]], state=[["a", "b"], ["a", "c"]], valid=[[True, True], [True, False]])
    method = methods.gigpo(gamma=0.5, scale="none", rows=rows, invalid=0.2)
    for part in method.reward:
        batch = batch.with_columns(part(batch))
    assert method.advantage is not None
    # Returns 0.5, 1, 0, and 0 − 0.2: the step before pays nothing. From state a: 0.5 and 0, so ±0.25.
    assert_close(method.advantage.returns(batch), torch.tensor([0.5, 1.0, 0.0, -0.2], dtype=torch.float64))  # type: ignore[attr-defined]
    # Outcomes of the steps 1, 1, 0, −0.2: mean 0.45; those of the first steps alone 1, 0: mean 0.5.
    mean = 0.45 if rows == "step" else 0.5
    assert_close(steps(method, batch), [[1 - mean + 0.25, 1 - mean], [-mean - 0.25, -0.2 - mean]])


def test_hgpo_charges_an_invalid_action_too() -> None:
    batch = walks([[0, 1], [0, 0]], state=[["a", "b"], ["a", "b"]], valid=[[True, True], [True, False]])
    method = methods.hgpo(gamma=0.5, scale="none", history=0, invalid=0.2)
    batch = batch.with_columns(method.reward[0](batch))
    # From state b: returns 1 and −0.2, so ±0.6; from state a: 0.5 and 0, so ±0.25.
    assert_close(steps(method, batch), [[0.25, 0.6], [-0.25, -0.6]], atol=1e-5, rtol=0)


def test_srgpo_worked_example() -> None:
    batch = walks([[1, 1], [0, 1, 0]], outcome=[1, 0]).with_columns({"turn.block": torch.tensor([0, 1, 0, 1, 0])})
    found = steps(methods.srgpo(**GIVEN), batch)
    assert_close(found, [[1.672792, 1.095443], [-1.018970, -0.730295, -1.018970]], atol=1e-6, rtol=0)


def test_one_block_over_the_batch_compares_each_step_with_all() -> None:
    batch = walks([[1, 0], [0, 0]], [[1, 1], [0, 1, 0]])
    method = methods.srgpo(size=100, **GIVEN)
    (blocks,), step = method.annotate, method.advantage.comparisons[1]  # type: ignore[union-attr]
    whole = batch.with_columns(blocks(batch))
    assert_close(step.compared(whole), batch.by("step").standardize(batch["step.reward"]))


def test_blocks_hold_as_many_steps_as_they_should_and_stay_within_their_group() -> None:
    batch = walks([[1, 0], [0, 0, 1]], [[1, 1], [0, 1, 0]])
    blocks = RandomBlocks(4)(batch)["step.block"]
    assert blocks.bincount().tolist() == [4, 4, 2]
    within = batch.with_columns(RandomBlocks(2, ("group",))(batch))
    assert within.by("step", "group", "step.block").lengths().tolist() == [2, 2, 1, 2, 2, 1]


def test_the_step_part_of_srgpo_leans_to_what_is_better_than_the_batch() -> None:
    batch, total = walks([[1, 0], [0, 0, 1]], [[0, 0], [0, 1, 0]]), torch.zeros(10, dtype=torch.float64)
    for seed in range(200):
        batch.seed = seed
        blocks = batch.with_columns(RandomBlocks(4)(batch))
        total += MixtureComponent(key=("step.block",), singleton="zero").compared(blocks)
    assert torch.equal(total > 0, batch["step.reward"] > batch["step.reward"].mean())


@pytest.mark.parametrize("slug", ["srgpo", "rlvmr"])
def test_without_the_second_part_it_is_grpo_in_which_a_rollout_counts_for_each_of_its_steps(slug: str) -> None:
    batch = walks([[1, 0, 0], [0]], outcome=[1, 0], tag=[["none"] * 3, ["none"]])
    batch = paid(batch, batch["turn.reward"].tolist()).with_columns({"turn.block": torch.arange(4)})
    given = GIVEN if slug == "srgpo" else {}
    rows, method = methods.agentflow(), methods.get(slug, omega=0.0, **given)
    assert_close(steps(list(method.leaves())[-1], batch), steps(rows, batch))


# -- rlvmr -------------------------------------------------------------------------------------------------------------


def thinking(tags: list[str], actions: list[str], available: list[bool], success: bool = True) -> Batch:
    rows = zip(tags, actions, available, strict=True)
    turns = [Turn((1,), columns={"tag": t, "action": a, "valid": v}) for t, a, v in rows]
    return Batch.from_rollouts([Rollout(0, turns, columns={"reward": float(success)})], dtype=torch.float64)


def test_rlvmr_worked_example() -> None:
    batch = walks([[0, 0], [0, 0]], outcome=[10, 0], tag=[["planning", "explore"]] * 2)
    batch = paid(batch, [1.0, 0, 0, 1])
    found = steps(methods.rlvmr(imitate=0, omega=1.0), batch)
    assert_close(found, [[1.573131, 0.158919], [-1.573131, -0.158919]], atol=1e-6, rtol=0)


def test_rlvmr_pays_by_rule() -> None:
    tags = ["planning", "explore", "reflection", "explore", "monitor"]
    actions = ["look", "open drawer 1", "take mug 1", "open drawer 1", "wait"]
    found = MetaReasoning()(thinking(tags, actions, [True, False, True, True, True]))
    assert found["step.reward.meta"].tolist() == [1, 1, 1, 0, 0]
    assert found["step.tag"][-1] == "none"
    assert found["rollout.repeated"].tolist() == [pytest.approx(0.2)]


def test_rlvmr_a_malformed_step_pays_alone() -> None:
    batch = thinking(["planning", "explore"], ["look", "look"], [True, True])
    batch = batch.with_columns({"turn.well_formed": torch.tensor([True, False])})
    found = MetaReasoning(valid="step.well_formed", malformed=0.1, scale=10.0)(batch)
    assert_close(found["step.reward.outcome"].tolist(), [10.0, 9.9])  # 10 · 1, and 0.1 less
    assert found["step.tag"] == ("planning", "none")
    assert found["step.reward.meta"].tolist() == [1, 0]


def test_a_new_exploration_of_a_failure_is_punished_less_than_a_repeated_action() -> None:
    batch = walks([[0, 0], [0, 0]], outcome=[0, 1], tag=[["explore"] * 2] * 2)
    batch = paid(batch, [1.0, 0, 1, 1])
    new, repeated = steps(methods.rlvmr(imitate=0), batch)[0]
    assert repeated < new < 0


def test_scaling_the_reward_of_one_tag_changes_nothing() -> None:
    batch = walks([[0, 0], [0, 0]], outcome=[0, 1], tag=[["explore", "planning"]] * 2)
    plain, scaled = ([1.0, 0, 0, 1], [7.0, 0, 0, 1])
    both = [paid(batch, meta) for meta in (plain, scaled)]
    first, second = (steps(methods.rlvmr(imitate=0), b) for b in both)
    assert_close(first, second, atol=1e-5, rtol=0)


def test_tags_are_read_in_their_order() -> None:
    part = ReadTags()
    assert [part.tag(x) for x in ("<explore> a <Planning>", "<monitor>", "")] == ["planning", "none", "none"]


def test_rlvmr_needs_a_world_that_says_what_is_allowed() -> None:
    assert any("step.valid" in message for message in errors(methods.rlvmr(imitate=0), worlds.get("sums")))


# -- agentflow and iterresearch ----------------------------------------------------------------------------------------


def test_agentflow_worked_example() -> None:
    batch = walks([[0, 0, 0], [0]], outcome=[1, 0])
    assert_close(steps(methods.agentflow(), batch), [[0.499999] * 3, [-1.499997]], atol=1e-6, rtol=0)
    paper = steps(methods.get("agentflow@paper"), batch)
    assert_close(paper, [[0.707106] * 3, [-0.707106]], atol=1e-6, rtol=0)


def test_the_sum_over_rows_or_over_rollouts_is_zero() -> None:
    batch = walks([[0, 0, 0], [0], [0, 0]], outcome=[1, 0, 0.5])
    assert sum(map(sum, steps(methods.agentflow(), batch))) == pytest.approx(0, abs=1e-9)
    assert sum(row[0] for row in steps(methods.get("agentflow@paper"), batch)) == pytest.approx(0, abs=1e-9)


def test_agentflow_of_single_turns_is_grpo() -> None:
    outcomes = [1.0, 0.0, 0.0]
    assert_close([row[0] for row in steps(methods.agentflow(), walks([[r] for r in outcomes]))], grpo_of(outcomes))


def test_turns_after_too_long_a_context_leave_after_the_comparison() -> None:
    turns = [Turn((1,), context=(1,) * length, columns={"reward": 0.0}) for length in (3, 9)]
    rollouts = [Rollout(0, turns, columns={"reward": r}) for r in (1.0, 0.0)]
    batch = credited(methods.agentflow(longest=5), Batch.from_rollouts(rollouts, dtype=torch.float64))
    assert batch.trained("turn").tolist() == [True, False] * 2
    assert (batch["step.advantage"] != 0).all()


def test_iterresearch_worked_example() -> None:
    batch = walks([[0], [0, 0, 0]], outcome=[1, 1])
    found = steps(methods.iterresearch_eapo(imitate=0, gamma=0.9), batch)
    assert_close(found, [[0.793000], [-1.285208, -0.300793, 0.793000]], atol=1e-6, rtol=0)


def test_among_right_rollouts_the_mean_round_reward_falls_with_their_length() -> None:
    comparison = methods.iterresearch_eapo(imitate=0).advantage.comparisons[0]  # type: ignore[union-attr]
    rows = by_rollout(batch := walks([[0] * t for t in (1, 2, 5, 9)], outcome=[1] * 4), comparison.values(batch))
    means = [sum(row) / len(row) for row in rows]
    assert means == sorted(means, reverse=True)
    assert len(set(means)) == 4


def test_without_a_discount_iterresearch_is_grpo_over_rounds() -> None:
    batch = walks([[0, 0], [0], [0, 0, 0]], outcome=[1, 0, 1])
    assert_close(steps(methods.iterresearch_eapo(imitate=0, gamma=1.0), batch), steps(methods.agentflow(), batch))


def test_rounds_are_cut_to_a_multiple_or_all_kept_where_they_are_too_few() -> None:
    batch = walks([[0] * 4, [0] * 3], outcome=[1, 0])
    kept = [int(WholeShares(workers)(batch)["step.keep.share"].sum()) for workers in (2, 4, 7, 8)]
    assert kept == [6, 4, 7, 7]


def test_the_state_of_a_round_does_not_grow() -> None:
    context = methods.iterresearch_eapo(imitate=0).rollout.draw.context  # type: ignore[union-attr]
    said = Exchange(Wrote((1,)), "thoughts <report>what is known</report> act", "result")
    lengths = [len("".join(context(History("task", (said,) * t)))) for t in (2, 50)]  # type: ignore[arg-type]
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("slug", ["mapo", "srgpo", "rlvmr", "agentflow"])
def test_many_turns_train(slug: str) -> None:
    found = lines(small(slug), Laps(level=2), iterations=2, tasks=4)
    assert finite(found)
    assert has_signal(found)
    assert all("alone" in line for line in found)


def test_a_run_of_many_turns_is_recorded(tmp_path: Path) -> None:
    result = short_run(methods.mapo(n=2), tmp_path / "run", world=Laps(level=2), iterations=1, tasks=2)
    assert (tmp_path / "run" / "metrics.jsonl").exists()
    assert result is not None
