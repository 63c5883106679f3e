"""The embedded Writer's own tokenizer: words of the gym and pieces of the action JSON are single tokens, everything else
falls apart into syllables or bytes, so that a name is spelled the same wherever it stands and can be copied."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from data.gym.vocabulary import ONSETS, VOWELS
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


def build(texts: Iterable[str], max_words: int = 500) -> PreTrainedTokenizerFast:
    """A byte-level BPE whose only merges are syllables (onset + vowel, lower case or capital), so that no piece of a
    made-up word depends on what stands before it. Words frequent in `texts` (prompts and targets of the gym's training
    side) are whole tokens, with the space before them where they have one; so are the pieces of the action JSON.
    """
    onsets = sorted({*ONSETS, *(onset.capitalize() for onset in ONSETS)})
    clusters = [(onset[0], onset[1]) for onset in onsets if len(onset) == 2]
    merges = [*clusters, *((onset, vowel) for onset in onsets for vowel in VOWELS)]
    words = [*_common(texts)][:max_words]
    spelled = [word.replace(" ", "\u0120") for word in words]  # a space as the byte-level alphabet writes it
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = dict.fromkeys([PAD, TURN_START, TURN_END, *alphabet, *("".join(merge) for merge in merges), *spelled])
    vocab = {piece: number for number, piece in enumerate(pieces)}
    core = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    labels = [*(layer.value for layer in DERIVED_LAYERS), *(utype.value for utype in DERIVED_UTYPES)]
    core.add_tokens([AddedToken(piece, normalized=False) for piece in (*JSON_PIECES, *labels)])
    special = {"pad_token": PAD, "eos_token": TURN_END, "additional_special_tokens": [TURN_START]}
    made = PreTrainedTokenizerFast(tokenizer_object=core, **special)
    made.chat_template = CHAT_TEMPLATE
    return made


def _common(texts: Iterable[str]) -> Iterable[str]:
    """Words that occur often, most frequent first, but no names (capitalised): those must be spelled. Made-up values
    are drawn anew for each network and never get there."""
    counts = Counter(word for text in texts for word in re.findall(r" ?\b(?:[a-z]{2,}|GROUP)\b", text))
    return (word for word, count in counts.most_common() if count >= COMMON)
