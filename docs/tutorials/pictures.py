"""``python docs/tutorials/pictures.py [NAME …]`` draws the pictures of the tutorials.

It does what the tutorials do. A screenshot of a report needs Chromium; ``three-hospitals`` starts
real processes.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "docs"))
TACIT = Path(sys.executable).with_name("tacit")


def first_run(folder: Path) -> None:
    """The report of the rehearsal."""
    example = ("--example", "digits-dp-fedavg", "--set", "train.seed=0")
    _tacit(folder, "run", *example, "--out", "first")
    _screenshot(folder / "first" / "report.html", "first-run-report.png", 980)


def from_csv(folder: Path) -> None:
    """The held-out loss with and without the released scaling."""
    from page_blocks import blocks_of

    blocks = blocks_of(HERE / "from-csv-to-a-private-model.md")
    subprocess.run([sys.executable, "-c", blocks[0].text], cwd=folder, check=True)
    (folder / "clinics.toml").write_text(blocks[2].text, encoding="utf-8")
    plain = [f"--set=data.columns.{column}.scaling=range" for column in ("age", "pressure")]
    run = ("run", "clinics.toml", "--seeds", "10", "--out")
    _tacit(folder, *run, "with")
    _tacit(folder, *run, "without", *plain)
    mpl.rcParams["svg.hashsalt"] = "tacit"
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for name, label in (("with", "with the release"), ("without", "without")):
        rounds, losses = _losses(folder / name)
        (line,) = axes.plot(rounds, losses.mean(1), label=label)
        axes.fill_between(rounds, losses.min(1), losses.max(1), alpha=0.2, color=line.get_color())
    axes.set(xlabel="round", ylabel="held-out loss")
    axes.legend(frameon=False)
    figure.savefig(HERE / "from-csv-loss.svg", metadata={"Date": None})


def three_hospitals(folder: Path) -> None:
    """The report of the demo."""
    _tacit(folder, "deploy", "demo", "--out", "demo")
    _screenshot(
        folder / "demo" / "server" / "run" / "report.html", "three-hospitals-report.png", 1180
    )


def _tacit(folder: Path, *words: str) -> None:
    subprocess.run([TACIT, *words], cwd=folder, check=True)


def _losses(folder: Path) -> tuple[list[int], np.ndarray]:
    found: dict[int, list[float]] = defaultdict(list)
    for file in sorted(folder.glob("seed-*/metrics.csv")):
        for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
            if row["metric"] == "oracle/held_out/loss":
                found[int(row["round"])].append(float(row["value"]))
    return sorted(found), np.array([found[number] for number in sorted(found)])


def _screenshot(page: Path, name: str, height: int) -> None:
    """The top of a page, in few colours: a small file."""
    place = HERE / name
    window = f"--window-size=1000,{height}"
    headless = ("chromium", "--headless", "--no-sandbox", "--hide-scrollbars", window)
    subprocess.run([*headless, f"--screenshot={place}", page.resolve().as_uri()], check=True)
    Image.open(place).convert("RGB").quantize(64).save(place, optimize=True)


DRAWN = {"first-run": first_run, "from-csv": from_csv, "three-hospitals": three_hospitals}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or DRAWN:
        with tempfile.TemporaryDirectory() as temporary:
            DRAWN[chosen](Path(temporary))
