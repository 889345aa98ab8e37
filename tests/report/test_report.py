"""Reports are one self-contained file, and comparisons are paired."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import podium
from podium.report.chart import Series, chart, picture
from podium.report.comparison import write_comparison
from podium.report.rollout_tree import forest
from podium.report.run_page import write_report
from podium.sessions.compare import comparison_text, interval

SMALL = {"world": "echo", "level": 2, "tasks": 2, "eval_tasks": 8, "eval_every": 0, "lr": 3e-4}


def test_a_report_holds_everything_it_shows(tmp_path: Path) -> None:
    podium.train(podium.methods.get("grpo", n=4), iterations=2, out=tmp_path / "run", **SMALL)
    text = write_report(tmp_path / "run").read_text()
    assert "<svg" in text
    assert "held-out pass@1" in text
    assert "echo:" in text  # a prompt
    assert "src=" not in text
    assert "<link" not in text


def test_text_of_a_model_cannot_break_the_page() -> None:
    assert "<script>" not in chart("<script>", [Series("<script>", [0, 1], [1, 2])])


def test_values_that_are_not_numbers_are_left_out_of_a_chart() -> None:
    assert "nan" not in chart("x", [Series("x", [0, 1, 2], [1.0, float("nan"), 2.0])])
    assert chart("x", [Series("x", [0], [float("nan")])]) == ""


def test_charts_become_one_picture_with_a_legend_that_any_viewer_reads() -> None:
    curves = [
        Series("<a>", [4, 8], [1.0, 2.0], [0.5, 1.0], [2.0, 4.0]),
        Series("b", [4, 8], [3.0, 5.0], style="dashed"),
    ]
    charts = [chart(title, curves, log_x=True, log_y=title == "two") for title in ("one", "two", "three")]
    drawn = ElementTree.fromstring(picture(charts, curves))
    inside = [(svg.get("x"), svg.get("y")) for svg in drawn if svg.tag.endswith("svg")]
    assert inside == [("0", "0"), ("380", "0"), ("0", "220")]
    assert [text.text for text in drawn if text.tag.endswith("text")] == ["<a>", "b"]
    powers = [text.text for text in drawn[2] if text.get("text-anchor") == "end"]
    assert powers == ["0.5", "1", "2", "4", "8"]


def test_compared_methods_see_the_same_tasks_and_the_same_noise(tmp_path: Path) -> None:
    found = podium.compare(["grpo", "rloo"], seeds=2, n=4, iterations=2, out=tmp_path, **SMALL)
    grpo, rloo = found.rows
    # Until their first update the policies are equal, so the first iteration is too.
    for a, b in zip(grpo.results, rloo.results, strict=True):
        assert a.metrics[1]["reward"] == b.metrics[1]["reward"]
        assert a.metrics[1]["tokens"] == b.metrics[1]["tokens"]
    assert grpo.differences == (0.0, 0.0)
    for mine, budget in zip(rloo.tokens, grpo.tokens, strict=True):
        assert mine >= budget
    text = write_comparison(found).read_text()
    assert "rloo" in text
    assert "<svg" in text


def test_a_comparison_needs_two_different_methods(tmp_path: Path) -> None:
    with pytest.raises(podium.PodiumError, match="at least two"):
        podium.compare(["grpo"], out=tmp_path)
    with pytest.raises(podium.PodiumError, match="same name"):
        podium.compare(["grpo", "grpo"], out=tmp_path)


def test_the_interval_over_seeds_is_students() -> None:
    low, high = interval([1.0, 2.0, 3.0], (-10.0, 10.0))
    assert (high - low) / 2 == pytest.approx(4.303 / 3**0.5)


def test_rollouts_that_share_beginnings_are_drawn_as_a_tree(tmp_path: Path) -> None:
    method = podium.methods.get("spo", n=2, branches=(2,), window=3)
    podium.train(method, iterations=1, out=tmp_path / "run", **SMALL)
    text = write_report(tmp_path / "run").read_text()
    assert "Rollouts that share beginnings" in text
    assert "<circle" in text


def test_a_tree_has_a_line_for_each_distinct_segment_and_says_what_it_is_worth() -> None:
    def row(index: int, keys: list[int], reward: float, fork: int) -> dict[str, Any]:
        return {
            "group": 0,
            "task": "<b>",
            "index": index,
            "fork": fork,
            "node.key": keys,
            "node.length": [2, 3],
            "node.value": [0.5, reward],
            "token.sampler.entropy": [0.1] * 5,
            "reward": reward,
            "correct": reward > 0,
            "purpose": 0,
            "text": "</svg>",
        }

    drawn = forest([row(0, [0, 1], 1.0, 0), row(1, [0, 2], 0.0, 2)])
    assert drawn.count('stroke-width="4"') == 3
    assert "<b>" not in drawn
    assert drawn.count("</svg>") == 1
    assert "value 0.5" in drawn
    assert forest([row(0, [0, 1], 1.0, 0)]) == ""  # nobody forks


def test_one_seed_has_no_interval() -> None:
    assert comparison_text([0.5]) == "–"
    assert comparison_text([0.0, 0.0], "+") == "[+0.000, +0.000]"
