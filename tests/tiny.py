"""What tests run instead of a real model: a tokenizer trained on a few lines and a random Qwen2, built in under a second."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from data.network import Member, Message, Network, Question, Roster, Session

PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

CORPUS = (
    '{"actions": [{"action": "ADD", "content": "Ana\'s locker is red.", "owner": "Ana", "source": "Bob", '
    '"layer": "per_speaker_core", "utype": "fact"}, {"action": "UPDATE", "entry_id": "d3", "content": "moved"}]}',
    '{"actions": [{"action": "NOOP"}]}',
    '"owner": "GROUP", "layer": "group_interaction", "utype": "decision", "layer": "group_insight"',
    '"layer": "per_speaker_profile", "utype": "observation", "utype": "relation", "utype": "stance"',
    "members messages memory owner source layer user assistant system",
)


def make_tokenizer(vocab_size: int = 400) -> PreTrainedTokenizerFast:
    """Byte-level BPE (any text round-trips) with a chat template; pad 0, turn start 1, turn end 2 (also eos)."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, TURN_START, TURN_END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(CORPUS * 4, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=core, pad_token=PAD, eos_token=TURN_END)
    made.chat_template = CHAT_TEMPLATE
    return made


def make_model(
    vocab_size: int = 400, *, layers: int = 2, width: int = 32, seed: int = 0, tied: bool = True, uniform: bool = False
) -> Qwen2ForCausalLM:
    """A random Qwen2 in eval mode, fp32. `uniform`: the final norm is zero, so every token is equally likely."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=vocab_size,
                hidden_size=width,
                intermediate_size=2 * width,
                num_hidden_layers=layers,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=4096,
                tie_word_embeddings=tied,
                initializer_range=0.2,
                bos_token_id=None,
                eos_token_id=2,
                pad_token_id=0,
            )
        )
    if uniform:
        with torch.no_grad():
            model.model.norm.weight.zero_()
    return model.eval()


def make_network(name: str = "tiny") -> Network:
    """Three people, two sessions, seven messages, two questions."""
    roster = Roster((Member("u1", "Ana"), Member("u2", "Bob"), Member("u3", "Chen")))
    first = (
        Message("m1", "u1", "My locker is belmo.", "2026-01-05T10:00:00"),
        Message("m2", "u2", "Chen told me the picnic is on Friday.", "2026-01-05T10:01:00"),
        Message("m3", "u3", "Yes, Friday at six.", "2026-01-05T10:02:00"),
        Message("m4", "u1", "ok 👍", "2026-01-05T10:03:00"),
    )
    second = (
        Message("m5", "u1", "My locker is now tarvi.", "2026-01-09T09:00:00"),
        Message("m6", "u2", "We agreed: everyone brings a dish.", "2026-01-09T09:01:00"),
        Message("m7", "u3", "我住在北京。", "2026-01-09T09:02:00"),
    )
    questions = (
        Question("q1", "What is Ana's locker now?", "tarvi", evidence=("m5",)),
        Question("q2", "When is the picnic?", "Friday at six", evidence=("m2", "m3")),
    )
    sessions = (Session("s1", first, "2026-01-05"), Session("s2", second, "2026-01-09"))
    return Network(name, roster, sessions, questions, benchmark="tests")
