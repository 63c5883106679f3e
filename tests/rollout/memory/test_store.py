"""The durable store: idempotent, atomic, shared by processes, never older than it looks."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.memory.executor import execute
from data.memory.records import Layer
from data.memory.state import State
from data.network import DataError
from data.segments import Segment, segments
from rollout.llm.client import run
from rollout.llm.errors import MissingKind, MissingReply
from rollout.memory.archive import export_lines, import_lines
from rollout.memory.embedder import HashEmbedder
from rollout.memory.incoming import Incoming, read_file, read_message
from rollout.memory.ingest import EmptyWriter, Progress, TextWriter, write_segments
from rollout.memory.provenance import support
from rollout.memory.reader import Reader
from rollout.memory.store import EmbedderMismatch, Store, StoreError, UnknownEntry
from rollout.memory.vectors import memory_text
from rollout.memory.writes import SegmentOrder, Source, write_segment
from tests.tiny import make_network

ADD = {
    "action": "ADD",
    "content": "Ann likes tea",
    "owner": "Ann",
    "source": "Ann",
    "layer": "per_speaker_core",
    "utype": "fact",
}
SOURCE = Source("scripted", "", "strict")


class Scripted:
    """A Writer that gives its texts in order; an exception in their place is raised."""

    name = "scripted"

    def __init__(self, *texts: object) -> None:
        self.texts = list(texts)
        self.asked = 0

    async def write(self, segment: Segment, state: State) -> str:
        self.asked += 1
        text = self.texts.pop(0) if self.texts else {"actions": []}
        if isinstance(text, Exception):
            raise text
        return text if isinstance(text, str) else json.dumps(text)


def chat(count: int, start: int = 0, **more: object) -> list[Incoming]:
    return [
        Incoming(["ann", "ben"][i % 2], f"message {i}", ["Ann", "Ben"][i % 2], id=f"m{i}", **more)  # type: ignore[arg-type]
        for i in range(start, start + count)
    ]


def write(store: Store, writer: TextWriter, flush: bool = False) -> Progress:
    store.close_segments(flush)
    return run(write_segments(store, writer, lambda: support(HashEmbedder())))


def count(store: Store, table: str) -> int:
    return int(store.rows(f"SELECT count(*) FROM {table}")[0][0])


def test_a_retry_changes_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        assert store.add(chat(3)).new == ("v1", "v2", "v3")
        again = store.add(chat(5))
        assert (again.new, again.repeated, again.conflicts) == (("v4", "v5"), 3, ())
    with Store(tmp_path / "s") as store:
        assert store.add(chat(5)).repeated == 5 and count(store, "messages") == 5


def test_an_id_counts_in_its_channel_only_and_a_changed_text_is_reported(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        store.add([Incoming("ann", "hi", id="1", channel="a"), Incoming("ann", "hi", id="1", channel="b")])
        assert count(store, "messages") == 2
        assert store.add([Incoming("ann", "changed", id="1", channel="a")]).conflicts == (("a", "1"),)
        assert store.entry("v1").content == "hi"


def test_without_ids_content_decides_and_a_word_said_twice_in_a_batch_is_twice(tmp_path: Path) -> None:
    batch = [Incoming("ann", "ok"), Incoming("ben", "ok"), Incoming("ann", "ok"), Incoming("ann", "ok", time="2025-01-01")]
    with Store(tmp_path / "s") as store:
        assert len(store.add(batch).new) == 4
        assert store.add(batch).repeated == 4
        assert store.add([*batch, Incoming("ann", "ok")]).new == ("v5",)


def test_a_batch_with_an_unwritable_message_writes_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        with pytest.raises(UnicodeEncodeError):
            store.add([*chat(3), Incoming("ann", "\ud800")])
        assert count(store, "messages") == count(store, "members") == 0
    with pytest.raises(DataError, match="surrogate"):
        read_message({"speaker": "ann", "text": "\ud800"})


def test_pending_messages_survive_until_their_segment_is_full_and_flush_takes_the_rest(tmp_path: Path) -> None:
    with Store(tmp_path / "s", window=4) as store:
        store.add(chat(3))
        assert write(store, Scripted()).segments == () and store.pending() == 3
    with Store(tmp_path / "s") as store:
        assert store.window == 4
        store.add(chat(7))
        assert len(write(store, Scripted()).segments) == 1 and store.pending() == 3
        assert len(write(store, Scripted(), flush=True).segments) == 1 and store.pending() == 0
        assert [len(store.segment(t).messages) for t in (0, 1)] == [4, 3]
        assert write(store, Scripted(), flush=True).segments == ()


def test_channels_fill_their_own_segments_and_a_left_session_is_closed(tmp_path: Path) -> None:
    with Store(tmp_path / "s", window=3) as store:
        for i in range(5):
            store.add([Incoming("ann", f"x{i}", id=str(i), channel="a"), Incoming("ben", f"y{i}", id=str(i), channel="b")])
        store.close_segments()
        assert [store.segment(t).session for t in (0, 1)] == ["a", "b"] and store.pending() == 4
        store.add([Incoming("ann", "new", id="9", channel="a", session="s2")])
        store.close_segments()
        assert store.segment(2).session == "a" and len(store.segment(2).messages) == 2 and store.pending() == 3


class Crash(Exception):
    pass


def test_a_crash_between_verbatim_and_derived_write_changes_nothing_on_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path / "s", window=2) as store:
        store.add(chat(2))
        with pytest.raises(Crash):
            write(store, Scripted(Crash()))
    with Store(tmp_path / "s") as store:  # and one in the middle of the derived write

        def crash(*_: object) -> None:
            raise Crash

        with monkeypatch.context() as patch:
            patch.setattr("rollout.memory.writes._clean", lambda text: text if text != "raw" else crash())
            segment = store.next_segment()
            assert segment is not None
            with pytest.raises(Crash):
                write_segment(store, segment, [ADD], support(HashEmbedder()), Source("x", "raw", "strict"))
        assert count(store, "derived") == count(store, "outcomes") == 0
        store.add(chat(2))
        write(store, Scripted({"actions": [ADD]}))
        assert (count(store, "messages"), count(store, "derived"), count(store, "segments")) == (2, 1, 1)
        again = write_segment(store, segment, [ADD, ADD], support(HashEmbedder()), SOURCE)
        assert again.repeated and count(store, "derived") == 1 and again.outcomes[0].entry_id == "d1"


def test_a_process_killed_inside_a_write_leaves_nothing_half_done(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; import rollout.memory.store as store\n"
        "from rollout.memory.incoming import Incoming\n"
        "def messages():\n"
        "    yield Incoming('ann', 'one', id='m0'); yield Incoming('ben', 'two', id='m1'); os._exit(7)\n"
        "store.Store(Path(sys.argv[1])).add(messages())"
    )
    with Store(tmp_path / "s") as store:
        assert subprocess.run([sys.executable, "-c", script, str(tmp_path / "s")], check=False).returncode == 7
        assert count(store, "messages") == count(store, "members") == 0
        assert store.add(chat(2)).new == ("v1", "v2")


ATTEMPTS = st.one_of(
    st.fixed_dictionaries(
        {
            "action": st.just("ADD"),
            "content": st.sampled_from(["tea", "coffee", "Tea ", ""]),
            "owner": st.sampled_from(["Ann", "ben", "GROUP", "Zoe"]),
            "source": st.sampled_from(["Ann", "Ben", "GROUP"]),
            "layer": st.sampled_from(["per_speaker_core", "group_insight", "per_speaker_episodic"]),
            "utype": st.just("fact"),
        }
    ),
    st.fixed_dictionaries(
        {
            "action": st.just("UPDATE"),
            "entry_id": st.sampled_from(["d1", "d2", "d3", "d9"]),
            "content": st.sampled_from(["water", "wine"]),
        }
    ),
    st.just({"action": "NOOP"}),
    st.just(7),
)


@given(st.lists(st.lists(ATTEMPTS, max_size=5), min_size=3, max_size=3))
@settings(max_examples=25, deadline=None)
def test_any_output_leaves_the_store_as_the_executor_leaves_a_state(outputs: list[list[object]]) -> None:
    with TemporaryDirectory() as folder, Store(Path(folder) / "s", window=2) as store:
        store.add(chat(6))
        store.close_segments()
        state = State()
        for t, attempts in enumerate(outputs):
            execute(state, attempts, store.segment(t), support(HashEmbedder()))
        write(store, Scripted(*({"actions": one} for one in outputs)))
        assert store.state() == state
        with Store(Path(folder) / "s") as again:
            assert again.state() == state
            assert [again.entry(record.entry_id) for record in state] == list(state)


def test_a_missing_writer_delays_segments_and_the_next_flush_goes_on(tmp_path: Path) -> None:
    outage = MissingReply(MissingKind.OUTAGE, "writer", "down")
    with Store(tmp_path / "s", window=2) as store:
        store.add(chat(6))
        first = write(store, Scripted({"actions": [ADD]}, outage))
        assert len(first.segments) == 1 and "down" in first.delayed and count(store, "messages") == 6
        second = write(store, Scripted())
        assert [one.written.t for one in second.segments] == [1, 2] and not second.delayed


def test_segments_are_written_in_order(tmp_path: Path) -> None:
    with Store(tmp_path / "s", window=2) as store:
        store.add(chat(4))
        store.close_segments()
        with pytest.raises(SegmentOrder, match="before segment 0"):
            write_segment(store, store.segment(1), [], support(HashEmbedder()), SOURCE)


def test_salvaged_and_failed_outputs_are_kept_with_their_status(tmp_path: Path) -> None:
    with Store(tmp_path / "s", window=2) as store:
        store.add(chat(6))
        fenced = f"```json\n{json.dumps({'actions': [ADD]})}\n```"
        done = write(store, Scripted(fenced, "sorry", {"actions": [ADD, 5]})).segments
        assert [one.parse.value for one in done] == ["fenced", "failed", "strict"]
        assert [one.reason for one in done[2].written.outcomes] == ["", "not_an_object"]
        assert count(store, "derived") == 2


def test_the_store_equals_the_in_memory_state(tmp_path: Path) -> None:
    network = make_network()
    actions: list[list[object]] = []
    for t, segment in enumerate(segments(network)):
        owner = segment.verbatim[0].owner
        fact = {**ADD, "owner": owner, "source": owner, "content": f"{segment.messages[0].text} {t}"}
        actions.append(
            [fact, {"action": "NOOP"}, *([{"action": "UPDATE", "entry_id": "d1", "content": f"now {t}"}] if t == 1 else [])]
        )
    state = State()
    for segment, attempts in zip(segments(network), actions, strict=True):
        execute(state, attempts, segment, support(HashEmbedder()))
    with Store(tmp_path / "s", window=None) as store:
        for session in network.sessions:
            labels = {member.id: member.label for member in network.roster.members}
            store.add(
                Incoming(m.speaker, m.text, labels[m.speaker], session=session.id, id=m.id, time=m.time)
                for m in session.messages
            )
        write(store, Scripted(*({"actions": one} for one in actions)), flush=True)
        assert [r.content for r in store.state()] == [r.content for r in state]
        view = Reader(store, HashEmbedder()).view()
        assert list(view.verbatim) == [record for one in segments(network) for record in one.verbatim]
        assert store.state() == state


def test_history_is_never_deleted_or_overwritten(tmp_path: Path) -> None:
    with Store(tmp_path / "s", window=2) as store:
        store.add(chat(4))
        write(
            store,
            Scripted({"actions": [ADD]}, {"actions": [{"action": "UPDATE", "entry_id": "d1", "content": "Ann likes coffee"}]}),
        )
        chain = store.state().chain("d1")
        assert [one.content for one in chain] == ["Ann likes tea", "Ann likes coffee"] and chain[0].superseded_by == "d2"
        for change in (
            "DELETE FROM derived",
            "UPDATE derived SET content = 'x'",
            "UPDATE derived SET superseded_by = 'd9' WHERE entry_id = 'd1'",
        ):
            with pytest.raises(sqlite3.IntegrityError), store.transaction() as db:
                db.execute(change)


def late(store: Store, first_time: str, second_time: str, second_session: str = "old") -> str:
    """A fact from one session, then an update of it from another: the reason of the update's rejection."""
    store.add(
        [
            Incoming("ann", "I moved to Rome", "Ann", session="new", id="1", time=first_time),
            Incoming("ann", "yes", "Ann", session="new", id="2", time=first_time),
        ]
    )
    write(store, Scripted({"actions": [{**ADD, "content": "Ann moved to Rome"}]}), flush=True)
    store.add([Incoming("ann", "I live in Oslo", "Ann", session=second_session, id="3", time=second_time)])
    update = {"action": "UPDATE", "entry_id": "d1", "content": "Ann lives in Oslo"}
    done = write(store, Scripted({"actions": [update, {**ADD, "content": "Ann speaks of Oslo"}]}), flush=True)
    return done.segments[0].written.outcomes[0].reason


def test_an_older_message_cannot_silently_become_head(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        assert late(store, "2025-06-01T10:00:00", "2024-01-01T10:00:00") == "stale_update"
        assert store.state().chain("d1")[-1].content == "Ann moved to Rome"
        assert [one.entry_id for one in store.state()] == ["d1", "d2"]  # the other action applied
        row = store.rows("SELECT * FROM outcomes WHERE reason = 'stale_update'")[0]
        assert "d1 rests on v" in row["detail"] and "Oslo" in row["attempt"]


@pytest.mark.parametrize(
    ("first", "second", "session"),
    [
        ("2024-01-01T10:00:00", "2025-01-01T10:00:00", "old"),
        ("2025-06-01T23:53:00", "2025-06-01T20:44:00", "new"),  # within a session the source's order decides
        ("2025-06-01T10:00:00", "", "old"),
        ("2025-06-01T12:00:00+02:00", "2025-06-01T11:00:00+00:00", "old"),  # instants, not strings
    ],
)
def test_newer_evidence_becomes_head(tmp_path: Path, first: str, second: str, session: str) -> None:
    with Store(tmp_path / "s") as store:
        assert late(store, first, second, session) == ""
        assert store.state().chain("d1")[-1].content == "Ann lives in Oslo"


def test_equal_labels_are_told_apart_also_when_the_second_comes_later(tmp_path: Path) -> None:
    with Store(tmp_path / "s", window=2) as store:
        reader = Reader(store, HashEmbedder())
        store.add(chat(2))
        write(store, Scripted({"actions": [ADD]}))
        assert reader.view().verbatim[0].owner == "Ann" == store.state().heads()[0].owner
        store.add([Incoming("u7", "hello", "ann", platform="irc", id="x")])
        assert store.roster().names == ("Ann (ann)", "Ben", "ann (irc/u7)")
        assert store.state().heads()[0].owner == "Ann (ann)"
        view = reader.view()
        assert view.verbatim[0].owner == "Ann (ann)" and view.verbatim[2].owner == "ann (irc/u7)"
        expected = HashEmbedder().embed([memory_text(one) for one in view.verbatim])
        assert view.vectors is not None and np.array_equal(view.vectors, expected)


def test_an_account_is_one_person_under_any_label_and_two_platforms_are_two(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        store.add(
            [
                Incoming("u1", "a", "Ann"),
                Incoming("u1", "b"),
                Incoming("u1", "c", "Annie"),
                Incoming("u1", "d", "Ann", platform="irc"),
            ]
        )
        assert store.roster().names == ("Annie", "Ann")
    assert Incoming("b/c", "", platform="a").member_id != Incoming("c", "", platform="a/b").member_id
    assert Incoming("a/b", "").member_id != Incoming("b", "", platform="a").member_id


@given(
    st.lists(st.tuples(st.text("a/%", max_size=3), st.text("a/%", min_size=1, max_size=3)), min_size=2, max_size=2, unique=True)
)
@settings(max_examples=200, deadline=None)
def test_member_ids_are_one_to_one(pairs: list[tuple[str, str]]) -> None:
    (p, a), (q, b) = pairs
    assert Incoming(a, "", platform=p).member_id != Incoming(b, "", platform=q).member_id


def test_own_writes_are_read_at_once_and_other_processes_writes_too(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store, Store(tmp_path / "s") as other:
        reader = Reader(store, HashEmbedder())
        for i in range(5):
            (store, other)[i % 2].add(chat(1, start=i))
            view = reader.view()
            assert len(view.verbatim) == i + 1 and view.vectors is not None and len(view.vectors) == i + 1
        first = reader.view()
        store.add(chat(1, start=5))
        assert len(reader.view().verbatim) == 6 and len(first.verbatim) == 5
        assert first.vectors is not None and np.array_equal(
            first.vectors, HashEmbedder().embed([memory_text(r) for r in first.verbatim])
        )


def test_another_embedder_is_refused_with_the_command_and_reindex_mends_it(tmp_path: Path) -> None:
    class Other(HashEmbedder):
        id = "other"

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            return -super().embed(texts)

    with Store(tmp_path / "s") as store:
        store.add(chat(3))
        reader = Reader(store, HashEmbedder())
        before = reader.view().vectors
        with pytest.raises(EmbedderMismatch, match="writer-rl memory reindex --store"):
            Reader(store, Other())
        store.reindex(Other())
        after = Reader(store, Other()).view().vectors
        assert before is not None and after is not None and np.array_equal(before, -after)
        with pytest.raises(EmbedderMismatch):
            Reader(store, HashEmbedder())


def test_four_processes_add_fifty_each(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from rollout.memory.store import Store; from rollout.memory.incoming import Incoming\n"
        "with Store(Path(sys.argv[1])) as s:\n"
        "    for i in range(50): s.add([Incoming(sys.argv[2], f'text {i}', id=f'{sys.argv[2]}-{i}')])"
    )
    path = str(tmp_path / "s")
    workers = [subprocess.Popen([sys.executable, "-c", script, path, f"p{n}"]) for n in range(4)]
    assert [worker.wait(120) for worker in workers] == [0] * 4
    with Store(Path(path)) as store:
        assert count(store, "messages") == 200 and count(store, "members") == 4
        assert [row[0] for row in store.rows("SELECT number FROM messages ORDER BY number")] == list(range(1, 201))
        assert [row[0] for row in store.rows("SELECT turn FROM messages ORDER BY number")] == list(range(200))


def test_export_and_import_give_the_same_memory(tmp_path: Path) -> None:
    with Store(tmp_path / "s", window=2) as store, Store(tmp_path / "t") as copy:
        store.add([*chat(3), Incoming("zoë", "naïve 日本", id="z", time="2025-01-01T00:00:00Z")])
        write(
            store,
            Scripted({"actions": [ADD]}, {"actions": [{"action": "UPDATE", "entry_id": "d1", "content": "Ann likes 茶"}]}),
        )
        lines = list(export_lines(store))
        assert any("茶" in line for line in lines)
        import_lines(copy, lines)
        assert list(export_lines(copy)) == lines and copy.state() == store.state() and copy.window == 2
        with pytest.raises(StoreError, match="not empty"):
            import_lines(copy, lines)
    for broken in (
        [],
        [lines[1]],
        [*lines, "{"],
        [*lines[:-1], lines[-1].replace('"kind": "', '"kind": "x')],
        [lines[0], lines[0]],
    ):
        with Store(
            tmp_path / f"u{len(broken)}{broken[-1:][0][-5:] if broken else ''}".replace('"', "").replace("}", "")
        ) as empty:
            if not broken:
                import_lines(empty, broken)
                continue
            with pytest.raises(StoreError, match="nothing was imported"):
                import_lines(empty, broken)
            assert count(empty, "messages") == 0


def test_unknown_ids_foreign_files_and_newer_schemas_are_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database here, just words " * 100)
    with pytest.raises(StoreError, match="not a memory store"):
        Store(tmp_path / "text")
    with pytest.raises(StoreError, match="does not exist"):
        Store(tmp_path / "none", create=False)
    with Store(tmp_path / "s") as store:
        for unknown in ("d9", "v1", "", "v٣", "v" + "9" * 30, "x'; --"):
            with pytest.raises(UnknownEntry):
                store.entry(unknown)
        with store.transaction() as db:
            db.execute("PRAGMA user_version = 99")
    with pytest.raises(DataError, match="schema version 99"):
        Store(tmp_path / "s")


def test_a_bad_line_is_set_aside_with_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    good = [{"speaker": 7, "text": "a\u2028b"}, {"speaker": "x", "text": "", "time": "yesterday"}]
    bad = [
        "{",
        "[1]",
        '{"speaker": "a"}',
        '{"speaker": " ", "text": "x"}',
        '{"speaker": "a", "text": 3}',
        '{"speaker": "a", "text": "x", "colour": 1}',
    ]
    file.write_text("\n".join([json.dumps(good[0], ensure_ascii=False), *bad, "", json.dumps(good[1])]), encoding="utf-8")
    messages, aside = read_file(file)
    assert [m.speaker for m in messages] == ["7", "x"] and messages[0].text == "a\u2028b"
    assert [one.line for one in aside] == [2, 3, 4, 5, 6, 7] and "colour" in aside[-1].reason
    file.write_text(json.dumps(good))
    assert len(read_file(file)[0]) == 2
    file.write_text("hello\nworld")
    with pytest.raises(DataError, match="none of 2 lines"):
        read_file(file)


def test_the_empty_writer_leaves_the_verbatim_track_alone(tmp_path: Path) -> None:
    with Store(tmp_path / "s", window=2) as store:
        store.add(chat(4))
        assert len(write(store, EmptyWriter()).segments) == 2
        assert len(store.state()) == 0 and all(
            one.layer is Layer.EPISODIC for one in Reader(store, HashEmbedder()).view().verbatim
        )
