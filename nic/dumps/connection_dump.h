// SPDX-License-Identifier: Apache-2.0
// The connection manager, librdmacm's ids, and what the daemon knows of the NICs at the other ends,
// as JSON.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "nic/dumps/dump_stream.h"

namespace uroce::nic {

/// Lists librdmacm ids: their programs, their destinations and their states.
std::unique_ptr<DumpSource> MakeConnectionsDump(const DumpContext& context, const Client& asker);
/// Messages of the connection manager received and sent by kind, and the reasons why messages had
/// no effect.
nlohmann::ordered_json ManagerJson(const RdmaCmHost& host);

/// Each path that reliable connections of the given clients use, and what is agreed on there.
nlohmann::ordered_json PeersJson(const Nic& nic, const std::vector<const Client*>& clients);
/// Counts the questions and answers of all peers.
nlohmann::ordered_json PeerCountersJson(const NegotiationHost& peers);

}  // namespace uroce::nic
