# SPDX-License-Identifier: Apache-2.0
"""report_test.py UROCE: `uroce analyze` on golden captures: JSON fits docs/analyze.schema.json, CSV
has the same findings, --check decides over the exit status, packed files and pipes are read."""
import csv
import gzip
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden"
LOSSES = GOLDEN / "linux-rxe-4-loss.pcap"
UROCE = None


def analyze(*arguments, **options):
    return subprocess.run([UROCE, "analyze", *map(str, arguments)], capture_output=True,
                          check=False, **options)


class ReportTest(unittest.TestCase):
    def test_json_fits_its_schema(self):
        schema = json.loads((ROOT / "docs/analyze.schema.json").read_text(encoding="utf-8"))
        for capture in sorted(GOLDEN.glob("*.pcap")):
            with self.subTest(capture.name):
                done = analyze("--json", capture)
                self.assertEqual(done.returncode, 0, done.stderr)
                report = json.loads(done.stdout)
                jsonschema.Draft7Validator(schema).validate(report)
                ids = {one["id"] for one in report["findings"]}
                causes = {one["cause"] for one in report["findings"]} - {None}
                self.assertLessEqual(causes, ids)

    def test_csv_has_the_findings_of_json(self):
        findings = json.loads(analyze("--json", LOSSES).stdout)["findings"]
        rows = list(csv.DictReader(io.StringIO(analyze("--csv", LOSSES).stdout.decode())))
        self.assertEqual([row["kind"] for row in rows], [one["kind"] for one in findings])
        self.assertEqual([row["text"] for row in rows], [one["text"] for one in findings])

    def test_check_decides_over_the_exit_status(self):
        self.assertEqual(analyze(LOSSES).returncode, 0)
        self.assertEqual(analyze("--check", "warning", LOSSES).returncode, 1)
        self.assertEqual(analyze("--check", "error", GOLDEN / "linux-rxe-5-rnr.pcap").returncode, 0)
        self.assertEqual(analyze("--check", "bad", LOSSES).returncode, 2)

    def test_a_capture_of_nothing_does_not_look_well(self):
        nothing = ("-f", "host 10.9.9.9", GOLDEN / "linux-rxe-1.pcap")
        self.assertIn(b"There is no RoCEv2 packet to judge", analyze(*nothing).stdout)
        self.assertEqual(analyze(*nothing).returncode, 0)
        self.assertEqual(analyze("--check", "error", *nothing).returncode, 1)

    def test_packed_files_and_pipes_say_the_same(self):
        text = analyze(LOSSES).stdout
        self.assertEqual(analyze("-", input=LOSSES.read_bytes()).stdout, text)
        self.assertEqual(analyze("-", input=gzip.compress(LOSSES.read_bytes())).stdout, text)

    def test_a_filter_leaves_frames_out(self):
        frames = json.loads(analyze("--json", "-f", "src host 10.0.0.1", LOSSES).stdout)["totals"]
        self.assertLess(frames["frames"], 188)

    def test_a_file_that_is_cut_is_read_up_to_there(self):
        whole = LOSSES.read_bytes()
        for length in (0, 10, 24, 30, 100, len(whole) - 1):
            done = analyze("-", input=whole[:length])
            self.assertIn(done.returncode, (0, 2), done.stderr)
        with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
            file.write(b"no capture at all, but longer than a head")
            file.flush()
            done = analyze(file.name)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"neither pcap nor pcapng", done.stderr)


if __name__ == "__main__":
    UROCE = sys.argv.pop(1)
    unittest.main()
