// SPDX-License-Identifier: Apache-2.0
// Segments as sealed memfds, regions as lists of parts.
#include "tests/verbs-shim/memory/fake_daemon.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <list>

namespace uroce::memory {
namespace {

constexpr uint64_t kSparseBytes = 1ull << 40;

FakeDaemon& Of(void* connection) { return *static_cast<FakeDaemon*>(connection); }

}  // namespace

FakeDaemon& FakeDaemon::Make() {
  static std::list<FakeDaemon> daemons;
  return daemons.emplace_back();
}

Daemon FakeDaemon::calls() {
  return {.connection = this,
          .userfaultfd_device = userfaultfd_device,
          .create_segment =
              [](void* connection, const uroce_create_segment& request, SegmentGrant& grant) {
                return Of(connection).CreateSegment(request, grant);
              },
          .destroy_segment = [](void* connection,
                                uint32_t handle) { return Of(connection).DestroySegment(handle); },
          .trim_segment =
              [](void* connection, const uroce_trim_segment& request) {
                return Of(connection).TrimSegment(request);
              },
          .register_region =
              [](void* connection, const uroce_reg_mr& request, const uroce_mr_segment* segments,
                 uroce_reg_mr_reply& reply) {
                return Of(connection).RegisterRegion(request, segments, reply);
              },
          .deregister_region =
              [](void* connection, uint32_t handle) {
                return Of(connection).regions_.erase(handle) == 1 ? 0 : EINVAL;
              },
          .send_memory_fd =
              [](void* connection, int fd) {
                Of(connection).memory_fd_ = dup(fd);
                return 0;
              },
          .open_copies = [](void*) { return EOPNOTSUPP; },
          .share_file = [](void* connection, const SharedFile& file,
                           SharedGrant& grant) { return Of(connection).ShareFile(file, grant); }};
}

int FakeDaemon::Register(const void* address, uint64_t length, MemoryRegistration& registration,
                         uint32_t access) {
  const auto addr = reinterpret_cast<uint64_t>(address);
  return RegisterMemory(calls(),
                        {.pd = 1, .access = access, .addr = addr, .length = length, .iova = addr},
                        registration);
}

int FakeDaemon::CreateSegment(const uroce_create_segment& request, SegmentGrant& grant) {
  if (segment_error != 0) return segment_error;
  EXPECT_EQ(request.addr % 4096, 0u);
  EXPECT_EQ(request.length % 4096, 0u);
  grant.memfd = memfd_create(UROCE_SEGMENT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(grant.memfd, kSparseBytes), 0);
  EXPECT_EQ(fcntl(grant.memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  int flags = FS_IMMUTABLE_FL;
  if (keeps_pages && ioctl(grant.memfd, FS_IOC_SETFLAGS, &flags) != 0) return errno;
  void* view = mmap(nullptr, request.length, PROT_READ | PROT_WRITE, MAP_SHARED, grant.memfd, 0);
  EXPECT_NE(view, MAP_FAILED);
  grant.handle = next_segment_++;
  segments_[grant.handle] = {static_cast<uint8_t*>(view), request.length};
  return 0;
}

int FakeDaemon::ShareFile(const SharedFile& file, SharedGrant& grant) {
  if (share_error != 0) return share_error;
  if (file.fd < 0) return EACCES;
  const int protection = PROT_READ | (file.writable ? PROT_WRITE : 0);
  void* view =
      mmap(nullptr, file.length, protection, MAP_SHARED, file.fd, static_cast<off_t>(file.offset));
  if (view == MAP_FAILED) return errno;
  ++files_lent_;
  grant = {.handle = next_segment_++, .offset = file.offset, .length = file.length};
  segments_[grant.handle] = {static_cast<uint8_t*>(view), file.length};
  return 0;
}

int FakeDaemon::DestroySegment(uint32_t handle) {
  const auto found = segments_.find(handle);
  EXPECT_NE(found, segments_.end()) << "segment " << handle << " destroyed twice";
  if (found == segments_.end()) return EINVAL;
  if (on_destroy) on_destroy();
  munmap(found->second.view, found->second.length);
  segments_.erase(found);
  return 0;
}

int FakeDaemon::TrimSegment(const uroce_trim_segment& request) {
  EXPECT_TRUE(segments_.contains(request.segment));
  EXPECT_GT(request.length, 0u);
  EXPECT_EQ((request.offset | request.length) % 4096, 0u);
  EXPECT_LE(request.offset + request.length, segments_[request.segment].length);
  for (const auto& [handle, region] : regions_) {
    for (const uroce_mr_segment& part : region.segments) {
      EXPECT_TRUE(part.mode != UROCE_MR_MAPPED || part.segment != request.segment ||
                  part.segment_offset >= request.offset + request.length ||
                  part.segment_offset + part.length <= request.offset)
          << "region " << handle << " has pages that are given up";
    }
  }
  return 0;
}

int FakeDaemon::RegisterRegion(const uroce_reg_mr& request, const uroce_mr_segment* segments,
                               uroce_reg_mr_reply& reply) {
  if (region_error != 0) return region_error;
  EXPECT_LE(request.segment_count, UROCE_MAX_MR_PARTS);
  uint64_t at = request.addr;
  for (uint32_t i = 0; i < request.segment_count; ++i) {
    EXPECT_EQ(segments[i].addr, at) << "part " << i << " leaves a gap";
    at += segments[i].length;
    if (segments[i].mode == UROCE_MR_COPIED) continue;
    const bool is_by_signal = segments[i].reason == UROCE_WHY_NO_USERFAULTFD;
    EXPECT_TRUE(segments[i].reason == UROCE_WHY_NONE || is_by_signal);
    EXPECT_TRUE(!is_by_signal || segments[i].mode == UROCE_MR_MAPPED);
    EXPECT_TRUE(segments_.contains(segments[i].segment));
    EXPECT_LE(segments[i].segment_offset + segments[i].length,
              segments_[segments[i].segment].length);
  }
  EXPECT_EQ(at, request.addr + request.length);
  const bool is_new = request.replaces == UROCE_NONE;
  EXPECT_TRUE(is_new || regions_.contains(request.replaces));
  const uint32_t handle = is_new ? next_region_++ : request.replaces;
  regions_[handle] = {request, {segments, segments + request.segment_count}};
  reply = {.handle = handle, .lkey = handle << 8, .rkey = handle << 8 | 1};
  return 0;
}

template <typename Step>
void FakeDaemon::ForEachPart(const MemoryRegistration& registration, uint64_t address,
                             uint64_t length, Step step) {
  for (const uroce_mr_segment& part : region(registration).segments) {
    const uint64_t start = std::max(address, part.addr);
    const uint64_t end = std::min(address + length, part.addr + part.length);
    if (start >= end) continue;
    uint8_t* view = part.mode != UROCE_MR_COPIED
                        ? segments_.at(part.segment).view + part.segment_offset - part.addr + start
                        : nullptr;
    step(start - address, end - start, view, start);
  }
}

std::string FakeDaemon::Read(const MemoryRegistration& registration, const void* address,
                             uint64_t length) {
  std::string bytes(length, '\0');
  const auto step = [&](uint64_t at, uint64_t count, const uint8_t* view, uint64_t start) {
    if (view != nullptr) {
      std::copy_n(view, count, bytes.begin() + at);
    } else {
      EXPECT_EQ(pread(memory_fd_, &bytes[at], count, start), static_cast<ssize_t>(count));
    }
  };
  ForEachPart(registration, reinterpret_cast<uint64_t>(address), length, step);
  return bytes;
}

void FakeDaemon::Write(const MemoryRegistration& registration, void* address,
                       const std::string& bytes) {
  const auto step = [&](uint64_t at, uint64_t count, uint8_t* view, uint64_t start) {
    if (view != nullptr) {
      std::copy_n(bytes.begin() + at, count, view);
    } else {
      EXPECT_EQ(pwrite(memory_fd_, &bytes[at], count, start), static_cast<ssize_t>(count));
    }
  };
  ForEachPart(registration, reinterpret_cast<uint64_t>(address), bytes.size(), step);
}

std::string FakeDaemon::Shape(const MemoryRegistration& registration) const {
  std::string shape;
  for (const uroce_mr_segment& part : region(registration).segments) {
    if (!shape.empty()) shape += ' ';
    shape += " mcs"[part.mode] + std::to_string(part.length);
  }
  return shape;
}

uint64_t FakeDaemon::PagesInSegments() const {
  uint64_t count = 0;
  for (const auto& [handle, segment] : segments_) {
    std::vector<unsigned char> pages(segment.length / kPageBytes);
    EXPECT_EQ(mincore(segment.view, segment.length, pages.data()), 0);
    for (const unsigned char page : pages) count += page & 1;
  }
  return count;
}

SegmentFiles FindSegmentFiles() {
  SegmentFiles found;
  MappedArray<Vma> mappings;
  EXPECT_EQ(ReadMaps({0, UINT64_MAX}, mappings), 0);
  for (const Vma& vma : mappings) {
    if (vma.kind == VmaKind::kSegment) found.inodes.insert(vma.inode);
  }
  mappings.Release();
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    struct stat status;
    if (!target.starts_with("/memfd:" UROCE_SEGMENT_NAME)) continue;
    if (stat(entry.path().c_str(), &status) == 0) found.inodes.insert(status.st_ino);
    ++found.fds;
  }
  return found;
}

std::string PageKind(const void* address) {
  const auto addr = reinterpret_cast<uint64_t>(address);
  MappedArray<Vma> mappings;
  EXPECT_EQ(ReadMaps({addr, addr + 1}, mappings), 0);
  std::string kind = "none";
  if (!mappings.empty()) {
    kind = mappings[0].kind == VmaKind::kSegment ? "segment"
           : mappings[0].shared                  ? "shared"
                                                 : "private";
  }
  mappings.Release();
  return kind;
}

}  // namespace uroce::memory
