// SPDX-License-Identifier: Apache-2.0
// What is known of the NICs that queue pairs are connected to, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace uroce::nic {

class Nic;
class PeerAgreements;
class Session;

/// Each path that reliable connections of the given sessions use, and what is agreed on there.
nlohmann::ordered_json PeersJson(const Nic& nic, const std::vector<const Session*>& sessions);
/// Questions and answers, of all.
nlohmann::ordered_json PeerCountersJson(const PeerAgreements& peers);

}  // namespace uroce::nic
