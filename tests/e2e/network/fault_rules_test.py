# SPDX-License-Identifier: Apache-2.0
"""Faults of single packets, by rules: a program meets exactly the fault that a rule says, and the
counters of both ends say what came of it."""
import os
import tempfile
import unittest

from labs.capture import capturing, tshark
from labs.lab import UNPRIVILEGED, UROCE, WireLab
from labs.process import json_of, run, run_status, wait_until
from labs.programs import perftest, pingpong

# Five WRITEs of 64 packets with a path MTU of 1024.
WRITES = ("-n", 5, "-s", 65536, "-m", 1024, "-u", 20)
MIDDLE = ("opcode=WRITE_MIDDLE", "dir=tx", "nth=3")


class FaultRulesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)
        os.chmod(cls.lab.directory, 0o711)  # For the user nobody, who may not.
        # From here on the two NICs repeat lost packets alone.
        wait_until(cls.agree, "an agreement of the two NICs")

    @classmethod
    def agree(cls):
        pingpong(cls.lab, "-n", 100)
        return cls.lab.a.dump("stat")["peers"]["answers_received"]

    def setUp(self):
        run(self.lab.b.uroce("fault", "clear"))

    def set(self, *words):
        run(self.lab.b.uroce("fault", "set", "uroce1", *words))

    def changes(self, *rule):
        """What five WRITEs of `b` to `a` count with a rule on the NIC of `b`: (of a, of b). A NIC
        whose question its peer does not answer within 210 ms, as on a busy machine, repeats all
        packets behind a lost one: such a run is not looked at."""
        return wait_until(lambda: self.run_with_rule(rule),
                          "a connection whose ends repeat lost packets alone")

    def run_with_rule(self, words):
        run(self.lab.b.uroce("fault", "clear"))
        self.set(*words)
        both = self.count(lambda: perftest(self.lab, "ib_write_bw", *WRITES))
        rule = self.rules()[0]
        self.assertEqual(rule["acted"], 1, rule)
        self.assertGreater(rule["matched"], 3, rule)
        return both

    def count(self, work):
        """What `work` counts, (of a, of b); None if `b` has repeated all behind a lost packet."""
        hosts = (self.lab.a, self.lab.b)
        before = [host.counters() for host in hosts]
        work()
        receiver, sender = [{name.removeprefix("counters."): value - old.get(name, 0)
                             for name, value in host.counters().items()
                             if name.startswith("counters.") and isinstance(value, int)}
                            for host, old in zip(hosts, before)]
        goes_back = receiver["out_of_sequence"] > 0 and receiver["kept_out_of_order"] == 0
        return None if goes_back else (receiver, sender)

    def rules(self, device="uroce1"):
        faults = json_of(self.lab.b.uroce("fault", "show", "--json", "-d", device))
        return faults["devices"][0].get("fault_rules", [])

    def test_one_dropped_packet_is_sent_again_alone(self):
        receiver, sender = self.changes("rule=drop", *MIDDLE)
        self.assertEqual(sender["retransmitted_pkts"], 1, sender)
        self.assertEqual(sender["packet_seq_err"], 1, sender)
        self.assertEqual(receiver["rx_write_requests"], 5)

    def test_a_capture_has_the_dropped_packet_twice(self):
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/c.pcapng"

            def capture():
                run(self.lab.b.uroce("fault", "clear"))
                self.set("rule=drop", *MIDDLE)
                with capturing(self.lab.b, path, "-d", "uroce1"):
                    perftest(self.lab, "ib_write_bw", *WRITES)

            wait_until(lambda: self.count(capture), "a capture of one repeated packet")
            psns = tshark(path, "-Y", "infiniband.bth.opcode == 7", "-T", "fields",
                          "-e", "infiniband.bth.psn").split()
        self.assertEqual(len(psns) - len(set(psns)), 1, psns)

    def test_one_corrupt_packet_is_found_by_its_icrc(self):
        receiver, sender = self.changes("rule=corrupt", *MIDDLE)
        self.assertEqual(receiver["rx_icrc_encapsulated"], 1, receiver)
        self.assertEqual(sender["retransmitted_pkts"], 1, sender)

    def test_a_duplicate_is_known_as_one(self):
        receiver, sender = self.changes("rule=duplicate", *MIDDLE)
        self.assertEqual(receiver["duplicate_request"], 1, receiver)
        self.assertEqual(receiver["rx_icrc_encapsulated"], 0, receiver)
        self.assertEqual(sender["retransmitted_pkts"], 0, sender)

    def test_a_mark_is_counted_and_nothing_else_happens(self):
        receiver, sender = self.changes("rule=mark", *MIDDLE)
        self.assertEqual(receiver["np_ecn_marked_roce_packets"], 1, receiver)
        self.assertEqual(receiver["rx_icrc_encapsulated"], 0, receiver)
        self.assertEqual(sender["retransmitted_pkts"], 0, sender)

    def test_a_packet_behind_a_later_one_is_kept_in_order(self):
        receiver, sender = self.changes("rule=reorder:2", *MIDDLE)
        self.assertGreaterEqual(receiver["kept_out_of_order"], 1, receiver)
        self.assertEqual(receiver["rx_icrc_encapsulated"], 0, receiver)
        self.assertEqual(receiver["rx_write_requests"], 5)
        self.assertLessEqual(sender["retransmitted_pkts"], 1, sender)

    def test_a_late_packet_has_been_sent_again(self):
        receiver, sender = self.changes("rule=delay:200ms", *MIDDLE)
        self.assertEqual(sender["retransmitted_pkts"], 1, sender)
        self.assertEqual(receiver["rx_icrc_encapsulated"], 0, receiver)

    def test_lost_answers_cost_retries(self):
        # The fifth one, and those to its first two repetitions.
        self.set("rule=drop", "opcode=READ_RESPONSE_ONLY", "dir=rx", "nth=5", "count=3")
        before = self.lab.b.counters()["counters.retransmitted_pkts"]
        perftest(self.lab, "ib_read_lat", "-n", 10, "-s", 8, "-u", 8)
        self.assertEqual(self.rules()[0]["acted"], 3)
        self.assertGreater(self.lab.b.counters()["counters.retransmitted_pkts"], before)

    def test_a_rule_is_for_one_queue_pair(self):
        self.set("rule=drop", "qpn=0x1", "dir=tx")  # Queue pair 1 of the connection manager.
        pingpong(self.lab, "-n", 100)
        self.assertEqual([rule["rule"] for rule in self.rules()], ["rule=drop,qpn=0x1,dir=tx"])
        self.assertEqual(self.rules()[0]["acted"], self.rules()[0]["matched"])

    def test_rules_are_listed_and_ended(self):
        self.set("rule=drop", "opcode=ack", "nth=7", "rule=mark", "every=10")
        table = run(self.lab.b.uroce("fault"))
        self.assertIn("rule=drop,opcode=ACK,nth=7,count=1", table)
        self.assertIn("rule=mark,every=10", table)
        self.assertEqual(table, run(self.lab.b.uroce("fault", "show")))
        run(self.lab.b.uroce("fault", "clear", "uroce1"))
        self.assertEqual(self.rules(), [])
        self.assertNotIn("rule=", run(self.lab.b.uroce("fault")))

    def test_clear_without_a_name_is_for_all_nics(self):
        for device in ("uroce0", "uroce1"):
            run(self.lab.b.uroce("fault", "set", device, "rule=mark"))
        run(self.lab.b.uroce("fault", "clear"))
        for device in ("uroce0", "uroce1"):
            self.assertEqual(self.rules(device), [])

    def test_wrong_rules_change_nothing(self):
        self.set("rule=mark", "nth=9")
        for words, complaint in ((("set", "uroce1", "rule=lose"), "one of drop, duplicate"),
                                 (("set", "uroce1", "rule=drop", "opcode=WRITE_MIDLE"),
                                  "did you mean WRITE_MIDDLE"),
                                 (("set", "uroce1", "nth=3"), "unknown key"),
                                 (("set", "uroce9", "rule=drop"), "there is no NIC"),
                                 (("clear", "uroce9"), "there is no NIC")):
            with self.subTest(words):
                status, output = run_status(self.lab.b.uroce("fault", *words))
                self.assertEqual(status, 2, output)
                self.assertIn(complaint, output)
        self.assertEqual(self.rules()[0]["rule"], "rule=mark,nth=9,count=1")

    def test_others_may_not_set_them(self):
        for words in (("set", "uroce1", "rule=drop"), ("clear",)):
            status, output = run_status(self.lab.b.namespace.command(
                [*UNPRIVILEGED, UROCE, "--socket", self.lab.b.daemon.socket, "fault", *words]))
            self.assertEqual(status, 2, output)
            self.assertIn("only root and the daemon's user", output)
        self.assertEqual(self.rules(), [])


class RulesOfTheStartTest(unittest.TestCase):
    def test_a_flag_gives_them_too(self):
        lab = WireLab("--fault", "uroce1:rule=drop,opcode=SEND_ONLY,dir=tx,nth=4")
        self.addCleanup(lab.close)
        pingpong(lab, "-n", 20, "-s", 64)
        device = json_of(lab.b.uroce("fault", "--json", "-d", "uroce1"))["devices"][0]
        self.assertEqual(device["fault_transmit"]["dropped"], 1)
        self.assertEqual(device["fault_rules"][0]["acted"], 1)
