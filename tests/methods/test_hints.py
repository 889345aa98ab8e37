"""GHPO, Scaf-GRPO, SAGE, HiLL, SEELE, ADHint: hints for tasks that are too hard."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError
from podium.core.value import Clock
from podium.memories import HintLevels, LastHints
from podium.method import Method
from podium.parts.shape import BySetting, HintConsistency
from podium.strategies import HintReward, HintRounds, HintTiers, ItemResponse, Repair, SelfWritten, SolutionShares
from podium.strategies.hints.item_response import Curve
from podium.strategies.hints.learn_to_hint import leaks
from podium.strategies.requests import Play, Recite, Request
from podium.worlds import Jsonl, Sums, Task
from tests.conformance.plans import collected, made
from tests.methods.catalogue import Wrong, finite, has_signal, lines, small
from tests.methods.support import credit, rewards

LINES = "one\ntwo\nthree\nfour\nanswer: 5"
Rewards = Callable[[Play], Sequence[float]]


def played(strategy: Any, outcome: Rewards, text: str = LINES, right: bool = True) -> tuple[list[Rollout], list[Play]]:
    """The rollouts of a task whose solution is `text`, and what was sampled; `outcome` says with which rewards."""
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite):
            return made(request, [float(right)], text=[text])
        assert isinstance(request, Play)
        if request.wrap is not None:
            return made(request, [0.0] * request.n, text=[text] * request.n)
        asked.append(request)
        return made(request, outcome(request))

    return collected(strategy, answers), asked


def trained(rollouts: Sequence[Rollout]) -> list[Rollout]:
    return [r for r in rollouts if r.columns["purpose"] == Purpose.train]


def from_level(level: int) -> Rewards:
    """Nobody succeeds before this wave; from it on everybody does but the first of several."""
    return lambda play: [float(play.wave >= level and i + 1 >= min(play.n, 2)) for i in range(play.n)]


# -- repair ------------------------------------------------------------------------------------------------------------


def test_a_group_with_one_success_is_never_helped() -> None:
    for slug in ("ghpo", "sage", "scaf-grpo"):
        strategy = small(slug).at(Clock(1000)).rollout
        rollouts, asked = played(strategy, lambda play: [1.0] + [0.0] * (play.n - 1))
        assert len(asked) == 1
        assert len(rollouts) == strategy.n
        assert not any(r.columns["guided"] for r in rollouts)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_ghpo_uses_the_smallest_share_that_gives_a_success(level: int) -> None:
    rollouts, asked = played(methods.ghpo(n=4).rollout, from_level(level))
    assert [play.context.hint for play in asked[1:]] == [LINES[: round(len(LINES) * s)] for s in (0.25, 0.5, 0.75)][
        :level
    ]
    assert {r.columns["help.level"] for r in trained(rollouts)} == {float(level)}
    assert len(trained(rollouts)) == 4


def test_ghpo_keeps_the_last_rollouts_where_no_share_helps_and_the_failed_ones_on_record() -> None:
    rollouts, _ = played(methods.ghpo(n=4).rollout, lambda play: [0.0] * play.n)
    assert {r.columns["help.level"] for r in trained(rollouts)} == {3.0}
    assert [r.columns["purpose"] for r in rollouts].count(int(Purpose.replaced)) == 12
    assert len({r.columns["index"] for r in rollouts}) == 16


def test_ghpo_and_scaf_grpo_are_grpo_before_their_hints_begin() -> None:
    for method in (methods.ghpo(n=4, after=3), methods.scaf_grpo(n=4, after=3)):
        _, before = played(method.at(Clock(2)).rollout, lambda play: [0.0] * play.n)
        _, after = played(method.at(Clock(3)).rollout, lambda play: [0.0] * play.n)
        assert len(before) == 1 < len(after)


def test_scaf_grpo_replaces_one_row_by_the_success_with_the_least_help() -> None:
    rollouts, asked = played(methods.scaf_grpo(n=8, after=0).rollout, from_level(3))
    group = trained(rollouts)
    assert [r.columns["guided"] for r in group] == [True] + [False] * 7
    assert group[0].columns["help.level"] == 3.0
    assert [play.n for play in asked] == [8, 1, 1, 1, 1]
    advantage = credit(methods.scaf_grpo(), rewards([r.columns["reward"] for r in group]))
    assert_close(advantage[0], torch.tensor(2.474867, dtype=torch.float64), atol=1e-6, rtol=0)


def test_scaf_grpo_changes_nothing_where_all_levels_fail() -> None:
    rollouts, _ = played(methods.scaf_grpo(n=4, after=0).rollout, lambda play: [0.0] * play.n)
    assert not any(r.columns["guided"] for r in trained(rollouts))
    assert len(trained(rollouts)) == 4


def test_a_scaffold_of_both_kinds_puts_two_copies_into_the_group() -> None:
    rollouts, _ = played(methods.scaf_grpo(n=8, after=0, scaffold="both").rollout, from_level(2))
    group = trained(rollouts)
    assert [r.columns["guided"] for r in group] == [True, True] + [False] * 6
    assert group[0].turns[0].ids == group[1].turns[0].ids
    assert len({r.columns["index"] for r in rollouts}) == len(rollouts)


def test_hints_that_come_with_a_task_are_shown_tier_by_tier() -> None:
    pieces = {"knowledge": ["k1", "k2"], "solution": ["s1"]}
    plan = HintTiers().offer(_request(Task("t", "q", data={"hints": pieces})), ())
    with pytest.raises(StopIteration) as end:
        next(plan)
    assert [s.hint for s in end.value.value.scaffolds] == ["k1", "k1\nk2", "s1"]


def _request(task: Task) -> Any:
    from podium.protocols.sampling import Sampling
    from podium.strategies.requests import TaskRequest

    return TaskRequest(task, 0, Sampling(), (0, 0, 0))


# -- SAGE --------------------------------------------------------------------------------------------------------------


def test_sage_reads_hints_from_json_or_from_lines_and_nothing_from_what_it_cannot_read() -> None:
    said = 'Here: {"level_1": "a", "level_2": "b", "level_3": "c"}'
    assert SelfWritten().read(said) == ["a", "b", "c"]
    assert SelfWritten().read('{"level_1": "a"}') == SelfWritten().read("no hints {") == []
    assert SelfWritten(ask="").read(LINES) == ["one", "one\ntwo", "one\ntwo\nthree"]
    assert SelfWritten(ask="").read("answer: 5") == []


def test_sage_leaves_a_group_without_readable_hints_as_it_is_and_counts_it() -> None:
    rollouts, asked = played(methods.get("sage@instruct", n=4).rollout, lambda play: [0.0] * play.n)
    assert len(asked) == 1
    assert all(r.columns["help.missing"] for r in trained(rollouts))
    assert [r.columns["purpose"] for r in rollouts].count(int(Purpose.probe)) == 3  # all attempts are on record


def test_the_remembered_level_moves_by_one_at_most_and_stays_between_the_thresholds() -> None:
    memory = HintLevels(low=0.1, high=0.35)
    level, shares = torch.tensor([2.0]), torch.linspace(0, 1, 21)
    for share in shares:
        after = memory.level(level, share[None])
        assert abs(float(after - level)) <= 1
        assert float(after) == (3 if share <= 0.1 else 1 if share > 0.35 else 2)
    assert HintLevels(low=0.35, high=0.1).level(level, torch.tensor([0.2])) == memory.level(level, torch.tensor([0.2]))


def test_sage_light_begins_without_a_hint_and_then_shows_the_level_that_the_task_remembers() -> None:
    strategy = methods.sage(n=4, ask="", light=True).rollout
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite) or request.wrap is not None:
            return made(request, [1.0], text=[LINES])
        asked.append(request)
        return made(request, [0.0] * request.n)

    for level in (0.0, 2.0):
        collected(strategy, answers, recalled={"group.hint.level": torch.tensor(level)})
    assert asked[0].context is None
    assert asked[1].context.hint == "one\ntwo"
    assert asked[1].train_context is None  # what is sampled under is trained under


def visited(levels: Sequence[float], values: Sequence[float], hints: Sequence[str] = ()) -> Batch:
    """A visit of one task: at which level each rollout was sampled, and what it earned."""
    told = (tuple(hints),) * len(levels)
    return rewards(values, rollout__help__level=list(levels), rollout__hints=told)


def test_what_counts_is_the_level_at_which_a_task_was_sampled() -> None:
    memory = HintLevels()
    state = memory.observe(memory.initial(), visited([0.0, 0.0], [0, 0]))
    task = visited([0.0], [0])["group.task"]
    assert memory.recall(state, task)["group.hint.level"].tolist() == [1]
    asked = memory.observe(state, visited([1.0, 1.0], [0, 0]))
    assert memory.recall(asked, task)["group.hint.level"].tolist() == [2]
    without = memory.observe(state, visited([0.0, 0.0], [0, 0]))  # there was no hint to show
    assert memory.recall(without, task)["group.hint.level"].tolist() == [1]


def test_the_last_hints_that_could_be_read_are_remembered() -> None:
    memory, state = LastHints(), LastHints().initial()
    task = visited([0.0], [0])["group.task"]
    assert memory.recall(state, task)["group.hints"] == ((),)
    for told in (("a", "b"), (), ("c", "d"), ()):
        state = memory.observe(state, visited([1.0, 1.0], [0, 0], told))
    assert memory.recall(state, task)["group.hints"] == (("c", "d"),)


def light(written: str, earlier: tuple[str, ...], level: float = 2.0) -> tuple[list[Rollout], list[Play]]:
    """A visit at this level with what the policy writes as hints, and those of an earlier one."""
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite):
            return made(request, [1.0], text=[LINES])
        if request.wrap is not None:
            return made(request, [0.0], text=[written])
        asked.append(request)
        return made(request, [0.0] * request.n)

    recalled = {"group.hint.level": torch.tensor(level), "group.hints": earlier}
    return collected(methods.get("sage@light", n=2, ask=SelfWritten.ask).rollout, answers, recalled=recalled), asked


def test_sage_light_falls_back_on_the_last_hints_that_could_be_read() -> None:
    group, asked = light("no hints", ("weak", "strong", "all"))
    assert asked[0].context.hint == "strong"
    assert [r.columns["help.earlier"] for r in trained(group)] == [1.0, 1.0]
    assert [r.columns["help.level"] for r in trained(group)] == [2.0, 2.0]
    assert [r.columns["help.missing"] for r in trained(group)] == [0.0, 0.0]


def test_sage_light_prefers_hints_of_now_and_asks_without_where_there_are_none() -> None:
    group, asked = light('{"level_1": "a", "level_2": "b", "level_3": "c"}', ("weak", "strong", "all"))
    assert asked[0].context.hint == "b"
    assert all(r.columns["hints"] == ("a", "b", "c") and not r.columns["help.earlier"] for r in trained(group))
    group, asked = light("no hints", ())
    assert asked[0].context is None
    assert [r.columns["help.level"] for r in trained(group)] == [0.0, 0.0]
    assert all(r.columns["help.missing"] for r in trained(group))


def test_sage_light_trains_from_visit_to_visit() -> None:
    world = type("Few", (Sums,), {"size": lambda self, split="train": 2 if split == "train" else None})(level=5)
    found = lines(small("sage@light"), world, iterations=3, tasks=2)
    assert finite(found)
    assert [line["hint.level"] for line in found[:2]] == [0, 1]
    assert all("help.earlier" in line for line in found)


# -- HiLL --------------------------------------------------------------------------------------------------------------


def worth(right: int, d: float | None = -0.1, base: str = "mixed") -> float:
    return HintReward(base)([1.0] * right + [0.0] * (8 - right), d)


@pytest.mark.parametrize("base", ["mixed", "variance"])
def test_a_hint_is_worth_most_where_half_succeed_and_nothing_where_all_or_none_do(base: str) -> None:
    values = [worth(right, 0.0, base) for right in range(9)]
    assert values[0] == values[8] == 0
    assert max(values) == values[4]


def test_a_hint_is_worth_less_the_more_it_is_relied_on() -> None:
    assert worth(4, -0.5) < worth(4, -0.1) < worth(4, 0.0) == worth(4, 0.7)
    assert worth(4, None) == 0
    assert HintReward()([1.0, 0.0], 0.0, allowed=False) == -0.2
    assert HintReward()([1.0, 0.0], 0.0, before=[1.0, 0.0]) == 0  # no better than without


def test_an_answer_leaks_where_it_stands_in_the_hint_or_a_short_one_where_it_is_called_the_answer() -> None:
    assert leaks("It is 1234.", "1234")
    assert leaks("so x = 7", "7")
    assert leaks(r"\boxed{7}", "7")
    assert not leaks("take 7 of them", "7")
    assert not leaks("a hint", "")


def test_hill_trains_both_models_and_keeps_hints_out_of_the_solvers_numbers() -> None:
    found = lines(small("hill"), worlds.get("countdown", level=4), iterations=2, tasks=3)
    assert finite(found)
    assert any(line["grad_norm.hinter"] > 0 for line in found)
    assert all(0 <= line["reward"] <= 1 for line in found)


def test_hill_is_grpo_without_its_flat_groups_where_no_group_fails() -> None:
    strategy = methods.hill(n=4).rollout
    rollouts, asked = played(strategy, lambda play: [1.0, 0.0, 0.0, 0.0])
    assert len(asked) == 1
    assert all(r.columns["solving"] for r in rollouts)


# -- SEELE -------------------------------------------------------------------------------------------------------------


def test_the_inverse_of_the_curve_is_one_inside_the_clip() -> None:
    curve = Curve(8.0, -0.5, 0.1)
    for target in (0.2, 0.5, 0.9):
        assert math.isclose(curve(curve.inverse(target)), target, abs_tol=1e-9)
    assert curve.inverse(0.05) == 0
    assert Curve(8.0, -0.3).inverse(0.5) < Curve(8.0, -0.7).inverse(0.5)  # an abler policy needs less


def test_a_learner_with_a_known_curve_gets_near_the_target_within_four_rounds() -> None:
    response = ItemResponse()
    for k in (5.0, 10.0, 20.0):
        for mu in (-0.3, -0.5, -0.7):
            curve, rate, rounds = Curve(k, mu), 0.8, []
            for _ in range(4):
                rounds.append((rate, curve(rate)))
                rate = response.next(rounds)
            assert abs(curve(rate) - 0.5) <= 1 / 8, (k, mu)


def test_rates_stay_legal_on_flat_and_hopeless_data() -> None:
    response = ItemResponse()
    assert response.next([(0.5, 0.0), (0.9, 0.0)]) > 0.9
    for rounds in ([(0.2, 1.0), (0.8, 0.0)], [(0.5, 0.5)] * 4, [(0.0, 1.0)]):
        assert 0 <= response.next(rounds) <= 1


def test_seele_is_dr_grpos_advantage_over_all_rounds() -> None:
    batch = rewards([1, 0, 0, 1, 0, 0])
    assert_close(credit(methods.seele(), batch), credit(methods.dr_grpo(), batch))


class Planned(ItemResponse):
    """A curve that suggests given shares, one after the other."""

    shares: tuple[float, ...] = ()

    def next(self, rounds: Sequence[tuple[float, float]]) -> float:
        return self.shares[len(rounds) - 1]


def test_seele_shows_the_share_of_the_lines_that_the_curve_suggests() -> None:
    """Of five lines the first round shows all but the last, 4/5; then 0.4 · 5 = 2, 0.6 · 5 = 3, and none."""
    strategy = HintRounds(n=2, rounds=4, response=Planned(shares=(0.4, 0.6, 0.0, 0.25)))
    recited: list[Recite] = []
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite):
            recited.append(request)
            return made(request, [1.0], text=[LINES])
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, [1.0, 0.0])

    group = collected(strategy, answers)
    shown = [getattr(play.context, "hint", "") for play in asked]
    assert shown == ["one\ntwo\nthree\nfour", "one\ntwo", "one\ntwo\nthree", ""]
    levels = [r.columns["help.level"] for r in group if r.columns["sampled"]]
    assert levels == pytest.approx([0.8, 0.8, 0.4, 0.4, 0.6, 0.6, 0.0, 0.0])
    assert recited[-1].texts == ("one\ntwo\nthree\nfour",)  # the longest hint, to be imitated
    assert (recited[-1].ended, recited[-1].origin) == (False, Origin.hint)
    assert {r.columns["help.next"] for r in group} == {0.25}  # where the next visit begins
    assert strategy.acted(group) == 6
    asked.clear()
    collected(strategy, answers, recalled={"group.hint.rate": 0.4})
    assert getattr(asked[0].context, "hint", "") == "one\ntwo"
    asked.clear()
    group = collected(strategy.neutral, answers)
    assert not any(getattr(play.context, "hint", "") for play in asked)
    assert strategy.acted(group) == 0


def test_a_single_rollout_has_no_advantage_in_seele() -> None:
    assert credit(methods.seele(), rewards([1.0])).tolist() == [0.0]


# -- ADHint ------------------------------------------------------------------------------------------------------------


def halves(plain: Sequence[float], hinted: Sequence[float]) -> Batch:
    marks = [False] * len(plain) + [True] * len(hinted)
    return rewards([*plain, *hinted], rollout__hinted=marks)


def test_the_share_of_a_hint_grows_with_difficulty() -> None:
    strategy = methods.adhint().rollout
    shares = [strategy.share(d, 0.0) for d in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert shares == sorted(shares)
    assert shares[0] == 0


def test_equal_difficulties_leave_grpos_advantages() -> None:
    batch = halves([1, 0], [0, 1])
    method = methods.adhint()
    assert_close(credit(method.with_(shape=method.shape[:1]), batch), credit(methods.grpo(), batch))


def test_success_without_a_hint_on_a_hard_task_outweighs_success_with_one() -> None:
    batch = halves([1, 0, 0, 0], [1, 1, 1, 0])
    batch = batch.with_columns(methods.adhint().advantage(batch))
    after = BySetting()(batch)["rollout.advantage"]
    assert after[0] > after[4] > 0


def test_hint_tokens_never_learn_from_a_failure() -> None:
    turn = Turn((1, 2, 3), origin=["hint", "policy", "policy"], tokens={"old.entropy": [0.5, 0.7, 0.3]})
    rollouts = [Rollout("t", [turn], columns={"advantage": a}) for a in (1.0, -1.0, 0.0)]
    weight = HintConsistency()(Batch.from_rollouts(rollouts, dtype=torch.float64))["token.weight.hint"].reshape(3, 3)
    assert_close(weight[:, 0], torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))
    assert bool((weight[:, 1:] == 1).all())


def test_adhint_begins_answers_with_tokens_of_origin_hint() -> None:
    found = lines(small("adhint"), worlds.get("sums", level=3), iterations=1)
    assert found[0]["watched.hinted"] > 0
    assert found[0]["help.level"] > 0


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_a_file_with_solutions_gives_hints(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    row = '{"question": "sum: 1+%d", "answer": "%d", "solution": "add one\\n1+%d=%d"}\n'
    file.write_text("".join(row % (i, i + 1, i, i + 1) for i in range(12)))
    world = Jsonl(file=str(file), instructions=False, solution_field="solution")
    assert world.solve(world.task(0)).splitlines()[0] == "add one"
    found = lines(small("ghpo"), world, iterations=1, tasks=2)
    assert found[0]["help.missing"] == 0


def test_a_file_may_bring_hints_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"question": "q", "answer": "1", "hints": {"knowledge": ["a", "b"]}}\n')
    world = Jsonl(file=str(file), held_out=0.0, hints_field="hints")
    assert world.task(0).data["hints"] == {"knowledge": ["a", "b"]}
    file.write_text('{"question": "q", "answer": "1", "hints": "a"}\n')
    with pytest.raises(PodiumError, match=r"line 1.*object of lists"):
        Jsonl(file=str(file), held_out=0.0, hints_field="hints").task(0)


def test_settings_that_make_no_sense_are_refused_in_words() -> None:
    with pytest.raises(PodiumError, match="between 0 and 1"):
        SolutionShares((0.5, 1.5))
    with pytest.raises(PodiumError, match="take='rows'"):
        Repair(scaffold="both")
    with pytest.raises(PodiumError, match="may name"):
        SelfWritten(ask="{unknown}")


def test_a_group_that_is_all_wrong_whatever_the_hint_trains_without_nan() -> None:
    method: Method = small("ghpo")
    assert finite(lines(method, Wrong(), iterations=1))


def test_hints_give_a_gradient_where_grpo_has_none() -> None:
    """On a level out of reach: every own rollout fails, some hinted ones do not."""
    world = worlds.get("countdown", level=4)
    found = [lines(small(slug), world, iterations=3, tasks=6, seed=1) for slug in ("grpo", "ghpo")]
    flat = [sum(line["flat_groups"] for line in run) / 3 for run in found]
    assert flat[1] < flat[0]
    assert has_signal(found[1])


def test_origins_are_named_for_every_token() -> None:
    rollouts, _ = played(methods.ghpo(n=2).rollout, lambda play: [0.0] * play.n)
    assert all(turn.origin == [Origin.policy.name] for r in rollouts for turn in r.turns)
