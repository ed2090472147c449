# SPDX-License-Identifier: Apache-2.0
"""Reads the tree: layers and includes, pure folders, headers that compile alone, tags, banned
words."""
import concurrent.futures
import os
import platform
import re
import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The top-level folders are layers: each includes only those that stand here behind it.
LAYERS = {"pipeline": set(), "drivers": {"pipeline"}, "nic": {"drivers", "pipeline"},
          "verbs-shim": {"pipeline"}, "tools": {"pipeline"}}
# Clocks, threads, locks, logs, files and DPDK: what a pure room cannot name.
IMPURE_INCLUDE = re.compile(
    r"<(rte_.*|thread|mutex|shared_mutex|condition_variable|future|chrono|iostream|fstream|ctime|"
    r"time\.h|unistd\.h|pthread\.h|spdlog/.*|absl/.*)>")
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
ROOMS_OF_PROCESSORS = ("pipeline/wire/crc/", "verbs-shim/memory/")
SOURCES_OF_PROCESSORS = ("pipeline/base/cpu.h", "pipeline/base/streaming_store.h",
                         "pipeline/datapath/memory/ordered_copy.cc", "tools/client/launch.cc",
                         "tools/doctor/kernel.cc")
OF_MACHINE = {"x86_64": ["-march=x86-64-v2"]}
C_ROOMS = ("verbs-shim/", "pipeline/shm/", "tests/e2e/")
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
                  if name.endswith(suffixes) and (ROOT / name).exists())


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def sources_of_rooms():
    """Sources outside the tests: each lies in a room, which is its folder."""
    return [name for name in tracked(".h", ".cc", ".c") if not name.startswith("tests/")]


def included_by(name):
    """Files of the tree that a file includes."""
    for included in re.findall(r'^\s*#\s*include "([^"]+)"', read(name), re.M):
        beside = os.path.join(os.path.dirname(name), included)
        yield beside if (ROOT / beside).exists() else included


def drawing():
    """The drawing in ARCHITECTURE.md, and the folder of each of its names."""
    text = re.search(r"```mermaid\n(.*?)```", read("ARCHITECTURE.md"), re.S).group(1)
    return text, dict(re.findall(r'(\w+)\["([^"]+)"\]', text))


def drawn_arrows():
    """The arrows of the drawing: (room, room that it includes)."""
    text, names = drawing()
    return {(names[start], names[end])
            for start, ends in re.findall(r"^\s*(\w+)(?:\[[^]]*\])? --> (.+)$", text, re.M)
            for end in re.findall(r"\w+", ends)}


def reachable(room, arrows):
    """All rooms to which arrows lead from `room`, in any number of steps."""
    found, rest = set(), [room]
    while rest:
        start = rest.pop()
        ends = {end for begin, end in arrows if begin == start} - found
        found |= ends
        rest += ends
    return found


def pure_rooms():
    """The folders that the drawing marks as pure: the check and the reader have one list."""
    text, names = drawing()
    return {names[name] for name in re.search(r"^\s*class ([\w,]+) pure$", text, re.M)
            .group(1).split(",")}


class TreeTest(unittest.TestCase):
    def assert_nothing(self, found):
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_rooms_include_only_what_the_drawing_says(self):
        arrows = drawn_arrows()
        rooms = {os.path.dirname(name) for name in sources_of_rooms()}
        drawn = {room for arrow in arrows for room in arrow}
        below = {room: reachable(room, arrows) for room in rooms | drawn}
        found = [f"{room} is no room" for room in drawn - rooms]
        found += [f"{room} is not drawn" for room in rooms - drawn]
        found += [f"{room} stands above itself" for room in rooms if room in below[room]]
        used = set()
        for name in sources_of_rooms():
            room = os.path.dirname(name)
            for included in included_by(name):
                target = os.path.dirname(included)
                used.add((room, target))
                if target in rooms - below[room] - {room} or included.startswith("tests/"):
                    found.append(f"{name} includes {included}")
        found += [f"no include needs {start} --> {end}" for start, end in arrows - used]
        found += [f"others imply {start} --> {end}" for start, end in arrows
                  if end in reachable(start, arrows - {(start, end)})]
        self.assert_nothing(sorted(found))

    def test_top_level_folders_are_layers(self):
        found = []
        for name in sources_of_rooms():
            layer = name.partition("/")[0]
            found += [f"{name} includes {included}" for included in included_by(name)
                      if included.partition("/")[0] in set(LAYERS) - LAYERS[layer] - {layer}]
        self.assert_nothing(found)

    def test_pure_rooms_include_only_pure_rooms(self):
        pure = pure_rooms()
        self.assert_nothing([f"{name} includes {included}" for name in sources_of_rooms()
                             if os.path.dirname(name) in pure for included in included_by(name)
                             if included.partition("/")[0] in LAYERS
                             and os.path.dirname(included) not in pure])

    def test_pure_rooms_know_no_clock_thread_log_or_driver(self):
        found, pure = [], pure_rooms()
        for name in tracked(".h", ".cc"):
            if os.path.dirname(name) not in pure:
                continue
            for number, line in code_lines(name):
                if IMPURE_INCLUDE.search(line) or IMPURE_WORD.search(line):
                    found.append(f"{name}:{number}: {line.strip()}")
        self.assert_nothing(found)

    def test_processors_are_named_in_few_places(self):
        found = []
        for name in sources_of_rooms():
            if name.startswith(ROOMS_OF_PROCESSORS) or name in SOURCES_OF_PROCESSORS:
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

    def test_every_room_says_what_it_holds(self):
        """In a README of its own, or in the README of a room around it, which names its folder."""
        def says(room, inner=""):
            if not room:
                return False
            readme = ROOT / room / "README.md"
            if readme.exists() and (not inner or
                                    re.search(f"`{inner}/?`", readme.read_text())):
                return True
            around, name = os.path.split(room)
            return says(around, f"{name}/{inner}" if inner else name)

        rooms = {os.path.dirname(name) for name in sources_of_rooms()}
        self.assert_nothing([room for room in sorted(rooms) if not says(room)])

    def test_headers_compile_alone(self):
        """The build has compiled those alone that the source of their name includes first."""
        packages = ["libdpdk", "libpcap", "libibverbs"]
        flags = subprocess.run(["pkg-config", "--cflags", *packages], capture_output=True,
                               text=True, check=True).stdout.split()
        flags = [re.sub("^-I", "-isystem", flag) for flag in flags]  # Only our own warnings.
        ccache = ["ccache"] if shutil.which("ccache") else []

        def compile_alone(name):
            is_c = name.startswith(C_ROOMS) and name not in CXX_HEADERS
            source = Path("build/headers") / (name + (".c" if is_c else ".cc"))
            (ROOT / source).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / source).write_text(f'#include "{name}"\n', encoding="utf-8")
            language = ["gcc", "-std=gnu11"] if is_c else ["g++", "-std=c++20"]
            done = subprocess.run(
                [*ccache, *language, *OF_MACHINE.get(platform.machine(), []), *flags, "-I.",
                 "-Wall", "-Wextra", "-Wno-missing-field-initializers", '-DUROCE_VERSION="0"',
                 "-c", source, "-o", source.with_suffix(".o")],
                cwd=ROOT, capture_output=True, text=True, check=False)
            return f"{name}:\n{done.stderr}" if done.returncode or done.stderr else None

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            headers = [name for name in tracked(".h") if not opens_its_source(name)]
            self.assert_nothing([text for text in pool.map(compile_alone, headers) if text])


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
