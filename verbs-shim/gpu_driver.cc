// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/gpu_driver.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "verbs-shim/dma_buf.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/support.h"

namespace uroce::gpu {

// ---- The functions ----

namespace {

// Numbers of CUpointer_attribute; hipPointer_attribute has the same.
constexpr int kContext = 1;
constexpr int kMemoryType = 2;
constexpr int kBufferId = 7;
constexpr int kIsManaged = 8;
constexpr int kDeviceOrdinal = 9;

constexpr unsigned kMemoryTypeDevice = 2;  // CUmemorytype; hipMemoryType from HIP 6 on.
constexpr unsigned kStreamNonBlocking = 1;

constexpr size_t kFunctions = sizeof(Driver) / sizeof(void (*)());

// The names of the functions, in the order of Driver; null: it has none.
constexpr const char* kCudaNames[kFunctions] = {
    "cuPointerGetAttribute", "cuDeviceGet",          "cuDevicePrimaryCtxRetain",
    "cuCtxPushCurrent_v2",   "cuCtxPopCurrent_v2",   "cuStreamCreate",
    "cuStreamSynchronize",   "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
    "cuMemHostRegister_v2",  "cuMemHostUnregister"};
constexpr const char* kHipNames[kFunctions] = {
    "hipPointerGetAttribute", "hipDeviceGet",       "hipDevicePrimaryCtxRetain",
    "hipCtxPushCurrent",      "hipCtxPopCurrent",   "hipStreamCreateWithFlags",
    "hipStreamSynchronize",   "hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync",
    "hipHostRegister",        "hipHostUnregister",  "hipPeekAtLastError",
    "hipGetLastError"};

struct Library {
  const char* name;
  const char* const* functions;
  const char* version_function;  // Null: all versions have the same numbers.
};
constexpr int kLeastVersion = 60'000'000;  // HIP 6.0.
constexpr Library kLibraries[] = {
    {"libcuda.so", kCudaNames, nullptr},
    {"libamdhip64.so", kHipNames, "hipRuntimeGetVersion"}};  // PyTorch's has no number behind it.

const Driver* g_found = nullptr;
uint64_t g_seen = 0;  // How many libraries had been loaded when none was a driver.

/// A look through the loaded libraries.
struct Look {
  const Library* library = nullptr;
  char path[4096];
  uint64_t loaded = 0;
};

/// Whether the file at `path` has this name, with any version behind it.
bool Names(const char* path, const char* name) {
  const char* const slash = strrchr(path, '/');
  return strncmp(slash != nullptr ? slash + 1 : path, name, strlen(name)) == 0;
}

int LookAt(dl_phdr_info* info, size_t, void* argument) {
  Look& look = *static_cast<Look*>(argument);
  look.loaded = info->dlpi_adds;
  if (look.loaded == __atomic_load_n(&g_seen, __ATOMIC_RELAXED)) return 1;
  for (const Library& library : kLibraries) {
    if (!Names(info->dlpi_name, library.name)) continue;
    const size_t bytes = strlen(info->dlpi_name) + 1;
    if (bytes > sizeof(look.path)) continue;
    memcpy(look.path, info->dlpi_name, bytes);
    look.library = &library;
    return 1;
  }
  return 0;
}

bool HasNumbers(const Library& library, void* handle) {
  if (library.version_function == nullptr) return true;
  int (*get_version)(int*) = nullptr;
  void* const found = dlsym(handle, library.version_function);
  __builtin_memcpy(&get_version, &found, sizeof(found));
  int version = 0;
  if (get_version != nullptr) get_version(&version);
  if (version >= kLeastVersion) return true;
  shim::Log("%s has version %d, which is too old: memory of its devices cannot be registered",
            library.name, version);
  return false;
}

/// Fills in `driver`. The library stays loaded: its handle is kept.
bool Load(const Library& library, const char* path, Driver& driver) {
  void* const handle = shim::next_dlopen.Get()(path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  if (!HasNumbers(library, handle)) {
    dlclose(handle);
    return false;
  }
  void* found[kFunctions];
  for (size_t i = 0; i < kFunctions; ++i) {
    const bool is_missing = library.functions[i] == nullptr;
    found[i] = is_missing ? nullptr : dlsym(handle, library.functions[i]);
    if (found[i] == nullptr && !is_missing) {
      shim::Log("%s has no %s: memory of its devices cannot be registered", library.name,
                library.functions[i]);
      dlclose(handle);
      return false;
    }
  }
  static_assert(sizeof(found) == sizeof(driver));
  __builtin_memcpy(&driver, found, sizeof(driver));
  return true;
}

}  // namespace

const Driver* FoundDriver() { return __atomic_load_n(&g_found, __ATOMIC_ACQUIRE); }

const Driver* FindDriver() {
  if (const Driver* const found = FoundDriver()) return found;
  const shim::ErrnoKeeper keeper;
  Look look;
  dl_iterate_phdr(LookAt, &look);
  auto* const driver = look.library != nullptr ? shim::Make<Driver>() : nullptr;
  if (driver == nullptr || !Load(*look.library, look.path, *driver)) {
    if (driver != nullptr) shim::Free(driver);
    __atomic_store_n(&g_seen, look.loaded, __ATOMIC_RELAXED);
    return nullptr;
  }
  const Driver* found = nullptr;
  if (__atomic_compare_exchange_n(&g_found, &found, driver, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    return driver;
  }
  shim::Free(driver);
  return found;
}

// ---- Streams ----

namespace {

using memory::kPageBytes;

constexpr size_t kMostStreams = 32;  // One for each context that programs use with the NIC.
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;

struct Stream {
  void* context = nullptr;
  void* stream = nullptr;
  void* witness = nullptr;  // A page.
  uint64_t witness_id = 0;
};

Stream g_streams[kMostStreams];
pthread_mutex_t g_streams_mutex = PTHREAD_MUTEX_INITIALIZER;

bool IsAlive(const Driver& driver, const Stream& its) {
  uint64_t id = 0;
  const auto page = reinterpret_cast<uint64_t>(its.witness);
  return its.context != nullptr && driver.pointer_attribute(&id, kBufferId, page) == kSuccess &&
         id == its.witness_id;
}

/// Makes a stream and its witness in the current context. Returns the driver's result.
int MakeStream(const Driver& driver, void* context, Stream& made) {
  void* const page =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return kOutOfMemory;
  Stream stream{.context = context, .witness = page};
  int result = driver.register_host(page, kPageBytes, 0);
  if (result == kSuccess) {
    result =
        driver.pointer_attribute(&stream.witness_id, kBufferId, reinterpret_cast<uint64_t>(page));
    if (result == kSuccess) result = driver.create_stream(&stream.stream, kStreamNonBlocking);
    if (result == kSuccess) {
      made = stream;
      return result;
    }
    driver.unregister_host(page);
  }
  munmap(page, kPageBytes);
  return result;
}

/// The place of the context's stream; else one that is free, or whose stream is gone; else null.
Stream* PlaceOf(const Driver& driver, const void* context) {
  for (Stream& its : g_streams) {
    if (its.context == context) return &its;
  }
  for (Stream& its : g_streams) {
    if (!IsAlive(driver, its)) return &its;
  }
  return nullptr;
}

/// Finds or makes the stream of `context`, which is the current one. The driver frees a stream and
/// a registration with their context, so the page of a lost one is unmapped alone.
int StreamOf(const Driver& driver, void* context, void** stream) {
  const shim::MutexLock lock(g_streams_mutex);
  Stream* const place = PlaceOf(driver, context);
  if (place == nullptr) return kOutOfMemory;
  if (place->context != context || !IsAlive(driver, *place)) {
    if (place->witness != nullptr) munmap(place->witness, kPageBytes);
    *place = {};
    const int result = MakeStream(driver, context, *place);
    if (result != kSuccess) return result;
  }
  *stream = place->stream;
  return kSuccess;
}

// ---- Addresses ----

bool IsDeviceMemory(const Driver& driver, uint64_t address) {
  unsigned type = 0;
  int is_managed = 0;
  if (driver.pointer_attribute(&type, kMemoryType, address) != kSuccess) return false;
  if (driver.pointer_attribute(&is_managed, kIsManaged, address) != kSuccess) is_managed = 0;
  return type == kMemoryTypeDevice && (is_managed & 1) == 0;
}

/// Who has allocated the memory at `address`. The driver names no context for memory of pools and
/// of virtual mappings: it is reached by the primary context of its device.
int FindOwner(const Driver& driver, uint64_t address, Owner& owner) {
  owner = {};
  const int result = driver.pointer_attribute(&owner.context, kContext, address);
  if (result == kDeinitialized) return result;
  return driver.pointer_attribute(&owner.ordinal, kDeviceOrdinal, address);
}

constexpr int kMostDevices = 64;
void* g_primary[kMostDevices];  // The primary contexts that are retained, by ordinals of devices.

/// `renews`: the primary context has been reset, so that it must be retained again.
int PrimaryContext(const Driver& driver, int ordinal, bool renews, void** context) {
  constexpr int kInvalidDevice = 101;
  if (ordinal < 0 || ordinal >= kMostDevices) return kInvalidDevice;
  const shim::MutexLock lock(g_streams_mutex);
  void*& retained = g_primary[ordinal];
  int result = kSuccess;
  if (retained == nullptr || renews) {
    int device = 0;
    retained = nullptr;
    result = driver.device(&device, ordinal);
    if (result == kSuccess) result = driver.retain_primary(&retained, device);
  }
  *context = retained;
  return result;
}

/// Makes a context of `owner` current, and finds its stream. After an error none is current.
int Enter(const Driver& driver, const Owner& owner, void** stream) {
  void* context = owner.context;
  int result = context != nullptr ? driver.push_context(context) : kInvalidValue;
  for (int tries = 0; context == nullptr && result != kSuccess && tries < 2; ++tries) {
    void* primary = nullptr;
    result = PrimaryContext(driver, owner.ordinal, /*renews=*/tries != 0, &primary);
    if (result == kSuccess) result = driver.push_context(primary);
    if (result == kSuccess) context = primary;
  }
  if (result != kSuccess) return result;
  result = StreamOf(driver, context, stream);
  if (result != kSuccess) driver.pop_context(&context);
  return result;
}

/// Makes the stream for `address` while the program registers it: no kernel of the program waits
/// for the NIC yet, as one may later, when the driver makes no stream.
void Prepare(const Driver& driver, uint64_t address) {
  Owner owner;
  void* stream = nullptr;
  int result = FindOwner(driver, address, owner);
  if (result == kSuccess) result = Enter(driver, owner, &stream);
  if (result != kSuccess) return shim::Log("the GPU's driver makes no stream: error %d", result);
  driver.pop_context(&owner.context);
}

/// Calls that fail meanwhile leave the thread no error, as long as it had none.
class LastErrorKeeper {
 public:
  explicit LastErrorKeeper(const Driver& driver)
      : driver_(driver), clears_(driver.last_error != nullptr && driver.last_error() == kSuccess) {}
  ~LastErrorKeeper() {
    if (clears_) driver_.take_last_error();
  }
  LastErrorKeeper(const LastErrorKeeper&) = delete;
  LastErrorKeeper& operator=(const LastErrorKeeper&) = delete;

 private:
  const Driver& driver_;
  const bool clears_;
};

}  // namespace

void PinHost(uint64_t address, void* memory, uint64_t length_bytes) {
  constexpr unsigned kPortable = 1;  // For all contexts.
  if (FoundDriver() == nullptr) return;
  const Driver& driver = *FoundDriver();
  Owner owner;
  void* stream = nullptr;
  if (FindOwner(driver, address, owner) != kSuccess) return;
  if (Enter(driver, owner, &stream) != kSuccess) return;
  const int result = driver.register_host(memory, length_bytes, kPortable);
  if (result != kSuccess) shim::Log("the GPU's driver does not pin the stage: error %d", result);
  driver.pop_context(&owner.context);
}

Residence FindMemory(uint64_t address, uint64_t length_bytes) {
  const Driver* const driver = FindDriver();
  if (driver == nullptr || length_bytes == 0) return Residence::kHost;
  const shim::ErrnoKeeper keeper;
  const LastErrorKeeper last_error(*driver);
  const bool first = IsDeviceMemory(*driver, address);
  const bool last = IsDeviceMemory(*driver, address + length_bytes - 1);
  if (first != last) return Residence::kBoth;
  if (!first) return Residence::kHost;
  Prepare(*driver, address);
  return Residence::kDevice;
}

// ---- Copies ----

int Copies::Begin(bool to_device, uint64_t address, uint8_t* host, uint64_t length_bytes) {
  if (const DmaBuf* const buffer = FindDmaBuf(address); buffer != nullptr) {
    const int result = Finish();
    if (result != kSuccess) return result;
    return CopyDmaBuf(*buffer, to_device, address, host, length_bytes) ? kSuccess : kInvalidValue;
  }
  if (driver_ == nullptr || !IsDeviceMemory(*driver_, address)) return kInvalidValue;
  return BeginByDriver(to_device, address, host, length_bytes);
}

int Copies::BeginByDriver(bool to_device, uint64_t address, uint8_t* host, uint64_t length_bytes) {
  Owner owner;
  int result = FindOwner(*driver_, address, owner);
  if (result != kSuccess) return result;
  if (stream_ == nullptr || owner != owner_) {
    result = Finish();  // Streams of two contexts have no order.
    if (result == kSuccess) result = Enter(*driver_, owner, &stream_);
    if (result != kSuccess) {
      stream_ = nullptr;
      return result;
    }
    owner_ = owner;
  }
  return to_device ? driver_->copy_to_device(address, host, length_bytes, stream_)
                   : driver_->copy_to_host(host, address, length_bytes, stream_);
}

int Copies::Finish() {
  if (stream_ == nullptr) return kSuccess;
  const int result = driver_->synchronize(stream_);
  stream_ = nullptr;
  void* popped;
  driver_->pop_context(&popped);
  return result;
}

}  // namespace uroce::gpu
