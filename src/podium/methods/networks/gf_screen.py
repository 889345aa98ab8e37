"""GF-Screen: a glance decides which crops of a scan a segmenting network sees, and is rewarded by what that finds."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import GateLabels, GateSurrogate
from podium.strategies import Choose

__all__ = ["gf_screen"]


@recipe(
    summary="A cheap gate keeps the crops in which a segmenting network finds a lesion, compared over the whole batch.",
    citation="GF-Screen: Glance and Focus Reinforcement for Pan-cancer Screening, https://github.com/Luffy03/GF-Screen",
    tags=("chooser", "gate", "data selection", "segmentation", "group-relative"),
    presets={"paper": {}, "rewarded": {"labels": 0.0}, "supervised": {"labels": 1.0, "rewarded": False}},
    protocol=Protocol(model="a residual network at a glance beside one that segments", tasks=4, source="the release"),
    home=Home("scans", level=1, iterations=24, tasks=8, model="podium/chooser"),
)
def gf_screen(
    labels: float = 0.1,
    rewarded: bool = True,
    clip: float = 0.1,
    kl: float = 0.01,
    floor: float = 0.01,
    limit: float = 5.0,
    mini_batches: int = 4,
) -> Method:
    """A crop earns r = 1 if the segmenting network, run on it, marks a voxel of a lesion, else 0; A = (r − mean) /
    max(std, floor), within ±limit, over all crops of the batch, whichever scan they are of. Loss = mean of −min(ρ·A,
    clip(ρ)·A) + kl · (q − log q − 1), with ρ = p / p_old the ratio of the probabilities of keeping, q = p_old / p, plus
    labels · the cross-entropy on whether a crop has a lesion.

    All crops are tried in training, whatever was decided, so the surrogate is no policy gradient: it raises p where A >
    0 and lowers it elsewhere. Where all rewards are equal A is 0. `gf-screen@supervised` has the labels alone,
    `gf-screen@rewarded` the rewards alone. In the release both networks are trained together; here the one that
    segments is the world's and stays as it is. p_old is that before the updates of a batch, in the release that of the
    last epoch. Simulated scans and a gate of eight numbers per crop stand for CT volumes and a network on them.

    Args:
        labels: Weight of the cross-entropy on labels; 0 needs none.
        rewarded: Whether rewards train the gate.
        clip: Clip range of the ratio.
        kl: Coefficient of the penalty to the gate before the updates.
        floor: Least standard deviation that advantages are divided by.
        limit: Advantages are held within ± this.
        mini_batches: Optimiser steps per batch.
    """
    if not (rewarded or labels):
        raise PodiumError("gf-screen needs labels > 0, or rewarded: nothing would train the gate.")
    surrogate = (GateSurrogate(clip=clip, kl=kl),) if rewarded else ()
    supervised = (GateLabels(coefficient=labels),) if labels else ()
    advantage = Normalize(of="turn.found", key=(), epsilon=floor, epsilon_at="floor", limit=limit, singleton="zero")
    return Method(
        rollout=Choose(n=1),
        advantage=advantage,
        objective=(*surrogate, *supervised),
        updates=Updates(mini_batches=mini_batches),
    )
