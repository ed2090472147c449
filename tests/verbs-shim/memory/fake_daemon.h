// SPDX-License-Identifier: Apache-2.0
// A daemon of memory regions inside the test: makes segments and reads and writes regions as uroced
// does, mapped parts through its own mapping and copied parts through /proc/self/mem.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "verbs-shim/memory/memory.h"

namespace uroce::memory {

class FakeDaemon {
 public:
  struct Segment {
    uint8_t* view;
    uint64_t length;
  };
  struct Region {
    uroce_reg_mr request;
    std::vector<uroce_mr_segment> segments;
  };

  /// Lives as long as the process: the registry knows a session by its address, and real sessions
  /// are never freed either.
  static FakeDaemon& Make();

  FakeDaemon() = default;
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  /// The functions that the registration calls.
  Daemon calls();
  int Register(const void* address, uint64_t length, MemoryRegistration& registration,
               uint32_t access = 7);
  int Deregister(MemoryRegistration& registration) {
    return DeregisterMemory(calls(), registration);
  }

  /// What a peer's READ of the region would see, and a WRITE do.
  std::string Read(const MemoryRegistration& registration, const void* address, uint64_t length);
  void Write(const MemoryRegistration& registration, void* address, const std::string& bytes);

  /// The region's parts as letters and lengths: "m4096 c16" is 4096 bytes mapped, then 16 copied;
  /// "s" is shared.
  std::string Shape(const MemoryRegistration& registration) const;

  const Region& region(const MemoryRegistration& registration) const {
    return regions_.at(registration.handle);
  }
  /// Where this daemon has the first part of a region.
  const uint8_t* ViewOf(const MemoryRegistration& registration) const {
    const uroce_mr_segment& part = region(registration).segments.front();
    return segments_.at(part.segment).view + part.segment_offset;
  }
  size_t files_lent() const { return files_lent_; }
  size_t segment_count() const { return segments_.size(); }
  size_t segments_made() const { return next_segment_ - 1; }
  /// Pages of memory in the files of its segments.
  uint64_t PagesInSegments() const;
  size_t region_count() const { return regions_.size(); }
  bool has_memory_fd() const { return memory_fd_ >= 0; }

  int userfaultfd_device = -1;
  int segment_error = 0;     // what CREATE_SEGMENT answers
  int region_error = 0;      // what REG_MR answers
  int share_error = 0;       // what a lent file is answered with
  bool keeps_pages = false;  // of segments, so that no program can free them; needs privilege
  std::function<void()> on_destroy;  // DESTROY_SEGMENT has come

 private:
  int CreateSegment(const uroce_create_segment& request, SegmentGrant& grant);
  int ShareFile(const SharedFile& file, SharedGrant& grant);
  int DestroySegment(uint32_t handle);
  int TrimSegment(const uroce_trim_segment& request);
  int RegisterRegion(const uroce_reg_mr& request, const uroce_mr_segment* segments,
                     uroce_reg_mr_reply& reply);
  template <typename Step>
  void ForEachPart(const MemoryRegistration& registration, uint64_t address, uint64_t length,
                   Step step);

  std::map<uint32_t, Segment> segments_;
  std::map<uint32_t, Region> regions_;
  uint32_t next_segment_ = 1;
  uint32_t next_region_ = 1;
  size_t files_lent_ = 0;
  int memory_fd_ = -1;
};

/// The files of segments that this process has mapped or open, and how many fds it has of them.
struct SegmentFiles {
  std::set<uint64_t> inodes;
  size_t fds = 0;
};
SegmentFiles FindSegmentFiles();

/// How this process sees a page: "private", "segment" or "none".
std::string PageKind(const void* address);

}  // namespace uroce::memory
