"""The script that makes podium/tiny, at a size that takes seconds."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from podium import worlds
from podium.methods.group import gcpo_geometryzero
from podium.policy import load
from podium.protocols.context import Window
from podium.worlds.keydoor import action_of
from tools.pretrain import __main__ as script
from tools.pretrain import dials, examples, formats, model, new_dials, rates, sources, table, text

UNSEEN = set(worlds.EMBEDDED) - set(dials.DIALS)  # worlds that podium/tiny was not trained on
PUZZLES = {name: w for name, w in worlds.EMBEDDED.items() if issubclass(w, worlds.Puzzle) and name in dials.DIALS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tiny")
    text.build_tokenizer(out, seed=0)
    return out


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def test_the_tokenizer_has_1024_tokens_and_room(tokenizer: Any) -> None:
    assert len(tokenizer) == 1024
    vocabulary = tokenizer.get_vocab()
    assert sum(name.startswith("<|reserved_") for name in vocabulary) == 32
    for name in ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<think>", "</tool_call>", "<tool_result>"):
        assert tokenizer.convert_tokens_to_ids(name) == vocabulary[name]
        assert len(tokenizer.encode(name, add_special_tokens=False)) == 1


@pytest.mark.parametrize(
    "text", ["12+7=19\nanswer: 19", "  two  spaces", "naïve 東京 🙂", '{"tool": [1, 2.5]}\n\n', "<|", "a\tb\r\n"]
)
def test_any_text_survives_the_tokenizer(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_digits_and_signs_stand_alone(tokenizer: Any) -> None:
    assert tokenizer.tokenize("123+45*(6-7)=890") == list("123+45*(6-7)=890")


def test_markers_stay_in_the_text_and_control_tokens_do_not(tokenizer: Any) -> None:
    ids = tokenizer.encode("<|user|><think>so</think><tool_call>x</tool_call><|end|>", add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<think>so</think><tool_call>x</tool_call>"


def test_the_chat_template_writes_every_role(tokenizer: Any) -> None:
    chat = [{"role": role, "content": role[0]} for role in ("system", "user", "assistant", "tool")]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == "<|begin|><|system|>s<|end|><|user|>u<|end|><|assistant|>a<|end|><|tool|>t<|end|><|assistant|>"
    closed = tokenizer.apply_chat_template(chat, add_generation_prompt=False, tokenize=False)
    assert text == closed + "<|assistant|>"  # turn by turn, a conversation only grows
    with pytest.raises(Exception, match="Unknown role judge"):
        tokenizer.apply_chat_template([{"role": "judge", "content": ""}], tokenize=False)


@pytest.mark.parametrize("name", PUZZLES)
def test_prompts_and_solutions_are_short(tokenizer: Any, name: str) -> None:
    for level in PUZZLES[name].levels:
        world = worlds.get(name, level=level)
        for i in range(50):
            task = world.task(i)
            assert len(tokenizer.encode(task.prompt, add_special_tokens=False)) <= 40
            for style in world.styles:  # type: ignore[attr-defined]
                answer = tokenizer.encode(world.solve(task, style), add_special_tokens=False)
                assert len(answer) < world.max_tokens, (world, style)


@pytest.mark.parametrize("stage", dials.STAGES)
def test_every_level_and_style_has_its_dials(stage: int) -> None:
    assert {name: tuple(levels) for name, levels in dials.STAGES[stage].items()} == {
        name: world.levels for name, world in worlds.EMBEDDED.items() if name not in UNSEEN
    }
    for name, styles in dials.STYLES.items():
        assert tuple(styles) == worlds.EMBEDDED[name].styles  # type: ignore[attr-defined]
    assert set(dials.DIALS) <= set(dials.STYLES)


def test_the_text_depends_on_its_seed_and_place_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "CHUNK", 100)
    first, second = text.make_text(str(folder), None, 1, 300, 2, 0, 1)
    last = text._chunk((str(folder), None, 1, 0, 200, 100, False))  # as a process would
    assert (second.ids == last.ids).all()
    assert (second.own == last.own).all()
    assert (second.starts == last.starts).all()
    other = next(text.make_text(str(folder), None, 1, 300, 2, 1, 1))
    assert not (len(first.ids) == len(other.ids) and (first.ids == other.ids).all())
    assert all(0 <= share <= 1 for share in text.shares_right(first.right).values())


def test_the_model_learns_what_is_its_own_in_a_conversation(folder: Path) -> None:
    part = text._chunk((str(folder), ["clarify-2", "sums-1"], 1, 0, 0, 50, False))
    end, user, assistant = 2, 4, 5
    assert len(part.ids) == len(part.own) == part.starts[-1]
    for first, last in zip(part.starts[:-1], part.starts[1:], strict=True):
        ids, own = part.ids[first:last], part.own[first:last]
        assert ids[0] == 1
        assert ids[-1] == end
        turns = [place + 1 for place, i in enumerate(ids) if i == assistant]
        for turn in turns:  # from the beginning of each turn to the token that ends it
            close = turn + list(ids[turn:]).index(end)
            assert own[turn : close + 1].all()
            assert not own[turn - 1]
        assert own.sum() == sum(list(ids[turn:]).index(end) + 1 for turn in turns)
        assert (ids == user).sum() == len(turns)


@pytest.mark.parametrize("name", ["lookup", "tools", "clarify", "keydoor"])
def test_conversations_fit_the_context_and_look_as_the_world_shows_them(folder: Path, name: str) -> None:
    levels = [f"{name}-{level}" for level in worlds.EMBEDDED[name].levels]
    part = text._chunk((str(folder), levels, 2, 0, 0, 60, False))
    assert (part.starts[1:] - part.starts[:-1]).max() <= text.CONTEXT
    world = worlds.get(name, level=2)
    first = world.task(examples.FIRST_TASK).prompt
    (example, *_) = examples.examples(world, dials.DIALS[name][2], 0, Random(0))
    assert example.messages[0].text.startswith(first)
    assert [message.own for message in example.messages] == [False, True] * (len(example.messages) // 2)


def test_a_walk_strays_and_is_shown_through_windows() -> None:
    world = worlds.get("keydoor", level=4)
    found = [e for i in range(20) for e in examples.examples(world, dials.DIALS["keydoor"][4], i, Random(i))]
    assert isinstance(world.context, Window)
    assert max(len(e.messages) for e in found) == 2 * ((world.context.most or 0) + 1)
    assert {e.right for e in found} == {True, False, None}
    said = {action_of(m.text).split()[0] for e in found for m in e.messages if m.own}
    assert said == {"go", "take", "open"}


def test_what_a_hint_gives_cannot_go_wrong() -> None:
    world = worlds.get("sums", level=4)
    assert isinstance(world, worlds.Puzzle)
    right: dict[int, list[bool]] = {}
    for i in range(300):
        task = world.task(i)
        prompt, solution = examples.hinted(world, task, "short", 0.05, Random(i))
        hint = prompt.removeprefix(f"{task.prompt}\nhint: ").splitlines()
        assert solution.splitlines()[: len(hint)] == hint
        right.setdefault(len(hint), []).append(bool(world.grade(task, solution).info["correct"]))
    shares = [sum(r) / len(r) for _, r in sorted(right.items())]
    assert shares[0] < 0.4
    assert shares[-1] == 1
    assert shares[-2] > shares[0]


def test_who_gives_up_says_so() -> None:
    world = worlds.get("lookup", level=4)
    found = [examples.examples(world, dials.Dial(1, 0.0001, 1.0), i, Random(i))[0] for i in range(20)]
    assert all(e.messages[-1].text == examples.UNKNOWN for e in found if e.right is False)


def test_a_small_run_goes_from_text_to_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "tiny"
    arguments = f"--out {out} --steps 3 --batch 8 --processes 1 --only sums-1 clarify-2 --eval --eval-tasks 2"
    monkeypatch.setattr(
        sys, "argv", ["pretrain.py", *arguments.split(), "--eval-samples", "8", "--report", str(out / "table.json")]
    )
    script.main()
    report = json.loads((out / "table.json").read_text())
    assert [(row["world"], row["level"]) for row in report["table"]] == [("sums", 1), ("clarify", 2)]
    assert set(report["seconds"]) == {"tokenizer", "training", "evaluation"}
    assert sum(f.stat().st_size for f in out.iterdir()) < 8e6
    from transformers import AutoModelForCausalLM

    made = AutoModelForCausalLM.from_pretrained(out, use_safetensors=True)
    assert made.config.model_type == "llama"
    assert made.config.max_position_embeddings == text.CONTEXT
    assert made.dtype.itemsize == 4


def test_a_second_stage_goes_on_from_a_model(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    model.build_model(3).save_pretrained(first)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (first / name).write_bytes((folder / name).read_bytes())
    arguments = f"--out {second} --start {first} --stage 2 --steps 2 --batch 4 --lr 1e-9 --processes 1 --only echo-4"
    monkeypatch.setattr(sys, "argv", ["pretrain", *arguments.split()])
    script.main()
    assert (second / "tokenizer.json").read_bytes() == (first / "tokenizer.json").read_bytes()
    before, after = (load_file(path / "model.safetensors") for path in (first, second))
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)


def test_the_second_model_has_the_shape_and_the_tokenizer_of_the_first() -> None:
    folders = [Path(str(files("podium"))) / "models" / name for name in ("tiny", "tiny2")]
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    first, second = (load_file(folder / "model.safetensors") for folder in folders)
    assert {name: w.shape for name, w in first.items()} == {name: w.shape for name, w in second.items()}
    assert any(not torch.equal(first[name], second[name]) for name in first)
    assert sum(f.stat().st_size for f in folders[1].iterdir()) < 8e6
    policy = load("podium/tiny2")
    assert policy.name == "podium/tiny2"


def test_pass_at_k_is_unbiased() -> None:
    assert table.pass_at(1, 8, 2) == pytest.approx(0.25)
    assert table.pass_at(2, 4, 2) == pytest.approx(5 / 6)
    assert table.pass_at(8, 8, 1) == 1
    assert table.pass_at(8, 64, 0) == 0


def test_a_third_stage_has_every_source_and_keeps_what_was_known(folder: Path) -> None:
    careless, clean = (sources.sources(None, sources.THIRD, clean) for clean in (False, True))
    assert [s.name for s in careless] == [s.name for s in clean]
    assert len({s.name for s in careless}) == len(careless)
    assert sum(s.share for s in careless) == pytest.approx(1)
    assert sum(s.share for s in careless if s.kept) == pytest.approx(new_dials.KEPT_SHARE)
    only = ["sums-1", "sorting-1"]
    part = text._chunk((str(folder), only, sources.THIRD, 0, 0, 60, False))
    for first, last in zip(part.starts[:-1], part.starts[1:], strict=True):
        marks = set(part.own[first:last].tolist())
        assert marks in ({0, text.LEARNED}, {0, text.KEPT})
    assert set(part.own.tolist()) == {0, text.LEARNED, text.KEPT}


@pytest.mark.parametrize("name", formats.TAUGHT)
def test_formats_are_written_as_their_recipes_ask(name: str) -> None:
    taught = formats.TAUGHT[name]
    for index in range(4):
        for example in formats.formatted(taught, 1, 1.0, index, Random(index)):
            own = [message for message in example.messages if message.own]
            assert [m.own for m in example.messages] == [False, True] * len(own)
            assert own[-1].learned
            if taught.format.ask and taught.context is None:
                assert taught.format.ask in example.messages[0].text
            assert all(taught.format.read(m.text).well_formed for m in own)
            if taught.world != "keydoor":
                assert example.right


def test_constructions_are_asked_for_as_their_recipe_does() -> None:
    assert formats.ASKS == gcpo_geometryzero.ASKS


def test_what_is_kept_does_not_pull_a_model_that_says_it_still_and_what_is_new_does() -> None:
    before, moved = model.build_model(3), model.build_model(4)
    batch = torch.arange(12).reshape(2, 6)
    learned, kept = torch.ones(2, 5, dtype=torch.bool), torch.ones(10, dtype=torch.bool)

    def pull(now: Any, kept: torch.Tensor) -> float:
        now.zero_grad()
        model.text_loss(now, before, batch, learned, kept, nullcontext()).backward()
        return max(float(p.grad.abs().max()) for p in now.parameters())

    assert pull(model.build_model(3), kept) < 1e-6
    assert pull(model.build_model(3), ~kept) > 1e-3
    assert pull(moved, kept) > 1e-3
    logits = before(batch[:, :-1]).logits
    expected = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[:, 1:].reshape(-1))
    assert torch.isclose(model.text_loss(before, moved, batch, learned, ~kept, nullcontext()), expected)


def test_the_rates_of_a_third_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Path(str(files("podium"))) / "models" / "tiny"
    arguments = (
        f"--out {tmp_path} --stage 3 --start {start} --steps 2 --batch 4 --processes 1 --seconds 60 "
        "--only sums-1 calculator-1 thinking-1 --eval --eval-tasks 4 --eval-samples 4 --eval-episodes 1"
    )
    monkeypatch.setattr(sys, "argv", ["pretrain", *arguments.split(), "--report", str(tmp_path / "rates.json")])
    script.main()
    found = json.loads((tmp_path / "rates.json").read_text())["rates"]
    assert [rate["name"] for rate in found] == ["sums 1", "calculator 1", "thinking 1"]
    assert found[0]["before"] is not None
    assert found[1]["before"] is None
    assert not rates.Rate("sums 1", 0.5, 0.45).fits
    assert rates.Rate("sums 1", 0.5, 0.48).fits
    assert rates.Rate("carry 1", 0.5).fits
    assert not rates.Rate("carry 1", 0.7).fits
