// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/session.h"

#include <utility>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/memory_rest.h"
#include "pipeline/datapath/queue/queue_pair.h"

namespace uroce::datapath {

Session::Session(uint32_t id, std::vector<SessionLink> links, uint32_t uid, SharedRate* rate,
                 MemoryRest* rest)
    : id_(id), uid_(uid), rate_(rate), rest_(rest), links_(std::move(links)) {}

Session::~Session() = default;

void Session::StartCopyHelper(ProgramMemory memory) {
  std::vector<int> wake_fds;
  for (const SessionLink& link : links_) wake_fds.push_back(link.wake_fd);
  owned_helper_ = std::make_unique<CopyHelper>(std::move(memory), wake_fds);
  helper_.store(owned_helper_.get(), std::memory_order_release);
}

bool Session::has_mapped_copies() const {
  return rest_ != nullptr && rest_->has_begun() && copy_helper() != nullptr;
}

void Session::MakeAddressTable(uint32_t capacity) {
  if (owned_addresses_ != nullptr) return;
  owned_addresses_ = std::make_unique<AddressTable>(capacity);
  addresses_.store(owned_addresses_.get(), std::memory_order_release);
}

void Session::SetAddress(uint32_t handle, const AddressVector* vector) {
  owned_addresses_->Set(handle, vector);
}

const AddressVector* Session::FindAddress(uint32_t handle) const {
  const AddressTable* const addresses = addresses_.load(std::memory_order_acquire);
  return addresses == nullptr ? nullptr : addresses->Find(handle);
}

uint64_t Session::copies_begun() const {
  const CopyHelper* helper = copy_helper();
  return helper == nullptr ? 0 : helper->submitted();
}

uint64_t Session::copy_generation() const {
  const CopyHelper* helper = copy_helper();
  return helper == nullptr ? 0 : helper->generation();
}

bool Session::CopiesDone(uint64_t generation) const {
  const CopyHelper* helper = copy_helper();
  return helper == nullptr || helper->AreDone(generation);
}

bool Session::HasLateWrites() const {
  const CopyHelper* helper = copy_helper();
  return helper != nullptr && helper->HasLateWrites();
}

}  // namespace uroce::datapath
