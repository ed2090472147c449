# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/guide tell a reader to type, and what is to come of it.

An indented block is commands. Those below one heading belong together. An HTML comment before a
block says what else it is:

    <!-- output -->            what the commands above print; words count, numbers may differ
    <!-- not run: REASON -->   commands that only a reader can run
    <!-- no commands -->       something to read
    <!-- apart -->             commands that have nothing to do with those around them
    <!-- first: COMMAND -->    not a block: a command that the text takes as done
"""
import re
from dataclasses import dataclass, field

COMMENT = re.compile(r"<!-- (first|output|not run|no commands|apart)(?:: (.+?))? -->", re.S)
# A number that stands by itself, or behind a sign: not that of an address or a name.
NUMBER = re.compile(r"(0x[0-9a-f]+|(?<![\w.:])\d+(?:\.\d+)?(?![\w:]|\.\d))")


@dataclass
class Block:
    kind: str  # commands, first, apart, output, not run, no commands
    line: int
    lines: list = field(default_factory=list)
    reason: str = ""


@dataclass
class Section:
    """What stands below one heading."""
    title: str
    blocks: list = field(default_factory=list)


def sections(text):
    """The sections of a page. Raises ValueError for a comment that says nothing of the kind."""
    found = [Section("")]
    lines = text.split("\n")
    pending, number = None, 0  # `pending` is a comment that waits for its block.
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("```"):
            while not lines[number].startswith("```"):
                number += 1
            number += 1
        elif line.startswith("#"):
            found.append(Section(line.lstrip("# ")))
        elif line.startswith("<!--"):
            begin = number
            while "-->" not in line:
                line += "\n" + lines[number]
                number += 1
            match = COMMENT.fullmatch(line.strip())
            if not match or pending or (match[1] in ("not run", "first")) != bool(match[2]):
                raise ValueError(f"line {begin}: {line}")
            if match[1] == "first":
                found[-1].blocks.append(Block("first", begin, match[2].split("\n")))
            else:
                pending = match
        elif line.startswith("    ") and not lines[number - 2].strip() or pending and line.strip():
            if not line.startswith("    "):
                raise ValueError(f"line {number}: a comment without a block")
            kind, reason = (pending[1], pending[2] or "") if pending else ("commands", "")
            block = Block(kind, number, reason=reason)
            pending = None
            number -= 1
            while number < len(lines) and (lines[number].startswith("    ") or (
                    not lines[number] and lines[number + 1:number + 2] and
                    lines[number + 1].startswith("    "))):
                block.lines.append(lines[number][4:])
                number += 1
            found[-1].blocks.append(block)
    return found


def commands(block):
    """(line of the page, command) of each command of a block: what `\\`, an open quote or a here
    document continues is one."""
    text, begin = "", 0
    for number, line in enumerate(block.lines, block.line):
        begin = begin if text else number
        text = f"{text}\n{line}" if text else line
        if not is_open(text):
            if text.strip():
                yield begin, text
            text = ""
    if text:
        raise ValueError(f"line {begin}: it does not end: {text}")


def is_open(text):
    document = re.search(r"<<'?(\w+)'?", text)
    if document:
        return not text.endswith(f"\n{document[1]}")
    if text.lstrip().startswith("#"):
        return False
    bare = re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", "", text)
    return text.endswith("\\") or bool(re.search(r"['\"]", bare.partition(" #")[0]))


def comment_of(command):
    """What stands behind a command."""
    match = re.search(r"(?:^|\s)# ([^'\"]*)$", command)
    return match[1] if match else ""


def prints(line):
    """A pattern of what a program may print where a page says `line`."""
    parts = NUMBER.split(line.strip())
    return re.compile("".join(
        (r"0x[0-9a-f]+" if part.startswith("0x") else r"-?\d+(?:\.\d+)?") if index % 2 else
        re.sub(r"(?:\\ |\s)+", r"\\s+", re.escape(part)).replace(r"\.\.\.", ".*")
        for index, part in enumerate(parts)))
