"""Speaker-conditioned GRPO: rollout, score, advantages, update, round after round. The loop is `train`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from rollout.engines.base import Engine, SamplingParams
from rollout.writer.prompt import WriterPrompt
from rollout.writer.sampler import Episode, OnEnd, sample
from rollout.writer.trajectory import Trajectory
from writer_rl.advantages import Sample, advantages
from writer_rl.cases import Case
from writer_rl.dealing import gathered, share, share_by_tokens
from writer_rl.recipe import Recipe
from writer_rl.round_log import metrics, trace_rows
from writer_rl.run import Run
from writer_rl.runtime import Runtime
from writer_rl.schedule import Visit, visits
from writer_rl.scoring import GroupScores, asking_ahead, score_round
from writer_rl.update import UpdateConfig, update
from writer_rl.watch import Watch

CLIPPED_WARNING = 0.30  # share of completions


def train(recipe: Recipe) -> Path:
    """Run (or go on with) the GRPO of a recipe from its SFT checkpoint; returns the chosen checkpoint's folder.

    One round: G trajectories of the round's networks, their rewards, advantages per write position, up to `grpo.epochs`
    optimizer steps, and the new weights reach the engine. Everything a round depends on is a pure function of recipe, seed,
    round and weights, and a round that was begun is in its journal, so a killed run ends as one that was never stopped.
    """
    run = Run.open(recipe)
    config = update_config(run.runtime)
    with run.stopping():
        for index in tqdm(run.rounds(), initial=run.done, total=recipe.grpo.rounds, desc="GRPO", disable=not run.main):
            clock = Clock()
            chosen = visits(sorted(run.cases), recipe.seed, index, recipe.grpo.networks_per_round)
            with run.journal(index) as (journal, engine):
                with clock("rollout"):
                    ahead = asking_ahead(run.runtime, run.cases, run.views)
                    groups = rollout(run.runtime, engine, run.prompt, run.cases, chosen, index, ahead)
                with clock("scoring"):
                    scored = score_round(run.runtime, groups, run.cases, run.views, journal)
            samples = samples_of(groups, scored)
            advantage = advantages({one.key: one.ret for one in samples}, recipe.grpo.group_size)
            run.rest()
            run.grace.hold()  # until the round is finished: from here on it is half done
            with clock("update"):
                steppers = (run.optimizer, run.scheduler, run.runtime.accelerator)
                mine = share_by_tokens(samples, [one.key in advantage.values for one in samples], steppers[-1])
                stats = update(run.policy, run.reference, mine, advantage.values, *steppers, config)
            if stats.steps:
                with clock("sync"):
                    run.sync()
            numbers = metrics(groups, scored, advantage, stats, run.optimizer)
            run.logbook.trace(index, trace_rows(groups, scored, advantage, recipe.run, run.decode))
            run.logbook.log(index, numbers | clock.metrics() | {"engine/parity_max": run.proof})
            run.watch = run.watch.after(stats)  # ends the run where the gate stays shut or updates are not finite
            for warning in warnings_of(run.watch, numbers) if run.main else ():
                tqdm.write(f"round {index}: {warning}")
            run.finish(index + 1)
    return run.close()


def warnings_of(watch: Watch, numbers: Mapping[str, float]) -> list[str]:
    """What a user should know before the next round."""
    found = [watch.warning] if watch.warning else []
    if numbers["completions/clipped_ratio"] > CLIPPED_WARNING:
        found.append(
            f"{numbers['completions/clipped_ratio']:.0%} of the completions reached grpo.max_new_tokens and were cut off; they "
            "are penalised, so raise the limit if the Writer still had something to say"
        )
    return found


def rollout(
    runtime: Runtime,
    engine: Engine,
    prompt: WriterPrompt,
    cases: Mapping[str, Case],
    chosen: Sequence[Visit],
    index: int,
    ahead: OnEnd | None = None,
) -> list[list[Trajectory]]:
    """G trajectories of each chosen network: shape [networks][G]. `ahead` is awaited for each as it ends."""
    recipe, size, accelerator = runtime.recipe, runtime.recipe.grpo.group_size, runtime.accelerator
    whole = [Episode(cases[one.network].segments, index, one.visit, g) for one in chosen for g in range(size)]
    episodes, hidden = share(whole, accelerator), not accelerator.is_main_process
    total = sum(len(one.segments) for one in episodes)
    with tqdm(total=total, desc=f"round {index}: writes", leave=False, disable=hidden) as bar:
        mine = asyncio.run(
            sample(
                engine,
                episodes,
                prompt,
                SamplingParams(recipe.grpo.temperature, recipe.grpo.top_p, recipe.grpo.max_new_tokens),
                recipe.seed,
                support=runtime.support,
                embedder=runtime.embedder,
                prompt_limit=recipe.writer.max_prompt_tokens,
                pipeline_id=runtime.pipeline.id,
                head_token_budget=recipe.writer.head_tokens,
                on_write=lambda key, write: bar.update(),
                on_end=ahead,
            )
        )
    trajectories = gathered(mine, accelerator)
    return [trajectories[start : start + size] for start in range(0, len(trajectories), size)]


def samples_of(groups: Sequence[Sequence[Trajectory]], scored: Sequence[GroupScores]) -> list[Sample]:
    """One sample a position of a trajectory, its ids as the engine had them."""
    made = []
    for group, scores in zip(groups, scored, strict=True):
        for trajectory, one in zip(group, scores.scores, strict=True):
            for t, (write, ret) in enumerate(zip(trajectory.writes, one.returns, strict=True)):
                said = write.completion
                made.append(Sample(trajectory.key(t), write.prompt_ids, said.token_ids, ret, said.logprobs))
    return made


def update_config(runtime: Runtime) -> UpdateConfig:
    section = runtime.recipe.grpo
    return UpdateConfig(
        epochs=section.epochs,
        clip=section.clip,
        beta=section.beta,
        kl_gate=section.kl_gate,
        max_grad_norm=section.max_grad_norm,
        micro_batch_tokens=section.micro_batch_tokens,
        autocast_dtype=runtime.autocast,
    )


class Clock:
    """Seconds that each phase of a round took."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self._seconds[phase] = time.perf_counter() - begun

    def metrics(self) -> dict[str, float]:
        return {f"time/{phase}": seconds for phase, seconds in self._seconds.items()}
