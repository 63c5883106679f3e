"""Tokens and cost per stage, and the cap that stops a run cleanly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rollout.llm.errors import BudgetExceeded, MissingKind


@dataclass
class StageUse:
    """What one stage has used. `calls` are requests by the pipeline, `attempts` those that reached a provider;
    tokens and cost count attempts that were answered, so a reply from the cache costs nothing."""

    calls: int = 0
    cached: int = 0
    shared: int = 0  # equal requests that waited for one in flight
    attempts: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0  # answered attempts of models without a known price
    missing: Counter[MissingKind] = field(default_factory=Counter)


@dataclass
class Accounting:
    """Use per stage, and the caps: None is no cap."""

    budget_usd: float | None = None
    budget_tokens: int | None = None
    stages: dict[str, StageUse] = field(default_factory=dict)

    def stage(self, name: str) -> StageUse:
        return self.stages.setdefault(name, StageUse())

    @property
    def tokens(self) -> int:
        return sum(use.prompt_tokens + use.completion_tokens for use in self.stages.values())

    @property
    def cost_usd(self) -> float:
        return sum(use.cost_usd for use in self.stages.values())

    def check(self) -> None:
        """Raise BudgetExceeded where a cap is reached. Asked before each attempt: what is in flight then still ends,
        so a cap is overrun by at most the calls in flight."""
        if self.budget_usd is not None and self.cost_usd >= self.budget_usd:
            raise BudgetExceeded(
                f"the cost cap of ${self.budget_usd:g} is reached (${self.cost_usd:.4f} used, {self.tokens} tokens); "
                "raise the cap and run again: replies so far are in the cache"
            )
        if self.budget_tokens is not None and self.tokens >= self.budget_tokens:
            raise BudgetExceeded(
                f"the cap of {self.budget_tokens} tokens is reached ({self.tokens} used); "
                "raise the cap and run again: replies so far are in the cache"
            )

    def spend(self, stage: str, prompt_tokens: int, completion_tokens: int, cost_usd: float | None) -> None:
        use = self.stage(stage)
        use.prompt_tokens += prompt_tokens
        use.completion_tokens += completion_tokens
        use.cost_usd += cost_usd or 0.0
        use.unpriced += cost_usd is None

    def table(self) -> list[dict[str, Any]]:
        """One row a stage, by name: plain values for JSON."""
        rows = []
        for name, use in sorted(self.stages.items()):
            row = {key: value for key, value in vars(use).items() if key != "missing"}
            rows.append({"stage": name, **row, "missing": {kind.value: n for kind, n in sorted(use.missing.items())}})
        return rows
