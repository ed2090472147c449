# SPDX-License-Identifier: Apache-2.0
"""clang-format on all sources, clang-tidy on those that changed since it last found them clean."""
import concurrent.futures
import hashlib
import json
import os

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


def tidy_key(source, headers_hash):
    """What clang-tidy's verdict depends on: the file, every header of ours, the checks."""
    return hashlib.sha256(headers_hash + (ROOT / source).read_bytes()).hexdigest()


def hash_headers():
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for header in tracked(".h"):
        digest.update(header.encode() + (ROOT / header).read_bytes())
    return digest.digest()


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
    built = {os.path.relpath(ROOT / "build" / entry["file"], ROOT) for entry in commands}
    sources = [name for name in tracked(".cc", ".c")
               if name in built and not name.startswith("tests/")]
    cache = ROOT / "build" / "tidy-clean"
    cache.mkdir(exist_ok=True)
    headers_hash = hash_headers()
    keys = {source: tidy_key(source, headers_hash) for source in sources}
    todo = [source for source in sources if not (cache / keys[source]).exists()]
    results.add_pass(len(sources) - len(todo))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, (status, output) in zip(todo, pool.map(tidy_one, todo)):
            if status:
                results.add_failure(f"clang-tidy {source}", output)
            else:
                results.add_pass()
                (cache / keys[source]).touch()
