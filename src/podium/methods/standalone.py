"""A method as one Python file that needs torch alone: its advantage, its loss, and the updates on a batch.

The text is written for the settings of the method, so that it has no switches. Methods whose parts are not written here
are refused, naming the part.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from podium.core.errors import PodiumError
from podium.core.shares import scaled
from podium.core.term import Aggregate, Term
from podium.core.updates import Updates
from podium.method import Method
from podium.methods.standalone_text import FRAME
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, PolicyGradient
from podium.parts.objective.clip import Clip, TrustRegion
from podium.parts.objective.soft_region import TINY, DivergenceMask, SoftGate
from podium.parts.shape import KeepSign, Rescale

__all__ = ["standalone"]

ESTIMATORS = {
    "k1": "-d",
    "k2": "d.square() / 2",
    "k3": "d.exp() - d - 1",
    "abs": "d.abs()",
    "forward": "d * d.exp() - d.exp() + 1",
}


def standalone(method: Method, slug: str = "", max_tokens: int = 1024) -> str:
    """The source of a file that computes what a method computes; what is a share of `max_tokens` becomes a number."""
    method = scaled(method, {"max_tokens": max_tokens})
    leaves = list(method.leaves())
    if len(leaves) != 1 or leaves[0] is not method:
        raise _refusal(method, "it has several phases")
    for stage in ("annotate", "reward", "keep"):
        for part in getattr(method, stage):
            raise _refusal(method, f"its part {type(part).__name__} ({stage}) is not written as a single file yet")
    if method.memories:
        raise _refusal(method, f"it remembers ({type(method.memories[0]).__name__})")
    if type(method.rollout).__name__ != "Sample":
        raise _refusal(method, f"its rollouts are those of {type(method.rollout).__name__}")
    if type(method.advantage) is not Normalize:
        raise _refusal(method, f"its advantage is {type(method.advantage).__name__}")
    if type(method.updates) is not Updates or method.updates.skip_above is not None:
        raise _refusal(method, f"its updates are {type(method.updates).__name__}")
    aggregates = list(dict.fromkeys(term.aggregate for term in method.objective))
    names = {aggregate: f"aggregate_{n + 1}" if n else "aggregate" for n, aggregate in enumerate(aggregates)}
    losses = [_term(method, term, names[term.aggregate]) for term in method.objective]
    totals = " + ".join(f"{name}" for name, _ in losses)
    return FRAME.format(
        name=slug or method.name,
        summary=method.summary,
        citation=method.citation,
        advantage=_indented("\n".join([*_advantage(method, method.advantage), *_shapes(method), "return advantage"])),
        aggregates="\n\n\n".join(_aggregate(method, aggregate, name) for aggregate, name in names.items()),
        losses=_indented("\n".join(text for _, text in losses)),
        total=totals,
        n=getattr(method.rollout, "n", 8),
        epochs=method.updates.epochs,
        mini_batches=method.updates.mini_batches,
        unit=method.updates.unit,
        units="group" if method.updates.unit == "group" else "torch.arange(len(group))",
        order="torch.randperm(len(units))" if method.updates.shuffle else "torch.arange(len(units))",
    )


def _refusal(method: Method, reason: str) -> PodiumError:
    return PodiumError(f"{method.name} cannot be written as one file: {reason}. podium methods show prints its parts.")


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def _advantage(method: Method, part: Normalize) -> Iterator[str]:
    """The statements that make `advantage` [rollout] from `reward`, `group` and `mask`."""
    unusual = {
        "of": part.of != "rollout.reward",
        "key": part.key != ("group",),
        "weight": part.weight not in (None, "rollout.length"),
        "baseline": part.baseline is not None,
        "scope": part.scope not in (None, ()),
        "scope_weight": part.scope_weight is not None,
        "trained_only": part.trained_only,
        "virtual": part.virtual > 0,
        "centre": part.centre not in ("mean", "leave_one_out", "none"),
        "scale": part.scale not in ("std", "mean", "none"),
        "limit": part.limit is not None and not isinstance(part.limit, (int, float)),
    }
    for setting in (name for name, found in unusual.items() if found):
        raise _refusal(method, f"Normalize.{setting} = {getattr(part, setting)!r} is not written as a single file yet")
    yield "n = of_group(torch.ones_like(reward), group)  # the size of each rollout's group"
    if part.centre == "none":
        yield "advantage = reward"
    elif part.centre == "leave_one_out":
        yield "others = (of_group(reward, group) - reward) / (n - 1).clamp(min=1)  # the mean of the others"
        yield "advantage = reward - others"
    elif part.weight:
        yield "length = mask.sum(1).to(reward.dtype)"
        yield "mean = of_group(length * reward, group) / of_group(length, group)  # longer answers count more"
        yield "advantage = reward - mean"
    else:
        yield "mean = of_group(reward, group) / n"
        yield "advantage = reward - mean"
    if part.singleton == "raw" and part.centre != "none":
        yield "advantage = torch.where(n > 1, advantage, reward)  # nothing to compare with"
    elif part.singleton == "raw_if_all":
        yield "advantage = torch.where(n > 1, advantage, reward * bool((n <= 1).all()))"
    elif part.singleton == "error":
        yield 'assert bool((n > 1).all()), "a group of one has no baseline"'
    if part.scale != "none":
        yield from _scale(part)
    if part.singleton == "zero":
        yield "advantage = torch.where(n > 1, advantage, 0)"
    if part.limit is not None:
        yield f"advantage = advantage.clamp({-float(part.limit)!r}, {float(part.limit)!r})"


def _shapes(method: Method) -> Iterator[str]:
    """The statements that change `advantage` afterwards."""
    for part in method.shape:
        if type(part) is KeepSign and part.level == "rollout" and part.on == 1:
            kept = "<" if part.sign == "negative" else ">"
            yield f"advantage = advantage.where(advantage {kept} 0, 0)  # the others stay in the denominators"
        elif type(part) is Rescale and part.key == () and part.count in ("active", "nonzero"):
            if part.count == "active":
                yield "carries = (reward - of_group(reward, group) / n).abs() > 0"
                yield "carries = of_group(carries.to(reward.dtype), group) > 0  # groups with a signal"
            else:
                yield "carries = reward != 0"
            yield "advantage = advantage * len(reward) / carries.sum().clamp(min=1)"
        else:
            name = type(part).__name__
            raise _refusal(method, f"its part {name} (shape) is not written as a single file yet")


def _scale(part: Normalize) -> Iterator[str]:
    whole = part.scope == ()
    minus = " - 1" if part.unbiased else ""
    if part.scale == "mean":
        yield "scale = (of_group(reward, group) / n).clamp(min=0)"
        yield "scale = torch.where(n > 1, scale, 1)"
    elif whole:
        spread = f"reward.std(unbiased={part.unbiased})"
        yield f"scale = {spread}.expand_as(reward) if len(reward) > 1 else torch.ones_like(reward)"
    else:
        yield "deviation = reward - of_group(reward, group) / n"
        yield f"scale = (of_group(deviation.square(), group) / (n{minus}).clamp(min=1)).sqrt()"
        yield "scale = torch.where(n > 1, scale, 1)"
    softened = {
        "outside": f"scale + {part.epsilon!r}",
        "inside": f"(scale.square() + {part.epsilon!r}).sqrt()",
        "floor": f"scale.clamp(min={part.epsilon!r})",
    }[part.epsilon_at]
    if part.zero_scale == "skip" or part.epsilon == 0:
        yield f"advantage = advantage / torch.where(scale != 0, {softened}, 1)"
    else:
        yield f"advantage = advantage / ({softened})"


def _aggregate(method: Method, aggregate: Aggregate, name: str) -> str:
    """A function that makes one number of a loss per token."""
    steps = aggregate.steps()
    levels = [level for level, *_ in steps]
    if levels not in (["token"], ["token", "rollout"]) or not isinstance(aggregate.length, (int, float, type(None))):
        raise _refusal(method, f"its losses are aggregated by {str(aggregate)!r}")
    (_, how, divisor), *rest = steps
    lines = [
        f"def {name}(loss: Tensor, mask: Tensor) -> Tensor:",
        f'    """[batch, token] to a number: {aggregate}."""',
    ]
    over = _over(aggregate, divisor)
    lines.append("    loss = torch.where(mask, loss, 0)")
    if not rest:
        total = "loss.sum()" + (" / mask.sum().clamp(min=1)" if how == "mean" else "")
        return "\n".join([*lines, f"    return {total}{over}"])
    each = "loss.sum(1)" + (" / mask.sum(1).clamp(min=1)" if how == "mean" else "")
    lines.append(f"    each = {each}{over}  # [batch]")
    (_, how, divisor) = rest[0]
    over = _over(aggregate, divisor)
    if how == "sum":
        lines.append(f"    return each.sum(){over}")
    elif how == "mean":
        lines.append(f"    return each.sum() / mask.any(1).sum().clamp(min=1){over}")
    else:
        lines.append(f"    return each.mean(){over}")
    return "\n".join(lines)


def _over(aggregate: Aggregate, divisor: str) -> str:
    """The division by a constant."""
    number = aggregate.length if divisor == "length" else divisor
    return "" if divisor == "1" else f" / {float(number)!r}"  # type: ignore[arg-type]


def _term(method: Method, term: Term, aggregate: str) -> tuple[str, str]:
    """The name of a summand of the loss, and the statements that compute it."""
    if term.where or term.weight or term.trains != "policy" or not isinstance(term.coefficient, (int, float)):
        raise _refusal(method, f"{type(term).__name__} is routed, weighted or scheduled")
    if type(term) is PolicyGradient:
        name, lines = "policy", list(_surrogate(method, term))
    elif type(term) is KL:
        name, lines = f"kl_{term.anchor}", list(_kl(method, term))
    else:
        raise _refusal(method, f"its term {type(term).__name__} is not written as a single file yet")
    factor = "" if term.coefficient == 1 else f"{float(term.coefficient)!r} * "
    return name, "\n".join([*lines, f"{name} = {factor}{aggregate}(loss, mask)"])


def _surrogate(method: Method, term: PolicyGradient) -> Iterator[str]:
    if term.advantage != "advantage" or term.behaviour not in ("old", "sampler"):
        raise _refusal(method, f"PolicyGradient compares with {term.behaviour}, or credits by {term.advantage}")
    if term.ratio not in ("none", "token", "sequence"):
        raise _refusal(method, f"its importance ratio is that of a {term.ratio}")
    clip = term.clip
    if clip is not None and not _is_written(clip):
        raise _refusal(method, f"its trust region is {clip!r}")
    yield "a = advantage[:, None]"
    if term.ratio == "none":
        yield "loss = -a * logp"
        return
    yield "log_ratio = logp - old_logp" + ("  # old_logp: that of the sampler" if term.behaviour == "sampler" else "")
    if isinstance(clip, Clip) and clip.kind == "log":
        low, high = float(clip.low), float(clip.high)
        yield f"low = torch.full_like(a, -math.inf).masked_fill(a < 0, {-low!r})"
        yield f"high = torch.full_like(a, math.inf).masked_fill(a > 0, {high!r})"
        yield "log_ratio = torch.minimum(torch.maximum(log_ratio, low), high)  # on the side to which A pushes"
    if term.ratio == "sequence":
        yield "length = mask.sum(1, keepdim=True).clamp(min=1)"
        yield "mean = torch.where(mask, log_ratio, 0).sum(1, keepdim=True) / length  # of the sequence"
        if term.shared:
            yield "log_ratio = mean.expand_as(log_ratio)"
        else:
            yield "log_ratio = log_ratio - log_ratio.detach() + mean.detach()  # its value, each token's own gradient"
    limits = f"{-term.clamp!r}, {term.clamp!r}" if term.ratio == "token" else f"max={min(term.clamp, 10.0)!r}"
    yield f"ratio = log_ratio.clamp({limits}).exp()"
    if isinstance(clip, SoftGate):
        yield f"tau = torch.full_like(a, {float(clip.negative)!r}).masked_fill(a > 0, {float(clip.positive)!r})"
        yield "loss = -a * torch.sigmoid(tau * (ratio - 1)) * 4 / tau"
        return
    if isinstance(clip, DivergenceMask):
        yield from _divergence(clip)
        return
    assert clip is None or isinstance(clip, Clip)
    if clip is None or clip.kind == "log":
        yield "loss = -a * ratio"
        return
    low, high = 1 - float(clip.low), 1 + float(clip.high)
    if clip.kind == "weight":
        yield f"loss = -a * ratio.detach().clamp({low!r}, {high!r}) * logp"
        return
    yield f"loss = torch.maximum(-a * ratio, -a * ratio.clamp({low!r}, {high!r}))"
    if clip.dual is not None:
        yield f"loss = torch.where(a < 0, torch.minimum(loss, -a * {float(clip.dual)!r}), loss)"


def _is_written(clip: TrustRegion) -> bool:
    """Whether a trust region is one of those that are written here, with numbers as its settings."""
    numbers = all(isinstance(value, (int, float, str, type(None))) for value in clip.settings().values())
    if type(clip) is Clip:
        return not isinstance(clip.low, str) and not isinstance(clip.high, str)
    return numbers and type(clip) in (SoftGate, DivergenceMask)


def _divergence(clip: DivergenceMask) -> Iterator[str]:
    yield "now = logp.detach()"
    yield "old = now - log_ratio.detach()"
    yield "p, p_old = now.exp(), old.exp()"
    if clip.kind == "tv":
        yield "divergence = (p - p_old).abs()"
    else:
        yield f"others = ((1 - p_old).clamp(min=0) + {TINY!r}).log() - ((1 - p).clamp(min=0) + {TINY!r}).log()"
        yield "divergence = p_old * (old - now) + (1 - p_old) * others"
    yield f"rising = (a > 0) & (p > p_old) & (divergence > {float(clip.high)!r})"
    yield f"too_far = rising | ((a <= 0) & (p < p_old) & (divergence > {float(clip.low)!r}))"
    cap = "" if clip.cap is None else f".clamp(max={float(clip.cap)!r})"
    yield f"loss = (-a * ratio.detach(){cap} * logp).masked_fill(too_far, 0)"


def _kl(method: Method, term: KL) -> Iterator[str]:
    if term.power != 1.0 or term.min_p != 0.0 or term.anchor not in ("ref", "old", "sampler"):
        raise _refusal(method, f"its KL is {term!r}")
    yield "d = ref_logp - logp" if term.anchor == "ref" else "d = old_logp - logp"
    if term.estimator in ("k3", "forward"):
        yield f"d = d.clamp({-term.clamp!r}, {term.clamp!r})"
    yield f"loss = {ESTIMATORS[term.estimator]}"
    if term.limit is not None:
        yield f"loss = loss.clamp({-term.limit!r}, {term.limit!r})"
    if term.corrected:
        yield f"loss = loss * (logp - old_logp).clamp({-term.clamp!r}, {term.clamp!r}).exp()"
