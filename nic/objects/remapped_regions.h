// SPDX-License-Identifier: Apache-2.0
// Regions whose copied parts follow the program's addresses: a later region may map these.
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

/// Holds the regions that are published and have such parts. Control thread.
class RemappedRegions {
 public:
  explicit RemappedRegions(ProgramCore& core) : core_(core) {}

  /// Takes `memory` in if parts of it follow addresses.
  void Add(MemoryObject& memory);
  void Remove(MemoryObject& memory) { regions_.erase(&memory); }
  /// Has regions reach what they copy by the mappings of `memory`, where it has them. True: some
  /// do, and copies that have begun may still be under way.
  bool Map(const MemoryObject& memory);
  /// Has regions that reach what they copy by `mapping`, or a part of one, copy it again.
  void Unmap(std::span<const uint8_t> mapping);

 private:
  /// `segments` are those that it points into besides its own.
  void Replace(MemoryObject& memory, std::vector<datapath::MrSegment> parts,
               const std::vector<std::shared_ptr<Segment>>& segments);

  ProgramCore& core_;
  std::set<MemoryObject*> regions_;
};

}  // namespace uroce::nic
