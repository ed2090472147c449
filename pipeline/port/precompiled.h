// SPDX-License-Identifier: Apache-2.0
// What nearly all sources of the data path and of the drivers include: each of the two libraries
// parses it once. No source includes it by name.
#ifndef UROCE_PIPELINE_PORT_PRECOMPILED_H_
#define UROCE_PIPELINE_PORT_PRECOMPILED_H_

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#endif  // UROCE_PIPELINE_PORT_PRECOMPILED_H_
