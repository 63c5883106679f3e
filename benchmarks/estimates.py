"""The estimates of `writer-rl validate` against what CPU runs measured.

python -m benchmarks.learning learning --seed 0                                     # or any run with both phases
python -m benchmarks.estimates recipes/learning.yaml run=learning-0-main    # docs/results/estimates.md and .json

Tokens and seconds are those of the run; memory is measured here, on one update of a random Qwen2, as the growth of the
process's peak over what it held with the libraries alone.
"""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from benchmarks.results import write_result
from rollout.engines.base import RequestKey
from rollout.memory.embedder import load_embedder
from rollout.writer.prompt import WriterPrompt
from tests.tiny import make_tokenizer
from writer_rl.advantages import Sample
from writer_rl.cases import load_cases
from writer_rl.estimates import DEVICES, RUNTIME, Setting, Shape, memory
from writer_rl.logbook import read_lines
from writer_rl.optimizer import build_optimizer, build_scheduler
from writer_rl.policy import Policy, reference_of
from writer_rl.recipe import Recipe, load
from writer_rl.runtime import model_path
from writer_rl.update import UpdateConfig, update
from writer_rl.workload import seconds, setting_of, work_of, written

COMMAND = "python -m benchmarks.estimates"
DEFAULT = ["recipes/learning.yaml", "run=learning-0-main"]
SIZES = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "vocab_size": 16000}
SAMPLES, PROMPT, COMPLETION = 4, 384, 128


def main() -> None:
    path, *settings = sys.argv[1:] or DEFAULT
    recipe = load(path, settings)
    rows = [*of_a_run(recipe), *of_an_update()]
    text = "\n".join(
        [
            "`ratio` is estimated / measured.",
            "",
            "| what | estimated | measured | ratio |",
            "|---|---|---|---|",
            *(f"| {row['what']} | {row['estimated']:.4g} | {row['measured']:.4g} | {row['ratio']:.2f} |" for row in rows),
            "",
            f"Tokens and seconds: all of the run `{recipe.run}` of {path}; evaluation, loading and saving are in neither. The "
            "estimate is for two quiet cores: a run on one thread, or beside others, takes longer. Memory: one fp32 "
            "update of a random Qwen2 of 8 M parameters, 4 samples of 512 tokens.",
        ]
    )
    command = " ".join([COMMAND, path, *settings])
    write_result("estimates", "Estimates before launch against measured runs", {"rows": rows}, text, command)


def row(what: str, estimated: float, measured: float) -> dict[str, Any]:
    return {"what": what, "estimated": estimated, "measured": measured, "ratio": estimated / measured}


def of_a_run(recipe: Recipe) -> list[dict[str, Any]]:
    """Tokens and seconds of a recipe that was run."""
    folder = Path(str(model_path(recipe)))
    prompt = WriterPrompt(recipe.writer.prompt, AutoTokenizer.from_pretrained(folder))
    embedder = load_embedder(recipe.pipeline.embedder)
    train = [written(case, prompt, embedder, recipe.writer.head_tokens)[0] for case in load_cases(recipe.data, "train")]
    with torch.device("meta"):
        model = Policy(_model(folder), None).model
    shape = Shape.of(model.config, sum(one.numel() for one in model.parameters()))
    steps, rounds = (read_lines(recipe.folder / f"metrics-{phase}.jsonl") for phase in ("sft", "grpo"))
    work, setting = work_of(recipe, train), setting_of(recipe, train, bf16=False)
    spent = seconds(work, shape, setting, DEVICES["cpu"], 0, 1)
    samples = [one["update/kept_samples"] + one["update/dropped_samples"] for one in rounds]
    generated = sum(one["completions/mean_length"] * count for one, count in zip(rounds, samples, strict=True))

    def spent_in(key: str) -> float:
        return sum(one[key] for one in rounds)

    return [
        row("SFT tokens", work.sft_tokens, sum(one["num_tokens"] for one in steps)),
        row("GRPO tokens in updates, completions as long as the teacher's", work.grpo_tokens, spent_in("num_tokens")),
        row("generated tokens, completions as long as the teacher's", work.generated, generated),
        row("generated tokens, were all cut off", work.most_generated, generated),
        row("SFT seconds", spent["sft"], sum(one["time/step"] for one in steps)),
        row("rollout seconds", spent["rollout"], spent_in("time/rollout")),
        row("update seconds", spent["update"], spent_in("time/update")),
    ]


def of_an_update() -> list[dict[str, Any]]:
    """Peak memory, with and without gradient checkpointing, each in a process of its own."""
    context, found = multiprocessing.get_context("spawn"), []
    for checkpointing in (False, True):
        with context.Pool(1) as pool:
            estimated, measured = pool.apply(_update, (checkpointing,))
        name = "with gradient checkpointing" if checkpointing else "without"
        found.append(row(f"peak MiB of an update, {name}", estimated / 2**20, measured / 2**20))
    return found


def _update(checkpointing: bool) -> tuple[float, float]:
    before = peak()
    config = Qwen2Config(**SIZES, num_attention_heads=8, num_key_value_heads=2, tie_word_embeddings=True)
    policy = Policy(Qwen2ForCausalLM(config), make_tokenizer())
    reference = reference_of(policy)
    if checkpointing:
        policy.model.gradient_checkpointing_enable()
        policy.model.train()
    optimizer = build_optimizer(policy.model, 1e-6)
    draw = torch.Generator().manual_seed(0)
    samples = []
    for g in range(SAMPLES):
        ids = torch.randint(3, SIZES["vocab_size"], (PROMPT + COMPLETION,), generator=draw).tolist()
        samples.append(Sample(RequestKey(0, "n", 0, g, 0), tuple(ids[:PROMPT]), tuple(ids[PROMPT:]), 0.0, (0.0,) * COMPLETION))
    values = {one.key: 1.0 - 2.0 * (one.key.g % 2) for one in samples}
    tokens = SAMPLES * (PROMPT + COMPLETION)
    settings = UpdateConfig(micro_batch_tokens=tokens, kl_gate=1e9)
    update(policy, reference, samples, values, optimizer, build_scheduler(optimizer), Accelerator(), settings)
    measured = peak() - before
    shape = Shape.of(config, sum(one.numel() for one in policy.model.parameters()))
    parts = memory(shape, Setting(False, checkpointing, tokens, tokens, 0, 0, 2))
    return parts["total"] - RUNTIME, float(measured)


def peak() -> int:
    """Bytes that this process held at most; the kernel's `ru_maxrss` would count what its parent held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _model(folder: Path) -> Any:
    """The architecture of a folder, without weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))


if __name__ == "__main__":
    main()
