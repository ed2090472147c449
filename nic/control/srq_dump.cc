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

}  // namespace

Json SharedReceiveQueuesJson(Nic& nic, const std::vector<const Session*>& sessions) {
  Json list = Json::array();
  for (const Session* session : sessions) {
    if (session->program() == nullptr) continue;
    session->program()->shared_receive_queues().ForEach(
        [&](uint32_t, const SharedReceiveObject& srq) {
          list.push_back(QueueJson(nic, *session, srq));
        });
  }
  return {{"srqs", list}};
}

}  // namespace uroce::nic
