"""Before launch: does a recipe hold together, and what will it need? Nothing is written, nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from data.checks import Level, Row, check
from data.memory.actions import Noop, render
from data.network import DataError
from rollout.writer.prompt import WriterPrompt
from writer_rl.batches import TokenPair, batch_of
from writer_rl.cases import Case, load_cases
from writer_rl.estimates import Shape
from writer_rl.examples import Example, check_lengths
from writer_rl.logprobs import completion_logprobs
from writer_rl.lora import in_place
from writer_rl.policy import Policy
from writer_rl.recipe import Recipe
from writer_rl.runtime import Runtime
from writer_rl.selection import selected
from writer_rl.stand_in import BYTES_A_TOKEN, SHAPES, byte_prompt
from writer_rl.workload import Written, written

KL_LIMIT = 1e-6  # at step 0, in fp32 (pitfall 8)
KL_SAMPLES, KL_TOKENS = 2, 2048
SHOWN = 3  # longest prompts


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. An ERROR stops a launch."""

    check: str
    level: Level
    detail: str


@dataclass
class Checked:
    """What the checks have found and loaded; what could not be loaded stays None, and what needs it is not checked."""

    recipe: Recipe
    findings: list[Finding] = field(default_factory=list)
    train: Sequence[Case] = ()
    heldout: Sequence[Case] = ()
    runtime: Runtime | None = None
    policy: Policy | None = None
    prompt: WriterPrompt | None = None
    shape: Shape | None = None
    written: Sequence[Written] = ()
    examples: Sequence[Example] = ()

    @property
    def failed(self) -> bool:
        return any(one.level is Level.ERROR for one in self.findings)

    def say(self, name: str, detail: str, level: Level = Level.INFO) -> None:
        self.findings.append(Finding(name, level, detail))


def validate(recipe: Recipe, told: Callable[[Finding], None] = lambda finding: None) -> Checked:
    """Run all checks in the order in which they can be afforded; `told` hears each finding as it is made."""
    checked = Checked(recipe)
    for name, part in (
        ("data", _data),
        ("pipeline", _pipeline),
        ("model", _model),
        ("template", _template),
        ("lengths", _lengths),
        ("KL", _divergence),
    ):
        known = len(checked.findings)
        try:
            part(checked)
        except (DataError, OSError) as error:
            checked.say(name, " ".join(str(error).split()), Level.ERROR)
        for finding in checked.findings[known:]:
            told(finding)
    return checked


def start_of(recipe: Recipe) -> Path | None:
    """The checkpoint that GRPO would begin with, or None where SFT has not been run yet."""
    if recipe.grpo.init_from is not None:
        return Path(recipe.grpo.init_from)
    return selected(recipe.folder / "sft") if (recipe.folder / "sft" / "selected.json").is_file() else None


def _data(checked: Checked) -> None:
    """Networks of all sides load, training networks have teachers, and nothing leaks between the sides."""
    section = checked.recipe.data
    checked.train = load_cases(section, "train")
    checked.heldout = [*load_cases(section, "dev"), *load_cases(section, "test")]
    segments = sum(len(case.segments) for case in checked.train)
    questions = sum(len(case.network.questions) for case in checked.train)
    checked.say(
        "data",
        f"{len(checked.train)} training networks, {segments} segments, {questions} questions; {len(checked.heldout)} held out",
    )
    train, heldout = ([case.network for case in side] for side in (checked.train, checked.heldout))
    if section.gym is not None:  # its chats are made of patterns, so likeness of messages says nothing
        told = {tuple(message.text for message in network.messages()): network.id for network in train}
        for network in heldout:
            twin = told.get(tuple(message.text for message in network.messages()))
            if twin is not None:
                raise DataError(f"leak: held-out network {network.id} is training network {twin}; use another data.gym.seed")
        checked.say("leaks", "no synthetic chat is on two sides")
    rows = check(train, () if section.gym else heldout, window=section.window).rows
    least = (Level.ERROR,) if section.gym else (Level.WARNING, Level.ERROR)
    shown = [row for row in rows if row.level in least or row.check == "leaks"]
    for (name, level), found in groupby(sorted(shown, key=_kind), key=_kind):
        first, *more = found
        where = f"{first.network}: " if first.network else ""
        checked.say(name, f"{where}{first.detail}" + (f" (and {len(more)} more like it)" if more else ""), Level(level))
    if not any(case.network.questions for case in checked.train):
        checked.say("data", "no training network has questions, so the QA term of every reward is 0", Level.WARNING)


def _kind(row: Row) -> tuple[str, str]:
    return row.check, row.level.value


def _pipeline(checked: Checked) -> None:
    checked.runtime = Runtime.of(checked.recipe)
    roles = "LLM roles" if checked.recipe.pipeline.uses_llm else "all roles offline: lexical, not comparable with judged scores"
    checked.say("pipeline", f"{checked.runtime.pipeline.id[:12]}, {roles}")


def _model(checked: Checked) -> None:
    if checked.runtime is None:
        return
    start = start_of(checked.recipe)
    if checked.recipe.lora is None:  # until the model itself has been loaded
        checked.shape = SHAPES.get(checked.recipe.model.path)
    checked.policy = checked.runtime.trained_policy(start or checked.recipe.sft.init_from)
    checked.prompt = checked.runtime.prompt(checked.policy)
    count, trained = counts(checked.policy)
    checked.shape = Shape.of(checked.policy.model.config, count, trained)
    what = "all trained" if count == trained else f"{trained / 1e6:.1f} M trained"
    checked.say("model", f"{count / 1e6:.1f} M parameters, {what}, from {start or checked.recipe.model.path}")


def counts(policy: Policy) -> tuple[int, int]:
    """Parameters, and how many of them are trained."""
    parameters = list(policy.model.parameters())
    return sum(one.numel() for one in parameters), sum(one.numel() for one in parameters if one.requires_grad)


def _template(checked: Checked) -> None:
    """A training example is what the chat template makes of the conversation, and its last label is the turn-end token."""
    if checked.prompt is None or checked.policy is None:
        return
    prompt, tokenizer = checked.prompt, checked.policy.tokenizer
    text = render([Noop()])
    turns: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    opening = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template([*turns, {"role": "assistant", "content": text}], tokenize=False)
    ids = prompt.target_ids(text)
    batch = batch_of([TokenPair(prompt.encode(opening), ids)], [0])
    labels = batch.targets[batch.mask].tolist()
    if labels[-1] != prompt.turn_end_id or prompt.turn_end_id != checked.policy.turn_end_id:
        raise DataError("the turn-end token is not the last label of a training example; the Writer would not learn to stop")
    if not whole.startswith(opening + tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)):
        raise DataError("the chat template writes a conversation otherwise than training does; use the model's own template")
    if prompt.decode(ids) != text:
        raise DataError(f"the tokenizer does not give back what it was given: {text!r} comes back as {prompt.decode(ids)!r}")
    end = tokenizer.convert_ids_to_tokens(prompt.turn_end_id)
    checked.say("template", f"turn end {end} ({prompt.turn_end_id}) is trained; the chat template and the examples agree")


def _lengths(checked: Checked) -> None:
    """Every prompt and target is within its limit; the longest ones by name."""
    if checked.runtime is None or not checked.train:
        return
    recipe = checked.recipe
    if checked.prompt is None:
        if checked.shape is not None:
            checked.written = list(_guessed(checked, checked.runtime))
            checked.say("lengths", f"guessed at {BYTES_A_TOKEN} bytes a token: the tokenizer is not here", Level.WARNING)
        return
    made = [written(case, checked.prompt, checked.runtime.embedder, recipe.writer.head_tokens) for case in checked.train]
    checked.written = [one for one, _ in made]
    checked.examples = [example for _, examples in made for example in examples]
    ranked = sorted(((length, one.network, t) for one in checked.written for t, length in enumerate(one.prompts)), reverse=True)
    named = ", ".join(f"{length} ({network}, position {t})" for length, network, t in ranked[:SHOWN])
    longest = max(length for one in checked.written for length in one.targets)
    checked.say(
        "lengths",
        f"longest prompts {named}, limit {recipe.writer.max_prompt_tokens}; longest target {longest}, limit "
        f"{recipe.grpo.max_new_tokens}",
    )
    for case, (_, examples) in zip(checked.train, made, strict=True):
        check_lengths(case, examples, recipe.writer.max_prompt_tokens, recipe.grpo.max_new_tokens)
    grown = ranked[0][0] + recipe.writer.head_tokens
    if grown > recipe.writer.max_prompt_tokens:
        checked.say(
            "lengths",
            f"a Writer that keeps more than its teacher fills writer.head_tokens: prompts may reach about {grown} tokens, "
            f"above writer.max_prompt_tokens ({recipe.writer.max_prompt_tokens}), which ends a run",
            Level.WARNING,
        )


def _guessed(checked: Checked, runtime: Runtime) -> Iterator[Written]:
    """Lengths without the model's tokenizer, for the estimate."""
    section = checked.recipe.writer
    prompt = byte_prompt(section.prompt)
    for case in checked.train:
        one, _ = written(case, prompt, runtime.embedder, section.head_tokens * BYTES_A_TOKEN)
        prompts, targets = (tuple(-(-length // BYTES_A_TOKEN) for length in side) for side in (one.prompts, one.targets))
        yield Written(one.network, prompts, targets, one.questions)


def _divergence(checked: Checked) -> None:
    """Policy and reference give the same log-probabilities before the first step."""
    if checked.runtime is None or checked.policy is None or not checked.examples:
        return
    start = start_of(checked.recipe)
    if start is None:
        checked.say("KL", "not measured: GRPO starts from the SFT checkpoint, which is not there yet", Level.WARNING)
        return
    value = divergence(checked.policy, checked.runtime.reference(checked.policy, start), _short(checked.examples))
    if not value < KL_LIMIT:
        raise DataError(
            f"KL to the reference is {value:.2e} before the first step (allowed {KL_LIMIT:.0e}): the reference is not the "
            "policy that GRPO starts from; check grpo.init_from and lora"
        )
    checked.say("KL", f"{value:.1e} to the reference at step 0")


def divergence(policy: Policy, reference: torch.nn.Module, examples: Sequence[Example]) -> float:
    """Mean over examples of the token mean of k3 to the reference, in fp32."""
    values = []
    for example in examples:
        batch = batch_of([example], [0]).to(policy.device)
        with torch.no_grad():
            with in_place(reference):
                frozen = completion_logprobs(reference, batch)
            delta = frozen - completion_logprobs(policy.model, batch)
        values.append(float((delta.exp() - delta - 1).mean()))
    return sum(values) / len(values)


def _short(examples: Sequence[Example]) -> list[Example]:
    """A few examples that are cheap to run: the shortest ones."""
    ranked = sorted(examples, key=lambda one: len(one.prompt_ids) + len(one.completion_ids))
    return [one for one in ranked[:KL_SAMPLES] if len(one.prompt_ids) + len(one.completion_ids) <= KL_TOKENS] or ranked[:1]


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """The report as text: mark, check, detail."""
    marks = {Level.INFO: "ok", Level.WARNING: "WARN", Level.ERROR: "FAIL"}
    for one in findings:
        yield f"{marks[one.level]:<5}{one.check:<11}{one.detail}"
