# SPDX-License-Identifier: Apache-2.0
"""Man pages in scdoc's language: prose from the *.scd files here, flags from --help."""
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent


def escape(text):
    return re.sub(r"([\\*_])", r"\\\1", text)


def bold(text):
    return f"*{escape(text)}*"


def underlined(text):
    return f"_{escape(text)}_"


def entry_lines(entry):
    title = ", ".join(map(bold, entry.names))
    if entry.value and entry.names[0].startswith("-"):
        title += " " + underlined("|".join(entry.choices) or entry.value)
    yield title
    body = [escape(line) for line in entry.text]
    body += ["Required."] if entry.required else []
    body += [escape(note) for note in entry.notes]
    # Lines of --help are kept: several of them are tables.
    if body:
        yield "\t" + "++\n".join(body)
    yield ""


def flags_of(parsed, heading="#"):
    """Sections with the flags; groups of uroced keep their titles."""
    lines = []
    with_commands = [title for title, _ in parsed.command_groups()]
    for title, entries in parsed.groups:
        if title not in with_commands:
            lines += [f"{heading} {title.upper()}", ""]
            lines += [line for entry in entries for line in entry_lines(entry)]
    return "\n".join(lines)


def synopsis(parsed):
    usage = re.sub(r" ?\[?SUBCOMMAND\]?", "", parsed.usage)
    words = " ".join(parsed.words)
    return bold(words) + " " + escape(usage.removeprefix(words).strip())


def footer_of(parsed):
    match = re.match(r"Examples?: (.*)", parsed.footer, re.S)
    if not match:
        return escape(parsed.footer) + "\n" if parsed.footer else ""
    lines = [line.strip() for line in match.group(1).splitlines()]
    return "# EXAMPLES\n\n```\n" + "\n".join(lines) + "\n```\n"


def first_line(text):
    """The description as a title line: one line, and no full stop."""
    return escape(text.splitlines()[0].rstrip("."))


def prose(name):
    path = HERE / f"{name}.scd"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def command_page(parsed):
    """The page of `uroce COMMAND`, its own commands included."""
    name = "-".join(parsed.words)
    parts = [f'{name}(1) "" "uroce"', "# NAME", f"{name} - {first_line(parsed.description)}",
             "# SYNOPSIS", synopsis(parsed)]
    parts += [synopsis(command) for command in parsed.commands]
    if text := prose(f"{name}.1"):
        parts += ["# DESCRIPTION", text.strip()]
    parts.append(flags_of(parsed))
    for command in parsed.commands:
        parts += [f"# {' '.join(command.words).upper()}", escape(command.description),
                  flags_of(command, "##")]
    parts += [footer_of(parsed), "# SEE ALSO", "*uroce*(1), *uroced*(8), *liburoce*(7)"]
    return "\n\n".join(part for part in parts if part) + "\n"


def commands_list(parsed):
    lines = []
    descriptions = {command.words[-1]: command.description for command in parsed.commands}
    for title, entries in parsed.command_groups():
        lines += [f"## {title}", ""]
        for name in (entry.names[0] for entry in entries):
            lines += [f"*{parsed.words[0]}-{name}*(1)", "\t" + escape(descriptions[name]), ""]
    return "\n".join(lines)


def settings_of(parsed):
    """Keys of uroced.toml: the flags, by sections."""
    lines = []
    for title, entries in parsed.settings():
        heading = title.upper().replace("LIMITS", "[LIMITS]:", 1)
        lines += [f"# {heading}", ""]
        for entry in entries:
            key = entry.key()
            if key in ("config", "limits"):
                continue
            lines += [f"{bold(key)} = {underlined('value' if entry.value else 'true|false')}"]
            lines += ["\t" + escape(" ".join(entry.text)), ""]
    return "\n".join(lines)


def devices_of(parsed):
    lines = []
    for entry in parsed.entries("NICs (each flag may be repeated)"):
        key = entry.names[-1].removeprefix("--")
        if key == "fault":
            continue
        lines += [f"## [[{key}]]", "", "```", *entry.text, "```", ""]
    return "\n".join(lines)


def inline(text):
    """Text of Markdown: code becomes bold, the rest is literal."""
    parts = text.split("`")
    return "".join(bold(part) if number % 2 else escape(part) for number, part in enumerate(parts))


def table_row(line):
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    title = ", ".join(re.sub("`", "", cell) for cell in cells[:-1] if cell)
    return [bold(title), *(["\t" + inline(cells[-1])] if cells[-1] else []), ""]


def from_markdown(text):
    """The subset that pipeline/wire/selective-repeat.md uses."""
    lines, is_in_table = [], False
    for line in text.splitlines():
        if line.startswith("|"):
            lines += table_row(line) if is_in_table else []
            is_in_table = is_in_table or line.startswith("|--")
            continue
        is_in_table = False
        if line.startswith("## "):
            lines.append("# " + escape(line[3:].upper()))
        elif not line.startswith("# "):
            lines.append(inline(line))
    return "\n".join(lines)


def wire_page():
    text = (HERE.parents[2] / "pipeline/wire/selective-repeat.md").read_text(encoding="utf-8")
    return ('uroce-wire(7) "" "uroce"\n\n# NAME\n\n'
            "uroce-wire - what two NICs of uroced say to each other alone\n\n# DESCRIPTION\n"
            + from_markdown(text).rstrip() + "\n\n# SEE ALSO\n\n*uroced*(8)\n")


def pages(uroced, uroce):
    """{file name: text in scdoc} of all pages."""
    made = {
        "uroced.8": prose("uroced.8").replace("@FLAGS@", flags_of(uroced, "##")),
        "uroce.1": prose("uroce.1").replace("@FLAGS@", flags_of(uroce))
                                   .replace("@COMMANDS@", commands_list(uroce)),
        "uroced.toml.5": prose("uroced.toml.5").replace("@DEVICES@", devices_of(uroced))
                                               .replace("@SETTINGS@", settings_of(uroced)),
        "uroce-wire.7": wire_page(),
        "liburoce.7": prose("liburoce.7"),
    }
    for command in uroce.commands:
        made["-".join(command.words) + ".1"] = command_page(command)
    return made
