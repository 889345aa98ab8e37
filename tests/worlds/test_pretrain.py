"""The script that makes podium/tiny, at a size that takes seconds."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from podium import worlds

# The model is made from single answers; worlds of several turns are for training it further.
PUZZLES = {name: world for name, world in worlds.EMBEDDED.items() if issubclass(world, worlds.Puzzle)}
SCRIPT = Path(__file__).parents[2] / "tools" / "pretrain.py"


@pytest.fixture(scope="module")
def pretrain() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pretrain", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(pretrain: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tiny")
    pretrain.build_tokenizer(out, seed=0)
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


def test_every_level_and_style_has_its_dials(pretrain: ModuleType) -> None:
    assert {name: tuple(levels) for name, levels in pretrain.DIALS.items()} == {
        name: world.levels for name, world in PUZZLES.items()
    }
    assert {name: tuple(styles) for name, styles in pretrain.STYLES.items()} == {
        name: world.styles for name, world in PUZZLES.items()
    }


def test_the_text_depends_on_its_seed_and_place_alone(
    pretrain: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrain, "CHUNK", 100)
    first, right = pretrain.make_text(str(folder), None, 300, 0, 1)
    last_ids, last_lengths, last_prompts, _ = pretrain._chunk((str(folder), None, 0, 200, 100))  # as a process would
    assert (first.ids[first.starts[200] :] == last_ids).all()
    assert (first.prompts[200:] == last_prompts).all()
    assert first.starts[200] + last_lengths.sum() == first.starts[-1] == len(first.ids)
    other, _ = pretrain.make_text(str(folder), None, 300, 1, 1)
    assert not (len(first.ids) == len(other.ids) and (first.ids == other.ids).all())
    assert all(0 <= share <= 1 for share in right.values())
    end = 2
    assert (first.ids[first.starts[1:] - 1] == end).all()
    assert (first.ids[first.starts[:-1] + first.prompts - 1] == 5).all()  # the assistant's turn begins


def test_a_small_run_goes_from_text_to_table(
    pretrain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "tiny"
    arguments = f"--out {out} --steps 3 --batch 8 --processes 1 --only sums-1 countdown-2 --eval --eval-tasks 2"
    monkeypatch.setattr(
        sys, "argv", ["pretrain.py", *arguments.split(), "--eval-samples", "8", "--report", str(out / "table.json")]
    )
    pretrain.main()
    report = json.loads((out / "table.json").read_text())
    assert [(row["world"], row["level"]) for row in report["table"]] == [("sums", 1), ("countdown", 2)]
    assert set(report["seconds"]) == {"tokenizer", "text", "training", "evaluation"}
    assert sum(f.stat().st_size for f in out.iterdir()) < 8e6
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(out, use_safetensors=True)
    assert model.config.model_type == "llama"
    assert model.config.max_position_embeddings == 512
    assert model.dtype.itemsize == 4


def test_pass_at_k_is_unbiased(pretrain: ModuleType) -> None:
    assert pretrain.pass_at(1, 8, 2) == pytest.approx(0.25)
    assert pretrain.pass_at(2, 4, 2) == pytest.approx(5 / 6)
    assert pretrain.pass_at(8, 8, 1) == 1
    assert pretrain.pass_at(8, 64, 0) == 0
