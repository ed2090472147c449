// SPDX-License-Identifier: Apache-2.0
// Draws the report: points on canvases, with the scales, axes and zoom of d3.
"use strict";
(function () {
  const { MARGIN, byId, timeText, area, axes, cell, heads, report } = graphs;
  // Rare events are rings, the last ones to be drawn: what lies in them stays in sight.
  const RINGS = new Set(["missing", "nak", "rnr_nak", "cnp"]);
  const KINDS = [
    ["sent", "sent", "#4878cf", 2], ["acknowledged", "acknowledged", "#2ca02c", 2],
    ["response", "READ response, atomic answer", "#8c6bb1", 2], ["resent", "sent again", "#ff7f0e", 4],
    ["missing", "missing here", "#000000", 4], ["nak", "NAK", "#d62728", 5],
    ["rnr_nak", "RNR NAK", "#e377c2", 5], ["cnp", "CNP", "#17becf", 5]];
  let stream = null;
  let x = d3.scale.linear();
  let y = d3.scale.linear();
  let shown = [];  // The points on the screen, for the hover.
  const zoom = d3.behavior.zoom().scaleExtent([1, 1e7]).on("zoom", drawAll);

  // Points that would cover each other are drawn once: one for each pixel and kind.
  // Rings of one kind that would overlap are one; each event keeps its dot.
  function drawRing(pen, px, py, size, seen) {
    const place = "ring " + Math.floor(px / size) + " " + Math.floor(py / size);
    pen.fillRect(px, py, 1, 1);
    if (seen.has(place)) return;
    seen.add(place);
    const half = Math.ceil(size / 2), side = 2 * half + 1;
    pen.fillRect(px - half, py - half, side, 1);
    pen.fillRect(px - half, py + half, side, 1);
    pen.fillRect(px - half, py - half, 1, side);
    pen.fillRect(px + half, py - half, 1, side);
  }

  function drawSequence() {
    const at = area("sequence");
    y.range([at.height - MARGIN.bottom, MARGIN.top]);
    const [from, to] = x.domain();
    let low = Infinity, high = -Infinity;
    const parts = KINDS.map(([kind]) => {
      const points = (stream.plot && stream.plot[kind] || { points: [] }).points;
      const begin = d3.bisector((p) => p[0]).left(points, from);
      const end = d3.bisector((p) => p[0]).right(points, to);
      const part = points.slice(begin, end);
      if (kind !== "cnp") for (const p of part) { low = Math.min(low, p[1]); high = Math.max(high, p[1]); }
      return part;
    });
    if (!(low <= high)) { low = 0; high = 1; }
    const room = Math.max(1, (high - low) * 0.05);
    y.domain([low - room, high + room]);
    axes(at, x, y, timeText, (psn) => Math.round(psn));
    shown = [];
    const few = d3.sum(parts, (part) => part.length) < 2000 ? 3 : 0;
    KINDS.forEach(([kind, name, color, least], k) => {
      const size = least + few;
      const seen = new Set();
      at.pen.fillStyle = color;
      for (const p of parts[k]) {
        const px = Math.round(x(p[0])), py = Math.round(y(Math.min(p[1], high + room)));
        if (seen.has(px * 4096 + py)) continue;
        seen.add(px * 4096 + py);
        if (RINGS.has(kind)) drawRing(at.pen, px, py, size, seen);
        else at.pen.fillRect(px - size / 2, py - size / 2, size, size);
        shown.push([px, py, p, name]);
      }
    });
    at.pen.restore();
  }

  function drawBars(id, values, color, yText) {
    const at = area(id);
    const line = stream.timeline;
    const most = d3.max(values) || 1;
    const scale = d3.scale.linear().domain([0, most * 1.05])
      .range([at.height - MARGIN.bottom, MARGIN.top]);
    const time = d3.scale.linear().domain(x.domain()).range([MARGIN.left, at.width - MARGIN.right]);
    axes(at, time, scale, timeText, yText);
    at.pen.fillStyle = color;
    values.forEach((value, i) => {
      const left = time(line.start_ns + i * line.interval_ns);
      const right = time(line.start_ns + (i + 1) * line.interval_ns);
      at.pen.fillRect(left, scale(value), Math.max(1, right - left - 0.5),
                      at.height - MARGIN.bottom - scale(value));
    });
    at.pen.restore();
  }

  function drawLatency() {
    const at = area("latency");
    const bars = [];
    for (const messages of stream.messages) {
      messages.latency.histogram.forEach(([upper, count]) => bars.push([Math.max(1, upper), count]));
    }
    bars.sort((a, b) => a[0] - b[0]);
    if (bars.length === 0) return;
    const scale = graphs.logScale(bars[0][0] * 0.8, bars[bars.length - 1][0] * 1.2, at.width);
    const count = d3.scale.linear().domain([0, d3.max(bars, (b) => b[1]) * 1.05])
      .range([at.height - MARGIN.bottom, MARGIN.top]);
    axes(at, scale, count, timeText,
      (v) => Number.isInteger(v) ? d3.format("s")(v) : "");
    at.pen.fillStyle = "#4878cf";
    for (const [upper, value] of bars) {
      at.pen.fillRect(scale(upper) - 3, count(value), 5, at.height - MARGIN.bottom - count(value));
    }
    at.pen.restore();
  }

  function drawAll() {
    if (!stream) return;
    drawSequence();
    const line = stream.timeline, seconds = line.interval_ns / 1e9;
    const rates = line.request_bytes.map((bytes, i) =>
      (bytes + line.response_bytes[i] + line.resent_bytes[i]) * 8 / seconds);
    drawBars("rate", rates, "#4878cf", (v) => d3.format(".3s")(v) + "b/s");
    drawBars("flight", line.in_flight, "#2ca02c", d3.format("d"));
    drawLatency();
  }

  function showMessages() {
    const table = byId("messages");
    heads(table, ["Operation", "Messages", "Bytes", "Median", "99 %", "Most"]);
    for (const one of stream.messages) {
      const row = table.insertRow();
      const times = ["median_ns", "p99_ns", "most_ns"];
      [one.operation, one.messages, one.bytes].forEach((text) => cell(row, text));
      times.forEach((key) => cell(row, one.latency.count ? timeText(one.latency[key]) : "-"));
    }
  }

  function show(number, end, from, to) {
    const connection = report.connections.find((one) => one.number === number);
    if (!connection || connection.requesters.length === 0) return;
    stream = connection.requesters.find((one) => one.end === end) || connection.requesters[0];
    byId("connection").value = number;
    const ends = byId("requester");
    ends.textContent = "";
    for (const one of connection.requesters) {
      ends.appendChild(new Option(connection.ends[one.end].address, one.end));
    }
    ends.value = stream.end;
    const width = byId("sequence").clientWidth;
    x = d3.scale.linear().range([MARGIN.left, width - MARGIN.right])
      .domain([from === undefined ? connection.first_ns : from,
               to === undefined ? Math.max(connection.last_ns, connection.first_ns + 1000) : to]);
    zoom.x(x);
    d3.select("#sequence").call(zoom);
    showMessages();
    drawAll();
  }

  // The layout of a table of thousands of rows takes seconds: rows come as they are scrolled to.
  const depths = new Map();
  let rows = 0;
  function showMoreFindings() {
    const table = byId("findings");
    for (const one of report.findings.slice(rows, rows += 200)) {
      const row = table.insertRow();
      const depth = one.cause === null || !depths.has(one.cause) ? 0 : depths.get(one.cause) + 1;
      depths.set(one.id, depth);
      cell(row, timeText(one.time_ns));
      cell(row, one.severity, one.severity);
      cell(row, (depth ? "\u21b3 " : "") + one.title);
      cell(row, one.connection === null ? "" : one.connection);
      cell(row, one.frames.join(", "));
      cell(row, one.text);
      cell(row, one.rule);
      if (one.connection === null) continue;
      row.className = "link";
      row.onclick = () => {
        const room = Math.max(20000, one.duration_ns * 2);
        show(one.connection, one.requester, one.time_ns - room, one.time_ns + one.duration_ns + room);
        byId("sequence").scrollIntoView({ block: "center" });
      };
    }
  }

  function showFindings() {
    const table = byId("findings"), box = table.parentElement;
    heads(table, ["Time", "Severity", "Finding", "Connection", "Frames", "What happened", "Rule"]);
    showMoreFindings();
    box.onscroll = () => {
      if (box.scrollTop + 2 * box.clientHeight > box.scrollHeight) showMoreFindings();
    };
  }

  function hover(event) {
    const box = byId("sequence").getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    let best = null, least = 100;
    for (const point of shown) {
      const distance = (point[0] - px) ** 2 + (point[1] - py) ** 2;
      if (distance < least) { least = distance; best = point; }
    }
    const label = byId("hover");
    label.hidden = best === null;
    if (best === null) return;
    const psn = (stream.first_psn + best[2][1]) % 0x1000000;
    label.textContent = "frame " + best[2][2] + ": " + best[3] + ", psn " + psn + ", " + timeText(best[2][0]);
    label.style.left = Math.min(px + 12, box.width - 260) + "px";
    label.style.top = Math.max(0, py - 24) + "px";
  }

  byId("files").textContent = report.files.join(", ");
  for (const line of report.summary) {
    const item = document.createElement("li");
    item.textContent = line;
    byId("summary").appendChild(item);
  }
  graphs.legend("legend", KINDS.map(([, name, color]) => [name, color]));
  const drawn = report.connections.filter((one) => one.requesters.length !== 0);
  const endText = (end) => end.address + (end.qpn === null ? "" : " qp 0x" + end.qpn.toString(16));
  for (const one of drawn.slice(0, 5000)) {
    byId("connection").appendChild(new Option(
      one.number + ": " + one.ends.map(endText).join(" - ") + ", " + one.packets + " packets", one.number));
  }
  byId("connection").onchange = (event) => show(Number(event.target.value));
  byId("requester").onchange = (event) => show(Number(byId("connection").value), Number(event.target.value));
  byId("reset").onclick = () => show(Number(byId("connection").value), stream.end);
  byId("sequence").addEventListener("mousemove", hover);
  byId("sequence").addEventListener("mouseleave", () => { byId("hover").hidden = true; });
  window.addEventListener("resize", drawAll);
  showFindings();
  const most = drawn.reduce((a, b) => (b.packets > a.packets ? b : a), drawn[0] || null);
  if (most) show(most.number);
  document.body.setAttribute("data-drawn", "yes");
})();
