# SPDX-License-Identifier: Apache-2.0
"""A Ceph cluster of one monitor and one OSD, by the lines of docs/guide/ceph.md: in one directory,
with keys, its data in memory."""
import glob
import json
import os
import shutil
import uuid

from labs.process import Failed, run, run_status, wait_until

PROGRAMS = ("ceph-mon", "ceph-osd", "ceph", "rados", "ceph-authtool", "monmaptool")
PACKAGES = "ceph-mon ceph-osd ceph-common"
POOL = "pool"
# Who has a key, and what each may do.
ENTITIES = (("mon.", ("mon", "allow *")),
            ("client.admin", ("mon", "allow *"), ("osd", "allow *")),
            ("osd.0", ("mon", "allow profile osd"), ("osd", "allow *")))
# What a cluster of one OSD needs, and files below the directory in place of /etc, /var and /run.
# With keys, because without them the first request of a client or an OSD can overtake the monitor's
# map within Ceph's own threads: the monitor then refuses it by EPERM, "wrong fsid".
SETTINGS = """[global]
fsid = {fsid}
mon_host = v1:{address}:{port}
public_addr = {address}
cluster_addr = {address}
ms_bind_msgr2 = false
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
mon_data = {directory}/mon
osd_data = {directory}/osd
run_dir = {directory}
crash_dir = {directory}
keyring = {directory}/keyring
log_file = {directory}/$name.log
admin_socket = {directory}/$name.$pid.asok
ms_type = async+rdma
"""


def missing():
    """What there is not, to run a cluster; empty when all is there."""
    absent = [program for program in PROGRAMS if not shutil.which(program)]
    return f"no {' '.join(absent)}: apt-get install {PACKAGES}" if absent else ""


class Cluster:
    """The daemons run on `server`, a host of a lab, with `settings`, further lines of ceph.conf."""

    def __init__(self, server, directory, address, port, settings):
        self._server = server
        self._directory = directory
        self._daemons = []
        for name in ("mon", "osd"):
            os.makedirs(f"{directory}/{name}")
        self._settings = SETTINGS.format(fsid=uuid.uuid4(), address=address, port=port,
                                         directory=directory)
        self.settings_file = self.write_settings("ceph.conf", *settings)
        try:
            self._start(f"v1:{address}:{port}")
        except BaseException:
            self.kill()
            raise

    def write_settings(self, name, *more):
        """A file of what every part of the cluster needs, and of the lines of `more`."""
        path = f"{self._directory}/{name}"
        with open(path, "w", encoding="ascii") as file:
            file.write(self._settings + "".join(f"{line}\n" for line in more))
        return path

    def _start(self, address):
        settings = ("-c", self.settings_file)
        keyring = f"{self._directory}/keyring"
        run(["ceph-authtool", "--create-keyring", keyring])
        for name, *caps in ENTITIES:
            words = [word for subject, cap in caps for word in ("--cap", subject, cap)]
            run(["ceph-authtool", keyring, "--gen-key", "-n", name, *words])
        monmap, osd_uuid = f"{self._directory}/monmap", uuid.uuid4()
        fsid = self._settings.split("fsid = ")[1].split()[0]
        run(["monmaptool", "--create", "--fsid", fsid, "--addv", "a", address, monmap])
        run(["ceph-mon", *settings, "-i", "a", "--mkfs", "--monmap", monmap,
             "--keyring", keyring])
        self._daemons.append(self._server.start("ceph-mon", *settings, "-i", "a", "-f"))
        wait_until(self._has_quorum, "the first quorum of the monitor")
        self.command("osd", "new", osd_uuid, 0)
        self.command("osd", "crush", "add", "osd.0", 1, "root=default", "host=host")
        self._server.run("ceph-osd", *settings, "-i", 0, "--mkfs", "--osd-uuid", osd_uuid)
        self._daemons.append(self._server.start("ceph-osd", *settings, "-i", 0, "-f"))
        self.command("osd", "pool", "create", POOL, 8)
        wait_until(self._has_osd, "the OSD")

    def _has_quorum(self):
        """Until its first map is committed, a monitor closes the connections that it accepted."""
        sockets = glob.glob(f"{self._directory}/mon.a.*.asok")
        status, text = run_status(["ceph", "--admin-daemon", *sockets[:1], "mon_status"])
        if status or "{" not in text:
            return False
        answer = json.loads(text[text.index("{"):])
        return answer["state"] == "leader" and answer["monmap"]["epoch"] > 0

    def _has_osd(self):
        if not self.osd.running():
            raise Failed(f"ended by itself: {self.osd.describe()}")
        return "1 up" in self.command("osd", "stat")

    def command(self, *words):
        return self._server.run("ceph", "-c", self.settings_file, *words)

    @property
    def osd(self):
        return self._daemons[-1]

    def stop(self):
        """Ends the daemons; each must have run until now."""
        for daemon in self._daemons:
            if not daemon.running():
                raise AssertionError(f"ended by itself: {daemon.describe()}")
        self.kill()

    def kill(self):
        for daemon in reversed(self._daemons):
            daemon.kill()
