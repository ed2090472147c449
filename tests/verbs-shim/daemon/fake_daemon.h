// SPDX-License-Identifier: Apache-2.0
// A daemon inside the test: answers the control protocol, on its own thread or when the test says
// so; what a worker would do on the rings, the test does itself.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "pipeline/shm/rings/completion_queue.h"
#include "pipeline/shm/rings/work_queue.h"

namespace uroce::shim_test {

/// A command that came in, whole.
struct Received {
  uint32_t command = 0;
  std::vector<uint8_t> body;
  template <typename Body>
  Body As() const {
    Body value = {};
    const size_t bytes = std::min(sizeof(value), body.size());
    if (bytes > 0) __builtin_memcpy(&value, body.data(), bytes);
    return value;
  }
};

struct FakeRing {
  uroce_cq_ring place = {};
  uroce_cq_ring_page* page = nullptr;
  rings::CqeProducer producer;
};

struct FakeCq {
  uroce_create_cq request = {};
  uroce_cq_page* page = nullptr;
  uint32_t depth = 0;
  std::map<uint32_t, FakeRing> rings;  // By worker; made with the first queue pair there.
  rings::CqeProducer& ring(uint32_t worker = 0) { return rings.at(worker).producer; }
  uint32_t comp_events_reported = 0;
  uint32_t async_events_reported = 0;
};

struct FakeQp {
  uroce_create_qp request = {};
  uroce_create_qp_reply reply = {};
  uroce_qp_page* page = nullptr;
  rings::WorkQueueConsumer send;
  rings::WorkQueueConsumer receive;
  uint32_t async_events_reported = 0;
  uroce_qp_attr attributes = {};
};

struct FakeSrq {
  uroce_create_srq request = {};
  uroce_srq_page* page = nullptr;
  rings::WorkQueueConsumer entries;
  uint32_t srq_limit = 0;
  uint32_t async_events_reported = 0;
  /// Takes the oldest entry as a worker does.
  bool Take(rings::ReceiveWqe& wqe);
};

/// What the next WRITE_CM is answered.
struct FakeCmAnswer {
  int error = 0;
  uint32_t signals = 0;
  uint32_t old_signals = 0;
  std::vector<uint8_t> response;
};

/// What goes out as the answer to a command: its bytes, uroce_reply first, and its fds.
struct FakeReply {
  std::vector<uint8_t> bytes;
  std::vector<int> fds;
};

/// Listens on its own socket from construction to Stop; one client at a time.
class FakeDaemon {
 public:
  /// That every window has first.
  static constexpr uint32_t kFirstWindowKey = 0x12fe;
  /// Of the one XRC target; XRC queues have this number and their handle.
  static constexpr uint32_t kTargetNumber = 0x4321;
  static constexpr uint32_t kQueueNumber = 0x100000;

  /// Who has it answer.
  enum class Answers : uint8_t { kByThread, kByHand };

  explicit FakeDaemon(std::vector<std::string> device_names = {"fake0", "fake1"},
                      Answers answers = Answers::kByThread);
  ~FakeDaemon();

  /// May change what goes out, but closes no fd that was there.
  using Alter = std::function<void(const Received& request, FakeReply& reply)>;
  /// By hand: takes the client that has connected, in place of any other.
  void Admit();
  /// By hand: answers the next request of the client. False: there is none.
  bool AnswerNext(const Alter& alter);
  /// By hand: ends the connection.
  void HangUp();

  /// Ends as a killed daemon would: every socket and pipe closes. The arena stays mapped here.
  void Stop();

  const std::string& socket_path() const { return socket_path_; }

  /// The next reply to `command` is this errno and nothing is done.
  void FailNext(uint32_t command, int error);
  /// The last command of this kind.
  Received Last(uint32_t command);

  /// Workers of the next HELLO, and the worker of the next queue pairs that are made or placed.
  void set_worker_count(uint32_t count) { worker_count_ = count; }
  void set_worker(uint32_t worker) { worker_ = worker; }
  /// Moves a queue pair to another worker, without a command of the program.
  void Move(uint32_t queue_pair, uint32_t worker);

  FakeCq& cq(uint32_t handle);
  FakeQp& qp(uint32_t handle);
  FakeSrq& srq(uint32_t handle);
  uroce_doorbells& doorbells(uint32_t worker = 0);
  int wake_fd() const { return wake_fd_; }
  /// Write ends of the pipes of the newest context and channel.
  int async_fd() const { return async_fd_; }
  int channel_fd() const { return channel_fd_; }
  /// The daemon's end of the newest file of the connection manager.
  int cm_fd() const { return cm_fd_; }
  /// The daemon's end of the socket on which programs lend memory.
  int memory_socket() const { return memory_socket_; }
  uint8_t* arena() const { return arena_; }
  /// Answers to the WRITE_CMs that come; after the last one EAGAIN.
  void AnswerCm(FakeCmAnswer answer);

 private:
  void Serve();
  void ServeClient(int client);
  void Answer(int client, const Received& request, const Alter& alter = {});
  int Run(const Received& request, std::vector<uint8_t>& reply, std::vector<int>& fds);
  int Hello(std::vector<uint8_t>& reply, std::vector<int>& fds);
  int PlaceQp(const uroce_modify_qp& request, std::vector<uint8_t>& reply);
  int CreateCq(const uroce_create_cq& request, std::vector<uint8_t>& reply);
  int ResizeCq(const uroce_resize_cq& request, std::vector<uint8_t>& reply);
  FakeRing MakeRing(uint32_t worker, uint32_t depth);
  uroce_cq_ring RingOf(uint32_t cq);
  static void ShowRings(const FakeCq& cq);
  int CreateQp(const uroce_create_qp& request, std::vector<uint8_t>& reply);
  int CreateSrq(const uroce_create_srq& request, std::vector<uint8_t>& reply);
  int ModifySrq(const uroce_modify_srq& request, std::vector<uint8_t>& reply);
  uroce_srq_layout LayOut(FakeSrq& srq, uint32_t max_wr);
  int CreateSegment(const uroce_create_segment& request, std::vector<uint8_t>& reply,
                    std::vector<int>& fds);
  int OpenCm(std::vector<uint8_t>& reply, std::vector<int>& fds);
  void WriteCm(std::vector<uint8_t>& reply);
  int MakeStream(int& write_end, std::vector<uint8_t>& reply, std::vector<int>& fds);
  int ModifyQp(const uroce_modify_qp& request, std::vector<uint8_t>& reply);
  uint64_t Allocate(uint64_t size_bytes);

  std::vector<std::string> device_names_;
  std::string directory_;
  std::string socket_path_;
  int arena_fd_ = -1;
  uint8_t* arena_ = nullptr;
  uint64_t arena_used_ = 1 << 20;
  int listener_ = -1;
  int client_ = -1;
  int wake_fd_ = -1;
  int async_fd_ = -1;
  int channel_fd_ = -1;
  int memory_socket_ = -1;
  int cm_fd_ = -1;
  std::deque<FakeCmAnswer> cm_answers_;
  uint32_t next_handle_ = 1;
  uint32_t worker_count_ = 1;
  uint32_t worker_ = 0;
  std::mutex mutex_;
  std::map<uint32_t, int> failures_;
  std::map<uint32_t, Received> last_;
  std::map<uint32_t, FakeCq> cqs_;
  std::map<uint32_t, FakeQp> qps_;
  std::map<uint32_t, FakeSrq> srqs_;
  std::thread thread_;
};

}  // namespace uroce::shim_test
