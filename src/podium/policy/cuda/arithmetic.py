"""Arithmetic shared by the sampler's decode step and the trainer's forward pass, so that they agree to the bit.

In bfloat16 the smallest difference before a rounding occasionally becomes a whole step of 1/256 after it, and a few
layers of such roundings destroy the agreement. So both sides use these functions and sum in the same order:

- The sum of a matrix product runs over its inner dimension in steps of 16, as the matrix units take them, whatever the
  tile; where it is split, it is split at the same places and its parts are added in the same order.
- The squares of a norm are summed in float64, exactly enough that every order gives the same float32.
- Attention reads keys in blocks of BLOCK and chunks of CHUNK, counted from the first token of a text.
- Where a product is added to something, it is explicit whether they are rounded together (`fma`).
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import triton
import triton.language as tl

__all__ = ["BLOCK", "CHUNK", "COLUMNS", "LOWEST", "gated", "joined", "norm_scale", "squares", "turned", "weighed"]

BLOCK = 64  # keys
CHUNK = 512  # keys that one program of the sampler processes
COLUMNS = tl.constexpr(16)  # of a product whose columns are all equal
LOWEST = tl.constexpr(-1e30)  # below every score, and finite: the peak of an empty set of keys


@triton.jit
def squares(x, AXIS: tl.constexpr):
    """Σ x² in float64."""
    wide = x.to(tl.float64)
    return tl.sum(wide * wide, AXIS)


@triton.jit
def norm_scale(total, share, eps):
    """1 / √(mean x² + ε) from Σ x² and `share`, the reciprocal of their number."""
    return tl.rsqrt(tl.fma(total.to(tl.float32), share, eps))


@triton.jit
def turned(a, b, c, s):
    """The rotary embedding of pairs (a, b)."""
    return tl.fma(a, c, -(b * s)), tl.fma(b, c, a * s)


@triton.jit
def gated(gate, up):
    """silu(gate) · up."""
    return gate / (1.0 + tl.exp(-gate)) * up


@triton.jit
def weighed(scores, values, peak, mass, total, scale, PRECISION: tl.constexpr):
    """Add a block of keys to a running attention: peak of scores, Σ p and Σ p v, for p = 2^(scale · (score − peak)).

    p is rounded to the values' precision in both sums, so that what a token looks at has weights that add up to 1. Σ p
    is a product with ones, the same in each of its columns: the matrix units add in a fixed order.
    """
    new = tl.maximum(peak, tl.max(scores, 1))
    p = tl.exp2(tl.fma(scores, scale, (-new * scale)[:, None])).to(values.dtype)
    shrink = tl.exp2((peak - new) * scale)[:, None]
    ones = tl.full((scores.shape[1], COLUMNS), 1.0, values.dtype)
    mass = tl.dot(p, ones, mass * shrink, input_precision=PRECISION)
    total = tl.dot(p, values, total * shrink, input_precision=PRECISION)
    return new, mass, total


@triton.jit
def joined(peak, mass, total, its_peak, its_mass, its_total, scale):
    """Combine a chunk of keys with those before it, in float32."""
    new = tl.maximum(peak, its_peak)
    shrink, theirs = tl.exp2((peak - new) * scale), tl.exp2((its_peak - new) * scale)
    mass = tl.fma(mass, shrink, its_mass * theirs)
    return new, mass, tl.fma(total, shrink[:, None], its_total * theirs[:, None])
