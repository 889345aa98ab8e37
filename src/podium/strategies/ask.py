"""Questions outside the rollouts, to a role that writes or to a server."""

from __future__ import annotations

from dataclasses import dataclass

from podium.core.errors import within
from podium.core.value import Value
from podium.protocols.sampling import Sampling

__all__ = ["Ask", "ChatServer", "Reply"]


class ChatServer(Value):
    """A server on this machine that speaks OpenAI's chat protocol, such as vLLM's or llama.cpp's.

    A call that gets no answer is repeated after a pause that doubles each time. Nothing is sent to other machines, and
    no proxy or redirection is followed, unless `elsewhere` allows it.
    """

    url: str = "http://localhost:8000/v1"  # without /chat/completions
    model: str = ""  # its name on the server; empty: the server's only one
    timeout_s: float = 60.0  # of one call
    retries: int = 3  # further calls
    pause_s: float = 1.0  # before the first of them
    parallel: int = 8  # calls at a time
    elsewhere: bool = False  # whether the server may be another machine

    def __post_init__(self) -> None:
        within(self, "timeout_s", 0, open_low=True)
        within(self, "retries", 0)
        within(self, "pause_s", 0)
        within(self, "parallel", 1)


@dataclass(frozen=True)
class Ask:
    """Let a role, or a server, write an answer to a question of its own. Answered by one `Reply`.

    A role's model may have a tokenizer of its own.
    """

    prompt: str
    of: str | ChatServer = "policy"
    sampling: Sampling = Sampling()
    stream: tuple[int, ...] = (0,)  # names the random numbers


@dataclass(frozen=True)
class Reply:
    """What a role or a server has written, or why it has not."""

    text: str
    failure: str = ""  # in words; empty: none
    calls: int = 1  # how often it was asked: a server may have to be asked again
