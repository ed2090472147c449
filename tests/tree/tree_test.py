# SPDX-License-Identifier: Apache-2.0
"""Reads the tree: layers and includes, pure folders, headers that compile alone, tags, banned
words."""
import collections
import os
import platform
import re
import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MODULES = "tests/tree/modules.txt"
# Clocks, threads, locks, logs, files and DPDK: what a pure module cannot name.
IMPURE_INCLUDE = re.compile(
    r"<(rte_.*|thread|mutex|shared_mutex|condition_variable|future|chrono|iostream|fstream|ctime|"
    r"time\.h|unistd\.h|pthread\.h|fmt/.*|spdlog/.*|absl/.*)>")
IMPURE_WORD = re.compile(
    r"\b(malloc|calloc|realloc|printf|fprintf|clock_gettime|std::mutex|std::thread|usleep|sleep)\b")
BANNED = {
    "unbounded string functions": re.compile(r"\b(strcpy|strcat|v?sprintf|gets|strtok)\s*\("),
    "weak random numbers": re.compile(r"\bs?rand\s*\(|std::rand\b"),
    "using namespace std": re.compile(r"^\s*using namespace std\b"),
    "unfinished work": re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"),
    "a path of some machine": re.compile(r"/work/|/home/|/root/"),
}
# Code that names a processor, and the places that may hold it (pipeline/base/README.md).
OF_A_PROCESSOR = re.compile(
    r"__x86_64__|__aarch64__|__builtin_ia32|__builtin_cpu|[a-z]mmintrin|x86intrin|arm_neon|"
    r"cpuid\.h|__rdtsc|\b_mm\d*_|gnu::target|\bhwcap\.h|ucontext\.h")
MODULES_OF_PROCESSORS = ("pipeline/wire/crc/", "verbs-shim/memory/")
SOURCES_OF_PROCESSORS = ("pipeline/base/cpu.h", "pipeline/base/streaming_store.h",
                         "pipeline/datapath/queue/payload.cc", "tools/client/launch.cc",
                         "tools/doctor/kernel.cc")
OF_MACHINE = {"x86_64": ["-march=x86-64-v2"]}
MOST_FILES = 25  # Side by side in a folder of tests.
C_MODULES = ("verbs-shim/", "pipeline/shm/", "tests/e2e/")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def code_lines(name):
    """(number, line) of a source without its comments."""
    text = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), read(name))
    return enumerate(text.splitlines(), 1)


def tracked(*suffixes):
    output = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in output.splitlines()
                  if name.endswith(suffixes) and (ROOT / name).is_file())


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def sources_of_modules():
    """Sources outside the tests: each lies in a module, which is its folder."""
    return [name for name in tracked(".h", ".cc", ".c") if not name.startswith("tests/")]


def included_by(name):
    """Files of the tree that a file includes."""
    for included in re.findall(r'^\s*#\s*include "([^"]+)"', read(name), re.M):
        beside = os.path.join(os.path.dirname(name), included)
        yield beside if (ROOT / beside).exists() else included


def listed_modules():
    """MODULES: the includes as arrows (module, module that it includes), and the pure modules."""
    arrows, listed, pure = set(), set(), set()
    for line in read(MODULES).splitlines():
        if match := re.fullmatch(r"([\w/-]+)( pure)?:((?: [\w/-]+)*)", line):
            module, is_pure, ends = match.groups()
            listed.add(module)
            pure |= {module} if is_pure else set()
            arrows |= {(module, end) for end in ends.split()}
        elif line and not line.startswith("#"):
            raise ValueError(f"{MODULES}: {line}")
    return arrows, listed, pure


def drawn_layers():
    """The arrows of the picture in ARCHITECTURE.md: (layer, layer that it includes)."""
    text = re.search(r"```mermaid\n(.*?)```", read("ARCHITECTURE.md"), re.S).group(1)
    names = dict(re.findall(r'(\w+)\["([\w-]+): ', text))
    return {(names[start], names[end])
            for start, end in re.findall(r"^\s*(\w+)(?:\[[^]]*\])? --> (\w+)$", text, re.M)}


def reachable(module, arrows):
    """All modules to which arrows lead from `module`, in any number of steps."""
    found, rest = set(), [module]
    while rest:
        start = rest.pop()
        ends = {end for begin, end in arrows if begin == start} - found
        found |= ends
        rest += ends
    return found


def differences(arrows, used):
    """What is wrong with `arrows` as a drawing of the includes `used`, without those that the
    arrows imply."""
    starts = {start for arrow in arrows | used for start in arrow}
    below = {start: reachable(start, arrows) for start in starts}
    found = [f"{start} stands above itself" for start in starts if start in below[start]]
    found += [f"no arrow allows {start} --> {end}" for start, end in used
              if end not in below[start]]
    found += [f"no include needs {start} --> {end}" for start, end in arrows - used]
    found += [f"others imply {start} --> {end}" for start, end in arrows
              if end in reachable(start, arrows - {(start, end)})]
    return found


class TreeTest(unittest.TestCase):
    def assert_nothing(self, found):
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_modules_include_only_what_the_list_says(self):
        arrows, listed, _ = listed_modules()
        modules = {os.path.dirname(name) for name in sources_of_modules()}
        found = [f"{module} is no module" for module in listed - modules]
        found += [f"{module} is not in {MODULES}" for module in modules - listed]
        found += [f"{end} is not in {MODULES}" for _, end in arrows if end not in listed]
        used = set()
        for name in sources_of_modules():
            module = os.path.dirname(name)
            for included in included_by(name):
                target = os.path.dirname(included)
                if target in modules - {module}:
                    used.add((module, target))
                    if target not in reachable(module, arrows):
                        found.append(f"{name} includes {included}")
                if included.startswith("tests/"):
                    found.append(f"{name} includes {included}")
        self.assert_nothing(sorted(found + differences(arrows, used)))

    def test_folders_of_tests_are_short(self):
        folders = collections.Counter(os.path.dirname(name) for name in tracked("")
                                      if name.startswith("tests/"))
        self.assert_nothing([f"{folder}: {count} files, more than {MOST_FILES}: by subject"
                             for folder, count in folders.items() if count > MOST_FILES])

    def test_layers_are_those_of_the_picture(self):
        arrows = drawn_layers()
        layers = {name.partition("/")[0] for name in sources_of_modules()}
        used = {(name.partition("/")[0], included.partition("/")[0])
                for name in sources_of_modules() for included in included_by(name)}
        used = {(layer, other) for layer, other in used if other in layers - {layer}}
        drawn = {layer for arrow in arrows for layer in arrow}
        found = [f"{layer} is drawn or exists, not both" for layer in layers ^ drawn]
        self.assert_nothing(sorted(found + differences(arrows, used)))

    def test_pure_modules_include_only_pure_modules(self):
        _, listed, pure = listed_modules()
        self.assert_nothing([f"{name} includes {included}" for name in sources_of_modules()
                             if os.path.dirname(name) in pure for included in included_by(name)
                             if os.path.dirname(included) in listed - pure])

    def test_pure_modules_know_no_clock_thread_log_or_driver(self):
        found, (_, _, pure) = [], listed_modules()
        for name in tracked(".h", ".cc"):
            if os.path.dirname(name) not in pure:
                continue
            for number, line in code_lines(name):
                if IMPURE_INCLUDE.search(line) or IMPURE_WORD.search(line):
                    found.append(f"{name}:{number}: {line.strip()}")
        self.assert_nothing(found)

    def test_processors_are_named_in_few_places(self):
        found = []
        for name in sources_of_modules():
            if name.startswith(MODULES_OF_PROCESSORS) or name in SOURCES_OF_PROCESSORS:
                continue
            found += [f"{name}:{number}: {line.strip()}"
                      for number, line in enumerate(read(name).splitlines(), 1)
                      if OF_A_PROCESSOR.search(line)]
        self.assert_nothing(found)

    def test_nothing_banned_is_used(self):
        found = []
        for name in tracked(".h", ".cc", ".c", ".py", ".build", ".md"):
            if name == "tests/tree/tree_test.py":
                continue
            for number, line in enumerate(read(name).splitlines(), 1):
                for reason, pattern in BANNED.items():
                    if pattern.search(line):
                        found.append(f"{name}:{number}: {reason}: {line.strip()}")
        self.assert_nothing(found)

    def test_sources_open_with_licence_and_purpose(self):
        found = []
        for name in tracked(".h", ".cc", ".c", ".py", ".build"):
            head = read(name).splitlines()[:3]
            if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
                found.append(f"{name}: no SPDX tag")
        for name in tracked(".h"):
            second = (read(name).splitlines() + ["", ""])[1]
            if not re.match(r"(//| \*) \S", second):
                found.append(f"{name}: its second line does not say what it is for")
        self.assert_nothing(found)

    def test_headers_guard_themselves(self):
        self.assert_nothing([name for name in tracked(".h")
                             if "#pragma once" not in read(name) and "#ifndef" not in read(name)])

    def test_headers_open_no_namespace_to_their_includers(self):
        self.assert_nothing([name for name in tracked(".h")
                             if re.search(r"^using namespace\b", read(name), re.M)])

    def test_code_fits_one_hundred_columns(self):
        self.assert_nothing([f"{name}:{number}" for name in tracked(".h", ".cc", ".c", ".py")
                             for number, line in enumerate(read(name).splitlines(), 1)
                             if len(line) > 100])

    def test_headers_compile_alone(self):
        """The build has compiled those alone that the source of their name includes first. ninja
        compiles the others where they, or what they include, have changed."""
        folder = Path("build/headers")
        headers = [name for name in tracked(".h") if not opens_its_source(name)]
        for name in headers:
            write_if_new(ROOT / folder / source_of(name), f'#include "{name}"\n')
        write_if_new(ROOT / folder / "build.ninja", ninja_file(folder, headers))
        done = subprocess.run(["ninja", "-k", "0", "-f", folder / "build.ninja"], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def write_if_new(path, text):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def source_of(header):
    is_c = header.startswith(C_MODULES) and header not in CXX_HEADERS
    return header + (".c" if is_c else ".cc")


def ninja_file(folder, headers):
    """Compiles the source of each header."""
    packages = ["libdpdk", "libpcap", "libibverbs"]
    flags = subprocess.run(["pkg-config", "--cflags", *packages], capture_output=True, text=True,
                           check=True).stdout.split()
    flags = [re.sub("^-I", "-isystem", flag) for flag in flags]  # Only our own warnings.
    flags += [*OF_MACHINE.get(platform.machine(), []), "-I.", "-Wall", "-Wextra", "-Werror",
              "-Wno-missing-field-initializers", "'-DUROCE_VERSION=\"0\"'"]
    ccache = "ccache " if shutil.which("ccache") else ""
    lines = [f"builddir = {folder}"]
    for suffix, compiler in ((".c", "gcc -std=gnu11"), (".cc", "g++ -std=c++20")):
        lines += [f"rule {suffix[1:]}", "  depfile = $out.d", "  deps = gcc",
                  f"  command = {ccache}{compiler} {' '.join(flags)} -MD -MF $out.d -c $in -o $out"]
    for source in map(source_of, headers):
        lines.append(f"build {folder}/{source}.o: {source.rsplit('.', 1)[1]} {folder}/{source}")
    return "\n".join(lines) + "\n"


def opens_its_source(header):
    sources = [header.removesuffix(".h") + suffix for suffix in (".cc", ".c")]
    first = [re.search(r'^\s*#\s*include\s+["<]([^">]+)', read(name), re.M)
             for name in sources if (ROOT / name).exists()]
    return any(include and include.group(1) == header for include in first)


def looks_like_cxx(name):
    return re.search(r"^\s*(namespace|template|class)\b|#include <c[a-z]+>", read(name), re.M)


CXX_HEADERS = {name for name in tracked(".h") if looks_like_cxx(name)}

if __name__ == "__main__":
    unittest.main()
