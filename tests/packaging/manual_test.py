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


def help_of(*command, flag="--help"):
    return subprocess.run([*command, flag], capture_output=True, text=True, check=True).stdout


def commands_of(text):
    """Read here as a person does, and not by the parser that made the pages."""
    parts = re.findall(r"^\S.*:\n((?:  .*\n)+)", text + "\n", re.M)
    return [name for part in parts for name in re.findall(r"^  ([a-z]+) ", part, re.M)]


def groups_of(text):
    """{title of a group of commands: commands}"""
    return {title: commands_of(f"{title}:\n{part}") for title, part
            in re.findall(r"^(\S.*):\n((?:  .*\n)+)", text, re.M)
            if commands_of(f"{title}:\n{part}")}


def flags_of(text):
    return set(re.findall(r"(?:^  |,)(--?[a-z][a-z0-9-]*)", text, re.M))


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
        text = help_of(UROCED, flag="--help-all")
        page, keys = self.render("uroced.8"), self.render("uroced.toml.5")
        self.assertGreater(len(flags_of(text)), 40)
        for flag in flags_of(text):
            with self.subTest(flag):
                self.assertRegex(page, rf"(?m)^ +(-\w, )?{flag}\b")
                key = flag.removeprefix("--").replace("-", "_")
                no_key = ("help", "help_all", "version", "config", "limits")
                if flag.startswith("--") and key not in no_key:
                    self.assertRegex(keys, rf"(?m)^ +(\[\[)?{key}\b")

    def test_the_short_help_of_the_daemon_has_twelve_options_at_most(self):
        lines = re.findall(r"^  -", help_of(UROCED), re.M)
        self.assertIn(len(lines), range(8, 13))
        self.assertGreater(len(re.findall(r"^  -", help_of(UROCED, flag="--help-all"), re.M)), 50)

    def test_the_commands_of_the_tool_stand_in_groups(self):
        groups = groups_of(help_of(UROCE))
        one_of_each = {"Run programs": "run", "See what the daemon has and does": "top",
                       "Change the daemon while it runs": "fault",
                       "Record packets and understand them": "analyze",
                       "Try networks": "sim",
                       "Check this machine": "doctor"}
        self.assertEqual(set(groups), set(one_of_each))
        for title, command in one_of_each.items():
            self.assertIn(command, groups[title])
        page = self.render("uroce.1")
        for title in groups:
            self.assertIn(title, page)

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
