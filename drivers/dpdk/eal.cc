// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/eal.h"

#include <dlfcn.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "drivers/dpdk/driver_loading.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::drivers {
namespace {

/// Restores the caller's CPU affinity, since DPDK pins its caller to a core.
class AffinityKeeper {
 public:
  AffinityKeeper() { known_ = sched_getaffinity(0, sizeof set_, &set_) == 0; }
  ~AffinityKeeper() {
    if (known_) sched_setaffinity(0, sizeof set_, &set_);
  }
  AffinityKeeper(const AffinityKeeper&) = delete;
  AffinityKeeper& operator=(const AffinityKeeper&) = delete;
  /// A core that this process may run on.
  int AllowedCore() const {
    for (int core = 0; known_ && core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set_)) return core;
    }
    return 0;
  }

 private:
  cpu_set_t set_{};
  bool known_ = false;
};

uint64_t FreeHugepageMib() {
  uint64_t mib = 0;
  for (const uint64_t page_kib : {uint64_t{2048}, uint64_t{1048576}}) {
    std::ifstream file(
        absl::StrCat("/sys/kernel/mm/hugepages/hugepages-", page_kib, "kB/free_hugepages"));
    uint64_t pages = 0;
    if (file >> pages) mib += pages * page_kib / 1024;
  }
  return mib;
}

/// Silences a library's output, if the library is loaded.
void Quieten(const char* library, const char* setter) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return;
  using Print = int (*)(int level, const char* format, va_list arguments);
  using Setter = Print (*)(Print);
  if (const auto set = reinterpret_cast<Setter>(dlsym(handle, setter)); set != nullptr) {
    set(nullptr);
  }
  dlclose(handle);
}

std::vector<std::string> EalArguments(const EalConfig& config, int core, bool hugepages) {
  std::vector<std::string> arguments = {"uroced", absl::StrCat("--lcores=0@", core), "-m",
                                        absl::StrCat(config.memory_mib), "--no-telemetry",
                                        // Our own status reports what fails.
                                        "--log-level=*:critical",
                                        absl::StrCat("--file-prefix=uroce", getpid())};
  // DPDK 22.11 refuses --in-memory together with --no-huge; both leave no file behind.
  if (hugepages) {
    // net_virtio_user passes its memory to the peer as fds, and only a few at a time.
    arguments.insert(arguments.end(), {"--in-memory", "--single-file-segments"});
  } else {
    arguments.insert(arguments.end(), {"--no-huge", "--no-shconf"});
  }
  if (config.pci_devices.empty()) arguments.push_back("--no-pci");
  for (const std::string& device : config.pci_devices) {
    arguments.insert(arguments.end(), {"-a", device});
  }
  return arguments;
}

std::vector<std::string>& LeftOut() {
  static std::vector<std::string> names;
  return names;
}

bool StartDpdk(std::vector<char*>& argv) {
  const DriverLoading loading;
  const int result = rte_eal_init(static_cast<int>(argv.size()), argv.data());
  LeftOut() = loading.left_out();
  return result >= 0;
}

int PopulateRange(const rte_memseg_list*, const rte_memseg* first, size_t bytes, void*) {
  if (madvise(first->addr, bytes, MADV_POPULATE_WRITE) == 0) return 0;
  return errno == EINVAL ? 0 : -1;  // Linux 5.13 and before do not know the advice.
}

}  // namespace

absl::Status PopulateDpdkMemory() {
  if (rte_memseg_contig_walk(PopulateRange, nullptr) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "dpdk: the kernel has no memory for its pages (vm.overcommit_memory is 2)");
}

absl::Status InitEal(const EalConfig& config) {
  if (access("/sys/devices/system/cpu", F_OK) != 0) {
    return absl::FailedPreconditionError("dpdk: /sys is not mounted, where it finds processors");
  }
  const AffinityKeeper affinity;
  std::vector<std::string> arguments =
      EalArguments(config, affinity.AllowedCore(), EnoughHugepages(config));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  if (StartDpdk(argv)) {
    // DPDK makes this directory, though it was told to write no files.
    rmdir(rte_eal_get_runtime_dir());
    // The libraries behind net_af_xdp write to stderr; our own status reports what fails.
    Quieten("libbpf.so.1", "libbpf_set_print");
    Quieten("libxdp.so.1", "libxdp_set_print");
    return IsOvercommitStrict() ? PopulateDpdkMemory() : absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("dpdk: start with ", config.memory_mib,
                                          " MiB failed: ", rte_strerror(rte_errno)));
}

const std::vector<std::string>& DriversLeftOut() { return LeftOut(); }

bool EnoughHugepages(const EalConfig& config) {
  return config.allow_hugepages && FreeHugepageMib() >= config.memory_mib;
}

uint32_t RequiredFrameBytes(uint32_t mtu_bytes) {
  constexpr uint32_t kEthernetBytes = 14 + 2 * 4;  // With two VLAN tags.
  constexpr uint32_t kVirtioHeaderBytes = 12;      // Before the frame, in the same mbuf.
  return std::max(kRoceFrameBytes, mtu_bytes + kEthernetBytes + kVirtioHeaderBytes);
}

absl::StatusOr<rte_mempool*> MakePool(const std::string& name, uint32_t frame_bytes, uint32_t count,
                                      int numa_node) {
  constexpr unsigned kCacheFrames = 256;
  const uint32_t room = frame_bytes + RTE_PKTMBUF_HEADROOM;
  if (room > UINT16_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("pool ", name, ": frames of ", frame_bytes,
                                                   " bytes, at most ",
                                                   UINT16_MAX - RTE_PKTMBUF_HEADROOM));
  }
  const unsigned cache = count >= 4 * kCacheFrames ? kCacheFrames : 0;
  for (const int node : {numa_node, SOCKET_ID_ANY}) {
    rte_mempool* const pool =
        rte_pktmbuf_pool_create(name.c_str(), count, cache, 0, static_cast<uint16_t>(room), node);
    if (pool != nullptr) return pool;
  }
  return absl::ResourceExhaustedError(absl::StrCat("pool ", name, ": no memory for ", count,
                                                   " frames of ", frame_bytes,
                                                   " bytes: ", rte_strerror(rte_errno)));
}

uint64_t PoolBytes(uint32_t frame_bytes, uint32_t count) {
  // Besides the data: the mbuf itself, the mempool's object header, and padding that spreads
  // objects
  // over memory channels.
  constexpr uint64_t kOverheadBytes = 256;
  return (uint64_t{frame_bytes} + RTE_PKTMBUF_HEADROOM + sizeof(rte_mbuf) + kOverheadBytes) * count;
}

namespace {

namespace fs = std::filesystem;

constexpr uint32_t kNetworkClass = 0x02;
constexpr uint32_t kVirtioVendor = 0x1af4;
constexpr char kVfio[] = "vfio-pci";

std::string LinkName(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error).filename().string();
}

std::string FirstEntry(const fs::path& directory) {
  std::error_code error;
  const fs::directory_iterator entries(directory, error);
  return entries == fs::directory_iterator() ? "" : entries->path().filename().string();
}

uint32_t ReadHex(const fs::path& path) {
  std::ifstream file(path);
  std::string text;
  uint32_t value = 0;
  return file >> text && absl::SimpleHexAtoi(text, &value) ? value : 0;
}

std::string HowToBind(const std::string& address) {
  return absl::StrCat("modprobe vfio-pci && driverctl set-override ", address, " vfio-pci");
}

bool IsUio(const PciDevice& device) {
  return device.kernel_driver == "uio_pci_generic" || device.kernel_driver == "igb_uio";
}

}  // namespace

PciDevice ReadPciDevice(const std::string& address, const std::string& sysfs) {
  const fs::path place = fs::path(sysfs) / "bus/pci/devices" / address;
  std::error_code error;
  PciDevice device;
  device.exists = fs::exists(place, error);
  device.vendor = ReadHex(place / "vendor");
  device.class_code = ReadHex(place / "class");
  device.kernel_driver = LinkName(place / "driver");
  device.interface = FirstEntry(place / "net");
  device.iommu_group = LinkName(place / "iommu_group");
  return device;
}

bool IsBifurcated(const PciDevice& device) {
  static constexpr std::array kDrivers = {"mlx4_core", "mlx5_core"};
  return std::ranges::find(kDrivers, device.kernel_driver) != kDrivers.end();
}

// UIO passes on at most one interrupt of the device. QEMU's virtio-net, driven by DPDK 22.11
// through vfio-pci, did not wake a sleeping worker (tests/interop/pci-guest).
bool HasQueueInterrupts(const PciDevice& device) {
  return !IsUio(device) && device.vendor != kVirtioVendor;
}

absl::Status CheckPciDevice(const std::string& address, const PciDevice& device, bool hugepages) {
  const auto bad = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("dev \"", address, "\": ", why));
  };
  if (!device.exists) return bad("there is no such PCI device; lspci -D lists them");
  if (device.class_code >> 16 != kNetworkClass) return bad("is no network adapter");
  if (IsBifurcated(device)) return absl::OkStatus();
  if (device.kernel_driver.empty()) {
    return bad(absl::StrCat("no driver is bound to it; ", HowToBind(address)));
  }
  if (device.kernel_driver != kVfio && !IsUio(device)) {
    const std::string interface =
        device.interface.empty() ? "" : absl::StrCat(", as ", device.interface);
    return bad(absl::StrCat("the kernel uses it by its driver ", device.kernel_driver, interface,
                            "; take it away: ", HowToBind(address)));
  }
  if (device.kernel_driver == kVfio && device.iommu_group.empty()) {
    return bad(
        "vfio-pci needs an IOMMU: enable it in the firmware, and boot with intel_iommu=on or "
        "amd_iommu=on");
  }
  if (!hugepages) {
    return bad(
        "needs hugepages, and not enough are free; "
        "echo 256 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
  }
  return absl::OkStatus();
}

}  // namespace uroce::drivers
