# SPDX-License-Identifier: Apache-2.0
"""What the tests of packaging look at: the build, and its parts for people."""
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("UROCE_BUILD", "build")
MADE = BUILD / "tools" / "packaging"
UROCED = BUILD / "nic" / "uroced"
UROCE = BUILD / "tools" / "uroce"
sys.path.insert(0, str(ROOT / "tools" / "packaging" / "manual"))
