"""An environment of the package verifiers with several turns: guess a number, told whether it is higher or lower."""

import asyncio

import verifiers as vf
from datasets import Dataset


class Guess(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["guesses"] = 0
        return state

    async def env_response(self, messages, state, **kwargs):
        state["guesses"] += 1
        said, hidden = messages[-1].content.strip(), int(state["answer"])
        if said == "hang":
            await asyncio.sleep(60)
        if said == "break":
            raise vf.ToolCallError("the guess broke it")
        if said == str(hidden):
            state["final_env_response"] = [{"role": "user", "content": "yes"}]
            return state["final_env_response"]
        return [{"role": "user", "content": "higher" if said.isdigit() and int(said) < hidden else "lower"}]


async def found(completion, answer, **kwargs):
    await asyncio.sleep(0)
    return float(any(m.role == "assistant" and m.content.strip() == answer for m in completion))


def brief(completion):
    return -float(sum(len(m.content) for m in completion if m.role == "assistant"))


def picky(completion):
    if completion[0].content.strip() == "oops":
        raise ValueError("no such word")
    return 0.0


def first_of_group(completions, **kwargs) -> list[float]:
    return [float(number == 0) for number in range(len(completions))]


def load_environment(count: int = 24, turns: int = 3, together: bool = False):
    rows = [{"question": f"Guess a number below {count}.", "answer": str(n)} for n in range(count)]
    funcs, weights = [found, brief, picky], [1.0, 0.01, 1.0]
    if together:
        funcs, weights = [*funcs, first_of_group], [*weights, 0.5]
    rubric = vf.Rubric(funcs=funcs, weights=weights)
    return Guess(dataset=Dataset.from_list(rows), system_prompt="Be brief.", rubric=rubric, max_turns=turns)
