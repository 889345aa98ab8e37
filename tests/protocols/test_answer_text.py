"""How the answers of general models are read."""

from __future__ import annotations

import pytest

from podium.protocols.answer_text import final_answer, stated_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("First 40, then 2 more.\nanswer: 42", "42"),
        ("**Answer:** 42", "42"),
        ("<answer>\n42\n</answer> Done.", "42"),
        ("so it is $\\boxed{42}$", "42"),
        ("42", "42"),
        ("42.\n\n", "42"),
        ("40 + 2 = 42", "42"),
        ("6 + 7 - 8 = 13 - 8 = 5.", "5"),
        ("The answer is `42`.", "42"),
        ("The final answer to this problem is **-42**.", "-42"),
        ("We add.\nHere is the answer: 40 + 2 = 42", "42"),
        ("The answer is 41, no, the answer is 42", "42"),
        ("Sorted:\napple, pear", "apple, pear"),
        ("", None),
        (" \n\n", None),
    ],
)
def test_it_is_found_where_general_models_put_it(text: str, answer: str | None) -> None:
    assert stated_answer(text) == answer


def test_a_marked_answer_goes_before_all_others() -> None:
    assert stated_answer("answer: 1\nThe answer is 2, \\boxed{3}, <answer>4</answer>") == "1"
    assert stated_answer("answer: 1 2\n3 4", lines=True) == final_answer("answer: 1 2\n3 4", lines=True) == "1 2\n3 4"


@pytest.mark.parametrize("piece", ["answer is ", "<answer>", "</answer>", "\\boxed{", "=", "answer: ", "answer\n"])
def test_long_nonsense_is_cut(piece: str) -> None:
    assert len(stated_answer(piece * 20_000) or "") <= 20_000
