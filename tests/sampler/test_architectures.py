"""Models of any other family go through their own forward pass: correct, slower, and said in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import podium
from podium.cli import main
from podium.core.errors import PodiumError
from podium.policy import Policy
from podium.sampler import Generate, Sampling
from podium.sampler import sampling_check as plain
from podium.sampler.hf_batched import HFBatchedEngine
from podium.sampler.local import LocalSampler
from podium.sampler.uncached import UncachedEngine
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.worlds import Answer, Feedback, Task
from tests.policy import tiny
from tests.sampler.test_local import ending, requests, rescored

WINDOW = {"sliding_window": 16, "head_dim": 16}
SEES: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def _gemma3(**settings: Any) -> Any:
    text = transformers.Gemma3TextConfig(**settings).to_dict()
    sees = SEES | {"image_size": 28, "patch_size": 14}
    return transformers.Gemma3Config(text_config=text, vision_config=sees, eos_token_id=1)


# Windows, norms in other places, experts, positions that are learnt or none, a second model for images, no keys at all.
FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**tiny.SHAPE, **WINDOW)),
    "gemma2": lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**tiny.SHAPE, **WINDOW)),
    "gemma3": lambda: transformers.Gemma3ForConditionalGeneration(_gemma3(**tiny.SHAPE, **WINDOW)),
    "phi3": lambda: transformers.Phi3ForCausalLM(transformers.Phi3Config(**tiny.SHAPE)),
    "olmo2": lambda: transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**tiny.SHAPE)),
    "mixtral": lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(**tiny.SHAPE, num_local_experts=4)),
    "gpt2": lambda: tiny.model("gpt2"),
    "bloom": lambda: transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=512, hidden_size=64, n_layer=2, n_head=4, eos_token_id=1, bos_token_id=1)
    ),
    "lfm2": lambda: transformers.Lfm2ForCausalLM(
        transformers.Lfm2Config(**tiny.SHAPE, layer_types=["conv", "full_attention"])
    ),
    "rwkv": lambda: transformers.RwkvForCausalLM(
        transformers.RwkvConfig(vocab_size=512, hidden_size=64, num_hidden_layers=2, eos_token_id=1, bos_token_id=1)
    ),
}


class Digits(Answer):
    """Write digits: a world in which random models differ in reward."""

    name = "digits"

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"digits/{split}/{index}", f"{index} plus 2 is")

    def grade(self, task: Task, text: str) -> Feedback:
        return Feedback(float(sum(map(str.isdigit, text))), info={"correct": text.isdigit(), "answer": text})


AGAIN = ("lfm2", "rwkv")  # whose texts are read again for every token


def made(family: str) -> nn.Module:
    """A model whose distributions are far from uniform."""
    torch.manual_seed(0)
    model = FAMILIES[family]()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.08)
    return model.eval()


def directory(path: Path, model: Any) -> Path:
    model.save_pretrained(path)
    tiny.tokenizer().save_pretrained(path)
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_it_trains_its_sampler_agrees_with_its_trainer_and_one_line_says_that_it_is_slower(
    family: str, tmp_path: Path
) -> None:
    settings = {"world": Digits(), "tasks": 3, "iterations": 2, "max_tokens": 20, "lr": 1e-3}
    method = podium.methods.get("grpo", n=4)
    run = build_run(configure(method, model=str(directory(tmp_path / "m", made(family))), sentinel=1e-5, **settings))
    for _ in range(2):
        _, line = iterate(run)
        assert line["sampler_gap"] < 1e-5
        assert line["grad_norm.policy"] > 0
    assert isinstance(run.driver.sampler.engine, UncachedEngine if family in AGAIN else HFBatchedEngine)  # type: ignore[attr-defined]
    (note,) = [note for note in run.policy.notes if not note.startswith("warning")]
    assert "goes through its own forward pass, which is slower: its architecture is" in note
    assert ("reads the whole text again for every token" in note) == (family in AGAIN)
    run.close()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: transformers.BertLMHeadModel(transformers.BertConfig(**tiny.SHAPE)), "depends on later tokens"),
        (
            lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=512, d_model=32)),
            "token by token",
        ),
    ],
)
def test_what_cannot_write_is_refused_in_one_line(
    model: Callable[[], nn.Module], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = directory(tmp_path / "m", model())
    capsys.readouterr()
    assert main(["train", "--world", "sums", "--model", str(path), "--out", str(tmp_path / "run")]) == 2
    (told,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error")]
    assert f"{path} is not a causal language model" in told
    assert said in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("family", ["gpt2", "mistral"])
def test_texts_that_are_read_again_come_to_the_same(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = ending(Policy(made(family), tiny.tokenizer(), name=family))
    asked = requests(6)
    batched = LocalSampler(policy)
    monkeypatch.setattr(plain, "_stepped", lambda *_: [torch.zeros(1, tiny.VOCABULARY)] * 2)
    again = LocalSampler(policy, slots=5)
    assert isinstance(batched.engine, HFBatchedEngine)
    assert isinstance(again.engine, UncachedEngine)
    for request, one, other in zip(asked, batched.generate(asked), again.generate(asked), strict=True):
        assert [c.ids for c in one] == [c.ids for c in other]
        for c in other:
            torch.testing.assert_close(torch.tensor(c.logp), rescored(policy, request, c), atol=1e-5, rtol=1e-5)


def test_numbers_that_are_none_are_said_before_a_run() -> None:
    model = made("phi3")
    next(model.parameters()).data.fill_(float("nan"))
    with pytest.raises(PodiumError, match="use dtype='float32'"):
        LocalSampler(Policy(model, tiny.tokenizer()))


@pytest.mark.parametrize("family", ["gpt2", "lfm2"])
def test_sampling_computes_in_the_precision_of_training(family: str) -> None:
    policy = Policy(made(family), tiny.tokenizer())
    policy.lower = torch.bfloat16  # as on a GPU: the weights are kept in float32
    seen: list[Any] = []
    policy.model.register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    request = Generate((5, 6, 7), n=2, sampling=Sampling(max_tokens=8))
    for completion in LocalSampler(policy).generate([request])[0]:
        gap = torch.tensor(completion.logp) - rescored(policy, request, completion)
        assert float(gap.abs().mean()) < 0.05
    assert all(seen)


def test_little_memory_means_smaller_batches_of_the_same_tokens() -> None:
    policy = Policy(made("phi3"), tiny.tokenizer())
    asked = [Generate((5, 6, 7), n=8, sampling=Sampling(max_tokens=10), stream=(3,))]
    large, small = LocalSampler(policy), LocalSampler(policy, memory=40 * 4 * 64 * 3 * 2)
    assert [c.ids for c in large.generate(asked)[0]] == [c.ids for c in small.generate(asked)[0]]
    assert small.stats.steps >= 2 * large.stats.steps


@pytest.mark.parametrize("family", ["gpt2", "mistral"])
@pytest.mark.parametrize(("rows", "tokens"), [(5, 0), (5, 150), (1, 40)])
def test_rows_that_do_not_fit_together_go_through_the_model_in_parts(
    family: str, rows: int, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = ending(Policy(made(family), tiny.tokenizer(), name=family))
    asked = requests(8)
    expected = LocalSampler(policy).generate(asked)
    forward, tried = policy.model.forward, []

    def narrow(*, input_ids: torch.Tensor, attention_mask: torch.Tensor, **given: Any) -> Any:
        tried.append(len(input_ids))
        # Of a wave's first pass, or of one in its middle.
        if len(input_ids) > rows and attention_mask.numel() > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(input_ids=input_ids, attention_mask=attention_mask, **given)

    sampler = LocalSampler(policy)
    monkeypatch.setattr(policy.model, "forward", narrow)
    with pytest.warns(UserWarning, match="from now on fewer are sampled at once"):
        answers = sampler.generate(asked)
    assert max(tried) > rows
    assert [[c.ids for c in a] for a in answers] == [[c.ids for c in a] for a in expected]
    for c, d in ((c, d) for a, b in zip(answers, expected, strict=True) for c, d in zip(a, b, strict=True)):
        torch.testing.assert_close(torch.tensor(c.logp), torch.tensor(d.logp), atol=1e-5, rtol=1e-5)


def test_a_row_that_does_not_fit_alone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy(made("gpt2"), tiny.tokenizer(), name="gpt2")
    sampler = LocalSampler(policy)

    def full(**_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(policy.model, "forward", full)
    with pytest.warns(UserWarning, match="fewer"), pytest.raises(torch.OutOfMemoryError):
        sampler.generate(requests(4))
