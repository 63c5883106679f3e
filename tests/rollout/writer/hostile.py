"""A seeded generator of Writer outputs: valid, broken and hostile."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

LAYERS = ("per_speaker_core", "per_speaker_profile", "group_interaction", "group_insight")
UTYPES = ("fact", "stance", "observation", "decision", "relation")
PIECES = ("Ana", " moved", " {", "}", '"', "\\", "\n", "\t", "```", "<think>", "</think>", "<|im_end|>", "北京", "🙂", "\u200d",
          "\x00", "\x1b[2J", "é", "١٢", "d1", "[Bob]", "NaN", "'; --", "$roster", "${heads}", "\u2028", "\u202e")  # fmt: skip
ODD: tuple[Any, ...] = (None, True, 0, -1.5, [], {}, [[]], "", " ", "\u0000", {"action": "ADD"}, 10**30)


class Writers:
    """Draws outputs; everything is a function of the seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def output(self, names: Sequence[str], heads: Sequence[str]) -> str:
        draw = self.random
        actions = [self.action(names, heads) for _ in range(draw.choice((0, 1, 1, 2, 3, 5, 12)))]
        text = json.dumps({"actions": actions}, ensure_ascii=draw.random() < 0.2)
        return draw.choice((self._plain,) * 6 + (self._twice, self._fence, self._prose, self._cut, self._noise, self._flood))(
            text
        )

    def action(self, names: Sequence[str], heads: Sequence[str]) -> Any:
        draw = self.random
        kind = draw.choice(("ADD", "ADD", "ADD", "UPDATE", "UPDATE", "NOOP", "DELETE", "add"))
        if kind == "UPDATE":
            made = {"action": kind, "entry_id": draw.choice([*heads, "d0", "d999", "v1"]), "content": self.content()}
        elif kind == "NOOP":
            made = {"action": kind}
        else:
            layer = draw.choice(LAYERS)
            group = layer.startswith("group")
            owner = "GROUP" if group else draw.choice(names)
            made = {"action": kind, "content": self.content(), "owner": owner, "source": draw.choice(names),
                    "layer": layer, "utype": draw.choice(UTYPES)}  # fmt: skip
        for _ in range(draw.choice((0, 0, 0, 1, 2))):  # break it
            key = draw.choice([*made, "extra", "owner", "entry_id"])
            match draw.randrange(4):
                case 0:
                    made.pop(key, None)
                case 1:
                    made[key] = draw.choice(ODD)
                case 2:
                    made[key] = draw.choice(
                        (*names, "Nobody", "GROUP", "ALL", "ana ", "d1", "per_speaker_episodic", "utterance")
                    )
                case 3:
                    return draw.choice((made, [made], made.get("action", 0), None, 7))
        return made

    def content(self) -> str:
        return "".join(self.random.choice(PIECES) for _ in range(self.random.randrange(1, 9)))

    def _plain(self, text: str) -> str:
        return text

    def _twice(self, text: str) -> str:
        return text.replace('"action":', '"action": "ADD", "action":', 1)

    def _fence(self, text: str) -> str:
        return f"Sure!\n```json\n{text}\n```{self.content()}"

    def _prose(self, text: str) -> str:
        return f"<think>{self.content()}{text}</think>{self.content()}{text}{self.content()}"

    def _cut(self, text: str) -> str:
        return text[: self.random.randrange(len(text) + 1)]

    def _noise(self, text: str) -> str:
        where = self.random.randrange(len(text) + 1)
        return text[:where] + self.content() + text[where:]

    def _flood(self, text: str) -> str:
        return self.random.choice((
            "[" * 5000, '{"actions":' * 1100, '{"actions": [' + "[" * 400 + "]" * 400 + "]}",
            '{"actions": [' + "9" * 6000 + "]}",
            '{"actions": [NaN, Infinity, 1e999]}', '{"actions": ["\\ud800"]}', "", "null", "{" * 3000, '{"a": ' * 800 + text,
        ))  # fmt: skip
