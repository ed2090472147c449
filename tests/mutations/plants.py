# SPDX-License-Identifier: Apache-2.0
"""The planted bugs, how their texts are found in the sources, and samples of them."""
import random
import re
from typing import NamedTuple

import daemon_bugs
import packet_bugs


class Plant(NamedTuple):
    name: str
    programs: list  # The tests that may find it, the quickest first.
    file: str
    text: str
    replacement: str
    rule: str


PLANTS = [Plant(*bug) for bug in packet_bugs.BUGS + daemon_bugs.BUGS]


def places(text, source):
    """Where `text` is in `source`. Blanks and line breaks are all the same: a source may be laid
    out in another way."""
    words = r"\s+".join(map(re.escape, text.split()))
    lead = r"\s*?" if text[:1].isspace() else ""
    end = r"[ ]*\n" if text.endswith("\n") else ""
    return [found.span() for found in re.finditer(lead + words + end, source)]


def planted(plant, source):
    """The source with the bug. ValueError: its text is not there, or more than once."""
    found = places(plant.text, source)
    if len(found) != 1:
        raise ValueError(f"{plant.name}: its text is {len(found)} times in {plant.file}")
    start, end = found[0]
    return source[:start] + plant.replacement + source[end:]


def sample(count, seed):
    """As many plants, in their order; with a seed for each day all have their turn."""
    chosen = set(random.Random(seed).sample(range(len(PLANTS)), min(count, len(PLANTS))))
    return [plant for number, plant in enumerate(PLANTS) if number in chosen]


def table():
    """The lines of README.md that say which rule each plant breaks."""
    lines = []
    for plant in PLANTS:
        lines.append(f"| {plant.name} | {plant.rule} |")
    return lines
