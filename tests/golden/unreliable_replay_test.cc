// SPDX-License-Identifier: Apache-2.0
// UC and UD of golden captures replayed: our senders, given the works that rxe's packets tell of,
// send the same packets; our receivers, fed with those that arrived, complete each whole message.
//
// Where it is different, by the standard or by freedom:
//  - rxe asks for an ACK in datagrams of queue pair 1, which means nothing there; we do not.
//  - After a loss inside a UC message rxe drops the next one too (docs/protocol/transport.md,
//  section 9); we take
//    every message that arrived whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/transport/unreliable_queue_pair.h"
#include "pipeline/wire/to_string.h"
#include "tests/golden/conversation.h"

namespace uroce::transport {
namespace {

using Packets = std::vector<const wire::Packet*>;
using Texts = std::vector<std::string>;

constexpr uint32_t kMtu = 1024;
constexpr uint32_t kReceiveBytes = 8192;

/// A packet, with what tells where it goes.
std::string TextOf(wire::TransportHeader header, uint32_t payload_bytes) {
  header.ack_request = false;
  std::string text = wire::ToString(header, payload_bytes);
  if (ServiceOf(header.opcode) == wire::Service::kUd) {
    text += " qkey=" + std::to_string(header.deth.qkey) +
            " from=" + std::to_string(header.deth.source_qpn.value()) +
            " to=" + std::to_string(header.dest_qpn.value());
  } else if (ShapeOf(header.opcode).kind == RequestShape::Kind::kWrite &&
             ShapeOf(header.opcode).first) {
    text += " va=" + std::to_string(header.reth.va) +
            " rkey=" + std::to_string(header.reth.rkey.value()) +
            " total=" + std::to_string(header.reth.length_bytes);
  }
  return text;
}

std::string TextOf(const wire::Packet& packet) {
  return TextOf(packet.header, static_cast<uint32_t>(packet.payload.size()));
}

/// The work of the message whose packets these are.
SendWork WorkOf(const wire::TransportHeader& first, const wire::TransportHeader& last) {
  const RequestShape& shape = ShapeOf(last.opcode);
  SendWork work;
  if (shape.kind == RequestShape::Kind::kWrite) {
    work.opcode = shape.immediate ? WorkOpcode::kWriteWithImm : WorkOpcode::kWrite;
  } else {
    work.opcode = shape.immediate ? WorkOpcode::kSendWithImm : WorkOpcode::kSend;
  }
  work.solicited = last.solicited;
  work.immediate = last.immediate;
  work.rkey = first.reth.rkey;
  work.remote_va = first.reth.va;
  work.remote_qpn = first.dest_qpn;
  work.remote_qkey = first.deth.qkey;
  return work;
}

/// What one queue pair sent, in pieces without a gap: numbers are given to queue pairs again.
std::vector<Packets> Runs(const Packets& packets) {
  std::vector<Packets> runs;
  for (const wire::Packet* packet : packets) {
    const bool follows = !runs.empty() && packet->header.psn == runs.back().back()->header.psn + 1;
    if (!follows) runs.emplace_back();
    runs.back().push_back(packet);
  }
  return runs;
}

template <typename QueuePair>
void Connect(QueuePair& qp, const wire::TransportHeader& first) {
  const QueuePairAttributes attributes{.remote_write = true,
                                       .path_mtu_bytes = kMtu,
                                       .rq_psn = first.psn,
                                       .sq_psn = first.psn,
                                       .qkey = first.deth.qkey};
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    qp.Modify(state, attributes);
  }
}

/// What our queue pair sends when it is given the works that `run` tells of.
template <typename QueuePair>
Texts SentAgain(const Packets& run) {
  QueuePair qp({.signal_all = true, .qpn = run.front()->header.deth.source_qpn});
  Connect(qp, run.front()->header);
  Texts texts;
  SendWork work;
  uint32_t begins = 0;
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < run.size(); ++i) {
    const RequestShape& shape = ShapeOf(run[i]->header.opcode);
    if (shape.first) begins = i;
    bytes = (shape.first ? 0 : bytes) + static_cast<uint32_t>(run[i]->payload.size());
    if (!shape.last) continue;
    const uint32_t slot = work.slot;
    work = WorkOf(run[begins]->header, run[i]->header);
    work.slot = slot + 1;
    work.length_bytes = bytes;
    EXPECT_EQ(qp.Post(work), PostResult::kPosted);
    TxPacket packet;
    while (qp.PollPacket(packet)) {
      texts.push_back(TextOf(packet.header, packet.payload_bytes()));
      qp.OnSent(packet);
    }
    Completion completion;
    EXPECT_TRUE(qp.PollCompletion(completion)) << "complete once it has left";
    EXPECT_EQ(completion.status, WcStatus::kSuccess);
  }
  return texts;
}

std::string ReceivedText(uint32_t length, bool has_immediate, uint32_t immediate, Qpn source) {
  return std::to_string(length) + (has_immediate ? " imm " + std::to_string(immediate) : "") +
         " from " + std::to_string(source.value());
}

/// What our queue pair completes when these packets arrive.
template <typename QueuePair>
Texts Received(const Packets& arrived) {
  QueuePair qp({});
  Connect(qp, arrived.front()->header);
  Texts texts;
  for (const wire::Packet* packet : arrived) {
    if (qp.NeedsReceive(packet->header)) qp.PostReceive({.length_bytes = kReceiveBytes});
    Effect effect;
    static_cast<void>(qp.OnPacket(*packet, effect));
    if (effect.kind != Effect::Kind::kNone) qp.OnEffectDone(EffectOutcome::kDone);
    Completion completion;
    while (qp.PollCompletion(completion)) {
      EXPECT_EQ(completion.status, WcStatus::kSuccess);
      texts.push_back(ReceivedText(completion.length_bytes, completion.has_immediate,
                                   completion.immediate_or_rkey, completion.source_qpn));
    }
  }
  return texts;
}

/// The messages among them that arrived whole and take a receive, as their receiver sees them.
Texts Whole(const Packets& arrived, uint32_t area_bytes) {
  Texts texts;
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < arrived.size(); ++i) {
    const wire::TransportHeader& header = arrived[i]->header;
    const RequestShape& shape = ShapeOf(header.opcode);
    const bool follows =
        i != 0 && bytes != UINT32_MAX && header.psn == arrived[i - 1]->header.psn + 1;
    if (!shape.first && !follows) bytes = UINT32_MAX;
    if (shape.first) bytes = 0;
    if (bytes == UINT32_MAX) continue;
    bytes += static_cast<uint32_t>(arrived[i]->payload.size());
    const bool completes =
        shape.last && (shape.kind == RequestShape::Kind::kSend || shape.immediate);
    if (!completes) continue;
    texts.push_back(ReceivedText(bytes + area_bytes, shape.immediate, header.immediate,
                                 header.deth.source_qpn));
  }
  return texts;
}

class UnreliableReplay : public testing::TestWithParam<const char*> {
 protected:
  Conversations Of(wire::Service service) const {
    return Conversations(UROCE_GOLDEN_DIR, GetParam(), service);
  }
  static Packets All(const Conversation& conversation) {
    Packets packets;
    for (const Line& line : conversation.lines) packets.push_back(&line.packet);
    return packets;
  }
  static Packets Arrived(const Conversation& conversation) {
    Packets packets;
    for (const Line& line : conversation.lines) {
      if (line.delivered) packets.push_back(&line.packet);
    }
    return packets;
  }
};

// [9.send 9.complete]
TEST_P(UnreliableReplay, OurUcSendsWhatRxeSent) {
  const Conversations conversations = Of(wire::Service::kUc);
  for (const Conversation& conversation : conversations.all()) {
    for (const Packets& run : Runs(All(conversation))) {
      Texts theirs;
      for (const wire::Packet* packet : run) theirs.push_back(TextOf(*packet));
      EXPECT_EQ(SentAgain<UcQueuePair>(run), theirs) << conversation.name;
    }
  }
}

// [9.receive 9.restart 9.rewind]
TEST_P(UnreliableReplay, OurUcReceivesEachMessageThatArrivedWhole) {
  const Conversations conversations = Of(wire::Service::kUc);
  for (const Conversation& conversation : conversations.all()) {
    const Packets arrived = Arrived(conversation);
    EXPECT_EQ(Received<UcQueuePair>(arrived), Whole(arrived, 0)) << conversation.name;
  }
}

// [10.send 10.psn 10.qkey.own]
TEST_P(UnreliableReplay, OurUdSendsWhatRxeSent) {
  const Conversations conversations = Of(wire::Service::kUd);
  std::map<std::pair<Gid, Qpn>, Packets> senders;
  for (const Conversation& conversation : conversations.all()) {
    for (const wire::Packet* packet : All(conversation)) {
      senders[{packet->source, packet->header.deth.source_qpn}].push_back(packet);
    }
  }
  for (auto& [sender, packets] : senders) {
    for (const Packets& run : Runs(packets)) {
      Texts theirs;
      for (const wire::Packet* packet : run) theirs.push_back(TextOf(*packet));
      EXPECT_EQ(SentAgain<UdQueuePair>(run), theirs) << "queue pair " << sender.second.value();
    }
  }
}

// [10.receive]
TEST_P(UnreliableReplay, OurUdReceivesEachDatagram) {
  const Conversations conversations = Of(wire::Service::kUd);
  for (const Conversation& conversation : conversations.all()) {
    const Packets arrived = Arrived(conversation);
    EXPECT_EQ(Received<UdQueuePair>(arrived), Whole(arrived, kGrhAreaBytes)) << conversation.name;
  }
}

std::string TestName(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Captures, UnreliableReplay,
                         testing::Values("linux-rxe-1", "linux-rxe-2", "linux-rxe-4-loss"),
                         TestName);

}  // namespace
}  // namespace uroce::transport
