"""Show gym networks to people: `python -m data.gym --split dev --seed 0 --count 1`."""

from __future__ import annotations

import argparse

from data.gym.config import SPLITS, GymConfig
from data.gym.generator import networks
from data.network import Network
from data.teacher import Teacher


def page(network: Network, teacher: Teacher) -> str:
    """A network as text: messages and gold actions by session, then the questions."""
    lines = [f"{network.id}: {', '.join(network.roster.names)}"]
    for session, steps in zip(network.sessions, teacher.segments, strict=True):
        lines += ["", f"{session.id} ({session.date})"]
        for message in session.messages:
            reply = f" (to {message.reply_to})" if message.reply_to else ""
            lines.append(f"  {message.id:>4} {network.roster.name(message.speaker)}{reply}: {message.text}")
        for step in steps:
            where = f"{step.owner} by {step.source}, {step.layer}, {step.utype}" if step.action == "ADD" else step.target
            lines.append(f"       > {step.action} {step.ref} {step.content} [{where}] from {', '.join(step.evidence) or '-'}")
    lines.append("")
    for question in network.questions:
        lines.append(f"  {question.id} [{question.kind}] {question.text} -> {question.answer} ({', '.join(question.evidence)})")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m data.gym", description="Print gym networks with gold actions and questions."
    )
    parser.add_argument("--split", choices=SPLITS, default="dev")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    arguments = parser.parse_args()
    for network, teacher in networks(GymConfig(), arguments.split, arguments.seed, arguments.count):
        print(page(network, teacher), end="\n\n")


if __name__ == "__main__":
    main()
