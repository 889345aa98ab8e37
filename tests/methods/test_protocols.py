"""Every recipe says how its authors train it and where it trains by default, and both can be built."""

from __future__ import annotations

from contextlib import closing

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import RECIPES, get, home_of
from podium.training.config import Config
from podium.training.preflight import check_fit
from podium.training.resolve import check_context, facts_of, fill_in, updates_per_batch
from tests.methods.catalogue import NAMES

TINY_CONTEXT = 512
# A judge is at chance after twelve iterations, and above it after some 260.
LONG_HOMES = {"think-rm@judge", "think-rm@short"}
NETWORKS = {"podium/chooser", "podium/flow"}  # write no text: an iteration takes about a second


@pytest.mark.parametrize("slug", [slug for slug, entry in RECIPES.items() if entry.protocol is not None])
def test_the_published_run_round_trips_and_is_refused_where_the_model_cannot_hold_it(slug: str) -> None:
    paper = get(f"{slug}@paper")
    assert all(leaf.protocol is not None and leaf.protocol.exact for leaf in paper.leaves())
    assert Method.from_yaml(paper.to_yaml()) == paper
    with closing(worlds.get(home_of(slug).world)) as world:
        config = fill_in(Config(paper, world=home_of(slug).world), world)
    if config.max_tokens >= TINY_CONTEXT:
        with pytest.raises(PodiumError, match=rf"{slug}@paper samples answers of {config.max_tokens} tokens"):
            check_context(config, TINY_CONTEXT)


@pytest.mark.parametrize("name", NAMES)
def test_a_method_fits_its_home(name: str) -> None:
    home, method = home_of(name), get(name)
    assert set(home.world.removeprefix("mix:").split(",")) <= set(worlds.EMBEDDED)
    assert home.iterations <= (30 if home.model in NETWORKS else 12) or name in LONG_HOMES
    with closing(worlds.get(home.world, **home.world_settings)) as world:
        # The sizes of an exact protocol are not those of its home.
        plain = method.each(lambda leaf: leaf.replace(protocol=leaf.protocol and leaf.protocol.replace(exact=False)))
        config = fill_in(Config(plain, **home.run_settings), world)
        warnings = check_fit(config.method, world, home.world, facts_of(config, world))
    if "@" not in name:
        assert [warning for warning in warnings if "mini-batches of whole groups" in warning] == []
        assert config.method.updates.unit != "group" or config.tasks >= config.method.main().updates.mini_batches
        assert updates_per_batch(config.method) >= 1
