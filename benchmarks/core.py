"""How long Podium's advantages and losses take, against verl's own functions, in one run.

    PYTHONPATH=src python benchmarks/core.py            # 8,192 rollouts of up to 512 tokens, 2 threads

Run it in an environment that has verl (`python tests/parity/run.py` makes one); without verl it prints Podium's times
alone. Both sides start from the same [B, T] tensors, run in turn in every repetition, and the best time of each counts.

- advantages: verl's function gives [B, T]. `part` is Podium's parts on a ready batch, up to a value per token;
  `whole` adds what verl's users would need around it: from_padded before, to_padded after.
- losses: forward and backward to the gradient by the log-probabilities. `part` is Podium's term on a ready batch of
  flat columns; `whole` starts from [B, T] columns (from_padded) and ends with a gradient of [B, T].
- method: advantage and loss together.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from podium import methods
from podium.core.batch import Batch
from podium.core.term import Aggregate
from podium.method import Method

LAYOUTS = ("uniform", "full")
AIM = 5
MODES = {
    "token-mean": "token mean",
    "seq-mean-token-mean": "token mean, rollout mean",
    "seq-mean-token-sum": "token sum, rollout mean",
}


@dataclass(frozen=True)
class Case:
    """A method on both sides: verl's names for its advantage and loss, and Podium's recipe with the same settings."""

    name: str
    recipe: dict[str, Any]
    advantage: str
    loss: str
    mode: str = "token-mean"


CLIP = {"clip_low": 0.2, "clip_high": 0.2}
CASES = (
    Case("grpo", {"kl": 0.0, "dual": 3.0}, "compute_grpo_outcome_advantage", "compute_policy_loss_vanilla"),
    Case("rloo", {"kl": 0.0}, "compute_rloo_outcome_advantage", "compute_policy_loss_reinforce", "seq-mean-token-sum"),
    Case(
        "reinforce-plus-plus",
        {"kl": 0.0},
        "compute_reinforce_plus_plus_outcome_advantage",
        "compute_policy_loss_vanilla",
    ),
    Case("gspo", CLIP, "compute_grpo_outcome_advantage", "compute_policy_loss_gspo", "seq-mean-token-mean"),
    Case("cispo", CLIP, "compute_grpo_outcome_advantage", "compute_policy_loss_cispo"),
)
# verl's own faster variants of two of them, which its users must ask for by name.
VECTORISED = {
    "grpo": "compute_grpo_vectorized_outcome_advantage",
    "rloo": "compute_rloo_vectorized_outcome_advantage",
}


@dataclass(frozen=True)
class Padded:
    """The tensors of a trainer: [B, T] in float32."""

    mask: Tensor
    group: Any
    reward: Tensor  # [B]
    token_reward: Tensor
    old: Tensor
    now: Tensor
    advantage: Tensor


def padded(layout: str, rows: int, width: int, size: int) -> Padded:
    import numpy as np

    g = torch.Generator().manual_seed(0)
    length = torch.randint(width // 4, width + 1, (rows,), generator=g)
    if layout == "full":
        length = torch.full((rows,), width)
    mask = (torch.arange(width) < length[:, None]).float()
    reward = (torch.rand(rows, generator=g) < 0.5).float()
    old = -2 * torch.rand(rows, width, generator=g)
    return Padded(
        mask=mask,
        group=np.array([f"task {i // size}" for i in range(rows)], dtype=object),
        reward=reward,
        token_reward=torch.zeros(rows, width).index_put((torch.arange(rows), length - 1), reward),
        old=old,
        now=old + 0.2 * torch.randn(rows, width, generator=g),
        advantage=torch.randn(rows, 1, generator=g) * mask,
    )


class Clock:
    """The best of several measurements, by name."""

    def __init__(self) -> None:
        self.best: dict[str, float] = {}

    def lap(self, name: str, start: float) -> float:
        now = time.perf_counter()
        self.best[name] = min(self.best.get(name, float("inf")), 1e3 * (now - start))
        return now


def method_of(case: Case) -> Method:
    method = methods.get(case.name, **case.recipe)
    return method.set("objective.PolicyGradient.aggregate", Aggregate(MODES[case.mode]))


def credit(method: Method, batch: Batch) -> Tensor:
    """[token] advantages after the method's reward, advantage and shape stages."""
    for part in (*method.annotate, *method.reward, method.advantage, *method.shape):
        assert part is not None
        batch = batch.with_columns(part(batch))
    advantage: Tensor = batch["token.advantage"]
    return advantage


def our_advantage(case: Case, data: Padded, clock: Clock) -> Tensor:
    method = method_of(case)
    start = time.perf_counter()
    batch = Batch.from_padded(data.mask, data.group, {"rollout.reward": data.reward})
    ready = clock.lap("from_padded", start)
    flat = credit(method, batch)
    clock.lap("part", ready)
    result = batch.to_padded(flat)
    clock.lap("whole", start)
    return result


def our_loss(case: Case, data: Padded, clock: Clock) -> Tensor:
    (term,) = method_of(case).objective
    columns = {"token.advantage": data.advantage, "token.old.logp": data.old}
    start = time.perf_counter()
    now = data.now.detach().requires_grad_()
    whole = Batch.from_padded(data.mask, data.group, columns | {"token.now.logp": now})
    clock.lap("from_padded", start)
    term(whole).backward()
    clock.lap("whole", start)
    # The same without the padding, as a trainer that packs its sequences has it.
    batch = Batch.from_padded(data.mask, data.group, columns)
    flat = whole["token.now.logp"].detach().requires_grad_()
    start = time.perf_counter()
    term(batch.with_columns({"token.now.logp": flat})).backward()
    clock.lap("part", start)
    assert now.grad is not None
    assert flat.grad is not None
    agree(f"gradients of {case.name}, flat and padded,", batch.to_padded(flat.grad), now.grad)
    return now.grad


class Verl:
    """verl's functions on the same tensors."""

    def __init__(self, size: int) -> None:
        from verl.trainer.config import AlgoConfig
        from verl.trainer.ppo import core_algos
        from verl.workers.config import ActorConfig

        self.algos = core_algos
        self.algorithm = AlgoConfig(gamma=1.0)
        self.actor = ActorConfig(strategy="fsdp", rollout_n=size, use_dynamic_bsz=True)

    def advantage(self, name: str, data: Padded, clock: Clock, lap: str = "verl") -> Tensor:
        function: Callable[..., tuple[Tensor, Tensor]] = getattr(self.algos, name)
        start = time.perf_counter()
        advantage, _ = function(
            token_level_rewards=data.token_reward, response_mask=data.mask, index=data.group, config=self.algorithm
        )
        clock.lap(lap, start)
        return advantage

    def loss(self, case: Case, data: Padded, clock: Clock) -> Tensor:
        function: Callable[..., tuple[Tensor, Any]] = getattr(self.algos, case.loss)
        start = time.perf_counter()
        now = data.now.detach().requires_grad_()
        loss, _ = function(data.old, now, data.advantage, data.mask, loss_agg_mode=case.mode, config=self.actor)
        loss.backward()
        clock.lap("verl", start)
        assert now.grad is not None
        return now.grad


def measure(case: Case, data: Padded, verl: Verl | None, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """The best times in ms of the advantage and of the loss, after checking that both sides agree."""
    advantage, loss = Clock(), Clock()
    for _ in range(repeats):
        ours = our_advantage(case, data, advantage)
        if verl is not None:
            theirs = verl.advantage(case.advantage, data, advantage)
            agree(f"advantages of {case.name}", ours, theirs * data.mask)
            if case.name in VECTORISED:
                verl.advantage(VECTORISED[case.name], data, advantage, "vectorised")
        gradient = our_loss(case, data, loss)
        if verl is not None:
            agree(f"gradients of {case.name}", gradient, verl.loss(case, data, loss))
    return advantage.best, loss.best


def agree(what: str, a: Tensor, b: Tensor) -> None:
    """Refuse to compare the times of different results; rounding may put a few ratios on the other side of a bound."""
    wrong = ~torch.isclose(a, b, rtol=1e-4, atol=1e-4 * b.abs().max().item())
    if wrong.double().mean() > 1e-5:
        raise SystemExit(f"The {what} differ at {int(wrong.sum())} of {wrong.numel()} tokens.")


def versus(theirs: float | None, ours: float) -> str:
    """`4.2 ms  12.3×`, or the time alone."""
    ratio = "" if theirs is None else f"{theirs / ours:5.1f}×"
    return f"{ours:7.1f} {ratio:>6}"


def table(title: str, rows: list[tuple[str, dict[str, float]]]) -> None:
    print(f"\n{title:<22}{'verl':>9}{'part':>9}{'':>6}{'from_padded':>13}{'whole':>9}")
    for name, t in rows:
        verl = t.get("verl")
        shown = "" if verl is None else f"{verl:.1f}"
        padding = f"{t['from_padded']:13.1f}" if "from_padded" in t else f"{'':13}"
        print(f"{name:<22}{shown:>9}{versus(verl, t['part']):>15}{padding}{versus(verl, t['whole']):>15}")


def below(
    advantages: list[tuple[str, dict[str, float]]],
    losses: list[tuple[str, dict[str, float]]],
    both: list[tuple[str, dict[str, float]]],
) -> str:
    """Where a part is not as much faster as aimed for."""
    kinds = {"advantage of": advantages, "loss of": losses, "method": both}
    return "; ".join(
        f"{kind} {name} {t['verl'] / t['part']:.1f}×"
        for kind, rows in kinds.items()
        for name, t in rows
        if t["verl"] < AIM * t["part"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=8192, help="rollouts (8192)")
    parser.add_argument("--width", type=int, default=512, help="tokens of the longest rollout (512)")
    parser.add_argument("--size", type=int, default=8, help="rollouts a group (8)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7, help="the best of these counts (7)")
    parser.add_argument("--only", nargs="*", choices=[c.name for c in CASES], help="methods (all)")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    warnings.filterwarnings("ignore")
    try:
        verl: Verl | None = Verl(chosen.size)
        from verl import __version__ as version
    except ImportError as error:
        verl, version = None, "not installed"
        print(f"verl cannot be imported here ({error}): Podium's times alone.")
        print("To compare: python tests/parity/run.py --only verl")
        print("then:       PYTHONPATH=src .cache/parity/verl/bin/python benchmarks/core.py\n")
    print(
        f"{chosen.rows} rollouts of up to {chosen.width} tokens, groups of {chosen.size}, float32, "
        f"{chosen.threads} threads, torch {torch.__version__}, verl {version}; ms, best of {chosen.repeats}"
    )
    for layout in LAYOUTS:
        data = padded(layout, chosen.rows, chosen.width, chosen.size)
        tokens = f"{int(data.mask.sum(dtype=torch.float64)):,} tokens"
        spread = f"uniform {chosen.width // 4} to {chosen.width}" if layout == "uniform" else f"all {chosen.width}"
        print(f"\n== lengths {spread}: {tokens}")
        advantages, losses, both = [], [], []
        for case in CASES:
            if chosen.only and case.name not in chosen.only:
                continue
            a, b = measure(case, data, verl, chosen.repeats)
            advantages.append((case.name, a))
            if "vectorised" in a:
                advantages.append((f"{case.name} (vectorised)", a | {"verl": a["vectorised"]}))
            losses.append((case.name, b))
            both.append((case.name, {k: a[k] + b[k] for k in ("verl", "part", "whole") if k in a}))
        table("advantages", advantages)
        table("losses", losses)
        table("method", both)
        if verl is not None:
            print(f"\nLess than {AIM}× faster: {below(advantages, losses, both) or 'nothing'}.")


if __name__ == "__main__":
    main()
