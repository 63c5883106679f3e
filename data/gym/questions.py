"""Short-answer questions on a told story: every answer follows from the gold records alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from data.gym.story import Story
from data.gym.vocabulary import ATTRIBUTES
from data.gym.world import Line, Slot
from data.network import Question

NOT_MENTIONED = "not mentioned"
KINDS = (
    "current",
    "holder",
    "said",
    "view",
    "earlier",
    "stance",
    "decision",
    "habit",
    "norm",
    "exception",
    "relation",
    "never",
)

# Ask for what was stated, so that a wish does not answer them.
STATED = (
    "Did anybody state {owner}'s {noun} in this chat, and what is it?",
    "What is {owner}'s {noun}, if anybody stated that in the chat?",
)
WORDINGS: dict[str, tuple[str, ...]] = {
    "current": ("What is {owner}'s {noun} now?", "{owner}'s {noun} is what?", *STATED),
    "holder": ("Whose {noun} is {value}?", "Who has {value} as {noun}?"),
    "said": ("Who said that {owner}'s {noun} is {value}?", "Who told the others that {owner}'s {noun} is {value}?"),
    "announced": ("Who announced the group decision on the {noun}?", "Who said what the group decision on the {noun} is?"),
    "view": ("According to {source}, what is {owner}'s {noun}?", "What is {owner}'s {noun} according to {source}?"),
    "earlier": ("What was {owner}'s {noun} before the last change?", "What was {owner}'s earlier {noun}, before it changed?"),
    "vote_earlier": ("What was {owner}'s vote for the {noun} before the last change?",),
    "decision_earlier": (
        "What was the group decision on the {noun} before the last change?",
        "What was the earlier group decision on the {noun}?",
    ),
    "stance": ("What is {owner}'s stance on the {noun}?", "What is {owner}'s stance on the {noun} now?"),
    "vote": ("What is {owner}'s vote for the {noun}?", "What is {owner}'s vote for the {noun} now?"),
    "decision": ("What is the group decision on the {noun}?", "What is the final group decision on the {noun}?"),
    "habit": ("What is {owner}'s usual {noun}?",),
    "norm": ("What is the group norm for {noun}?",),
    "exception": ("Who is the exception to the {noun} norm?", "Who does not follow the {noun} norm, as the exception?"),
    "relation": ("What is {owner}'s relation to {other}?",),
    "never": STATED,
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it has an id."""

    kind: str
    text: str
    answer: str
    evidence: tuple[str, ...] = ()


def ask(story: Story, told: Sequence[Line], rng: random.Random) -> tuple[Question, ...]:
    """Questions at the end of a network, ids q01, q02, ..: kinds in turn, so that rare ones get their share.

    `told` holds the network's lines: message m1 is told[0].
    """
    pools: dict[str, list[Draft]] = {}
    for draft in [*_on_slots(story, told, rng), *_never(story, told, rng)]:
        pools.setdefault(draft.kind, []).append(draft)
    for pool in pools.values():
        rng.shuffle(pool)
    chosen: list[Draft] = []
    wanted = rng.randint(*story.config.questions)
    while len(chosen) < wanted and any(pools.values()):
        kinds = [kind for kind in KINDS if pools.get(kind)]
        rng.shuffle(kinds)
        chosen += [pools[kind].pop() for kind in kinds[: wanted - len(chosen)]]
    return tuple(
        Question(f"q{i + 1:02d}", draft.text, draft.answer, draft.kind, evidence=draft.evidence, abstain=draft.kind == "never")
        for i, draft in enumerate(chosen)
    )


def _on_slots(story: Story, told: Sequence[Line], rng: random.Random) -> Iterator[Draft]:
    slots = [slot for slot in story.slots if slot.nodes]
    for slot in slots:
        head, first = slot.nodes[-1], slot.nodes[0]
        rivals = sum(one.kind == "report" and one.owner == slot.owner and one.noun == slot.noun for one in slots)

        def draft(kind: str, answer: str, evidence: tuple[str, ...], wording: str = "", slot: Slot = slot) -> Draft:
            text = rng.choice(WORDINGS[wording or kind])
            fields = {"owner": slot.owner, "source": slot.source, "noun": slot.title, "value": slot.value, "other": slot.other}
            return Draft(kind, text.format(**fields), answer, evidence)

        match slot.kind:
            case "fact":
                yield draft("current", head.value, head.evidence)
                yield draft("holder", slot.owner, head.evidence)
            case "report":
                yield draft("said", slot.source, head.evidence)
                if rivals > 1:
                    yield draft("view", head.value, head.evidence)
                else:
                    yield draft("current", head.value, head.evidence)
                    yield draft("holder", slot.owner, head.evidence)
            case "stance" | "vote":
                yield draft("stance", head.value, head.evidence, slot.kind)
            case "decision":
                yield draft("decision", head.value, head.evidence)
                if {node.speaker for node in slot.nodes} == {slot.source}:
                    yield draft("said", slot.source, first.evidence, "announced")
            case "exception":
                yield draft("exception", slot.owner, head.evidence)
            case "habit" | "norm" | "relation":
                yield draft(slot.kind, head.value, head.evidence)
        wording = {"fact": "earlier", "report": "earlier", "vote": "vote_earlier", "decision": "decision_earlier"}.get(
            slot.kind
        )
        if wording and len(slot.nodes) > 1 and rivals < 2 and not _clouded(slot, told):
            yield draft("earlier", slot.nodes[-2].value, slot.nodes[-2].evidence, wording)


def _clouded(slot: Slot, told: Sequence[Line]) -> bool:
    """Whether the owner spoke of the noun between the last two values, so that "before" could mean those words."""
    start, stop = (int(node.evidence[at].removeprefix("m")) for node, at in ((slot.nodes[-2], -1), (slot.nodes[-1], 0)))
    return any(line.speaker == slot.owner and slot.noun in line.text for line in told[start : stop - 1])


def _never(story: Story, told: Sequence[Line], rng: random.Random) -> Iterator[Draft]:
    """About an attribute that nobody in this network has: one of them, where possible, that the person wished for or
    was asked about."""
    held = {slot.noun for slot in story.slots}
    pairs = [(noun, owner) for noun in ATTRIBUTES if noun not in held for owner in story.names]
    lured = [
        (noun, owner) for noun, owner in pairs if any(noun in line.text and owner in line.speaker + line.text for line in told)
    ]
    for noun, owner in {rng.choice(pool): None for pool in (lured, pairs) if pool}:
        text = rng.choice(WORDINGS["never"]).format(owner=owner, noun=ATTRIBUTES[noun])
        yield Draft("never", text, NOT_MENTIONED)
