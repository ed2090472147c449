# SPDX-License-Identifier: Apache-2.0
"""Daemons with a network around them, and what several tests share."""
