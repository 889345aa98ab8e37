"""`podium claims`: what papers say of their methods, measured."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podium.cli.commands import Commands
from podium.cli.console import line, table
from podium.core.errors import PodiumError, nearest

if TYPE_CHECKING:
    from podium.claims import MethodClaim

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    help="Measure what papers claim of their methods, against baselines without the mechanism.",
    invoke_without_command=True,
)
Folder = Annotated[Path, typer.Option("--results", help="The folder of the results; what is there already is used.")]
RESULTS = Path("evidence")


@app.callback()
def root(context: typer.Context) -> None:
    """Measure what papers claim of their methods, against baselines without the mechanism."""
    if context.invoked_subcommand is None:
        line(context.get_help())


@app.command("list")
def list_claims() -> None:
    """List the claims: what is said, where it is measured, and by which metric."""
    from podium.claims import CLAIMS
    from podium.claims.claim import fingerprint

    rows = [[c.slug, c.says, c.cell.name, f"{c.metric}, {c.direction}", fingerprint(c)] for c in CLAIMS.values()]
    table(["method", "claim", "cell", "metric", "hash"], rows)


@app.command()
def run(
    slugs: Annotated[list[str] | None, typer.Argument(metavar="[METHOD]...", help="Methods with a claim.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All claims.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that share the runs.")] = 1,
    budget: Annotated[float | None, typer.Option(help="Hours after which no further run begins.", min=0)] = None,
    active: Annotated[bool, typer.Option("--active", help="Only find out whether the mechanisms act.")] = False,
    results: Folder = RESULTS,
) -> None:
    """Measure claims, or go on with them: gates, learning rates, then pairs of runs, look by look.

    Each run is kept as soon as it is done. The same command goes on where it was stopped, also elsewhere with a copy of
    the results.
    """
    from podium.claims import CLAIMS
    from podium.claims.frozen import check_frozen
    from podium.claims.running import ClaimsRun, run_claims

    if not slugs and not everything:
        raise PodiumError("Name methods, or all of them: podium claims run --all")
    chosen = [_claim(slug) for slug in slugs] if slugs else list(CLAIMS.values())
    check_frozen(chosen)
    standings = run_claims(chosen, ClaimsRun(results, jobs, budget, active=active), line)
    line()
    table(["method", "state", ""], [[s.claim.slug, s.state, s.why] for s in standings])


@app.command("table")
def show(results: Folder = RESULTS) -> None:
    """Print what has been found of each claim."""
    from podium.claims import CLAIMS
    from podium.claims.report import HEADER, claims_table
    from podium.claims.results import Results
    from podium.claims.standing import stand

    known = Results(results)
    rows = claims_table([stand(claim, known) for claim in CLAIMS.values()])
    kept = [HEADER.index(name) for name in ("method", "cell", "metric", "verdict", "effect", "active")]
    table([HEADER[n] for n in kept], [[row[n] for n in kept] for row in rows])


@app.command()
def page(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/claims.md"), results: Folder = RESULTS
) -> None:
    """Write the page of all claims."""
    from podium.claims import CLAIMS
    from podium.claims.frozen import read_frozen
    from podium.claims.report import claims_page
    from podium.claims.results import Results
    from podium.claims.standing import stand
    from podium.store.files import atomic_text

    known = Results(results)
    earlier = [
        (slug, old["number"], old["hash"], new["because"])
        for slug, entries in read_frozen().items()
        for old, new in pairwise(entries)
    ]
    atomic_text(out, claims_page([stand(claim, known) for claim in CLAIMS.values()], earlier))
    line(f"Page: {out}")


def _claim(slug: str) -> MethodClaim:
    from podium.claims import CLAIMS

    if slug not in CLAIMS:
        raise PodiumError(f"No claim of {slug!r} has been stated. {nearest(slug, CLAIMS)}")
    return CLAIMS[slug]
