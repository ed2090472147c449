// SPDX-License-Identifier: Apache-2.0
// Two NICs on a wire, and programs on them, whose control thread is the test: for what looks at
// them without a connection.
#pragma once

#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "nic/base/log.h"
#include "nic/base/user_limits.h"
#include "nic/control/control_context.h"
#include "nic/dumps/dump_stream.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/ports.h"
#include "pipeline/os/side_thread.h"

namespace uroce::nic {

/// A program with a context, a protection domain and a completion queue.
struct WatchedProgram {
  WatchedProgram(Nic& nic, uint32_t id, uid_t uid, uint32_t device = 0)
      : client(id, Peer{getpid(), uid, getgid()}) {
    client.set_program(*Program::Make(nic, id, uid, std::make_shared<SideThread>()));
    Fd name;
    context = *program().contexts().Open({.device_index = device, .reserved = 0}, events, name);
    pd = *program().contexts().AllocPd(context);
    uroce_create_cq request{};
    request.context = context;
    request.cqe = 16;
    request.channel = UROCE_NONE;
    cq = program().completion_queues().Create(request)->handle;
  }
  Program& program() const { return *client.program(); }
  uroce_create_qp_reply MakeQp() {
    uroce_create_qp request{};
    request.pd = pd;
    request.qp_type = IBV_QPT_RC;
    request.send_cq = request.recv_cq = cq;
    request.cap = {16, 16, 1, 1, 0};
    return *program().queue_pairs().Create(request);
  }
  /// Moves a queue pair from RESET to INIT.
  void ToInit(uint32_t qp) {
    uroce_modify_qp request{};
    request.handle = qp;
    request.attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    request.attr.qp_state = IBV_QPS_INIT;
    request.attr.port_num = 1;
    const auto plan = program().queue_pairs().PlanModify(request);
    static_cast<void>(*program().queue_pairs().ApplyModify(*plan, std::nullopt, {}, {}));
  }

  Client client;
  Fd events;
  uint32_t context = 0, pd = 0, cq = 0;
};

/// One in a process: DPDK starts once.
class WatchedNic {
 public:
  static WatchedNic& Get() {
    static auto* const nic = new WatchedNic;
    return *nic;
  }

  /// The context of dumps; it knows the programs in `programs`, and counts in `looks` how often
  /// they are asked for.
  const DumpContext& dumps() const { return *dumps_; }
  EventLoop& loop() { return loop_; }
  Nic& nic() { return *nic_; }
  Services& services() { return *services_; }
  std::vector<const Client*> programs;
  int looks = 0;

  template <typename Done>
  void TurnUntil(Done&& done) {
    while (!done()) loop_.RunOnce(10);
  }

 private:
  WatchedNic() {
    SetLogLevel("off");
    Config config = MakeConfig({}, "/nonexistent").value();
    config.no_huge = true;
    Ports ports = OpenPorts(config).value();
    nic_ = std::make_unique<Nic>(config, std::move(ports.devices), ports.seats);
    services_ = std::make_unique<Services>(loop_, *nic_);
    dumps_ = std::make_unique<DumpContext>(DumpContext{
        loop_, *nic_, turns_, services_->rdma_cm, services_->peers, services_->histories, [this] {
          ++looks;
          return programs;
        }});
  }

  EventLoop loop_;
  UserTurns turns_;
  std::unique_ptr<Nic> nic_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<DumpContext> dumps_;
};

}  // namespace uroce::nic
