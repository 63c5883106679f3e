"""Words of a gym: nouns that all splits share, and an endless supply of names and values that none share."""

from __future__ import annotations

import hashlib
import random

from data.gym.config import Split

# what people say in the chat -> what the memory and the questions call it: each second word belongs to one attribute
ATTRIBUTES = {
    "locker": "locker code",
    "desk": "desk spot",
    "pet": "pet name",
    "city": "home city",
    "tea": "tea brand",
    "seat": "seat row",
    "project": "project title",
    "bike": "bike model",
    "street": "street address",
    "snack": "snack flavour",
    "band": "favourite band",
    "room": "room label",
    "boat": "boat dock",
    "phone": "phone maker",
}
TOPICS = ("picnic", "hike", "quiz", "concert", "dinner", "trip", "tournament", "workshop", "party", "festival")
CUSTOMS = ("lunch", "cleaning", "birthdays", "parking", "deliveries", "goodbyes")
RELATIONS = ("cousin", "neighbour", "roommate", "classmate", "twin", "rival", "partner", "teammate")
# noun of the usual thing -> what was done with it: a habit is told by its verb and recorded by its noun
HABITS = {"drink": "drank", "dish": "cooked", "song": "sang", "outfit": "wore", "order": "ordered", "game": "played"}

ONSETS = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "dr", "gr", "kl", "pl", "tr", "sk", "st"]
VOWELS = "aiou"  # without e no generated word is an English function word
CODAS = ("", "", "k", "l", "m", "n", "r")


def split_of(word: str) -> Split:
    """The only split that may use a generated word: a stable hash of it, 8 : 1 : 1."""
    bucket = int.from_bytes(hashlib.sha256(word.casefold().encode()).digest()[:8], "big") % 10
    return "train" if bucket < 8 else "dev" if bucket == 8 else "test"


def coin(rng: random.Random, split: Split, taken: set[str], syllables: int = 2) -> str:
    """A new lower-case word of `split` that is not in `taken`; adds it there."""
    while True:
        word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(syllables)) + rng.choice(CODAS)
        if word not in taken and split_of(word) == split:
            taken.add(word)
            return word
