#!/usr/bin/env python3
"""An agent that describes a column of a CSV file, and asks which one if the task does not say.

cortex agent exec --card sdk/python/examples/card.yaml --protocol jsonl --keep -- sdk/python/examples/tables.py
cortex ask --file prices.csv --agent tables 'describe the prices'
"""

import csv
import statistics
import sys
from pathlib import Path
from typing import Dict, Generator, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # only for this folder: elsewhere, `pip install` finds it

from cortex_agent import Agent, Question, Rejected, Task

agent = Agent()


def columns(task: Task) -> Dict[str, List[float]]:
    """The numbers of the files, by the names of their columns. A reply brings no files: they come with the state."""
    if task.state:
        return task.state
    found: Dict[str, List[float]] = {}
    for file in task.files:
        if not file.name.endswith(".csv"):
            continue
        with open(file.path, newline="") as f:
            for row in csv.DictReader(f):
                for name, value in row.items():
                    try:
                        found.setdefault(name, []).append(float(value))
                    except (TypeError, ValueError):
                        pass
    return {name: values for name, values in found.items() if values}


@agent.task("describe")
def describe(task: Task) -> Generator[str, None, Optional[Question]]:
    table = columns(task)
    if not table:
        raise Rejected("there is no CSV file with numbers: bring one along")
    words = task.text.lower()
    chosen = [name for name in table if name.lower() in words]
    if not chosen and len(table) > 1:
        return Question(f"Which column: {', '.join(table)}?", state=table)
    rows = ["column,count,mean,least,greatest"]
    for name in chosen or table:
        values = table[name]
        task.progress(f"{name}: {len(values)} numbers")
        mean = statistics.fmean(values)
        yield f"{name}: {len(values)} numbers, mean {mean:g}, from {min(values):g} to {max(values):g}\n"
        rows.append(f"{name},{len(values)},{mean:g},{min(values):g},{max(values):g}")
    task.file("summary.csv", "\n".join(rows) + "\n")
    return None


agent.run()
