"""The command line. A mistake of the user gives one sentence on stderr and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

import typer

from tacit.cli import account, audit, data, demo, deploy, ledger, site
from tacit.cli import compare as comparing
from tacit.cli import plan as planning
from tacit.cli import run as running
from tacit.errors import TacitError

app = typer.Typer(
    name="tacit",
    help="Federated learning with differential privacy guarantees that hold as printed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(account.account, name="account")
app.add_typer(account.calibrate, name="calibrate")
app.add_typer(ledger.app, name="ledger")
app.add_typer(data.app, name="data")
app.add_typer(deploy.app, name="deploy")
app.add_typer(site.app, name="site")
app.add_typer(audit.app, name="audit")
app.command("run")(running.run)
app.command("compare")(comparing.compare)
app.command("plan")(planning.plan)
app.command("examples")(running.examples)
app.command("demo")(demo.demo)

# Other packages may add commands: the experiments of the repository add `reproduce`.
for found in entry_points(group="tacit.commands"):
    app.command(found.name)(found.load())

# The base class of all usage errors; typer has its own copy of click, so it comes from typer.
_UsageMistake: type[Exception] = typer.BadParameter.__mro__[2]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 2 a mistake of the user, 130 interrupted."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    command = typer.main.get_command(app)
    try:
        result = command.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="tacit",
            standalone_mode=False,
        )
    except TacitError as error:
        return _mistake(str(error))
    except _UsageMistake as error:
        return _mistake(error.format_message() if hasattr(error, "format_message") else str(error))
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        return 0
    if result == 130:  # typer has turned the interrupt into an exit code
        return _interrupted()
    return result if isinstance(result, int) else 0


def _interrupted() -> int:
    typer.echo("tacit: interrupted.", err=True)
    return 130


def _mistake(sentence: str) -> int:
    if sentence:
        typer.echo(f"tacit: {sentence}", err=True)
    return 2
