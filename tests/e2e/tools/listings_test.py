# SPDX-License-Identifier: Apache-2.0
"""What programs hold, as `uroce ctx`, `pd`, `cq` and their like list it."""
import json
import os
import re
import unittest

from labs.lab import UNPRIVILEGED, UROCE, WireLab, next_port
from labs.process import Process, json_of, run, run_status, wait_until

LISTS = {"ctx": "ctxs", "pd": "pds", "cq": "cqs", "mr": "mrs", "qp": "qps"}


class ListingsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)
        for directory in (cls.lab.directory, os.path.dirname(cls.lab.a.daemon.socket)):
            os.chmod(directory, 0o711)  # Other users look too.
        # Two programs that hold their objects until they are ended.
        cls.programs = []
        for host in (cls.lab.a, cls.lab.b):
            program = host.start("ibv_rc_pingpong", "-d", host.device, "-g", host.gid_index(),
                                 "-p", next_port())
            cls.addClassCleanup(program.kill)
            cls.programs.append(program)
        wait_until(lambda: len(cls.objects("qp")) == 2, "their queue pairs")

    @classmethod
    def objects(cls, command, *filters):
        return json_of(cls.lab.a.uroce(command, "--json", *filters))[LISTS[command]]

    def test_each_program_has_its_objects(self):
        for command in LISTS:
            with self.subTest(command):
                its = self.objects(command)
                self.assertEqual(sorted(each["pid"] for each in its),
                                 sorted(program.pid for program in self.programs))
                self.assertEqual({each["device"] for each in its}, {"uroce0", "uroce1"})

    def test_objects_name_those_that_they_use(self):
        pid = f"pid={self.programs[0].pid}"
        qp, cq, pd, ctx, mr = (self.objects(command, pid)[0]
                               for command in ("qp", "cq", "pd", "ctx", "mr"))
        self.assertEqual((qp["send_cq"], qp["receive_cq"]), (cq["handle"], cq["handle"]))
        self.assertEqual((qp["pd"], mr["pd"]), (pd["pd"], pd["pd"]))
        self.assertEqual({qp["ctx"], cq["ctx"], pd["ctx"]}, {ctx["handle"]})
        self.assertEqual((cq["users"], cq["waiting"], cq["overflowed"]), (2, 0, False))
        self.assertEqual((pd["users"], pd["imported"]), (2, False), "a queue pair and a region")
        self.assertEqual(len(cq["rings"]), 1)

    def test_filters_select(self):
        first, second = (program.pid for program in self.programs)
        qpn = self.objects("qp", "device=uroce1")[0]["qpn"]
        for command in LISTS:
            with self.subTest(command):
                for filter_text, pid in ((f"pid={first}", first), ("device=uroce1", second),
                                         (f"qpn={qpn:#x}", second)):
                    self.assertEqual([each["pid"] for each in self.objects(command, filter_text)],
                                     [pid], filter_text)
                self.assertEqual(self.objects(command, "qpn=1"), [])
                self.assertEqual(run(self.lab.a.uroce(command, f"pid={first}", "qpn=1")),
                                 "none\n")

    def test_tables_are_for_people(self):
        table = run(self.lab.a.uroce("cq", "device=uroce0"))
        self.assertEqual(table.splitlines()[0].split(),
                         ["device", "pid", "uid", "program", "handle", "ctx", "cqe", "waiting",
                          "users", "channel", "overflowed"])
        self.assertEqual(len(table.splitlines()), 2)

    def test_json_says_what_it_is_and_when(self):
        for command in (*LISTS, "devices", "stat", "srq", "peers", "switch", "cm", "cc"):
            with self.subTest(command):
                shown = json_of(self.lab.a.uroce(command, "--json"))
                self.assertEqual(shown["schema"], f"uroce-{command}")
                self.assertEqual(shown["schema_version"], 1)
                self.assertRegex(shown["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")

    def test_watching_prints_a_line_each_time(self):
        watch = Process(self.lab.a.uroce("cq", "--json", "--watch", "0.1", "device=uroce0"))
        self.addCleanup(watch.kill)
        wait_until(lambda: watch.output().count("\n") >= 3, "three looks")
        lines = [json.loads(line) for line in watch.output().split("\n")[:3]]
        self.assertEqual([len(line["cqs"]) for line in lines], [1, 1, 1])
        self.assertEqual(len({line["timestamp"] for line in lines}), 3)

    def test_others_see_their_own_alone(self):
        for command, member in LISTS.items():
            with self.subTest(command):
                text = run([*UNPRIVILEGED, UROCE, "--socket", self.lab.a.daemon.socket, command,
                            "--json"])
                self.assertEqual(json.loads(text)[member], [])

    def test_a_filter_that_can_select_nothing_is_an_error(self):
        for command in ("devices", "stat", "peers", "switch"):
            status, output = run_status(self.lab.a.uroce(command, "pid=1"))
            self.assertEqual(status, 2)
            self.assertRegex(output, rf"{command}: pid= selects nothing here")
        self.assertTrue(re.search("what this queue pair uses", run([UROCE, "cq", "--help"])))
