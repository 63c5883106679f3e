"""The embedded Writer's own tokenizer: words of the gym and pieces of the action JSON are single tokens, everything else
falls apart into syllables or bytes, so that a name is spelled the same wherever it stands and can be copied."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, pre_tokenizers
from transformers import Qwen2Tokenizer

from data.gym.vocabulary import CODAS, ONSETS, VOWELS
from data.memory.records import DERIVED_LAYERS, DERIVED_UTYPES

PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
JSON_PIECES = (
    '{"actions": [',
    '{"action": "ADD", "content": "',
    '{"action": "UPDATE", "entry_id": "',
    '{"action": "NOOP"}',
    '", "content": "',
    '", "owner": "',
    '", "source": "',
    '", "layer": "',
    '", "utype": "',
    '"}, ',
    '"}]}',
    "]}",
)
COMMON = 25  # times that a word must occur to become a token


def build(texts: Iterable[str], max_words: int = 500) -> Qwen2Tokenizer:
    """A byte-level BPE whose only merges are syllables (onset + vowel, lower case or capital), so that no piece of a
    made-up word depends on what stands before it. Words frequent in `texts` (prompts and targets of the gym's training
    side) are whole tokens, with the space before them where they have one; so are the pieces of the action JSON.

    Those words are added tokens and not part of the BPE, because whoever loads the folder of a Qwen2 model (transformers,
    vLLM) rebuilds its BPE from vocabulary and merges alone.
    """
    onsets = sorted({*ONSETS, *(onset.capitalize() for onset in ONSETS)})
    clusters = [(onset[0], onset[1]) for onset in onsets if len(onset) == 2]
    merges: Any = [*clusters, *((onset, vowel) for onset in onsets for vowel in VOWELS)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = dict.fromkeys([PAD, TURN_START, TURN_END, *alphabet, *("".join(merge) for merge in merges)])
    vocab = {piece: number for number, piece in enumerate(pieces)}
    extra: Any = {"additional_special_tokens": [TURN_START]}
    made = Qwen2Tokenizer(vocab=vocab, merges=merges, eos_token=TURN_END, pad_token=PAD, **extra)
    words = [word for word in _common(texts) if not _in_made_up(word)][:max_words]
    labels = [*(layer.value for layer in DERIVED_LAYERS), *(utype.value for utype in DERIVED_UTYPES)]
    made.add_tokens([AddedToken(piece, normalized=False) for piece in dict.fromkeys([*JSON_PIECES, *labels, *words])])
    made.chat_template = CHAT_TEMPLATE
    return made


def _common(texts: Iterable[str]) -> Iterable[str]:
    """Words that occur often, most frequent first, but no names (capitalised): those must be spelled. Made-up values
    are drawn anew for each network and never get there."""
    counts = Counter(word for text in texts for word in re.findall(r" ?\b(?:[a-z]{2,}|GROUP)\b", text))
    return (word for word, count in counts.most_common() if count >= COMMON)


def _in_made_up(word: str) -> bool:
    """Whether a made-up word could hold this one: an added token is found wherever it stands, and must not tear a name."""
    lower = word.lower()
    possible = {f" {onset[0]}" for onset in ONSETS} | {onset for onset in ONSETS if len(onset) == 2}
    possible |= {onset[-1] + vowel for onset in ONSETS for vowel in VOWELS}
    possible |= {vowel + end[0] for vowel in VOWELS for end in (*ONSETS, *CODAS) if end}
    return all(lower[at : at + 2] in possible for at in range(len(lower) - 1))
