# SPDX-License-Identifier: Apache-2.0
"""USDT probes: those of the guide are in the program, and fire with the arguments that it names."""
import json
import re
import shutil
import unittest

from labs.lab import ROOT, UROCED, WireLab, next_port
from labs.process import Process, run, wait_until
from labs.programs import pingpong, pingpong_with_losses

REASON_DUPLICATE = 16
GUIDE = (ROOT / "docs/guide/tracing.md").read_text(encoding="utf-8")
# Prints each probe that fires, with its arguments, as a line of JSON.
WATCHER = """
import gdb, json, sys
class Probe(gdb.Breakpoint):
    def __init__(self, name):
        super().__init__("-probe-stap uroce:" + name)
        self.probe = name
    def stop(self):
        count = int(gdb.parse_and_eval("$_probe_argc"))
        values = [int(gdb.parse_and_eval(f"$_probe_arg{i}")) for i in range(count)]
        print(json.dumps({"probe": self.probe, "arguments": values}), flush=True)
        return False
gdb.execute("set pagination off")
for name in NAMES:
    Probe(name)
print("watching", flush=True)
gdb.execute("continue")
"""


def documented():
    """{probe: names of its arguments}, from the guide's table."""
    rows = re.findall(r"(?m)^\| `(\w+)` \| (`.*?`) \|", GUIDE)
    return {name: re.findall(r"`(\w+)`", arguments) for name, arguments in rows}


def built():
    """{probe: the numbers of arguments at its places}, from the notes of the program."""
    found = {}
    notes = run(["readelf", "-n", UROCED])
    for name, arguments in re.findall(
            r"Provider: uroce\n\s+Name: (\w+)\n.*\n\s+Arguments:(.*)", notes):
        found.setdefault(name, set()).add(len(re.findall(r"-?\d+@", arguments)))
    return found


class GuideTest(unittest.TestCase):
    def test_the_program_has_the_probes_of_the_guide(self):
        self.assertEqual(built(), {name: {len(its)} for name, its in documented().items()})

    # A semaphore would be memory that tracers write, and a branch for each packet.
    def test_probes_have_no_semaphore(self):
        notes = run(["readelf", "-n", UROCED])
        semaphores = set(re.findall(r"Provider: uroce\n.*\n.*Semaphore: (\w+)", notes))
        self.assertEqual(semaphores, {"0x0000000000000000"})

    def test_lines_of_bpftrace_use_what_there_is(self):
        lines = re.findall(r"(?m)^    bpftrace -e '(.*)'$", GUIDE)
        self.assertEqual(len(lines), 5)
        for line in lines:
            for name, body in re.findall(r"usdt:\S+:uroce:(\w+) (.*?\})(?= usdt:|$)", line):
                used = {int(number) for number in re.findall(r"\barg(\d)", body)}
                self.assertLess(max(used), len(documented()[name]), line)
        names = set(re.findall(r"uroce:(\w+)", GUIDE))
        self.assertLessEqual(names, set(documented()))

    def test_reasons_and_causes_have_the_numbers_of_captures(self):
        header = (ROOT / "pipeline/shm/abi/uroce_capture.h").read_text(encoding="utf-8")
        reasons = re.findall(r"\bUROCE_REASON_(\w+)(?: = 0)?,", header)
        table = dict(re.findall(r"\| (\d+) \| ([^|]+?) (?=\|)", GUIDE))
        for reason, word in (("BAD_ICRC", "ICRC"), ("DUPLICATE", "duplicate"),
                             ("BAD_RECEIVE", "malformed receive"), ("GHOST", "nothing waits"),
                             ("ABANDONED", "destroyed")):
            self.assertIn(word, table[str(reasons.index(reason))], reason)
        causes = re.findall(r"\bUROCE_RESEND_(\w+)(?: = 0)?,", header)
        self.assertEqual(len(causes), 7)
        self.assertEqual(causes.index("RNR_NAK"), 3)


@unittest.skipIf(shutil.which("gdb") is None, "there is no gdb")
class FiringTest(unittest.TestCase):
    def setUp(self):
        self.lab = WireLab()
        self.gdb = None
        self.addCleanup(self.end)
        wait_until(lambda: "ready, " in self.lab.daemons[0].process.output(), "a ready daemon")

    def watch(self, *names):
        script = f"{self.lab.directory}/watcher.py"
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"NAMES = {names!r}\n{WATCHER}")
        self.gdb = Process(["gdb", "-nx", "-batch", "-p", str(self.lab.daemons[0].process.pid),
                            "-x", script])
        wait_until(lambda: "watching" in self.gdb.output(), "gdb")

    def end(self):
        """Ends the daemon, and gdb with it: a signal to gdb would go on to the daemon."""
        self.lab.close()
        if self.gdb is not None:
            self.gdb.wait(30)

    def fired(self, name):
        """The arguments of each time, by their names."""
        lines = [json.loads(line) for line in self.gdb.output().split("\n")[:-1]
                 if line.startswith('{"probe"')]
        return [dict(zip(documented()[name], line["arguments"])) for line in lines
                if line["probe"] == name]

    def test_a_message_passes_all_joints(self):
        self.watch("register", "post", "send", "receive", "ack", "complete")
        pingpong(self.lab, "-n", 2, "-s", 3000)
        wait_until(lambda: len(self.fired("complete")) >= 8, "the completions of both sides")
        posts, completions = self.fired("post"), self.fired("complete")
        qpns = {post["qpn"] for post in posts}
        self.assertEqual(len(qpns), 2)
        self.assertEqual([post["length"] for post in posts], [3000] * 4)
        self.assertEqual({each["status"] for each in completions}, {0})
        self.assertEqual({each["qpn"] for each in completions}, qpns)
        received = [each for each in completions if each["opcode"] == 128]
        self.assertEqual([each["length"] for each in received], [3000] * 4)
        # A program has a ring for the payload of memory that the daemon does not map.
        self.assertIn(3000, [each["length"] for each in self.fired("register")])
        # What one side sends the other one receives: the frame has the payload and its headers.
        sent = {(each["psn"], each["opcode"]): each for each in self.fired("send")}
        for each in self.fired("receive"):
            frame = sent[each["psn"], each["opcode"]]
            self.assertGreaterEqual(frame["frame_length"], each["payload_length"] + 58)
            self.assertLess(frame["frame_length"], each["payload_length"] + 90)
        acks = self.fired("ack")
        self.assertEqual({each["is_sent"] for each in acks}, {0, 1})

    def test_losses_and_their_repair_are_seen(self):
        run(self.lab.a.uroce("fault", "set", "uroce0", "drop=0.1", "duplicate=0.2"))
        self.watch("drop", "retransmit", "nak")
        pingpong_with_losses(self.lab, "-n", 60, "-s", 8192)
        self.assertIn(REASON_DUPLICATE, {each["reason"] for each in self.fired("drop")})
        again = self.fired("retransmit")
        self.assertTrue(again)
        self.assertLessEqual({each["cause"] for each in again}, set(range(7)))

    def test_a_peer_that_is_silent_causes_timeouts(self):
        self.watch("timeout", "complete")
        port = next_port()
        arguments = ["ibv_rc_pingpong", "-n", "1000000", "-p", port]
        server = self.lab.a.start(*arguments, "-d", self.lab.a.device, "-g", self.lab.a.gid_index())
        self.addCleanup(server.kill)
        wait_until(lambda: self.lab.a.is_listening(server, port), "the server")
        client = self.lab.b.start(*arguments, "-d", self.lab.b.device, "-g",
                                  self.lab.b.gid_index(), self.lab.server_address)
        self.addCleanup(client.kill)
        wait_until(lambda: len(self.fired("complete")) > 10, "messages")
        run(self.lab.a.uroce("fault", "set", "uroce0", "drop=1"))
        wait_until(lambda: any(each["count"] == 2 for each in self.fired("timeout")), "timeouts")
        qpn = next(each["qpn"] for each in self.fired("timeout") if each["count"] == 2)
        # A machine that stood still may have caused one that progress ended.
        counts = [each["count"] for each in self.fired("timeout") if each["qpn"] == qpn]
        self.assertEqual(counts[counts.index(2) - 1], 1, counts)
