# SPDX-License-Identifier: Apache-2.0
"""Connections by librdmacm: how they begin and end, and what attacks them."""
