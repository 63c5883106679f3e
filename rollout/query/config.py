"""The frozen pipeline's settings: the paper's default budgets, and who plays each role."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from data.network import DataError
from rollout.memory.embedder import Thresholds


@dataclass(frozen=True, slots=True)
class Budgets:
    """Query budgets (Appendix D, Table 8; the Expand window is ours)."""

    recall: int = 40
    top_k: int = 10
    expand_rounds: int = 2
    expand_anchors: int = 2
    expand_window: int = 5
    ask_recall: int = 20
    k: int = 2
    source_k: int = 1

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 0:
                raise DataError(f"pipeline budget {one.name} is {getattr(self, one.name)}; use 0 or more")
        if self.recall < self.top_k:
            raise DataError(f"pipeline budgets: recall {self.recall} is below top_k {self.top_k}; recall at least top_k")


@dataclass(frozen=True, slots=True)
class RoleNames:
    """Who plays each role: `offline` or `litellm:MODEL`."""

    project: str = "offline"
    select: str = "offline"
    ask: str = "offline"
    answer: str = "offline"
    judge: str = "offline"


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """Everything that may be chosen about the pipeline. `thresholds` None: those that belong to the embedder."""

    budgets: Budgets = field(default_factory=Budgets)
    thresholds: Thresholds | None = None
    ask: bool = False
    roles: RoleNames = field(default_factory=RoleNames)
