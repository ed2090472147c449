# SPDX-License-Identifier: Apache-2.0
"""`uroce run --private`: a daemon for one program and its children, by any user. Nothing of it
stays, however they end."""
import glob
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import unittest

from labs.lab import BUILD
from labs.process import Process, run, run_status, wait_until
from labs.programs import PING_PONG

UROCE = BUILD / "tools" / "uroce"
UNPRIVILEGED = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
NO_CAPABILITY = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
USER_NAMESPACE = ("unshare", "--user", "--map-root-user", "--net")
FIRST_PROCESS = ("--ipc", "--pid", "--mount", "--mount-proc", "--fork")


def children(pid):
    """The direct children of a process."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class PrivateRunTest(unittest.TestCase):
    def setUp(self):
        self.parent = tempfile.TemporaryDirectory(prefix="p-")
        self.addCleanup(self.parent.cleanup)
        os.chmod(self.parent.name, 0o777)
        self.environment = {**os.environ, "TMPDIR": self.parent.name}
        self.environment.pop("XDG_RUNTIME_DIR", None)

    def command(self, *program, prefix=(), options=()):
        return [*prefix, UROCE, "run", "--private", *options, "--", *program]

    def start(self, *program, prefix=(), options=()):
        process = Process(self.command(*program, prefix=prefix, options=options), self.environment)
        self.addCleanup(process.kill)
        return process

    def check(self, status, *program, prefix=(), options=()):
        """Runs a program to its end; returns its output."""
        found, output = run_status(self.command(*program, prefix=prefix, options=options), 120,
                                   self.environment)
        self.assertEqual(found, status, output)
        self.assertEqual(os.listdir(self.parent.name), [])
        return output

    def daemon_of(self, process):
        """Waits for the program to run; the daemon is the child of a child, the keeper."""
        def find():
            for child in children(process.pid):
                for grandchild in children(child):
                    with open(f"/proc/{grandchild}/comm", encoding="ascii") as file:
                        if file.read().strip() == "uroced":
                            return grandchild
            return None
        wait_until(lambda: "it runs" in process.output(), "the program")
        return find()

    # ---- who may run it ----

    def test_a_driver_of_dpdk_that_cannot_be_loaded_is_left_out(self):
        places = glob.glob("/usr/lib/*/dpdk/pmds-*")
        if len(places) != 1:
            self.skipTest("DPDK has no folder of drivers")
        drivers = tempfile.TemporaryDirectory(prefix="p-")
        self.addCleanup(drivers.cleanup)
        script = f"""
            cp -a {places[0]}/librte_bus_* {places[0]}/librte_mempool_ring* {drivers.name}
            echo no library >{drivers.name}/librte_net_broken.so
            mount --bind {drivers.name} {places[0]}
            exec "$@" """
        said = self.check(0, "sh", "-c", 'ibv_devices; cat "${UROCE_SOCKET%/*}/uroced.log"',
                          prefix=("unshare", "--mount", "sh", "-ec", script, "sh"))
        self.assertIn("uroce1", said)
        self.assertIn("warning: dpdk: without the driver librte_net_broken.so: ", said)

    def test_one_line_shows_a_ping_pong(self):
        self.assertEqual(self.check(0, "sh", "-c", PING_PONG).count("1000 iters"), 2)

    def test_any_user_and_any_container(self):
        for prefix in (UNPRIVILEGED, NO_CAPABILITY, USER_NAMESPACE,
                       (*UNPRIVILEGED, *USER_NAMESPACE),
                       (*UNPRIVILEGED, *USER_NAMESPACE, *FIRST_PROCESS)):
            with self.subTest(" ".join(prefix)):
                status, output = run_status([*prefix, "test", "-x", UROCE])
                if status:
                    self.skipTest(f"{' '.join(prefix)} cannot run {UROCE}: {output}")
                # A new network has no loopback on which the two could meet.
                bring_up = "ip link set lo up;" if "--net" in prefix else ""
                output = self.check(0, "sh", "-c", bring_up + PING_PONG, prefix=prefix)
                self.assertEqual(output.count("1000 iters"), 2)

    def test_twenty_at_once_do_not_meet(self):
        script = "ibv_devices && sleep 1 && ibv_devinfo -d uroce1"
        runs = [self.start("sh", "-c", script) for _ in range(20)]
        for process in runs:
            self.assertIn("PORT_ACTIVE", process.expect_success(120))
        self.assertEqual(os.listdir(self.parent.name), [])

    def test_options_of_the_daemon(self):
        output = self.check(0, "ibv_devices", options=("--switch", "ports=3,rate=10G"))
        self.assertEqual(len(re.findall(r"uroce\d", output)), 3)

    def test_other_devices_can_be_hidden(self):
        """tests/verbs-shim/library/newer_library_test.cc has what UROCE_ONLY does."""
        script = "ibv_devices; echo only=$UROCE_ONLY"
        self.assertRegex(self.check(0, "sh", "-c", script, options=("--only",)),
                         r"(?s)uroce1.*only=1\n")
        self.assertIn("only=\n", self.check(0, "sh", "-c", script))

    def test_tools_inside_find_the_daemon(self):
        self.assertIn("uroce1", self.check(0, UROCE, "devices"))

    # ---- how it ends ----

    def test_the_exit_status_is_the_programs(self):
        self.check(0, "true")
        self.check(7, "sh", "-c", "exit 7")
        self.check(128 + signal.SIGSEGV, "sh", "-c", "kill -SEGV $$")
        self.assertIn("no-such-program", self.check(127, "no-such-program"))
        self.check(126, "/etc/passwd")

    def test_a_daemon_that_cannot_start_says_why(self):
        self.assertIn("--no-such-option", self.check(2, "true", options=("--no-such-option",)))
        wire = ("--wire", "a=10.0.0.256/24,b=10.0.0.1/24")
        self.assertIn("10.0.0.256", self.check(2, "true", options=wire))

    def test_refused_together(self):
        self.assertIn("--private", self.check(2, "true", options=("--socket", "/nowhere")))
        self.assertIn("no program", self.check(2))

    def test_the_daemon_serves_children_that_outlive_the_program(self):
        found = os.path.join(self.parent.name, "..", os.path.basename(self.parent.name) + ".found")
        self.addCleanup(lambda: os.path.exists(found) and os.unlink(found))
        self.check(3, "sh", "-c", f"(sleep 1; ibv_devices > {found}) & exit 3")
        with open(found, encoding="ascii") as file:
            self.assertIn("uroce1", file.read())

    def test_signals_go_to_the_program(self):
        script = "trap 'exit 9' TERM; echo it runs; while :; do sleep 0.05; done"
        process = self.start("sh", "-c", script)
        daemon = self.daemon_of(process)
        process.signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 9)
        self.assertFalse(is_alive(daemon))
        self.assertEqual(os.listdir(self.parent.name), [])

    def test_an_interrupt_of_the_terminal_comes_once(self):
        script = ("n=0; trap 'n=$((n+1))' INT; echo it runs; while [ $n = 0 ]; do sleep 0.05; "
                  "done; sleep 0.5; ibv_devinfo -d uroce0 >/dev/null && exit $((40 + n))")
        pid, terminal = pty.fork()
        if pid == 0:
            # A shell without job control starts background programs with SIGINT ignored.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            command = [str(word) for word in self.command("sh", "-c", script)]
            os.execve(command[0], command, self.environment)
        try:
            output = b""
            while b"it runs" not in output:
                self.assertTrue(select.select([terminal], [], [], 60)[0], output)
                output += os.read(terminal, 1000)
            os.write(terminal, b"\x03")
            status = wait_until(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG |
                                                  os.WNOWAIT), "the end of the run").si_status
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)
        # One interrupt for the program, none for the daemon: it has served ibv_devinfo since.
        self.assertEqual(status, 41)
        self.assertEqual(os.listdir(self.parent.name), [])

    def test_a_signal_ends_children_that_outlive_the_program(self):
        process = self.start("sh", "-c", "trap '' INT; sleep 1000 & echo it runs")
        daemon = self.daemon_of(process)
        wait_until(lambda: "children still run" in process.output(), "word of the wait")
        process.signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 0)
        self.assertFalse(is_alive(daemon))
        self.assertEqual(os.listdir(self.parent.name), [])

    def test_nothing_is_left_when_it_is_killed(self):
        process = self.start("sh", "-c", "echo it runs; exec sleep 1000")
        daemon = self.daemon_of(process)
        started = [daemon, *children(process.pid)]
        process.signal(signal.SIGKILL)
        process.wait(60)
        wait_until(lambda: not any(is_alive(pid) for pid in started), "the end of all")
        wait_until(lambda: not os.listdir(self.parent.name), "the end of the directory")

    def test_the_end_of_the_daemon_is_said(self):
        process = self.start("sh", "-c", "echo it runs; while :; do sleep 0.05; done")
        os.kill(self.daemon_of(process), signal.SIGKILL)
        wait_until(lambda: "uroced was killed by signal 9" in process.output(), "word of its end")
        process.signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)
        self.assertEqual(os.listdir(self.parent.name), [])

    def test_output_to_a_pipe_ends_with_the_program(self):
        done = subprocess.run(self.command("ibv_devices"), env=self.environment, timeout=120,
                              check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.assertIn(b"uroce0", done.stdout)

    def test_a_directory_with_too_long_a_path_is_passed_over(self):
        self.environment["TMPDIR"] = self.parent.name + "/" + "d" * 100
        self.assertIn("uroce0", run(self.command("ibv_devices"), 120, self.environment))


if __name__ == "__main__":
    unittest.main()
