# SPDX-License-Identifier: Apache-2.0
"""The daemon as a program: its flags, settings, versions, and the service."""
