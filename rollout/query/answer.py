"""Answer: the final answer in a raw reply. Only it is judged, so that reasoning cannot persuade a judge."""

from __future__ import annotations

import re

from rollout.query.roles import Missing

ABSTENTION = "not mentioned"

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHT = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_FINAL = re.compile(r"^\s*\**final(?: answer)?\s*:\**(.*)$", re.IGNORECASE)


def final_answer(raw: str) -> str | Missing:
    """What follows the last line that begins with "Final:" or "Final answer:", else the whole reply, both without
    closed reasoning blocks. A block that never closes was cut off; nothing left is empty: both are missing."""
    text = _THOUGHT.sub("", raw)
    if _OPEN_THOUGHT.search(text):
        return Missing("cut_off", "the reply ends inside its reasoning block")
    lines = text.strip().splitlines()
    for index in range(len(lines) - 1, -1, -1):
        if found := _FINAL.match(lines[index]):
            text = "\n".join([found.group(1), *lines[index + 1 :]])
            break
    return text.strip() or Missing("empty", "the reply holds no answer")
