// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/held_dump.h"

#include <nlohmann/json.hpp>

#include "nic/objects/nic.h"

namespace uroce::nic {

nlohmann::ordered_json HeldJson(const Nic& nic) {
  nlohmann::ordered_json json;
  for (const Numbers::Held& held : nic.numbers().held()) json[held.name] = held.count;
  json["frames"] = nic.workers().frames_in_use();
  return json;
}

}  // namespace uroce::nic
