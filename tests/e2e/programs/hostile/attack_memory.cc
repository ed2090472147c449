// SPDX-License-Identifier: Apache-2.0
// Attacks on what lies in the arena.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstring>

#include "pipeline/shm/rings/doorbells.h"
#include "pipeline/shm/rings/shared_word.h"
#include "tests/e2e/programs/hostile/attacks.h"

namespace uroce::hostile {
namespace {

/// Mostly small, now and then anything.
uint32_t AnyWord(Random& random) {
  const uint64_t choice = Below(random, 4);
  if (choice == 0) return static_cast<uint32_t>(random());
  return choice == 1 ? ~static_cast<uint32_t>(Below(random, 40))
                     : static_cast<uint32_t>(Below(random, 40));
}

uint32_t AnyKey(const Program& program, Random& random) {
  const uroce_reg_mr_reply& region = program.regions[Below(random, program.regions.size())];
  switch (Below(random, 4)) {
    case 0:
      return static_cast<uint32_t>(random());
    case 1:
      return region.lkey ^ 1;
    default:
      return region.lkey;
  }
}

uint64_t AnyAddress(Random& random) {
  return Below(random, 4) == 0 ? random() : 0x10000 + Below(random, 70'000);
}

template <typename T>
T& At(const Program& program, uint64_t offset) {
  return *reinterpret_cast<T*>(program.arena + offset);
}

uint32_t AnyQueue(const Program& program, Random& random) {
  if (Below(random, 4) == 0) return AnyWord(random);
  return program.shared_queues[Below(random, program.shared_queues.size())].srqn;
}

uroce_wqe_datagram AnyDatagram(const Program& program, Random& random) {
  const QueuePair& to = program.queue_pairs[Below(random, program.queue_pairs.size())];
  const uint32_t ah = program.addresses[Below(random, program.addresses.size())];
  return {.ah = Below(random, 4) == 0 ? AnyWord(random) : ah,
          .remote_qpn = Below(random, 4) == 0 ? AnyWord(random) : to.layout.qp_num,
          .remote_qkey = Below(random, 4) == 0 ? AnyWord(random) : kQkey,
          .reserved = 0};
}

/// A send request that may be right, wrong in one field, or noise.
void WriteSend(const Program& program, Random& random, uint32_t type, uint8_t* slot,
               uint32_t slot_bytes) {
  if (Below(random, 8) == 0) {
    for (uint32_t i = 0; i < slot_bytes; ++i) slot[i] = static_cast<uint8_t>(random());
    return;
  }
  uroce_send_wqe wqe{};
  wqe.wr_id = random();
  wqe.opcode = static_cast<uint8_t>(Below(random, 8) == 0 ? random() : Below(random, 12));
  wqe.flags = static_cast<uint8_t>(Below(random, 4) == 0 ? random() : UROCE_SEND_SIGNALED);
  wqe.num_sge = static_cast<uint8_t>(Below(random, 8) == 0 ? random() : Below(random, 5));
  wqe.imm_or_rkey = AnyKey(program, random);
  wqe.remote_addr = AnyAddress(random);
  wqe.rkey = AnyKey(program, random);
  wqe.inline_length = static_cast<uint8_t>(AnyWord(random));
  wqe.xrc_srqn = AnyQueue(program, random);
  wqe.atomic = {random(), random()};
  if (type == IBV_QPT_UD) wqe.datagram = AnyDatagram(program, random);
  std::memcpy(slot, &wqe, sizeof(wqe));
  for (uint32_t at = sizeof(wqe); at + sizeof(uroce_sge) <= slot_bytes; at += sizeof(uroce_sge)) {
    const uroce_sge sge{AnyAddress(random), AnyWord(random) * 100, AnyKey(program, random)};
    std::memcpy(slot + at, &sge, sizeof(sge));
  }
}

void PostSends(Program& program, Random& random, QueuePair& queue_pair) {
  const uroce_create_qp_reply& layout = queue_pair.layout;
  for (uint64_t count = 1 + Below(random, 4); count != 0; --count) {
    const uint32_t slot = queue_pair.posted++ & (layout.sq_depth - 1);
    WriteSend(program, random, queue_pair.type,
              &At<uint8_t>(program, layout.sq_offset) + slot * layout.sq_slot_bytes,
              layout.sq_slot_bytes);
  }
  rings::StoreRelease(At<uroce_qp_page>(program, layout.page_offset).sq_produced.value,
                      queue_pair.posted);
  program.Ring(queue_pair.layout);
}

void PostReceives(const Program& program, Random& random, const QueuePair& queue_pair) {
  const uroce_create_qp_reply& layout = queue_pair.layout;
  uint8_t* slots = &At<uint8_t>(program, layout.rq_offset);  // None of an XRC queue pair's.
  for (uint32_t slot = 0; slot < layout.rq_depth; ++slot) {
    const uroce_recv_wqe wqe{random(), static_cast<uint32_t>(Below(random, 6)), 0};
    std::memcpy(slots + slot * layout.rq_slot_bytes, &wqe, sizeof(wqe));
    const uroce_sge sge{AnyAddress(random), AnyWord(random) * 100, AnyKey(program, random)};
    std::memcpy(slots + slot * layout.rq_slot_bytes + sizeof(wqe), &sge, sizeof(sge));
  }
  auto& produced = At<uroce_qp_page>(program, layout.page_offset).rq_produced.value;
  rings::StoreRelease(produced, produced + static_cast<uint32_t>(Below(random, 16)));
}

/// Receives of a shared queue: entries, right or wrong, and now and then an impossible index.
void PostShared(const Program& program, Random& random) {
  const uroce_srq_layout& layout =
      program.shared_queues[Below(random, program.shared_queues.size())].layout;
  uint8_t* slots = &At<uint8_t>(program, layout.slots_offset);
  for (uint32_t slot = 0; slot < layout.depth; ++slot) {
    const uroce_recv_wqe wqe{random(), static_cast<uint32_t>(Below(random, 4)), 0};
    std::memcpy(slots + slot * layout.slot_bytes, &wqe, sizeof(wqe));
    const uroce_sge sge{AnyAddress(random), AnyWord(random) * 100, AnyKey(program, random)};
    std::memcpy(slots + slot * layout.slot_bytes + sizeof(wqe), &sge, sizeof(sge));
  }
  auto& page = At<uroce_srq_page>(program, layout.page_offset);
  const uint32_t consumed = rings::LoadRelaxed(page.consumed.value);
  const bool is_right = Below(random, 8) != 0;
  rings::StoreRelease(page.produced.value, is_right ? consumed + layout.depth : AnyWord(random));
}

void RingAll(const Program& program, uint32_t worker) {
  uroce_doorbells& doorbells = program.doorbells(worker);
  for (uroce_line64& word : doorbells.words) rings::StoreRelaxed(word.value, ~uint64_t{0});
  for (uint64_t& summary : doorbells.summary) rings::StoreRelease(summary, ~uint64_t{0});
}

/// What the daemon writes, and what it only reads.
void Scribble(const Program& program, Random& random, const QueuePair& queue_pair) {
  const uroce_create_qp_reply& layout = queue_pair.layout;
  auto& page = At<uroce_qp_page>(program, layout.page_offset);
  auto& ring = At<uroce_cq_ring_page>(program, layout.send_ring.page_offset);
  switch (Below(random, 6)) {
    case 0:
      rings::StoreRelease(page.sq_produced.value, AnyWord(random));
      break;
    case 1:
      rings::StoreRelease(page.rq_produced.value, AnyWord(random));
      break;
    case 2:
      rings::StoreRelease(page.state.value, AnyWord(random));
      break;
    case 3:
      rings::StoreRelease(ring.consumed.value, AnyWord(random));
      break;
    case 4:
      At<uroce_cqe>(program, layout.send_ring.cqe_offset).generation = AnyWord(random);
      break;
    default:
      rings::StoreRelaxed(program.doorbells(layout.worker).sleeping.value, AnyWord(random));
      break;
  }
  program.Ring(queue_pair.layout);
}

/// Keeps the rings usable for a while: as if all had been polled.
void Poll(const Program& program, Random& random, const QueuePair& queue_pair) {
  auto& ring = At<uroce_cq_ring_page>(program, queue_pair.layout.send_ring.page_offset);
  rings::StoreRelease(ring.consumed.value,
                      ring.consumed.value + static_cast<uint32_t>(Below(random, 8)));
}

}  // namespace

void AttackMemory(Program& program, Random& random) {
  QueuePair& queue_pair = program.queue_pairs[Below(random, program.queue_pairs.size())];
  switch (Below(random, 16)) {
    case 0:
      return RingAll(program, queue_pair.layout.worker);
    case 1:
      return Scribble(program, random, queue_pair);
    case 2:
      return PostShared(program, random);
    case 3:
      return PostReceives(program, random, queue_pair);
    case 4:
    case 5:
    case 6:
      return Poll(program, random, queue_pair);
    default:
      return PostSends(program, random, queue_pair);
  }
}

}  // namespace uroce::hostile
