# SPDX-License-Identifier: Apache-2.0
"""The shells complete commands, flags, their values and NICs."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from built import MADE

ASK_BASH = """
source "$1"
COMP_WORDS=(${2}); [[ $2 == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_"${COMP_WORDS[0]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
# A shell on its own terminal, which prints what it would offer. It is ready when its line editor
# reads keys: until then C-u would be the terminal's, and erase what was typed before it.
ASK_ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1= ; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w z 'compadd() { [[ -n $words ]] && builtin compadd -O offered "$@"
  print -rl -- "offer:"${^offered}; builtin compadd "$@" }'
zpty -w z "zstyle ':completion:*' verbose no; bindkey '^I' complete-word"
zpty -w z "zle-line-init() { print rea''dy }; zle -N zle-line-init"
zpty -r z seen '*ready*'
zpty -w -n z "$2"$'\t'
zpty -w z $'\x15'"print that''sall"  # Typed now, read when all is offered. C-u: not this line.
zpty -r z part '*thatsall*' && print -r -- "$part"
zpty -d z
"""


class Completions:
    """What each shell is asked."""

    def offer(self, line):
        raise NotImplementedError

    def setUp(self):
        if not shutil.which(self.shell):
            self.skipTest(f"no {self.shell}: its completion is not tried")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        os.makedirs(f"{directory.name}/uroced.sock.d/sys/class/infiniband/uroce7")
        self.environment = {**os.environ, "UROCE_SOCKET": f"{directory.name}/uroced.sock",
                            "HOME": directory.name, "TERM": "dumb"}

    def ask(self, *command):
        return subprocess.run(command, capture_output=True, text=True, env=self.environment,
                              stdin=subprocess.DEVNULL, check=False, timeout=60).stdout

    def check(self, line, wanted, unwanted=()):
        offered = self.offer(line)
        for word in wanted:
            self.assertIn(word, offered, line)
        for word in unwanted:
            self.assertNotIn(word, offered, line)

    def test_commands(self):
        self.check("uroce s", ["stat", "srq", "switch"], ["capture"])
        self.check("uroce cc ", ["parameters", "set"], ["stat"])
        self.check("uroce h", ["history"], ["flight"])

    def test_flags(self):
        self.check("uroce stat --w", ["--watch", "--workers"], ["--write"])
        self.check("uroced --max-q", ["--max-qp", "--max-qp-wr"], ["--workers"])

    def test_values(self):
        self.check("uroce capture --direction ", ["in", "out", "inout"])
        self.check("uroce stat --device ", ["uroce7"])
        self.check("uroced --log-level ", ["warning", "debug"])
        self.check("uroced --log-format ", ["text", "json"])
        self.check("uroced --workers ", ["auto"])
        self.check("uroced --limits ", ["laptop", "shared", "server"])

    def test_nics(self):
        for command in ("fault set", "fault clear", "cc set", "port set", "port remove"):
            self.check(f"uroce {command} ", ["uroce7"])
        self.check("uroce config set ", [], ["uroce7"])


class BashTest(Completions, unittest.TestCase):
    shell = "bash"

    def offer(self, line):
        return self.ask("bash", "--norc", "-c", ASK_BASH, "bash", str(MADE / line.split()[0]),
                        line).split()


class FishTest(Completions, unittest.TestCase):
    shell = "fish"

    def offer(self, line):
        said = self.ask("fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]",
                        str(MADE / f"{line.split()[0]}.fish"), line)
        return [offered.split("\t")[0] for offered in said.splitlines()]


class ZshTest(Completions, unittest.TestCase):
    shell = "zsh"

    def offer(self, line):
        said = self.ask("zsh", "-f", "-c", ASK_ZSH, "zsh", str(MADE), line)
        return re.findall(r"offer:(\S+)", said)  # The first stands behind the echo of the line.
