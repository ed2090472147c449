// SPDX-License-Identifier: Apache-2.0
#include "tests/verbs-shim/daemon/fake_daemon.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "pipeline/shm/abi/uroce_cm_commands.h"
#include "tests/verbs-shim/daemon/fake_messages.h"

namespace uroce::shim_test {
namespace {

template <typename Body>
void Append(std::vector<uint8_t>& bytes, const Body& body) {
  const auto* first = reinterpret_cast<const uint8_t*>(&body);
  bytes.insert(bytes.end(), first, first + sizeof(body));
}

void CloseIfOpen(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

}  // namespace

FakeDaemon::FakeDaemon(std::vector<std::string> device_names, Answers answers)
    : device_names_(std::move(device_names)) {
  char directory[] = "/tmp/uroce-shim-test-XXXXXX";
  directory_ = mkdtemp(directory);
  socket_path_ = directory_ + "/socket";
  arena_fd_ = MakeSealedFile("fake-arena", UROCE_ARENA_BYTES);
  arena_ = static_cast<uint8_t*>(mmap(nullptr, UROCE_ARENA_BYTES, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_NORESERVE, arena_fd_, 0));
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path_.c_str());
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) std::abort();
  if (listen(listener_, 4) != 0) std::abort();
  if (answers == Answers::kByThread) {
    thread_ = std::thread([this] { Serve(); });
  } else {
    fcntl(listener_, F_SETFL, O_NONBLOCK);
  }
}

FakeDaemon::~FakeDaemon() {
  Stop();
  munmap(arena_, UROCE_ARENA_BYTES);
  close(arena_fd_);
  unlink(socket_path_.c_str());
  rmdir(directory_.c_str());
}

void FakeDaemon::Stop() {
  if (listener_ < 0) return;
  shutdown(listener_, SHUT_RDWR);
  {
    const std::lock_guard lock(mutex_);
    if (client_ >= 0) shutdown(client_, SHUT_RDWR);
  }
  if (thread_.joinable()) thread_.join();
  CloseIfOpen(client_);
  CloseIfOpen(listener_);
  CloseIfOpen(wake_fd_);
  CloseIfOpen(async_fd_);
  CloseIfOpen(channel_fd_);
  CloseIfOpen(memory_socket_);
  CloseIfOpen(cm_fd_);
}

void FakeDaemon::Serve() {
  for (;;) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    {
      const std::lock_guard lock(mutex_);
      client_ = client;
    }
    ServeClient(client);
    const std::lock_guard lock(mutex_);
    client_ = -1;
    close(client);
  }
}

void FakeDaemon::ServeClient(int client) {
  Received request;
  while (ReceiveRequest(client, 0, request.command, request.body)) Answer(client, request);
}

void FakeDaemon::Admit() {
  CloseIfOpen(client_);
  client_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
}

bool FakeDaemon::AnswerNext(const Alter& alter) {
  Received request;
  if (!ReceiveRequest(client_, MSG_DONTWAIT, request.command, request.body)) return false;
  Answer(client_, request, alter);
  return true;
}

void FakeDaemon::HangUp() { shutdown(client_, SHUT_RDWR); }

void FakeDaemon::Answer(int client, const Received& request, const Alter& alter) {
  std::vector<uint8_t> body;
  std::vector<int> fds;
  uroce_reply header = {};
  {
    const std::lock_guard lock(mutex_);
    last_[request.command] = request;
    const auto failure = failures_.find(request.command);
    if (failure != failures_.end()) {
      header.error = failure->second;
      failures_.erase(failure);
    } else {
      header.error = Run(request, body, fds);
    }
  }
  if (header.error != 0) body.clear();
  header.size = static_cast<uint32_t>(sizeof(header) + body.size());
  FakeReply reply{.fds = fds};
  Append(reply.bytes, header);
  reply.bytes.insert(reply.bytes.end(), body.begin(), body.end());
  if (alter) alter(request, reply);
  SendReply(client, reply.bytes, reply.fds);
  const int keep = fds.empty() || request.command != UROCE_HELLO ? -1 : arena_fd_;
  for (const int fd : fds) {
    if (fd != keep && fd != wake_fd_) close(fd);
  }
}

int FakeDaemon::Run(const Received& request, std::vector<uint8_t>& reply, std::vector<int>& fds) {
  const auto handle = request.As<uroce_handle>().handle;
  switch (request.command) {
    case UROCE_HELLO:
      return Hello(reply, fds);
    case UROCE_LIST_DEVICES:
      for (uint32_t index = 0; index < device_names_.size(); ++index) {
        const std::string& name = device_names_[index];
        uroce_device_info info = {.node_guid = 0x0100000000005254,
                                  .max_mr_size = ~uint64_t{0},
                                  .max_qp = 1024,
                                  .max_qp_wr = 4096,
                                  .max_sge = UROCE_MAX_SGE,
                                  .max_inline = UROCE_MAX_INLINE,
                                  .max_cq = 1024,
                                  .max_cqe = 1 << 20,
                                  .max_mr = 1024,
                                  .max_pd = 1024,
                                  .max_ah = 1024,
                                  .max_srq = 1024,
                                  .max_mw = 1024,
                                  .max_qp_rd_atom = 16,
                                  .max_msg_size = 1u << 30,
                                  .gid_table_length = 8,
                                  .local_ca_ack_delay = 15,
                                  .index = index};
        snprintf(info.name, sizeof(info.name), "%s", name.c_str());
        snprintf(info.firmware, sizeof(info.firmware), "1.2.3");
        Append(reply, info);
      }
      return 0;
    case UROCE_OPEN_CONTEXT:
      if (const int error = MakeStream(async_fd_, reply, fds); error != 0) return error;
      fds.push_back(memfd_create("fake-context", MFD_CLOEXEC));
      return 0;
    case UROCE_CREATE_CHANNEL:
      return MakeStream(channel_fd_, reply, fds);
    case UROCE_QUERY_PORT:
      Append(reply, uroce_port_info{IBV_PORT_ACTIVE, 5, IBV_MTU_4096, IBV_MTU_1024, 2, 32, 8, 0,
                                    100'000'000'000});
      return 0;
    case UROCE_QUERY_GIDS:
      for (uint32_t i = 0; i < 8; ++i) {
        uroce_gid_entry entry = {.index = i, .valid = i == 1, .type = IBV_GID_TYPE_ROCE_V2};
        if (i == 1) memcpy(entry.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01", 16);
        Append(reply, entry);
      }
      return 0;
    case UROCE_ALLOC_PD:
    case UROCE_IMPORT_PD:
    case UROCE_OPEN_XRCD:
    case UROCE_CREATE_AH:
      Append(reply, uroce_handle{next_handle_++, 0});
      return 0;
    case UROCE_IMPORT_CONTEXT:
      return MakeStream(async_fd_, reply, fds);
    case UROCE_CREATE_SEGMENT:
      return CreateSegment(request.As<uroce_create_segment>(), reply, fds);
    case UROCE_REG_MR:
      Append(reply, uroce_reg_mr_reply{next_handle_, next_handle_ << 8, next_handle_ << 8, 0});
      ++next_handle_;
      return 0;
    case UROCE_IMPORT_MR:
      Append(reply, uroce_import_mr_reply{4096, 0x100, 0x100});
      return 0;
    case UROCE_ALLOC_MW:
      Append(reply, uroce_alloc_mw_reply{next_handle_++, kFirstWindowKey});
      return 0;
    case UROCE_CREATE_TARGET:
      Append(reply, uroce_target_reply{next_handle_++, kTargetNumber, IBV_QPS_RESET, 0});
      return 0;
    case UROCE_OPEN_TARGET:
      Append(reply, uroce_target_reply{next_handle_++, kTargetNumber, IBV_QPS_RTR, 0});
      return 0;
    case UROCE_CREATE_CQ:
      return CreateCq(request.As<uroce_create_cq>(), reply);
    case UROCE_RESIZE_CQ:
      return ResizeCq(request.As<uroce_resize_cq>(), reply);
    case UROCE_DESTROY_CQ:
      if (!cqs_.contains(handle)) return EINVAL;
      Append(reply, uroce_destroy_cq_reply{cqs_[handle].comp_events_reported,
                                           cqs_[handle].async_events_reported});
      return 0;
    case UROCE_CREATE_QP:
      return CreateQp(request.As<uroce_create_qp>(), reply);
    case UROCE_PLACE_QP:
      return PlaceQp(request.As<uroce_modify_qp>(), reply);
    case UROCE_MODIFY_QP:
      return ModifyQp(request.As<uroce_modify_qp>(), reply);
    case UROCE_QUERY_QP:
      Append(reply, qps_[handle].attributes);
      return 0;
    case UROCE_CREATE_SRQ:
      return CreateSrq(request.As<uroce_create_srq>(), reply);
    case UROCE_MODIFY_SRQ:
      return ModifySrq(request.As<uroce_modify_srq>(), reply);
    case UROCE_QUERY_SRQ:
      Append(reply,
             uroce_query_srq_reply{srqs_[handle].request.max_wr, srqs_[handle].request.max_sge,
                                   srqs_[handle].srq_limit, 0});
      return 0;
    case UROCE_DESTROY_SRQ:
      Append(reply, uroce_destroy_srq_reply{srqs_[handle].async_events_reported, 0});
      return 0;
    case UROCE_OPEN_CM:
      return OpenCm(reply, fds);
    case UROCE_WRITE_CM:
      WriteCm(reply);
      return 0;
    case UROCE_DESTROY_QP:
      Append(reply, uroce_destroy_qp_reply{qps_[handle].async_events_reported, 0});
      return 0;
    default:
      return 0;
  }
}

int FakeDaemon::Hello(std::vector<uint8_t>& reply, std::vector<int>& fds) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return errno;
  CloseIfOpen(memory_socket_);
  memory_socket_ = pair[0];
  fds = {arena_fd_};
  fds.insert(fds.end(), worker_count_, wake_fd_);
  fds.push_back(pair[1]);
  Append(reply, uroce_hello_reply{UROCE_ABI_VERSION, worker_count_,
                                  static_cast<uint32_t>(device_names_.size()), 0});
  return 0;
}

int FakeDaemon::CreateSegment(const uroce_create_segment& request, std::vector<uint8_t>& reply,
                              std::vector<int>& fds) {
  fds = {MakeSealedFile(UROCE_SEGMENT_NAME, 2 * request.length)};
  Append(reply, uroce_handle{next_handle_++, 0});
  return 0;
}

int FakeDaemon::OpenCm(std::vector<uint8_t>& reply, std::vector<int>& fds) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  CloseIfOpen(cm_fd_);
  cm_fd_ = ends[0];
  fds = {ends[1]};
  Append(reply, uroce_handle{next_handle_++, 0});
  return 0;
}

void FakeDaemon::WriteCm(std::vector<uint8_t>& reply) {
  FakeCmAnswer answer{.error = EAGAIN};
  if (!cm_answers_.empty()) {
    answer = cm_answers_.front();
    cm_answers_.pop_front();
  }
  Append(reply, uroce_write_cm_reply{answer.error, answer.signals, answer.old_signals,
                                     static_cast<uint32_t>(answer.response.size())});
  reply.insert(reply.end(), answer.response.begin(), answer.response.end());
}

void FakeDaemon::AnswerCm(FakeCmAnswer answer) {
  const std::lock_guard lock(mutex_);
  cm_answers_.push_back(std::move(answer));
}

int FakeDaemon::MakeStream(int& write_end, std::vector<uint8_t>& reply, std::vector<int>& fds) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  CloseIfOpen(write_end);
  write_end = ends[1];
  fds = {ends[0]};
  Append(reply, uroce_handle{next_handle_++, 0});
  return 0;
}

int FakeDaemon::CreateCq(const uroce_create_cq& request, std::vector<uint8_t>& reply) {
  const uint32_t handle = next_handle_++;
  const uroce_create_cq_reply made = {handle, std::bit_ceil(request.cqe),
                                      Allocate(sizeof(uroce_cq_page))};
  FakeCq& cq = cqs_[handle];
  cq.request = request;
  cq.page = reinterpret_cast<uroce_cq_page*>(arena_ + made.page_offset);
  cq.depth = made.cqe;
  Append(reply, made);
  return 0;
}

FakeRing FakeDaemon::MakeRing(uint32_t worker, uint32_t depth) {
  FakeRing ring;
  const uint64_t offset = Allocate(sizeof(uroce_cq_ring_page) + depth * sizeof(uroce_cqe));
  ring.place = {worker, depth, offset, offset + sizeof(uroce_cq_ring_page)};
  ring.page = reinterpret_cast<uroce_cq_ring_page*>(arena_ + ring.place.page_offset);
  ring.producer = rings::CqeProducer(
      {ring.page, reinterpret_cast<uroce_cqe*>(arena_ + ring.place.cqe_offset), depth});
  return ring;
}

void FakeDaemon::ShowRings(const FakeCq& cq) {
  rings::StoreRelaxed(cq.page->depth.value, cq.depth);
  for (const auto& [worker, ring] : cq.rings)
    cq.page->ring_offsets[worker] = ring.place.page_offset;
  rings::StoreRelease(cq.page->rings.value, static_cast<uint32_t>(cq.rings.size()));
}

void FakeDaemon::Move(uint32_t queue_pair, uint32_t worker) {
  const FakeQp& its = qps_.at(queue_pair);
  worker_ = worker;
  for (const uint32_t cq : {its.request.send_cq, its.request.recv_cq}) (void)RingOf(cq);
  rings::StoreRelaxed(its.page->worker.value, worker);
}

uroce_cq_ring FakeDaemon::RingOf(uint32_t handle) {
  FakeCq& cq = cqs_[handle];
  if (!cq.rings.contains(worker_)) cq.rings[worker_] = MakeRing(worker_, cq.depth);
  ShowRings(cq);
  return cq.rings[worker_].place;
}

int FakeDaemon::ResizeCq(const uroce_resize_cq& request, std::vector<uint8_t>& reply) {
  if (!cqs_.contains(request.handle)) return EINVAL;
  FakeCq& cq = cqs_[request.handle];
  uint32_t waiting = 0;
  for (auto& [worker, ring] : cq.rings) waiting += ring.producer.waiting();
  if (waiting > request.cqe) return EINVAL;
  cq.depth = std::bit_ceil(request.cqe);
  Append(reply, uroce_resize_cq_reply{cq.depth, static_cast<uint32_t>(cq.rings.size())});
  for (auto& [worker, ring] : cq.rings) {
    const rings::CqeProducer old = ring.producer;
    ring = MakeRing(worker, cq.depth);
    rings::CopyWaiting(old.layout(), old.produced() - old.waiting(), 0, old.waiting(),
                       ring.producer.layout());
    ring.producer = rings::CqeProducer(ring.producer.layout(), old.waiting());
    Append(reply, ring.place);
  }
  ShowRings(cq);
  return 0;
}

int FakeDaemon::CreateQp(const uroce_create_qp& request, std::vector<uint8_t>& reply) {
  const bool receives = request.qp_type != IBV_QPT_XRC_SEND;
  const uint32_t recv_cq = receives ? request.recv_cq : request.send_cq;
  if (!cqs_.contains(request.send_cq) || !cqs_.contains(recv_cq)) return EINVAL;
  FakeQp& qp = qps_[next_handle_];
  qp.request = request;
  uroce_create_qp_reply& made = qp.reply;
  made.handle = next_handle_++;
  made.qp_num = 0x1000 + made.handle;
  made.cap = request.cap;
  made.worker = worker_;
  made.doorbell_slot = made.handle;
  made.send_ring = RingOf(request.send_cq);
  made.receive_ring = RingOf(recv_cq);
  made.sq_depth = std::bit_ceil(request.cap.max_send_wr);
  made.rq_depth = std::bit_ceil(request.cap.max_recv_wr);
  made.sq_slot_bytes = rings::SendSlotBytes(request.cap.max_send_sge, request.cap.max_inline_data);
  made.rq_slot_bytes = rings::ReceiveSlotBytes(request.cap.max_recv_sge);
  made.page_offset = Allocate(sizeof(uroce_qp_page));
  made.sq_offset = Allocate(uint64_t{made.sq_depth} * made.sq_slot_bytes);
  made.rq_offset = Allocate(uint64_t{made.rq_depth} * made.rq_slot_bytes);
  qp.page = reinterpret_cast<uroce_qp_page*>(arena_ + made.page_offset);
  qp.page->worker.value = worker_;
  qp.send = rings::WorkQueueConsumer({arena_ + made.sq_offset, made.sq_depth, made.sq_slot_bytes},
                                     &qp.page->sq_produced);
  qp.receive = rings::WorkQueueConsumer(
      {arena_ + made.rq_offset, made.rq_depth, made.rq_slot_bytes}, &qp.page->rq_produced);
  Append(reply, made);
  return 0;
}

int FakeDaemon::PlaceQp(const uroce_modify_qp& request, std::vector<uint8_t>& reply) {
  if (!qps_.contains(request.handle)) return EINVAL;
  Move(request.handle, worker_);
  Append(reply, uroce_place_qp_reply{worker_, 0});
  return 0;
}

bool FakeSrq::Take(rings::ReceiveWqe& wqe) {
  if (entries.Look() != rings::QueueState::kReady) return false;
  if (rings::ReadReceiveWqe(entries.Slot(), request.max_sge, wqe) != rings::WqeResult::kOk) {
    return false;
  }
  entries.Advance();
  rings::StoreRelease(page->consumed.value, entries.index());
  return true;
}

uroce_srq_layout FakeDaemon::LayOut(FakeSrq& srq, uint32_t max_wr) {
  uroce_srq_layout layout = {};
  layout.max_wr = max_wr;
  layout.max_sge = srq.request.max_sge;
  layout.depth = std::bit_ceil(max_wr);
  layout.slot_bytes = rings::ReceiveSlotBytes(layout.max_sge);
  layout.page_offset = Allocate(sizeof(uroce_srq_page));
  layout.slots_offset = Allocate(uint64_t{layout.depth} * layout.slot_bytes);
  srq.page = reinterpret_cast<uroce_srq_page*>(arena_ + layout.page_offset);
  srq.entries = rings::WorkQueueConsumer(
      {arena_ + layout.slots_offset, layout.depth, layout.slot_bytes}, &srq.page->produced);
  return layout;
}

int FakeDaemon::CreateSrq(const uroce_create_srq& request, std::vector<uint8_t>& reply) {
  uroce_create_srq_reply made = {};
  made.handle = next_handle_++;
  const bool is_xrc = request.srq_type == IBV_SRQT_XRC;
  if (is_xrc && !cqs_.contains(request.cq)) return EINVAL;
  FakeSrq& srq = srqs_[made.handle];
  srq.request = request;
  made.layout = LayOut(srq, request.max_wr);
  if (is_xrc) {
    made.srqn = kQueueNumber + made.handle;
    made.ring = RingOf(request.cq);
  }
  Append(reply, made);
  return 0;
}

int FakeDaemon::ModifySrq(const uroce_modify_srq& request, std::vector<uint8_t>& reply) {
  FakeSrq& srq = srqs_[request.handle];
  uroce_srq_layout layout = {};
  if ((request.mask & IBV_SRQ_MAX_WR) != 0) layout = LayOut(srq, request.max_wr);
  if ((request.mask & IBV_SRQ_LIMIT) != 0) srq.srq_limit = request.srq_limit;
  Append(reply, layout);
  return 0;
}

int FakeDaemon::ModifyQp(const uroce_modify_qp& request, std::vector<uint8_t>& reply) {
  FakeQp& qp = qps_[request.handle];
  if (qp.page == nullptr) return EINVAL;
  qp.attributes = request.attr;
  rings::StoreRelease(qp.page->state.value, request.attr.qp_state);
  Append(reply, uroce_modify_qp_reply{request.attr.qp_state, 0});
  return 0;
}

uint64_t FakeDaemon::Allocate(uint64_t size_bytes) {
  const uint64_t offset = arena_used_;
  arena_used_ += (size_bytes + 4095) / 4096 * 4096;
  return offset;
}

void FakeDaemon::FailNext(uint32_t command, int error) {
  const std::lock_guard lock(mutex_);
  failures_[command] = error;
}

Received FakeDaemon::Last(uint32_t command) {
  const std::lock_guard lock(mutex_);
  return last_[command];
}

FakeCq& FakeDaemon::cq(uint32_t handle) {
  const std::lock_guard lock(mutex_);
  return cqs_.at(handle);
}

FakeQp& FakeDaemon::qp(uint32_t handle) {
  const std::lock_guard lock(mutex_);
  return qps_.at(handle);
}

FakeSrq& FakeDaemon::srq(uint32_t handle) {
  const std::lock_guard lock(mutex_);
  return srqs_.at(handle);
}

uroce_doorbells& FakeDaemon::doorbells(uint32_t worker) {
  return reinterpret_cast<uroce_doorbells*>(arena_ + UROCE_DOORBELLS_OFFSET)[worker];
}

}  // namespace uroce::shim_test
