"""What memories and evidence are worth apart from answers: intrinsic scores, and the evidence that retrieval found."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from writer_rl.evaluation.accuracy import questions_of, systems
from writer_rl.evaluation.rows import Row
from writer_rl.evaluation.statistics import Interval, bootstrap_mean

# label, key in a memory row; means over networks with a bootstrap interval
INTRINSIC = (
    ("Phi (mean over positions)", "phi"),
    ("Phi (final)", "final_phi"),
    ("worst owner (final F)", "final_worst_owner"),
    ("chain (networks with updates)", "final_chain"),
    ("validity", "valid"),
    ("coverage (mean over owners)", "coverage"),
    ("coverage (worst owner)", "least_coverage"),
    ("attribution errors", "attribution_errors"),
    ("stale heads", "stale_heads"),
    ("missed heads", "missed"),
    ("heads", "heads"),
    ("QA gain", "qa_gain"),
    ("return", "return"),
)


def intrinsic(rows: Sequence[Row], label: str) -> dict[str, Interval]:
    """Measure -> mean over the label's memories, networks resampled. `final_chain` counts networks whose reference has
    update edges: elsewhere it is 1 for whoever writes no update. Empty where there is no reference."""
    found = {}
    for _, name in INTRINSIC:
        values: dict[str, list[float]] = {}
        for row in rows:
            value = None if row["row"] != "memory" or row["writer"] != label else _value(row, name)
            if value is not None:
                values.setdefault(row["network"], []).append(value)
        if values:
            found[name] = bootstrap_mean(values)
    return found


def _value(row: Row, name: str) -> float | None:
    if "phi" not in row or (name == "final_chain" and row["gold_edges"] == 0):
        return None
    if name in ("coverage", "least_coverage"):
        shares = row["coverage"].values()
        return None if not shares else min(shares) if name == "least_coverage" else fmean(shares)
    value = row.get(name)
    return None if value is None else float(value)


def intrinsic_table(rows: Sequence[Row]) -> str:
    """Measures down, systems with memories across; empty text where there are none."""
    found = {label: intrinsic(rows, label) for label in dict.fromkeys(row["writer"] for row in rows if row["row"] == "memory")}
    found = {label: values for label, values in found.items() if values}
    if not found:
        return ""
    lines = ["| Measure | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for title, name in INTRINSIC:
        if any(name in values for values in found.values()):
            lines.append(f"| {title} | " + " | ".join(_cell(values.get(name)) for values in found.values()) + " |")
    return "\n".join(lines)


def owner_coverage(rows: Sequence[Row], label: str) -> dict[str, dict[str, float]]:
    """network -> owner -> coverage of what the reference holds of them, mean over the label's memories."""
    shares: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row["row"] == "memory" and row["writer"] == label:
            for owner, share in row.get("coverage", {}).items():
                shares.setdefault(row["network"], {}).setdefault(owner, []).append(share)
    return {network: {owner: fmean(ones) for owner, ones in owners.items()} for network, owners in shares.items()}


OWNERS = 30  # lines of the owners' table: whole worlds of synthetic networks have hundreds


def owner_table(rows: Sequence[Row]) -> str:
    """Owners down, the least covered first (mean over systems): whom Writers forget. Empty text where there is no memory."""
    found = {
        label: owner_coverage(rows, label) for label in dict.fromkeys(row["writer"] for row in rows if row["row"] == "memory")
    }
    found = {label: networks for label, networks in found.items() if networks}
    owners = {(network, owner) for networks in found.values() for network, ones in networks.items() for owner in ones}
    if not owners:
        return ""
    shares = {one: [networks.get(one[0], {}).get(one[1]) for networks in found.values()] for one in owners}
    means = {one: fmean(share for share in ones if share is not None) for one, ones in shares.items()}
    worst = sorted(owners, key=lambda one: (means[one], one))[:OWNERS]
    lines = [f"{len(owners)} owners; the {len(worst)} least covered, all in results.json.", ""] if len(owners) > OWNERS else []
    lines += ["| Network | Owner | " + " | ".join(found) + " |", "|---" * (len(found) + 2) + "|"]
    for one in worst:
        cells = ["" if share is None else f"{share:.3f}" for share in shares[one]]
        lines.append(f"| {one[0]} | {one[1]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def evidence_recall(rows: Sequence[Row], label: str, kind: str | None = None) -> dict[str, float]:
    """Share of the questions' evidence messages that were recalled, that stand in the cut System 1 evidence, and that
    System 2's rows cite; `n` counts questions that name any. All of `kind`, where one is given."""
    ones = [row for row in questions_of(rows, label) if row["anchors"][0] and kind in (None, row["type"])]
    total = sum(row["anchors"][0] for row in ones)
    names = ("recall_n", "top_k", "rows")
    shares = {name: sum(row["anchors"][place] for row in ones) / total for place, name in enumerate(names, 1)} if ones else {}
    return {"n": len(ones), **shares}


def evidence_table(rows: Sequence[Row]) -> str:
    """Evidence recall by system, with the questions that found none, and how System 2's rows ended."""
    lines = [
        "| System | questions | recall at n | recall at top-k | cited by rows | without evidence | row statuses |",
        "|---" * 7 + "|",
    ]
    for label in systems(rows):
        found, ones = evidence_recall(rows, label), questions_of(rows, label)
        statuses: dict[str, int] = {}
        for row in ones:
            for one in row["rows"]:
                statuses[one["status"]] = statuses.get(one["status"], 0) + 1
        shares = [f"{found[name]:.3f}" if name in found else "" for name in ("recall_n", "top_k", "rows")]
        empty = sum(row["without_evidence"] for row in ones)
        shown = ", ".join(f"{name} {count}" for name, count in sorted(statuses.items()))
        lines.append(f"| {label} | {found['n']} | " + " | ".join(shares) + f" | {empty} | {shown} |")
    return "\n".join(lines)


def _cell(value: Interval | None) -> str:
    return "" if value is None else f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"
