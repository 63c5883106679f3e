"""One round end to end, with the `replay` engine in the Writer's place: every part runs once, and nothing is left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from data.memory.actions import Noop, render
from data.network import DataError
from rollout.engines.base import RequestKey
from rollout.engines.replay import ReplayEngine
from rollout.query.view import MemoryView
from writer_rl import grpo
from writer_rl.advantages import advantages
from writer_rl.cases import Case
from writer_rl.journal import Journal, Origin
from writer_rl.optimizer import build_scheduler
from writer_rl.policy import reference_of
from writer_rl.recipe import Recipe
from writer_rl.schedule import visits
from writer_rl.scoring import score_round
from writer_rl.stepper import prepare
from writer_rl.update import update
from writer_rl.validate import KL_LIMIT, Checked, start_of

SMALL = {"group_size": 2, "networks_per_round": 1}  # enough for a group whose returns differ


@dataclass(frozen=True)
class DryRun:
    """What the round did. `kl` is that of the first epoch, before any step; `calls` are LLM calls that were sent."""

    network: str
    writes: int
    seconds: Mapping[str, float]
    questions: int
    unjudged: int
    calls: int
    reward: tuple[float, float]  # mean return of the teacher's memory, and of an empty one
    kept: int
    steps: int
    kl: float


def dry_run(checked: Checked) -> DryRun:
    """Walk one round of a recipe that was checked: trajectory 0 writes what the teacher wrote, trajectory 1 nothing.

    Rewards, advantages and the update are the real ones, on the recipe's model in memory; LLM roles are really asked (their
    replies are cached as in training). Raises DataError where a check had failed before, or what a round raises.
    """
    if checked.failed or checked.policy is None or checked.prompt is None or checked.runtime is None:
        raise DataError("the dry run needs a recipe whose checks pass; mend what is marked FAIL first")
    recipe, runtime, policy = smaller(checked.recipe), checked.runtime, checked.policy
    cases = {case.network.id: case for case in checked.train}
    chosen = visits(sorted(cases), recipe.seed, 0, recipe.grpo.networks_per_round)
    case = cases[chosen[0].network]
    start, clock = start_of(recipe), grpo.Clock()
    reference = reference_of(policy) if start is None else runtime.reference(policy, start)
    optimizer = prepare(
        policy, recipe.grpo.lr, recipe.grpo.weight_decay, recipe.grpo.max_grad_norm, runtime.autocast, runtime.accelerator
    )
    runtime = replace(runtime, recipe=recipe)
    engine = ReplayEngine(lambda key: spoken(case, key), checked.prompt)
    with clock("rollout"):
        groups = grpo.rollout(runtime, engine, checked.prompt, cases, chosen, 0)
    views = {case.network.id: MemoryView.of(case.network).prepared(runtime.embedder)}
    with tempfile.TemporaryDirectory() as scratch, clock("scoring"):
        journal = Journal(Path(scratch), Origin(0, 0, ""))
        scored = score_round(runtime, groups, cases, views, journal)
        journal.close()
    samples = grpo.samples_of(groups, scored)
    advantage = advantages({one.key: one.ret for one in samples}, recipe.grpo.group_size)
    scheduler = build_scheduler(optimizer)
    with clock("update"):
        stats = update(
            policy, reference, samples, advantage.values, optimizer, scheduler, runtime.accelerator, grpo.update_config(runtime)
        )
    kl = stats.epochs[0].kl if stats.epochs else 0.0
    if runtime.autocast is None and kl >= KL_LIMIT:
        raise DataError(f"KL to the reference is {kl:.2e} before the first step; the reference is not what GRPO starts from")
    means = [sum(one.returns) / len(one.returns) for one in scored[0].scores]
    return DryRun(
        network=case.network.id,
        writes=len(samples),
        seconds={name.removeprefix("time/"): value for name, value in clock.metrics().items()},
        questions=scored[0].qa.total,
        unjudged=scored[0].qa.unjudged,
        calls=sum(use.attempts for use in runtime.client.accounting.stages.values()),
        reward=(means[0], means[1]),
        kept=stats.kept,
        steps=stats.steps,
        kl=kl,
    )


def smaller(recipe: Recipe) -> Recipe:
    """The recipe with a round of two trajectories of one network; lengths and micro-batches are its own."""
    return recipe.model_copy(update={"grpo": recipe.grpo.model_copy(update=SMALL)})


def spoken(case: Case, key: RequestKey) -> str:
    """The teacher's actions, or a lone NOOP."""
    assert case.teacher is not None  # training networks have one
    return render(case.teacher[key.t]) if key.g == 0 else render([Noop()])


def told(done: DryRun) -> str:
    """The dry run in a few lines."""
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in done.seconds.items())
    return "\n".join(
        [
            f"dry run: {done.writes} writes of {done.network} by replay ({seconds})",
            f"  rewards  {done.reward[0]:+.3f} for the teacher's memory, {done.reward[1]:+.3f} for an empty one; "
            f"{done.questions} questions, {done.unjudged} unjudged, {done.calls} LLM calls sent",
            f"  update   {done.kept} samples kept, {done.steps} steps, KL {done.kl:.1e} before the first",
        ]
    )
