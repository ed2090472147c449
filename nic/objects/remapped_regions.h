// SPDX-License-Identifier: Apache-2.0
// Regions whose copied parts refer to the program's addresses: a later region may map these.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "nic/objects/program_core.h"
#include "pipeline/datapath/memory/memory_region.h"

namespace uroce::nic {

struct MemoryObject;
struct Segment;

/// Holds the published regions with such parts. Control thread.
class RemappedRegions {
 public:
  explicit RemappedRegions(ProgramCore& core) : core_(core) {}

  /// Adds `memory` if parts of it refer to addresses.
  void Add(MemoryObject& memory);
  void Remove(MemoryObject& memory) { regions_.erase(&memory); }
  /// Lets regions use the mappings of `memory` for what they copied there. True: some regions
  /// changed, and copies that have begun may still be running.
  bool Map(const MemoryObject& memory);
  /// Lets regions that use `mapping`, or a part of it, copy again.
  void Unmap(std::span<const uint8_t> mapping);

 private:
  /// `segments`: the segments that `parts` point into, beside those of `memory`.
  void Replace(MemoryObject& memory, std::vector<datapath::MrSegment> parts,
               const std::vector<std::shared_ptr<Segment>>& segments);

  ProgramCore& core_;
  std::set<MemoryObject*> regions_;
};

}  // namespace uroce::nic
