// SPDX-License-Identifier: Apache-2.0
// Which worker has too much to do, which has little, and which of the connections between them
// moves best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace uroce::nic {

/// From one worker to another.
struct WorkerMove {
  uint32_t from = 0;
  uint32_t to = 0;
  friend bool operator==(const WorkerMove&, const WorkerMove&) = default;
};

/// The busiest worker and the idlest one, if the first needs help that the second can give.
/// `busy`: for each worker, the share of the time in which it had something to do, in [0, 1].
/// `cpus`: that workers may run on. A worker more on a CPU that another one fills helps no program.
std::optional<WorkerMove> FindImbalance(std::span<const double> busy, uint32_t cpus);

/// The order in which connections of the busiest worker are tried, the best one first: it leaves
/// the least to the busier of the two workers. Connections are left out that do not take a fifth of
/// the work off it.
/// `costs`: of each connection, in any unit. `from`, `to`: the shares of the two workers.
std::vector<size_t> RankMoves(std::span<const double> costs, double from, double to);

}  // namespace uroce::nic
