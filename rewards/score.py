"""The only composer of rewards: the writes of one trajectory -> every reward part at every position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from data.memory.executor import Report
from data.memory.state import State
from rewards.chain import chain_reward
from rewards.matching import Matcher
from rewards.penalty import Penalty, penalty
from rewards.returns import qa_terms, returns
from rewards.speaker_levenshtein import SpeakerLevenshtein, phi
from rewards.validity import Validity, validity
from rewards.weights import RewardWeights


@dataclass(frozen=True, slots=True)
class WriteFacts:
    """What scoring needs to know of one write. `json_valid`: the whole text was strict JSON; `attempts` [n]: the
    decoded members of `actions`; `cut_off`: the engine stopped at the length limit."""

    json_valid: bool
    attempts: tuple[object, ...]
    report: Report
    pre_state: State
    state: State
    cut_off: bool


@dataclass(frozen=True, slots=True)
class PositionScore:
    """Every reward part at one position. `qa_gain` is None where it is missing. `long_texts` of `texts` contents in
    both states are so long that autojunk may collapse their sequence ratio."""

    validity: Validity
    levenshtein: SpeakerLevenshtein
    chain: float
    mem: float
    penalty: Penalty
    qa_gain: float | None
    qa_term: float
    ret: float
    texts: int
    long_texts: int

    @property
    def phi(self) -> float:
        return self.levenshtein.phi

    def parts(self) -> dict[str, float]:
        """The parts by name, for traces and logs; `qa_gain` is left out where it is missing."""
        found = {
            "json": self.validity.json,
            "schema": self.validity.schema,
            "dup": self.validity.dup,
            "stop": self.validity.stop,
            "valid": self.validity.total,
            "phi": self.phi,
            "worst_owner": self.levenshtein.worst,
            "chain": self.chain,
            "mem": self.mem,
            "penalty": self.penalty.total,
            "penalty_json": float(self.penalty.json),
            "penalty_act": float(self.penalty.act),
            "penalty_count": float(self.penalty.count),
            "penalty_length": float(self.penalty.length),
            "qa_term": self.qa_term,
            "return": self.ret,
        }
        return found if self.qa_gain is None else found | {"qa_gain": self.qa_gain}


@dataclass(frozen=True, slots=True)
class Scores:
    """One scored trajectory, shape [T]."""

    positions: tuple[PositionScore, ...]

    @property
    def returns(self) -> tuple[float, ...]:
        return tuple(position.ret for position in self.positions)

    @property
    def long_share(self) -> float:
        """Share of contents of 200 characters or more over all positions, 0 where there is none."""
        texts = sum(position.texts for position in self.positions)
        return sum(position.long_texts for position in self.positions) / texts if texts else 0.0


def score(
    writes: Sequence[WriteFacts],
    references: Sequence[State],
    qa_gain: float | None,
    matcher: Matcher | None = None,
    weights: RewardWeights | None = None,
) -> Scores:
    """Score one trajectory against the reference states M*_0 .. M*_{T-1} (Eq. 9, 18, 19, 21).

    writes [T], references [T]; `qa_gain` is R_QA, None where the network has no (judged) questions. Hand the same
    `matcher` to all trajectories of a group. ValueError where the lengths differ.
    """
    if len(writes) != len(references):
        raise ValueError(
            f"{len(writes)} writes but {len(references)} reference states; a trajectory has one of each a position"
        )
    matcher = matcher or Matcher()
    weights = weights or RewardWeights()
    valid = [validity(w.json_valid, w.report, w.pre_state, w.attempts, w.cut_off, weights) for w in writes]
    pairs = list(zip(writes, references, strict=True))
    levenshtein = [phi(write.state, reference, matcher) for write, reference in pairs]
    chain = [chain_reward(write.state.edges(), reference.edges(), matcher) for write, reference in pairs]
    mem = [weights.w_phi * one.phi + weights.w_chain * edges for one, edges in zip(levenshtein, chain, strict=True)]
    penalties = [penalty(write.json_valid, write.report, write.cut_off, weights) for write in writes]
    terms = qa_terms(len(writes), qa_gain, weights)
    rets = returns([one.total for one in valid], mem, [one.total for one in penalties], qa_gain, weights)
    lengths = [_lengths(write.state, reference, matcher) for write, reference in pairs]
    return Scores(
        tuple(
            PositionScore(valid[t], levenshtein[t], chain[t], mem[t], penalties[t], qa_gain, terms[t], rets[t], *lengths[t])
            for t in range(len(writes))
        )
    )


def _lengths(state: State, reference: State, matcher: Matcher) -> tuple[int, int]:
    """How many contents the two states hold, and how many of them are in autojunk's reach."""
    texts = [matcher.text(record.content) for side in (state, reference) for record in side]
    return len(texts), sum(text.long for text in texts)
