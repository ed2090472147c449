# SPDX-License-Identifier: Apache-2.0
"""make.py [--wrapper PROGRAM] UROCED UROCE SCDOC FILE...: makes man pages (uroce-stat.1) and
completions: of bash (uroce), zsh (_uroce) and fish (uroce.fish), and a JSON schema of uroced.toml.
The wrapper runs programs of another machine."""
import argparse
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wrapper", nargs=1, default=[])
    for name in ("uroced", "uroce", "scdoc"):
        parser.add_argument(name)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    helps = {"uroced": help_texts.read([*args.wrapper, args.uroced], ["uroced"],
                                       "--help-all"),
             "uroce": help_texts.read([*args.wrapper, args.uroce], ["uroce"])}
    texts = pages.pages(helps["uroced"], helps["uroce"])
    for path in args.files:
        name = os.path.basename(path)
        if name in texts:
            made = render(args.scdoc, texts[name])
        elif name.endswith(".json"):
            made = schema.schema(helps["uroced"])
        else:
            made = completions.make(name, helps)
        with open(path, "w", encoding="utf-8") as file:
            file.write(made)


if __name__ == "__main__":
    main()
