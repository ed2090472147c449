// SPDX-License-Identifier: Apache-2.0
#include "nic/control/memory_dump.h"

#include <infiniband/verbs.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "nic/control/session.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

std::string Hex(uint64_t value) { return absl::StrCat("0x", absl::Hex(value)); }

const char* ModeOf(const datapath::MrSegment& segment) {
  if (segment.mode == datapath::MrMode::kCopied) return "copied";
  if (segment.mode == datapath::MrMode::kNull) return "null";
  return segment.is_own_file ? "shared" : "mapped";
}

std::string ModeOf(const datapath::MemoryRegion& region) {
  std::set<std::string> modes;
  for (const datapath::MrSegment& segment : region.segments) modes.insert(ModeOf(segment));
  return modes.size() == 1 ? *modes.begin() : "mixed";
}

std::string RemoteAccessText(uint32_t access) {
  std::string text;
  if (access & IBV_ACCESS_REMOTE_READ) text += " remote-read";
  if (access & IBV_ACCESS_REMOTE_WRITE) text += " remote-write";
  if (access & IBV_ACCESS_REMOTE_ATOMIC) text += " remote-atomic";
  return text;
}

std::string AccessText(uint32_t access) {
  return (access & IBV_ACCESS_LOCAL_WRITE ? "rw" : "r") + RemoteAccessText(access);
}

Json SegmentJson(const datapath::MrSegment& segment) {
  Json json;
  json["address"] = Hex(segment.app_addr);
  json["length"] = segment.length_bytes;
  json["mode"] = ModeOf(segment);
  const bool is_copied = segment.mode == datapath::MrMode::kCopied;
  json["reason"] = is_copied ? ReasonText(segment.reason) : "";
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

Json WindowJson(const Session& session, const WindowObject& object) {
  const datapath::MemoryWindow& window = object.window;
  const datapath::WindowBinding binding = window.Read().value_or(datapath::WindowBinding{});
  const bool is_bound = binding.region_key != 0;
  Json json;
  json["device"] = object.pd->context->device->name();
  json["pid"] = session.peer().pid;
  json["program"] = session.command_name();
  json["key"] = Hex(window.key());
  json["iova"] = is_bound ? Hex(binding.addr) : "";
  json["length"] = binding.length_bytes;
  json["access"] = std::string(absl::StripLeadingAsciiWhitespace(RemoteAccessText(binding.access)));
  json["mode"] = window.type() == datapath::MemoryWindow::Type::kType1 ? "window 1" : "window 2";
  json["region"] = is_bound ? Hex(binding.region_key) : "";
  json["qp"] = binding.qpn != 0 ? Hex(binding.qpn) : "";
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
    session->program()->memory_windows().ForEach([&](uint32_t, const WindowObject& window) {
      list.push_back(WindowJson(*session, window));
    });
  }
  return {{"mrs", list}};
}

}  // namespace uroce::nic
