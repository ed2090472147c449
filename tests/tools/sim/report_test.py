# SPDX-License-Identifier: Apache-2.0
"""report_test.py UROCE: `uroce sim`: JSON fits docs/sim.schema.json, a seed gives the same bytes
each time and on each machine, sweeps and repeats compare runs, `uroce analyze` reads the captures,
and errors name file, line and key.
report_test.py UROCE --store writes digests.txt again, after a change of what is simulated."""
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs/sim.schema.json").read_text(encoding="utf-8"))
DIGESTS = Path(__file__).with_name("digests.txt")
UROCE = None
SHORT = ("--set", "duration=2ms", "--set", "warm_up=1ms", "--set", "samples=20")


def uroce(*arguments, **options):
    return subprocess.run([UROCE, *map(str, arguments)], capture_output=True, check=False,
                          text=True, **options)


def sim(*arguments, **options):
    return uroce("sim", *arguments, **options)


def digests():
    """The lines of digests.txt, with the digests of this machine."""
    for line in DIGESTS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            arguments = line.split()[:-1]
            text = sim(*arguments, "--once", "--json").stdout
            digest = hashlib.sha256(text.encode()).hexdigest()
            line = " ".join([*arguments, digest])
        yield line


class ReportTest(unittest.TestCase):
    def results(self, *arguments):
        done = sim(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        jsonschema.Draft7Validator(SCHEMA).validate(report)
        return report

    def test_json_of_a_run_fits_its_schema(self):
        results = self.results("incast", *SHORT)["results"]
        self.assertGreater(results["totals"]["marks"], 0)
        self.assertEqual(results["workloads"][0]["flows"], 16)

    def test_json_of_flows_with_an_end_fits_too(self):
        results = self.results("fat-tree-128", "--set", "workload.0.flows=50")["results"]
        self.assertEqual(results["workloads"][0]["finished"], 50)
        self.assertGreater(len(results["time_distribution_us"]), 10)
        self.assertEqual(results["drops"], [])
        for size in results["sizes"]:
            self.assertGreaterEqual(size["slowdown"]["p50"], 1)

    def test_losses_of_hosts_own_lines_are_listed(self):
        words = ("two-hosts", *SHORT, "--set", "network.loss=0.01")
        drops = {one["name"]: one for one in self.results(*words)["results"]["drops"]}
        self.assertGreater(drops["h0 -> s0"]["line_losses"], 0)
        self.assertRegex(sim(*words).stdout, r"(?s)The most drops, .*\n  h0 -> s0 ")

    def test_a_seed_gives_the_same_bytes_each_time(self):
        first = sim("fat-tree-128", "--json", "--set", "workload.0.flows=100").stdout
        self.assertEqual(sim("fat-tree-128", "--json", "--set", "workload.0.flows=100").stdout,
                         first)
        other = sim("fat-tree-128", "--json", "--set", "workload.0.flows=100", "--set", "seed=2")
        self.assertNotEqual(other.stdout, first)

    def test_each_machine_gives_the_bytes_that_are_stored(self):
        """Either what is simulated has changed, and --store is due, or machines differ."""
        for stored, own in zip(DIGESTS.read_text(encoding="utf-8").splitlines(), digests(),
                               strict=True):
            self.assertEqual(own, stored)

    def test_sweeps_and_repeats_compare_runs(self):
        arguments = ("incast", *SHORT, "--sweep", "nic.cc=off,dcqcn", "--repeat", "3")
        report = self.results(*arguments)
        self.assertEqual([one["setting"] for one in report["comparisons"]],
                         ["nic.cc=off", "nic.cc=dcqcn"])
        for one in report["comparisons"]:
            self.assertEqual(len(one["measures"]["goodput_gbps"]["values"]), 3)
        self.assertEqual(report["comparisons"][0]["measures"]["cnps"]["mean"], 0)
        self.assertGreater(report["comparisons"][1]["measures"]["cnps"]["mean"], 0)
        # The order in which threads end their runs changes nothing.
        self.assertEqual(sim(*arguments, "--json").stdout, sim(*arguments, "--json").stdout)

    def test_a_scenario_brings_its_sweep(self):
        self.assertIn("network.loss=0.01", sim("loss", *SHORT).stdout)
        self.assertNotIn("network.loss=0.01", sim("loss", *SHORT, "--once").stdout)

    def test_analyze_reads_what_a_nic_would_have_captured(self):
        with tempfile.TemporaryDirectory() as folder:
            capture = Path(folder) / "h1.pcapng"
            event = "\n[[event]]\naction = \"drop\"\nworkload = \"writer\"\npacket = 100\n"
            scenario = Path(folder) / "drop.toml"
            scenario.write_text(sim("two-hosts", "--show").stdout + event, encoding="utf-8")
            done = sim(scenario, *SHORT, "--pcap", f"h1={capture}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("by events 1", done.stdout)
            report = json.loads(uroce("analyze", "--json", capture).stdout)
            kinds = [one["kind"] for one in report["findings"]]
            self.assertIn("loss", kinds)
            self.assertNotIn("violation", kinds)
            self.assertNotIn("icrc-error", kinds)

    def test_ready_scenarios_are_documented_in_their_files(self):
        names = re.findall(r"^([\w-]+)  ", sim("--list").stdout, re.M)
        self.assertGreaterEqual(len(names), 12)
        for name in names:
            text = sim(name, "--show").stdout
            self.assertTrue(text.startswith("# "), name)
            self.assertEqual((ROOT / f"tools/sim/scenarios/{name}.toml").read_text(
                encoding="utf-8"), text)

    def test_what_ready_scenarios_suggest_is_right(self):
        setting = r"--(?:set|sweep) [\w.-]+=[\w.:%,-]*[\w%]"
        suggestions = 0
        for path in (ROOT / "tools/sim/scenarios").glob("*.toml"):
            text = path.read_text(encoding="utf-8")
            comment = " ".join(line.lstrip("# ") for line in text.splitlines()
                               if line.startswith("#"))
            for suggestion in re.findall(f"{setting}(?: {setting})*", comment):
                suggestions += 1
                done = sim(path, *suggestion.split(), "--set", "duration=1us", "--set",
                           "warm_up=0us")
                self.assertEqual(done.returncode, 0, f"{path.name}: {suggestion}: {done.stderr}")
        self.assertGreater(suggestions, 20)

    def test_marks_keep_a_circle_alive_if_they_come_long_before_pauses(self):
        dcqcn = ("--set", "nic.cc=dcqcn", "--set", "switch.ecn=20K:100K:50%")
        for arguments, is_deadlocked in (((), True), (("--set", "switch.pfc=off"), False),
                                         (dcqcn, True),
                                         ((*dcqcn, "--set", "switch.pfc=600K:500K"), False)):
            results = self.results("pfc-deadlock", *arguments)["results"]
            self.assertEqual(results["deadlocked"], is_deadlocked, arguments)

    def test_a_trace_says_who_sends_what_and_when(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "flows.csv").write_text(
                "start,from,to,bytes\n0,h0,h1,1000\n# late\n100.5,h1,h2,2000000\n",
                encoding="utf-8")
            scenario = Path(folder) / "trace.toml"
            scenario.write_text("duration = \"10ms\"\n[network]\nhosts = 3\n[[workload]]\n"
                                "kind = \"trace\"\nfile = \"flows.csv\"\n", encoding="utf-8")
            group = self.results(scenario)["results"]["workloads"][0]
            self.assertEqual((group["flows"], group["finished"]), (2, 2))
            # The second flow: its start, and 2 MB on a line of 25 Gb/s.
            self.assertAlmostEqual(group["last_end_us"], 100.5 + 2e6 * 8 / 25e3, delta=30)
            (Path(folder) / "flows.csv").write_text("0,h0,h9,1\n0,h0,h9,1\n", encoding="utf-8")
            self.assertIn("flows.csv:2: must be start in us", sim(scenario).stderr)

    def test_errors_name_file_line_and_key(self):
        with tempfile.TemporaryDirectory() as folder:
            scenario = Path(folder) / "bad.toml"
            text = sim("two-hosts", "--show").stdout
            lines = text.splitlines()
            number = lines.index('rate = "25G"') + 1
            for bad, message in (('rate = "fast"', "network.rate: \"fast\" is no number"),
                                 ('ratte = "25G"', "network.ratte: unknown key; did you mean rate"),
                                 ('rate = ', None)):
                scenario.write_text("\n".join(bad if line == 'rate = "25G"' else line
                                              for line in lines), encoding="utf-8")
                done = sim(scenario)
                self.assertEqual(done.returncode, 2, bad)
                self.assertIn(f"{scenario}:{number}: ", done.stderr)
                if message:
                    self.assertIn(message, done.stderr)
            self.assertIn("did you mean incast", sim("incst").stderr)
            self.assertIn("KEY=VALUE", sim("incast", "--set", "nic").stderr)


if __name__ == "__main__":
    UROCE = sys.argv.pop(1)
    if sys.argv[1:] == ["--store"]:
        DIGESTS.write_text("\n".join(list(digests())) + "\n", encoding="utf-8")
    else:
        unittest.main()
