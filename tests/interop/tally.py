# SPDX-License-Identifier: Apache-2.0
"""How many operations the data checks of a run have found right."""
import re

from labs.programs import data_check


class Tally:
    operations = 0


def counted_data_check(lab, *flags, **options):
    """data_check; returns, for each end, how many requests of a kind it sent."""
    outputs = data_check(lab, *flags, **options)
    ends = [{kind: int(count) for kind, count in re.findall(r" ([a-z-]+)=(\d+)", output)}
            for output in outputs]
    Tally.operations += sum(sum(sent.values()) for sent in ends)
    return ends
