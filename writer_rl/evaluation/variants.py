"""Ablations of the query side (Table 22): one track or one level of the hierarchy is silent, everything else is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from data.memory.state import State
from data.network import GROUP
from rollout.query.pipeline import Shared


@dataclass(frozen=True)
class Variant:
    """`shared` and `state` turn what the whole pipeline would see into what this one sees. `label` follows the Writer's
    name in tables. `may_lack_evidence`: finding nothing is a result here, not a fault."""

    label: str
    shared: Callable[[Shared], Shared]
    state: Callable[[State], State]
    may_lack_evidence: bool = False


def _without_system2(shared: Shared) -> Shared:
    """No rows, hence no raw messages that stand in for empty ones either."""
    return shared if shared.projection is None else replace(shared, projection=replace(shared.projection, rows=()))


def _without_system1(shared: Shared) -> Shared:
    """No verbatim message: none selected, and none near enough to stand in for an empty row."""
    if shared.verbatim is None or shared.view.vectors is None:
        return shared
    silent = replace(shared.view, vectors=np.zeros_like(shared.view.vectors))
    return replace(shared, view=silent, verbatim=replace(shared.verbatim, selected=()))


def _person_records(state: State) -> State:
    return State(record for record in state if record.owner != GROUP)


def _group_records(state: State) -> State:
    return State(record for record in state if record.owner == GROUP)


def _same(shared: Shared) -> Shared:
    return shared


WHOLE = Variant("", _same, lambda state: state)
VARIANTS: Mapping[str, Variant] = MappingProxyType(
    {
        "no-s1": Variant("w/o S1", _without_system1, lambda state: state, may_lack_evidence=True),
        "no-s2": Variant("w/o S2", _without_system2, lambda state: state),
        "no-group": Variant("w/o S2-group", _same, _person_records),
        "no-person": Variant("w/o S2-person", _same, _group_records),
    }
)
