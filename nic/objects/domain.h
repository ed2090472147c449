// SPDX-License-Identifier: Apache-2.0
// Protection domains in the daemon; several programs may share one.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "pipeline/datapath/memory/memory_region.h"

namespace uroce::nic {

/// One domain. Its maker and each program that imports it have ProtectionDomains for it; a program
/// may have several. Copied memory is reached only by the copy helper of the program that
/// registered it. So a domain either has copied memory or is shared by programs, never both.
/// Control thread.
class Domain {
 public:
  /// The domain stays in this use while the object is held.
  using Use = std::shared_ptr<const void>;

  explicit Domain(uint32_t number) : number_(number) {}

  /// Unique in the daemon: keys and queue pairs are compared by it.
  uint32_t number() const { return number_; }
  /// For a region with copied memory. Null if the domain is shared.
  Use HoldCopiedMemory() { return Begin(copied_memory_, shared_); }
  /// For a program other than its maker. Null if the domain has copied memory.
  Use Share() { return Begin(shared_, copied_memory_); }

 private:
  using Users = std::weak_ptr<const void>;
  static Use Begin(Users& its, const Users& other);

  const uint32_t number_;
  Users copied_memory_;
  Users shared_;
};

/// All domains of the daemon. Outlives them. Control thread.
class Domains {
 public:
  /// Numbers are in [1, most]. Range: more than the number of domains at any time.
  explicit Domains(uint32_t most = UINT32_MAX) : most_(most) {}
  Domains(const Domains&) = delete;
  Domains& operator=(const Domains&) = delete;

  /// Makes a domain with an unused number.
  std::shared_ptr<Domain> Make();

 private:
  const uint32_t most_;
  uint32_t last_ = datapath::kNoPd;
  absl::flat_hash_set<uint32_t> held_;
};

}  // namespace uroce::nic
