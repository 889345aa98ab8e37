"""Rollouts that share beginnings: what their segments are worth, who is trained, and what it costs."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods, worlds
from podium import policy as policies
from podium.collect.driver import Driver, distinct_tokens
from podium.core.batch import Batch
from podium.core.branches import Forest
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.memories import SolvedTexts
from podium.method import Method
from podium.parts.advantage import FinalBaseline, NodeDifference, PositionDifference
from podium.parts.objective import QualityLoss
from podium.parts.select import StillHard
from podium.parts.shape import CertaintyFactor, HoldToShortest, TrainShared
from podium.policy.head.divergence import semantic_divergence
from podium.protocols.sampling import Sampling
from podium.sampler.local import LocalSampler
from podium.strategies import CriticalToken, Cutpoints, Fork, Prune, Search, TopEntropy, Tree
from podium.strategies.budgets.prune import survival, survivors
from podium.strategies.requests import Play, TaskRequest
from podium.strategies.trees.lineage import fork, head, paths, planted
from podium.strategies.trees.search import Node, backed_up
from tests.methods.catalogue import lines, small, tiny
from tests.methods.support import rewards

SUMS = worlds.get("sums", level=2)


def grown(
    strategy: Any, tasks: int = 1, max_tokens: int = 40, recalled: Any = None
) -> tuple[list[list[Rollout]], Driver]:
    """The groups that a strategy makes on sums, and the driver that made them."""
    policy = tiny()
    capture = tuple(sorted({"entropy", *(n.column.removeprefix("token.sampler.") for n in _signals(strategy))}))
    driver = Driver(
        LocalSampler(policy),
        SUMS,
        capture=capture,
        follow_up=policy.follow_up,
        written=policy.written,
        score={"policy": policy.score, "quality": policies.QualityHead(policy).score},
    )
    plans = [
        strategy.plan(TaskRequest(SUMS.task(i), i, Sampling(max_tokens=max_tokens), (0, 0, i), recalled or {}))
        for i in range(tasks)
    ]
    return driver.collect(plans), driver


def _signals(strategy: Any) -> list[Any]:
    return [n for n in strategy.needs if not isinstance(n, str) and n.of == "sampler" and n.name != "logp"]


def tokens(rollout: Rollout) -> list[int]:
    return [i for turn in rollout.turns for i in turn.ids]


def leaves(*rows: tuple[list[int], float]) -> Batch:
    """One group: for each leaf the keys of its segments, of one token each, and its reward."""
    made = [
        Rollout(
            0,
            [Turn([1] * len(keys), tokens={"node": list(range(len(keys)))})],
            columns={"reward": reward, "index": i},
            nodes={"key": keys},
        )
        for i, (keys, reward) in enumerate(rows)
    ]
    return Batch.from_rollouts(made, dtype=torch.float64)


# -- the forest --------------------------------------------------------------------------------------------------------


def test_forks_cut_the_segments_of_everybody_who_passes_there() -> None:
    """Rollout 1 forks from 0 at 4, 2 from 1 at 2 (which 0 wrote), 3 from 1 at 6 (its own)."""
    found = paths([-1, 0, 1, 1], [0, 4, 2, 6], [8, 8, 5, 7])
    assert found[0] == [((0, 0), 2), ((0, 2), 2), ((0, 4), 4)]
    assert found[1] == [((0, 0), 2), ((0, 2), 2), ((1, 4), 2), ((1, 6), 2)]
    assert found[2] == [((0, 0), 2), ((2, 2), 3)]
    assert found[3] == [((0, 0), 2), ((0, 2), 2), ((1, 4), 2), ((3, 6), 1)]


def test_every_token_belongs_to_one_rollout_and_is_copied_in_the_others() -> None:
    groups, driver = grown(Tree(n=2, branches=(2, 2), window=5), tasks=2)
    batch = Batch.from_rollouts([r for group in groups for r in group])
    own = batch["token.origin"] == Origin.policy
    assert int(own.sum()) == driver.spent[0]  # all that was sampled, once
    assert_close(own, TrainShared("new").chosen(batch))
    assert_close(own, TrainShared("once").chosen(batch))
    assert bool(TrainShared("each").chosen(batch).all())


@pytest.mark.parametrize(
    "strategy",
    [
        Tree(n=3, branches=(3, 3), window=5),
        Fork(n=4, fork_points=TopEntropy(2), branches=2),
        Fork(n=2, fork_points=Cutpoints(0.9, 2), branches=3, purpose="baseline"),
        methods.rose(n=6).rollout,
        Search(n=4, width=3, max_depth=6),
    ],
    ids=lambda s: type(s).__name__,
)
def test_nothing_that_is_shared_goes_through_the_model_twice(strategy: Any) -> None:
    """Tokens sampled and encoded are at most 1.1 times those of the forest and its prompts, each once."""
    groups, driver = grown(strategy, tasks=2)
    rollouts = [r for group in groups for r in group]
    prompts = distinct_tokens([tuple(turn.context) for r in rollouts for turn in r.turns])
    own = sum(name == "policy" for r in rollouts for turn in r.turns for name in turn.origin or ())
    side = sum(r.columns.get("side_tokens", 0) for r in rollouts)
    assert own < sum(len(tokens(r)) for r in rollouts)
    assert sum(driver.spent) <= 1.1 * (prompts + own + side)


def test_a_forked_rollout_repeats_its_parent_and_parts_at_the_fork() -> None:
    (group,), _ = grown(Fork(n=2, fork_points=TopEntropy(1), branches=2))
    for rollout in group[2:]:
        parent, place = group[rollout.columns["parent"]], rollout.columns["fork"]
        assert tokens(rollout)[:place] == tokens(parent)[:place]
        assert rollout.columns["source"] in ("copied", "policy")


def test_a_fork_beyond_the_text_is_refused_and_one_at_0_begins_anew() -> None:
    (group,), _ = grown(Fork(n=1, branches=0))
    play = Play(TaskRequest(SUMS.task(0), 0, Sampling(), (0,)))
    with pytest.raises(PodiumError, match="must lie within the text"):
        fork(play, group[0], len(tokens(group[0])) + 1)
    assert fork(play, group[0], 0) is play


def test_segments_must_cover_the_text() -> None:
    with pytest.raises(PodiumError, match="do not cover"):
        planted([Rollout(0, [Turn([1, 2])], columns={"index": 0})], [[("a", 1)]])


# -- Segment Policy Optimization ---------------------------------------------------------------------------------------


def test_the_value_of_a_node_is_the_mean_of_its_children_not_of_all_leaves() -> None:
    batch = leaves(([1, 2], 1.0), ([1, 3], 0.0), ([4], 1.0))
    found = NodeDifference()(batch)
    assert found["node.advantage"].tolist() == [-0.25, 0.5, -0.25, -0.5, 0.25]
    assert float(Forest.of(batch).mean(batch["rollout.reward"])[0]) == pytest.approx(2 / 3)


def test_a_forest_of_empty_answers_has_values_and_no_segments() -> None:
    rows = [Rollout(0, [Turn([])], columns={"reward": float(r), "index": r}) for r in range(2)]
    batch = Batch.from_rollouts(planted(rows, [[], []]), dtype=torch.float64)
    part = NodeDifference("std")
    assert [len(x) for x in part(batch).values()] == [0, 0]
    assert part.folded(batch)[1].tolist() == [0.5]


@pytest.mark.parametrize(("scale", "unbiased"), [("none", True), ("std", False)])
def test_a_tree_of_depth_one_is_grpo(scale: str, unbiased: bool) -> None:
    reward = [1.0, 0.0, 0.0, 1.0, 1.0]
    batch = leaves(*[([i], r) for i, r in enumerate(reward)])
    plain = methods.grpo().advantage.replace(scale=scale, unbiased=unbiased, epsilon=1e-8)
    assert_close(NodeDifference(scale)(batch)["node.advantage"], plain(batch)["rollout.advantage"])


def test_the_credits_of_a_chain_add_up_to_the_reward_less_the_value_of_the_task() -> None:
    """Telescoping, if the first token is a cut and no token is sure."""
    logp = [math.log(0.5)] * 9
    cuts = Cutpoints(0.9, 2)(logp, [""] * 9, 0.0)
    values = [0.2, 0.9, 0.1, 0.6, 0.3]
    rows = [_row(logp, 1.0, Purpose.train, -1, -1, 0)]
    rows += [_row([], v, Purpose.baseline, 0, cut, i + 1) for i, (cut, v) in enumerate(zip(cuts, values, strict=True))]
    method = methods.spo("chain")
    assert method.advantage is not None
    advantage = method.advantage(Batch.from_rollouts(rows, dtype=torch.float64))["token.advantage"].tolist()
    segments = [advantage[a] for a, _ in pairwise([*cuts, 9])]
    assert sum(segments) == pytest.approx(1.0 - 0.2)


def _row(logp: list[float], reward: float, purpose: Purpose, parent: int, place: int, index: int) -> Rollout:
    columns = {"reward": reward, "purpose": int(purpose), "parent": parent, "fork": place, "index": index}
    return Rollout(0, [Turn([1] * len(logp), tokens={"old.logp": logp})], columns={**columns, "truncated": False})


def test_sure_tokens_get_no_gradient() -> None:
    method = methods.spo("chain")
    mask = torch.ones(2, 3)
    old = torch.tensor([[0.95, 0.5, 0.9], [0.2, 0.91, 0.8]], dtype=torch.float64).log()
    columns = {"token.old.logp": old, "token.advantage": torch.ones(2, 3, dtype=torch.float64)}
    batch = Batch.from_padded(mask, [0, 1], columns)
    batch = batch.with_columns(method.shape[0](batch))
    assert batch.trained("token").tolist() == [False, True, False, True, False, True]


@pytest.mark.parametrize("form", ["tree", "chain"])
def test_spo_says_how_many_tokens_were_unsure(form: str) -> None:
    (line,) = lines(methods.spo(form, n=2, branches=(2,), window=6, probes=2), SUMS)
    assert 0 < line["watched.kept.unsure"] < 1


# -- CURE --------------------------------------------------------------------------------------------------------------


def test_candidates_are_the_eligible_tokens_of_highest_entropy_and_never_the_first() -> None:
    words = [" Let", " x", " So", "=", "  then", ""]
    entropy = [2.0, 0.1, 1.5, 0.9, 1.2, 3.0]
    places = CriticalToken(candidates=2)
    assert places.eligible(entropy, words) == [2, 4]
    assert places(entropy, words, 0.6) == [4]
    assert places(entropy, ["", "", "", "", "", ""], 0.6) == [0]  # nobody: the whole anew


def test_the_copied_part_of_a_branch_is_not_trained() -> None:
    strategy = methods.cure(stage=1, n=2, branches=2, max_prompt=1500).rollout
    (group,), _ = grown(strategy)
    batch = Batch.from_rollouts(group)
    batch = batch.with_columns(TrainShared("new")(batch))
    place = batch.spread(batch["rollout.fork"], "rollout", "token")
    assert torch.equal(batch.trained("token"), batch["token.position"] >= place)
    assert bool((place > 0).any())


def test_of_a_prompt_that_is_too_long_the_head_is_kept() -> None:
    """ "If that is longer than the prompt buffer (1500) the HEAD is kept (first 1500 tokens)"."""
    (free,), _ = grown(methods.cure(stage=1, n=4, branches=2, max_prompt=1500).rollout)
    limit = len(free[0].turns[0].context) + 3
    (group,), _ = grown(methods.cure(stage=1, n=4, branches=2, max_prompt=limit).rollout)
    forks = [(r.columns["fork"], own.columns["fork"]) for r, own in zip(group[4:], free[4:], strict=True)]
    assert all(found == min(own, 3) for found, own in forks)
    assert max(own for _, own in forks) > 3
    for rollout in group[4:]:
        parent = group[rollout.columns["parent"]]
        assert tokens(rollout)[: rollout.columns["fork"]] == tokens(parent)[: rollout.columns["fork"]]


def test_the_head_of_several_turns_ends_where_its_context_is_still_short_enough() -> None:
    turns = [Turn([1] * 4, context=[0] * 10), Turn([1] * 5, context=[0] * 20), Turn([1] * 5, context=[0] * 30)]
    rollout = Rollout(0, turns)
    assert [head(rollout, place, 22) for place in (0, 3, 4, 5, 6, 9, 14)] == [0, 3, 4, 5, 6, 6, 6]
    assert [head(rollout, place, 12) for place in (1, 2, 3, 9)] == [1, 2, 2, 2]
    assert head(rollout, 9, 5) == 0  # the question alone is longer


def test_cure_branches_in_its_first_stage_and_samples_as_many_ordinary_rollouts_in_the_second() -> None:
    """ "4 base + 12 branched rollouts" of 2,596 tokens, then "plain DAPO with 16" of 3,584."""
    branching, plain = methods.get("cure@paper").children()  # type: ignore[attr-defined]
    assert branching.rollout.rollouts == plain.rollout.n == 16
    assert (branching.rollout.n, branching.rollout.branches) == (4, 3)
    assert plain == methods.get("cure@paper", stage=2).replace(name="dapo", summary="", citation="")
    assert plain.reward[0].max_length == 3584
    assert branching.reward[0].max_length == pytest.approx(2596, abs=3)
    assert branching.rollout.draw.token_share == pytest.approx(2596 / 3584, abs=1e-3)
    assert methods.cure(stage=1, branches=0).rollout.rollouts == 4  # type: ignore[union-attr]


def test_cure_goes_from_one_stage_to_the_next_within_a_run() -> None:
    found = lines(methods.cure(n=2, branches=1, max_rounds=1, mini_batches=1), SUMS, iterations=4)
    assert [line["phase"] for line in found] == [0, 0, 1, 1]
    assert ["watched.fork" in line for line in found] == [True, True, False, False]


# -- ROSE --------------------------------------------------------------------------------------------------------------


def test_without_forks_rose_is_dr_grpo() -> None:
    rows = [
        Rollout(0, [Turn([1] * 3)], columns={"reward": float(r), "parent": -1, "fork": 0, "index": i})
        for i, r in enumerate([1, 0, 0, 1])
    ]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    plain = methods.dr_grpo().advantage(batch)["rollout.advantage"]  # type: ignore[misc]
    assert_close(PositionDifference()(batch)["token.advantage"], batch.spread(plain, "rollout", "token"))


def test_along_a_rollout_the_segments_add_up_to_its_reward_less_the_mean() -> None:
    parents, forks, lengths, outcome = [-1, 0, 0, 1], [-1, 3, 5, 6], [8, 9, 8, 7], [0.0, 1.0, 1.0, 0.0]
    rows = [
        Rollout(0, [Turn([1] * size)], columns={"reward": r, "parent": p, "fork": f, "index": i})
        for i, (p, f, size, r) in enumerate(zip(parents, forks, lengths, outcome, strict=True))
    ]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    part = PositionDifference()
    place, has = part.places(batch)
    start = 0
    for row, (size, reward) in enumerate(zip(lengths, outcome, strict=True)):
        own = part(batch)["token.advantage"][start : start + size]
        starts = [int(k) for k in place[has[row]] if int(k) < size]
        assert float(sum(own[k] for k in starts)) == pytest.approx(reward - 0.5)
        start += size


def test_candidates_that_mean_the_same_do_not_call_for_a_fork() -> None:
    logp = torch.tensor([[0.4, 0.3, 0.2]], dtype=torch.float64).log()
    same, apart = torch.ones(1, 3, 2, dtype=torch.float64), torch.eye(3, dtype=torch.float64)[None]
    assert float(semantic_divergence(logp, same)) < 0
    assert float(semantic_divergence(logp, apart)) == pytest.approx(0, abs=1e-12)
    two = torch.tensor([[0.5, 0.4]], dtype=torch.float64).log()
    assert float(semantic_divergence(two, torch.tensor([[[1.0], [-1.0]]], dtype=torch.float64))) > 0


def test_a_long_right_answer_is_held_to_the_short_one_after_what_they_share() -> None:
    parents, forks, lengths, outcome = [-1, 0, 1, 0], [-1, 3, 3, 6], [9, 7, 10, 7], [1.0, 0.0, 1.0, 0.0]
    rows = [
        Rollout(0, [Turn([1] * size)], columns={"reward": r, "parent": p, "fork": f, "index": i})
        for i, (p, f, size, r) in enumerate(zip(parents, forks, lengths, outcome, strict=True))
    ]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    own = PositionDifference(0.5)(batch)["token.advantage"][16:26]
    assert own[3:].tolist() == pytest.approx([0.46291] * 7, abs=1e-5)


def test_in_a_tree_what_a_long_and_a_short_right_answer_share_is_text_and_not_a_position() -> None:
    """Two pairs fork at 4: the long answer shares 4 tokens with its own parent alone, and nothing with the shortest."""
    parents, forks, lengths, outcome = [-1, 0, -1, 2], [0, 4, 0, 4], [10, 6, 9, 8], [1.0, 1.0, 1.0, 0.0]
    rows = [
        Rollout(0, [Turn([1] * size)], columns={"reward": r, "index": i})
        for i, (size, r) in enumerate(zip(lengths, outcome, strict=True))
    ]
    batch = Batch.from_rollouts(planted(rows, paths(parents, forks, lengths), parents), dtype=torch.float64)
    plain = methods.get("rose@tree").advantage(batch)["node.advantage"]  # type: ignore[misc]
    batch = batch.with_columns({"token.advantage": batch.spread(plain, "node", "token")})
    before = batch["token.advantage"].split(lengths)
    after = HoldToShortest(1.0)(batch)["token.advantage"].split(lengths)
    assert_close(after[0][:4], before[0][:4])
    assert_close(after[0][4:], before[0][4:] - before[0][4:].abs() * (1 - 2 / 6))
    assert_close(after[1], before[1])
    assert_close(after[2], before[2] - before[2].abs() * (1 - 6 / 9))
    assert_close(after[3], before[3])
    by_position = PositionDifference(1.0)
    lowered = by_position(batch)["token.advantage"] - by_position.replace(length_exponent=0.0)(batch)["token.advantage"]
    assert not bool(lowered.split(lengths)[2][:4].any())  # the release takes the fork at 4 of another text for shared


def test_the_length_counts_in_both_forms_of_rose() -> None:
    assert methods.get("rose@tree", length_exponent=0.5).shape == (HoldToShortest(0.5),)
    assert methods.get("rose@tree").shape == ()
    assert methods.rose(length_exponent=0.5).advantage == PositionDifference(0.5)


# -- ETTRL, TTRV -------------------------------------------------------------------------------------------------------


def test_with_equal_entropies_ettrl_changes_nothing_and_its_weights_have_the_mean_1() -> None:
    (part,) = methods.ettrl().shape
    mask = torch.ones(3, 2)
    batch = Batch.from_padded(mask, [0, 0, 0], {"token.sampler.entropy": torch.full((3, 2), 0.7)})
    batch = batch.with_columns({"rollout.advantage": torch.tensor([1.0, -1.0, 0.5])})
    assert_close(part(batch)["rollout.advantage"], batch["rollout.advantage"])
    mixed = batch.with_columns({"token.sampler.entropy": torch.tensor([0.4, 0.6, 1.0, 1.4, 0.7, 0.7])})
    assert float(part(mixed)["rollout.factor"].mean()) == pytest.approx(1.0)


def test_the_weight_of_a_leaf_is_that_of_each_of_its_tokens() -> None:
    entropy = torch.tensor([[0.4, 0.6], [1.0, 2.0]], dtype=torch.float64)
    columns = {"token.sampler.entropy": entropy, "token.advantage": torch.tensor([[2.0, -1.0], [0.5, 3.0]])}
    batch = Batch.from_padded(torch.ones(2, 2), [0, 0], columns)
    found = CertaintyFactor(level="token")(batch)["token.advantage"]
    assert found.tolist() == pytest.approx([1.5 * 2, 1.5 * -1, 0.5 * 0.5, 0.5 * 3])


def test_ettrl_counts_its_leaves_and_their_cost() -> None:
    strategy = methods.ettrl().rollout
    assert (strategy.rollouts, strategy.cost) == (60, 0.6)  # type: ignore[union-attr]
    assert methods.ettrl(points=0).rollout.rollouts == 12  # type: ignore[union-attr]


def test_beyond_twice_the_mean_entropy_the_weight_stops_at_0_where_the_paper_turns_the_advantage_around() -> None:
    batch = Batch.from_padded(torch.ones(3, 1), [0] * 3, {"token.sampler.entropy": torch.tensor([[0.1], [0.1], [2.8]])})
    batch = batch.with_columns({"rollout.advantage": torch.ones(3)})
    (held,), (free,) = methods.ettrl().shape, methods.ettrl(floor=None).shape
    assert float(held(batch)["rollout.advantage"][2]) == 0.0
    assert float(free(batch)["rollout.advantage"][2]) < 0


def voted(method: Method, answers: list[list[str]], advantage: Any = None) -> torch.Tensor:
    batch = rewards(*[[0.0] * len(a) for a in answers], rollout__answer=tuple(x for a in answers for x in a))
    batch = batch.with_columns({"rollout.purpose": ["train"] * len(batch)})
    for part in (*method.annotate, *method.reward, advantage or method.advantage):
        batch = batch.with_columns(part(batch))
    found: torch.Tensor = batch["rollout.advantage"]
    return found


def test_the_entropy_term_of_ttrv_cancels_within_a_group_but_not_over_the_batch() -> None:
    answers = [["cat", "cat", "dog", "cat"], ["fox", "dog", "cat", "ape"]]
    with_, without = methods.ttrv(), methods.ttrv(entropy_weight=0.0)
    assert_close(voted(with_, answers), voted(without, answers))
    whole = with_.advantage.replace(key=(), trained_only=False)  # type: ignore[union-attr]
    assert not torch.allclose(voted(with_, answers, whole), voted(without, answers, whole))
    three = [["cat", "cat", "cat", "dog", "dog", "fox"]]
    assert not torch.allclose(voted(methods.get("ttrv@own"), three), voted(without, three))


def test_all_answers_different_teach_ttrv_nothing_where_ttrl_rewards_the_first() -> None:
    answers = [["a", "b", "c", "d"]]
    assert float(voted(methods.ttrv(), answers).abs().max()) == 0
    assert float(voted(methods.ttrl(), answers).abs().max()) > 0


# -- ARRoL -------------------------------------------------------------------------------------------------------------


def test_the_mean_chance_to_survive_is_the_share_that_is_kept() -> None:
    for p in (torch.tensor([0.1, 0.05, 0.02]), torch.tensor([0.9, 0.99, 0.5]), torch.tensor([0.4, 0.6, 0.7, 0.2])):
        for keep in (0.25, 0.5, 1.0):
            assert float(survival(p.double(), keep, 0.5).mean()) == pytest.approx(keep)


def test_where_few_end_well_these_survive_more_often_and_where_most_do_less() -> None:
    hard, easy = torch.tensor([0.1, 0.2, 0.4]).double(), torch.tensor([0.6, 0.8, 0.9]).double()
    assert bool((survival(hard, 0.5, 0.5).diff() > 0).all())
    assert bool((survival(easy, 0.5, 0.5).diff() < 0).all())


def test_survivors_of_a_hard_task_are_more_balanced_than_all_of_them() -> None:
    generator = torch.Generator().manual_seed(0)
    before, after, spread_before, spread_after = [], [], [], []
    for _ in range(400):
        p = torch.where(torch.rand(16, generator=generator, dtype=torch.float64) < 0.2, 0.8, 0.05)
        right = torch.rand(16, generator=generator, dtype=torch.float64) < p
        kept = survivors(survival(p, 0.5, 0.5), torch.rand(16, generator=generator, dtype=torch.float64))
        before.append(float(right.double().mean()))
        after.append(float(right[kept].double().mean()))
        spread_before.append(before[-1] * (1 - before[-1]))
        spread_after.append(after[-1] * (1 - after[-1]))
    assert abs(sum(after) / 400 - 0.5) < abs(sum(before) / 400 - 0.5) - 0.05
    assert sum(spread_after) > sum(spread_before)


def test_two_survive_at_least_and_what_goes_on_is_what_it_would_have_been() -> None:
    recalled = {"group.bins.count": torch.zeros(10), "group.bins.right": torch.zeros(10)}
    (plain,), _ = grown(methods.grpo(n=6).rollout)
    (pruned,), driver = grown(Prune(n=6, keep=0.05, detect=6), recalled=recalled)
    alive = [r for r in pruned if not r.columns["pruned"]]
    assert len(alive) == 2
    for rollout in alive:
        assert tokens(rollout) == tokens(plain[rollout.columns["index"]])
    assert driver.spent[0] == sum(len(tokens(r)) for r in pruned)
    assert {r.columns["purpose"] for r in pruned if r.columns["pruned"]} == {int(Purpose.replaced)}


def test_keeping_all_is_grpo() -> None:
    recalled = {"group.bins.count": torch.zeros(10), "group.bins.right": torch.zeros(10)}
    (plain,), _ = grown(methods.grpo(n=4).rollout)
    (whole,), _ = grown(Prune(n=4, keep=1.0, detect=6), recalled=recalled)
    assert [tokens(r) for r in whole] == [tokens(r) for r in plain]
    assert [r.columns["reward"] for r in whole] == [r.columns["reward"] for r in plain]


def test_the_head_learns_which_beginnings_end_well() -> None:
    recalled = {"group.bins.count": torch.zeros(10), "group.bins.right": torch.zeros(10)}
    groups, _ = grown(Prune(n=8, keep=1.0, detect=6), tasks=2, recalled=recalled)
    batch = Batch.from_rollouts([r for group in groups for r in group])
    batch = batch.with_columns({"rollout.correct": batch["rollout.index"] % 3 == 0})
    head, term, signal = policies.QualityHead(tiny()), QualityLoss(), Signal("quality", grad=True)
    optimizer = torch.optim.Adam(list(head.parameters()), lr=1e-2)
    losses = []
    for _ in range(60):
        now = batch.with_columns(head.signals(batch, [signal], grad=True))
        loss = term(now)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(math.log(2))
    assert losses[-1] < 0.7 * losses[0]


# -- DeepSearch --------------------------------------------------------------------------------------------------------


def test_a_failure_never_lowers_a_positive_node_and_a_success_erases_a_negative_one() -> None:
    values, visits = backed_up([0.5, -0.5, 0.0], [1, 1, 0], -1.0, 0.1)
    assert values == [0.5, pytest.approx(-0.5 - 2 / 3), -1.0]
    assert backed_up(values, visits, 1.0, 0.1)[0] == [pytest.approx(0.5 + 1 / 3), pytest.approx(2 / 3), 1.0]


def test_the_recorded_end_is_right_whenever_one_of_them_is() -> None:
    def end(number: int, correct: bool, logp: float) -> Node:
        columns = {"correct": correct, "truncated": False, "answer": "1", "finished": True}
        turn = Turn([1], tokens={"sampler.logp": [logp]})
        return Node(number, Node(0, None), Rollout(0, [turn], columns=columns))

    ends = [end(1, False, -0.1), end(2, True, -2.0), end(3, True, -1.0)]
    assert Search().best_end(ends).number == 3  # the surest of the right ones
    assert Search().best_end(ends[:1]).number == 1


def test_one_chunk_is_dr_grpo_with_rewards_of_plus_and_minus_one() -> None:
    (group,), _ = grown(Search(n=2, width=2, max_depth=1))
    batch = Batch.from_rollouts(group, dtype=torch.float64)
    batch = batch.with_columns({"rollout.reward.overlong": torch.zeros(len(batch), dtype=torch.float64)})
    for part in (methods.deepsearch().reward[-1], FinalBaseline()):
        batch = batch.with_columns(part(batch))
    verdict = 2 * batch["rollout.correct"].double() - 1
    expected = batch.by("rollout", "group").centre(verdict)
    counted = batch.spread(batch["rollout.purpose"] == Purpose.train, "rollout", "token")
    assert_close(batch["token.advantage"][counted], batch.spread(expected, "rollout", "token")[counted])


def test_a_budget_of_tokens_ends_the_search_and_below_one_rollout_it_is_refused() -> None:
    (group,), driver = grown(Search(n=16, width=2, max_depth=4, budget=80), max_tokens=40)
    recorded = [r for r in group if r.columns["purpose"] == int(Purpose.train)]
    assert 1 <= len(recorded) < 16
    assert driver.spent[0] <= 80 + 2 * 40
    with pytest.raises(PodiumError, match="less than one rollout may have"):
        grown(Search(budget=10), max_tokens=40)


def test_texts_that_solved_a_rare_task_take_the_place_of_a_search() -> None:
    (group,), _ = grown(Search(n=4, width=2, max_depth=4))
    right = tuple(tokens(group[0]))
    (again,), driver = grown(Search(n=4), recalled={"group.solved": (right,)})
    assert len(again) == 4
    assert tokens(again[0]) == list(right)
    assert [r.columns["replayed"] for r in again] == [True, False, False, False]
    assert driver.spent[0] == sum(len(tokens(r)) for r in again[1:])


def test_only_rarely_solved_tasks_are_kept_for_the_next_round() -> None:
    memory = SolvedTexts(iterations=1, at_most=0.25)
    rows = [
        Rollout(task, [Turn([7, i])], columns={"reward": 0.0, "correct": i < solved, "index": i})
        for task, solved in (("a", 0), ("b", 1), ("c", 2))
        for i in range(4)
    ]
    state = memory.observe(memory.initial(), Batch.from_rollouts(rows))
    assert memory.recall(state, ["a", "b", "c"])["group.solved"] == ((), ((7, 0),), ())


def hard(rates: list[list[float]], phase: int, **settings: Any) -> list[int]:
    """Which tasks a round may draw: by what was measured before each of the rounds."""
    columns = {
        "group.sweep.rates": torch.tensor(rates, dtype=torch.float64),
        "batch.sweep.phase": torch.tensor([float(phase)]),
        "group.number": torch.arange(len(rates)),
    }
    return StillHard(**settings)(columns).nonzero().reshape(-1).tolist()


def test_a_round_measures_the_tasks_of_the_one_before_and_keeps_those_that_are_still_hard() -> None:
    first = [[0.0, -1.0], [0.25, -1.0], [0.5, -1.0], [-1.0, -1.0], [-1.0, -1.0]]
    assert hard(first, 0) == [3, 4]  # not measured yet
    assert hard(first, 0, pool=4) == [3]
    assert hard(first, 0, pool=3) == [0, 1]  # a quarter is hard enough
    assert hard(first, 1, pool=3) == [0, 1]  # these are measured again, and no other
    assert hard([[0.0, 0.75], [0.25, 0.0], [0.5, -1.0]], 1) == [1]
    assert hard([[0.0, 0.75], [0.25, 1.0], [0.5, -1.0]], 1) == [0, 1]  # none is hard any more: all go on


def test_a_task_is_measured_by_four_ordinary_rollouts() -> None:
    recalled = {"group.sweep.rates": torch.tensor([0.0, -1.0]), "batch.sweep.phase": torch.tensor(1.0)}
    (group,), driver = grown(Search(n=8, width=3, max_depth=6), recalled=recalled)
    assert len(group) == 4
    assert driver.spent[0] == sum(len(tokens(r)) for r in group)
    (searched,), _ = grown(
        Search(n=2, width=2, max_depth=4), recalled=recalled | {"batch.sweep.phase": torch.tensor(0.0)}
    )
    assert sum(r.columns["purpose"] == int(Purpose.train) for r in searched) == 2


def test_rounds_of_deepsearch_measure_before_they_train() -> None:
    found = lines(small("deepsearch"), SUMS, iterations=5)
    assert [line["sweep.phase"] for line in found] == [0, 0, 1, 1, 1]  # the second round is the last
    assert [line["updates"] > 0 for line in found] == [False, True, False, True, True]


def test_iterations_that_only_measure_belong_to_no_round_of_solved_texts() -> None:
    rows = [Rollout("a", [Turn([7])], columns={"reward": 0.0, "correct": True, "index": 0})]
    batch = Batch.from_rollouts(rows).with_columns({"group.keep": torch.tensor([False])})
    memory = SolvedTexts(iterations=1, at_most=1.0)
    assert memory.observe(memory.initial(), batch) == memory.initial()
