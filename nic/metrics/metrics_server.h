// SPDX-License-Identifier: Apache-2.0
// Serves metrics by HTTP, on its own thread.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/metrics/open_metrics.h"
#include "nic/settings/setting.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

/// GET /metrics has the text of OpenMetrics, anything else an error; bounds:
/// nic/metrics/http_server.h. The control thread is asked for one snapshot at a time, whose text
/// answers all requests that came before the question. It does not wait for the server's thread.
class MetricsServer {
 public:
  using SharedSnapshot = std::shared_ptr<const Snapshot>;
  /// Called on the control thread; calls `answer` there, at once or later.
  using Source = std::function<void(std::function<void(SharedSnapshot)> answer)>;

  /// Binds. A socket that a killed daemon left at the path is replaced. Errors: Unavailable.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Listen(const ListenAddress& address);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// Serves from now on. Control thread; `loop` outlives this object.
  void Start(EventLoop& loop, Source source);

 private:
  struct Exchange;
  class Page;
  MetricsServer(Fd listener, ListenAddress address);
  void OnQuestion();

  Fd listener_;  ///< Until Start.
  const ListenAddress address_;
  /// Shared with answers that come after the end.
  const std::shared_ptr<Exchange> exchange_;
  EventLoop* loop_ = nullptr;
  EventLoop::Id watch_ = 0;
  Source source_;
  std::thread thread_;
};

}  // namespace uroce::nic
