// SPDX-License-Identifier: Apache-2.0
// What the connection manager keeps and counts, as JSON.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "nic/dumps/dump_stream.h"

namespace uroce::nic {

class RdmaCmHost;

/// Each librdmacm id that `asker` may see: whose it is, where it leads and how far it has come.
std::unique_ptr<DumpSource> MakeConnectionsDump(const DumpContext& context, const Client& asker);
/// Messages received and sent by kind, and what became of those that did nothing.
nlohmann::ordered_json ManagerJson(const RdmaCmHost& host);

}  // namespace uroce::nic
