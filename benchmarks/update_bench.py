"""Speed and memory of the policy update against the same passes written bare, and against TRL's GRPOTrainer.

    OMP_NUM_THREADS=1 python -m benchmarks.update_bench

Two models: SmolLM2-135M (made where it is missing) on gym lengths, and a tiny Qwen2 with a vocabulary of 151,936 on the
lengths of a real round. Arms alternate, repeat by repeat; ratios are medians over repeats of ratios within a repeat, of CPU
seconds of one thread (the wall clock's stand beside them). Writes docs/results/update_bench.json and .md.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from transformers.utils import logging as transformers_logging

from benchmarks.results import write_result
from benchmarks.update_arms import MICRO_BATCH_TOKENS, TRL_CONFIG, Arm, Done, bare_arm, own_arm, trl_arm
from benchmarks.update_trace import make_samples, read_lengths, spread
from writer_rl import smollm2
from writer_rl.advantages import Sample

COMMAND = "OMP_NUM_THREADS=1 python -m benchmarks.update_bench"
SMOLLM2 = Path("checkpoints/smollm2-135m")
QWEN_VOCABULARY, SMOLLM2_VOCABULARY = 151_936, 49_152
REPEATS, SAMPLES = 3, 4
LONG = [(750, 2048)] * 2  # prompt and completion tokens, where memory is measured
AGREE = 0.02  # largest relative difference of gradient norms between arms


@dataclass(frozen=True)
class Case:
    """A model folder and the samples it is updated on."""

    name: str
    folder: Path
    trace: str
    samples: list[Sample]

    @property
    def tokens(self) -> int:
        return sum(len(sample.prompt_ids) + len(sample.completion_ids) for sample in self.samples)


def make_tiny(folder: Path, vocab_size: int = QWEN_VOCABULARY, width: int = 64, layers: int = 4) -> Path:
    """A random Qwen2 with a tokenizer that knows one word: TRL wants one, nothing is encoded."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    core = Tokenizer(models.WordLevel({"<pad>": 0, "<end>": 1, "<unknown>": 2}, unk_token="<unknown>"))
    PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>", unk_token="<unknown>").save_pretrained(
        folder
    )
    return folder


def interleaved(arms: Mapping[str, Arm], repeats: int) -> dict[str, list[Done]]:
    """Every arm `repeats` times, in turn."""
    rows: dict[str, list[Done]] = {name: [] for name in arms}
    for repeat in range(repeats):
        for name, arm in arms.items():
            rows[name].append(arm())
            print(f"  {name} {repeat}: {rows[name][-1].cpu:.2f} s CPU", flush=True)
    return rows


def times_slower(rows: Sequence[Done], base: Sequence[Done], clock: str) -> float:
    """Median over repeats of this arm's seconds by the base's of the same repeat."""
    return median(getattr(one, clock) / getattr(other, clock) for one, other in zip(rows, base, strict=True))


def difference(firsts: Sequence[Done]) -> float:
    """Largest relative difference between the arms' gradient norms in their first update: did they do the same work?"""
    norms = [done.grad_norms for done in firsts]
    assert all(len(one) == len(norms[0]) for one in norms), f"the arms took different numbers of steps: {norms}"
    return max(abs(a - b) / a for one in norms for a, b in zip(norms[0], one, strict=True))


def measure_speed(case: Case, repeats: int, candidates: Sequence[int]) -> dict[str, Any]:
    """TRL runs at its best: with the samples a forward, out of `candidates`, that take it the least CPU time."""
    arms = {"own": own_arm(case.folder, case.samples), "bare": bare_arm(case.folder, case.samples)}
    tried = {rows: trl_arm(case.folder, case.samples, rows=rows) for rows in candidates}
    firsts = {rows: arm() for rows, arm in tried.items()}
    off = difference([*(arm() for arm in arms.values()), *firsts.values()])  # and a warm-up of all
    assert off < AGREE, f"{case.name}: the arms do not compute the same update, gradient norms differ by {off:.3f}"
    best = min(firsts, key=lambda rows: firsts[rows].cpu)
    done = interleaved(arms | {"trl": tried[best]}, repeats)
    cpu = {name: median(one.cpu for one in rows) for name, rows in done.items()}
    ratios = {
        f"{kind}_ratio_vs_{other}": round(times_slower(done[other], done["own"], clock), 3)
        for other in ("bare", "trl")
        for kind, clock in (("tokens", "cpu"), ("wall", "wall"))
    }
    return {
        "trace": case.trace,
        "samples": len(case.samples),
        "tokens": case.tokens,
        "repeats": repeats,
        **ratios,
        "cpu_seconds": {name: round(one, 3) for name, one in cpu.items()},
        "tokens_per_cpu_second": {name: round(case.tokens / one, 1) for name, one in cpu.items()},
        "trl_samples_a_forward": best,
        "trl_tried_cpu_seconds": {str(rows): round(one.cpu, 3) for rows, one in firsts.items()},
        "grad_norm_difference": off,
    }


def memory_of(arm: str, folder: Path, lengths: Sequence[tuple[int, int]], vocab_size: int) -> int:
    """Bytes that an update of `arm` adds to a fresh process: peak resident memory minus that just before it."""
    given = json.dumps({"arm": arm, "folder": str(folder), "lengths": list(lengths), "vocab_size": vocab_size})
    command = [sys.executable, "-m", "benchmarks.update_memory", given]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, f"{arm}: {ran.stderr[-2000:]}"
    return int(ran.stdout.split()[-1])


def measure_memory(folder: Path, lengths: Sequence[tuple[int, int]], vocab_size: int) -> dict[str, Any]:
    peak = {arm: memory_of(arm, folder, lengths, vocab_size) for arm in ("own", "bare", "trl")}
    return {
        "peak_memory_ratio_vs_trl": round(peak["own"] / peak["trl"], 3),
        "peak_memory_ratio_vs_bare": round(peak["own"] / peak["bare"], 3),
        "peak_mb": {arm: round(peak[arm] / 2**20) for arm in peak},
    }


def measure(tiny: Path, repeats: int) -> dict[str, Any]:
    smollm2.convert(SMOLLM2)
    cases = [
        Case("tiny Qwen2, V=151k", tiny, "social_round", made(read_lengths("social_round"), QWEN_VOCABULARY)),
        Case("SmolLM2-135M", SMOLLM2, "gym", made(read_lengths("gym"), SMOLLM2_VOCABULARY)),
    ]
    by_model: dict[str, Any] = {}
    for case in cases:
        print(case.name, flush=True)
        by_model[case.name] = measure_speed(case, repeats, (1, SAMPLES))
    return {
        **{name: min(one[name] for one in by_model.values()) for name in ("tokens_ratio_vs_bare", "tokens_ratio_vs_trl")},
        **measure_memory(tiny, LONG, QWEN_VOCABULARY),
        "by_model": by_model,
        "micro_batch_tokens": MICRO_BATCH_TOKENS,
        "trl_config": json.loads(TRL_CONFIG.read_text("utf-8")),
    }


def made(lengths: list[tuple[int, int]], vocab_size: int) -> list[Sample]:
    return make_samples(spread(lengths, SAMPLES), vocab_size)


def page(result: Mapping[str, Any]) -> str:
    keys = ("tokens", "tokens_ratio_vs_bare", "tokens_ratio_vs_trl", "wall_ratio_vs_bare", "wall_ratio_vs_trl")
    rows = [
        f"| {name} | {' | '.join(str(one[key]) for key in keys)} | {one['grad_norm_difference']:.0e} |"
        for name, one in result["by_model"].items()
    ]
    models = result["by_model"].values()
    tried = " and ".join(next(iter(models))["trl_tried_cpu_seconds"])
    best = f"{' and '.join(str(one['trl_samples_a_forward']) for one in models)}, of {tried} tried"
    peak = result["peak_mb"]
    return f"""One round's update of a few samples of real lengths, in fp32 on one thread: log-probabilities under the
reference, two epochs of forward and backward, two optimizer steps. Ratios above 1 mean that this project is faster; each is
the median over alternating repeats. The lower of the two models' ratios stands at the top of the JSON.

| model | tokens | tokens/s, of bare | of TRL | by wall clock, of bare | of TRL | gradient norms differ by |
|---|---|---|---|---|---|---|
{chr(10).join(rows)}

- **Bare**: the same passes with nothing around them: one sample at a time (no padding), the head on completion tokens only,
  all their logits at once, the same loss, norm cap and AdamW step.
- **TRL**: GRPOTrainer 1.16 with `benchmarks/trl_update.json`, without gradient checkpointing, with the samples a forward
  that were fastest here ({best}). Completions and rewards are handed to it, so no time goes into sampling. It pads every
  sample to the round's longest prompt and longest completion, forwards once more for the old log-probabilities, and on a CPU
  runs the head over prompts too (on a GPU its Triton kernel does not).
- The samples lie in pairs of one position; none is dropped. Real rounds have positions without a signal, which this
  project never forwards and TRL does: the ratios leave that out.

Memory of an update with completions of 2,048 tokens behind prompts of 750 (tiny Qwen2, V = 151,936), each arm in a process of
its own, with the settings that need least (one sample a forward, gradient checkpointing; bare has none): peak resident memory
minus that just before the update, gradients and moments included. This project {peak["own"]} MB, TRL {peak["trl"]} MB, bare
{peak["bare"]} MB: **{result["peak_memory_ratio_vs_trl"]}** of TRL's."""


def main() -> None:
    parser = argparse.ArgumentParser(description="The update's speed and memory against bare passes and TRL.")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of every arm, after one warm-up")
    given = parser.parse_args()
    torch.set_num_threads(1)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as scratch:
        result = measure(make_tiny(Path(scratch) / "tiny"), given.repeats)
    command = COMMAND if given.repeats == REPEATS else f"{COMMAND} --repeats {given.repeats}"
    write_result("update_bench", "The update's speed and memory", result, page(result), command)


if __name__ == "__main__":
    main()
