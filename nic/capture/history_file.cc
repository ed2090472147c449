// SPDX-License-Identifier: Apache-2.0
#include "nic/capture/history_file.h"

#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/capture/note_text.h"
#include "pipeline/capture/pcapng_writer.h"

namespace uroce::nic {
namespace {

using datapath::FailureCause;
using Side = transport::Failure::Side;

constexpr int64_t kNanosPerSecond = 1'000'000'000;

std::string FailureText(const transport::Failure& failure) {
  const bool refused = failure.side == Side::kResponder;
  std::string text =
      absl::StrCat(refused ? " refused psn " : " failed at psn ", failure.psn.value());
  if (failure.status != transport::WcStatus::kSuccess) {
    absl::StrAppend(&text, ": ", capture::StatusName(static_cast<uint8_t>(failure.status)));
  }
  if (failure.syndrome != 0) {
    absl::StrAppend(
        &text, refused ? ", NAK sent: " : ", NAK received: ", capture::NakName(failure.syndrome));
  }
  return text;
}

std::string SectionComment(const std::string& comment) {
  return absl::StrCat(comment, comment.empty() ? "" : "; ", "of each packet the first ",
                      datapath::kHistorySnapBytes, " bytes were kept, zeros stand for the others");
}

}  // namespace

std::string FailureComment(const datapath::FailedQueuePair& failed) {
  const std::string qp = absl::StrFormat("qp 0x%06x", failed.qpn.value());
  switch (failed.cause) {
    case FailureCause::kTransport:
      return qp + FailureText(failed.failure);
    case FailureCause::kCompletionQueue:
      return qp + " failed: its completion queue overflowed";
    case FailureCause::kSendQueue:
      return qp + " failed: its send queue holds nonsense";
    case FailureCause::kReceiveQueue:
      return qp + " failed: its receive queue holds nonsense";
  }
  return qp;
}

std::string HistoryFile(const std::vector<datapath::HistoryPacket>& packets,
                        const uroce_capture_interface& interface, const std::string& comment) {
  capture::PcapngWriter writer;
  writer.AddSection("uroced " UROCE_VERSION, SectionComment(comment));
  writer.AddInterface(interface, 0);
  for (const datapath::HistoryPacket& packet : packets) {
    std::vector<uint8_t> bytes(packet.bytes.begin(), packet.bytes.begin() + packet.captured_bytes);
    bytes.resize(packet.wire_length_bytes);
    const capture::CapturedFrame frame{.time_ns = packet.time_ns,
                                       .direction = packet.direction,
                                       .wire_length_bytes = packet.wire_length_bytes,
                                       .note = packet.note,
                                       .bytes = bytes};
    writer.AddFrame(frame, &packet == &packets.back() ? comment : std::string());
  }
  return {writer.bytes().begin(), writer.bytes().end()};
}

std::string HistoryFileName(const std::string& device, Qpn qpn, Nanos time) {
  const time_t seconds = time.count() / kNanosPerSecond;
  tm utc{};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%s-qp0x%06x-%04d%02d%02dT%02d%02d%02d.%09dZ.pcapng", device, qpn.value(),
                         utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                         utc.tm_sec, time.count() % kNanosPerSecond);
}

}  // namespace uroce::nic
