"""The processes that train one model together, and the few things that they tell each other.

Every rank runs the same loop on the same whole batch. Work that can be shared, such as sampling the rollouts of a task
or passing a micro-batch through the model, is dealt out; what it comes to is then known to all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["ALONE", "Ranks"]

Item = TypeVar("Item")
T = TypeVar("T")
BUCKET = 1 << 26  # numbers that are added over the ranks at a time
GOODBYE_S = 30.0  # after the loss of a rank, the time in which the watch ends this process with a sentence


@dataclass(frozen=True)
class Ranks:
    """One process among `size` that train together. A process alone has rank 0 of 1, and every exchange is a no-op.

    `objects` is the process group in which Python objects travel; tensors are added in the default group.
    """

    rank: int = 0
    size: int = 1
    objects: Any = None

    @property
    def first(self) -> bool:
        """Whether this rank writes the run's files and talks to people."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items that this rank works on, of a list that all ranks have."""
        return items if self.size == 1 else items[self.rank :: self.size]

    def gather(self, value: T) -> list[T]:
        """The value of every rank, by rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with _peers():
            torch.distributed.all_gather_object(values, value, group=self.objects)
        return values

    def of_first(self, value: T) -> T:
        """The value of rank 0."""
        return value if self.size == 1 else self.gather(value if self.first else None)[0]  # type: ignore[return-value]

    def wait(self) -> None:
        """Until all ranks are here."""
        self.gather(None)

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """A block that rank 0 goes through before the others do, such as one that makes files which they read."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()

    def together(self, work: Callable[[], T]) -> list[T]:
        """What the work of every rank has come to, by rank. If it fails on one of them, it fails on all."""
        if self.size == 1:
            return [work()]
        try:
            value, failure, error = work(), None, None
        except Exception as caught:
            value, failure, error = None, (type(caught), str(caught)), caught
        failures = {}
        values = []
        for rank, (result, failed) in enumerate(self.gather((value, failure and _spoken(*failure)))):
            values.append(result)
            if failed is not None:
                failures[rank] = failed
        if error is not None:
            raise error
        for rank, (refused, memory, text) in failures.items():
            if refused:
                raise PodiumError(f"Rank {rank}: {text}")
            raise (torch.OutOfMemoryError if memory else RuntimeError)(f"On rank {rank}: {text}")
        return values  # type: ignore[return-value]

    def spread(self, items: Sequence[Item], work: Callable[[Item], T]) -> list[T]:
        """The result of each item, of which every rank works out its share. With several ranks, the tensors in a result
        that is a dictionary come back without a graph, on the CPU."""
        if self.size == 1:
            return [work(item) for item in items]
        shares = self.together(lambda: [_on_cpu(work(item)) for item in self.share(items)])
        return [shares[number % self.size][number // self.size] for number in range(len(items))]

    def add_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Add the gradients of all ranks. A weight to which no rank gives one gets 0."""
        if self.size == 1:
            return
        waiting: list[torch.nn.Parameter] = []
        for p in parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            if waiting and (sum(w.numel() for w in waiting) + p.numel() > BUCKET or waiting[0].dtype != p.dtype):
                self._add([w.grad for w in waiting if w.grad is not None])
                waiting = []
            waiting.append(p)
        self._add([w.grad for w in waiting if w.grad is not None])

    def _add(self, tensors: Sequence[Tensor]) -> None:
        if not tensors:
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        with _peers():
            torch.distributed.all_reduce(flat)
        for tensor, added in zip(tensors, torch.split(flat, [t.numel() for t in tensors]), strict=True):
            tensor.copy_(added.view_as(tensor))


ALONE = Ranks()


def _spoken(kind: type[Exception], text: str) -> tuple[bool, bool, str]:
    """A failure in a form that travels: whether it is a refusal, whether memory was short, and its message."""
    return issubclass(kind, PodiumError), issubclass(kind, torch.OutOfMemoryError), text


def _on_cpu(result: Any) -> Any:
    if not isinstance(result, Mapping):
        return result
    return {key: x.detach().cpu() if isinstance(x, Tensor) else x for key, x in result.items()}


@contextmanager
def _peers() -> Iterator[None]:
    """If another rank has gone, let the watch end this process: it knows which one it was."""
    try:
        yield
    except RuntimeError as error:
        time.sleep(GOODBYE_S)
        raise PodiumError(f"The connection to the other ranks was lost: {error}") from error
