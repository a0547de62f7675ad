"""Tests of the package alone: each runs an agent as Cortex would, and speaks the protocol with it. python3 -m unittest discover sdk/python/tests"""

import json
import os
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent.parent


class Program:
    """An agent that runs."""

    def __init__(self, code: str) -> None:
        env = {**os.environ, "PYTHONPATH": str(HERE), "CORTEX_PROTOCOL": "jsonl 1"}
        code = "from cortex_agent import *\nimport asyncio, json\nfrom dataclasses import dataclass\nfrom typing import *\nagent = Agent()\n" + textwrap.dedent(code) + "\nagent.run()\n"
        self.process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)

    def give(self, **line) -> None:
        self.process.stdin.write(json.dumps({"type": "task", "version": 1, "id": "t1", "delivery": 1, **line}).encode() + b"\n")
        self.process.stdin.flush()

    def line(self) -> dict:
        return json.loads(self.process.stdout.readline())

    def lines(self, **task) -> list:
        """Gives a task, and returns the lines up to its end."""
        self.give(**task)
        all = [self.line()]
        while all[-1]["type"] not in ("result", "error", "rejected", "input_required"):
            all.append(self.line())
        return all

    def end(self) -> str:
        _, log = self.process.communicate(timeout=30)
        return log.decode()


class AgentTest(unittest.TestCase):
    def run_agent(self, code: str) -> Program:
        program = Program(code)

        def end() -> None:
            program.process.kill()
            program.process.communicate()

        self.addCleanup(end)
        return program

    def one(self, code: str, **task) -> dict:
        """Returns the only line of a task, without its id."""
        lines = self.run_agent(code).lines(**task)
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual(lines[0].pop("id"), "t1")
        return lines[0]

    def test_results(self) -> None:
        for body, want in {
            "return task.text.upper()": {"type": "result", "text": "ABC"},
            "return None": {"type": "result"},
            "return {'n': 1}": {"type": "result", "data": {"n": 1}},
            "return [File('a', '', 1, 'p')]": {"type": "result", "data": [{"name": "a", "type": "", "size": 1, "path": "p"}]},
            "return Question('which?', {'n': 1})": {"type": "input_required", "text": "which?", "state": {"n": 1}},
            "return Question('which?')": {"type": "input_required", "text": "which?"},
            "raise Rejected('no')": {"type": "rejected", "text": "no"},
            "raise ValueError('bad')": {"type": "error", "text": "bad"},
            "raise KeyError": {"type": "error", "text": "KeyError"},
            "exit(3)": {"type": "error", "text": "3"},
            "return float('nan')": {"type": "error", "text": "the result cannot be sent: Out of range float values are not JSON compliant"},
            "return object()": {"type": "error", "text": "the result cannot be sent: Object of type object is not JSON serializable"},
            "return 'x' * (1 << 20)": {"type": "error", "text": "the result cannot be sent: it has 1048614 bytes, and at most 1048576 can be said at once: give it as a file"},
            "return task.text if task.reply and task.state == {'n': 1} and task.history == [Round('a', 'b')] else repr(vars(task))": {"type": "result", "text": "abc"},
        }.items():
            with self.subTest(body):
                got = self.one("@agent.task\ndef work(task: Task):\n    " + body, text="abc", reply=True, state={"n": 1}, history=[{"text": "a", "question": "b"}])
                if "nan" in body:
                    got["text"] = got["text"].split(": nan")[0]
                self.assertEqual(got, want)

    def test_kinds_of_handlers(self) -> None:
        for kind in (
            "def work(task):\n    yield 'a'\n    yield 'b'",
            "async def work(task):\n    yield 'a'\n    await asyncio.sleep(0)\n    yield 'b'",
            "def work(task):\n    task.stream('a')\n    task.stream('b')",
            "async def work(task):\n    task.stream('a')\n    await asyncio.sleep(0)\n    task.stream('b')",
        ):
            with self.subTest(kind):
                lines = self.run_agent("@agent.task()\n" + kind).lines()
                self.assertEqual([(l["type"], l.get("text")) for l in lines], [("text", "a"), ("text", "b"), ("result", None)])

    def test_long_text_in_pieces(self) -> None:
        lines = self.run_agent("@agent.task\ndef work(task):\n    task.stream('\\x00' * 250_000)").lines()
        self.assertEqual(sum(len(l.get("text", "")) for l in lines), 250_000)

    def test_skills(self) -> None:
        code = "@agent.task('a')\ndef one(task):\n    return 'one'\n@agent.task('b')\ndef two(task):\n    return 'two'"
        self.assertEqual(self.one(code, skill="b"), {"type": "result", "text": "two"})
        self.assertEqual(self.one(code, skill="c"), {"type": "rejected", "text": "there is no skill 'c': the skills are a, b"})

    def test_input(self) -> None:
        code = """
            @dataclass
            class Point:
                x: float
                y: float = 0
            @dataclass
            class In:
                points: List[Point]
                kind: Literal["a", "b"] = "a"
                name: Optional[str] = None
                size: Union[int, str] = 1
                more: Dict[str, int] = None
            @agent.task
            def work(task: Task, given: In) -> In:
                return given
        """
        whole = {"points": [{"x": 1.0, "y": 2.5}], "kind": "b", "name": "n", "size": "s", "more": {"k": 1}}
        for given, want in (
            (whole, whole),
            ({"points": [], "unknown": 1}, {"points": [], "kind": "a", "name": None, "size": 1, "more": None}),
            (None, "this takes structured input, and there is none"),
            ({}, "the input: points is missing"),
            ([], "the input must be an object"),
            ({"points": {}}, "the input: points must be a list"),
            ({"points": [{"x": "1"}]}, "the input: points: 0: x must be a number"),
            ({"points": [], "kind": "c"}, "the input: kind must be one of 'a', 'b'"),
            ({"points": [], "name": 1}, "the input: name must be text"),
            ({"points": [], "size": 1.5}, "the input: size must be a whole number"),
            ({"points": [], "more": {"k": True}}, "the input: more: k must be a whole number"),
        ):
            with self.subTest(given):
                got = self.one(code, input=given)
                self.assertEqual(got, {"type": "result", "data": want} if isinstance(want, dict) else {"type": "rejected", "text": want})
        self.assertEqual(self.one(code, text='{"points": []}')["type"], "result")

    def test_outputs(self) -> None:
        with TemporaryDirectory() as folder:
            lines = self.run_agent(
                """
                @agent.task
                def work(task):
                    task.progress("1 of 2")
                    task.artifact("t", data=[1], description="d")
                    task.artifact("s", text="", append=True)
                    task.file("a/b.txt", "text")
                    (task.folder / "c").write_bytes(b"c")
                    task.file("c", media_type="x/y")
                    return ", ".join(f.path.read_text() for f in task.files)
                """
            ).lines(folder=folder)
            for l in lines:
                l.pop("id")
            self.assertEqual(
                lines,
                [
                    {"type": "progress", "text": "1 of 2"},
                    {"type": "artifact", "name": "t", "data": [1], "description": "d", "append": False},
                    {"type": "artifact", "name": "s", "text": "", "append": True},
                    {"type": "file", "path": folder + "/a/b.txt", "name": "b.txt", "media_type": ""},
                    {"type": "file", "path": folder + "/c", "name": "c", "media_type": "x/y"},
                    {"type": "result", "text": ""},
                ],
            )
            self.assertEqual(Path(folder, "a", "b.txt").read_text(), "text")

    def test_ask(self) -> None:
        program = self.run_agent(
            """
            @agent.task
            def work(task):
                first = task.ask("how many?", agent="counter", skill="count", input={"n": 1})
                try:
                    task.ask("again?")
                except AskFailed as e:
                    return f"{first} {first.data} {first.files[0].name}, then {e}"
            """
        )
        program.give()
        asked = program.line()
        self.assertEqual(asked, {"type": "ask", "id": "t1", "ask": asked["ask"], "text": "how many?", "agent": "counter", "skill": "count", "input": {"n": 1}})
        program.give(type="reply", ask=asked["ask"], text="two", data={"n": 2}, files=[{"name": "f", "size": 1, "path": "/f"}])
        asked = program.line()
        program.give(type="reply", ask=asked["ask"], failed=True, text="nobody knows")
        self.assertEqual(program.line(), {"type": "result", "id": "t1", "text": "two {'n': 2} f, then nobody knows"})

    def test_cancel(self) -> None:
        for waits in ("task.sleep(60)", "task.ask('x')", "while True: task.check()", "while True: task.progress('x')"):
            with self.subTest(waits):
                program = self.run_agent(f"@agent.task\ndef work(task):\n    try:\n        task.stream('begun')\n        {waits}\n    except Exception: pass")
                program.give()
                self.assertEqual(program.line()["text"], "begun")
                program.give(type="cancel", reason="enough")
                line = program.line()
                while line["type"] in ("ask", "progress"):
                    line = program.line()
                self.assertEqual(line, {"type": "error", "text": "canceled", "id": "t1"})
        program = self.run_agent("@agent.task\nasync def work(task):\n    task.stream('begun')\n    await asyncio.sleep(60)")
        program.give()
        program.line()
        program.give(type="cancel", reason="enough")
        self.assertEqual(program.line(), {"type": "error", "text": "canceled", "id": "t1"})

    def test_many_at_once(self) -> None:
        program = self.run_agent("@agent.task\ndef work(task):\n    task.ask('wait')\n    return task.text")
        for n in range(20):
            program.give(id=f"t{n}", text=str(n))
        asks = [program.line() for _ in range(20)]
        for ask in reversed(asks):
            program.give(type="reply", id=ask["id"], ask=ask["ask"])
        self.assertEqual(sorted(program.line()["text"] for _ in range(20)), sorted(map(str, range(20))))

    def test_deep_result(self) -> None:
        got = self.one("@agent.task\ndef work(task):\n    d = []\n    for _ in range(100_000): d = [d]\n    return d")
        self.assertEqual(got["type"], "error")
        self.assertIn("maximum recursion depth exceeded", got["text"])

    def test_lines_that_cannot_be_handled(self) -> None:
        program = self.run_agent("@agent.task\ndef work(task):\n    if task.text == 'ask': task.ask('x')\n    task.sleep(0.1)\n    return task.text")
        program.give(id="other", text="ask")
        ask = program.line()["ask"]
        deep = b"[" * 100_000 + b"]" * 100_000
        for line in (
            b'{"type":"task","version":1,"id":"a\\"b","input":' + deep + b"}",
            b'{"type":"task","version":1,"id":"c","files":[{}]}',
            b"{nonsense",
            b"",
            b'{"type":"reply","id":"other","ask":"' + ask.encode() + b'","data":' + deep + b"}",
        ):
            program.process.stdin.write(line + b"\n")
        program.give(id="behind", text="still here")
        got = {l["id"]: l for l in reversed([program.line() for _ in range(5)])}  # the first one about each
        for id in ('a"b', "c", "other"):
            self.assertEqual(got[id]["type"], "error")
            self.assertTrue(got[id]["text"].startswith("the agent cannot handle what it was given: "), got[id])
        self.assertEqual(got["behind"]["text"], "still here")

    def test_prints_are_the_log(self) -> None:
        program = self.run_agent("print('early')\n@agent.task\ndef work(task):\n    print('hello')\n    import os; os.system('echo child')\n    return 'done'")
        self.assertEqual(program.lines(future={"a": 1})[-1]["text"], "done")
        program.give(type="from the future")
        self.assertEqual(program.end().split(), ["early", "hello", "child"])
        self.assertEqual(program.process.returncode, 0)

    def test_without_cortex(self) -> None:
        env = {**os.environ, "PYTHONPATH": str(HERE)}
        got = subprocess.run([sys.executable, "-c", "from cortex_agent import Agent\nAgent().run()"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertIn("this is an agent, which Cortex runs: cortex agent exec", got.stderr)
        self.assertEqual(got.returncode, 1)


if __name__ == "__main__":
    unittest.main()
