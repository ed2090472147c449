-- SPDX-License-Identifier: Apache-2.0
-- Wireshark dissector for the messages of uroced that the standard lacks. They get a tree after that
-- of RoCEv2. `uroce extcap --install` puts this file into the folder of personal Lua plugins;
-- pipeline/wire/selective-repeat.md defines the bytes.

local PORT = 4791
local BTH_BYTES, DETH_BYTES, AETH_BYTES, ICRC_BYTES = 12, 8, 4, 4
local SELECTIVE_ACK = { [0xD1] = "RC", [0xF1] = "XRC" }
local CNP, BECN = 0x81, 0x40
-- Of the BTH's byte behind the P_Key: FECN and BECN are the bits above.
local HOST_DELAY_MASK, HOST_DELAY_UNIT_US = 0x3f, 8
local UD_SEND_ONLY, GSI_QPN = 0x64, 1
local CAPABILITIES_CLASS, OUI = 0x37, 0x726f63
local METHODS = { [0x01] = "Get", [0x81] = "GetResp" }

local uroce = Proto("uroce", "uroce")
local fields = uroce.fields
fields.service = ProtoField.string("uroce.ack.service", "Service")
fields.psn = ProtoField.uint32("uroce.ack.psn", "Expected PSN", base.DEC)
fields.credits = ProtoField.uint8("uroce.ack.credits", "Credit count (code)", base.DEC)
fields.msn = ProtoField.uint24("uroce.ack.msn", "Message sequence number", base.DEC)
fields.packets = ProtoField.uint16("uroce.ack.packets", "Packets in the bitmap", base.DEC)
fields.kept = ProtoField.uint16("uroce.ack.kept", "Packets kept", base.DEC)
fields.missing = ProtoField.string("uroce.ack.missing", "Missing PSNs")
fields.bitmap = ProtoField.bytes("uroce.ack.bitmap", "Bitmap")
fields.method = ProtoField.uint8("uroce.mad.method", "Method", base.HEX, METHODS)
fields.status = ProtoField.uint16("uroce.mad.status", "Status", base.HEX)
fields.transaction = ProtoField.uint64("uroce.mad.transaction", "Transaction ID", base.HEX)
fields.version = ProtoField.uint16("uroce.mad.version", "Version", base.DEC)
fields.features = ProtoField.uint32("uroce.mad.features", "Features", base.HEX)
fields.selective =
  ProtoField.bool("uroce.mad.features.selective_repeat", "Selective repeat", 32, nil, 0x00000001)
fields.instance = ProtoField.uint64("uroce.mad.instance", "Instance", base.HEX)
fields.cnp = ProtoField.uint24("uroce.cnp.qp", "Congestion notification for queue pair", base.HEX)
fields.waited = ProtoField.uint32("uroce.host_delay", "The request may have waited for a CPU (us)",
                                  base.DEC)
local malformed = ProtoExpert.new("uroce.malformed", "Malformed", expert.group.MALFORMED,
                                  expert.severity.ERROR)
local reserved = ProtoExpert.new("uroce.reserved", "Reserved bits are not 0",
                                 expert.group.PROTOCOL, expert.severity.WARN)
uroce.experts = { malformed, reserved }

local udp_destination = Field.new("udp.dstport")
local udp_payload = Field.new("udp.payload")

-- Whether packet `index` of the bitmap is kept. The words have 32 bits, the lowest bit first.
local function is_kept(bitmap, index)
  local word = bitmap(4 * math.floor(index / 32), 4):uint()
  return bit32.extract(word, index % 32) == 1
end

local function range_text(first, last)
  return first == last and tostring(first) or first .. "-" .. last
end

-- The number of kept packets, and a text that names those that are missing.
local function read_bitmap(bitmap, psn, packets)
  local kept, gap, missing = 0, nil, {}
  for index = 0, packets do
    local number = (psn + index) % 0x1000000
    if index == packets or is_kept(bitmap, index) then
      if index < packets then kept = kept + 1 end
      if gap then table.insert(missing, range_text(gap, (number - 1) % 0x1000000)) end
      gap = nil
    else
      gap = gap or number
    end
  end
  return kept, table.concat(missing, ",")
end

local function dissect_ack(payload, service, pinfo, tree)
  local header = BTH_BYTES + AETH_BYTES
  local branch = tree:add(uroce, payload, "uroce, acknowledgement with a bitmap")
  if payload:len() < header + 4 + ICRC_BYTES then
    return branch:add_proto_expert_info(malformed, "too short")
  end
  local packets = payload(header + 2, 2):uint()
  local bytes = 4 * math.ceil(packets / 32)
  branch:add(fields.service, service):set_generated()
  branch:add(fields.psn, payload(9, 3))
  branch:add(fields.credits, payload(BTH_BYTES, 1), bit32.band(payload(BTH_BYTES, 1):uint(), 0x1f))
  branch:add(fields.msn, payload(BTH_BYTES + 1, 3))
  branch:add(fields.packets, payload(header + 2, 2))
  if payload(header, 2):uint() ~= 0 then branch:add_proto_expert_info(reserved) end
  if packets == 0 or payload:len() ~= header + 4 + bytes + ICRC_BYTES then
    return branch:add_proto_expert_info(malformed, "the bitmap does not fit the packet")
  end
  local bitmap = payload(header + 4, bytes)
  local kept, missing = read_bitmap(bitmap, payload(9, 3):uint(), packets)
  branch:add(fields.bitmap, bitmap)
  branch:add(fields.kept, bitmap, kept):set_generated()
  branch:add(fields.missing, bitmap, missing):set_generated()
  pinfo.cols.info = string.format("%s Selective Acknowledge QP=0x%06x PSN=%d kept=%d missing=%s",
                                  service, payload(5, 3):uint(), payload(9, 3):uint(), kept,
                                  missing)
end

local function dissect_mad(mad, pinfo, tree)
  local branch = tree:add(uroce, mad, "uroce, capabilities")
  local method, status = mad(3, 1):uint(), mad(4, 2):uint()
  branch:add(fields.method, mad(3, 1))
  branch:add(fields.status, mad(4, 2))
  branch:add(fields.transaction, mad(8, 8))
  local text = "uroce Capabilities " .. (METHODS[method] or "?")
  if status == 0 then
    branch:add(fields.version, mad(40, 2))
    local features = branch:add(fields.features, mad(44, 4))
    features:add(fields.selective, mad(44, 4))
    branch:add(fields.instance, mad(48, 8))
    text = string.format("%s features=0x%08x", text, mad(44, 4):uint())
  else
    text = string.format("%s status=0x%04x", text, status)
  end
  pinfo.cols.info = text
end

-- How long the request that an answer acknowledges may have waited for a CPU of the host.
-- pipeline/wire/host_delay.h has the code: two bits of fraction and four of exponent.
local function add_host_delay(payload, tree)
  local code = bit32.band(payload(4, 1):uint(), HOST_DELAY_MASK)
  if code == 0 then return end
  local us = (4 + code % 4) * 2 ^ math.floor(code / 4) * HOST_DELAY_UNIT_US
  local branch = tree:add(uroce, payload(4, 1), "uroce, wait of a host")
  branch:add(fields.waited, payload(4, 1), us)
end

local function dissect_cnp(payload, pinfo, tree)
  local branch = tree:add(uroce, payload, "uroce, congestion notification (CNP)")
  branch:add(fields.cnp, payload(5, 3))
  if bit32.band(payload(4, 1):uint(), BECN) == 0 then
    branch:add_proto_expert_info(malformed, "BECN is not set")
  end
  pinfo.cols.info = string.format("Congestion Notification (CNP) QP=0x%06x", payload(5, 3):uint())
end

local function is_capabilities(payload)
  local mad = BTH_BYTES + DETH_BYTES
  return payload:len() == mad + 256 + ICRC_BYTES and payload(0, 1):uint() == UD_SEND_ONLY
    and payload(5, 3):uint() == GSI_QPN and payload(mad + 1, 1):uint() == CAPABILITIES_CLASS
    and payload(mad + 37, 3):uint() == OUI
end

function uroce.dissector(_, pinfo, tree)
  local port, udp = udp_destination(), udp_payload()
  if not port or not udp or port.value ~= PORT then return end
  local payload = udp.range
  if payload:len() < BTH_BYTES + ICRC_BYTES then return end
  if payload(0, 1):uint() == CNP then return dissect_cnp(payload, pinfo, tree) end
  add_host_delay(payload, tree)
  local service = SELECTIVE_ACK[payload(0, 1):uint()]
  if service then return dissect_ack(payload, service, pinfo, tree) end
  if is_capabilities(payload) then
    dissect_mad(payload(BTH_BYTES + DETH_BYTES, 256), pinfo, tree)
  end
end

-- A post-dissector, so that Wireshark still shows its own tree of RoCEv2.
register_postdissector(uroce)

-- Wireshark says "Malformed" of packets whose payload was cut by a snap length, in a text that no
-- dissector may change. This one says what is known of them instead.
local cut = Proto("uroce_cut", "uroce, payload that was not captured")
local bth_opcode = Field.new("infiniband.bth.opcode")
local bth_qp = Field.new("infiniband.bth.destqp")

function cut.dissector(_, pinfo, _)
  if pinfo.caplen >= pinfo.len then return end
  local opcode, qp = bth_opcode(), bth_qp()
  if not opcode or not qp or not tostring(pinfo.cols.info):find("Invalid Packet Length") then
    return
  end
  local name = opcode.display:gsub("^.-%((%w+)%) %- ", "%1 "):gsub(" %(%d+%)$", "")
  pinfo.cols.info:clear_fence()
  pinfo.cols.info = string.format("%s QP=0x%06x, payload cut", name, qp.value)
end

register_postdissector(cut)

-- Wireshark tries RPC over RDMA on what a program sends, and finds messages of less than 16 bytes,
-- and some others, malformed. Heuristics of scripts come first: this one takes what is no RPC over
-- RDMA (RFC 8166, section 4.2: version 1, message types 0 to 4) but would be taken for it.
local RPC_BYTES, RPC_VERSION, RPC_TYPES = 16, 1, 4
local message = Proto("uroce_message", "Message of a program")
local data = Dissector.get("data")

function message.dissector(_, _, _) end

message:register_heuristic("infiniband.payload", function(payload, pinfo, tree)
  if payload:reported_len() >= RPC_BYTES then
    if payload:len() < RPC_BYTES or payload(4, 4):uint() == RPC_VERSION then return false end
    if payload(12, 4):uint() > RPC_TYPES then return false end
  end
  data:call(payload, pinfo, tree)
  return true
end)
