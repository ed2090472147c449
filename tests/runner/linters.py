# SPDX-License-Identifier: Apache-2.0
"""clang-format on all sources, clang-tidy on those that it has not found clean as they are."""
import concurrent.futures
import hashlib
import json
import os
import re
from pathlib import Path

from builds import ROOT, configure, run


def tracked(*suffixes):
    """Files that belong to the tree, also before their first commit."""
    _, output = run(["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others",
                     "--exclude-standard"])
    names = (name for name in output.splitlines() if name.endswith(suffixes))
    return sorted(name for name in names if (ROOT / name).exists())


def check_format(results, _options):
    sources = tracked(".cc", ".h", ".c")
    status, output = run(["clang-format", "--dry-run", "--Werror", *sources])
    if status:
        results.add_failure("clang-format", output)
    else:
        results.add_pass()


class TidyKeys:
    """What clang-tidy's verdict on a file depends on: the program, the checks, how the file is
    compiled, the file and every header of ours that it includes."""

    INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

    def __init__(self):
        version = run(["clang-tidy", "--version"])[1]
        self._common = version.encode() + (ROOT / ".clang-tidy").read_bytes()
        self._texts = {}

    def of(self, source, command):
        digest = hashlib.sha256(self._common + command.encode())
        for name in sorted(self._reachable(source)):
            digest.update(name.encode() + self._read(name))
        return digest.hexdigest()

    def _reachable(self, source):
        found, todo = set(), [source]
        while todo:
            name = todo.pop()
            if name in found:
                continue
            found.add(name)
            todo += [header.decode() for header in self.INCLUDE.findall(self._read(name))
                     if (ROOT / header.decode()).exists()]
        return found

    def _read(self, name):
        if name not in self._texts:
            self._texts[name] = (ROOT / name).read_bytes()
        return self._texts[name]


def tidy_cache():
    """Verdicts outlive the clone, as compilers' outputs do in ccache."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = Path(home) / "uroce" / "tidy-clean"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def tidy_one(source):
    return run(["clang-tidy", "--quiet", "-p", "build", source])


def run_tidy(results, _options):
    if not (ROOT / ".clang-tidy").exists():
        results.add_skip("clang-tidy", "no .clang-tidy")
        return
    error = configure("build", ["-Dbuildtype=release"])
    if error:
        results.add_failure("clang-tidy", error)
        return
    commands = json.loads((ROOT / "build" / "compile_commands.json").read_text(encoding="utf-8"))
    built = {os.path.relpath(ROOT / "build" / entry["file"], ROOT): entry["command"]
             for entry in commands}
    sources = [name for name in tracked(".cc", ".c")
               if name in built and not name.startswith("tests/")]
    cache, tidy_keys = tidy_cache(), TidyKeys()
    keys = {source: tidy_keys.of(source, built[source]) for source in sources}
    todo = [source for source in sources if not (cache / keys[source]).exists()]
    print(f"   {len(sources) - len(todo)} of {len(sources)} known to be clean", flush=True)
    results.add_pass(len(sources) - len(todo))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, (status, output) in zip(todo, pool.map(tidy_one, todo)):
            if status:
                results.add_failure(f"clang-tidy {source}", output)
            else:
                results.add_pass()
                (cache / keys[source]).touch()
