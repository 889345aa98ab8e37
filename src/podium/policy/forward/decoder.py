"""A plain decoder over the parameters of a Hugging Face model of the Llama, Qwen2 and Qwen3 families.

It works on the module's own tensors: nothing is copied, and an optimiser step takes effect at once. There are two
passes: `encode` for packed sequences (differentiable; training, scoring, prefill) and `step` for one token of every row
with a static KV cache (sampling). Both give the logits of the module's own forward pass up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from podium.policy.cuda import block as fused
from podium.policy.cuda import head
from podium.policy.forward.layers import Layer, PaddedNorm, gated, normed
from podium.policy.forward.pack import Packed
from podium.policy.forward.rope import Rope
from podium.policy.forward.step import Cache, DecodeStep
from podium.policy.model.compute_weights import ComputeWeights
from podium.policy.native import ops
from podium.policy.native.step import NativeCache, NativeStep, fits, usable

__all__ = ["Decoder", "KeyValues", "unsupported"]

FAMILIES = ("llama", "qwen2", "qwen3")
ROPES = ("default", "linear", "llama3", "yarn")  # frequencies that do not depend on the sequence's length
SHARED = 16  # tokens: shorter prefixes are not shared on a GPU, where each one adds a part to every attention
WEIGHTS = 1 << 26  # attention weights that a pass through the native kernels may keep
KeyValues = list[tuple[Tensor, Tensor]]  # per layer: keys and values [nodes, key-value heads, head size]


def unsupported(model: nn.Module) -> str | None:
    """Why the decoder cannot run this model; None: it can."""
    config: Any = model.config
    if config.model_type not in FAMILIES:
        return f"its architecture is {config.model_type}"
    rope = config.rope_parameters or {}
    if rope.get("rope_type", "default") not in ROPES or rope.get("partial_rotary_factor", 1.0) != 1.0:
        return f"its rotary embedding is of the type {rope.get('rope_type')}"
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()):
        return "some of its layers have a sliding window"
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act}"
    return None


class Decoder:
    """The model as a function of its parameters."""

    def __init__(self, model: nn.Module) -> None:
        whole: Any = model
        self.model, self.config = model, whole.config
        self._places: list[tuple[int, torch.dtype]] = []  # addresses of the parameters at the last pass
        self._written = 0  # how often they had been written by then
        self.stale = False  # whether they were written without a trace in that count, as by a fused optimiser
        self._compute_weights: ComputeWeights | None = None
        self.lower: torch.dtype | None = None  # the precision to compute in, if the parameters have a higher one
        self._transposed: dict[int, tuple[Tensor, Tensor]] = {}  # weights and their transposed copies for decode steps
        self.layout = 0  # counts how often the parameters were moved
        body = whole.model
        self.embedding: Any = body.embed_tokens
        self.norm: Any = body.norm
        self.padded_norm = PaddedNorm(body.norm)
        self.head: Any = whole.lm_head
        self.layers = [Layer(block) for block in body.layers]
        c = self.config
        self.heads, self.kv_heads = c.num_attention_heads, c.num_key_value_heads
        self.head_size: int = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
        self.eps: float = c.rms_norm_eps
        self.scale = self.head_size**-0.5
        self.width: int = c.hidden_size
        self.checkpointing = False  # recompute each block in the backward pass instead of keeping its activations
        self._rope = Rope(c, self.head_size)
        self._signed: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    @property
    def device(self) -> torch.device:
        return self.norm.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of keys, values and hidden states."""
        return self.lower or self.norm.weight.dtype

    @property
    def plain(self) -> bool:
        """Whether all linear layers are plain `nn.Linear`, without adapters."""
        return all(layer.plain for layer in self.layers) and type(self.head) is nn.Linear

    @property
    def folds(self) -> bool:
        """Whether passes compute with weights to which the adapters are added: wherever blocks can be fused."""
        return not self.plain and self._fusible and all(layer.foldable for layer in self.layers)

    @property
    def fused(self) -> bool:
        """Whether passes use fused blocks: in a low precision on a GPU, or with low-precision copies on any device."""
        return self._fusible and (self.plain or self.folds)

    @property
    def _fusible(self) -> bool:
        low = self.dtype in (torch.bfloat16, torch.float16) and (self.lower is not None or self.device.type == "cuda")
        sizes = self.head_size, self.width, self.config.intermediate_size
        fit = type(self.head) is nn.Linear and self.head.bias is None and all(size % 8 == 0 for size in sizes)
        return fit and low

    @property
    def least(self) -> int:
        """The shortest common prefix that is worth sharing, in tokens."""
        return SHARED if self.fused else 1

    @property
    def weights(self) -> ComputeWeights | None:
        """The weights that passes compute with, up to date; None if there are adapters that run by themselves."""
        if not (self.plain or self.folds):
            return None
        self.sync()
        return self._compute_weights

    def sync(self) -> None:
        """Bring views and copies up to date if the parameters were moved or written.

        If they were moved, `layout` changes, and decode steps prepared before are invalid.
        """
        parts = [part for layer in self.layers for part in (layer.qkv, layer.gate_up, layer.norm_in, layer.norm_out)]
        for part in (*parts, self.padded_norm):
            part.sync()
        parameters = list(self.model.parameters())
        before, self._places = self._places, [(p.data_ptr(), self.lower or p.dtype) for p in parameters]
        written, self._written = self._written, sum(p._version for p in parameters)
        if before != self._places:
            self.layout += 1
            self._transposed.clear()
            whole = (self.layers, self.embedding, self.norm, self.head)
            self._compute_weights = ComputeWeights(*whole, self.dtype) if self.plain or self.folds else None
        elif (self.stale or written != self._written) and self._compute_weights is not None:
            self._compute_weights.refresh()
        self.stale = False

    def transposed(self, weight: Tensor) -> Tensor:
        """A weight [out, in] as [in, out], for decode steps.

        On a CPU it is a copy in that order, which makes a product of few rows a third faster; `refresh` updates it.
        """
        if weight.device.type != "cpu":
            return weight.t()
        place = weight.data_ptr()
        if place not in self._transposed:
            with torch.inference_mode(False), torch.no_grad():
                self._transposed[place] = (weight, weight.t().contiguous())
        return self._transposed[place][1]

    def refresh(self) -> None:
        """Update all copies; to be called before the first decode step with new weights."""
        self.sync()
        with torch.no_grad():
            for weight, copy in self._transposed.values():
                copy.copy_(weight.t())

    # -- parts ----------------------------------------------------------------------------------------------------

    def rope_tables(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines in float32, [at least `length`, head size / 2]."""
        return self._rope(length, self.device, torch.float32)

    def rope(self, length: int) -> tuple[Tensor, Tensor]:
        """Tables of cosines and signed sines, [at least `length`, head size]."""
        like = self.norm.weight
        key = (like.device, like.dtype)
        if key not in self._signed or self._signed[key][0].shape[0] < length:
            cos, sin = self._rope(length, *key)
            with torch.inference_mode(False), torch.no_grad():
                self._signed = {key: (torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1))}
        return self._signed[key]

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotary embedding: the first and second half of each head are the two coordinates that are rotated."""
        return torch.addcmul(x * cos, x.roll(self.head_size // 2, -1), sin)

    def _norm(self, x: Tensor, norm: Any) -> Tensor:
        return normed(x, norm.weight, self.eps)

    def _project(self, x: Tensor, layer: Layer, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys with the rotary embedding, and values: [N, heads, head size]."""
        h, kv = self.heads, self.kv_heads
        qkv = layer.qkv(self._norm(x, layer.block.input_layernorm)).view(-1, h + 2 * kv, self.head_size)
        if layer.q_norm is None:
            turned = self._turned(qkv[:, : h + kv], cos, sin)
            return turned[:, :h], turned[:, h:], qkv[:, h + kv :]
        q, k, v = torch.split(qkv, [h, kv, kv], 1)
        return (
            self._turned(self._norm(q, layer.q_norm), cos, sin),
            self._turned(self._norm(k, layer.k_norm), cos, sin),
            v,
        )

    @staticmethod
    def _add(x: Tensor, y: Tensor, linear: nn.Module) -> Tensor:
        """x + linear(y)."""
        if type(linear) is nn.Linear and linear.bias is None:
            return torch.addmm(x, y, linear.weight.t())
        added: Tensor = x + linear(y)
        return added

    def _mlp(self, x: Tensor, layer: Layer) -> Tensor:
        both = layer.gate_up(self._norm(x, layer.block.post_attention_layernorm))
        return self._add(x, gated(both), layer.down)

    def logits(self, hidden: Tensor) -> Tensor:
        """[N, vocabulary] from final hidden states."""
        if self.fused and self._compute_weights is not None:
            return head.logits(hidden, self._compute_weights.head, self.head.weight)
        result: Tensor = self.head(hidden)
        return result

    def read(self, hidden: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """[N] log-probabilities of tokens and entropies from the final hidden states of fused blocks."""
        assert self._compute_weights is not None
        return head.read(hidden, self._compute_weights.head, self.head.weight, ids, temperature)

    # -- packed sequences ------------------------------------------------------------------------------------------

    def encode(
        self, packed: Packed, past: KeyValues | None = None, keep: bool = False, tap: dict[int, Tensor] | None = None
    ) -> tuple[Tensor, KeyValues]:
        """Final hidden states [N, D] of the packed nodes; with `keep`, also every layer's keys and values.

        `past` holds the keys and values of the given nodes; those that are kept begin with them. `tap` receives the
        states after the blocks that its keys name.
        """
        self.sync()
        if self.fused:
            return self._fused(packed, past, keep, tap)
        length = -(-packed.longest // packed.grain) * packed.grain
        cos, sin = (table.index_select(0, packed.position)[:, None] for table in self.rope(length))
        x: Tensor = self.embedding(packed.ids)
        kept: KeyValues = []
        recompute = self.checkpointing and torch.is_grad_enabled() and not keep
        native = past is None and not keep and self._native(packed)
        rope = torch.stack(self.rope(length), 1) if native else cos
        for number, layer in enumerate(self.layers):
            given = None if past is None else past[number]
            if native and recompute:
                x = checkpoint(self._native_block, x, layer, rope, packed, use_reentrant=False)
            elif native:
                x = self._native_block(x, layer, rope, packed)
            elif recompute:
                x, _ = checkpoint(self._block, x, layer, cos, sin, packed, given, use_reentrant=False)
            else:
                x, kv = self._block(x, layer, cos, sin, packed, given)
                if keep:
                    kept.append(kv)
            if tap is not None and number + 1 in tap:
                tap[number + 1] = x
        return self._norm(x, self.norm), kept

    def _fused(
        self, packed: Packed, past: KeyValues | None, keep: bool, tap: dict[int, Tensor] | None
    ) -> tuple[Tensor, KeyValues]:
        weights = self._compute_weights
        assert weights is not None
        shape = fused.BlockShape(
            self.heads,
            self.kv_heads,
            self.head_size,
            self.eps,
            self.dtype,
            *self.rope_tables(packed.longest),
            packed.position,
            packed.levels,
            self.checkpointing,
        )
        padding = self.embedding.padding_idx  # this row gets no gradient from the embedding
        x = fused.embedded(packed.ids, weights.embedding, self.embedding.weight, -1 if padding is None else padding)
        kept: KeyValues = []
        for number, layer in enumerate(weights.layers):
            if keep or past is not None:
                x, kv = fused.block_kept(x, layer, shape, None if past is None else past[number])
                if keep:
                    kept.append(kv)
            else:
                x = fused.block(x, layer, shape)
            if tap is not None and number + 1 in tap:
                tap[number + 1] = x
        return fused.final(x, self.norm.weight, self.eps, self.dtype), kept

    def _native(self, packed: Packed) -> bool:
        """Whether the native kernels can run this pass. They keep all attention weights, which must not be too many."""
        able = all(layer.q_norm is None for layer in self.layers) and fits(self)
        return able and self.heads * packed.spans.total * (1 if self.checkpointing else len(self.layers)) <= WEIGHTS

    def _native_block(self, x: Tensor, layer: Layer, rope: Tensor, packed: Packed) -> Tensor:
        qkv = layer.qkv(ops.normed(x, layer.block.input_layernorm.weight, self.eps))
        shape = self.heads, self.kv_heads, self.head_size
        x = self._add(x, ops.attention(qkv, rope, packed.position, packed.spans, *shape), layer.out)
        both = layer.gate_up(ops.normed(x, layer.block.post_attention_layernorm.weight, self.eps))
        return self._add(x, ops.gated(both), layer.down)

    def _block(
        self, x: Tensor, layer: Layer, cos: Tensor, sin: Tensor, packed: Packed, given: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = self._project(x, layer, cos, sin)
        if given is not None:
            k, v = torch.cat([given[0], k]), torch.cat([given[1], v])
        x = self._add(x, self._attend(q, k, v, packed), layer.out)
        return self._mlp(x, layer), (k, v)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, packed: Packed) -> Tensor:
        """Attention of every node over its path, [N, heads · head size]."""
        outputs = []
        for bucket in packed.buckets:
            rows = bucket.queries.shape[0]
            queries, keys, values = (
                x.index_select(0, index.view(-1)).view(rows, -1, x.shape[1], self.head_size).transpose(1, 2)
                for x, index in ((q, bucket.queries), (k, bucket.keys), (v, bucket.keys))
            )
            grouped = self.heads != self.kv_heads
            out = F.scaled_dot_product_attention(
                queries, keys, values, attn_mask=bucket.mask, is_causal=bucket.mask is None, enable_gqa=grouped
            )
            outputs.append(out.transpose(1, 2).reshape(-1, self.heads * self.head_size))
        joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        return joined.index_select(0, packed.back)

    # -- decode steps --------------------------------------------------------------------------------------

    def cache(self, rows: int, prompt: int, written: int) -> Cache | NativeCache:
        """A KV cache of so many rows, with prompts of up to `prompt` tokens and completions of up to `written`."""
        return (NativeCache if usable(self) else Cache)(self, rows, prompt, written)

    def step(self, cache: Cache | NativeCache, rows: int, length: int) -> DecodeStep | NativeStep:
        """The prepared decode step of the first rows of a cache, to be called many times."""
        if isinstance(cache, NativeCache):
            return NativeStep(self, cache, rows)
        return DecodeStep(self, cache, rows, length)
