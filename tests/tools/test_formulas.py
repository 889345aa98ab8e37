"""Formulas of the site: what reads as a formula is one, and sentences stay sentences."""

from __future__ import annotations

import pytest

from tools.formulas import START, latex, typeset


def read(text: str) -> list[tuple[str, str]]:
    """The formulas of a text: LaTeX, and what follows."""
    found = [latex(text, start.start()) for start in START.finditer(text)]
    return [(each[0], text[each[1] :]) for each in found if each is not None]


def test_a_formula_ends_where_the_sentence_goes_on() -> None:
    text = "A_i = (r_i − mean) / (std + 1e-6) over the rollouts of a group"
    assert read(text) == [
        (r"A_{i} = \frac{r_{i} - \text{mean}}{\text{std} + 10^{-6}}", " over the rollouts of a group")
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss = −A · log π · w, with", r"\text{loss} = -A \cdot \log \pi \cdot w"),
        ("A ← A · min(1, P/alpha) where", r"A \leftarrow A \cdot \min \left(1, \frac{P}{\alpha}\right)"),
        ("s(t) = 1/(1 + e^{a (x − b)}).", r"s\left(t\right) = \frac{1}{1 + e^{a (x - b)}}"),
        ("A = (r − mean of the group) / 2;", r"A = \frac{r - \text{mean of the group}}{2}"),
        ("S = 2 p (1 − p) the", r"S = 2 \, p \, \left(1 - p\right)"),
        (
            "D = beta · Σ_t (log π − log π_ref), and",
            r"D = \beta \cdot \sum_{t} \left(\log \pi - \log \pi_{\text{ref}}\right)",
        ),
        ("w = √p + ρ²;", r"w = \sqrt{p} + \rho^{2}"),
    ],
)
def test_signs_names_and_brackets(text: str, shown: str) -> None:
    assert [formula for formula, _ in read(text)] == [shown]


@pytest.mark.parametrize(
    "text", ["A = GRPO's; then", "answer = the most frequent", "x = [y > 0]", "z = beta · max(0, |x|)"]
)
def test_what_is_no_whole_formula_stays_text(text: str) -> None:
    assert read(text) == []


def test_only_the_section_of_the_formula_is_typeset() -> None:
    pytest.importorskip("latex2mathml")
    page = "# x\n\nA = 1\n\n## Formula\n\nA = r − mean, and `B = 2` in code.\n\n## Use\n\nA = 1\n"
    shown = typeset(page)
    assert shown.count("<math") == 1
    assert shown.endswith("and `B = 2` in code.\n\n## Use\n\nA = 1\n")
