// SPDX-License-Identifier: Apache-2.0
// A daemon whose control thread is the test: nothing happens there but in a turn.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "nic/base/event_loop.h"
#include "nic/base/log.h"
#include "nic/control/server.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/resources.h"
#include "nic/ports.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/worker.h"
#include "tests/nic/control/client.h"

namespace uroce::nic {

/// Two NICs on a wire. One in a process: DPDK starts once. Its workers run, until StopWorkers.
class HandDaemon {
 public:
  explicit HandDaemon(const Limits& limits, uint32_t workers = 1) {
    SetLogLevel("error");
    signal(SIGPIPE, SIG_IGN);  // As uroced has it.
    char directory[] = "/tmp/uroce-nic-test-XXXXXX";
    directory_ = mkdtemp(directory);
    Config config = MakeConfig({}, directory_ + "/u.sock").value();
    config.no_huge = true;
    config.limits = limits;
    config.workers = workers;
    Ports ports = OpenPorts(config).value();
    nic_ = std::make_unique<Nic>(config, std::move(ports.devices), ports.seats);
    server_ =
        std::make_unique<Server>(loop_, *nic_, ControlSocket::Listen(config.socket_path).value());
  }
  ~HandDaemon() {
    server_.reset();
    Turn();  // The server has left no callback.
    nic_.reset();
    rmdir(directory_.c_str());
  }
  HandDaemon(const HandDaemon&) = delete;
  HandDaemon& operator=(const HandDaemon&) = delete;

  const std::string& socket_path() const { return nic_->config().socket_path; }
  Nic& nic() { return *nic_; }
  Server& server() { return *server_; }
  /// What the daemon holds for this user's programs, as text: nothing once all have ended.
  std::string Held();
  /// From now on workers work in TurnWorker alone, on this thread too.
  void StopWorkers() { nic_->workers().Stop(); }
  void TurnWorker(Nanos now) {
    nic_->workers().at(0).RunOnce(now);
    nic_->workers().LeaveGrace(0);
  }
  /// What is there for the control thread to do, once.
  void Turn(int timeout_ms = 0) { loop_.RunOnce(timeout_ms); }
  /// Turns until `done`.
  template <typename Done>
  void TurnUntil(Done&& done) {
    while (!done()) Turn(10);
  }
  /// A command of `client`, which is answered on this thread.
  template <typename T>
  Answer Call(ControlClient& client, uint32_t command, const T& body) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&body);
    client.Post(command, {bytes, bytes + sizeof(body)});
    Answer answer;
    TurnUntil([&] { return !(answer = client.Receive(MSG_DONTWAIT)).hung_up; });
    return answer;
  }

 private:
  std::string directory_;
  EventLoop loop_;
  std::unique_ptr<Nic> nic_;
  std::unique_ptr<Server> server_;
};

inline std::string HandDaemon::Held() {
  std::string held;
  const auto count = [&held](const std::string& name, uint64_t number) {
    if (number != 0) held += name + " " + std::to_string(number) + "\n";
  };
  for (const Numbers::Held& its : nic_->numbers().held()) count(its.name, its.count);
  count("queue pairs of worker 0", nic_->numbers().queue_pairs.count_on(0));
  count("address handles", nic_->address_handles().size());
  for (const auto& device : nic_->devices()) {
    count("groups joined", device->groups().joined().size());
    count("groups of workers", device->datapath().groups.size());
  }
  const UserAccount& user = nic_->user(geteuid());
  for (const KindRow& row : kKinds) count(row.name, user.of(row.kind).used);
  count("attachments", user.attachments.used);
  count("sockets", user.sockets.used);
  count("own bytes", user.own_bytes.used);
  return held;
}

}  // namespace uroce::nic
