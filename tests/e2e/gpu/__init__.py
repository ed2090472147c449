# SPDX-License-Identifier: Apache-2.0
"""What verbs promise to a program: transfers, memory, queues, completions, errors."""
