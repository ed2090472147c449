# SPDX-License-Identifier: Apache-2.0
"""What --help of uroced and uroce says, as data: one source for man pages and completions."""
import re
import subprocess
from dataclasses import dataclass, field

COLUMN = 30  # Where CLI11 begins the text of an entry.


@dataclass
class Entry:
    """A flag, a positional argument or a command."""
    names: list  # ["-d", "--device"]
    value: str = ""  # What follows: "TEXT"; "" for a switch.
    text: list = field(default_factory=list)  # Lines.
    choices: list = field(default_factory=list)  # Words that the value can be.
    required: bool = False
    notes: list = field(default_factory=list)

    def key(self):
        """The key of uroced.toml that the flag sets."""
        return self.names[-1].removeprefix("--").replace("-", "_")


@dataclass
class Help:
    words: list  # ["uroce", "cc", "set"]
    description: str = ""
    usage: str = ""
    groups: list = field(default_factory=list)  # [(title, [Entry])]
    footer: str = ""
    commands: list = field(default_factory=list)  # [Help]

    def entries(self, title):
        return next((entries for name, entries in self.groups if name == title), [])

    def flags(self):
        """All flags, those of every group."""
        return [entry for _, entries in self.groups for entry in entries
                if entry.names[0].startswith("-")]

    def command_groups(self):
        """[(title, [Entry])] of the groups that have commands."""
        return [(name, entries) for name, entries in self.groups
                if name != "Positionals" and not entries[0].names[0].startswith("-")]

    def command_names(self):
        return [entry.names[0] for _, entries in self.command_groups() for entry in entries]

    def settings(self):
        """[(title, [Entry])] of the daemon's settings that are no NICs."""
        return [(name, entries) for name, entries in self.groups
                if name != "Options" and not name.startswith("NICs")]


def split_entry(line, following):
    """(name, text) of a line. A long name has its text on the next line."""
    is_indented = following.startswith(" " * COLUMN)
    has_gap = line[COLUMN - 2:COLUMN] == "  "
    if len(line) > COLUMN and (has_gap or (line[COLUMN - 1] == " " and not is_indented)):
        return line[:COLUMN].strip(), line[COLUMN:].strip()
    return line.strip(), ""


def make_entry(name, text):
    names, _, rest = name.partition(" ")
    entry = Entry(names.split(","), text=[text] if text else [])
    rest, _, excluded = rest.partition("Excludes:")
    if excluded:
        entry.notes.append(f"Not together with {excluded.strip()}.")
    entry.required = "REQUIRED" in rest
    rest = rest.replace("REQUIRED", "").strip()
    choices = re.search(r"\{(.*?)\}", rest)
    if choices:
        entry.choices = [word.split("->")[0] for word in choices.group(1).split(",")]
    limits = re.search(r"\[(\S+) - (\S+)\]", rest)
    if limits:
        entry.notes.append(f"{limits.group(1)} to {limits.group(2)}.")
    word = rest.split(" ")[0]
    # CLI11 puts a type before the name of a check.
    entry.value = re.match(r"(TEXT|U?INT|FLOAT|)(?=:)|.*", word).group()
    if " ..." in rest:
        entry.notes.append("Several are possible.")
    return entry


def parse(words, text):
    """Parses the output of --help."""
    head, _, rest = text.partition("\nUsage: ")
    parsed = Help(words, head.strip())
    lines = rest.splitlines()
    parsed.usage = lines[0].strip()
    entries, footer = None, []
    for number, line in enumerate(lines[1:], 1):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if re.match(r"\S.*:$", line) and following.startswith("  "):
            entries = []
            parsed.groups.append((line[:-1], entries))
        elif entries is not None and line.startswith(" " * COLUMN):
            entries[-1].text.append(line.strip())
        elif entries is not None and line.startswith("  ") and not footer:
            entries.append(make_entry(*split_entry(line, following)))
        elif line.strip():
            footer.append(line)
    parsed.footer = "\n".join(footer)
    return parsed


def read(program, words, flag="--help"):
    """Help of a program and of all its commands. `program` is how to run it, ["build/uroce"],
    `words` how people call it, ["uroce"], and `flag` prints the help."""
    text = subprocess.run([*program, *words[1:], flag], capture_output=True, text=True,
                          check=True, stdin=subprocess.DEVNULL).stdout
    parsed = parse(words, text)
    parsed.commands = [read(program, [*words, *entry.names], flag)
                       for _, entries in parsed.command_groups() for entry in entries]
    return parsed
