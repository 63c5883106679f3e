"""Statistics of teacher trajectories, and the review page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

from data.catalog import load_networks
from data.network import Question
from data.segments import segments
from data.teacher import NOOP, Step, Teacher
from tests.tiny import make_network
from tests.writer_rl.teachers import variant
from writer_rl.teach.review import page
from writer_rl.teach.statistics import Lesson, statistics

CORE, PROFILE = "per_speaker_core", "per_speaker_profile"
NETWORK = make_network()


def add(ref: str, content: str, owner: str, source: str, layer: str, *evidence: str) -> Step:
    return Step("ADD", content, owner, source, layer, "fact", ref, evidence=evidence)


STEPS = (
    (
        add("d1", "Ana's locker is belmo", "Ana", "Ana", CORE, "m1"),
        add("d2", "Chen knows the picnic's day", "Chen", "Bob", PROFILE, "m2", "m3"),
        add("d3", "The picnic is on Friday at six", "GROUP", "Chen", "group_interaction", "m3"),
    ),
    (
        Step("UPDATE", "Ana's locker is tarvi", ref="d4", target="d1", evidence=("m5",)),
        add("d5", "the Picnic is on friday at six", "GROUP", "Chen", "group_interaction", "m6"),
        add("d6", "Ana's locker is tarvi now", "Ana", "Ana", CORE, "m5"),
    ),
)
LESSON = Lesson.of(NETWORK, segments(NETWORK), Teacher("tiny", STEPS))


def test_the_counts_are_those_of_the_records() -> None:
    counted = statistics([LESSON])
    assert (counted.networks, counted.segments, counted.messages, counted.records) == (1, 2, 7, 6)
    assert counted.actions == {"ADD": 5, "UPDATE": 1, "NOOP": 0}
    assert counted.layers == {CORE: 3, PROFILE: 1, "group_interaction": 2, "group_insight": 0}
    assert counted.owners == {"tiny / Ana": 3, "tiny / GROUP": 2, "tiny / Chen": 1}
    assert counted.about_others == 1 and counted.utypes["fact"] == 6
    assert counted.cited == 5 and round(counted.cited_share, 3) == round(5 / 7, 3)
    assert counted.repeated == 1 and counted.close == 2  # d3 and d5 word for word; d4 and d6 nearly
    rows = dict(counted.rows())
    assert (
        rows["messages cited"] == "5 (71%)"
        and rows["owner is the group"] == "2 (33%)"
        and rows["owner tiny / Ana"] == "3 (50%)"
    )
    assert json.loads(json.dumps(counted.to_json()))["cited_share"] == 0.7143


def test_a_segment_without_records_is_a_noop_and_nothing_at_all_is_counted_too() -> None:
    silent = Lesson.of(NETWORK, segments(NETWORK), Teacher("tiny", ((NOOP,), ())))
    counted = statistics([silent, LESSON])
    assert counted.actions == {"ADD": 5, "UPDATE": 1, "NOOP": 2} and counted.networks == 2
    assert statistics([]).rows() and statistics([]).cited_share == 0.0


def test_the_bundled_networks_count() -> None:
    lessons = [Lesson.of(one, segments(one), teacher) for one, teacher in load_networks("own") if teacher is not None]
    counted = statistics(lessons)
    assert counted.networks == 5 and counted.records > 0 and counted.repeated == 0
    assert page(lessons).count("<details open>") == 5


class Reader(HTMLParser):
    """Tags and where they are, ids, links, and the texts of records and messages."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if "href" in values else []
        self.open += [tag] if tag not in ("meta", "br") else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_every_record_links_to_its_messages() -> None:
    html = page([LESSON])
    read = Reader(html)
    assert not read.open and len(read.ids) == len(set(read.ids)) == 7
    assert read.links and all(link[1:] in read.ids for link in read.links)
    assert html.index("My locker is belmo.") < html.index("Ana&#x27;s locker is belmo") < html.index("My locker is now tarvi.")
    assert "<del>d1 Ana&#x27;s locker is belmo</del>" in html and "replaced by d4" in html
    assert "<b>Chen, by Bob</b>" in html and "我住在北京。" in html
    assert "What is Ana&#x27;s locker now?" in html and '<a href="#n1-v5">m5</a>' in html


def test_the_page_needs_nothing_from_outside_and_is_made_for_a_phone_too() -> None:
    html = page([LESSON])
    assert not re.search(r"(src|href)\s*=\s*[\"']?(?!#)|https?:|url\(|@import|<script|<link|<img", html.replace('href="#', ""))
    assert 'name="viewport"' in html and "max-width: 44rem" in html and "default-src 'none'" in html


def test_text_from_a_chat_cannot_become_markup() -> None:
    evil = "</li><script>alert(1)</script>\n<img src=x onerror=y> & \" ' $title ${networks}"
    network = variant(NETWORK, "<b>net</b>", evil)
    question = Question("q1", evil, evil, kind=evil, evidence=("m1",))
    steps = ((add("d1", evil, "Ana", "Ana", CORE, "m1"),), ())
    html = page([Lesson.of(replace(network, questions=(question,)), segments(network), Teacher("<b>net</b>", steps))])
    plain = set(Reader(page([LESSON])).tags)
    assert set(Reader(html).tags) <= plain and "<script" not in html and "<img" not in html and "<b>net" not in html
    assert html.count("$title") == 6  # message, record, question, answer, kind, and the kind in the statistics
