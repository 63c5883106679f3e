"""Supervised fine-tuning on teacher trajectories: completion tokens only, the turn-end token among them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from tqdm import tqdm

from writer_rl import checkpoint
from writer_rl.batches import micro_batches
from writer_rl.cases import Case, load_cases
from writer_rl.dealing import gathered, level, share, share_by_tokens
from writer_rl.evaluation.evaluate import evaluate_memory
from writer_rl.evaluation.writers import checkpoint_writer
from writer_rl.examples import Example, check_lengths, examples_of
from writer_rl.logbook import Logbook
from writer_rl.optimizer import build_scheduler
from writer_rl.policy import Policy
from writer_rl.recipe import Recipe, RecipeError
from writer_rl.runtime import Runtime
from writer_rl.selection import selected, within_reach, write_selection
from writer_rl.stepper import prepare, stepper_of


def train(recipe: Recipe) -> Path:
    """Run (or go on with) the SFT of a recipe; returns the folder of the selected epoch's checkpoint.

    One checkpoint an epoch under `<run>/sft/epoch-NN`; `<run>/sft/selected.json` names the chosen one with the table that
    it was chosen by. An interrupted run goes on from its last whole epoch, to the same weights.
    """
    runtime = Runtime.of(recipe)
    folder = recipe.folder / "sft"
    with runtime.accelerator.main_process_first():
        checkpoint.mend(folder)
    resumed = checkpoint.latest(folder)
    policy = runtime.trained_policy(resumed or recipe.sft.init_from)
    prompt = runtime.prompt(policy)
    examples = _examples(runtime, load_cases(recipe.data, "train"), prompt)
    steps_an_epoch = -(-len(examples) // recipe.sft.batch_size)
    rates = (recipe.sft.lr, recipe.sft.weight_decay, recipe.sft.max_grad_norm)
    optimizer = prepare(policy, *rates, runtime.autocast, runtime.accelerator)
    total = recipe.sft.epochs * steps_an_epoch
    scheduler = build_scheduler(optimizer, recipe.sft.schedule, total, recipe.sft.warmup_steps)
    first, table = 0, []
    if resumed is not None:
        state = checkpoint.load_state(resumed)
        check_same_run(state, recipe, resumed)
        first, table = state["epoch"], within_reach(state["table"], folder, recipe.sft.select)
        if runtime.accelerator.is_main_process:
            write_selection(folder, table, recipe.sft.select)
        runtime.accelerator.wait_for_everyone()
        checkpoint.restore_trainer(resumed, optimizer, scheduler, runtime.accelerator)
    if runtime.accelerator.is_main_process:
        recipe.keep("sft")
    logbook = Logbook(recipe.folder, "sft", first * steps_an_epoch, runtime.accelerator.is_main_process)
    dev = load_cases(recipe.data, "dev") if recipe.sft.select == "phi" else []
    if recipe.sft.select == "phi" and not dev:
        raise RecipeError(f"sft.select is phi, but split {recipe.data.split} has no dev networks; use sft.select=last")
    bar = tqdm(total=total, initial=first * steps_an_epoch, desc="SFT", disable=not runtime.accelerator.is_main_process)
    for epoch in range(first, recipe.sft.epochs):
        order = list(range(len(examples)))
        random.Random(f"{recipe.seed}/sft/{epoch}").shuffle(order)
        for step in range(steps_an_epoch):
            chosen = order[step * recipe.sft.batch_size : (step + 1) * recipe.sft.batch_size]
            begun = time.perf_counter()
            values = _step(runtime, policy, [examples[i] for i in chosen], optimizer)
            scheduler.step()
            values |= {"epoch": epoch + (step + 1) / steps_an_epoch, "time/step": time.perf_counter() - begun}
            logbook.log(epoch * steps_an_epoch + step, values)
            bar.set_postfix(loss=f"{values['loss']:.4f}")
            bar.update()
        table.append(_judge(runtime, policy, dev, epoch + 1))
        made = {"epoch": epoch + 1, "table": table, "recipe": recipe.model_dump(), "pipeline_id": runtime.pipeline.id}
        checkpoint.save(folder / f"epoch-{epoch + 1:02d}", policy, optimizer, scheduler, made, runtime.accelerator)
        if runtime.accelerator.is_main_process:
            write_selection(folder, table, recipe.sft.select)
            checkpoint.keep_last(folder, f"epoch-{epoch + 1:02d}", recipe.sft.keep, [selected(folder).name])
        runtime.accelerator.wait_for_everyone()
    bar.close()
    logbook.close()
    return selected(folder)


MAY_CHANGE = {  # of a recipe between two starts of a run: nothing here changes a number of what is done already
    "checkpoints",
    "sft.epochs",
    "sft.keep",
    "grpo.rounds",
    "grpo.patience",
    "grpo.keep",
    "grpo.save_every",
    "engine.kv_cache_gib",
    "engine.servers",
    "engine.weights",
    "engine.sync_deadline",
    "engine.answer_deadline",
    "pipeline.budget_usd",
    "pipeline.budget_tokens",
    "pipeline.concurrency",
    "pipeline.replies",
}


JUDGING = {"eval.temperature", "eval.top_p", "eval.max_new_tokens"}  # how checkpoints that are chosen among are asked


def shaping(recipe: Recipe) -> dict[str, Any]:
    """The dotted keys of a recipe, with their values, that change a number of what a run has done already. A number of
    epochs or rounds is one where a learning rate falls over them."""
    falling = {"sft.epochs": recipe.sft.schedule, "grpo.rounds": recipe.grpo.schedule}
    fixed = {key for key, schedule in falling.items() if schedule == "linear"}
    fixed |= JUDGING if recipe.sft.select == "phi" or recipe.grpo.eval_every else set()
    values = flat(recipe.model_dump())
    return {key: value for key, value in values if key in fixed or not (key in MAY_CHANGE or key.startswith("eval."))}


def check_same_run(state: dict[str, Any], recipe: Recipe, folder: Path) -> None:
    """A run goes on only under the recipe that it was begun with; the number of epochs or rounds may grow, unless a learning
    rate falls over them."""
    now, before = shaping(recipe), dict(flat(state["recipe"]))
    changed = sorted(key for key, value in now.items() if before.get(key) != value)
    if changed:
        raise RecipeError(
            f"{folder}: was made with another recipe (different: {', '.join(changed)}); use another `run` name, or delete the "
            "folder to begin anew"
        )


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested recipe values as dotted keys."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _examples(runtime: Runtime, cases: Sequence[Case], prompt: Any) -> list[Example]:
    writer = runtime.recipe.writer
    made: list[Example] = []
    for case in cases:
        ones = examples_of(case, prompt, runtime.embedder, writer.head_tokens)
        check_lengths(case, ones, writer.max_prompt_tokens, runtime.recipe.grpo.max_new_tokens)
        made += ones
    return made


def _step(runtime: Runtime, policy: Policy, examples: list[Example], optimizer: Optimizer) -> dict[str, float]:
    """One optimizer step on the mean loss of all completion tokens of the batch, over all ranks."""
    accelerator, section = runtime.accelerator, runtime.recipe.sft
    stepper = stepper_of(policy, optimizer, section.max_grad_norm, runtime.autocast, accelerator)
    tokens = sum(len(one.completion_ids) for one in examples)
    mine = share_by_tokens(examples, [True] * len(examples), accelerator)
    loss = torch.zeros((), device=accelerator.device)
    batches = level(micro_batches(mine, section.micro_batch_tokens), accelerator)
    for number, batch in enumerate(batches, 1):
        logps = stepper.logprobs(batch.to(policy.device))
        part = -logps.sum() / tokens if batch.indices else logps.sum() * 0.0  # padding and dummies count 0
        stepper.backward(part, last=number == len(batches))
        loss += part.detach()
    norm = stepper.step()
    total = float(accelerator.reduce(loss, "sum"))
    if not (math.isfinite(total) and math.isfinite(norm)):
        raise RecipeError(f"SFT: loss {total} or gradient norm {norm} is not finite; lower sft.lr, or use precision fp32")
    return {
        "loss": total,
        "grad_norm": norm,
        "learning_rate": optimizer.param_groups[0]["lr"],
        "num_tokens": float(tokens + sum(len(one.prompt_ids) for one in examples)),
        "num_completion_tokens": float(tokens),
    }


def _judge(runtime: Runtime, policy: Policy, dev: Sequence[Case], epoch: int) -> dict[str, Any]:
    """An epoch's row in the selection table: sampled Phi and validity on dev networks, where there are any."""
    row: dict[str, Any] = {"checkpoint": f"epoch-{epoch:02d}", "epoch": epoch}
    if not dev:
        return row
    writer = checkpoint_writer(runtime, policy, "sft")
    accelerator = runtime.accelerator
    rows = gathered(evaluate_memory(runtime, writer, share(dev, accelerator), seeds=1), accelerator)
    count = len(rows)
    return row | {name: sum(row[name] for row in rows) / count for name in ("phi", "valid", "return")}
