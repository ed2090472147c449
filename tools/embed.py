# SPDX-License-Identifier: Apache-2.0
"""embed.py OUTPUT NAMESPACE NAME=FILE...: writes a C++ source with the text of each file as kNAME.
embed.py OUTPUT NAMESPACE --list NAME FILE...: with an array kNAME of the files' names, without
folder and ending, and texts in turn, and a null at the end."""
import os
import sys


def raw(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if ')part"' in text:
        sys.exit(f"{path}: holds the end of a raw string")
    return f'R"part({text})part"'


def texts(parts):
    for part in parts:
        name, _, path = part.partition("=")
        yield f"extern const char k{name}[];"
        yield f"const char k{name}[] = {raw(path)};"


def array(name, paths):
    yield f"extern const char* const k{name}[];"
    yield f"const char* const k{name}[] = {{"
    for path in paths:
        stem = os.path.splitext(os.path.basename(path))[0]
        yield f'    "{stem}", {raw(path)},'
    yield "    nullptr};"


def main():
    output, namespace, *parts = sys.argv[1:]
    made = array(parts[1], parts[2:]) if parts[0] == "--list" else texts(parts)
    lines = ["// SPDX-License-Identifier: Apache-2.0", f"namespace {namespace} {{", *made,
             f"}}  // namespace {namespace}"]
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
