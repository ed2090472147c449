// SPDX-License-Identifier: Apache-2.0
// Measures the longest turn of the control thread while programs do what costs it most, with as
// many objects as the default limits allow. Prints a table: CPU time and time of the longest turn,
// turns above 1 ms, and how long all of it took. Needs root.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nic/base/cpus.h"
#include "nic/objects/nic.h"
#include "nic/settings/config.h"
#include "pipeline/shm/abi/uroce_cm_commands.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::bench {
namespace {

using nic::Answer;
using nic::ControlClient;
using nic::HandDaemon;
using nic::Nic;

constexpr uint64_t kAddr = 0x100000;
constexpr uint64_t kPage = 4096;

void Require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "longest_turns: %s\n", what.c_str());
  std::exit(1);
}

/// The turns of a daemon's control thread while something goes on.
class Turns {
 public:
  explicit Turns(HandDaemon& daemon) : daemon_(daemon), begin_(Nic::Now()) {}

  void One() {
    const Nanos cpu = nic::ThreadTime(), time = Nic::Now();
    daemon_.Turn();
    const Nanos cpu_taken = nic::ThreadTime() - cpu;
    longest_cpu_ = std::max(longest_cpu_, cpu_taken);
    longest_ = std::max(longest_, Nic::Now() - time);
    long_turns_ += cpu_taken > Nanos(1'000'000);
  }
  void Until(const std::function<bool()>& done) {
    while (!done()) One();
  }
  void Print(const char* what) const {
    const auto ms = [](Nanos time) { return static_cast<double>(time.count()) / 1e6; };
    std::printf("%-44s %8.2f %8.2f %8d %9.0f\n", what, ms(longest_cpu_), ms(longest_), long_turns_,
                ms(Nic::Now() - begin_));
  }

 private:
  HandDaemon& daemon_;
  const Nanos begin_;
  Nanos longest_cpu_{0};
  Nanos longest_{0};
  int long_turns_ = 0;
};

struct Nothing {};

template <typename T>
std::vector<uint8_t> Bytes(const T& value) {
  if constexpr (std::is_empty_v<T>) return {};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  return {bytes, bytes + sizeof(value)};
}

/// A program with a context, a protection domain and a completion queue.
struct Program {
  explicit Program(HandDaemon& its) : daemon(its), client(its.socket_path()) {
    hello = Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
    context = Call(UROCE_OPEN_CONTEXT, uroce_open_context{}).handle();
    pd = Call(UROCE_ALLOC_PD, uroce_handle{context, 0}).handle();
    cq = Call(UROCE_CREATE_CQ, uroce_create_cq{context, 16, 1, UROCE_NONE, 0}).handle();
  }
  template <typename T>
  Answer Call(uint32_t command, const T& body, const std::vector<uint8_t>& list = {}) {
    std::vector<uint8_t> bytes = Bytes(body);
    bytes.insert(bytes.end(), list.begin(), list.end());
    client.Post(command, bytes);
    Answer answer;
    daemon.TurnUntil([&] { return !(answer = client.Receive(MSG_DONTWAIT)).hung_up; });
    Require(answer.error == 0, "command " + std::to_string(command) + ": " + answer.text);
    return answer;
  }
  void MakeQueuePairs(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      Call(UROCE_CREATE_QP, uroce_create_qp{pd, IBV_QPT_RC, cq, cq, 1, 0, {1, 1, 1, 1, 0}});
    }
  }
  uroce_lend_reply Lend(const uroce_lend& request, int fd) {
    const int socket = hello.fds.at(2).get();
    nic::SendLend(socket, request, fd, sizeof(request));
    uroce_lend_reply reply{};
    daemon.TurnUntil([&] { return recv(socket, &reply, sizeof(reply), MSG_DONTWAIT) > 0; });
    Require(reply.error == 0, "lending");
    return reply;
  }
  void LendMemory() {
    const Fd memory(open("/proc/self/mem", O_RDWR));
    Lend(nic::LendMemory(), memory.get());
  }
  uroce_reg_mr Region(uint64_t bytes, size_t parts) const {
    return {pd, 7, kAddr, bytes, kAddr, static_cast<uint32_t>(parts), UROCE_NONE};
  }
  void RegisterCopied(uint32_t count, uint64_t bytes) {
    const uroce_mr_segment copied{kAddr, bytes, UROCE_MR_COPIED, UROCE_NONE, 0, 1, 0};
    for (uint32_t i = 0; i < count; ++i) Call(UROCE_REG_MR, Region(bytes, 1), Bytes(copied));
  }
  /// Makes ids of librdmacm in one file.
  void MakeIds(uint32_t count) {
    Answer opened = Call(UROCE_OPEN_CM, Nothing{});
    file = std::move(opened.fds.at(0));
    struct Message {
      uroce_write_cm write;
      rdma_ucm_cmd_hdr header;
      rdma_ucm_create_id body;
    } message{};
    message.write.file = opened.handle();
    message.header = {RDMA_USER_CM_CMD_CREATE_ID, sizeof(message.body),
                      sizeof(rdma_ucm_create_id_resp)};
    message.body.ps = RDMA_PS_TCP;
    message.body.qp_type = IBV_QPT_RC;
    for (uint32_t i = 0; i < count; ++i) {
      message.body.uid = i + 1;
      const auto reply = Call(UROCE_WRITE_CM, message).As<uroce_write_cm_reply>();
      Require(reply.error == 0, "an id");
    }
  }

  HandDaemon& daemon;
  ControlClient client;
  Answer hello;
  uint32_t context = 0, pd = 0, cq = 0;
  Fd file;
};

using Setup = std::function<void(Program&)>;

/// The end of a program that `setup` has prepared.
void MeasureEnd(HandDaemon& daemon, const char* what, const Setup& setup) {
  auto program = std::make_unique<Program>(daemon);
  setup(*program);
  Turns turns(daemon);
  program.reset();
  turns.Until([&] { return daemon.server().connection_count() == 0; });
  turns.Print(what);
}

/// A command of such a program, until it is answered.
void MeasureCommand(HandDaemon& daemon, const char* what, Program& program, uint32_t command,
                    const std::vector<uint8_t>& body) {
  Turns turns(daemon);
  program.client.Post(command, body);
  Answer answer;
  turns.Until([&] { return !(answer = program.client.Receive(MSG_DONTWAIT)).hung_up; });
  Require(answer.error == 0, answer.text);
  turns.Print(what);
}

void AwaitNone(HandDaemon& daemon) {
  daemon.TurnUntil([&] { return daemon.server().connection_count() == 0; });
}

void MeasureEnds(HandDaemon& daemon) {
  MeasureEnd(daemon, "end: 16,384 queue pairs",
             [](Program& program) { program.MakeQueuePairs(1 << 14); });
  MeasureEnd(daemon, "end: 65,536 regions", [](Program& program) {
    program.LendMemory();
    program.RegisterCopied(1 << 16, kPage);
  });
  MeasureEnd(daemon, "end: 65,536 windows", [](Program& program) {
    for (int i = 0; i < 1 << 16; ++i) {
      program.Call(UROCE_ALLOC_MW, uroce_alloc_mw{program.pd, IBV_MW_TYPE_1});
    }
  });
  MeasureEnd(daemon, "end: 16,383 completion queues", [](Program& program) {
    for (int i = 1; i < 1 << 14; ++i) {
      program.Call(UROCE_CREATE_CQ, uroce_create_cq{program.context, 16, 1, UROCE_NONE, 0});
    }
  });
  MeasureEnd(daemon, "end: 8,000 channels", [](Program& program) {
    for (int i = 0; i < 8000; ++i) {
      program.Call(UROCE_CREATE_CHANNEL, uroce_handle{program.context, 0});
    }
  });
  MeasureEnd(daemon, "end: 16,384 segments", [](Program& program) {
    for (int i = 0; i < 1 << 14; ++i) {
      program.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kPage});
    }
  });
  MeasureEnd(daemon, "end: 16,000 ids of librdmacm",
             [](Program& program) { program.MakeIds(16'000); });
}

void MeasureCommands(HandDaemon& daemon) {
  {
    Program program(daemon);
    program.MakeQueuePairs(1 << 14);
    MeasureCommand(daemon, "CLOSE_CONTEXT: 16,384 queue pairs", program, UROCE_CLOSE_CONTEXT,
                   Bytes(uroce_handle{program.context, 0}));
  }
  AwaitNone(daemon);
  {
    Program program(daemon);
    program.MakeIds(16'000);
    Turns turns(daemon);
    program.file.Reset();
    const uint64_t& sockets = daemon.nic().user(geteuid()).sockets.used;
    const uint64_t before = sockets;
    turns.Until([&] { return sockets < before; });
    turns.Print("close of a file with 16,000 ids");
  }
  AwaitNone(daemon);
  {
    constexpr uint64_t kPages = 64;
    Program program(daemon);
    program.LendMemory();
    program.RegisterCopied(1 << 15, kPages * kPage);
    const uint32_t segment =
        program.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kPages * kPage}).handle();
    std::vector<uint8_t> request = Bytes(program.Region(kPages * kPage, kPages));
    for (uint64_t page = 0; page < kPages; ++page) {
      const bool is_mapped = page % 2 == 0;
      const auto part = Bytes(
          uroce_mr_segment{kAddr + page * kPage, kPage,
                           static_cast<uint32_t>(is_mapped ? UROCE_MR_MAPPED : UROCE_MR_COPIED),
                           is_mapped ? segment : UROCE_NONE, is_mapped ? page * kPage : 0, 1, 0});
      request.insert(request.end(), part.begin(), part.end());
    }
    MeasureCommand(daemon, "REG_MR that splits 32,768 regions", program, UROCE_REG_MR, request);
    MeasureCommand(daemon, "DESTROY_SEGMENT below them", program, UROCE_DESTROY_SEGMENT,
                   Bytes(uroce_handle{segment, 0}));
  }
  AwaitNone(daemon);
}

void MeasureFiles(HandDaemon& daemon) {
  constexpr uint64_t kBytes = 1 << 30;
  for (const bool is_sparse : {true, false}) {
    Program program(daemon);
    const Fd file(memfd_create("file", 0));
    Require(ftruncate(file.get(), kBytes) == 0, "a file");
    if (!is_sparse) Require(fallocate(file.get(), 0, 0, kBytes) == 0, "1 GB of memory");
    const uroce_lend_reply lent = program.Lend(nic::LendFile(0, kBytes), file.get());
    std::vector<uint8_t> request = Bytes(program.Region(kBytes, 1));
    const auto part =
        Bytes(uroce_mr_segment{kAddr, kBytes, UROCE_MR_SHARED, lent.segment, 0, 0, 0});
    request.insert(request.end(), part.begin(), part.end());
    MeasureCommand(daemon,
                   is_sparse ? "REG_MR of a sparse file of 1 GB" : "REG_MR of a full file of 1 GB",
                   program, UROCE_REG_MR, request);
  }
  AwaitNone(daemon);
}

/// Prints how long the worker's turns took so far, by its histogram.
void PrintWorker(const std::string& stat) {
  const auto turns = nlohmann::json::parse(stat)["workers"][0]["histograms"]["turn_ns"];
  const std::vector<uint64_t> bounds = turns["bounds"], counts = turns["counts"];
  std::printf("turns of the worker meanwhile:");
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const std::string bound = i < bounds.size() ? std::to_string(bounds[i] / 1000) : "more";
    std::printf(" %llu <= %s us,", static_cast<unsigned long long>(counts[i]), bound.c_str());
  }
  std::printf("\n");
}

void MeasureDumps(HandDaemon& daemon) {
  Program program(daemon);
  program.MakeQueuePairs(1 << 14);
  for (const uint32_t what : {UROCE_DUMP_QP, UROCE_DUMP_STAT}) {
    ControlClient tool(daemon.socket_path());
    Turns turns(daemon);
    tool.Post(UROCE_DUMP, Bytes(uroce_dump{what, 0}));
    Answer answer;
    turns.Until([&] { return !(answer = tool.Receive(MSG_DONTWAIT)).hung_up; });
    const int socket = answer.fds.at(0).get();
    std::vector<char> piece(1 << 16);
    std::string text;
    ssize_t got = 1;
    turns.Until([&] {
      while ((got = recv(socket, piece.data(), piece.size(), MSG_DONTWAIT)) > 0) {
        text.append(piece.data(), static_cast<size_t>(got));
      }
      return got == 0;
    });
    turns.Print(what == UROCE_DUMP_QP ? "dump of 16,384 queue pairs" : "dump of their statistics");
    if (what == UROCE_DUMP_STAT) PrintWorker(text);
  }
}

void Measure() {
  HandDaemon daemon(nic::Limits{});
  std::printf("%-44s %8s %8s %8s %9s\n", "", "CPU ms", "time ms", "> 1 ms", "all ms");
  MeasureEnds(daemon);
  MeasureCommands(daemon);
  MeasureFiles(daemon);
  MeasureDumps(daemon);
  AwaitNone(daemon);
}

}  // namespace
}  // namespace uroce::bench

int main() {
  uroce::bench::Measure();
  return 0;
}
