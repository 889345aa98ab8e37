"""Reward models: from pairs, ratings and feedback to a role that scores, and the input that is refused."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import pytest

from podium import methods, policy, worlds
from podium.cli.app import main
from podium.core.errors import PodiumError
from podium.method import Role
from podium.parts.reward import ModelReward
from podium.sessions.reward_data import JudgedAnswer, RewardData, observe, read_file, read_run, read_world
from podium.sessions.reward_model import fit_reward, usual_estimator
from tests.methods.support import short_run

# Answers of one kind are good, those of the other are not: what a small model can tell from the text.
GOOD, BAD = "answer: {}", "start {}"
QUICK: dict[str, Any] = {"steps": 25, "batch": 16, "lr": 2e-3}


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pairs(path: Path, count: int = 60) -> Path:
    rows = [{"prompt": f"sum: {i}+1", "chosen": GOOD.format(i), "rejected": BAD.format(i)} for i in range(count)]
    return written(path, rows)


def rated(path: Path, count: int = 40) -> Path:
    rows = [
        {"prompt": f"sum: {i}+1", "answer": text.format(i), "ratings": [rating, None if i % 3 == 0 else 10 + rating]}
        for i in range(count)
        for text, rating in ((GOOD, 90.0), (BAD, 70.0))
    ]
    return written(path, rows)


def clicks(tmp_path: Path, count: int = 120) -> Path:
    rows = [
        {"prompt": f"sum: {i}+1", "answer": text.format(i), "rating": rating}
        for i in range(count)
        for text, rating in ((GOOD, 1.0), (BAD, 0.0))
    ]
    observe(read_file(written(tmp_path / "rated.jsonl", rows)), tmp_path / "clicks.jsonl", seed=1)
    return tmp_path / "clicks.jsonl"


def test_pairs_give_a_model_that_prefers_the_better_answer_and_trains_a_policy(tmp_path: Path) -> None:
    data = read_file(pairs(tmp_path / "pairs.jsonl"))
    assert usual_estimator(data) == "bt"
    fitted = fit_reward(data, tmp_path / "rm", **QUICK)
    assert fitted.trained + fitted.held_out == 60
    accuracy = fitted.measures["pair accuracy"]
    assert accuracy.low <= accuracy.mean <= accuracy.high
    assert accuracy.mean > 0.9
    files = {file.name for file in (tmp_path / "rm").iterdir()}
    assert {"manifest.json", "model.safetensors", "podium.safetensors", "reward.json"} <= files

    method = methods.grpo(n=2) | ModelReward() | Role("rm", source=str(tmp_path / "rm"))
    result = short_run(method, tmp_path / "run", iterations=1)
    row = read_run(result.path, ("reward", "reward.model", "correct", "length")).answers[0]
    assert row.ratings[0] == row.ratings[1]  # the world's verdict does not enter
    reader = policy.read_critic(tmp_path / "rm")
    ids = (*reader.encode([{"role": "user", "content": row.messages[0][1]}]), *reader.written(row.text, ended=False))
    if len(row.text) < 60:  # the rollout has ended, so that the score is that of the whole text
        assert float(policy.scores_of(reader, [ids])) == pytest.approx(row.ratings[0], abs=1e-4)


def test_ratings_give_a_head_each_in_their_own_unit(tmp_path: Path) -> None:
    data = read_file(rated(tmp_path / "rated.jsonl"))
    fitted = fit_reward(data, tmp_path / "rm", **QUICK)
    assert (fitted.estimator, fitted.heads) == ("regression", ("rating 0", "rating 1"))
    assert all(measure.mean > 0.8 for measure in fitted.measures.values())
    reader = policy.read_critic(tmp_path / "rm")
    ids = (*reader.encode([{"role": "user", "content": "sum: 7+1"}]), *reader.written(GOOD.format(7), ended=False))
    scores = policy.scores_of(reader, [ids])
    assert scores.shape == (1, 2)
    assert scores[0].tolist() == pytest.approx([90.0, 100.0], abs=4.0)
    method = methods.grpo(n=2) | ModelReward() | Role("rm", source=str(tmp_path / "rm"))
    with pytest.raises(PodiumError, match="has 2 heads: set ModelReward"):
        short_run(method, tmp_path / "run", iterations=1)


@pytest.mark.parametrize("estimator", ["naive", "surrogate", "ips", "dr"])
def test_corrected_estimators_recover_the_labels_behind_noisy_feedback(tmp_path: Path, estimator: str) -> None:
    """With a tenth to a fifth of the labels inverted, a naive model predicts 0.8 and 0.1 where 1 and 0 are true."""
    data = read_file(clicks(tmp_path))
    fitted = fit_reward(
        data, tmp_path / "rm", estimator=estimator, frozen=True, noise=(0.2, 0.1), steps=300, batch=64, lr=1e-2
    )
    mean = fitted.measures["R² of labels"].mean
    assert mean < 0.93 if estimator == "naive" else mean > 0.93
    assert fitted.noise == ((0.0, 0.0) if estimator == "naive" else (0.2, 0.1))


def test_anchors_estimate_the_noise(tmp_path: Path) -> None:
    fitted = fit_reward(read_file(clicks(tmp_path, 250)), tmp_path / "rm", frozen=True, steps=5)
    assert fitted.estimator == "dr"
    assert fitted.noise == pytest.approx((0.2, 0.1), abs=0.1)


def test_observed_feedback_is_selective_and_noisy(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in clicks(tmp_path, 1000).read_text().splitlines()]
    good, bad = ([row for row in rows if row["label"] == label] for label in (1, 0))
    assert all(row["feedback"] is not None for row in good)  # alpha^(max − rating) = 1
    seen = [row for row in bad if row["feedback"] is not None]
    assert len(seen) / len(bad) == pytest.approx(0.5, abs=0.05)
    assert sum(row["feedback"] == 0 for row in good) / len(good) == pytest.approx(0.2, abs=0.04)
    assert sum(row["feedback"] == 1 for row in seen) / len(seen) == pytest.approx(0.1, abs=0.04)


def test_a_world_writes_attempts_of_both_kinds() -> None:
    data = read_world(worlds.get("sums", level=2), tasks=4, names=("reward", "length"))
    assert len(data.answers) == 16
    assert {answer.ratings[0] for answer in data.answers} == {0.0, 1.0}
    assert data.answers[0].ratings[1] == len(data.answers[0].text)
    assert data.ranked()
    with pytest.raises(PodiumError, match="several turns"):
        read_world(worlds.get("lookup"), tasks=1)
    with pytest.raises(PodiumError, match="no attempts of its own"):
        read_world(worlds.get("keydoor"), tasks=1)
    steps = read_world(worlds.get("sums", level=2), tasks=1, names=("step",)).answers
    lines = data.answers[0].text.splitlines(keepends=True)
    assert [answer.text for answer in steps[: len(lines)]] == list(accumulate(lines))
    assert {answer.ratings for answer in steps} == {(0.0,), (1.0,)}
    with pytest.raises(PodiumError, match="not by 'style'"):
        read_world(worlds.get("sums"), tasks=1, names=("style",))


def test_the_style_of_an_attempt_does_not_tell_whether_it_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a model learns styles: then SCOPE's process reward model trusts all lines of one and none of another."""
    world = worlds.get("sums", level=2)
    meant: Counter[tuple[str, bool]] = Counter()

    def attempt(task: Any, style: str, seed: int, right: float) -> str:
        meant[style, right == 1] += 1
        return "answer: 1"

    monkeypatch.setattr(type(world), "attempt", staticmethod(attempt))
    read_world(world, tasks=2 * len(world.styles))
    assert meant == dict.fromkeys(product(world.styles, (True, False)), 4)


def test_conversations_of_files_are_read(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "hello"}]
    good, bad = ({"role": "assistant", "content": text} for text in ("yes", "no"))
    (better, worse) = read_file(
        written(tmp_path / "a.jsonl", [{"chosen": [*said, good], "rejected": [*said, bad]}])
    ).answers
    assert better == JudgedAnswer((("user", "hello"),), "yes")
    assert worse == JudgedAnswer((("user", "hello"),), "no")
    (one,) = read_file(written(tmp_path / "b.jsonl", [{"question": "q", "response": "a", "score": 3}])).answers
    assert one == JudgedAnswer((("user", "q"),), "a", (3.0,))
    named = read_file(written(tmp_path / "c.jsonl", [{"prompt": "q", "answer": "a", "help": 3, "verb": 1}]), ("verb",))
    assert named.answers[0].ratings == (1.0,)


PAIR = {"prompt": "p", "chosen": "a", "rejected": "b"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"prompt": "p", "chosen": "a", "rejected": "a"}], "line 1: the chosen and the rejected text are equal"),
        ([{"prompt": "p", "chosen": "a"}], "`rejected` must be a text"),
        ([{"chosen": "a", "rejected": "b"}], "there is no prompt"),
        ([{"prompt": "p", "answer": "a"}], "no rating"),
        ([{"prompt": "p", "answer": "a", "rating": "good"}], "'good' is not a number"),
        ([{"prompt": "p", "answer": "a", "feedback": 2}], "feedback 2 is neither 0 nor 1"),
        ([{"prompt": "p", "answer": "a", "feedback": 1, "label": 1.5}], "label 1.5 is neither 0 nor 1; write null"),
        ([{"prompt": "p", "answer": "a", "feedback": "yes"}], "feedback 'yes' is neither 0 nor 1"),
        ([{"prompt": "p", "chosen": " ", "rejected": "b"}], "line 1: the chosen answer is empty. Leave the row out"),
        ([PAIR, {"prompt": "p", "chosen": "a", "rejected": ""}], "line 2: the rejected answer is empty. Leave the row"),
        ([{"prompt": "p", "answer": "", "rating": 1}], "line 1: the answer is empty. Leave the row out"),
        ([{"prompt": "p", "rating": 1}], "neither a pair"),
        ([PAIR, {"prompt": "p", "answer": "a", "rating": 1}], "split the file"),
        ([{"prompt": "p", "answer": "a", "ratings": [1]}, {"prompt": "p", "answer": "a", "ratings": [1, 2]}], "1 to 2"),
        ([{"prompt": [{"role": "user"}], "answer": "a", "rating": 1}], "need a `role` and a `content`"),
    ],
)
def test_bad_rows_are_refused_in_a_sentence(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        read_file(written(tmp_path / "rows.jsonl", rows))


def test_what_cannot_be_fitted_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "rm"
    with pytest.raises(PodiumError, match="too few to fit a reward model"):
        fit_reward(read_file(pairs(tmp_path / "few.jsonl", 4)), out)
    data = read_file(pairs(tmp_path / "pairs.jsonl"))
    with pytest.raises(PodiumError, match="has no ratings"):
        fit_reward(data, out, estimator="regression")
    with pytest.raises(PodiumError, match="has no feedback"):
        fit_reward(data, out, estimator="dr")
    with pytest.raises(PodiumError, match="no estimator 'dpo'"):
        fit_reward(data, out, estimator="dpo")
    for name, value in (("held_out", 2.0), ("lr", -1.0), ("steps", 0), ("lr", math.inf), ("held_out", math.nan)):
        with pytest.raises(PodiumError, match=f"^{name} = {value:g} must "):
            fit_reward(data, out, **{name: value})  # type: ignore[arg-type]
    same = [JudgedAnswer((("user", f"{i}"),), "a", (1.0,)) for i in range(100)]
    with pytest.raises(PodiumError, match="all known values of 'rating' are equal"):
        fit_reward(RewardData("here", tuple(same), names=("rating",)), out)
    with pytest.raises(PodiumError, match="no two different answers"):
        fit_reward(RewardData("here", tuple(same), names=("rating",)), out, estimator="bt")
    with pytest.raises(PodiumError, match="nothing to like"):
        observe(RewardData("here", tuple(same), names=("rating",)), tmp_path / "x.jsonl")
    quiet = [JudgedAnswer((("user", f"{i}"),), "a", feedback=1.0 if i < 5 else math.nan) for i in range(100)]
    with pytest.raises(PodiumError, match=r"feedback on \d of the answers to train on: too few"):
        fit_reward(RewardData("here", tuple(quiet)), out, estimator="dr")
    with pytest.raises(PodiumError, match="sum below 1"):
        fit_reward(read_file(clicks(tmp_path)), out, estimator="surrogate", noise=(0.6, 0.5))
    assert not out.exists()


def test_noise_that_says_nothing_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.sessions.reward_goals.noise_rates", lambda g: (0.6, 0.5))
    with pytest.raises(PodiumError, match=r"estimated as 0\.60 and 0\.50.*Give the rates that you know \(--noise"):
        fit_reward(read_file(clicks(tmp_path)), tmp_path / "rm", estimator="surrogate")


def test_few_reactions_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"prompt": f"{i}", "answer": "a", "rating": 20 * i} for i in range(150)]
    file = written(tmp_path / "rated.jsonl", rows)
    assert main(["rewards", "observe", str(file), "--out", str(tmp_path / "clicks.jsonl")]) == 0
    assert "reacted to 1 of 150 answers.\nThese are few" in capsys.readouterr().out


def test_a_plain_model_is_no_reward_model(tmp_path: Path) -> None:
    method = methods.grpo(n=2) | ModelReward() | Role("rm", source="podium/tiny")
    with pytest.raises(PodiumError, match="'podium/tiny' has no value head"):
        short_run(method, tmp_path / "run")
    with pytest.raises(PodiumError, match="it gives no scores"):
        policy.read_critic(tmp_path)


def test_a_damaged_reward_model_is_refused(tmp_path: Path) -> None:
    fit_reward(read_file(pairs(tmp_path / "pairs.jsonl")), tmp_path / "rm", steps=1)
    with (tmp_path / "rm" / "reward.json").open("a") as file:
        file.write(" ")
    with pytest.raises(PodiumError, match=r"reward\.json has"):
        policy.read_critic(tmp_path / "rm")


def test_the_command_says_how_good_the_model_is_and_how_to_use_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = str(pairs(tmp_path / "pairs.jsonl")), str(tmp_path / "rm")
    assert main(["rewards", "fit", file, "--out", out, "--steps", "2"]) == 0
    printed = capsys.readouterr().out
    assert "pair accuracy" in printed
    assert "ModelReward" in printed
    assert main(["rewards", "fit", file, "--out", out]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["rewards", "fit", file, "--level", "2", "--out", str(tmp_path / "new")]) == 2
    assert "--level 2 is for a world, and" in capsys.readouterr().err
    assert main(["rewards", "observe", file, "--out", str(tmp_path / "o.jsonl")]) == 2
    assert "without a rating" in capsys.readouterr().err
    assert main(["rewards", "observe", file, "--noise", "a", "--out", str(tmp_path / "o.jsonl")]) == 2
    assert "must be two rates" in capsys.readouterr().err
    assert main(["rewards", "fit", "nowhere.jsonl", "--out", str(tmp_path / "new")]) == 2
    assert "There is no file or run" in capsys.readouterr().err
