# SPDX-License-Identifier: Apache-2.0
"""Meson builds and their unit tests: release, ASan with UBSan, TSan for the rings."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from progress import ROOT, run_with_progress

# The whole unit suite takes seconds on a quiet machine. These are for slow and busy ones: a test
# that needs longer hangs.
TIMEOUT_FACTOR = "4"
SANITIZER_TIMEOUT_FACTOR = "10"


def run(command, **options):
    """Runs a command without a terminal; returns (exit status, all output)."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **options)
    return done.returncode, done.stdout


def installed_packages():
    """Another text once packages have come or gone."""
    try:
        status = os.stat("/var/lib/dpkg/status")
    except OSError:
        return ""
    return f"{status.st_mtime_ns} {status.st_size}\n"


def configure(build, meson_options):
    """Sets the build directory up, or keeps it; one that was set up before packages came or went
    looks for optional libraries and programs again. Returns an error text or None. Warnings are
    errors here alone: another compiler or library may warn of more."""
    directory, packages = ROOT / build, installed_packages()
    known = directory / "packages-when-configured"
    if not (directory / "build.ninja").exists():
        shutil.rmtree(directory, ignore_errors=True)
        command = ["meson", "setup", build, "-Dwerror=true", *meson_options]
    elif known.exists() and known.read_text(encoding="ascii") == packages:
        return None
    else:
        run(["meson", "configure", "--clearcache", build])
        command = ["meson", "setup", "--reconfigure", build]
    status, output = run(command)
    if status:
        return output
    known.write_text(packages, encoding="ascii")
    return None


def build_all(results, build, meson_options, targets=()):
    error = configure(build, meson_options)
    if error is None:
        status, error = run_with_progress(f"build {build}", ["ninja", "-C", build, *targets])
        if status == 0:
            return True
    results.add_failure(f"build {build}", error)
    return False


def build_release(results, _options):
    """False when the build failed."""
    return build_all(results, "build", ["-Dbuildtype=release"])


def build_benches(results, _options):
    """They take a tenth of the compiler's time. clang-tidy compiles those that a commit changes."""
    if build_all(results, "build", ["-Dbuildtype=release"], ("benches",)):
        results.add_pass()


def run_unit(results, _options):
    if build_all(results, "build", ["-Dbuildtype=release"]):
        run_meson_tests(results, "build", ["-t", TIMEOUT_FACTOR])


# Without optimization the sanitizers' builds take a third of the time, and their tests little more;
# reports need line numbers, and no more of what debuggers do. gcc's sanitizers read compressed
# ones, but none in their own files (-gsplit-dwarf). Most of a program is data about its checks,
# with a relocation for each address: packed, these take a quarter off it.
LINKED = "-gz -Wl,-z,pack-relative-relocs"
SANITIZED = ["-Dbuildtype=debug", "-Ddebug=false", "-Dc_args=-g1 -gz", "-Dcpp_args=-g1 -gz",
             f"-Dc_link_args={LINKED}", f"-Dcpp_link_args={LINKED}", "-Db_lundef=false"]
# Rooms that AddressSanitizer sees at night: the simulated networks run for long what the tests of
# transport and datapath run, too, and tools are clients, which share no memory of packets.
NIGHTLY_SUITES = ("networks", "tools")


def run_asan(results, options):
    left_out = () if options.long else NIGHTLY_SUITES
    for suite in left_out:
        results.add_skip(f"asan/{suite}", "tests/nightly has these rooms with AddressSanitizer")
    run_sanitized(results, "build-asan", "address,undefined",
                  [word for suite in left_out for word in ("--no-suite", suite)],
                  lambda suites: not suites & set(left_out))


def run_tsan(results, _options):
    run_sanitized(results, "build-tsan", "thread", ["--suite", "rings"],
                  lambda suites: "rings" in suites)


def run_sanitized(results, build, sanitizers, arguments, is_chosen):
    """`is_chosen`: whether tests of these suites run, as `arguments` say it to meson."""
    error = configure(build, [*SANITIZED, f"-Db_sanitize={sanitizers}"])
    if error:
        results.add_failure(f"build {build}", error)
        return
    record = ROOT / build / f"passed-tests{''.join(arguments)}"
    if record.exists() and is_unchanged(build, is_chosen, record.stat().st_mtime):
        count = int(record.read_text(encoding="ascii"))
        print(f"   {count} tests passed before, and nothing has changed since", flush=True)
        results.add_pass(count)
        return
    record.unlink(missing_ok=True)
    passed, failed = results.passed, results.failed
    # meson builds what the chosen tests need, and no more.
    run_meson_tests(results, build, [*arguments, "-t", SANITIZER_TIMEOUT_FACTOR])
    if results.failed == failed:
        record.write_text(str(results.passed - passed), encoding="ascii")


def is_unchanged(build, is_chosen, since):
    """Whether the programs of the chosen tests, and the captures that they read, are those of
    then."""
    if any(path.stat().st_mtime > since for path in (ROOT / "tests" / "golden").iterdir()):
        return False
    status, output = run(["meson", "introspect", "--tests", build])
    if status:
        return False
    programs = {os.path.relpath(test["cmd"][0], ROOT / build) for test in json.loads(output)
                if is_chosen({suite.split(":")[-1] for suite in test["suite"]})}
    built = [name for name in programs if not name.startswith("..")]
    if any((ROOT / build / name).stat().st_mtime > since for name in built
           if (ROOT / build / name).exists()):
        return False
    return "no work to do" in run(["ninja", "-C", build, "-n", *sorted(built)])[1]


def run_meson_tests(results, build, arguments):
    """Runs `meson test` and counts GoogleTest cases; a test that is none counts as one."""
    cases = ROOT / build / "meson-logs" / "cases"
    shutil.rmtree(cases, ignore_errors=True)
    log = ROOT / build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    environment = dict(os.environ, GTEST_OUTPUT=f"json:{cases}/",
                       UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    _, output = run_with_progress(
        f"tests of {build}", ["meson", "test", "-C", build, "--logbase", "testlog", *arguments],
        env=environment)
    if not log.exists():
        results.add_failure(f"meson test {build}", output)
        return
    with open(log, encoding="utf-8") as lines:
        for line in lines:
            count_test(results, build, json.loads(line), cases)


def without_passed_cases(text):
    """GoogleTest's output with what failed alone: logs are cut by those who keep them."""
    return "\n".join(line for line in text.splitlines()
                     if not line.startswith(("[ RUN      ]", "[       OK ]")))


def count_test(results, build, test, cases):
    name = f"{build}: {test['name']}"
    report = cases / (Path(test["command"][0]).name + ".json")
    counted = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
    text = test.get("stdout", "") + test.get("stderr", "")
    if test["result"] == "SKIP":
        results.add_skip(name, text.strip() or "the test says so")
    elif test["result"] != "OK":
        broken = counted["failures"] if counted else 0
        shown = without_passed_cases(text) if counted else text  # Else the last case crashed.
        results.add_failure(f"{name} ({test['result']})", shown, max(1, broken))
        if counted:
            results.add_pass(counted["tests"] - broken)
    elif counted is None:
        results.add_pass()
    else:
        count_cases(results, name, counted, skip_reasons(text))


def skip_reasons(text):
    """{case: what its GTEST_SKIP said}, from the output of a program."""
    return {case: reason.strip() for reason, case in re.findall(
        r": Skipped\n(.*?)\n+\[  SKIPPED \] ([\w/]+\.[\w/]+)", text)}


def count_cases(results, name, counted, reasons):
    for suite in counted["testsuites"]:
        for case in suite["testsuite"]:
            if case.get("result") == "SKIPPED":
                case_name = f"{suite['name']}.{case['name']}"
                results.add_skip(f"{name} {case_name}", reasons.get(case_name) or "GTEST_SKIP")
            elif case.get("status") == "RUN":
                results.add_pass()
