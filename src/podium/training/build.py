"""Building a run: open the world, load the models, plan the memory, make the trainer, the samplers and the driver."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from podium import worlds
from podium.collect.driver import Driver
from podium.core.errors import PodiumError
from podium.core.ranks import ALONE, Ranks
from podium.core.signal import Signal
from podium.method import Method
from podium.policy import Policy, embed
from podium.policy.model.chat import PROMPT
from podium.protocols.sampling import ALLOWED, Sampling
from podium.protocols.world import World, task_of
from podium.sampler.of_policy import sampler_of
from podium.sampler.outside import LOCAL, check_engine, open_sampler
from podium.strategies import Draw
from podium.training.config import Config
from podium.training.learner import Learner
from podium.training.memory_plan import MemoryPlan, plan_memory
from podium.training.models import frozen_models, learners, load_models
from podium.training.preflight import check_fit
from podium.training.resolve import check_context, facts_of, fill_in, fill_in_learning_rate, updates_per_batch
from podium.training.run import Run
from podium.training.tasks import shuffled
from podium.training.trainer import PastSelves, Trainer

__all__ = ["build_run"]

Stage = Callable[[str], None]  # gets a line on what a person is waiting for


def build_run(config: Config, stage: Stage | None = None, ranks: Ranks = ALONE) -> Run:
    """Load the models and open the world; refuse a method that cannot work there. `ranks` share its work."""
    stage = stage or (lambda text: None)
    config = config.replace(dtype=config.precision)
    gc.unfreeze()  # what a run that nobody closed has left may go
    stage(f"Opening the world {_name(config)}")
    world = worlds.isolated(
        config.world, config.world_settings, isolation=config.isolation, act_limit_s=config.act_limit_s
    )
    try:
        return _build(config, world, stage, ranks)
    except BaseException:
        world.close()
        raise


def _build(config: Config, world: World, stage: Stage, ranks: Ranks) -> Run:
    config = fill_in(config, world)
    method = config.method
    warned = check_fit(method, world, str(config.world), facts_of(config, world))
    if config.sampler != LOCAL:
        _check_sampler(config)
    strategies = [leaf.rollout for leaf in method.leaves() if leaf.rollout is not None]
    notes = dict.fromkeys(note for strategy in strategies for note in strategy.prepare(world) or ())
    stage(f"Loading {config.model}")
    models = load_models(config)
    policy = models["policy"]
    check_context(config, policy.context_length)
    config = fill_in_learning_rate(config, sum(p.numel() for p in policy.parameters()))
    stage("Reading the first tasks")
    prompt, prompt_notes = check_prompts(world, policy, config)
    trained = learners(models, config, ranks)
    frozen = frozen_models(models, trained, config)
    longest = min(prompt + config.max_tokens, policy.context_length)
    memory = plan_memory(
        [x.policy for x in trained.values()], config.micro_tokens, longest, config.checkpointing, config.moments
    )
    policy.notes = (*warned, *policy.notes, *memory.notes, *world.remarks(), *notes, *prompt_notes)
    if ranks.size > 1:  # GPUs may differ in what is free: all go by the least
        plans = ranks.gather((memory.micro_tokens, memory.checkpointing))
        least, checkpointing = min(tokens for tokens, _ in plans), any(recompute for _, recompute in plans)
        memory = replace(memory, micro_tokens=least, checkpointing=checkpointing)
    for learner in trained.values():
        learner.policy.checkpoint_activations(memory.checkpointing)
    trainer = _trainer(config, trained, frozen, memory.micro_tokens, ranks)
    stage("Preparing the sampler")
    return Run(config, world, policy, trainer, _driver(config, world, models, memory, trainer), ranks)


def check_prompts(world: World, policy: Policy, config: Config) -> tuple[int, list[str]]:
    """Refuse a world that cannot make its first tasks, or a finite set of tasks with a prompt that leaves no room to
    answer. Returns how many tokens the longest prompt has, and a note if prompts contain control tokens."""
    longest = read = 0
    with_control: list[str] = []  # prompts that contain control tokens
    needed = {"train": config.iterations * config.tasks, "test": config.eval_tasks}
    for split, count in needed.items():
        size = world.size(split)
        for number in range(min(count, 1 if world.costly or not size else size)):
            place = number if split == "test" or not size else shuffled(number, size, config.seed)
            task = task_of(world, place, split)
            read += 1
            if name := policy.control_token_in(task.prompt):
                policy.chat.warned.add(PROMPT)  # the note says more
                line = f" (line {task.data['line']})" if "line" in task.data else ""
                with_control.append(f"{name} in {task.key}{line}")
            length = len(policy.encode([{"role": "user", "content": task.prompt}]))
            longest = max(longest, length)
            if length >= policy.context_length:
                raise PodiumError(
                    f"The prompt of {task.key} has {length} tokens, which leaves no room to answer in the context of "
                    f"{config.model}, {policy.context_length} tokens. Leave it out, or use another model."
                )
    if not with_control:
        return longest, []
    contain = "contains" if len(with_control) == 1 else "contain"
    note = f"{len(with_control):,} of {read:,} prompts {contain} control tokens of the model, such as {with_control[0]}"
    return longest, [f"{note}: they are encoded as plain text."]


def _trainer(
    config: Config, trained: Mapping[str, Learner], frozen: Mapping[str, Policy], micro_tokens: int, ranks: Ranks
) -> Trainer:
    method = config.method
    return Trainer(
        trained,
        frozen,
        micro_tokens=micro_tokens,
        planned_updates=config.iterations * max(updates_per_batch(leaf) for leaf in method.leaves()),
        decays={role.name: role.decay for role in method.roles if role.decay is not None},
        followed={role.name: "critic" for role in method.roles if role.source == "critic"},
        renewed=tuple(role.name for role in method.roles if role.source == "phase"),
        contexts={role.name: role.context for role in method.roles if role.context is not None},
        pasts={r.name: PastSelves(r.copies, r.refresh) for r in method.roles if r.refresh is not None},
        ranks=ranks,
    )


def _driver(config: Config, world: World, models: Mapping[str, Policy], memory: MemoryPlan, trainer: Trainer) -> Driver:
    policy, pasts = models["policy"], trainer.pasts
    writers = [name for role in _writers(config.method) for name in (pasts[role].copies if role in pasts else (role,))]
    each = None if memory.sampler is None else memory.sampler // (1 + len(writers))
    outside = config.sampler != LOCAL
    settings = config.sampler_settings or {}
    return Driver(
        open_sampler(config.sampler, settings, policy) if outside else sampler_of(policy, each),
        world,
        capture=_captured(config.method, outside),
        follow_up=policy.follow_up,
        written=policy.written,
        ends=policy.ends,
        score={name: model.score for name, model in models.items()},
        embed={name: partial(embed, model) for name, model in models.items()},
        act_limit_s=config.act_limit_s,
        isolation=config.isolation,
        max_turns=config.max_turns,
        others={name: sampler_of(models[name], each) for name in writers},
        trained=tuple(trainer.learners),
        copies=lambda role: pasts[role].copies[: pasts[role].filled] if role in pasts else (role,),
        ranks=trainer.ranks,
    )


def _name(config: Config) -> str:
    return config.world if isinstance(config.world, str) else config.world.name


def _writers(method: Method) -> list[str]:
    """The roles beside the policy that write rollouts, or verdicts on them."""
    writers = {role for leaf in method.leaves() if leaf.rollout is not None for role in leaf.rollout.writers}
    return sorted(writers - {"policy"})


def _check_sampler(config: Config) -> None:
    """Refuse a method that needs of its sampler what the engine cannot give."""
    for leaf in config.method.leaves():
        draw = None if leaf.rollout is None else leaf.rollout.draw
        sampling = draw.sampling(Sampling()) if isinstance(draw, Draw) else Sampling()
        check_engine(config.sampler, sampling, _captured(config.method, outside=True))


def _captured(method: Method, outside: bool = False) -> tuple[str, ...]:
    """What the sampler must keep per token beside log-probabilities: entropies for the metrics, and what parts need.
    An engine outside keeps only what strategies read between two waves of requests: the rest is the trainer's."""
    readers = [leaf.rollout for leaf in method.leaves() if leaf.rollout is not None] if outside else method.parts()
    needs = [n for p in readers for n in p.needs if isinstance(n, Signal) and n.of == "sampler"]
    wanted = {n.column.removeprefix(f"{n.level}.sampler.") for n in needs}
    if any(leaf.rollout is not None and leaf.rollout.restricts for leaf in method.leaves()):
        wanted.add(ALLOWED)
    return tuple(sorted((set() if outside else {"entropy"}) | wanted - {"logp"}))
