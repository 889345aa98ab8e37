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


@pytest.mark.parametrize("name", worlds.EMBEDDED)
def test_prompts_and_solutions_are_short(tokenizer: Any, name: str) -> None:
    for level in worlds.EMBEDDED[name].levels:
        world = worlds.get(name, level=level)
        for i in range(50):
            task = world.task(i)
            assert len(tokenizer.encode(task.prompt, add_special_tokens=False)) <= 40
            for style in world.styles:  # type: ignore[attr-defined]
                answer = tokenizer.encode(world.solve(task, style), add_special_tokens=False)
                assert len(answer) < world.max_tokens, (world, style)


def test_every_level_and_style_has_its_dials(pretrain: ModuleType) -> None:
    assert {name: tuple(levels) for name, levels in pretrain.DIALS.items()} == {
        name: world.levels for name, world in worlds.EMBEDDED.items()
    }
    assert {name: tuple(styles) for name, styles in pretrain.STYLES.items()} == {
        name: world.styles
        for name, world in worlds.EMBEDDED.items()  # type: ignore[attr-defined]
    }


def test_the_text_depends_on_its_seed_and_place_alone(pretrain: ModuleType, folder: Path) -> None:
    right = {"sums-2": 0.5, "countdown-1": 1.0}
    jobs = [pretrain.Job(str(folder), right, 0, first, 100) for first in (0, 100, 200)]
    text = pretrain.make_text(jobs)
    ids, lengths, prompts = pretrain.write_part(jobs[2])  # as another process would
    assert (text.ids[text.starts[200] :] == ids).all()
    assert (text.prompts[200:] == prompts).all()
    assert text.starts[200] + lengths.sum() == text.starts[-1] == len(text.ids)
    other = pretrain.make_text([job._replace(seed=1) for job in jobs])
    assert not (len(text.ids) == len(other.ids) and (text.ids == other.ids).all())
    end, assistant = 2, 5
    assert (text.ids[text.starts[1:] - 1] == end).all()
    assert (text.ids[text.starts[:-1] + text.prompts - 1] == assistant).all()


def test_solutions_of_the_text_are_right_as_often_as_its_dials_say(
    pretrain: ModuleType, folder: Path, tokenizer: Any
) -> None:
    for right, low, high in ((1.0, 1.0, 1.0), (0.3, 0.2, 0.4)):
        text = pretrain.make_text([pretrain.Job(str(folder), {"sums-2": right}, 0, 0, 300)])
        good = 0
        for start, prompt, end in zip(text.starts[:-1], text.prompts, text.starts[1:], strict=True):
            question, answer = (
                tokenizer.decode(text.ids[a:b].tolist(), skip_special_tokens=True)
                for a, b in ((start, start + prompt), (start + prompt, end))
            )
            terms = question.removeprefix("sum: ").replace("-", "+-").split("+")
            good += answer.endswith(f"answer: {sum(map(int, terms))}")
        assert low <= good / 300 <= high


def test_dials_move_towards_their_aim(pretrain: ModuleType) -> None:
    assert pretrain.adjusted(0.4, measured=0.2, aim=0.3) == pytest.approx(0.6)
    assert pretrain.adjusted(0.4, measured=0.0, aim=0.3) == 1.0
    assert pretrain.adjusted(0.01, measured=0.0, aim=0.3) == pytest.approx(0.04)
    assert pretrain.adjusted(0.4, measured=0.9, aim=0.1) == pytest.approx(0.1)


def test_a_small_run_goes_from_text_to_table(
    pretrain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "tiny"
    arguments = f"--out {out} --steps 8 --batch 8 --processes 1 --only sums-1 countdown-2 --eval --eval-tasks 2"
    monkeypatch.setattr(
        sys, "argv", ["pretrain.py", *arguments.split(), "--eval-samples", "8", "--report", str(out / "table.json")]
    )
    monkeypatch.setattr(pretrain, "MEASURED", (2, 2))
    pretrain.main()
    report = json.loads((out / "table.json").read_text())
    assert [(row["world"], row["level"]) for row in report["table"]] == [("sums", 1), ("countdown", 2)]
    assert {"tokenizer", "text 0", "training 3", "measurement 3", "evaluation"} <= set(report["seconds"])
    assert report["right"][0] == {"sums-1": 1.0, "countdown-2": 1.0}
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
