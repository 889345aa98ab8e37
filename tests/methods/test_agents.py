"""Credit by seat, kernels, lessons, blueprints, replaced groups: what each does, and when it is another method."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.memory import decode_state, encode_state
from podium.memories import LessonLibrary
from podium.memories.lesson_writing import GOLDEN, Lesson, LessonExtractor, Library, WordEmbedder, admit
from podium.method import Method
from podium.parts.advantage import SeatReturns
from podium.parts.reward import ProgressiveReward, Speedup
from podium.parts.reward.stages import length_aware_bleu
from podium.parts.shape import RejectLazy, RejectMismatch, ReplaceFlat, SmoothCopies
from podium.protocols.blueprint import subgoals
from podium.protocols.context import Exchange, History, Rebuild, Wrote
from podium.strategies import SampleBlueprints
from podium.strategies.sample.lessons import Advised
from tests.conformance.helpers import by_rollout, credited
from tests.methods.catalogue import Laps, errors, finite, has_signal, lines, small
from tests.methods.support import credit, rewards, short_run
from tests.methods.test_steps import steps, walks

# -- mars --------------------------------------------------------------------------------------------------------------


def seats(agents: list[int], turns: list[list[float]], game: str = "g") -> Batch:
    """A token of the world before each turn of one token."""
    rollouts = []
    for row, (agent, own) in enumerate(zip(agents, turns, strict=True)):
        origin = [Origin.given.name, Origin.policy.name]
        made = [Turn((0, 1), origin=origin, columns={"reward": float(r)}) for r in own]
        rollouts.append(Rollout(row, made, columns={"agent": agent, "domain": game, "reward": float(sum(own))}))
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def turns_of(batch: Batch, part: SeatReturns) -> list[list[float]]:
    return by_rollout(batch, batch.reduce(part(batch)["token.advantage"], "token", "turn", "mean"))


EXAMPLE = ([0, 1, 0, 1], [[0.0, 1.0], [0.0, -1.0], [0.0, 0.0], [0.0, 0.5]])
RETURNS = SeatReturns(agent="rollout.agent", whiten_rewards=False, advantage_centre="none", whiten_advantages=False)


def test_mars_worked_example() -> None:
    batch = seats(*EXAMPLE)
    assert_close(turns_of(batch, RETURNS), [[0.5, 0.75], [-0.75, -0.875], [-0.5, -0.25], [0.75, 0.625]])
    full = turns_of(batch, SeatReturns(agent="rollout.agent"))
    expected = [[0.570803, 0.933218], [-1.023821, -1.205029], [-0.878856, -0.516441], [1.150667, 0.969459]]
    assert_close(full, expected, atol=2e-6, rtol=0)


def test_one_agent_and_one_turn_is_reinforce_against_the_mean() -> None:
    outcomes = [1.0, 0.0, 0.5, 0.0]
    found = turns_of(seats([0] * 4, [[r] for r in outcomes]), RETURNS)
    assert_close([row[0] for row in found], [r - sum(outcomes) / 4 for r in outcomes])


def test_a_constant_for_all_rewards_of_one_agent_changes_nothing() -> None:
    agents, plain = EXAMPLE
    shifted = [[r + (5.0 if a == 1 else 0.0) for r in own] for a, own in zip(agents, plain, strict=True)]
    assert_close(turns_of(seats(agents, shifted), RETURNS), turns_of(seats(agents, plain), RETURNS))
    together = RETURNS.replace(agent=None)
    assert turns_of(seats(agents, shifted), together)[0][0] < 0 < turns_of(seats(agents, plain), together)[0][0]


def test_who_loses_is_not_paid_for_what_the_other_wins() -> None:
    """Agents a and b take turns; b wins at the end. The turns of a have earned nothing."""
    turns = [
        Turn((0, 1), columns={"reward": r, "agent": who}) for who, r in zip("abab", (0.0, 0.0, -0.5, 1.0), strict=True)
    ]
    columns = {"reward": 0.5, "domain": "g"}
    batch = Batch.from_rollouts([Rollout(0, turns, columns=columns)], dtype=torch.float64)
    part = RETURNS.replace(agent="turn.agent", reward_centre="none")
    # a: 0 − 0.5, then −0.5; b: 0 + 1, then 1. In one sum for both it was 0.5, 0.5, 0.5, 1.
    assert turns_of(batch, part) == [[-0.5, 1.0, -0.5, 1.0]]
    assert turns_of(batch, part.replace(agent=None)) == [[0.5, 0.5, 0.5, 1.0]]
    # With a discount of 0.5 per token: two tokens lie between the ends of turns.
    assert turns_of(batch, part.replace(gamma=0.5))[0][1] == pytest.approx((0.5**4 + 0.5**5) / 2)


def test_a_turn_alone_with_its_game_and_agent_gets_nothing() -> None:
    assert turns_of(seats([0, 1, 1], [[3.0], [1.0], [0.0]]), RETURNS)[0] == [0.0]


def test_the_paper_sums_first_and_then_centres() -> None:
    part = methods.get("mars@paper", agent="rollout.agent").advantage
    assert isinstance(part, SeatReturns)
    batch = seats([0, 0], [[0.0, 1.0], [0.0, 0.0]])
    # The returns 1, 1, 0, 0 have the distinct values 0 and 1.
    assert_close(turns_of(batch, part), [[0.5, 0.5], [-0.5, -0.5]])


# -- dr-kernel ---------------------------------------------------------------------------------------------------------


def test_dr_kernel_worked_example() -> None:
    found = steps(methods.dr_kernel(), walks([[0, 1, 1.5], [0, 0.5], [1]]))
    assert_close(found, [[1.75, 2.0, 1.5], [-1.25, -2.0], [-0.5]])


def test_dr_kernel_of_single_turns_is_rloo() -> None:
    outcomes = [1.0, 0.0, 0.25, 0.5]
    rloo = methods.rloo().advantage
    assert rloo is not None
    found = steps(methods.dr_kernel(), walks([[r] for r in outcomes]))
    assert_close([row[0] for row in found], rloo(rewards(outcomes))["rollout.advantage"].tolist())


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_mean_of_the_others_leaves_the_gradient_unbiased(n: int) -> None:
    p = 0.3  # of the arm that pays 1; its score is 1 − p, that of the other −p, so the gradient is p(1 − p)
    exact, found = p * (1 - p), 0.0
    for arms in itertools.product([1, 0], repeat=n):
        chance = p ** sum(arms) * (1 - p) ** (n - sum(arms))
        advantage = steps(methods.dr_kernel(), walks([[float(a)] for a in arms]))
        found += chance * sum(row[0] * (a - p) for row, a in zip(advantage, arms, strict=True)) / n
    assert found == pytest.approx(exact)
    assert exact * (n - 1) / n < found  # what the mean with oneself in it comes to


def kernels(coverage: list[float], correct: list[bool]) -> Batch:
    rows = zip(coverage, correct, strict=True)
    turns = [
        Turn((1,), columns={"coverage": c, "correct": ok, "completed": True, "speedup": 2.0, "valid": True})
        for c, ok in rows
    ]
    return Batch.from_rollouts([Rollout(0, turns, columns={"reward": 0.0})], dtype=torch.float64)


def test_lazy_kernels_are_rejected_by_chance_and_wrong_ones_never() -> None:
    batch = kernels([0.35, 0.0, 0.9, 0.2], [True, False, True, True])
    assert_close(RejectLazy().probability(batch).tolist(), [0.5, 1.0, 1.0, 0.0])
    assert_close(RejectLazy(fast=1.5).probability(batch).tolist(), [1.0] * 4)
    assert RejectLazy()(batch)["step.weight.coverage"][1:].tolist() == [1.0, 1.0, 0.0]


def test_a_right_and_fast_kernel_that_does_the_work_is_paid_most() -> None:
    batch = kernels([1.0, 0.1, 1.0], [True, True, False])
    assert_close(Speedup()(batch)["step.reward"].tolist(), [2.0, 1.55, 1.0])


def test_a_speedup_below_the_bound_pays_nothing_and_being_right_still_does() -> None:
    batch = kernels([1.0, 1.0], [True, False])
    assert_close(Speedup(lower=2.5)(batch)["step.reward"].tolist(), [1.0, 0.0])


def test_rollouts_that_sampler_and_trainer_see_differently_carry_no_loss() -> None:
    old = torch.tensor([[-1.0, -1.0], [-1.0, -1.0], [-1.0, -11.0]], dtype=torch.float64)
    sampler = torch.tensor([[-1.0, -1.0], [-1.1, -1.0], [-1.0, -1.0]], dtype=torch.float64)
    columns = {"token.old.logp": old, "token.sampler.logp": sampler}
    batch = Batch.from_padded(torch.ones(3, 2), [0, 0, 0], columns)
    assert RejectMismatch()(batch)["rollout.weight.mismatch"].tolist() == [1.0, 0.0, 0.0]
    assert RejectMismatch(band=100.0)(batch)["rollout.weight.mismatch"].tolist() == [1.0, 1.0, 0.0]


def test_dr_kernel_asks_for_a_profiler() -> None:
    (message, *_) = errors(methods.dr_kernel(), Laps())
    assert "profiles" in message
    assert not errors(methods.dr_kernel(profiled=False), Laps())


# -- slea-rl -----------------------------------------------------------------------------------------------------------


def test_without_a_library_it_is_gigpo_bit_for_bit() -> None:
    plain, own = methods.gigpo(n=4, scale="none"), methods.slea_rl(n=4, library=None)
    ours, theirs = ({**line, "seconds": 0} for line in (lines(m, Laps(level=2))[0] for m in (own, plain)))
    assert ours == theirs


def test_a_full_level_never_falls_in_its_lowest_score() -> None:
    kept: tuple[Lesson, ...] = ()
    lowest = 0.0
    for place, score in enumerate([0.8, 0.1, 0.5, 0.5, 0.05, 0.9, 0.5]):
        kept, _ = admit(kept, Lesson(str(place), "method", score), 3)
        assert len(kept) <= 3
        if len(kept) == 3:
            assert min(lesson.score for lesson in kept) >= lowest
            lowest = min(lesson.score for lesson in kept)


def test_a_lesson_that_is_known_raises_its_score_instead() -> None:
    library, first = Library().add(Lesson("open the fridge before taking the apple", "method", 0.5), 2)
    library, second = library.add(Lesson("Open the fridge before taking the apple", "example", 0.9), 2)
    assert (first, second, len(library)) == (True, False, 1)
    assert library.best(GOLDEN, 1)[0].score == 0.9


def test_the_same_state_is_shown_the_same_lessons_whatever_comes_after() -> None:
    library, _ = Library().add(Lesson("go north", "method", 0.4), 5)
    library = library.tie(["a quiet room with one door"])
    library, _ = library.add(Lesson("an entirely different hint", "method", 0.9), 5)
    assert [x.text for x in library.lessons("a quiet room with one door")] == ["go north"]
    assert library.lessons("somewhere that nobody has seen")[0].text == "an entirely different hint"


def test_an_empty_library_shows_nothing() -> None:
    assert list(Advised(Library())(History("task"))) == ["task"]


def lessons_of(actions: list[list[str]], said: str = "you see a door") -> Batch:
    """A success and failures with these actions; the world says the same after each of them."""
    outcome = [1] + [0] * (len(actions) - 1)
    rewards_of = [[float(r), *[0.0] * (len(own) - 1)] for r, own in zip(outcome, actions, strict=True)]
    batch = walks(rewards_of, outcome=outcome, action=actions, observation=[[said] * len(own) for own in actions])
    return batch.with_columns({"rollout.prompt": ("where am I?",) * len(batch)})


def test_lessons_are_looked_up_by_the_observation_that_they_were_tied_to() -> None:
    memory = LessonLibrary(after=0, least=1)
    state = memory.observe(memory.initial(), lessons_of([["go", "take"], ["go", "go"]]))
    (library,) = memory.recall(state, ["task"])["group.lessons"]
    # Two rollouts of two turns: each looks up the prompt first, then what the world said.
    assert [(c.observation, c.uses) for c in library.clusters] == [("where am I?", 2), ("you see a door", 2)]
    begun, later = (
        History("where am I?"),
        History("where am I?", (Exchange(Wrote((1,), True), "go", "you see a door"),)),
    )
    for history in (begun, later):
        shown = Advised(library)(history)[-1]
        looked_up = history.exchanges[-1].observation if history.exchanges else history.prompt
        assert library.cluster(looked_up) is not None
        assert "this worked: go; take" in str(shown)
    state = memory.observe(state, lessons_of([["go", "take"], ["go", "go"]]))
    assert memory.recall(state, ["task"])["batch.lessons.found"].tolist() == [1.0]


def test_the_least_used_observation_makes_room() -> None:
    library, _ = Library().add(Lesson("go north", "method", 0.4), 5)
    library = library.tie(["often", "often", "once", "twice", "twice"], most=3).tie(["new"], most=3)
    assert [(c.observation, c.uses) for c in library.clusters] == [("often", 2), ("twice", 2), ("new", 1)]


class _Ends(LessonExtractor):
    """An extractor of one's own."""

    def from_success(self, actions: Sequence[str], outcome: float, excellent: bool) -> Iterable[Lesson]:
        yield Lesson(f"end with {actions[-1]}", "method", outcome)


def test_an_extractor_and_an_embedder_can_be_plugged_in() -> None:
    memory = LessonLibrary(after=0, least=1, extractor=_Ends(), embedder=WordEmbedder())
    state = memory.observe(memory.initial(), lessons_of([["go", "take"], ["go", "go"]]))
    (library,) = memory.recall(state, ["task"])["group.lessons"]
    assert [lesson.text for lesson in library.levels["method"]] == ["end with take"]
    library, _ = library.add(Lesson("the lamp is in the cellar", "method", 0.1), 5)
    # By score it would be the other one; by words, "cellar" decides.
    assert library.best(GOLDEN, 1, "you are in the cellar")[0].text == "the lamp is in the cellar"
    assert Library(library.levels).best(GOLDEN, 1, "you are in the cellar")[0].text == "end with take"


def test_lessons_are_learnt_and_shown() -> None:
    memory = LessonLibrary(after=0, least=1)
    batch = lessons_of([["go", "take"], ["go", "go"]])
    state = memory.observe(memory.initial(), batch)
    (library,) = memory.recall(state, ["task"])["group.lessons"]
    (shown,) = Advised(library)(History("where am I?"))
    assert isinstance(shown, str)
    assert "this worked: go; take" in shown
    assert "do not repeat: go" in shown
    assert shown.endswith("where am I?")
    found = lines(methods.slea_rl(n=4, library=memory), Laps(level=2), iterations=2, tasks=4)
    assert finite(found)
    assert found[-1]["lessons"] > 0


def test_nothing_is_shown_before_there_is_enough() -> None:
    memory = LessonLibrary()
    assert memory.recall(memory.initial(), ["task"])["group.lessons"] == (None,)


def test_the_lessons_of_a_run_are_saved_with_it() -> None:
    memory, tensors = LessonLibrary(after=0, least=1), dict[str, Tensor]()
    batch = lessons_of([["go", "take"], ["go", "go"]])
    state = memory.observe(memory.initial(), batch)
    saved = json.loads(json.dumps(encode_state(state, tensors)))
    assert decode_state(saved, tensors) == state


# -- himac -------------------------------------------------------------------------------------------------------------


def test_each_phase_trains_the_tokens_of_one_role() -> None:
    macro, micro = methods.himac(n=2, imitate=0).leaves()
    rollouts = [Rollout(0, [Turn((1, 1)), Turn((1,))], columns={"reward": r}) for r in (1.0, 0.0)]
    batch = credited(macro, Batch.from_rollouts(rollouts, dtype=torch.float64))
    assert batch.trained("token").tolist() == [True, True, False] * 2
    assert micro.shape == ()  # the blueprint is in its prompts, not in its tokens


def test_a_group_of_one_blueprint_gets_nothing() -> None:
    macro, _ = methods.himac(imitate=0).leaves()
    assert credit(macro.with_(shape=()), rewards([1.0])).tolist() == [0.0]


def test_micro_phases_alone_are_grpo() -> None:
    _, micro = methods.himac(imitate=0).leaves()
    outcomes = [1.0, 0.0, 0.5]
    assert_close(credit(micro, rewards(outcomes)), credit(methods.grpo(), rewards(outcomes)))


def test_the_surest_blueprint_is_chosen_the_first_among_equals() -> None:
    assert SampleBlueprints().chosen([[-2.0], [-0.5, -1.0], [-0.75], []]) == 1
    assert SampleBlueprints(choice="first").chosen([[-2.0], [-0.5]]) == 0
    assert subgoals("1. go\n\n 2. take ") == ["1. go", "2. take"]


def test_phases_alternate_and_all_follow_one_blueprint_in_the_second(tmp_path: Path) -> None:
    method = methods.himac(n=4, imitate=0, ask="", show="", context=Rebuild())
    result = short_run(method, tmp_path / "run", iterations=4, tasks=4)
    found = [line for line in result.metrics if "phase" in line]
    assert [line["phase"] for line in found] == [0, 1, 0, 1]
    assert [line["rollouts"] for line in found] == [16, 32, 16, 32]  # the drafts are counted


# -- vspo-prs ----------------------------------------------------------------------------------------------------------


def test_vspo_worked_example() -> None:
    batch = rewards([1.0, 0, 0, 0], [1.0, 1, 1, 0], [1.0, 1, 1, 1])
    part = ReplaceFlat()
    assert_close(part.values(batch).tolist(), [0.324760, 0.108253, 0.0], atol=1e-6, rtol=0)
    assert_close(part.probabilities(batch).tolist(), [0.75, 0.25, 0.0])
    copied = batch.with_columns({"group.copies": torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)})
    assert_close(SmoothCopies().multiplier(copied).tolist(), [0.707107, 1.0, 0.0], atol=1e-6, rtol=0)
    assert_close(SmoothCopies()(copied)["group.weight.copies"].tolist(), [2**0.5, 1.0, 0.0])


def test_vspo_pays_for_turns_that_parse_then_for_an_answer_then_for_its_words() -> None:
    said = ["new york city", "new york", "", "new york"]
    valid = [[True, True], [True, True], [True, True], [False, True]]
    rollouts = [
        Rollout(0, [Turn((1,), columns={"valid": v}) for v in own], columns={"reward": 0.0, "answer": answer})
        for own, answer in zip(valid, said, strict=True)
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    batch = batch.with_columns({"rollout.reference_answer": ("new york",) * 4})
    method = methods.vspo_prs()
    for part in (*method.annotate, *method.reward):
        batch = batch.with_columns(part(batch))
    # q of the first: √(2/3 · 1/2) = 0.577350. No answer is paid 0.1, a turn that does not parse nothing.
    assert_close(batch["rollout.reward"].tolist(), [0.2 + 0.8 * 0.577350, 1.0, 0.1, 0.0], atol=1e-6, rtol=0)


def test_without_flat_groups_nothing_is_replaced() -> None:
    batch = rewards([1.0, 0, 0], [1.0, 1, 0])
    batch = credited(methods.vspo_prs(stages=False), batch)
    assert batch["group.weight.copies"].tolist() == [1.0, 1.0]
    assert_close(batch["rollout.advantage"], credited(methods.grpo(), batch)["rollout.advantage"])


def test_a_group_of_one_is_flat() -> None:
    batch = credited(methods.vspo_prs(stages=False), rewards([1.0], [0.5]))
    assert batch["rollout.advantage"].tolist() == [0.0, 0.0]


def test_places_are_kept_and_go_to_groups_with_a_signal() -> None:
    batch = rewards([1.0, 0, 0], [1.0, 1, 1], [0.0, 0, 0], [1.0, 1, 0])
    for seed in range(20):
        batch.seed = seed
        copies = ReplaceFlat().copies(batch)
        assert int(copies.sum()) == 4
        assert copies[[1, 2]].tolist() == [0, 0]
    assert ReplaceFlat().copies(rewards([1.0, 1], [0.0, 0])).tolist() == [1, 1]


def test_at_equal_spread_the_harder_task_is_drawn_more_often() -> None:
    hard, easy = ReplaceFlat().probabilities(rewards([1.0, 0, 0, 0], [0.0, 1, 1, 1])).tolist()
    assert hard > easy


def test_mending_the_format_never_lowers_the_reward() -> None:
    quality = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    columns = {"rollout__parsed": [0.0, 1, 1] * 2, "rollout__formatted": [0.0, 0, 1] * 2}
    found = ProgressiveReward()(rewards(quality, **columns))["rollout.reward"].tolist()
    assert found == sorted(found[:3]) + sorted(found[3:]) == pytest.approx([0, 0.1, 0.2, 0, 0.1, 1.0])


def test_short_answers_have_a_bleu_of_their_own() -> None:
    pairs = [("the city of paris", "paris"), ("new york city", "new york"), ("paris", "paris"), ("", "paris")]
    found = [length_aware_bleu(a.split(), b.split()) for a, b in pairs]
    assert_close(found, [0.25, 0.577350, 1.0, 0.0], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "method", [methods.mars(n=4, agent=None), methods.dr_kernel(n=4, profiled=False), methods.slea_rl(n=4)]
)
def test_many_turns_train(method: Method) -> None:
    found = lines(small(method), Laps(level=2), iterations=2, tasks=4)
    assert finite(found)
    assert has_signal(found)
