"""Rounds in a row that could not step, and when that ends a run."""

from __future__ import annotations

from dataclasses import dataclass

from data.network import DataError
from writer_rl.update_stats import UpdateStats

GATED_WARNING = 3
GATED_END = 5
NONFINITE_END = 3


class TrainingStopped(DataError):
    """The run cannot go on; the message says why and what to try."""


@dataclass(frozen=True)
class Watch:
    """Rounds in a row whose first epoch the KL gate stopped, and rounds in a row with a loss or gradient that is not finite.

    Two counts for a checkpoint's state, so that a resumed run counts on.
    """

    gated: int = 0
    nonfinite: int = 0

    def after(self, stats: UpdateStats) -> Watch:
        """The counts after one more round; a round without a kept sample says nothing and changes nothing.

        Raises TrainingStopped at GATED_END gated or NONFINITE_END non-finite rounds in a row.
        """
        if not stats.kept:
            return self
        counted = Watch(
            gated=self.gated + 1 if stats.gated and not stats.steps else 0,
            nonfinite=self.nonfinite + 1 if stats.nonfinite else 0,
        )
        if counted.nonfinite >= NONFINITE_END:
            raise TrainingStopped(
                f"loss or gradient was not finite in {counted.nonfinite} rounds in a row; the weights are those of before. "
                "Begin a run of another name with a lower grpo.lr or precision=fp32: run=NEW, and grpo.init_from=CHECKPOINT to "
                "begin there, with that checkpoint as its reference"
            )
        if counted.gated >= GATED_END:
            last = stats.epochs[-1]
            raise TrainingStopped(
                f"the KL gate was shut in {counted.gated} rounds in a row (KL {last.kl:.4f}, {last.max_delta_share:.0%} of it "
                "from one token); the reference is fixed, so it will not open again. The last checkpoint is what this run came "
                "to. Begin one of another name with a lower grpo.lr or a higher grpo.kl_gate: run=NEW, and "
                "grpo.init_from=CHECKPOINT to begin there, with that checkpoint as its reference"
            )
        return counted

    @property
    def warning(self) -> str:
        """What to tell the user now, empty where all is well."""
        if self.gated < GATED_WARNING:
            return ""
        return f"the KL gate has been shut for {self.gated} rounds in a row; the run ends at {GATED_END}"
