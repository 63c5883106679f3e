"""A model that is not here yet: enough of it to estimate what a run will need before anything is downloaded."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rollout.writer.prompt import Style, WriterPrompt
from writer_rl.estimates import Shape

BYTES_A_TOKEN = 4  # of chat text and JSON, about
SHAPES = {"Qwen/Qwen2.5-3B-Instruct": Shape(3_085_938_688, 3_085_938_688, 36, 2048, 256, 11008, 151936)}
SPECIAL = ("<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_prompt(style: Style) -> WriterPrompt:
    """A prompt whose tokens are bytes, in the ChatML form: BYTES_A_TOKEN of them stand for one token."""
    alphabet = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()), len(SPECIAL))}
    core = Tokenizer(models.BPE(vocab=dict(zip(SPECIAL, range(len(SPECIAL)), strict=True)) | alphabet, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, additional_special_tokens=list(SPECIAL))
    tokenizer.chat_template = TEMPLATE
    return WriterPrompt(style, tokenizer)
