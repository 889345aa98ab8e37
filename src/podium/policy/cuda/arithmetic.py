"""What the sampler's step and the trainer's forward pass compute in the same way, to the bit.

In bfloat16 the smallest difference before a rounding becomes, now and then, a whole step of 1/256 after it, and after a
few layers of such roundings nothing is left of the agreement. So both sides go through these functions and add up in
the same order:

- A product's sum runs over its inner numbers in steps of 16, as the matrix units take them, whatever the tile; where it
  is cut, it is cut at the same numbers and put together in the same order.
- A norm's squares are added up in float64, so nearly exactly that every order gives the same float32.
- Attention reads keys in blocks of BLOCK and chunks of CHUNK, counted from the first token of a text.
- Where a product is added to something, it is said whether they are rounded together (`fma`).
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import triton
import triton.language as tl

__all__ = ["BLOCK", "CHUNK", "COLUMNS", "LOWEST", "gated", "joined", "norm_scale", "squares", "turned", "weighed"]

BLOCK = 64  # keys
CHUNK = 512  # keys that one program of the sampler works on
COLUMNS = tl.constexpr(16)  # of a product whose columns are all the same
LOWEST = tl.constexpr(-1e30)  # below every score, and finite: the peak of no keys at all


@triton.jit
def squares(x, AXIS: tl.constexpr):
    """Σ x² in float64."""
    wide = x.to(tl.float64)
    return tl.sum(wide * wide, AXIS)


@triton.jit
def norm_scale(total, share, eps):
    """1 / √(mean x² + ε) from Σ x² and `share`, one over their number."""
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
    """A block of keys joins an attention: peak of scores, Σ p and Σ p v, for p = 2^(scale · (score − peak)).

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
    """A chunk of keys joins those before it: all in float32."""
    new = tl.maximum(peak, its_peak)
    shrink, theirs = tl.exp2((peak - new) * scale), tl.exp2((its_peak - new) * scale)
    mass = tl.fma(mass, shrink, its_mass * theirs)
    return new, mass, tl.fma(total, shrink[:, None], its_total * theirs[:, None])
