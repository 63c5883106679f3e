"""Short-answer questions on a told story: every answer follows from the gold records alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from data.gym.story import Story
from data.gym.vocabulary import ATTRIBUTES
from data.gym.world import Slot
from data.network import GROUP, Question

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

WORDINGS: dict[str, tuple[str, ...]] = {
    "current": ("What is {owner}'s {noun} now?", "What is {owner}'s {noun} currently?", "{owner}'s {noun} is what?"),
    "holder": ("Whose {noun} is {value}?", "Who has {value} as {noun}?"),
    "said": ("Who said that {owner}'s {noun} is {value}?", "Who told the others that {owner}'s {noun} is {value}?"),
    "announced": ("Who announced the group decision on the {noun}?", "Who said what the group decision on the {noun} is?"),
    "view": ("According to {source}, what is {owner}'s {noun}?", "What is {owner}'s {noun} according to {source}?"),
    "earlier": ("What was {owner}'s {noun} at first?", "What was {owner}'s first {noun}, before any change?"),
    "vote_earlier": ("What was {owner}'s first vote for the {noun}?", "What was {owner}'s vote for the {noun} at first?"),
    "decision_earlier": (
        "What was the first group decision on the {noun}?",
        "What was the group decision on the {noun} at first?",
    ),
    "stance": ("What is {owner}'s stance on the {noun}?", "What is {owner}'s stance on the {noun} now?"),
    "stance_earlier": ("What was {owner}'s stance on the {noun} at first?", "What was {owner}'s first stance on the {noun}?"),
    "vote": ("What is {owner}'s vote for the {noun}?", "What does {owner}'s vote for the {noun} say now?"),
    "decision": ("What is the group decision on the {noun}?", "What is the final group decision on the {noun}?"),
    "habit": ("What is {owner}'s usual {noun}?",),
    "norm": ("What is the group norm for {noun}?",),
    "exception": ("Who is the exception to the {noun} norm?", "Who does not follow the {noun} norm, as the exception?"),
    "relation": ("What is {owner}'s relation to {other}?",),
    "never": ("What is {owner}'s {noun}?", "What is {owner}'s {noun} now?"),
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it has an id."""

    kind: str
    text: str
    answer: str
    evidence: tuple[str, ...] = ()


def ask(story: Story, rng: random.Random) -> tuple[Question, ...]:
    """Questions at the end of a network, ids q01, q02, ..: kinds in turn, so that rare ones get their share."""
    pools: dict[str, list[Draft]] = {}
    for draft in [*_on_slots(story, rng), *_never(story, rng)]:
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


def _on_slots(story: Story, rng: random.Random) -> Iterator[Draft]:
    told = [slot for slot in story.slots if slot.nodes]
    for slot in told:
        head, first = slot.nodes[-1], slot.nodes[0]
        rivals = sum(one.kind == "report" and one.owner == slot.owner and one.noun == slot.noun for one in told)

        def draft(kind: str, answer: str, evidence: tuple[str, ...], wording: str = "", slot: Slot = slot) -> Draft:
            text = rng.choice(WORDINGS[wording or kind])
            fields = {"owner": slot.owner, "source": slot.source, "noun": slot.noun, "value": slot.value, "other": slot.other}
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
        if len(slot.nodes) > 1 and rivals < 2:
            wordings = {"fact": "earlier", "report": "earlier", "stance": "stance_earlier", "vote": "vote_earlier"}
            wordings["decision"] = "decision_earlier"
            if slot.kind in wordings and first.value != head.value:
                yield draft("earlier", first.value, first.evidence, wordings[slot.kind])


def _never(story: Story, rng: random.Random) -> Iterator[Draft]:
    """About an attribute that nobody in this network has, though somebody may have wished for it."""
    held = {slot.noun for slot in story.slots if slot.owner != GROUP}
    free = [noun for noun in ATTRIBUTES if noun not in held]
    for noun in rng.sample(free, min(2, len(free))):
        text = rng.choice(WORDINGS["never"]).format(owner=rng.choice(story.names), noun=noun)
        yield Draft("never", text, NOT_MENTIONED)
