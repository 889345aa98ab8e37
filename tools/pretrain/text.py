"""The tokenizer, and the text as token ids."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from podium.worlds import Puzzle
from podium.worlds.quest import Quest
from tools.pretrain.dials import worlds_of_text
from tools.pretrain.examples import examples
from tools.pretrain.new_dials import CLEAN_SHARE
from tools.pretrain.sources import sources

LEARNED, KEPT = 1, 2
CHUNK = 5_000  # tasks that one process writes at a time
VOCABULARY = 1024
CONTEXT = 1024
CONTROL = ["<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
RESERVED = [f"<|reserved_{i}|>" for i in range(32)]
MARKERS = [f"<{slash}{name}>" for name in ("think", "answer", "tool_call", "tool_result") for slash in ("", "/")]
CHAT = (
    "{{ '<|begin|>' }}{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant', 'tool'] %}"
    "{{ raise_exception('Unknown role ' + message['role'] + ': system, user, assistant and tool are known.') }}"
    "{% endif %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
# Common words, so that what people write beside the worlds' own texts has some whole tokens too.
WORDS = """
go north south east west up down left right open close take drop use put look read search find ask tell give key door
room chest box lamp table shelf window wall garden kitchen hall cellar locked unlocked empty inventory you are in the
a an and or not is was has have there here nothing something can cannot do does it to of from with on at by for turn
step action observation state goal reward done start stop next previous question query result page id name value city
country river capital person born year who what where when which why how many much true false yes no unknown error
tool call calculator add subtract multiply divide sum mean max min count row column args json null list number text
user agent judge hint wish please want need would like red blue green small large old new first last more less same
different because so then if else but therefore check again wait try maybe wrong right think answer one two three four
five six seven eight nine ten hundred thousand half double total each every all some any other another both only also
very time day week month hour minute price cost money pay buy sell apple bread water house street school book paper
music animal dog cat bird fish tree flower fruit food eat drink sleep walk run make see hear say write speak know
learn remember forget begin end continue move carry hold send receive return choose change keep leave place thing part
group world game player score win lose round board card move legal plan note message system request response function
parameter string object search snippet source cite document title author date between before after above below inside
outside near far long short high low good bad best worst possible impossible
"""


def build_tokenizer(out: Path, seed: int) -> None:
    """Byte-level BPE; words may take the space before them along, digits and signs stand alone."""
    tokenizer = Tokenizer(models.BPE())
    pattern = Regex(r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(pattern, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKERS),
        special_tokens=CONTROL + RESERVED,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_tokenizer_text(seed), trainer)
    tokenizer.add_tokens([AddedToken(marker, normalized=False) for marker in MARKERS])
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"The text gives {tokenizer.get_vocab_size()} tokens, not {VOCABULARY}.")
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": CONTEXT,
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "additional_special_tokens": [t for t in CONTROL if t not in ("<|begin|>", "<|end|>", "<|pad|>")],
        "padding_side": "left",
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def _tokenizer_text(seed: int) -> Iterator[str]:
    rng = Random(seed)
    for world, dial in worlds_of_text():
        for index in range(200):
            for example in examples(world, dial, index, rng)[:1]:
                yield "\n".join(message.text for message in example.messages)
            if isinstance(world, Puzzle | Quest):
                yield world.replace(instructions=True).task(index).prompt
    for _ in range(20):
        yield " ".join(WORDS.split())


class Text(NamedTuple):
    """Examples one after the other: token ids, which of them the model learns to write (LEARNED) or writes as it did
    before (KEPT), where each example begins (and the last one ends), and per world and level how many were looked at
    and how many of those were right."""

    ids: np.ndarray
    own: np.ndarray
    starts: np.ndarray
    right: Counter[tuple[str, bool]]

    def __len__(self) -> int:
        return len(self.starts) - 1


def make_text(
    tokenizer: str, only: list[str] | None, stage: int, count: int, parts: int, seed: int, processes: int
) -> Iterator[Text]:
    """The text of so many tasks in so many parts; the next ones are made while one is read."""
    jobs = [
        (tokenizer, only, stage, seed, first, min(CHUNK, count - first), first < CLEAN_SHARE * count)
        for first in range(0, count, CHUNK)
    ]
    sizes = [len(part) for part in np.array_split(np.arange(len(jobs)), parts)]
    if processes > 1:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            yield from _gathered(pool.imap(_chunk, jobs), sizes)
    else:
        yield from _gathered(map(_chunk, jobs), sizes)


def _gathered(chunks: Iterator[Text], sizes: list[int]) -> Iterator[Text]:
    for size in sizes:
        found = list(islice(chunks, size))
        lengths = np.concatenate([np.diff(chunk.starts) for chunk in found])
        yield Text(
            np.concatenate([chunk.ids for chunk in found]),
            np.concatenate([chunk.own for chunk in found]),
            np.concatenate([[0], np.cumsum(lengths)]),
            sum((chunk.right for chunk in found), Counter()),
        )


def _chunk(job: tuple[str, list[str] | None, int, int, int, int, bool]) -> Text:
    """A part of the text that depends on its place alone, not on the process that makes it."""
    path, only, stage, seed, first, count, clean = job
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = Tokenizer.from_file(str(Path(path) / "tokenizer.json"))
    found = sources(only, stage, clean)
    shares = [source.share for source in found]
    rng = Random(f"{stage}/{seed}/{first}")
    pieces: list[str] = []
    own: list[int] = []
    sizes: list[int] = []
    right: Counter[tuple[str, bool]] = Counter()
    for index in range(first, first + count):
        source = rng.choices(found, shares)[0]
        for example in source.write(index, rng):
            for place, (text, said, learned) in enumerate(example.messages):
                begin = "" if place else "<|begin|>"
                pieces.append(f"{text}<|end|>" if said else f"{begin}<|user|>{text}<|end|><|assistant|>")
                own.append(said * learned * (KEPT if source.kept else LEARNED))
            sizes.append(len(example.messages))
            if example.right is not None:
                right[source.name, example.right] += 1
    coded = [encoding.ids for encoding in tokenizer.encode_batch(pieces)]
    lengths = np.array([len(ids) for ids in coded])
    ends = np.cumsum(lengths)[np.cumsum(sizes) - 1]
    return Text(
        np.fromiter((i for ids in coded for i in ids), np.int16, count=lengths.sum()),
        np.repeat(np.array(own, np.int8), lengths),
        np.concatenate([[0], ends]),
        right,
    )


def shares_right(right: Counter[tuple[str, bool]]) -> dict[str, float]:
    """How many of the solutions in the text are right, per world and level."""
    names = sorted({name for name, _ in right})
    return {name: right[name, True] / (right[name, True] + right[name, False]) for name in names}
