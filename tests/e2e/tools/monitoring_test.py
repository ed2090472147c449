# SPDX-License-Identifier: Apache-2.0
"""What watches the daemon: files of counters, node_exporter, metrics, events, rates, the log."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import termios
import time
import unittest
from pathlib import Path

from labs.control import ABI_VERSION, Client
from labs.lab import ROOT, UROCE, UROCED, WireLab, next_port
from labs.process import PATIENCE, Failed, Process, json_of, run, run_status, wait_until
from labs.programs import pingpong

PYTHON = "/usr/bin/python3"  # For which Debian has pyverbs and prometheus_client.
DASHBOARD = ROOT / "tools" / "packaging" / "grafana" / "uroce.json"
UNPRIVILEGED = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class CounterFilesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)
        cls.tree = Path(f"{cls.lab.a.daemon.socket}.d/sys")

    @classmethod
    def file(cls, name, device="uroce0"):
        return cls.tree / "class/infiniband" / device / "ports/1" / name

    def value(self, name):
        return int(self.file(name).read_text())

    def test_files_say_what_uroce_stat_says(self):
        pingpong(self.lab, "-n", 100)
        self.assertGreater(self.lab.a.counters()["counters.port_rcv_bytes"], 100 * 4096)

        def differing():
            """{name: (counted, in its file)}, of those that differ."""
            counters = {name.removeprefix("counters."): value
                        for name, value in self.lab.a.counters().items()
                        if name.startswith("counters.")}
            files = {f"hw_counters/{name}": value for name, value in counters.items()
                     if self.file(f"hw_counters/{name}").exists()}
            files["counters/port_rcv_data"] = counters["port_rcv_bytes"] // 4
            files["counters/port_xmit_packets"] = counters["port_xmit_packets"]
            return {name: (value, its) for name, value in files.items()
                    if (its := self.value(name)) != value}

        # The last acknowledgement may be on its way when the programs have ended.
        with contextlib.suppress(Failed):
            wait_until(lambda: not differing(), "files that say what the daemon counts")
        self.assertEqual(differing(), {})

    def has_lease(self, name):
        """Whether the daemon is told when a file of counters is opened: then it writes it first."""
        inode = self.file(name).stat().st_ino
        return any(re.search(rf" LEASE  ACTIVE .*:{inode} ", line)
                   for line in Path("/proc/locks").read_text().splitlines())

    # The last number that a program counts is there as soon as the program has ended, though
    # files are written once a second where there are no leases.
    def test_looks_see_what_was_counted_before(self):
        for _ in range(10):
            before = self.value("counters/port_rcv_packets")
            wait_until(lambda: self.has_lease("counters/port_rcv_packets"), "the next lease")
            pingpong(self.lab, "-n", 50)
            self.assertGreaterEqual(self.value("counters/port_rcv_packets"), before + 50)

    def test_a_reader_that_keeps_a_file_open_delays_no_other(self):
        with open(self.file("counters/port_rcv_packets"), encoding="ascii"):
            before = self.value("counters/port_rcv_packets")
            pingpong(self.lab, "-n", 50)
            wait_until(lambda: self.value("counters/port_rcv_packets") >= before + 50,
                       "a file that is written once a second")

    def test_programs_find_them_in_sys(self):
        path = "/sys/class/infiniband/uroce0/ports/1/counters/port_rcv_data"
        self.assertTrue(self.lab.a.run("cat", path).strip().isdigit())
        output = self.lab.a.run("ibstat", "uroce0")
        self.assertIn("State: Active", output)
        self.assertIn("Link layer: Ethernet", output)

    # With no timeout, a daemon that did not give its leases up would have readers wait for 45 s.
    def test_files_can_be_read_when_the_daemon_is_gone(self):
        lab = WireLab()
        self.addCleanup(lab.tear_down)
        path = Path(f"{lab.a.daemon.socket}.d/sys/class/infiniband/uroce0/ports/1/counters")
        time.sleep(0.1)
        lab.daemons[0].process.kill()
        began = time.monotonic()
        self.assertEqual((path / "link_downed").read_text(), "0\n")
        self.assertLess(time.monotonic() - began, 20 * PATIENCE)

    def test_node_exporter_reads_them(self):
        if shutil.which("prometheus-node-exporter") is None:
            self.skipTest("there is no prometheus-node-exporter")
        port = next_port()
        # It wants to ask for the ids of PCI devices, too.
        exporter = Process(self.lab.a.namespace.command([
            "prometheus-node-exporter", "--collector.disable-defaults", "--collector.infiniband",
            f"--path.sysfs={self.tree}", f"--web.listen-address=127.0.0.1:{port}"]))
        self.addCleanup(exporter.kill)

        def scrape():
            return run_status(self.lab.a.namespace.command(
                ["curl", "-s", f"http://127.0.0.1:{port}/metrics"]))

        wait_until(lambda: scrape()[0] == 0, "node_exporter")
        counters = self.lab.a.counters()
        wait_until(lambda: self.value("counters/port_rcv_data") ==
                   counters["counters.port_rcv_bytes"] // 4, "the last bytes")
        text = scrape()[1]
        self.assertIn('node_scrape_collector_success{collector="infiniband"} 1', text)
        seen = dict(re.findall(r'(node_infiniband_\w+)\{device="uroce0",port="1"\} (\S+)', text))
        # It shows bytes: it multiplies words by 4.
        self.assertEqual(float(seen["node_infiniband_port_data_received_bytes_total"]),
                         counters["counters.port_rcv_bytes"] // 4 * 4)
        self.assertEqual(float(seen["node_infiniband_port_packets_transmitted_total"]),
                         counters["counters.port_xmit_packets"])
        self.assertEqual(float(seen["node_infiniband_link_downed_total"]), 0)
        self.assertGreater(len(seen), 15)


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)
        cls.path = f"{cls.lab.directory}/metrics.sock"
        # One that was killed has left its socket.
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(cls.path)
        cls.daemon = cls.lab._add_daemon(
            cls.lab.a.namespace, "--wire", "m0=10.1.0.1/24,m1=10.1.0.2/24", "--metrics", cls.path)
        wait_until(lambda: "ready, " in cls.daemon.process.output(), "a ready daemon")

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        self.addCleanup(connection.close)
        connection.connect(self.path)  # Blocking, it waits where many have just come.
        connection.settimeout(30 * PATIENCE)
        return connection

    def ask(self, request):
        connection = self.connect()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                data += piece
        return data

    def get(self, path="/metrics"):
        connection = self.connect()
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.getheader("Content-Type"), response.read().decode()

    def test_the_text_is_open_metrics(self):
        status, kind, text = self.get()
        self.assertEqual(status, 200)
        self.assertIn("application/openmetrics-text; version=1.0.0", kind)
        file = f"{self.lab.directory}/open_metrics.txt"
        Path(file).write_text(text, encoding="utf-8")
        families = json_of([PYTHON, "-c", PARSE, file])
        self.assertEqual(families["uroce_port_rcv_bytes"]["unit"], "bytes")
        for name, family in families.items():
            self.assertNotIn(family["help"], ("", name.removeprefix("uroce_")),
                             f"{name} has no help")
        devices = {labels["device"] for labels in families["uroce_out_of_sequence"]["labels"]}
        self.assertEqual(devices, {"m0", "m1"})

    def test_promtool_has_no_complaint(self):
        if shutil.which("promtool") is None:
            self.skipTest("there is no promtool")
        text = self.get()[2]
        file = f"{self.lab.directory}/metrics.txt"
        # It reads the older format, which has no UNIT and EOF, and types samples, not families.
        plain = [line for line in text.splitlines() if not re.match(r"# (UNIT|EOF)", line)]
        counters = set(re.findall(r"(?m)^# TYPE (\S+) counter", text))
        plain = [re.sub(r"^(# (?:TYPE|HELP) )(\S+)",
                        lambda m: m[1] + m[2] + ("_total" if m[2] in counters else ""), line)
                 for line in plain]
        Path(file).write_text("\n".join(plain) + "\n", encoding="utf-8")
        status, output = run_status(["sh", "-c", f"promtool check metrics < {file}"])
        self.assertEqual((status, output), (0, ""))

    def test_the_dashboard_asks_for_what_there_is(self):
        text = self.get()[2]
        there = set(re.findall(r"(?m)^(\w+)(?:\{| )", text))
        dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        asked = set(re.findall(r"\buroce_\w+", json.dumps(
            [dashboard["panels"], dashboard["templating"]])))
        self.assertGreater(len(asked), 15)
        # Programs have lines once there are some.
        self.assertLessEqual(asked - {"uroce_program_queue_pairs"}, there)
        queries = {(panel["type"], target["expr"])
                   for panel in dashboard["panels"] for target in panel["targets"]}
        for family in re.findall(r"(?m)^# TYPE (\S+) histogram", text):
            for kind, function in (("timeseries", "histogram_quantile"), ("heatmap", "increase")):
                asks = [query for its, query in queries
                        if its == kind and function in query and f"{family}_bucket" in query]
                self.assertTrue(asks, f"no {kind} of {family}")

    def test_promtool_reads_the_queries_of_the_dashboard(self):
        if shutil.which("promtool") is None:
            self.skipTest("there is no promtool")
        dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        rules = [{"record": f"panel_{panel['id']}_{target['refId']}",
                  "expr": target["expr"].replace("$__rate_interval", "1m")}
                 for panel in dashboard["panels"] for target in panel["targets"]]
        file = f"{self.lab.directory}/rules.yml"
        Path(file).write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}),
                              encoding="utf-8")
        status, output = run_status(["promtool", "check", "rules", file])
        self.assertEqual(status, 0, output)

    def test_anything_else_is_an_error(self):
        self.assertEqual(self.get("/")[0], 404)
        self.assertIn(b" 404 ", self.ask(b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n"))
        self.assertIn(b" 400 ", self.ask(b"\x00\x01\x02\r\n\r\n") or b" 400 ")

    def test_many_ranges_get_the_text_once(self):
        text = self.get()[2]
        answer = self.ask(b"GET /metrics HTTP/1.1\r\nHost: a\r\nRange: bytes=0-"
                          + b",0-" * 2000 + b"\r\n\r\n")
        self.assertLess(len(answer), 2 * len(text))

    def test_silent_clients_delay_no_other(self):
        silent = [self.connect() for _ in range(40)]
        self.assertEqual(self.get()[0], 200)
        more = [self.connect() for _ in range(100)]
        self.assertEqual(self.get()[0], 200)
        for connection in silent + more:
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(connection.recv(100), b"", "ended by the daemon")

    def test_slow_many_and_huge_clients_end_and_others_are_served(self):
        slow = [self.connect() for _ in range(40)]
        for connection in slow:
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        huge = self.ask(b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n")
        self.assertNotIn(b"200 OK", huge)
        self.assertNotIn(b"200 OK", self.ask(
            b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 100000 + b"\r\n"))
        # The daemon itself has noticed nothing.
        began = time.monotonic()
        self.assertIn("m0", run([UROCE, "--socket", self.daemon.socket, "qp"])
                      + "m0")
        self.assertLess(time.monotonic() - began, 10 * PATIENCE)
        for connection in slow:
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(connection.recv(100), b"", "ended by the daemon")

        def is_served():
            try:
                return self.get()[0] == 200
            except (OSError, http.client.HTTPException):
                return False

        wait_until(is_served, "a scrape after the flood")

    def start_server(self, daemon, device):
        environment = {**os.environ, "UROCE_SOCKET": daemon.socket}
        server = Process(self.lab.a.namespace.command(
            [UROCE, "--socket", daemon.socket, "run", "--",
             "ibv_rc_pingpong", "-d", device, "-g", "1", "-p", str(next_port())]), environment)
        self.addCleanup(server.kill)
        return server

    def test_programs_have_their_lines(self):
        server = self.start_server(self.daemon, "m0")
        line = rf'uroce_program_queue_pairs{{program="ibv_rc_pingpong",pid="{server.pid}",' \
               r'session="\d+"} 1'
        wait_until(lambda: re.search(line, self.get()[2]), "the line of a program")

    def check_taken(self, place):
        status, output = run_status(self.lab.a.namespace.command(
            [UROCED, "--no-huge", "--socket", f"{self.lab.directory}/other.sock", "--metrics",
             place]))
        self.assertEqual(status, 1, output)
        self.assertIn(f"--metrics: cannot listen on {place}: Address already in use", output)

    def test_a_place_that_is_taken_is_an_error(self):
        self.check_taken(self.path)

    def test_an_address_serves_too(self):
        port = next_port()
        daemon = self.lab._add_daemon(
            self.lab.a.namespace, "--wire", "t0=10.2.0.1/24,t1=10.2.0.2/24", "--metrics",
            f"127.0.0.1:{port}")

        def scrape():
            return run_status(self.lab.a.namespace.command(
                ["curl", "-s", f"http://127.0.0.1:{port}/metrics"]))

        wait_until(lambda: scrape()[0] == 0, "a port that listens")
        self.assertIn('device="t0"', scrape()[1])
        self.start_server(daemon, "t0")
        wait_until(lambda: "uroce_programs 1\n" in scrape()[1], "the number of programs")
        self.assertNotIn("ibv_rc_pingpong", scrape()[1], "any user can connect")
        self.check_taken(f"127.0.0.1:{port}")
        self.assertTrue(daemon.process.running())


# A strict parser of OpenMetrics; prints what it has read.
PARSE = """
import json, sys
from prometheus_client.openmetrics import parser
families = parser.text_string_to_metric_families(open(sys.argv[1]).read())
print(json.dumps({family.name: {"unit": family.unit, "help": family.documentation,
                                "labels": [sample.labels for sample in family.samples]}
                  for family in families}))
"""
CHANGES = 4000
# Moves a queue pair to INIT and back.
MANY_CHANGES = f"""
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
import pyverbs.enums as e
context = Context(name="uroce0")
pd = PD(context)
cq = CQ(context, 10)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(1, 1, 1, 1)))
for _ in range({CHANGES // 2}):
    qp.to_init(QPAttr(port_num=1))
    qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
"""


def events(process):
    """Those that a monitor has printed; its last line may not be complete."""
    return [json.loads(line) for line in process.output().split("\n")[:-1]]


class MonitorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)
        for directory in (cls.lab.directory, os.path.dirname(cls.lab.a.daemon.socket)):
            os.chmod(directory, 0o711)

    def watch(self):
        monitor = Process(self.lab.a.uroce("monitor"))
        self.addCleanup(monitor.kill)
        # It watches once a program that joins is seen.
        wait_until(lambda: self.lab.a.run("ibv_devices") and monitor.output(), "a first event")
        return monitor

    def test_programs_and_their_queue_pairs_come_and_go(self):
        monitor = self.watch()
        pingpong(self.lab, "-n", 10)

        def is_over():
            seen = [event for event in events(monitor) if event.get("program") == "ibv_rc_pingpong"]
            return sum(event["event"] == "program_left" for event in seen) == 2 and sum(
                event["event"] == "queue_pair" and event["to"] == "" for event in seen) == 2

        wait_until(is_over, "the end of both programs")
        states = [(event["from"], event["to"]) for event in events(monitor)
                  if event["event"] == "queue_pair" and event["device"] == "uroce0"]
        # A look may come before the first change.
        self.assertTrue({("", "INIT"), ("RESET", "INIT")} & set(states), states)
        self.assertIn(("INIT", "RTR"), states)
        self.assertIn(("RTR", "RTS"), states)
        for event in events(monitor):
            self.assertRegex(event["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")

    def test_filters_choose(self):
        monitor = Process(self.lab.a.uroce("monitor", "device=uroce1", "--count", "2"))
        self.addCleanup(monitor.kill)
        wait_until(lambda: pingpong(self.lab, "-n", 10) and not monitor.running(), "two events")
        self.assertEqual(monitor.wait(10), 0)
        self.assertEqual([event["device"] for event in events(monitor)], ["uroce1", "uroce1"])

    # A user sees no programs of other users.
    def test_another_user_sees_no_programs_of_others(self):
        everybody = self.watch()
        other = Process([*UNPRIVILEGED, UROCE, "--socket", self.lab.a.daemon.socket, "monitor"])
        self.addCleanup(other.kill)
        time.sleep(0.3)
        before = len(events(everybody))
        self.lab.a.run("ibv_devices")
        wait_until(lambda: len(events(everybody)) > before, "an event")
        self.assertEqual(other.output(), "")

    def test_a_slow_reader_loses_events_and_is_told_how_many(self):
        monitor = self.watch()
        monitor.signal(signal.SIGSTOP)
        # Its socket and the daemon keep some 900 events.
        self.lab.a.run(PYTHON, "-c", MANY_CHANGES, timeout_s=120)
        monitor.signal(signal.SIGCONT)

        def lost():
            self.lab.a.run("ibv_devices")
            return [event["count"] for event in events(monitor) if event["event"] == "lost"]

        wait_until(lost, "word of what is lost")
        told = [event for event in events(monitor)
                if event["event"] == "queue_pair" and event["program"].startswith("python3")]
        self.assertGreater(len(told), 300)
        self.assertGreater(lost()[0], 100)
        self.assertLessEqual(len(told) + sum(lost()), CHANGES + 100)


class EndOfTheDaemonTest(unittest.TestCase):
    """A command that watches a daemon says that it has ended, at once, and has exit status 1."""

    def setUp(self):
        self.lab = WireLab()
        self.addCleanup(self.lab.tear_down)

    def watch(self, *arguments):
        watcher = Process(self.lab.a.uroce(*arguments))
        self.addCleanup(watcher.kill)
        return watcher

    def end_is_said(self, how):
        pcap = f"{self.lab.directory}/roce.pcapng"
        watchers = [self.watch(*words) for words in (
            ("stat", "--watch", "0.1"), ("devices", "--json", "--watch", "3600"),
            ("top", "--batch", "--watch", "0.2"), ("monitor",), ("capture", "-w", pcap))]
        stat, devices, top, monitor, capture = watchers
        wait_until(lambda: stat.output().count("nothing counted") > 2, "some looks")
        wait_until(lambda: "uroce0" in devices.output(), "a look")
        wait_until(lambda: "capturing on" in capture.output(), "a capture")
        wait_until(lambda: self.lab.a.run("ibv_devices") and monitor.output(), "a first event")
        wait_until(lambda: "queue pairs" in top.output(), "a table")
        self.lab.daemons[0].process.signal(how)
        began = time.monotonic()
        for watcher in watchers:
            self.assertEqual(watcher.wait(30), 1, watcher.describe())
            self.assertTrue(watcher.output().endswith("uroce: the daemon has ended\n"),
                            watcher.describe())
            self.assertNotIn("no daemon", watcher.output())
        self.assertLess(time.monotonic() - began, 20 * PATIENCE)
        run([self.tshark(), "-r", pcap])

    @staticmethod
    def tshark():
        return shutil.which("tshark") or "true"

    def test_one_that_ends(self):
        self.end_is_said(signal.SIGTERM)

    def test_one_that_dies(self):
        self.end_is_said(signal.SIGKILL)

    def test_another_on_the_socket_is_not_the_one_that_was_watched(self):
        watcher = self.watch("devices", "--watch", "3600")
        wait_until(lambda: "uroce0" in watcher.output(), "a look")
        self.lab.daemons.pop().stop()
        second = Process(self.lab.a.namespace.command(
            [UROCED, "--socket", self.lab.a.daemon.socket, "--no-huge"]))
        self.addCleanup(second.kill)
        self.assertEqual(watcher.wait(30), 1)
        self.assertIn("uroce: the daemon has ended", watcher.output())

    def test_a_terminal_is_as_it_was_and_has_the_line(self):
        leader, follower = os.openpty()
        self.addCleanup(os.close, leader)
        before = termios.tcgetattr(follower)
        top = subprocess.Popen([str(word) for word in self.lab.a.uroce("top", "--watch", "3600")],
                               stdin=follower, stdout=follower, stderr=follower,
                               env={**os.environ, "TERM": "xterm"})
        self.addCleanup(top.kill)
        text = b""
        while b"q ends it" not in text:
            text += os.read(leader, 4096)
        self.assertNotEqual(termios.tcgetattr(follower), before)
        self.lab.daemons[0].process.signal(signal.SIGKILL)
        self.assertEqual(top.wait(30 * PATIENCE), 1)
        self.assertEqual(termios.tcgetattr(follower), before)
        os.close(follower)
        with contextlib.suppress(OSError):
            while piece := os.read(leader, 4096):
                text += piece
        screen, _, line = text.rpartition(b"\x1b[?1049l")  # xterm leaves its second screen.
        self.assertIn(b"q ends it", screen)
        self.assertIn(b"uroce: the daemon has ended\r\n", line)


class TopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def test_rates_of_programs_are_shown(self):
        top = Process(self.lab.a.uroce("top", "--batch", "--watch", "0.2"))
        self.addCleanup(top.kill)
        wait_until(lambda: pingpong(self.lab, "-n", 3000) and
                   re.search(r"(?m)^ibv_rc_pingpong +\d+ +1 +\S+ [kMG]b/s", top.output()), "a rate")

    def test_a_full_screen_needs_a_terminal(self):
        status, output = run_status(self.lab.a.uroce("top"))
        self.assertEqual(status, 2)
        self.assertIn("try --batch", output)

    def test_a_terminal_shows_it_until_q(self):
        leader, follower = os.openpty()
        self.addCleanup(os.close, leader)
        environment = {**os.environ, "TERM": "xterm"}
        top = subprocess.Popen([str(word) for word in self.lab.a.uroce("top", "--watch", "0.1")],
                               stdin=follower, stdout=follower, stderr=follower, env=environment)
        os.close(follower)
        self.addCleanup(top.kill)
        text = b""
        while b"0 queue pairs" not in text:
            text += os.read(leader, 4096)
        os.write(leader, b"q")
        with contextlib.suppress(OSError):
            while os.read(leader, 4096):
                pass
        self.assertEqual(top.wait(30), 0)


class LogTest(unittest.TestCase):
    def daemon(self, *arguments):
        lab = WireLab(*arguments)
        self.addCleanup(lab.tear_down)
        return lab

    def test_programs_join_and_leave(self):
        lab = self.daemon()
        lab.a.run("ibv_devices")
        text = lab.daemons[0].process.output
        wait_until(lambda: re.search(r"info: session \d+: ibv_devices \(pid \d+\) left", text()),
                   "a line")
        self.assertRegex(text(), r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d uroced "
                                 r"info: session \d+: ibv_devices \(pid \d+\) joined$")

    def test_lines_that_are_left_out_are_counted_at_the_end_too(self):
        lab = self.daemon()
        programs = 300  # This one, over and over: much faster than lines may be written.
        for _ in range(programs):
            client = Client(lab.a.daemon.socket)
            client.call("HELLO", "II", ABI_VERSION, 0)
            client.socket.close()
        text = lab.daemons[0].process.output
        lab.close()
        told = len(re.findall(r" (joined|left(: the program closed its socket)?)$", text(), re.M))
        left_out = re.findall(r"user 0: (\d+) lines left out here", text())
        self.assertLess(told, 2 * programs)
        self.assertEqual(told + sum(map(int, left_out)), 2 * programs)

    def test_json_has_one_object_a_line(self):
        lab = self.daemon("--log-format", "json")
        lab.a.run("ibv_devices")
        text = lab.daemons[0].process.output
        wait_until(lambda: " left" in text(), "a line")
        lines = [json.loads(line) for line in text().splitlines()]
        self.assertIn("ready, socket", lines[0]["message"])
        for line in lines:
            self.assertEqual(list(line), ["timestamp", "level", "message"])
            self.assertRegex(line["timestamp"], r"[+-]\d\d:\d\d$")

    def test_a_bad_form_or_place_is_refused(self):
        for flags, reason in ((("--log-format", "xml"), '"xml" is neither text nor json'),
                              (("--metrics", "localhost:1"), "--metrics: ")):
            status, output = run_status([UROCED, *flags])
            self.assertEqual(status, 2)
            self.assertIn(reason, output)

    def test_lines_have_priorities_in_the_journal_alone(self):
        file = "/tmp/uroce-e2e-journal"
        self.addCleanup(os.unlink, file)
        with open(file, "w", encoding="utf-8") as stream:
            status = os.fstat(stream.fileno())
        command = f"JOURNAL_STREAM={status.st_dev}:{status.st_ino} exec {UROCED} --no-huge " \
                  f"--socket /tmp/uroce-e2e-journal.sock 2>>{file}"
        daemon = Process(["sh", "-c", command])
        self.addCleanup(daemon.kill)
        wait_until(lambda: "ready" in Path(file).read_text(), "a ready daemon")
        daemon.stop()
        self.assertRegex(Path(file).read_text(), r"(?m)^<6>\d{4}-.* uroced info: stopping")


if __name__ == "__main__":
    unittest.main()
