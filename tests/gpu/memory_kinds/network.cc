// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/memory_kinds/network.h"

namespace uroce::memory_kinds {

const char* NameOf(Verb verb) {
  switch (verb) {
    case Verb::kWrite:
      return "WRITE";
    case Verb::kRead:
      return "READ";
    case Verb::kSend:
      return "SEND";
    case Verb::kImmediate:
      return "immediate";
  }
  return "";
}

Network::Network(const char* name_a, const char* name_b) : ends_{End(name_a), End(name_b)} {
  Connect();
}

namespace {

constexpr uint8_t kTimeout = 18;

}  // namespace

void Network::Connect() {
  for (int i = 0; i < 2; ++i) ends_[i].Connect(ends_[1 - i].info(), kTimeout);
}

ibv_mr* Network::Register(int end, uint64_t address, size_t bytes) {
  return ends_[end].Register(address, bytes);
}

ibv_mr* Network::RegisterDmabuf(int end, uint64_t address, size_t bytes, int fd) {
  return ends_[end].RegisterDmabuf(address, bytes, fd);
}

std::string Network::Recover(std::string why) {
  for (End& end : ends_) end.Reset();
  Connect();
  return why;
}

std::string Network::Transfer(Verb verb, int end, std::vector<ibv_sge> from,
                              std::vector<ibv_sge> to, uint32_t from_rkey, uint32_t to_rkey) {
  const bool reads = verb == Verb::kRead;
  const int poster = reads ? 1 - end : end;
  std::vector<ibv_sge>& local = reads ? to : from;
  ibv_send_wr request = {};
  request.sg_list = local.data();
  request.num_sge = static_cast<int>(local.size());
  request.opcode = reads                  ? IBV_WR_RDMA_READ
                   : verb == Verb::kWrite ? IBV_WR_RDMA_WRITE
                   : verb == Verb::kSend  ? IBV_WR_SEND
                                          : IBV_WR_RDMA_WRITE_WITH_IMM;
  request.wr.rdma.remote_addr = reads ? from[0].addr : to[0].addr;
  request.wr.rdma.rkey = reads ? from_rkey : to_rkey;
  const bool receives = verb == Verb::kSend || verb == Verb::kImmediate;
  if (receives) {
    ibv_recv_wr receive = {};
    receive.sg_list = to.data();
    receive.num_sge = verb == Verb::kSend ? static_cast<int>(to.size()) : 0;
    if (!ends_[1 - end].Receive(receive)) return Recover("ibv_post_recv");
  }
  std::string failed = ends_[poster].Post(request);
  if (failed.empty()) failed = ends_[poster].Await();
  if (failed.empty() && receives) failed = ends_[1 - end].Await();
  return failed.empty() ? failed : Recover(failed);
}

std::string Network::Move(Verb verb, int end, Place from, Place to, uint32_t bytes) {
  return Transfer(verb, end, {{from.address, bytes, from.mr->lkey}},
                  {{to.address, bytes, to.mr->lkey}}, from.mr->rkey, to.mr->rkey);
}

std::string Network::Gather(Verb verb, int end, const std::vector<ibv_sge>& from, Place to) {
  uint32_t bytes = 0;
  for (const ibv_sge& part : from) bytes += part.length;
  return Transfer(verb, end, from, {{to.address, bytes, to.mr->lkey}}, 0, to.mr->rkey);
}

std::string Network::Scatter(Verb verb, int end, Place from, const std::vector<ibv_sge>& to) {
  uint32_t bytes = 0;
  for (const ibv_sge& part : to) bytes += part.length;
  return Transfer(verb, end, {{from.address, bytes, from.mr->lkey}}, to, from.mr->rkey, 0);
}

std::string Network::ReadFromSelf(Place from, Place to, uint32_t bytes) {
  ends_[0].Reset();
  ends_[0].Connect(ends_[0].info(), kTimeout);
  const ibv_sge place = {to.address, bytes, to.mr->lkey};
  std::string failed = ends_[0].PostOneSided(IBV_WR_RDMA_READ, place, from.address, from.mr->rkey);
  if (failed.empty()) failed = ends_[0].Await();
  return Recover(failed);
}

std::string Network::Atomic(int end, bool compares, Place result, Place to, uint64_t compare_add,
                            uint64_t swap) {
  ibv_sge place = {result.address, sizeof(uint64_t), result.mr->lkey};
  ibv_send_wr request = {};
  request.sg_list = &place;
  request.num_sge = 1;
  request.opcode = compares ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic.remote_addr = to.address;
  request.wr.atomic.rkey = to.mr->rkey;
  request.wr.atomic.compare_add = compare_add;
  request.wr.atomic.swap = swap;
  std::string failed = ends_[end].Post(request);
  if (failed.empty()) failed = ends_[end].Await();
  return failed.empty() ? failed : Recover(failed);
}

}  // namespace uroce::memory_kinds
