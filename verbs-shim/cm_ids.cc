// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/cm_ids.h"

#include "verbs-shim/support.h"

namespace uroce::shim {

bool CmIds::MakeChunk(uint32_t index) {
  auto* fresh = Make<Chunk>();
  if (fresh == nullptr) return false;
  Chunk* expected = nullptr;
  if (!__atomic_compare_exchange_n(&chunks_[index], &expected, fresh, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    Free(fresh);
  }
  return true;
}

void CmIds::Set(uint32_t id, uint32_t file, uint64_t uid) {
  if (id >= kMost) return;
  if (Find(id) == nullptr && !MakeChunk(id / kChunkIds)) return;
  Id& entry = *Find(id);
  rings::StoreRelaxed(entry.file, file);
  rings::StoreRelease(entry.uid, uid);
}

void CmIds::Move(uint32_t id, uint32_t file) {
  Id* entry = Find(id);
  if (entry != nullptr) rings::StoreRelaxed(entry->file, file);
}

void CmIds::Forget(uint32_t id) {
  Id* entry = Find(id);
  if (entry != nullptr) rings::StoreRelease(entry->uid, uint64_t{0});
}

bool CmIds::TakeOne(uint32_t file, uint32_t* id, uint64_t* uid) {
  for (uint32_t chunk = 0; chunk < kMost; chunk += kChunkIds) {
    if (Find(chunk) == nullptr) continue;
    for (uint32_t i = chunk; i < chunk + kChunkIds; ++i) {
      Id& entry = *Find(i);
      if (rings::LoadAcquire(entry.uid) == 0 || rings::LoadRelaxed(entry.file) != file) continue;
      *uid = __atomic_exchange_n(&entry.uid, uint64_t{0}, __ATOMIC_ACQ_REL);
      *id = i;
      if (*uid != 0) return true;  // No other thread took it first.
    }
  }
  return false;
}

}  // namespace uroce::shim
