// SPDX-License-Identifier: Apache-2.0
// Dumps shared receive queues as JSON.
#include <nlohmann/json.hpp>

#include "nic/dumps/object_dumps.h"
#include "nic/dumps/tables_source.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/objects/xrc_domain.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

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
  json["qps"] = srq.xrcd != nullptr ? srq.xrcd->domain->target_count() : srq.users;
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

}  // namespace uroce::nic
