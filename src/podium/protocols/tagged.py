"""Formats of tags: blocks `<name>…</name>` one after another, of which the last holds the action."""

from __future__ import annotations

from podium.core.errors import PodiumError, within
from podium.protocols.answer_text import ANSWER_MARK, answer_place, boxed, final_answer
from podium.protocols.format import Demonstrated, Format, ReadTurn, known_words

__all__ = [
    "ChoiceTags",
    "Construction",
    "MetaTags",
    "PlanTags",
    "ReportTags",
    "Tagged",
    "ThinkTags",
    "ToolTags",
    "blocks_of",
]

Block = tuple[str, str]  # a name, empty for text outside of tags, and the text inside


def blocks_of(text: str) -> list[Block] | None:
    """The blocks of a text from left to right; None where a tag is not closed, or one stands inside another.

    Text between blocks is a block without a name, unless it is blank. `<` that begins no tag is text.
    """
    blocks: list[Block] = []
    at = outside = 0
    while (start := text.find("<", at)) >= 0:
        end = text.find(">", start)
        name = text[start + 1 : end] if end >= 0 else ""
        if not name.removeprefix("/").replace("_", "").isalnum():
            at = start + 1
            continue
        closing = f"</{name}>"
        close = text.find(closing, end)
        if name.startswith("/") or close < 0 or f"<{name}>" in text[end + 1 : close]:
            return None
        if text[outside:start].strip():
            blocks.append(("", text[outside:start].strip()))
        blocks.append((name, text[end + 1 : close].strip()))
        at = outside = close + len(closing)
    if text[outside:].strip():
        blocks.append(("", text[outside:].strip()))
    return blocks


class Tagged(Format):
    """Blocks in order, each `<name>…</name>`; `a|b` is one or the other, `a?` may be left out.

    The last block holds the action. `forms` says how: `("search", "{}", "search: {}")` reads the text of a block
    `<search>` as the world's action `search: …`; the name "" is text outside of tags. A text is well-formed if it
    consists of these blocks and nothing else; in any other, the last block of one of the forms is the action, or the
    whole text.
    """

    blocks: tuple[str, ...] = ("think",)  # before the action
    forms: tuple[tuple[str, str, str], ...] = (("action", "{}", "{}"),)  # name, text inside, action; first that fits

    def __post_init__(self) -> None:
        within(self, "tokens", 0)
        for form in self.forms:
            if len(form) != 3 or any(part.count("{}") != 1 for part in form[1:]):
                raise PodiumError(
                    f"{type(self).__name__}.forms has {form!r}: give the tag's name, the text inside it and the action "
                    "that it stands for, each text with one {}."
                )

    def read(self, text: str) -> ReadTurn:
        blocks = blocks_of(text)
        if blocks:
            found = self._action(*blocks[-1])
            if found is not None and self._in_order(blocks[:-1]) and self.holds(dict(blocks)):
                return found
        for name, inside, action in self.forms:  # the last one of its kind that is closed
            start, end = text.rfind(f"<{name}>"), text.rfind(f"</{name}>")
            content = text[start + len(name) + 2 : end].strip()
            if name and 0 <= start < end and (held := _between(content, inside)) is not None:
                return ReadTurn(_filled(action, held), False, name)
        return ReadTurn(text, False)

    def holds(self, blocks: dict[str, str]) -> bool:
        """Whether the blocks of a text, by name, hold what they should."""
        return True

    def _action(self, name: str, content: str) -> ReadTurn | None:
        for form, inside, action in self.forms:
            if form == name and (held := _between(content, inside)) is not None:
                return ReadTurn(_filled(action, held), True, form)
        return None

    def _in_order(self, blocks: list[Block]) -> bool:
        """Whether these are the blocks before the action."""
        names, place = [name for name, _ in blocks], 0
        for block in self.blocks:
            if place < len(names) and names[place] in block.removesuffix("?").split("|"):
                place += 1
            elif not block.endswith("?"):
                return False
        return place == len(names)

    def write(self, turn: Demonstrated) -> str:
        place = answer_place(turn.action)
        action = turn.action if place is None else turn.action[place:].strip()
        chosen = ((block, self.chosen(block, turn)) for block in self.blocks)
        before = "".join(f"<{name}>{self.content(name, turn)}</{name}>" for _, name in chosen if name)
        for name, inside, form in self.forms:
            if (held := _between(action, form)) is not None:
                content = _filled(inside, held)
                return before + (f"<{name}>{content}</{name}>" if name else content)
        raise PodiumError(f"{self!r} has no form for the action {action!r}.")

    def chosen(self, block: str, turn: Demonstrated) -> str:
        """Which of the names of a block a demonstration has; empty: it leaves the block out."""
        return block.removesuffix("?").split("|")[0]

    def content(self, name: str, turn: Demonstrated) -> str:
        """What a demonstration writes in a block: the reasoning of a solution, or else what is to be done now."""
        reasoning = turn.action[: answer_place(turn.action) or 0].strip()
        return reasoning or known_words(turn.action, turn.history, turn.number)


class PlanTags(Tagged):
    """`<switch>KEEP or SWITCH</switch><subgoal>…</subgoal><action>…</action>`: a subgoal is kept until it is reached.

    The first turn, and those after a milestone of the demonstration, switch to the next subgoal.
    """

    ask: str = (
        "Write <switch>SWITCH</switch> for a new subgoal or <switch>KEEP</switch>, then <subgoal>the subgoal</subgoal>,"
        " then <action>one action</action>."
    )
    tokens: int = 48
    blocks: tuple[str, ...] = ("switch", "subgoal")

    def holds(self, blocks: dict[str, str]) -> bool:
        return blocks["switch"].upper() in ("KEEP", "SWITCH") and bool(blocks["subgoal"])

    def content(self, name: str, turn: Demonstrated) -> str:
        if name == "switch":
            return "SWITCH" if turn.number == turn.first_of_stretch else "KEEP"
        return turn.subgoal


class MetaTags(Tagged):
    """A kind of reasoning by its tag, `planning`, `explore`, `reflection` or `monitor`, then `<action>…</action>`.

    In a demonstration the first turn and those after a milestone plan, those that complete something monitor, and the
    others explore. Every second demonstration begins with its last action, which comes too early and is not imitated;
    the turn after it reflects.
    """

    ask: str = (
        "Write one of <planning>, <explore>, <reflection> and <monitor> with your reasoning, close it, then "
        "<action>one action</action>."
    )
    tokens: int = 40
    blocks: tuple[str, ...] = ("planning|explore|reflection|monitor",)

    def script(self, actions: tuple[str, ...], number: int) -> tuple[tuple[str, ...], int]:
        return ((actions[-1], *actions), 1) if number % 2 == 1 and len(actions) > 1 else (actions, 0)

    def chosen(self, block: str, turn: Demonstrated) -> str:
        names = block.split("|")
        kind = "explore"
        if turn.number == turn.only_shown > 0:
            kind = "reflection"
        elif turn.number == turn.first_of_stretch:
            kind = "planning"
        elif turn.number in turn.milestones:
            kind = "monitor"
        return kind if kind in names else names[0]

    def content(self, name: str, turn: Demonstrated) -> str:
        return turn.subgoal


class ReportTags(Tagged):
    """`<think>…</think><report>…</report><action>…</action>`: the report holds what the agent has found so far.

    In a demonstration it keeps, of each observation, the line that says what the action before it asked for, or has
    the most words of it.
    """

    ask: str = "Write <think>your thoughts</think>, <report>findings so far</report> and <action>one action</action>."
    tokens: int = 64
    blocks: tuple[str, ...] = ("think", "report")

    def content(self, name: str, turn: Demonstrated) -> str:
        if name != "report":
            return super().content(name, turn)
        found = [_nearest_line(x.observation, x.action) for x in turn.history.exchanges]
        return "; ".join(line for line in found if line) or "nothing"


class ThinkTags(Tagged):
    """`<think>…</think>`, then the answer outside of tags, which alone goes to the world."""

    ask: str = "Think between <think> and </think>, then answer."
    tokens: int = 16
    forms: tuple[tuple[str, str, str], ...] = (("", "{}", "{}"),)


class ToolTags(Tagged):
    """`<think>…</think>`, then a search, a call or the boxed answer, in a tag of its own."""

    ask: str = (
        "Write <think>your thoughts</think>, then <search>a query</search>, <python>a call</python> or "
        "<answer>\\boxed{the answer}</answer>."
    )
    tokens: int = 32
    forms: tuple[tuple[str, str, str], ...] = (
        ("search", "{}", "search: {}"),
        ("python", "{}", "call: {}"),
        ("answer", "\\boxed{{}}", "answer: {}"),
    )


class ChoiceTags(Format):
    """`<think>…</think><answer>a summary, \\boxed{the answer}</answer>`; the reasoning and what is in the box go to the
    world."""

    ask: str = "Write <think>your reasoning</think><answer>a summary with \\boxed{the answer}</answer>."
    tokens: int = 40

    def read(self, text: str) -> ReadTurn:
        answer = boxed(text)
        if answer is None:
            return ReadTurn(text, False)
        blocks = blocks_of(text) or []
        well_formed = [name for name, _ in blocks] == ["think", "answer"]
        reasoning = blocks[0][1] if well_formed else text
        return ReadTurn(f"{reasoning}\n{ANSWER_MARK} {answer}", well_formed)

    def write(self, turn: Demonstrated) -> str:
        place, answer = answer_place(turn.action), final_answer(turn.action)
        reasoning = turn.action[:place].strip()
        return f"<think>{reasoning}</think><answer>so \\boxed{{{answer or ''}}}</answer>"


class Construction(Tagged):
    """`<aux>…</aux>`, an auxiliary construction that may be left out, then the solution, which goes to the world.

    Demonstrations with one put the first step of a solution there; with `shown` False they have none.
    """

    tokens: int = 16
    blocks: tuple[str, ...] = ("aux?",)
    forms: tuple[tuple[str, str, str], ...] = (("", "{}", "{}"),)
    shown: bool = True  # whether demonstrations have a construction

    def write(self, turn: Demonstrated) -> str:
        first, _, rest = turn.action.partition("\n")
        return f"<aux>{first}</aux>\n{rest}" if self.shown and rest else turn.action


def _nearest_line(observation: str, action: str) -> str:
    """The line of an observation that contains what an action asks for, or has the most of its words, without a number
    in brackets before it."""
    wanted = action.lower().partition(": ")[2] or action.lower()
    words = set(wanted.split())
    lines = [line.strip() for line in str(observation).splitlines() if line.strip()]
    if not lines:
        return ""
    best = max(lines, key=lambda x: (wanted in x.lower(), len(words & set(x.lower().replace(":", " ").split()))))
    number, _, rest = best.partition("] ")
    return rest if number.startswith("[") and rest else best


def _between(text: str, template: str) -> str | None:
    """What stands in place of {} where a text has the form of a template; None: it does not."""
    before, _, after = template.partition("{}")
    if len(text) < len(before) + len(after) or not (text.startswith(before) and text.endswith(after)):
        return None
    return text[len(before) : len(text) - len(after)].strip()


def _filled(template: str, content: str) -> str:
    return template.replace("{}", content)
