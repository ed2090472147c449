// SPDX-License-Identifier: Apache-2.0
// What nearly all sources of the daemon's library include: the build parses it once for all of
// them.
#ifndef UROCE_NIC_BASE_PRECOMPILED_H_
#define UROCE_NIC_BASE_PRECOMPILED_H_

#include <rte_mbuf.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#endif  // UROCE_NIC_BASE_PRECOMPILED_H_
