# SPDX-License-Identifier: Apache-2.0
"""Completions of bash, zsh and fish, from what --help says."""

FILES = {"--write", "--config", "--socket", "--history-dir"}
DEVICES = {"--device"}
CHOICES = {"--log-level": ["trace", "debug", "info", "warning", "error", "off"],
           "--log-format": ["text", "json"], "--workers": ["auto"],
           "--limits": ["laptop", "shared", "server"]}
HEADER = "# SPDX-License-Identifier: Apache-2.0\n# Made from --help by tools/packaging/manual.\n"
# NICs of the daemon that the environment names.
LIST_DEVICES = 'ls "${UROCE_SOCKET:-/run/uroce/uroced.sock}.d/sys/class/infiniband" 2>/dev/null'


def all_of(parsed):
    yield parsed
    for command in parsed.commands:
        yield from all_of(command)


def choices_of(entry):
    return entry.choices or CHOICES.get(entry.names[-1], [])


def kind_of(entry):
    """What completes the value of a flag."""
    name = entry.names[-1]
    if not entry.value:
        return "switch"
    if choices_of(entry):
        return "choices"
    return "file" if name in FILES else "device" if name in DEVICES else "any"


def takes_nic(parsed):
    """Whether a word of the command is a NIC's name."""
    return any(entry.names == ["NIC"] for entry in parsed.entries("Positionals"))


def one_line(entry):
    return " ".join(entry.text) or " ".join(entry.names)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def flags_by_kind(parsed):
    """{kind: flag names}, choices apart, over the whole program."""
    found, choices = {}, {}
    for help_text in all_of(parsed):
        for entry in help_text.flags():
            kind = kind_of(entry)
            if kind == "choices":
                choices["|".join(entry.names)] = choices_of(entry)
            else:
                found.setdefault(kind, {}).update(dict.fromkeys(entry.names))
    # A name that some command uses in another way has the more general meaning.
    return {kind: list(names) for kind, names in found.items()}, choices


def shell_path(parsed, indent):
    """Lines of bash and zsh that set `place` to the commands given so far. They end at `run`."""
    kinds, choices = flags_by_kind(parsed)
    with_value = [name for kind in ("file", "device", "any") for name in kinds.get(kind, [])]
    with_value += [name for names in choices for name in names.split("|")]
    places = [" ".join(help_text.words[1:]) for help_text in all_of(parsed)][1:]
    return [indent + line for line in (
        "for word in \"${before[@]}\"; do",
        "  if [[ -n $skip ]]; then skip=; continue; fi",
        "  case $word in",
        f"    {'|'.join(with_value)}) skip=1 ;;",
        "    -*) ;;",
        "    *) case ${place:+$place }$word in",
        f"         {'|'.join(quoted(place) for place in places) or quoted('-')})"
        " place=${place:+$place }$word ;;",
        "       esac ;;",
        "  esac",
        "done")]


def bash(parsed):
    name = parsed.words[0]
    kinds, choices = flags_by_kind(parsed)
    lines = [HEADER, f"_{name}() {{",
             "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}",
             "  local place= skip= word words=",
             "  local before=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")",
             *shell_path(parsed, "  "),
             "  if [[ $place == run && $cur != -* ]]; then",
             "    COMPREPLY=($(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\"))",
             "    return",
             "  fi",
             "  case $prev in"]
    for names, words in choices.items():
        lines += [f"    {names}) COMPREPLY=($(compgen -W {quoted(' '.join(words))} -- \"$cur\")); "
                  "return ;;"]
    for kind, how in (("file", "compgen -f"), ("device", f"compgen -W \"$({LIST_DEVICES})\"")):
        if kinds.get(kind):
            names = "|".join(kinds[kind])
            lines.append(f"    {names}) COMPREPLY=($({how} -- \"$cur\")); return ;;")
    if kinds.get("any"):
        lines.append(f"    {'|'.join(kinds['any'])}) return ;;")
    lines += ["  esac", "  case $place in"]
    for help_text in all_of(parsed):
        words = help_text.command_names()
        words += [flag for entry in help_text.flags() for flag in entry.names]
        nics = f'" $({LIST_DEVICES})"' if takes_nic(help_text) else ""
        lines.append(f"    {quoted(' '.join(help_text.words[1:]))}) words={quoted(' '.join(words))}"
                     f"{nics} ;;")
    lines += ["  esac", "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))", "}",
              f"complete -o filenames -F _{name} {name}", ""]
    return "\n".join(lines)


def zsh(parsed):
    name = parsed.words[0]
    kinds, choices = flags_by_kind(parsed)
    lines = [f"#compdef {name}", HEADER,
             "local place= skip= word", "local -a before commands options nics",
             "before=(\"${(@)words[2,CURRENT-1]}\")",
             *shell_path(parsed, ""),
             "if [[ $place == run && $PREFIX != -* ]]; then",
             "  _command_names -e; _files", "  return", "fi",
             "case $words[CURRENT-1] in"]
    for names, words in choices.items():
        lines.append(f"  {names}) compadd -- {' '.join(words)}; return ;;")
    for kind, how in (("file", "_files"), ("device", f"compadd -- $({LIST_DEVICES})")):
        if kinds.get(kind):
            lines.append(f"  {'|'.join(kinds[kind])}) {how}; return ;;")
    if kinds.get("any"):
        lines.append(f"  {'|'.join(kinds['any'])}) _message value; return ;;")
    lines += ["esac", "case $place in"]

    def described(word, text):
        return quoted(word.replace(":", "\\:") + ":" + text.replace(":", "\\:"))

    for help_text in all_of(parsed):
        commands = [described(entry.names[0], one_line(entry))
                    for _, entries in help_text.command_groups() for entry in entries]
        options = [described(flag, one_line(entry)) for entry in help_text.flags()
                   for flag in entry.names]
        lines += [f"  {quoted(' '.join(help_text.words[1:]))})",
                  f"    commands=({' '.join(commands)})",
                  f"    options=({' '.join(options)})",
                  f"    nics=({f'$({LIST_DEVICES})' if takes_nic(help_text) else ''})", "    ;;"]
    lines += ["esac",
              "(( $#commands )) && _describe -t commands command commands",
              "(( $#nics )) && compadd -- $nics",
              "_describe -o -t options option options", ""]
    return "\n".join(lines)


def fish(parsed):
    name = parsed.words[0]
    lines = [HEADER]
    for help_text in all_of(parsed):
        words = help_text.words[1:]
        inner = help_text.command_names()
        condition = "; and ".join(
            [f"__fish_seen_subcommand_from {word}" for word in words]
            + ([f"not __fish_seen_subcommand_from {' '.join(inner)}"] if inner else []))
        where = f"complete -c {name}" + (f" -n {quoted(condition)}" if condition else "")
        for entry in (entry for _, entries in help_text.command_groups() for entry in entries):
            lines.append(f"{where} -f -a {entry.names[0]} -d {quoted(one_line(entry))}")
        if takes_nic(help_text):
            lines.append(f"{where} -x -a '(__fish_{name}_devices)'")
        if words == ["run"]:
            lines.append(f"{where} -x -a '(__fish_complete_subcommand)'")
        for entry in help_text.flags():
            flags = " ".join(f"-s {flag[1:]}" if len(flag) == 2 else f"-l {flag[2:]}"
                             for flag in entry.names)
            kind = kind_of(entry)
            value = {"switch": "-f", "file": "-r", "any": "-x",
                     "choices": f"-x -a {quoted(' '.join(choices_of(entry)))}",
                     "device": f"-x -a '(__fish_{name}_devices)'"}[kind]
            lines.append(f"{where} {flags} {value} -d {quoted(one_line(entry))}")
    devices = ("function __fish_" + name + "_devices\n  sh -c "
               + quoted(LIST_DEVICES) + "\nend\n")
    return lines[0] + devices + "\n".join(lines[1:]) + "\n"


def make(file_name, helps):
    """The completion that a file of this name holds."""
    if file_name.startswith("_"):
        return zsh(helps[file_name[1:]])
    if file_name.endswith(".fish"):
        return fish(helps[file_name.removesuffix(".fish")])
    return bash(helps[file_name])
