// SPDX-License-Identifier: Apache-2.0
// The driver library of a GPU, as far as the program has loaded one: where an address lies, and
// copies between memory of a GPU and of the program. The shim loads no driver itself.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace uroce::gpu {

/// Results of functions of the driver (CUresult, hipError_t) that matter here.
inline constexpr int kSuccess = 0;
inline constexpr int kDeinitialized = 4;  ///< The process is ending.

/// The functions of a driver that the shim uses. CUDA's driver and HIP's runtime have the same
/// functions under their own names. Handles are theirs; addresses are those of the program.
struct Driver {
  int (*pointer_attribute)(void* value, int attribute, uint64_t address);
  int (*device)(int* device, int ordinal);
  int (*retain_primary)(void** context, int device);
  int (*push_context)(void* context);
  int (*pop_context)(void** context);
  int (*create_stream)(void** stream, unsigned flags);
  int (*synchronize)(void* stream);
  int (*copy_to_device)(uint64_t to, const void* from, size_t length_bytes, void* stream);
  int (*copy_to_host)(void* to, uint64_t from, size_t length_bytes, void* stream);
  int (*register_host)(void* memory, size_t length_bytes, unsigned flags);
  int (*unregister_host)(void* memory);
  // Of HIP alone: the last error of a call of this thread, which programs ask for behind calls that
  // return none. The second one forgets it.
  int (*last_error)();
  int (*take_last_error)();
};

/// The driver that the program has loaded by now, with all these functions; or null. Takes a lock
/// of the dynamic loader.
const Driver* FindDriver();
/// What FindDriver has found, without a look.
const Driver* FoundDriver();

enum class Residence : uint8_t {
  kHost,    ///< The CPU can access it: also host memory that a GPU uses, and managed memory.
  kDevice,  ///< Only a GPU can.
  kBoth,    ///< One end of the range is memory of a GPU, and the other is not.
};

/// Tells the driver that the program will copy between its devices and `memory`: pinned memory
/// takes half the time. `address` is memory of a device, whose context the driver gets the memory
/// for. Does nothing without a driver.
void PinHost(uint64_t address, void* memory, uint64_t length_bytes);

/// Where [address, address + length_bytes) lies. Without a driver, and with one that is not
/// initialised, as in a fork child: kHost. Makes what copies there need (see Copies). The caller
/// holds no lock that a thread with a lock of the driver may wait for.
Residence FindMemory(uint64_t address, uint64_t length_bytes);

/// Who has allocated memory of a device, as far as the driver tells.
struct Owner {
  void* context = nullptr;
  int ordinal = -1;  ///< Of the device.

  bool operator==(const Owner&) const = default;
};

/// Copies of one thread, one after the other. Each uses a stream of the context that has allocated
/// the memory, or of the device's primary context where the driver names none. The streams wait for
/// no other stream of the program, and the program's wait for none of these.
///
/// A context may end or be reset at any time, and its stream with it, without a word. So each
/// stream has a witness: a page of host memory, registered with the same context. If the driver no
/// longer knows the page under its number, the stream is forgotten.
class Copies {
 public:
  /// `driver` may be null: then there are DMA-bufs alone (dma_buf.h).
  explicit Copies(const Driver* driver) : driver_(driver) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Begins a copy between `host` and `address` of a device. It may be under way until Finish; no
  /// byte of a later copy becomes visible before all bytes of this one. Returns the driver's
  /// result.
  int Begin(bool to_device, uint64_t address, uint8_t* host, uint64_t length_bytes);
  /// Waits until all copies are done. Returns the driver's result.
  int Finish();

 private:
  /// Begins a copy by the driver.
  int BeginByDriver(bool to_device, uint64_t address, uint8_t* host, uint64_t length_bytes);

  const Driver* const driver_;
  // Of the copies under way; no stream: there are none. A context of the owner is current
  // meanwhile.
  Owner owner_;
  void* stream_ = nullptr;
};

}  // namespace uroce::gpu
