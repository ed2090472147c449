# SPDX-License-Identifier: Apache-2.0
"""`uroce doctor`: it finds what is broken, and its command mends it."""
import json
import os
import re
import shutil
import signal
import tempfile
import unittest

from labs.lab import UROCE, UROCED, Daemon, VethLab, WireLab
from labs.process import Process, run_status, wait_until
from labs.programs import pingpong


def examine(namespace, socket):
    """(exit status, findings) of uroce doctor."""
    status, output = run_status(namespace.command([UROCE, "doctor", "--json", "--socket", socket]))
    return status, json.loads(output)["findings"]


def find(findings, level, text):
    return [finding for finding in findings
            if finding["level"] == level and text in finding["text"]]


class DoctorOfASharedCpuTest(unittest.TestCase):
    def setUp(self):
        self.lab = WireLab("--workers", "1")
        self.addCleanup(self.lab.close)
        self.lab.a.dump("devices")  # It answers when its workers are there.
        tasks = f"/proc/{self.lab.a.daemon.process.pid}/task"
        self.threads = [int(thread) for thread in os.listdir(tasks)]
        (self.worker,) = [thread for thread in self.threads
                          if _text_of(f"{tasks}/{thread}/comm") == "uroce-worker\n"]

    def share_its_cpu(self):
        """With a program that computes, until the worker has waited a second in all."""
        cpu = {min(os.sched_getaffinity(self.worker))}
        busy = Process(["python3", "-c", "while True: pass"])
        self.addCleanup(busy.kill)
        for thread in (self.worker, busy.pid):
            os.sched_setaffinity(thread, cpu)

        def has_waited():
            pingpong(self.lab, "-n", 2000)
            (worker,) = self.lab.a.dump("stat")["workers"]
            return (worker["cpu_wait_ms"] > max(1000, worker["cpu_ms"] // 4)
                    and worker["involuntary_switches"] > 0)
        wait_until(has_waited, "the worker to wait for its CPU")

    def test_a_worker_that_waits_for_its_cpu_is_a_note_with_the_command_that_helps(self):
        self.share_its_cpu()
        status, findings = examine(self.lab.a.namespace, self.lab.a.daemon.socket)
        (note,) = find(findings, "note", "worker 0 had no CPU for")
        self.assertEqual(status, 0)
        run_status(["sh", "-c", note["fix"].removeprefix("sudo ")])
        for thread in self.threads:
            self.assertEqual(os.getpriority(os.PRIO_PROCESS, thread), -5)

    def test_the_table_of_workers_has_it(self):
        status, table = run_status(self.lab.a.uroce("stat", "--workers"))
        self.assertEqual(status, 0)
        for column in ("cpu_ms", "cpu_wait_ms", "involuntary_switches"):
            self.assertIn(column, table.split("\n", maxsplit=1)[0])


def _text_of(path):
    with open(path, encoding="ascii") as file:
        return file.read()


class DoctorOnWireTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def test_running_daemon_and_its_devices_are_no_problem(self):
        status, findings = examine(self.lab.a.namespace, self.lab.a.daemon.socket)
        self.assertEqual((status, find(findings, "problem", "")), (0, []))
        for text in ("release", "uroce0: MTU", "uroce1: MTU"):
            self.assertTrue(find(findings, "ok", text), text)

    def test_addresses_that_the_kernel_lacks_are_a_note_until_they_are_given_to_it(self):
        _, findings = examine(self.lab.a.namespace, self.lab.a.daemon.socket)
        (note,) = find(findings, "note", "the kernel does not know 10.0.0.1")
        self.assertIn("--wire-interfaces", note["fix"])
        lab = WireLab("--wire-interfaces")
        try:
            _, findings = examine(lab.a.namespace, lab.a.daemon.socket)
            self.assertEqual(find(findings, "note", "the kernel does not know"), [])
        finally:
            lab.close()

    def test_a_daemon_is_restarted_with_its_flags(self):
        _, findings = examine(self.lab.a.namespace, self.lab.a.daemon.socket)
        (note,) = find(findings, "note", "the kernel does not know 10.0.0.1")
        self.assertRegex(note["fix"], r"uroced --socket \S+ .* --wire-interfaces &$")

    def test_json_says_what_it_is_and_when(self):
        _, output = run_status(self.lab.a.uroce("doctor", "--json"))
        self.assertEqual(list(json.loads(output))[:4],
                         ["timestamp", "schema", "schema_version", "findings"])

    def test_a_daemon_that_is_stopped_is_a_problem_and_others_say_whom_they_wait_for(self):
        lab = WireLab()
        self.addCleanup(lab.close)
        daemon = lab.a.daemon.process
        lab.a.dump("devices")
        daemon.signal(signal.SIGSTOP)
        try:
            status, findings = examine(lab.a.namespace, lab.a.daemon.socket)
            self.assertEqual(status, 1)
            (problem,) = find(findings, "problem", "it is stopped")
            self.assertEqual(problem["fix"], f"sudo kill -CONT {daemon.pid}")
            printed = tempfile.TemporaryFile()
            self.addCleanup(printed.close)
            waiting = Process(lab.a.uroce("devices", "--json"), stdout=printed)
            self.addCleanup(waiting.kill)
            wait_until(lambda: f"the daemon (pid {daemon.pid}) is stopped, by" in
                       waiting.output(), "the line of a command that waits")
        finally:
            daemon.signal(signal.SIGCONT)
        self.assertEqual(waiting.wait(10), 0)
        printed.seek(0)
        self.assertIn("devices", json.load(printed), "the line is no part of what it prints")

    def test_table_says_the_same_as_json(self):
        command = self.lab.a.uroce("doctor")
        status, table = run_status(command)
        self.assertEqual(status, 0, table)
        self.assertRegex(table, r"(?m)^ok +daemon +release")
        self.assertRegex(table, r"(?m)^0 problems, \d+ notes?$")

    def test_missing_daemon_is_a_problem_with_the_command_that_starts_it(self):
        status, findings = examine(self.lab.a.namespace, f"{self.lab.directory}/none.sock")
        self.assertEqual(status, 1)
        (finding,) = find(findings, "problem", "does not exist")
        self.assertRegex(finding["fix"], r"^sudo \S*uroced --socket \S+/none.sock &$")

    def test_socket_of_a_killed_daemon_is_told_apart(self):
        lab = WireLab()
        try:
            daemon = lab.daemons.pop()
            daemon.process.signal(signal.SIGKILL)
            daemon.process.wait(10)
            status, findings = examine(lab.a.namespace, daemon.socket)
            self.assertEqual(status, 1)
            self.assertTrue(find(findings, "problem", "left behind by one that died"))
        finally:
            lab.close()

    def test_user_without_rights_hears_what_works_without(self):
        with tempfile.TemporaryDirectory(prefix="uroce-e2e-") as place:
            os.chmod(place, 0o755)  # The build may lie where only root can go.
            shutil.copy(UROCE, place)
            status, output = run_status(self.lab.a.namespace.command(
                ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"{place}/uroce",
                 "doctor", "--socket", self.lab.a.daemon.socket]))
        self.assertEqual(status, 1, output)  # The lab's directory is root's own.
        self.assertIn("this user may not connect", output)
        self.assertIn("no CAP_NET_RAW, CAP_NET_ADMIN", output)


class DoctorOnVethTest(unittest.TestCase):
    def setUp(self):
        self.lab = VethLab(1500)
        self.addCleanup(self.lab.close)
        self.namespace = self.lab.a.namespace

    def examine(self):
        return examine(self.namespace, self.lab.a.daemon.socket)

    def mend(self, finding):
        """Runs a finding's command as root does."""
        words = re.sub(r"^sudo ", "", finding["fix"]).split()
        self.namespace.run(words)

    def test_mtu_and_link_are_mended_by_the_commands(self):
        status, findings = self.examine()
        self.assertEqual(status, 0)
        (small,) = find(findings, "note", "uroce0: MTU 1500, RoCE packets of 1024 bytes")
        self.mend(small)
        wait_until(lambda: find(self.examine()[1], "ok", "RoCE packets of 4096"), "the new MTU")
        self.namespace.ip("link", "set", "eth0", "down")
        wait_until(lambda: self.examine()[0] == 1, "the link's end")
        (down,) = find(self.examine()[1], "problem", "the link of eth0 is down")
        self.mend(down)
        wait_until(lambda: self.examine()[0] == 0, "the link")

    def test_a_process_on_the_roce_port_is_named(self):
        self.assertTrue(find(self.examine()[1], "ok", "held by uroced"))
        script = ("import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
                  "s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEPORT,1)\n"
                  "s.bind(('127.0.0.1',4791))\nprint('bound',flush=True)\ntime.sleep(600)\n")
        holder = Process(self.namespace.command(["python3", "-c", script]))
        try:
            wait_until(lambda: "bound" in holder.output(), "the holder")
            (finding,) = find(self.examine()[1], "problem", "which sees RoCE packets")
            self.assertEqual(finding["fix"], f"sudo kill {holder.pid}")
        finally:
            holder.kill()

    def add_daemon(self, name, port):
        """One more daemon in the namespace, that is ready."""
        daemon = Daemon(self.namespace, f"{self.lab.directory}/{name}",
                        ["--port", f"name={name},{port}"])
        self.addCleanup(daemon.process.kill)
        wait_until(lambda: "uroced: ready, " in daemon.process.output(), "a ready daemon")
        return daemon

    def served_twice(self):
        return find(self.examine()[1], "problem", "served by uroced")

    def test_two_daemons_with_the_addresses_of_one_interface_are_a_problem(self):
        self.assertTrue(find(self.examine()[1], "ok", "each is served by one NIC"))
        second = self.add_daemon("second", "iface=eth0")
        self.assertRegex(second.process.output(), r"second: another NIC of uroced serves .*"
                         r"10\.0\.0\.1.* on eth0 too: .*uroce doctor names the process")
        (problem,) = self.served_twice()
        self.assertIn("10.0.0.1", problem["text"])
        self.assertEqual(problem["fix"], f"sudo kill {second.process.pid}")
        _, findings = examine(self.namespace, second.socket)
        (problem,) = find(findings, "problem", "served by uroced")
        self.assertEqual(problem["fix"], f"sudo kill {self.lab.a.daemon.process.pid}")
        second.stop()
        self.assertEqual(self.served_twice(), [])
        self.assertNotIn("another NIC", self.lab.a.daemon.process.output())

    def test_an_address_that_comes_later_is_told_by_the_second_that_has_it(self):
        daemons = [self.lab.a.daemon, self.add_daemon("second", "iface=eth0")]
        self.assertEqual(len(self.served_twice()), 1)
        self.namespace.ip("address", "add", "10.7.0.1/24", "dev", "eth0")
        wait_until(lambda: "10.7.0.1" in self.served_twice()[0]["text"], "the address of both")
        wait_until(lambda: any(re.search("another NIC of uroced serves 10.7.0.1 on eth0",
                                         daemon.process.output()) for daemon in daemons),
                   "the line of the second of them")

    def test_different_addresses_on_one_interface_are_no_problem(self):
        self.namespace.ip("address", "add", "10.0.0.77/24", "dev", "eth0")
        self.lab.daemons.remove(self.lab.a.daemon)
        self.lab.a.daemon.stop()
        first, second = self.add_daemon("a", "udp=10.0.0.1"), self.add_daemon("b", "udp=10.0.0.77")
        _, findings = examine(self.namespace, first.socket)
        self.assertTrue(find(findings, "ok", "each is served by one NIC"))
        self.assertNotIn("another NIC", second.process.output())
        third = self.add_daemon("c", "iface=eth0")
        self.assertIn("another NIC of uroced serves", third.process.output())
        _, findings = examine(self.namespace, third.socket)
        self.assertEqual({problem["fix"] for problem in find(findings, "problem", "served by")},
                         {f"sudo kill {first.process.pid}", f"sudo kill {second.process.pid}"})

    def test_a_udp_port_that_is_taken_is_told_with_who_names_the_holder(self):
        status, output = run_status(self.namespace.command(
            [UROCED, "--socket", f"{self.lab.directory}/second.sock", "--no-huge",
             "--port", "name=second,udp=10.0.0.1"]))
        self.assertEqual(status, 2, output)
        self.assertIn("UDP port 4791 of 10.0.0.1: bind: Address already in use; another daemon "
                      "or rdma_rxe has it (uroce doctor names it)", output)
