// SPDX-License-Identifier: Apache-2.0
// The connection manager, librdmacm's ids, and what the daemon knows of the NICs at the other ends,
// as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace uroce::nic {

// The state and counters of the connection manager, as JSON.

class RdmaCmHost;

/// Messages received and sent by kind, and the reasons why messages had no effect.
nlohmann::ordered_json ManagerJson(const RdmaCmHost& host);

// What the daemon knows of the NICs that queue pairs are connected to, as JSON.

class Nic;
class PeerAgreements;
class Client;

/// Each path that reliable connections of the given clients use, and what is agreed on there.
nlohmann::ordered_json PeersJson(const Nic& nic, const std::vector<const Client*>& clients);
/// Counts the questions and answers of all peers.
nlohmann::ordered_json PeerCountersJson(const PeerAgreements& peers);

}  // namespace uroce::nic
