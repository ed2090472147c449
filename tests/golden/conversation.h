// SPDX-License-Identifier: Apache-2.0
// What went between two queue pairs of a golden capture, packet by packet, each way for itself.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "pipeline/transport/work.h"
#include "pipeline/wire/decode.h"
#include "tests/golden/capture_file.h"

namespace uroce {

inline constexpr const char* kGoldenCaptures[] = {"linux-rxe-1", "linux-rxe-2", "linux-rxe-3",
                                                  "linux-rxe-4-loss", "linux-rxe-5-rnr"};

/// One packet between the two ends of a connection.
struct Line {
  int frame = 0;  ///< Its number in the file, from 1.
  wire::Packet packet;
  bool delivered = true;  ///< False: recorded, but the proxy or the peer's death kept it.
  bool is_response() const { return transport::IsResponse(packet.header.opcode); }
};

/// What went between a requester and its responder: requests one way, responses the other.
struct Conversation {
  std::string name;
  std::vector<Line> lines;
};

/// Both directions of all connections of a capture, those of another service than RC likewise. Both
/// ends of these connections have the same QPN: they made their queue pairs in step.
class Conversations {
 public:
  /// `capture` is a file of `folder` without its suffix.
  Conversations(const std::string& folder, const std::string& capture,
                wire::Service service = wire::Service::kRc)
      : frames_(ReadCapture(folder + "/" + capture + ".pcap")),
        lost_(LostFrames(folder + "/" + capture + ".txt")) {
    using Key = std::tuple<Gid, Gid, Qpn>;  // Requester, responder, QPN.
    std::map<Key, size_t> index;
    for (size_t i = 0; i < frames_.size(); ++i) {
      Line line;
      line.frame = static_cast<int>(i) + 1;
      wire::FrameView view;
      if (wire::Decode(frames_[i], line.packet, view) != wire::DecodeResult::kOk) continue;
      if (wire::ServiceOf(line.packet.header.opcode) != service) continue;
      line.delivered = !lost_.contains(line.frame);
      const bool response = line.is_response();
      const Key key{response ? line.packet.destination : line.packet.source,
                    response ? line.packet.source : line.packet.destination,
                    line.packet.header.dest_qpn};
      const auto [found, is_new] = index.emplace(key, all_.size());
      if (is_new) {
        all_.emplace_back().name = capture + " from frame " + std::to_string(line.frame);
      }
      all_[found->second].lines.push_back(line);
    }
  }
  const std::vector<Conversation>& all() const { return all_; }

 private:
  /// Frames that the text beside the capture says were not delivered as they were.
  static std::set<int> LostFrames(const std::string& path) {
    std::set<int> lost;
    std::ifstream file(path);
    for (std::string text; std::getline(file, text);) {
      const bool is_lost = text.find("DROPPED") != std::string::npos ||
                           text.find("ICRC corrupted") != std::string::npos;
      int frame = 0;
      if (is_lost && std::istringstream(text) >> frame) lost.insert(frame);
    }
    return lost;
  }

  std::vector<std::vector<uint8_t>> frames_;  ///< Payloads of `all_` point here.
  std::set<int> lost_;
  std::vector<Conversation> all_;
};

}  // namespace uroce
