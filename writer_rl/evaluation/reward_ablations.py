"""Reward ablations: what of a recipe to override for each, and one table over their evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from writer_rl.evaluation.accuracy import accuracy, compare, mean_token_f1
from writer_rl.evaluation.memories import intrinsic
from writer_rl.evaluation.rows import Row
from writer_rl.evaluation.statistics import Interval

# Weights that stay keep their paper values: a part that is left out is 0, nothing is scaled up in its place.
OVERRIDES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "full": (),
        "no QA": ("grpo.reward.w_qa=0.0",),
        "no SpeakerLevenshtein": ("grpo.reward.w_phi=0.0",),
        "no chain": ("grpo.reward.w_chain=0.0",),
        "validity only": ("grpo.reward.w_mem=0.0", "grpo.reward.w_qa=0.0"),
    }
)


def overrides(name: str, run: str) -> list[str]:
    """Recipe overrides that train an ablation of the run `run` under a run name of its own."""
    return [*OVERRIDES[name], f"run={run}-{name.lower().replace(' ', '-')}"]


def ablation_table(rows: Mapping[str, Sequence[Row]], writer: str) -> str:
    """One line an ablation: accuracy with its paired difference to `full`, token-F1, and intrinsic scores of its memories.

    `rows`: ablation -> rows of the same held-out networks, in each of which `writer` is the trained Writer. The `return`
    of a run is not shown: it is measured by the very weights that differ.
    """
    head = [
        "Reward",
        "Acc. (%)",
        "minus full (pp)",
        "McNemar p",
        "token-F1 (%)",
        "final Phi",
        "worst owner",
        "chain",
        "validity",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, ones in rows.items():
        cells = [name, f"{100 * accuracy(ones, writer).mean:.2f}", *_against_full(rows, name, writer)]
        cells.append(f"{100 * mean_token_f1(ones, writer):.2f}")
        found = intrinsic(ones, writer)
        cells += [_cell(found.get(key)) for key in ("final_phi", "final_worst_owner", "final_chain", "valid")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _against_full(rows: Mapping[str, Sequence[Row]], name: str, writer: str) -> list[str]:
    if name == "full" or "full" not in rows:
        return ["–", "–"]
    renamed = [{**row, "writer": label} for label in ("full", name) for row in rows[label] if row["writer"] == writer]
    one = compare(renamed, "full", name)
    if one is None:
        return ["", ""]
    gap = one.difference
    return [f"{100 * gap.mean:+.2f} [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}]", f"{one.p:.3g}"]


def _cell(value: Interval | None) -> str:
    return "" if value is None else f"{value.mean:.3f}"
