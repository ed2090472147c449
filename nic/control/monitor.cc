// SPDX-License-Identifier: Apache-2.0
// What tools observe: events, dumps and captures.
#include "nic/control/monitor.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nic/capture/capture.h"
#include "nic/control/control_context.h"
#include "nic/devices/nic_device.h"
#include "nic/dumps/dump.h"
#include "nic/dumps/dump_stream.h"
#include "nic/net/address.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/unix_socket.h"
#include "pipeline/shm/abi/uroce_events.h"

namespace uroce::nic {
namespace {

// How often queue pairs are looked at: workers put them in error without a word.
constexpr Nanos kLookInterval{250'000'000};
constexpr int64_t kMicrosPerSecond = 1'000'000;

/// RFC 3339, UTC, with microseconds.
std::string Timestamp() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const int64_t micros = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  const time_t seconds = micros / kMicrosPerSecond;
  tm parts{};
  gmtime_r(&seconds, &parts);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", parts.tm_year + 1900,
                         parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                         micros % kMicrosPerSecond);
}

std::string LineOf(const char* event, const Monitor::Json& fields) {
  Monitor::Json json = {{"timestamp", Timestamp()}, {"event", event}};
  json.update(fields);
  return JsonText(json) + "\n";
}

Monitor::Json CountersJson(const datapath::Counters& counters) {
  Monitor::Json json = Monitor::Json::object();
  for (const CounterRow& row : kCounters) {
    if (counters.*row.value != 0) json[row.name] = counters.*row.value;
  }
  return json;
}

}  // namespace

Monitor::Monitor(const DumpContext& context)
    : context_(context), self_(0, Peer{getpid(), geteuid(), getegid()}) {}

Monitor::~Monitor() {
  context_.loop.Cancel(next_);
  while (!watchers_.empty()) Remove(watchers_.begin()->first);
}

absl::Status Monitor::Watch(const Client& client, Fd& reader) {
  Remove(client.id());
  absl::StatusOr<UserSocket> socket = UserSocket::Make("events", UserSocket::Holds::kText,
                                                       context_.nic.user(client.account()), reader);
  if (!socket.ok()) return socket.status();
  Watcher& watcher = watchers_[client.id()];
  watcher.uid = client.uid();
  watcher.is_privileged = client.is_privileged();
  watcher.socket = *std::move(socket);
  watcher.watch =
      context_.loop.Watch(watcher.socket.get(), 0, [this, id = client.id()] { OnReady(id); });
  if (watchers_.size() > 1) return absl::OkStatus();
  known_.clear();
  walk_.reset();
  is_first_look_ = true;
  context_.loop.Cancel(next_);
  next_ = context_.loop.After(Nanos(0), [this] { Look(); });
  return absl::OkStatus();
}

void Monitor::Forget(const Client& client) { Remove(client.id()); }

void Monitor::Remove(uint32_t client) {
  const auto found = watchers_.find(client);
  if (found == watchers_.end()) return;
  context_.loop.Forget(found->second.watch);
  watchers_.erase(found);
  if (!watchers_.empty()) return;
  context_.loop.Cancel(std::exchange(next_, 0));
  walk_.reset();
  known_.clear();
}

// Also called when the reader is gone.
void Monitor::OnReady(uint32_t client) {
  const auto found = watchers_.find(client);
  if (found == watchers_.end()) return;
  const bool is_gone = found->second.text.empty();
  if (is_gone || !Send(found->second)) Remove(client);
}

bool Monitor::Send(Watcher& watcher) {
  while (!watcher.text.empty()) {
    const ssize_t sent = send(watcher.socket.get(), watcher.text.data(), watcher.text.size(),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) {
      context_.loop.SetEvents(watcher.watch, EPOLLOUT);
      return true;
    }
    watcher.text.erase(0, static_cast<size_t>(sent));
    if (watcher.text.empty() && watcher.lost != 0) {
      watcher.text = LineOf("lost", {{"count", std::exchange(watcher.lost, 0)}});
    }
  }
  context_.loop.SetEvents(watcher.watch, 0);
  return true;
}

void Monitor::Add(const std::string& line, Watcher& watcher) {
  if (watcher.lost != 0 || watcher.text.size() + line.size() > kMaxBytes) {
    ++watcher.lost;
    return;
  }
  watcher.text += line;
}

void Monitor::Tell(std::optional<uid_t> uid, const char* event, const Json& fields) {
  if (watchers_.empty()) return;
  const std::string line = LineOf(event, fields);
  std::vector<uint32_t> gone;
  for (auto& [id, watcher] : watchers_) {
    if (uid && !watcher.is_privileged && watcher.uid != *uid) continue;
    const bool was_waiting = !watcher.text.empty();
    Add(line, watcher);
    if (!was_waiting && !Send(watcher)) gone.push_back(id);
  }
  for (const uint32_t id : gone) Remove(id);
}

void Monitor::OnProgram(const Client& client, bool has_joined) {
  Tell(client.uid(), has_joined ? "program_joined" : "program_left",
       {{"program", client.command_name()}, {"pid", client.peer().pid}, {"session", client.id()}});
}

void Monitor::OnModified(const Client& client, uint32_t handle) {
  if (watchers_.empty() || client.program() == nullptr) return;
  const auto object = client.program()->queue_pairs().table().Find(handle);
  if (!object.ok()) return;
  transport::QpState state{};
  datapath::Counters counters;
  context_.nic.OwnerOf((*object)->queue_pair).Run([&] {
    state = (*object)->queue_pair.state();
    counters = (*object)->queue_pair.counters();
  });
  OnQueuePair(client, **object, state, CountersJson(counters));
}

Monitor::Json Monitor::KnownQueuePair::Moved(const char* from, const char* to) const {
  return {{"device", device}, {"qpn", qpn},   {"program", program},
          {"pid", pid},       {"from", from}, {"to", to}};
}

void Monitor::OnQueuePair(const Client& client, const QueuePairObject& object,
                          transport::QpState state, const Json& counters) {
  const uint32_t qpn = object.queue_pair.qpn().value();
  const auto [found, is_new] = known_.try_emplace(qpn);
  KnownQueuePair& known = found->second;
  known.seen = looks_;
  if (!is_new && known.state == state) return;
  const char* const from = is_new ? "" : QpStateName(known.state);
  if (is_new) {
    known.uid = client.uid();
    known.device = object.device->name();
    known.qpn = qpn;
    known.program = client.command_name();
    known.pid = client.peer().pid;
  }
  known.state = state;
  if (is_new && is_first_look_) return;
  Json fields = known.Moved(from, QpStateName(state));
  const bool has_failed = state == transport::QpState::kErr || state == transport::QpState::kSqe;
  if (has_failed && !counters.empty()) fields["counters"] = counters;
  Tell(known.uid, "queue_pair", fields);
}

void Monitor::Look() {
  next_ = 0;
  if (walk_ == nullptr) {
    ++looks_;
    walk_ = std::make_unique<QueuePairWalk>(context_, self_, /*of_all=*/true);
  }
  const std::vector<QueuePairView> views = walk_->Next();
  for (const QueuePairView& view : views) {
    OnQueuePair(*view.client, *view.object, view.state, CountersJson(view.counters));
    if (watchers_.empty()) return;
  }
  if (views.empty()) EndLook();
  if (watchers_.empty()) return;
  next_ = context_.loop.After(views.empty() ? kLookInterval : Nanos(0), [this] { Look(); });
}

void Monitor::EndLook() {
  walk_.reset();
  is_first_look_ = false;
  std::vector<KnownQueuePair> gone;
  std::erase_if(known_, [&](auto& each) {
    const bool is_gone = each.second.seen != looks_;
    if (is_gone) gone.push_back(std::move(each.second));
    return is_gone;
  });
  for (KnownQueuePair& each : gone) {
    Tell(each.uid, "queue_pair", each.Moved(QpStateName(each.state), ""));
  }
}

void Monitor::OnPort(const NicDevice& device, bool is_there) {
  Tell(std::nullopt, is_there ? "port_added" : "port_removed", {{"device", device.name()}});
}

void Monitor::OnLink(const NicDevice& device) {
  const drivers::PortInfo& info = device.info();
  Tell(std::nullopt, "link",
       {{"device", device.name()}, {"link", info.link_up ? "up" : "down"}, {"why", info.why_down}});
}

void Monitor::OnGids(const NicDevice& device) {
  Json gids = Json::array();
  for (uint32_t index = 0; index < GidTable::kLength; ++index) {
    if (const auto gid = device.gids().At(index)) gids.push_back(FormatAddress(gid->gid));
  }
  Tell(std::nullopt, "gids", {{"device", device.name()}, {"gids", gids}});
}

void Monitor::OnMac(const NicDevice& device) {
  Tell(std::nullopt, "mac", {{"device", device.name()}, {"mac", FormatMac(device.info().mac)}});
}

void Monitor::OnInterface(const NicDevice& device) {
  Tell(std::nullopt, "interface",
       {{"device", device.name()},
        {"interface", device.info().interface},
        {"is_there", device.info().ifindex != 0}});
}

/// A capture whose memory is being made.
struct Observations::Capturing {
  uroce_capture request;
  CaptureMemory memory;
  absl::Status populated;
  bool is_abandoned = false;  ///< The client has gone.
};

Observations::Observations(ControlContext& context, const Client& client, DeferredReply& deferred)
    : context_(context), client_(client), deferred_(deferred) {}

Observations::~Observations() {
  if (capture_ != nullptr) Return(context_, client_.account(), capture_bytes_);
}

void Observations::Return(ControlContext& context, uint32_t account, uint64_t bytes) {
  --context.captures;
  context.nic.user(account).memory.Give(bytes);
}

absl::Status Observations::Dump(const uroce_dump& request, Fd& reader) {
  if (request.what == UROCE_DUMP_EVENTS) return context_.monitor.Watch(client_, reader);
  return Stream(MakeDump(request.what, context_.dumps, client_), reader);
}

absl::Status Observations::History(const uroce_history& request, Fd& reader) {
  return Stream(MakeHistoryDump(Qpn(request.qpn), context_.dumps, client_), reader);
}

absl::Status Observations::Stream(absl::StatusOr<std::unique_ptr<DumpSource>> source, Fd& reader) {
  if (!source.ok()) return source.status();
  absl::StatusOr<std::unique_ptr<DumpStream>> stream = DumpStream::Start(
      context_.dumps, client_, *std::move(source), reader, [this] { dump_.reset(); });
  if (!stream.ok()) return stream.status();
  dump_ = *std::move(stream);
  return absl::OkStatus();
}

absl::Status Observations::StartCapture(const uroce_capture& request) {
  if (!client_.is_privileged()) {
    return absl::PermissionDeniedError(
        "a capture sees all programs: only root and the daemon's "
        "user may take one");
  }
  if (capture_ != nullptr) return absl::InvalidArgumentError("a capture is under way here");
  const uint32_t limit = context_.nic.config().limits.captures;
  if (context_.captures >= limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("capture: all ", limit, " are under way, see --max-captures"));
  }
  absl::StatusOr<CaptureMemory> memory = CaptureMemory::Make(context_.nic, request);
  if (!memory.ok()) return memory.status();
  const uint64_t bytes = memory->bytes();
  const uint32_t account = client_.account();
  Quota& quota = context_.nic.user(account).memory;
  if (absl::Status status = quota.Check("capture", bytes); !status.ok()) return status;
  quota.Take(bytes);
  ++context_.captures;
  auto capturing = std::make_shared<Capturing>(Capturing{request, *std::move(memory), {}});
  context_.services.tasks.Start(
      [capturing] { capturing->populated = capturing->memory.Populate(); },
      [this, &context = context_, account, bytes, capturing] {
        if (capturing->is_abandoned) return Return(context, account, bytes);
        deferred_.Complete([&](Reply& to) { return OnPopulated(*capturing, to); });
      });
  deferred_.Defer([capturing] { capturing->is_abandoned = true; });
  return absl::OkStatus();
}

absl::Status Observations::OnPopulated(Capturing& capturing, Reply& reply) {
  capture_bytes_ = capturing.memory.bytes();
  absl::Status status = capturing.populated;
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<Capture>> capture =
        Capture::Start(context_.nic, capturing.request, std::move(capturing.memory), reply);
    status = capture.status();
    if (capture.ok()) capture_ = *std::move(capture);
  }
  if (!status.ok()) Return(context_, client_.account(), capture_bytes_);
  return status;
}

}  // namespace uroce::nic
