"""Vision-language models of a small named shape with random weights, written as directories that `load` reads."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import (
    AutoTokenizer,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

import podium

TINY = Path(podium.__file__).parent / "models" / "tiny"


def text_shape(scale: int) -> dict[str, Any]:
    """Two layers of width 64, `scale` times as many and as wide."""
    sizes = {"hidden_size": 64 * scale, "intermediate_size": 128 * scale, "num_hidden_layers": 2 * scale}
    return {**sizes, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512 * scale}


def tokenizer_with(*names: str) -> Any:
    """The tokenizer of podium/tiny with tokens for pictures."""
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    tokenizer.add_special_tokens({"additional_special_tokens": list(names)})
    return tokenizer


def qwen_tiny(path: Path, seed: int = 0, scale: int = 1) -> Path:
    """Qwen2-VL with two text and two vision layers of width 64 and 32; patches of 4 x 4 pixels."""
    tokenizer = tokenizer_with("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    number = tokenizer.convert_tokens_to_ids
    text = {**text_shape(scale), "vocab_size": len(tokenizer), "tie_word_embeddings": True}
    text["rope_parameters"] = {
        "rope_type": "default",
        "mrope_section": [2 * scale, 3 * scale, 3 * scale],
        "rope_theta": 10000.0,
    }
    sizes = {"depth": 2 * scale, "embed_dim": 32 * scale, "hidden_size": 64 * scale}
    vision = {**sizes, "num_heads": 4, "mlp_ratio": 2, "patch_size": 4}
    config = Qwen2VLConfig(
        text_config=text,
        vision_config={**vision, "spatial_merge_size": 2, "temporal_patch_size": 2},
        image_token_id=number("<|image_pad|>"),
        video_token_id=number("<|video_pad|>"),
        vision_start_token_id=number("<|vision_start|>"),
        vision_end_token_id=number("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = Qwen2VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    largest = (32 * min(scale, 4)) ** 2
    size = {"shortest_edge": 16 * 16, "longest_edge": largest}
    processor = Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, size=size)
    return written(path, model, tokenizer, processor)


def idefics_tiny(path: Path, seed: int = 0, scale: int = 1) -> Path:
    """Idefics3 with two text and two vision layers; tiles of 16 x 16 pixels."""
    return _tiled(path, seed, scale, Idefics3Config, Idefics3ForConditionalGeneration, Idefics3ImageProcessorPil)


def smol_tiny(path: Path, seed: int = 0, scale: int = 1) -> Path:
    """SmolVLM of the same shape."""
    return _tiled(path, seed, scale, SmolVLMConfig, SmolVLMForConditionalGeneration, SmolVLMImageProcessorPil)


def _tiled(path: Path, seed: int, scale: int, config_of: Any, model_of: Any, processor_of: Any) -> Path:
    names = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
    tokenizer = tokenizer_with("<fake_token_around_image>", "<image>", "<global-img>", *names)
    text = {**text_shape(scale), "model_type": "llama", "vocab_size": len(tokenizer)}
    sizes = {"hidden_size": 32 * scale, "intermediate_size": 64 * scale, "num_hidden_layers": 2 * scale}
    vision = {**sizes, "num_attention_heads": 4}
    config = config_of(
        text_config=text,
        vision_config={**vision, "image_size": 16, "patch_size": 4},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        tie_word_embeddings=False,
        pad_token_id=0,
    )
    torch.manual_seed(seed)
    model = model_of(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    processor = processor_of(size={"longest_edge": 32}, max_image_size={"longest_edge": 16})
    return written(path, model, tokenizer, processor)


def written(path: Path, model: Any, tokenizer: Any, processor: Any) -> Path:
    for part in (model, tokenizer, processor):
        part.save_pretrained(path)
    return path


def picture_file(width: int = 24, height: int = 16, seed: int = 0) -> bytes:
    """A PNG file of coloured noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
