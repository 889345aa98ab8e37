"""Which method runs in which other trainer? Found by trying: each takes two optimiser steps there, or is refused.

    python -m tools.checks.hosts trl        # in an environment with TRL 1.16: `make parity` makes one

Writes src/podium/hosts.json, which `podium methods show` and docs/guide/trl.md read.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from pathlib import Path

from podium import methods
from podium.core.errors import PodiumError
from podium.methods.catalogue import RECIPES

__all__ = ["FILE", "attempt"]

ROOT = Path(__file__).parents[2]
FILE = ROOT / "src" / "podium" / "hosts.json"


def attempt(name: str) -> str:
    """What became of a method in TRL: `runs`, `runs` with a remark, or why it does not."""
    sys.path.insert(0, str(ROOT / "tests" / "parity"))
    from hosted_trl import right, train

    from podium.integrations.host import IN_TRL, HostTrainer, refusals, remarks
    from podium.integrations.trl import settings
    from podium.integrations.trl_episodes import WorldEpisodes

    method = methods.get(name)
    given = {*IN_TRL, "rollout.answer", "rollout.reference_answer", "rollout.reward.right"}
    if not refusals(method, HostTrainer("TRL", given)):
        how = {"answer": lambda text: text[-1:]}
    elif reasons := refusals(method, HostTrainer("TRL", given, turns=True)):
        return " ".join(reasons)
    else:
        how = {"answer": lambda text: text[-1:], "episodes": WorldEpisodes("keydoor", tasks=8, level=1)}
        how["max_completion_length"] = 128
    how.setdefault("reward_funcs", right)
    drawn = settings(method)
    fitting = {"num_generations": 4, "num_iterations": min(drawn["num_iterations"], 2)}
    seen = train(method, steps=2, **how, **{**drawn, **fitting, "use_bias_correction_kl": False})
    if not all(bool(g.isfinite().all()) for g in seen.gradients) or not any(bool(g.any()) for g in seen.gradients):
        return "Its gradients there are 0 or not finite."
    turns = ["with a rollout_func that plays several turns"] if "episodes" in how else []
    return " ".join(["runs", *turns, *(f"({remark})" for remark in remarks(method))])


def _write_table(host: str, found: dict[str, dict[str, str]]) -> None:
    """The table in the page of the host."""
    page = ROOT / "docs" / "guide" / f"{host}.md"
    text = page.read_text("utf-8")
    head, begin, rest = text.partition(f"<!-- what runs in {host} -->\n")
    _, end, tail = rest.partition("<!-- end -->")
    rows = {name: entry[host] for name, entry in sorted(found.items()) if host in entry}
    count = sum(outcome.startswith("runs") for outcome in rows.values())
    cells = {name: outcome.replace("|", "\\|").replace("[", "\\[") for name, outcome in rows.items()}
    listed = "".join(f"| {name} | {outcome} |\n" for name, outcome in cells.items())
    table = f"\n{count} of {len(rows)} methods run.\n\n| method | in {host.upper()} |\n| --- | --- |\n{listed}\n"
    page.write_text(head + begin + table + end + tail, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("host", choices=["trl"])
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    found = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    for name in arguments.names or sorted(RECIPES):
        try:
            outcome = attempt(name)
        except PodiumError as problem:
            outcome = str(problem)
        except (ValueError, KeyError, RuntimeError, TypeError, IndexError) as problem:
            outcome = f"{type(problem).__name__}: {problem}".splitlines()[0]
        found.setdefault(name, {})[arguments.host] = outcome
        print(f"{name}: {outcome}", file=sys.stderr, flush=True)
    FILE.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n", "utf-8")
    _write_table(arguments.host, found)
    runs = sum(entry.get(arguments.host, "").startswith("runs") for entry in found.values())
    print(f"{runs} of {len(found)} methods run in {arguments.host}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
