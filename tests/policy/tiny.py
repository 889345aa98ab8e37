"""Small models with random weights, and a small tokenizer, for the tests of policy and sampler."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from podium.policy import Policy

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
VOCABULARY = 512
FAMILIES = ("llama", "llama-grouped", "llama3-rope", "qwen2", "qwen3")


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE over a few sentences, with a chat template."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    text = [f"{a} plus {b} is {a + b}. The answer is {a + b}\n" for a in range(30) for b in range(30)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    bpe.train_from_iterator(text, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        additional_special_tokens=["<|user|>", "<|assistant|>", "<|system|>"],
    )
    made.chat_template = TEMPLATE
    return made


SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "bos_token_id": None,
}


def model(family: str = "llama", seed: int = 0, scale: float = 0.08, **settings: Any) -> nn.Module:
    """A model whose weights are large enough that its distributions are far from uniform."""
    torch.manual_seed(seed)
    made: nn.Module
    if family == "llama":
        made = LlamaForCausalLM(
            LlamaConfig(**(SHAPE | {"num_key_value_heads": 4, "tie_word_embeddings": True} | settings))
        )
    elif family == "llama-grouped":
        biased = {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False}
        made = LlamaForCausalLM(LlamaConfig(**(SHAPE | biased | settings)))
    elif family == "llama3-rope":
        rope = {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
        made = LlamaForCausalLM(LlamaConfig(**(SHAPE | {"rope_parameters": rope} | settings)))
    elif family == "qwen2":
        made = Qwen2ForCausalLM(Qwen2Config(**(SHAPE | settings)))
    elif family == "qwen3":
        made = Qwen3ForCausalLM(Qwen3Config(**(SHAPE | {"head_dim": 32} | settings)))
    else:
        made = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=256, eos_token_id=1, bos_token_id=1
            )
        )
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0.0, scale)
            if parameter.dim() == 1:
                parameter.add_(1.0)
    return made.eval()


def policy(family: str = "llama", seed: int = 0, **settings: Any) -> Policy:
    return Policy(model(family, seed, **settings), tokenizer(), name=f"tiny {family}")


def directory(path: Path, family: str = "llama") -> Path:
    """A Hugging Face directory of a tiny model."""
    model(family).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path
