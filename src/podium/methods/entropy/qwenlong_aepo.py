"""QwenLong-L1.5 (AEPO): adaptive entropy-controlled policy optimisation."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.memories import GateState
from podium.method import Home, Method, Phases, Protocol
from podium.methods._shared import clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import PolicyGradient
from podium.parts.select import Balanced
from podium.parts.shape import EntropyGate
from podium.strategies import Draw, ReadInChunks, Sample

__all__ = ["qwenlong_aepo"]


@recipe(
    summary="Long-context RL: task-balanced sampling and advantages; negative rollouts masked while entropy is high.",
    citation="QwenLong-L1.5, https://github.com/Tongyi-Zhiwen/Qwen-Doc",
    tags=("long context", "entropy", "stability", "negative samples", "advantage estimation"),
    protocol=Protocol(
        model="Qwen3-30B-A3B-Thinking-2507",
        lr=2e-6,
        schedule="constant",
        tasks=128,
        max_tokens=50000,
        source="Tongyi-Zhiwen/Qwen-Doc: QwenLong-L1.5/paper/QwenLong_1_5.pdf, sections 2.2, 4.1 and 5.1",
    ),
    home=Home("rules"),
    presets={"listing": {"memory": False}, "single": {"lengths": (), "chunks": 0}},
)
def qwenlong_aepo(
    n: int = 8,
    low: float = 0.15,
    high: float = 0.2,
    memory: bool = True,
    temperature: float = 0.7,
    top_p: float = 0.95,
    clip: float = 0.2,
    lengths: tuple[float, ...] = (0.24, 0.4, 1.0),
    chunks: int = 3,
    stage: Count = ShareOfRun(0.2),
    mini_batches: int = 1,
) -> Method:
    """Every domain is sampled equally often. A = (r − mean of the group) / (std over all rollouts of its domain in the
    batch + 1e-6). Above the entropy `high` rollouts without A > 0 and reward > 0 are left out, until it falls below
    `low`. On-policy GRPO without KL penalty: one update per batch, so that there is nothing to clip.

    Five stages in one run: three with answers of up to 12,000, 20,000 and 50,000 tokens, here shares of the run's
    limit; one of a memory agent, which reads the text of a task in `chunks` pieces and answers from its notes alone;
    and a last one like the third. The authors train the memory agent apart and merge the two models before the last
    stage: here one model learns both, one after the other. `@single` is the last stage alone.

    With one domain and one group, inside the band, it is GRPO. The bounds and the equal lengths of the stages are ours:
    the report gives none. The listing of the release has no memory and leaves rollouts out inside the band, contrary to
    its own text: `@listing`.

    Args:
        n: Rollouts per task (the group size).
        low: Entropy in nats below which negative rollouts are trained again.
        high: Entropy in nats above which they are left out.
        memory: Hysteresis: inside the band the last decision stays; False: inside the band they are left out.
        temperature: Sampling temperature.
        top_p: Nucleus sampling: the probability mass that is sampled from.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip], with several updates per batch.
        lengths: The share of the run's token limit that answers may take in each stage before the last.
        chunks: Pieces in which the memory agent reads a text; 0: no such stage.
        stage: Iterations of each stage but the last, or a share of the run.
        mini_batches: Optimiser steps per batch.
    """
    draw = Draw(temperature=temperature, top_p=top_p)
    last = Method(
        "full context",
        select=Balanced(),
        rollout=Sample(n=n, draw=draw),
        advantage=Normalize(scope=("rollout.domain",)),
        shape=(EntropyGate(low, high, memory),),
        objective=(PolicyGradient(clip=clip_for(mini_batches, clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.keep.gate"),),
        memories=(GateState(),) if memory else (),
    )
    stages = [last.with_(rollout=Sample(n=n, draw=draw.replace(token_share=share))) for share in lengths]
    if chunks:
        stages.append(last.replace(name="memory agent", rollout=ReadInChunks(n=n, chunks=chunks, draw=draw)))
    return Phases(*(method.until(stage) for method in stages), last) if stages else last
