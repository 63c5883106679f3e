"""How people say things: several wordings per event, and one canonical content per kind for the memory.

Fields: {owner} whom it is about, {noun}, {value}, {old} the value before, {other} the second person.
"""

from __future__ import annotations

CONTENT = {
    "fact": "{owner}'s {noun} is {value}",
    "report": "{owner}'s {noun} is {value}",
    "stance": "{owner}'s stance on the {noun} is {value}",
    "vote": "{owner}'s vote for the {noun} is {value}",
    "decision": "the group decision on the {noun} is {value}",
    "habit": "{owner}'s usual {noun} is {value}",
    "norm": "the group norm for {noun} is {value}",
    "exception": "{owner} is the exception to the {noun} norm",
    "relation": "{owner}'s relation to {other} is {value}",
}

STANCES = ("positive", "negative", "undecided")

# Plain wordings fit a new slot and a change alike: only the memory tells ADD from UPDATE.
PLAIN: dict[str, tuple[str, ...]] = {
    "fact": (
        "my {noun} is {value} now",
        "they gave me {value} for a {noun}",
        "{value} is my {noun} these days",
        "for the list: {noun} {value} on my side",
        "i picked {value} as my {noun} this week",
        "finally sorted my {noun}, {value} it is",
        "you can note {value} as my {noun}",
        "so happy, {value} became my {noun} today",
    ),
    "report": (
        "{owner} told me about the {noun}, it is {value}",
        "{owner} has {value} as {noun} now",
        "heard that {owner} got {value} for a {noun}",
        "i saw the {noun} of {owner}, it is {value}",
        "someone wrote {value} next to {owner} under {noun}",
        "{owner}'s {noun} seems to be {value}",
        "{owner} is away but has {value} for a {noun}",
    ),
    "vote": (
        "my vote for the {noun} goes to {value}",
        "put me down for {value} at the {noun}",
        "for the {noun} i would choose {value}",
        "{value} gets my vote, i mean the {noun}",
        "i vote {value} when it comes to the {noun}",
    ),
    "decision": (
        "it is decided: {value} for the {noun}",
        "we all agreed on {value} for the {noun}",
        "final call for the {noun}, we go with {value}",
        "the {noun} is settled, {value} it will be",
        "everybody said yes to {value} for the {noun}",
    ),
    "habit": (
        "{owner} {past} {value} again, like every time",
        "once more {owner} {past} {value}, as always",
        "of course {owner} {past} {value}, never anything else",
        "every single time {owner} {past} {value}",
        "{value} again, {owner} {past} it like always",
    ),
    "norm": (
        "here we all do {value} for {noun}",
        "everyone sticks to {value} for {noun} in this group",
        "for {noun} it is always {value} with all of us",
    ),
    "relation": (
        "{other} is my {value} by the way",
        "fun fact, {other} and me are {value}s",
        "few people know that {other} is my {value}",
        "you know {other}? that is my {value}",
    ),
}

# Changes that say so. {old} is the head's value.
CHANGE: dict[str, tuple[str, ...]] = {
    "fact": (
        "not {old} anymore, my {noun} is {value}",
        "i switched my {noun} to {value}",
        "my {noun} went from {old} to {value}",
        "goodbye {old}, {value} is my {noun} now",
    ),
    "report": (
        "i was wrong about {owner}, the {noun} is {value}",
        "{owner} moved from {old} to {value}, the {noun} i mean",
        "correction on the {noun} of {owner}: {value}",
    ),
    "vote": ("i take back {old}, {value} for the {noun}", "my vote on the {noun} moves to {value}"),
    "decision": (
        "change of plan, the {noun} moves to {value}",
        "{old} fell through, the {noun} is {value} instead",
        "we had to move the {noun} from {old} to {value}",
    ),
    "habit": (
        "{owner} dropped {old}, it is {value} as {noun} every time now",
        "these days {owner} always takes {value} as {noun}, not {old}",
    ),
    "norm": ("we all moved from {old} to {value} for {noun}", "since monday everyone does {value} for {noun}"),
    "relation": ("{other} is my {value} now, not just my {old}", "{other} and me, no longer {old}s, now {value}s"),
}

STANCE: dict[str, tuple[str, ...]] = {
    "positive": (
        "count me in for the {noun}",
        "the {noun}? yes please",
        "i really like the idea of a {noun}",
        "a {noun} sounds great to me",
        "can't wait for the {noun}",
    ),
    "negative": (
        "i am against the {noun}",
        "no {noun} for me please",
        "the {noun}? hard pass",
        "i really don't want this {noun}",
        "leave me out of the {noun}",
    ),
    "undecided": (
        "not sure about the {noun} yet",
        "the {noun}? can't say right now",
        "i am torn about the {noun}",
        "maybe the {noun}, maybe not, ask me later",
    ),
}
MIND = ("changed my mind: ", "after some thought, ", "hm, ", "")

# Told over two messages: (first, second). ASKED: another member asks, the owner answers. SEEN: the speaker of a
# report names the person first and then speaks of "they".
ASKED_NEW = (
    ("{owner}, what is your {noun}?", "{value}, why?"),
    ("{owner} which {noun} did you get in the end?", "it is {value}"),
    ("who is missing on the {noun} list? {owner}?", "right, write {value} please"),
)
ASKED_CHANGE = (
    ("{owner}, is your {noun} still {old}?", "no, {value} since monday"),
    ("{owner}, same {noun} as before?", "nope, it is {value}"),
    *ASKED_NEW,
)
SEEN = (
    ("i met {owner} this morning", "their {noun} is {value}"),
    ("{owner} called me last night", "they have {value} as {noun}"),
    ("good news from {owner}", "the {noun} over there is {value}"),
)

# A norm and its exception: told by one person, or the exception speaks up.
EXCEPT = ("everyone does {value} for {noun}, just not {owner}", "for {noun} we all do {value}, only {owner} never joins")
EXCEPT_SELF = ("not me, i stay out of that", "everyone but me, as you know", "well, i never did and never will")

# Distractors. LURES mention an attribute and a value that nobody holds.
LURES = (
    "i wish my {noun} was {value}",
    "does anyone know a {noun} called {value}?",
    "if i ever get a {noun} i will name it {value}",
    "{other}, would you take {value} as a {noun}?",
    "imagine {value} as a {noun}, haha",
    "{other} dreamt that my {noun} was {value}, lol",
    "my {noun} is not {value}, whoever says that",
    "almost took {value} as a {noun} but didn't",
    "in the movie the hero has {value} for a {noun}",
)
TOPIC_LURES = (
    "should we do {value} for the {noun}?",
    "has anyone been to a {noun} at {value}?",
    "if we had money the {noun} would be {value}",
    "nothing is decided on the {noun}, {value} is just a rumour",
    "{other}, are you for or against the {noun}?",
    "imagine me at the {noun}, haha",
)
ONCE = (
    "{other} {past} {value} today for a change",
    "just {past} {value} for the first time",
    "{other} {past} {value} once, years ago",
)
REPEAT = {
    "fact": ("yes, my {noun} is still {value}", "as i said, {value} is my {noun}", "no news, {noun} {value} as before"),
    "vote": ("still {value} from me for the {noun}",),
    "report": ("like i said, {owner} has {value} as {noun}",),
    "decision": ("reminder: {value} for the {noun}, as decided",),
    "stance": ("my mind on the {noun} has not changed", "same feelings about the {noun} as before"),
}
ASKED_REPEAT = (
    ("{owner}, is your {noun} still {value}?", "yes, {value} as always"),
    ("{owner}, same {noun} as before?", "yep, still {value}"),
)
SMALL_TALK = (
    "good morning everyone",
    "haha that made my day",
    "is it raining where you are?",
    "thanks a lot {other}",
    "lol {other} you are the best",
    "brb, need some coffee first",
    "who else is tired today?",
    "sorry for the late reply",
    "that film last night was so good",
    "see you all tomorrow then",
    "my battery is almost empty again",
    "ok sounds good to me {other}",
    "no idea, ask {other} maybe",
    "happy friday to all of you",
)
FILLERS = ("btw ", "hey all, ", "ok so ", "oh and ", "well, ", "quick note: ", "hi, ")
TAILS = (" haha", " anyway", ", just saying", " by the way", " :)", ", thanks")


def content(kind: str, owner: str, noun: str, value: str, other: str = "") -> str:
    """The canonical content of a record: the same words whatever the chat said."""
    return CONTENT[kind].format(owner=owner, noun=noun, value=value, other=other)
