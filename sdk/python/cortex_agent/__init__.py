"""Agents for Cortex in Python, with the standard library only.

    from cortex_agent import Agent, Task

    agent = Agent()

    @agent.task
    def count(task: Task) -> str:
        return str(len(task.text.split()))

    agent.run()

Cortex runs the program: cortex agent exec --card card.yaml --protocol jsonl --keep -- python3 count.py

A handler gets a Task. It may be a function, a generator, or an async version of either; each task runs in a thread of its own. What it
returns is the result: a str is text; a dict, a list or a dataclass is data; a Question asks the user; None means the text that was streamed.
What a generator yields is streamed. It refuses a task by raising Rejected; any other exception fails the task.

A second parameter of the handler is the task's structured input, built and checked by its annotation: a dataclass, or a plain type.

print() goes to standard error, which is the agent's log: standard output belongs to the protocol.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import itertools
import json
import os
import re
import sys
import threading
import traceback
import types
import typing
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Tuple, TypeVar, Union

__all__ = ["Agent", "Answer", "AskFailed", "Canceled", "File", "Question", "Rejected", "Round", "Task"]
__version__ = "0.1.0"

_MAX_LINE = 1 << 20  # bytes
_PIECE = 100_000  # characters of streamed text in a line
_ABOUT = re.compile(rb'\s*\{\s*"type"\s*:\s*"\w+"\s*,\s*(?:"version"\s*:\s*\d+\s*,\s*)?"id"\s*:\s*("(?:[^"\\]|\\.)*")')  # which task a line is about
_UNIONS = (Union, getattr(types, "UnionType", Union))
_H = TypeVar("_H", bound=Callable[..., Any])


def _claim() -> Optional[Tuple[BinaryIO, BinaryIO]]:
    """Takes standard input and output for the protocol, before anybody else reads or prints; None if this is no program of Cortex."""
    if os.environ.pop("CORTEX_PROTOCOL", "").split(" ")[0] != "jsonl":
        return None
    sys.stdout.flush()
    streams = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return streams


_streams = _claim()


class Rejected(Exception):
    """The agent refuses the task, and has not begun it. The text tells the user why."""


class AskFailed(Exception):
    """What was asked of others has failed. The text says why."""


class Canceled(BaseException):
    """The task was canceled. Methods of Task raise it, so that the handler ends; `except Exception` does not catch it."""


@dataclasses.dataclass
class Question:
    """A question to the user. The reply arrives as a task with the same id, maybe in another process: it has .reply, and .state is state."""

    text: str
    state: Any = None


@dataclasses.dataclass(frozen=True)
class File:
    """A file that a task or an answer brings."""

    name: str
    type: str
    size: int
    path: Path


@dataclasses.dataclass(frozen=True)
class Round:
    """What was said before a question of this task, and the question."""

    text: str
    question: str


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of Task.ask."""

    text: str
    data: Any = None
    files: List[File] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return self.text


class Task:
    """What the agent is asked to do. Its methods can be called from any thread."""

    def __init__(self, line: Dict[str, Any], send: Callable[[Dict[str, Any]], None]) -> None:
        self.id: str = line["id"]
        self.context: str = line.get("context", "")  #: the conversation
        self.skill: str = line.get("skill", "")  #: the id of the requested skill
        self.text: str = line.get("text", "")  #: the words of the task, or the user's reply
        self.input: Any = line.get("input")  #: structured input
        self.parts: List[Dict[str, Any]] = line.get("parts", [])  #: all that the task brings, as A2A parts
        self.files: List[File] = _files(line)
        self.folder: Path = Path(line.get("folder") or ".")  #: files in it can become files of the result
        self.deadline: str = line.get("deadline", "")  #: RFC 3339, or empty
        self.delivery: int = line.get("delivery", 1)  #: above 1, the task was begun before, and lost
        self.reply: bool = line.get("reply", False)  #: text is the user's reply to a question
        self.state: Any = line.get("state")  #: of that Question; None if it is not known on this machine
        self.history: List[Round] = [Round(r.get("text", ""), r.get("question", "")) for r in line.get("history", [])]
        self.traceparent: str = line.get("traceparent", "")
        self.tracestate: str = line.get("tracestate", "")
        self._send = send
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._asks: Dict[str, Dict[str, Any]] = {}  # by their ids: {"event", then "reply"}
        self._canceled = threading.Event()
        self._reason = ""
        self._on_cancel: Optional[Callable[[], None]] = None

    def progress(self, text: str) -> None:
        """Shows one line to those who watch, and gives the task more time."""
        self._say("progress", text=text)

    def stream(self, text: str) -> None:
        """Shows a piece of the result's text as it is made. If the handler returns None, the pieces are the result."""
        for i in range(0, len(text), _PIECE):
            self._say("text", text=text[i : i + _PIECE])

    def artifact(self, name: str, *, text: Optional[str] = None, data: Any = None, description: str = "", append: bool = False) -> None:
        """Adds an output to the result: text or data. With append, text is added to the output of that name."""
        line: Dict[str, Any] = {"name": name, "text": text, "data": _plain(data), "description": description, "append": append}
        self._say("artifact", **{k: v for k, v in line.items() if v is not None and v != "" or k == "text" and text is not None})

    def file(self, name: Union[str, "os.PathLike[str]"], content: Union[bytes, str, None] = None, *, media_type: str = "") -> Path:
        """Adds a file to the result: with content, or the one of that name that is in .folder already. Returns its path."""
        path = self.folder / name
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self._say("file", path=str(path), name=path.name, media_type=media_type)
        return path

    def ask(self, text: str = "", *, agent: str = "", skill: str = "", input: Any = None) -> Answer:
        """Asks Cortex, or an agent, and waits for the answer. Raises AskFailed. In an async handler: await asyncio.to_thread(task.ask, …)."""
        ask = str(next(self._numbers))
        waiting: Dict[str, Any] = {"event": threading.Event()}
        with self._lock:
            self._asks[ask] = waiting
        line = {"ask": ask, "text": text, "agent": agent, "skill": skill, "input": _plain(input)}
        self._say("ask", **{k: v for k, v in line.items() if v not in ("", None) or k == "text"})
        waiting["event"].wait()
        self.check()
        reply: Dict[str, Any] = waiting["reply"]
        if reply.get("failed"):
            raise AskFailed(reply.get("text", ""))
        return Answer(reply.get("text", ""), reply.get("data"), _files(reply))

    @property
    def canceled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self._canceled.is_set()

    def check(self) -> None:
        """Raises Canceled if the task was canceled; for long work that calls no other method."""
        if self.canceled:
            raise Canceled(self._reason)

    def sleep(self, seconds: float) -> None:
        """Waits, and raises Canceled as soon as the task is canceled."""
        self._canceled.wait(seconds)
        self.check()

    def _say(self, type: str, **fields: Any) -> None:
        self.check()
        self._send({"type": type, "id": self.id, **fields})

    def _cancel(self, reason: str) -> None:
        with self._lock:
            self._reason = reason
            self._canceled.set()
            for waiting in self._asks.values():
                waiting["event"].set()
            if self._on_cancel:
                self._on_cancel()

    def _replied(self, line: Dict[str, Any]) -> None:
        with self._lock:
            waiting = self._asks.pop(line.get("ask", ""), None)
        if waiting:
            waiting["reply"] = line
            waiting["event"].set()


class Agent:
    """A program that does tasks."""

    def __init__(self) -> None:
        self._handlers: Dict[str, Callable[..., Any]] = {}
        self._tasks: Dict[str, Task] = {}
        self._threads: Dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()

    @typing.overload
    def task(self, skill: _H) -> _H: ...

    @typing.overload
    def task(self, skill: str = "") -> Callable[[_H], _H]: ...

    def task(self, skill: Any = "") -> Any:
        """Makes a function the handler of a skill, @agent.task("count"), or of all that have no other, @agent.task."""
        if callable(skill):
            self._handlers[""] = skill
            return skill

        def decorate(handler: _H) -> _H:
            self._handlers[skill] = handler
            return handler

        return decorate

    def run(self) -> None:
        """Does tasks until Cortex says that there are no more."""
        if _streams is None:
            me = os.path.basename(sys.argv[0]) or "agent.py"
            sys.exit(f"this is an agent, which Cortex runs: cortex agent exec --card card.yaml --protocol jsonl --keep -- python3 {me}")
        for raw in _streams[0]:
            try:
                self._take(json.loads(raw))
            except Exception as e:
                self._refuse(raw, e)
        with self._lock:
            left, threads = list(self._tasks.values()), list(self._threads.values())
        for task in left:
            task._cancel("the agent is stopping")
        for thread in threads:
            thread.join(1)
        sys.stderr.flush()
        os._exit(0)  # threads that do not listen must not keep it

    def _take(self, line: Dict[str, Any]) -> None:
        kind, id = line.get("type"), line.get("id", "")
        if kind == "task":
            self._begin(line)
            return
        with self._lock:
            task = self._tasks.get(id)
        if task and kind == "cancel":
            task._cancel(line.get("reason", ""))
        elif task and kind == "reply":
            task._replied(line)

    def _refuse(self, raw: bytes, why: Exception) -> None:
        """Fails the task of a line that cannot be handled, such as one that is nested too deeply; the others go on."""
        print(f"a line cannot be handled: {why!r}: {raw[:200]!r}", file=sys.stderr)
        about = _ABOUT.match(raw)
        if about is None:
            return
        id = json.loads(about.group(1))
        self._send({"type": "error", "id": id, "text": f"the agent cannot handle what it was given: {why}"[:4000]})
        with self._lock:
            task = self._tasks.get(id)
        if task:
            task._cancel("it has failed")

    def _begin(self, line: Dict[str, Any]) -> None:
        task = Task(line, self._send)
        thread = threading.Thread(target=self._work, args=(task,), name=f"task {task.id}", daemon=True)
        with self._lock:
            self._tasks[task.id], self._threads[task.id] = task, thread
        try:
            thread.start()
        except RuntimeError:  # there are too many
            with self._lock:
                self._tasks.pop(task.id, None)
                self._threads.pop(task.id, None)
            raise

    def _work(self, task: Task) -> None:
        try:
            line = _line(self._do(task))
        except Rejected as e:
            line = {"type": "rejected", "text": str(e)}
        except (Canceled, asyncio.CancelledError):
            line = {"type": "error", "text": "canceled"}
        except BaseException as e:
            traceback.print_exc(limit=-50)  # of an endless recursion all is alike
            line = {"type": "error", "text": str(e) or type(e).__name__}
        with self._lock:
            self._tasks.pop(task.id, None)
            self._threads.pop(task.id, None)
        try:
            self._send({**line, "id": task.id})
        except (TypeError, ValueError, RecursionError) as e:
            self._send({"type": "error", "id": task.id, "text": f"the result cannot be sent: {e}"[:4000]})

    def _do(self, task: Task) -> Any:
        handler = self._handlers.get(task.skill) or self._handlers.get("")
        if handler is None and not task.skill and len(self._handlers) == 1:
            handler = next(iter(self._handlers.values()))
        if handler is None:
            raise Rejected(f"there is no skill {task.skill!r}: the skills are {', '.join(sorted(self._handlers))}")
        given = handler(task, *_input(handler, task))
        if inspect.isasyncgen(given) or inspect.iscoroutine(given):
            return asyncio.run(_async(task, given))
        if not inspect.isgenerator(given):
            return given
        try:
            while True:
                task.stream(next(given))
        except StopIteration as e:
            return e.value
        finally:
            given.close()

    def _send(self, line: Dict[str, Any]) -> None:
        b = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        if len(b) > _MAX_LINE:
            raise ValueError(f"it has {len(b)} bytes, and at most {_MAX_LINE} can be said at once: give it as a file")
        assert _streams is not None
        with self._writing:
            try:
                _streams[1].write(b)
                _streams[1].flush()
            except OSError:
                os._exit(1)  # nobody listens


async def _async(task: Task, given: Any) -> Any:
    """Runs an async handler, and cancels it with its task."""

    async def pieces() -> None:
        async for piece in given:
            task.stream(piece)

    running = asyncio.ensure_future(pieces() if inspect.isasyncgen(given) else given)
    loop = asyncio.get_running_loop()

    def cancel() -> None:
        try:
            loop.call_soon_threadsafe(running.cancel)
        except RuntimeError:
            pass  # it has just ended

    with task._lock:
        task._on_cancel = cancel
        if task.canceled:
            running.cancel()
    return await running


def _line(result: Any) -> Dict[str, Any]:
    """Returns the line that ends a task with what its handler returned."""
    if isinstance(result, Question):
        line = {"type": "input_required", "text": result.text}
        return line if result.state is None else {**line, "state": _plain(result.state)}
    if result is None:
        return {"type": "result"}
    if isinstance(result, (str, Answer)):
        return {"type": "result", "text": str(result)}
    return {"type": "result", "data": _plain(result)}


def _plain(value: Any) -> Any:
    """Turns dataclasses into dicts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value


def _files(line: Dict[str, Any]) -> List[File]:
    return [File(f["name"], f.get("type", ""), f["size"], Path(f["path"])) for f in line.get("files", [])]


def _input(handler: Callable[..., Any], task: Task) -> List[Any]:
    """Returns the arguments of a handler behind the task: the input, if it takes one."""
    parameters = list(inspect.signature(handler).parameters.values())
    if len(parameters) < 2:
        return []
    kind = typing.get_type_hints(handler).get(parameters[1].name, Any)
    if kind is str:
        return [task.text]
    value = task.input
    if value is None and task.text.lstrip().startswith("{"):
        try:
            value = json.loads(task.text)
        except ValueError:
            pass
    if value is None and not _takes_none(kind):
        raise Rejected("this takes structured input, and there is none")
    return [_build(kind, value, "the input")]


def _takes_none(kind: Any) -> bool:
    return kind is Any or typing.get_origin(kind) in _UNIONS and type(None) in typing.get_args(kind)


def _build(kind: Any, value: Any, what: str) -> Any:
    """Builds a value of a type from JSON, or says what does not fit."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return value
    if origin in _UNIONS:
        if value is None and type(None) in args:
            return None
        wrong: Optional[Rejected] = None
        for one in args:
            if one is not type(None):
                try:
                    return _build(one, value, what)
                except Rejected as e:
                    wrong = wrong or e
        raise wrong or Rejected(f"{what} does not fit")
    if origin is typing.Literal:
        if value not in args:
            raise Rejected(f"{what} must be one of {', '.join(map(repr, args))}")
        return value
    if dataclasses.is_dataclass(kind):
        _must(isinstance(value, dict), what, "an object")
        hints, fields = typing.get_type_hints(kind), {}
        for f in dataclasses.fields(kind):
            if f.name in value:
                fields[f.name] = _build(hints[f.name], value[f.name], f"{what}: {f.name}")
            elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                raise Rejected(f"{what}: {f.name} is missing")
        return kind(**fields)
    if kind is list or origin is list:
        _must(isinstance(value, list), what, "a list")
        return [_build(args[0], v, f"{what}: {i}") for i, v in enumerate(value)] if args else value
    if kind is dict or origin is dict or hasattr(kind, "__required_keys__"):
        _must(isinstance(value, dict), what, "an object")
        for k in sorted(getattr(kind, "__required_keys__", ())):  # of a TypedDict
            _must(k in value, f"{what}: {k}", "there")
        return {k: _build(args[1], v, f"{what}: {k}") for k, v in value.items()} if len(args) == 2 else value
    if kind is float:
        _must(isinstance(value, (int, float)) and not isinstance(value, bool), what, "a number")
        return float(value)
    if kind is int:
        _must(isinstance(value, int) and not isinstance(value, bool), what, "a whole number")
    elif kind is str:
        _must(isinstance(value, str), what, "text")
    elif kind is bool:
        _must(isinstance(value, bool), what, "true or false")
    return value


def _must(so: bool, what: str, wanted: str) -> None:
    if not so:
        raise Rejected(f"{what} must be {wanted}")
