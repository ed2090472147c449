# SPDX-License-Identifier: Apache-2.0
"""Man pages render without a warning, and have every command and flag of --help."""
import os
import re
import subprocess
import unittest

from built import MADE, UROCE, UROCED

PAGES = ("uroced.8", "uroce.1", "uroced.toml.5", "uroce-wire.7", "liburoce.7")
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "120", "MANROFFOPT": "",
               "PAGER": "cat", "MANPAGER": "cat"}


def help_of(*command):
    return subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout


def commands_of(text):
    """Read here as a person does, and not by the parser that made the pages."""
    _, _, listed = text.partition("Subcommands:\n")
    return re.findall(r"^  (\w+)", listed.partition("\n\n")[0], re.M)


def flags_of(text):
    return set(re.findall(r"(?:^  |,)(--?[a-z][a-z-]*)", text, re.M))


class ManualTest(unittest.TestCase):
    def render(self, page):
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", str(MADE / page)],
                              capture_output=True, text=True, env=ENVIRONMENT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), page)
        return re.sub(".\b", "", done.stdout)

    def test_pages_render_without_warnings(self):
        for page in PAGES:
            with self.subTest(page):
                self.assertIn("SEE ALSO", self.render(page))

    def test_all_flags_of_the_daemon_are_there(self):
        text = help_of(UROCED)
        page, keys = self.render("uroced.8"), self.render("uroced.toml.5")
        self.assertGreater(len(flags_of(text)), 40)
        for flag in flags_of(text):
            with self.subTest(flag):
                self.assertRegex(page, rf"(?m)^ +(-\w, )?{flag}\b")
                key = flag.removeprefix("--").replace("-", "_")
                if flag.startswith("--") and key not in ("help", "version", "config"):
                    self.assertRegex(keys, rf"(?m)^ +(\[\[)?{key}\b")

    def test_all_commands_and_their_flags_are_there(self):
        listed = commands_of(help_of(UROCE))
        self.assertIn("capture", listed)
        overview = self.render("uroce.1")
        for command in listed:
            self.assertIn(f"uroce-{command}(1)", overview)
            page = self.render(f"uroce-{command}.1")
            text = help_of(UROCE, command)
            for inner in commands_of(text):
                self.assertIn(f"UROCE {command.upper()} {inner.upper()}\n", page)
                text += help_of(UROCE, command, inner)
            for flag in flags_of(text):
                with self.subTest(f"{command} {flag}"):
                    self.assertRegex(page, rf"(?m)^ +(-\w, )?{flag}\b")
