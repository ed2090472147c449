// SPDX-License-Identifier: Apache-2.0
// Draws the results of a simulation: rates and queues over time, and distributions.
"use strict";
(function () {
  const { MARGIN, byId, timeText, area, axes, cell, heads, report } = graphs;
  const results = report.results, series = results.series;
  const COLORS = d3.scale.category10().range();
  const MOST_LINES = 9;
  const x = d3.scale.linear();
  const zoom = d3.behavior.zoom().scaleExtent([1, 1e5]).on("zoom", drawTimes);
  const rateText = (bps) => d3.format(".3s")(bps) + "b/s";
  const bytesText = (bytes) => d3.format(".3s")(bytes) + "B";

  const times = series.goodput_bps.map((_, i) => (i + 1) * series.interval_ns);
  // The lines of a graph over time: a name, a colour and values, one for each interval.
  const rates = [{ name: "all", color: "#222", values: series.goodput_bps }].concat(
    series.flows.slice(0, MOST_LINES).map((flow, i) => (
      { name: flow.name, color: COLORS[i % COLORS.length], values: flow.bps })));
  const queues = results.links.filter((link) => link.queue_bytes).slice(0, MOST_LINES).map(
    (link, i) => ({ name: link.name, color: COLORS[i % COLORS.length], values: link.queue_bytes }));

  function drawTimes() {
    graphs.lines("rate", rates, x, times, rateText);
    graphs.lines("queue", queues, x, times, bytesText);
  }

  // Which part of all flows took at most so long.
  function drawDistribution(id, points, text) {
    const at = area(id);
    if (points.length === 0) return;
    const scale = graphs.logScale(Math.max(1e-3, points[0][0] * 0.9), points[points.length - 1][0] * 1.1 + 1e-3, at.width);
    const part = d3.scale.linear().domain([0, 1.02]).range([at.height - MARGIN.bottom, MARGIN.top]);
    axes(at, scale, part, text, d3.format("%"));
    at.pen.strokeStyle = "#4878cf";
    at.pen.lineWidth = 1.5;
    at.pen.beginPath();
    points.forEach(([value, share]) => at.pen.lineTo(scale(Math.max(1e-3, value)), part(share)));
    at.pen.stroke();
    at.pen.restore();
  }

  function drawAll() {
    drawTimes();
    if (byId("distributions").hidden) return;
    drawDistribution("times", results.time_distribution_us, (us) => timeText(us * 1e3));
    drawDistribution("slowdowns", results.slowdown_distribution, (v) => d3.format("g")(v));
  }

  function show() {
    x.domain([0, Math.max(1, results.simulated_ns)]).range([MARGIN.left, byId("rate").clientWidth - MARGIN.right]);
    zoom.x(x);
    for (const id of ["rate", "queue"]) d3.select("#" + id).call(zoom);
    drawAll();
  }

  function row(table, texts) {
    const at = table.insertRow();
    texts.forEach((text) => cell(at, text));
  }

  function showTables() {
    const us = (value) => timeText(value * 1e3);
    const time = (quantiles, key) => quantiles.count ? us(quantiles[key]) : "-";
    heads(byId("workloads"), ["Workload", "Flows", "Ended", "Failed", "Goodput", "Fairness", "Slowest", "Fastest", "p50", "p99"]);
    for (const one of results.workloads) {
      row(byId("workloads"), [one.name, one.flows, one.finished, one.failed, rateText(one.goodput_bps), one.fairness.toFixed(4),
        rateText(one.slowest_bps), rateText(one.fastest_bps), time(one.time_us, "p50"), time(one.time_us, "p99")]);
    }
    byId("by-size").hidden = results.sizes.length === 0;
    heads(byId("sizes"), ["Up to", "Flows", "p50", "p99", "p99.9", "Slowdown p50", "p99", "p99.9"]);
    for (const one of results.sizes) {
      row(byId("sizes"), [one.up_to_bytes === null ? "larger" : bytesText(one.up_to_bytes), one.time_us.count,
        us(one.time_us.p50), us(one.time_us.p99), us(one.time_us.p999),
        ...["p50", "p99", "p999"].map((key) => one.slowdown[key].toFixed(2))]);
    }
    heads(byId("counters"), ["Counter", "Value"]);
    for (const key of Object.keys(results.totals)) row(byId("counters"), [key.replace(/_/g, " "), results.totals[key]]);
    heads(byId("links"), ["Link", "In use", "Mean queue", "Longest", "Frames", "Marks", "Drops", "Pauses", "Paused"]);
    for (const one of results.links) {
      row(byId("links"), [one.name, (100 * one.use).toFixed(1) + " %", bytesText(one.queue_mean_bytes),
        bytesText(one.queue_peak_bytes), one.frames, one.marks, one.drops, one.pauses, us(one.paused_us)]);
    }
    byId("with-drops").hidden = results.drops.length === 0;
    heads(byId("drops"), ["Link", "Frames", "Buffer full", "Early", "Link down", "Lost on line"]);
    for (const one of results.drops) {
      row(byId("drops"), [one.name, one.frames, one.tail_drops, one.early_drops, one.link_down_drops, one.line_losses]);
    }
  }

  function showHead() {
    const run = report.run, totals = results.totals;
    byId("title").textContent = "uroce sim " + run.scenario + ": " + run.title;
    byId("files").textContent = run.hosts + " NICs, " + run.switches + " switches, " + run.links + " links, " +
      run.flows + " flows, seed " + run.seed + ", " + timeText(results.simulated_ns) + " of virtual time";
    const lines = ["goodput " + rateText(totals.goodput_bps) + ", fairness " + totals.fairness.toFixed(4),
      totals.retransmitted + " packets sent again, " + totals.timeouts + " timeouts, " +
        (totals.tail_drops + totals.early_drops + totals.link_down_drops + totals.line_losses) + " frames lost",
      totals.marks + " marks, " + totals.cnps + " CNPs, " + totals.pauses + " pauses"];
    if (results.deadlocked) lines.unshift("DEADLOCK: paused links wait for each other in a circle");
    for (const line of lines) {
      const item = document.createElement("li");
      item.textContent = line;
      byId("summary").appendChild(item);
    }
  }

  showHead();
  showTables();
  graphs.legend("rate-legend", rates.map((line) => [line.name, line.color]));
  graphs.legend("queue-legend", queues.map((line) => [line.name, line.color]));
  byId("distributions").hidden = results.time_distribution_us.length === 0;
  graphs.hover("rate", () => rates, x, times, rateText);
  graphs.hover("queue", () => queues, x, times, bytesText);
  byId("reset").onclick = show;
  window.addEventListener("resize", drawAll);
  show();
  document.body.setAttribute("data-drawn", "yes");
})();
