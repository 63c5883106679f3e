"""What a Writer acts in: segments come one by one, each completion is parsed and executed, the memory grows."""

from __future__ import annotations

from collections.abc import Sequence

from data.memory.executor import Support, execute
from data.memory.state import State
from data.network import DataError
from data.segments import Segment
from rollout.engines.base import Completion
from rollout.writer.parser import parse
from rollout.writer.prompt import WriterPrompt
from rollout.writer.trajectory import Write
from rollout.writer.view import HEAD_TOKEN_BUDGET, TextEmbedder, build_view


class Environment:
    """One episode over the segments [T] of a network.

    States are never changed once a write has produced them, so a clone shares them: it costs one tuple. `salvage`
    executes what a tolerant parse finds too: for serving, never for training.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        prompt: WriterPrompt,
        support: Support,
        embedder: TextEmbedder,
        head_token_budget: int = HEAD_TOKEN_BUDGET,
        salvage: bool = False,
    ) -> None:
        if not segments:
            raise DataError("an episode needs at least one segment; the network has none")
        self.segments = tuple(segments)
        self.prompt = prompt
        self.support = support
        self.embedder = embedder
        self.head_token_budget = head_token_budget
        self.salvage = salvage
        self.writes: tuple[Write, ...] = ()
        self._observed: tuple[int, ...] | None = None

    @property
    def t(self) -> int:
        """The position that is written next."""
        return len(self.writes)

    @property
    def done(self) -> bool:
        return self.t == len(self.segments)

    @property
    def segment(self) -> Segment:
        """The segment that is written next; IndexError when done."""
        return self.segments[self.t]

    @property
    def state(self) -> State:
        """The memory as it stands. Treat it as frozen: clones and writes share it."""
        return self.writes[-1].state if self.writes else State()

    def observe(self) -> tuple[int, ...]:
        """Prompt token ids of the current position."""
        if self._observed is None:
            view = build_view(self.segment, self.state, self.embedder, self.prompt, head_token_budget=self.head_token_budget)
            self._observed = self.prompt.prompt_ids(view)
        return self._observed

    def step(self, completion: Completion) -> Write:
        """Execute what the Writer said at the current position and go on to the next.

        The token ids are kept as they were sampled; the text is decoded from them, never the other way round.
        """
        prompt_ids, before = self.observe(), self.state
        text = self.prompt.decode(completion.token_ids)
        parsed = parse(text, salvage=self.salvage)
        after = before.clone()
        report = execute(after, parsed.attempts, self.segment, self.support)
        write = Write(self.segment, prompt_ids, completion, text, parsed, report, before, after)
        self.writes = (*self.writes, write)
        self._observed = None
        return write

    def clone(self) -> Environment:
        """An episode that goes on from here independently of this one."""
        made = Environment(self.segments, self.prompt, self.support, self.embedder, self.head_token_budget, self.salvage)
        made.writes, made._observed = self.writes, self._observed
        return made
