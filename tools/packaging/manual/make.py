# SPDX-License-Identifier: Apache-2.0
"""make.py UROCED UROCE SCDOC FILE...: makes man pages (uroce-stat.1) and completions: of bash
(uroce), zsh (_uroce) and fish (uroce.fish), and a JSON schema of uroced.toml."""
import os
import subprocess
import sys

import completions
import help as help_texts
import pages
import schema


def render(scdoc, text):
    done = subprocess.run([scdoc], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"scdoc: {done.stderr.strip()} in:\n{text}")
    return done.stdout


def main(uroced, uroce, scdoc, files):
    helps = {"uroced": help_texts.read(uroced, ["uroced"]),
             "uroce": help_texts.read(uroce, ["uroce"])}
    texts = pages.pages(helps["uroced"], helps["uroce"])
    for path in files:
        name = os.path.basename(path)
        if name in texts:
            made = render(scdoc, texts[name])
        elif name.endswith(".json"):
            made = schema.schema(helps["uroced"])
        else:
            made = completions.make(name, helps)
        with open(path, "w", encoding="utf-8") as file:
            file.write(made)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
