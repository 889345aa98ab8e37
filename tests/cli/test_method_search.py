"""`podium methods --search` finds methods by the words that people use for them."""

from __future__ import annotations

import pytest

from podium.cli.method_search import search_entries
from podium.docs.catalogue_text import EntryText, read_catalogue

CATALOGUE = read_catalogue()


def found(query: str) -> list[str]:
    return [entry.slug for entry in search_entries(CATALOGUE.entries.values(), query, CATALOGUE.families)]


@pytest.mark.parametrize(
    ("query", "slug"),
    [
        ("agents", "gigpo"),
        ("clip higher", "dapo"),
        ("credit assignment", "gigpo"),
        ("critic", "ppo"),
        ("curriculum", "adhint"),
        ("curricula", "vade"),
        ("data selection", "one-shot-rlvr"),
        ("demonstrations", "calibrl"),
        ("difficulty", "ares-aepo"),
        ("distillation", "srpo"),
        ("dynamic sampling", "dapo"),
        ("entropy collapse", "clip-cov-kl-cov"),
        ("exploration", "epo"),
        ("hint", "scaf-grpo"),
        ("importance sampling", "cispo"),
        ("kl", "grpo"),
        ("length bias", "dr-grpo"),
        ("long context", "iterresearch-eapo"),
        ("majority vote", "ttrl"),
        ("mcts", "deepsearch"),
        ("multi-turn", "gigpo"),
        ("off-policy", "st-ppo"),
        ("overthinking", "dler"),
        ("ppo", "ppo"),
        ("process reward", "implicit-prm"),
        ("replay buffer", "spear"),
        ("reward hacking", "clip-bias-spurious"),
        ("reward model", "think-rm"),
        ("rubric", "ruscarl"),
        ("self-consistency", "ttrl"),
        ("self-play", "mars"),
        ("sequence level", "gspo"),
        ("sft", "hpt"),
        ("test-time", "ttrl"),
        ("token level", "dapo"),
        ("tool use", "arpo"),
        ("tree search", "deepsearch"),
        ("unsupervised", "ttrl"),
        ("value function", "ppo"),
    ],
)
def test_what_people_type_finds_a_method_of_that_kind(query: str, slug: str) -> None:
    assert slug in found(query)


@pytest.mark.parametrize("slug", list(CATALOGUE.entries))
def test_a_slug_finds_itself_first(slug: str) -> None:
    assert found(slug)[0] == slug


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("off-policy", "Off Policy"),
        ("multi-turn", "multiturn"),
        ("self-play", "selfplay"),
        ("value function", "value-functions"),
        ("demonstration", "Demonstrations"),
        ("curriculum", "CURRICULA"),
        ("process reward", "process_rewards"),
    ],
)
def test_hyphens_case_and_plurals_make_no_difference(one: str, other: str) -> None:
    assert found(one) == found(other) != []


def test_all_words_of_a_query_count_before_some_of_them() -> None:
    both = found("entropy turn")
    assert set(both) <= set(found("entropy")) & set(found("turn"))
    assert found("entropy xyzzy") == found("entropy") or set(found("entropy xyzzy")) <= set(found("entropy"))
    assert found("xyzzy") == found("") == []


def test_a_tag_counts_more_than_a_remark_in_the_notes() -> None:
    def entry(slug: str, notes: str = "", tags: tuple[str, ...] = ()) -> EntryText:
        return EntryText(slug, "A method.", "", "base", "method", notes, tags, (), (), {})

    entries = [entry("remark", notes="Unlike a curriculum, all tasks count."), entry("tagged", tags=("curriculum",))]
    assert [e.slug for e in search_entries(entries, "curriculum", {})] == ["tagged", "remark"]
