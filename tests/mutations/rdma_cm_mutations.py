# SPDX-License-Identifier: Apache-2.0
"""Bugs of rdma_cm's service: (name, file under nic/rdma_cm, text, what it becomes)."""

MUTATIONS = [
    ("rdma-cm-low-ports-for-all", "addresses.cc",
     "  if (is_reserved && !clients_.at(endpoint.client).owner.is_privileged) {",
     "  if (is_reserved && clients_.empty()) {"),
    ("rdma-cm-port-is-kept", "service.cc", "    manager_.Release(endpoint.binding);\n", ""),
    ("rdma-cm-lookup-outlives-its-endpoint", "service.cc",
     "  if (endpoint.lookup != 0) environment_.Cancel(endpoint.lookup);\n", ""),
    ("rdma-cm-silence-is-final", "addresses.cc",
     "    endpoint.state = State::kAddressBound;\n    return Raise(",
     "    return Raise("),
    ("rdma-cm-roles-not-swapped", "events.cc",
     "  return {.responder_resources = req.initiator_depth,\n"
     "          .initiator_depth = req.responder_resources,",
     "  return {.responder_resources = req.responder_resources,\n"
     "          .initiator_depth = req.initiator_depth,"),
    ("rdma-cm-hidden-requests-stay", "service.cc",
     "  for (const EndpointId request : requests) Destroy(*Find(endpoint.client, request));\n", ""),
    ("rdma-cm-place-in-backlog-kept", "connections.cc",
     "  return manager_.OnRequestTaken(endpoint.comm);", "  return Result::kOk;"),
    ("rdma-cm-strangers-may", "service.cc",
     "found->second->client == client;", "client != 0;"),
    ("rdma-cm-transport-not-compared", "events.cc",
     " || listener->qp_type != qp_type", ""),
    ("rdma-cm-program-unlimited", "service.cc",
     "its.endpoints.size() < config_.endpoints_per_program", "client != 0"),
    ("rdma-cm-user-unlimited", "service.cc",
     "  if (--endpoints_of_users_[client.owner.uid] == 0)",
     "  if (true)"),
    ("rdma-cm-no-second-try", "service.cc",
     "  if (!unsent_.empty()) deadline = std::min(deadline, environment_.Now() + kUnsentPause);\n",
     ""),
    ("rdma-cm-rights-before-the-peer-is-known", "queue_pair_attributes.cc",
     "      attributes.mask |= IBV_QP_ACCESS_FLAGS;\n      return Result::kOk;\n    }\n    "
     "attributes.attr.qkey",
     "      attributes.mask |= IBV_QP_ACCESS_FLAGS;\n"
     "      attributes.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;\n"
     "      return Result::kOk;\n    }\n    attributes.attr.qkey"),
    ("rdma-cm-timeout-as-agreed", "queue_pair_attributes.cc",
     "endpoint.ack_timeout.value_or(agreed.timeout)", "agreed.timeout"),
    ("rdma-cm-senders-join", "addresses.cc",
     "      send_only ? Result::kOk : environment_", "      environment_"),
    ("rdma-cm-groups-outlive-endpoints", "service.cc",
     "    if (membership.receives) environment_.Leave(*endpoint.attachment, membership.group);\n",
     "    static_cast<void>(membership);\n"),
    ("rdma-cm-dead-programs-say-nothing", "service.cc",
     "    static_cast<void>(manager_.Destroy(endpoint.comm, environment_.Now()));\n", ""),
]
