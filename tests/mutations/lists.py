# SPDX-License-Identifier: Apache-2.0
"""All planted bugs, by room, with the test programs that look for them."""
import base_mutations
import cm_mutations
import congestion_mutations
import cpu_mutations
import datapath_mutations
import fabric_mutations
import memory_mutations
import mutations
import nic_mutations
import paths_mutations
import peers_mutations
import rdma_cm_mutations
import superframe_mutations
import udp_mutations
import verbs_shim_mutations

# Room, test programs (scripts, then a simulation), bugs.
LISTS = [
    ("pipeline/transport", ["tests/transport/transport_test", "tests/sim/sim_test"],
     mutations.MUTATIONS),
    ("pipeline/congestion", ["tests/congestion/congestion_test",
                             "tests/transport/transport_test",
                             "tests/networks/networks_test"], congestion_mutations.MUTATIONS),
    ("pipeline/cpu", ["tests/cpu/cpu_test"], cpu_mutations.MUTATIONS),
    ("pipeline/shm/rings", ["tests/shm/rings/rings_test"], cpu_mutations.RINGS_MUTATIONS),
    ("pipeline/datapath", ["tests/datapath/memory_window_test",
                           "tests/datapath/datapath_parts_test",
                           "tests/datapath/datapath_worker_test"], datapath_mutations.MUTATIONS),
    ("pipeline/fabric", ["tests/fabric/fabric_test"], fabric_mutations.MUTATIONS),
    ("drivers/fault", ["tests/drivers/drivers_test"],
     [("corrupt-without-an-icrc", "fault_lane.cc", "  pending.Settle(*frame);\n", ""),
      ("a-direction-limits-the-link", "fault_port.cc",
       "  its.link_down = config.link_down;\n", "")]),
    ("drivers/wire", ["tests/drivers/drivers_test"],
     [("an-end-alone-waits-for-room", "wire_port.cc",
       "  if (sent == count || !out_->is_abandoned()) return sent;\n",
       "  if (sent <= count) return sent;\n"),
      ("an-end-alone-has-no-room", "wire_port.cc",
       "  if (room == 0 && out_->is_abandoned()) room = kEnoughRoom;\n", ""),
      ("an-end-alone-keeps-frames", "wire_port.cc",
       "  if (out_->is_abandoned()) lost_", "  if (!out_->is_abandoned()) lost_"),
      ("an-end-alone-has-a-link", "wire_port.cc",
       "  const bool is_cut = out_->is_abandoned();\n", "  const bool is_cut = false;\n")]),
    ("drivers/switch", ["tests/drivers/drivers_test"], fabric_mutations.PORT_MUTATIONS),
    ("pipeline/datapath/worker", ["tests/networks/networks_test"],
     congestion_mutations.WORKER_MUTATIONS),
    ("pipeline/fabric", ["tests/networks/networks_test"], congestion_mutations.FABRIC_MUTATIONS),
    ("pipeline/wire", ["tests/wire/wire_test"], superframe_mutations.MUTATIONS),
    ("drivers/packet_socket", ["tests/drivers/drivers_test"],
     superframe_mutations.SOCKET_MUTATIONS),
    ("pipeline/wire", ["tests/wire/wire_test"], udp_mutations.WIRE_MUTATIONS),
    ("drivers/udp_socket", ["tests/drivers/drivers_test"], udp_mutations.SOCKET_MUTATIONS),
    ("nic/base", ["tests/nic/base/side_thread_test", "tests/nic/base/stranger_socket_test",
                  "tests/nic/base/user_turns_test", "tests/nic/base/log_budget_test",
                  "tests/datapath/datapath_parts_test"], base_mutations.MUTATIONS),
    ("nic", ["tests/nic/nic_domain_test", "tests/nic/nic_numbers_test",
             "tests/nic/nic_control_test", "tests/nic/nic_control_turns_test"],
     nic_mutations.MUTATIONS),
    ("nic", ["tests/nic/nic_config_test", "tests/nic/nic_device_files_test"],
     nic_mutations.SETTINGS_MUTATIONS),
    ("nic", ["tests/nic/nic_counter_files_test", "tests/nic/nic_listen_address_test",
             "tests/nic/nic_open_metrics_test"], nic_mutations.WATCH_MUTATIONS),
    ("nic", ["tests/nic/nic_device_table_test", "tests/nic/nic_port_addition_test",
             "tests/nic/nic_watching_test"], nic_mutations.PORT_MUTATIONS),
    ("nic", ["tests/nic/nic_address_signs_test", "tests/nic/nic_socket_lock_test"],
     nic_mutations.DAEMONS_MUTATIONS),
    ("nic/cm", ["tests/nic/cm/cm_test", "tests/sim/cm/cm_sim_test"], cm_mutations.MUTATIONS),
    ("nic/paths", ["tests/nic/paths/paths_test"], paths_mutations.MUTATIONS),
    ("nic/peers", ["tests/nic/peers/peers_test"], peers_mutations.MUTATIONS),
    ("nic/rdma_cm", ["tests/nic/rdma_cm/rdma_cm_test"], rdma_cm_mutations.MUTATIONS),
    ("tools", ["tests/tools/tools_client_control_client_test", "tests/tools/tools_doctor_test"],
     [("a-daemon-that-ended-was-never-there", "client/control_client.cc",
       "  if (has_dump_ && HasEnded()) return absl::DataLossError(kHasEnded);\n", ""),
      ("the-end-of-a-daemon-wakes-nobody", "client/control_client.cc",
       "(left.count())) > 0) return;", "(left.count())) < 0) return;"),
      ("addresses-of-all-interfaces-are-one", "doctor/shared_addresses.cc",
       "    signs[{ifindex, parts[3]}]", "    signs[{0, parts[3]}]"),
      ("the-daemon-itself-is-to-be-ended", "doctor/shared_addresses.cc",
       "holder.pid != 0 && holder.pid != daemon", "holder.pid == daemon")]),
    ("verbs-shim", ["tests/fuzz/shim_random_test", "tests/verbs-shim/shim_test"],
     verbs_shim_mutations.MUTATIONS),
    ("verbs-shim/memory", ["tests/verbs-shim/memory/memory_write_window_test",
                           "tests/verbs-shim/memory/memory_writers_test",
                           "tests/verbs-shim/memory/memory_swap_test"],
     memory_mutations.MUTATIONS),
]
