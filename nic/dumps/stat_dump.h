// SPDX-License-Identifier: Apache-2.0
// The counters of all devices, as JSON.
#pragma once

#include <string>

#include "nic/dumps/dump_stream.h"
#include "nic/dumps/stat_walk.h"

namespace uroce::nic {

/// UROCE_DUMP_STAT.
class StatSource : public DumpSource {
 public:
  StatSource(const DumpContext& context, const Client& asker)
      : context_(context), walk_(context, asker) {}
  bool Append(std::string& text) override;

 private:
  const DumpContext& context_;
  StatWalk walk_;
};

}  // namespace uroce::nic
