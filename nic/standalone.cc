// SPDX-License-Identifier: Apache-2.0
// What the programs of tools/dist have in place of shared libraries: the code of libraries that
// Debian has as headers and shared libraries alone, functions of glibc that older releases lack,
// and answers for libraries that these programs do without, which are libsystemd and D-Bus.
#define TOML_IMPLEMENTATION
#include <dlfcn.h>
#include <fmt/format-inl.h>
#include <link.h>
#include <pcap/pcap.h>
#include <spdlog/async.h>
#include <spdlog/async_logger-inl.h>
#include <spdlog/common-inl.h>
#include <spdlog/details/backtracer-inl.h>
#include <spdlog/details/log_msg-inl.h>
#include <spdlog/details/log_msg_buffer-inl.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/os-inl.h>
#include <spdlog/details/periodic_worker-inl.h>
#include <spdlog/details/registry-inl.h>
#include <spdlog/details/thread_pool-inl.h>
#include <spdlog/logger-inl.h>
#include <spdlog/pattern_formatter-inl.h>
#include <spdlog/sinks/ansicolor_sink-inl.h>
#include <spdlog/sinks/base_sink-inl.h>
#include <spdlog/sinks/sink-inl.h>
#include <spdlog/sinks/stdout_color_sinks-inl.h>
#include <spdlog/sinks/stdout_sinks-inl.h>
#include <spdlog/spdlog-inl.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "pipeline/os/fd.h"

// ---- spdlog and fmt: the instances of templates that their shared libraries have ----

namespace spdlog::sinks {
template class SPDLOG_API base_sink<std::mutex>;
template class SPDLOG_API base_sink<details::null_mutex>;
template class SPDLOG_API stdout_sink_base<details::console_mutex>;
template class SPDLOG_API stdout_sink_base<details::console_nullmutex>;
template class SPDLOG_API stdout_sink<details::console_mutex>;
template class SPDLOG_API stdout_sink<details::console_nullmutex>;
template class SPDLOG_API stderr_sink<details::console_mutex>;
template class SPDLOG_API stderr_sink<details::console_nullmutex>;
template class SPDLOG_API ansicolor_sink<details::console_mutex>;
template class SPDLOG_API ansicolor_sink<details::console_nullmutex>;
template class SPDLOG_API ansicolor_stdout_sink<details::console_mutex>;
template class SPDLOG_API ansicolor_stdout_sink<details::console_nullmutex>;
}  // namespace spdlog::sinks

template SPDLOG_API std::shared_ptr<spdlog::logger>
spdlog::stderr_logger_mt<spdlog::synchronous_factory>(const std::string& name);
template SPDLOG_API spdlog::logger::logger(std::string name, sinks_init_list::iterator begin,
                                           sinks_init_list::iterator end);

FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto dragonbox::to_decimal(float value) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double value) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API locale_ref::locale_ref(const std::locale& locale);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char* begin, const char* end);
template FMT_API void vformat_to(buffer<char>&, string_view,
                                 basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE

// ---- glibc: functions of 2.35 and 2.36 ----

namespace {

/// What `_dl_find_object` looks for.
struct FoundObject {
  ElfW(Addr) address;
  dl_find_object* result;
};

int LookForObject(dl_phdr_info* info, size_t /*size*/, void* looked_for) {
  const auto& found = *static_cast<FoundObject*>(looked_for);
  bool is_here = false;
  void* frames = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const ElfW(Addr) begin = info->dlpi_addr + part.p_vaddr;
    const bool has_address = begin <= found.address && found.address - begin < part.p_memsz;
    is_here = is_here || (part.p_type == PT_LOAD && has_address);
    if (part.p_type == PT_GNU_EH_FRAME) frames = reinterpret_cast<void*>(begin);
  }
  if (!is_here || frames == nullptr) return 0;
  found.result->dlfo_eh_frame = frames;
  return 1;
}

}  // namespace

// libgcc's unwinder calls it, and reads dlfo_eh_frame alone.
extern "C" int _dl_find_object(void* address, dl_find_object* result) noexcept {
  *result = {};
  FoundObject found{reinterpret_cast<ElfW(Addr)>(address), result};
  return dl_iterate_phdr(LookForObject, &found) == 1 ? 0 : -1;
}

// std::random_device calls it.
extern "C" uint32_t arc4random() noexcept {
  uint32_t random = 0;
  while (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
  }
  return random;
}

extern "C" int epoll_pwait2(int epoll, epoll_event* events, int room, const timespec* timeout,
                            const sigset_t* mask) {
  return static_cast<int>(
      syscall(SYS_epoll_pwait2, epoll, events, room, timeout, mask, _NSIG / CHAR_BIT));
}

// ---- libsystemd: the service manager's protocol, as sd_notify(3) describes it ----

extern "C" int sd_notify(int /*unset_environment*/, const char* state) {
  const char* path = secure_getenv("NOTIFY_SOCKET");
  if (path == nullptr) return 0;
  sockaddr_un address{};
  const size_t length = strlen(path);
  if (length < 2 || length >= sizeof(address.sun_path)) return -EINVAL;
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // An abstract name.
  const uroce::Fd socket_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const ssize_t sent = sendto(socket_fd.get(), state, strlen(state), MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address),
                              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  return sent < 0 ? -errno : 1;
}

extern "C" int sd_watchdog_enabled(int /*unset_environment*/, uint64_t* usec) {
  const char* interval = secure_getenv("WATCHDOG_USEC");
  const char* pid = secure_getenv("WATCHDOG_PID");
  int32_t watched = getpid();
  if (interval == nullptr || (pid != nullptr && !absl::SimpleAtoi(pid, &watched))) return 0;
  return watched == getpid() && absl::SimpleAtoi(interval, usec) && *usec > 0 ? 1 : 0;
}

// ---- D-Bus: libpcap finds no bus to capture on ----

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): names of libpcap.
int dbus_findalldevs(void* /*list*/, char* /*error*/) { return 0; }
pcap_t* dbus_create(const char* /*device*/, char* /*error*/, int* is_ours) {
  *is_ours = 0;
  return nullptr;
}
// NOLINTEND(readability-identifier-naming)
}
