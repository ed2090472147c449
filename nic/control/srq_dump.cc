// SPDX-License-Identifier: Apache-2.0
#include "nic/control/srq_dump.h"

#include <nlohmann/json.hpp>

#include "nic/control/session.h"
#include "nic/resources/nic.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

Json QueueJson(Nic& nic, const Session& session, const SharedReceiveObject& srq) {
  const datapath::SharedReceiveQueueConfig& config = srq.queue.config();
  uint32_t waiting = 0;
  uint32_t limit = 0;
  nic.workers().at(srq.worker).Run([&] {
    waiting = srq.queue.waiting();
    limit = srq.queue.limit();
  });
  Json json;
  json["device"] = srq.pd->context->device->name();
  json["pid"] = session.peer().pid;
  json["uid"] = session.peer().uid;
  json["program"] = session.command_name();
  json["handle"] = config.handle;
  json["type"] = srq.xrcd != nullptr ? "XRC" : "BASIC";
  if (srq.xrcd != nullptr) json["srqn"] = config.number;
  json["pd"] = config.pd;
  json["worker"] = srq.worker;
  json["waiting"] = waiting;
  json["max_wr"] = config.layout.depth;
  json["max_sge"] = config.max_sge;
  json["limit"] = limit;
  // To an XRC queue the target queue pairs of its domain lead, whoever has them open.
  json["qps"] = srq.xrcd != nullptr ? srq.xrcd->domain->target_count() : srq.users;
  return json;
}

class SharedReceiveQueuesSource : public ListSource {
 public:
  SharedReceiveQueuesSource(const ControlContext& context, const Session& asker)
      : ListSource("srqs"), context_(context), asker_(asker) {}

 private:
  bool AppendItems(std::string& text) override {
    for (const Session* session : context_.sessions()) {
      if (session->id() < session_) continue;
      if (session->id() != session_) handle_ = 0;
      session_ = session->id();
      if (session->program() == nullptr || !asker_.MaySee(*session)) continue;
      const auto append = [&](uint32_t, const SharedReceiveObject& srq) {
        AddItem(text, QueueJson(context_.nic, *session, srq));
      };
      while (handle_ != UROCE_NONE) {
        if (text.size() >= kPieceBytes) return true;
        handle_ = session->program()->shared_receive_queues().ForSome(handle_, 1, append);
      }
    }
    return false;
  }

  const ControlContext& context_;
  const Session& asker_;
  uint32_t session_ = 0;  ///< Where to go on,
  uint32_t handle_ = 0;
};

}  // namespace

std::unique_ptr<DumpSource> MakeSharedReceiveQueuesDump(const ControlContext& context,
                                                        const Session& asker) {
  return std::make_unique<SharedReceiveQueuesSource>(context, asker);
}

}  // namespace uroce::nic
