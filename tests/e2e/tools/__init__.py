# SPDX-License-Identifier: Apache-2.0
"""Tools: `uroce`, captures, Wireshark, metrics, the guide's commands."""
