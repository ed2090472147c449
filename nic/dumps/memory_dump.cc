// SPDX-License-Identifier: Apache-2.0
// Dumps registered memory as JSON.
#include <infiniband/verbs.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "nic/dumps/object_dumps.h"
#include "nic/dumps/tables_source.h"
#include "nic/objects/client.h"
#include "nic/objects/program.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

std::string Hex(uint64_t value) { return absl::StrCat("0x", absl::Hex(value)); }

const char* ModeOf(const datapath::MrSegment& segment) {
  if (segment.mode == datapath::MrMode::kCopied) return "copied";
  if (segment.mode == datapath::MrMode::kNull) return "null";
  return segment.is_own_file ? "shared" : "mapped";
}

const char* ModeOf(const datapath::MemoryRegion& region) {
  const char* mode = nullptr;
  for (const datapath::MrSegment& segment : region.segments) {
    const char* const its = ModeOf(segment);
    if (mode != nullptr && mode != its) return "mixed";
    mode = its;
  }
  return mode != nullptr ? mode : "mixed";
}

/// The text for a segment's code of enum uroce_mr_reason; "" for none.
const char* ReasonText(const datapath::MrSegment& segment) {
  switch (segment.reason) {
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
      // A handler of SIGSEGV stands in for it, if no thread blocks the signal.
      return segment.mode == datapath::MrMode::kCopied ? "no userfaultfd, SIGSEGV blocked"
                                                       : "no userfaultfd";
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
    case UROCE_WHY_PINNED:
      return "pinned pages";
  }
  return "unknown";
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

// A region may have thousands of segments: text takes a tenth of the time of JSON values.
void AppendSegments(const datapath::MemoryRegion& region, std::string& text) {
  text += '[';
  for (const datapath::MrSegment& segment : region.segments) {
    absl::StrAppend(&text, &segment == &region.segments.front() ? "" : ",", R"({"address":"0x)",
                    absl::Hex(segment.app_addr), R"(","length":)", segment.length_bytes,
                    R"(,"mode":")", ModeOf(segment), R"(","reason":")", ReasonText(segment),
                    R"("})");
  }
  text += ']';
}

Json MemoryJson(const Client& client, const MemoryObject& memory) {
  const datapath::MemoryRegion& region = memory.region;
  Json json;
  json["device"] = memory.pd->context->device->name();
  json["pid"] = client.peer().pid;
  json["session"] = client.id();
  json["program"] = client.command_name();
  json["key"] = Hex(region.key);
  json["address"] = Hex(memory.addr);
  json["iova"] = Hex(region.iova);
  json["length"] = region.length_bytes;
  json["pd"] = memory.pd->number();
  json["access"] = AccessText(region.access);
  json["mode"] = ModeOf(region);
  return json;
}

void AppendMemory(const Client& client, const MemoryObject& memory, std::string& text) {
  text += JsonText(MemoryJson(client, memory));
  text.pop_back();  // The closing brace.
  text += R"(,"segments":)";
  AppendSegments(memory.region, text);
  text += '}';
}

Json WindowJson(const Client& client, const WindowObject& object) {
  const datapath::MemoryWindow& window = object.window;
  const datapath::WindowBinding binding = window.Read().value_or(datapath::WindowBinding{});
  const bool is_bound = binding.region_key != 0;
  Json json;
  json["device"] = object.pd->context->device->name();
  json["pid"] = client.peer().pid;
  json["session"] = client.id();
  json["program"] = client.command_name();
  json["key"] = Hex(window.key());
  json["iova"] = is_bound ? Hex(binding.addr) : "";
  json["length"] = binding.length_bytes;
  json["pd"] = object.pd->number();
  json["access"] = std::string(absl::StripLeadingAsciiWhitespace(RemoteAccessText(binding.access)));
  json["mode"] = window.type() == datapath::MemoryWindow::Type::kType1 ? "window 1" : "window 2";
  json["region"] = is_bound ? Hex(binding.region_key) : "";
  json["qp"] = binding.qpn != 0 ? Hex(binding.qpn) : "";
  return json;
}

/// Dumps regions, then windows.
class MemorySource : public TablesSource {
 public:
  MemorySource(const DumpContext& context, const Client& asker)
      : TablesSource("mrs", context, asker, /*tables=*/2) {}

 private:
  uint32_t AddNext(const Client& client, uint32_t table, uint32_t handle,
                   std::string& text) override {
    Program& program = *client.program();
    if (table == 1) {
      return program.windows().table().ForSome(handle, 1, [&](uint32_t, const WindowObject& its) {
        AddItem(text, WindowJson(client, its));
      });
    }
    return program.regions().table().ForSome(handle, 1, [&](uint32_t, const MemoryObject& its) {
      BeginItem(text);
      AppendMemory(client, its, text);
    });
  }
};

}  // namespace

std::unique_ptr<DumpSource> MakeMemoryDump(const DumpContext& context, const Client& asker) {
  return std::make_unique<MemorySource>(context, asker);
}

}  // namespace uroce::nic
