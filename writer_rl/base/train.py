"""Train the embedded Writer base from scratch: copying first, then gym positions, until it copies words never seen.

python -m writer_rl.base.train FOLDER
python -m writer_rl.base.train writer_rl/base/weights --init FOLDER --seed 100 --steps 1600    # from other networks
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import typer
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from data import gym
from data.gym import GymConfig
from data.network import Network
from data.teacher import Teacher
from rollout.memory.embedder import HashEmbedder
from rollout.writer.prompt import WriterPrompt
from writer_rl.base.curriculum import HEAD_TOKENS, batches, copies, gym_stream
from writer_rl.base.tokenizer import build
from writer_rl.cases import make_case
from writer_rl.examples import Example, examples_of

COPIED = 0.6  # loss on plain copies at which the gym begins
MOST_COPYING = 1000  # steps
COPY_ROWS = 64  # copies in a batch: many short ones
LOOK_BACK = 1.5  # size of the bias components
PROMPT_WEIGHT = 0.1  # share of the loss on prompt tokens: names and attributes recur there too


def texts(config: GymConfig, seed: int, count: int) -> Iterator[str]:
    """Prompt and target texts of training networks, for the tokenizer."""
    scratch = WriterPrompt("compact", build([]))
    for network, teacher in gym.networks(config, "train", seed, count):
        for one in positions((network, teacher), scratch):
            yield scratch.decode(one.prompt_ids)
            yield scratch.decode(one.completion_ids)


def make_model(vocab_size: int, layers: int, width: int, pad: int, end: int) -> Qwen2ForCausalLM:
    """A new Qwen2 in which every block begins as the identity and the first one's heads look back 1, 2, 3, ... tokens."""
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=vocab_size,
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            num_key_value_heads=width // 128,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=end,
            pad_token_id=pad,
        )
    )
    for name, weight in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(weight)
        elif "embed" in name or weight.dim() == 2:
            nn.init.normal_(weight, std=width**-0.5)
    look_back(model)
    return model


@torch.no_grad()
def look_back(model: Qwen2ForCausalLM) -> None:
    """Head h of the first block attends to the token h + 1 places back, whatever stands there.

    The biases of queries and keys make it so: under rotary positions the product of two constant vectors depends on the
    distance alone, and is largest where the query's is turned back by as much. Copying needs such heads ("what followed
    this token the last time?"), and finding them is what training from scratch spends most of its time on.
    """
    attention = model.model.layers[0].self_attn
    size, half = attention.head_dim, attention.head_dim // 2
    key = torch.full((size,), LOOK_BACK)
    attention.k_proj.bias.copy_(key.repeat(model.config.num_key_value_heads or 1))
    for head in range(model.config.num_attention_heads):
        angle = (head + 1) * model.model.rotary_emb.inv_freq
        low, high = key[:half] * angle.cos() + key[half:] * angle.sin(), key[half:] * angle.cos() - key[:half] * angle.sin()
        attention.q_proj.bias[head * size : (head + 1) * size] = torch.cat([low, high])
    for projection in (attention.q_proj, attention.k_proj):
        projection.weight.mul_(0.3)  # contents say little at first


def batch_loss(model: Qwen2ForCausalLM, batch: list[Example]) -> tuple[Tensor, Tensor]:
    """Weighted token loss of a right-padded batch, and the mean loss of the completion tokens alone."""
    width = max(len(one.prompt_ids) + len(one.completion_ids) for one in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    weight = torch.zeros(len(batch), width)
    for row, one in enumerate(batch):
        prompt, whole = len(one.prompt_ids), len(one.prompt_ids) + len(one.completion_ids)
        ids[row, :whole] = torch.tensor([*one.prompt_ids, *one.completion_ids])
        weight[row, :prompt] = PROMPT_WEIGHT
        weight[row, prompt:whole] = 1.0
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    losses = functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    weights = weight[:, 1:].flatten()
    completion = losses[weights == 1.0].mean().detach()
    return (losses * weights).sum() / weights.sum(), completion


@torch.inference_mode()
def copied(model: Qwen2ForCausalLM, held: list[Example]) -> tuple[float, float]:
    """Held-out: share of completions whose every token is the most likely one, and the mean completion loss."""
    model.eval()
    exact, total = 0, 0.0
    for one in held:
        ids = torch.tensor([[*one.prompt_ids, *one.completion_ids]])
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids, use_cache=False).logits[0, len(one.prompt_ids) - 1 : -1].float()
        target = torch.tensor(one.completion_ids)
        exact += bool((logits.argmax(-1) == target).all())
        total += float(functional.cross_entropy(logits, target))
    model.train()
    return exact / len(held), total / len(held)


def main(
    to: Path,
    steps: int = 2000,
    tokens: int = 4096,
    layers: int = 4,
    width: int = 256,
    lr: float = 1e-3,
    seed: int = 0,
    threads: int = 2,
    init: Path | None = None,
) -> None:
    """Copy until copies succeed, then `steps` batches of the gym; save a Hugging Face folder with the curves beside it.
    From `init`, a folder of this command, go on with the gym, with a fresh optimizer and learning rate.

    Nothing depends on the clock: the same arguments on the same machine give the same weights.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    config = GymConfig()
    tokenizer = build(texts(config, seed, 300)) if init is None else AutoTokenizer.from_pretrained(init)
    prompt = WriterPrompt("compact", tokenizer)
    if init is None:
        model = make_model(len(tokenizer), layers, width, int(tokenizer.pad_token_id), prompt.turn_end_id)
    else:
        model = Qwen2ForCausalLM.from_pretrained(init)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, betas=(0.9, 0.95))
    size = sum(p.numel() for p in model.parameters())
    print(f"{size / 1e6:.2f}M parameters, {len(tokenizer)} tokens", flush=True)
    held = [one for pair in gym.networks(config, "dev", seed, 24) for one in positions(pair, prompt)]
    rng = random.Random(seed)
    vocabulary = range(3, len(tokenizer))
    stream = batches(gym_stream(prompt, config, seed), tokens)
    curve: list[dict[str, float]] = [] if init is None else json.loads((init / "curve.json").read_text("utf-8"))
    before = curve[-1] if curve else {"copying": 0, "gym": 0, "minutes": 0.0}
    begun, copying, gym_steps, recent = time.monotonic(), 0, 0, float("inf") if init is None else 0.0
    while gym_steps < steps:
        ready = recent < COPIED or copying >= MOST_COPYING
        batch = next(stream) if ready else [copies(rng, vocabulary) for _ in range(COPY_ROWS)]
        copying, gym_steps = copying + (not ready), gym_steps + ready
        falling = 2 * (1 - gym_steps / steps)  # constant, then linear over the second half
        optimizer.param_groups[0]["lr"] = lr * min(1.0, (copying + gym_steps) / 50) * min(1.0, max(0.02, falling))
        loss, completion = batch_loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not ready:
            recent = completion.item() if recent == float("inf") else 0.9 * recent + 0.1 * completion.item()
        at, every = (gym_steps, 50) if ready else (copying, 20)
        if at % every == 0 or gym_steps == steps:
            done = {"copying": before["copying"] + copying, "gym": before["gym"] + gym_steps}
            row = {**done, "loss": round(completion.item(), 4)}
            row["minutes"] = round(before["minutes"] + (time.monotonic() - begun) / 60, 2)
            if ready and (gym_steps % 200 == 0 or gym_steps == steps):
                row["exact"], row["held_loss"] = copied(model, held)
                save(model, tokenizer, to, curve)
            curve.append(row)
            print(json.dumps(row), flush=True)
    save(model, tokenizer, to, curve)


def positions(pair: tuple[Network, Teacher], prompt: WriterPrompt) -> list[Example]:
    return examples_of(make_case(*pair, None), prompt, HashEmbedder(), HEAD_TOKENS)


def save(model: Qwen2ForCausalLM, tokenizer: object, to: Path, curve: list[dict[str, float]]) -> None:
    model.save_pretrained(to)
    tokenizer.save_pretrained(to)  # type: ignore[attr-defined]
    (to / "curve.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in curve) + "\n]\n")


if __name__ == "__main__":
    typer.run(main)
