"""A plain decoder over the parameters of a Hugging Face model of the Llama, Qwen2 and Qwen3 families.

It works on the module's own tensors: nothing is copied, an optimiser step is seen at once. Two ways through it:
`encode` for packed sequences (differentiable; training, scoring, prompts) and `step` for one token of every row with a
static key-value cache (sampling). Both give the logits of the module's own forward pass up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from podium.policy.native import ops
from podium.policy.native.step import NativeCache, NativeStep, fits, usable
from podium.policy.pack import Packed
from podium.policy.step import Cache, Step

__all__ = ["Decoder", "Joint", "KeyValues", "unsupported"]

FAMILIES = ("llama", "qwen2", "qwen3")
ROPES = ("default", "linear", "llama3", "yarn")  # frequencies that do not depend on the sequence's length
WEIGHTS = 1 << 26  # attention weights that a pass through the kernels may keep
KeyValues = list[tuple[Tensor, Tensor]]  # per layer: keys and values [nodes, key-value heads, head size]


def unsupported(model: nn.Module) -> str | None:
    """Why this model must go through its own forward pass; None: it need not."""
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


class _Joined(torch.autograd.Function):
    """y = x Wᵀ for a weight whose parts are the storage of several parameters, which receive their own gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.sizes = [p.shape[0] for p in parts]
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        (g,) = grads
        gx = g @ weight if ctx.needs_input_grad[0] else None
        if not any(ctx.needs_input_grad[2:]):
            return (gx, None, *[None] * len(ctx.sizes))
        return (gx, None, *(g.t() @ x).split(ctx.sizes))


class _Norm(torch.autograd.Function):
    """y = w · x / √(mean x² + ε), in float32 but for the last product, as the families' own norms."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        normed = (wide * scale).to(x.dtype)
        ctx.save_for_backward(normed, scale, weight)
        return normed * weight

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed, scale, weight = ctx.saved_tensors
        (g,) = grads
        g_weight = (g * normed).flatten(0, -2).sum(0) if ctx.needs_input_grad[1] else None
        inner = g * weight
        along = (inner * normed).mean(-1, keepdim=True)
        return torch.addcmul(inner, normed, along, value=-1).mul(scale).to(g.dtype), g_weight, None


class _Gated(torch.autograd.Function):
    """y = silu(a) · b for x = [a, b]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, -1)
        active = F.silu(gate)
        ctx.save_for_backward(x, active)
        return active * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, active = ctx.saved_tensors
        (g,) = grads
        gate, up = x.chunk(2, -1)
        out = torch.empty_like(x)
        g_gate, g_up = out.chunk(2, -1)
        torch.mul(g, active, out=g_up)
        g_gate.copy_(torch.ops.aten.silu_backward(g * up, gate))
        return out


class Joint:
    """Linear layers that read the same input, as one matrix product.

    Their weights are moved into one tensor and the parameters become views of it, so there is still one copy of them.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules = list(modules)
        self.plain = all(type(m) is nn.Linear for m in self.modules)
        self.weight = torch.empty(0)
        self.bias: Tensor | None = None
        if self.plain:
            self._join()

    def _join(self) -> None:
        with torch.inference_mode(False), torch.no_grad():  # parameters must stay fit for training
            self.weight = self._one([m.weight for m in self.modules])
            self.bias = self._one([m.bias for m in self.modules]) if self.modules[0].bias is not None else None

    @staticmethod
    def _one(parts: list[Any]) -> Tensor:
        whole = torch.cat([p.data for p in parts])
        for part, piece in zip(parts, torch.split(whole, [p.shape[0] for p in parts]), strict=True):
            part.data = piece
        return whole

    def settle(self) -> None:
        """Join again if someone has given the parameters other storage, as moving a model does."""
        if not self.plain:
            return
        place = self.weight.data_ptr()
        for m in self.modules:
            weight: Any = m.weight
            if weight.data_ptr() != place or weight.dtype != self.weight.dtype:
                self._join()
                return
            place += weight.numel() * weight.element_size()

    def __call__(self, x: Tensor) -> Tensor:
        if not self.plain:  # adapters: each layer knows best
            return torch.cat([m(x) for m in self.modules], -1)
        if not torch.is_grad_enabled():
            return F.linear(x, self.weight, self.bias)
        y: Tensor = _Joined.apply(x, self.weight, *[m.weight for m in self.modules])  # type: ignore[no-untyped-call]
        biases: list[Any] = [m.bias for m in self.modules]
        return y if self.bias is None else y + torch.cat(biases)


class Both:
    """A norm's weight followed by as many zeros, for the norm of [x, −x]. The parameter becomes a view of it."""

    def __init__(self, norm: Any) -> None:
        self.norm = norm
        self.weight = torch.empty(0)
        self._widen()

    def _widen(self) -> None:
        with torch.inference_mode(False), torch.no_grad():
            own = self.norm.weight.data
            self.weight = torch.cat([own, torch.zeros_like(own)])
            self.norm.weight.data = self.weight[: own.shape[0]]

    def settle(self) -> None:
        own = self.norm.weight
        if own.data_ptr() != self.weight.data_ptr() or own.dtype != self.weight.dtype:
            self._widen()


class _Layer:
    """One block's parameters and how they are applied."""

    def __init__(self, block: Any) -> None:
        attention, mlp = block.self_attn, block.mlp
        self.block = block
        self.qkv = Joint([attention.q_proj, attention.k_proj, attention.v_proj])
        self.gate_up = Joint([mlp.gate_proj, mlp.up_proj])
        self.out: nn.Module = attention.o_proj
        self.down: nn.Module = mlp.down_proj
        self.norm_in, self.norm_out = Both(block.input_layernorm), Both(block.post_attention_layernorm)
        self.q_norm = getattr(attention, "q_norm", None)
        self.k_norm = getattr(attention, "k_norm", None)


class Decoder:
    """The model as a function of its parameters."""

    def __init__(self, model: nn.Module) -> None:
        whole: Any = model
        self.model, self.config = model, whole.config
        self._places: list[int] = []  # where the parameters lay when a pass began
        self._transposed: dict[int, tuple[Tensor, Tensor]] = {}  # weights and their copies for steps
        self.layout = 0  # counts how often the parameters were found in another place
        body = whole.model
        self.embedding: nn.Module = body.embed_tokens
        self.norm: Any = body.norm
        self.norm_both = Both(body.norm)
        self.head: Any = whole.lm_head
        self.layers = [_Layer(block) for block in body.layers]
        c = self.config
        self.heads, self.kv_heads = c.num_attention_heads, c.num_key_value_heads
        self.head_size: int = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
        self.eps: float = c.rms_norm_eps
        self.scale = self.head_size**-0.5
        self.width: int = c.hidden_size
        self.checkpointing = False  # recompute each block in the backward pass instead of keeping its activations
        self._rope: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    @property
    def device(self) -> torch.device:
        return self.norm.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.norm.weight.dtype

    def settle(self) -> None:
        """Look whether the parameters were moved, and adapt; if so, steps that were laid out before are void."""
        parts = [part for layer in self.layers for part in (layer.qkv, layer.gate_up, layer.norm_in, layer.norm_out)]
        for part in (*parts, self.norm_both):
            part.settle()
        before, self._places = self._places, [p.data_ptr() for p in self.model.parameters()]
        if before != self._places:
            self.layout += 1
            self._transposed.clear()

    def transposed(self, weight: Tensor) -> Tensor:
        """A weight [out, in] as a step multiplies by it: [in, out].

        On a CPU it is a copy in that order, since a product of few rows is then a third faster; `refresh` renews it.
        """
        if weight.device.type != "cpu":
            return weight.t()
        place = weight.data_ptr()
        if place not in self._transposed:
            with torch.inference_mode(False), torch.no_grad():
                self._transposed[place] = (weight, weight.t().contiguous())
        return self._transposed[place][1]

    def refresh(self) -> None:
        """To be called before the first step with new weights."""
        self.settle()
        with torch.no_grad():
            for weight, copy in self._transposed.values():
                copy.copy_(weight.t())

    # -- pieces ----------------------------------------------------------------------------------------------------

    def rope(self, length: int) -> tuple[Tensor, Tensor]:
        """Tables of cosines and signed sines, [at least `length`, head size]."""
        like = self.norm.weight
        known = self._rope.get((like.device, like.dtype))
        if known is not None and known[0].shape[0] >= length:
            return known
        size = max(256, 1 << (length - 1).bit_length())
        with torch.inference_mode(False), torch.no_grad():  # the first caller may be the sampler, the next a trainer
            frequency, factor = _frequencies(self.config, self.head_size, like.device)
            angle = torch.arange(size, device=like.device, dtype=torch.float32)[:, None] * frequency
            cos, sin = angle.cos() * factor, angle.sin() * factor
            tables = torch.cat([cos, cos], -1).to(like.dtype), torch.cat([-sin, sin], -1).to(like.dtype)
        self._rope = {(like.device, like.dtype): tables}
        return tables

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotary embedding: the first and second half of each head are the two coordinates that turn."""
        return torch.addcmul(x * cos, x.roll(self.head_size // 2, -1), sin)

    def _norm(self, x: Tensor, norm: Any) -> Tensor:
        normed: Tensor = _Norm.apply(x, norm.weight, self.eps)  # type: ignore[no-untyped-call]
        return normed

    def _project(self, x: Tensor, layer: _Layer, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys (turned) and values of tokens: [N, heads, head size]."""
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

    def _mlp(self, x: Tensor, layer: _Layer) -> Tensor:
        both = layer.gate_up(self._norm(x, layer.block.post_attention_layernorm))
        inside: Tensor = _Gated.apply(both)  # type: ignore[no-untyped-call]
        return self._add(x, inside, layer.down)

    def logits(self, hidden: Tensor) -> Tensor:
        """[N, vocabulary] from final hidden states."""
        result: Tensor = self.head(hidden)
        return result

    # -- packed sequences ------------------------------------------------------------------------------------------

    def encode(
        self, packed: Packed, past: KeyValues | None = None, keep: bool = False, tap: dict[int, Tensor] | None = None
    ) -> tuple[Tensor, KeyValues]:
        """Final hidden states [N, D] of the packed nodes; with `keep`, also every layer's keys and values.

        `past` holds the keys and values of the given nodes; those that are kept begin with them. `tap` receives the
        states after so many blocks as its keys say.
        """
        self.settle()
        length = max(b.keys.shape[1] for b in packed.buckets)
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

    def _native(self, packed: Packed) -> bool:
        """Whether the kernels can do this pass. They keep all attention weights, which must not be too many."""
        able = all(layer.q_norm is None for layer in self.layers) and fits(self)
        return able and self.heads * packed.spans.total * (1 if self.checkpointing else len(self.layers)) <= WEIGHTS

    def _native_block(self, x: Tensor, layer: _Layer, rope: Tensor, packed: Packed) -> Tensor:
        qkv = layer.qkv(ops.normed(x, layer.block.input_layernorm.weight, self.eps))
        shape = self.heads, self.kv_heads, self.head_size
        x = self._add(x, ops.attention(qkv, rope, packed.position, packed.spans, *shape), layer.out)
        both = layer.gate_up(ops.normed(x, layer.block.post_attention_layernorm.weight, self.eps))
        return self._add(x, ops.gated(both), layer.down)

    def _block(
        self, x: Tensor, layer: _Layer, cos: Tensor, sin: Tensor, packed: Packed, given: tuple[Tensor, Tensor] | None
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

    # -- one token of every row ------------------------------------------------------------------------------------

    def cache(self, rows: int, prompt: int, written: int) -> Cache | NativeCache:
        """Room for the keys and values of rows: of prompts of up to so many tokens, and of what is written."""
        return (NativeCache if usable(self) else Cache)(self, rows, prompt, written)

    def step(self, cache: Cache | NativeCache, rows: int, length: int) -> Step | NativeStep:
        """The step of the first rows of a cache, ready to be called again and again."""
        if isinstance(cache, NativeCache):
            return NativeStep(self, cache, rows)
        return Step(self, cache, rows, length)


def _frequencies(config: Any, size: int, device: torch.device) -> tuple[Tensor, float]:
    """Angular frequencies of the rotary embedding and the factor on its sines and cosines."""
    rope = config.rope_parameters
    if rope.get("rope_type", "default") == "default":
        exponent = torch.arange(0, size, 2, dtype=torch.float32, device=device) / size
        return 1.0 / rope["rope_theta"] ** exponent, 1.0
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    frequency, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, device)
    return frequency.to(torch.float32), float(factor)
