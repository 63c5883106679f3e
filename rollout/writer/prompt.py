"""The Writer's prompt: a view as text, and as the token ids that a chat template makes of it.

Two styles, both in the order of design section 4 (system text, roster, messages, heads, instruction):
- full: for pretrained models. Contract, layers and a worked example as the system text; messages `[1] TIME Ana: ...`;
  heads under their owner as `  d3 (source Bob, per_speaker_core, fact) ...`, `  (12 more not shown)` for omitted ones.
- compact: for tiny models trained from scratch; no prose, no times. The user turn is, line by line: the members joined
  by `, `; each message as `Ana: text`; a line `=`; each head as `d3 Ana core: content`, or `d3 Ana/Bob core: content`
  where the source is not the owner (core, profile, interaction, insight); `Ana +12` for omitted heads.

Text in the prompt is data (pitfall 34): a message or record is one line whatever it holds, begins behind its prefix, and
cannot spell a special token. Session topics are not shown.
"""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from string import Template
from typing import Any, Literal

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerBase

from data.memory.records import Layer, Record
from data.network import DataError
from rollout.writer.view import OwnerHeads, WriterView

Style = Literal["full", "compact"]
TEMPLATE_FILES: dict[Style, tuple[str, ...]] = {"full": ("full_system.txt", "full_user.txt"), "compact": ("compact_user.txt",)}
SHORT_LAYERS = {Layer.CORE: "core", Layer.PROFILE: "profile", Layer.INTERACTION: "interaction", Layer.INSIGHT: "insight"}
LINE_BREAK = " ⏎ "  # what a line break inside a message or record looks like in the prompt
NO_HEADS = "(empty)"


def one_line(text: str) -> str:
    """The text on a single line: every kind of line break becomes a visible mark, other control characters a space."""
    joined = LINE_BREAK.join(part.strip() for part in text.strip().splitlines())
    return "".join(" " if ord(char) < 32 or 127 <= ord(char) < 160 else char for char in joined)


def _structural(token: AddedToken) -> bool:
    """Special tokens, and plain added ones that are markup (`<tool_call>`); other added tokens are vocabulary."""
    return token.special or re.fullmatch(r"<.+>", token.content) is not None


class WriterPrompt:
    """Turns views into prompts and texts into targets for one tokenizer. `turn_end_id` closes an assistant turn.

    Errors: DataError where the tokenizer has no chat template, or its template does not close assistant turns with a
    special token or does not begin them as its generation prompt does.
    """

    def __init__(self, style: Style, tokenizer: PreTrainedTokenizerBase) -> None:
        if style not in TEMPLATE_FILES:
            raise DataError(f"prompt style is {style!r}; use one of {', '.join(TEMPLATE_FILES)}")
        if not tokenizer.chat_template:
            raise DataError("the tokenizer has no chat template; use a chat model's tokenizer, or set one before training")
        self.style: Style = style
        self.tokenizer = tokenizer
        folder = files("rollout.writer") / "prompts"
        texts = [(folder / name).read_text(encoding="utf-8") for name in TEMPLATE_FILES[style]]
        self.hash: str = hashlib.sha256("\0".join([style, *texts]).encode()).hexdigest()
        self._system = texts[0].strip() if style == "full" else ""
        self._user = Template(texts[-1].strip())
        added = {token.content: number for number, token in tokenizer.added_tokens_decoder.items() if _structural(token)}
        added |= dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
        self._added_ids = frozenset(added.values())
        names = sorted((name for name in added if name.strip()), key=len, reverse=True)
        self._added = re.compile("|".join(map(re.escape, names)) or r"(?!)")
        self._opening = self._render([{"role": "user", "content": "x"}], prompt=True)
        self.turn_end_id: int = self._find_turn_end()
        self._turn_end: str = next(token for token, number in added.items() if number == self.turn_end_id)

    def chat(self, view: WriterView) -> list[dict[str, str]]:
        """The prompt as chat messages, for models that are reached by text."""
        system = [{"role": "system", "content": self._system}] if self._system else []
        return [*system, {"role": "user", "content": self.user_text(view)}]

    def text(self, view: WriterView) -> str:
        """The whole prompt as the chat template writes it, up to where the Writer's answer begins."""
        return self._render(self.chat(view), prompt=True)

    def prompt_ids(self, view: WriterView) -> tuple[int, ...]:
        """Token ids of `text(view)`."""
        return self.encode(self.text(view))

    def target_ids(self, text: str) -> tuple[int, ...]:
        """Token ids of an assistant turn that says `text`, the turn-end token included, nothing behind it."""
        turn = self._assistant_turn(self.safe(text))
        return (*self.encode(turn[: turn.rindex(self._turn_end)]), self.turn_end_id)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a text in which special tokens count as such."""
        return tuple(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def decode(self, token_ids: tuple[int, ...]) -> str:
        """The text of a completion: everything before the turn-end token, special tokens kept visible."""
        end = token_ids.index(self.turn_end_id) if self.turn_end_id in token_ids else len(token_ids)
        text = self.tokenizer.decode(list(token_ids[:end]), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

    def safe(self, text: str) -> str:
        """The text with every spelling of a structural token broken by a space."""
        while self._added.search(text):
            text = self._added.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
        return text

    def user_text(self, view: WriterView) -> str:
        """The user turn: roster, messages, heads (and, in the full style, the instruction)."""
        roster = view.segment.roster
        lines = []
        for number, message in enumerate(view.segment.messages, start=1):
            said = f"{one_line(roster.name(message.speaker))}: {one_line(message.text)}"
            if self.style == "full":
                time = one_line(message.time)
                said = f"[{number}] {time} {said}" if time else f"[{number}] {said}"
            lines.append(said)
        heads = [line for owner in view.owners for line in self._owner_lines(owner)]
        if not heads and self.style == "full":
            heads = [NO_HEADS]
        filled = self._user.substitute(
            roster=", ".join(map(one_line, roster.names)),
            messages="\n".join(lines),
            heads="\n".join(heads),
            budget=str(view.segment.budget),
        )
        return self.safe(filled.strip())

    def head_tokens(self, record: Record) -> int:
        """Tokens of a head's line."""
        return len(self.encode(self.safe(self._head_line(record)) + "\n"))

    def owner_tokens(self, owner: str) -> int:
        """Tokens of an owner's heading and omitted count, at their longest."""
        lines = self._owner_lines(OwnerHeads(owner, (), 9999))
        return len(self.encode(self.safe("\n".join(lines)) + "\n"))

    def _owner_lines(self, owner: OwnerHeads) -> list[str]:
        lines = [self._head_line(record) for record in owner.heads]
        if self.style == "full":
            lines.insert(0, one_line(owner.owner))
        if owner.omitted:
            lines.append(
                f"  ({owner.omitted} more not shown)" if self.style == "full" else f"{one_line(owner.owner)} +{owner.omitted}"
            )
        return lines

    def _head_line(self, record: Record) -> str:
        owner, source, content = one_line(record.owner), one_line(record.source), one_line(record.content)
        if self.style == "full":
            return f"  {record.entry_id} (source {source}, {record.layer.value}, {record.utype.value}) {content}"
        who = owner if source == owner else f"{owner}/{source}"
        return f"{record.entry_id} {who} {SHORT_LAYERS[record.layer]}: {content}"

    def _render(self, messages: list[dict[str, Any]], prompt: bool) -> str:
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
        assert isinstance(text, str)
        return text

    def _assistant_turn(self, content: str) -> str:
        """What the template writes behind its generation prompt for an assistant turn."""
        whole = self._render([{"role": "user", "content": "x"}, {"role": "assistant", "content": content}], prompt=False)
        if not whole.startswith(self._opening):
            raise DataError("the chat template begins an assistant turn otherwise than its generation prompt; use another one")
        return whole[len(self._opening) :]

    def _find_turn_end(self) -> int:
        behind = self._assistant_turn("x").partition("x")[2]
        for number in self.encode(behind):
            if number in self._added_ids:
                return number
        raise DataError(f"the chat template closes an assistant turn with {behind!r}, which holds no special token to stop at")
