"""The review page: one HTML file that needs nothing else, a segment's messages beside the records written from them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from data.memory.records import Record
from data.network import GROUP
from data.segments import Segment
from rollout.query.evidence import one_line
from writer_rl.teach.statistics import Lesson, statistics

OPEN = 12  # networks that are unfolded from the start
LAYERS = {"per_speaker_core": "core", "per_speaker_profile": "profile"}


def page(lessons: Sequence[Lesson]) -> str:
    """The whole page. Every text from a chat or a model is escaped and on one line."""
    template = files("writer_rl.teach").joinpath("review.html").read_text(encoding="utf-8")
    counted = statistics(lessons)
    rows = "".join(f"<tr><td>{_text(what)}</td><td>{_text(number)}</td></tr>\n" for what, number in counted.rows())
    networks = "\n".join(_network(lesson, f"n{number}", len(lessons) <= OPEN) for number, lesson in enumerate(lessons, 1))
    title = f"{_count(counted.networks, 'network')}, {_count(counted.records, 'record')}"
    return Template(template).substitute(title=title, statistics=rows, networks=networks)


def _network(lesson: Lesson, anchor: str, shown: bool) -> str:
    network = lesson.network
    counts = {"segment": len(lesson.segments), "record": len(lesson.states[-1]), "question": len(network.questions)}
    size = ", ".join(_count(count, noun) for noun, count in counts.items())
    parts = [
        f'<details{" open" if shown else ""}><summary><h2>{_text(network.id)}</h2> <span class="dim">{size}</span></summary>',
        f'<p class="dim">{_text(", ".join(network.roster.names))}</p>',
        *(_segment(lesson, t, anchor) for t in range(len(lesson.segments))),
        _questions(lesson, anchor),
        "</details>",
    ]
    return "\n".join(parts)


def _segment(lesson: Lesson, t: int, anchor: str) -> str:
    part, records = lesson.segments[t], lesson.written(t)
    cited = {one for record in records for one in record.from_ids}
    messages = "\n".join(
        f'<li id="{anchor}-{verbatim.entry_id}"{"" if verbatim.entry_id in cited else " class=plain"}>'
        f'<span class="dim">[{number}] {_text(message.time)}</span> <b>{_text(part.roster.name(message.speaker))}</b>: '
        f"{_text(message.text)}</li>"
        for number, (message, verbatim) in enumerate(zip(part.messages, part.verbatim, strict=True), 1)
    )
    written = "\n".join(_record(record, lesson, part, anchor) for record in records) or '<li class="dim">nothing stored</li>'
    return (
        f'<h3>Segment {t + 1} <span class="dim">{_text(part.session)}</span></h3>\n<div class="pair">\n'
        f'<ol class="messages">\n{messages}\n</ol>\n<ul class="records">\n{written}\n</ul>\n</div>'
    )


def _record(record: Record, lesson: Lesson, part: Segment, anchor: str) -> str:
    numbers = {verbatim.entry_id: number for number, verbatim in enumerate(part.verbatim, 1)}
    old = lesson.states[-1].get(record.links[0]) if record.links else None
    who = record.owner if record.source in (record.owner, GROUP) else f"{record.owner}, by {record.source}"
    kind = f"{LAYERS.get(record.layer.value, record.layer.value.replace('_', ' '))}, {record.utype.value}"
    fate = f", replaced by {record.superseded_by}" if record.superseded_by else ""
    links = " ".join(f'<a href="#{anchor}-{one}">[{numbers[one]}]</a>' for one in record.from_ids)
    return (
        f'<li{" class=update" if old else ""}><span class="dim">{record.entry_id} {_text(kind)}{fate}</span><br>'
        f"{f'<del>{old.entry_id} {_text(old.content)}</del>' if old else ''}"
        f"<b>{_text(who)}</b>: {_text(record.content)} {links}</li>"
    )


def _questions(lesson: Lesson, anchor: str) -> str:
    if not lesson.network.questions:
        return ""
    places = {
        message.id: verbatim.entry_id
        for part in lesson.segments
        for message, verbatim in zip(part.messages, part.verbatim, strict=True)
    }
    items = []
    for question in lesson.network.questions:
        links = " ".join(f'<a href="#{anchor}-{places[one]}">{_text(one)}</a>' for one in question.evidence if one in places)
        items.append(
            f'<li><span class="dim">{_text(question.kind)}</span> {_text(question.text)}<br><b>{_text(question.answer)}</b> '
            f'<span class="dim">{links}</span></li>'
        )
    return '<h3>Questions</h3>\n<ul class="records">\n' + "\n".join(items) + "\n</ul>"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _text(text: str) -> str:
    return escape(one_line(text))
