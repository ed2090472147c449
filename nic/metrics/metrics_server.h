// SPDX-License-Identifier: Apache-2.0
// Serves metrics by HTTP, on threads of its own.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/metrics/open_metrics.h"
#include "nic/settings/setting.h"

namespace uroce::nic {

/// GET /metrics has the text of OpenMetrics, anything else an error. What clients can do is
/// bounded: a request has 2 s and 16 KiB, 4 are served at a time, 16 wait, further ones are closed.
/// The control thread answers questions for a snapshot and waits for none of these threads.
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
  class Http;
  struct Exchange;
  MetricsServer(std::unique_ptr<Http> http, ListenAddress address);
  void OnQuestion();

  const std::unique_ptr<Http> http_;
  const ListenAddress address_;
  /// Shared with answers that come after the end.
  const std::shared_ptr<Exchange> exchange_;
  EventLoop* loop_ = nullptr;
  EventLoop::Id watch_ = 0;
  Source source_;
  std::thread thread_;
};

}  // namespace uroce::nic
