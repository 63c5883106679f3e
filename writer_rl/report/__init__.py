"""One self-contained HTML page of a run: curves, evaluation tables, cost, and every trajectory to read."""

from writer_rl.report.page import write_report

__all__ = ["write_report"]
