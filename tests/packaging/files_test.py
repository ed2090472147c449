# SPDX-License-Identifier: Apache-2.0
"""Files for containers, editors and Debian are well-formed and fit each other."""
import fnmatch
import json
import re
import subprocess
import tomllib
import unittest

from built import BUILD, MADE, ROOT, UROCED, read_yaml

CONTAINER = ROOT / "tools" / "packaging" / "container"
INSTRUCTIONS = {"FROM", "COPY", "RUN", "USER", "VOLUME", "ENTRYPOINT"}


class FilesTest(unittest.TestCase):
    def test_the_cdi_specification_names_what_is_installed(self):
        spec = json.loads((MADE / "uroce.json").read_text())
        self.assertEqual(set(spec), {"cdiVersion", "kind", "devices"})
        self.assertRegex(spec["kind"], r"^[A-Za-z][\w.-]*[A-Za-z0-9]/[A-Za-z][\w-]*$")
        edits = spec["devices"][0]["containerEdits"]
        variables = dict(text.split("=", 1) for text in edits["env"])
        mounted = [mount["containerPath"] for mount in edits["mounts"]]
        for path in (variables["LD_PRELOAD"], variables["UROCE_SOCKET"]):
            self.assertTrue(any(path.startswith(folder + "/") for folder in mounted), path)
        installed = json.loads(subprocess.run(
            ["meson", "introspect", "--installed", str(BUILD)], capture_output=True, text=True,
            check=True).stdout)
        self.assertIn(variables["LD_PRELOAD"], installed.values())

    def test_the_image_takes_packages_that_there_are(self):
        text = (CONTAINER / "Containerfile").read_text().replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        self.assertEqual({line.split()[0] for line in lines}, INSTRUCTIONS)
        control = (ROOT / "debian/control").read_text()
        packages = [f"{name}_1_amd64.deb" for name in re.findall(r"^Package: (.*)", control, re.M)]
        for pattern in re.findall(r"\S+\.deb(?= )", next(l for l in lines if l.startswith("COPY"))):
            self.assertTrue(fnmatch.filter(packages, pattern), pattern)

    def test_the_pod_is_the_user_whose_the_socket_folder_is(self):
        image = (CONTAINER / "Containerfile").read_text()
        pod = (CONTAINER / "pod.yaml").read_text()
        user, group = re.search(r"^USER (\d+):(\d+)$", image, re.M).groups()
        self.assertIn(f"--uid {user} --gid {group} ", image)
        self.assertIn(f"runAsUser: {user}\n    runAsGroup: {group}\n    fsGroup: {group}\n", pod)

    def test_the_pod_shares_the_socket(self):
        pod = read_yaml((CONTAINER / "pod.yaml").read_text())["spec"]
        self.assertEqual(len(pod["containers"]), 3)
        self.assertTrue(pod["securityContext"]["runAsNonRoot"])
        for container in pod["containers"]:
            self.assertEqual(container["volumeMounts"],
                             [{"name": pod["volumes"][0]["name"], "mountPath": "/run/uroce"}])

    def test_the_schema_knows_every_key(self):
        schema = json.loads((MADE / "uroced.toml.schema.json").read_text())
        text = subprocess.run([UROCED, "--help-all"], capture_output=True, text=True,
                              check=True).stdout
        keys = {flag.replace("-", "_") for flag in re.findall(r"^  --([a-z-]+)", text, re.M)}
        known = set(schema["properties"]) | set(schema["properties"]["limits"]["properties"])
        self.assertEqual(known - {"profile"}, keys - {"version", "help_all", "config"})

    def test_the_settings_of_the_service_are_toml(self):
        text = (ROOT / "tools/packaging/uroced.toml").read_text()
        self.assertEqual(tomllib.loads(text), {"metrics": "/run/uroce/metrics.sock"},
                         "two NICs on a wire")
        shown = re.sub(r"^#(?=[\[a-z])", "", text, flags=re.M)
        self.assertEqual(tomllib.loads(shown)["port"][0]["name"], "uroce0")
