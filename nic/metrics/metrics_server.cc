// SPDX-License-Identifier: Apache-2.0
#include "nic/metrics/metrics_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nic/metrics/http_server.h"
#include "nic/metrics/open_metrics.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {
namespace {

constexpr Nanos kLongestAnswer{1'500'000'000};
// Clients that ask all the time get 100 snapshots a second of the control thread's time.
constexpr Nanos kQuestionPause{10'000'000};

void Signal(const Fd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof(one));
}

void Clear(const Fd& event) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event.get(), &count, sizeof(count));
}

}  // namespace

/// What the server's thread and the control thread tell each other.
struct MetricsServer::Exchange {
  std::mutex mutex;
  SharedSnapshot answer;   ///< This and the next: under the mutex.
  bool has_ended = false;  ///< The server ends.
  const Fd question{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  const Fd news{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  ///< Of the answer or the end.

  void Answer(SharedSnapshot snapshot) {
    const std::lock_guard lock(mutex);
    answer = std::move(snapshot);
    Signal(news);
  }
  void End() {
    const std::lock_guard lock(mutex);
    has_ended = true;
    Signal(news);
  }
};

/// The page of metrics, on the server's thread.
class MetricsServer::Page {
 public:
  Page(Fd listener, Audience audience, Exchange& exchange)
      : audience_(audience),
        exchange_(exchange),
        server_(loop_, std::move(listener),
                [this](absl::string_view path) { return OnRequest(path); }) {
    loop_.Watch(exchange_.news.get(), EPOLLIN, [this] { OnNews(); });
  }
  void Run() { loop_.Run(); }

 private:
  std::optional<HttpServer::Response> OnRequest(absl::string_view path) {
    if (path != "/metrics") return HttpServer::Response{.status = 404};
    if (!is_asking_) Ask();
    return std::nullopt;
  }
  void Ask() {
    is_asking_ = true;
    asked_ = server_.last_request();
    Signal(exchange_.question);
    LosePatienceLater();
  }
  /// The control thread has not answered: no request waits for it any longer.
  void LosePatienceLater() {
    patience_ = loop_.After(kLongestAnswer, [this] {
      server_.Respond(server_.last_request(), {.status = 503});
      LosePatienceLater();
    });
  }
  void OnNews() {
    Clear(exchange_.news);
    SharedSnapshot snapshot;
    {
      const std::lock_guard lock(exchange_.mutex);
      snapshot = std::exchange(exchange_.answer, nullptr);
      if (exchange_.has_ended) return loop_.Stop();
    }
    if (snapshot == nullptr) return;
    loop_.Cancel(patience_);
    server_.Respond(asked_,
                    {.status = 200,
                     .content_type = kOpenMetricsType,
                     .body = std::make_shared<std::string>(OpenMetrics(*snapshot, audience_))});
    loop_.After(kQuestionPause, [this] {
      is_asking_ = false;
      if (server_.last_request() > asked_) Ask();
    });
  }

  EventLoop loop_;
  const Audience audience_;
  Exchange& exchange_;
  HttpServer server_;
  EventLoop::Id patience_ = 0;
  bool is_asking_ = false;  ///< Or has just asked.
  uint64_t asked_ = 0;      ///< The newest request that the question is for.
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Listen(const ListenAddress& address) {
  absl::StatusOr<Fd> listener = ListenForHttp(address);
  if (!listener.ok()) {
    return absl::UnavailableError(absl::StrCat("--metrics: ", listener.status().message()));
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(*std::move(listener), address));
}

MetricsServer::MetricsServer(Fd listener, ListenAddress address)
    : listener_(std::move(listener)),
      address_(std::move(address)),
      exchange_(std::make_shared<Exchange>()) {}

void MetricsServer::Start(EventLoop& loop, Source source) {
  loop_ = &loop;
  source_ = std::move(source);
  watch_ = loop.Watch(exchange_->question.get(), EPOLLIN, [this] { OnQuestion(); });
  // Only the owner of the path and root can connect to a Unix socket.
  const Audience audience = address_.path.empty() ? Audience::kAnyUser : Audience::kPrivileged;
  thread_ =
      std::thread([exchange = exchange_, audience, listener = std::move(listener_)]() mutable {
        Page(std::move(listener), audience, *exchange).Run();
      });
}

MetricsServer::~MetricsServer() {
  exchange_->End();
  if (thread_.joinable()) thread_.join();
  if (loop_ != nullptr) loop_->Forget(watch_);
  if (!address_.path.empty()) unlink(address_.path.c_str());
}

void MetricsServer::OnQuestion() {
  Clear(exchange_->question);
  source_(
      [exchange = exchange_](SharedSnapshot snapshot) { exchange->Answer(std::move(snapshot)); });
}

}  // namespace uroce::nic
