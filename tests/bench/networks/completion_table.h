// SPDX-License-Identifier: Apache-2.0
// Flow completion times of the profiles, beside the published ones of DCQCN.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/networks/candidate.h"
#include "tests/networks/completion_times.h"

namespace uroce::networks {

struct CompletionOptions {
  FatTree tree;
  Load load;
  uint32_t mtu_bytes = 4096;
  std::string csv;  ///< A file to write the numbers to as well; empty: none.
};

/// Prints a table. Returns false when the file cannot be written.
bool CompletionTable(const std::vector<Candidate>& candidates, const CompletionOptions& options);

}  // namespace uroce::networks
