"""Rollouts are shown as they went: the task, each turn, what the world answered, and why it ended."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import podium
from podium.cli import main
from podium.report.conversation import conversation, conversation_page, conversation_text, read_rollouts
from podium.report.run_page import write_report
from podium.store.held_out import held_out_examples

SMALL = {"tasks": 2, "eval_tasks": 2, "eval_samples": 1, "eval_every": 0}


def row(turns: int = 2, **changes: Any) -> dict[str, Any]:
    """A rollout as a run writes it; two tokens a turn."""
    made = {
        "task": "house/1",
        "prompt": "room 1.",
        "text": "\n".join(f"go {i}" for i in range(turns)),
        "correct": False,
        "reward": 0.0,
        "stop": "end",
        "failure": "",
        "purpose": 0,
        "turn.length": [2] * turns,
        "turn.action": [f"go {i}" for i in range(turns)],
        "turn.observation": [f"room {i}." for i in range(turns)],
        "turn.reward": [0.0] * turns,
        "turn.valid": [True] * turns,
        "token.advantage": [0.5] * (2 * turns),
    }
    return made | changes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("keydoor") / "run"
    podium.train(podium.methods.get("gigpo", n=3), world="keydoor", level=2, iterations=1, out=out, **SMALL)
    return out


def test_a_report_shows_what_the_world_answered_in_every_turn(run: Path) -> None:
    (first, *_) = held_out_examples(run)[1]
    text = write_report(run).read_text()
    assert len(first["turn.observation"]) == len(first["turn.length"]) > 1
    for action, answer in zip(first["turn.action"], first["turn.observation"], strict=True):
        assert f'<pre class="wrote">{escape(action)}</pre><pre class="world">{escape(answer)}</pre>' in text
    assert "How episodes went" in text
    assert "turns on average" in text


def test_the_answers_are_a_small_part_of_what_is_kept(run: Path) -> None:
    kept = pq.ParquetFile(run / "rollouts" / "iteration-000001.parquet").metadata.row_group(0)
    sizes = {kept.column(i).path_in_schema: kept.column(i).total_compressed_size for i in range(kept.num_columns)}
    (own,) = (size for name, size in sizes.items() if name.startswith("turn.observation"))
    assert own < sum(sizes.values()) / 8


def test_the_terminal_shows_the_same(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = read_rollouts(run / "rollouts" / "iteration-000001.parquet")
    assert main(["rollouts", str(run), "--count", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(conversation_text(rows[0]))
    assert f"({len(rows) - 1} more: --count {len(rows)})" in out
    assert main(["rollouts", str(run), "--task", rows[-1].task, "--count", "9"]) == 0
    assert capsys.readouterr().out.count(rows[-1].task) == 3
    assert main(["rollouts", str(run), "--failed"]) == 0
    assert capsys.readouterr().out == "No rollout of iteration-000001 matches.\n"


def test_the_terminal_refuses_what_is_not_there(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollouts", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err
    assert main(["rollouts", str(run), "--iteration", "7"]) == 2
    assert "has no rollouts of iteration 7: it has those from 1 to 1." in capsys.readouterr().err
    assert main(["rollouts", str(run), "--task", "nowhere"]) == 2
    assert "No rollout of iteration-000001 has the task 'nowhere'." in capsys.readouterr().err


def test_each_turn_says_its_reward_and_the_mean_credit_of_its_tokens() -> None:
    talk = conversation(row(**{"token.advantage": [1.0, 0.0, -0.5, -0.5], "turn.reward": [0.25, 0.0]}))
    assert [turn.notes for turn in talk.exchanges] == [("reward 0.25", "credit +0.50"), ("credit -0.50",)]


@pytest.mark.parametrize(
    ("mark", "notes"),
    [
        ({"keep": False}, [("not trained",), ("not trained",)]),
        ({"turn.keep.easy": [True, False]}, [("credit +0.50",), ("not trained",)]),
        (
            {"token.keep": [True, False, True, True], "token.advantage": [1, 0, 0.5, 0.5]},
            [("credit +1.00",), ("credit +0.50",)],
        ),
        ({"purpose": 3}, [(), ()]),
        ({"token.advantage": None}, [(), ()]),
    ],
)
def test_what_is_not_trained_has_no_credit(mark: dict[str, Any], notes: list[tuple[str, ...]]) -> None:
    assert [turn.notes for turn in conversation(row(**mark)).exchanges] == notes
    assert conversation(row(purpose=3)).notes == ("made as probe",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stop": "end"}, ("reward 0", "2 turns", "ended by the world")),
        (
            {"stop": "length"},
            ("reward 0", "2 turns", "ended by the world; its last turn was cut at the limit of tokens"),
        ),
        ({"stop": "turns"}, ("reward 0", "2 turns", "ended by the limit of turns")),
        ({"stop": "context"}, ("reward 0", "2 turns", "ended by the model's context, which is full")),
        ({"stop": "failed", "failure": "the world raised E: x"}, ("reward 0", "2 turns", "the world raised E: x")),
        ({"stop": "end", "turn.length": [4]}, ("reward 0",)),
        ({"stop": "length", "turn.length": [4]}, ("reward 0", "cut at the limit of tokens")),
        ({"idle": "bob", "stop": "turns"}, ("reward 0", "2 turns", "ended by the limit of turns", "bob never acted")),
    ],
)
def test_a_rollout_says_why_it_ended(changes: dict[str, Any], said: tuple[str, ...]) -> None:
    made = row(**changes)
    if made["turn.length"] == [4]:
        made |= {name: made[name][:1] for name in made if name.startswith("turn.")}
    assert conversation(made).summary == said


def test_an_action_that_was_refused_is_marked_unless_it_was_the_world_that_failed() -> None:
    refused = {"turn.valid": [False, False], "token.advantage": None}
    assert [t.notes for t in conversation(row(**refused)).exchanges] == [("not a valid action",)] * 2
    failed = conversation(row(**refused, stop="failed", failure="the world raised E"))
    assert [t.notes for t in failed.exchanges] == [("not a valid action",), ()]
    assert failed.verdict == "failed"


def test_who_acted_is_said_where_there_are_several() -> None:
    talk = conversation(row(**{"turn.agent": ["alice", "bob"]}))
    assert "alice, turn 1" in conversation_text(talk)
    assert "turn 2 · bob" in conversation_page(talk)


def test_the_middle_of_a_long_episode_is_folded_and_nothing_is_left_out() -> None:
    short, long = conversation_page(conversation(row(6))), conversation_page(conversation(row(40)))
    assert "<details>" not in short
    assert "<summary>turns 3 to 38</summary>" in long
    for i in range(40):
        assert long.count(f'<pre class="wrote">go {i}</pre>') == 1
    before, _, rest = long.partition("<details>")
    inside, _, after = rest.partition("</details>")
    assert [part.count('class="wrote"') for part in (before, inside, after)] == [2, 36, 2]


def test_what_the_model_and_the_world_wrote_cannot_break_the_page_or_the_terminal() -> None:
    evil = "</pre><script>x</script>\x1b[2J"
    names = ("prompt", "stop", "failure", "idle")
    for turns in (1, 2):
        said = {f"turn.{name}": [evil] * turns for name in ("action", "observation", "agent")}
        talk = conversation(row(turns, **dict.fromkeys(names, evil), text=evil, task=evil, **said))
        assert conversation_page(talk).count("&lt;script&gt;") == 3 + 3 * turns
        assert "<script>" not in conversation_page(talk)
        assert "\x1b" not in conversation_text(talk)


def test_runs_that_have_not_kept_the_answers_are_shown_without_them() -> None:
    old = {name: value for name, value in row().items() if name not in ("turn.observation", "turn.valid", "purpose")}
    assert [(t.text, t.answer) for t in conversation(old).exchanges] == [("go 0", ""), ("go 1", "")]
