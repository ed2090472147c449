# SPDX-License-Identifier: Apache-2.0
"""Programs, users and peers that fail or attack, and the others, which must not be concerned."""
