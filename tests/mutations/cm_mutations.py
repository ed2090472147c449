# SPDX-License-Identifier: Apache-2.0
"""Bugs of a connection manager: (name, file under nic/cm, text, what it becomes)."""

MUTATIONS = [
    ("cm-rtu-not-repeated", "connection_messages.cc",
     "    if (state_ == State::kEstablished) {\n"
     "      Send(wire::CmRtu{.local_comm_id = id_, .remote_comm_id = remote_id_}, "
     "transaction_id_);\n"
     "    }\n", ""),
    ("cm-rep-waits-for-its-timer", "connection_messages.cc",
     "  if (state_ == State::kRepSent) return SendAgain();\n", ""),
    ("cm-rep-repeated-behind-mra", "connection_messages.cc",
     "  if (state_ == State::kRepSent) return SendAgain();",
     "  if (awaits_rtu()) return SendAgain();"),
    ("cm-drep-not-repeated", "connection_messages.cc",
     "      ++outbox_->counters.duplicates;\n      return SendDrep(message);",
     "      ++outbox_->counters.duplicates;\n      return;"),
    ("cm-crossed-dreqs-wait", "connection_messages.cc",
     "      SendDrep(message);\n      EnterTimewait(now);\n",
     "      static_cast<void>(now);\n      Enter(State::kDreqReceived);\n"),
    ("cm-unknown-dreq-unanswered", "manager_messages.cc",
     "    return outbox_.Send(route, {.transaction_id = message.transaction_id,\n"
     "                                .body = wire::CmDrep{",
     "    return static_cast<void>(wire::CmMessage{.transaction_id = message.transaction_id,\n"
     "                                .body = wire::CmDrep{"),
    ("cm-one-dreq-at-the-end", "connection.cc",
     "    case State::kEstablished:\n    case State::kDreqReceived:\n"
     "      static_cast<void>(Disconnect(now));\n      return;",
     "    case State::kEstablished:\n    case State::kDreqReceived:\n"
     "      static_cast<void>(Disconnect(now));\n      return EnterTimewait(now);"),
    ("cm-goodbye-is-told", "connection.cc", "  if (!owned_) return;\n", ""),
    ("cm-repeated-req-is-new", "manager_messages.cc",
     "  if (ConnectionEntry* const entry = FindBy(by_remote_id_, remote)) {",
     "  if (ConnectionEntry* const entry = FindBy(by_remote_id_, {0, 0})) {"),
    ("cm-indices-keep-the-dead", "manager.cc", "  LeaveIndices(connection);\n", ""),
    ("cm-deadline-outlives-its-id", "manager.cc",
     "  entry.deadline = connection.NextDeadline();\n", ""),
    ("cm-one-transmission-less", "connection.cc",
     "  if (transmissions_left_ == 0) return GiveUp(now);",
     "  if (transmissions_left_ <= 1) return GiveUp(now);"),
    ("cm-rep-for-nobody-ignored", "manager_messages.cc",
     "    return RefuseRep(route, message, wire::RejReason::kInvalidCommId);", "    return;"),
    ("cm-rej-ignored-when-established", "connection_messages.cc",
     "      EnterTimewait(now);\n      return Raise(EventKind::kDisconnected, message);\n"
     "    case State::kReqSent:",
     "      return;\n    case State::kReqSent:"),
    ("cm-mra-for-ever", "connection_messages.cc", "|| mras_ == kMostMras", ""),
    ("cm-backlog-place-lost", "manager.cc",
     "  bindings_.ReturnPlace(entry.place);\n  entry.place = BindingId{};",
     "  entry.place = BindingId{};"),
    ("cm-stale-takes-a-place", "manager_messages.cc",
     "if (IsStale(route, message, now)) return bindings_.ReturnPlace(listener);",
     "if (IsStale(route, message, now)) return;"),
    ("cm-any-address-may-end-it", "manager_messages.cc",
     "  if (expected.remote == route.remote && expected.local == route.local) return entry;",
     "  if (expected.local == route.local) return entry;"),
    ("cm-time-wait-forgets-the-queue-pair", "connection_messages.cc",
     "  attributes_.timeout = AckTimeout(rep.target_ack_delay, packet_life_time_);\n",
     "  attributes_.timeout = rep.target_ack_delay;\n"),
    ("cm-depths-not-swapped", "connection_messages.cc",
     "  attributes_.max_rd_atomic = rep.responder_resources;\n",
     "  attributes_.max_rd_atomic = rep.initiator_depth;\n"),
    ("cm-answer-not-kept", "service_resolution.cc",
     "if (state_ == State::kAnswered) outbox_->Send(route_, message_);", ""),
    ("cm-request-limit-is-not-one", "request_limit.h",
     "    next_ = std::max(next_, now) + interval_;\n", "    next_ = now + interval_;\n"),
    ("cm-wildcard-takes-both-families", "bindings.cc",
     "  return !OwnFamilyOnly(parameters) || parameters.address.is_ipv4() == "
     "destination.is_ipv4();",
     "  return true;"),
]
