// SPDX-License-Identifier: Apache-2.0
// What the connection manager keeps and counts, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace uroce::nic {

class Nic;
class RdmaCmHost;
class Session;

/// Each librdmacm id of the given sessions: whose it is, where it leads and how far it has come.
nlohmann::ordered_json ConnectionsJson(const Nic& nic, const RdmaCmHost& host,
                                       const std::vector<const Session*>& sessions);
/// Messages received and sent by kind, and what became of those that did nothing.
nlohmann::ordered_json ManagerJson(const RdmaCmHost& host);

}  // namespace uroce::nic
