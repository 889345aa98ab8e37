"""Plays games of other packages in a separate process: one JSON request per line in, one JSON answer per line out.

Run as a script by `podium.worlds.engine`; it imports nothing from Podium, so that it is small and starts quickly. It
ends and removes its files when its input is closed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import re
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

ATTEMPTS = 500
KEPT = 256  # compiled games that are kept
STATUS = re.compile(r">?\s*-= .* =-\s*\d+/\d+\s*")  # the status line
ENDINGS = ("*** The End ***", "*** You lost! ***", "*** You have died ***")
# Meta commands: they would end the game, undo moves, or write files.
ABOUT = {"quit", "q", "restart", "restore", "save", "undo", "script", "transcript", "record", "replay", "version"}
JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# All identity hashes are equal: the simulator's sets then iterate in insertion order.
ORDERED = ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")

Reply = dict[str, Any]


def digest(*values: object) -> str:
    return hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def hashed_int(*values: object) -> int:
    return int(digest(*values), 16)


class TextWorldPlayer:
    """Games that TextWorld generates, played on the Z-machine."""

    def __init__(self) -> None:
        self.textworld: Any = importlib.import_module("textworld")
        self.challenges: Any = importlib.import_module("textworld.challenges")
        data: Any = importlib.import_module("textworld.generator.data").KnowledgeBase
        data.load = functools.cache(data.load)  # parsing takes seconds and is the same for every game
        self.folder = Path(os.environ["TMPDIR"])
        self.game: Any = None
        self.allowed: set[str] = set()
        wanted = ("admissible_commands", "objective", "facts", "score", "max_score", "won", "lost")
        self.infos = self.textworld.EnvInfos(**dict.fromkeys(wanted, True))

    def make(self, key: str, challenge: str, settings: Reply, goal: str, held_out: float, split: str) -> Reply:
        """The first game for this key whose first scene belongs to the split."""
        failed: type[Exception] = importlib.import_module("textworld.generator").QuestGenerationError
        for attempt in range(ATTEMPTS):
            spec = {
                "challenge": challenge,
                "settings": settings,
                "goal": goal,
                "seed": hashed_int(key, attempt) % 2**31,
            }
            try:
                game, _ = self._generate(spec)
            except failed:  # the map of this seed has no such quest
                continue
            start = game.infos[game.world.player_room.id]
            if (hashed_int(game.objective, start.name, start.desc) < held_out * 2**64) == (split == "test"):
                scene = self.open(spec)
                start_of_game = {"prompt": scene["text"], "commands": scene["commands"]}
                return {"spec": spec, "solution": list(game.walkthrough), **start_of_game}
        return {"spec": None}

    def _generate(self, spec: Reply) -> tuple[Any, Any]:
        options = self.textworld.GameOptions()
        options.seeds = spec["seed"]
        options.grammar.only_last_action = spec["goal"] == "brief"
        settings = {"recipe_seed": spec["seed"], "goal": spec["goal"], **spec["settings"]}
        game = self.challenges.CHALLENGES[spec["challenge"]][1](settings, options)
        if spec["goal"] == "none":
            game.objective = ""
        return game, options

    def _file(self, spec: Reply) -> Path:
        """The compiled game. Players share the files; the oldest are removed when there are many."""
        file = self.folder / f"{digest(sorted(spec.items(), key=str))}.z8"
        if not file.exists():
            game, options = self._generate(spec)
            private = self.folder / f"{file.stem}-{os.getpid()}"
            options.path, options.force_recompile = str(private / file.name), True
            private.mkdir(exist_ok=True)
            self.textworld.generator.compile_game(game, options)
            for made in (private / file.with_suffix(".json").name, private / file.name):  # the .z8 marks completion
                made.replace(self.folder / made.name)
            shutil.rmtree(private)
            kept = sorted(self.folder.glob("*.z8"), key=lambda f: f.stat().st_mtime, reverse=True)
            for old in kept[KEPT:]:
                old.unlink(missing_ok=True)
                old.with_suffix(".json").unlink(missing_ok=True)
        return file

    def open(self, spec: Reply) -> Reply:
        if self.game is not None:
            self.game.close()
        self.game = self.textworld.start(str(self._file(spec)), self.infos)
        state = self.game.reset()
        text = state.feedback
        opening = text.find(state.objective) if state.objective else text.rfind("-=")
        return self._scene(state, text[max(opening, 0) :], valid=True)

    def act(self, command: str) -> Reply:
        words = command.lower().replace(".", " ").replace(",", " ").split()
        if not words or ABOUT & set(words):
            return {"text": "", "valid": False}
        before, allowed = self.facts, " ".join(words) in self.allowed
        state, _, _ = self.game.step(command)
        return self._scene(state, state.feedback, valid=allowed or self._sorted_facts(state) != before)

    def _sorted_facts(self, state: Any) -> list[str]:
        return sorted(map(str, state.facts or ()))

    def _scene(self, state: Any, text: str, *, valid: bool) -> Reply:
        for ending in ENDINGS:
            text = text.partition(ending)[0]
        self.facts = self._sorted_facts(state)
        self.allowed = {" ".join(c.lower().split()) for c in state.admissible_commands or ()}
        score = (state.score or 0) / max(state.max_score or 0, 1)
        return {
            "text": tidy(text),
            "score": score,
            "done": bool(state.won or state.lost),
            "won": bool(state.won),
            "state": digest(score, self.facts),
            "valid": valid,
            "commands": sorted(state.admissible_commands or ()),
        }


class ScienceWorldPlayer:
    """Tasks of ScienceWorld, simulated by a Java process that ends with this one."""

    def __init__(self) -> None:
        constants: Any = importlib.import_module("scienceworld.constants")
        gateway: Any = importlib.import_module("py4j.java_gateway")
        java = os.environ.get("PODIUM_JAVA", "java")
        port, self.java = gateway.launch_gateway(
            classpath=constants.JAR_PATH,
            javaopts=[*JAVA, *ORDERED],
            java_path=java,
            die_on_exit=True,
            cwd=constants.BASEPATH,
            return_proc=True,
        )
        parameters = gateway.GatewayParameters(auto_field=True, port=port)
        self.gateway = gateway.JavaGateway(gateway_parameters=parameters, java_process=self.java)
        threading.Thread(target=self._follow, daemon=True).start()
        self.server = self.gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()

    def _follow(self) -> None:
        """Exit when the simulator does, so that a pending request fails and this player is not used again."""
        self.java.wait()
        os._exit(1)

    def variations(self, task: str) -> Reply:
        """The variation numbers of a task in each split."""
        self.server.load(task, 0, "", False)
        train, test = list(self.server.getVariationsTrain()), list(self.server.getVariationsTest())
        return {"train": train, "test": test}

    def make(self, spec: Reply) -> Reply:
        scene = self.open(spec)
        forms = sorted(set(self.server.getPossibleActions()) - {"reset task"})
        prompt = f"{self.server.getTaskDescription()}\n{scene['text']}"
        return {"prompt": prompt, "forms": forms, "commands": scene["commands"]}

    def solve(self, spec: Reply) -> Reply:
        self.server.load(spec["task"], spec["variation"], spec["simplifications"], True)
        return {"solution": list(self.server.getGoldActionSequence())}

    def open(self, spec: Reply) -> Reply:
        self.server.load(spec["task"], spec["variation"], spec["simplifications"], False)
        return self._scene(self.server.step("look around"))

    def act(self, command: str) -> Reply:
        if " ".join(command.lower().split()) == "reset task":
            return {"text": "", "valid": False}
        return self._scene(self.server.step(command))

    def _scene(self, text: str) -> Reply:
        score = self.server.getScore()  # below 0: the task has failed
        seen = self.server.freeActionLook(), self.server.freeActionInventory()
        return {
            "text": tidy(text),
            "score": min(max(score, 0.0), 1.0),
            "done": bool(self.server.getCompleted()) or score < 0,
            "won": score >= 1.0,
            "state": digest(round(score, 4), *seen),
            "valid": not text.startswith("No known action"),
            "commands": sorted(self.server.getPossibleObjects()),
        }


def tidy(text: str) -> str:
    """The text without the status line, blank lines and trailing spaces."""
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line.strip(" \t>") and not STATUS.fullmatch(line))


def main(kind: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output that packages print must not be read as an answer
    player: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        do, reply = request.pop("do"), {}
        try:
            if do != "ping":  # which only wants an answer
                player = player or {"textworld": TextWorldPlayer, "scienceworld": ScienceWorldPlayer}[kind]()
                reply = getattr(player, do)(**request)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    if kind == "scienceworld" and player is not None:
        player.java.kill()


if __name__ == "__main__":
    main(sys.argv[1])
