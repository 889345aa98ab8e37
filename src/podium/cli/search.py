"""Finding methods by the words that people use for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from podium.docs.catalogue_text import EntryText

__all__ = ["search_entries"]

# What is searched, and how much a match there counts.
WEIGHTS = {"slug": 12.0, "tags": 8.0, "summary": 6.0, "citation": 4.0, "notes": 2.0, "family": 1.0}
# Words of the field, and what a method's text may say instead.
SYNONYMS = {
    "advantage estimation": ("baseline", "credit"),
    "agent": ("turns", "tools", "multi-turn", "episode"),
    "clip higher": ("clip high", "asymmetric clip", "upper clip", "decoupled clip"),
    "credit assignment": ("credit", "step advantage", "turn level", "process reward", "per-token advantage"),
    "critic": ("value function", "value model", "value head", "GAE"),
    "curriculum": ("difficulty", "easy to hard", "task selection", "solve rate"),
    "data selection": ("task selection", "curriculum", "prompt selection", "which tasks", "filter"),
    "demonstration": ("expert", "SFT", "supervised", "imitation", "solutions of the world"),
    "difficulty": ("hard tasks", "easy tasks", "solve rate", "success rate", "pass rate"),
    "distillation": ("teacher", "distil", "self-distillation"),
    "dynamic sampling": ("resample", "drop groups", "flat groups", "all right or all wrong", "oversample"),
    "entropy collapse": ("entropy", "entropy bonus"),
    "exploration": ("explore", "entropy", "novelty", "diversity", "pass@k"),
    "hint": ("guidance", "scaffold", "partial solution", "prefix of a solution"),
    "importance sampling": ("importance ratio", "importance weight", "sampler correction", "off-policy"),
    "kl": ("reference", "KL divergence", "trust region"),
    "length bias": ("length penalty", "length normalisation", "long answers", "token mean", "verbosity"),
    "long context": ("context window", "memory agent", "long documents"),
    "majority vote": ("majority", "vote", "pseudo-label", "self-consistency"),
    "mcts": ("tree search", "tree", "UCT", "search tree"),
    "multi turn": ("turns", "agent", "steps of an episode"),
    "off policy": ("importance ratio", "replay", "stale", "demonstrations", "asynchronous"),
    "overthinking": ("length penalty", "shorter answers", "thinking budget", "length"),
    "ppo": ("clipped surrogate", "GAE", "critic"),
    "process reward": ("step reward", "process supervision", "step-level reward", "PRM"),
    "replay buffer": ("replay", "experience", "earlier rollouts", "stored responses"),
    "reward hacking": ("reward model", "length penalty", "KL", "format", "cheat", "spurious"),
    "reward model": ("preference", "judge", "learned reward", "Bradley-Terry"),
    "rubric": ("criteria", "checklist", "judge"),
    "self consistency": ("majority", "vote", "agreement of answers"),
    "self play": ("proposer", "challenger", "asymmetric roles", "own tasks", "variants of tasks", "two players"),
    "self training": ("pseudo-label", "SFT on own solutions", "majority"),
    "sequence level": ("sequence ratio", "ratio of the sequence", "sequence"),
    "sft": ("supervised", "demonstrations", "imitation", "cross-entropy"),
    "test time": ("TTRL", "majority", "without labels"),
    "token level": ("each token", "per token", "token", "token weights"),
    "tool use": ("tools", "tool call", "code interpreter", "search calls"),
    "tree search": ("tree", "fork", "branch", "MCTS"),
    "trust region": ("clip", "KL", "ratio bound"),
    "unsupervised": ("without labels", "label-free", "majority", "self-reward", "confidence", "pseudo-label"),
    "value function": ("critic", "value model", "value head", "GAE"),
}
INDIRECT = 0.5  # how much a synonym counts of what the word itself would
ENDINGS = ("ations", "ation", "ating", "ated", "ates", "ate", "ings", "ing", "ed", "es", "s", "e")


def search_entries(entries: Iterable[EntryText], query: str, families: dict[str, str]) -> list[EntryText]:
    """The entries that a query describes, best first: those that have all of its words (or a synonym of it), else those
    that have most of them."""
    terms = _terms(query)
    if not terms:
        return []
    phrases = [(terms, 1.0), *((_terms(other), INDIRECT) for other in _synonyms(terms))]
    scored = []
    for entry in entries:
        fields = _fields(entry, families)
        best = max(weight * _score(fields, phrase) for phrase, weight in phrases)
        matched = sum(_matches(fields, [term]) > 0 for term in terms)
        scored.append((best, matched, entry))
    if any(best for best, _, _ in scored):
        ranked = [(best, entry) for best, _, entry in scored if best]
    else:
        most = max((matched for _, matched, _ in scored), default=0)
        ranked = [(matched, entry) for _, matched, entry in scored if matched == most > 0]
    return [entry for _, entry in sorted(ranked, key=lambda pair: -pair[0])]


def _score(fields: dict[str, str], phrase: Sequence[str]) -> float:
    """How well all words of a phrase are met: twice as well where they stand together."""
    together = _matches(fields, phrase)
    apart = [_matches(fields, [term]) for term in phrase]
    return 2 * together + (sum(apart) / len(apart) if all(apart) else 0.0)


def _matches(fields: dict[str, str], phrase: Sequence[str]) -> float:
    """The weight of the fields in which these words stand side by side. Short words must match to the letter, longer
    ones may begin a word; a phrase may be written as one word."""
    words = [re.escape(term) + (r"\w*" if len(term) > 3 else "") for term in phrase]
    pattern = re.compile(rf"\b{' ?'.join(words)}\b")
    return sum(WEIGHTS[name] for name, text in fields.items() if pattern.search(text))


def _fields(entry: EntryText, families: dict[str, str]) -> dict[str, str]:
    texts = {
        "slug": entry.slug,
        "tags": "; ".join(entry.tags),
        "summary": entry.summary,
        "citation": entry.citation.partition("http")[0],
        "notes": entry.notes,
        "family": f"{entry.family}; {families.get(entry.family, '')}",
    }
    return {name: " ".join(_terms(text)) for name, text in texts.items()}


def _terms(text: str) -> list[str]:
    """The stems of the words of a text, without case, hyphens, plurals and endings."""
    return [_stem(word) for word in re.findall(r"\w+", text.lower().replace("_", " "))]


def _stem(word: str) -> str:
    word = {"curricula": "curriculum", "criteria": "criterion"}.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    for ending in ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= (3 if ending == "s" else 4) and not (ending == "s" and stem.endswith("s")):
            return stem
    return word


def _synonyms(terms: Sequence[str]) -> list[str]:
    """What else a query may be called: the synonyms of every phrase in it."""
    query = f" {' '.join(terms)} "
    squeezed = query.replace(" ", "")
    others: list[str] = []
    for phrase, synonyms in SYNONYMS.items():
        known = " ".join(_terms(phrase))
        if f" {known} " in query or known.replace(" ", "") == squeezed:
            others += synonyms
    return others
