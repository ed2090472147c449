# SPDX-License-Identifier: Apache-2.0
"""clang-format on all sources, clang-tidy on those that it has not found clean as they are."""
import concurrent.futures
import hashlib
import json
import os
import re

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
        version = re.search(r"version (\S+)", run(["clang-tidy", "--version"])[1])
        self._common = version.group(1).encode() + (ROOT / ".clang-tidy").read_bytes()
        self._texts = {}

    def of(self, source, command):
        digest = hashlib.sha256(self._common + command.removeprefix("ccache ").encode())
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


class TidyRecord:
    """The sources that clang-tidy has found clean, and the keys that they had then. It is a part of
    the tree, since to read all sources takes half an hour. Lines: key, source."""

    def __init__(self, path):
        self._path = path
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        self._keys = {source: key for key, source in (line.split() for line in lines)}

    def is_clean(self, source, key):
        return self._keys.get(source) == key

    def add(self, source, key):
        self._keys[source] = key

    def write(self, sources):
        """Of sources that are no more, nothing is kept."""
        kept = sorted(set(sources) & self._keys.keys())
        self._path.write_text("".join(f"{self._keys[source]}  {source}\n" for source in kept),
                              encoding="ascii")


def tidy_one(source):
    return run(["clang-tidy", "--quiet", "-p", "build", source])


def run_tidy(results, options):
    error = configure("build", ["-Dbuildtype=release"])
    if error:
        results.add_failure("clang-tidy", error)
        return
    commands = json.loads((ROOT / "build" / "compile_commands.json").read_text(encoding="utf-8"))
    built = {os.path.relpath(ROOT / "build" / entry["file"], ROOT): entry["command"]
             for entry in commands}
    sources = [name for name in tracked(".cc", ".c")
               if name in built and not name.startswith("tests/")]
    record, tidy_keys = TidyRecord(ROOT / ".ci" / "tidy-clean"), TidyKeys()
    keys = {source: tidy_keys.of(source, built[source]) for source in sources}
    todo = [source for source in sources
            if options.long or not record.is_clean(source, keys[source])]
    print(f"   {len(sources) - len(todo)} of {len(sources)} known to be clean", flush=True)
    results.add_pass(len(sources) - len(todo))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, (status, output) in zip(todo, pool.map(tidy_one, todo)):
            if status:
                results.add_failure(f"clang-tidy {source}", output)
            else:
                results.add_pass()
                record.add(source, keys[source])
                record.write(sources)
