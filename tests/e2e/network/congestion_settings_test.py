# SPDX-License-Identifier: Apache-2.0
"""Congestion control that is looked at and changed while programs send over a switch that marks."""
import json
import unittest

from labs.flows import Flows
from labs.process import run, run_status, wait_until
from labs.switch_lab import SwitchLab

RECEIVER = 0
SENDERS = (1, 2, 3)
LINE_BPS = 200_000_000  # So slow that a busy machine fills it, too.


class CongestionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = SwitchLab(f"name=sw0,ports=4,rate={LINE_BPS},delay=5us,ecn=20K:80K:20%,cc=dcqcn")
        cls.addClassCleanup(cls.lab.close)

    def uroce(self, *words):
        return run(self.lab.hosts[0].uroce(*words))

    def flows(self):
        return json.loads(self.uroce("cc", "--json"))["flows"]

    def start_flows(self):
        flows = Flows(self.lab, "ib_write_bw", SENDERS, RECEIVER, "-s", 65536)
        self.addCleanup(flows.stop)
        return flows

    def parameter(self, device, name):
        settings = json.loads(self.uroce("cc", "parameters", "--json"))["settings"]
        return next(each for each in settings if each["device"] == device)[name]

    def test_flows_that_are_marked_are_seen_to_slow_down(self):
        flows = self.start_flows()
        names = {f"uroce{i}" for i in SENDERS}

        def limited():
            """Flows with a rate below the line's, once each sender has one."""
            found = [flow for flow in self.flows()
                     if flow["cnps_handled"] and flow.get("rate_bps", LINE_BPS) < LINE_BPS]
            return {flow["device"] for flow in found} == names and found

        of_sender = next(flow for flow in wait_until(limited, "a lower rate of each", timeout_s=60)
                         if flow["device"] == "uroce1")
        self.assertTrue(flows.running())
        self.assertTrue(of_sender["remote"])
        self.assertGreater(of_sender["window_packets"], 0)
        self.assertTrue(0 <= of_sender["alpha"] <= 1, of_sender)
        answering = [flow for flow in self.flows() if flow["device"] == f"uroce{RECEIVER}"]
        self.assertTrue(all(flow["cnps_sent"] for flow in answering), answering)
        self.assertIn("profile", self.uroce("cc").splitlines()[0])
        # A flow that is back at the line's rate has none in its row.
        wait_until(lambda: "b/s" in self.uroce("cc"), "the row of a flow with a rate")

    def test_parameters_change_while_programs_send(self):
        flows = self.start_flows()
        wait_until(lambda: any("rate_bps" in flow for flow in self.flows()), "a limit",
                   timeout_s=60)
        for sender in SENDERS:
            self.uroce("cc", "set", f"uroce{sender}", "rpg_max_rate=50", "rpg_min_rate=10")
            self.addCleanup(self.uroce, "cc", "set", f"uroce{sender}", "rpg_max_rate=0",
                            "rpg_min_rate=1")
        self.assertEqual(self.parameter("uroce1", "rpg_max_rate"), 50)
        self.assertEqual(self.parameter("uroce0", "rpg_max_rate"), 0)
        # A limited flow comes to its new bound, and one that was at the line's rate gets a limit
        # with its next CNP.
        wait_until(lambda: all(flow["rate_bps"] <= 50_000_000 for flow in self.flows()
                               if "rate_bps" in flow), "rates below the bound", timeout_s=60)
        self.assertTrue(flows.running())

    def test_files_say_what_mlx5s_say(self):
        base = f"{self.lab.hosts[0].daemon.socket}.d/sys/class/infiniband/uroce2/ecn"

        def text(path):
            with open(f"{base}/{path}", encoding="ascii") as file:
                return file.read().strip()

        self.assertEqual(text("profile"), "dcqcn")
        self.assertEqual(text("roce_np/cnp_dscp"), "48")
        self.assertEqual(text("roce_np/enable/3"), "1")
        self.uroce("cc", "set", "uroce2", "cnp_dscp=46", "np_enable=247", "rpg_ai_rate=7")
        self.addCleanup(self.uroce, "cc", "set", "uroce2", "cnp_dscp=48", "np_enable=255",
                        "rpg_ai_rate=0")
        self.assertEqual(text("roce_np/cnp_dscp"), "46")
        self.assertEqual(text("roce_np/enable/3"), "0")
        self.assertEqual(text("roce_np/enable/2"), "1")
        self.assertEqual(text("roce_rp/rpg_ai_rate"), "7")

    def test_a_priority_is_changed_alone(self):
        self.uroce("cc", "set", "uroce3", "3=off", "5=delay")
        self.addCleanup(self.uroce, "cc", "set", "uroce3", "3=dcqcn", "5=dcqcn")
        self.assertEqual([self.parameter("uroce3", str(priority)) for priority in (2, 3, 5)],
                         ["dcqcn", "off", "delay"])
        base = f"{self.lab.hosts[0].daemon.socket}.d/sys/class/infiniband/uroce3/ecn"
        for priority, expected in ((2, "1"), (3, "0"), (5, "1")):
            with open(f"{base}/roce_rp/enable/{priority}", encoding="ascii") as file:
                self.assertEqual(file.read().strip(), expected)

    def test_all_of_a_change_or_nothing(self):
        for words, expected in ((("uroce1", "rpg_ai_rate=7", "alpha=2"), "alpha"),
                                (("uroce1", "rpg_gd=9"), "10 to"),
                                (("uroce1", "profile=swift"), "delay"),
                                (("uroce9", "rpg_ai_rate=7"), "uroce9")):
            with self.subTest(words=words):
                status, output = run_status(self.lab.hosts[0].uroce("cc", "set", *words))
                self.assertEqual(status, 2)
                self.assertIn(expected, output)
        self.assertEqual(self.parameter("uroce1", "rpg_ai_rate"), 0)

    def test_a_profile_is_that_of_new_connections(self):
        self.uroce("cc", "set", "uroce1", "profile=delay")
        self.addCleanup(self.uroce, "cc", "set", "uroce1", "profile=dcqcn")
        self.start_flows()
        wait_until(lambda: any(flow.get("round_trip_us", 0) > 0 for flow in self.flows()
                               if flow["device"] == "uroce1"), "a round trip", timeout_s=60)
        self.assertTrue(all("round_trip_us" not in flow for flow in self.flows()
                            if flow["device"] == "uroce2"))


if __name__ == "__main__":
    unittest.main()
