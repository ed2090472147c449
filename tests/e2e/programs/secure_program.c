// SPDX-License-Identifier: Apache-2.0
// Looks for devices. Exit status 77: the system has it run with more rights than its starter's.
#include <infiniband/verbs.h>
#include <sys/auxv.h>

int main(void) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  if (devices != NULL) ibv_free_device_list(devices);
  return getauxval(AT_SECURE) != 0 ? 77 : 0;
}
