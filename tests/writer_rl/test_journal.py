"""The journal of a round: what is on disk is used, what is torn is dropped, and nothing is asked twice."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data.memory.executor import Report
from data.memory.state import State
from data.segments import segments
from rollout.engines.base import Completion, Request, RequestKey, SamplingParams
from rollout.query.pipeline import AnchorHits, Asked
from rollout.query.qa import QAResult
from rollout.query.roles import Verdict, VerdictKind
from rollout.writer.trajectory import Parsed, ParseStatus, Trajectory, Write
from tests.tiny import make_network
from writer_rl.grace import Grace, Terminated
from writer_rl.journal import Journal, JournalError, Origin, group_digest, prune

ORIGIN = Origin(3, 2, "digest")
PARAMS = SamplingParams(0.8, 0.95, 8)


def request(g: int, t: int = 0, prompt: tuple[int, ...] = (5, 6)) -> Request:
    return Request(prompt, 100 * g + t, PARAMS, RequestKey(3, "net", 0, g, t))


def completion(g: int, t: int = 0) -> Completion:
    return Completion((g, t, 2), (-0.1 * g, -1 / 3, -2.5e-7), "stop" if g else "length", 2)


def three_lines(folder: Path) -> Path:
    journal = Journal(folder, ORIGIN)
    journal.keep([(request(0), completion(0)), (request(1), completion(1))])
    journal.keep([(request(0, 1), completion(0, 1)), (request(1, 1), completion(1, 1))])
    journal.close()
    return journal.path


def held(folder: Path, origin: Origin = ORIGIN) -> list[tuple[int, int]]:
    journal = Journal(folder, origin)
    journal.close()
    return [(g, t) for t in range(2) for g in range(2) if journal.completion(request(g, t)) == completion(g, t)]


ALL = [(0, 0), (1, 0), (0, 1), (1, 1)]


def trajectory(network: str, g: int, ids: tuple[tuple[int, ...], ...]) -> Trajectory:
    segment = segments(make_network())[0]
    writes = tuple(
        Write(
            segment, (), Completion(one, (), "stop", 0), "", Parsed(ParseStatus.FAILED, ()), Report((), False), State(), State()
        )
        for one in ids
    )
    return Trajectory(network, 3, 0, g, writes, "")


def asked(question: str, kind: VerdictKind) -> Asked:
    return Asked(question, None, (), (), "", False, "", "It is 「red」.", Verdict(kind, "why"), AnchorHits(0, 0, 0, 0), ())


def test_completions_come_back_to_the_last_bit(tmp_path: Path) -> None:
    three_lines(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert held(tmp_path) == ALL


def test_cut_at_any_byte_whole_lines_stay_and_the_rest_is_dropped_loudly(tmp_path: Path) -> None:
    path = three_lines(tmp_path)
    content = path.read_bytes()
    ends = [number + 1 for number, byte in enumerate(content) if byte == 10]
    for size in range(len(content)):
        path.write_bytes(content[:size])
        whole = sum(end <= size for end in ends)
        expected = ALL[: 2 * max(0, whole - 1)]
        if size in (0, *ends):
            assert held(tmp_path) == expected
        else:
            with pytest.warns(UserWarning, match=rf"line {whole + 1} is torn or damaged"):
                assert held(tmp_path) == expected
        assert path.read_bytes() == content[: ends[max(whole, 1) - 1]]  # and the file can be appended to


@example(place=463, bit=5)  # the e of a float, which reads the same as E
@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_flipped_bit_goes_unseen(tmp_path_factory: pytest.TempPathFactory, place: int, bit: int) -> None:
    folder = tmp_path_factory.mktemp("journal")
    path = three_lines(folder)
    content = bytearray(path.read_bytes())
    place %= len(content)
    content[place] ^= 1 << bit
    path.write_bytes(bytes(content))
    number = bytes(content).count(b"\n", 0, place)
    with pytest.warns(UserWarning, match="dropped"):
        found = held(folder)
    assert found == ALL[: 2 * max(0, number - 1)]


def test_the_journal_of_another_course_is_dropped_loudly(tmp_path: Path) -> None:
    for other in (
        replace(ORIGIN, weights_version=1),
        replace(ORIGIN, run="another recipe"),
        replace(ORIGIN, ranks=2),
    ):
        three_lines(tmp_path)
        with pytest.warns(UserWarning, match="another round, recipe or number of processes"):
            assert held(tmp_path, other) == []
        (tmp_path / "round-0003.rank0.jsonl").unlink()


def test_another_prompt_seed_or_temperature_is_an_error_not_an_answer(tmp_path: Path) -> None:
    three_lines(tmp_path)
    journal = Journal(tmp_path, ORIGIN)
    asked = request(1)
    for other in (
        replace(asked, prompt_ids=(5, 7)),
        replace(asked, seed=1),
        replace(asked, params=replace(PARAMS, temperature=0.7)),
    ):
        with pytest.raises(JournalError, match="was asked with another prompt"):
            journal.completion(other)
    assert journal.completion(request(2)) is None


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = three_lines(tmp_path)
    before = path.read_bytes()
    journal = Journal(tmp_path, ORIGIN)
    write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) > 20:
            return write(file, data[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        patched.setattr(os, "fsync", lambda file: None)
        with pytest.raises(OSError, match="No space left"):
            journal.keep([(request(0, 9), completion(0, 9))])
    assert path.read_bytes() == before
    assert journal.completion(request(0, 9)) is None
    journal.keep([(request(0, 9), completion(0, 9))])
    journal.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert held(tmp_path) == ALL


class Ticking:
    """An engine that answers all that wait at once, as `hf` does, and counts; `dies_after` ticks it fails."""

    def __init__(self, dies_after: int = 99) -> None:
        self.asked: list[RequestKey] = []
        self.ticks: list[list[RequestKey]] = []
        self._dies_after = dies_after
        self._waiting: list[tuple[Request, asyncio.Future[Completion]]] = []

    async def generate(self, request: Request) -> Completion:
        self.asked.append(request.key)
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(0.001, self._tick)
        return await future

    def _tick(self) -> None:
        waiting, self._waiting = self._waiting, []
        self.ticks.append(sorted(one.key for one, _ in waiting))
        for request, future in waiting:
            if len(self.ticks) > self._dies_after:
                future.set_exception(KeyError("killed"))
            else:
                future.set_result(completion(request.key.g, request.key.t))

    async def sync(self, named_tensors: Iterable[object], version: int) -> None:
        return None


async def episodes(engine: object, lengths: Iterable[int]) -> None:
    """Episodes of different lengths, each asking as soon as it was answered."""

    async def run(g: int, length: int) -> None:
        for t in range(length):
            assert await engine.generate(request(g, t)) == completion(g, t)  # type: ignore[attr-defined]

    await asyncio.gather(*(run(g, length) for g, length in enumerate(lengths)))


def rows_of(path: Path) -> list[list[tuple[int, int]]]:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [[(row["g"], row["t"]) for row in line["rows"]] for line in lines if line["kind"] == "completions"]


def test_one_line_a_tick_and_a_resumed_round_asks_the_rest_in_the_same_ticks(tmp_path: Path) -> None:
    whole = Ticking()
    asyncio.run(episodes(Journal(tmp_path / "whole", ORIGIN).engine(whole, ticks=True), (3, 1, 4)))
    assert rows_of(tmp_path / "whole" / "round-0003.rank0.jsonl") == [
        [(0, 0), (1, 0), (2, 0)],
        [(0, 1), (2, 1)],
        [(0, 2), (2, 2)],
        [(2, 3)],
    ]
    for killed_after in range(4):
        folder = tmp_path / str(killed_after)
        with pytest.raises(KeyError):
            asyncio.run(episodes(Journal(folder, ORIGIN).engine(Ticking(killed_after), ticks=True), (3, 1, 4)))
        again = Ticking()
        asyncio.run(episodes(Journal(folder, ORIGIN).engine(again, ticks=True), (3, 1, 4)))
        assert again.ticks == whole.ticks[killed_after:]
        assert (folder / "round-0003.rank0.jsonl").read_bytes() == (tmp_path / "whole" / "round-0003.rank0.jsonl").read_bytes()


def test_an_engine_without_ticks_has_a_line_a_completion(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ORIGIN)
    asyncio.run(episodes(journal.engine(Ticking(), ticks=False), (2, 1)))
    assert rows_of(journal.path) == [[(0, 0)], [(1, 0)], [(0, 1)]]


def test_verdicts_belong_to_the_completions_they_judge(tmp_path: Path) -> None:
    group = [trajectory("net", g, ((g, 2),)) for g in range(2)]
    qa = QAResult((0.5, -1 / 3), 1, 3, 0, (asked("q1", VerdictKind.MISSING),), ((asked("q1", VerdictKind.CORRECT),),) * 2)
    journal = Journal(tmp_path, ORIGIN)
    journal.keep_verdicts(group, qa)
    journal.close()
    found = Journal(tmp_path, ORIGIN)
    back = found.verdicts(group)
    assert back is not None
    assert (back.gains, back.unjudged, back.total) == (qa.gains, 1, 3)
    assert [one.verdict for one in back.baseline] == [one.verdict for one in qa.baseline]
    assert [[(one.question, one.answer, one.verdict) for one in arm] for arm in back.arms] == [
        [(one.question, one.answer, one.verdict) for one in arm] for arm in qa.arms
    ]
    assert found.verdicts([group[0], trajectory("net", 1, ((7, 2),))]) is None
    assert found.verdicts(group[:1]) is None


def test_journals_stay_until_their_round_is_in_a_checkpoint(tmp_path: Path) -> None:
    for number in (2, 3, 4, 6):
        for rank in range(2):
            (tmp_path / f"round-{number:04d}.rank{rank}.jsonl").touch()
    prune(tmp_path, 3)  # round 6 stands behind a gap: of another course
    assert sorted({path.name[:10] for path in tmp_path.iterdir()}) == ["round-0003", "round-0004"]
    assert len(list(tmp_path.iterdir())) == 4
    prune(tmp_path, 5)
    assert not list(tmp_path.iterdir())


def test_sigterm_ends_a_run_at_once_or_where_it_may(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Terminated), Grace():
        os.kill(os.getpid(), 15)
    done = []

    def round_and_next() -> None:
        with Grace() as grace:
            grace.hold()
            os.kill(os.getpid(), 15)
            done.append("the round")
            grace.release()
            done.append("the next one")

    with pytest.raises(Terminated) as caught:
        round_and_next()
    assert done == ["the round"]
    assert caught.value.code == 143
    assert "when this round is whole" in capfd.readouterr().err


def test_sigterm_inside_a_task_ends_the_loop() -> None:
    async def task() -> None:
        os.kill(os.getpid(), 15)
        await asyncio.sleep(5)

    async def many() -> None:
        await asyncio.gather(task(), asyncio.sleep(5))

    with pytest.raises(Terminated), Grace():
        asyncio.run(many())


def test_a_group_is_named_by_all_that_its_memories_follow_from() -> None:
    names = {
        group_digest([one])
        for one in (
            trajectory("net", 0, ((1, 2), (3,))),
            trajectory("net", 0, ((1,), (2, 3))),
            trajectory("net", 1, ((1, 2), (3,))),
            trajectory("other", 0, ((1, 2), (3,))),
        )
    }
    assert len(names) == 4
