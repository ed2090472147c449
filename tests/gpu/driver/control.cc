// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/driver/control.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

namespace uroce::test_gpu {
namespace {

constexpr size_t kFileBytes = 4096;

struct Name {
  std::string_view name;
  uint32_t Control::*word;
};

constexpr Name kNames[] = {
    {"delay_us", &Control::delay_us},       {"seed", &Control::seed},
    {"fail_from", &Control::fail_from},     {"fail_count", &Control::fail_count},
    {"fail_result", &Control::fail_result}, {"fail_late", &Control::fail_late},
    {"hang_copy", &Control::hang_copy},     {"hang_synchronize", &Control::hang_synchronize},
    {"hang_call", &Control::hang_call},     {"plain", &Control::plain},
    {"busy_ns", &Control::busy_ns},         {"bytes_per_us", &Control::bytes_per_us},
    {"latency_ns", &Control::latency_ns}};

void Set(Control& control, std::string_view setting) {
  const size_t equals = setting.find('=');
  for (const Name& its : kNames) {
    if (equals == std::string_view::npos || its.name != setting.substr(0, equals)) continue;
    control.*its.word =
        static_cast<uint32_t>(std::strtoul(std::string(setting.substr(equals + 1)).c_str(), {}, 0));
    return;
  }
  std::fprintf(stderr, "UROCE_TEST_GPU: no word \"%.*s\"\n", static_cast<int>(setting.size()),
               setting.data());
  std::abort();
}

Control* Map() {
  const char* const path = std::getenv("UROCE_TEST_GPU_CONTROL");
  const int fd = path != nullptr ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (path != nullptr && (fd < 0 || ftruncate(fd, kFileBytes) != 0)) {
    std::perror(path);
    std::abort();
  }
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) std::abort();
  if (fd >= 0) close(fd);
  return static_cast<Control*>(memory);
}

Control& Make() {
  Control& control = *Map();
  const char* const text = std::getenv("UROCE_TEST_GPU");
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    Set(control, rest.substr(0, comma));
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return control;
}

}  // namespace

Control& TheControl() {
  static Control& control = Make();
  return control;
}

uint32_t Read(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

uint32_t Add(uint32_t& word, uint32_t amount) {
  return __atomic_add_fetch(&word, amount, __ATOMIC_ACQ_REL);
}

}  // namespace uroce::test_gpu
