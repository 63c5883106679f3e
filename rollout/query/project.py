"""Project: from a role's raw output to resolved constraints (Eq. 4: rows, issue, mode, scope)."""

from __future__ import annotations

from dataclasses import dataclass

from data.network import ALL, GROUP, AmbiguousMember, Roster, UnknownMember, fold
from rollout.query.evidence import Tense
from rollout.query.roles import Projected


@dataclass(frozen=True, slots=True)
class Projection:
    """Resolved constraints of a question. `rows` are roster names, GROUP last where ALL was asked for; `source` is the
    relation constraint; `unknown` reports names of the role's output that are nobody's, or more than one member's."""

    issue: str
    rows: tuple[str, ...]
    tense: Tense
    source: str | None = None
    unknown: tuple[str, ...] = ()


def resolve(raw: Projected, roster: Roster, question: str) -> Projection:
    """Rows against the roster: unknown ones are reported, and if none resolves the rows are ALL (design section 8).

    A blank issue becomes the question; an unknown source is reported and constrains nothing.
    """
    rows: dict[str, None] = {}
    unknown: list[str] = []
    everybody = False
    for name in raw.rows:
        if fold(name) == fold(ALL):
            everybody = True
        elif (found := _canonical(name, roster)) is None:
            unknown.append(name)
        else:
            rows[found] = None
    if everybody or not rows:
        group = (GROUP,) if GROUP in rows else ()
        resolved = (*roster.names, *group)
    else:
        resolved = tuple(rows)
    source = None
    if raw.source is not None and (source := _canonical(raw.source, roster)) is None:
        unknown.append(raw.source)
    return Projection(raw.issue if raw.issue.strip() else question, resolved, raw.tense, source, tuple(unknown))


def _canonical(name: str, roster: Roster) -> str | None:
    if fold(name) == fold(GROUP):
        return GROUP
    try:
        return roster.canonical(name)
    except (UnknownMember, AmbiguousMember):
        return None
