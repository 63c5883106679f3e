"""What is true in a gym network: slots with their nodes from old to new, and the blocks of messages that tell them."""

from __future__ import annotations

from dataclasses import dataclass, field

from data.gym.vocabulary import ATTRIBUTES
from data.gym.wording import content
from data.memory.records import Layer, UType

COORDINATES = {
    "fact": (Layer.CORE, UType.FACT),
    "report": (Layer.PROFILE, UType.OBSERVATION),
    "stance": (Layer.CORE, UType.STANCE),
    "vote": (Layer.CORE, UType.STANCE),
    "decision": (Layer.INTERACTION, UType.DECISION),
    "habit": (Layer.PROFILE, UType.OBSERVATION),
    "norm": (Layer.INSIGHT, UType.OBSERVATION),
    "exception": (Layer.PROFILE, UType.OBSERVATION),
    "relation": (Layer.CORE, UType.RELATION),
}


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a slot: who told it, the teacher's ref for it, and the ids of the messages that told it."""

    value: str
    speaker: str
    ref: str
    evidence: tuple[str, ...]


@dataclass(eq=False)
class Slot:
    """One thing to remember. `owner` is a member's name or GROUP, `other` the second person of a relation."""

    kind: str
    owner: str
    source: str
    noun: str
    other: str = ""
    nodes: list[Node] = field(default_factory=list)

    @property
    def value(self) -> str:
        return self.nodes[-1].value

    @property
    def title(self) -> str:
        """What the memory and the questions call the noun."""
        return ATTRIBUTES[self.noun] if self.kind in ("fact", "report") else self.noun

    def content(self, value: str) -> str:
        return content(self.kind, self.owner, self.title, value, self.other)


@dataclass(frozen=True, slots=True)
class Line:
    """A message before it has an id: the speaker's name, the text, whether it replies to the line before it."""

    speaker: str
    text: str
    reply: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """A new node for `slot`, told by the lines of its block with these indices."""

    slot: Slot
    value: str
    speaker: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that stay together when a segment is shuffled, and what they write; a distractor writes nothing."""

    lines: tuple[Line, ...]
    writes: tuple[Write, ...] = ()
