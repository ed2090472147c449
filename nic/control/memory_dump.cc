// SPDX-License-Identifier: Apache-2.0
#include "nic/control/memory_dump.h"

#include <infiniband/verbs.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "nic/control/session.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

std::string Hex(uint64_t value) { return absl::StrCat("0x", absl::Hex(value)); }

const char* ModeOf(const datapath::MrSegment& segment) {
  if (segment.mode == datapath::MrMode::kCopied) return "copied";
  return segment.is_own_file ? "shared" : "mapped";
}

std::string ModeOf(const datapath::MemoryRegion& region) {
  std::set<std::string> modes;
  for (const datapath::MrSegment& segment : region.segments) modes.insert(ModeOf(segment));
  return modes.size() == 1 ? *modes.begin() : "mixed";
}

std::string AccessText(uint32_t access) {
  std::string text = "r";
  if (access & IBV_ACCESS_LOCAL_WRITE) text += "w";
  if (access & IBV_ACCESS_REMOTE_READ) text += " remote-read";
  if (access & IBV_ACCESS_REMOTE_WRITE) text += " remote-write";
  if (access & IBV_ACCESS_REMOTE_ATOMIC) text += " remote-atomic";
  return text;
}

Json SegmentJson(const datapath::MrSegment& segment) {
  Json json;
  json["address"] = Hex(segment.app_addr);
  json["length"] = segment.length_bytes;
  json["mode"] = ModeOf(segment);
  json["reason"] = ReasonText(segment.reason);
  return json;
}

Json MemoryJson(const Session& session, const MemoryObject& memory) {
  const datapath::MemoryRegion& region = memory.region;
  Json json;
  json["device"] = memory.pd->context->device->name();
  json["pid"] = session.peer().pid;
  json["program"] = session.command_name();
  json["key"] = Hex(region.key);
  json["address"] = Hex(memory.addr);
  json["iova"] = Hex(region.iova);
  json["length"] = region.length_bytes;
  json["access"] = AccessText(region.access);
  json["mode"] = ModeOf(region);
  json["segments"] = Json::array();
  for (const datapath::MrSegment& segment : region.segments) {
    json["segments"].push_back(SegmentJson(segment));
  }
  return json;
}

}  // namespace

const char* ReasonText(uint32_t reason) {
  switch (reason) {
    case UROCE_WHY_NONE:
      return "";
    case UROCE_WHY_STACK:
      return "stack";
    case UROCE_WHY_HEAP_PAGE:
      return "heap page";
    case UROCE_WHY_PARTIAL_PAGE:
      return "partial page";
    case UROCE_WHY_FILE_MAPPING:
      return "file mapping";
    case UROCE_WHY_READ_ONLY:
      return "read-only";
    case UROCE_WHY_FILE_SYSTEM:
      return "file system";
    case UROCE_WHY_NOT_REACHABLE:
      return "file not reachable";
    case UROCE_WHY_NO_USERFAULTFD:
      return "no userfaultfd";
    case UROCE_WHY_REFUSED:
      return "refused by the kernel";
    case UROCE_WHY_MANY_MAPPINGS:
      return "max_map_count";
    case UROCE_WHY_DAEMON_LIMIT:
      return "daemon's limit";
    case UROCE_WHY_MANY_PARTS:
      return "too many parts";
    case UROCE_WHY_UNKNOWN_THREADS:
      return "unknown threads";
    case UROCE_WHY_ON_DEMAND:
      return "registered with on-demand paging";
    case UROCE_WHY_POLICY:
      return "policy";
  }
  return "unknown";
}

Json MemoryRegionsJson(const std::vector<const Session*>& sessions) {
  Json list = Json::array();
  for (const Session* session : sessions) {
    if (session->program() == nullptr) continue;
    session->program()->memory_regions().ForEach([&](uint32_t, const MemoryObject& memory) {
      list.push_back(MemoryJson(*session, memory));
    });
  }
  return {{"mrs", list}};
}

}  // namespace uroce::nic
