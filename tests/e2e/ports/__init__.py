# SPDX-License-Identifier: Apache-2.0
"""Every kind of port, and the network of the kernel around it."""
