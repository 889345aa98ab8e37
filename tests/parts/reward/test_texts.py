"""Rewards that are read from texts, by numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.parts.reward import ChoiceLayout, InformationReward, PhrasingStability, TextDiversity
from podium.parts.reward.choice_layout import boxed_choice, english_share, layout_score
from podium.parts.reward.information import word_entropy
from podium.parts.reward.text_diversity import diversity_scores, sentences_of, yule_k
from podium.worlds import Shop


def group(texts: list[str], rewards: list[float] | None = None, **columns: object) -> Batch:
    values = torch.tensor(rewards or [0.0] * len(texts), dtype=torch.float64)
    named = {f"rollout.{name}": x for name, x in columns.items()}
    return Batch.from_rewards(values, [0] * len(texts), {"rollout.text": tuple(texts), **named})


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("\\boxed{B}", 1),
        ("\\boxed{A}", 0),
        ("\\boxed{b}", -0.5),
        ("\\boxed{}", -0.5),
        ("\\boxed{AB}", -0.5),
        ("\\boxed{B", -1),
        ("\\boxed B", -1),
        ("none", 0),
        ("\\boxed{B} \\boxed{B}", -2),
        ("\\boxed" * 5, -5),
    ],
)
def test_the_boxed_letter_is_the_answer_and_more_boxes_cost(text: str, score: float) -> None:
    assert boxed_choice(text, "B") == score


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("<think>t</think><answer>So \\boxed{B}</answer>", 1.5),
        ("<think>t</think>\n\n<answer>\\boxed{B}</answer>", 1.0),
        ("<think>t</think><answer> \\boxed{B} </answer>", 1.0),
        ("<think>t</think><answer>\\boxed{A} or \\boxed{B}</answer>", 1.0),
        ("<think>t</think><answer>no box</answer>", 1.0),
        ("<think>t</think> so <answer>\\boxed{B}</answer>", 0.0),
        ("<think>t</think><answer>So \\boxed{B}</answer> bye", 0.0),
        ("so <think>t</think><answer>So \\boxed{B}</answer>", 0.0),
        ("<think>t<answer>So \\boxed{B}</answer>", 0.0),
        ("<think></think><answer></answer>", 1.0),
        ("<think>t</think><answer>", 0.0),
        ("", 0.0),
    ],
)
def test_the_layout_is_tags_and_nothing_else_with_a_summary_beside_the_box(text: str, score: float) -> None:
    assert layout_score(text) == score


def test_english_is_a_share_of_characters() -> None:
    assert english_share("") == 0
    assert english_share("ab") == 1
    assert english_share("a\u601d\n\u00e9") == 0.5
    assert english_share("a\tb") == pytest.approx(2 / 3)  # a tab is not in the list


def test_closing_tags_with_a_backslash_are_closed() -> None:
    batch = group(["<think>t<\\think><answer>So \\boxed{B}<\\answer>\n"], reference_answer=("B",))
    assert ChoiceLayout()(batch)["rollout.reward"].tolist() == [12.0]


def test_sentences_end_with_a_mark_or_the_line() -> None:
    assert sentences_of("I see. Is it so? Yes!\nthe end") == (
        [["i", "see"], ["is", "it", "so"], ["yes"], ["the", "end"]],
        ["declarative", "interrogative", "exclamatory", "declarative"],
    )
    assert sentences_of(" ... \n") == ([], [])


def test_diversity_of_extreme_texts() -> None:
    assert set(diversity_scores([], []).values()) == {0.0}
    one = diversity_scores([["word"]], ["declarative"])
    assert one["lexical"] == 1
    assert one["yule"] == 1
    assert sum(one.values()) == 2  # one word: no entropy, no neighbours, no bigrams
    assert yule_k([]) == 0
    assert yule_k(["a", "a"]) == pytest.approx(1e4 * (4 - 2) / 4)


def test_diversity_ignores_which_content_words_are_used_and_repetition_lowers_it() -> None:
    part = TextDiversity()
    assert part.score("the cat saw a dog. is it so?") == pytest.approx(part.score("the king hit a wall. is it so?"))
    assert part.score("a red door. a red door. a red door.") < part.score("a red door.  the key of eve! is it old?")


def test_a_group_that_is_all_right_still_has_a_signal() -> None:
    batch = group(["yes yes yes.", "is it so? yes, the plan helps!"], [1.0, 1.0])
    reward = TextDiversity()(batch)["rollout.reward"]
    assert reward[1] > reward[0] > 0.9
    assert TextDiversity(accuracy=1.0, diversity=0.0)(batch)["rollout.reward"].tolist() == [1.0, 1.0]
    # Diversity never makes a wrong answer better than a right one.
    mixed = TextDiversity()(group(["is it so? yes, the plan helps!", "yes yes"], [0.0, 1.0]))["rollout.reward"]
    assert mixed[1] > mixed[0]


@pytest.mark.parametrize("settings", [{"yule_scale": 0.0}, {"function_words": ("a",)}])
def test_diversity_refuses_settings_without_a_meaning(settings: dict[str, object]) -> None:
    with pytest.raises(PodiumError, match="TextDiversity"):
        TextDiversity(**settings)  # type: ignore[arg-type]


def test_the_entropy_of_words() -> None:
    assert word_entropy("") == 0
    assert word_entropy("bond, bond; Bond!") == 0
    assert word_entropy("bond fund bond fund") == pytest.approx(math.log(2))
    assert word_entropy("a1 b2 c3 d4") == pytest.approx(math.log(4))


TEXTS = ["bond stock fund cash", "bond bond fund fund", "bond fund", "bond fund bond fund"]
PAIRS = torch.tensor([0, 0, 1, 1])


def test_stability_of_a_pair_and_of_the_group() -> None:
    batch = group(TEXTS, pair=PAIRS)
    own = PhrasingStability(weight=1.0)(batch)
    assert own["rollout.reward.stability"].tolist() == pytest.approx([0, 0, 1, 1])
    assert own["rollout.phrasing_gap"].tolist() == pytest.approx([math.log(2)] * 2 + [0, 0])
    assert PhrasingStability(weight=1.0, spread="group")(batch)["rollout.reward"].tolist() == pytest.approx([0.5] * 4)
    fixed = PhrasingStability(weight=1.0, largest=2 * math.log(2))(batch)["rollout.reward"]
    assert fixed.tolist() == pytest.approx([0.5, 0.5, 1, 1])


def test_overlap_compares_words_instead_of_amounts() -> None:
    batch = group(["bond fund", "cash gold", "bond fund", "Fund, bond.", "", "", "", "bond"], pair=torch.arange(8) // 2)
    found = PhrasingStability(weight=1.0, kind="overlap")(batch)["rollout.reward"]
    assert found.tolist() == [0, 0, 1, 1, 1, 1, 0, 0]


def test_equal_answers_have_no_information_and_full_stability() -> None:
    batch = group(["bond fund"] * 4, [1.0, 0.0, 1.0, 0.0], pair=PAIRS)
    assert InformationReward()(batch)["rollout.reward"].tolist() == [0.0] * 4
    assert InformationReward(task=1.0)(batch)["rollout.reward"].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert PhrasingStability()(batch)["rollout.reward"].tolist() == [1.5, 0.5, 1.5, 0.5]


def test_a_probe_is_no_member_of_a_pair() -> None:
    purpose = torch.tensor([Purpose.train, Purpose.train, Purpose.probe])
    batch = group(["bond fund", "cash gold", "bond"], pair=torch.tensor([0, 0, 0]), purpose=purpose)
    assert PhrasingStability()(batch)["rollout.phrasing_gap"].tolist()[:2] == [0, 0]


def test_the_form_that_is_constant_within_its_group_is_warned_of() -> None:
    provides = Shop().provides
    found = methods.get("info-consistent-grpo", spread="group").check(provides)
    assert any("constant within a group" in finding.message for finding in found)
    assert not methods.get("info-consistent-grpo").check(provides)


def test_the_published_aggregate_leaves_advantages_without_stability() -> None:
    """With the group's mean the advantages are the same whatever the weight of stability."""
    batch = group(TEXTS, pair=PAIRS)

    def advantages(stability: float) -> list[float]:
        method = methods.info_consistent_grpo(imitate=0, kl=0.0, task=0.0, spread="group", stability=stability)
        found = batch
        for part in (*method.reward, method.advantage):
            assert part is not None
            found = found.with_columns(part(found))
        values: list[float] = found["rollout.advantage"].tolist()
        return values

    assert advantages(5.0) == pytest.approx(advantages(0.0))
