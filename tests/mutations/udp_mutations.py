# SPDX-License-Identifier: Apache-2.0
"""Bugs in ports by UDP sockets: (name, file under pipeline/wire or drivers/udp_socket, text, what
it becomes)."""

WIRE_MUTATIONS = [
    ("renumbered-without-its-icrc", "icrc_change.cc", "  icrc ^= change;\n", ""),
    ("a-source-port-is-not-in-the-icrc", "icrc_change.cc",
     "change ^= Change16(frame, kIdentification, identification);",
     "change = Change16(frame, kIdentification, identification);"),
    ("any-identification-fits", "icrc_change.cc",
     "  if ((terms & 0xffff) != 0) return std::nullopt;\n", ""),
    ("the-icrc-itself-is-behind-the-field", "icrc_change.cc",
     "FieldChange(change, covered - kIdentification - 2)",
     "FieldChange(change, covered - kIdentification)"),
    ("identification-with-the-old-checksum", "icrc_change.cc",
     "ChecksumOfSum(SumOfWords({ip, sizeof(Ipv4Header)}))", "0"),
]

SOCKET_MUTATIONS = [
    ("all-packets-of-a-superframe-have-identification-0", "datagram_writer.cc",
     "identification++);", "identification);"),
    ("all-flows-have-one-source-port", "udp_sockets.h",
     "flows[source_port % kFlowSockets]", "flows[source_port % 1]"),
    ("flow-sockets-receive", "udp_sockets.cc",
     "BPF_RET | BPF_K, 0, 0, 0}", "BPF_RET | BPF_K, 0, 0, 1}"),
    ("what-is-no-udp-stops-the-port", "datagram_writer.cc",
     "      errno = EPROTONOSUPPORT;\n", "      errno = EAGAIN;\n"),
    ("ecn-does-not-leave-over-ipv4", "datagram_writer.cc",
     "int{ip.traffic_class}", "int{ip.traffic_class} & 0xfc"),
    ("the-traffic-class-does-not-arrive-over-ipv6", "datagram_reader.cc",
     "if (type == IPV6_TCLASS) told", "if (type == IPV6_TCLASS && told.hop_limit > 255) told"),
    ("the-rest-of-a-received-superframe-is-lost", "datagram_reader.cc",
     "if (++segment_ >= cutter_->segments()) {", "if (++segment_ >= 1) {"),
    ("every-identification-is-expected", "identification_guess.cc",
     "return is_expected ? Found::kExpected : Found::kFitted;", "return Found::kExpected;"),
    ("a-flow-does-not-remember", "identification_guess.cc",
     "  flow = {.key = key, .last = *found};\n", "  flow = {.key = key, .last = 0};\n"),
    ("flows-are-not-told-apart", "identification_guess.cc",
     "  key ^= udp.source_port.value();\n", ""),
]
