# SPDX-License-Identifier: Apache-2.0
"""The page of `uroce stat --html`, of real counters."""
import json
import os
import re
import subprocess
import unittest

from labs.lab import ROOT, WireLab, next_port
from labs.process import Process, run_status, wait_until

SKIPPED = 77
FAULTS = ("--fault", "uroce1:drop=0.01")


def devices_of(look):
    return [device["name"] for device in look["stat"]["devices"]]


class StatPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab(*FAULTS)
        cls.addClassCleanup(cls.lab.close)

    def setUp(self):
        self.page = os.path.join(self.lab.directory, "stat.html")

    def report(self):
        with open(self.page, encoding="utf-8") as file:
            found = re.search(r'id="report">(.*?)</script>', file.read(), re.DOTALL)
        return json.loads(found[1])

    def needs_library(self):
        if not os.path.exists("/usr/share/javascript/d3/d3.min.js"):
            self.skipTest("libjs-d3 is not installed")

    def test_counters_at_one_moment(self):
        self.needs_library()
        status, output = run_status(self.lab.a.uroce("stat", "--html", self.page))
        self.assertEqual((status, output), (0, ""))
        looks = self.report()["looks"]
        self.assertEqual(len(looks), 1)
        self.assertEqual(devices_of(looks[0]), ["uroce0", "uroce1"])
        status, _ = run_status(self.lab.a.uroce("stat", "-d", "uroce1", "--html", self.page))
        self.assertEqual(status, 0)
        self.assertEqual(devices_of(self.report()["looks"][0]), ["uroce1"])

    def test_what_rises_while_a_program_sends(self):
        self.needs_library()
        watch = Process(self.lab.a.uroce("stat", "--html", self.page, "--watch", 0.1))
        try:
            wait_until(lambda: os.path.exists(self.page), "the page")
            port = next_port()
            program = ["ib_write_bw", "-F", "-s", 65536, "-n", 500, "-p", port]
            self.lab.run_pair([*program, "-d", "uroce0", "-x", self.lab.a.gid_index()],
                              [*program, "-d", "uroce1", "-x", self.lab.b.gid_index(),
                               "127.0.0.1"], port)
            enough = len(self.report()["looks"]) + 2
            wait_until(lambda: len(self.report()["looks"]) >= enough, "two more looks")
        finally:
            watch.kill()
        done = subprocess.run(["/usr/bin/python3", "-B", ROOT / "tests/tools/views/page_test.py",
                               self.page], capture_output=True, check=False, text=True)
        if done.returncode == SKIPPED:
            self.skipTest(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_flags_that_a_page_excludes(self):
        for flag in ("--json", "--workers", "--all"):
            with self.subTest(flag=flag):
                status, output = run_status(self.lab.a.uroce("stat", flag, "--html", self.page))
                self.assertEqual(status, 2)
                self.assertIn("--html excludes", output)

    def test_files_that_cannot_be_written_or_read(self):
        for flags, word in ((("--html", "/nowhere/stat.html"), "/nowhere/stat.html"),
                            (("--html", self.page, "--d3", "/nowhere/d3.js"), "/nowhere/d3.js")):
            with self.subTest(flags=flags):
                status, output = run_status(self.lab.a.uroce("stat", *flags))
                self.assertNotEqual(status, 0)
                self.assertIn(word, output)


if __name__ == "__main__":
    unittest.main()
