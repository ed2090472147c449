# SPDX-License-Identifier: Apache-2.0
"""Settings that change while the daemon runs: a file that is read again by a command and SIGHUP,
all of it or nothing; settings that are shown as such a file; settings of NICs."""
import json
import os
import signal
import socket
import tempfile
import unittest
from pathlib import Path

from labs.flows import Flows
from labs.lab import UNPRIVILEGED, UROCE, UROCED, Host, WireLab, next_port
from labs.process import Process, is_listening, json_of, run, run_status, wait_until
from labs.programs import perftest

WIRE = 'a = "10.0.0.1/24"\nb = "10.0.0.2/24"\n'
FILE = f'log_level = "warning"\n[limits]\nmax_pd = 100\n[[wire]]\n{WIRE}'


class ConfigTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="uroce-e2e-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        os.chmod(self.directory, 0o755)
        self.socket = f"{self.directory}/uroced.sock"
        self.file = f"{self.directory}/uroced.toml"

    def write(self, text):
        Path(self.file).write_text(text, encoding="utf-8")

    def start(self, text=FILE, *flags, **environment):
        self.write(text)
        daemon = Process([UROCED, "--no-huge", "--socket", self.socket, "--config", self.file,
                          *flags], {**os.environ, **environment})
        self.addCleanup(daemon.kill)
        wait_until(lambda: "uroced: ready, " in daemon.output(), "the line of a ready daemon")
        return daemon

    def uroce(self, *words):
        return run([UROCE, "--socket", self.socket, *words])

    def refused(self, *words):
        status, output = run_status([UROCE, "--socket", self.socket, *words])
        self.assertEqual(status, 2, output)
        self.assertEqual(len(output.splitlines()), 1, output)
        return output

    def settings(self):
        return json.loads(self.uroce("config", "show", "--json"))

    def devices(self):
        devices = json.loads(self.uroce("devices", "--json"))["devices"]
        return {device["name"]: device for device in devices}

    def test_a_file_is_read_again(self):
        daemon = self.start()
        self.write('log_level = "debug"\nfault = ["b:rule=drop,opcode=CNP", "a:ce=0.5"]\n'
                   f'[limits]\nmax_pd = 7\nmax_sessions = 900\n[[wire]]\n{WIRE}'
                   'rate = "2G"\n"b.rate" = "1G"\ncc = "delay"\n')
        self.uroce("config", "reload")
        keys = [f"{nic}.{key}" for nic in "ab" for key in ("rate", "cc", "fault")]
        expected = ", ".join(["log_level", "limits.max_sessions", "limits.max_pd", *keys])
        wait_until(lambda: f"settings: {expected}\n" in daemon.output(), "what has changed")
        settings = self.settings()
        self.assertEqual(settings["log_level"], "debug")
        self.assertEqual(settings["limits"]["max_pd"], 7)
        self.assertEqual({name: device["rate_bps"] for name, device in self.devices().items()},
                         {"a": 2_000_000_000, "b": 1_000_000_000})
        self.assertEqual(self.devices()["b"]["fault"], "rule=drop,opcode=CNP")
        profiles = json.loads(self.uroce("cc", "parameters", "--json"))["settings"]
        self.assertEqual([each["profile"] for each in profiles], ["delay", "delay"])
        info = run([UROCE, "--socket", self.socket, "run", "--", "ibv_devinfo", "-v", "-d", "a"])
        self.assertRegex(info, r"max_pd:\s+7\n")
        self.write(FILE)
        self.uroce("config", "reload")
        self.assertNotIn("rate_bps", self.devices()["a"])
        self.assertEqual(self.devices()["b"]["fault"], "")

    def test_sighup_reads_it_again_and_ends_nothing(self):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(f"{self.directory}/notify")
        manager.settimeout(30)
        daemon = self.start(NOTIFY_SOCKET=f"{self.directory}/notify")
        self.assertTrue(manager.recv(4096).startswith(b"READY=1"))
        self.write(FILE.replace("warning", "info"))
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "settings: log_level" in daemon.output(), "the new level")
        self.assertTrue(manager.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC="))
        self.assertTrue(manager.recv(4096).startswith(b"READY=1"))
        self.write("workers = nonsense")
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "settings stay as they are: " in daemon.output(), "a complaint")
        self.assertEqual(self.settings()["log_level"], "info")
        self.assertEqual(daemon.stop(), 0)

    def test_all_of_a_file_or_nothing(self):
        self.start()
        before = self.uroce("config", "show")
        debug = FILE.replace("warning", "debug").replace("max_pd = 100", "max_pd = 9")
        for text, complaint in (
                ("workers = 2\n" + debug, "workers: "),
                (debug.replace("[[wire]]", "max_qp = 0\n[[wire]]"), "limits.max_qp: \"0\""),
                (debug + 'c = "10.0.0.3/24"\n', "a wire has two ends"),
                (debug.replace("0.2/24", "0.3/24"), "b.ip: "),
                (debug.replace("b = ", "c = "), "c: a NIC is added"),
                (debug + '[[wire]]\nc = "10.0.1.1/24"\nd = "10.0.1.2/24"\n', "c: a NIC is added"),
                ("logg_level = 1\n" + debug, "did you mean log_level"),
                (debug + "no toml", f"{self.file}:")):
            with self.subTest(complaint):
                self.write(text)
                self.assertIn(complaint, self.refused("config", "reload"))
                self.assertEqual(self.uroce("config", "show"), before)
        os.remove(self.file)
        self.assertIn("cannot be read", self.refused("config", "reload"))
        os.mkfifo(self.file)
        self.assertIn("is no file that can be read again", self.refused("config", "reload"))
        self.assertEqual(self.uroce("config", "show"), before)

    def test_an_empty_file_has_no_settings(self):
        self.start("")
        self.assertEqual(sorted(self.devices()), ["uroce0", "uroce1"])
        self.write('log_level = "debug"\n')
        self.uroce("config", "reload")
        self.write("")
        self.uroce("config", "reload")
        self.assertEqual(self.settings()["log_level"], "info")

    def test_flags_win_over_the_file(self):
        self.start(FILE, "--log-level", "error")
        self.write(FILE.replace("warning", "debug").replace("100", "50"))
        self.uroce("config", "reload")
        self.assertEqual(self.settings()["log_level"], "error")
        self.assertEqual(self.settings()["limits"]["max_pd"], 50)

    def test_what_is_shown_is_a_file_for_a_daemon(self):
        self.start(f'[[wire]]\n{WIRE}rate = "3G"\n[[switch]]\nports = 2\nip = "10.2.0.1/24"\n')
        self.uroce("port", "set", "b", "rate=1G", "cc=dcqcn", "cc.rpg_ai_rate=7")
        self.uroce("port", "set", "a", "rate=off")
        self.uroce("cc", "set", "uroce1", "profile=off")
        self.uroce("fault", "set", "uroce0", "rule=drop", "opcode=CNP")
        self.uroce("config", "set", "log-level=error", "max_qp=99")
        shown = self.uroce("config", "show")
        self.write(shown)
        self.uroce("config", "reload")  # It says what holds, so nothing changes.
        self.assertEqual(sorted(self.uroce("config", "show").splitlines()),
                         sorted(shown.splitlines()))
        self.write("workers = 7\n")
        other = tempfile.TemporaryDirectory(prefix="uroce-e2e-")
        self.addCleanup(other.cleanup)
        path = f"{other.name}/uroced.toml"
        Path(path).write_text(shown, encoding="utf-8")
        again = Process([UROCED, "--config", path, "--socket", f"{other.name}/s"])
        self.addCleanup(again.kill)
        wait_until(lambda: os.path.exists(f"{other.name}/s"), "another daemon")
        told = run([UROCE, "--socket", f"{other.name}/s", "config", "show"])
        self.assertEqual(sorted(told.replace(f"{other.name}/s", self.socket).splitlines()),
                         sorted(shown.splitlines()))

    def test_settings_change_until_the_next_reload(self):
        daemon = self.start()
        self.uroce("config", "set", "log_level=debug", "max_pd=5")
        self.assertEqual(self.settings()["limits"]["max_pd"], 5)
        self.assertIn("settings: log_level, limits.max_pd", daemon.output())
        self.assertIn("did you mean log_level", self.refused("config", "set", "loglevel=info"))
        self.assertIn("not a number", self.refused("config", "set", "max_pd=6", "max_qp=x"))
        self.assertIn("workers: ", self.refused("config", "set", "workers=2"))
        self.assertEqual(self.settings()["limits"]["max_pd"], 5)
        self.uroce("config", "reload")
        self.assertEqual(self.settings()["limits"]["max_pd"], 100)

    def test_limits_of_users_hold_at_once(self):
        self.start()
        # A context and a completion channel take a socket each.
        port = next_port()
        server = [*UNPRIVILEGED, UROCE, "--socket", self.socket, "run", "--",
                  "ibv_rc_pingpong", "-d", "a", "-g", "1", "-e", "-p", port]
        self.uroce("config", "set", "max_sockets_per_user=1")
        status, output = run_status(server)
        self.assertIn("Couldn't create completion channel", output)
        self.assertNotEqual(status, 0)
        self.uroce("config", "set", "max_sockets_per_user=2")
        waiting = Process(server)
        self.addCleanup(waiting.kill)
        wait_until(lambda: is_listening(waiting.pid, port), "a program that waits for its peer")

    def test_limits_of_connections_hold_at_once(self):
        self.start()
        other = [*UNPRIVILEGED, UROCE, "--socket", self.socket]
        monitor = Process([*other, "monitor"])
        self.addCleanup(monitor.kill)
        wait_until(lambda: run_status([*other, "devices"])[0] == 0, "another client")
        self.uroce("config", "set", "max_sessions_per_user=1")
        wait_until(lambda: "see --max-sessions-per-user" in run_status([*other, "devices"])[1],
                   "a refusal")
        self.uroce("config", "set", "max_sessions_per_user=2")
        run([*other, "devices"])

    def test_others_may_look_and_not_change(self):
        self.start()
        for words in (("config", "reload"), ("config", "set", "max_pd=1"),
                      ("port", "set", "a", "rate=1G")):
            with self.subTest(words):
                status, output = run_status([*UNPRIVILEGED, UROCE, "--socket", self.socket, *words])
                self.assertEqual(status, 2, output)
                self.assertIn("only root and the daemon's user", output)
        run([*UNPRIVILEGED, UROCE, "--socket", self.socket, "config", "show"])
        self.assertEqual(self.settings()["limits"]["max_pd"], 100)


class PortTest(unittest.TestCase):
    """A NIC's rate while programs send, on it and on others."""

    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab("--wire", "uroce2=10.0.1.1/24,uroce3=10.0.1.2/24")
        cls.addClassCleanup(cls.lab.close)
        a = cls.lab.a
        cls.lab.hosts = [a, cls.lab.b,
                         *(Host(a.namespace, a.daemon, f"uroce{n + 1}", f"10.0.1.{n}", "")
                           for n in (1, 2))]

    def set(self, *words):
        run(self.lab.a.uroce("port", "set", *words))

    def test_a_limit_holds_at_once_and_ends_at_once(self):
        flows = Flows(self.lab, "ib_write_bw", (1,), 0)
        self.addCleanup(flows.stop)
        wait_until(lambda: flows.gbps(5)[0] > 0.05, "traffic", timeout_s=60)
        self.set("uroce1", "rate=20M")
        self.addCleanup(self.set, "uroce1", "rate=off")
        wait_until(lambda: 0.005 < flows.gbps(6)[0] < 0.022, "the limit", timeout_s=60)
        self.set("uroce1", "rate=off")
        wait_until(lambda: flows.gbps(5)[0] > 0.05, "the end of the limit", timeout_s=60)

    def test_programs_on_other_nics_notice_nothing(self):
        flows = Flows(self.lab, "ib_write_bw", (3,), 2)
        self.addCleanup(flows.stop)
        wait_until(lambda: flows.gbps(5)[0] > 0.05, "traffic", timeout_s=60)
        for rate in ("1G", "500M", "off"):
            self.set("uroce1", f"rate={rate}", "cc=delay")
            perftest(self.lab, "ib_write_bw", "-n", 20)
        run(self.lab.a.uroce("config", "set", "log_level=info", "max_pd=100"))
        self.assertTrue(flows.running())
        counters = self.lab.hosts[3].counters()
        for name in ("retransmitted_pkts", "packet_seq_err", "local_ack_timeout_err"):
            self.assertEqual(counters[f"counters.{name}"], 0, name)

    def test_wrong_words_are_refused(self):
        for words, complaint in ((("uroce1", "mtu=9000"), '"mtu" does not change'),
                                 (("uroce1", "rate=fast"), "bits per second"),
                                 (("uroce1", "rate=1G", "cc=swift"), "is none of"),
                                 (("uroce9", "rate=1G"), "there is no NIC")):
            status, output = run_status(self.lab.a.uroce("port", "set", *words))
            self.assertEqual(status, 2, output)
            self.assertIn(complaint, output)
        devices = json_of(self.lab.a.uroce("devices", "--json"))["devices"]
        self.assertFalse([device for device in devices if "rate_bps" in device], devices)
