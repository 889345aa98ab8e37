"""The process group of a run that `torchrun` has started several times: how its ranks meet, watch each other, and part.

    torchrun --nproc-per-node 4 -m podium train grpo --out runs/grpo

A connection beside those of the training is open as long as a rank lives. When one is lost, or ends with an error, the
others end within moments, whatever they wait for, and with a sentence from one of them.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch

from podium import __version__
from podium.core.errors import PodiumError
from podium.core.launched import launched_size
from podium.core.ranks import ALONE, Ranks
from podium.training.config import Config

__all__ = ["check_same", "joined_ranks"]

DONE, FAILED = 0, 1  # what a rank says when it leaves; from 2 on: that rank (word - 2) is gone
LOST = -1  # the connection has broken
YEAR = timedelta(days=365)
EARLIER_S = 3.0  # how long a rank with an error waits for rank 0 to report the same one


@contextmanager
def joined_ranks(device: str) -> Iterator[Ranks]:
    """The ranks that a launcher such as torchrun has started, or this process alone."""
    if launched_size() == 1:
        yield ALONE
        return
    own = not torch.distributed.is_initialized()  # a script may have done it
    if own:
        _begin(device)
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    ranks = Ranks(rank, size, torch.distributed.new_group(backend="gloo", timeout=YEAR))
    watch = _Watch(rank, size)
    try:
        with warnings.catch_warnings():
            if not ranks.first:
                warnings.simplefilter("ignore")  # one warning is enough
            yield ranks
    except BaseException as error:
        watch.fail(error)
        raise
    watch.leave()
    if own:
        torch.distributed.destroy_process_group()


def _begin(device: str) -> None:
    if os.environ["MASTER_ADDR"] in ("localhost", "127.0.0.1"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one machine: nothing listens on the network
    if not device.startswith("cuda"):
        torch.distributed.init_process_group("gloo", timeout=YEAR)
        return
    local = int(os.environ.get("LOCAL_RANK", 0))
    if device != "cuda":
        raise PodiumError(f"Each of several processes takes a GPU of its own: device=cuda, not {device}.")
    if local >= torch.cuda.device_count():
        raise PodiumError(
            f"There are {torch.cuda.device_count()} GPUs for {os.environ.get('LOCAL_WORLD_SIZE', local + 1)} processes "
            "on this machine: start one process for each GPU (--nproc-per-node)."
        )
    torch.cuda.set_device(local)
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl", device_id=torch.device("cuda", local))


def check_same(ranks: Ranks, config: Config) -> None:
    """Refuse ranks that were started with different settings, or with other versions."""
    if ranks.size == 1:
        return
    versions = f"podium {__version__}, torch {torch.__version__}"
    told = ranks.gather((versions, {name: repr(value) for name, value in config.settings().items()}))
    of_first, settings = told[0]
    for rank, (theirs, own) in enumerate(told):
        if theirs != of_first:
            raise PodiumError(f"Rank {rank} runs {theirs}, and rank 0 {of_first}: install the same for all.")
        if other := [name for name, value in own.items() if value != settings[name]]:
            raise PodiumError(
                f"Rank {rank} was started with other settings than rank 0 ({', '.join(other)}): use one "
                "command for all."
            )


class _Watch:
    """A thread per connection that waits for the other end's last word: rank 0 hears all others, and they hear it."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.leaving = rank, False
        self.group: Any = torch.distributed.new_group(backend="gloo", timeout=YEAR)
        self.peers = range(1, size) if rank == 0 else range(1)
        self.words: dict[int, int] = {}
        self.heard = threading.Event()
        self.threads = [
            threading.Thread(target=self._listen, args=(p,), daemon=True, name="podium-ranks") for p in self.peers
        ]
        for thread in self.threads:
            thread.start()

    def _listen(self, peer: int) -> None:
        word = torch.zeros(1, dtype=torch.long)
        try:
            torch.distributed.recv(word, src=peer, group=self.group)
            self.words[peer] = int(word)
        except RuntimeError:
            self.words[peer] = LOST
        if self.words[peer] == DONE:
            return
        if self.leaving:
            self.heard.set()
        else:
            self._end(peer)

    def _end(self, peer: int) -> None:
        """End this process: one of the others is gone, and whatever it waits for will not come."""
        word = self.words[peer]
        if self.rank == 0:
            self._tell(2 + peer, leaving_out=peer)
        if self.rank == 0 or (word == LOST and self.rank == 1):  # one sentence is enough
            how = "was lost" if word == LOST else "stopped with an error"
            _say(f"Rank {peer} {how}, so all stop. The run goes on from its last checkpoint: podium train --resume RUN")
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(1)

    def _tell(self, word: int, leaving_out: int = -1) -> None:
        for peer in self.peers:
            if peer != leaving_out:
                with suppress(RuntimeError):
                    torch.distributed.send(torch.tensor([word]), dst=peer, group=self.group)

    def leave(self) -> None:
        """Part from ranks that have come to the end, too."""
        self._tell(DONE)
        for thread in self.threads:
            thread.join()

    def fail(self, error: BaseException) -> None:
        """Let the other ranks end. A rank other than the first, which may have met the same error and then reports it,
        ends here."""
        self.leaving = True
        if self.rank == 0:
            self._tell(FAILED)
            return
        if not (self.heard.wait(EARLIER_S) or self.words):
            if isinstance(error, PodiumError):
                _say(f"Rank {self.rank}: {error}")
            else:
                traceback.print_exception(error)
            self._tell(FAILED)
        os._exit(getattr(error, "exit_code", 1))


def _say(text: str) -> None:
    print(f"podium: {text}", file=sys.stderr, flush=True)
