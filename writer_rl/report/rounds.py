"""What the page's viewer reads: an index of all trajectories, one block of data a round, one a network. Plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from data.memory.records import Record
from data.memory.state import State
from rewards.matching import Matcher
from rewards.weights import RewardWeights
from writer_rl.report.comparison import Comparison, compare, near
from writer_rl.report.diagnosis import diagnose, mean_return
from writer_rl.report.replay import Replayed, replay_round
from writer_rl.report.run import Row, Run

TOLERANCE = 1e-6  # between a recorded Phi and the one computed again


@dataclass
class Viewer:
    """`index` has one entry a round, `rounds` its block by number, `networks` a block by id."""

    index: list[Row] = field(default_factory=list)
    rounds: dict[int, list[Row]] = field(default_factory=dict)
    networks: dict[str, Row] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_rounds(run: Run) -> Viewer:
    """Replay every round of a run and set it beside the reference."""
    weights = RewardWeights() if run.recipe is None else RewardWeights(**run.recipe.grpo.reward.model_dump())
    viewer = Viewer()
    matchers: dict[str, Matcher] = {}
    changed = differs = total = 0
    for number, rows in run.rounds():
        trajectories = replay_round(rows, run.cases)
        entries, blocks = [], []
        for one in trajectories:
            matcher = matchers.setdefault(one.network, Matcher())
            compared = _compare(one, run, matcher)
            group = [other for other in trajectories if (other.network, other.visit) == (one.network, one.visit)]
            entries.append(_entry(one, group, compared, weights))
            blocks.append(_block(one, group[0], compared, _reference(one, run), matcher))
            viewer.networks.setdefault(one.network, _network(one, run))
            total += 1
            changed += not one.agrees
            differs += _differs(one, compared)
        viewer.index.append({"round": number, "trajectories": entries})
        viewer.rounds[number] = blocks
    if changed:
        viewer.notes.append(
            f"{changed} of {total} trajectories do not replay as they were written: parser or executor have changed since this "
            "run, and the states shown are those of today's."
        )
    if differs:
        viewer.notes.append(
            f"{differs} of {total} trajectories score another Phi now than they did: the networks, their teacher or the "
            "matching have changed since this run."
        )
    return viewer


def _reference(one: Replayed, run: Run) -> tuple[State, ...] | None:
    case = run.cases.get(one.network)
    if case is None or case.references is None or len(case.references) < len(one.rows):
        return None
    return case.references


def _compare(one: Replayed, run: Run, matcher: Matcher) -> list[Comparison] | None:
    references = _reference(one, run)
    if references is None or one.states is None:
        return None
    return [compare(state, reference, matcher) for state, reference in zip(one.states, references, strict=False)]


def _differs(one: Replayed, compared: Sequence[Comparison] | None) -> bool:
    pairs = zip(one.rows, compared or (), strict=False)
    return any(abs(row["reward"]["phi"] - comparison.score.phi) > TOLERANCE for row, comparison in pairs)


def _entry(one: Replayed, group: Sequence[Replayed], compared: Sequence[Comparison] | None, weights: RewardWeights) -> Row:
    """A trajectory in the index: enough to choose it by, and why it scored as it did."""
    return {
        "network": one.network,
        "visit": one.visit,
        "g": one.g,
        "mean": _short(mean_return(one.rows)),
        "returns": [_short(row["reward"]["return"]) for row in one.rows],
        "why": diagnose(one.rows, [other.rows for other in group], compared[-1] if compared else None, weights),
    }


def _block(
    one: Replayed,
    first: Replayed,
    compared: Sequence[Comparison] | None,
    references: tuple[State, ...] | None,
    matcher: Matcher,
) -> Row:
    """A trajectory's writes, and its records with the position that each was written at."""
    block: Row = {"writes": [_write(one, first, compared, t) for t in range(len(one.rows))]}
    if one.states is not None:
        block["records"] = _records(one.states)
    if one.states is not None and references is not None:
        last = references[len(one.rows) - 1]
        alike = {record.entry_id: near(record, last, matcher) for record in one.states[-1]}
        block["near"] = {
            name: [[ref.entry_id, _short(kappa)] for ref, kappa in found] for name, found in alike.items() if found
        }
    return block


def _write(one: Replayed, first: Replayed, compared: Sequence[Comparison] | None, t: int) -> Row:
    row = one.rows[t]
    prompt = one.prompt(t, first)
    shared = row.get("prompt_shared", 0)
    made = {
        "text": row["text"],
        "parse": row["parse"],
        "error": row["parse_error"],
        "finish": row["finish_reason"],
        "over": row["over_budget"],
        "tokens": [row["prompt_tokens"], row["completion_tokens"]],
        "fates": [[action.get(name) for name in ("fate", "reason", "detail", "entry_id")] for action in row["actions"]],
        "reward": {name: _short(value) for name, value in row["reward"].items()},
        "owners": {name: _short(value) for name, value in row["owners"].items()},
        "advantage": _short(row["advantage"]),
    }
    if prompt is not None:
        made["prompt"] = [shared, prompt[shared:]]
    if "questions" in row:
        made["questions"] = row["questions"]
    if compared is not None:
        made["pairs"] = [[ours, theirs, _short(kappa)] for ours, theirs, kappa in compared[t].pairs]
    return made


def _records(states: Iterable[State]) -> list[list[Any]]:
    """Every record once: [id, t, owner, source, layer, utype, content, from_ids, id of the one it replaces]."""
    made, seen = [], 0
    for t, state in enumerate(states):
        fresh = list(state)[seen:]
        seen += len(fresh)
        made += [_record(record, t) for record in fresh]
    return made


def _record(record: Record, t: int) -> list[Any]:
    older = record.links[0] if record.links else None
    place = [record.owner, record.source, record.layer.value, record.utype.value]
    return [record.entry_id, t, *place, record.content, list(record.from_ids), older]


def _network(one: Replayed, run: Run) -> Row:
    """What all trajectories of a network share: what is read, what is asked, and the reference states."""
    case = run.cases.get(one.network)
    references = _reference(one, run)
    return {
        "segments": [
            {
                "session": segment.session,
                "messages": [[v.entry_id, v.source, v.ts, v.content] for v in segment.verbatim],
            }
            for segment in one.segments or ()
        ],
        "sessions": [row["session"] for row in one.rows],
        "references": None if references is None else _records(references[: len(one.rows)]),
        "questions": {} if case is None else {q.id: [q.text, q.answer] for q in case.network.questions},
    }


def _short(value: float | None) -> float | None:
    """Four decimals are more than a reader sees, and half the bytes."""
    return None if value is None else round(value, 4)
