"""Rollouts that share beginnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.policy.head.divergence import semantic_divergence
from podium.strategies import Cutpoints
from podium.strategies.budgets.prune import calibrated, quotas, survival, survivors
from podium.strategies.trees.search import Search, backed_up
from tests.conformance.case import Case
from tests.conformance.helpers import credited, differentiate, padded
from tests.conformance.registry import adapter


@adapter("spo")
def spo(case: Case) -> dict[str, Any]:
    return {"chain": _chain, "tree": _tree, "whiten": _whiten, "loss": _loss}[case["part"]](case)


def _chain(case: Case) -> dict[str, Any]:
    method = methods.spo("chain", **case.given(sure="prob_threshold", every="cutpoint_interval"))
    logp = case.logs("token_probs")
    points = method.rollout.fork_points  # type: ignore[union-attr]
    assert isinstance(points, Cutpoints)
    cuts = points(logp, [""] * len(logp), 0.0)
    base = Rollout(0, [_turn(logp)], columns=_columns(case["final_score"], Purpose.train, -1, -1, 0))
    probes = [
        Rollout(0, [_turn([])], columns=_columns(value, Purpose.baseline, 0, cut, i + 1))
        for i, (cut, value) in enumerate(zip(cuts, case["cutpoint_values"], strict=True))
    ]
    batch = Batch.from_rollouts([base, *probes], dtype=torch.float64)
    assert method.advantage is not None
    advantage = method.advantage(batch)["token.advantage"]
    return {"cutpoints": [cut - 1 for cut in cuts], "token_advantages": advantage}


def _turn(logp: list[float]) -> Turn:
    return Turn([1] * len(logp), tokens={"old.logp": logp})


def _columns(reward: float, purpose: Purpose, parent: int, fork: int, index: int) -> dict[str, Any]:
    return {
        "reward": float(reward),
        "purpose": int(purpose),
        "parent": parent,
        "fork": fork,
        "index": index,
        "truncated": False,
    }


def _tree(case: Case) -> dict[str, Any]:
    scale = "std" if case.hyper.get("adv_method") in ("standardised", "grpo") else "none"
    method = methods.spo(scale=scale)
    part = method.advantage.replace(**case.given(epsilon="eps"))  # type: ignore[union-attr]
    leaves = list(_leaves(case["tree"]))
    rollouts = [
        Rollout(0, [_path(names)], columns={"reward": float(reward), "index": i}, nodes={"key": names})
        for i, (names, reward) in enumerate(leaves)
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    found = part(batch)
    names = [name for path, _ in leaves for name in path]
    edges = {}
    for name, value, advantage in zip(
        names, found["node.value"].tolist(), found["node.advantage"].tolist(), strict=True
    ):
        edges[name] = {"id": name, "value": value, "advantage": advantage}
    _, value, _ = part.folded(batch)  # type: ignore[union-attr]
    return {"root_value": float(value[0]), "edges": [edges[name] for name in _preorder(case["tree"])]}


def _path(names: list[str]) -> Turn:
    """A token a segment."""
    return Turn([1] * len(names), tokens={"node": list(range(len(names)))})


def _leaves(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[list[str], float]]:
    """The leaves of a tree from the left: the names on the way, and the reward."""
    if not node.get("children"):
        yield list(path), node["reward"]
    for child in node.get("children") or ():
        yield from _leaves(child, (*path, child["id"]))


def _preorder(node: Mapping[str, Any]) -> Iterator[str]:
    for child in node.get("children") or ():
        yield child["id"]
        yield from _preorder(child)


def _whiten(case: Case) -> dict[str, Any]:
    drop, whiten, *_ = methods.spo("chain", **case.given(sure="prob_threshold")).shape
    batch = padded(case, {"token.advantage": "advantages"}, given=True)
    logp = torch.tensor(case.logs("old_token_probs"), dtype=torch.float64)
    batch = batch.with_columns({"token.old.logp": logp.reshape(-1)})
    if case.hyper.get("use_prob_mask", True):
        batch = batch.with_columns(drop(batch))
    part = whiten.replace(**case.given(epsilon="eps"))
    return {"whitened": batch.to_padded(part(batch)["token.advantage"])}


def _loss(case: Case) -> dict[str, Any]:
    method = methods.spo("chain", **case.given(sure="prob_threshold", clip="clip"))
    names = {"token.advantage": "advantages", "token.old.logp": "old_logp", "token.now.logp": "logp"}
    batch = padded(case, names)
    batch = batch.with_columns(method.shape[0](batch))
    outcome = differentiate(method.objective[:1], batch, live=[part for part in method.shape if part.live])
    return {"loss": outcome.step.loss, "loss_mask": batch.to_padded(batch.trained("token").double())}


@adapter("cure")
def cure(case: Case) -> dict[str, Any]:
    if case["part"] == "critical":
        points = methods.cure(stage=1, characters=2, **case.given(candidates="top_k")).rollout.fork_points  # type: ignore[union-attr]
        words = ["" if s else text for text, s in zip(case["token_text"], case["is_special"], strict=True)]
        (position,) = points(case["entropy"], words, case["uniform_draw"])
        found = points.eligible(case["entropy"], words)
        return {"candidates": found, "position": position, "kept_prefix_length": position}
    method = methods.cure(stage=1, **case.given(n="n1", branches="n2"))
    part = method.advantage.replace(**case.given(epsilon="eps"))  # type: ignore[union-attr]
    batch = Batch.from_rewards(case.tensor("rewards"), [0] * len(case["rewards"]), {})
    return {"advantages": part(batch)["rollout.advantage"]}


@adapter("rose")
def rose(case: Case) -> dict[str, Any]:
    if case["part"] == "branch_score":
        logp, embeddings = case.tensor("logp_candidates"), case.tensor("embeddings")
        return {"score": float(semantic_divergence(logp[None], embeddings[None], **case.given(top_k="top_k"))[0])}
    method = methods.rose(**case.given(length_exponent="length_exponent"))
    rows = zip(case["parent"], case["branch_pos"], case["length"], case["reward"], strict=True)
    rollouts = [
        Rollout(0, [Turn([1] * size)], columns={"reward": float(reward), "parent": p, "fork": fork, "index": i})
        for i, (p, fork, size, reward) in enumerate(rows)
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    part = method.advantage
    batch = credited(method, batch)
    place, has = part.places(batch)  # type: ignore[union-attr]
    value = part.values(batch, has)[0]  # type: ignore[union-attr]
    there = torch.tensor([any(column) for column in zip(*has.tolist(), strict=True)])
    width = max(10, *case["length"])
    pieces = [row.tolist() for row in batch["token.advantage"].split(list(case["length"]))]
    return {
        "token_advantages": [[*row, *[0.0] * (width - len(row))] for row in pieces],
        "position_values": {str(int(k)): float(v) for k, v in zip(place[there], value[there], strict=True)},
    }


@adapter("arrol")
def arrol(case: Case) -> dict[str, Any]:
    if case["part"] == "survival":
        p, draws = case.tensor("success_probability"), case.tensor("uniform_draw")
        method = methods.arrol(cold=0, **case.given(keep="keep_ratio", target="target_positive"))
        share = method.rollout.keep, method.rollout.target  # type: ignore[union-attr]
        good, bad = quotas(p, *share)
        q = survival(p, *share)
        kept = survivors(q, draws)
        return {
            "q_positive": float(good),
            "q_negative": float(bad),
            "survival_probability": q,
            "kept": [bool(k) for k in kept],
        }
    if case["part"] == "calibrate":
        method = methods.arrol(cold=0, **case.given(bins="bins", prior_weight="prior_weight"))
        (memory,) = method.memories
        seen = case.tensor("seen_scores")
        columns = {
            "rollout.quality": seen,
            "rollout.detected": torch.ones(len(seen), dtype=torch.bool),
            "rollout.pruned": torch.zeros(len(seen), dtype=torch.bool),
            "rollout.correct": torch.tensor(case["seen_correct"]).bool(),
        }
        state = memory.initial()
        if len(seen):
            state = memory.observe(state, Batch.from_rewards(torch.zeros_like(seen), [0] * len(seen), columns))
        weight = method.rollout.prior_weight  # type: ignore[union-attr]
        return {"success_probability": calibrated(case.tensor("query_scores"), state["count"], state["right"], weight)}
    answers, scores = case["answers"], case.tensor("head_scores")
    columns = {"rollout.answer": answers, "rollout.quality": scores}
    batch = Batch.from_rewards(torch.zeros(len(answers), dtype=torch.float64), [0] * len(answers), columns)
    part = methods.arrol().metric[-1]
    totals, winner = part.totals(batch).tolist(), part.winner(batch).tolist()  # type: ignore[attr-defined]
    return {"totals": dict(zip(answers, totals, strict=True)), "winner": answers[winner.index(True)]}


@adapter("deepsearch")
def deepsearch(case: Case) -> dict[str, Any]:
    method = methods.deepsearch(scale="std" if case.hyper.get("divide_by_std") else "none")
    assert isinstance(method.rollout, Search)
    if case["part"] == "backup":
        floor = method.rollout.replace(**case.given(floor="weight_floor")).floor
        values, visits = [0.0] * (case["chain_depth"] + 1), [0] * (case["chain_depth"] + 1)
        for depth, verdict in case["terminal_backups_depth_value"]:
            end = depth + 1
            values[:end], visits[:end] = backed_up(values[:end], visits[:end], verdict, floor)
        return {"values_root_to_leaf": values, "visits": visits}
    if case["part"] == "frontier":
        searched = methods.get("deepsearch@uncertain" if case.hyper.get("uncertainty") else "deepsearch")
        names = {"quality": "lambda1", "depth_weight": "lambda3", "max_depth": "max_depth"}
        names |= {"uncertainty": "lambda2"} if case.hyper.get("uncertainty") else {}
        strategy = searched.rollout.replace(**case.given(**names))  # type: ignore[union-attr]
        assert isinstance(strategy, Search)
        scores = [strategy.priority(x["parent_q"], x["depth"], x["logp"]) for x in case["nodes"]]
        return {"scores": scores, "selected": scores.index(max(scores))}
    part = method.advantage.replace(of="token.score", **case.given(epsilon="eps"))  # type: ignore[union-attr]
    batch = padded(case, {"token.score": "token_values"}, group=case["group"])
    return {"token_advantages": batch.to_padded(part(batch)["token.advantage"])}
