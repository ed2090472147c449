# SPDX-License-Identifier: Apache-2.0
"""clang-format on all sources; clang-tidy on those that have changed, and by --long on all that it
has not found clean as they are."""
import concurrent.futures
import hashlib
import json
import os
import re

from builds import ROOT, configure, run
from progress import Progress


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
        version = re.search(r"version (\S+)", run(["clang-tidy", "--version"])[1])
        self._common = version.group(1).encode() + (ROOT / ".clang-tidy").read_bytes()
        self._texts = {}

    def of(self, source, command):
        digest = hashlib.sha256(self._common + command.removeprefix("ccache ").encode())
        for name in sorted(self.reachable(source)):
            digest.update(name.encode() + self._read(name))
        return digest.hexdigest()

    def reachable(self, source):
        """The source and all headers of ours that it includes, directly or not."""
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


class TidyRecord:
    """The sources that clang-tidy has found clean, and the keys that they had then: a file in the
    build folder. Lines: key, source."""

    def __init__(self, path):
        self._path = path
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        self._keys = {source: key for key, source in (line.split() for line in lines)}

    def is_known(self, source):
        return source in self._keys

    def is_clean(self, source, key):
        return self._keys.get(source) == key

    def add(self, source, key):
        self._keys[source] = key

    def write(self, sources):
        """Of sources that are no more, nothing is kept."""
        kept = sorted(set(sources) & self._keys.keys())
        self._path.write_text("".join(f"{self._keys[source]}  {source}\n" for source in kept),
                              encoding="ascii")


def changed_files():
    """What differs from the commit before the last one. A clone without history has just what
    differs from its commit."""
    git = ["git", "-c", "safe.directory=*"]
    has_history = run([*git, "rev-parse", "-q", "--verify", "HEAD~1"])[0] == 0
    _, changed = run([*git, "diff", "--name-only", "HEAD~1" if has_history else "HEAD"])
    _, new = run([*git, "ls-files", "--others", "--exclude-standard"])
    return {*changed.splitlines(), *new.splitlines()}


TIDY_BUILD = "build-tidy"  # Configured alone: it has a command for each source, and no objects.


def tidy_one(source):
    # An option of g++ alone is nothing to warn of.
    return run(["clang-tidy", "--quiet", "--extra-arg=-Qunused-arguments", "-p", TIDY_BUILD,
                source])


def run_tidy(results, options):
    error = configure(TIDY_BUILD, ["-Dbuildtype=release", "-Dunity=subprojects"])
    if error:
        results.add_failure("clang-tidy", error)
        return
    folder = ROOT / TIDY_BUILD
    commands = json.loads((folder / "compile_commands.json").read_text(encoding="utf-8"))
    built = {os.path.relpath(folder / entry["file"], ROOT): entry["command"] for entry in commands}
    sources = [name for name in tracked(".cc", ".c")
               if name in built and not name.startswith("tests/")]
    record, tidy_keys = TidyRecord(folder / "tidy-clean"), TidyKeys()
    keys = {source: tidy_keys.of(source, built[source]) for source in sources}
    unknown = [source for source in sources if not record.is_clean(source, keys[source])]
    changed = set() if options.long else changed_files()
    # At its first time on a machine clang-tidy takes ten minutes for all sources, and most commits
    # leave it nothing to find: they are read at night, and here what a change has touched.
    todo = [source for source in unknown if options.long or record.is_known(source)
            or changed & tidy_keys.reachable(source)]
    results.add_pass(len(sources) - len(unknown))
    if len(todo) != len(unknown):
        results.add_skip("tidy", f"tests/nightly reads {len(unknown) - len(todo)} sources that the "
                                 "last commit has not changed")
    print(f"   {len(sources) - len(unknown)} of {len(sources)} known to be clean, {len(todo)} to "
          "be read", flush=True)
    with (Progress("clang-tidy", len(todo)) as progress,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        for source, (status, output) in zip(todo, pool.map(tidy_one, todo)):
            progress.done += 1
            if status:
                results.add_failure(f"clang-tidy {source}", output)
            else:
                results.add_pass()
                record.add(source, keys[source])
                record.write(sources)
