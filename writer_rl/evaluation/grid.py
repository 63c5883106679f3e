"""The top-k grid of Appendix H from rows: a table, response curves, and a heat map with two metrics a cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from writer_rl.evaluation.accuracy import accuracy, mean_token_f1, questions_of
from writer_rl.evaluation.arms import GRID_K, GRID_TOP_K, grid_suffix
from writer_rl.evaluation.rows import Row

Cell = tuple[float, float]  # accuracy, token-F1, both in %
COLOURS = ("#1b5e8c", "#c2703d", "#4c8055")
BLUES, ROSES = ("#eef4fa", "#2f74b5"), ("#fdf0f3", "#c2446b")


def grid_cells(rows: Sequence[Row], writer: str) -> dict[tuple[int, int], Cell]:
    """(System 1 top-k, System 2 k) -> what was measured there; cells that were not asked are absent."""
    found = {}
    for top_k in GRID_TOP_K:
        for k in GRID_K:
            label = f"{writer} {grid_suffix(top_k, k)}"
            if questions_of(rows, label):
                found[top_k, k] = (100 * accuracy(rows, label).mean, 100 * mean_token_f1(rows, label))
    return found


def plain_cells(rows: Sequence[Row], writer: str) -> list[dict[str, float]]:
    """The cells for programs, as shares."""
    return [
        {"top_k": top_k, "k": k, "accuracy": one[0] / 100, "token_f1": one[1] / 100}
        for (top_k, k), one in grid_cells(rows, writer).items()
    ]


def grid_table(rows: Sequence[Row], writer: str) -> str:
    """System 1 top-k down, System 2 k across, each accuracy / token-F1 in %."""
    cells = grid_cells(rows, writer)
    lines = ["| S1 top-k (= recall-n) | " + " | ".join(f"S2 k={k}" for k in GRID_K) + " |", "|---" * (len(GRID_K) + 1) + "|"]
    for top_k in GRID_TOP_K:
        shown = [f"{cells[top_k, k][0]:.2f} / {cells[top_k, k][1]:.2f}" if (top_k, k) in cells else "" for k in GRID_K]
        lines.append(f"| {top_k} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def draw_curves(rows: Sequence[Row], writer: str, to: Path, note: str = "") -> None:
    """Two panels with scales of their own: accuracy (solid, circles) and token-F1 (dashed, squares) against top-k, a colour
    a System 2 budget; the best observed cell of each metric is ringed."""
    pyplot = _pyplot()
    cells = grid_cells(rows, writer)
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
    for metric, (axis, name, style) in enumerate(zip(axes, ("Accuracy (%)", "token-F1 (%)"), ("o-", "s--"), strict=True)):
        for k, colour in zip(GRID_K, COLOURS, strict=True):
            points = [(top_k, cells[top_k, k][metric]) for top_k in GRID_TOP_K if (top_k, k) in cells]
            axis.plot(*zip(*points, strict=True), style, color=colour, label=f"S2 k={k}")
        best = max(cells, key=lambda cell: cells[cell][metric])
        axis.plot(best[0], cells[best][metric], "o", markersize=14, fillstyle="none", color="black")
        axis.set(xlabel="S1 top-k (recall-n equals top-k)", ylabel=name, xticks=GRID_TOP_K)
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.suptitle(f"Retrieval budgets, {writer}{note}")
    figure.tight_layout()
    figure.savefig(to, dpi=120)
    pyplot.close(figure)


def draw_heatmap(rows: Sequence[Row], writer: str, to: Path, note: str = "") -> None:
    """A cell a configuration, split: accuracy in the upper left (blue), token-F1 in the lower right (rose), each on its own
    colour scale; the best observed configuration of accuracy is outlined."""
    pyplot = _pyplot()
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Polygon, Rectangle

    cells = grid_cells(rows, writer)
    maps = [LinearSegmentedColormap.from_list("", ends) for ends in (BLUES, ROSES)]
    scales = [_scale([cell[metric] for cell in cells.values()]) for metric in (0, 1)]
    figure, axis = pyplot.subplots(figsize=(7.2, 5.4))
    for (top_k, k), values in cells.items():
        x, y = GRID_TOP_K.index(top_k), GRID_K.index(k)
        corners = [[(x, y), (x, y + 1), (x + 1, y + 1)], [(x, y), (x + 1, y), (x + 1, y + 1)]]
        places = [(x + 0.31, y + 0.72), (x + 0.69, y + 0.28)]
        for metric in (0, 1):
            share = scales[metric](values[metric])
            axis.add_patch(Polygon(corners[metric], facecolor=maps[metric](share), edgecolor="white"))
            colour = "white" if share > 0.6 else "black"
            axis.text(*places[metric], f"{values[metric]:.2f}", ha="center", va="center", color=colour, fontsize=12)
    best = max(cells, key=lambda cell: cells[cell][0])
    corner = (GRID_TOP_K.index(best[0]), GRID_K.index(best[1]))
    axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="black", linewidth=2.5))
    axis.set(xlim=(0, len(GRID_TOP_K)), ylim=(0, len(GRID_K)), xlabel="S1 top-k (recall-n equals top-k)", ylabel="S2 k")
    axis.set_xticks([i + 0.5 for i in range(len(GRID_TOP_K))], [str(one) for one in GRID_TOP_K])
    axis.set_yticks([i + 0.5 for i in range(len(GRID_K))], [str(one) for one in GRID_K])
    axis.set_title(f"{writer}{note}\nupper left: accuracy (%), lower right: token-F1 (%)", fontsize=10)
    figure.tight_layout()
    figure.savefig(to, dpi=120)
    pyplot.close(figure)


def _scale(values: Sequence[float]) -> Any:
    """Value -> its place between the least (0) and the most (1) of its own metric."""
    low, high = min(values), max(values)
    return lambda value: 0.5 if high == low else (value - low) / (high - low)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
