"""Runs the blocks of a page as a reader would: in one folder, from top to bottom.

Commands of Tacit run in this process, which spares the start of a program for each.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import os
import runpy
import shlex
import subprocess
import sys
import tomllib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from page_blocks import Block, commands_of
from page_output import agree

_SHELL = set("|;<>&$`*")  # what needs a shell


class Output(NamedTuple):
    """What a page shows, and what was printed."""

    block: Block
    shown: str
    printed: str

    @property
    def agrees(self) -> bool:
        """Whether they are the same."""
        return agree(self.shown, self.printed, tail=self.block.note == "the end of the output")


class Session:
    """The names and the last output of a page; its folder is the current one."""

    def __init__(self, name: str) -> None:
        self.module = types.ModuleType(name)
        sys.modules[name] = self.module  # dataclasses look their module up
        self.printed: str | None = None

    def run(self, block: Block) -> list[Output]:
        """Run or check one block, and return the outputs that its page shows."""
        if block.unrun or not _wanted(block):
            self.printed = None
            return []
        if block.title:
            place = Path(block.title)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.text, encoding="utf-8")
        kinds: dict[str, Callable[[Block], list[Output]]] = {
            "python": self._python,
            "pycon": self._pycon,
            "console": self._console,
            "bash": self._bash,
            "text": self._text,
            "toml": _toml,
            "json": _json,
            "csv": lambda _: [],
        }
        if block.language not in kinds:
            raise ValueError(f"the language {block.language!r} is not one of {', '.join(kinds)}")
        return kinds[block.language](block)

    def _python(self, block: Block) -> list[Output]:
        if block.title:  # a file that a command below uses
            return []
        with printing() as said:
            exec(compile(block.text, block.where, "exec"), self.module.__dict__)
        self.printed = said.getvalue()
        return []

    def _pycon(self, block: Block) -> list[Output]:
        test = doctest.DocTestParser().get_doctest(
            block.text, self.module.__dict__, block.where, str(block.page), block.line
        )
        told = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(test, out=told.write, clear_globs=False)
        self.module.__dict__.update(test.globs)  # the parser copies the names
        if told.getvalue():
            raise AssertionError(told.getvalue())
        return []

    def _console(self, block: Block) -> list[Output]:
        found = []
        for command in commands_of(block):
            code, said = performed(command.plain)
            if code and not command.shown.startswith("tacit: "):
                raise AssertionError(f"{command.plain}\nends with code {code}:\n{said}")
            if command.shown:
                found.append(Output(block, command.shown, said))
        return found

    def _bash(self, block: Block) -> list[Output]:
        parts = [command.plain for command in commands_of(block)]
        if any(needs_shell(part) for part in parts):
            parts = [f"set -e\n{block.text}"]
        self.printed = ""
        for part in parts:
            code, said = performed(part)
            if code:
                raise AssertionError(f"{part}\nends with code {code}:\n{said}")
            self.printed += said
        return []

    def _text(self, block: Block) -> list[Output]:
        if block.title:
            return []
        if self.printed is None:
            raise AssertionError("nothing above it was run: what does it show?")
        return [Output(block, block.text, self.printed)]


def needs_shell(command: str) -> bool:
    """Whether this is more than one program of ours."""
    return not command.startswith(("tacit ", "python ")) or bool(_SHELL & set(command))


def performed(command: str) -> tuple[int, str]:
    """The exit code of a command, and what it prints in a terminal of 80 columns."""
    if needs_shell(command):
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        done = subprocess.run(
            ["bash", "-c", command],
            env={**os.environ, "PATH": path, "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout
    words = shlex.split(command, comments=True)
    with printing() as said:
        if words[0] == "python":
            runpy.run_path(words[1], run_name="__main__")
            code = 0
        else:
            from tacit.cli import run

            code = run(words[1:])
    return code, said.getvalue()


@contextlib.contextmanager
def printing() -> Iterator[io.StringIO]:
    """Everything that is printed meanwhile."""
    os.environ["COLUMNS"] = "80"
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        yield said


def _wanted(block: Block) -> bool:
    """Whether this machine has what the comment above the block asks for."""
    words = block.note.split()
    if block.note.startswith("run when"):
        name, state = words[2], words[-1]
        return name in os.environ if state == "set" else importlib.util.find_spec(name) is not None
    return True


def _json(block: Block) -> list[Output]:
    json.loads(block.text)
    return []


def _toml(block: Block) -> list[Output]:
    """Read a configuration with the reader of its kind; plan the run if its records are there."""
    from tacit.algorithms.names import ALGORITHMS
    from tacit.deployment.setup.settings import ServerSettings
    from tacit.deployment.setup.site_settings import SiteSettings
    from tacit.run import Run
    from tacit.run.config import RunConfig
    from tacit.validation import validated

    values = tomllib.loads(block.text)
    kind, _, name = block.note.rpartition(" ")
    if kind == "read as":
        section = {"site.toml": SiteSettings, "server.toml": ServerSettings}[name]
        validated(section, values, name)
        return []
    config = RunConfig.from_dict(_merged(name, values) if kind == "part of" else values)
    assert config.algorithm.name in ALGORITHMS, config.algorithm.name
    if "path" in config.data or config.data.get("name") in ("digits", "breast-cancer"):
        Run.from_config(config).check()
    return []


def _merged(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """An example, or a file above, with these sections; one that has a name replaces the other."""
    from tacit.cli.run import example_text

    file = Path(name)
    base = tomllib.loads(file.read_text() if file.is_file() else example_text(name))
    for section, content in values.items():
        whole = {"name", "path"} & set(content)
        base[section] = content if whole else {**base.get(section, {}), **content}
    return base
