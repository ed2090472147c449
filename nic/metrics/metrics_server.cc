// SPDX-License-Identifier: Apache-2.0
#include "nic/metrics/metrics_server.h"

#include <httplib.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nic/metrics/open_metrics.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLongestRequest{2000};
constexpr std::chrono::milliseconds kLongestAnswer{1500};
constexpr std::chrono::milliseconds kLook{100};  // How often a connection looks for the end.
constexpr size_t kMaxRequestBytes = 16 << 10;
constexpr size_t kMaxBodyBytes = 1 << 10;
constexpr size_t kThreads = 4;
constexpr size_t kMaxWaiting = 16;

/// Of the thread that accepts: there is no room for the connection that it has accepted.
thread_local bool refuses = false;

/// A connection whose bytes and time have an end.
class BoundedStream final : public httplib::Stream {
 public:
  /// `ends`: the server is about to end. Outlives this object.
  BoundedStream(int fd, const std::atomic<bool>& ends) : fd_(fd), ends_(ends) {}

  bool is_readable() const override { return !unread_.empty() || Await(POLLIN); }
  bool is_writable() const override { return Await(POLLOUT); }
  /// httplib reads byte by byte.
  ssize_t read(char* to, size_t size) override {
    if (unread_.empty()) {
      const size_t room = std::min(sizeof(buffer_), kMaxRequestBytes - received_);
      if (room == 0 || !Await(POLLIN)) return -1;
      const ssize_t got = recv(fd_, buffer_, room, MSG_DONTWAIT);
      if (got <= 0) return got;
      received_ += static_cast<size_t>(got);
      unread_ = {buffer_, static_cast<size_t>(got)};
    }
    const size_t count = unread_.copy(to, size);
    unread_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, size_t size) override {
    if (!Await(POLLOUT)) return -1;
    return send(fd_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return fd_; }

 private:
  bool Await(int16_t events) const {
    using std::chrono::milliseconds;
    while (!ends_) {
      const auto left = std::chrono::duration_cast<milliseconds>(end_ - Clock::now());
      if (left <= milliseconds(0)) return false;
      pollfd poll_fd{.fd = fd_, .events = events, .revents = 0};
      const int ready = poll(&poll_fd, 1, static_cast<int>(std::min(left, kLook).count()));
      if (ready != 0) return ready > 0;
    }
    return false;
  }

  const int fd_;
  const std::atomic<bool>& ends_;
  const Clock::time_point end_ = Clock::now() + kLongestRequest;
  size_t received_ = 0;
  char buffer_[2048];
  absl::string_view unread_;  ///< Of `buffer_`.
};

/// Threads of httplib, with a bound on what waits for them.
class BoundedTasks final : public httplib::TaskQueue {
 public:
  /// void, or bool in newer versions of httplib: work that is refused here is done, too.
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue(nullptr));

  Enqueued enqueue(std::function<void()> work) override {
    if (waiting_ >= kMaxWaiting) {
      refuses = true;
      work();
      refuses = false;
      return static_cast<Enqueued>(true);
    }
    ++waiting_;
    pool_.enqueue([this, work = std::move(work)] {
      --waiting_;
      work();
    });
    return static_cast<Enqueued>(true);
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  std::atomic<size_t> waiting_{0};
  httplib::ThreadPool pool_{kThreads};
};

/// httplib sets SO_REUSEPORT, with which a second daemon listens at the address of the first, and
/// each scrape meets either.
void TakeFreePort(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

/// A daemon that was killed has left its socket.
void RemoveStale(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int result =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (result != 0 && errno == ECONNREFUSED) unlink(path.c_str());
}

}  // namespace

class MetricsServer::Http final : public httplib::Server {
 public:
  Http() {
    new_task_queue = [] { return new BoundedTasks; };
    set_socket_options(TakeFreePort);
    set_payload_max_length(kMaxBodyBytes);
  }
  void Run() {
    listen_after_bind();
    has_run_ = true;
  }
  /// Until it runs, httplib takes no notice of a stop.
  void End() {
    ends_ = true;
    while (!is_running() && !has_run_) std::this_thread::yield();
    stop();
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    const Fd owner(socket);
    if (refuses) return false;
    BoundedStream stream(socket, ends_);
    bool is_closed = false;
    const bool result = Answer(*this, stream, is_closed);
    ::shutdown(socket, SHUT_RDWR);
    return result;
  }

  /// Newer versions of httplib ask for the addresses of both ends, which nobody here looks at.
  template <typename Server>
  static bool Answer(Server& server, BoundedStream& stream, bool& is_closed) {
    constexpr bool kCloses = true;
    if constexpr (requires { server.process_request(stream, kCloses, is_closed, nullptr); }) {
      return server.process_request(stream, kCloses, is_closed, nullptr);
    } else {
      return server.process_request(stream, "", 0, "", 0, kCloses, is_closed, nullptr);
    }
  }

  std::atomic<bool> ends_{false};
  std::atomic<bool> has_run_{false};
};

/// Questions of HTTP threads to the control thread.
struct MetricsServer::Exchange {
  std::mutex mutex;
  std::condition_variable answered;
  uint64_t questions = 0;  ///< This and all below: under the mutex.
  uint64_t answers = 0;    ///< Questions up to this number have an answer.
  SharedSnapshot newest;
  bool has_ended = false;
  const Fd event{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  /// Null: there is no answer in time. Any thread but the control thread.
  SharedSnapshot Ask() {
    std::unique_lock lock(mutex);
    const uint64_t number = ++questions;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(event.get(), &one, sizeof(one));
    answered.wait_for(lock, kLongestAnswer, [&] { return answers >= number || has_ended; });
    return answers >= number ? newest : nullptr;
  }
  void Answer(uint64_t up_to, SharedSnapshot snapshot) {
    const std::lock_guard lock(mutex);
    answers = up_to;
    newest = std::move(snapshot);
    answered.notify_all();
  }
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Listen(const ListenAddress& address) {
  auto http = std::make_unique<Http>();
  if (!address.path.empty()) {
    RemoveStale(address.path);
    http->set_address_family(AF_UNIX);
  }
  errno = 0;
  const std::string& place = address.path.empty() ? address.host : address.path;
  if (!http->bind_to_port(place, address.path.empty() ? address.port : 1)) {
    return absl::UnavailableError(absl::StrCat(
        "--metrics: cannot listen on ", place,
        address.path.empty() ? absl::StrCat(":", address.port) : "", ": ", std::strerror(errno)));
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(http), address));
}

MetricsServer::MetricsServer(std::unique_ptr<Http> http, ListenAddress address)
    : http_(std::move(http)),
      address_(std::move(address)),
      exchange_(std::make_shared<Exchange>()) {
  http_->Get("/metrics",
             [exchange = exchange_](const httplib::Request&, httplib::Response& response) {
               const SharedSnapshot snapshot = exchange->Ask();
               if (snapshot == nullptr) {
                 response.status = 503;
                 return;
               }
               response.set_content(OpenMetrics(*snapshot), kOpenMetricsType);
             });
}

void MetricsServer::Start(EventLoop& loop, Source source) {
  loop_ = &loop;
  source_ = std::move(source);
  watch_ = loop.Watch(exchange_->event.get(), EPOLLIN, [this] { OnQuestion(); });
  thread_ = std::thread([this] { http_->Run(); });
}

MetricsServer::~MetricsServer() {
  {
    const std::lock_guard lock(exchange_->mutex);
    exchange_->has_ended = true;
    exchange_->answered.notify_all();
  }
  if (thread_.joinable()) {
    http_->End();
    thread_.join();
  }
  if (loop_ != nullptr) loop_->Forget(watch_);
  if (!address_.path.empty()) unlink(address_.path.c_str());
}

void MetricsServer::OnQuestion() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(exchange_->event.get(), &count, sizeof(count));
  uint64_t up_to = 0;
  {
    const std::lock_guard lock(exchange_->mutex);
    up_to = exchange_->questions;
  }
  source_([exchange = exchange_, up_to](SharedSnapshot snapshot) {
    exchange->Answer(up_to, std::move(snapshot));
  });
}

}  // namespace uroce::nic
