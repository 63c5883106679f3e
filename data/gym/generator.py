"""A gym network and its gold teacher: a pure function of (config, split, seed, index)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from data.gym.config import GymConfig, Split
from data.gym.questions import ask
from data.gym.story import Story
from data.gym.world import COORDINATES, Block, Line, Node
from data.network import Member, Message, Network, Roster, Session
from data.teacher import Step, Teacher

BENCHMARK = "gym"
MOST_ACTIONS = 4  # a segment
ATTEMPTS = 20  # draws of an event before a segment goes on without one
FIRST_DAY = datetime(2024, 1, 8, 9, 0, tzinfo=UTC)


def generate(config: GymConfig, split: Split, seed: int, index: int) -> tuple[Network, Teacher]:
    """Network `index` of a split and its gold actions. The same arguments give the same bytes.

    One session is one segment. Names and values are words of `split` alone.
    """
    rng = random.Random(f"gym/{split}/{seed}/{index}")
    story = Story(config, split, rng)
    name = f"gym_{split}_{seed}_{index}"
    roster = Roster(tuple(Member(f"u{i + 1}", label) for i, label in enumerate(story.names)))
    sessions, steps = [], []
    lines: list[Line] = []
    number = refs = 0
    for t in range(rng.randint(*config.segments)):
        blocks = _segment(story)
        messages, told = _messages(blocks, roster, t, number)
        lines += [line for block in blocks for line in block.lines]
        number += len(messages)
        steps.append(_steps(told, refs))
        refs += len([step for step in steps[-1] if step.ref])
        date = (FIRST_DAY + timedelta(days=t)).strftime("%Y-%m-%d")
        sessions.append(Session(f"s{t + 1}", messages, date))
    questions = ask(story, lines, rng)
    network = Network(name, roster, tuple(sessions), questions, BENCHMARK, source="data.gym")
    return network, Teacher(name, tuple(steps), source="data.gym")


def networks(config: GymConfig, split: Split, seed: int, count: int) -> Iterator[tuple[Network, Teacher]]:
    """Networks 0..count-1 of a split, one at a time."""
    return (generate(config, split, seed, index) for index in range(count))


def _segment(story: Story) -> list[Block]:
    """Blocks of one segment in shuffled order: events for the messages that are not to distract, then distractors."""
    rng, config = story.rng, story.config
    story.open_segment()
    length = rng.randint(*config.messages)
    quiet = rng.random() < config.quiet
    wanted = 0 if quiet else sum(rng.random() >= config.distractors for _ in range(length))
    blocks: list[Block] = []
    for _ in range(ATTEMPTS):
        room = MOST_ACTIONS - sum(len(block.writes) for block in blocks)
        if room == 0 or sum(len(block.lines) for block in blocks) >= wanted:
            break
        block = story.event(room)
        if block is not None:
            blocks.append(block)
    while sum(len(block.lines) for block in blocks) < length:
        blocks.append(story.distractor())
    rng.shuffle(blocks)
    return blocks


def _messages(
    blocks: list[Block], roster: Roster, t: int, number: int
) -> tuple[tuple[Message, ...], list[tuple[Block, list[str]]]]:
    """The messages of segment `t` (ids go on after `number`), and for each block the ids of its lines."""
    ids = {label: member.id for label, member in zip(roster.names, roster.members, strict=True)}
    messages: list[Message] = []
    told = []
    for block in blocks:
        mine: list[str] = []
        for line in block.lines:
            now = FIRST_DAY + timedelta(days=t, minutes=3 * len(messages))
            reply = mine[-1] if line.reply else None
            mine.append(f"m{number + len(messages) + 1}")
            stamp = now.strftime("%Y-%m-%d %H:%M")
            messages.append(Message(mine[-1], ids[line.speaker], line.text, stamp, now, True, reply))
        told.append((block, mine))
    return tuple(messages), told


def _steps(told: list[tuple[Block, list[str]]], refs: int) -> tuple[Step, ...]:
    """Gold steps of a segment in message order; enters each new node into its slot."""
    steps: list[Step] = []
    for block, ids in told:
        for write in block.writes:
            slot, ref = write.slot, f"r{refs + len(steps) + 1}"
            evidence = tuple(ids[line] for line in write.lines)
            text = slot.content(write.value)
            if slot.nodes:
                steps.append(Step("UPDATE", text, ref=ref, target=slot.nodes[-1].ref, evidence=evidence))
            else:
                layer, utype = COORDINATES[slot.kind]
                steps.append(Step("ADD", text, slot.owner, slot.source, layer.value, utype.value, ref, "", evidence))
            slot.nodes.append(Node(write.value, write.speaker, ref, evidence))
    return tuple(steps) or (Step("NOOP"),)
