"""What memory is made of: layers, utypes and the record (Tables 5 and 6 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Layer(StrEnum):
    """The five layers: one verbatim (System 1), four derived (System 2)."""

    EPISODIC = "per_speaker_episodic"
    CORE = "per_speaker_core"
    PROFILE = "per_speaker_profile"
    INTERACTION = "group_interaction"
    INSIGHT = "group_insight"

    @property
    def group(self) -> bool:
        return self in (Layer.INTERACTION, Layer.INSIGHT)


DERIVED_LAYERS = (Layer.CORE, Layer.PROFILE, Layer.INTERACTION, Layer.INSIGHT)


class UType(StrEnum):
    """What kind of statement a record is; `utterance` only for verbatim ones."""

    UTTERANCE = "utterance"
    FACT = "fact"
    STANCE = "stance"
    OBSERVATION = "observation"
    DECISION = "decision"
    RELATION = "relation"


DERIVED_UTYPES = (UType.FACT, UType.STANCE, UType.OBSERVATION, UType.DECISION, UType.RELATION)

CONFIDENCE_NEW = 0.7
CONFIDENCE_VERBATIM = 0.6
CONFIDENCE_STEP = 0.1


@dataclass(frozen=True, slots=True)
class Record:
    """One memory entry (Table 6). `owner` and `source` are roster names or GROUP. `links` holds the older node of an
    UPDATE, `superseded_by` the newer one; nothing else about a record ever changes. `turn` is the index in its
    session, `turn_created` the global write order (the number of verbatim messages written before or with it)."""

    entry_id: str
    content: str
    owner: str
    source: str
    layer: Layer
    utype: UType
    session: str
    turn: int
    turn_created: int
    ts: str
    from_ids: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    superseded_by: str | None = None
    confidence: float = CONFIDENCE_NEW

    @property
    def verbatim(self) -> bool:
        return self.layer is Layer.EPISODIC

    @property
    def head(self) -> bool:
        """True for the current node of its slot."""
        return self.superseded_by is None
