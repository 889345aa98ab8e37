"""What strategies ask for and make of the answers, with a scripted sampler and numbers worked out by hand."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.core.streams import key
from podium.protocols.context import Full
from podium.protocols.sampling import Completion, Sampling, Stop
from podium.protocols.world import Criterion
from podium.strategies import (
    Allocated,
    Augmented,
    Branching,
    BudgetedTurns,
    Continuations,
    Contrasted,
    Counterfactual,
    Demonstrate,
    Draw,
    Fork,
    Grow,
    HintPrefix,
    HintReward,
    HintRounds,
    LearnToHint,
    NextTurn,
    Prune,
    ReadInChunks,
    ReplayAndReflect,
    RubricShown,
    Sample,
    SampleAdvised,
    SampleAndRevisit,
    SampleBlueprints,
    SampleMore,
    Search,
    SecondWave,
    StepProbes,
    TopEntropy,
    Tree,
)
from podium.strategies.hints.help import LAST
from podium.strategies.requests import Generate, Interrupt, Interrupted, Play, Read, Recite, Request, Resume, Score
from podium.worlds import Task, World
from tests.conformance.plans import answered, asking, collected, made

SOLUTION = "one\ntwo\nthree\nfour"


def scripted(rewards: Sequence[Sequence[float]], asked: list[Play], solution: str = SOLUTION, **columns: Any) -> Any:
    """Answers of a sampler: the rewards of each wave in turn, and the world's solution."""

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Recite):
            return made(request, [1.0], text=[request.texts[0] if request.texts else solution])
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, rewards[len(asked) - 1], **columns)

    return answers


def shown(play: Play) -> int:
    return len(getattr(play.context, "hint", "").splitlines())


def test_hint_rounds_show_lines_by_the_success_of_the_rounds_before() -> None:
    asked: list[Play] = []
    strategy = HintRounds(n=4, rounds=3)
    rewards = [[1.0, 0.0, 0.0, 0.0], [0.0, -1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    group = collected(strategy, scripted(rewards, asked))
    # The first round shows all lines but the last; the others follow from the curve through what was seen.
    rates = [(0.75, 0.25)]
    second = strategy.response.next(rates)
    rates.append((round(second * 4) / 4, 0.25))
    third = strategy.response.next(rates)
    rates.append((round(third * 4) / 4, 0.25))
    assert [shown(play) for play in asked] == [3, round(second * 4), round(third * 4)]
    assert [play.first for play in asked] == [0, 4, 8]
    assert [r.columns["help.level"] for r in group[:12]] == [share for share, _ in rates for _ in range(4)]
    assert all(r.columns["help.next"] == pytest.approx(strategy.response.next(rates)) for r in group)
    # The longest hint is a demonstration.
    *sampled, demonstration = group
    assert len(sampled) == 12
    assert demonstration.columns["demonstration"]
    longest = round(max(share for share, _ in rates) * 4)
    assert demonstration.columns["text"] == "\n".join(SOLUTION.splitlines()[:longest])


def test_hint_rounds_begin_with_what_is_remembered() -> None:
    for rate, lines in ((0.0, 0), (0.5, 2), (1.0, 4), (-1.0, 3)):
        asked: list[Play] = []
        collected(HintRounds(n=1, rounds=1), scripted([[1.0]], asked), recalled={"group.hint.rate": rate})
        assert shown(asked[0]) == lines
    asked = []
    collected(HintRounds(n=1, rounds=1), scripted([[1.0]], asked))
    assert shown(asked[0]) == 3
    asked = []
    one = collected(HintRounds(n=1, rounds=1), scripted([[1.0]], asked, solution="alone"))
    assert shown(asked[0]) == 0
    assert [r.columns["help.level"] for r in one] == [0.0]
    asked = []
    recalled = {"group.hint.rate": 1.0}
    one = collected(HintRounds(n=1, rounds=1), scripted([[1.0]], asked, solution="alone"), recalled=recalled)
    assert shown(asked[0]) == 1
    assert one[0].columns["help.level"] == 1.0  # the whole of one line
    assert not one[0].columns["help.missing"]


def test_a_round_counts_its_own_rollouts() -> None:
    strategy = HintRounds(n=2, rounds=2)
    group = collected(strategy, scripted([[1.0, 1.0], [0.0, 0.0]], []))
    second = round(strategy.response.next([(0.75, 1.0)]) * 4) / 4
    assert group[0].columns["help.next"] == pytest.approx(strategy.response.next([(0.75, 1.0), (second, 0.0)]))


def test_a_hint_that_leaves_no_tokens_is_left_out() -> None:
    asked: list[Play] = []
    group = collected(HintRounds(n=1, rounds=2), scripted([[], [1.0], [0.0]], asked))
    assert [shown(play) for play in asked] == [3, 0, 0]
    assert [r.columns["help.level"] for r in group] == [0.0, 0.0]
    assert [r.columns["help.missing"] for r in group] == [True, True]
    assert all(r.columns["help.next"] == 0.0 for r in group)


def solved(ids: tuple[int, ...], correct: bool = True) -> Any:
    def answers(request: Recite) -> list[Rollout]:
        (rollout,) = made(request, [1.0 if correct else 0.0])
        return [dataclasses.replace(rollout, turns=[Turn(ids)])]

    return answers


def test_a_prefix_of_the_solution_grows_with_the_failures() -> None:
    strategy = HintPrefix(n=4, hinted=2, least=0.1, most=0.9, noise=0.05)
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Recite):
            return [*solved((9,) * 5, correct=False)(request), *solved(tuple(range(11)))(request)]
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, [1.0, 0.0, 0.0, 0.0] if request.wave == 0 else [1.0, 0.0])

    group = collected(strategy, answers)
    noise = 0.05 * float(np.random.default_rng(key(0, asking({}).stream)).normal())
    share = 0.8 * 0.75 + 0.1 + noise
    assert asked[1].begun is not None
    assert asked[1].begun.ids == tuple(range(int(share * 10)))  # without the end-of-turn token
    assert (asked[1].n, asked[1].first) == (2, 4)
    assert [r.columns["help.level"] for r in group] == pytest.approx([0.0] * 4 + [share] * 2)
    assert [r.columns["hinted"] for r in group] == [False] * 4 + [True] * 2


def test_where_all_succeed_or_nothing_is_known_no_rollout_is_hinted() -> None:
    asked: list[Play] = []
    group = collected(HintPrefix(n=2), scripted([[1.0, 1.0]], asked))
    assert [r.columns["hinted"] for r in group] == [False, False]
    assert len(asked) == 1

    def answers(request: Request) -> Sequence[Any]:
        return [] if isinstance(request, Recite) else made(request, [0.0, 0.0])  # type: ignore[arg-type]

    group = collected(HintPrefix(n=2), answers)
    assert [r.columns["help.missing"] for r in group] == [True, True]


def hinter(rewards: Sequence[Sequence[float]], texts: Sequence[str], asked: list[Any]) -> Any:
    """Rewards without a hint, then under each; what the hint writer writes; equal likelihoods."""
    under = iter(rewards[1:])

    def answers(request: Request) -> Sequence[Any]:
        asked.append(request)
        if isinstance(request, Score):
            return [0.0]
        if isinstance(request, Recite):
            return made(request, [1.0], text=[SOLUTION])
        assert isinstance(request, Play)
        if request.wrap is not None:
            return made(request, [0.0] * len(texts), text=list(texts))
        return made(request, rewards[0] if request.wave == 0 else next(under))

    return answers


def test_the_best_hint_replaces_the_group() -> None:
    strategy = LearnToHint(n=2, hints=3, hint_reward=HintReward("variance", None, penalty=-0.5), success=0.5)
    asked: list[Any] = []
    texts = ["<hint>a</hint>", "no hint", "<hint>c</hint>"]
    made_ = collected(strategy, hinter([[0.5, 0.0], [1.0, 1.0], [1.0, 0.0]], texts, asked))
    kept = [r for r in made_ if r.columns["purpose"] == Purpose.train and r.columns["solving"]]
    replaced = [r for r in made_ if r.columns["purpose"] == Purpose.replaced]
    hints = [r for r in made_ if r.columns["hinting"]]
    # All right: 0; not to be read: the penalty; one of two right: ½·½.
    assert [r.columns["hint.worth"] for r in hints] == [0.0, -0.5, 0.25]
    assert [(r.columns["reward"], r.columns["index"]) for r in kept] == [(1.0, 4), (0.0, 5)]
    assert [r.columns["reward"] for r in replaced] == [0.5, 0.0, 1.0, 1.0]
    (recite,) = [request for request in asked if isinstance(request, Recite)]
    assert recite.style == "short"


def test_a_hint_without_worth_changes_nothing() -> None:
    strategy = LearnToHint(n=2, hints=1, hint_reward=HintReward("variance", None))
    made_ = collected(strategy, hinter([[0.0, 0.0], [0.0, 0.0]], ["<hint>a</hint>"], []))
    kept = [r for r in made_ if r.columns["purpose"] == Purpose.train and r.columns["solving"]]
    assert [r.columns["index"] for r in kept] == [0, 1]
    nothing = collected(strategy, hinter([[1.0, 0.0]], [], []))
    assert [r.columns["solving"] for r in nothing] == [True, True]
    unread = collected(strategy, hinter([[0.0, 0.0]], ["no hint"], []))
    assert [r.columns["index"] for r in unread if r.columns["solving"]] == [0, 1]


def test_a_hint_is_asked_for_with_the_first_attempt_and_held_to_its_context() -> None:
    asked: list[Any] = []
    strategy = LearnToHint(n=1, hints=1, ask="{question} {attempt} {solution}")
    collected(strategy, hinter([[0.0], [1.0]], ["<hint>a</hint>"], asked))
    (writing,) = [request for request in asked if isinstance(request, Play) and request.wrap is not None]
    assert writing.first == LAST
    (prompt,) = writing.wrap.args
    assert prompt == f"question rollout 0 {SOLUTION}"
    assert [request.context for request in asked if isinstance(request, Score)] == [(2,), (2,)]


def test_rollouts_are_sampled_voted_and_demonstrated() -> None:
    asked: list[Any] = []

    def answers(request: Request) -> Sequence[Any]:
        asked.append(request)
        return made(request, [1.0] * (1 if isinstance(request, Recite) else request.n))  # type: ignore[arg-type,union-attr]

    strategy = Sample(n=5, trained=2, greedy_baseline=True, demonstrations=("short", "long"))
    group = collected(strategy, answers)
    plays, recites = asked[:3], asked[3:]
    assert [(p.n, p.first, p.purpose) for p in plays] == [
        (2, 0, Purpose.train),
        (3, 2, Purpose.vote),
        (1, 5, Purpose.baseline),
    ]
    assert (plays[2].sampling.temperature, plays[2].sampling.top_p) == (0.0, 1.0)
    assert [(r.style, r.index) for r in recites] == [("short", 6), ("long", 7)]
    assert len(group) == 8
    asked.clear()
    collected(Sample(n=3, demonstrations=("short",)), answers)
    assert [r.index for r in asked[1:]] == [3]


def test_more_is_sampled_while_it_pays() -> None:
    asked: list[Play] = []
    strategy = SampleMore(n=4, most=6, cost=0.0)
    group = collected(strategy, scripted([[1.0] * 4, [1.0], [1.0]], asked), recalled={"group.prior": -1.0})
    assert [(p.n, p.first) for p in asked] == [(4, 0), (1, 4), (1, 5)]
    assert [r.columns["index"] for r in group] == [0, 1, 2, 3, 4, 5]


def test_a_second_wave_goes_to_hard_tasks() -> None:
    asked: list[Play] = []
    strategy = SecondWave(n=2, most=4)
    easy = collected(strategy, scripted([[1.0, 1.0]], asked))
    assert [r.columns["index"] for r in easy] == [0, 1]
    asked.clear()
    hard = collected(strategy, scripted([[0.0, 0.0], [1.0]], asked))
    assert [r.columns["extra"] for r in hard] == [0.0, 0.0, 1.0]
    assert [(p.n, p.first) for p in asked] == [(2, 0), (1, 2)]


def test_turns_are_granted_step_by_step() -> None:
    def answers(request: Request) -> Sequence[Any]:
        assert isinstance(request, Play)
        pairs = zip(made(request, [1.0] * 3), (1, 4, 5), strict=True)
        return [dataclasses.replace(r, turns=[Turn((1,))] * n) for r, n in pairs]

    group = collected(BudgetedTurns(n=3, start=2, cap=6, step=2), answers)
    assert [r.columns["extensions"] for r in group] == [0.0, 1.0, 2.0]
    free = collected(BudgetedTurns(n=3), answers)
    assert [r.columns["extensions"] for r in free] == [0.0, 0.0, 0.0]


def test_each_half_has_its_own_question() -> None:
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Any]:
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, [1.0] * request.n)

    collected(Contrasted(n=4, asks=("", "Think twice.")), answers)
    assert sum(p.n for p in asked if getattr(p.context, "below", "") == "Think twice.") == 2
    asked.clear()
    group = collected(Contrasted(n=5, asks=("", "Think twice.")), answers)
    assert sum(p.n for p in asked if getattr(p.context, "below", "") == "Think twice.") == 2
    assert sorted(float(r.columns["guided"]) for r in group) == [0.0, 0.0, 0.0, 1.0, 1.0]


def test_the_most_confident_blueprint_is_followed() -> None:
    def answers(request: Request) -> Sequence[Any]:
        assert isinstance(request, Play)
        rollouts = made(request, [1.0, 0.0], text=["1. go", "1. stay"])
        if request.purpose != Purpose.probe:
            return rollouts
        logp = ((-1.0, -2.0), (-1.4,))
        return [
            dataclasses.replace(r, turns=[Turn((1,) * len(x), tokens={"sampler.logp": x})])
            for r, x in zip(rollouts, logp, strict=True)
        ]

    seen: list[Play] = []

    def noted(request: Request) -> Sequence[Any]:
        assert isinstance(request, Play)
        seen.append(request)
        return answers(request)

    micro = collected(SampleBlueprints(n=2, phase="micro"), noted)
    assert [play.first for play in seen] == [2, 0]
    assert seen[1].wrap.keywords["blueprint"] == "1. stay"  # type: ignore[union-attr]
    assert [r.columns["purpose"] for r in micro] == [Purpose.train] * 2 + [Purpose.probe] * 2
    seen.clear()
    macro = collected(SampleBlueprints(n=2, phase="macro"), noted)
    assert len(seen) == 1
    assert [r.columns["reward"] for r in macro] == [1.0, 0.0]


def test_a_wrong_answer_is_reflected_upon_where_few_succeed() -> None:
    stored = ({"text": "was wrong", "correct": False},)

    def plan(mean: float) -> tuple[list[Rollout], list[Play]]:
        asked: list[Play] = []
        recalled = {"group.stored.mean": mean, "group.stored": stored}
        answers = scripted([[1.0, 0.0], [1.0, 1.0]], asked)
        return collected(ReplayAndReflect(n=2, most=1, tau=0.25), answers, recalled=recalled), asked

    group, asked = plan(0.25)  # at tau itself nothing is reflected
    assert len(group) == 2
    group, asked = plan(0.0)
    assert [(p.n, p.first) for p in asked] == [(2, 0), (2, 2)]
    assert [r.columns["reflecting"] for r in group] == [False, False, True, True]
    unknown = collected(ReplayAndReflect(n=2, tau=0.25), scripted([[1.0, 0.0]], []), recalled={"group.stored": stored})
    assert len(unknown) == 2
    # A task without a mean counts as having 1; of several wrong answers one is shown.
    several = {"group.stored": stored * 3}
    asked = []
    collected(ReplayAndReflect(n=2, tau=1.5), scripted([[1.0, 0.0], [1.0, 1.0]], asked), recalled=several)
    assert [p.context.attempt for p in asked[1:]] == ["was wrong"]  # type: ignore[union-attr]


def test_one_turn_of_the_expert_is_played_anew() -> None:
    task = asking({})
    turns = [Turn((1,), columns={"next_state": f"s{i}", "reward": 0.0, "action": f"a{i}"}) for i in range(3)]
    cut = key(0, (*task.stream, 3)) % 3
    resumed: list[Resume] = []

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Recite):
            return [dataclasses.replace(made(request, [1.0])[0], turns=turns)]
        assert isinstance(request, Resume)
        resumed.append(request)
        other = Turn((1,), columns={"next_state": "elsewhere", "reward": 0.0, "action": "x"})
        pairs = zip(made(request.play, [0.0, 0.0]), (turns[cut], other), strict=True)
        ended = {"failure": "", "stop": "turns"}
        return [dataclasses.replace(r, turns=[*turns[:cut], t], columns={**r.columns, **ended}) for r, t in pairs]

    group = answered(NextTurn(n=2).plan(task), answers)
    assert resumed[0].play.max_turns == cut + 1
    assert list(resumed[0].turns) == turns[:cut]
    assert [r.columns["reward"] for r in group] == [1.0, 0.0]
    assert [r.columns["cut"] for r in group] == [float(cut)] * 2
    assert all(len(r.turns) == 1 for r in group)


def test_an_expert_without_a_pivot_leaves_one_sample_of_its_first_turn() -> None:
    turns = [Turn((1,), columns={"next_state": f"s{i}", "reward": 0.0, "action": f"a{i}"}) for i in range(2)]

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Recite):
            return [dataclasses.replace(made(request, [1.0])[0], turns=turns)]
        assert isinstance(request, Resume)
        # The profiler always does as the expert does at the first turn, and never at the second.
        cut = len(request.turns)
        other = Turn((1,), columns={"next_state": "elsewhere", "reward": 0.0, "action": "x"})
        own = {"failure": "", "stop": "turns"}
        return [
            dataclasses.replace(r, turns=[*turns[:cut], other if cut else turns[0]], columns={**r.columns, **own})
            for r in made(request.play, [0.0] * request.play.n)
        ]

    (only,) = collected(NextTurn(n=4, profile=2), answers)
    found = [only.columns[name] for name in ("index", "cut", "pivot", "profiled")]
    assert found == [0, 0.0, False, 1.0]


def test_continuations_begin_after_the_chosen_positions() -> None:
    entropy = [0.0] * 19
    entropy[0], entropy[17] = 5.0, 9.0
    prefixes: list[int] = []

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Recite):
            return [dataclasses.replace(made(request, [1.0])[0], turns=[Turn(range(1, 20), context=(0,))])]
        if isinstance(request, Score):
            assert (request.context, request.ids) == ((0,), tuple(range(1, 20)))
            return entropy
        assert isinstance(request, Generate)
        prefixes.append(len(request.context))
        return []

    # The peaks of two chunks of nine are at 0 and 17, so 1 and 18 tokens precede what is written.
    strategy = Continuations(k=2, chunks=2, positions="argmax", margin=0)
    (text,) = collected(strategy, answers)
    assert text.columns["purpose"] == Purpose.demo
    assert prefixes == [1, 18]
    # A margin of 3 tokens at both ends of the 20; one of 10 is a quarter of the text.
    for margin, starts in ((3, [3, 17]), (10, [5, 15])):
        prefixes.clear()
        collected(strategy.replace(margin=margin), answers)
        assert prefixes == starts
    prefixes.clear()
    assert len(collected(strategy.replace(chunks=20), answers)) == 1
    assert prefixes == []


def test_rollouts_start_anew_or_fork_at_the_highest_score() -> None:
    asked: list[Any] = []

    def answers(request: Request) -> Sequence[Any]:
        asked.append(request)
        play = request.play if isinstance(request, Resume) else request
        assert isinstance(play, Play)
        (rollout,) = made(play, [1.0])
        column = Grow().score.column.removeprefix("token.")
        scores = [0.1, 0.9, 0.2] if play.first == 0 else [0.3, 0.4, 0.5]
        return [
            dataclasses.replace(rollout, turns=[Turn([1, 2, 3], tokens={column: scores, "sampler.logp": [0.0] * 3})])
        ]

    collected(Grow(n=3, restart=1.0), answers)
    assert [request.begun for request in asked] == [None, None, None]
    asked.clear()
    collected(Grow(n=3, restart=0.0), answers)
    assert asked[0].begun is None
    assert [tuple(request.begun.ids) for request in asked[1:]] == [(1,), (1,)]


def test_a_rollout_without_a_score_cannot_be_forked() -> None:
    asked: list[Any] = []

    def answers(request: Request) -> Sequence[Any]:
        asked.append(request)
        assert isinstance(request, Play)
        column = Grow().score.column.removeprefix("token.")
        return [dataclasses.replace(r, turns=[Turn([], tokens={column: []})]) for r in made(request, [1.0])]

    group = collected(Grow(n=2, restart=0.0), answers)
    assert [request.begun for request in asked] == [None, None]
    assert [r.columns["parent"] for r in group] == [-1, -1]


def test_bases_have_no_parent_and_fork_nowhere() -> None:
    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Read):
            return ["x"] * len(request.ids)
        assert isinstance(request, Play)
        turn = Turn((1, 2), context=(2,), tokens={"sampler.entropy": (0.0, 1.0), "sampler.logp": (0.0, 0.0)})
        return [dataclasses.replace(r, turns=[turn]) for r in made(request, [1.0] * request.n)]

    group = collected(Fork(n=2, fork_points=TopEntropy(1), branches=1), answers)
    assert [r.columns["parent"] for r in group] == [-1, -1, 0, 1]
    assert [r.columns["fork"] for r in group] == [0, 0, 1, 1]


def test_branches_share_the_chance_of_the_rollout_that_they_leave() -> None:
    """The second turn is surer than the first: with the chance 1 there is always a fork."""
    resumed: list[Resume] = []

    def answers(request: Request) -> Sequence[Any]:
        play = request.play if isinstance(request, Resume) else request
        assert isinstance(play, Play)
        if isinstance(request, Resume):
            resumed.append(request)
        turns = [Turn((1,), context=(2,), tokens={"sampler.entropy": (0.5,)}) for _ in range(2)]
        return [dataclasses.replace(r, turns=turns) for r in made(play, [1.0] * play.n)]

    group = collected(Branching(n=4, initial=2, chance=1.0, log_vocabulary=1.0), answers)
    assert [request.chance for request in resumed] == [(0, 0), (0, 1)]
    assert [r.columns["parent"] for r in group] == [-1, -1, 0, 1]


def test_a_group_with_a_success_stays_as_it_is() -> None:
    group = collected(Counterfactual(n=3), lambda request: made(request, [0.0, 1.0, 0.0]))  # type: ignore[arg-type]
    assert [r.columns["reward_before"] for r in group] == [0.0, 1.0, 0.0]
    assert not any(r.columns["rewritten"] for r in group)


def test_a_search_ends_with_as_many_leaves_as_it_was_asked_for() -> None:
    def answers(request: Request) -> Sequence[Any]:
        assert isinstance(request, Play)
        return made(request, [1.0] * request.n, answer=["1"] * request.n, truncated=[False] * request.n)

    limit = Sampling().max_tokens
    strategy = Search(n=2, width=1, budget=limit)  # the budget of one rollout is enough
    group = collected(strategy, answers)
    assert [r.columns["purpose"] for r in group] == [Purpose.train] * 2
    with pytest.raises(PodiumError, match="less than one rollout may have"):
        collected(strategy.replace(budget=limit - 1), answers)


def test_a_tree_grows_from_what_is_unfinished() -> None:
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Any]:
        assert isinstance(request, Play)
        asked.append(request)
        ended = request.begun is not None
        ids = (*(request.begun.ids if request.begun is not None else ()), 1)
        turn = Turn(ids, context=(2,), tokens={"sampler.logp": (0.0,) * len(ids)})
        rollouts = made(request, [1.0] * request.n)
        return [dataclasses.replace(r, turns=[turn], columns={**r.columns, "finished": ended}) for r in rollouts]

    leaves = collected(Tree(n=2, branches=(3,), window=1), answers)
    assert [(play.n, play.first, play.window) for play in asked] == [(2, 0, 1), (3, 0, None), (3, 3, None)]
    assert len(leaves) == 6
    assert all(len(leaf.turns[0].ids) == 2 for leaf in leaves)


def test_a_segment_without_a_token_is_none() -> None:
    def answers(request: Request) -> Sequence[Any]:
        assert isinstance(request, Play)
        turn = Turn((1,), context=(2,), tokens={"sampler.logp": (0.0,)})
        ended = request.begun is not None
        rollouts = made(request, [1.0] * request.n)
        return [dataclasses.replace(r, turns=[turn], columns={**r.columns, "finished": ended}) for r in rollouts]

    (leaf,) = collected(Tree(n=1, branches=(1,), window=1), answers)
    assert len(leaf.nodes["key"]) == 1


class Judged(World):
    """A world of three criteria."""

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        return (Criterion("be kind", 1.0), Criterion("be rude", -1.0), Criterion("nothing", 0.0))


def test_criteria_are_shown_by_their_sign() -> None:
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Any]:
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, [1.0] * request.n)

    group = collected(RubricShown(n=2, binary=1), answers, world=Judged())
    hints = [getattr(play.context, "hint", "") for play in asked]
    assert sorted(hints) == ["", "be kind\navoid: be rude"]
    assert sorted(r.columns["guided"] for r in group) == [False, True]
    assert len(group) == 2


def played(finished: bool = True) -> Any:
    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Interrupt):
            half = Completion((7,), (-1.0,), "stop", captured={"entropy": (math.log(2),)})
            return [Interrupted(0, 1, (2, 1), (8,), [half])]
        assert isinstance(request, Play)
        return made(request, [1.0] * request.n, finished=[finished] * request.n)

    return answers


def test_every_rollout_comes_back() -> None:
    probed = collected(StepProbes(n=3, probe_n=1), played())
    assert [r.columns["index"] for r in probed] == [0, 1, 2]
    assert [r.segments["confidence"] for r in probed] == [pytest.approx([0.5])] * 3  # e to the −ln 2
    assert [r.columns["side_tokens"] for r in probed] == [1, 1, 1]
    finished = collected(Prune(n=3, detect=4), played())
    assert [r.columns["pruned"] for r in finished] == [False] * 3
    assert len(collected(SampleAdvised(n=3), played())) == 3
    assert len(collected(Augmented(n=3), played())) == 3
    alone = Allocated(n=3, least=1, most=3, rate="group.value")  # one task has the whole budget
    assert [r.columns["budget"] for r in collected(alone, played(), recalled={"group.value": 0.5})] == [3.0] * 3


def test_demonstrations_take_turns_with_styles_and_are_numbered_across_ways() -> None:
    strategy = Demonstrate(n=3, styles=("short", "long"), others=(Draw(context=Full()),))
    asked = next(strategy.plan(asking({})))
    assert [r.style for r in asked if isinstance(r, Recite)] == ["short", "long", "short"] * 2
    assert [r.index for r in asked if isinstance(r, Recite)] == list(range(6))


def test_memorised_text_is_read_in_one_turn_more_than_it_has_chunks() -> None:
    (play,) = next(ReadInChunks(n=2, chunks=4).plan(asking({})))
    assert isinstance(play, Play)
    assert (play.n, play.max_turns) == (2, 5)


def test_actions_at_stored_contexts_follow_the_sampled_rollouts() -> None:
    request = asking({"group.revisits": ((1, 2), (3,))})
    plan = SampleAndRevisit(n=2).plan(request)
    (play,) = next(plan)
    assert isinstance(play, Play)
    played = made(play, [1.0, 0.0])
    wave = plan.send([played])
    assert [(g.context, g.n, g.stream[-2:]) for g in wave if isinstance(g, Generate)] == [
        ((1, 2), 1, (1, 0)),
        ((3,), 1, (1, 1)),
    ]
    with pytest.raises(StopIteration) as end:
        plan.send([[Completion((7,), (-0.5,), Stop.end)], [Completion((8, 9), (-1.0, -2.0), Stop.end)]])
    rollouts = end.value.value
    assert [r.columns["index"] for r in rollouts[2:]] == [2, 3]
    assert [tuple(r.turns[0].ids) for r in rollouts[2:]] == [(7,), (8, 9)]
