# SPDX-License-Identifier: Apache-2.0
"""embed.py OUTPUT NAME=FILE...: writes a C++ source with the text of each file as kPageNAME."""
import sys


def main():
    output, *parts = sys.argv[1:]
    lines = ["// SPDX-License-Identifier: Apache-2.0", "namespace uroce::tools::analyze {"]
    for part in parts:
        name, _, path = part.partition("=")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if ')part"' in text:
            sys.exit(f"{path}: holds the end of a raw string")
        lines.append(f"extern const char kPage{name}[];")
        lines.append(f'const char kPage{name}[] = R"part({text})part";')
    lines.append("}  // namespace uroce::tools::analyze")
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
