# SPDX-License-Identifier: Apache-2.0
"""What the tests of packaging look at: the build, and its parts for people."""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("UROCE_BUILD", "build")
MADE = BUILD / "tools" / "packaging"
UROCED = BUILD / "nic" / "uroced"
UROCE = BUILD / "tools" / "uroce"
sys.path.insert(0, str(ROOT / "tools" / "packaging" / "manual"))


def read_yaml(text):
    """Debian's Python has yaml; that of the tests may be another one."""
    read = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"
    done = subprocess.run(["/usr/bin/python3", "-c", read], capture_output=True, text=True,
                          input=text, check=False)
    if "No module named 'yaml'" in done.stderr:
        raise unittest.SkipTest("no python3-yaml: YAML is not read")
    return json.loads(done.stdout)
