"""SPAE: step potential advantage estimation."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import PotentialCredit
from podium.parts.annotate import StepPotential
from podium.parts.keep import KeepMixed
from podium.parts.metric import PotentialWatch
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import Whiten
from podium.protocols.worded_steps import WordedSteps
from podium.strategies import Draw, StepProbes

__all__ = ["spae"]


@recipe(
    summary="Step potentials from forced answers: credits progress, penalises over-checking after the solution.",
    citation="SPAE: Step Potential Advantage Estimation, https://github.com/cii030/SPAE-RL",
    protocol=Protocol(
        model="DeepSeek-R1-Distill-Qwen-7B",
        tasks=640,
        max_turns=1,
        pool=17_000,
        source="https://github.com/cii030/SPAE-RL and notes on https://arxiv.org/abs/2601.03823",
    ),
    home=Home("sums", level=1, tasks=20),
    tags=("process reward", "step-level", "credit assignment", "overthinking", "dynamic sampling"),
    presets={
        "paper": {"imitate": 0},
        "lines": {"after": "\n", "probe": "answer:", "answer": " {}", "boxed": False, "imitate": 0},
    },
)
def spae(
    n: int = 8,
    imitate: Count = ShareOfRun(0.34),
    alpha: float = 0.5,
    xi: float = 0.5,
    saturation: float = 0.9,
    epsilon: float = 1e-8,
    probes: int = 5,
    probe_tokens: int = 10,
    after: str = ".\n\n",
    probe: str = "**Final Answer**\n\\boxed{",
    answer: str = "{}",
    boxed: bool = True,
    mini_batches: int = 20,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    max_rounds: int = 10,
) -> Method:
    """Φ = 1.5·Acc·Conf + 0.5·Acc − Conf after each step, from `probes` sampled answers (Conf) and the right answer's
    probability (Acc); A = (R − mean)·f + xi·g, where f falls from 1 to 1 − alpha once Φ has passed `saturation` and g
    is the rise of Φ; then (A − mean)/(std + epsilon) over the tokens of the batch. DAPO's clip and dynamic sampling.

    Solutions are written as steps that end with `after`, then the probe's text, the answer and `}`. Models that were
    not trained to write like this are taught first (`imitate`); the authors' were. alpha = xi = 0 is REINFORCE++ with a
    group baseline. `@lines` takes solutions as the embedded worlds write them, where a step is a line.
    The released probe script takes sums of log-probabilities and entropies where the text, and this, takes means; for
    answers of one token both agree. Entropies are those of the distribution the probes are sampled from.

    Args:
        n: Rollouts per task (the group size).
        imitate: Iterations that imitate the world's solutions in this format, before everything else; 0: none.
        alpha: Credit that steps lose after the solution.
        xi: Weight of the rise in potential.
        saturation: Potential from which on a task counts as solved.
        epsilon: Added to the standard deviation.
        probes: Answers sampled after each step.
        probe_tokens: Tokens of such an answer at most.
        after: Text that ends a step.
        probe: Text that is appended to force an answer.
        answer: How the right answer is written after it.
        boxed: Whether solutions are asked for, and read, in the format that the probe continues.
        mini_batches: Optimiser steps per batch.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
    """
    draw = Draw(format=WordedSteps(separator=after, answer=probe + answer + "}")) if boxed else Draw()
    strategy = StepProbes(n, after, probe, answer, probe_n=probes, probe_tokens=probe_tokens, draw=draw)
    method = Method(
        rollout=strategy,
        annotate=(StepPotential(),),
        keep=(KeepMixed(max_rounds=max_rounds),),
        advantage=PotentialCredit(alpha, xi, saturation),
        shape=(Whiten(epsilon=epsilon, epsilon_at="outside"),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(PotentialWatch(),),
    )
    return taught(method, imitate, draw)
