// SPDX-License-Identifier: Apache-2.0
// A connection: two queue pairs, what is known of them, and one view of them for each point where
// their packets were captured.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"
#include "tools/analyze/story/finding.h"
#include "tools/analyze/story/request_stream.h"

namespace uroce::tools::analyze {

/// How sure it is that both directions belong together.
enum class Joined : uint8_t {
  kOneDirection,   ///< Only one direction was captured, or no partner was found.
  kByPort,         ///< The UDP source port of both is that of these QPNs.
  kByPsns,         ///< Answers fit requests.
  kByPsnsAndPort,  ///< The UDP source port of both is that of these QPNs too.
  kByCm,           ///< The connection manager's exchange names both queue pairs.
};
absl::string_view NameOf(Joined joined);

struct End {
  Gid address;
  Qpn qpn;
  bool knows_qpn = false;
};

/// Datagrams of one direction. They have no order.
struct DatagramAmounts {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t marked = 0;
};

/// What one capture point shows of a connection. `of[i]`: the requests of end i, with their
/// answers.
struct View {
  uint32_t point = 0;
  uint64_t packets = 0;
  std::array<std::unique_ptr<RequestStream>, 2> of;
};

struct Connection {
  uint32_t number = 0;
  std::array<End, 2> ends;
  wire::Service service = wire::Service::kRc;
  Joined joined = Joined::kOneDirection;
  uint64_t first_frame = 0;
  int64_t first_ns = 0;
  int64_t last_ns = 0;
  uint64_t packets = 0;
  uint64_t bytes = 0;  ///< On the wire.
  // What the connection manager's exchange says.
  bool knows_first_psns = false;
  std::array<wire::Psn, 2> first_psns;
  uint32_t mtu_bytes = 0;  ///< 0: not known from there.
  std::string cm_service;
  int64_t setup_ns = 0;                      ///< From REQ to RTU; 0: not captured.
  std::array<DatagramAmounts, 2> datagrams;  ///< By sender.
  std::vector<View> views;
  bool was_merged = false;  ///< Another connection has all of it.

  /// The view of the point.
  View& ViewOf(uint32_t point);
  /// The view with most packets.
  const View* MainView() const;
  bool is_reliable() const {
    return service == wire::Service::kRc || service == wire::Service::kXrc;
  }
};

/// "10.0.0.1 qp 0x000011 <-> 10.0.0.2 qp 0x000012".
std::string EndsText(const Connection& connection);
absl::string_view NameOf(wire::Service service);

}  // namespace uroce::tools::analyze
