// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/core/core_script.h"

#include "pipeline/transport/work.h"
#include "tests/golden/conversation.h"

namespace uroce::sim {
namespace {

using transport::RequestShape;
using transport::WorkOpcode;

CoreRecord SettingOf(wire::Psn first) {
  CoreRecord setting;
  setting.flags = 2;      // Selective repeat.
  setting.opcode = 2;     // MTU 1024, as in all captures.
  setting.syndrome = 16;  // READs and atomics, both ways.
  setting.size = 16;
  setting.psn = 7 * 4;  // Retries.
  setting.length = first.value();
  return setting;
}

CoreRecord PacketRecord(const wire::Packet& packet, CoreRecord::Kind kind, wire::Psn first) {
  const wire::TransportHeader& header = packet.header;
  CoreRecord record;
  record.kind = kind;
  record.flags = static_cast<uint8_t>((header.ack_request ? CoreRecord::kAckRequest : 0) |
                                      (header.solicited ? CoreRecord::kSolicited : 0));
  record.opcode = static_cast<uint8_t>(header.opcode);
  record.syndrome = header.aeth.syndrome;
  record.psn = static_cast<uint16_t>(header.psn.Since(first));
  record.size = static_cast<uint16_t>(packet.payload.size());
  record.length = header.reth.length_bytes;
  record.msn = kind == CoreRecord::kRequest ? 8192 : header.aeth.msn;
  return record;
}

WorkOpcode OpcodeOf(const RequestShape& shape) {
  switch (shape.kind) {
    case RequestShape::Kind::kWrite:
      return shape.immediate ? WorkOpcode::kWriteWithImm : WorkOpcode::kWrite;
    case RequestShape::Kind::kRead:
      return WorkOpcode::kRead;
    case RequestShape::Kind::kAtomic:
      return WorkOpcode::kFetchAdd;
    case RequestShape::Kind::kAtomicWrite:
      return WorkOpcode::kAtomicWrite;
    default:
      return shape.invalidate ? WorkOpcode::kSendWithInvalidate : WorkOpcode::kSend;
  }
}

/// Posts and sends the work whose last packet this is.
void AppendWork(const wire::Packet& packet, uint32_t length, std::vector<CoreRecord>& script) {
  const RequestShape shape = transport::ShapeOf(packet.header.opcode);
  CoreRecord post;
  post.kind = CoreRecord::kPost;
  post.opcode = static_cast<uint8_t>(OpcodeOf(shape));
  post.length = shape.kind == RequestShape::Kind::kRead ? packet.header.reth.length_bytes : length;
  if (shape.kind == RequestShape::Kind::kAtomic) post.length = 8;
  script.push_back(post);
  CoreRecord send;
  send.kind = CoreRecord::kSend;
  send.size = 63;
  script.push_back(send);
}

}  // namespace

std::vector<CoreRecord> ScriptOfRequester(const Conversation& conversation) {
  const wire::Psn first = conversation.lines.front().packet.header.psn;
  std::vector<CoreRecord> script{SettingOf(first)};
  uint32_t length = 0;
  for (const Line& line : conversation.lines) {
    if (line.is_response()) {
      script.push_back(PacketRecord(line.packet, CoreRecord::kResponse, first));
      CoreRecord wait;
      wait.kind = CoreRecord::kTime;
      wait.syndrome = 25;
      script.push_back(wait);
      continue;
    }
    const RequestShape shape = transport::ShapeOf(line.packet.header.opcode);
    if (shape.first) length = 0;
    length += static_cast<uint32_t>(line.packet.payload.size());
    if (shape.last) AppendWork(line.packet, length, script);
  }
  return script;
}

std::vector<CoreRecord> ScriptOfReceiver(const Conversation& conversation) {
  const wire::Psn first = conversation.lines.front().packet.header.psn;
  std::vector<CoreRecord> script{SettingOf(first)};
  for (const Line& line : conversation.lines) {
    if (line.is_response()) continue;
    script.push_back(PacketRecord(line.packet, CoreRecord::kRequest, first));
    if (!line.packet.header.ack_request) continue;
    CoreRecord send;
    send.kind = CoreRecord::kSend;
    send.size = 63;
    script.push_back(send);
  }
  return script;
}

}  // namespace uroce::sim
