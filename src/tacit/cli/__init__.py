"""The command line. A mistake of the user gives one sentence on stderr and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Annotated

import typer

from tacit.cli import account, audit, data, demo, deploy, ledger, show, site
from tacit.cli import compare as comparing
from tacit.cli import model as modelling
from tacit.cli import plan as planning
from tacit.cli import report as reporting
from tacit.cli import run as running
from tacit.cli import serve as serving
from tacit.errors import TacitError

app = typer.Typer(
    name="tacit",
    help="Federated learning with differential privacy guarantees that hold as printed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from tacit import __version__

        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    del version


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
app.command("report")(reporting.report)
app.command("serve")(serving.serve)
app.command("predict")(modelling.predict)
app.command("evaluate")(modelling.evaluate)
app.command("export")(modelling.export)
app.command("examples")(running.examples)
app.command("demo")(demo.demo)

# Other packages may add commands: the experiments of the repository add `reproduce`.
for found in entry_points(group="tacit.commands"):
    try:
        app.command(found.name)(found.load())
    except Exception as error:  # a broken package must not take all commands along
        typer.echo(f"tacit: the command {found.name} cannot be loaded: {error}", err=True)

# The base class of all usage errors; typer has its own copy of click, so it comes from typer.
_UsageMistake: type[Exception] = typer.BadParameter.__mro__[2]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 2 a mistake of the user, 130 interrupted."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    command = typer.main.get_command(app)
    json = "--json" in (sys.argv if arguments is None else arguments)
    try:
        result = command.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="tacit",
            standalone_mode=False,
        )
    except TacitError as error:
        return _mistake(str(error), json=json)
    except _UsageMistake as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # nothing was asked for: show what there is
            typer.echo(str(error))
            return 0
        told = error.format_message() if hasattr(error, "format_message") else str(error)
        return _mistake(told, json=json)
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


def _mistake(sentence: str, *, json: bool) -> int:
    if json:
        show.as_json({"error": sentence})
    elif sentence:
        typer.echo(f"tacit: {sentence}", err=True)
    return 2
