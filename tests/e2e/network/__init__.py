# SPDX-License-Identifier: Apache-2.0
"""What passes between NICs: loss, congestion, rates, invalid packets, capability negotiation."""
