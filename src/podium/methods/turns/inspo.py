"""INSPO: instructions and policy evolve together."""

from __future__ import annotations

from podium.core.schedule import Number
from podium.core.shares import ShareOfRun
from podium.memories import Instructions
from podium.method import Home, Method, Protocol, Role
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe
from podium.strategies import Instructed
from podium.strategies.advice.proposers import AdviceMutator, InstructionWriter

__all__ = ["inspo"]


@recipe(
    summary="A population of instructions competes inside RL: credit by reward, pruning, new ones from failures.",
    citation="Agentic Policy Optimization via Instruction-Policy Co-Evolution, https://arxiv.org/abs/2512.01945",
    tags=("prompt optimisation", "instructions", "evolution", "search agents"),
    protocol=Protocol(model="Qwen2.5-3B", source="arXiv 2512.01945, as far as its summaries say"),
    home=Home("lookup", level=1, iterations=12, tasks=16, model="podium/tiny2"),
    presets={"paper": {"every": 20.0}},
)
def inspo(
    n: int = 8,
    start: tuple[tuple[str, ...], ...] = (("answer at once",), ("search when you do not know",)),
    temperature: float = 0.2,
    rate: float = 0.1,
    every: Number = ShareOfRun(0.25),
    most: int = 8,
    candidates: int = 4,
    verify: int = 32,
    proposer: InstructionWriter = AdviceMutator(),
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 2,
) -> Method:
    """Each question draws an instruction j with p_j ∝ exp(w_j / temperature), which all its rollouts follow; the policy
    learns by GRPO, whose baseline is that of the question and its instruction; w_j ← (1 − rate) w_j + rate · R̄_j for
    the mean reward R̄_j of the groups that used it. Every `every` iterations the better half stays, `proposer` writes
    `candidates`, each is tried once on `verify` questions of the batch with the current policy, and those at or above
    the lowest that stays join with their mean reward as weight, up to `most`.

    A single instruction without candidates is GRPO. Adding a constant to all weights changes nothing. Evaluation shows
    the instruction of highest weight. The paper says that weights are moved by the rewards, not how: the update and all
    constants but the structure are ours, and so is the set of questions on which candidates are tried. The paper starts
    from one instruction; here there are two, so that they compete from the first iteration on.

    Args:
        n: Rollouts per task (the group size).
        start: The first instructions, each as lines.
        temperature: Of the softmax by which instructions are drawn.
        rate: Of the moving average of rewards.
        every: Iterations between evolutions.
        most: Instructions at most.
        candidates: New instructions per evolution.
        verify: Questions of the batch on which each is tried.
        proposer: Who writes new instructions: a mutation of lines, a role, or a server on this machine.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    plain = grpo(n=n, clip=clip, kl=kl, mini_batches=mini_batches)
    memory = Instructions(start=start, temperature=temperature, rate=rate, every=every, most=most)
    roles = (*plain.roles, *(Role(name) for name in proposer.roles))
    return plain.with_(
        rollout=Instructed(n=n, proposer=proposer, candidates=candidates, verify=verify),
        memories=(memory,),
        roles=roles,
    )
