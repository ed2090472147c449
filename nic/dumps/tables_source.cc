// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/tables_source.h"

#include "nic/objects/client.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

bool TablesSource::AppendItems(std::string& text) {
  for (const Client* client : context_.clients()) {
    if (client->id() < client_) continue;
    if (client->id() != client_) table_ = handle_ = 0;
    client_ = client->id();
    if (client->program() == nullptr || !asker_.MaySee(*client)) continue;
    if (!AppendAllOf(*client, text)) return true;
  }
  return false;
}

bool TablesSource::AppendAllOf(const Client& client, std::string& text) {
  while (table_ < tables_) {
    if (text.size() >= kPieceBytes) return false;
    handle_ = AddNext(client, table_, handle_, text);
    if (handle_ != UROCE_NONE) continue;
    ++table_;
    handle_ = 0;
  }
  return true;
}

}  // namespace uroce::nic
