"""``tacit reproduce``: rerun the tables and figures of the papers, with their true guarantees."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show
from tacit.errors import ConfigError, TacitError

if TYPE_CHECKING:
    from experiments.reproduce.entry import Entry
    from experiments.reproduce.runner import Step
    from experiments.reproduce.store import Store
    from experiments.reproduce.summary import Summary

_RESULTS = Path("results/reproduce")


def reproduce(
    name: Annotated[
        str, typer.Argument(help="A name of `list`, a paper, `all`; or `list`, `check`, `page`.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A few rounds, nothing stored.")] = False,
    only: Annotated[str, typer.Option(help="Only lines whose row or method contains this.")] = "",
    printed: Annotated[
        bool, typer.Option("--printed", help="Only the paper's settings, no honest budgets.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="Seeds to report.", min=1)] = None,
    jobs: Annotated[int, typer.Option(help="Processes to run in.", min=1)] = 1,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Continue, or run everything again.")
    ] = True,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = _RESULTS,
    docs: Annotated[Path, typer.Option(help="`page`: folder of the pages.")] = Path("docs"),
    readme: Annotated[
        Path | None, typer.Option(help="`page`: a README with markers for its tables.")
    ] = None,
    count: Annotated[int, typer.Option(help="`check`: number of results to rerun.", min=1)] = 3,
    draw: Annotated[int, typer.Option(help="`check`: seed of the random choice.")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="The page; beside the results if not given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Rerun a table or figure of a paper, with its printed settings and at honest budgets."""
    from experiments.reproduce.store import Store

    store = Store(results)
    if name == "list":
        _list(store, json=json)
    elif name == "check":
        _check(store, count, draw, json=json)
    elif name == "page":
        _page(store, docs, readme, json=json)
    else:
        if not resume and (only or printed):
            raise ConfigError("--fresh deletes all results of an entry: omit --only and --printed.")

        def cut(entry: Entry) -> Entry:
            from experiments.reproduce.entry import part
            from experiments.reproduce.entry import quick as shortened

            less = part(entry, only, printed=printed) if only or printed else entry
            less = shortened(less) if quick else less
            return replace(less, seeds=seeds) if seeds is not None else less

        _run(name, Store(None) if quick else store, cut, jobs, resume, report, json=json)


def _run(
    name: str,
    store: Store,
    cut: Callable[[Entry], Entry],
    jobs: int,
    resume: bool,
    report: Path | None,
    *,
    json: bool,
) -> None:
    from experiments.reproduce import catalogue
    from experiments.reproduce.jobs import due
    from experiments.reproduce.report import write_report
    from experiments.reproduce.runner import run_entry
    from experiments.reproduce.summary import Summary

    wanted = list(dict.fromkeys(catalogue.source(entry).name for entry in catalogue.find(name)))
    if report is not None and len(wanted) > 1:
        raise ConfigError("--report names one file: give the name of one table or figure.")
    shown: list[dict[str, Any]] = []
    for each in wanted:
        whole = catalogue.ENTRIES[each]
        entry = cut(whole)
        absent = catalogue.missing_data(entry)
        if absent and (due(entry, store) or not resume):  # stored results need no data
            if len(wanted) == 1:
                raise ConfigError(_needs(absent))
            shown.append({"name": each, "state": "needs data", "needs": list(absent)})
            continue
        if not resume:
            store.forget(entry.name)
        with Watch(entry.name, quiet=json) as watch:
            run_entry(entry, store, jobs=jobs, on_step=watch)
        # A claim is about all lines, including those that were run before.
        summary = Summary(
            entry if store.folder is None else replace(entry, lines=whole.lines), store
        )
        quick = store.folder is None
        shown.append({"name": each, "quick": quick, "lines": _lines(entry, summary)})
        if not json:
            _print(entry, summary, quick=quick)
        page = report or (None if store.folder is None else store.folder / f"{each}.html")
        if page is not None:
            shown[-1]["report"] = str(write_report(summary.entry, summary, page, quick=quick))
            if not json:
                show.sentence(f"The report is {page}.")
    if json:
        show.as_json({"entries": shown})


def _needs(absent: tuple[str, ...]) -> str:
    return (
        f"the data of this reproduction is missing ({', '.join(absent)}): `tacit data show"
        f" {absent[0]}` tells what to put into TACIT_DATA."
    )


def _lines(entry: Entry, summary: Summary) -> list[dict[str, Any]]:
    from experiments.reproduce.entry import stage_name

    found = []
    for line in entry.lines:
        for stage in entry.stages(line):
            cell = summary.cell(line.row, line.method, stage)
            if cell is None:
                continue
            found.append(
                {
                    "row": line.row,
                    "method": line.method,
                    "stage": stage_name(stage),
                    "printed": None if line.printed is None else line.printed.value,
                    "quantity": entry.quantity.label,
                    "mean": cell.mean,
                    "std": cell.std,
                    "seeds": len(cell.values),
                    "settings": cell.settings,
                    "epsilon": cell.epsilon,
                    "guarantee": cell.records[0].guarantee,
                    "failed": cell.failed or None,
                }
            )
    return found


def _print(entry: Entry, summary: Summary, *, quick: bool) -> None:
    from experiments.reproduce.report import QUICK
    from tacit.accounting.guarantee import rounded_up

    mark = " QUICK" if quick else ""
    rows = [
        (
            f"{line['row']}, {line['method']}",
            line["stage"],
            "" if line["printed"] is None else entry.quantity.show(line["printed"]),
            _spread(entry, line) + mark,
            rounded_up(line["epsilon"], 4) + mark,
        )
        for line in _lines(entry, summary)
    ]
    show.table(("line", "stage", "printed", "here", "true epsilon"), rows, title=entry.title)
    show.sentence(f"{entry.quantity.label}; the true epsilon is for the whole run.")
    if quick:
        show.sentence(f"{QUICK} Without --quick the claim is judged.")
        return
    for verdict in entry.judge(summary) if entry.judge else []:
        if verdict.answer != "not run":
            where = "as printed" if verdict.stage is None else f"at epsilon {verdict.stage:g}"
            show.sentence(f"{entry.claim} {where}: {verdict.answer}. {verdict.why}")


def _spread(entry: Entry, line: dict[str, Any]) -> str:
    show_number = entry.quantity.show
    more = f" ± {show_number(line['std'])}" if line["seeds"] > 1 else ""
    return show_number(line["mean"]) + more


def _list(store: Store, *, json: bool) -> None:
    from experiments.reproduce import catalogue

    rows: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "title": entry.title,
            "state": catalogue.state(entry, store),
            "minutes": catalogue.source(entry).minutes,
            "needs": list(catalogue.missing_data(entry)),
            "of": entry.of,
        }
        for entry in catalogue.ENTRIES.values()
    ]
    rows += [
        {
            "name": item.name,
            "title": item.title,
            "state": "needs data",
            "minutes": None,
            "needs": [item.dataset or item.provide],
            "of": None,
        }
        for item in catalogue.WAITING
    ]
    if json:
        show.as_json({"reproductions": rows})
        return
    show.table(
        ("name", "state", "minutes"),
        [
            (r["name"], r["state"], "" if r["minutes"] is None else f"{r['minutes']:g}")
            for r in rows
        ],
    )
    show.sentence("Minutes are for a whole entry on two cores; the same command continues a run.")
    for item in catalogue.WAITING:
        show.sentence(f"{item.name} needs {item.provide}.")


def _check(store: Store, count: int, draw: int, *, json: bool) -> None:
    from experiments.reproduce.check import check, stale

    found = list(check(store, count=count, seed=draw))
    if not found:
        raise ConfigError("there are no results to check: run `tacit reproduce NAME` first.")
    old = stale(store)
    if json:
        lines = [{**vars(item), "agrees": item.agrees} for item in found]
        show.as_json({"checked": lines, "stale": old})
    else:
        show.table(
            ("result", "stored", "rerun", "allowed", "agrees"),
            [
                (
                    f"{item.entry}, {item.row}, {item.method}, {item.stage}",
                    f"{item.stored:.4g}",
                    f"{item.found:.4g}",
                    f"{item.allowed:.2g}",
                    "yes" if item.agrees else "NO",
                )
                for item in found
            ],
        )
        if old:
            show.sentence(f"Some results of {', '.join(old)} are from earlier settings.")
    if not all(item.agrees for item in found):
        raise TacitError("a rerun differs from its stored result by more than the noise.")


def _page(store: Store, docs: Path, readme: Path | None, *, json: bool) -> None:
    from experiments.reproduce.page import write_page

    pages = write_page(store, docs)
    if readme is not None:
        from experiments.readme import write_readme

        pages += write_readme(store, readme, docs)
    written = [str(path) for path in pages]
    if json:
        show.as_json({"written": written})
    else:
        show.sentence(f"Written: {', '.join(written)}.")


class Watch:
    """Progress in rounds of training, with the remaining time."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(file=sys.stderr, highlight=False)
        self._plain = None if quiet or console.is_terminal else console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[last]}"),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bar.add_task(name, total=None, last="")

    def __enter__(self) -> Watch:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, step: Step) -> None:
        """Show that a unit is finished."""
        record = step.record
        last = f"{record.row}, {record.method}, {record.stage}"
        self._bar.update(self._task, completed=step.done, total=step.known, last=last[:40])
        if self._plain is not None:
            self._plain.print(f"{step.done}/{step.known} rounds  {last}", soft_wrap=True)
