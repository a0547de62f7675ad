#!/usr/bin/env python3
import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import AsyncIterator, Dict, List, Optional, Union

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "sdk" / "python"))

from cortex_agent import Agent, AskFailed, Canceled, Question, Rejected, Task

Path(os.environ["WORKER_PID"]).write_text(str(os.getpid()))
agent = Agent()
print("print goes to the log")


@agent.task
def work(task: Task) -> Union[str, Question, Dict[str, object], None]:
    word, _, rest = task.text.partition(" ")
    if task.reply:
        return f"{task.text} for {task.state['about']} after {task.history[0].question}"
    if word == "stream":
        task.progress("working")
        for piece in ("to ", "be ", "or"):
            task.stream(piece)
        task.artifact("table", data=[1, "zwei"], description="A table")
        task.file("plot.txt", "ein Plot: é\n")
        subprocess.run(["echo", "a child's output goes to the log"])
        return None
    if word == "read":
        return ", ".join(f"{f.name} {f.type} {f.path.read_text().strip()}" for f in task.files)
    if word == "question":
        return Question("Which one?", state={"about": rest})
    if word == "refuse":
        raise Rejected("not my work")
    if word == "crash":
        raise ValueError("it is broken")
    if word == "ask":
        try:
            task.ask("hello", agent="nobody")
        except AskFailed as e:
            print("nobody answers:", e)
        return f"it says {task.ask(rest, agent='agent_echo')}"
    if word == "long":
        return "x" * (2 << 20)
    if word == "wait":
        try:
            print("it waits for it")
            task.sleep(3600)
        except Canceled as e:
            print("canceled:", e)
            raise
    raise Rejected("what?")


@dataclass
class Sum:
    numbers: List[int]
    label: Optional[str] = None
    more: Dict[str, float] = field(default_factory=dict)


@dataclass
class Total:
    total: float
    label: str


@agent.task("add")
def add(task: Task, given: Sum) -> Total:
    return Total(sum(given.numbers) + sum(given.more.values()), given.label or "none")


@agent.task("slow")
async def slow(task: Task) -> AsyncIterator[str]:
    yield "line "
    await asyncio.sleep(0.05)
    yield task.text.split()[-1]


agent.run()
