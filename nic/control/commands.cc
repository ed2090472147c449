// SPDX-License-Identifier: Apache-2.0
#include "nic/control/commands.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "nic/control/control_connection.h"
#include "nic/control/network_changes.h"
#include "nic/control/observations.h"
#include "nic/control/served_program.h"
#include "nic/objects/program.h"

namespace uroce::nic {
namespace {

/// The part of a connection with the method of a command; by default a part of its program.
template <typename Part>
Part& PartOf(ControlConnection& connection) {
  return connection.program().part<Part>();
}

template <>
ControlConnection& PartOf(ControlConnection& connection) {
  return connection;
}
template <>
Observations& PartOf(ControlConnection& connection) {
  return connection.observations();
}
template <>
NetworkChanges& PartOf(ControlConnection& connection) {
  return connection.network_changes();
}
template <>
ServedProgram& PartOf(ControlConnection& connection) {
  return connection.served_program();
}
template <>
Registrations& PartOf(ControlConnection& connection) {
  return connection.served_program().registrations();
}
template <>
Program& PartOf(ControlConnection& connection) {
  return connection.program();
}
template <auto kMethod>
constexpr Command Row(uint32_t number) {
  using Method = MethodOf<kMethod>;
  using Part = typename Method::Part;
  constexpr bool kIsOfAnyClient = std::is_same_v<Part, ControlConnection> ||
                                  std::is_same_v<Part, Observations> ||
                                  std::is_same_v<Part, NetworkChanges>;
  return {number, Method::kBodyBytes, Method::kHasList, !kIsOfAnyClient,
          [](ControlConnection& connection, Body body, Reply& reply) {
            return Method::Run(PartOf<Part>(connection), body, reply);
          }};
}

constexpr Command kCommands[] = {
    Row<&ControlConnection::Hello>(UROCE_HELLO),
    Row<&ServedProgram::ListDevices>(UROCE_LIST_DEVICES),
    Row<&Contexts::Open>(UROCE_OPEN_CONTEXT),
    Row<&ServedProgram::CloseContext>(UROCE_CLOSE_CONTEXT),
    Row<&Program::ImportContext>(UROCE_IMPORT_CONTEXT),
    Row<&Contexts::QueryPort>(UROCE_QUERY_PORT),
    Row<&Contexts::QueryGids>(UROCE_QUERY_GIDS),
    Row<&Contexts::AllocPd>(UROCE_ALLOC_PD),
    Row<&Contexts::DeallocPd>(UROCE_DEALLOC_PD),
    Row<&Program::ImportPd>(UROCE_IMPORT_PD),
    Row<&Segments::Create>(UROCE_CREATE_SEGMENT),
    Row<&Segments::Destroy>(UROCE_DESTROY_SEGMENT),
    Row<&Segments::Trim>(UROCE_TRIM_SEGMENT),
    Row<&Registrations::AddSegments>(UROCE_ADD_MR_SEGMENTS),
    Row<&Registrations::Register>(UROCE_REG_MR),
    Row<&Registrations::Deregister>(UROCE_DEREG_MR),
    Row<&Program::ImportMr>(UROCE_IMPORT_MR),
    Row<&Windows::Alloc>(UROCE_ALLOC_MW),
    Row<&Windows::Dealloc>(UROCE_DEALLOC_MW),
    Row<&CompletionQueues::CreateChannel>(UROCE_CREATE_CHANNEL),
    Row<&CompletionQueues::DestroyChannel>(UROCE_DESTROY_CHANNEL),
    Row<&CompletionQueues::Create>(UROCE_CREATE_CQ),
    Row<&ServedProgram::ResizeCq>(UROCE_RESIZE_CQ),
    Row<&CompletionQueues::Modify>(UROCE_MODIFY_CQ),
    Row<&CompletionQueues::Destroy>(UROCE_DESTROY_CQ),
    Row<&QueuePairs::Create>(UROCE_CREATE_QP),
    Row<&ServedProgram::ModifyQp>(UROCE_MODIFY_QP),
    Row<&QueuePairs::Query>(UROCE_QUERY_QP),
    Row<&ServedProgram::DestroyQp>(UROCE_DESTROY_QP),
    Row<&QueuePairs::Attach>(UROCE_ATTACH_MCAST),
    Row<&QueuePairs::Detach>(UROCE_DETACH_MCAST),
    Row<&ServedProgram::CreateAh>(UROCE_CREATE_AH),
    Row<&ServedProgram::DestroyAh>(UROCE_DESTROY_AH),
    Row<&SharedReceiveQueues::Create>(UROCE_CREATE_SRQ),
    Row<&SharedReceiveQueues::Modify>(UROCE_MODIFY_SRQ),
    Row<&SharedReceiveQueues::Query>(UROCE_QUERY_SRQ),
    Row<&SharedReceiveQueues::Destroy>(UROCE_DESTROY_SRQ),
    Row<&Xrc::OpenDomain>(UROCE_OPEN_XRCD),
    Row<&Xrc::CloseDomain>(UROCE_CLOSE_XRCD),
    Row<&Xrc::CreateTarget>(UROCE_CREATE_TARGET),
    Row<&Xrc::OpenTarget>(UROCE_OPEN_TARGET),
    Row<&ServedProgram::OpenCm>(UROCE_OPEN_CM),
    Row<&ServedProgram::WriteCm>(UROCE_WRITE_CM),
    Row<&Observations::Dump>(UROCE_DUMP),
    Row<&Observations::StartCapture>(UROCE_CAPTURE),
    Row<&Observations::History>(UROCE_FLIGHT),
    Row<&NetworkChanges::Change>(UROCE_CHANGE),
};

}  // namespace

const Command* FindCommand(uint32_t number) {
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [number](const Command& c) { return c.number == number; });
  return found == std::end(kCommands) ? nullptr : found;
}

}  // namespace uroce::nic
