// SPDX-License-Identifier: Apache-2.0
// Dumps contexts, and protection domains, as JSON. The name of a context is left out: who knows it
// may import the context.
#include <nlohmann/json.hpp>

#include "nic/dumps/object_dumps.h"
#include "nic/dumps/tables_source.h"
#include "nic/objects/client.h"
#include "nic/objects/program.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

Json OwnerJson(const Client& client, const Context& context) {
  return {{"device", context.device->name()},
          {"pid", client.peer().pid},
          {"session", client.id()},
          {"uid", client.uid()},
          {"program", client.command_name()}};
}

Json ContextJson(const Client& client, const Context& context) {
  Json json = OwnerJson(client, context);
  json["handle"] = context.handle;
  json["users"] = context.users;
  json["imported"] = context.origin.has_value();
  return json;
}

Json DomainJson(const Client& client, uint32_t handle, const ProtectionDomain& pd) {
  Json json = OwnerJson(client, *pd.context);
  json["handle"] = handle;
  json["pd"] = pd.number();
  json["ctx"] = pd.context->handle;
  json["users"] = pd.users;
  json["imported"] = pd.share != nullptr;
  return json;
}

class ContextsSource : public TablesSource {
 public:
  ContextsSource(const DumpContext& context, const Client& asker)
      : TablesSource("ctxs", context, asker) {}

 private:
  uint32_t AddNext(const Client& client, uint32_t, uint32_t handle, std::string& text) override {
    return client.program()->contexts().table().ForSome(
        handle, 1,
        [&](uint32_t, const Context& context) { AddItem(text, ContextJson(client, context)); });
  }
};

class ProtectionDomainsSource : public TablesSource {
 public:
  ProtectionDomainsSource(const DumpContext& context, const Client& asker)
      : TablesSource("pds", context, asker) {}

 private:
  uint32_t AddNext(const Client& client, uint32_t, uint32_t handle, std::string& text) override {
    return client.program()->contexts().pds().ForSome(
        handle, 1, [&](uint32_t its, const ProtectionDomain& pd) {
          AddItem(text, DomainJson(client, its, pd));
        });
  }
};

}  // namespace

std::unique_ptr<DumpSource> MakeProtectionDomainsDump(const DumpContext& context,
                                                      const Client& asker) {
  return std::make_unique<ProtectionDomainsSource>(context, asker);
}

std::unique_ptr<DumpSource> MakeContextsDump(const DumpContext& context, const Client& asker) {
  return std::make_unique<ContextsSource>(context, asker);
}

}  // namespace uroce::nic
