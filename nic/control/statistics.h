// SPDX-License-Identifier: Apache-2.0
// The counters of all devices for those that ask often.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nic/base/event_loop.h"
#include "nic/dumps/dump_context.h"
#include "nic/metrics/snapshot.h"
#include "nic/objects/client.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

class StatWalk;

/// Looks at the counters when somebody asks, and only then. Questions that come while it looks get
/// one answer together. An answer is kept for 10 ms, and for 50 times the CPU time that it took:
/// strangers that ask without end take 2 % of the control thread at most. Control thread.
class Statistics {
 public:
  using Answer = std::function<void(const std::shared_ptr<const Snapshot>& snapshot)>;

  explicit Statistics(const DumpContext& context);
  ~Statistics();
  Statistics(const Statistics&) = delete;
  Statistics& operator=(const Statistics&) = delete;

  /// Calls `answer` at once or later, unless this object ends first.
  void Ask(Answer answer);

  /// What is known is out of date: a device has come or gone.
  void Forget();

  static constexpr Nanos kLifespan{10'000'000};
  static constexpr int64_t kRestPerWork = 50;

 private:
  void Continue();
  void Finish();

  const DumpContext& context_;
  const Client self_;
  std::unique_ptr<StatWalk> walk_;
  Nanos spent_{0};
  Nanos fresh_until_{0};
  std::shared_ptr<const Snapshot> newest_;
  std::vector<Answer> waiting_;
  EventLoop::Id next_ = 0;
};

}  // namespace uroce::nic
