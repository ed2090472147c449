// SPDX-License-Identifier: Apache-2.0
// Dumps completion queues as JSON.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "nic/dumps/object_dumps.h"
#include "nic/dumps/tables_source.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"

namespace uroce::nic {
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
  json["users"] = cq.users;
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

}  // namespace uroce::nic
