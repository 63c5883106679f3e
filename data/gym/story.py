"""The author of a gym network: draws events, changes and distractors that fit what has been told so far."""

from __future__ import annotations

import random

from data.gym import wording
from data.gym.config import EVENTS, GymConfig, Split
from data.gym.vocabulary import ATTRIBUTES, CUSTOMS, HABITS, RELATIONS, TOPICS, coin
from data.gym.world import Block, Line, Slot, Write
from data.network import GROUP

NOUNS = 5  # attributes a network talks about: few, so that members share them
HOT = 2  # topics that members take sides on


class Story:
    """Holds the slots of one network and draws blocks. All randomness comes from `rng`."""

    def __init__(self, config: GymConfig, split: Split, rng: random.Random) -> None:
        self.config, self.split, self.rng = config, split, rng
        self.taken: set[str] = set()
        self.names = tuple(coin(rng, split, self.taken).capitalize() for _ in range(rng.randint(*config.members)))
        self.nouns = tuple(rng.sample(tuple(ATTRIBUTES), NOUNS))
        topics = rng.sample(TOPICS, len(TOPICS))
        self.hot, self.plans = tuple(topics[:HOT]), tuple(topics[HOT:])
        self.slots: list[Slot] = []
        self.touched: set[Slot] = set()  # slots written or repeated in the open segment: once each

    def open_segment(self) -> None:
        self.touched.clear()

    # -- events ------------------------------------------------------------------------------------------------

    def event(self, room: int) -> Block | None:
        """A block that writes one record (a norm may bring its exception where there is room for two), or None where
        nothing of the drawn kind is left to tell."""
        weights = self.config.weights
        revisable = [slot for slot in self.slots if weights.get(slot.kind) and slot.nodes and slot not in self.touched]
        if revisable and self.rng.random() < self.config.update:
            return self._told(self.rng.choice(revisable))
        kind = self.rng.choices(EVENTS, weights=[weights[name] for name in EVENTS])[0]
        slot = self._new(kind)
        if slot is None:
            return None
        block = self._told(slot)
        self.slots.append(slot)
        return self._with_exception(block) if kind == "norm" and room > 1 else block

    def _new(self, kind: str) -> Slot | None:
        speaker = self.rng.choice(self.names)
        noun = self._noun(kind)
        if kind in ("decision", "norm"):
            free = not any(slot.kind == kind and slot.noun == noun for slot in self.slots)
            return Slot(kind, GROUP, speaker, noun) if free else None
        if kind == "relation":
            other = self._another(speaker)
            free = not any(slot.kind == kind and {slot.owner, slot.other} == {speaker, other} for slot in self.slots)
            return Slot(kind, speaker, speaker, "relation", other) if free else None
        if kind in ("report", "habit"):
            owner = self._another(speaker)
            rivals = [slot for slot in self.slots if slot.owner == owner and slot.noun == noun]
            if kind == "report" and self.rng.random() < self.config.conflict:
                return self._conflict() or (None if rivals else Slot(kind, owner, speaker, noun))
            return None if rivals else Slot(kind, owner, speaker, noun)
        taken = any(slot.owner == speaker and slot.noun == noun for slot in self.slots)
        return None if taken else Slot(kind, speaker, speaker, noun)

    def _conflict(self) -> Slot | None:
        """A second report about a slot that another person reported on."""
        reports = [slot for slot in self.slots if slot.kind == "report" and slot not in self.touched]
        if not reports or len(self.names) < 3:
            return None
        first = self.rng.choice(reports)
        sources = {slot.source for slot in reports if slot.owner == first.owner and slot.noun == first.noun}
        free = [name for name in self.names if name not in sources and name != first.owner]
        return Slot("report", first.owner, self.rng.choice(free), first.noun) if free else None

    def _noun(self, kind: str) -> str:
        match kind:
            case "stance":
                return self.rng.choice(self.hot)
            case "vote" | "decision":
                return self.rng.choice(self.plans)
            case "habit":
                return self.rng.choice(tuple(HABITS))
            case "norm":
                return self.rng.choice(CUSTOMS)
            case _:
                return self.rng.choice(self.nouns)

    def _value(self, slot: Slot) -> str:
        closed = {"stance": wording.STANCES, "relation": RELATIONS}.get(slot.kind)
        if closed is None:
            return coin(self.rng, self.split, self.taken)
        return self.rng.choice([value for value in closed if not slot.nodes or value != slot.value])

    def _told(self, slot: Slot) -> Block:
        """Tell a new value of a slot: over one message, or two (`elliptic`)."""
        self.touched.add(slot)
        rng, change, value = self.rng, bool(slot.nodes), self._value(slot)
        group = slot.owner == GROUP
        speaker = rng.choice(self.names) if change and group else slot.source
        if slot.kind in ("fact", "report") and rng.random() < self.config.elliptic:
            return self._told_twice(slot, value, change)
        if slot.kind == "stance":
            text = (rng.choice(wording.MIND) if change else "") + rng.choice(wording.STANCE[value])
        else:
            wordings = wording.PLAIN[slot.kind]
            if change and (slot.kind in ("habit", "norm", "decision", "relation") or rng.random() < 0.5):
                wordings = wording.CHANGE[slot.kind]
            text = rng.choice(wordings)
        line = Line(speaker, self._dress(self._fill(text, slot, value)))
        return Block((line,), (Write(slot, value, speaker, (0,)),))

    def _told_twice(self, slot: Slot, value: str, change: bool) -> Block:
        pairs = wording.SEEN if slot.kind == "report" else wording.ASKED_CHANGE if change else wording.ASKED_NEW
        first, second = (self._fill(text, slot, value) for text in self.rng.choice(pairs))
        opener = slot.source if slot.kind == "report" else self._another(slot.source)
        lines = (Line(opener, first), Line(slot.source, second, reply=opener != slot.source))
        return Block(lines, (Write(slot, value, slot.source, (0, 1)),))

    def _with_exception(self, block: Block) -> Block:
        """Half of the new norms come with an exception: told with the norm, or by the exception in reply."""
        write, rng = block.writes[0], self.rng
        if rng.random() < 0.25:
            return block
        norm, person = write.slot, self._another(write.speaker)
        if rng.random() < 0.5:
            slot = Slot("exception", person, write.speaker, norm.noun)
            lines: tuple[Line, ...] = (Line(write.speaker, self._fill(rng.choice(wording.EXCEPT), norm, write.value, person)),)
        else:
            slot = Slot("exception", person, person, norm.noun)
            lines = (*block.lines, Line(person, rng.choice(wording.EXCEPT_SELF), reply=True))
        self.slots.append(slot)
        self.touched.add(slot)
        return Block(lines, (write, Write(slot, person, slot.source, tuple(range(len(lines))))))

    # -- distractors -------------------------------------------------------------------------------------------

    def distractor(self) -> Block:
        """A message that deserves no record."""
        rng, speaker = self.rng, self.rng.choice(self.names)
        fields = {"other": self._another(speaker), "value": coin(rng, self.split, self.taken)}
        if rng.random() >= self.config.lures:
            return Block((Line(speaker, rng.choice(wording.SMALL_TALK).format(**fields)),))
        kind = rng.choices(("attribute", "topic", "once", "repeat"), weights=(4, 2, 1, 3))[0]
        known = [slot for slot in self.slots if slot.kind in wording.REPEAT and slot.nodes and slot not in self.touched]
        if kind == "repeat" and known:
            return self._repeat(rng.choice(known))
        if kind == "once":
            text = rng.choice(wording.ONCE).format(past=rng.choice(tuple(HABITS.values())), **fields)
        elif kind == "topic":
            text = rng.choice(wording.TOPIC_LURES).format(noun=rng.choice(self.hot + self.plans), **fields)
        else:
            text = rng.choice(wording.LURES).format(noun=rng.choice(self.nouns), **fields)
        return Block((Line(speaker, self._dress(text)),))

    def _repeat(self, slot: Slot) -> Block:
        """The current value of a slot, told again by who told it last."""
        self.touched.add(slot)
        speaker = slot.nodes[-1].speaker
        if slot.kind == "fact" and self.rng.random() < self.config.elliptic:
            first, second = (self._fill(text, slot, slot.value) for text in self.rng.choice(wording.ASKED_REPEAT))
            return Block((Line(self._another(speaker), first), Line(speaker, second, reply=True)))
        wordings = wording.REPEAT[slot.kind]
        if slot.kind == "stance":
            wordings += wording.STANCE[slot.value]  # only the memory tells it from news
        return Block((Line(speaker, self._fill(self.rng.choice(wordings), slot, slot.value)),))

    # -- words -------------------------------------------------------------------------------------------------

    def _another(self, name: str) -> str:
        return self.rng.choice([one for one in self.names if one != name])

    def _fill(self, text: str, slot: Slot, value: str, owner: str = "") -> str:
        old = slot.value if slot.nodes else ""
        fields = {"noun": slot.noun, "value": value, "old": old, "other": slot.other, "past": HABITS.get(slot.noun, "")}
        return text.format(owner=owner or slot.owner, **fields)

    def _dress(self, text: str) -> str:
        """Chat filler before or behind some messages."""
        roll = self.rng.random()
        if roll < 0.25:
            return self.rng.choice(wording.FILLERS) + text
        if roll < 0.4 and not text.endswith("?"):
            return text + self.rng.choice(wording.TAILS)
        return text
