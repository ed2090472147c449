# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 frames: read from captures, checked and built. Written apart from the code under test."""
import ipaddress
import struct
import zlib

PORT = 4791
BTH_BYTES = 12


def read_capture(path):
    """Yields the frames of a pcap or pcapng file as bytes."""
    with open(path, "rb") as file:
        data = file.read()
    magic = data[:4]
    if magic == b"\x0a\x0d\x0d\x0a":
        yield from _read_pcapng(data)
    elif magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        yield from _read_pcap(data)
    else:
        raise ValueError(f"{path}: neither pcap nor pcapng of this byte order")


def _read_pcap(data):
    place = 24
    while place + 16 <= len(data):
        length = struct.unpack_from("<I", data, place + 8)[0]
        yield data[place + 16:place + 16 + length]
        place += 16 + length


def pcapng_blocks(data):
    """Yields (type, body) of each block."""
    place = 0
    while place + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if length < 12 or length % 4 or data[place + length - 4:place + length] != \
                data[place + 4:place + 8]:
            raise ValueError(f"bad pcapng block at {place}")
        yield kind, data[place + 8:place + length - 4]
        place += length
    if place != len(data):
        raise ValueError("the pcapng file ends within a block")


def _read_pcapng(data):
    for kind, body in pcapng_blocks(data):
        if kind == 6:
            length = struct.unpack_from("<I", body, 12)[0]
            yield body[20:20 + length]


class Packet:
    """Where the parts of a RoCEv2 frame lie. `None` from `parse` is some other frame."""

    def __init__(self, frame, ip, version, udp, end):
        self.frame = frame
        self.ip = ip
        self.version = version
        self.udp = udp
        self.bth = udp + 8
        self.end = end

    @staticmethod
    def parse(frame):
        if len(frame) < 34:
            return None
        ip, ethertype = 14, struct.unpack_from("!H", frame, 12)[0]
        if ethertype == 0x8100:
            ip, ethertype = 18, struct.unpack_from("!H", frame, 16)[0]
        if ethertype == 0x0800 and frame[ip + 9] == 17:
            packet = Packet(frame, ip, 4, ip + 20, ip + struct.unpack_from("!H", frame, ip + 2)[0])
        elif ethertype == 0x86DD and frame[ip + 6] == 17:
            packet = Packet(frame, ip, 6, ip + 40,
                            ip + 40 + struct.unpack_from("!H", frame, ip + 4)[0])
        else:
            return None
        if packet.end > len(frame) or packet.end < packet.bth + BTH_BYTES + 4:
            return None
        return packet if struct.unpack_from("!H", frame, packet.udp + 2)[0] == PORT else None

    @property
    def opcode(self):
        return self.frame[self.bth]

    @property
    def dest_qpn(self):
        return int.from_bytes(self.frame[self.bth + 5:self.bth + 8], "big")

    @property
    def source(self):
        """The address, as text."""
        place, length = (12, 4) if self.version == 4 else (8, 16)
        return str(ipaddress.ip_address(self.frame[self.ip + place:self.ip + place + length]))

    def roce_bytes(self):
        """IP header to ICRC, without padding of the Ethernet."""
        return self.frame[self.ip:self.end]

    def icrc_is_right(self):
        return self.frame[self.end - 4:self.end] == icrc(self.frame[self.ip:self.end - 4],
                                                         self.version)


def carries(opcode):
    """Names of the extended headers with reserved bits that follow a standard opcode's BTH."""
    service, operation = opcode >> 5, opcode & 0x1F
    names = []
    if service == 3:
        names.append("DETH")
    if service == 5 and (operation < 0x0D or operation > 0x12):
        names.append("XRCETH")
    if service in (0, 5) and operation in (0x0D, 0x0F, 0x10, 0x11, 0x12):
        names.append("AETH")
    return names


# Byte behind the start of the header, and its bits that must be 0.
RESERVED = {"BTH": [(1, 0x0F), (4, 0x3F), (8, 0x7F)], "DETH": [(4, 0xFF)], "XRCETH": [(0, 0xFF)],
            "AETH": [(0, 0x80)]}


def reserved_bits(packet):
    """Which reserved fields of a packet of the standard are not 0, as texts."""
    headers = [("BTH", packet.bth)]
    headers += [(name, packet.bth + BTH_BYTES) for name in carries(packet.opcode)]
    found = [f"opcode {packet.opcode:#04x}: {name} byte {place}"
             for name, start in headers for place, bits in RESERVED[name]
             if packet.frame[start + place] & bits]
    if packet.version == 4 and packet.frame[packet.ip + 6] & 0x80:
        found.append(f"opcode {packet.opcode:#04x}: IPv4 flags")
    if packet.opcode >= 0xC0:
        found.append(f"opcode {packet.opcode:#04x} is a manufacturer's")
    if packet.opcode == CNP and any(packet.frame[packet.bth + BTH_BYTES:packet.end - 4]):
        found.append("CNP: its 16 bytes")
    return found


CNP = 0x81


def capabilities_of(packet):
    """"Get" or "GetResp" of a MAD about capabilities, or None.

    pipeline/wire/selective-repeat.md describes it."""
    mad = packet.frame[packet.bth + BTH_BYTES + 8:packet.end - 4]
    if packet.opcode != 0x64 or len(mad) != 256 or mad[1] != 0x37 or mad[37:40] != b"roc":
        return None
    return {0x01: "Get", 0x81: "GetResp"}.get(mad[3])


def icrc(covered, version):
    """ICRC over IP header to payload, with the fields that routers change set to ones
    (IBTA vol. 1, 7.8.1, and annex A17)."""
    image = bytearray(covered)
    if version == 4:
        udp = 20
        image[1] = image[8] = 0xFF
        image[10:12] = b"\xff\xff"
    else:
        udp = 40
        image[0] |= 0x0F
        image[1:4] = b"\xff\xff\xff"
        image[7] = 0xFF
    image[udp + 6:udp + 8] = b"\xff\xff"
    image[udp + 8 + 4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(image)))


def ipv4_checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def bth(opcode, qpn, psn, ack=False, pad=0):
    return struct.pack("!BBHII", opcode, pad << 4, 0xFFFF, qpn & 0xFFFFFF,
                       (0x80000000 if ack else 0) | (psn & 0xFFFFFF))


def cnp(qpn):
    """BTH and the 16 bytes of a CNP (docs/protocol/congestion.md, section 3)."""
    becn = 0x40000000
    return struct.pack("!BBHII", CNP, 0, 0xFFFF, becn | qpn, 0) + bytes(16)


def reth(address, rkey, length):
    return struct.pack("!QII", address, rkey, length)


def frame_v4(source_mac, dest_mac, source_ip, dest_ip, transport, wrong_icrc=False):
    """A whole frame around BTH, extended headers and payload."""
    udp = struct.pack("!HHHH", 0xC000, PORT, 8 + len(transport) + 4, 0)
    header = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp) + len(transport) + 4,
                                   1, 0x4000, 64, 17, 0, ipaddress.ip_address(source_ip).packed,
                                   ipaddress.ip_address(dest_ip).packed))
    struct.pack_into("!H", header, 10, ipv4_checksum(bytes(header)))
    covered = bytes(header) + udp + transport
    check = icrc(covered, 4)
    if wrong_icrc:
        check = bytes(byte ^ 0x5A for byte in check)
    return mac(dest_mac) + mac(source_mac) + b"\x08\x00" + covered + check


def mac(text):
    return bytes(int(part, 16) for part in text.split(":"))
