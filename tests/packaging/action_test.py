# SPDX-License-Identifier: Apache-2.0
"""The GitHub Action, its steps run as a runner does, and the jobs that docs/guide/ci.md shows."""
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from built import ROOT, read_yaml
from standalone import PING_PONG, UNPRIVILEGED, StandaloneTestCase

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from labs.guide_text import sections  # pylint: disable=wrong-import-position
from labs.process import run, run_status, wait_until  # pylint: disable=wrong-import-position

ACTION = ".github/actions/uroce"


class Job:
    """A job on a machine of GitHub's: the user, the folders and the files of a runner."""

    def __init__(self, folder, sources=ROOT):
        self.action_path = Path(sources) / ACTION
        self.temporary = folder / "_temp"
        self.temporary.mkdir()
        self.files = {name: self.temporary / name
                      for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT")}
        for path in self.files.values():
            path.touch()
            path.chmod(0o666)
        self.temporary.chmod(0o777)

    def step(self, script, environment=None):
        """Runs a step as `shell: bash` does; returns its status and output."""
        file = self.temporary / "step.sh"
        file.write_text(script, encoding="utf-8")
        added = dict(line.split("=", 1) for line in self.lines("GITHUB_ENV"))
        path = ":".join([*reversed(self.lines("GITHUB_PATH")), os.environ["PATH"]])
        words = {**added, "PATH": path, "RUNNER_TEMP": self.temporary,
                 "GITHUB_ACTION_PATH": self.action_path, **self.files, **(environment or {})}
        return run_status([*UNPRIVILEGED, "env", "-i", "-C", self.temporary,
                           *(f"{name}={value}" for name, value in words.items()),
                           "bash", "--noprofile", "--norc", "-eo", "pipefail", file], 300)

    def use(self, inputs):
        """Runs the action; returns the status and the output of its last step."""
        action = read_yaml((self.action_path / "action.yml").read_text(encoding="utf-8"))
        values = {name: inputs.get(name, its.get("default", ""))
                  for name, its in action["inputs"].items()}
        for step in action["runs"]["steps"]:
            assert step["shell"] == "bash", step
            environment = {name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: values[m[1]], text)
                           for name, text in step["env"].items()}
            status, said = self.step(step["run"], environment)
            if status:
                break
        return status, said

    def lines(self, name):
        return self.files[name].read_text(encoding="utf-8").splitlines()

    def outputs(self):
        return dict(line.split("=", 1) for line in self.lines("GITHUB_OUTPUT"))


class ActionTest(StandaloneTestCase):
    def job(self, sources=ROOT):
        job = Job(self.make_folder(), sources)
        self.addCleanup(self.end_daemon, job)
        return job

    @staticmethod
    def end_daemon(job):
        """As the runner does at the end of the job."""
        for pid in [int(job.outputs()[name]) for name in job.outputs() if name == "pid"]:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), "the end of the daemon")

    def use(self, job, **inputs):
        status, said = job.use(inputs)
        self.assertEqual(status, 0, said)
        return said

    def test_later_steps_have_the_nics(self):
        job = self.job()
        self.assertIn("uroce1", self.use(job, archive=str(self.archive)))
        status, said = job.step(f"uroce run -- bash -c '{PING_PONG}'\nuroce stat")
        self.assertEqual(status, 0, said)
        self.expect_ping_pong(said)
        self.assertIn("port_rcv_packets", said)

    def test_what_it_declares_is_what_it_gives(self):
        job = self.job()
        self.use(job, archive=str(self.archive))
        action = read_yaml((ROOT / ACTION / "action.yml").read_text(encoding="utf-8"))
        step = action["runs"]["steps"][0]["id"]
        given = {name: f"${{{{ steps.{step}.outputs.{name} }}}}" for name in job.outputs()}
        declared = {name: its["value"] for name, its in action["outputs"].items()}
        self.assertEqual(given, declared)
        self.assertEqual(job.lines("GITHUB_ENV"), [f"UROCE_SOCKET={job.outputs()['socket']}"])
        self.assertIn("uroced: ready", Path(job.outputs()["log"]).read_text(encoding="utf-8"))

    def test_two_jobs_on_a_machine_do_not_meet(self):
        first, second = self.job(), self.job()
        self.use(first, archive=str(self.archive))
        self.use(second, archive=str(self.archive), options="--wire 'a=10.0.0.1/24,b=10.0.0.2/24'")
        self.assertIn("uroce0", first.step("uroce devices")[1])
        self.assertNotIn("uroce0", second.step("uroce devices")[1])

    def test_an_archive_by_its_address(self):
        said = self.use(self.job(), archive=f"file://{self.archive}",
                        options="--switch ports=3,rate=10G")
        self.assertIn("uroce2", said)

    def test_without_an_archive_the_sources_are_built(self):
        sources = self.make_folder()
        shutil.copytree(ROOT / ACTION, sources / ACTION)
        (sources / "tools").mkdir()
        for name, script in (("install-packages", "echo installs $*"),
                             ("dist", f'[ "$3" = --output ]; cp {self.archive} "$4"')):
            (sources / "tools" / name).write_text(f"#!/bin/sh -e\n{script}\n", encoding="utf-8")
            (sources / "tools" / name).chmod(0o755)
        said = self.use(self.job(sources))
        self.assertIn("installs build dist", said)
        self.assertIn("uroce1", said)

    def test_a_step_that_fails_says_why_and_promises_nothing(self):
        for inputs, reason in (({"options": "--no-such-option"}, "--no-such-option"),
                               ({"options": "--wire 'a"}, "options: --wire 'a"),
                               ({"archive": "/nowhere.tar.zst"}, "cannot unpack /nowhere.tar.zst"),
                               ({"archive": "file:///nowhere"}, "no archive: file:///nowhere")):
            with self.subTest(reason):
                job = self.job()
                status, said = job.use({"archive": str(self.archive), **inputs})
                self.assertEqual(status, 1, said)
                self.assertRegex(said, f"::error::.*{re.escape(reason)}")
                for name in job.files:
                    self.assertEqual(job.lines(name), [])
                left = [line for line in run(["ps", "-ww", "-eo", "args"]).splitlines()
                        if str(job.temporary) in line and "sbin/uroced" in line]
                self.assertEqual(left, [])


class GuideTest(StandaloneTestCase):
    """The jobs of docs/guide/ci.md: a YAML block for each service."""

    def setUp(self):
        text = (ROOT / "docs/guide/ci.md").read_text(encoding="utf-8")
        self.jobs = {}
        for section in sections(text):
            for block in section.blocks:
                if block.lines and re.fullmatch(r"# \.git\S+\.yml", block.lines[0]):
                    self.jobs[block.lines[0].removeprefix("# ")] = read_yaml("\n".join(block.lines))

    def step_of_project(self, folder, script):
        """Runs a line of a job in a project whose tests are a ping-pong."""
        tests = folder / "run-tests"
        tests.write_text(f"#!/bin/sh\n{PING_PONG}\n", encoding="utf-8")
        tests.chmod(0o755)
        return script

    def test_a_workflow_of_github(self):
        steps = self.jobs[".github/workflows/rdma.yml"]["jobs"]["rdma"]["steps"]
        used = next(step for step in steps if ACTION in step.get("uses", ""))
        job = Job(self.make_folder())
        self.addCleanup(ActionTest.end_daemon, job)
        action = read_yaml((ROOT / ACTION / "action.yml").read_text(encoding="utf-8"))
        self.assertLessEqual(set(used["with"]), set(action["inputs"]))
        status, said = job.use({**used["with"], "archive": str(self.archive)})
        self.assertEqual(status, 0, said)
        last = self.step_of_project(job.temporary, steps[-1]["run"])
        status, said = job.step(last)
        self.assertEqual(status, 0, said)
        self.expect_ping_pong(said)

    def test_a_job_of_gitlab(self):
        job = self.jobs[".gitlab-ci.yml"]["rdma"]
        lines = [line for line in [*job["before_script"], job["script"]] if "apt-get" not in line]
        folder = self.make_folder()
        script = self.step_of_project(folder, "\n".join(lines))
        done = subprocess.run([*UNPRIVILEGED, "env", "-C", folder,
                               f"UROCE_ARCHIVE=file://{self.archive}",
                               "bash", "-eo", "pipefail", "-c", script], capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.expect_ping_pong(done.stdout)
