"""An environment of the package verifiers with tools: sums by a function, asynchronous."""

import verifiers as vf
from datasets import Dataset


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def right(completion, answer):
    return float(completion[-1].content.strip() == answer)


def load_environment(count: int = 24):
    rows = [{"question": f"{n} + {2 * n}?", "answer": str(3 * n)} for n in range(count)]
    held_out = [{"question": f"{n} + {n}?", "answer": str(2 * n)} for n in range(8)]
    data, more = Dataset.from_list(rows), Dataset.from_list(held_out)
    return vf.ToolEnv(dataset=data, eval_dataset=more, tools=[add], rubric=vf.Rubric(funcs=[right]), max_turns=4)
