// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/object_dumps.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "nic/devices/nic_device.h"
#include "nic/dumps/dump_stream.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/objects/xrc.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/copy_lanes.h"
#include "pipeline/datapath/memory/stage.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {

// ---- completion queues ----

namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kQueuesPerLook = 64;  // Their workers wait some us.

struct RingView {
  const datapath::CompletionRing* ring;
  uint32_t waiting;
};

struct CompletionQueueView {
  const CompletionQueueObject* object;
  std::vector<RingView> rings;
};

/// Reads how full the rings are. Each worker stands still once.
void LookAtRings(Nic& nic, std::vector<CompletionQueueView>& views) {
  std::map<uint32_t, std::vector<RingView*>> of_worker;
  for (CompletionQueueView& view : views) {
    for (RingView& its : view.rings) of_worker[its.ring->worker()].push_back(&its);
  }
  for (const auto& [worker, rings] : of_worker) {
    nic.workers().at(worker).Run([&its = rings] {
      for (RingView* view : its) {
        // The program's index may be impossible.
        const uint32_t waiting = view->ring->waiting();
        view->waiting = std::min(waiting, view->ring->layout().depth);
      }
    });
  }
}

Json CompletionQueueJson(const Client& client, const CompletionQueueView& view) {
  const CompletionQueueObject& cq = *view.object;
  const datapath::Moderation moderation = cq.queue.moderation();
  uint64_t waiting = 0;
  Json rings = Json::array();
  for (const RingView& its : view.rings) {
    waiting += its.waiting;
    rings.push_back({{"worker", its.ring->worker()}, {"waiting", its.waiting}});
  }
  Json json;
  json["device"] = cq.context->device->name();
  json["pid"] = client.peer().pid;
  json["session"] = client.id();
  json["uid"] = client.uid();
  json["program"] = client.command_name();
  json["handle"] = cq.handle;
  json["ctx"] = cq.context->handle;
  json["cqe"] = cq.depth;
  json["waiting"] = waiting;
  json["users"] = cq.users.count();
  json["channel"] = cq.channel != nullptr;
  json["overflowed"] = cq.queue.overflowed();
  if (moderation.is_on()) {
    json["moderation"] = {{"count", moderation.count}, {"period_us", moderation.period_us}};
  }
  json["rings"] = rings;
  return json;
}

class CompletionQueuesSource : public TablesSource {
 public:
  CompletionQueuesSource(const DumpContext& context, const Client& asker)
      : TablesSource("cqs", context, asker) {}

 private:
  uint32_t AddNext(const Client& client, uint32_t, uint32_t handle, std::string& text) override {
    std::vector<CompletionQueueView> views;
    const uint32_t next = client.program()->completion_queues().table().ForSome(
        handle, kQueuesPerLook, [&](uint32_t, const CompletionQueueObject& object) {
          views.push_back({.object = &object, .rings = {}});
          object.queue.ForEachRing([&](const datapath::CompletionRing& ring) {
            views.back().rings.push_back({.ring = &ring, .waiting = 0});
          });
        });
    LookAtRings(context().nic, views);
    for (const CompletionQueueView& view : views) {
      AddItem(text, CompletionQueueJson(client, view));
    }
    return next;
  }
};

}  // namespace

std::unique_ptr<DumpSource> MakeCompletionQueuesDump(const DumpContext& context,
                                                     const Client& asker) {
  return std::make_unique<CompletionQueuesSource>(context, asker);
}

// ---- shared receive queues ----

namespace {

Json QueueJson(Nic& nic, const Client& client, const SharedReceiveObject& srq) {
  const datapath::SharedReceiveQueueConfig& config = srq.queue.config();
  uint32_t waiting = 0;
  uint32_t limit = 0;
  nic.workers().at(srq.worker).Run([&] {
    waiting = srq.queue.waiting();
    limit = srq.queue.limit();
  });
  Json json;
  json["device"] = srq.pd->context->device->name();
  json["pid"] = client.peer().pid;
  json["session"] = client.id();
  json["uid"] = client.uid();
  json["program"] = client.command_name();
  json["handle"] = config.handle;
  json["type"] = srq.xrcd != nullptr ? "XRC" : "BASIC";
  if (srq.xrcd != nullptr) json["srqn"] = config.number;
  json["pd"] = config.pd;
  json["worker"] = srq.worker;
  json["waiting"] = waiting;
  json["max_wr"] = config.layout.depth;
  json["max_sge"] = config.max_sge;
  json["limit"] = limit;
  // All target queue pairs of its domain use an XRC queue, whichever programs opened them.
  json["qps"] = srq.xrcd != nullptr ? srq.xrcd->domain->target_count() : srq.users.count();
  return json;
}

class SharedReceiveQueuesSource : public TablesSource {
 public:
  SharedReceiveQueuesSource(const DumpContext& context, const Client& asker)
      : TablesSource("srqs", context, asker) {}

 private:
  uint32_t AddNext(const Client& client, uint32_t, uint32_t handle, std::string& text) override {
    return client.program()->shared_receive_queues().table().ForSome(
        handle, 1, [&](uint32_t, const SharedReceiveObject& srq) {
          AddItem(text, QueueJson(context().nic, client, srq));
        });
  }
};

}  // namespace

std::unique_ptr<DumpSource> MakeSharedReceiveQueuesDump(const DumpContext& context,
                                                        const Client& asker) {
  return std::make_unique<SharedReceiveQueuesSource>(context, asker);
}

// ---- contexts and protection domains ----

// The name of a context is left out: who knows it
// may import the context.

namespace {

Json OwnerJson(const Client& client, const Context& context) {
  return {{"device", context.device->name()},
          {"pid", client.peer().pid},
          {"session", client.id()},
          {"uid", client.uid()},
          {"program", client.command_name()}};
}

Json ContextJson(const Client& client, const Context& context) {
  Json json = OwnerJson(client, context);
  json["handle"] = context.handle;
  json["users"] = context.users.count();
  json["imported"] = context.origin.has_value();
  // Of the whole program, as its stage and its copy lanes are.
  const datapath::CopyHelper* const helper = client.program()->core().session().copy_helper();
  const datapath::StageCounters* const staged = helper ? helper->stage_counters() : nullptr;
  if (staged != nullptr) {
    const datapath::LaneCounters* const lanes = helper->stage_lane_counters();
    json["staged_read_bytes"] = staged->read_bytes.load() + lanes->read_bytes.load();
    json["staged_written_bytes"] = staged->written_bytes.load() + lanes->written_bytes.load();
    json["staged_refused"] = staged->refused.load();
  }
  const datapath::LaneCounters* const own = helper ? helper->lane_counters() : nullptr;
  if (own != nullptr) {
    json["own_read_bytes"] = own->read_bytes.load();
    json["own_written_bytes"] = own->written_bytes.load();
    json["own_left_to_helper"] = own->left_to_helper.load();
  }
  return json;
}

Json DomainJson(const Client& client, uint32_t handle, const ProtectionDomain& pd) {
  Json json = OwnerJson(client, *pd.context);
  json["handle"] = handle;
  json["pd"] = pd.number();
  json["ctx"] = pd.context->handle;
  json["users"] = pd.users.count();
  json["imported"] = pd.share != nullptr;
  return json;
}

class ContextsSource : public TablesSource {
 public:
  ContextsSource(const DumpContext& context, const Client& asker)
      : TablesSource("ctxs", context, asker) {}

 private:
  uint32_t AddNext(const Client& client, uint32_t, uint32_t handle, std::string& text) override {
    return client.program()->contexts().table().ForSome(
        handle, 1,
        [&](uint32_t, const Context& context) { AddItem(text, ContextJson(client, context)); });
  }
};

class ProtectionDomainsSource : public TablesSource {
 public:
  ProtectionDomainsSource(const DumpContext& context, const Client& asker)
      : TablesSource("pds", context, asker) {}

 private:
  uint32_t AddNext(const Client& client, uint32_t, uint32_t handle, std::string& text) override {
    return client.program()->contexts().pds().ForSome(
        handle, 1, [&](uint32_t its, const ProtectionDomain& pd) {
          AddItem(text, DomainJson(client, its, pd));
        });
  }
};

}  // namespace

std::unique_ptr<DumpSource> MakeProtectionDomainsDump(const DumpContext& context,
                                                      const Client& asker) {
  return std::make_unique<ProtectionDomainsSource>(context, asker);
}

std::unique_ptr<DumpSource> MakeContextsDump(const DumpContext& context, const Client& asker) {
  return std::make_unique<ContextsSource>(context, asker);
}

// ---- memory ----

namespace {

std::string Hex(uint64_t value) { return absl::StrCat("0x", absl::Hex(value)); }

const char* ModeOf(const datapath::MrSegment& segment) {
  if (segment.is_staged) return "staged";
  if (segment.mode == datapath::MrMode::kCopied) return "copied";
  if (segment.mode == datapath::MrMode::kNull) return "null";
  return segment.is_own_file ? "shared" : "mapped";
}

const char* ModeOf(const datapath::MemoryRegion& region) {
  const char* mode = nullptr;
  for (const datapath::MrSegment& segment : region.segments) {
    const char* const its = ModeOf(segment);
    if (mode != nullptr && mode != its) return "mixed";
    mode = its;
  }
  return mode != nullptr ? mode : "mixed";
}

/// The text for a segment's code of enum uroce_mr_reason; "" for none.
const char* ReasonText(const datapath::MrSegment& segment) {
  switch (segment.reason) {
    case UROCE_WHY_NONE:
      return "";
    case UROCE_WHY_STACK:
      return "stack";
    case UROCE_WHY_HEAP_PAGE:
      return "heap page";
    case UROCE_WHY_PARTIAL_PAGE:
      return "partial page";
    case UROCE_WHY_FILE_MAPPING:
      return "file mapping";
    case UROCE_WHY_READ_ONLY:
      return "read-only";
    case UROCE_WHY_FILE_SYSTEM:
      return "file system";
    case UROCE_WHY_NOT_REACHABLE:
      return "file not reachable";
    case UROCE_WHY_NO_USERFAULTFD:
      // A handler of SIGSEGV stands in for it, if no thread blocks the signal.
      return segment.mode == datapath::MrMode::kCopied ? "no userfaultfd, SIGSEGV blocked"
                                                       : "no userfaultfd";
    case UROCE_WHY_REFUSED:
      return "refused by the kernel";
    case UROCE_WHY_MANY_MAPPINGS:
      return "max_map_count";
    case UROCE_WHY_DAEMON_LIMIT:
      return "daemon's limit";
    case UROCE_WHY_MANY_PARTS:
      return "too many parts";
    case UROCE_WHY_UNKNOWN_THREADS:
      return "unknown threads";
    case UROCE_WHY_ON_DEMAND:
      return "registered with on-demand paging";
    case UROCE_WHY_POLICY:
    case UROCE_WHY_POLICY_OF_FILE:
      return "policy";
    case UROCE_WHY_PINNED:
      return "pinned pages";
    case UROCE_WHY_DEVICE:
      return "device memory";
    case UROCE_WHY_REST:
      return "left to a helper";
    case UROCE_WHY_NOT_SEALED:
      return "not sealed";
  }
  return "unknown";
}

/// Whether helpers copy this memory although the daemon maps it (memory_rest.h).
bool IsLeftToHelper(const datapath::MemoryRegion& region, const datapath::MrSegment& segment) {
  return segment.mode == datapath::MrMode::kMapped && region.rest != nullptr &&
         region.rest->is_on();
}

std::string RemoteAccessText(uint32_t access) {
  std::string text;
  if (access & IBV_ACCESS_REMOTE_READ) text += " remote-read";
  if (access & IBV_ACCESS_REMOTE_WRITE) text += " remote-write";
  if (access & IBV_ACCESS_REMOTE_ATOMIC) text += " remote-atomic";
  return text;
}

std::string AccessText(uint32_t access) {
  return (access & IBV_ACCESS_LOCAL_WRITE ? "rw" : "r") + RemoteAccessText(access);
}

/// Who makes the system calls on memory that is copied, as a JSON field; "" for other memory.
const char* CopiedBy(const datapath::MemoryRegion& region, const datapath::MrSegment& segment) {
  if (IsLeftToHelper(region, segment)) return R"(,"copied_by":"helper")";
  if (segment.mode != datapath::MrMode::kCopied) return "";
  if (segment.is_staged) return R"(,"copied_by":"program")";
  const bool by_workers = !segment.may_wait && region.session->copy_helper()->is_by_workers();
  return by_workers ? R"(,"copied_by":"workers")" : R"(,"copied_by":"helper")";
}

// A region may have thousands of segments: text takes a tenth of the time of JSON values.
void AppendSegments(const datapath::MemoryRegion& region, std::string& text) {
  text += '[';
  for (const datapath::MrSegment& segment : region.segments) {
    const char* const reason =
        IsLeftToHelper(region, segment) ? "left to a helper" : ReasonText(segment);
    absl::StrAppend(&text, &segment == &region.segments.front() ? "" : ",", R"({"address":"0x)",
                    absl::Hex(segment.app_addr), R"(","length":)", segment.length_bytes,
                    R"(,"mode":")", ModeOf(segment), R"(","reason":")", reason, "\"",
                    CopiedBy(region, segment), "}");
  }
  text += ']';
}

Json MemoryJson(const Client& client, const MemoryObject& memory) {
  const datapath::MemoryRegion& region = memory.region;
  Json json;
  json["device"] = memory.pd->context->device->name();
  json["pid"] = client.peer().pid;
  json["session"] = client.id();
  json["program"] = client.command_name();
  json["key"] = Hex(region.key);
  json["address"] = Hex(memory.addr);
  json["iova"] = Hex(region.iova);
  json["length"] = region.length_bytes;
  json["pd"] = memory.pd->number();
  json["access"] = AccessText(region.access);
  json["mode"] = ModeOf(region);
  return json;
}

void AppendMemory(const Client& client, const MemoryObject& memory, std::string& text) {
  text += JsonText(MemoryJson(client, memory));
  text.pop_back();  // The closing brace.
  text += R"(,"segments":)";
  AppendSegments(memory.region, text);
  text += '}';
}

Json WindowJson(const Client& client, const WindowObject& object) {
  const datapath::MemoryWindow& window = object.window;
  const datapath::WindowBinding binding = window.Read().value_or(datapath::WindowBinding{});
  const bool is_bound = binding.region_key != 0;
  Json json;
  json["device"] = object.pd->context->device->name();
  json["pid"] = client.peer().pid;
  json["session"] = client.id();
  json["program"] = client.command_name();
  json["key"] = Hex(window.key());
  json["iova"] = is_bound ? Hex(binding.addr) : "";
  json["length"] = binding.length_bytes;
  json["pd"] = object.pd->number();
  json["access"] = std::string(absl::StripLeadingAsciiWhitespace(RemoteAccessText(binding.access)));
  json["mode"] = window.type() == datapath::MemoryWindow::Type::kType1 ? "window 1" : "window 2";
  json["region"] = is_bound ? Hex(binding.region_key) : "";
  json["qp"] = binding.qpn != 0 ? Hex(binding.qpn) : "";
  return json;
}

/// Dumps regions, then windows.
class MemorySource : public TablesSource {
 public:
  MemorySource(const DumpContext& context, const Client& asker)
      : TablesSource("mrs", context, asker, /*tables=*/2) {}

 private:
  uint32_t AddNext(const Client& client, uint32_t table, uint32_t handle,
                   std::string& text) override {
    Program& program = *client.program();
    if (table == 1) {
      return program.windows().table().ForSome(handle, 1, [&](uint32_t, const WindowObject& its) {
        AddItem(text, WindowJson(client, its));
      });
    }
    return program.regions().table().ForSome(handle, 1, [&](uint32_t, const MemoryObject& its) {
      BeginItem(text);
      AppendMemory(client, its, text);
    });
  }
};

}  // namespace

std::unique_ptr<DumpSource> MakeMemoryDump(const DumpContext& context, const Client& asker) {
  return std::make_unique<MemorySource>(context, asker);
}

}  // namespace uroce::nic
